"""LAM, the level-aware margin: samples lie nearer to ancestors' prototypes than to others, by a margin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.geometry import Euclidean, Geometry, Sphere, as_geometry
from labeltree.geometry.precision import answer_dtype
from labeltree.losses.batch import check_batch, check_width, follow_device
from labeltree.losses.proxies.prototypes import NodePrototypes
from labeltree.losses.reduction import propagate_nan
from labeltree.losses.relation_table import depth_weights
from labeltree.pairs import Similarity, gather_rows, nearest_of_groups, num_ranks, sum_over_ranks
from labeltree.taxonomy import Taxonomy

__all__ = ["LevelAwareMarginLoss"]

Distance = Literal["unit", "raw", "cosine", "poincare"]
Divisor = Literal["batch", "contributing"]


class LevelAwareMarginLoss(NodePrototypes):
    """The level-aware margin loss (Eq. 11 of Climbing the Label Tree) with its prototypes (Eq. 9 and 10).

        L = Σ_{l=1..L−1} λ_l · 1/B Σ_i [ d(z_i, c_{a(i,l)}) − min_{b≠a(i,l)} d(z_i, c_b) + m_l ]₊

    a(i, l) is the ancestor of sample i at depth l, c_a the prototype of node a, b runs over the nodes of
    depth l that have had a sample so far. Prototypes are kept for inner nodes below the root. They start as
    the mean of their samples in the first batch in which the node occurs and are then updated by an
    exponential moving average in the geometry, in training mode only; no gradient passes through them. A
    depth at which fewer than two prototypes have been seen adds 0. So does a sample whose leaf or label is
    too shallow to have an inner node at that depth on its path.

    With `torch.distributed` the prototypes are updated with the samples of all ranks and are the same on
    each. The value is the loss of all ranks' batches together, and the gradient is scaled so that DDP's mean
    over ranks is the gradient of that value.

    Args:
        taxonomy: The tree of the labels.
        dim: d, dimension of the embeddings.
        margins: m_l per depth 1 … L − 1, coarse → fine, or one number; None: 0.4, 0.3, 0.2, then 0.1.
        weights: λ_l likewise; None: 1, 0.8, 0.6, 0.4, then 0.2.
        eta: η, the rate of the moving average.
        geometry: The space of the embeddings, or its name; None: the sphere.
        distance: `"unit"` (distance of the normalised vectors), `"raw"` (Euclidean), `"cosine"` (1 − cos) or
            `"poincare"`; None: that of the geometry.
        update: Whether prototypes move `"after"` the loss of a step was taken, or `"before"`.
        divisor: B is the number of all rows (`"batch"`), or of those that have an ancestor at the depth
            (`"contributing"`).
        renormalise: On the sphere, whether prototypes are normalised after every step.

    Call with `embeddings (n, d)`, which are projected to the geometry first (normalised on the sphere),
    and `nodes (n,)`; `instances` are ignored.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = LevelAwareMarginLoss(taxonomy, dim=2, margins=0.4)
        >>> z = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> loss(z, taxonomy.encode(["dog", "cat", "oak"]))  # the cat lies too near to the only plant
        tensor(0.0757)
        >>> loss.seen.nonzero()[:, 0].tolist(), loss.prototypes[taxonomy.find("animal")]
        ([1, 4], tensor([0.8000, 0.4000]))
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        dim: int,
        margins: float | Sequence[float] | None = None,
        weights: float | Sequence[float] | None = None,
        *,
        eta: float = 0.05,
        geometry: Geometry | str | None = None,
        distance: Distance | None = None,
        update: Literal["after", "before"] = "after",
        divisor: Divisor = "batch",
        renormalise: bool = False,
    ) -> None:
        geometry = as_geometry(geometry)
        super().__init__(taxonomy, dim, geometry, eta, renormalise=renormalise)
        if distance is None:
            distance = (
                "unit" if geometry.name == "sphere" else "raw" if geometry.name == "euclidean" else "poincare"
            )
        check_choice("distance", distance, Distance)
        if distance == "poincare" and geometry.name != "poincare":
            raise ValueError(f"distance='poincare' needs a PoincareBall as geometry; got {geometry.name!r}")
        check_choice("update", update, Literal["after", "before"])
        check_choice("divisor", divisor, Divisor)
        self.distance: Distance = distance
        self.update = update
        self.divisor: Divisor = divisor
        depths = range(self.ancestors.shape[1])
        default_margins = [max(0.4 - 0.1 * depth, 0.1) for depth in depths]
        default_weights = [max(1.0 - 0.2 * depth, 0.2) for depth in depths]
        self.margins = depth_weights(default_margins if margins is None else margins, len(depths), "margins")
        self.weights = depth_weights(default_weights if weights is None else weights, len(depths), "weights")

    def forward(
        self, embeddings: Tensor, nodes: Tensor | None = None, instances: Tensor | None = None
    ) -> Tensor:
        """Evaluate the loss of a batch and, in training mode, update the prototypes; see the class."""
        nodes, _ = check_batch(embeddings, nodes, instances, len(self.seen), self)
        follow_device(self, self.prototypes, embeddings.device)
        check_width(embeddings, self.dim)
        if nodes is None:
            nodes = torch.full((len(embeddings),), -1, device=embeddings.device)
        with torch.autocast(embeddings.device.type, enabled=False):
            points = self._points(embeddings)
            if not self.training:
                return propagate_nan(self._loss(points, nodes, ranks=1), points)
            placed = self.geometry.project(embeddings.detach())
            everywhere, all_nodes = gather_rows(placed), gather_rows(nodes)
            started = self.start(everywhere, all_nodes)
            if self.update == "before":
                self.follow(everywhere, all_nodes, but=started)
            loss = self._loss(points, nodes, ranks=num_ranks())
            if self.update == "after":
                self.follow(everywhere, all_nodes, but=started)
        return propagate_nan(loss, points)

    def _points(self, embeddings: Tensor) -> Tensor:
        """What distances are taken of: points of the geometry, or embeddings where directions alone count."""
        if self.distance in ("unit", "cosine"):
            return embeddings.to(answer_dtype(embeddings))
        return self.geometry.project(embeddings)

    def _loss(self, points: Tensor, nodes: Tensor, ranks: int) -> Tensor:
        if not len(self.weights):  # a tree of one depth has no prototypes
            return points[:0].sum()
        own = self.ancestors[nodes]
        known = (own >= 0) & self.seen[own.clamp(min=0)]
        total = self._hinges(points, own, known)
        count = known.sum(0) if self.divisor == "contributing" else own.new_full(total.shape, len(own))
        weight = self.weights.to(total)
        if ranks == 1:
            return (weight * total / count.clamp(min=1)).sum()
        count = sum_over_ranks(count).clamp(min=1)
        loss = ranks * (weight * total / count).sum()
        value = (weight * sum_over_ranks(total) / count).sum()
        return loss + (value - loss).detach()

    def _hinges(self, points: Tensor, own: Tensor, known: Tensor) -> Tensor:
        """The sum of the hinges of each depth `(L − 1,)`."""
        candidates, sizes = self.seen_at_least(2)
        depths = [depth for depth, size in enumerate(sizes) if size]
        nothing = points.new_zeros(len(sizes)) + points[:0].sum()
        if not depths:
            return nothing
        column = own.new_zeros(len(self.seen))
        column[candidates] = torch.arange(len(candidates), device=own.device)
        every = len(depths) == len(sizes)
        own, known = (own, known) if every else (own[:, depths], known[:, depths])
        first = own.new_tensor([sum(sizes[:depth]) for depth in depths])
        mine, other = nearest_of_groups(
            points,
            self.prototypes[candidates].to(points.dtype),
            [sizes[depth] for depth in depths],
            torch.where(known, column[own.clamp(min=0)], first),
            *_measure(self.distance, self.geometry),
        )
        hinges = (mine - other + self.margins[depths].to(mine)).relu()
        total = torch.where(known, hinges, 0.0).sum(0)
        return total if every else nothing.index_copy(0, own.new_tensor(depths), total)


def _measure(distance: Distance, geometry: Geometry) -> tuple[Geometry, Similarity]:
    if distance == "cosine":
        return Sphere(), "cosine"
    return {"unit": Sphere(), "raw": Euclidean()}.get(distance, geometry), "distance"
