"""Which samples fit no known class, and the finest node of the tree that they still fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from labeltree.decisions.answers import Answers, Paths
from labeltree.decisions.conformal import group_codes
from labeltree.errors import DataError
from labeltree.geometry import Geometry
from labeltree.options.answer_options import FALSE_ALARMS, check_false_alarms
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = [
    "FALSE_ALARMS",
    "Distances",
    "Fit",
    "NoveltyRule",
    "Reference",
    "check_false_alarms",
    "fit_novelty",
    "mark_unknown",
    "nearest_by_node",
]


_AT_ONCE = 2**23  # distances held in memory at once
_FEWEST = 19  # held-out samples of a node whose distances are judged by themselves: p-values down to 0.05
_MOST = 2_000  # groups of held-out samples: p-values in steps of 0.0005
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Distances:
    """Distances of held-out samples, which give new distances their p-values.

    Attributes:
        values: (m,) float64, ascending.
        weights: (m,) float64, 1 over the size of the sample's group; they sum to the number of groups.
        count: Number of groups.
    """

    values: Tensor
    weights: Tensor
    count: int

    @classmethod
    def of(cls, values: Tensor, groups: Tensor | None) -> Distances:
        """Sort distances (m,); samples of one group, ids (m,) or None, count as one together."""
        codes = group_codes(groups, len(values))
        weights = (1.0 / torch.bincount(codes).double())[codes] if len(values) else values.double()
        order = torch.argsort(values, stable=True)
        return cls(values[order].double(), weights[order], len(torch.unique(codes)))

    def p_values(self, distances: Tensor) -> Tensor:
        """Conformal p-values (n,) of distances (n,): how often a held-out sample is as far, or farther.

        (1 + Σ_j w_j·[d_j ≥ d]) / (1 + Σ_j w_j). For a sample from the distribution of the held-out ones,
        p ≤ ε with probability at most ε (Vovk et al. 2005; with groups Lee, Barber & Willett 2023).
        """
        below = torch.searchsorted(self.values, distances.double().contiguous(), side="left")
        return (1 + (self.count - self._summed[below]).clamp_min(0)) / (1 + self.count)

    @cached_property
    def _summed(self) -> Tensor:
        """Weights (m + 1,) of the first 0, 1, … distances together."""
        return torch.cat([self.weights.new_zeros(1), self.weights.cumsum(0)])


@dataclass(frozen=True)
class Fit:
    """How well samples fit the known classes.

    Attributes:
        p_values: (n,) float64, the p-value of being like the known samples.
        distances: (n,) float64, distance to the nearest reference sample.
        nodes: (n,) the finest node of each path that a sample of an unknown class below it would fit.
    """

    p_values: Tensor
    distances: Tensor
    nodes: Tensor

    def unknown(self, false_alarms: float) -> Tensor:
        """Which samples (n,) bool are called unknown at this share of false alarms."""
        return self.p_values <= false_alarms + _ROUNDING


@dataclass(frozen=True)
class NoveltyRule:
    """Reference samples, and the distances to them at which held-out samples lie.

    Attributes:
        reference: The labelled samples that new ones are compared with.
        taxonomy: The tree of their labels.
        known: Distances of held-out samples to the nearest reference sample.
        within: For inner nodes, distances of the held-out samples below to the nearest reference sample of
            the node that is not of their own child: as far as samples of an unknown child would be.
        by_depth: The same of all nodes at a depth together, for nodes with few held-out samples.
    """

    reference: Reference
    taxonomy: Taxonomy
    known: Distances
    within: Mapping[int, Distances]
    by_depth: Mapping[int, Distances]

    def smallest(self) -> float:
        """The smallest p-value that there can be: at fewer false alarms nothing is called unknown."""
        return 1 / (1 + self.known.count)

    def fit(self, table: EmbeddingTable, paths: Tensor, level: float = 0.5) -> Fit:
        """Compare samples with the reference, along their paths.

        Args:
            table: n samples of the same encoder.
            paths: (n, D) nodes from the root down to a class, -1 after the end; see `Paths`.
            level: An unknown child of a node is fitting if its p-value among the node's distances is larger.
        """
        nearest, nodes = [], []
        rows = max(1, _AT_ONCE // max(self.taxonomy.num_nodes, len(self.reference), 1))
        for points, path in zip(torch.split(table.embeddings, rows), torch.split(paths, rows), strict=True):
            below = nearest_by_node(points, self.reference, self.taxonomy)[0]
            nearest.append(below[:, 0])
            nodes.append(self._finest(below, path, level))
        distances = torch.cat(nearest)
        return Fit(self.known.p_values(distances), distances, torch.cat(nodes))

    def _finest(self, below: Tensor, path: Tensor, level: float) -> Tensor:
        """The deepest node of each path, above its end, that an unknown child would fit; else the root."""
        ends = (path >= 0).sum(1) - 1
        finest = torch.zeros(len(path), dtype=torch.int64)
        for place in range(path.shape[1] - 1):
            inner = (place < ends).nonzero()[:, 0]
            for node in torch.unique(path[inner, place]).tolist():
                rows = inner[path[inner, place] == node]
                usual = self._usual(node)
                if usual is not None:
                    fits = usual.p_values(below[rows, node]) > level
                    finest[rows[fits]] = node
        return finest

    def _usual(self, node: int) -> Distances | None:
        own = self.within.get(node)
        if own is not None and own.count >= _FEWEST:
            return own
        return self.by_depth.get(int(self.taxonomy.depth[node]), own)


def mark_unknown(answers: Answers, paths: Paths, fit: Fit, false_alarms: float) -> Answers:
    """Answers in which samples that fit no known class are answered by the finest node that they fit.

    Answers only become coarser, so that one that holds the truth still does.

    Args:
        answers: n answers; those that were chosen by cost are only marked.
        paths: Their paths.
        fit: How well the samples fit.
        false_alarms: The share of samples of known classes that may be called unknown, from 0 to below 1.

    Raises:
        ValueError: If the share is outside of that range.
    """
    check_false_alarms(false_alarms)
    unknown = fit.unknown(false_alarms)
    answers = replace(answers, p_known=fit.p_values, unknown=unknown)
    if answers.costs is not None:
        return answers
    answered = (paths.nodes == answers.nodes[:, None]).long().argmax(1)
    fitting = (paths.nodes == fit.nodes[:, None]).long().argmax(1)
    coarser = unknown & (fitting < answered)
    place = torch.where(coarser, fitting, answered)[:, None]
    return replace(
        answers,
        nodes=paths.nodes.gather(1, place)[:, 0],
        probabilities=torch.where(coarser, paths.probabilities.gather(1, place)[:, 0], answers.probabilities),
        cut=answers.cut | coarser,
    )


@dataclass(frozen=True)
class Reference:
    """Labelled samples, made ready to measure distances to.

    Attributes:
        points: (m, d) embeddings.
        nodes: (m,) their labels.
        space: Geometry of the embeddings.
    """

    points: Tensor
    nodes: Tensor
    space: Geometry

    @classmethod
    def of(cls, table: EmbeddingTable) -> Reference:
        """The samples of a table that have a label below the root."""
        table = table.rows(table.nodes > 0)
        return cls(table.embeddings, table.nodes, table.space)

    def __len__(self) -> int:
        return len(self.nodes)

    def distances(self, points: Tensor) -> Tensor:
        """Distances (n, m) float64 of points (n, d) to the samples."""
        if points.shape[1:] != self.points.shape[1:]:
            raise DataError(
                f"the reference samples have {self.points.shape[1]}-d embeddings, these have "
                f"{points.shape[1]}-d ones"
            )
        return self._distances(points.double())

    @cached_property
    def _distances(self) -> Callable[[Tensor], Tensor]:
        return self.space.prepare_distances(self.points.double())


def nearest_by_node(points: Tensor, reference: Reference, taxonomy: Taxonomy) -> tuple[Tensor, Tensor]:
    """Distance of each point to the nearest reference sample of every node.

    Args:
        points: (n, d) embeddings in the space of the reference.
        reference: The samples.
        taxonomy: The tree of their labels.

    Returns:
        (n, N) float64 distances to the samples at or below each node, and to those labelled with the node
        itself; infinite where there are none.
    """
    distances = reference.distances(points)
    own = torch.full((len(points), taxonomy.num_nodes), torch.inf, dtype=torch.float64)
    own.scatter_reduce_(1, reference.nodes.expand(len(points), -1), distances, "amin")
    below = own.clone()
    for depth in range(taxonomy.max_depth, 0, -1):
        nodes = (taxonomy.depth == depth).nonzero()[:, 0]
        parents = taxonomy.parent[nodes].expand(len(points), -1)
        below.scatter_reduce_(1, parents, below[:, nodes], "amin")
    return below, own


def _draw(held: EmbeddingTable, seed: int) -> EmbeddingTable:
    """At most `_MOST` whole groups, each with a share of its samples if they are many."""
    points = held.embeddings.numpy()
    order = torch.from_numpy(np.lexsort((*points.T[::-1], held.nodes.numpy())))
    held = held.rows(order)
    codes = group_codes(held.groups, len(held))
    first = torch.full((int(codes.max()) + 1,), len(held)).scatter_reduce_(
        0, codes, torch.arange(len(held)), "amin"
    )
    codes = torch.argsort(torch.argsort(first))[codes]  # groups by their first samples
    draw = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(first), generator=draw)[:_MOST]
    shuffled = torch.randperm(len(held), generator=draw)
    shuffled = shuffled[torch.isin(codes[shuffled], chosen)]
    shuffled = shuffled[torch.argsort(codes[shuffled], stable=True)]
    _, sizes = torch.unique_consecutive(codes[shuffled], return_counts=True)
    rank = torch.arange(len(shuffled)) - torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)
    return held.rows(shuffled[rank < max(1, _MOST // len(chosen))].sort().values)


def fit_novelty(
    reference: EmbeddingTable, held: EmbeddingTable, taxonomy: Taxonomy, *, seed: int = 0
) -> NoveltyRule:
    """Measure how far held-out samples of known classes lie from the reference samples.

    Args:
        reference: Labelled samples, such as those of training; with the same encoder as
        held: Labelled samples that the encoder was not trained on. Of more than 2,000 groups (samples, where
            there are no groups) as many are drawn, and of large groups some samples; the draw does not hang
            on the order of the samples.
        taxonomy: The tree of the labels.
        seed: Of the draw.

    Raises:
        DataError: If one of them holds no sample with a label.
    """
    labelled = reference.nodes > 0
    held = held.rows(held.nodes > 0)
    for name, count in (("reference", int(labelled.sum())), ("held-out", len(held))):
        if not count:
            raise DataError(f"there is no labelled {name} sample to tell unknown ones by")
    known, held = Reference.of(reference), _draw(held, seed)
    values: dict[int, list[Tensor]] = {}
    rows_of: dict[int, list[Tensor]] = {}
    nearest = []
    size = max(1, _AT_ONCE // max(taxonomy.num_nodes, len(known)))
    for rows in torch.split(torch.arange(len(held)), size):
        below, own = nearest_by_node(held.embeddings[rows], known, taxonomy)
        nearest.append(below[:, 0])
        line = taxonomy.ancestors[held.nodes[rows]]
        for depth in range(taxonomy.max_depth):
            inner = (line[:, depth + 1] >= 0).nonzero()[:, 0]
            pairs = line[inner, depth : depth + 2]
            for node, child in torch.unique(pairs, dim=0).tolist():
                here = inner[(pairs[:, 0] == node) & (pairs[:, 1] == child)]
                others = [other for other in taxonomy.children(node) if other != child]
                distance = own[here, node]
                if others:
                    distance = torch.minimum(distance, below[here][:, others].amin(1))
                there = distance.isfinite()
                values.setdefault(node, []).append(distance[there])
                rows_of.setdefault(node, []).append(rows[here[there]])

    def distances(nodes: list[int]) -> Distances:
        distance = torch.cat([part for node in nodes for part in values[node]])
        rows = torch.cat([part for node in nodes for part in rows_of[node]])
        return Distances.of(distance, None if held.groups is None else held.groups[rows])

    kept = [node for node in values if any(len(part) for part in values[node])]
    by_depth: dict[int, list[int]] = {}
    for node in kept:
        by_depth.setdefault(int(taxonomy.depth[node]), []).append(node)
    return NoveltyRule(
        known,
        taxonomy,
        Distances.of(torch.cat(nearest), held.groups),
        {node: distances([node]) for node in kept},
        {depth: distances(nodes) for depth, nodes in by_depth.items()},
    )
