"""Pair statistics of a batch that is one tile: few operations, whose number counts more than their size.

Rows stay in the order of the batch. What depends on relations is summed, and looked up, per pair of a row and
a label, of which there are fewer than pairs of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.pairs.relation import PairRelation
from labeltree.pairs.streaming.exponents import common_slope, exponent_dtype
from labeltree.pairs.streaming.label_pairs import LabelPairs
from labeltree.pairs.streaming.least import add_least_gradient
from labeltree.pairs.streaming.once import by_hand, once
from labeltree.pairs.streaming.scratch import scratch
from labeltree.pairs.streaming.unit import take_to_tangent, unit_rows
from labeltree.pairs.summary import Statistic

__all__ = ["OneTile"]

_PAD = 16  # rows of a power of two would meet in few lines of the cache when read down a column


class OneTile:
    """A batch with itself.

    Args:
        relation: of the batch.
        temperature: τ.
        scale: `(R,)` ω, or None.
        want: the statistics to compute.
    """

    def __init__(
        self, relation: PairRelation, temperature: float, scale: Tensor | None, want: frozenset[Statistic]
    ) -> None:
        self.relation, self.temperature, self.scale, self.want = relation, temperature, scale, want
        self.labels, self.views = _bookkeeping(relation)

    def counts(self) -> Tensor:
        """Number of keys in each relation to each row of the batch, `(n, R)` int64."""
        labels, size = self.labels, self.relation.num_relations
        found = labels.sizes.new_zeros((len(labels.sizes), size))
        found.scatter_add_(1, labels.codes, labels.sizes.expand(len(found), -1))
        own = labels.codes.diagonal()[:, None]
        found = found.scatter_add_(1, own, own.new_full(own.shape, -1)).index_select(0, labels.of_row)
        if self.views is not None:
            found.view(-1).index_add_(0, self.views.moved, self.views.moves)
        return found

    def statistics(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sum, lse and least `(n, R)`; without rows where not wanted."""
        found: tuple[Tensor, Tensor, Tensor] = _OneTile.apply(z, self)
        return found


@dataclass(frozen=True, eq=False)
class _Labels:
    """The C labels of a batch of n rows.

    Attributes:
        of_row: `(n,)` the label of each row.
        sizes: `(C,)` rows of each.
        codes: `(C, C)` relation codes.
        by_row: `(n, C)` codes of each row with each label.
    """

    of_row: Tensor
    sizes: Tensor
    codes: Tensor
    by_row: Tensor

    def sums(self, tile: Tensor, size: int) -> Tensor:
        """Sums `(n, R)` of each row of a symmetric tile `(n, n)` by relation."""
        by_label = tile.new_zeros((len(self.sizes), len(tile))).index_add_(0, self.of_row, tile)
        return tile.new_zeros((len(tile), size)).scatter_add_(1, self.by_row, by_label.T)

    def least(self, tile: Tensor, size: int) -> Tensor:
        """Least entries `(n, R)` of each row of a symmetric tile by relation; +∞ where there is none."""
        rows = self.of_row[:, None].expand_as(tile)
        by_label = tile.new_full((len(self.sizes), len(tile)), torch.inf)
        by_label.scatter_reduce_(0, rows, tile, "amin")
        found = tile.new_full((len(tile), size), torch.inf)
        return found.scatter_reduce_(1, self.by_row, by_label.T, "amin")

    def spread(self, table: Tensor) -> Tensor:
        """What the row k of a pair has in a table `(n, R)` for its relation, at (i, k)."""
        return table.gather(1, self.by_row).T.contiguous().index_select(0, self.of_row)

    def spread_codes(self, table: Tensor) -> Tensor:
        """The entries `(n, n)` of a table `(R,)`."""
        by_label = table.index_select(0, self.codes.flatten()).view_as(self.codes)
        return by_label.index_select(0, self.of_row).T.contiguous().index_select(0, self.of_row)


@dataclass(frozen=True, eq=False)
class _Views:
    """The P pairs of views of one sample.

    Attributes:
        at: `(2P,)` places of every pair, and then of every pair the other way round, in the flat tile.
        codes: `(2P,)` place of the row and of the code of the pair as views, in a flat table `(n, R)`.
        relations: `(P,)` those codes.
        moved: `(4P,)` places in a flat table that the pairs leave as labels, and enter as views.
        moves: `(4P,)` −1 and 1.
    """

    at: Tensor
    codes: Tensor
    relations: Tensor
    moved: Tensor
    moves: Tensor

    def seen(self, tile: Tensor) -> Tensor:
        """The entries `(P,)` of a symmetric tile."""
        return tile.view(-1).index_select(0, self.at[: len(self.relations)])

    def add(self, table: Tensor, values: Tensor) -> None:
        """Add values `(P,)` to the entries of both rows of every pair in a table `(n, R)`."""
        table.view(-1).index_add_(0, self.codes, values.repeat(2))

    def both(self, table: Tensor) -> Tensor:
        """What both rows of every pair have in a table `(n, R)`, added up, `(P,)`."""
        return table.view(-1).index_select(0, self.codes).view(2, -1).sum(0)


