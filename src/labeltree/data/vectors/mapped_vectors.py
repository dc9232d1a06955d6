"""Vectors by row, from an array in memory or in a mapped file."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.errors import DataError
from labeltree.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["VectorStore", "check_numbers"]

Array = np.ndarray[Any, Any]
_AT_ONCE = 1 << 24  # numbers that are checked or digested at a time
_DIGEST = 16  # bytes, as the digests of other samples


def check_numbers(array: Array, what: str) -> Array:
    """Check that an array holds a vector a row, `(n, d)` real numbers, and return it.

    Raises:
        DataError: With what to write instead.
    """
    if array.ndim == 1:
        raise DataError(
            f"{what} holds {len(array):,} single values; vectors are rows of an array (n, d): for one number "
            "a sample write array[:, None], for a single sample array[None]"
        )
    if array.ndim != 2:
        shape = " × ".join(f"{size:,}" for size in array.shape)
        raise DataError(
            f"{what} has the shape {shape or '()'}; vectors are rows of an array (n, d): write "
            "array.reshape(len(array), -1), or a mean over the other axes"
        )
    if array.dtype.kind not in "fiub":
        raise DataError(f"{what} holds {array.dtype}, no real numbers; write it with .astype('float32')")
    if not array.size:
        raise DataError(f"{what} is empty ({len(array):,} rows of {array.shape[1]:,} numbers)")
    return array


class VectorStore:
    """Vectors by row.

    Args:
        array: `(n, d)` real numbers of any kind, in memory or mapped; given out as float32.
        what: Description of the array, for error messages.
        columns: Names of the d columns, for error messages; None = they have numbers.
        rows: The rows of the array that the store gives out, `(m,)`; None = all, in order.

    Raises:
        DataError: If the array does not hold a vector a row.
    """

    def __init__(
        self, array: Array, what: str, columns: tuple[str, ...] | None = None, rows: Array | None = None
    ) -> None:
        self._array = check_numbers(array, what)
        self._rows = rows
        self.what = what
        self.columns = columns

    @property
    def width(self) -> int:
        """Length of a vector."""
        return int(self._array.shape[1])

    def __len__(self) -> int:
        return len(self._array) if self._rows is None else len(self._rows)

    def take(self, rows: Array) -> VectorStore:
        """The store of some rows `(m,)`; no vector is copied."""
        if self._rows is None and np.array_equal(rows, np.arange(len(self._array))):
            return self
        rows = rows if self._rows is None else self._rows[rows]
        return VectorStore(self._array, self.what, self.columns, rows)

    def load(self, rows: Tensor) -> Tensor:
        """Vectors `(n, d)` float32 of the rows `(n,)`."""
        return torch.from_numpy(self._load(rows.numpy()))

    def _load(self, rows: Array) -> Array:
        at = rows if self._rows is None else self._rows[rows]
        with np.errstate(over="ignore"):  # told by `bad_rows`
            return np.asarray(self._array[at], np.float32, order="C")

    def bad_rows(self, place: Callable[[int], str] | None = None) -> tuple[Array, Array, str]:
        """The rows with a number that is not finite, `(m,)`.

        With the first such column of each, `(m,)`, and a clause on the first row.

        Args:
            place: Says where a row stands; None = rows are counted from 1.
        """
        bad, columns, told = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], ""
        for rows in self._parts():
            part = self._load(rows)
            fine = np.isfinite(part)
            here = np.flatnonzero(~fine.all(1))
            if len(here) and not told:
                column = int(fine[here[0]].argmin())
                at = rows[here[0]] if self._rows is None else self._rows[rows[here[0]]]
                raw = self._array[at, column]
                size = ", too large for 32 bits" if np.isfinite(raw) else ""
                name = f"column {column + 1}" if self.columns is None else f"'{self.columns[column]}'"
                told = f"{f'row {at + 1}' if place is None else place(at)} has {raw}{size} in {name}"
            bad.append(rows[here])
            columns.append(fine[here].argmin(1))
        return np.concatenate(bad), np.concatenate(columns), told

    def digests(self) -> Array:
        """Digests `(n, 16)` uint8 of the vectors, equal for equal numbers of whatever kind."""
        result = np.zeros((len(self), _DIGEST), np.uint8)
        for rows in self._parts():
            part = self._load(rows) + np.float32(0)  # 0 and -0 are equal
            joined = b"".join(hashlib.sha256(row.data).digest()[:_DIGEST] for row in part)
            result[rows] = np.frombuffer(joined, np.uint8).reshape(-1, _DIGEST)
        return result

    def _parts(self) -> list[Array]:
        size = max(1, _AT_ONCE // self.width)
        return np.split(np.arange(len(self)), range(size, len(self), size))

    def __getstate__(self) -> dict[str, Any]:
        """A mapped file is mapped again by loader processes, instead of being sent to them."""
        state, array = dict(self.__dict__), self._array
        if isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap):  # the whole, no part of it
            order = "C" if array.flags.c_contiguous else "F"
            state["_array"] = (array.filename, array.dtype, "r", array.offset, array.shape, order)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        array = state["_array"]
        self.__dict__.update(state)
        if isinstance(array, tuple):
            self._array = np.memmap(*array)
