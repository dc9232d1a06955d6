"""The terms of a small batch in one go: one tile in the order of the batch, and its positives in a list.

At this size the cost is the number of operations, so sums are taken directly by term and not first by
relation, and numpy is used because its operations on small arrays cost a fraction of those of torch. The
hierarchical constraint computes the cosines once, for log-sum-exps, bounds and bounded sums alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.geometry.hand_written import single_backward
from labeltree.pairs.manual_gradient import manual_gradient, normalise_backward, unit_rows
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.tiles.bounded_sums import least_own
from labeltree.pairs.tiles.grid import scratch

__all__ = ["MOST_TERMS", "bounded_terms", "relation_terms"]

MOST_TERMS = 63  # of a hierarchical constraint: bits of a number

_Ints = NDArray[np.int64]
_Floats = NDArray[Any]


def relation_terms(
    z: Tensor,
    relation: PairRelation,
    temperature: float,
    positive: Tensor,
    normaliser: Tensor,
    member: Tensor,
    scale: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """As `labeltree.pairs.relation_terms`."""
    weights = positive.numpy()
    normalisers = weights if normaliser is positive else normaliser.numpy()
    work = _Work(relation, temperature, weights, normalisers, member.numpy(), scale)
    row: Tensor = _SmallBatch.apply(z, work)
    return row, torch.from_numpy(work.normaliser).to(z.dtype).T


class _Work:
    """The data that depend on the labels only.

    Attributes:
        sets: The denominators.
        omega: `(n, n)` scale of each pair, or None.
        flat: `(P,)` the pairs that any term attracts, i·n + k, ascending.
        transposed: `(P,)` the same pairs the other way round.
        row: `(P,)` i of each.
        weight: `(T, P)` positive_t(r)·ω(r) of each.
        positive: `(T, n)` Σ positive_t(r) of each row.
        normaliser: `(T, n)` Σ normaliser_t(r) of each row.
    """

    def __init__(
        self,
        relation: PairRelation,
        temperature: float,
        positive: _Floats,
        normaliser: _Floats,
        member: NDArray[np.bool_],
        scale: Tensor | None,
    ) -> None:
        self.temperature, n = temperature, relation.num_queries
        pairs = _LabelPairs(relation)
        self.sets = _PairSets(pairs, member)
        factor = None if scale is None else scale.detach().to(torch.from_numpy(positive).dtype).numpy()
        self.omega = None if factor is None else torch.from_numpy(pairs.spread(factor))
        counts = (positive != 0).any(0) | (normaliser != 0).any(0)
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
        self.normaliser = (
            self.positive if normaliser is positive else self.by_row(normaliser.take(codes, axis=1))
        )
        self.weight = weight if factor is None else weight * factor.take(codes)

    def by_row(self, values: _Floats) -> _Floats:
        """The sums `(T, n)` over each row's pairs of `values (T, P)`."""
        sums = np.zeros(self._shape, values.dtype)
        if len(self._begins):
            sums[:, self._anchors] = np.add.reduceat(values, self._begins, axis=1)
        return sums


class _SmallBatch(torch.autograd.Function):
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
        with manual_gradient(z.device):
            g = grad.T.contiguous().numpy()
            slopes = work.sets.slopes(tile, work.sets.by_set(g * work.positive).div_(sums))
            if work.omega is not None:
                slopes.mul_(work.omega)
            pairs, grad_s = slopes.view(-1).numpy(), (g.take(work.row, axis=1) * work.weight).sum(0)
            pairs[work.flat] -= grad_s  # a cosine is that of its pair both ways
            pairs[work.transposed] -= grad_s
            grad_z = normalise_backward((slopes @ u).div_(work.temperature), u, inverse)
        return single_backward(grad_z.to(z.dtype), grad, z), None


