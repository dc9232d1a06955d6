"""Guided prototypes: a learnt point per class, whose distances follow those in the tree."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from labeltree.checks import check_choice
from labeltree.geometry import Euclidean, Geometry, as_geometry
from labeltree.geometry.precision import answer_dtype, widen
from labeltree.losses.batch import check_dim, check_width
from labeltree.losses.classifiers.classifier import ClassifierLoss
from labeltree.taxonomy import Taxonomy

__all__ = ["GuidedPrototypeLoss", "TreeMetric", "prototype_distortion"]

TreeMetric = Literal["path_length", "lca_height", "lca_depth"]


def prototype_distortion(distances: Tensor, tree: Tensor, *, scale_free: bool = True) -> Tensor:
    """The squared distortion of distances relative to the distances in a tree; scalar.

        1/(C(C−1)) Σ_{k≠l} ((s·d_kl − D_kl) / D_kl)²,   s = Σ(d/D) / Σ(d/D)²

    s is the scale that minimises the distortion, which is therefore 0 where d is a multiple of D, and 1 where
    all distances are 0; the gradient flows through s. (Garnot & Landrieu 2021, Leveraging Class Hierarchies
    with Metric-Guided Prototype Learning.)

    Args:
        distances: `(C, C)` distances d, symmetric.
        tree: `(C, C)` distances D in the tree, symmetric, above 0 off the diagonal.
        scale_free: Whether s is chosen as above; False: s = 1.
    """
    classes = len(tree)
    if classes < 2:
        return distances.sum() * 0
    apart = ~torch.eye(classes, dtype=torch.bool, device=tree.device)
    ratio = distances[apart] / tree[apart]
    if scale_free:
        square = ratio.square().sum()
        ratio = ratio * (ratio.sum() / torch.where(square > 0, square, 1.0))
    return (ratio - 1).square().mean()


class GuidedPrototypeLoss(ClassifierLoss):
    """Metric-guided prototypes (Garnot & Landrieu 2021): nearest-prototype classification shaped by the tree.

        L = mean over labelled rows of −log p(y_i)  +  λ·distortion(d(π_k, π_l), D_kl)
        p(v) = Σ_{c∈v} softmax(−d(f, π))_c

    One prototype π_c, a parameter, for each class c; d is the distance of the geometry, D of two classes that
    of the tree. An inner-node label is as likely as its classes together.

    Args:
        taxonomy: The tree of the labels.
        dim: d, dimension of the embeddings.
        distortion_weight: λ ≥ 0.
        depth: The classes are the nodes of this depth, 1 (coarsest) to L, and the leaves above it; None: the
            leaves.
        metric: D: `"path_length"`, the number of edges; `"lca_height"`, height(lca)/H; `"lca_depth"`,
            1 − depth(lca)/L.
        scale_free: Whether distances need to match D only up to a factor, see `prototype_distortion`.
        squared: Whether logits are −d² rather than −d.
        geometry: The space of the embeddings and prototypes; None: Euclidean, as in the paper.

    Attributes:
        prototypes: `(C, dim)` parameter, in coordinates that `geometry.embed` maps into the space; drawn from
            the standard normal distribution.

    Call with `embeddings (n, dim)` and `nodes (n,)`, −1 where missing. Without a labelled row the loss is the
    distortion alone.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = GuidedPrototypeLoss(taxonomy, dim=2)
        >>> with torch.no_grad():
        ...     _ = loss.prototypes.copy_(torch.tensor([[0.0, 1.0], [0.0, -1.0], [15**0.5, 0.0]]))
        >>> z = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
        >>> taxonomy.decode(loss.predict(z))
        ['animal/dog', 'plant/oak']
        >>> loss.distortion().item() < 1e-12  # the oak lies twice as far from both as they from each other
        True
    """

    schedulable = ("distortion_weight",)
    tree: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        dim: int,
        distortion_weight: float = 1.0,
        *,
        depth: int | None = None,
        metric: TreeMetric = "path_length",
        scale_free: bool = True,
        squared: bool = False,
        geometry: Geometry | str | None = None,
    ) -> None:
        super().__init__(taxonomy, depth)
        check_dim(dim)
        if not distortion_weight >= 0:
            raise ValueError(f"distortion_weight must not be negative; got {distortion_weight}")
        check_choice("metric", metric, TreeMetric)
        self.dim = dim
        self.distortion_weight = distortion_weight
        self.metric = metric
        self.scale_free = scale_free
        self.squared = squared
        self.geometry = as_geometry(geometry, "euclidean")
        self.prototypes = nn.Parameter(torch.randn(len(self.classes), dim))
        tree, self._unit = _tree_distances(taxonomy, self.classes, metric)
        self.register_buffer("tree", tree.to(torch.int32), persistent=False)

    def logits(self, embeddings: Tensor) -> Tensor:
        """−distance, or −distance², to the prototype of each class, `(n, C)`.

        In Euclidean space, −distance² comes without the term |f|², which is the same for all classes. It does
        not change probabilities, and for long vectors it would cost the other terms their precision.
        """
        check_width(embeddings, self.prototypes.shape[1])
        dtype = answer_dtype(embeddings, self.prototypes)
        if self.squared and isinstance(self.geometry, Euclidean):
            return _relative_squares(embeddings, self._points()).to(dtype)
        distances = self.geometry.pairwise_distance(embeddings.to(dtype), self._points())
        return -distances.square() if self.squared else -distances

    def distortion(self) -> Tensor:
        """The distortion of the distances of the prototypes, scalar; see `prototype_distortion`."""
        points = self._points()
        distances = self.geometry.pairwise_distance(points, points)
        tree = self.tree.to(distances) / self._unit
        return prototype_distortion(distances, tree, scale_free=self.scale_free)

    @torch.no_grad()
    def predict(self, embeddings: Tensor) -> Tensor:
        """The node of the nearest prototype of each row, `(n,)` int64; ties go to the first."""
        return super().predict(self.logits(embeddings))

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        logits, nodes = self.prepare(self.logits(embeddings), nodes)
        loss = self.mean(-self.log_likelihood(logits, nodes), nodes)
        if self.distortion_weight:
            loss = loss + self.distortion_weight * self.distortion()
        return loss

    def _points(self) -> Tensor:
        return self.geometry.embed(self.prototypes)


def _relative_squares(x: Tensor, y: Tensor) -> Tensor:
    """|x|² − |x − y|² = 2x·y − |y|² of all pairs, `(n, m)`."""
    with torch.autocast(x.device.type, enabled=False):
        x, y = widen(x), widen(y)
        return 2 * x @ y.T - y.square().sum(1)


def _tree_distances(taxonomy: Taxonomy, classes: Tensor, metric: TreeMetric) -> tuple[Tensor, int]:
    """Distances of classes in the tree as whole numbers, `(C, C)`, and the unit that divides them."""
    u, v = classes[:, None], classes[None, :]
    if metric == "path_length":
        return taxonomy.path_length(u, v), 1
    if metric == "lca_height":
        return taxonomy.lca_height(u, v), taxonomy.max_height
    return taxonomy.max_depth - taxonomy.lca_depth(u, v), taxonomy.max_depth
