"""What a search finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Hits"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Hits:
    """The m samples found for one query, nearest first; m is smaller than k if there are fewer.

    Attributes:
        ids: `(m,)` texts.
        distances: `(m,)` float64, in the geometry: 1 - cosine, Euclidean, or geodesic distance.
        similarities: `(m,)` float64: the cosine, or the negative distance.
        nodes: Labels `(m,)` int64, -1 where missing.
        rows: Columns asked for by name, each a list of m values, None where missing.
        lca_depths: `(m,)` int64, depth of the lowest common ancestor of the query's label and the hit's; -1
            where the hit has no label. None if the query has none.
    """

    ids: list[str]
    distances: Array
    similarities: Array
    nodes: Array
    rows: Mapping[str, list[Any]] = field(default_factory=dict)
    lca_depths: Array | None = None

    def __len__(self) -> int:
        return len(self.ids)
