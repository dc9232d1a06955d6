"""Pickles of arrays, lists and text: of all that such a file may name, only NumPy's arrays are ever made."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, BinaryIO

from labeltree.errors import DataError

__all__ = ["load_arrays"]


class _ArraysOnly(pickle.Unpickler):
    """Finds what an array of numbers is made of, under its names of all NumPy and Python versions."""

    def find_class(self, module: str, name: str) -> Any:
        found = _allowed().get((module.replace("numpy._core", "numpy.core"), name))
        if found is None:
            raise pickle.UnpicklingError(f"it names '{module}.{name}', which is no array")
        return found


def _allowed() -> dict[tuple[str, str], Callable[..., Any]]:
    import numpy as np

    reconstruct: Any = np.ndarray(0).__reduce__()[0]
    return {
        ("numpy.core.multiarray", "_reconstruct"): reconstruct,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): _plain_dtype,
        ("_codecs", "encode"): _as_bytes,
    }


def _plain_dtype(kind: Any, *rest: Any) -> Any:
    """A type of numbers; one of objects could hold anything."""
    import numpy as np

    text = kind.decode("ascii") if isinstance(kind, bytes) else kind
    if not isinstance(text, str) or text.lstrip("<>|=")[:1] not in tuple("biuf"):
        raise pickle.UnpicklingError(f"it has an array of type {kind!r}, not of numbers")
    return np.dtype(text, *rest)


def _as_bytes(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it has text in {encoding!r}")
    return text.encode("latin1")


def load_arrays(file: BinaryIO, name: str) -> dict[str, Any]:
    """The dictionary that a pickle of Python 2 or 3 holds; its keys as text.

    Args:
        file: The pickle.
        name: What errors call it.

    Raises:
        DataError: If it is damaged, holds anything but a dictionary of arrays, lists, numbers and text, or
            names anything else: nothing is run then.
    """
    try:
        found = _ArraysOnly(file, encoding="bytes").load()
    except MemoryError:
        raise
    except Exception as error:  # a damaged pickle makes the reader stumble over anything
        raise DataError(f"'{name}' cannot be read as a pickle of arrays: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"'{name}' holds a {type(found).__name__} where a dictionary was expected")
    return {
        key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key): found[key] for key in found
    }
