"""The terms of a table over relations for a small batch in one go: one tile, and its positives in a list.

What counts at this size is the number of operations, so nothing is summed by relation only to be summed up
by term afterwards.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.pairs.relation import PairRelation
from labeltree.pairs.streaming.exponents import exponent_dtype
from labeltree.pairs.streaming.label_pairs import LabelPairs
from labeltree.pairs.streaming.once import by_hand, once
from labeltree.pairs.streaming.order import LabelOrder
from labeltree.pairs.streaming.pair_sets import PairSets
from labeltree.pairs.streaming.unit import take_to_tangent, unit_rows

__all__ = ["fits", "relation_terms"]

Floats = NDArray[Any]


def fits(z: Tensor, relation: PairRelation, temperature: float, scale: Tensor | None, few: int) -> bool:
    """Whether a batch is small enough, of labels alone, all here, and its exponentials need no maximum."""
    if z.device.type != "cpu" or z.dtype not in (torch.float32, torch.float64):
        return False
    if not 0 < len(z) <= few or relation.shard is not None or (scale is not None and scale.requires_grad):
        return False
    return LabelOrder.fits(relation, few) and exponent_dtype(z.dtype, temperature, scale) == z.dtype


def relation_terms(
    z: Tensor,
    relation: PairRelation,
    temperature: float,
    positive: Tensor,
    share: Tensor,
    member: Tensor,
    scale: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """As `labeltree.pairs.relation_terms`, of a batch that `fits`."""
    weights = positive.numpy()
    shares = weights if share is positive else share.numpy()
    work = _Work(relation, temperature, weights, shares, member.numpy(), scale)
    row: Tensor = _TermsTile.apply(z, work)
    return row, torch.from_numpy(work.share).to(z.dtype).T


class _Work:
    """What follows from the labels.

    Attributes:
        sets: the denominators.
        omega: `(n, n)` scale of each pair, or None.
        flat: `(P,)` the pairs that any term attracts, i·n + k, ascending.
        transposed: `(P,)` the same pairs the other way round.
        row: `(P,)` i of each.
        weight: `(T, P)` positive_t(r)·ω(r) of each.
        positive: `(T, n)` Σ positive_t(r) of each row.
        share: `(T, n)` Σ share_t(r) of each row.
    """

    def __init__(
        self,
        relation: PairRelation,
        temperature: float,
        positive: Floats,
        share: Floats,
        member: NDArray[np.bool_],
        scale: Tensor | None,
    ) -> None:
        self.temperature, n = temperature, relation.num_queries
        pairs = LabelPairs(relation)
        self.sets = PairSets(pairs, member)
        factor = None if scale is None else scale.detach().to(torch.from_numpy(positive).dtype).numpy()
        self.omega = None if factor is None else torch.from_numpy(pairs.spread(factor))
        counts = (positive != 0).any(0) | (share != 0).any(0)
        one_up = np.arange(1, pairs.size + 1, dtype=np.min_scalar_type(pairs.size))
        codes = pairs.spread(one_up * counts)
        self.flat = np.flatnonzero(codes != 0)  # of booleans it is five times as fast
        self.row = self.flat // n
        self.transposed = (self.flat - self.row * n) * n + self.row
        codes = codes.ravel().take(self.flat).astype(np.int64) - 1
        number = np.bincount(self.row, minlength=n)
        self._anchors = np.flatnonzero(number)
        self._begins, self._shape = (number.cumsum() - number)[self._anchors], (len(positive), n)
        weight = positive.take(codes, axis=1)
        self.positive = self.by_row(weight)
        self.share = self.positive if share is positive else self.by_row(share.take(codes, axis=1))
        self.weight = weight if factor is None else weight * factor.take(codes)

    def by_row(self, values: Floats) -> Floats:
        """The sums `(T, n)` over each row's pairs of `values (T, P)`."""
        found = np.zeros(self._shape, values.dtype)
        if len(self._begins):
            found[:, self._anchors] = np.add.reduceat(values, self._begins, axis=1)
        return found


class _TermsTile(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, work: _Work) -> Tensor:
        u, inverse = unit_rows(z)
        tile = u @ u.T
        s = tile.view(-1).numpy().take(work.flat)
        tile.mul_(math.log2(math.e) / work.temperature)
        if work.omega is not None:
            tile.mul_(work.omega)
        tile.exp2_().fill_diagonal_(0.0)
        # a row without members has no positives either: whatever its sum is made of counts 0 times
        sums = work.sets.sums(tile).clamp_(min=torch.finfo(tile.dtype).tiny)
        lse = sums.log().numpy()[work.sets.of_term]
        row = work.positive * lse - work.by_row(work.weight * s) / work.temperature
        ctx.work = work
        ctx.save_for_backward(z, u, inverse, tile, sums)
        return torch.from_numpy(row).to(z.dtype).T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        z, u, inverse, tile, sums = ctx.saved_tensors
        work: _Work = ctx.work
        with by_hand(z.device):
            g = grad.T.contiguous().numpy()
            slopes = work.sets.slopes(tile, work.sets.by_set(g * work.positive).div_(sums))
            if work.omega is not None:
                slopes.mul_(work.omega)
            pairs, of_s = slopes.view(-1).numpy(), (g.take(work.row, axis=1) * work.weight).sum(0)
            pairs[work.flat] -= of_s  # a cosine is that of its pair both ways
            pairs[work.transposed] -= of_s
            of_z = take_to_tangent((slopes @ u).div_(work.temperature), u, inverse)
        return once(of_z.to(z.dtype)), None