class _LabelPairs:
    """The codes of a batch with itself: those of its distinct labels, and those of views of one sample.

    Args:
        relation: Relation of a batch with itself.

    Attributes:
        codes: `(C, C)` of the distinct labels with each other.
        of_row: `(n,)` which of the labels each row has.
        sizes: `(C,)` rows of each label.
        views: `(2, P)` rows of views of one sample: every pair, and then every pair the other way round.
        view_labels: `(P,)` their codes as labels.
        view_codes: `(P,)` their codes as views.
        size: Number R of codes.
    """

    def __init__(self, relation: PairRelation) -> None:
        rows = relation.queries
        labels, first, self.of_row, self.sizes = np.unique(
            rows.nodes.cpu().numpy(), return_index=True, return_inverse=True, return_counts=True
        )
        if rows.codes is not None:
            self.codes: _Ints = rows.codes.among(labels)
        else:
            some = rows[torch.from_numpy(first).to(rows.nodes.device)]
            self.codes = relation.label_codes(some, some).cpu().numpy()
        self.size = relation.num_relations
        i, k = _view_pairs(None if rows.instances is None else rows.instances.cpu().numpy())
        self.views = np.concatenate([[i, k], [k, i]], axis=1)
        self.view_labels = self.codes[self.of_row[self.views[0]], self.of_row[self.views[1]]]
        self.view_codes: _Ints = relation.space.view_codes.numpy()[self.view_labels]

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Which codes `(R,)` occur, and perhaps that of a label with itself that has one row."""
        present = np.zeros(self.size, dtype=np.bool_)
        present[self.codes] = present[self.view_codes] = True
        return present

    def spread(self, table: NDArray[Any]) -> NDArray[Any]:
        """The entries `(n, n)` of a table `(R,)` over the codes; 0 of a row with itself."""
        entries = table.take(self.codes).take(self.of_row, axis=1).take(self.of_row, axis=0)  # rows are fast
        entries[self.views[0], self.views[1]] = table[self.view_codes]
        np.fill_diagonal(entries, 0)
        return entries


def _view_pairs(instances: _Ints | None) -> tuple[_Ints, _Ints]:
    """All pairs of rows of one instance."""
    if instances is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    row = instances.argsort(kind="stable")
    ids = instances[row]
    first, second = [], []
    for step in range(1, len(ids)):
        same = np.flatnonzero(ids[step:] == ids[:-step])
        if not len(same):
            break
        first.append(row[same])
        second.append(row[same + step])
    return (np.concatenate(first), np.concatenate(second)) if first else _view_pairs(None)


class _PairSets:
    """The pairs in the denominator of each term; mostly all pairs, in all of them.

    Args:
        pairs: The label pairs of a batch.
        members: `(T, R)` bool, the relations in the denominator of each term.

    Attributes:
        of_term: `(T,)` which of the S distinct denominators each term has.
    """

    def __init__(self, pairs: _LabelPairs, members: NDArray[np.bool_]) -> None:
        self.of_term = np.zeros(len(members), np.int64)
        self._sets: NDArray[np.bool_] | None = None
        if not members[:, pairs.present].all():
            kinds, self.of_term = np.unique(members, axis=0, return_inverse=True)
            self._sets = np.stack([pairs.spread(kind) for kind in kinds])

    def sums(self, tile: Tensor) -> Tensor:
        """Of each row of a tile, over each of the sets, `(S, n)`."""
        if self._sets is None:
            return tile.sum(1)[None]
        return torch.stack([(tile * part).sum(1) for part in torch.from_numpy(self._sets)])

    def by_set(self, values: NDArray[Any]) -> Tensor:
        """What the terms have in `values (T, n)`, added up over those of each set, `(S, n)`."""
        if self._sets is None:
            return torch.from_numpy(values.sum(0, keepdims=True))
        sums = torch.zeros((len(self._sets), values.shape[1]), dtype=torch.from_numpy(values).dtype)
        return sums.index_add_(0, torch.from_numpy(self.of_term), torch.from_numpy(values))

    def slopes(self, tile: Tensor, grad_sums: Tensor) -> Tensor:
        """The tile times what both rows of a pair have in `grad_sums (S, n)`, over the sets."""
        out, slopes = scratch("slopes", tuple(tile.shape), tile), None
        for number, one in enumerate(grad_sums):
            if self._sets is None:
                return torch.add(one[:, None], one, out=out).mul_(tile)
            part = (one[:, None] + one) * torch.from_numpy(self._sets[number])
            slopes = part if slopes is None else slopes.add_(part)
        assert slopes is not None
        return torch.mul(slopes, tile, out=out)


def bounded_terms(
    z: Tensor,
    relation: PairRelation,
    temperature: float,
    members: Tensor,
    positives: Tensor,
    detach_bound: bool,
) -> tuple[Tensor, Tensor]:
    """As `labeltree.pairs.bounded_terms`."""
    work = _BoundedWork(relation, temperature, members.numpy(), positives.numpy(), detach_bound)
    row: Tensor = _BoundedBatch.apply(z, work)
    return row, torch.from_numpy(work.number).to(z.dtype).T


class _Term:
    """The pairs of one term.

    Args:
        at: `(P,)` their places in the list of all positives.
        row: `(P,)` their anchors, ascending.
        n: Number of rows.

    Attributes:
        number: `(n,)` how many each row has.
        anchors: `(A,)` the rows that have any.
        begins: `(A,)` the first pair of each.
    """

    def __init__(self, at: _Ints, row: _Ints, n: int) -> None:
        self.at, self.row = at, row
        self.number = np.bincount(row, minlength=n)
        self.anchors = np.flatnonzero(self.number)
        self.begins = (self.number.cumsum() - self.number)[self.anchors]

    def add(self, total: _Floats, values: _Floats) -> None:
        """Add the values `(P,)` of the pairs to their rows' `total (n,)`."""
        if len(self.anchors):
            total[self.anchors] += np.add.reduceat(values, self.begins)


class _BoundedWork:
    """The data that depend on the labels only.

    Attributes:
        sets: The denominators.
        flat: `(P,)` the positives of any term, i·n + k, ascending.
        terms: The pairs of each term.
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
        pairs, n = _LabelPairs(relation), relation.num_queries
        self.sets = _PairSets(pairs, members)
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

    bound: _Floats
    setter: list[int]


def _bounds(losses: list[_Floats], dtype: Any) -> _Bounds:
    bound, setter = np.full(len(losses), -np.inf, dtype), [-1] * len(losses)
    reached = bound[0]
    for term in reversed(range(len(losses))):
        bound[term] = reached
        if len(losses[term]):
            first = int(losses[term].argmax())
            if losses[term][first] > reached:
                reached, setter[term] = losses[term][first], first
    return _Bounds(bound, setter)


class _BoundedBatch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, work: _BoundedWork) -> Tensor:
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
        work: _BoundedWork = ctx.work
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
        return single_backward(grad_z.to(z.dtype), grad, z), None
