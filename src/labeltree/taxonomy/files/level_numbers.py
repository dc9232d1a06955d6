"""Tables whose rows are below each other by the number of their level, or by dashes before their titles."""

import re
from collections import Counter
from collections.abc import Sequence

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.files.level_columns import CODES, TEXTS, TITLES, plain_words
from labeltree.taxonomy.files.opened_file import FileTable, OpenedFile
from labeltree.taxonomy.naming import some

__all__ = ["entries_from_level_numbers"]

_LEVEL = {"level", "lvl", "depth", "tier", "indent", "indentation", "hierarchy", "niveau", "ebene", "stufe"}
_BESIDE = {"number", "no", "nr", "code", "hierarchical"}
_CELL = re.compile(r"(?:level|lvl|tier|l|t)?[ _-]?(\d{1,2})", re.IGNORECASE)
_DASHES = re.compile(r"(?:[-–•]\s+)+")


def entries_from_level_numbers(file: OpenedFile) -> Entries | None:
    """Read a table with a column of levels: a row is below the last one before it of a smaller level.

    Titles that dashes indent (`- - Cholera`) say their level themselves. Codes are aliases. None if no column
    says the level.

    Raises:
        TaxonomyError: If the order of the rows is not that of a tree.
    """
    header, rows, *_ = table = file.table
    names = _name_column(header, rows)
    if names is None:
        return None
    dashes = [match[0].split() if (match := _DASHES.match(row[names])) else [] for row in rows]
    column = _level_column(header, rows)
    if any(dashes):
        depths, said = list(map(len, dashes)), f"the dashes before names in {header[names]!r}"
    elif column is not None:
        cells = [_CELL.fullmatch(row[column]) for row in rows]
        depths, said = [int(cell[1]) for cell in cells if cell], f"the column {header[column]!r}"
    else:
        return None
    parents = _parents(table, depths, said)
    codes = [
        place
        for place, name in enumerate(header)
        if place not in (names, column) and plain_words(name) & CODES and not plain_words(name) & TITLES
    ]
    left = [name for place, name in enumerate(header) if place not in (names, column, *codes)]
    file.note(
        f"{said} {'say' if any(dashes) else 'says'} the level of each row, which is below the last one of a "
        "smaller level before it"
        + (f"; further names are {some([header[place] for place in codes])}" if codes else "")
        + (f"; left out: {some(left)}" if left else "")
    )
    titles = [row[names][match.end() if (match := _DASHES.match(row[names])) else 0 :] for row in rows]
    count = Counter(zip(parents, titles, strict=True))
    nodes = [
        f"{title} ({code})" if count[parent, title] > 1 and (code := _first(row, codes)) else title
        for parent, title, row in zip(parents, titles, rows, strict=True)
    ]
    aliases = [
        tuple(dict.fromkeys(row[place] for place in codes if row[place] not in ("", node)))
        for row, node in zip(rows, nodes, strict=True)
    ]
    if parents.count(-1) > 1 and file.root_name is not None:
        nodes, aliases = [file.root_name, *nodes], [(), *aliases]
        parents = [-1, *(parent + 1 for parent in parents)]
    children = [node for node, parent in enumerate(parents) if parent >= 0]
    return Entries(nodes, children, [parents[node] for node in children], aliases=aliases)


def _first(row: Sequence[str], places: Sequence[int]) -> str:
    return next((row[place] for place in places if row[place]), "")


def _level_column(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int | None:
    for place, name in enumerate(header):
        words = plain_words(name)
        if words & _LEVEL and words <= _LEVEL | _BESIDE and all(_CELL.fullmatch(row[place]) for row in rows):
            return place
    return None


def _name_column(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int | None:
    """The column of names: that of titles, else of descriptions, else the only one that is left."""
    level = _level_column(header, rows)
    filled = [place for place in range(len(header)) if place != level and all(row[place] for row in rows)]
    for words in (TITLES, TEXTS):
        for place in filled:
            if plain_words(header[place]) & words:
                return place
    others = [place for place in filled if not plain_words(header[place]) & CODES]
    return others[0] if len(others) == 1 and level is not None else None


def _parents(table: FileTable, depths: Sequence[int], said: str) -> list[int]:
    """The row that each is below, -1 for none."""
    parents: list[int] = []
    open_rows: list[int] = []
    for row, depth in enumerate(depths):
        while open_rows and depths[open_rows[-1]] >= depth:
            open_rows.pop()
        above = depths[open_rows[-1]] if open_rows else min(depths) - 1
        if depth != above + 1:
            raise TaxonomyError(
                f"{table.where(row)} has level {depth} by {said}, after a row of level {above}, so that "
                "nothing says what it is below; sort the rows as a tree, or leave that column out"
            )
        parents.append(open_rows[-1] if open_rows else -1)
        open_rows.append(row)
    count = depths.count(min(depths))
    if not said.startswith("the dashes") and 1 < count < len(depths) and [*depths] == sorted(depths):
        raise TaxonomyError(
            f"rows are sorted by their level ({said}), so that nothing says what each is below; sort them as "
            "a tree, or add a column of parents"
        )
    return parents
