"""A taxonomy file that is being read: its text, lines, table or JSON, each made when a reader asks for it."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.nested import Pairs, data_from_yaml
from labeltree.taxonomy.naming import compose_twins, twins_sentence
from labeltree.text_files import decode_text, open_unpacked, read_unpacked, split_packed, unpacked_chunks
from labeltree.text_form import find_text_form
from labeltree.workbooks import read_sheet

__all__ = [
    "LINES_OF_JSON",
    "START",
    "WORKBOOKS",
    "FileTable",
    "OpenedFile",
    "read_text",
    "table_of_text",
]

WORKBOOKS = (".xlsx", ".xlsm")
LINES_OF_JSON = (".jsonl", ".ndjson")
START = 1 << 16
"""Bytes by which a form is recognised."""
_LONGEST_START = 1 << 20  # characters by which the form of a table is found
T = TypeVar("T")


class FileTable(NamedTuple):
    """The column names of a table, its rows without the empty ones, and the line or sheet row of each."""

    header: list[str]
    rows: list[list[str]]
    lines: list[int]
    is_sheet: bool = False

    def where(self, row: int) -> str:
        """How an error names a row, given its number from 0."""
        number = self.lines[row]
        return f"row {number}" if self.is_sheet else f"line {number}"


class OpenedFile:
    """A taxonomy file, and what its readers need to know.

    Args:
        path: The file; packed if its last suffix says so.
        root_name: Name of the root above nested names or paths; None if they begin with the root.
        several_parents: Whether a node may have more than one parent.

    Attributes:
        suffix: The suffix in lower case, without that of the packing.
        notes: What the reader decided that another one could have decided otherwise, a sentence each.
    """

    def __init__(
        self, path: str | os.PathLike[str], root_name: str | None = "root", several_parents: bool = True
    ) -> None:
        self.path = Path(path)
        self.root_name = root_name
        self.several_parents = several_parents
        self.suffix = split_packed(path)[0]
        self.notes: list[str] = []

    @classmethod
    def from_text(cls, text: str, suffix: str, root_name: str | None = "root") -> Self:
        """A file of that suffix that would hold this text."""
        file = cls(f"text{suffix}", root_name)
        file.text, file.start = text, text[:START]
        return file

    def note(self, sentence: str) -> None:
        """Add a note, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    @cached_property
    def start(self) -> str:
        """The beginning of the text, by which a form is recognised; what is no text is replaced."""
        data = self._read(lambda: _first_bytes(self.path))
        try:
            return decode_text(data).text
        except ValueError:
            return data.decode("utf-8", "replace")

    def chunks(self) -> Iterator[bytes]:
        """The bytes, unpacked, piece by piece.

        Raises:
            TaxonomyError: If it is missing, unreadable, or its packing is damaged.
        """
        pieces = unpacked_chunks(self.path)
        while piece := self._read(lambda: next(pieces, b"")):
            yield piece

    @cached_property
    def text(self) -> str:
        """The whole text.

        Raises:
            TaxonomyError: If it is missing, unreadable, empty, or its encoding is not recognised.
        """
        decoded = self._read(lambda: decode_text(read_unpacked(self.path)))
        if not decoded.text.strip():
            raise TaxonomyError("the file is empty")
        if decoded.is_guess:
            self.note(
                f"it is not UTF-8 and was read as {decoded.encoding}; if names look wrong, save it as UTF-8"
            )
        return decoded.text

    @cached_property
    def lines(self) -> list[tuple[int, str]]:
        """The lines that are not blank, without surrounding white space, each with its number from 1."""
        numbered = enumerate(self.text.split("\n"), start=1)
        return [(number, line.strip()) for number, line in numbered if line.strip()]

    @cached_property
    def lines_below_comments(self) -> list[tuple[int, str]]:
        """The lines below those at the top that begin with `#`, if there are others; a note says so."""
        first = next((at for at, (_, line) in enumerate(self.lines) if not line.startswith("#")), 0)
        if first == 0 or len(self.lines) - first < 2:
            return self.lines
        lines = self.lines[first:]
        if any(line.startswith("#") for _, line in lines):
            lines = [(number, line) for number, line in lines if not line.startswith("#")]
            if len(lines) < 0.5 * len(self.lines):
                return self.lines
            self.note("lines that begin with '#' are comments")
        else:
            self.note(
                "line 1 is a comment, by its '#'" if first == 1 else f"{first} lines with '#' are comments"
            )
        return lines

    @cached_property
    def table(self) -> FileTable:
        """The text as a table; see `table_of_text`."""
        if self.suffix in WORKBOOKS:
            table, notes = self._read(self._sheet)
        else:
            table, notes = table_of_text(self.text, f"table{self.suffix}")
        for sentence in notes:
            self.note(sentence)
        composed = compose_twins(cell for row in table.rows for cell in row)
        if not composed:
            return table
        self.note(twins_sentence(composed))
        return _composed(table, composed)

    def _sheet(self) -> tuple[FileTable, tuple[str, ...]]:
        sheet = read_sheet(self.path)
        table = sheet.as_texts()
        columns = [[cell or "" for cell in column.to_pylist()] for column in table.columns]
        rows = [list(row) for row in zip(*columns, strict=True)]
        if not rows:
            raise ValueError("there is only one row; the first names the columns, the tree follows below")
        return FileTable(list(table.column_names), rows, sheet.numbers, is_sheet=True), sheet.notes

    @cached_property
    def json(self) -> Any:
        """The text as JSON, objects as `Pairs`; of JSON Lines, a list of what the lines hold.

        Raises:
            TaxonomyError: If it is not JSON, or nested too deeply.
        """
        if self.suffix in LINES_OF_JSON:
            return [_parse_json(line, number) for number, line in self.lines]
        return _parse_json(self.text, 1)

    @cached_property
    def data(self) -> Any:
        """The text as JSON or, by its suffix, YAML, objects as `Pairs`; None if it is no YAML of texts."""
        if self.suffix in (".json", ".jsonld", *LINES_OF_JSON):
            return self.json
        text = self.text
        try:
            return data_from_yaml(text)
        except TaxonomyError:
            return None

    def _read(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except FileNotFoundError:
            raise TaxonomyError("there is no such file") from None
        except OSError as error:
            raise TaxonomyError(f"the file cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise TaxonomyError(str(error)) from None


def _parse_json(text: str, first: int) -> Any:
    """What a text holds whose first line has that number."""
    try:
        return json.loads(text, object_pairs_hook=Pairs)
    except json.JSONDecodeError as error:
        line = first + error.lineno - 1
        raise TaxonomyError(f"line {line}: not readable as JSON: {error.msg}") from None
    except RecursionError:
        raise TaxonomyError(
            "nested too deeply for JSON; write the tree as edges, a .csv of child,parent"
        ) from None
    except ValueError:
        raise TaxonomyError("not readable as JSON: it has a whole number of more than 4,000 digits") from None


def _first_bytes(path: Path) -> bytes:
    with open_unpacked(path) as file:
        return file.read(START)


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a taxonomy file; see `OpenedFile.text`. All errors name the file."""
    try:
        return OpenedFile(path).text
    except TaxonomyError as error:
        raise TaxonomyError(f"{path}: {error}") from None


def table_of_text(text: str, name: str) -> tuple[FileTable, tuple[str, ...]]:
    """A text as a table, and notes on what stands above its header.

    What separates cells, and which line is the header, is found as for tables of samples (`find_text_form`).

    Args:
        text: The text.
        name: Name of the file; its suffix says which separator is tried first.

    Raises:
        TaxonomyError: If it is not readable as a table, or has only one line.
    """
    try:
        form = find_text_form(text[:_LONGEST_START].encode("utf-8"), name, "utf-8")
    except ValueError as error:
        raise TaxonomyError(f"not readable as a table: {error}") from None
    lines = io.StringIO(text, newline="")
    for _ in range(form.skip):
        lines.readline()
    reader = csv.reader(
        lines,
        delimiter=form.delimiter,
        quotechar=form.quote or '"',
        quoting=csv.QUOTE_NONE if form.quote is None else csv.QUOTE_MINIMAL,
        strict=True,
    )
    rows, numbers = [], []
    try:
        for cells in reader:
            row = [_unquoted(cell.strip(), form.single) for cell in cells]
            if any(row):
                rows.append(row)
                numbers.append(form.skip + reader.line_num)
    except csv.Error as error:
        raise TaxonomyError(f"line {form.skip + reader.line_num}: not readable as a table: {error}") from None
    header, rows, numbers = rows[0], rows[1:], numbers[1:]
    width = max((place for row in rows for place, cell in enumerate(row, 1) if cell), default=0)
    while len(header) > width and not header[-1]:
        header.pop()
    if not rows:
        raise TaxonomyError("there is only one line; the first names the columns, the tree follows below")
    for row, number in zip(rows, numbers, strict=True):
        if any(row[len(header) :]):
            raise TaxonomyError(f"line {number} has {len(row)} cells for {len(header)} columns")
        row[:] = row[: len(header)] + [""] * (len(header) - len(row))
    return FileTable(header, rows, numbers), form.notes


def _composed(table: FileTable, composed: Mapping[str, str]) -> FileTable:
    """The table with composed cells, and of rows that thereby are the same only the first."""
    rows = [[composed.get(cell, cell) for cell in row] for row in table.rows]
    seen: dict[tuple[str, ...], list[str]] = {}
    kept = [
        place
        for place, (row, given) in enumerate(zip(rows, table.rows, strict=True))
        if seen.setdefault(tuple(row), given) == given
    ]
    return table._replace(rows=[rows[place] for place in kept], lines=[table.lines[place] for place in kept])


def _unquoted(cell: str, single: bool) -> str:
    return cell[1:-1].strip() if single and len(cell) > 1 and cell[0] == cell[-1] == "'" else cell
