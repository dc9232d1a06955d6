"""The hierarchical constraint of a small batch in one go: all cosines in one tile, its positives in a list.

The cosines are computed once, for the log-sum-exps, the bounds and the bounded sums alike; what concerns the
positives alone is done on a list of them, which is far shorter than all pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.pairs.manual_gradient import (
    manual_gradient,
    normalise_backward,
    single_backward,
    unit_rows,
)
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.tiles.bounded import least_own
from labeltree.pairs.tiles.small import Floats, Ints, LabelPairs, PairSets

__all__ = ["MOST_TERMS", "bounded_terms"]

MOST_TERMS = 63  # bits of a number


def bounded_terms(
    z: Tensor,
    relation: PairRelation,
    temperature: float,
    members: Tensor,
    positives: Tensor,
    detach_bound: bool,
) -> tuple[Tensor, Tensor]:
    """As `labeltree.pairs.bounded_terms`."""
    work = _Work(relation, temperature, members.numpy(), positives.numpy(), detach_bound)
    row: Tensor = _SmallBatch.apply(z, work)
    return row, torch.from_numpy(work.number).to(z.dtype).T


class _Term:
    """The pairs of one term.

    Args:
        at: `(P,)` their places in the list of all positives.
        row: `(P,)` their anchors, ascending.
        n: number of rows.

    Attributes:
        number: `(n,)` how many each row has.
        anchors: `(A,)` the rows that have any.
        begins: `(A,)` the first pair of each.
    """

    def __init__(self, at: Ints, row: Ints, n: int) -> None:
        self.at, self.row = at, row
        self.number = np.bincount(row, minlength=n)
        self.anchors = np.flatnonzero(self.number)
        self.begins = (self.number.cumsum() - self.number)[self.anchors]

    def add(self, total: Floats, values: Floats) -> None:
        """Add the values `(P,)` of the pairs to their rows' `total (n,)`."""
        if len(self.anchors):
            total[self.anchors] += np.add.reduceat(values, self.begins)


class _Work:
    """What follows from the labels.

    Attributes:
        sets: the denominators.
        flat: `(P,)` the positives of any term, i·n + k, ascending.
        terms: the pairs of each term.
        number: `(T, n)` how many positives each row has.
    """

    def __init__(
        self,
        relation: PairRelation,
        temperature: float,
        members: NDArray[np.bool_],
        positives: NDArray[np.bool_],
        detach_bound: bool,
    ) -> None:
        self.temperature, self.detach_bound, self.n = temperature, detach_bound, relation.num_queries
        pairs, n = LabelPairs(relation), relation.num_queries
        self.sets = PairSets(pairs, members)
        bits = 1 << np.arange(len(positives))
        mixed = (positives * bits[:, None]).sum(0)
        mixed = pairs.spread(mixed.astype(np.min_scalar_type((1 << len(positives)) - 1)))
        self.flat = np.flatnonzero(mixed != 0)
        row = np.arange(n).repeat(np.diff(self.flat.searchsorted(np.arange(n + 1) * n)))
        self.transposed = (self.flat - row * n) * n + row
        mixed = mixed.ravel().take(self.flat)
        places = [np.flatnonzero((mixed & bit.astype(mixed.dtype)) != 0) for bit in bits]
        self.terms = [_Term(at, row.take(at), n) for at in places]
        self.number = np.stack([term.number for term in self.terms])


@dataclass(frozen=True, eq=False)
class _Bounds:
    """The bound of each term `(T,)`, and the pair of each that sets those of the coarser ones, or −1."""

    bound: Floats
    setter: list[int]


def _bounds(losses: list[Floats], dtype: Any) -> _Bounds:
    bound, setter = np.full(len(losses), -np.inf, dtype), [-1] * len(losses)
    reached = bound[0]
    for term in reversed(range(len(losses))):
        bound[term] = reached
        if len(losses[term]):
            first = int(losses[term].argmax())
            if losses[term][first] > reached:
                reached, setter[term] = losses[term][first], first
    return _Bounds(bound, setter)


class _SmallBatch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, work: _Work) -> Tensor:
        u, inverse = unit_rows(z)
        tile = u @ u.T
        s = tile.view(-1).numpy().take(work.flat) / work.temperature
        tile.mul_(math.log2(math.e) / work.temperature).exp2_().fill_diagonal_(0.0)
        sums = work.sets.sums(tile)
        offset = torch.where(sums > 0, sums, 1.0).log_().numpy()[work.sets.of_term]
        losses = [offset[t][term.row] - s.take(term.at) for t, term in enumerate(work.terms)]
        bounds = _bounds(losses, s.dtype)
        total = np.zeros_like(offset)
        for t, term in enumerate(work.terms):
            term.add(total[t], np.maximum(losses[t], bounds.bound[t]))
        ctx.work, ctx.losses, ctx.bounds, ctx.offset = work, losses, bounds, offset
        ctx.save_for_backward(z, u, inverse, tile, sums)
        return torch.from_numpy(total).T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        z, u, inverse, tile, sums = ctx.saved_tensors
        work: _Work = ctx.work
        bounds: _Bounds = ctx.bounds
        with manual_gradient(z.device):
            g = grad.T.contiguous().numpy()
            offset = torch.from_numpy(ctx.offset).T
            least = least_own(offset, torch.from_numpy(bounds.bound), work.temperature).T.contiguous().numpy()
            grad_s, grad_offset = np.zeros(len(work.flat), g.dtype), np.zeros_like(g)
            coarser = 0.0  # the gradient of what the next coarser term is bounded by
            for t, term in enumerate(work.terms):
                kept = (ctx.losses[t] >= least[t][term.row]).astype(g.dtype)
                own = np.zeros_like(g[t])
                term.add(own, kept)
                grad_offset[t] = own * g[t]
                grad_s[term.at] -= kept * g[t][term.row]
                if work.detach_bound:
                    continue
                if bounds.setter[t] >= 0:
                    pair = bounds.setter[t]
                    grad_offset[t, term.row[pair]] += coarser
                    grad_s[term.at[pair]] -= coarser
                    coarser = 0.0
                coarser += float((g[t] * (work.number[t] - own)).sum())
            grad_sums = work.sets.by_set(grad_offset).div_(torch.where(sums > 0, sums, 1.0))
            slopes = work.sets.slopes(tile, grad_sums)
            pairs, of_pairs = slopes.view(-1), torch.from_numpy(grad_s)
            for place in (work.flat, work.transposed):  # a cosine is that of its pair both ways
                pairs.scatter_add_(0, torch.from_numpy(place), of_pairs)
            grad_z = normalise_backward((slopes @ u).div_(work.temperature), u, inverse)
        return single_backward(grad_z.to(z.dtype)), None
