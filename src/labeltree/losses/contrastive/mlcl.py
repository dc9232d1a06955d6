"""MLCL: a projection head for every depth of the tree, or for every aspect of the samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from labeltree.geometry import Geometry, Sphere, as_geometry
from labeltree.losses.batch import check_batch
from labeltree.losses.classifiers.classifier import ClassifierLoss
from labeltree.losses.contrastive.ratings import JaccardSupConLoss
from labeltree.losses.contrastive.supcon import SupConLoss
from labeltree.losses.loss_base import Loss, shown_settings
from labeltree.losses.reduction import Reduction, labelled_mean
from labeltree.losses.relation_table import Undecided
from labeltree.pairs import PairRelation, Similarity, eager_gradient
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.dag import check_tree

__all__ = ["HeadContrast", "HeadPlan", "MLCLLoss", "plan_heads"]

_COARSE, _FINE = 0.5, 0.1  # τ of the superclass and the class head, section 4.2
_LABEL_SHARE, _GLOBAL_SHARE = 0.2, 0.1  # weights of the heads beside a cross entropy, section 4.2


@dataclass(frozen=True)
class HeadPlan:
    """The settings of one projection head.

    Attributes:
        name: The name in messages: a depth, an aspect, or `global`.
        aspect: Index of the taxonomy whose labels the head compares; None: ratings.
        depth: Depth at which labels are compared; None: the finest.
        temperature: Temperature τ_h.
        weight: Weight α_h in the sum.
    """

    name: str
    aspect: int | None
    depth: int | None
    temperature: float
    weight: float


class HeadContrast(SupConLoss):
    """SupCon of one head; heads of the same labels share the relation of the batch."""

    def beside_others(
        self,
        embeddings: Tensor,
        nodes: Tensor | None,
        instances: Tensor | None,
        relation: PairRelation | None,
    ) -> tuple[Tensor, PairRelation]:
        """The loss and the relation of the batch; the relation given is used if it has as many rows."""
        embeddings, own, table = self._prepare(embeddings, nodes, instances)
        if relation is None or relation.num_queries != own.num_queries:
            relation = own
        return self._evaluate(embeddings, relation, table), relation


def plan_heads(
    taxonomies: Sequence[Taxonomy],
    depths: Sequence[int] | None,
    temperatures: float | Sequence[float] | None,
    weights: float | Sequence[float] | None,
    *,
    global_head: bool,
    ce: bool,
) -> list[HeadPlan]:
    """The heads in order: by depth, coarse → fine, or by aspect; the global head last.

    With one taxonomy there is a head for each of `depths` (None: all). τ falls from 0.5 at the coarsest of
    these depths to 0.1 at the finest, by a constant factor; a single head has 0.1. With several taxonomies
    there is a head for each taxonomy, `depths` has one depth per taxonomy, and τ is 0.1. The weights are
    equal and sum to 1; beside a cross entropy the weights of the label heads sum to 0.2, and the global head
    has 0.1.

    Raises:
        ValueError: a depth that a tree does not have, lists of the wrong length, τ or α out of range.
    """
    if len(taxonomies) == 1:
        deepest = taxonomies[0].max_depth
        chosen = list(range(1, deepest + 1)) if depths is None else [int(depth) for depth in depths]
        if not chosen or chosen != sorted(set(chosen)) or not 1 <= chosen[0] <= chosen[-1] <= deepest:
            raise ValueError(
                f"depths must be some of 1 to {deepest}, the depth of the tree, coarse → fine; got {depths}"
            )
        places: list[tuple[str, int | None, int | None]] = [(f"depth {depth}", 0, depth) for depth in chosen]
        steps = max(len(chosen) - 1, 1)
        taus = [_FINE * (_COARSE / _FINE) ** (1 - place / steps) for place in range(len(chosen))]
        taus[-1] = _FINE
    else:
        if depths is not None and len(depths) != len(taxonomies):
            raise ValueError(
                f"depths must be one per aspect, {len(taxonomies)}, or None: the finest labels; got {depths}"
            )
        at = [None] * len(taxonomies) if depths is None else list(depths)
        for aspect, (taxonomy, depth) in enumerate(zip(taxonomies, at, strict=True)):
            if depth is not None and not 1 <= depth <= taxonomy.max_depth:
                raise ValueError(
                    f"depths must lie between 1 and {taxonomy.max_depth}, the depth of the tree of aspect "
                    f"{aspect}; got {depth}"
                )
        places = [(f"aspect {aspect}", aspect, depth) for aspect, depth in enumerate(at)]
        taus = [_FINE] * len(places)
    alphas = [(_LABEL_SHARE if ce else 1.0) / (len(places) + (global_head and not ce))] * len(places)
    if global_head:
        alphas.append(_GLOBAL_SHARE if ce else alphas[0])
        taus.append(_FINE)
        places.append(("global", None, None))
    names = ", ".join(name for name, _, _ in places)
    taus = _spread_to_heads("temperatures", temperatures, taus, names)
    alphas = _spread_to_heads("weights", weights, alphas, names)
    if not all(tau > 0 for tau in taus):
        raise ValueError(f"temperatures must be above 0; got {taus}")
    if ce and sum(alphas) > 1 + 1e-9:
        raise ValueError(
            f"weights must sum to 1 at most, as the cross entropy has what is left of 1; got {alphas}"
        )
    return [HeadPlan(*place, tau, alpha) for place, tau, alpha in zip(places, taus, alphas, strict=True)]


def _spread_to_heads(
    option: str, values: float | Sequence[float] | None, default: list[float], names: str
) -> list[float]:
    if values is None:
        return default
    per_head = [values] * len(default) if isinstance(values, int | float) else list(values)
    if len(per_head) != len(default):
        raise ValueError(
            f"{option} must have {len(default)} entries, one per head ({names}); got {len(per_head)}: "
            f"{per_head}"
        )
    if not all(math.isfinite(value) and value >= 0 for value in per_head):
        raise ValueError(f"{option} must be finite and not negative; got {per_head}")
    return [float(value) for value in per_head]


class MLCLLoss(Loss):
    """Multi-level contrastive learning (Ghanooni et al., Eq. 2 and 3): SupCon on several projection heads.

        L = Σ_h α_h·L_h + (1 − Σ_h α_h)·CE
        L_h = SupCon of head h's own embeddings at its own temperature τ_h

    *One taxonomy* (section 3.3): a head for every depth, whose positives agree at that depth. Heads of coarse
    depths have a higher temperature, which pushes close negatives away less.

    *Several taxonomies, the aspects of a sample* (section 3.4): a head for every aspect, whose positives
    agree in that aspect. `global_head` adds a head with the `JaccardSupConLoss` of the ratings; `ce` adds a
    linear classifier per aspect on the encoder's features, whose cross entropy is averaged over all labels
    that are not missing.

    Args:
        taxonomy: The tree of the labels; or a sequence of trees, one per aspect.
        temperatures: τ of each head, or one number; None: see `plan_heads`, for two depths the paper's 0.5
            and 0.1. Heads are in the order of the depths, coarse → fine, or of the aspects; the global one is
            last.
        weights: α of each head, likewise; None: for two depths the paper's 0.5 and 0.5.
        depths: Of one taxonomy, the depths that have a head (None: all); of several, the depth at which the
            labels of each are compared (None: the finest).
        global_head: Add a head that compares ratings.
        threshold: Of the global head, see `JaccardSupConLoss`.
        ce: Add a linear classifier and its cross entropy, with the weight 1 − Σ α.
        feature_dim: Width of the features, for `ce`.
        geometry: The space that the heads' outputs are mapped to; None: the sphere (they are normalised).
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: Of each head, see `reduce_terms`; Eq. 1 is printed with `"sum"`.
        undecided: As in `SupConLoss`.

    Attributes:
        num_heads: H, the number of heads, including the global head.
        takes_aspects: True, as several taxonomies can be given.

    Call with `heads` (a list of H tensors `(n, d)`, raw), `nodes (n,)` or with aspects `(n, A)`, −1 where
    missing, `instances (n,)` or None; `ratings (n, A)` for the global head, `features (n, f)` for `ce`.

    Raises:
        ValueError: An argument of the wrong shape or type, or a missing argument that an option needs.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = MLCLLoss(taxonomy)
        >>> print(str(loss).partition("; geometry")[0])
        MLCLLoss(depth 1: τ=0.5, α=0.5; depth 2: τ=0.1, α=0.5
        >>> coarse = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
        >>> loss([coarse, coarse.flip(1)], taxonomy.encode(["dog", "dog", "cat", "oak"]))
        tensor(0.9727)
    """

    takes_aspects: ClassVar[bool] = True
    schedulable: ClassVar[tuple[str, ...]] = ("temperatures", "weights")

    def __init__(
        self,
        taxonomy: Taxonomy | Sequence[Taxonomy],
        temperatures: float | list[float] | None = None,
        weights: float | list[float] | None = None,
        *,
        depths: list[int] | None = None,
        global_head: bool = False,
        threshold: float = 0.75,
        ce: bool = False,
        feature_dim: int | None = None,
        geometry: Geometry | str | None = None,
        similarity: Similarity | None = None,
        reduction: Reduction = "valid",
        undecided: Undecided = "ignore",
    ) -> None:
        super().__init__()
        given = taxonomy if isinstance(taxonomy, Sequence) and not isinstance(taxonomy, str) else [taxonomy]
        taxonomies = [check_tree("heads", each) for each in given]
        if not taxonomies:
            raise ValueError("taxonomy must be a taxonomy, or a sequence of one per aspect; got an empty one")
        if reduction == "none" and ce:
            raise ValueError("reduction='none' has no cross entropy; set ce=False")
        self.geometry = as_geometry(geometry)
        self.plan = plan_heads(taxonomies, depths, temperatures, weights, global_head=global_head, ce=ce)
        self.num_heads = len(self.plan)
        self.num_aspects = len(taxonomies)
        self.similarity = similarity or ("cosine" if isinstance(self.geometry, Sphere) else "distance")
        self.reduction = reduction
        self.undecided = undecided
        self.threshold = threshold
        self.temperatures = [head.temperature for head in self.plan]
        self.weights = [head.weight for head in self.plan]

        shared: dict[str, Any] = {"geometry": self.geometry, "similarity": similarity}
        shared |= {"reduction": reduction, "undecided": undecided}
        self.contrasts = nn.ModuleList(
            JaccardSupConLoss(head.temperature, threshold=threshold, **shared)
            if head.aspect is None
            else HeadContrast(taxonomies[head.aspect], head.temperature, depth=head.depth, **shared)
            for head in self.plan
        )
        self.class_sets = nn.ModuleList()
        self.classifiers = nn.ModuleList()
        if ce:
            if feature_dim is None:
                raise ValueError("ce=True needs feature_dim, the width of the encoder's features")
            at = [None] * self.num_aspects if self.num_aspects == 1 or depths is None else depths
            for tree, depth in zip(taxonomies, at, strict=True):
                classes = ClassifierLoss(tree, depth)
                self.class_sets.append(classes)
                self.classifiers.append(nn.Linear(feature_dim, len(classes.classes)))

    def __repr__(self) -> str:
        heads = [f"{head.name}: τ={head.temperature:.3g}, α={head.weight:.3g}" for head in self.plan]
        if len(self.classifiers):
            heads.append(f"cross entropy: {1 - sum(self.weights):.3g}")
        names = ["geometry", "similarity", "reduction", "undecided"]
        if self.needs_ratings:
            names.insert(0, "threshold")
        return f"MLCLLoss({'; '.join(heads)}; {shown_settings(self, names)})"

    def forward(
        self,
        heads: Sequence[Tensor],
        nodes: Tensor | None,
        instances: Tensor | None = None,
        ratings: Tensor | None = None,
        features: Tensor | None = None,
    ) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        if not isinstance(heads, list | tuple) or len(heads) != self.num_heads:
            names = ", ".join(head.name for head in self.plan)
            got = f"{len(heads)} tensors" if isinstance(heads, list | tuple) else type(heads).__name__
            raise ValueError(
                f"heads must be a list of {self.num_heads} tensors (n, d), one per head ({names}); got {got}"
            )
        columns = self._columns(nodes)
        relations: dict[int, PairRelation] = {}
        total: Tensor | None = None
        for place, (outputs, weight) in enumerate(zip(heads, self.weights, strict=True)):
            check_batch(outputs, None, instances, None)
            loss = partial(self._head, place, columns, instances, ratings, relations)
            term = weight * (loss(outputs) if self.reduction == "none" else eager_gradient(loss, outputs))
            total = term if total is None else total + term
        assert total is not None
        if len(self.classifiers):
            total = total + (1 - sum(self.weights)) * self._cross_entropy(features, columns)
        return total

    def classify(self, features: Tensor) -> Tensor:
        """The most likely class of every aspect under the linear classifiers of `ce`, nodes `(n, A)`."""
        answers = [classes.predict(logits) for classes, logits in self._classify(features)]
        return torch.stack(answers, dim=1)

    @property
    def needs_ratings(self) -> bool:
        """Whether there is a global head, which needs ratings."""
        return any(head.aspect is None for head in self.plan)

    @property
    def predict_aspects(self) -> Callable[[Tensor], Tensor]:
        """The prediction for every aspect, `classify`; only available with `ce`."""
        if not len(self.classifiers):
            raise AttributeError("MLCLLoss answers with ce=True")
        return self.classify

    @property
    def predict(self) -> Callable[[Tensor], Tensor]:
        """The prediction, nodes `(n,)` from `features (n, f)`; only available with `ce` and one taxonomy."""
        if not len(self.classifiers) or self.num_aspects > 1:
            raise AttributeError("MLCLLoss answers with ce=True and one taxonomy; classify() has all aspects")

        def predict(features: Tensor) -> Tensor:
            return self.classify(features)[:, 0]

        return predict

    @property
    def classes(self) -> Tensor:
        """`(C,)` int64, the nodes that `predict` chooses among; only available with `predict`."""
        _ = self.predict
        first = self.class_sets[0]
        assert isinstance(first, ClassifierLoss)
        return first.classes

    @property
    def logits(self) -> Callable[[Tensor], Tensor]:
        """Scores of the `classes`, `(n, C)` from `features (n, f)`; only available with `predict`."""
        _ = self.predict

        def logits(features: Tensor) -> Tensor:
            return next(self._classify(features))[1]

        return logits

    def _head(
        self,
        place: int,
        columns: list[Tensor | None],
        instances: Tensor | None,
        ratings: Tensor | None,
        relations: dict[int, PairRelation],
        outputs: Tensor,
    ) -> Tensor:
        """The loss of one head; `relations` caches the relation of each aspect's labels for later heads."""
        head, contrast = self.plan[place], self.contrasts[place]
        # on the sphere every similarity normalises its input
        points = outputs if isinstance(self.geometry, Sphere) else self.geometry.embed(outputs)
        assert isinstance(contrast, HeadContrast | JaccardSupConLoss)
        contrast.temperature = self.temperatures[place]
        if head.aspect is None or isinstance(contrast, JaccardSupConLoss):
            if ratings is None:
                raise ValueError("the global head needs ratings (n, A); give them, or set global_head=False")
            loss: Tensor = contrast(points, ratings, instances)
            return loss
        known = relations.get(head.aspect)
        loss, relations[head.aspect] = contrast.beside_others(points, columns[head.aspect], instances, known)
        return loss

    def _columns(self, nodes: Tensor | None) -> list[Tensor | None]:
        """The labels of each aspect."""
        if nodes is None:
            return [None] * self.num_aspects
        if isinstance(nodes, Tensor):
            if nodes.dim() == 1 and self.num_aspects == 1:
                return [nodes]
            if nodes.dim() == 2 and nodes.shape[1] == self.num_aspects:
                return list(nodes.unbind(1))
        shape = "(n,)" if self.num_aspects == 1 else f"(n, {self.num_aspects}), a column per aspect"
        got = f"shape {tuple(nodes.shape)}" if isinstance(nodes, Tensor) else type(nodes).__name__
        raise ValueError(f"nodes must be an integer tensor of shape {shape}; got {got}")

    def _classify(self, features: Tensor) -> Iterator[tuple[ClassifierLoss, Tensor]]:
        """The classifier of each aspect, and its logits `(n, C)`."""
        for classes, classifier in zip(self.class_sets, self.classifiers, strict=True):
            assert isinstance(classes, ClassifierLoss)
            yield classes, classifier(features)

    def _cross_entropy(self, features: Tensor | None, columns: list[Tensor | None]) -> Tensor:
        """The mean of −log p over all labels of all aspects that are not missing; 0 if there are none."""
        if features is None:
            raise ValueError("ce=True needs features (n, f), what the encoder gives")
        rows, labelled = [], []
        for (classes, logits), nodes in zip(self._classify(features), columns, strict=True):
            if nodes is None:
                nodes = torch.full((len(features),), -1, device=features.device)
            logits, nodes = classes.prepare(logits, nodes)
            rows.append(-classes.log_likelihood(logits, nodes))
            labelled.append(nodes >= 0)
        return labelled_mean(torch.cat(rows), torch.cat(labelled), over_ranks=self.training)
