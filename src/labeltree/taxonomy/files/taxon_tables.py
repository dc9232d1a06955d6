"""Tables of taxa: checklists with parents and synonyms, and rows with a column for each rank."""

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from labeltree.counted_nouns import say_count
from labeltree.errors import TaxonomyError
from labeltree.taxonomy.column_names import names_taxon_sample
from labeltree.taxonomy.files.entries import (
    NO_PARENT,
    ROOT,
    Entries,
    below_one_root,
    entries_from_edges,
    entries_from_paths,
)
from labeltree.taxonomy.files.opened_file import FileTable, OpenedFile
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.ranks import RANKS, SURE, Ranks, is_epithet, rank_of

__all__ = ["entries_from_checklist", "entries_from_ranks", "has_ranks", "is_checklist"]

_PREFIX = re.compile(r"(?:dwc|col|coldp|dc|dcterms|gbif|clb)[:_](?=\w)")
_ROLES = {
    "id": (
        *("taxonid", "id", "nameusageid", "tsn", "aphiaid", "taxonkey", "speciescode", "gbifid", "usagekey"),
        *("taxonconceptid", "key"),
    ),
    "parent": (
        *("parentnameusageid", "parentid", "parenttsn", "parenttaxonid", "parentkey", "parentaphiaid"),
        *("highertaxonid", "highernameusageid", "parenttaxonkey", "parentnameusage"),
    ),
    "accepted": (
        *("acceptednameusageid", "acceptedid", "acceptedtsn", "tsnaccepted", "aphiaidaccepted"),
        *("validaphiaid", "acceptedtaxonkey", "acceptedkey", "acceptedtaxonid", "acceptednameusage"),
        *("scientificnameaccepted", "acceptedname", "validname"),
    ),
    "name": ("canonicalname", "scientificname", "completename", "sciname", "taxonname", "name"),
    "full": ("scientificname", "completename"),
    "status": ("taxonomicstatus", "status", "nameusage", "usage"),
    "vernacular": (
        *("vernacularname", "commonname", "englishname", "primarycomname", "preferredcommonname"),
        *("vernacular", "englishcommonname"),
    ),
}
_OF_SCIENCE = re.compile(r"\s*\((?:scientific|latin)(?: name)?\)")
_SCIENTIFIC = ("canonicalname", "scientificname", "completename", "sciname", "taxonname")
_NOT_ACCEPTED = ("synonym", "misapplied", "invalid", "unaccepted", "not accepted", "alternative")


def _term(column: str) -> str:
    """The letters of a column's name, without the prefix of its vocabulary."""
    return re.sub(r"[^a-z0-9]", "", _PREFIX.sub("", column.strip().casefold(), count=1))


def _roles(columns: Sequence[str]) -> dict[str, int]:
    """The place of the column of each role that a table has."""
    places: dict[str, int] = {}
    for place, column in enumerate(columns):
        places.setdefault(_term(column), place)
    roles = {
        role: next(places[name] for name in names if name in places)
        for role, names in _ROLES.items()
        if any(name in places for name in names)
    }
    if "name" in roles and roles.get("full") == roles["name"]:
        del roles["full"]
    return roles


def is_checklist(columns: Sequence[str]) -> bool:
    """Whether a table has taxa with ids that refer to a parent or an accepted name, and no samples."""
    roles = _roles(columns)
    terms = {_term(column) for column in columns}
    scientific = bool(terms & {*_SCIENTIFIC})
    return (
        {"id", "name"} <= roles.keys()
        and bool({"parent", "accepted"} & roles.keys())
        and (scientific or "accepted" in roles)
        and not names_taxon_sample(terms)
    )


