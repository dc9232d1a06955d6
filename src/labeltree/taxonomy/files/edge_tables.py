"""Tables of edges: a column of the child and one of its parent, perhaps a relation between them."""

import csv
import io
import re
import shlex
from collections.abc import Hashable, Mapping, Sequence

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.column_names import IMAGES, LABELS, LESS_USUAL_LABELS, TEXTS
from labeltree.taxonomy.files.entries import (
    NO_PARENT,
    ROOT,
    Entries,
    Where,
    below_one_root,
    entries_from_edges,
)
from labeltree.taxonomy.files.level_columns import plain_words
from labeltree.taxonomy.files.opened_file import OpenedFile
from labeltree.taxonomy.files.rf2 import is_rf2
from labeltree.taxonomy.naming import name_siblings_apart, nearest_hint, some

__all__ = [
    "edge_columns",
    "edges_from_table",
    "edges_text",
    "entries_from_own_edges",
    "find_ends",
    "has_parents",
    "is_edge_table",
    "parents_advice",
]

_ENDS = (
    ("child_id", "parent_id"),
    ("childid", "parentid"),
    ("id", "parent_id"),
    ("id", "parentid"),
    ("id", "parent"),
    ("node_id", "parent_id"),
    ("node", "parent"),
    ("category_id", "parent_id"),
    ("category_id", "parent_category_id"),
    ("code", "parent_code"),
    ("code", "parent"),
    ("taxonid", "parentnameusageid"),  # Darwin Core's lists of taxa
    ("tax_id", "parent_tax_id"),
    ("name", "parent"),
    ("source", "target"),
    ("from", "to"),
    ("subject", "object"),
    ("hyponym", "hypernym"),
    ("narrower", "broader"),
    ("subclass", "superclass"),
)
_NAMES = ("name", "label", "title", "scientificname", "term", "category", "description")
_BESIDE = {*_NAMES, "rank", "taxonrank", "level", "depth", "order", "position"}
_PARENT = re.compile(
    r"(?:.*[ _.])?parent(?:[ _.]?(?:id|ids|uid|code|key|name|node|number|unique id))?", re.IGNORECASE
)
_ABOVE = re.compile(
    r"(?:.*[ _.])?(?:parents?|super(?:class|category|type)|hypernym|broader|sub ?class ?of|is ?a)"
    r"(?:[ _.]?(?:id|uid|code|key|name|label|category|class|node))?",
    re.IGNORECASE,
)
_TIER = re.compile(r"(?:tier|level|depth) ?\d+")
_BETWEEN = re.compile(r"\s*[|;,]\s*")  # several parents of a cell
_BY_CONVERT = "to 'labeltree taxonomy convert', which writes a file"
_REFERRED = 0.9
_DIFFERENT = 0.95  # a row that stands there twice is an error of its own
_RELATIONS = {
    *("p279", "wdt:p279", "http://www.wikidata.org/prop/direct/p279", "subclassof", "rdfs:subclassof", "isa"),
    *("http://www.w3.org/2000/01/rdf-schema#subclassof", "broader", "skos:broader", "hypernym"),
}


def edge_columns(columns: Sequence[str]) -> tuple[str, str] | None:
    """The columns of the two ends of an edge, child and parent, if the columns have their usual names."""
    folded = {name.casefold(): name for name in columns}
    for child, parent in _ENDS:
        if child in folded and parent in folded:
            return folded[child], folded[parent]
    return None


