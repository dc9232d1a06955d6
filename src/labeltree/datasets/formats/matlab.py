"""MATLAB files (level 5, all versions from 5 to 7): numbers, text, cells and structs.

Read here and not by SciPy, whose reader can end the process with a segmentation fault on a damaged file.
Source: MathWorks, "MAT-File Level 5 File Format".
"""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from labeltree.errors import DataError
from labeltree.safe_files import Reader

__all__ = ["read_matlab"]

_HEADER = 128
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_TEXTS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_MATRIX, _COMPRESSED = 14, 15
_CELL, _STRUCT, _CHAR = 1, 2, 4
_OF_NUMBERS = range(6, 16)
_COMPLEX = 0x800
_DEEPEST = 20
_LARGEST = 1 << 30  # bytes of what is compressed


class _Element(NamedTuple):
    """A part of a file: what its bytes are, and where the next one begins."""

    kind: int
    content: memoryview
    end: int


def read_matlab(file: Path) -> dict[str, Any]:
    """The variables of a MATLAB file by name, without axes of length 1.

    Texts are str, cells arrays of objects, structs arrays with named fields of objects. Variables of other
    classes (sparse, complex, functions) are left out.

    Raises:
        DataError: If it is missing, or damaged.
    """
    if not file.is_file():
        raise DataError(f"there is no '{file}'")
    reader = Reader("a MATLAB file", "unpack it again")
    with reader.reading(file, "it is damaged, or of another version than 5 to 7"):
        return _variables(file.read_bytes())


def _variables(data: bytes) -> dict[str, Any]:
    order = {b"IM": "<", b"MI": ">"}[data[126:128]]
    variables: dict[str, Any] = {}
    view, place = memoryview(data), _HEADER
    while place < len(view):
        element = _element(view, place, order)
        place = element.end
        if element.kind == _COMPRESSED:
            unpacker = zlib.decompressobj()
            unpacked = unpacker.decompress(element.content, _LARGEST)
            if not unpacker.eof:
                raise ValueError("a variable is cut off, or larger than is read")
            element = _element(memoryview(unpacked), 0, order)
        if element.kind == _MATRIX:
            name, value = _matrix(element.content, order, 0)
            if value is not None:
                variables[name] = value
    return variables


def _element(view: memoryview, place: int, order: str) -> _Element:
    """The element that begins here; small ones have their content within the tag."""
    (first,) = struct.unpack_from(f"{order}I", view, place)
    kind, size = first & 0xFFFF, first >> 16
    start = place + 4
    if not size:
        kind, (size,), start = first, struct.unpack_from(f"{order}I", view, place + 4), place + 8
    elif size > 4:
        raise ValueError("a small element is larger than its tag")
    if start + size > len(view):
        raise ValueError("an element is cut off")
    padded = place + 8 if start == place + 4 else start + (size if kind == _COMPRESSED else -(-size // 8) * 8)
    return _Element(kind, view[start : start + size], padded)


def _matrix(view: memoryview, order: str, depth: int) -> tuple[str, Any]:
    """Name and value of a matrix; None for one of a class that is not read."""
    if depth > _DEEPEST:
        raise ValueError("cells are nested too deeply")
    if not len(view):
        return "", np.zeros(0)
    flags = _element(view, 0, order)
    (flag,) = struct.unpack_from(f"{order}I", flags.content)
    sizes = _element(view, flags.end, order)
    shape = tuple(np.frombuffer(sizes.content, f"{order}i4").tolist())
    label = _element(view, sizes.end, order)
    name, place, kind = bytes(label.content).decode("latin-1"), label.end, flag & 0xFF
    if any(side < 0 for side in shape) or math.prod(shape) > max(len(view), 1):
        raise ValueError("a matrix has more elements than bytes")
    if flag & _COMPLEX or kind not in {_CELL, _STRUCT, _CHAR, *_OF_NUMBERS}:
        return name, None
    if kind == _CHAR:
        return name, _text(_element(view, place, order), shape, order)
    if kind in (_CELL, _STRUCT):
        return name, _collection(view, place, shape, order, depth, fields=kind == _STRUCT)
    part = _element(view, place, order)
    numbers = np.frombuffer(part.content, f"{order}{_NUMBERS[part.kind]}")
    return name, _squeeze(numbers.reshape(shape, order="F"))


def _text(part: _Element, shape: tuple[int, ...], order: str) -> Any:
    """A text, or an array of several, whose characters stand column by column."""
    coding = _TEXTS[part.kind]
    if coding in ("utf-16", "utf-32"):
        coding += "-le" if order == "<" else "-be"
    text = bytes(part.content).decode(coding)
    if math.prod(shape) != len(text) or len(shape) != 2 or shape[0] <= 1:
        return text
    return np.array(["".join(row) for row in np.array(list(text)).reshape(shape, order="F")])


def _collection(
    view: memoryview, place: int, shape: tuple[int, ...], order: str, depth: int, *, fields: bool
) -> Any:
    """An array of cells, or of structs, column by column."""
    names = [""]
    if fields:
        length = _element(view, place, order)
        listed = _element(view, length.end, order)
        (width,), place = struct.unpack_from(f"{order}i", length.content), listed.end
        content = bytes(listed.content)
        names = [
            content[start : start + width].partition(b"\0")[0].decode("latin-1")
            for start in range(0, len(content), width)
        ]
    values = np.empty((math.prod(shape), len(names)), dtype=object)
    for row in range(len(values)):
        for column in range(len(names)):
            element = _element(view, place, order)
            place = element.end
            values[row, column] = _matrix(element.content, order, depth + 1)[1]
    if not fields:
        return _squeeze(values[:, 0].reshape(shape, order="F"))
    records = np.empty(len(values), dtype=[(name, object) for name in names])
    for column, name in enumerate(names):
        records[name] = values[:, column]
    return _squeeze(records.reshape(shape, order="F"))


def _squeeze(array: np.ndarray[Any, Any]) -> Any:
    """Without axes of length 1; a single number or cell is what it holds."""
    squeezed = array.squeeze()
    return squeezed[()] if squeezed.ndim == 0 and squeezed.dtype.names is None else squeezed
