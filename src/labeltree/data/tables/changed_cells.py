"""Write a table again with other texts in some cells and further columns; all other bytes or values stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.atomic import atomic_write
from labeltree.errors import DataError
from labeltree.file_kinds import PARQUET, RECORDS, SHEETS, TEXTS
from labeltree.text_files import find_encoding, split_packed
from labeltree.text_form import TextForm
from labeltree.text_tables import TextTable
from labeltree.workbooks import change_workbook

if TYPE_CHECKING:
    import pyarrow as pa

    from labeltree.data.table_columns import DataTable

__all__ = ["write_changed"]

Changed = Mapping[str, Mapping[int, str]]
Added = Mapping[str, Sequence[str]]


def write_changed(
    table: DataTable, out: Path, changed: Changed, added: Added, encoding: str | None, sheet: str | None
) -> None:
    """Write a table to another file of its kind.

    Args:
        table: What was read of it.
        out: The new file; it is there as a whole or not at all.
        changed: By column, the new texts of rows.
        added: The texts of new columns, for every row; empty where there is none.
        encoding: That it was read in, if it was named.
        sheet: The sheet that was read, if it was named.

    Raises:
        DataError: If the new file has another suffix, or the table is of a kind that is not written.
        ValueError: If a cell cannot be written.
    """
    kind, packing = split_packed(table.path)
    if packing or kind == ".zip":
        raise DataError(f"'{table.path}' is packed, and tables are written unpacked; unpack it")
    if split_packed(out) != (kind, ""):
        raise DataError(f"'{out}' is to be a table as '{table.path}' is; let its name end in {kind}")
    try:
        with atomic_write(out) as temporary:
            if kind in PARQUET:
                _write_parquet(table.whole, temporary, changed, added)
            elif kind in SHEETS:
                change_workbook(table.path, temporary, changed, added, sheet)
            else:
                data = table.path.read_bytes()
                if kind in TEXTS:
                    form = TextTable.at(table.path, encoding)
                    form.read()  # finds its encoding where the beginning does not tell it
                    data = _change_text(data, form.form, table.num_rows, changed, added)
                elif kind in RECORDS:
                    data = _change_records(data, encoding, table, changed, added)
                temporary.write_bytes(data)
    except UnicodeEncodeError as error:
        raise DataError(
            f"'{out}' cannot hold {error.object[error.start : error.end]!r}: '{table.path}' is "
            f"{error.encoding}; save that as UTF-8"
        ) from error
    except ValueError as error:
        raise DataError(f"'{table.path}' cannot be written anew: {error}") from error


def _change_text(data: bytes, form: TextForm, rows: int, changed: Changed, added: Added) -> bytes:
    coding = "utf-8" if form.encoding == "utf-8-sig" else form.encoding  # a byte order mark is a letter
    text = data.decode(coding)
    below = _skip_lines(text, form.skip)
    places = {name: form.header.index(name) for name in changed}
    mark = form.quote or '"'
    written = [text[:below]]
    row, header = -1, list[str]()
    for cells, end in _records(text[below:], form):
        if cells == [""] or (row >= 0 and cells == header):  # neither is a row
            written += [form.delimiter.join(cells), end]
            continue
        if row < 0:
            header, new = cells, list(added)
        else:
            new = [column[row] for column in added.values()]
            for name, place in places.items():
                if row in changed[name]:
                    cells[place] = _enclose(changed[name][row], cells[place], form, mark)
        row += 1
        written += [form.delimiter.join([*cells, *(_enclose(one, "", form, mark) for one in new)]), end]
    if row != rows:
        raise ValueError(f"{row:,} of its rows were told apart, and {rows:,} were read")
    return "".join(written).encode(coding)


def _skip_lines(text: str, count: int) -> int:
    """Where the text below so many lines begins."""
    place = 0
    for _ in range(count):
        line = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)").match(text, place)
        place = len(text) if line is None else line.end()
    return place


def _records(text: str, form: TextForm) -> Iterator[tuple[list[str], str]]:
    """The cells of each record as they stand there, with what encloses them, and the end of its line."""
    between, plain = re.escape(form.delimiter), "[^" + re.escape(form.delimiter) + r"\r\n]*"
    if form.quote is None:
        cell = re.compile(f"({plain})({between}|\r\n|\r|\n|$)")
    else:
        mark = re.escape(form.quote)
        cell = re.compile(
            f"((?:{mark}[^{mark}]*(?:{mark}{mark}[^{mark}]*)*{mark})?{plain})({between}|\r\n|\r|\n|$)"
        )
    place, cells = 0, list[str]()
    while place < len(text) or cells:
        match = cell.match(text, place)
        if match is None:
            raise ValueError("a cell of it is not closed")
        cells.append(match[1])
        place = match.end()
        if match[2] != form.delimiter:
            yield cells, match[2]
            cells = []


def _enclose(text: str, before: str, form: TextForm, mark: str) -> str:
    """A text as a cell, enclosed if the cell before was, or has to be."""
    if form.single and form.quote != "'" and before.strip().startswith("'"):
        return f"'{text}'"
    special = form.delimiter in text or any(sign in text for sign in "\r\n") or (mark != "" and mark in text)
    if special and form.quote is None:
        raise ValueError(f"its cells are not enclosed in quotes, and {text!r} would have to be")
    if special or (form.quote is not None and before.startswith(form.quote)):
        return mark + text.replace(mark, 2 * mark) + mark
    return text


def _change_records(
    data: bytes, encoding: str | None, table: DataTable, changed: Changed, added: Added
) -> bytes:
    """JSON Lines with other values; lines without any stay as they are."""
    coding = encoding or find_encoding(data, cut=False).encoding
    coding = "utf-8" if coding == "utf-8-sig" else coding
    lines = data.decode(coding).split("\n")  # texts may hold other ends of lines, such as U+2028
    if table.unit != "line":
        raise ValueError("its records are one list; write one a line (.jsonl)")
    for row, number in enumerate(table.numbers_of(np.arange(table.num_rows)).tolist()):
        new = {name: texts[row] for name, texts in changed.items() if row in texts}
        new |= {name: texts[row] for name, texts in added.items() if texts[row]}
        if not new:
            continue
        line = lines[number - 1]
        record = json.loads(line.removeprefix("\ufeff"))
        for name, text in new.items():
            _put(record, name, text)
        end = line[len(line.rstrip("\r")) :]
        lines[number - 1] = ("\ufeff" if line.startswith("\ufeff") else "") + _dump(record) + end
    return "\n".join(lines).encode(coding)


def _dump(record: Any) -> str:
    return json.dumps(record, ensure_ascii=False)


def _put(record: dict[str, Any], name: str, text: str) -> None:
    """Set a value by its name; `outer.inner` is that of a value within another."""
    while name not in record:
        outer = next(
            (key for key, value in record.items() if isinstance(value, dict) and name.startswith(f"{key}.")),
            None,
        )
        if outer is None:
            break
        record, name = record[outer], name.removeprefix(f"{outer}.")
    record[name] = text or None


def _write_parquet(table: pa.Table, path: Path, changed: Changed, added: Added) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [name.strip() for name in table.column_names]
    for name, texts in changed.items():
        place, field = names.index(name), table.schema.field(names.index(name))
        if not texts:
            continue
        values = [texts.get(row, value) for row, value in enumerate(table.column(place).to_pylist())]
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            kind, values = pa.string(), [None if value is None else str(value) for value in values]
        column = pa.array([value or None for value in values], kind)
        if pa.types.is_dictionary(field.type):
            column = column.dictionary_encode()
        table = table.set_column(place, field.with_type(column.type).with_nullable(True), column)
    for name, column in added.items():
        table = table.append_column(name, pa.array([text or None for text in column], pa.string()))
    pq.write_table(table, path)
