"""The terms of a loss that a table over relations describes: contrast of some relations with others."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.pairs.implementation import asked, planned
from labeltree.pairs.logsumexp import masked_logsumexp
from labeltree.pairs.precision import full_precision
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity
from labeltree.pairs.statistics import pair_counts, pair_statistics
from labeltree.pairs.streaming import terms_tile
from labeltree.pairs.streaming.tiles import TILE, blocks
from labeltree.pairs.summary import PairStatistics, Statistic

__all__ = ["denominators", "relation_terms", "term_logsumexp", "weigh"]

_ROOM = 1 << 18  # entries of a table (rows, terms, relations): what a second-level cache holds


def relation_terms(
    embeddings: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    *,
    positive: Tensor,
    share: Tensor,
    member: Tensor,
    scale: Tensor | None = None,
    similarity: Similarity = "cosine",
) -> tuple[Tensor, Tensor]:
    """The row terms of a batch against itself, and their normalisers, `(n, T)` each.

    With count_ir the keys in relation r to anchor i, sum_ir their similarities s_ik, and
    LSE_it = log Σ_{k: member_t(r_ik)} exp(ω(r_ik)·s_ik):

        row_it   = Σ_r positive_t(r)·(count_ir·LSE_it − ω(r)·sum_ir)
        share_it = Σ_r share_t(r)·count_ir

    Args:
        embeddings: `(n, d)`.
        relation: of the batch with itself, R codes.
        geometry: as in `pair_statistics`.
        temperature: likewise.
        positive: `(T, R)` weights; what has any is a member.
        share: `(T, R)` weights in the normaliser.
        member: `(T, R)` bool, the relations in the denominator of each term.
        scale: `(R,)` ω; None: 1.
        similarity: as in `pair_statistics`.
    """
    plan = asked()
    learned = positive.requires_grad or share.requires_grad or isinstance(temperature, Tensor)
    if plan.name in ("auto", "streaming") and similarity == "cosine" and not learned:
        few = plan.tile or TILE
        if terms_tile.fits(embeddings, relation, float(temperature), scale, few):
            with full_precision(embeddings.device):
                return terms_tile.relation_terms(
                    embeddings, relation, float(temperature), positive, share, member, scale
                )
    count, denominator, statistics = denominators(
        embeddings,
        relation,
        geometry,
        temperature,
        member,
        want={"sum"},
        scale=scale,
        similarity=similarity,
    )
    assert statistics.sum is not None
    total = statistics.sum if scale is None else statistics.sum * scale
    attracted, shares = weigh(count, torch.cat([positive, share])).chunk(2, dim=1)
    return attracted * denominator - weigh(total, positive), shares


def denominators(
    embeddings: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    member: Tensor,
    *,
    want: AbstractSet[Statistic],
    scale: Tensor | None = None,
    similarity: Similarity = "cosine",
) -> tuple[Tensor, Tensor, PairStatistics]:
    """The counts `(n, R)`, LSE_it of `relation_terms` `(n, T)`, 0 without members, and what else is wanted.

    Mostly every pair of a batch is a member of every term. Then relations need not be told apart.

    Args:
        embeddings: as in `relation_terms`.
        relation: likewise.
        geometry: likewise.
        temperature: likewise.
        member: likewise.
        want: further statistics.
        scale: as in `relation_terms`.
        similarity: likewise.
    """
    options: dict[str, Any] = {"similarity": similarity, "scale": scale}
    pairs = embeddings, embeddings, relation, geometry, temperature
    if planned(embeddings.device, len(embeddings) ** 2).name == "streaming":
        count = pair_counts(relation)  # a sum over subtrees
        if bool((member | (count.sum(0) == 0)).all()):
            statistics = pair_statistics(*pairs, **options, want=want | {"lse_all"})
            assert statistics.lse_all is not None
            lse = torch.where(statistics.lse_all != -torch.inf, statistics.lse_all, 0.0)
            return count, lse[:, None].expand(-1, len(member)), statistics
    statistics = pair_statistics(*pairs, **options, want=want | {"count", "lse"})
    assert statistics.count is not None
    assert statistics.lse is not None
    return statistics.count, term_logsumexp(statistics.lse, member), statistics


def term_logsumexp(lse: Tensor, member: Tensor) -> Tensor:
    """`masked_logsumexp` over the members `(T, R)` of each term, `(n, T)`, from `lse (n, R)`."""
    if len(member) == 1:
        return masked_logsumexp(lse, member[0])[:, None]
    # terms that differ in relations which no pair has are one and the same
    occurs = lse.detach().amax(0) != -torch.inf if len(lse) else torch.ones_like(member[0])
    distinct, of_term = torch.unique(member & occurs, dim=0, return_inverse=True)
    block = max(_ROOM // max(distinct.numel(), 1), 1)
    parts = [masked_logsumexp(lse[rows, None], distinct) for rows in blocks(len(lse), block)]
    found = torch.cat(parts) if parts else lse.new_empty((0, len(distinct)))
    return found[:, of_term]


def weigh(statistic: Tensor, weights: Tensor) -> Tensor:
    """Σ_r weights_tr·statistic_ir, `(n, T)`, in the weights' precision whatever autocast or TF32 say."""
    statistic = statistic.to(weights.dtype)
    if not (statistic.requires_grad or weights.requires_grad):
        return _product(statistic, weights)
    found: Tensor = _Product.apply(statistic, weights)
    return found


def _product(statistic: Tensor, weights: Tensor) -> Tensor:
    wide = torch.float64 if statistic.is_cuda else weights.dtype
    with full_precision(statistic.device):
        return (statistic.to(wide) @ weights.T.to(wide)).to(weights.dtype)


class _Product(torch.autograd.Function):
    """statistic · weightsᵀ, a matrix product that autocast and TF32 do not round."""

    @staticmethod
    def forward(ctx: Any, statistic: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(statistic if weights.requires_grad else None, weights)
        return _product(statistic, weights)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        statistic, weights = ctx.saved_tensors
        wanted, learned = ctx.needs_input_grad
        of_statistic = _Product.apply(grad, weights.T) if wanted else None
        return of_statistic, _Product.apply(grad.T, statistic.T) if learned else None
