"""Contrast with a queue under soft targets, over tiles of the queue."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from labeltree.pairs.dense import contrast as dense
from labeltree.pairs.implementation import Plan
from labeltree.pairs.queue_contrast import QueueContrast
from labeltree.pairs.relation import PairRelation

__all__ = ["soft_target_contrast"]


def soft_target_contrast(
    queries: Tensor, keys: Tensor, stored: Tensor, relation: PairRelation, *, plan: Plan, **options: Any
) -> QueueContrast:
    """As `labeltree.pairs.soft_target_contrast`."""
    return dense.soft_target_contrast(queries, keys, stored, relation, **options)
