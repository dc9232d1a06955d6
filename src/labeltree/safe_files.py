"""Read files that may be damaged or malicious: one reader per format, with one-sentence errors.

Nothing in a file is executed, and no reader uses much more memory than the size of the file: sizes claimed
by a header are checked before memory is allocated. The original exception of the library is kept as the
cause of the error.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
import struct
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import IO, TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from labeltree.errors import DataError, LabeltreeError
from labeltree.links import check_regular

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from torch import Tensor

__all__ = [
    "Reader",
    "check_unpacked",
    "fits",
    "matcher",
    "read_array",
    "read_arrays",
    "read_json",
    "read_parquet",
    "read_tensors",
    "read_text",
    "read_torch",
    "read_yaml",
    "stack_lists",
    "value_from_json",
    "value_from_yaml",
]

_LONGEST_TEXT = 1 << 30  # bytes of a text file that is read at once
_LONGEST_YAML = 16 << 20
_DEEPEST = 100  # levels of nesting in YAML
_MOST_VALUES = 200_000  # in a YAML file, with aliases expanded
_UNPACKED = 4 << 30  # unpacked bytes that are always allowed
_ROWS = 8192  # of a Parquet file that are read at once
_RATIO = 100  # allowed ratio of unpacked to packed size beyond that


@dataclass(frozen=True)
class Reader:
    """The wording of read errors: the expected kind of file, and a remedy.

    Attributes:
        what: Expected kind of file, completing "cannot be read as …".
        remedy: a clause that says what to do instead.
        error: Class of the error.
    """

    what: str
    remedy: str
    error: type[LabeltreeError] = DataError

    def failure(self, path: str | Path, reason: str) -> LabeltreeError:
        """Make an error that says in one sentence which file cannot be read, why, and what to do."""
        return self.error(f"'{path}' cannot be read as {self.what}: {reason}; {self.remedy}")

    @contextmanager
    def reading(self, path: str | Path, otherwise: str) -> Iterator[None]:
        """Convert any error caused by a broken file within the block to an error of this reader.

        Args:
            path: Path of the file.
            otherwise: Reason to give if the error has no plain explanation.
        """
        try:
            check_regular(path)
            yield
        except LabeltreeError:
            raise
        except _Unfit as error:
            raise self.failure(path, str(error)) from error
        except FileNotFoundError as error:
            raise self.error(f"there is no '{path}' to be read as {self.what}") from error
        except MemoryError as error:
            raise self.failure(path, "it asks for more memory than there is") from error
        except OSError as error:
            raise self.failure(path, _system_reason(error) or otherwise) from error
        except Exception as error:  # the libraries have no common error class
            raise self.failure(path, otherwise) from error


class _Unfit(Exception):
    """The reason, in plain words, why a file cannot be read."""


def _system_reason(error: OSError) -> str | None:
    """The system's reason why a file cannot be opened; None if the error is a library's."""
    if isinstance(error, IsADirectoryError):
        return "it is a folder"
    return error.strerror.lower() if error.errno is not None and error.strerror else None


def read_text(path: str | Path, reader: Reader) -> str:
    """Read a whole text file in UTF-8, without a byte order mark.

    Raises:
        LabeltreeError: Of the reader's class, if the file is missing, unreadable or not UTF-8.
    """
    with reader.reading(path, "it is not text"):
        size = Path(path).stat().st_size
        if size > _LONGEST_TEXT:
            raise _Unfit(f"it has {size:,} bytes, and {_LONGEST_TEXT:,} are the most that are read")
        data = Path(path).read_bytes()
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise _Unfit(f"line {line} is not text in UTF-8") from error


def value_from_json(text: str) -> Any:
    """Parse the value of a JSON text.

    Raises:
        ValueError: If it cannot be parsed; the message is only the reason, in plain words.
    """
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except _Unfit as error:
        raise ValueError(str(error)) from error
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno} is not JSON") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        raise ValueError("it has a whole number of more than 4,000 digits") from error


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object and refuse duplicate names, of which Python's parser would keep the last."""
    values = dict(pairs)
    if len(values) < len(pairs):
        again = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise _Unfit(f"it gives {again[:80]!r} twice within one object")
    return values


def read_json(path: str | Path, reader: Reader) -> dict[str, Any]:
    """Read the object in a JSON file: values by name.

    Raises:
        LabeltreeError: Of the reader's class, if the file is missing, unreadable, not JSON, or not an object.
    """
    return _named_values(path, reader, value_from_json)


