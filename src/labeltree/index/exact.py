"""Exact search: a memory-mapped matrix of all vectors, and a copy of the columns, made from one version.

A query is compared with all rows by a matrix product in float32. Rows that its rounding could hide from the k
nearest are compared again in float64, so the answer is that of comparing all in float64, ties in the order of
the rows.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.atomic import new_folder_in, writing
from labeltree.errors import WriteError
from labeltree.index.distances import FastScores, cosine_factors, distances
from labeltree.index.filters import Filter
from labeltree.index.index_rows import vectors_from_arrow
from labeltree.index.store import VECTOR_COLUMNS, Store
from labeltree.index.stored_columns import read_columns
from labeltree.options.choices import IndexGeometry

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ExactMatrix", "delete_matrices", "keep_matrix", "open_matrix"]

Array = np.ndarray[Any, Any]
_BLOCK = 2**24  # scores at once
_ROWS = 2**16  # rows of a block
_GATHERED = 2**18  # numbers of vectors that are copied at a time
_ARRAYS = ("vectors", "rows", "nodes", "squares")
_COLUMNS = "columns.arrow"
_FILES = (*(f"{name}.npy" for name in _ARRAYS), _COLUMNS)
_NOT_COPIED = ("row", "node", *VECTOR_COLUMNS)


@dataclass(frozen=True)
class ExactMatrix:
    """The n vectors of one version of an index, in the order of their rows.

    Attributes:
        vectors: `(n, d)` float32.
        rows: Numbers of the rows `(n,)` int64, ascending.
        nodes: Labels `(n,)` int64.
        squares: Squared lengths `(n,)` float64.
        columns: Arrow table of the n ids and of all columns but labels and vectors, a file in memory: reading
            a few rows of it takes microseconds, where the store looks through its own files.
    """

    vectors: Array
    rows: Array
    nodes: Array
    squares: Array
    columns: pa.Table

    def __len__(self) -> int:
        return len(self.rows)

    def nearest(
        self,
        geometry: IndexGeometry,
        queries: Array,
        k: int,
        *,
        curvature: float = -1.0,
        among: Array | None = None,
    ) -> list[tuple[Array, Array]]:
        """The k nearest rows of each query.

        Args:
            geometry: Of the vectors.
            queries: `(q, d)` float32.
            k: How many; fewer are returned if there are not so many.
            curvature: Of the Poincaré ball.
            among: Positions of the rows to search among, ascending; None: all.

        Returns:
            For each query positions `(m,)` and distances `(m,)` float64, nearest first, ties in order.
        """
        total = len(self) if among is None else len(among)
        k = min(k, total)
        if k < 1:
            return [(np.zeros(0, np.int64), np.zeros(0)) for _ in queries]
        step = max(1, min(len(queries), _BLOCK // min(_ROWS, total)))
        nearest: list[tuple[Array, Array]] = []
        for at in range(0, len(queries), step):
            some = queries[at : at + step]
            candidates = self._candidates(FastScores(geometry, some, curvature), len(some), k, among, total)
            for query, positions in zip(some, candidates, strict=True):
                values = distances(geometry, query, self.vectors[positions], curvature)
                order = np.lexsort((positions, values))[:k]
                nearest.append((positions[order], values[order]))
        return nearest

    def _candidates(
        self, score: FastScores, num_queries: int, k: int, among: Array | None, total: int
    ) -> list[Array]:
        """For each query the positions of rows that may be among its k nearest."""
        factors = self._factors
        kept = [_Kept(k) for _ in range(num_queries)]
        limits = np.full(num_queries, np.inf)
        for at in range(0, total, _ROWS):
            here: Any = slice(at, min(at + _ROWS, total)) if among is None else among[at : at + _ROWS]
            products = score.products(self.vectors[here]) if among is None else self._gathered(score, here)
            scores, errors = score(products, self.squares[here], factors[here])
            positions = np.arange(at, at + scores.shape[1]) if among is None else here
            spread = np.broadcast_to(errors, scores.shape)
            with np.errstate(invalid="ignore"):
                near = ~(scores > limits[:, None] + errors)  # what float32 cannot tell, NaN, stays
            for query in range(num_queries):
                places = np.flatnonzero(near[query])
                if len(places):
                    kept[query].add(positions[places], scores[query, places], spread[query, places])
                    limits[query] = kept[query].limit
        return [one.positions() for one in kept]

    def _gathered(self, score: FastScores, positions: Array) -> Array:
        """Products with rows that lie apart; few are copied at a time, so that they stay in the processor."""
        step = max(1, _GATHERED // self.vectors.shape[1])
        rows = np.empty((min(step, len(positions)), self.vectors.shape[1]), np.float32)
        parts = []
        for at in range(0, len(positions), step):
            some = positions[at : at + step]
            parts.append(score.products(np.take(self.vectors, some, 0, rows[: len(some)], mode="clip")))
        return np.concatenate(parts, axis=1)

    def labelled(self, chosen: Filter) -> Array:
        """Positions of the rows whose labels pass a filter, ascending."""
        if chosen.within is not None and not chosen.not_within:
            order, nodes = self._node_order
            parts = [order[slice(*np.searchsorted(nodes, ends))] for ends in chosen.within]
            if sum(map(len, parts)) <= len(self) // 8:  # else a look at all labels takes no longer
                return (
                    np.sort(parts[0]) if len(parts) == 1 else np.unique(np.concatenate([order[:0], *parts]))
                )
        return np.flatnonzero(chosen.mask_of_nodes(self.nodes))

    @cached_property
    def _factors(self) -> Array:
        return cosine_factors(self.squares)

    @cached_property
    def _node_order(self) -> tuple[Array, Array]:
        """Positions in the order of labels, and these labels."""
        order = np.argsort(self.nodes, kind="stable")
        return order, self.nodes[order]


class _Kept:
    """Candidates of one query, with the smallest and the largest value that each score may have."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._positions = np.zeros(0, np.int64)
        self._least = np.zeros(0)
        self._most = np.zeros(0)
        self.limit = np.inf
        """No row whose score is certainly above it is among the k nearest."""

    def add(self, positions: Array, scores: Array, errors: Array) -> None:
        with np.errstate(invalid="ignore"):
            least, most = scores.astype(np.float64) - errors, scores.astype(np.float64) + errors
        unknown = ~(np.isfinite(least) & np.isfinite(most))
        least[unknown], most[unknown] = -np.inf, np.inf
        self._positions = np.concatenate([self._positions, positions])
        self._least = np.concatenate([self._least, least])
        self._most = np.concatenate([self._most, most])
        if len(self._most) >= self._k:
            self.limit = float(np.partition(self._most, self._k - 1)[self._k - 1])
            stays = self._least <= self.limit
            self._positions, self._least, self._most = (
                self._positions[stays],
                self._least[stays],
                self._most[stays],
            )

    def positions(self) -> Array:
        return self._positions


