"""Center loss: cross entropy, and the distance of features from the centre of their class."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.losses.classifiers.classifier import ClassifierLoss
from labeltree.losses.reduction import propagate_nan
from labeltree.pairs import gather_rows
from labeltree.taxonomy import Taxonomy

__all__ = ["CenterLoss"]


class CenterLoss(ClassifierLoss):
    """Cross entropy with the center loss (Eq. 2 to 5 of Wen et al. 2016, A Discriminative Feature Learning).

        L = mean over labelled rows of −log p(y_i) + λ/2·|x_i − c_{y_i}|²
        c_j ← c_j − α·Σ_{i: y_i=j} (c_j − x_i) / (1 + |{i: y_i=j}|)

    The centres are buffers that start at the origin. In training mode they are updated after the loss of a
    step is computed; no gradient passes through them. With `torch.distributed` they are updated with the
    samples of all ranks and are the same on each. An inner-node label is as likely as its leaves together and
    has no centre. Updates that are not finite are skipped.

    Args:
        taxonomy: The tree of the labels.
        feature_dim: f, width of the features.
        weight: λ ≥ 0.
        alpha: α in [0, 1], the rate of the centres.

    Attributes:
        centres: `(num_leaves, f)`, in the order of `classes`.

    Call with `features (n, f)`, `logits (n, num_leaves)` and `nodes (n,)`, −1 where missing. The mean is over
    labelled rows, of all ranks in training; without any it is exactly 0.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat")])
        >>> loss = CenterLoss(taxonomy, feature_dim=2, weight=0.1)
        >>> x, logits = torch.tensor([[2.0, 0.0], [4.0, 0.0]]), torch.zeros(2, 2)
        >>> loss(x, logits, taxonomy.encode(["dog", "dog"]))  # log 2 + 0.1/2·(4 + 16)/2
        tensor(1.1931)
        >>> loss.centres  # 0 + 0.5·(2 + 4)/(1 + 2)
        tensor([[1., 0.],
                [0., 0.]])
    """

    schedulable = ("weight", "alpha")
    centres: Tensor

    def __init__(
        self, taxonomy: Taxonomy, feature_dim: int, weight: float = 0.003, *, alpha: float = 0.5
    ) -> None:
        super().__init__(taxonomy)
        if not (isinstance(feature_dim, int) and feature_dim > 0):
            raise ValueError(
                f"feature_dim must be the width of the features, a whole number above 0; got {feature_dim!r}"
            )
        if not weight >= 0:
            raise ValueError(f"weight must not be negative; got {weight}")
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha must lie between 0 and 1; got {alpha}")
        self.feature_dim = feature_dim
        self.weight = weight
        self.alpha = alpha
        self.register_buffer("centres", torch.zeros(len(self.classes), feature_dim))

    def forward(self, features: Tensor, logits: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch and, in training mode, update the centres; see the class."""
        logits, nodes = self.prepare(logits, nodes)
        expected = (len(logits), self.centres.shape[1])
        if not isinstance(features, Tensor) or features.shape != expected:
            got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
            raise ValueError(f"features must have shape {expected}, a row for each row of logits; got {got}")
        features = features.to(logits.dtype)
        rows = -self.log_likelihood(logits, nodes)
        first, end = self.ranges[nodes].unbind(1)
        whole = (end - first == 1) & (nodes >= 0)  # labels that are one class
        distance = (features - self.centres[first].to(features.dtype)).square().sum(1)
        loss = self.mean(rows + self.weight / 2 * distance.masked_fill(~whole, 0.0), nodes)
        loss = propagate_nan(loss, features)
        if self.training:
            self._follow(gather_rows(features[whole]), gather_rows(first[whole]))
        return loss

    @torch.no_grad()
    def _follow(self, features: Tensor, classes: Tensor) -> None:
        centres = self.centres.to(features.dtype)
        pull = torch.zeros_like(centres).index_add(0, classes, centres[classes] - features)
        count = torch.bincount(classes, minlength=len(centres)).to(features.dtype)
        moved = centres - self.alpha * pull / (1 + count)[:, None]
        self.centres.copy_(torch.where(moved.isfinite().all(1, keepdim=True), moved, centres))
