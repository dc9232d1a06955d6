"""Probabilities of nodes learned from labels of every depth, coarse ones included, and of children unseen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.data.stratified import stratified_subsample
from labeltree.metrics.probe import LinearProbe
from labeltree.metrics.standardisation import column_scale
from labeltree.taxonomy import Taxonomy

__all__ = ["DepthProbes", "fit_depth_probes"]

_ROWS = 2048
_MOST_LEARNED = 20_000


@dataclass(frozen=True, eq=False)
class DepthProbes:
    """A linear probe for every depth, combined from coarse to fine.

    The probability of a node is that of its parent times the probability among the parent's children that the
    probe of its depth gives. Children without any sample share what Good and Turing's estimate leaves for
    unseen kinds: (s + ½) / (n + 1), s the children seen once, n the samples below the parent.

    Attributes:
        taxonomy: The tree of the labels.
        probes: The probe of depth 1, 2 … L, each over the nodes of its depth that have samples; None where
            fewer than two have.
        samples: `(N,)` int64, labelled samples at or below each node.
        mean: `(d,)` what is subtracted from vectors.
        scale: `(d,)` what they are multiplied by afterwards.
    """

    taxonomy: Taxonomy
    probes: tuple[LinearProbe | None, ...]
    samples: Tensor
    mean: Tensor
    scale: Tensor

    def standardized(self, vectors: Tensor) -> Tensor:
        """`(n, d)` float32 columns of mean 0 and standard deviation 1 over all vectors."""
        return ((vectors.float() - self.mean) * self.scale).nan_to_num()

    def node_probabilities(
        self, vectors: Tensor, known: Tensor | None = None, *, unseen: bool = True
    ) -> Tensor:
        """The probability of every node, `(n, N)` float64; children of a node sum to it.

        Args:
            vectors: `(n, d)` as given to `fit_depth_probes`.
            known: `(n,)` int64 labels so far; a label has the probability 1. −1 or the root: none.
            unseen: Whether children without samples get some of their parent's probability.
        """
        taxonomy = self.taxonomy
        points = self.standardized(vectors)
        of_nodes = torch.zeros(len(points), taxonomy.num_nodes, dtype=torch.float64)
        of_nodes[:, 0] = 1.0
        parent = taxonomy.parent
        path = None if known is None else taxonomy.ancestors[known.clamp(min=0)]
        for depth in range(1, taxonomy.max_depth + 1):
            here = (taxonomy.depth == depth).nonzero()[:, 0]
            share = self._compare_siblings(points, depth, here, unseen)
            part = of_nodes[:, parent[here]] * share
            if path is not None:
                at = path[:, depth]
                rows = (at >= 0).nonzero()[:, 0]
                part[rows] = (here[None] == at[rows, None]).double()
            of_nodes[:, here] = part
        return of_nodes

    def chunks(
        self, vectors: Tensor, known: Tensor | None = None, *, unseen: bool = True
    ) -> Iterator[tuple[slice, Tensor]]:
        """`node_probabilities` of some rows at a time."""
        for start in range(0, len(vectors), _ROWS):
            rows = slice(start, min(start + _ROWS, len(vectors)))
            labels = None if known is None else known[rows]
            yield rows, self.node_probabilities(vectors[rows], labels, unseen=unseen)

    def predict(self, vectors: Tensor) -> Tensor:
        """`(n,)` leaves: from the root on, always the most probable child, of those with samples if any."""
        parts = [self._descend(probabilities) for _, probabilities in self.chunks(vectors, unseen=False)]
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)

    def _descend(self, probabilities: Tensor) -> Tensor:
        taxonomy = self.taxonomy
        at = torch.zeros(len(probabilities), dtype=torch.int64)
        for depth in range(1, taxonomy.max_depth + 1):
            here = (taxonomy.depth == depth).nonzero()[:, 0]
            below = taxonomy.parent[here][None] == at[:, None]
            best = here[probabilities[:, here].masked_fill(~below, -1.0).argmax(1)]
            at = torch.where(below.any(1), best, at)
        return at

    def _compare_siblings(self, points: Tensor, depth: int, here: Tensor, new: bool) -> Tensor:
        """`(n, nodes of the depth)` float64 probabilities, which sum to 1 over siblings."""
        parent = self.taxonomy.parent[here]
        seen = self.samples[here] > 0
        place = torch.full((self.taxonomy.num_nodes,), -1, dtype=torch.int64)
        place[here] = torch.arange(len(here))
        raw = torch.zeros(len(points), len(here), dtype=torch.float64)
        probe = self.probes[depth - 1]
        if probe is None:
            raw[:, seen] = 1.0
        else:
            # The largest score of a node's own siblings is subtracted, so that no family underflows.
            scores = points.double() @ probe.weight + probe.bias
            columns = place[probe.classes]
            family = parent[columns].expand(len(points), -1)
            largest = torch.full((len(points), self.taxonomy.num_nodes), -math.inf, dtype=torch.float64)
            largest.scatter_reduce_(1, family, scores, "amax")
            raw[:, columns] = (scores - largest.gather(1, family)).exp()
        total = torch.zeros(len(points), self.taxonomy.num_nodes, dtype=torch.float64)
        total.index_add_(1, parent, raw)
        share = raw / total[:, parent].clamp_min(1e-300)
        unseen = self._unseen(here, parent, seen, new)
        count = torch.zeros(self.taxonomy.num_nodes, dtype=torch.float64)
        count.index_add_(0, parent, (~seen).double())
        return torch.where(seen, share * (1 - unseen), (unseen / count[parent].clamp_min(1.0)))

    def _unseen(self, here: Tensor, parent: Tensor, seen: Tensor, new: bool) -> Tensor:
        """For each node of a depth the probability that its parent's child is one without samples."""
        size = self.taxonomy.num_nodes
        once, total, unseen, any_seen = (torch.zeros(size, dtype=torch.float64) for _ in range(4))
        count = self.samples[here].double()
        once.index_add_(0, parent, (count == 1).double())
        total.index_add_(0, parent, count)
        unseen.index_add_(0, parent, (~seen).double())
        any_seen.index_add_(0, parent, seen.double())
        estimate = ((once + 0.5) / (total + 1)).clamp(max=1.0)
        estimate = torch.where(any_seen > 0, estimate * new, 1.0)
        return torch.where(unseen > 0, estimate, 0.0)[parent]


