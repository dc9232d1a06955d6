"""The terms of a loss that a table over relations describes: contrast of some relations with others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.pairs.implementation import asked
from labeltree.pairs.precision import full_precision
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity
from labeltree.pairs.statistics import pair_statistics
from labeltree.pairs.streaming import terms_tile
from labeltree.pairs.streaming.tiles import TILE, blocks

__all__ = ["masked_logsumexp", "relation_terms", "term_logsumexp", "weigh"]

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
    if plan.name in ("auto", "streaming") and similarity == "cosine" and not isinstance(temperature, Tensor):
        few = plan.tile or TILE
        if terms_tile.fits(embeddings, relation, temperature, scale, few):
            with full_precision(embeddings.device):
                return terms_tile.relation_terms(
                    embeddings, relation, temperature, positive, share, member, scale
                )
    statistics = pair_statistics(
        embeddings, embeddings, relation, geometry, temperature, similarity=similarity, scale=scale
    )
    count, total, lse = statistics.count, statistics.sum, statistics.lse
    assert count is not None
    assert total is not None
    assert lse is not None
    if scale is not None:
        total = total * scale
    attracted, shares = weigh(count, torch.cat([positive, share])).chunk(2, dim=1)
    return attracted * term_logsumexp(lse, member) - weigh(total, positive), shares


def masked_logsumexp(x: Tensor, mask: Tensor) -> Tensor:
    """log Σ exp(x) over the last dimension where `mask`; −∞ entries add nothing; 0 where nothing is left."""
    found: Tensor = _MaskedLogSumExp.apply(x, mask)
    return found


def term_logsumexp(lse: Tensor, member: Tensor) -> Tensor:
    """`masked_logsumexp` over the members `(T, R)` of each term, `(n, T)`, from `lse (n, R)`."""
    if len(member) == 1:
        return masked_logsumexp(lse, member[0])[:, None]
    # terms that differ in relations which no pair has are one and the same
    occurs = lse.detach().amax(0) > -torch.inf if len(lse) else torch.ones_like(member[0])
    distinct, of_term = torch.unique(member & occurs, dim=0, return_inverse=True)
    block = max(_ROOM // max(distinct.numel(), 1), 1)
    parts = [masked_logsumexp(lse[rows, None], distinct) for rows in blocks(len(lse), block)]
    found = torch.cat(parts) if parts else lse.new_empty((0, len(distinct)))
    return found[:, of_term]


def weigh(statistic: Tensor, weights: Tensor) -> Tensor:
    """Σ_r weights_tr·statistic_ir, `(n, T)`, in the weights' precision whatever autocast or TF32 say."""
    statistic = statistic.to(weights.dtype)
    if not statistic.requires_grad:
        return _product(statistic, weights)
    found: Tensor = _Product.apply(statistic, weights)
    return found


def _product(statistic: Tensor, weights: Tensor) -> Tensor:
    wide = torch.float64 if statistic.is_cuda else weights.dtype
    with full_precision(statistic.device):
        return (statistic.to(wide) @ weights.T.to(wide)).to(weights.dtype)


class _MaskedLogSumExp(torch.autograd.Function):
    """Few operations, of which the backward can be differentiated, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor) -> Tensor:
        found = torch.where(mask, x, -torch.inf).logsumexp(-1)
        found = found.masked_fill_(found == -torch.inf, 0.0)
        ctx.save_for_backward(x, mask, found)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, mask, found = ctx.saved_tensors
        share = torch.where(mask, x - found[..., None], -torch.inf).exp()
        return (share * grad[..., None]).sum_to_size(x.shape), None


class _Product(torch.autograd.Function):
    """statistic · weightsᵀ, a matrix product that autocast and TF32 do not round."""

    @staticmethod
    def forward(ctx: Any, statistic: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(weights)
        return _product(statistic, weights)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        return _Product.apply(grad, weights.T), None
