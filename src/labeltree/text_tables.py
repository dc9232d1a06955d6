"""Tables of text, read by Arrow: whole, or in batches of some megabytes."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from labeltree.counted_nouns import say_count
from labeltree.text_files import find_encoding, open_unpacked, split_packed
from labeltree.text_form import START, TextForm, find_text_form, list_record_lines, ragged_records

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TextTable", "cast_numbers", "parse_numbers"]

_BLOCK = 4 << 20  # bytes that are read at once where a table is not read as a whole
_LONGEST_ROW = 64 << 20  # bytes; Arrow takes blocks of this size
_UNPACKED = 256 << 20  # unpacked bytes that are always read as a whole
_RATIO = 30  # allowed ratio of unpacked to packed bytes beyond that
_SOUGHT = 256 << 20  # bytes among which what is no UTF-8 is sought
_COUNTED = 1000  # ragged rows that are counted
_DECIMAL_COMMA = re.compile(r"[+-]?(?:\d+|\d+,\d+|\d{1,3}(?:\.\d{3})+,\d+)(?:[eE][+-]?\d+)?")
_NO_LIST = re.compile(r"[+-].*|0,.*|\d+,0\d.*|.*[eE].*|.*\..*")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_UNEVEN = re.compile(r"Expected \d+ columns, got \d+")


class TextTable:
    """A table of text: a file, which may be packed, or a member of an archive.

    Args:
        name: Its name, for its suffix.
        open_file: Opens it.
        encoding: Its encoding; None = found.
        path: Its path, if it is a file.

    Attributes:
        form: How it is written.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it is empty, or its form cannot be told; the message is the reason.
    """

    def __init__(
        self,
        name: str,
        open_file: Callable[[], IO[bytes]],
        encoding: str | None = None,
        path: Path | None = None,
    ) -> None:
        self._open = open_file
        self._path = path
        with open_file() as file:
            start = b"".join(iter(_reads(file, START), b""))
        self.form = find_text_form(start, name, encoding)

    @classmethod
    def at(cls, path: Path, encoding: str | None = None) -> TextTable:
        """The table in a file."""
        suffix, _ = split_packed(path)
        return cls(f"table{suffix}", lambda: open_unpacked(path), encoding, path)

    def read(self) -> pa.Table:
        """All rows, as texts; an empty cell is missing.

        Raises:
            OSError: If it cannot be read.
            ValueError: If it is malformed, or unpacks to an excessive size; the message is the reason.
        """
        from pyarrow import csv as arrow_csv

        def read(form: TextForm) -> pa.Table:
            with self._input(whole=True) as source:
                return arrow_csv.read_csv(source, *_options(form, _LONGEST_ROW, threads=True))

        try:
            table = read(self.form)
        except (ValueError, UnicodeError) as error:
            if self.form.encoding != "utf-8" or "invalid UTF8" not in str(error):
                raise ValueError(self._reason(error)) from error
            self._find_encoding_again()
            table = read(self.form)
        return _unquote(table.rename_columns(list(self.form.header)), self.form)

    def row_lines(self, count: int) -> Sequence[int]:
        """The line on which each of the rows begins, of which there are `count`."""
        first = self.form.skip + 2
        if self._count_lines() == first - 1 + count:  # none is blank, and no cell has a line break
            return range(first, first + count)
        lines = list(self._record_lines())
        return lines if len(lines) == count else range(first, first + count)

    def list_lines(self) -> Iterator[int]:
        """The line on which each row begins, as of `row_lines`, before the rows are counted."""
        last = self.form.skip + 1
        for line in self._record_lines():
            yield (last := line)
        yield from itertools.count(last + 1)

    def _record_lines(self) -> Iterator[int]:
        import csv

        coding = "utf-8-sig" if self.form.encoding == "utf-8" else self.form.encoding
        with self._open() as file, contextlib.suppress(csv.Error):
            text = io.TextIOWrapper(file, coding, "replace", newline="")
            yield from list_record_lines(iter(lambda: text.readline(_LONGEST_ROW), ""), self.form)

    def _count_lines(self) -> int:
        """How many lines end with a line feed, and the rest after the last of them."""
        count, last = 0, b"\n"
        with self._open() as file:
            while part := file.read(_BLOCK):
                count += part.count(b"\n")
                last = part[-1:]
        return count + (last != b"\n")

    def header(self) -> pa.Table:
        """The columns without rows."""
        import pyarrow as pa

        empty: list[Any] = [pa.array([], pa.string())] * len(self.form.header)
        return pa.Table.from_arrays(empty, names=list(self.form.header))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches of some megabytes; for the errors see `read`."""
        from pyarrow import csv as arrow_csv

        try:
            with (
                self._input(whole=False) as source,
                arrow_csv.open_csv(source, *_options(self.form, _BLOCK, threads=False)) as reader,
            ):
                for batch in reader:
                    yield _unquote(batch.rename_columns(list(self.form.header)), self.form)
        except (ValueError, UnicodeError) as error:
            raise ValueError(self._reason(error)) from error

    def _input(self, *, whole: bool) -> Any:
        """What Arrow reads: a file itself, or its unpacked bytes."""
        import pyarrow as pa

        if self._path is not None and not split_packed(self._path)[1]:
            return pa.OSFile(str(self._path))
        limit = None
        if whole and self._path is not None:
            limit = max(_UNPACKED, _RATIO * self._path.stat().st_size)
        return pa.PythonFile(cast(IO[bytes], _Unpacked(self._open(), limit)), mode="r")

    def _find_encoding_again(self) -> None:
        """Find the encoding of a table whose beginning is UTF-8, but not all of it."""
        with self._open() as file:
            data = file.read(_SOUGHT)
        known = find_encoding(data, cut=len(data) >= _SOUGHT)
        form = find_text_form(data[:START], "table", known.encoding)
        told = (
            f"the text is not UTF-8 and was read as {known.encoding}; --table.encoding NAME says what it is"
        )
        self.form = replace(self.form, encoding=known.encoding, notes=(*form.notes, told))

    def _reason(self, error: Exception) -> str:
        """Arrow's error as the reason why the table cannot be read."""
        if isinstance(error, UnicodeError):
            return f"it is not {self.form.encoding} ({error}); --table.encoding NAME says what it is"
        reason = str(error).strip().splitlines()[0]
        if "invalid UTF8" in reason:
            return f"it is not UTF-8 ({reason}); save it as UTF-8, or say its encoding, --table.encoding NAME"
        if _UNEVEN.search(reason):
            return self._ragged() or "its rows have different numbers of cells, or quotes are not closed"
        if reason.startswith("it "):
            return reason
        return "it is not a table: a cell is not closed, or a row too long"

    def _ragged(self) -> str | None:
        """Which rows have not as many cells as the header."""
        import csv

        form = self.form
        with self._open() as file:
            text = io.TextIOWrapper(file, form.encoding, "replace", newline="")
            try:
                rows = ragged_records(iter(lambda: text.readline(_LONGEST_ROW), ""), form)
                rows_found = list(itertools.islice(rows, _COUNTED))
            except csv.Error:
                return None
        if not rows_found:
            return None
        line, cells = rows_found[0]
        count = f"{'at least ' * (len(rows_found) == _COUNTED)}{len(rows_found):,}"
        what = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "'|'"}.get(
            form.delimiter, form.delimiter
        )
        where = f" (line {form.skip + 1})" if form.skip else ""
        if {cells for _, cells in rows_found} == {len(form.header) + 1} and line == form.skip + 2:
            remedy = (
                "if all rows have one cell more, name that column in the header, or remove lines above it"
            )
        elif cells > len(form.header):
            remedy = f"enclose cells that hold {what} in double quotes"
        else:
            remedy = "fill in the cells that are missing"
        return (
            f"line {line} has {say_count(cells, 'cell')} where the header{where} has "
            f"{len(form.header)} ({count} such {'row' if len(rows_found) == 1 else 'rows'}); {remedy}"
        )


