"""L_CLS: a classifier on the embeddings themselves, to be added to a loss that arranges them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labeltree.losses.class_head import ClassHead, HeadForm
from labeltree.losses.cross_entropy import CrossEntropyLoss
from labeltree.taxonomy import Taxonomy

__all__ = ["EmbeddingClassifierLoss"]


class EmbeddingClassifierLoss(CrossEntropyLoss):
    """The cross entropy of a classifier that reads embeddings (Eq. 10 of Barz & Denzler 2019).

        L_CLS = mean over labelled rows of −log p(y_i)   (Eq. 10 lacks the minus)

    It owns its layers. Added to the correlation loss with weight λ = 0.1 it is their L_CORR+CLS (Eq. 9).

    Args:
        taxonomy: the tree of the labels.
        dim: d, dimension of the embeddings.
        head: `"linear"`: one linear layer (the paper). `"reference"`: ReLU, batch normalisation and a linear
            layer (the published code).
        depth, logit_adjustment, label_smoothing: as of `CrossEntropyLoss`.

    Call with `embeddings (n, dim)` and `nodes (n,)`, −1 where missing; see `CrossEntropyLoss`.

    Raises:
        ValueError: as `CrossEntropyLoss`.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant",)])
        >>> loss = EmbeddingClassifierLoss(taxonomy, dim=2)
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> loss(embeddings, taxonomy.encode(["dog", "animal"])).shape, loss.predict(embeddings).shape
        (torch.Size([]), torch.Size([2]))
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        dim: int,
        *,
        head: HeadForm = "linear",
        depth: int | None = None,
        logit_adjustment: float = 0.0,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(taxonomy, depth, logit_adjustment=logit_adjustment, label_smoothing=label_smoothing)
        self.dim = dim
        self.head = ClassHead(dim, head)
        self.linear = nn.Linear(dim, len(self.classes))

    def logits(self, embeddings: Tensor) -> Tensor:
        """The logits `(n, C)` of embeddings `(n, dim)`."""
        logits: Tensor = self.linear(self.head(embeddings))
        return logits

    @torch.no_grad()
    def predict(self, embeddings: Tensor) -> Tensor:
        """The node of the likeliest class of each row, `(n,)` int64; the first one of equals."""
        return super().predict(self.logits(embeddings))

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        return super().forward(self.logits(embeddings), nodes)
