"""Tables with a column per depth, coarse to fine, below a line that names the columns."""

import re
from collections.abc import Sequence

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.breadcrumbs import BETWEEN_SPACES, breadcrumbs_of
from labeltree.taxonomy.files.codes_of_classes import are_numbers, entries_of_described_codes, look_like_codes
from labeltree.taxonomy.files.entries import Entries, entries_from_paths
from labeltree.taxonomy.files.opened_file import OpenedFile, needed
from labeltree.taxonomy.naming import some

__all__ = [
    "CODE_COLUMNS",
    "TITLE_COLUMNS",
    "entries_from_code_column",
    "entries_from_id_paths",
    "entries_from_levels",
    "has_code_column",
    "has_id_paths",
]

CODE_COLUMNS = ("code", "codes", "icd", "icd10", "atc", "naics", "id", "class")
TITLE_COLUMNS = ("description", "name", "title", "label", "term", "desc")
_PAD = re.compile(r"[-/]+$")  # fills a shorter code up
_IDS = {
    *("id", "ids", "index", "idx", "key", "uuid", "wnid", "mid", "no", "number", "#", ""),
    *("classid", "classidx", "classindex", "labelid", "categoryid", "nodeid", "taxonid", "speciesid"),
}
_COUNTS = re.compile(
    r"(?:n|num|number|no|count|counts|total|size|freq|frequency|active|enabled|images|samples)"
    r"(?:[ _].*)?|.*[ _](?:count|counts|total)"
)
_NUMBER = re.compile(r"[-+]?\d[\d.,]*%?|true|false|yes|no", re.IGNORECASE)


def entries_from_levels(file: OpenedFile) -> Entries:
    """Read a table with a column per depth.

    Raises:
        TaxonomyError: If its columns are no depths, or its first line names no columns.
    """
    header, rows, *_ = table = file.table
    for row in rows:
        if row[0] == header[0]:
            raise TaxonomyError(
                f"line 1 reads like data: {header[0]!r} stands below it again; name the columns in line 1"
            )
    ids = _id_columns(header, rows)
    counts = _count_columns(header, rows)
    levels = [place for place in range(len(header)) if place not in ids and place not in counts]
    if counts:
        file.note(f"left out: {some([header[place] for place in counts])}, whose cells are numbers")
    cells = [[row[place] for place in levels] for row in rows]
    names = [header[place] for place in levels]
    _check_depths(names, cells)
    paths: list[str | list[str | None]] = [[cell or None for cell in row] for row in cells]
    if len(names) == 1 and names[0].casefold().endswith("path") and any("/" in row[0] for row in cells):
        file.note(f"the column {names[0]} holds paths with '/'")
        paths = [row[0] for row in cells]
    if not ids:
        file.note(
            f"line 1 names the columns, and {' > '.join(names)} are levels"
            if len(names) > 1
            else f"line 1 names the column, {names[0]!r}, and is not a class"
        )
        return entries_from_paths(paths, file.root_name, table.where)
    read = f"columns {' > '.join(names)} are" if len(names) > 1 else f"column {names[0]} is"
    file.note(f"the {read} read, and {some([header[place] for place in ids])} as further names")
    return entries_from_paths(
        paths, file.root_name, table.where, [[row[place] for place in ids] for row in rows]
    )


def _id_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The places of columns of ids, by their names, if they and the finest names differ in every row."""
    named = [
        place
        for place, name in enumerate(header)
        if re.sub(r"[ _.-]", "", name.casefold()) in _IDS or are_numbers([row[place] for row in rows])
    ]
    ids = [place for place in named if len({row[place] for row in rows}) == len(rows)]
    finest = max((place for place in range(len(header)) if place not in ids), default=None)
    if finest is None or len({row[finest] for row in rows}) < len(rows):
        return []
    return ids


def _count_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The places of the last columns that by their names count something, and hold numbers or yes and no."""
    counts: list[int] = []
    for place in range(len(header) - 1, 0, -1):
        cells = [row[place] for row in rows if row[place]]
        if not _COUNTS.fullmatch(header[place].casefold()) or not all(map(_NUMBER.fullmatch, cells)):
            break
        counts.insert(0, place)
    return counts


def has_id_paths(file: OpenedFile) -> bool:
    """Whether one column of several holds whole paths, `A > B > C`, and others are different in every row."""
    return _path_column(file) is not None


