"""Tables with a column per depth, coarse to fine, below a line that names the columns."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.breadcrumbs import (
    BETWEEN_SPACES,
    Breadcrumbs,
    breadcrumbs_of,
    dotted_paths,
    listed_paths,
)
from labeltree.taxonomy.files.codes_of_classes import (
    SCHEMES,
    are_described_codes,
    are_numbers,
    entries_of_described_codes,
    padded_scheme,
)
from labeltree.taxonomy.files.edge_tables import parents_advice
from labeltree.taxonomy.files.entries import Entries, entries_from_paths
from labeltree.taxonomy.files.level_columns import (
    CODES,
    LevelColumn,
    columns_of_samples,
    find_levels,
    is_header,
    is_reversed,
    names_id,
    plain_words,
)
from labeltree.taxonomy.files.opened_file import FileTable, OpenedFile
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.numbering import IntArray

__all__ = [
    "CODE_COLUMNS",
    "TITLE_COLUMNS",
    "entries_from_code_column",
    "entries_from_id_paths",
    "entries_from_levels",
    "rows_above",
]

CODE_COLUMNS = ("code", "codes", "icd", "icd10", "atc", "naics", "id", "class")
TITLE_COLUMNS = ("description", "name", "title", "label", "term", "desc")
_SCHEME_WORDS = {*SCHEMES, "icd", "ipc", "cpc", "msc", "isic", "sic", "ddc"}
_NOTHING = {"", "NA", "N/A", "n/a", "nan", "NaN", "null", "NULL", "None", "-"}
_PAD = re.compile(r"[-/]+$")  # fills a shorter code up


def entries_from_levels(file: OpenedFile) -> Entries:
    """Read a table with a column per depth, coarse to fine or, where its values say so, fine to coarse.

    Codes and names in other languages are aliases; see `find_levels`. Empty cells at the beginning of a row
    repeat those above, as merged cells do.

    Raises:
        TaxonomyError: If its columns are no depths, or they are those of samples.
    """
    try:
        return _read_levels(file)
    except TaxonomyError as error:
        advice = parents_advice(file.table.header, file.table.rows)
        if advice is None:
            raise
        raise TaxonomyError(f"{error}; {advice}") from None


def _read_levels(file: OpenedFile) -> Entries:
    header, rows, *_ = table = _named_table(file)
    if (samples := columns_of_samples(header, rows)) is not None:
        raise TaxonomyError(
            f"{samples[0]!r} holds samples and {samples[1]!r} their labels, so columns are not levels: read "
            "the labels by labeltree.open_taxonomy(FILE), as 'labeltree taxonomy show' does, or keep the "
            "columns of the levels alone"
        )
    columns = find_levels(header, rows)
    levels = columns.levels
    if columns.counts:
        left = some([header[place] for place in columns.counts])
        file.note(f"left out: {left}, whose cells are numbers; --column for each level takes others")
    if columns.images:
        file.note(
            f"left out: {some([header[place] for place in columns.images])}, whose cells name image files"
        )
    if columns.texts:
        left = some([header[place] for place in columns.texts])
        file.note(f"left out: {left}, by {'its name' if len(columns.texts) == 1 else 'their names'} no level")
    names_of_levels = [level.names for level in levels]
    rows = _filled(file, _without_missing(file, rows, names_of_levels), names_of_levels)
    names = [header[level.names] for level in levels]
    keys = [level.names if level.code is None else level.code for level in levels]
    cells = [[row[level.names] for level in levels] for row in rows]
    told = names if table is file.table else ["" for _ in names]
    if is_reversed(told, cells, [[row[key] for key in keys] for row in rows]):
        levels, names, keys = levels[::-1], names[::-1], keys[::-1]
        ends = [(row[keys[-1]], row[keys[-2]]) for row in rows]
        nearly = "nearly " * (len({*ends}) > len({fine for fine, _ in ends}))
        file.note(
            f"{nearly}each {names[-1]!r} has one {names[-2]!r}, so levels stand from fine to coarse; "
            "--column for each level says another order"
        )
    if any("parent" in plain_words(name) for name in names[1:]):
        raise TaxonomyError(
            f"the columns {', '.join(names)} would be a column per depth, but one names parents; read edges "
            "by 'labeltree taxonomy convert' and --form edges with --child COLUMN and --parent COLUMN"
        )
    _check_depths([header[key] for key in keys], [[row[key] for key in keys] for row in rows])
    further = [header[place] for level in levels for place in level.further]
    further = [header[place] for place in columns.ids] + further
    joined = " > ".join(names)
    is_path = len(names) == 1 and names[0].casefold().endswith("path")
    is_path = is_path and any("/" in row[levels[0].names] for row in rows)
    if is_path:
        file.note(f"the column {names[0]} holds paths with '/'")
    if further:
        read = f"columns {joined} are" if len(names) > 1 else f"column {names[0]!r} is"
        file.note(f"the {read} read, and {some(further)} as further names")
    elif len(names) > 1:
        file.note(f"{'line 1 names the columns, and ' if table is file.table else ''}{joined} are levels")
    elif table is file.table:
        file.note(f"line 1 names the column, {names[0]!r}, and is not a class")
    if is_path:
        places = (*columns.ids, *levels[0].further)
        paths = [row[levels[0].names] for row in rows]
        aliases = [[row[place] for place in places] for row in rows]
        return entries_from_paths(paths, file.root_name, table.where, aliases)
    if not further:
        named_rows = [[row[level.names] or None for level in levels] for row in rows]
        return entries_from_paths(named_rows, file.root_name, table.where)
    named, aliases, of_rows = _paths_of_levels(rows, levels, columns.ids)
    return entries_from_paths(named, file.root_name, lambda row: table.where(of_rows[row]), aliases)


def _named_table(file: OpenedFile) -> FileTable:
    """The table, with line 1 as a row if it is no header, by its cells.

    Raises:
        TaxonomyError: If line 1 stands below again, or its first cell does and the rest is no tree.
    """
    header, rows, lines, is_sheet = table = file.table
    again = any(row[0] == header[0] for row in rows)
    is_named = is_header(header, rows)
    if is_named and not again:
        return table
    if is_named or header in rows:
        raise TaxonomyError(
            f"line 1 reads like data: {header[0]!r} stands below it again; name the columns in line 1"
        )
    file.note("line 1 names no columns, since its cells are like those below it, and is read with them")
    names = [f"column {place}" for place in range(1, len(header) + 1)]
    return FileTable(names, [header, *rows], [lines[0] - 1, *lines], is_sheet)


def _without_missing(file: OpenedFile, rows: list[list[str]], places: Sequence[int]) -> list[list[str]]:
    """The rows without `NA` and the like at their fine ends, if a row has several there."""
    kept, several = [], False
    left: dict[str, None] = {}
    for row in rows:
        end = next((at for at in range(len(places), 0, -1) if row[places[at - 1]] not in _NOTHING), 0)
        words = [row[place] for place in places[end:] if row[place]] if end else []
        several |= len(words) > 1
        left |= dict.fromkeys(words)
        missing = set(places[end:]) if end else ()
        kept.append(["" if place in missing else cell for place, cell in enumerate(row)])
    if not several:
        return rows
    file.note(f"{some(left)} at the fine end of a row means that there is no name")
    return kept


def _filled(file: OpenedFile, rows: list[list[str]], places: Sequence[int]) -> list[list[str]]:
    """The rows, with empty cells before the first filled one filled from above, if any are."""
    if len(places) < 2 or not any(not row[places[0]] and any(row[at] for at in places) for row in rows):
        return rows
    if not rows[0][places[0]]:
        return rows
    file.note("empty cells at the beginning of a row repeat those above them")
    given = np.array([[bool(row[place]) for place in places] for row in rows])
    stands = np.logical_or.accumulate(given, axis=1) | ~given.any(axis=1, keepdims=True)
    filled = [list(row) for row in rows]
    for at, place in enumerate(places):
        for row, above in zip(filled, rows_above(stands[:, at]).tolist(), strict=True):
            row[place] = rows[above][place]
    return filled


def rows_above(given: np.ndarray[Any, Any], begins: np.ndarray[Any, Any] | None = None) -> IntArray:
    """The row `(n,)` whose value a row has, its own or the nearest above it that has one; -1 for none.

    Args:
        given: `(n,)` bool, the rows with a value.
        begins: `(n,)` bool, the rows past which no value is carried.
    """
    last = np.maximum.accumulate(
        np.where(given if begins is None else given | begins, np.arange(len(given)), -1)
    )
    return np.where((last >= 0) & given[last], last, -1)


def _paths_of_levels(
    rows: Sequence[Sequence[str]], levels: Sequence[LevelColumn], ids: Sequence[int]
) -> tuple[list[list[str | None]], list[list[str]], list[int]]:
    """The paths of rows and of what is above them: the names, the aliases of each, and its row.

    Classes of one name and several codes below one parent have their code in the name.
    """
    keys = [level.names if level.code is None else level.code for level in levels]
    known: dict[tuple[str, ...], set[str]] = {}
    for row in rows:
        for depth, level in enumerate(levels):
            above = tuple(row[key] for key in keys[:depth])
            known.setdefault((*above, row[level.names]), set()).add(row[keys[depth]])
    paths: list[list[str | None]] = []
    aliases: list[list[str]] = []
    of_rows: list[int] = []
    seen: set[tuple[str, ...]] = set()
    for number, row in enumerate(rows):
        path: list[str | None] = []
        for depth, level in enumerate(levels):
            name, code = row[level.names], row[keys[depth]]
            above = tuple(row[key] for key in keys[:depth])
            several = len(known[*above, name]) > 1
            path.append((f"{name} ({code})" if several and name else name or code) or None)
            if level.further and path[-1] is not None and (*above, code) not in seen:
                seen.add((*above, code))
                paths.append([*path])
                aliases.append([row[place] for place in level.further])
                of_rows.append(number)
        paths.append(path)
        aliases.append([row[place] for place in ids])
        of_rows.append(number)
    return paths, aliases, of_rows


def entries_from_id_paths(file: OpenedFile) -> Entries | None:
    """Read a column of whole paths, `A > B > C`; columns that are different in every row are aliases.

    None if there is no such column, or not one.
    """
    column = _path_column(file)
    if column is None:
        return None
    place, breadcrumbs = column
    header, rows, *_ = table = file.table
    last = [path[-1] for path in breadcrumbs.paths]
    ids = [
        other
        for other, name in enumerate(header)
        if other != place
        and len({row[other] for row in rows}) == len(rows)
        and (_names_ids(name) or not all(row[other].isdecimal() for row in rows))
    ]
    left = [name for other, name in enumerate(header) if other != place and other not in ids]
    file.note(
        f"{header[place]!r} holds whole paths with {breadcrumbs.separator!r}"
        + (f"; {some([header[other] for other in ids])} are further names" if ids else "")
        + (f"; left out: {some(left)}" if left else "")
    )
    aliases = [
        [row[other] for other in ids if row[other] != name] for row, name in zip(rows, last, strict=True)
    ]
    return entries_from_paths(breadcrumbs.paths, file.root_name, table.where, aliases)


def _path_column(file: OpenedFile) -> tuple[int, Breadcrumbs] | None:
    """The only column of whole paths, different in every row, and these, if another column is an id.

    None is needed beside paths with dots or in brackets.
    """
    header, rows, *_ = file.table
    if len(rows) < 2:
        return None
    for place in range(len(header)):
        cells = [row[place] for row in rows]
        if (whole_paths := dotted_paths(cells) or listed_paths(cells)) is not None:
            return place, whole_paths
    if len(header) < 2:
        return None
    whole = [
        (place, breadcrumbs)
        for place in range(len(header))
        if len({row[place] for row in rows}) == len(rows)
        and (breadcrumbs := breadcrumbs_of([row[place] for row in rows], marks=BETWEEN_SPACES)) is not None
    ]
    return whole[0] if len(whole) == 1 and any(map(_names_ids, header)) else None


def _names_ids(column: str) -> bool:
    """Whether a column is called as ids or codes are."""
    return names_id(column) or bool(plain_words(column) & CODES)


def entries_from_code_column(file: OpenedFile) -> Entries | None:
    """Read a column of codes with what they mean; see `entries_of_described_codes`.

    None if no column is one of codes, by its name and its cells, or none says what they mean.
    """
    columns = _code_columns(file)
    if columns is None:
        return None
    (header, rows, *_), code, text = columns
    left = [name for place, name in enumerate(header) if place not in (code, text)]
    if left:
        file.note(f"left out: {some(left)}")
    pairs = [(_PAD.sub("", row[code]), row[text]) for row in rows]
    return entries_of_described_codes([pair for pair in pairs if pair[0]], file.root_name)


def _code_columns(file: OpenedFile) -> tuple[FileTable, int, int] | None:
    """The table, and its columns of codes and of what they mean; without a header, the two that it has."""
    header, rows, *_ = table = file.table
    words = [plain_words(name) for name in header]
    codes = [
        place
        for place, name in enumerate(header)
        if words[place] & {"code", "codes"} or name.casefold() in {*CODE_COLUMNS} - {"class"}
    ]
    codes = codes or [place for place in range(len(header)) if words[place] & _SCHEME_WORDS]
    titles = {*TITLE_COLUMNS, "caption"}
    codes = codes or [
        place
        for place in range(len(header))
        if words[place] & CODES and padded_scheme([row[place] for row in rows])
    ]
    texts = [place for place, name in enumerate(header) if name.casefold() in titles and place not in codes]
    if not texts and codes and words[codes[0]] & {"code", "codes"}:  # ISCO 08 Code, Title EN
        titles |= {"text", "heading", "meaning"}
        texts = [place for place in range(len(header)) if words[place] & titles and place not in codes]
    if len(codes) == 1 and not texts and len(header) == 2 and words[codes[0]] & _SCHEME_WORDS:
        texts = [1 - codes[0]]
    if not codes and not texts and len(header) == 2 and file.suffix != ".txt" and not is_header(header, rows):
        table, codes, texts = _named_table(file), [0], [1]
    if len(codes) != 1 or not texts:
        return None
    pairs = [(cell, row[texts[0]]) for row in table.rows if (cell := _PAD.sub("", row[codes[0]]))]
    if not are_described_codes(pairs) or are_numbers(list(dict.fromkeys(code for code, _ in pairs))):
        return None
    return table, codes[0], texts[0]


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
            f"in every row while {repeats[0]!r} repeats, so it is not the coarsest depth: say --column for "
            "each column of a depth, coarse to fine, or for one that holds whole paths, or keep only these"
        )