def cast_numbers(texts: pa.ChunkedArray) -> np.ndarray[Any, Any] | None:
    """A column of texts as numbers `(n,)` float64, NaN where one is blank; None if some are no numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        texts = pc.utf8_trim_whitespace(texts)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    texts = pc.if_else(pc.equal(texts, ""), None, texts)
    try:
        return np.asarray(texts.cast(pa.float64()).to_numpy())
    except pa.ArrowInvalid:
        encoded = texts.combine_chunks().dictionary_encode()
        numbers = parse_numbers(encoded.dictionary.to_pylist())
        if None in numbers:
            return None
        codes = encoded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
        by_row: np.ndarray[Any, Any] = np.array([*numbers, np.nan], np.float64)[codes]
        return by_row


def parse_numbers(texts: Sequence[str], *, may_be_lists: bool = False) -> list[float | None]:
    """The number that each text of a column is, None for one that is not a number.

    Commas are decimal (`-0,25`, `1.299,00`) if all texts with a comma can be read so, and one only so:
    where each comma may separate thousands (`1,299`), or points are decimal in other cells, texts with commas
    are no numbers.

    Args:
        texts: The texts.
        may_be_lists: Whether the texts may be lists, such as `3,17` for the classes 3 and 17: then one must
            be no list, by a sign, a nought in front (`0,5`) or behind the comma (`1,05`), or an exponent.
    """
    plain = [_plain_number(text) for text in texts]
    with_comma = [text for text in texts if "," in text]
    if not all(map(_DECIMAL_COMMA.fullmatch, with_comma)) or all(map(_THOUSANDS.fullmatch, with_comma)):
        return plain
    if may_be_lists and not any(map(_NO_LIST.fullmatch, with_comma)):
        return plain
    numbers = []
    for text, number in zip(texts, plain, strict=True):
        if _DECIMAL_COMMA.fullmatch(text):
            number = float(text.replace(".", "").replace(",", "."))
        elif number is not None and math.isfinite(number):
            return plain
        numbers.append(number)
    return numbers


def _plain_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _reads(file: IO[bytes], size: int) -> Callable[[], bytes]:
    """Reads a file until some bytes have come, since files that unpack give fewer at once."""
    left = size

    def read() -> bytes:
        nonlocal left
        data = bytes(file.read(left)) if left else b""
        left -= len(data)
        return data

    return read


@dataclass
class _Unpacked:
    """Bytes that are unpacked while they are read, up to a limit."""

    file: IO[bytes]
    limit: int | None
    closed: bool = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = bytes(self.file.read(size))
        if self.limit is not None:
            self.limit -= len(data)
            if self.limit < 0:
                raise ValueError(
                    "it unpacks to more than what such a file usually holds; unpack it, and give the table"
                )
        return data

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self.file.close()

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether one can go back in it."""
        return False

    def writable(self) -> bool:
        """Whether it can be written."""
        return False


def _options(form: TextForm, block: int, *, threads: bool) -> tuple[Any, Any, Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    encoding = "utf8" if form.encoding in ("utf-8", "utf-8-sig") else form.encoding
    return (
        arrow_csv.ReadOptions(block_size=block, use_threads=threads, skip_rows=form.skip, encoding=encoding),
        arrow_csv.ParseOptions(
            delimiter=form.delimiter,
            quote_char=form.quote or False,
            newlines_in_values=form.quote is not None,
        ),
        # Only an empty cell is missing: "NA" and "null" may be names, and 01 is another name than 1.
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(form.raw, pa.string()), null_values=[""], strings_can_be_null=True
        ),
    )


def _unquote(rows: Any, form: TextForm) -> Any:
    """The rows without single quotes around cells, if the header has such."""
    import pyarrow.compute as pc

    if not form.single or form.quote == "'":
        return rows
    cells = [pc.replace_substring_regex(column, "^'(.*)'$", r"\1") for column in rows.columns]
    return type(rows).from_arrays(cells, names=rows.schema.names)
