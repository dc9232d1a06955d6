"""The terms of HWC, SupCon, HiMulCon and their like, for a small batch, for tiles, or any pairs."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Geometry, Sphere
from labeltree.pairs.manual_gradient import gradient_alone, unit_rows
from labeltree.pairs.pair_plan import asked
from labeltree.pairs.pair_results import Statistic
from labeltree.pairs.primitives import bounded_sum, pair_statistics, way_of
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity, at_least_single, full_precision
from labeltree.pairs.tiles import small_batches
from labeltree.pairs.tiles.contrast import Contrast
from labeltree.pairs.tiles.grid import TILE, blocks, grid_of
from labeltree.pairs.tiles.walk import walk
from labeltree.pairs.tiles.weighted import KindRelation, WeightedContrast, rows_by_kind
from labeltree.taxonomy.relations import INSTANCE, SAME, UNKNOWN

__all__ = ["bounded_terms", "masked_logsumexp", "relation_terms", "term_bounds", "weigh", "weighted_terms"]

_ROOM = 1 << 18  # entries of a table (rows, terms, relations) that fit in a second-level cache


def relation_terms(
    embeddings: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    *,
    positive: Tensor,
    normaliser: Tensor,
    member: Tensor,
    scale: Tensor | None = None,
    similarity: Similarity = "cosine",
    keys: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The row terms of a batch compared with itself, or with keys, and their normalisers, `(n, T)` each.

    With count_ir the keys in relation r to anchor i, sum_ir their similarities s_ik, and
    LSE_it = log Σ_{k: member_t(r_ik)} exp(ω(r_ik)·s_ik):

        row_it   = Σ_r positive_t(r)·(count_ir·LSE_it − ω(r)·sum_ir)
        normaliser_it = Σ_r normaliser_t(r)·count_ir

    Args:
        embeddings: `(n, d)`.
        relation: Relation of the batch with itself or with the keys, R codes.
        geometry: As in `pair_statistics`.
        temperature: Likewise.
        positive: `(T, R)` weights of positives; every positive relation must be a member.
        normaliser: `(T, R)` weights in the normaliser.
        member: `(T, R)` bool, the relations in the denominator of each term.
        scale: `(R,)` ω; None: 1.
        similarity: As in `pair_statistics`.
        keys: `(m, d)` the rows that the batch is compared with; None: the batch itself.
    """
    pairs = embeddings, embeddings if keys is None else keys, relation
    learned = positive.requires_grad or normaliser.requires_grad
    way = way_of(*pairs, temperature, similarity, scale=scale, small=True, learned=learned)
    with full_precision(embeddings.device):
        if way == "small":
            return small_batches.relation_terms(
                embeddings, relation, float(temperature), positive, normaliser, member, scale
            )
        if way == "tiles":
            (embeddings,) = at_least_single(embeddings)
            grid = grid_of(relation, asked().tile or TILE)
            loss = Contrast(grid, embeddings.dtype, float(temperature), positive, normaliser, member, scale)
            lse, total = walk(embeddings, grid, loss, asked().keep)
            return loss.attracted * lse - total, loss.normaliser
    statistics = pair_statistics(*pairs, geometry, temperature, similarity=similarity, scale=scale)
    assert statistics.count is not None
    assert statistics.sum is not None
    assert statistics.lse is not None
    total = statistics.sum if scale is None else statistics.sum * scale
    attracted, normalisers = weigh(statistics.count, torch.cat([positive, normaliser])).chunk(2, dim=1)
    return attracted * _term_logsumexp(statistics.lse, member) - weigh(total, positive), normalisers


