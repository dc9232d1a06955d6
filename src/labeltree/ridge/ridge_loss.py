"""The ridge head as the objective of a run: solved from all training features at once, not by steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from labeltree.checks import check_integer
from labeltree.errors import DataError
from labeltree.geometry.fourier_features import fourier_features
from labeltree.ridge.fitting import FoldOutputs, fit_tree_ridge
from labeltree.ridge.tree_ridge import INSTANCE, TREE, Nonlinear, TreeRidge, check_nonlinear, check_settings
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.class_similarity import Similarity, class_points

__all__ = ["TreeRidgeLoss"]


class TreeRidgeLoss(nn.Module):
    """Answers and embeddings of the ridge head, and the log loss of its answers.

    `solve` finds it; until then all classes are equally probable. Embeddings are the posterior space, see
    `TreeRidge.posterior_embeddings`.

    Args:
        taxonomy: Of the training labels.
        feature_dim: Width of the features, d.
        tree: How much the taxonomy counts in embeddings, from 0 to 1.
        instance: How much what tells samples of a class apart counts beside the classes, from 0.
        similarity: Of two classes, by the `height` or the `depth` of their lowest common ancestor.
        penalty: λ; None = chosen by folds.
        folds: Number of folds.
        nonlinear: Whether the head reads random Fourier features of the features at unit length: `never`,
            `auto` (if folds are answered better so), `always`, or how many.

    Attributes:
        classes: `(c,)` nodes that it answers.
        weight: `(d, c)`, with `bias (c,)`: logits before calibration, s·F, of features of unit length; `(2k,
            c)`, if it reads their Fourier features.
        frequencies: `(d, k)` of the 2k Fourier features, or None.
        calibration: `(2, c)` slope and offset of each class.
        points: `(c, c)` embedding of each class.
    """

    solved = True
    label_sets = "rows"
    classes: Tensor
    points: Tensor
    frequencies: Tensor | None
    weight: nn.Parameter
    bias: nn.Parameter
    calibration: nn.Parameter

    def __init__(
        self,
        taxonomy: Taxonomy,
        feature_dim: int,
        tree: float = TREE,
        instance: float = INSTANCE,
        similarity: Similarity = "depth",
        penalty: float | None = None,
        folds: int = 5,
        nonlinear: Nonlinear = "never",
    ) -> None:
        super().__init__()
        self.space: dict[str, Any] = {"tree": tree, "instance": instance, "similarity": similarity}
        check_settings(**self.space, **({} if penalty is None else {"penalty": penalty}))
        check_integer("folds", folds, 2)
        check_nonlinear(nonlinear)
        self.nonlinear: Nonlinear = nonlinear
        self.penalty = penalty
        self.folds = folds
        self.taxonomy = taxonomy
        self.feature_dim = feature_dim
        self.register_buffer("classes", torch.empty(0, dtype=torch.int64))
        self.register_buffer("points", torch.empty(0), persistent=False)
        self.register_buffer("frequencies", None)
        for name in ("weight", "bias", "calibration"):
            self.register_parameter(name, nn.Parameter(torch.empty(0), requires_grad=False))
        self._make_room(taxonomy.leaves)

    def make_room(self, state: Mapping[str, Tensor]) -> None:
        """Shape the tensors for a state dict, from the number of its classes.

        Raises:
            DataError: If they are no nodes of the taxonomy, or frequencies are of features of another width.
        """
        if "classes" in state:
            self._make_room(state["classes"], state.get("frequencies"))

    def _make_room(self, classes: Tensor, frequencies: Tensor | None = None) -> None:
        count = len(classes)
        whole = classes.ndim == 1 and classes.dtype == torch.int64 and count > 0
        if not whole or int(classes[0]) < 1 or int(classes[-1]) >= self.taxonomy.num_nodes:
            raise DataError("the classes of a ridge head are not nodes of its taxonomy")
        if bool((classes.diff() <= 0).any()):
            raise DataError("the classes of a ridge head do not ascend")
        width = self.feature_dim
        if frequencies is not None:
            if frequencies.ndim != 2 or len(frequencies) != width:
                raise DataError(f"the frequencies of a ridge head are not those of {width} features")
            width = 2 * frequencies.shape[1]
            frequencies = frequencies.detach().to(self.weight, copy=True)
        self.frequencies = frequencies
        self._set(
            classes=classes,
            weight=torch.zeros(width, count),
            bias=torch.zeros(count),
            calibration=torch.tensor([[1.0], [0.0]]).repeat(1, count),
            points=class_points(classes.cpu(), self.taxonomy, self.space["similarity"], self.space["tree"]),
        )

    @property
    def dim(self) -> int:
        """Width of the embeddings: c, or 2c + d with `instance` above 0."""
        count = len(self.classes)
        return 2 * count + self.feature_dim if self.space["instance"] else count

    @property
    def num_fourier_features(self) -> int:
        """How many Fourier features the head reads; 0 = none, it reads the features themselves."""
        return 0 if self.frequencies is None else 2 * self.frequencies.shape[1]

    def solve(
        self,
        features: Tensor,
        nodes: Tensor,
        groups: Tensor | None = None,
        seed: int = 0,
        held: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[TreeRidge, FoldOutputs]:
        """Solve the head of all training features, and take it over.

        Args:
            features: `(n, d)`.
            nodes: `(n,)` labels, −1 where missing; or `(n, k)` several.
            groups: See `fit_tree_ridge`.
            seed: Of the folds.
            held: See `fit_tree_ridge`.

        Raises:
            DataError: See `fit_tree_ridge`.
        """
        head, outputs = fit_tree_ridge(
            features,
            nodes,
            self.taxonomy,
            groups=groups,
            penalty=self.penalty,
            nonlinear=self.nonlinear,
            folds=self.folds,
            seed=seed,
            held=held,
            **self.space,
        )
        self.take(head)
        return head, outputs

    def take(self, head: TreeRidge) -> None:
        """Answer as a head does."""
        self._make_room(head.classes, head.frequencies)
        self._set(
            weight=head.scale * head.weight,
            bias=head.scale * head.bias,
            calibration=head.calibration[head.classes].T,
        )

    def _set(self, **values: Tensor) -> None:
        for name, value in values.items():
            own = getattr(self, name)
            fresh = value.detach().to(own.device, own.dtype, copy=True).contiguous()
            setattr(self, name, nn.Parameter(fresh, False) if isinstance(own, nn.Parameter) else fresh)

    def _outputs(self, features: Tensor) -> Tensor:
        points = functional.normalize(features, dim=1)
        if self.frequencies is not None:
            points = fourier_features(points, self.frequencies)
        return points @ self.weight + self.bias

    def logits(self, features: Tensor) -> Tensor:
        """Log-probabilities `(n, c)` of features `(n, d)`."""
        scores = functional.log_softmax(self._outputs(features), 1)
        return functional.log_softmax(scores * self.calibration[0] + self.calibration[1], 1)

    def predict(self, features: Tensor) -> Tensor:
        """The most probable class of each sample, as nodes `(n,)`."""
        return self.classes[self.logits(features).argmax(1)]

    def embed(self, features: Tensor) -> Tensor:
        """The posterior space `(n, dim)` of features `(n, d)`; compare by cosine."""
        embeddings = self.logits(features).exp() @ self.points
        if not self.space["instance"]:
            return embeddings
        outputs = self._outputs(features) @ (self.points - self.points.mean(0))
        beside = torch.cat([functional.normalize(part, dim=1) for part in (outputs, features)], 1)
        weight = math.sqrt(self.space["instance"])
        return torch.cat([embeddings, weight * functional.normalize(beside, dim=1)], 1)

    def turning(
        self, *, tree: float | None = None, instance: float | None = None
    ) -> Callable[[Tensor], Tensor]:
        """What makes embeddings with other dials of those of `embed`, without features or labels.

        Args:
            tree: How much the taxonomy counts, from 0 to 1; None = as it was solved.
            instance: How much what tells samples of a class apart counts, from 0; None = likewise.

        Returns:
            A function of embeddings `(n, dim)`, of any length, that gives `(n, c)` or `(n, 2c + d)` float64
            of unit length.

        Raises:
            ValueError: If a dial is out of range, or `instance` is above 0, and was 0 when it was solved.
        """
        new = {**self.space, **({} if tree is None else {"tree": tree})}
        new |= {} if instance is None else {"instance": instance}
        check_settings(**new)
        if new["instance"] and not self.space["instance"]:
            raise ValueError("the embeddings hold classes alone, so instance must stay at 0")
        classes = self.classes.cpu()
        own, points = (
            class_points(classes, self.taxonomy, space["similarity"], space["tree"])
            for space in (self.space, new)
        )
        change = torch.linalg.solve_triangular(own, points, upper=False)
        count, weight = len(classes), math.sqrt(new["instance"])

        def turn(embeddings: Tensor) -> Tensor:
            expected, beside = embeddings.double().cpu().tensor_split([count], dim=1)
            if not weight:
                return functional.normalize(expected @ change, dim=1)
            lengths = beside.norm(dim=1, keepdim=True) / math.sqrt(self.space["instance"])
            outputs, features = beside.tensor_split([count], dim=1)
            parts = [functional.normalize(part, dim=1) for part in (outputs @ change, features)]
            beside = weight * lengths * functional.normalize(torch.cat(parts, 1), dim=1)
            return functional.normalize(torch.cat([expected @ change, beside], 1), dim=1)

        return turn

    def forward(self, features: Tensor, nodes: Tensor) -> Tensor:
        """The mean log loss of the samples that are labelled with a class; 0 if there is none."""
        at = torch.searchsorted(self.classes, nodes).clamp_max(len(self.classes) - 1)
        known = self.classes[at] == nodes
        losses = functional.nll_loss(self.logits(features), at, reduction="none")
        total: Tensor = (losses * known).sum() / known.sum().clamp_min(1)
        return total
