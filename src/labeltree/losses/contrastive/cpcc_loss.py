"""CPCC and HypStructure: the distances of class means are to correlate with the distances in the tree."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.geometry import Geometry, PoincareBall, as_geometry
from labeltree.geometry.precision import answer_dtype, widen
from labeltree.geometry.smooth import safe_sqrt, squared_norm
from labeltree.losses.batch import check_batch, follow_device
from labeltree.losses.guided import TreeMetric
from labeltree.losses.loss_base import Loss
from labeltree.losses.reduction import propagate_nan
from labeltree.pairs import union_batch
from labeltree.taxonomy import Taxonomy

__all__ = ["CPCCLoss"]

Compared = Literal["leaves", "nodes"]
Reads = Literal["embeddings", "features"]
_CENTRE = 0.01  # of HypStructure's published code
_ROUNDING = 64  # distances that differ by fewer units in the last place count as equal


class CPCCLoss(Loss):
    """Minus the cophenetic correlation of a batch (CPCC, Zeng et al. 2023); in the ball, HypStructure.

        L = −Σ_{u<v} (d_uv − d̄)(D_uv − D̄) / √(Σ_{u<v} (d_uv − d̄)² · Σ_{u<v} (D_uv − D̄)²)  +  β·|μ|

    u and v are the leaves that have a sample in the batch, or all nodes that have one below them; d_uv is the
    distance of their means in the geometry, D_uv that in the tree, and d̄ and D̄ are means over the pairs. μ is
    the mean of all labelled rows. A regulariser, to be added to another objective (`supcon+cpcc`); its weight
    is that of the term in the sum.

    In the Poincaré ball this is HypStructure (Sinha et al. 2024): the means are Einstein midpoints, with k a
    point in Klein coordinates and γ its Lorentz factor,

        k = 2x/(1 + |x|²),   γ = 1/√(1 − |k|²),   μ_u = m/(1 + √(1 − |m|²)),   m = Σγk/Σγ   (curvature −1)

    all nodes of the tree are compared, the root included, and the mean of all rows is drawn to the centre.
    On the sphere the means are normalised; in Euclidean space they are arithmetic, as in Zeng et al.

    With `torch.distributed` a loss in training mode takes the means over the batches of all ranks.

    Args:
        taxonomy: The tree of the labels.
        metric: D: `"path_length"`, the number of edges (both papers); `"lca_height"`, the height of the
            lowest common ancestor; `"lca_depth"`, minus its depth.
        compare: `"leaves"`: the leaves of the batch (Zeng et al.). `"nodes"`: every node with a sample at or
            below it, the root included (HypStructure). None: `"nodes"` in the Poincaré ball, else `"leaves"`.
        centre: β ≥ 0; off the ball, μ is the arithmetic mean. None: 0.01 in the Poincaré ball, else 0.
        reads: Whether training passes the `"embeddings"` of the head or the encoder's `"features"`, which
            are then mapped into the geometry; both papers regularise what the classifier reads.
        geometry: The space of the embeddings, or its name; None: the sphere.

    Call with `embeddings (n, d)` and `nodes (n,)`, −1 where missing. Missing labels are left out. A label at
    an inner node belongs to no leaf; with `compare="nodes"` it counts at its own node and above. Fewer than
    three nodes, equal distances in the batch, or equal ones in the tree have no correlation: it is then
    exactly 0, connected to the graph.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = CPCCLoss(taxonomy, geometry="euclidean")
        >>> z = torch.tensor([[0.0, 1.0], [0.0, -1.0], [3.0, 0.0]])
        >>> loss(z, taxonomy.encode(["dog", "cat", "oak"]))  # dog and cat lie as near as they should
        tensor(-1.)
        >>> round(float(loss(z, taxonomy.encode(["dog", "oak", "cat"]))), 4)
        0.5
    """

    label_sets = "rows"
    schedulable = ("centre",)
    ancestors: Tensor
    height: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        metric: TreeMetric = "path_length",
        *,
        compare: Compared | None = None,
        centre: float | None = None,
        reads: Reads = "embeddings",
        geometry: Geometry | str | None = None,
    ) -> None:
        super().__init__()
        check_choice("metric", metric, TreeMetric)
        check_choice("reads", reads, Reads)
        self.geometry = as_geometry(geometry)
        ball = isinstance(self.geometry, PoincareBall)
        if compare is not None:
            check_choice("compare", compare, Compared)
        if centre is not None and not 0 <= centre < float("inf"):
            raise ValueError(f"centre must be finite and not negative; got {centre}")
        self.metric = metric
        self.compare: Compared = compare or ("nodes" if ball else "leaves")
        self.centre = centre if centre is not None else _CENTRE * ball
        self.reads = reads
        self.register_buffer("ancestors", taxonomy.ancestors, persistent=False)
        self.register_buffer("height", taxonomy.height, persistent=False)

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """The loss of a batch, a scalar; see the class."""
        checked, _ = check_batch(embeddings, nodes, None, len(self.ancestors), self)
        if checked is None:
            raise ValueError(f"nodes must be an integer tensor of shape ({len(embeddings)},); got None")
        follow_device(self, self.ancestors, embeddings.device)
        batch = union_batch(embeddings, {"nodes": checked}, over_ranks=self.training)
        everyone = batch.columns["nodes"]
        assert everyone is not None
        with torch.autocast(embeddings.device.type, enabled=False):
            place = self.geometry.embed if self.reads == "features" else self.geometry.project
            points = place(widen(batch.embeddings))
            rounding = _ROUNDING * torch.finfo(answer_dtype(embeddings)).eps
            loss = -self._correlation(points, everyone, rounding)
            if self.centre:
                loss = loss + self.centre * self._off_centre(points, everyone)
        return propagate_nan(loss.to(answer_dtype(embeddings)), batch.embeddings)

    def _correlation(self, points: Tensor, nodes: Tensor, rounding: float) -> Tensor:
        rows, present, group = self._groups(nodes)
        if len(present) < 3:
            return points[:0].sum()
        means = self.geometry.group_means(points[rows], group, len(present), steps=0)
        u, v = torch.triu_indices(len(present), len(present), offset=1, device=points.device)
        distances = self.geometry.pairwise_distance(means, means)[u, v]
        tree = self._tree_distances(present)[u, v]
        return _correlation_of(distances, tree, rounding, self._error_of(means.detach(), rounding))

    def _error_of(self, means: Tensor, rounding: float) -> Tensor:
        """How far apart equal means may seem as embeddings are rounded, which is farther near the rim."""
        return self.geometry.pairwise_distance(means, means * (1 - rounding)).diagonal().amax()

    def _groups(self, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The rows that belong to a node, the nodes that have rows, and the place among these of each row."""
        if self.compare == "leaves":
            wanted = (nodes >= 0) & (self.height[nodes] == 0)
            present, group = torch.unique(nodes[wanted], return_inverse=True)
        else:
            paths = self.ancestors[nodes]
            wanted = (paths >= 0) & (nodes >= 0)[:, None]
            present, group = torch.unique(paths[wanted], return_inverse=True)
        return wanted.nonzero()[:, 0], present, group

    def _tree_distances(self, nodes: Tensor) -> Tensor:
        """D of all pairs of nodes, `(m, m)` int64."""
        paths = self.ancestors[nodes]
        common = torch.full((len(nodes), len(nodes)), -1, device=nodes.device)
        for ancestor in paths.unbind(1):
            common += (ancestor[:, None] == ancestor) & (ancestor >= 0)
        if self.metric == "lca_depth":
            return -common
        if self.metric == "lca_height":
            return self.height[paths.gather(1, common)]
        depth = common.diagonal()
        return depth[:, None] + depth - 2 * common

    def _off_centre(self, points: Tensor, nodes: Tensor) -> Tensor:
        """|μ|, the norm of the mean of the labelled rows."""
        points = points[nodes >= 0]
        if not len(points):
            return points.sum()
        if isinstance(self.geometry, PoincareBall):
            mean = self.geometry.mean(points, steps=0)
        else:
            mean = points.mean(0)
        return safe_sqrt(squared_norm(mean))[0]


def _correlation_of(x: Tensor, y: Tensor, rounding: float, error: Tensor) -> Tensor:
    """Pearson's correlation of x and y, `(n,)`; 0 where one is constant, for x up to errors.

    Args:
        x: Compared with y.
        y: Compared with x.
        rounding: Relative error of x.
        error: Absolute error of each of x.
    """
    constant = rounding**2 * x.detach().square().sum() + len(x) * error.square()
    x, y = x - x.mean(), y.to(x.dtype) - y.to(x.dtype).mean()
    across, along = x.square().sum(), y.square().sum()
    flat = (across.detach() <= constant) | (along == 0)
    scale = torch.where(flat, 1.0, across).sqrt() * torch.where(flat, 1.0, along).sqrt()
    return ((x * y).sum() / scale).masked_fill(flat, 0.0)