def bounded_terms(
    embeddings: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    *,
    members: Tensor,
    positives: Tensor,
    similarity: Similarity = "cosine",
    detach_bound: bool = False,
) -> tuple[Tensor, Tensor]:
    """The row terms of the hierarchical constraint and the numbers of positives, `(n, T)` each.

    Eq. 5 and 6 of Use All The Labels, with the index l + 1 that its order "from L down" needs, and the minus
    sign that Eq. 3 lacks:

        ℓ_t(i,p) = log Σ_{k: member_t} exp(s_ik) − s_ip        row_it = Σ_p max(ℓ_t(i,p), M_{t+1})
        M_t = max(M_{t+1}, largest ℓ_t(i,p) of all positives of term t),   M_{T+1} = −∞

    Except for small batches this takes two passes over the pairs: the log-sum-exp and the least similar
    positive of each anchor, then the bounded sum.

    Args:
        embeddings: `(n, d)`.
        relation: Relation of the batch with itself, R codes.
        geometry: As in `pair_statistics`.
        temperature: Likewise.
        members: `(T, R)` bool, the relations in the denominator of each term, coarse → fine.
        positives: `(T, R)` bool, the relations whose pairs attract each other; all are members.
        similarity: As in `pair_statistics`.
        detach_bound: Whether the bounds M are constants for the gradient.

    Raises:
        ValueError: The tables would be larger than the memory of the device.
    """
    pairs = embeddings, embeddings, relation
    few = len(positives) <= small_batches.MOST_TERMS
    way = way_of(*pairs, temperature, similarity, small=few)
    if way != "triton":  # two passes, and a gradient that is rounded once
        (embeddings,) = at_least_single(embeddings)
        pairs = embeddings, embeddings, relation
    if way == "small":
        with full_precision(embeddings.device):
            return small_batches.bounded_terms(
                embeddings, relation, float(temperature), members, positives, detach_bound
            )
    _check_room(len(embeddings), len(members), relation.num_relations, embeddings)
    if way == "tiles":
        with full_precision(embeddings.device):
            grid, weight = grid_of(relation, asked().tile or TILE), positives.to(embeddings.dtype)
            loss = Contrast(
                grid, embeddings.dtype, float(temperature), weight, weight, members, None, least=True
            )
            (lse,) = walk(embeddings, grid, loss, asked().keep)
            number, least = loss.normaliser, loss.least
            if not detach_bound:
                largest = torch.where(number > 0, lse.detach() - least, -torch.inf)
                least = _attach_gradient(
                    least, largest.argmax(0), embeddings, relation, temperature, positives
                )
    else:
        want: tuple[Statistic, ...] = ("count", "lse", "least")
        statistics = pair_statistics(*pairs, geometry, temperature, similarity=similarity, want=want)
        assert statistics.count is not None
        assert statistics.lse is not None
        assert statistics.least is not None
        number = weigh(statistics.count, positives.to(statistics.lse.dtype))
        lse = _term_logsumexp(statistics.lse, members)
        least = torch.where(positives, statistics.least[:, None, :], torch.inf).min(-1).values
    bound = term_bounds(torch.where(number > 0, lse - least, -torch.inf))
    row = bounded_sum(
        *pairs,
        geometry,
        temperature,
        members=positives,
        offset=lse,
        bound=bound.detach() if detach_bound else bound,
        similarity=similarity,
    )
    return row, number


def weighted_terms(
    embeddings: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    *,
    unknown_competes: bool,
    similarity: Similarity = "cosine",
) -> tuple[Tensor, Tensor]:
    """Row terms whose positives have weights of their own, and the numbers of positives, `(n, 1)` each.

        row_i = Σ_p w_ip·(log Σ_k exp(s_ik) − s_ip)

    Args:
        embeddings: `(n, d)`.
        relation: a `KindRelation` of the batch with itself, which gives the weights.
        geometry: As in `pair_statistics`.
        temperature: Likewise.
        unknown_competes: Whether pairs of unknown relation count in the denominator.
        similarity: As in `pair_statistics`.
    """
    assert isinstance(relation, KindRelation)
    by_kind = rows_by_kind(relation, relation.kinds)
    way = way_of(embeddings, embeddings, by_kind, temperature, similarity)
    if way == "tiles":
        with full_precision(embeddings.device):
            (embeddings,) = at_least_single(embeddings)
            grid = grid_of(by_kind, asked().tile or TILE)
            loss = WeightedContrast(
                grid, relation, embeddings.dtype, float(temperature), unknown_competes=unknown_competes
            )
            lse, weighted = walk(embeddings, grid, loss, asked().keep)
            return (loss.weight * lse - weighted)[:, None], loss.positives[:, None]
    statistics = pair_statistics(
        *(embeddings, embeddings, relation, geometry, temperature),
        similarity=similarity,
        pair_weight=relation.weight,
        want=("count", "lse", "weighted"),
    )
    assert statistics.count is not None
    assert statistics.lse is not None
    assert statistics.weight is not None
    assert statistics.weighted_sum is not None
    code = torch.arange(relation.num_relations, device=embeddings.device)
    lse = masked_logsumexp(statistics.lse, (code != UNKNOWN) | unknown_competes)
    positives = statistics.count[:, [SAME, INSTANCE]].sum(1)
    return (statistics.weight * lse - statistics.weighted_sum)[:, None], positives[:, None].to(lse.dtype)


