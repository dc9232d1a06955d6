"""L_CORR: embeddings are trained towards fixed class embeddings that are computed from the taxonomy."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labeltree.geometry import Sphere
from labeltree.geometry.precision import answer_dtype
from labeltree.losses.batch import check_batch, check_width, follow_device
from labeltree.losses.loss_base import Loss
from labeltree.losses.reduction import labelled_mean
from labeltree.taxonomy import Taxonomy

__all__ = ["CorrelationLoss"]


class CorrelationLoss(Loss):
    """One minus the inner product of embedding and class embedding (Eq. 8 of Barz & Denzler 2019).

        L = mean over labelled rows of 1 − ψ_i · φ(y_i)

    The class embeddings φ are fixed: their inner products are the classes' similarities in the tree, see
    `Taxonomy.class_embeddings`. ψ_i is the embedding of row i, which the loss normalises. No pairs are
    compared, so a batch need not hold two samples of the same label.

    Args:
        taxonomy: The tree of the labels; the classes are its leaves.
        dim: The width of the embeddings. None: the number of classes, with which φ is exact. If `dim` is
            smaller, φ has the leading eigenpairs of the similarities (Section 3.3) and is not of unit length;
            if it is larger, φ is filled up with zeros.
        normalize: Give the class embeddings of fewer dimensions unit length.

    Attributes:
        dim: The width of the embeddings.
        classes: `(C,)` int64, the leaf nodes.
        targets: `(N, dim)` float64, φ of every node as a label; of an inner node, the normalised mean of its
            leaves' embeddings.

    Call with `embeddings (n, dim)` and `nodes (n,)`, −1 where missing. The mean is over labelled rows, of all
    ranks in training; without any it is exactly 0. A label counts as missing if it is the root, or if its φ
    is 0, which can happen if `dim` is small.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.
        TaxonomyError: `normalize` with a class whose embedding is 0.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = CorrelationLoss(taxonomy)
        >>> loss.dim
        3
        >>> dog, cat = taxonomy.class_embeddings(taxonomy.encode(["dog", "cat"]))
        >>> float(dog @ cat)  # they part at height 1 of 2
        0.5
        >>> z = torch.tensor([[3.0, 0.0, 0.0]])
        >>> [float(loss(z, taxonomy.encode([label]))) for label in ("dog", "cat", "oak")]
        [0.0, 0.5, 1.0]
        >>> taxonomy.decode(loss.predict(z))
        ['animal/dog']
    """

    label_sets = "rows"
    classes: Tensor
    targets: Tensor

    def __init__(self, taxonomy: Taxonomy, dim: int | None = None, *, normalize: bool = False) -> None:
        super().__init__()
        leaves = taxonomy.num_leaves
        if dim is not None and dim < 1:
            raise ValueError(f"dim must be at least 1, or None for the number of classes; got {dim}")
        self.dim = leaves if dim is None else dim
        self.normalize = normalize
        few = self.dim < leaves
        targets = taxonomy.node_embeddings(dim=self.dim if few else None, normalize=few and normalize)
        targets = nn.functional.pad(targets, (0, self.dim - targets.shape[1]))
        targets[0] = 0.0
        self.register_buffer("classes", taxonomy.leaves, persistent=False)
        # Eigenvectors of equal eigenvalues are not unique, and another machine may choose others: the state
        # dict keeps them. The exact embeddings follow from the tree.
        self.register_buffer("targets", targets, persistent=few)

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """The loss of a batch, a scalar; see the class."""
        checked, _ = check_batch(embeddings, nodes, None, len(self.targets), self)
        if checked is None:
            raise ValueError(f"nodes must be an integer tensor of shape ({len(embeddings)},); got None")
        self._check_width(embeddings)
        targets = self.targets[checked.clamp(min=0)]
        labelled = (checked > 0) & targets.any(1)
        points = Sphere().project(embeddings)
        return labelled_mean(
            1 - (points * targets.to(points.dtype)).sum(1), labelled, over_ranks=self.training
        )

    @torch.no_grad()
    def predict(self, embeddings: Tensor) -> Tensor:
        """The leaf whose class embedding has the largest inner product with each row, `(n,)` int64.

        Where φ is of unit length this is the nearest class embedding; ties go to the first.
        """
        return self.classes[self.logits(embeddings).argmax(1)]

    @torch.no_grad()
    def logits(self, embeddings: Tensor) -> Tensor:
        """The inner product of each row with every class embedding, `(n, C)`: scores of the `classes`."""
        self._check_width(embeddings)
        points = embeddings.to(answer_dtype(embeddings))
        with torch.autocast(points.device.type, enabled=False):
            return points @ self.targets[self.classes].to(points.dtype).T

    def _check_width(self, embeddings: Tensor) -> None:
        check_width(embeddings, self.dim, "the width of the class embeddings")
        follow_device(self, self.targets, embeddings.device)