_opening = threading.Lock()


def open_matrix(store: Store, *folders: Path) -> ExactMatrix:
    """The matrix of a store's version, from the first of some folders, where it is made if it is not there.

    It is made in a folder of another name, which is then renamed; if two processes do so at once, one of them
    takes the matrix of the other. Matrices of older versions are deleted. The next folder is taken if the
    first cannot be written, because an index may lie on a read-only disk.
    """
    try:
        return _open_matrix(store, folders[0])
    except WriteError as error:
        if len(folders) == 1 or error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        return open_matrix(store, *folders[1:])


def _open_matrix(store: Store, folder: Path) -> ExactMatrix:
    with _opening:
        target = folder / f"{store.settings.key}-{store.version}"
        if (there := _read(target)) is not None:
            return there
        with writing(folder), new_folder_in(folder) as new:
            _write(store, new / "matrix")
            made = _read(new / "matrix")  # mapped, it stays if a process with a newer version deletes it
            try:
                os.rename(new / "matrix", target)
            except OSError:  # another process was faster, or left something damaged
                if (there := _read(target)) is not None:
                    return there
                os.rename(target, new / "damaged")
                os.rename(new / "matrix", target)
        _delete_older(folder, store)
        if made is None:
            raise OSError(f"'{target}' changed while it was written; run it again")
        return made