def _bookkeeping(relation: PairRelation) -> tuple[_Labels, _Views | None]:
    pairs, device = LabelPairs(relation), relation.queries.nodes.device

    def placed(x: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(x).to(device)

    codes = placed(pairs.codes)
    of_row = placed(pairs.of_row)
    labels = _Labels(of_row, placed(pairs.sizes), codes, codes.index_select(0, of_row))
    if not pairs.twins.size:
        return labels, None
    i, k = pairs.twins
    row = i * pairs.size
    codes_at = row + pairs.twin_codes
    moved = np.concatenate([row + pairs.twin_labels, codes_at])
    at, moves = i * relation.num_queries + k, np.repeat([-1, 1], len(row))
    found = at, codes_at, pairs.twin_codes[: len(row) // 2], moved, moves
    return labels, _Views(*map(placed, found))


class _OneTile(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, work: OneTile) -> tuple[Tensor, Tensor, Tensor]:
        labels, views, tau, want = work.labels, work.views, work.temperature, work.want
        size, scale = work.relation.num_relations, work.scale
        u, inverse = unit_rows(z)
        cosine = torch.mm(u, u.T, out=scratch("cosine", (len(u), len(u)), u))
        of_views = None if views is None else views.seen(cosine)
        total = least = lse = sums = present = tile = u.new_empty((0, size))
        if "least" in want:
            least = labels.least(_masked(cosine, views, torch.inf), size).div_(tau)
            if views is not None and of_views is not None:
                least.view(-1).scatter_reduce_(0, views.codes, of_views.repeat(2) / tau, "amin")
        if "sum" in want:
            total = labels.sums(_masked(cosine, views, 0.0), size)
            if views is not None and of_views is not None:
                views.add(total, of_views)
            total.div_(tau)
        if "lse" in want:
            base = math.log2(math.e) / tau
            exponents = exponent_dtype(u.dtype, tau, scale)
            assert exponents is not None
            exponent = cosine.mul_(base)
            if scale is not None:
                exponent.mul_(labels.spread_codes(scale.to(u.dtype)))
            tile = _masked(torch.exp2(exponent.to(exponents)), views, 0.0)  # kept for the backward
            sums = labels.sums(tile, size)
            if views is not None and of_views is not None:
                of_views = of_views * base
                if scale is not None:
                    of_views *= scale.to(u.dtype)[views.relations]
                of_views = of_views.to(exponents).exp2_()
                views.add(sums, of_views)
            present = sums > 0
            # log 0 is slow: what is added to it is far below every sum there is
            lse = torch.where(present, (sums + 1e-38).log_(), -torch.inf).to(u.dtype)
        ctx.work = work
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, u, inverse, tile, sums, present, of_views)
        return total, lse, least

    @staticmethod
    def backward(
        ctx: Any, of_sum: Tensor | None, of_lse: Tensor | None, of_least: Tensor | None
    ) -> tuple[Tensor | None, None]:
        z, u, inverse, tile, sums, present, of_views = ctx.saved_tensors
        with by_hand(z.device):
            work: OneTile = ctx.work
            labels, views = work.labels, work.views
            slope: Tensor | None = None
            between: Tensor | None = None
            if of_lse is not None:
                of_sums = torch.where(present, of_lse / sums, 0.0)
                if views is not None:
                    between = views.both(of_sums) * of_views
                    present = present.view(-1).index_fill(0, views.codes, False).view_as(sums)  # not of tiles
                common = common_slope(of_sums, sums, present, u.dtype)
                by_key = labels.spread(of_sums) if common is None else common
                slope = torch.mul(by_key, tile, out=_padded("slopes", tile))
                if work.scale is not None:
                    scale = work.scale.to(slope.dtype)
                    slope.mul_(labels.spread_codes(scale))
                    if views is not None and between is not None:
                        between = between * scale[views.relations]
            if of_sum is not None:
                linear = labels.spread(of_sum)
                slope = _padded("slopes", u).copy_(linear) if slope is None else slope.add_(linear)
                if views is not None:
                    of_pairs = views.both(of_sum)
                    between = of_pairs if between is None else between + of_pairs
            of_u = torch.zeros_like(u)
            if slope is not None:
                both = torch.add(slope, slope.T, out=scratch("both", (len(u), len(u)), slope)).fill_diagonal_(
                    0.0
                )
                if views is not None and between is not None:
                    both.view(-1).index_copy_(0, views.at, between.repeat(2))
                of_u = (both.to(u.dtype) @ u).div_(work.temperature)
            if of_least is not None:
                everybody = torch.arange(len(u), device=u.device)
                slope = of_least / work.temperature
                add_least_gradient(of_u, u, work.relation.queries, everybody, slope)
            of_z = take_to_tangent(of_u, u, inverse).to(z.dtype)
        return once(of_z), None


def _padded(name: str, like: Tensor) -> Tensor:
    """A `scratch` tile `(n, n)` for the rows of `like`, of its type, of which columns are quickly read."""
    n = len(like)
    return scratch(name, (n, n + _PAD), like)[:, :n]


def _masked(tile: Tensor, views: _Views | None, value: float) -> Tensor:
    """The tile with a value where it is no pair of labels: a row with itself, views of one sample."""
    tile.fill_diagonal_(value)
    if views is not None:
        tile.view(-1).index_fill_(0, views.at, value)
    return tile
