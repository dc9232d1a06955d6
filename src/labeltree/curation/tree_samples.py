"""What the suspects of a tree rest on: samples as unit vectors, the units of nodes, and their means."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from labeltree.data.stratified import group_numbers
from labeltree.metrics.standardisation import column_scale
from labeltree.options.choices import SuspectKind as Kind
from labeltree.taxonomy import Taxonomy

__all__ = ["FEWEST_UNITS", "KINDS", "Kind", "TreeSamples", "TreeSuspect"]

KINDS: tuple[Kind, ...] = get_args(Kind)

FEWEST_UNITS = 8  # below which nothing is called significant


@dataclass(frozen=True)
class TreeSuspect:
    """One place in the tree that does not fit.

    Attributes:
        kind: `move` (the samples lie in another branch), `dissolve` (the children do not belong
            together), `merge` (two leaves cannot be told apart) or `split` (a leaf falls into two).
        node: The node.
        other: The new parent of `move`, the other leaf of `merge`; −1 for the others.
        effect: For `move` how much nearer the node lies to the other branch, as a share of the distance;
            `dissolve`: likeness of the children minus that of random ones, in standard deviations;
            `merge`: the probability of ranking a sample of each right (AUC, 0.5 = chance; never below);
            `split`: the silhouette of the two clusters.
        p: p value of what `reason` claims, after correction for many nodes; NaN for a `move` of a node
            with too few units, which is not tested.
        units: Samples, or cells of a node and a group, that this rests on; children for `dissolve`.
        significant: Whether p is at most the level and there are enough units.
        reason: The evidence in words.
    """

    kind: Kind
    node: int
    other: int
    effect: float
    p: float
    units: int
    significant: bool
    reason: str


class TreeSamples:
    """Labelled samples as unit vectors, the units of nodes, and the means of nodes."""

    def __init__(self, vectors: Tensor, nodes: Tensor, taxonomy: Taxonomy, groups: Tensor | None) -> None:
        self.raw, self.nodes, self.taxonomy, self.groups = vectors, nodes, taxonomy, groups
        points = vectors.double()
        mean, scale = column_scale(points)
        points = (points - mean) * scale
        self.points = torch.nn.functional.normalize(points, dim=1)
        self.numbers = torch.from_numpy(group_numbers(groups, len(nodes)))
        self.order = nodes.argsort(stable=True)
        self.sorted = nodes[self.order].contiguous()
        self.means = torch.full((taxonomy.num_nodes, points.shape[1]), math.nan, dtype=torch.float64)
        ends = taxonomy.subtree_end
        sums = torch.cat([self.points.new_zeros(1, points.shape[1]), self.points[self.order].cumsum(0)])
        first = torch.searchsorted(self.sorted, torch.arange(taxonomy.num_nodes))
        last = torch.searchsorted(self.sorted, ends)
        self.first, self.count = first, last - first
        there = self.count > 0
        self.means[there] = (sums[last] - sums[first])[there] / self.count[there, None]

    def units(self, node: int) -> Tensor:
        """`(u, d)` samples at or below a node, those of one group as their mean."""
        start = int(self.first[node])
        rows = self.order[start : start + int(self.count[node])]
        kinds, place = torch.unique(self.numbers[rows], return_inverse=True)
        if len(kinds) == len(rows):
            return self.points[rows]
        sums = self.points.new_zeros(len(kinds), self.points.shape[1]).index_add_(0, place, self.points[rows])
        return sums / torch.bincount(place)[:, None]

    def with_samples(self, depth: int) -> Tensor:
        """The nodes of a depth that have samples."""
        return ((self.taxonomy.depth == depth) & (self.count > 0)).nonzero()[:, 0]

    def name(self, node: int) -> str:
        return " ".join(self.taxonomy.path_name(node).split())
