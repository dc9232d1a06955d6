"""HAF: classifiers at every depth that agree with each other, in what they answer and in their weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from labeltree.geometry import Sphere
from labeltree.geometry.precision import answer_dtype
from labeltree.losses.batch import check_width
from labeltree.losses.classifiers.classes import class_nodes, class_ranges
from labeltree.losses.classifiers.classifier import ClassifierLoss
from labeltree.losses.reduction import labelled_mean, propagate_nan
from labeltree.pairs import gather_embeddings, gather_rows
from labeltree.taxonomy import Taxonomy

__all__ = ["HAFLoss"]


class HAFLoss(ClassifierLoss):
    """Hierarchy-aware features (Garg, Sani & Anand 2022).

        L = −log p_L(y)  +  a·Σ_l JS(p_l, q_l)  +  b·Σ_l M_l  +  g·Σ_l (1 − mean over c of cos(W_c, V_c))

        q_l(c) = Σ p_{l'}(e) over the children e of c at the next finer depth l'
        M_l    = ½·[m − KL(p_l(i) ‖ r)]₊ + ½·[m − KL(p_l(j) ‖ r)]₊,   r = ½·(p_l(i) + p_l(j))
        V_c    = Σ W_e/|W_e| over the same children

    A linear classifier of unit weight vectors W and biases reads the features at every depth; p_l is its
    softmax. The finest learns from the labels. Every coarser one, l in the sums, learns to answer as the next
    finer does (JS, the Jensen-Shannon divergence, whose gradient goes to both), to tell rows of different
    classes apart (M, over pairs of a row and the next in the batch whose classes at depth l differ), and to
    have weights in the direction of its children's. The first three terms are means over rows and pairs.

    KL is at most log 2, about 0.69: with the published m = 3 no pair ever satisfies the margin, and M is 3
    minus the Jensen-Shannon divergence.

    Args:
        taxonomy: The tree of the labels.
        feature_dim: f, width of the features.
        depths: The depths that have a classifier, coarse → fine; None: 1 to L. The leaves above a depth are
            among its classes. The answers are the classes of the last.
        consistency_weight: a ≥ 0.
        margin_weight: b ≥ 0.
        geometric_weight: g ≥ 0.
        margin: m ≥ 0.

    Call with `features (n, f)` and `nodes (n,)`, −1 where missing. A label at an inner node is as likely as
    its classes together, and takes part in M at the depths down to its own. Missing labels take no part in
    any term. Means are over all ranks in training. Without a labelled row the geometric term is left.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = HAFLoss(taxonomy, feature_dim=4)
        >>> features = torch.randn(5, 4)
        >>> loss(features, taxonomy.encode(["dog", "cat", "oak", "animal", None])).shape
        torch.Size([])
        >>> [logits.shape[1] for logits in loss.logits_of_depths(features)]
        [2, 3]
    """

    schedulable = ("consistency_weight", "margin_weight", "geometric_weight", "margin")
    paths: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        feature_dim: int,
        depths: Sequence[int] | None = None,
        *,
        consistency_weight: float = 1.0,
        margin_weight: float = 1.0,
        geometric_weight: float = 1.0,
        margin: float = 3.0,
    ) -> None:
        listed = _check_depths(depths, taxonomy.max_depth)
        super().__init__(taxonomy, listed[-1] if listed else None)
        self.depths = listed
        if not (isinstance(feature_dim, int) and feature_dim > 0):
            raise ValueError(
                f"feature_dim must be the width of the features, a whole number above 0; got {feature_dim!r}"
            )
        for name, value in (
            ("consistency_weight", consistency_weight),
            ("margin_weight", margin_weight),
            ("geometric_weight", geometric_weight),
            ("margin", margin),
        ):
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be finite and not negative; got {value}")
        self.feature_dim = feature_dim
        self.consistency_weight = consistency_weight
        self.margin_weight = margin_weight
        self.geometric_weight = geometric_weight
        self.margin = margin
        self.register_buffer("paths", taxonomy.paths, persistent=False)
        of_depths = [class_nodes(taxonomy, depth) for depth in self.depths[:-1]] + [self.classes]
        self.classifiers = nn.ModuleList(nn.Linear(feature_dim, len(classes)) for classes in of_depths)
        for place, (coarse, fine) in enumerate(pairwise(of_depths)):
            ranges = class_ranges(taxonomy, coarse)
            self.register_buffer(f"parent_{place}", ranges[fine, 0], persistent=False)

    def logits_of_depths(self, features: Tensor) -> list[Tensor]:
        """The logits of every depth that has a classifier, coarse → fine, `(n, C_l)` in float32 or better."""
        check_width(features, self.feature_dim, f"as feature_dim={self.feature_dim}", name="features")
        with torch.autocast(features.device.type, enabled=False):
            return [self._logits(features, place) for place in range(len(self.classifiers))]

    def logits(self, features: Tensor) -> Tensor:
        """The logits of the finest classifier, `(n, C)`: scores of the `classes`."""
        return self.logits_of_depths(features)[-1]

    @torch.no_grad()
    def predict(self, features: Tensor) -> Tensor:
        """The node of the most likely class of the finest classifier, `(n,)` int64; ties go to the first."""
        return super().predict(self.logits(features))

    def forward(self, features: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        *coarse, finest = self.logits_of_depths(features)
        finest, nodes = self.prepare(finest, nodes)
        loss = self.mean(-self.log_likelihood(finest, nodes), nodes)
        answers = [logits.softmax(1) for logits in (*coarse, finest)]
        for place, (p, fine) in enumerate(pairwise(answers)):
            parent = getattr(self, f"parent_{place}")
            q = torch.zeros_like(p).index_add(1, parent, fine)
            loss = loss + self.consistency_weight * self.mean(_divergence(p, q), nodes)
            classes = self.paths[nodes, self.depths[place] - 1]
            loss = loss + self.margin_weight * self._apart(p, classes, nodes)
            loss = loss + self.geometric_weight * self._bent(place, parent)
        return propagate_nan(loss, features)

    def _logits(self, features: Tensor, place: int) -> Tensor:
        linear = self._classifier(place)
        dtype = answer_dtype(features, linear.weight)
        return features.to(dtype) @ self._weight(place).to(dtype).T + linear.bias

    def _classifier(self, place: int) -> nn.Linear:
        classifier = self.classifiers[place]
        assert isinstance(classifier, nn.Linear)
        return classifier

    def _weight(self, place: int) -> Tensor:
        """The unit weight vectors of a classifier, `(C_l, f)`."""
        return Sphere().project(self._classifier(place).weight)

    def _apart(self, p: Tensor, classes: Tensor, nodes: Tensor) -> Tensor:
        """M of one depth, from its answers `(n, C_l)` and the class of each row there, −1 where undecided."""
        classes = torch.where(nodes >= 0, classes, -1)
        if self.training:
            p, _ = gather_embeddings(p)
            classes = gather_rows(classes)
        other, of_other = p.roll(-1, 0), classes.roll(-1)
        middle = (p + other) / 2
        hinges = (self.margin - _relative(p, middle)).relu() + (self.margin - _relative(other, middle)).relu()
        differ = (classes != of_other) & (classes >= 0) & (of_other >= 0)
        return labelled_mean(hinges / 2, differ)

    def _bent(self, place: int, parent: Tensor) -> Tensor:
        """1 − the mean cosine of the weights of the classes of one depth and the sums of their children's."""
        coarse, fine = self._weight(place), self._weight(place + 1)
        children = torch.zeros_like(coarse).index_add(0, parent, fine)
        return 1 - Sphere().similarity(coarse, children).mean()


def _check_depths(depths: Sequence[int] | None, deepest: int) -> list[int]:
    if depths is None:
        return list(range(1, deepest + 1))
    listed = list(depths)
    fit = all(isinstance(depth, int) and 1 <= depth <= deepest for depth in listed)
    if not listed or not fit or sorted(set(listed)) != listed:
        raise ValueError(
            f"depths must be depths of the tree, 1 to {deepest}, coarse → fine, each once; got {depths}"
        )
    return listed


def _relative(p: Tensor, r: Tensor) -> Tensor:
    """KL(p ‖ r) of distributions `(n, C)`, in nats, `(n,)`; r must not be smaller than p/2."""
    tiny = torch.finfo(p.dtype).tiny
    return (p * (p.clamp(min=tiny).log() - r.clamp(min=tiny).log())).sum(1)


def _divergence(p: Tensor, q: Tensor) -> Tensor:
    """The Jensen-Shannon divergence of distributions `(n, C)`, in nats, from 0 to log 2: `(n,)`."""
    middle = (p + q) / 2
    return (_relative(p, middle) + _relative(q, middle)) / 2
