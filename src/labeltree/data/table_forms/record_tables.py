"""Tables of records in JSON: one a line (JSON Lines), or a list of them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.text_files import decode_text, find_encoding, open_unpacked, read_unpacked, split_packed

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_records"]

_START = 1 << 20  # bytes that tell the encoding
_LONGEST = 64 << 20  # characters of a line
_MOST = 512 << 20  # bytes of all
_UNPACKED = 64 << 20  # bytes of what is packed, or
_RATIO = 30  # so many times its bytes
_AT_ONCE = 1 << 14  # records that become a part of the table
_LARGEST_LIST = 128 << 20  # bytes of a list, which becomes objects as a whole
_COLUMNS = 10_000


def read_records(path: Path, suffix: str, encoding: str | None = None) -> tuple[pa.Table, list[int] | None]:
    """The records of a file as a table, a column for each name; values within values have `outer.inner`.

    With it the line of each record, unless they are one list.

    Args:
        path: The file, which may be packed.
        suffix: `.json`, a list of records, or columns as lists; else one a line, unless it is a list.
        encoding: Its encoding; None = found.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it holds something else; the message is the reason.
    """
    is_list = _is_list(path, suffix, encoding)
    records = _listed(path, encoding) if is_list else _lines(path, encoding)
    lines: list[int] = []
    parts: list[dict[str, list[Any]]] = []
    counts: list[int] = []
    columns: dict[str, None] = {}
    for number, (line, record) in enumerate(records):
        lines.append(line)
        if number % _AT_ONCE == 0:
            parts.append({})
            counts.append(0)
        cells = dict(_flat(record))
        columns.update(dict.fromkeys(cells))
        if len(columns) > _COLUMNS:
            raise ValueError(f"its records have more than {_COLUMNS:,} different names; {_WHAT}")
        for name, value in cells.items():
            column = parts[-1].setdefault(name, [])
            column.extend([None] * (counts[-1] - len(column)))
            column.append(value)
        counts[-1] += 1
    return _table(parts, counts, list(columns)), None if is_list else lines


_WHAT = 'a record is an object such as {"text": "…", "label": "…"}'


def _flat(record: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _is_list(path: Path, suffix: str, encoding: str | None) -> bool:
    """Whether a file is one value of JSON rather than one a line."""
    with open_unpacked(path) as file:
        start = file.read(_START)
    coding = encoding or find_encoding(start, cut=len(start) >= _START).encoding
    text = start.decode(coding, "ignore").removeprefix("\ufeff").lstrip()
    first, _, rest = text.partition("\n")
    if suffix != ".json":
        return text.startswith("[")
    try:
        return not (rest.strip() and isinstance(json.loads(first), dict))
    except (ValueError, RecursionError):
        return True


def _lines(path: Path, encoding: str | None) -> Iterator[tuple[int, Any]]:
    """The records of a file with one a line, each with its line."""
    with open_unpacked(path) as file:
        start = file.read(_START)
    coding = encoding or find_encoding(start, cut=len(start) >= _START).encoding
    _check_size(path)
    with open_unpacked(path) as file:
        text = io.TextIOWrapper(file, coding)
        for line_number, line in enumerate(iter(lambda: text.readline(_LONGEST), ""), 1):
            if len(line) >= _LONGEST:
                raise ValueError(f"line {line_number} is longer than {_LONGEST:,} characters")
            line = line.removeprefix("\ufeff").strip()
            if not line:
                continue
            record = _parsed(line, f"line {line_number}")
            if not isinstance(record, dict):
                raise ValueError(f"line {line_number} is not a record; {_WHAT}")
            yield line_number, record


def _check_size(path: Path) -> None:
    """Refuse what is too much for records one by one, before any is parsed."""
    size, packed = path.stat().st_size, bool(split_packed(path)[1])
    most = min(_MOST, max(_UNPACKED, _RATIO * size)) if packed else _MOST
    if packed:
        size = 0
        with open_unpacked(path) as file:
            while size <= most and (part := file.read(_START)):
                size += len(part)
    if size > most:
        raise ValueError(
            f"it has more than {most:,} bytes{' unpacked' if packed else ''}; write large tables as .parquet"
        )


def _listed(path: Path, encoding: str | None) -> Iterator[tuple[int, Any]]:
    content = _parsed(decode_text(read_unpacked(path, _LARGEST_LIST), encoding).text, "it")
    if isinstance(content, dict) and (columns := _columns(content)) is not None:
        content = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        content = lists[0] if len(lists) == 1 and len(content) <= 2 else content
    if not isinstance(content, list) or not content:
        raise ValueError(f"it is not a list of records; {_WHAT}")
    for number, record in enumerate(content):
        if not isinstance(record, dict):
            raise ValueError(f"entry {number + 1} of its list is not a record; {_WHAT}")
        yield number, record


def _columns(content: dict[str, Any]) -> dict[str, list[Any]] | None:
    """The columns of a table that is written column by column, as pandas does by default; else None."""
    columns: dict[str, list[Any]] = {}
    for name, values in content.items():
        if isinstance(values, dict) and list(values) == [str(row) for row in range(len(values))]:
            values = list(values.values())
        if not isinstance(values, list) or any(isinstance(value, dict) for value in values):
            return None
        columns[name] = values
    return columns if len(columns) > 1 and len({len(values) for values in columns.values()}) == 1 else None


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno} of it" if where == "it" else where
        raise ValueError(f"{line} is not JSON ({error.msg.lower()})") from error
    except RecursionError as error:
        raise ValueError(f"{where} is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"{where} has a whole number of more than 4,000 digits") from error


def _table(parts: list[dict[str, list[Any]]], counts: list[int], columns: list[str]) -> pa.Table:
    """A table of the parts; a column whose values are of several kinds holds texts."""
    import pyarrow as pa

    arrays: list[pa.ChunkedArray] = []
    for name in columns:
        lists = [
            [*part.get(name, []), *[None] * (count - len(part.get(name, [])))]
            for part, count in zip(parts, counts, strict=True)
        ]
        try:
            chunks = [pa.array(values) for values in lists]
            kinds = {chunk.type for chunk in chunks if not pa.types.is_null(chunk.type)}
            kind = kinds.pop() if len(kinds) == 1 else None if kinds else pa.string()
            arrays.append(pa.chunked_array([pa.array(values, kind or pa.float64()) for values in lists]))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            arrays.append(pa.chunked_array([pa.array(map(_text, values), pa.string()) for values in lists]))
    arrays = [array.cast(pa.string()) if pa.types.is_boolean(array.type) else array for array in arrays]
    return pa.Table.from_arrays(arrays, names=columns)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