def find_ends(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[str, str] | None:
    """The columns of child and parent: by their usual names, or a column named as a parent and its ids.

    A column whose name begins or ends with `parent` refers to another one if the values of that one are
    different in nearly every row and hold nearly all of its own.
    """
    usual = edge_columns(columns)
    for place, column in enumerate(columns):
        if not _PARENT.fullmatch(column.strip()) and "parent" not in plain_words(column):
            continue
        named = {row[place] for row in rows if row[place].casefold() not in NO_PARENT}
        if usual is not None and column == usual[1]:
            known = {row[column_place(columns, usual[0])] for row in rows}
            if not named or len(named & known) >= _REFERRED * len(named):
                return usual
        for other, child in enumerate(columns if named else ()):
            values = {row[other] for row in rows}
            differ = other != place and len(values) >= _DIFFERENT * len(rows)
            if differ and len(named & values) >= _REFERRED * len(named):
                return child, column
    return usual or _ends_by_words(columns, rows)


def _ends_by_words(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[str, str] | None:
    """A column that is called one of parents or hypernyms, and the one before it that shares most values."""
    best: tuple[int, str, str] | None = None
    for place, column in enumerate(columns):
        if not _ABOVE.fullmatch(column.strip()):
            continue
        named = {row[place] for row in rows if row[place].casefold() not in NO_PARENT}
        for other, child in enumerate(columns[:place]):
            values = {row[other] for row in rows}
            others = {row[place] for row in rows if row[place] != row[other]} & named  # person of person
            shared = len(others & values) if len(values) >= _DIFFERENT * len(rows) else 0
            if shared > (best[0] if best else 0):
                best = shared, child, column
    return None if best is None else best[1:]


def parents_advice(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str | None:
    """What reads a table in which a column refers to another one as parents do, by its cells alone; or None.

    Each row has an id of its own, at least half of them have the id of another one, some of them the same,
    and nothing is below itself.
    """
    cells = [[row[place] for row in rows] for place in range(len(columns))]
    for place, above in enumerate(cells):
        named = [cell for cell in above if cell.casefold() not in NO_PARENT]
        if 2 * len(named) < len(rows) or len(set(named)) == len(named):
            continue
        for other, ids in enumerate(cells):
            known = dict(zip(ids, above, strict=True))
            refers = other != place and len(known) == len(rows) and known.keys() >= set(named)
            if refers and not _has_circle(known):
                child, parent = columns[other], columns[place]
                return (
                    f"if {parent!r} holds the parents of {child!r}, say --form edges --child "
                    f"{shlex.quote(child)} --parent {shlex.quote(parent)} {_BY_CONVERT}"
                )
    return None


def _has_circle(above: Mapping[str, str]) -> bool:
    """Whether an id is above itself."""
    done: set[str] = set()
    for one in above:
        way: set[str] = set()
        while one in above and one not in done:
            if one in way:
                return True
            way.add(one)
            one = above[one]
        done |= way
    return False


def has_parents(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a column is called one of parents, and refers to another one, as `find_ends` says."""
    called = {column for column in columns if _PARENT.fullmatch(column.strip())}
    ends = find_ends(columns, rows) if called else None
    return ends is not None and ends[1] in called


def is_edge_table(columns: Sequence[str]) -> bool:
    """Whether a table of these columns holds edges, and nothing that a table of samples has."""
    folded = {name.casefold() for name in columns}
    if is_rf2(columns):
        return True
    ends = edge_columns(columns) or ()
    beside = folded - {end.casefold() for end in ends}
    named = {end.casefold().removesuffix("_id") for end in ends}  # category_id: its category
    labels = {*LABELS, *LESS_USUAL_LABELS} - named
    if beside & {*TEXTS, *IMAGES} and beside & labels:
        return False
    return {"child", "parent"} <= folded or (bool(ends) and beside <= _BESIDE)


def edges_from_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    where: Where,
    *,
    several_parents: bool,
    root_name: str | None = "root",
    child: str | None = None,
    parent: str | None = None,
    name: str | None = None,
) -> Entries:
    """Read a table with one edge a row, such as `id,parent_id,name`.

    A row without a parent (empty, its own id, or `0`, `-1` or `null` where no row has that id) is the root.
    Of several each is below a root named `root_name`, and so are parents without a row of their own, which a
    note names; beside a single root they are an error. Ids become aliases of nodes that have names, and stand
    behind names that siblings share. Other columns are ignored.

    Args:
        columns: Names of the columns.
        rows: Cells of each row.
        where: Names a row in errors.
        several_parents: Whether a node may have more than one parent.
        root_name: Name of a root that the table does not have.
        child: Column of the child; by default found by its name.
        parent: Column of the parent; by default found by its name.
        name: Column of the children's names; by default found by its name, and where there is none, the ends
            of the edges are names.

    Raises:
        TaxonomyError: If a column is missing, or which end is the child is not certain.
    """
    ends = find_ends(columns, rows)
    if child is None or parent is None:
        if ends is None:
            advice = parents_advice(columns, rows) or f"say --child COLUMN and --parent COLUMN {_BY_CONVERT}"
            raise TaxonomyError(
                f"which columns hold a child and its parent? There are {', '.join(columns)}; {advice}"
            )
        if {end.casefold() for end in ends} in ({"source", "target"}, {"from", "to"}):
            ends = _direct(columns, rows, *ends)
        child, parent = child or ends[0], parent or ends[1]
    at = [column_place(columns, column) for column in (child, parent)]
    edges = [(row[at[0]], row[at[1]]) for row in rows]
    children = {end for end, _ in edges}
    edges, of_rows = _split_parents(edges, children)
    pairs = [
        (end, None if above == end or (above.casefold() in NO_PARENT and above not in children) else above)
        for end, above in edges
    ]
    known = _names_of(columns, rows, at, name)
    labels = _label_column(columns, at[1])
    if known is not None and labels is not None:
        known = {row[at[1]]: row[labels] for row in rows if row[labels]} | known
    ids = {end for pair in pairs for end in pair if end is not None}
    # a parent without a row of its own has no name but its id
    names: dict[Hashable, object] = {end: (known or {}).get(end, end) for end in ids}
    names[ROOT] = root_name
    aliases: dict[Hashable, list[str]] = {end: [end] for end in ids if names[end] != end}
    roots = {end for end, above in pairs if above is None}
    rows_of_orphans = {above: row for row, (_, above) in reversed(list(enumerate(pairs)))}
    orphans = [end for end in rows_of_orphans if end is not None and end not in children][::-1]
    notes: tuple[str, ...] = ()
    placed: list[tuple[Hashable, Hashable]] = [*pairs]
    if len(roots) != 1:
        placed = below_one_root(pairs, root_name)
    if orphans and placed[-1] == (orphans[-1], ROOT):
        first = where(of_rows[rows_of_orphans[orphans[0]]])
        notes = (
            f"{some(orphans)} {'is a parent' if len(orphans) == 1 else 'are parents'} without a row "
            f"(first in {first}), and put below the root",
        )
    entries = entries_from_edges(
        placed,
        names=names,
        where=lambda row: where(of_rows[row]) if row < len(of_rows) else "a root",
        several_parents=several_parents,
        aliases=aliases,
    )
    named, repeated = name_siblings_apart(
        entries.names, entries.children, entries.parents, [next(iter(ids), "") for ids in entries.aliases]
    )
    return entries._replace(names=named, notes=(*notes, *[repeated] * bool(repeated)))


def _split_parents(
    edges: Sequence[tuple[str, str]], children: set[str]
) -> tuple[list[tuple[str, str]], list[int]]:
    """The edges, one for each parent where a cell holds several, as `GO:2|GO:3`, and the row of each."""
    split: list[tuple[str, str]] = []
    of_rows: list[int] = []
    for row, (end, above) in enumerate(edges):
        several = [] if above in children else list(dict.fromkeys(_BETWEEN.split(above)))
        parents = several if len(several) > 1 and children.issuperset(several) else [above]
        split += [(end, parent) for parent in parents]
        of_rows += [row] * len(parents)
    return split, of_rows


def _direct(
    columns: Sequence[str], rows: Sequence[Sequence[str]], source: str, target: str
) -> tuple[str, str]:
    """The columns of child and parent of two of which either may be: in a tree each child stands once."""
    ends = [[row[column_place(columns, column)] for row in rows] for column in (source, target)]
    once = [len(set(column)) == len(column) for column in ends]
    if once[0] == once[1]:
        raise TaxonomyError(
            f"which end of an edge is the child is not certain: say --child {source} --parent {target}, or "
            f"--child {target} --parent {source}"
        )
    return (source, target) if once[0] else (target, source)


def column_place(columns: Sequence[str], column: str) -> int:
    """The place of a column, in whatever case it is written; a TaxonomyError names the nearest one."""
    folded = [name.casefold() for name in columns]
    if column.casefold() not in folded:
        raise TaxonomyError(f"there is no column {column!r} ({nearest_hint(column, columns)})")
    return folded.index(column.casefold())


def _label_column(columns: Sequence[str], place: int) -> int | None:
    """The column of names beside one of ids, as Wikidata writes it: `itemLabel` beside `item`."""
    names = {
        f"{columns[place]}{mark}{word}".casefold() for mark in ("", "_", " ") for word in ("label", "name")
    }
    return next((other for other, column in enumerate(columns) if column.casefold() in names), None)


def _names_of(
    columns: Sequence[str], rows: Sequence[Sequence[str]], ends: Sequence[int], name: str | None
) -> dict[str, str] | None:
    """The name of each child; None if its id is its name.

    Where no column has a usual name, the finest of `Tier 1`, `Tier 2` and so on is taken, or a column that is
    called a name.
    """
    label = _label_column(columns, ends[0])
    if name is not None or label is not None:
        places = [column_place(columns, name)] if name is not None else [label or 0]
    else:
        folded = [column.casefold() for column in columns]
        free = [place for place in range(len(columns)) if place not in ends]
        usual = [folded.index(column) for column in _NAMES if column in folded]
        tiers = [place for place in free if _TIER.fullmatch(folded[place])]
        called = [place for place in free if "name" in folded[place]]
        places = [place for place in usual if place in free][:1] or tiers or called[:1]
        if not places and all(row[ends[0]].isdecimal() for row in rows):  # numbers are no names
            texts = [
                place for place in free if all(row[place] and not row[place].isdecimal() for row in rows)
            ]
            places = texts[:1]
    if not places:
        return None
    return {
        row[ends[0]]: next((row[place] for place in reversed(places) if row[place]), row[ends[0]])
        for row in rows
    }


def entries_from_triples(file: OpenedFile) -> Entries | None:
    """Read rows of a child, a relation such as `P279`, `subclass of` or `IsA`, and its parent.

    Rows of other relations are left out. None if the second of three columns is no such relation.
    """
    table = file.table
    rows, lines = [table.header, *table.rows], [table.lines[0] - 1, *table.lines]
    if len(table.header) != 3:
        return None
    kept = [row for row, cells in enumerate(rows) if re.sub("[ _-]", "", cells[1].casefold()) in _RELATIONS]
    if not kept:
        return None
    relation = rows[kept[0]][1]
    left = len(table.rows) + (kept[0] == 0) - len(kept)
    file.note(
        f"each row is an edge: its first cell is below its third one by {relation!r}"
        + (f"; {left} rows of other relations are left out" if left else "")
    )
    whole = table._replace(rows=rows, lines=lines)
    return edges_from_table(
        ["child", "relation", "parent"],
        [rows[row] for row in kept],
        lambda row: whole.where(kept[row]),
        several_parents=file.several_parents,
        root_name=file.root_name,
        child="child",
        parent="parent",
    )


def entries_from_own_edges(file: OpenedFile) -> Entries:
    """Read a table of edges with the columns that this library writes: child, parent and perhaps name.

    Raises:
        TaxonomyError: If there are other columns.
    """
    table = file.table
    columns = [name.casefold() for name in table.header]
    rows = table.rows
    if sorted(columns) not in (["child", "parent"], ["child", "name", "parent"]):
        raise TaxonomyError(
            f"a table of edges has the columns child, parent and perhaps name, not {', '.join(columns)}"
        )
    child, parent = columns.index("child"), columns.index("parent")
    pairs = [(row[child], row[parent] or None) for row in rows]
    names: dict[Hashable, object] | None = None
    if "name" in columns:
        names = {row[child]: row[columns.index("name")] for row in rows}
    return entries_from_edges(pairs, names=names, where=table.where, several_parents=file.several_parents)


def edges_text(entries: Entries, delimiter: str) -> str:
    """A table of edges, the root first; if a name repeats, with numbers and a column of names."""
    names = entries.names
    out = io.StringIO(newline="")
    write = csv.writer(out, delimiter=delimiter, lineterminator="\n").writerow
    if len(set(names)) == len(names):
        write(["child", "parent"])
        write([names[0], ""])
        for child, parent in zip(entries.children, entries.parents, strict=True):
            write([names[child], names[parent]])
    else:
        write(["child", "parent", "name"])
        write([0, "", names[0]])
        for child, parent in zip(entries.children, entries.parents, strict=True):
            write([child, parent, names[child]])
    return out.getvalue()
