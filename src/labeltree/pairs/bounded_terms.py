"""The primitive of the hierarchical constraint, whole, for small batches."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.pairs.implementation import asked
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity
from labeltree.pairs.streaming import bounded_tile
from labeltree.pairs.streaming.tiles import TILE

__all__ = ["bounded_terms"]


def bounded_terms(
    embeddings: Tensor,
    relation: PairRelation,
    temperature: float | Tensor,
    *,
    members: Tensor,
    positives: Tensor,
    similarity: Similarity = "cosine",
    detach_bound: bool = False,
) -> tuple[Tensor, Tensor] | None:
    """The row terms of `bounded_relation_loss` and the numbers of positives, `(n, T)` each.

    None where a batch is not one tile on a CPU; then `pair_statistics` and `bounded_sum` give the terms.

    Args:
        embeddings: `(n, d)`.
        relation: of the batch with itself, R codes.
        temperature: as in `pair_statistics`.
        members: `(T, R)` bool, the relations in the denominator of each term.
        positives: `(T, R)` bool, those that attract each other, of the members.
        similarity: as in `pair_statistics`.
        detach_bound: whether the bounds are constants for the gradient.
    """
    plan = asked()
    if plan.name not in ("auto", "streaming") or similarity != "cosine" or isinstance(temperature, Tensor):
        return None
    few = plan.tile or TILE
    if not bounded_tile.fits(embeddings, relation, float(temperature), positives, few):
        return None
    with torch.autocast(embeddings.device.type, enabled=False):
        return bounded_tile.bounded_terms(
            embeddings, relation, float(temperature), members, positives, detach_bound
        )
