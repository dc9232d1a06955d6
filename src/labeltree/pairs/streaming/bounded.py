"""The bounded sum over tiles."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.pairs.dense import bounded as dense
from labeltree.pairs.implementation import Plan
from labeltree.pairs.relation import PairRelation

__all__ = ["bounded_sum"]


def bounded_sum(
    queries: Tensor,
    keys: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    *,
    plan: Plan,
    **options: Any,
) -> Tensor:
    """As `labeltree.pairs.bounded_sum`."""
    return dense.bounded_sum(queries, keys, relation, geometry, temperature, **options)
