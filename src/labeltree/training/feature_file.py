"""Features on disk, by row: computed once, whoever reads them later."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labeltree.atomic import temporary_beside
from labeltree.errors import DataError

__all__ = ["FeatureFile"]


class FeatureFile:
    """Features of the rows of a source, and which of them are there.

    The file begins with a byte a row, 1 where its features are there; the features ``(n, f)`` float32 follow.
    It takes disk for what is written and memory for what is read alone. A row is marked after its features
    are on disk, so a process that dies leaves rows out, and processes that write the same rows at once write
    the same.

    Args:
        path: of the file; it is made if it is missing or has another length.
        num_rows: n.
        width: f.

    Raises:
        DataError: if the file cannot be made.
    """

    def __init__(self, path: Path, num_rows: int, width: int) -> None:
        self._is = (path, num_rows, width)
        self._start = -(-num_rows // 64) * 64
        try:
            if not path.is_file() or path.stat().st_size != self._size:
                self._make()
            self._file = path.open("r+b")
            self._done = np.memmap(self._file, np.uint8, "r", 0, (num_rows,))
            self._features = np.memmap(self._file, np.float32, "r", self._start, (num_rows, width))
        except OSError as error:
            raise self._not_kept(error) from error

    @property
    def _size(self) -> int:
        _, num_rows, width = self._is
        return self._start + 4 * num_rows * width

    def _make(self) -> None:
        """An empty file in place of none, or of one of another length; one that just came stays."""
        path = self._is[0]
        with temporary_beside(path) as fresh:
            if path.is_file():
                path.unlink()
            with fresh.open("wb") as empty:
                empty.truncate(self._size)
            with contextlib.suppress(FileExistsError):
                os.link(fresh, path)

    def missing(self, rows: Tensor) -> Tensor:
        """Positions in ``rows`` of those that are not there."""
        return torch.from_numpy(np.flatnonzero(self._done[rows.numpy()] != 1))

    def load(self, rows: Tensor) -> Tensor:
        """Features ``(m, f)`` of the rows ``(m,)``.

        Raises:
            DataError: if some are not there, because the file was deleted meanwhile.
        """
        if len(self.missing(rows)):
            raise DataError(f"features have vanished from '{self._is[0]}'; the same command makes them again")
        return torch.from_numpy(self._features[rows.numpy()])

    def add(self, rows: Tensor, features: Tensor) -> None:
        """Keep the features ``(m, f)`` of further rows ``(m,)``.

        Raises:
            DataError: if there is no room.
        """
        if not len(rows):
            return
        order = rows.argsort()
        places = rows[order].numpy()
        values = np.ascontiguousarray(features[order].numpy(), dtype=np.float32)
        runs = np.split(np.arange(len(places)), np.flatnonzero(np.diff(places) != 1) + 1)
        try:
            for run in runs:
                self._file.seek(self._start + int(places[run[0]]) * values.itemsize * values.shape[1])
                self._file.write(values[run[0] : run[-1] + 1].tobytes())
            self._file.flush()
            os.fsync(self._file.fileno())
            for run in runs:
                self._file.seek(int(places[run[0]]))
                self._file.write(b"\1" * len(run))
            self._file.flush()
        except OSError as error:
            raise self._not_kept(error) from error

    def __getstate__(self) -> tuple[Path, int, int]:
        return self._is

    def __setstate__(self, state: tuple[Path, int, int]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def _not_kept(self, error: OSError) -> DataError:
        return DataError(
            f"features cannot be kept in '{self._is[0].parent}' ({error.strerror}); choose another cache "
            "folder with LABELTREE_DATA"
        )
