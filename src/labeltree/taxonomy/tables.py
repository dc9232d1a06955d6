"""CSV and TSV tables: edges (columns child and parent, perhaps name) or paths (one column per depth)."""

import csv
import io
from collections.abc import Callable, Hashable

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.build import Entries, entries_from_edges, entries_from_paths

__all__ = ["entries_from_table", "rows_of", "table_from_entries"]

Where = Callable[[int], str]


def entries_from_table(text: str, root_name: str | None = "root") -> Entries:
    """Read a table whose first line names its columns; tabs, commas or semicolons part them.

    Columns `child` and `parent` (and `name`, where these are ids) make it a table of edges, an empty parent
    marking the root. Otherwise each column is a depth, coarse to fine, and each row a path, whose finest
    cells may be empty.

    Raises:
        TaxonomyError: if a row does not fit the columns, or the rows form no tree; with the line.
    """
    header, rows, lines = rows_of(text)

    def where(row: int) -> str:
        return f"line {lines[row]}"

    columns = [name.casefold() for name in header]
    if "child" in columns and "parent" in columns:
        return _edges(columns, rows, where)
    for row in rows:
        if row[0] == header[0]:
            raise TaxonomyError(
                f"line 1 reads like data: {header[0]!r} stands below it again; name the columns in line 1"
            )
    return entries_from_paths(([cell or None for cell in row] for row in rows), root_name, where)


def rows_of(text: str) -> tuple[list[str], list[list[str]], list[int]]:
    """The column names of a table, its rows without the empty ones, and the line of each."""
    first = text.lstrip("\r\n ").split("\n", 1)[0]
    delimiter = next((mark for mark in "\t,;" if mark in first), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, lines = [], []
    try:
        for cells in reader:
            row = [cell.strip() for cell in cells]
            if any(row):
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise TaxonomyError(f"line {reader.line_num}: not readable as a table: {error}") from None
    header, rows, lines = rows[0], rows[1:], lines[1:]
    while not header[-1]:
        header.pop()
    if not rows:
        raise TaxonomyError("there is only one line; the first names the columns, the tree follows below")
    for row, line in zip(rows, lines, strict=True):
        if any(row[len(header) :]):
            raise TaxonomyError(f"line {line} has {len(row)} cells for {len(header)} columns")
        row[:] = row[: len(header)] + [""] * (len(header) - len(row))
    return header, rows, lines


def _edges(columns: list[str], rows: list[list[str]], where: Where) -> Entries:
    if sorted(columns) not in (["child", "parent"], ["child", "name", "parent"]):
        raise TaxonomyError(
            f"a table of edges has the columns child, parent and perhaps name, not {', '.join(columns)}"
        )
    child, parent = columns.index("child"), columns.index("parent")
    pairs = [(row[child], row[parent] or None) for row in rows]
    names: dict[Hashable, object] | None = None
    if "name" in columns:
        names = {row[child]: row[columns.index("name")] for row in rows}
    return entries_from_edges(pairs, names=names, where=where)


def table_from_entries(entries: Entries, delimiter: str) -> str:
    """Write a table of edges, the root first; where a name repeats, with numbers and a column of names."""
    names, parents = entries
    out = io.StringIO(newline="")
    write = csv.writer(out, delimiter=delimiter, lineterminator="\n").writerow
    if len(set(names)) == len(names):
        write(["child", "parent"])
        for name, parent in zip(names, parents, strict=True):
            write([name, names[parent] if parent >= 0 else ""])
    else:
        write(["child", "parent", "name"])
        for node, (name, parent) in enumerate(zip(names, parents, strict=True)):
            write([node, parent if parent >= 0 else "", name])
    return out.getvalue()