def fit_depth_probes(
    vectors: Tensor, nodes: Tensor, taxonomy: Taxonomy, *, C: float = 0.1, seed: int = 0
) -> DepthProbes:
    """Learn a probe for every depth from the labels that reach it; a coarse label teaches the coarse depths.

    Args:
        vectors: `(n, d)` finite floats.
        nodes: `(n,)` int64 labels, leaves or inner nodes; −1 where missing.
        taxonomy: Tree of the labels.
        C: Inverse strength of the penalty of each probe.
        seed: Of the draw of at most 20,000 samples that each probe learns from.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths(["animal/dog", "animal/cat", "plant/oak"])
        >>> vectors = torch.tensor([[0.0, 0.0], [0.1, 1.0], [5.0, 0.2]])
        >>> labels = taxonomy.encode(["dog", "animal", "oak"])  # the second has only a coarse label
        >>> of_nodes = fit_depth_probes(vectors, labels, taxonomy).node_probabilities(vectors)
        >>> of_nodes[1, taxonomy.find("cat")] > 0.1  # no cat has been seen: some probability is left for it
        tensor(True)
    """
    vectors = vectors.float()
    mean, scale = column_scale(vectors)
    labels = torch.where(nodes > 0, nodes, -1)
    known = (labels >= 0).nonzero()[:, 0]
    samples = torch.zeros(taxonomy.num_nodes, dtype=torch.int64)
    ancestors = taxonomy.ancestors[labels[known]]
    samples.index_add_(
        0, ancestors[ancestors >= 0], torch.ones(int((ancestors >= 0).sum()), dtype=torch.int64)
    )
    probes: list[LinearProbe | None] = []
    for depth in range(1, taxonomy.max_depth + 1):
        at = ancestors[:, depth]
        rows = (at >= 0).nonzero()[:, 0]
        if len(at[rows].unique()) < 2:  # type: ignore[no-untyped-call]
            probes.append(None)
            continue
        rows = stratified_subsample(rows, at[rows], _MOST_LEARNED, seed)
        points = ((vectors[known[rows]] - mean) * scale).nan_to_num()
        probes.append(LinearProbe(C, balanced=False, tolerance=1e-3).fit(points, at[rows]))
    return DepthProbes(taxonomy, tuple(probes), samples, mean, scale)
