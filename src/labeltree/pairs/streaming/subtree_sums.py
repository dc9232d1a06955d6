"""Sums of cosines by relation, from sums of vectors over subtrees: no pair is looked at.

For an inner product Σ_{k∈A} u_i·u_k = u_i·Σ_{k∈A} u_k. With T(v) the sum over the rows at or below node v,
and a_l the node at depth l on the path of row i, the rows whose LCA with i is a_l add up to T(a_l) −
T(a_{l+1}), of which those labelled a_l itself are kin. Time is O(n·d) times the number of nodes that a few
hundred neighbouring rows lie in, memory O(n·(d + L)).
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from labeltree.pairs.relation import LabelRows
from labeltree.pairs.streaming.row_tree import RowTree
from labeltree.pairs.streaming.tiles import blocks
from labeltree.taxonomy.relations import KIN, SAME, UNKNOWN

__all__ = ["SubtreeSums"]

_BLOCK = 8192


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
        self.twins, self.twin_codes, self.apart, self.size = twins, twin_codes, apart.to(twins.device), size
        paths, nodes = rows.paths, rows.nodes
        self.width = paths.shape[1] + 1
        self.known = int((nodes >= 0).sum())
        paths, nodes = paths[: self.known], nodes[: self.known]
        inner = paths[:, -1] < 0 if self.width > 1 else torch.zeros_like(nodes, dtype=torch.bool)
        self.inner = inner.nonzero()[:, 0]
        self.depth = (paths >= 0).sum(1)
        if self.width > 1:
            self.depth = torch.where(inner, self.depth, 1 + (paths[:, 1:] != paths[:, :-1]).sum(1))
        below = torch.where(paths < 0, -1 - nodes[:, None], paths)  # an inner-node label: nobody else's
        self._at = torch.cat([torch.zeros_like(nodes)[None], below.T])
        # the code of each row with another of its own label
        own = torch.where(inner, KIN, SAME) * self.width + self.depth
        self.own = torch.cat([own, own.new_full((len(rows) - self.known,), UNKNOWN * self.width)])

    @cached_property
    def tree(self) -> RowTree:
        """The nodes of the rows whose label is known."""
        return RowTree(self._at)

    @cached_property
    def inside(self) -> Tensor:
        """Whether each row's label lies below each depth 0 … L − 1, `(known, L)`."""
        return self.depth[:, None] > torch.arange(self.width - 1, device=self.depth.device)

    @cached_property
    def kin(self) -> dict[int, tuple[Tensor, Tensor]]:
        """By depth: rows below a node that is a label, and the node of the rows that are labelled with it."""
        tree, found = self.tree, {}
        for depth in torch.unique(self.depth[self.inner]).tolist():
            own = self.inner[self.depth[self.inner] == depth]
            group = tree.groups[depth]
            node = group.new_full((int(group[-1]) + 1,), -1)
            node[group[own]] = tree.path[own, -1]
            labelled = torch.where(self.depth > depth, node[group], -1)
            rows = (labelled >= 0).nonzero()[:, 0]
            found[depth] = rows, labelled[rows]
        return found

    def counts(self) -> Tensor:
        """Number of keys in each relation to each row, `(n, R)` int64."""
        n, known = len(self.own), self.known
        found = self.own.new_zeros((n, self.size))
        if known:
            size = self.tree.size
            self._assign(
                found, size[self.tree.path], {depth: size[node] for depth, (_, node) in self.kin.items()}
            )
        found[:known, UNKNOWN * self.width] += n - known
        found[known:, UNKNOWN * self.width] += n
        found.scatter_add_(1, self.own[:, None], found.new_full((n, 1), -1))
        self._move_twins(found, found.new_ones(self.twins.shape[1]))
        return found

    def sums(self, u: Tensor) -> Tensor:
        """Σ u_i·u_k over the keys in each relation to each row, `(n, R)`, of rows `u (n, d)`."""
        n, known, unknown = len(u), self.known, UNKNOWN * self.width
        found = u.new_zeros((n, self.size))
        if known:
            total = self.tree.totals(u[:known])
            products = u.new_empty((known, self.width))
            for window in self.tree.windows():
                every = u[window.rows] @ total[window.nodes].T
                torch.gather(every, 1, window.place, out=products[window.rows])
            kin = {}
            for depth, (row, node) in self.kin.items():
                parts = [(u[row[some]] * total[node[some]]).sum(1) for some in blocks(len(row), _BLOCK)]
                kin[depth] = torch.cat([*parts, u.new_empty(0)])
            self._assign(found, products, kin)
        if known < n:
            missing = u[known:].sum(0, dtype=torch.float64)
            everything = missing + u[:known].sum(0, dtype=torch.float64)
            found[:known, unknown] += u[:known] @ missing.to(u.dtype)
            found[known:, unknown] += u[known:] @ everything.to(u.dtype)
        square = (u * u).sum(1)
        found.scatter_add_(1, self.own[:, None], -square[:, None])
        for pairs in blocks(self.twins.shape[1], _BLOCK):
            i, k = self.twins[:, pairs]
            self._move_twins(found, (u[i] * u[k]).sum(1), pairs)
        return found

    def add_gradient(self, of_u: Tensor, u: Tensor, weight: Tensor) -> None:
        """Add to `of_u (n, d)` the gradient of Σ weight·sums(u), `weight (n, R)`."""
        known = self.known
        if known:
            self._add_products(of_u[:known], u[:known], weight[:known])
        unknown = weight[:, UNKNOWN * self.width]
        if known < len(u) and bool((unknown != 0).any()):
            missing = u[known:].sum(0)
            of_u[:known].addr_(unknown[:known], missing)
            of_u[known:].addr_(unknown[known:], missing + u[:known].sum(0))
            from_missing = unknown[known:] @ u[known:]
            of_u[:known] += from_missing
            of_u[known:] += from_missing + unknown[:known] @ u[:known]
        own_weight = weight.gather(1, self.own[:, None])
        of_u.addcmul_(own_weight, u, value=-2.0)
        for pairs in blocks(self.twins.shape[1], _BLOCK):
            i, k = self.twins[:, pairs]
            of_labels, of_views = self.twin_codes[:, pairs]
            slope = weight[i, of_views] - weight[i, of_labels] + weight[k, of_views] - weight[k, of_labels]
            u_i, u_k = u[i], u[k]
            of_u.index_add_(0, i, slope[:, None] * u_k)
            of_u.index_add_(0, k, slope[:, None] * u_i)

    def _add_products(self, of_u: Tensor, u: Tensor, weight: Tensor) -> None:
        """The gradient by way of u_i·T(v), of both its factors."""
        total = self.tree.totals(u)
        of_total = torch.zeros_like(total)
        of_products = weight.new_zeros((len(u), self.width))
        of_apart = weight[:, self.apart].mul_(self.inside)
        of_products[:, :-1] += of_apart
        of_products[:, 1:] -= of_apart
        of_products.scatter_add_(1, self.depth[:, None], weight.gather(1, self.own[: len(u), None]))
        for window in self.tree.windows():
            rows, nodes = window.rows, window.nodes
            spread = u.new_zeros((len(window.place), len(nodes)))
            spread.scatter_add_(1, window.place, of_products[rows])
            of_u[rows].addmm_(spread, total[nodes])
            of_total.index_add_(0, nodes, spread.T @ u[rows])
        for depth, (row, node) in self.kin.items():
            slope = weight[row, KIN * self.width + depth] - weight[row, self.apart[depth]]
            for some in blocks(len(row), _BLOCK):
                of_u.index_add_(0, row[some], slope[some, None] * total[node[some]])
                of_total.index_add_(0, node[some], slope[some, None] * u[row[some]])
        self.tree.add_to_rows(of_u, of_total)

    def _assign(self, found: Tensor, products: Tensor, kin: dict[int, Tensor]) -> None:
        """Write what a row has with the nodes of its path into the relations' columns."""
        rows = found[: self.known]
        rows[:, self.apart] = (products[:, :-1] - products[:, 1:]).mul_(self.inside)
        for depth, (row, _) in self.kin.items():
            rows[row, KIN * self.width + depth] += kin[depth]
            rows[row, self.apart[depth]] -= kin[depth]
        rows.scatter_add_(1, self.own[: self.known, None], products.gather(1, self.depth[:, None]))

    def _move_twins(self, found: Tensor, value: Tensor, pairs: slice = slice(None)) -> None:
        """Take pairs of views out of the relation of their labels, and into that of views."""
        codes = self.twin_codes[:, pairs]
        for place in self.twins[:, pairs]:
            found.index_put_((place, codes[0]), -value, accumulate=True)
            found.index_put_((place, codes[1]), value, accumulate=True)
