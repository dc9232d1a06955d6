"""The dials of a posterior space: vectors of an index are compared as if solved with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from labeltree.errors import DataError
from labeltree.index.store import ServerStore

if TYPE_CHECKING:
    from labeltree.index.index import Index

__all__ = ["turning"]

Array = np.ndarray[Any, Any]


def turning(index: Index, tree: float | None, instance: float | None) -> Callable[[Array], Array]:
    """The function that makes vectors with other dials of those of an index; see `Index.with_dials`.

    Raises:
        DataError: If the index has no dials, lies on a server, or its run is gone or has changed.
        ValueError: If a dial is out of range.
    """
    settings = index.settings
    solver = None
    if index.model is not None and settings.vectors == "embeddings" and settings.geometry == "cosine":
        solver = index.open_model().network.objective.solver
    if solver is None:
        raise DataError(
            f"the index '{index.where}' has no dials: they are those of the posterior space, which a run has "
            "with objective tree-ridge or space posterior"
        )
    if isinstance(index._store, ServerStore):
        raise DataError(f"the index '{index.where}' lies on a server, which compares vectors as stored")

    def turn(vectors: Array) -> Array:
        points = torch.from_numpy(np.array(vectors, np.float32))
        turned: Array = solver.turn(points, tree=tree, instance=instance).float().numpy()
        return turned

    turn(np.zeros((1, settings.dim), np.float32))  # wrong dials are told at once
    return turn
