"""The store of an index as it is now, and what is computed once for each of its versions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from labeltree.index.exact import ExactMatrix, open_matrix
from labeltree.index.open_store import matrix_folders
from labeltree.index.store import Store, StoreChangedError

__all__ = ["CurrentStore", "PinnedStore", "TurnedStore"]

Array = np.ndarray[Any, Any]
T = TypeVar("T")
_TRIES = 10
_ROWS = 2**14  # of a block


class CurrentStore:
    """The newest version of a store. For several threads.

    Args:
        store: Where the rows lie.

    Attributes:
        store: The version that was read last.
        turn: What makes the vectors that are compared of those that are stored; None: they are these.
    """

    turn: Callable[[Array], Array] | None = None

    def __init__(self, store: Store) -> None:
        self.store = store
        self._matrix: tuple[Store, ExactMatrix] | None = None
        self._counted: tuple[Store, int] | None = None
        self._guard = threading.Lock()

    def latest(self) -> Store:
        """The store as it is now; a search goes on with the one that it began with."""
        with self._guard:
            self.store = self.store.latest()
            return self.store

    def read(self, read: Callable[[Store], T]) -> T:
        """What a function reads of the newest version; it begins anew where others change that meanwhile."""
        for _ in range(_TRIES - 1):
            with suppress(StoreChangedError):
                return read(self.latest())
        return read(self.latest())

    def matrix_of(self, store: Store) -> ExactMatrix:
        """The vectors of a version, opened once."""
        with self._guard:
            if self._matrix is None or self._matrix[0] is not store:
                self._matrix = store, open_matrix(store, *matrix_folders(store))
            return self._matrix[1]

    def count_of(self, store: Store) -> int:
        """How many rows a version has, counted once."""
        if self._counted is None or self._counted[0] is not store:
            self._counted = store, store.count()
        return self._counted[1]


class PinnedStore(CurrentStore):
    """One version of a store, which does not go on to newer ones: who holds it begins anew if it is gone.

    Args:
        current: Whose version it is, and whose matrix is used.
        store: The version.
    """

    def __init__(self, current: CurrentStore, store: Store) -> None:
        super().__init__(store)
        self._current = current
        self.turn = current.turn

    def latest(self) -> Store:
        """The version itself."""
        return self.store

    def read(self, read: Callable[[Store], T]) -> T:
        """What a function reads of the version."""
        return read(self.store)

    def matrix_of(self, store: Store) -> ExactMatrix:
        """See `CurrentStore`."""
        return self._current.matrix_of(store)


class TurnedStore(CurrentStore):
    """A store whose vectors are compared after a change that each undergoes alone.

    Args:
        current: Whose store it is.
        turn: Makes the vectors `(n, e)` float32 that are compared of stored ones `(n, d)`.
    """

    def __init__(self, current: CurrentStore, turn: Callable[[Array], Array]) -> None:
        super().__init__(current.store)
        self._current = current
        self.turn = turn
        self._turned: tuple[ExactMatrix, ExactMatrix] | None = None

    def matrix_of(self, store: Store) -> ExactMatrix:
        """The turned vectors of a version, in memory, computed once."""
        matrix = self._current.matrix_of(store)
        with self._guard:
            if self._turned is None or self._turned[0] is not matrix:
                assert self.turn is not None
                starts = range(0, max(len(matrix), 1), _ROWS)
                vectors = np.concatenate([self.turn(matrix.vectors[at : at + _ROWS]) for at in starts])
                squares = (vectors.astype(np.float64) ** 2).sum(1)
                self._turned = matrix, replace(matrix, vectors=vectors, squares=squares)
            return self._turned[1]
