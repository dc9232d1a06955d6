"""The ridge head as the objective of a run: solved from all training features at once, not by steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from labeltree.checks import check_integer
from labeltree.errors import DataError
from labeltree.ridge.fitting import FoldOutputs, fit_tree_ridge
from labeltree.ridge.tree_ridge import TreeRidge, check_settings
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.class_similarity import Similarity, class_similarity

__all__ = ["TreeRidgeLoss"]


class TreeRidgeLoss(nn.Module):
    """Answers and embeddings of the ridge head, and the log loss of its answers.

    `solve` finds it; until then all classes are equally probable. Embeddings are the posterior space, see
    `TreeRidge.posterior_embeddings`.

    Args:
        taxonomy: Of the training labels.
        feature_dim: Width of the features, d.
        tree: How much the taxonomy counts in embeddings, from 0 to 1; None = chosen by folds.
        instance: How much the features count beside the classes, from 0; None = chosen by folds.
        similarity: Of two classes, by the `height` or the `depth` of their lowest common ancestor; None =
            chosen by folds.
        penalty: λ; None = chosen by folds.
        folds: Number of folds.

    Attributes:
        classes: `(c,)` nodes that it answers.
        weight: `(d, c)`, with `bias (c,)`: logits before calibration, s·F, of features of unit length.
        calibration: `(2, c)` slope and offset of each class.
        points: `(c, c)` embedding of each class.
        nearness: `(1,)` the square root of `instance`, or `(0,)` where features do not count.
    """

    solved = True
    label_sets = "rows"
    classes: Tensor
    weight: nn.Parameter
    bias: nn.Parameter
    calibration: nn.Parameter
    points: nn.Parameter
    nearness: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        feature_dim: int,
        tree: float | None = None,
        instance: float | None = None,
        similarity: Similarity | None = None,
        penalty: float | None = None,
        folds: int = 5,
    ) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {
            "tree": tree, "instance": instance, "similarity": similarity, "penalty": penalty
        }  # fmt: skip
        check_settings(**{name: value for name, value in self.settings.items() if value is not None})
        check_integer("folds", folds, 2)
        self.folds = folds
        self.taxonomy = taxonomy
        self.feature_dim = feature_dim
        self.register_buffer("classes", taxonomy.leaves.clone())
        for name in ("weight", "bias", "calibration", "points"):
            self.register_parameter(name, nn.Parameter(torch.empty(0), requires_grad=False))
        self.register_buffer("nearness", torch.empty(0))
        self._make_room(self.classes)

    def make_room(self, state: Mapping[str, Tensor]) -> None:
        """Shape the tensors for a state dict, from the number of its classes.

        Raises:
            DataError: If they are no nodes of the taxonomy.
        """
        if "classes" in state and "nearness" in state:
            self._make_room(state["classes"])
            self._set(nearness=state["nearness"][:1])

    def _make_room(self, classes: Tensor) -> None:
        count = len(classes)
        whole = classes.ndim == 1 and classes.dtype == torch.int64 and count > 0
        if not whole or int(classes[0]) < 1 or int(classes[-1]) >= self.taxonomy.num_nodes:
            raise DataError("the classes of a ridge head are no nodes of its taxonomy")
        if bool((classes.diff() <= 0).any()):
            raise DataError("the classes of a ridge head do not ascend")
        self._set(
            classes=classes,
            weight=torch.zeros(self.feature_dim, count),
            bias=torch.zeros(count),
            calibration=torch.tensor([[1.0], [0.0]]).repeat(1, count),
            points=torch.eye(count),
        )

    @property
    def dim(self) -> int:
        """Width of the embeddings: c, or c + d where the features count."""
        return len(self.classes) + self.feature_dim * len(self.nearness)

    def solve(
        self, features: Tensor, nodes: Tensor, groups: Tensor | None = None, seed: int = 0
    ) -> tuple[TreeRidge, FoldOutputs]:
        """Solve the head of all training features, and take it over.

        Args:
            features: `(n, d)`.
            nodes: `(n,)` labels, −1 where missing; or `(n, k)` several.
            groups: See `fit_tree_ridge`.
            seed: Of the folds.

        Raises:
            DataError: See `fit_tree_ridge`.
        """
        head, outputs = fit_tree_ridge(
            features, nodes, self.taxonomy, groups=groups, folds=self.folds, seed=seed, **self.settings
        )
        self.take(head)
        return head, outputs

    def take(self, head: TreeRidge) -> None:
        """Answer and embed as a head does."""
        likeness = class_similarity(head.classes, self.taxonomy, head.similarity, head.tree)
        self._set(
            classes=head.classes,
            weight=head.scale * head.weight,
            bias=head.scale * head.bias,
            calibration=head.calibration[head.classes].T,
            points=torch.linalg.cholesky(likeness),
            nearness=torch.tensor([head.instance] if head.instance else []).sqrt(),
        )

    def _set(self, **values: Tensor) -> None:
        for name, value in values.items():
            own = getattr(self, name)
            fresh = value.detach().to(own.device, own.dtype, copy=True).contiguous()
            setattr(self, name, nn.Parameter(fresh, False) if isinstance(own, nn.Parameter) else fresh)

    def logits(self, features: Tensor) -> Tensor:
        """Log-probabilities `(n, c)` of features `(n, d)`."""
        scores = functional.log_softmax(unit_features(features) @ self.weight + self.bias, 1)
        return functional.log_softmax(scores * self.calibration[0] + self.calibration[1], 1)

    def predict(self, features: Tensor) -> Tensor:
        """The most probable class of each sample, as nodes `(n,)`."""
        return self.classes[self.logits(features).argmax(1)]

    def embed(self, features: Tensor) -> Tensor:
        """The posterior space `(n, dim)` of features `(n, d)`; compare by cosine."""
        embeddings = self.logits(features).exp() @ self.points
        if not len(self.nearness):
            return embeddings
        return torch.cat([embeddings, self.nearness * unit_features(features)], 1)

    def forward(self, features: Tensor, nodes: Tensor) -> Tensor:
        """The mean log loss of the samples that are labelled with a class; 0 if there is none."""
        at = torch.searchsorted(self.classes, nodes).clamp_max(len(self.classes) - 1)
        known = self.classes[at] == nodes
        losses = functional.nll_loss(self.logits(features), at, reduction="none")
        total: Tensor = (losses * known).sum() / known.sum().clamp_min(1)
        return total


def unit_features(features: Tensor) -> Tensor:
    """Features at length 1, where they are not 0."""
    return functional.normalize(features, dim=1)
