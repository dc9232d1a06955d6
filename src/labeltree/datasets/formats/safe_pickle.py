"""Read pickles of arrays, lists and text without looking up or calling anything that they name."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from labeltree.errors import DataError

__all__ = ["load_arrays"]


class _Kind:
    """Stands for an array's type: numbers alone, for one of objects could hold anything."""

    def __init__(self, kind: Any, *_: Any) -> None:
        text = kind.decode("ascii") if isinstance(kind, bytes) else kind
        if not isinstance(text, str) or text.lstrip("<>|=")[:1] not in tuple("biuf"):
            raise pickle.UnpicklingError(f"it has an array of type {kind!r}, not of numbers")
        self.dtype = np.dtype(text)

    def __setstate__(self, state: Any) -> None:
        order: Any = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """Stands for an array until its content comes. NumPy's own would take addresses from the file."""

    def __init__(self, *_: Any) -> None:
        self.array: np.ndarray[Any, Any] | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, is_fortran, content = state
        if not isinstance(kind, _Kind) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("it has an array that does not consist of numbers")
        numbers = np.frombuffer(content, kind.dtype)
        self.array = numbers.reshape(shape, order="F" if is_fortran else "C")


def _encode(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it has text in {encoding!r}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """How it writes none."""
    return b""


# Under the names of all NumPy and Python versions. An array's class is only ever an argument.
_KNOWN: dict[tuple[str, str], Callable[..., Any] | str] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _no_bytes,
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = _KNOWN.get((module.replace("numpy._core", "numpy.core"), name))
        if known is None:
            raise pickle.UnpicklingError(f"it names '{module}.{name}', which is not an array")
        return known


def load_arrays(file: BinaryIO, name: str) -> dict[str, Any]:
    """The dictionary that a pickle of Python 2 or 3 holds; its keys as text.

    Args:
        file: The pickle.
        name: Name of the file in error messages.

    Raises:
        DataError: If it is damaged, holds anything but a dictionary of arrays, lists, numbers and text, or
            names anything else: nothing is run then.
    """
    try:
        content = _ArraysOnly(file, encoding="bytes").load()
    except MemoryError:
        raise
    except Exception as error:  # a damaged pickle makes the reader stumble over anything
        raise DataError(f"'{name}' cannot be read as a pickle of arrays: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"'{name}' holds a {type(content).__name__} where a dictionary was expected")
    return {
        key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key): value.array
        if isinstance(value, _Array)
        else value
        for key, value in content.items()
    }
