"""Sums of cosines by relation, from sums of vectors over subtrees: no pair is looked at.

For an inner product Σ_{k∈A} u_i·u_k = u_i·Σ_{k∈A} u_k. With T(v) the sum over the rows at or below node v,
and a_l the node at depth l on the path of row i, the rows whose LCA with i is a_l add up to T(a_l) −
T(a_{l+1}), of which those labelled a_l itself are kin. Time and memory are O(n·d·L) and O(n·d).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.pairs.relation import LabelRows
from labeltree.pairs.streaming.tiles import blocks
from labeltree.taxonomy.relations import KIN, SAME, UNKNOWN

__all__ = ["SubtreeSums"]

_BLOCK = 512
_FEW = 32  # nodes of a block up to which a product with all of them beats gathering each row's own


@dataclass(frozen=True, eq=False)
class _Level:
    """The nodes of one depth that occur.

    Attributes:
        depth: l.
        group: `(n,)` place of each row's node among them, never decreasing.
        count: `(N,)` rows of each node.
        inside: `(n,)` bool, the row's label lies below this depth.
        at: `(n,)` bool, its label has this depth.
        inner: `(n,)` bool, its label is an inner node of this depth; None if no row's is.
    """

    depth: int
    group: Tensor
    count: Tensor
    inside: Tensor
    at: Tensor
    inner: Tensor | None


class SubtreeSums:
    """Sums and counts per relation of rows in the order of their labels, see `LabelOrder`.

    Args:
        rows: the labels, in that order.
        twins: `(2, P)` pairs of views of one sample.
        twin_codes: `(2, P)` codes of those pairs as labels and as views.
        apart: `(L,)` the code of a pair that is apart below each depth 0 … L − 1.
        size: number R of codes.
    """

    def __init__(self, rows: LabelRows, twins: Tensor, twin_codes: Tensor, apart: Tensor, size: int) -> None:
        self.twins, self.twin_codes, self.size = twins, twin_codes, size
        self.width = rows.paths.shape[1] + 1
        self.apart: list[int] = apart.tolist()
        missing = rows.nodes < 0
        self.known = int((~missing).sum())
        paths, nodes = rows.paths[: self.known], rows.nodes[: self.known]
        inner = paths[:, -1] < 0 if self.width > 1 else torch.zeros_like(nodes, dtype=torch.bool)
        depth = torch.where(
            inner, (paths >= 0).sum(1), 1 + (paths[:, 1:] != paths[:, :-1]).sum(1) if self.width > 1 else 0
        )
        self.levels: list[_Level] = []
        for level in range(self.width):
            at = nodes.new_zeros(self.known) if level == 0 else paths[:, level - 1]
            at = torch.where(at < 0, -1 - nodes, at)  # below an inner-node label: nobody else's
            _, group, count = torch.unique_consecutive(at, return_inverse=True, return_counts=True)
            ends = depth == level
            kin = inner & ends
            self.levels.append(
                _Level(level, group, count, depth > level, ends, kin if bool(kin.any()) else None)
            )
        # the code of each row with another of its own label
        own = torch.where(inner, KIN, SAME) * self.width + depth
        self.own = torch.cat([own, own.new_full((len(rows) - self.known,), UNKNOWN * self.width)])

    def counts(self) -> Tensor:
        """Number of keys in each relation to each row, `(n, R)` int64."""
        n, known = len(self.own), self.known
        found = self.own.new_zeros((n, self.size))
        number = [level.count[level.group] for level in self.levels]
        kin = [self._kin_count(level) for level in self.levels]
        self._assign(found, number, kin, unknown=(n - known, n))
        found.scatter_add_(1, self.own[:, None], found.new_full((n, 1), -1))
        self._move_twins(found, found.new_ones(self.twins.shape[1]))
        return found

    def sums(self, u: Tensor) -> Tensor:
        """Σ u_i·u_k over the keys in each relation to each row, `(n, R)`, of rows `u (n, d)`."""
        n, known = len(u), self.known
        found = u.new_zeros((n, self.size))
        products, kin = [], []
        for level, table, own in self._tables(u):
            products.append(self._products(u, level, table))
            kin.append(None if own is None else self._products(u, level, own))
        missing = u[known:].sum(0, dtype=torch.float64).to(u.dtype)
        everything = missing + u[:known].sum(0, dtype=torch.float64).to(u.dtype)
        self._assign(found, products, kin, unknown=(u[:known] @ missing, u[known:] @ everything))
        square = (u * u).sum(1)
        found.scatter_add_(1, self.own[:, None], -square[:, None])
        for pairs in blocks(self.twins.shape[1], 16 * _BLOCK):
            i, k = self.twins[:, pairs]
            self._move_twins(found, (u[i] * u[k]).sum(1), pairs)
        return found

    def add_gradient(self, of_u: Tensor, u: Tensor, weight: Tensor) -> None:
        """Add to `of_u (n, d)` the gradient of Σ weight·sums(u), `weight (n, R)`."""
        known, w = self.known, self.width
        later: Tensor | None = None  # what each node's rows get as keys, summed down the tree
        group: Tensor | None = None
        for level, table, own in self._tables(u):
            of_node = self._weights(weight, level)
            back = torch.zeros_like(table)
            self._add_products(of_u, back, u, level, table, of_node)
            if own is not None:
                of_kin = torch.where(
                    level.inside,
                    weight[:known, KIN * w + level.depth] - weight[:known, self.apart[level.depth]],
                    0.0,
                )
                back_own = torch.zeros_like(own)
                self._add_products(of_u, back_own, u, level, own, of_kin)
                assert level.inner is not None
                kin = level.inner.nonzero()[:, 0]
                of_u[kin] += back_own[level.group[kin]]
            if later is not None and group is not None:
                back += later[_parents(level.group, group)]
            later, group = back, level.group
        if later is not None and group is not None:
            for rows in blocks(known, _BLOCK):
                of_u[rows] += later[group[rows]]
        unknown = weight[:, UNKNOWN * w]
        if known < len(u) and bool((unknown != 0).any()):
            missing = u[known:].sum(0)
            of_u[:known].addr_(unknown[:known], missing)
            of_u[known:].addr_(unknown[known:], missing + u[:known].sum(0))
            from_missing = unknown[known:] @ u[known:]
            of_u[:known] += from_missing
            of_u[known:] += from_missing + unknown[:known] @ u[:known]
        own_weight = weight.gather(1, self.own[:, None])
        of_u.addcmul_(own_weight, u, value=-2.0)
        for pairs in blocks(self.twins.shape[1], 16 * _BLOCK):
            i, k = self.twins[:, pairs]
            of_labels, of_views = self.twin_codes[:, pairs]
            slope = weight[i, of_views] - weight[i, of_labels] + weight[k, of_views] - weight[k, of_labels]
            u_i, u_k = u[i], u[k]
            of_u.index_add_(0, i, slope[:, None] * u_k)
            of_u.index_add_(0, k, slope[:, None] * u_i)

    def _tables(self, u: Tensor) -> list[tuple[_Level, Tensor, Tensor | None]]:
        """Each level with T of its nodes `(N, d)`, and the sum over the rows labelled with them."""
        tables: list[tuple[_Level, Tensor, Tensor | None]] = []
        below: Tensor | None = None
        group: Tensor | None = None
        for level in reversed(self.levels):
            total = torch.zeros(len(level.count), u.shape[1], dtype=torch.float64, device=u.device)
            if below is None or group is None:
                for rows in blocks(self.known, _BLOCK):
                    total.index_add_(0, level.group[rows], u[rows].double())
            else:
                total.index_add_(0, _parents(group, level.group), below)
            own = None
            if level.inner is not None:
                kin = level.inner.nonzero()[:, 0]
                own = u.new_zeros((len(total), u.shape[1])).index_add_(0, level.group[kin], u[kin])
            tables.append((level, total.to(u.dtype), own))
            below, group = total, level.group
        return tables[::-1]

    def _weights(self, weight: Tensor, level: _Level) -> Tensor:
        """The weight of u_i·T(a_l) in Σ weight·sums, `(n,)`."""
        depth, rows = level.depth, weight[: self.known]
        own = rows.gather(1, self.own[: self.known, None])[:, 0]
        found = torch.where(level.at, own, 0.0)
        if depth < self.width - 1:
            found = torch.where(level.inside, rows[:, self.apart[depth]], found)
        if depth > 0:
            found -= torch.where(level.inside | level.at, rows[:, self.apart[depth - 1]], 0.0)
        return found

    def _products(self, u: Tensor, level: _Level, table: Tensor) -> Tensor:
        """u_i·table[node of i], `(n,)`."""
        found = u.new_empty(self.known)
        for rows in blocks(self.known, _BLOCK):
            group = level.group[rows]
            first, last = int(group[0]), int(group[-1])
            if last - first < _FEW:
                every = u[rows] @ table[first : last + 1].T
                found[rows] = every.gather(1, (group - first)[:, None])[:, 0]
            else:
                found[rows] = (u[rows] * table[group]).sum(1)
        return found

    def _add_products(
        self, of_u: Tensor, back: Tensor, u: Tensor, level: _Level, table: Tensor, weight: Tensor
    ) -> None:
        """The gradients of Σ weight·products, of the rows' own factor and of the table."""
        if not bool((weight != 0).any()):
            return
        for rows in blocks(self.known, _BLOCK):
            group = level.group[rows]
            first, last = int(group[0]), int(group[-1])
            if last - first < _FEW:
                spread = u.new_zeros((len(group), last - first + 1))
                spread.scatter_(1, (group - first)[:, None], weight[rows, None])
                of_u[rows].addmm_(spread, table[first : last + 1])
                back[first : last + 1].addmm_(spread.T, u[rows])
            else:
                own = weight[rows, None]
                of_u[rows] += own * table[group]
                back.index_add_(0, group, own * u[rows])

    def _assign(
        self,
        found: Tensor,
        product: list[Tensor],
        kin: list[Tensor | None],
        unknown: tuple[Tensor | int, Tensor | int],
    ) -> None:
        """Write what a row has with the nodes of its path into the relations' columns."""
        known, w = self.known, self.width
        rows = found[:known]
        zero = found.new_zeros(())
        for level, value, of_kin in zip(self.levels, product, kin, strict=True):
            depth = level.depth
            if depth < w - 1:
                apart = value - product[depth + 1]
                if of_kin is not None:
                    apart = apart - of_kin
                    rows[:, KIN * w + depth] += torch.where(level.inside, of_kin, zero)
                rows[:, self.apart[depth]] += torch.where(level.inside, apart, zero)
            rows.scatter_add_(1, self.own[:known, None], torch.where(level.at, value, zero)[:, None])
        found[:known, UNKNOWN * w] += unknown[0]
        found[known:, UNKNOWN * w] += unknown[1]

    def _kin_count(self, level: _Level) -> Tensor | None:
        """For each row, how many are labelled with its node of this depth."""
        if level.inner is None:
            return None
        count = level.count.new_zeros(len(level.count)).index_add_(0, level.group, level.inner.long())
        return count[level.group]

    def _move_twins(self, found: Tensor, value: Tensor, pairs: slice = slice(None)) -> None:
        """Take pairs of views out of the relation of their labels, and into that of views."""
        codes = self.twin_codes[:, pairs]
        for place in self.twins[:, pairs]:
            found.index_put_((place, codes[0]), -value, accumulate=True)
            found.index_put_((place, codes[1]), value, accumulate=True)


def _parents(finer: Tensor, coarser: Tensor) -> Tensor:
    """The node of the coarser level above each node of the finer one; both levels' nodes of every row."""
    parent = coarser.new_empty(int(finer[-1]) + 1 if len(finer) else 0)
    return parent.scatter_(0, finer, coarser)