def _named_values(path: str | Path, reader: Reader, parse: Callable[[str], Any]) -> dict[str, Any]:
    text = read_text(path, reader)
    try:
        content = parse(text)
    except ValueError as error:
        raise reader.failure(path, str(error)) from error
    if content is None or not text.strip():
        raise reader.failure(path, "it is empty")
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise reader.failure(path, "it does not hold values by name")
    return content


def value_from_yaml(text: str) -> Any:
    """Parse the value of a YAML text, of plain types.

    A text of a few lines can expand to billions of values by aliases of aliases, or be nested so deeply that
    the parser overflows the stack; both are detected before any value is built.

    Raises:
        ValueError: If it cannot be parsed; the message is only the reason, in plain words.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    if len(text) > _LONGEST_YAML:
        raise ValueError(f"it has {len(text):,} characters, and {_LONGEST_YAML:,} are the most that are read")
    try:
        _check_events(yaml.parse(text, Loader=loader))
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        tag = isinstance(error, yaml.constructor.ConstructorError) and "tag" in str(error.problem)
        reason = "has a tag of no plain value" if tag else "is not YAML"
        raise ValueError(reason if mark is None else f"line {mark.line + 1} {reason}") from error
    except _Unfit as error:
        raise ValueError(str(error)) from error
    except (ValueError, RecursionError, ArithmeticError, TypeError) as error:
        raise ValueError("it has an invalid number or date") from error


class _Names:
    """The names of one mapping, to refuse duplicates: YAML's parser would keep the last of them."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.name_is_next = True

    def follow(self, name: str | None, line: int) -> None:
        if self.name_is_next and name is not None and name != "<<":
            if name in self.lines:
                raise _Unfit(
                    f"line {line} gives {name[:80]!r} a second time; line {self.lines[name]} has it, too"
                )
            self.lines[name] = line
        self.name_is_next = not self.name_is_next


def _check_events(events: Iterator[Any]) -> None:
    """Check the number of expanded values of a YAML text, their nesting depth, and that names are unique."""
    import yaml

    sizes: dict[str, int | None] = {}  # sizes of anchored nodes; None while incomplete
    above: list[tuple[str | None, int]] = []  # open collections, with the number of values before them
    names: list[_Names | None] = []  # names in each open collection; None for a list
    count = 0
    for event in events:
        line = event.start_mark.line + 1
        if names and names[-1] is not None and isinstance(event, yaml.NodeEvent):
            name = event.value if isinstance(event, yaml.ScalarEvent) else None
            names[-1].follow(name, line)
        if isinstance(event, yaml.CollectionStartEvent):
            above.append((event.anchor, count))
            names.append(_Names() if isinstance(event, yaml.MappingStartEvent) else None)
            if len(above) > _DEEPEST:
                raise _Unfit(f"line {line} is nested more than {_DEEPEST} levels deep")
            if event.anchor is not None:
                sizes[event.anchor] = None
            count += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = above.pop()
            names.pop()
            if anchor is not None:
                sizes[anchor] = count - before
        elif isinstance(event, yaml.AliasEvent):
            size = sizes.get(str(event.anchor), 0)
            if size is None:
                raise _Unfit(f"line {line} has the alias *{event.anchor} within what it stands for")
            count += size
        elif isinstance(event, yaml.ScalarEvent):
            if event.anchor is not None:
                sizes[event.anchor] = 1
            count += 1
        if count > _MOST_VALUES:
            raise _Unfit(
                f"line {line}: it stands for more than {_MOST_VALUES:,} values, each alias counted with all "
                "that it stands for"
            )


def read_yaml(path: str | Path, reader: Reader) -> dict[str, Any]:
    """Read the mapping in a YAML file: values by name.

    Raises:
        LabeltreeError: Of the reader's class, if the file is missing, unreadable, not YAML, not a mapping,
            nested more than 100 levels deep, or expands to more than 200,000 values.
    """
    return _named_values(path, reader, value_from_yaml)


def read_arrays(
    path: str | Path, reader: Reader, only: Collection[str] | None = None, *, mapped: bool = False
) -> dict[str, np.ndarray[Any, Any]]:
    """Read the arrays of an `.npz` file by name; object arrays are refused.

    Args:
        path: Path of the file.
        reader: The wording of errors.
        only: Names of the arrays to read; None = all.
        mapped: Map the arrays that are not compressed (as `np.savez` writes them) instead of reading them.

    Raises:
        LabeltreeError: Of the reader's class, if the file is missing, damaged, or holds anything but arrays
            of numbers, booleans and text.
    """
    with (
        reader.reading(path, "it is damaged, or no file of NumPy arrays (.npz)"),
        zipfile.ZipFile(path) as archive,
    ):
        check_unpacked(path, archive)
        arrays = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if only is not None and name not in only:
                continue
            what = f"its array '{name[:100]}'"
            if mapped and member.compress_type == zipfile.ZIP_STORED:
                with Path(path).open("rb") as whole:
                    whole.seek(_start_of(whole, member))
                    arrays[name] = _map_array(whole, what, member.file_size)
            else:
                with archive.open(member) as file:
                    arrays[name] = _array(file, what, member.file_size)
        return arrays


