"""Prototypes of the inner nodes of a tree: moving averages of the embeddings of the samples below them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from labeltree.geometry import Euclidean, Geometry, Sphere, as_geometry
from labeltree.losses.batch import check_dim
from labeltree.losses.loss_base import Loss, shown_settings
from labeltree.taxonomy import Taxonomy

__all__ = ["NodePrototypes"]

_ROWS = 4096  # rows updated together


class NodePrototypes(Loss):
    """One point per inner node of depth 1 … L − 1, moved towards the mean of its samples at every step.

    Base of the losses that measure distances to prototypes; it has no `forward` of its own. A prototype whose
    samples hold NaN or infinity in a step is not updated.

    Args:
        taxonomy: The tree; prototypes are kept for its inner nodes, the root excluded.
        dim: d, dimension of the embeddings.
        geometry: The space of the embeddings. On the sphere samples have unit norm, and the prototypes are
            plain means and averages of them, inside the sphere, unless `renormalise` puts them back on it.
        eta: η, the rate of the moving average.
        renormalise: On the sphere, whether prototypes are normalised after every step.

    Attributes:
        prototypes: `(N, d)` buffer; rows of nodes never seen are 0.
        seen: `(N,)` bool buffer, whether a node has had a sample.
        ancestors: `(N, L − 1)` the inner node at depth 1 … L − 1 on the path of each label, −1 where the
            path has ended: at and below a leaf, below an inner-node label. The last row, all −1, belongs to
            missing labels.
        inner: `(M,)` the nodes that have a prototype, sorted by depth, then by id.
    """

    label_sets = "rows"
    inner: Tensor
    prototypes: Tensor
    seen: Tensor
    ancestors: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        dim: int,
        geometry: Geometry | str,
        eta: float = 0.05,
        *,
        renormalise: bool = False,
    ) -> None:
        super().__init__()
        check_dim(dim)
        if not 0 < eta <= 1:
            raise ValueError(f"eta must lie above 0 and not above 1; got {eta}")
        self.dim = dim
        self.geometry = geometry = as_geometry(geometry)
        # the space of the updates: Eq. 9 of Climbing the Label Tree also where embeddings have unit norm
        self._space = Euclidean() if isinstance(geometry, Sphere) else geometry
        self.eta = eta
        self.renormalise = renormalise and isinstance(geometry, Sphere)
        num_nodes, depths = len(taxonomy), max(taxonomy.max_depth - 1, 0)
        ancestors = torch.full((num_nodes + 1, depths), -1)
        paths = taxonomy.paths[:, :depths]
        inner = (paths >= 0) & ~taxonomy.is_leaf[paths.clamp(min=0)]
        ancestors[:-1] = torch.where(inner, paths, -1)
        self.register_buffer("prototypes", torch.zeros(num_nodes, dim))
        self.register_buffer("seen", torch.zeros(num_nodes, dtype=torch.bool))
        self.register_buffer("ancestors", ancestors, persistent=False)
        depth = torch.where(taxonomy.is_leaf, 0, taxonomy.depth)
        at = [(depth == d).nonzero()[:, 0] for d in range(1, depths + 1)]
        self._sizes = [len(nodes) for nodes in at]
        inner = torch.cat([torch.empty(0, dtype=torch.int64), *at])
        self.register_buffer("inner", inner, persistent=False)

    def extra_repr(self) -> str:
        """The number of nodes of the tree, and the settings."""
        return f"nodes={len(self.prototypes)}, {shown_settings(self)}"

    def seen_at_least(self, number: int) -> tuple[Tensor, list[int]]:
        """The nodes that have had a sample, at the depths with at least `number` such nodes.

        Returns:
            Their int64 ids, sorted by depth, then by id, and their number at each depth 1 … L − 1.
        """
        seen = self.seen[self.inner]
        parts = seen.split(self._sizes)  # type: ignore[no-untyped-call]
        sizes = [int(part.sum()) for part in parts]
        if sizes == self._sizes and min(sizes, default=number) >= number:
            return self.inner, sizes
        for depth, part in enumerate(parts):
            if sizes[depth] < number:
                part.fill_(False)
                sizes[depth] = 0
        return self.inner[seen], sizes

    @torch.no_grad()
    def start(self, points: Tensor, nodes: Tensor) -> Tensor:
        """Give every node that occurs for the first time the mean of its samples in this batch.

        Args:
            points: `(n, d)` embeddings, projected to the geometry.
            nodes: `(n,)` labels of the points.

        Returns:
            `(N,)` bool, the nodes that occur for the first time.
        """
        new = torch.zeros_like(self.seen)
        for rows, present, index in self._groups(nodes, but=self.seen):
            new[present] = self._write(present, self._space.group_means(points[rows], index, len(present)))
        self.seen |= new
        return new

    @torch.no_grad()
    def follow(self, points: Tensor, nodes: Tensor, but: Tensor) -> None:
        """Move the prototypes towards the samples of a batch (Eq. 9 and 10 of Climbing the Label Tree).

        Args:
            points: `(n, d)` embeddings, projected to the geometry.
            nodes: `(n,)` labels of the points.
            but: `(N,)` bool, nodes not to move: those whose prototype started with this batch.
        """
        for rows, present, index in self._groups(nodes, but):
            old = self.prototypes[present].to(points.dtype)
            samples = points.index_select(0, rows)
            if isinstance(self._space, Euclidean):  # the mean of the steps is the step to the mean
                mean = torch.zeros_like(old).index_add_(0, index, samples)
                moved = old.lerp_(mean.div_(index.bincount()[:, None]), self.eta)
            else:
                moved = self._space.ema_groups(old, samples, index, self.eta)
            self._write(present, moved)

    def _groups(self, nodes: Tensor, but: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Samples grouped by node: their rows, the nodes that have samples, and the index of each row's node.

        A row occurs once per depth; a small batch is processed for all depths at once.
        """
        depths = max(1, _ROWS // max(1, len(nodes)))
        for groups in self.ancestors[nodes].split(depths, dim=1):  # type: ignore[no-untyped-call]
            wanted = (groups >= 0) & ~but[groups.clamp(min=0)]
            if bool(wanted.any()):
                present, index = torch.unique(groups[wanted], return_inverse=True)
                yield wanted.nonzero()[:, 0], present, index

    def _write(self, nodes: Tensor, points: Tensor) -> Tensor:
        """Set prototypes to points that are finite; return which points are, `(m,)` bool."""
        if self.renormalise:
            points = self.geometry.project(points)
        points = points.to(self.prototypes.dtype)
        finite = points.isfinite().all(1)
        self.prototypes[nodes] = torch.where(finite[:, None], points, self.prototypes[nodes])
        return finite
