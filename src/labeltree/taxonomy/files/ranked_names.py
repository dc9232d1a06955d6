"""Taxa as sequencing programs write them: `k__Bacteria; p__Firmicutes`, SILVA's lists, Kraken's reports."""

import re
from collections.abc import Sequence

from labeltree.taxonomy.files.entries import Entries, entries_from_paths
from labeltree.taxonomy.files.opened_file import WORKBOOKS, OpenedFile
from labeltree.taxonomy.naming import some

__all__ = ["entries_from_kraken_report", "entries_from_ranked_names"]

_RANKED = re.compile(r"(?:[a-z]{1,2}|D_\d+)__")
_CONFIDENCE = re.compile(r"\((?:100|\d{1,2})(?:\.\d+)?\)$")  # of RDP's classifier, and mothur's
_BETWEEN = re.compile(r"\s*[;|]\s*")
_KRAKEN = re.compile(r"\s*[\d.]+\t\d+\t\d+(?:\t\d+){0,2}\t([A-Z]\d*|-)\t(\d+)\t( *)(\S.*)")
_UNCLASSIFIED = "U"
_FEWEST = 2  # lines


def entries_from_ranked_names(file: OpenedFile) -> Entries | None:
    """Read paths whose names begin with their rank, `k__Bacteria; p__Firmicutes; c__`, or end in `;`.

    Or whose names have their confidences behind them, `Bacteria(100);Firmicutes(98);`.

    A name that is only a rank is left out. Aliases are names without their rank, and ids where each path has
    one. None if no column holds such paths.
    """
    rows = _cells(file)
    places = range(len(rows[0]) if rows else 0)
    place = next((place for place in places if _are_ranked(rows, place)), None)
    silva = [len(row) > 1 and row[0].endswith(";") and row[1].isdecimal() for row in rows]
    sure = next((place for place in places if _have_confidence(rows, place)), None)
    if place is not None:
        said = "names begin with their rank and '__', and are further names without"
    elif len(silva) >= _FEWEST and all(silva):
        place, said = 0, "names end in ';'"
    elif sure is not None:
        place, said = sure, "confidences in brackets, quotes and 'unclassified' are no names"
    else:
        return None
    first = 0 if _is_path(rows[0][place]) else 1
    paths, aliases, of_rows = [], [], []
    ids = _ids(rows[first:], place)
    for number, row in enumerate(rows[first:], first):
        names = _names(row[place])
        for end in range(1, len(names) + 1):
            plain = _RANKED.sub("", names[end - 1], count=1)
            paths.append(names[:end])
            aliases.append([plain, *([row[ids]] if ids is not None and end == len(names) else [])])
            of_rows.append(number)
    left = [str(at + 1) for at in range(len(rows[0])) if at not in (place, ids)]
    file.note(
        f"{said}; ranks without a name are left out"
        + (f"; column {ids + 1} holds ids, which are further names" if ids is not None else "")
        + (f"; not read: column {some(left)}" if left else "")
    )
    return entries_from_paths(paths, file.root_name, lambda row: f"line {of_rows[row] + 1}", aliases)


def _is_path(cell: str) -> bool:
    """Whether a cell of the first line is a path, and not the name of its column."""
    return bool(_RANKED.match(cell)) or cell.endswith(";") or _CONFIDENCE.search(cell) is not None


def _names(cell: str) -> list[str]:
    """The names of a path, without those that are only a rank or confidence, or unclassified at its end."""
    parts = [part for part in _BETWEEN.split(cell) if part]
    if all(map(_CONFIDENCE.search, parts)):
        parts = [_CONFIDENCE.sub("", part).strip('"') for part in parts]
        while parts and parts[-1].casefold() in ("unclassified", ""):
            parts.pop()
    return [part for part in parts if _RANKED.sub("", part, count=1)]


def _have_confidence(rows: Sequence[Sequence[str]], place: int) -> bool:
    """Whether a column holds paths of names with their confidences, `Bacteria(100);Firmicutes(98);`."""
    paths = [_BETWEEN.split(row[place].removesuffix(";")) for row in rows[1:]]
    return any(len(path) > 1 for path in paths) and all(
        _CONFIDENCE.search(name) for path in paths for name in path
    )


def _cells(file: OpenedFile) -> list[list[str]]:
    """The lines that are no comments, split at tabs or, in a table, at its separator."""
    if "__" not in file.start and ";" not in file.start:
        return []
    if file.suffix in (".csv", *WORKBOOKS):
        return [file.table.header, *file.table.rows] if "__" in file.start or file.suffix in WORKBOOKS else []
    rows = [line.split("\t") for _, line in file.lines if not line.startswith("#")]
    width = max(map(len, rows), default=0)
    return [[cell.strip() for cell in row] + [""] * (width - len(row)) for row in rows]


def _are_ranked(rows: Sequence[Sequence[str]], place: int) -> bool:
    """Whether a column holds paths of ranked names below its first row, and several names in one."""
    cells = [row[place] for row in rows[1:]]
    return (
        bool(cells)
        and all(_RANKED.match(cell) or cell == "Unassigned" for cell in cells)
        and any(len(_BETWEEN.split(cell)) > 1 for cell in cells)
        and all(
            _RANKED.match(name) for cell in cells for name in _BETWEEN.split(cell) if "__" in cell and name
        )
    )


def _ids(rows: Sequence[Sequence[str]], place: int) -> int | None:
    """The column of ids, if each path has one."""
    if len({row[place] for row in rows}) < len(rows):
        return None
    for other in range(len(rows[0])):
        if (
            other != place
            and len({row[other] for row in rows}) == len(rows)
            and all(row[other] for row in rows)
        ):
            return other
    return None


def entries_from_kraken_report(file: OpenedFile) -> Entries | None:
    """Read a report of Kraken: names are indented, and their numbers at NCBI are aliases.

    What is unclassified is left out. None if a line is something else.
    """
    text = file.text if _KRAKEN.match(file.start) else ""
    matches = [_KRAKEN.fullmatch(line.rstrip()) for line in text.split("\n") if line.strip()]
    if len(matches) < _FEWEST or not all(matches):
        return None
    names, parents, aliases = list[str](), list[int](), list[tuple[str, ...]]()
    open_nodes: list[tuple[int, int]] = []
    for match in matches:
        if match is None or match[1] == _UNCLASSIFIED:
            continue
        indent = len(match[3])
        while open_nodes and open_nodes[-1][0] >= indent:
            open_nodes.pop()
        parents.append(open_nodes[-1][1] if open_nodes else -1)
        open_nodes.append((indent, len(names)))
        names.append(match[4])
        aliases.append((match[2],))
    if parents.count(-1) > 1 and file.root_name is not None:
        names, aliases = [file.root_name, *names], [(), *aliases]
        parents = [-1, *(parent + 1 for parent in parents)]
    file.note("names are below others by their indentation; taxon numbers are further names, counts left out")
    children = [node for node, parent in enumerate(parents) if parent >= 0]
    return Entries(names, children, [parents[node] for node in children], aliases=aliases)