def read_array(path: str | Path, reader: Reader, *, mapped: bool = False) -> np.ndarray[Any, Any]:
    """Read, or map, the array of an `.npy` file; object arrays are refused.

    Raises:
        LabeltreeError: Of the reader's class, as for `read_arrays`.
    """
    with reader.reading(path, "it is damaged, or no NumPy array (.npy)"), Path(path).open("rb") as file:
        return (_map_array if mapped else _array)(file, "its array", Path(path).stat().st_size)


def _start_of(file: IO[bytes], member: zipfile.ZipInfo) -> int:
    """Where the bytes of a member that is not compressed begin (APPNOTE 4.3.7)."""
    file.seek(member.header_offset)
    name, extra = struct.unpack("<26xHH", file.read(30))
    return int(member.header_offset + 30 + name + extra)


def _map_array(file: IO[bytes], what: str, size: int) -> np.ndarray[Any, Any]:
    """Map an array of `size` bytes in NumPy's format that begins where the file stands."""
    start = file.tell()
    shape, fortran_order, kind = _header(file, what, size)
    if not math.prod(shape):
        file.seek(start)
        return _array(file, what, size)
    order: Literal["C", "F"] = "F" if fortran_order else "C"
    return np.memmap(file.name, kind, "r", file.tell(), shape, order)