def _attach_gradient(
    least: Tensor,
    rows: Tensor,
    embeddings: Tensor,
    relation: PairRelation,
    temperature: float | Tensor,
    positives: Tensor,
) -> Tensor:
    """The least similarities `(n, T)` with the gradient of one row's in each term, which can set a bound.

    If several keys are equally near, the first in the batch gets the gradient.
    """
    term = torch.arange(len(positives), device=rows.device)
    u, _ = unit_rows(embeddings)
    attracts = torch.cat([positives, positives.new_zeros(len(positives), 1)], dim=1)
    others = ~attracts[term[:, None], relation.codes(rows)]
    keys = (u[rows] @ u.T).masked_fill_(others, torch.inf).argmin(1)
    s = Sphere().similarity(embeddings[rows], embeddings[keys]) / temperature
    return least.index_put((rows, term), gradient_alone(s).to(least.dtype), accumulate=True)


def term_bounds(largest: Tensor) -> Tensor:
    """M_{t+1} of every term `(T,)`, from each anchor's largest pair loss `(n, T)`, −∞ without positives.

    Where several pairs attain the maximum, the gradient goes to the first alone. A NaN is every term's bound:
    comparisons with it, which decide between a pair's own loss and the bound, would hide it.
    """
    bound = largest.new_full((), -torch.inf)
    if len(largest):
        worst = _first_largest(largest.flatten())
        bound = torch.where(worst.isnan(), worst, bound)
    bounds = []
    for term in reversed(range(largest.shape[1])):
        bounds.append(bound)
        if len(largest):
            here = _first_largest(largest[:, term])
            bound = torch.where(here > bound, here, bound)
    return torch.stack(bounds[::-1])


def _first_largest(values: Tensor) -> Tensor:
    """The largest of `values (n,)`, whose gradient goes to the first alone; a NaN is the largest."""
    return values.gather(0, values.argmax(0, keepdim=True))[0]  # to index by a place waits for a GPU


def _check_room(rows: int, terms: int, relations: int, like: Tensor) -> None:
    """Raise an error if a table (n, T, R) does not fit in memory; T and R grow with the tree's depth."""
    needed, there = rows * terms * relations * max(like.element_size(), 4), _memory(like.device)
    if needed > there:
        raise ValueError(
            f"the bounds of {rows} rows at {terms} depths take a table of {needed / 1e9:.3g} GB, and there "
            f"are {there / 1e9:.3g} GB of memory; take smaller batches, a tree of fewer depths "
            "(taxonomy.cut(depth), or --coarsen), or variant='reference', which needs no such table"
        )


def _memory(device: torch.device) -> int:
    """Total memory of a device, in bytes."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _term_logsumexp(lse: Tensor, member: Tensor) -> Tensor:
    """`masked_logsumexp` over the members `(T, R)` of each term, `(n, T)`, from `lse (n, R)`."""
    if len(member) == 1:
        return masked_logsumexp(lse, member[0])[:, None]
    if lse.is_cuda:  # to find out which terms are identical would wait for it
        return _members_logsumexp(lse, member)
    # terms that differ only in relations which no pair has are identical
    occurs = lse.detach().amax(0) != -torch.inf if len(lse) else torch.ones_like(member[0])
    distinct, of_term = torch.unique(member & occurs, dim=0, return_inverse=True)
    return _members_logsumexp(lse, distinct)[:, of_term]


def _members_logsumexp(lse: Tensor, member: Tensor) -> Tensor:
    """`masked_logsumexp` over the members `(T, R)` of each term, `(n, T)`, some rows at a time."""
    room = _ROOM << 6 if lse.is_cuda else _ROOM
    block = max(room // max(member.numel(), 1), 1)
    parts = [masked_logsumexp(lse[rows, None], member) for rows in blocks(len(lse), block)]
    return torch.cat(parts) if parts else lse.new_empty((0, len(member)))


def weigh(statistic: Tensor, weights: Tensor) -> Tensor:
    """Σ_r weights_tr·statistic_ir, `(n, T)`, in the precision of the weights, also under autocast or TF32."""
    statistic = statistic.to(weights.dtype)
    if not (statistic.requires_grad or weights.requires_grad):
        return _product(statistic, weights)
    weighed: Tensor = _Product.apply(statistic, weights)
    return weighed


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


def masked_logsumexp(x: Tensor, mask: Tensor) -> Tensor:
    """log Σ exp(x) over the last dimension where `mask`; −∞ entries add nothing; 0 if no entries remain."""
    lse: Tensor = _MaskedLogSumExp.apply(x, mask)
    return lse


class _MaskedLogSumExp(torch.autograd.Function):
    """Masked log-sum-exp in few operations, with a differentiable backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor) -> Tensor:
        lse = torch.where(mask, x, -torch.inf).logsumexp(-1)
        lse = lse.masked_fill_(lse == -torch.inf, 0.0)
        ctx.save_for_backward(x, mask, lse)
        return lse

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, mask, lse = ctx.saved_tensors
        share = torch.where(mask, x - lse[..., None], -torch.inf).exp()
        return (share * grad[..., None]).sum_to_size(x.shape), None