def keep_matrix(before: Store, after: Store, *folders: Path) -> None:
    """Take the matrix of one version for a later one that has the same rows, if there is one."""
    for folder in folders:
        with _opening, suppress(OSError):  # it is made anew, else
            old, new = (folder / f"{store.settings.key}-{store.version}" for store in (before, after))
            old.rename(new)


def _write(store: Store, folder: Path) -> None:
    folder.mkdir()
    n, dim = store.count(), store.settings.dim
    columns: dict[str, Array] = {"rows": np.empty(n, np.int64), "nodes": np.empty(n, np.int64)}
    at = 0
    for batch in store.scan(["row", "node"]):
        columns["rows"][at : at + len(batch)] = batch.column("row").to_numpy()
        columns["nodes"][at : at + len(batch)] = batch.column("node").to_numpy()
        at += len(batch)
    order = np.argsort(columns["rows"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    squares = np.empty(n)
    vectors = _allocated(folder / "vectors.npy", (n, dim))
    for batch in store.scan(["row", "vector"]):
        if len(batch):
            values = vectors_from_arrow(batch.column("vector"))
            places = np.searchsorted(columns["rows"], batch.column("row").to_numpy())
            vectors[places] = values
            squares[places] = (values.astype(np.float64) ** 2).sum(1)
    vectors.flush()
    del vectors
    for name, column in {**columns, "squares": squares}.items():
        np.save(folder / f"{name}.npy", column)
    _write_columns(store, columns["rows"], folder / _COLUMNS)
    sizes = {name: (folder / name).stat().st_size for name in _FILES}
    (folder / "sizes.json").write_text(json.dumps(sizes))
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _allocated(path: Path, shape: tuple[int, int]) -> np.memmap[Any, Any]:
    """A mapped file that has its place on the disk: one that got full later would kill the process."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(path)) from error
    return array


def _write_columns(store: Store, rows: Array, path: Path) -> None:
    """Copy the columns of texts and numbers, in the order of `rows` `(n,)`."""
    import pyarrow as pa

    names = [name for name in store.schema.names if name not in _NOT_COPIED]
    table = read_columns(store, ["row", *names], None)
    order = np.argsort(table["row"].to_numpy())
    table = table.select(names)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        for at in range(0, len(rows), _ROWS):
            writer.write_table(table.take(order[at : at + _ROWS]).combine_chunks())


def _read(folder: Path) -> ExactMatrix | None:
    """The matrix in a folder; None if it is missing or incomplete."""
    import pyarrow as pa

    try:
        sizes = json.loads((folder / "sizes.json").read_text())
        if any((folder / name).stat().st_size != sizes[name] for name in _FILES):
            return None
        rows, nodes, squares = (np.load(folder / f"{name}.npy", allow_pickle=False) for name in _ARRAYS[1:])
        vectors = _mapped(folder / "vectors.npy", len(rows))
        columns = pa.ipc.open_file(pa.memory_map(str(folder / _COLUMNS))).read_all()
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowInvalid):
        return None
    return ExactMatrix(vectors, rows, nodes, squares, columns)


def _mapped(path: Path, n: int) -> Array:
    if n == 0:  # nothing can be mapped
        return np.asarray(np.load(path, allow_pickle=False))
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def delete_matrices(folder: Path) -> None:
    """Delete the matrices of all versions in a folder; the next search makes that of its version anew."""
    for old in folder.iterdir() if folder.is_dir() else ():
        if old.is_dir() and (old / "sizes.json").is_file():
            shutil.rmtree(old)


def _delete_older(folder: Path, store: Store) -> None:
    for old in folder.iterdir():
        key, _, version = old.name.rpartition("-")
        is_matrix = old.is_dir() and not old.name.startswith(".") and version.isdigit()
        if is_matrix and (key != store.settings.key or int(version) < store.version):
            shutil.rmtree(old, ignore_errors=True)
