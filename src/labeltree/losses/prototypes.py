"""Prototypes of the inner nodes of a tree, that follow the embeddings of the samples below them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labeltree.geometry import Euclidean, Geometry, Sphere
from labeltree.taxonomy import Taxonomy

__all__ = ["NodePrototypes"]


class NodePrototypes(nn.Module):
    """One point per inner node of depth 1 … L − 1, moved towards the mean of its samples at every step.

    The base of losses that measure against such points; it has no `forward` of its own.

    Args:
        taxonomy: the tree; prototypes are kept for its inner nodes, the root excluded.
        dim: d, dimension of the embeddings.
        geometry: the space of the embeddings. On the sphere samples have unit norm, and the prototypes are
            plain means and averages of them, inside the sphere, unless `renormalise` puts them back on it.
        eta: η, the share of the way that a prototype moves in a step.
        renormalise: on the sphere, whether prototypes are normalised after every step.

    Attributes:
        prototypes: `(N, d)` buffer; rows of nodes never seen are 0.
        seen: `(N,)` bool buffer, nodes that have had a sample.
        ancestors: `(N, L − 1)` the inner node at depth 1 … L − 1 on the path of each label, −1 where there
            is none: at and below a leaf, below an inner-node label. The last row, all −1, belongs to missing
            labels.
    """

    prototypes: Tensor
    seen: Tensor
    ancestors: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        dim: int,
        geometry: Geometry,
        eta: float = 0.05,
        *,
        renormalise: bool = False,
    ) -> None:
        super().__init__()
        if not (isinstance(dim, int) and dim > 0):
            raise ValueError(
                f"dim must be the dimension of the embeddings, a whole number above 0; got {dim!r}"
            )
        if not 0 < eta <= 1:
            raise ValueError(f"eta must lie above 0 and not above 1; got {eta}")
        self.geometry = geometry
        # the arithmetic of the updates: Eq. 9 of Climbing the Label Tree also where embeddings have unit norm
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
        self._nodes_at = [(depth == d).nonzero()[:, 0].tolist() for d in range(1, depths + 1)]

    def extra_repr(self) -> str:
        """What tells two sets of prototypes apart when printed."""
        return f"nodes={len(self.prototypes)}, dim={self.prototypes.shape[1]}, eta={self.eta}"

    def seen_at(self, depth: int) -> Tensor:
        """The nodes of a depth, 1 … L − 1, whose prototype has had a sample; int64, ascending."""
        nodes = torch.tensor(self._nodes_at[depth - 1], dtype=torch.int64, device=self.seen.device)
        return nodes[self.seen[nodes]]

    @torch.no_grad()
    def start(self, points: Tensor, nodes: Tensor) -> Tensor:
        """Give every node that occurs for the first time the mean of its samples in this batch.

        Args:
            points: `(n, d)` embeddings, projected to the geometry.
            nodes: `(n,)` their labels.

        Returns:
            `(N,)` bool, the nodes that this batch is the first of.
        """
        new = torch.zeros_like(self.seen)
        for groups in self.ancestors[nodes].unbind(1):
            fresh = (groups >= 0) & ~self.seen[groups.clamp(min=0)]
            if bool(fresh.any()):
                present, index = torch.unique(groups[fresh], return_inverse=True)
                means = self._space.group_means(points[fresh], index, len(present))
                self._write(present, means)
                new[present] = True
        self.seen |= new
        return new

    @torch.no_grad()
    def follow(self, points: Tensor, nodes: Tensor, but: Tensor) -> None:
        """Move the prototypes towards the samples of a batch (Eq. 9 and 10 of Climbing the Label Tree).

        Args:
            points: `(n, d)` embeddings, projected to the geometry.
            nodes: `(n,)` their labels.
            but: `(N,)` bool, nodes that stay: those that this batch has started.
        """
        for groups in self.ancestors[nodes].unbind(1):
            moving = (groups >= 0) & ~but[groups.clamp(min=0)]
            if bool(moving.any()):
                present, index = torch.unique(groups[moving], return_inverse=True)
                old = self.prototypes[present].to(points.dtype)
                self._write(present, self._space.ema_groups(old, points[moving], index, self.eta))

    def _write(self, nodes: Tensor, points: Tensor) -> None:
        if self.renormalise:
            points = self.geometry.project(points)
        self.prototypes[nodes] = points.to(self.prototypes.dtype)
