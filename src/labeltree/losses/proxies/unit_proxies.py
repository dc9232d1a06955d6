"""The base class of the losses that compare embeddings with a learnt unit vector for each class."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labeltree.geometry import Sphere
from labeltree.losses.batch import check_dim, check_width
from labeltree.losses.classifiers.classifier import ClassifierLoss
from labeltree.taxonomy import Taxonomy

__all__ = ["ProxyLoss"]


class ProxyLoss(ClassifierLoss):
    """Base of the losses with proxies: one vector for each class, of which only the direction counts.

    Args:
        taxonomy: The tree of the labels.
        dim: d, dimension of the embeddings.
        depth: The classes are the nodes of this depth and the leaves above it; None: the leaves.

    Attributes:
        proxies: `(C, dim)` parameter; they start as random unit vectors.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.
    """

    def __init__(self, taxonomy: Taxonomy, dim: int, depth: int | None = None) -> None:
        super().__init__(taxonomy, depth)
        check_dim(dim)
        self.dim = dim
        self.proxies = nn.Parameter(nn.functional.normalize(torch.randn(len(self.classes), dim)))

    def logits(self, embeddings: Tensor) -> Tensor:
        """The cosine of each embedding and each proxy, `(n, C)`, float32 or better: scores of the classes."""
        check_width(embeddings, self.dim)
        return Sphere().pairwise_similarity(embeddings, self.proxies)

    @torch.no_grad()
    def predict(self, embeddings: Tensor) -> Tensor:
        """The class of the nearest proxy of each row, `(n,)` int64; ties go to the first."""
        return super().predict(self.logits(embeddings))
