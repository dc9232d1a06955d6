"""What the explorer shows: the samples of an index at one of its versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from labeltree.decisions.searched_space import SpaceName
from labeltree.errors import DataError
from labeltree.evaluation import Reading
from labeltree.evaluation.representations import read
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["Collection", "Dials", "Found"]

Array = np.ndarray[Any, Any]
_JUDGED = ("test", "val")  # splits on which accuracy means something, the best first


@dataclass(frozen=True)
class Found:
    """What is nearest to one query.

    Attributes:
        rows: `(k,)` rows of the collection, nearest first.
        distances: `(k,)` in the geometry of the index.
        similarities: `(k,)`, greater is nearer.
    """

    rows: Array
    distances: Array
    similarities: Array


Nearest: TypeAlias = Callable[[Array, int, int | None], list[Found]]


@dataclass(frozen=True)
class Dials:
    """The dials of a posterior space.

    Attributes:
        tree: Where the run has it, from 0 to 1.
        instance: Likewise, from 0; at 0 it cannot be turned.
        nearest: From other positions of both to what finds the nearest samples there.
    """

    tree: float
    instance: float
    nearest: Callable[[float, float], Nearest]


@dataclass(frozen=True, eq=False)
class Collection:
    """Samples with their places in the taxonomy.

    Attributes:
        name: What people call it.
        ids: `(n,)` ids of the samples, text, unique.
        nodes: `(n,)` int64 labels, −1 where missing; the root says nothing of a sample either.
        taxonomy: Of the labels.
        vectors: `(n, d)` float32, points of the geometry; may be memory-mapped.
        nearest: Finds the `k` rows nearest to each of the vectors `(q, d)`, at or below a node (None:
            anywhere).
        geometry: `sphere`, `euclidean` or `poincare`.
        curvature: Of the Poincaré ball.
        space: Which of the model's vectors these are: its `embeddings`, or the `features` of its encoder.
        version: Of the index; whatever was computed of another version does not fit.
        splits: `(n,)` array of str, or None.
        predictions: `(n,)` int64 nodes that a model answered, −1 = none; or None.
        paths: `(n,)` image files, empty where there is none; or None.
        texts: `(n,)` texts, or None.
        dials: Of the space; None = it has none.
    """

    name: str
    ids: Array
    nodes: Array
    taxonomy: Taxonomy
    vectors: Array
    nearest: Nearest
    geometry: str = "sphere"
    curvature: float = -1.0
    space: SpaceName = "embeddings"
    version: str = "0"
    splits: Array | None = None
    predictions: Array | None = None
    paths: Array | None = None
    texts: Array | None = None
    dials: Dials | None = None

    def nearest_by(self, tree: float | None, instance: float | None) -> Nearest:
        """What finds the nearest samples with the dials at other positions; None: where the run has them.

        Raises:
            DataError: If there are no dials, or a position is out of range.
        """
        if tree is None and instance is None:
            return self.nearest
        if self.dials is None:
            raise DataError(
                f"'{self.name}' has no dials: they are those of the posterior space, which a run has with "
                "objective tree-ridge or space posterior"
            )
        places = (
            self.dials.tree if tree is None else tree,
            self.dials.instance if instance is None else instance,
        )
        try:
            return self.dials.nearest(*places)
        except ValueError as error:
            raise DataError(str(error)) from None

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each id."""
        return {str(one): row for row, one in enumerate(self.ids.tolist())}

    @cached_property
    def split_names(self) -> list[str]:
        """Names of the splits, in order of first appearance, at most 250."""
        return [] if self.splits is None else list(dict.fromkeys(self.splits.tolist()))[:250]

    @cached_property
    def judged(self) -> tuple[Array, str]:
        """Which rows accuracy is about, `(n,)` bool, and what to call them.

        A model knows its training samples, so these are the rows of `test`, else `val`, else all.
        """
        known = np.zeros(len(self), bool)
        if self.predictions is None:
            return known, ""
        known = (self.predictions >= 0) & (self.nodes > 0)
        for split in _JUDGED:
            if self.splits is not None and bool((known & (self.splits == split)).any()):
                return known & (self.splits == split), split
        return known, "all"

    @cached_property
    def right(self) -> Array:
        """`(n,)` bool: the prediction is the label or lies below it."""
        if self.predictions is None:
            return np.zeros(len(self), bool)
        ends = self.taxonomy.subtree_end.numpy()
        labels = np.maximum(self.nodes, 0)
        inside = (self.predictions >= labels) & (self.predictions < ends[labels])
        return np.asarray(inside & (self.nodes >= 0))

    def members(self, node: int) -> Array:
        """Rows whose label is the node or lies below it, in order; of the root, all rows."""
        if node == 0:
            return np.arange(len(self))
        end = int(self.taxonomy.subtree_end[node])
        return np.flatnonzero((self.nodes >= node) & (self.nodes < end))

    def reading(self, rows: Array) -> Reading:
        """Some rows as the report reads an embeddings table."""
        table = EmbeddingTable(
            embeddings=torch.from_numpy(np.array(self.vectors[rows], np.float32)),
            nodes=torch.from_numpy(np.array(self.nodes[rows], np.int64)),
            geometry=self.geometry,
            curvature=self.curvature,
        )
        return read(table, "embeddings")

    def far(self, node: int, others: Array) -> Tensor:
        """LCA-height dissimilarity `(k,)` of a label to others, NaN where one is missing or the root."""
        labels = torch.from_numpy(np.asarray(others, np.int64))
        apart = self.taxonomy.lca_height_dissimilarity(torch.tensor(max(node, 0)), labels.clamp(min=0))
        return torch.where((labels > 0) & (node > 0), apart.float(), torch.nan)