def entries_from_id_paths(file: OpenedFile) -> Entries:
    """Read a column of whole paths; columns that are different in every row are aliases."""
    place = needed(_path_column(file))
    header, rows, *_ = table = file.table
    breadcrumbs = needed(breadcrumbs_of([row[place] for row in rows], certain=True, marks=BETWEEN_SPACES))
    last = [path[-1] for path in breadcrumbs.paths]
    ids = [
        other
        for other in range(len(header))
        if other != place and len({row[other] for row in rows}) == len(rows)
    ]
    left = [name for other, name in enumerate(header) if other != place and other not in ids]
    file.note(
        f"{header[place]!r} holds whole paths; {some([header[other] for other in ids])} are further names"
        + (f"; left out: {some(left)}" if left else "")
    )
    aliases = [
        [row[other] for other in ids if row[other] != name] for row, name in zip(rows, last, strict=True)
    ]
    return entries_from_paths(breadcrumbs.paths, file.root_name, table.where, aliases)


def _path_column(file: OpenedFile) -> int | None:
    """The only column of whole paths, different in every row, if another column is an id."""
    header, rows, *_ = file.table
    if len(header) < 2 or len(rows) < 2:
        return None
    whole = [
        place
        for place in range(len(header))
        if len({row[place] for row in rows}) == len(rows)
        and breadcrumbs_of([row[place] for row in rows], marks=BETWEEN_SPACES) is not None
    ]
    named = any(re.sub(r"[ _.-]", "", name.casefold()) in _IDS for name in header)
    return whole[0] if len(whole) == 1 and named else None


def has_code_column(file: OpenedFile) -> bool:
    """Whether a table has a column of codes, by its name and its cells, and one of what they mean."""
    return _code_columns(file) is not None


def entries_from_code_column(file: OpenedFile) -> Entries:
    """Read a column of codes with what they mean; see `entries_of_described_codes`."""
    places = needed(_code_columns(file))
    header, rows, *_ = file.table
    left = [name for place, name in enumerate(header) if place not in places]
    if left:
        file.note(f"left out: {some(left)}")
    pairs = [(_PAD.sub("", row[places[0]]), row[places[1]]) for row in rows]
    return entries_of_described_codes([pair for pair in pairs if pair[0]], file.root_name)


def _code_columns(file: OpenedFile) -> tuple[int, int] | None:
    header, rows, *_ = file.table
    folded = [name.casefold() for name in header]
    codes = [place for place, name in enumerate(folded) if _is_code_column(name)]
    texts = [place for place, name in enumerate(folded) if name in TITLE_COLUMNS or name.endswith(" title")]
    if len(codes) != 1 or not texts or codes[0] == texts[0]:
        return None
    cells = [cell for row in rows if (cell := _PAD.sub("", row[codes[0]]))]
    return (codes[0], texts[0]) if look_like_codes(cells) and not are_numbers(cells) else None


def _is_code_column(name: str) -> bool:
    return (name in CODE_COLUMNS and name != "class") or bool(re.search(r"\bcodes?$", name))


def _check_depths(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Refuse a table of samples, whose columns are not the depths of a tree.

    Raises:
        TaxonomyError: If a column beside others holds whole paths, or each row has a first name of its own
            while names in a finer column repeat.
    """
    if len(header) < 2:
        return
    columns = [[row[at] for row in rows if row[at]] for at in range(len(header))]
    for name, cells in zip(header, columns, strict=True):
        distinct = dict.fromkeys(cells)
        slashes = len(distinct) > 2 and all("/" in cell.strip("/") for cell in distinct)
        if slashes or breadcrumbs_of(distinct, marks=BETWEEN_SPACES) is not None:
            raise TaxonomyError(
                f"the columns {', '.join(header)} would be a column per depth, but {name!r} holds whole "
                f"paths, such as {cells[0]!r}: say --column {name!r} to 'labeltree taxonomy show', 'check' "
                f"and 'review', or --form breadcrumbs --column {name!r} to 'convert', which writes a file"
            )
    first = columns[0]
    repeats = [name for name, cells in zip(header, columns, strict=True) if len(set(cells)) < len(cells)]
    if len(rows) > 2 and len(first) == len(rows) == len(set(first)) and repeats:
        raise TaxonomyError(
            f"the columns {', '.join(header)} would be a column per depth, but {header[0]!r} is different "
            f"in every row while {repeats[0]!r} repeats, so it is not the coarsest depth: keep only the "
            "columns of the depths, coarse to fine, or say --column NAME if one column holds whole paths"
        )
