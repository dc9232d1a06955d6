"""The dials of a posterior space: vectors of an index are compared as if solved with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from labeltree.errors import DataError
from labeltree.index.store import ServerStore, Store
from labeltree.ridge import TreeRidgeLoss

__all__ = ["turning"]

Array = np.ndarray[Any, Any]


def turning(
    store: Store, solver: TreeRidgeLoss | None, tree: float | None, instance: float | None
) -> Callable[[Array], Array]:
    """The function that makes vectors with other dials of stored ones; see `Index.with_dials`.

    Args:
        store: Of the index.
        solver: What the run has solved, if it has.
        tree: How much the taxonomy counts; None = as the run has it.
        instance: How much what tells samples of a class apart counts; None = likewise.

    Raises:
        DataError: If there are no dials, or the index lies on a server.
        ValueError: If a dial is out of range.
    """
    settings = store.settings
    if solver is None or settings.vectors != "embeddings" or settings.geometry != "cosine":
        raise DataError(
            f"the index '{store.name}' has no dials: they are those of the posterior space, which a run has "
            "with objective tree-ridge or space posterior"
        )
    if isinstance(store, ServerStore):
        raise DataError(f"the index '{store.name}' lies on a server, which compares vectors as stored")

    turn_points = solver.turning(tree=tree, instance=instance)

    def turn(vectors: Array) -> Array:
        turned: Array = turn_points(torch.from_numpy(np.array(vectors, np.float32))).float().numpy()
        return turned

    return turn