def _array(file: IO[bytes], what: str, size: int) -> np.ndarray[Any, Any]:
    """Read an array of `size` bytes in NumPy's format that begins where the file stands."""
    start = file.tell()
    _header(file, what, size)
    file.seek(start)
    return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _header(file: IO[bytes], what: str, size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and kind of an array, checked against its size in bytes; the file then stands behind."""
    start = file.tell()
    try:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else _later_header
        shape, fortran_order, kind = header(file)
    except Exception as error:
        raise _Unfit(f"{what} is damaged, or none") from error
    if kind.kind not in "biufUS":
        advice = ": save a column of texts with .astype(str), after .fillna('')" if kind.hasobject else ""
        raise _Unfit(f"{what} holds {kind.name[:100]}, neither numbers nor text{advice}")
    if any(length < 0 for length in shape) or math.prod(shape) * kind.itemsize != size - file.tell() + start:
        raise _Unfit(
            f"{what} should have {math.prod(shape) * kind.itemsize:,} bytes by its header, but has another "
            "length"
        )
    return shape, fortran_order, kind


def _later_header(file: IO[bytes]) -> Any:
    return np.lib.format.read_array_header_2_0(file)


def check_unpacked(path: str | Path, archive: zipfile.ZipFile) -> None:
    """Refuse an archive that would unpack to an excessive size."""
    unpacked, packed = sum(member.file_size for member in archive.infolist()), Path(path).stat().st_size
    if unpacked > max(_UNPACKED, _RATIO * packed):
        raise _Unfit(f"its {packed:,} bytes would become {unpacked:,}")


def fits(value: Any, kind: Any) -> bool:
    """Whether a value matches a type annotation, including all nested values.

    An int matches float, a bool matches neither; a list matches a tuple of any length.

    Example:
        >>> fits({"a": [1, 2.5]}, dict[str, list[float]]), fits([1, "2"], list[int])
        (True, False)
    """
    return matcher(kind)(value)


@cache
def matcher(kind: Any) -> Callable[[Any], bool]:
    """What says of a value whether it `fits` a type annotation, which is taken apart once."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: True
    if kind in (int, float):
        wanted = (int, np.integer) if kind is int else (int, float, np.number)
        return lambda value: isinstance(value, wanted) and not isinstance(value, bool)
    if origin is Literal:
        return lambda value: any(type(value) is type(part) and value == part for part in parts)
    if dataclasses.is_dataclass(kind):
        return _matcher_of_fields(kind)
    if origin in (Union, UnionType):
        either = [matcher(part) for part in parts]
        return lambda value: any(matches(value) for matches in either)
    if origin in (list, Sequence) or (origin is tuple and parts[-1:] == (...,)):
        item = matcher(parts[0])
        return lambda value: isinstance(value, list | tuple) and all(map(item, value))
    if origin is tuple:
        each = [matcher(part) for part in parts]
        return lambda value: (
            isinstance(value, list | tuple)
            and len(value) == len(each)
            and all(matches(item) for matches, item in zip(each, value, strict=True))
        )
    if origin in (dict, Mapping):
        key, content = map(matcher, parts)
        return lambda value: (
            isinstance(value, Mapping) and all(key(k) and content(v) for k, v in value.items())
        )
    return lambda value: isinstance(value, type(None) if kind is None else kind)


def _matcher_of_fields(kind: Any) -> Callable[[Any], bool]:
    """Fields are taken apart when there is a value: one may be of the kind itself."""
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    return lambda value: (
        isinstance(value, kind) and all(matcher(hints[name])(getattr(value, name)) for name in names)
    )


def _open(path: str | Path) -> IO[bytes]:
    """Open a file: the libraries' own errors about files that cannot be opened are less clear."""
    return Path(path).open("rb")


def read_tensors(path: str | Path, reader: Reader) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file by name.

    Raises:
        LabeltreeError: Of the reader's class, if the file is missing or damaged.
    """
    from safetensors.torch import load_file

    with reader.reading(path, "it is damaged, or no safetensors file"), _open(path):
        return load_file(path)


def read_torch(path: str | Path, reader: Reader) -> Any:
    """Read the tensors and plain values of a PyTorch file, on the CPU; nothing in it is executed.

    Raises:
        LabeltreeError: Of the reader's class, if the file is missing, damaged, or holds other objects.
    """
    import torch

    with reader.reading(path, "it is damaged, or no PyTorch file"):
        with _open(path) as file:
            packed = zipfile.is_zipfile(file)
        if packed:
            with zipfile.ZipFile(path) as archive:
                check_unpacked(path, archive)
        try:
            with warnings.catch_warnings(action="ignore"):
                return torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            raise _Unfit(
                "it is damaged, or holds more than tensors and plain values, which could run code"
            ) from error


def read_parquet(path: str | Path, reader: Reader) -> pa.Table:
    """Read the table of a Parquet file.

    Raises:
        LabeltreeError: Of the reader's class, if the file is missing or damaged.
    """
    import pyarrow.parquet as pq

    with reader.reading(path, "it is damaged, or no Parquet file"):
        size = Path(path).stat().st_size
        with _open(path), pq.ParquetFile(path) as file:
            cells = 8 * file.metadata.num_rows * file.metadata.num_columns
            if cells > max(_UNPACKED, _RATIO * size):
                raise _Unfit(f"its {size:,} bytes would become {cells:,} or more")
            table = _within(file, max(_UNPACKED, _RATIO * size), size)
        table.validate(full=True)
        return table


def stack_lists(column: pa.ChunkedArray, kind: Any = None) -> np.ndarray[Any, Any]:
    """The lists of a column of Arrow as one array `(n, d)`.

    Args:
        column: Lists of numbers or texts.
        kind: What the array holds; None = what the lists hold. The row of a missing list is NaN.

    Raises:
        ValueError: If they differ in length, or one is missing and there is no NaN; the message is a clause.
    """
    import pyarrow.compute as pc

    lengths = pc.list_value_length(column).fill_null(-1).to_numpy()
    there = lengths >= 0
    first = int(there.argmax()) if len(there) else 0
    width = int(lengths[first]) if there.any() else 0
    uneven = np.flatnonzero(there & (lengths != width))
    if len(uneven):
        raise ValueError(
            f"row {uneven[0] + 1} has {int(lengths[uneven[0]]):,} values, and row {first + 1} has {width:,}"
        )
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    kind = np.dtype(kind) if kind is not None else parts[0].dtype if parts else np.dtype(np.float32)
    if not there.all() and kind.kind != "f":
        raise ValueError(f"row {int(there.argmin()) + 1} is missing")
    result: np.ndarray[Any, Any] = np.full((len(lengths), width), np.nan if kind.kind == "f" else 0, kind)
    start = 0
    for chunk, part in zip(column.chunks if width else (), parts if width else (), strict=True):
        result[start + np.flatnonzero(there[start : start + len(chunk)])] = part.reshape(-1, width)
        start += len(chunk)
    return result


def _within(file: pq.ParquetFile, limit: int, size: int) -> pa.Table:
    """Read a table in parts: a long text that many rows have takes little space in the file."""
    import pyarrow as pa

    written = file.schema_arrow
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in written
    ]
    schema = pa.schema(fields, written.metadata)
    parts, read = [], 0
    for batch in file.iter_batches(batch_size=_ROWS):
        columns = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            for column in batch.columns
        ]
        parts.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        read += parts[-1].nbytes
        if read > limit:
            raise _Unfit(f"its {size:,} bytes would become more than {limit:,}")
    return pa.Table.from_batches(parts, schema)