def has_ranks(file: OpenedFile) -> bool:
    """Whether a table has columns of several ranks, or of one beside scientific names."""
    ranks = _rank_columns(file.table)
    terms = {_term(column) for column in file.table.header}
    scientific = bool(terms & {*_SCIENTIFIC}) or any(map(is_epithet, file.table.header))
    sure = scientific or bool(SURE & ranks.keys())
    columns, places = [file.table.header[place] for place in ranks.values()], list(ranks.values())
    others = len(file.table.header) > len(ranks) or any(
        _epithet_column(file.table, columns, place, at) != columns[at] for at, place in enumerate(places)
    )
    return sure and len(ranks) + scientific > 1 and others


def _rank_columns(table: FileTable) -> dict[str, int]:
    """The places of columns that are ranks and hold no numbers (as eBird's `TAXON_ORDER`), coarse to fine.

    Beside `cls`, a column `class` that is finer names the species.
    """
    places: dict[str, int] = {}
    columns = table.header
    names = [_OF_SCIENCE.sub("", _PREFIX.sub("", column.strip().casefold(), count=1)) for column in columns]
    for place in sorted(range(len(names)), key=lambda place: names[place] not in RANKS):
        rank = rank_of(names[place])
        if rank is not None and not all(row[place].isdecimal() for row in table.rows):
            places.setdefault(rank, place)
    if "class" in places and "cls" in names:
        cells = [(row[names.index("cls")], row[places["class"]]) for row in table.rows]
        classes, labels = ({*column} - {""} for column in zip(*cells, strict=True))
        if len(classes) < len(labels) == len({cell for cell in cells if cell[1]}):  # finer, and nested
            places |= {"class": names.index("cls"), "species": places["class"]}
    return {rank: places[rank] for rank in RANKS if rank in places}


def entries_from_checklist(
    file: OpenedFile, vernacular: Mapping[str, Sequence[str]] | None = None
) -> Entries:
    """Read taxa with their parents; ids, synonyms and vernacular names are aliases of accepted taxa.

    Where no taxon has a parent, ranks are read instead.

    Args:
        file: The file.
        vernacular: Further names by the ids of taxa.

    Raises:
        TaxonomyError: If no columns hold ids and names, two taxa have one id, or parents do not form a tree.
    """
    table = file.table
    roles = _roles(table.header)
    if not {"id", "name"} <= roles.keys():
        missing = "ids" if "id" not in roles else "names"
        raise TaxonomyError(f"no column holds the {missing} of taxa: there are {', '.join(table.header)}")
    ids = [row[roles["id"]] for row in table.rows]
    if "parent" not in roles or not any(row[roles["parent"]] not in NO_PARENT for row in table.rows):
        if _rank_columns(table):
            return entries_from_ranks(file)
        raise TaxonomyError(f"no taxon has a parent, and no column is a rank: {', '.join(table.header)}")
    row_of: dict[str, int] = {}
    for row, id in enumerate(ids):
        if (first := row_of.setdefault(id, row)) != row:
            raise TaxonomyError(
                f"{table.where(row)} has the id {id!r} of {table.where(first)} again; ids are unique"
            )
    synonym_of = _synonyms(table, roles, row_of)
    rows_of = _rows_of_accepted(synonym_of, row_of)
    left_out = sum(id in synonym_of for id in ids) - sum(len(rows) for rows in rows_of.values())
    taxa = [id for id in ids if id not in synonym_of]
    accepted = set(taxa)
    above: dict[str, str | None] = {}
    lost: dict[str, None] = {}
    for id in taxa:
        parent = _accepted(table.rows[row_of[id]][roles["parent"]], synonym_of)
        if parent is None or parent == id or (parent.casefold() in NO_PARENT and parent not in accepted):
            above[id] = None
            continue
        if parent not in accepted:
            lost[parent] = None
        above[id] = parent
    names = _names_of_taxa(table, roles, row_of, above)
    aliases: dict[Hashable, list[str]] = {
        id: _further_names(table, roles, [row_of[id], *rows_of.get(id, [])], names[id]) for id in taxa
    }
    for id, texts in (vernacular or {}).items():
        if id in accepted:
            aliases[id] += [text for text in texts if text != names[id]]
    edges = below_one_root([*above.items()], file.root_name)
    known: dict[Hashable, object] = {parent: parent for parent in lost}
    known[ROOT] = file.root_name
    known.update(names)
    synonyms = sum(len(rows) for rows in rows_of.values())
    file.note(
        f"{len(taxa)} taxa by {table.header[roles['id']]} and {table.header[roles['parent']]}; ids"
        + (f" and {synonyms} synonyms" if synonyms else "")
        + " are further names"
        + (f"; {left_out} synonyms of taxa that are not in the file are left out" if left_out else "")
        + (f"; {some(lost)} have no row and were put below the root" if lost and edges[-1][1] == ROOT else "")
    )
    return entries_from_edges(
        edges,
        names=known,
        where=lambda row: table.where(row_of[taxa[row]]) if row < len(taxa) else "a parent without a row",
        several_parents=file.several_parents,
        aliases=aliases,
    )


def _synonyms(table: FileTable, roles: Mapping[str, int], row_of: Mapping[str, int]) -> dict[str, str | None]:
    """The id that each synonym refers to; None if it refers to none.

    Of taxa that refer to each other in a circle, those with a parent are accepted unless their status says
    that they are not.
    """
    by_name: dict[str, str] = {}
    for id, row in row_of.items():
        by_name.setdefault(table.rows[row][roles["name"]], id)
    synonym_of: dict[str, str | None] = {}
    maybe_accepted = []
    for id, row in row_of.items():
        cells = table.rows[row]
        accepted = cells[roles["accepted"]] if "accepted" in roles else ""
        accepted = accepted if accepted in row_of else by_name.get(accepted, accepted)
        status = cells[roles["status"]].casefold() if "status" in roles else ""
        is_not = any(word in status for word in _NOT_ACCEPTED)
        if accepted and accepted != id:
            synonym_of[id] = accepted
            if not is_not and cells[roles["parent"]] not in NO_PARENT:
                maybe_accepted.append(id)
        elif is_not:
            synonym_of[id] = cells[roles["parent"]] or None
    for id in maybe_accepted:
        if _accepted(id, synonym_of) is None:
            del synonym_of[id]
    return synonym_of


def _rows_of_accepted(
    synonym_of: Mapping[str, str | None], row_of: Mapping[str, int]
) -> dict[str, list[int]]:
    """The rows of the synonyms of each accepted taxon of the file."""
    rows: dict[str, list[int]] = {}
    for id in synonym_of:
        target = _accepted(id, synonym_of)
        if target is not None and target in row_of:
            rows.setdefault(target, []).append(row_of[id])
    return rows


def _accepted(id: str, synonym_of: Mapping[str, str | None]) -> str | None:
    """The id at the end of a chain of synonyms; None if it ends nowhere, or in a circle."""
    seen: set[str] = set()
    target: str | None = id
    while target is not None and target in synonym_of:
        if target in seen:
            return None
        seen.add(target)
        target = synonym_of[target]
    return target


def _names_of_taxa(
    table: FileTable, roles: Mapping[str, int], row_of: Mapping[str, int], above: Mapping[str, str | None]
) -> dict[str, str]:
    """The name of each taxon; homonyms below one parent by their full names, or with their ids."""
    names = {id: table.rows[row_of[id]][roles["name"]] for id in above}
    if "full" in roles:
        names = {id: name or table.rows[row_of[id]][roles["full"]] for id, name in names.items()}
    for further in ("full", "id"):
        count = Counter((above[id], name) for id, name in names.items())
        for id, name in names.items():
            if count[above[id], name] > 1 and further in roles:
                cell = table.rows[row_of[id]][roles[further]]
                names[id] = f"{name} ({cell})" if further == "id" else cell or name
    return names


def _further_names(table: FileTable, roles: Mapping[str, int], rows: Sequence[int], name: str) -> list[str]:
    """The ids, names and vernacular names of a taxon's row and those of its synonyms."""
    places = [roles[role] for role in ("id", "name", "full", "vernacular") if role in roles]
    texts = dict.fromkeys(table.rows[row][place] for row in rows for place in places)
    return [text for text in texts if text and text != name]


def entries_from_ranks(file: OpenedFile) -> Entries:
    """Read a row for each taxon with a column for each rank; ids and vernacular names are aliases.

    A rank that a row does not have is left out of its path. The name of a subspecies is below its species
    where this has a row.
    """
    table = file.table
    roles = _roles(table.header)
    ranks = _rank_columns(table)
    columns = [table.header[place] for place in ranks.values()]
    places = list(ranks.values())
    name = roles["name"] if "name" in roles and _term(table.header[roles["name"]]) in _SCIENTIFIC else None
    if name is not None and "species" not in ranks and name not in places:
        columns, places = [*columns, "scientificName"], [*places, name]
    reading = Ranks(
        [_epithet_column(table, columns, place, at) for at, place in enumerate(places)], table.header
    )
    depth = None if reading.depth_column is None else table.header.index(reading.depth_column)
    labels = [
        [
            part
            for part in reading.label(
                [row[place] or None for place in places], None if depth is None else row[depth] or None
            )
            if part is not None
        ]
        for row in table.rows
    ]
    synonyms = _rows_of_synonyms(table, roles)
    others = {row for rows in synonyms.values() for row in rows}
    binomials = {label[-1] for label in labels if label and len(label[-1].split()) == 2}
    paths, aliases, rows = [], [], []
    for row, label in enumerate(labels):
        if not label or row in others:
            continue
        words = label[-1].split()
        if len(words) > 2 and (species := " ".join(words[:2])) in binomials and species not in label:
            label = [*label[:-1], species, label[-1]]
        paths.append(label)
        rows.append(row)
        finest = name is None or not table.rows[row][name] or label[-1] in table.rows[row][name]
        of_taxon = [row, *synonyms.get(row, [])]
        aliases.append(_further_names(table, roles, of_taxon, label[-1]) if finest else [])
    used = {*places, *(roles[role] for role in ("id", "name", "full", "vernacular") if role in roles)}
    left = [column for place, column in enumerate(table.header) if place not in used and place != depth]
    file.note(
        f"the columns {' > '.join(columns)} are the levels"
        + ("; ids and other names are further names" if any(aliases) else "")
        + (f", also of synonyms ({len(others)})" if others else "")
        + (f"; left out: {some(left)}" if left else "")
    )
    empty = len(table.rows) - len(paths) - len(others)
    if empty:
        file.note(f"{say_count(empty, 'row')} without a name of any rank left out")
    return entries_from_paths(paths, file.root_name, lambda row: table.where(rows[row]), aliases)


def _epithet_column(table: FileTable, columns: Sequence[str], place: int, at: int) -> str:
    """The name of a column of ranks, or `specificEpithet` if it holds these: `major` beside `Parus`."""
    rank = rank_of(columns[at])
    if rank not in ("species", "subspecies") or "genus" not in map(rank_of, columns[:at]):
        return columns[at]
    given = [row[place] for row in table.rows if row[place]]
    if not given or not all(cell.islower() and len(cell.split()) == 1 for cell in given):
        return columns[at]
    return "specificEpithet" if rank == "species" else "infraspecificEpithet"


def _rows_of_synonyms(table: FileTable, roles: Mapping[str, int]) -> dict[int, list[int]]:
    """The rows that refer to an accepted taxon of another row, by that row."""
    if not {"id", "accepted"} <= roles.keys():
        return {}
    row_of: dict[str, int] = {}
    for row, cells in enumerate(table.rows):
        row_of.setdefault(cells[roles["id"]], row)
    target = [row_of.get(cells[roles["accepted"]], row) for row, cells in enumerate(table.rows)]
    rows: dict[int, list[int]] = {}
    for row, other in enumerate(target):
        if other != row and target[other] == other:
            rows.setdefault(other, []).append(row)
    return rows
