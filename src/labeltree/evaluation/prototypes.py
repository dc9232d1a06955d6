"""Nearest prototypes, and whether samples lie nearer to their own branch than to others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.evaluation.classification import classification_scores
from labeltree.evaluation.ground import Ground
from labeltree.evaluation.reading import Reading
from labeltree.evaluation.samples import Samples
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.geometry import Geometry
from labeltree.metrics.functional import class_prototypes, pair_violations, parent_metrics, parent_violations

__all__ = ["PrototypeResult", "nearest_prototype", "prototype_scores"]

_CHUNK = 4096


@dataclass(frozen=True)
class PrototypeResult:
    """Scores and accuracy by depth of the nearest-prototype classifier, and the violations.

    Attributes:
        scores: by name.
        by_depth: accuracy at depth 1 … L.
        judged: samples that the parent violations could be counted on.
        under_root: samples left out of them because their parent is the root.
        predicted: ``(m,)`` the node that each test sample was given.
        violated: ``(m,)`` float64, whether each test sample is a parent violation; NaN if it does not count.
        pair_values: ``(m,)`` float64, pseudo-values of the pair violations, see `pair_violations`.
    """

    scores: dict[str, float]
    by_depth: list[float]
    judged: int
    under_root: int
    predicted: Tensor
    violated: Tensor
    pair_values: Tensor


def prototype_scores(
    reading: Reading,
    nodes: Tensor,
    samples: Samples,
    ground: Ground,
    settings: EvaluationSettings,
    predicted: Tensor,
) -> PrototypeResult:
    """Score the nearest class means' answers ``(m,)`` for the test samples, and count violations.

    All means and distances are those of the geometry of the representation; every training sample counts for
    its label and for the nodes above it.
    """
    points, geometry = reading.points.double(), reading.geometry
    prototypes = class_prototypes(points[samples.train], nodes[samples.train], ground.tree, geometry)
    target = nodes[samples.test]
    decided = samples.finest[target]
    scores, by_depth = classification_scores(predicted, target, decided, ground, samples.shared)
    tested = samples.test[decided]
    order = parent_metrics(points[tested], nodes[tested], ground.tree, prototypes, geometry=geometry)
    violated = torch.full((len(target),), torch.nan, dtype=torch.float64)
    violated[decided] = parent_violations(
        points[tested], nodes[tested], ground.tree, prototypes, geometry=geometry, reduction="none"
    )
    labels = ground.in_judge(nodes[tested])
    pairs, pair_values = (
        pair_violations(
            points[tested],
            labels,
            ground.judge,
            geometry,
            max_pairs=settings.max_pairs,
            seed=settings.seed,
            reduction=reduction,
        )
        for reduction in ("mean", "none")
    )
    pair_values = torch.full_like(violated, torch.nan).masked_scatter_(decided, pair_values)
    found = {f"prototype_{name}": value for name, value in scores.items()}
    found["parent_violations"] = float(order["parent_violations"])
    found["parent_order_accuracy"] = float(order["parent_order_accuracy"])
    found["pair_violations"] = float(pairs)
    return PrototypeResult(
        found,
        by_depth,
        int(order["samples"]),
        int(order["samples_root_parent"]),
        predicted,
        violated,
        pair_values,
    )


def nearest_prototype(points: Tensor, prototypes: Tensor, classes: Tensor, geometry: Geometry) -> Tensor:
    """The class whose prototype lies nearest to each point: ``(m,)``; ties go to the first class.

    Args:
        points: ``(m, d)``.
        prototypes: ``(num_nodes, d)``, a row a node.
        classes: ``(c,)`` nodes that may be answered.
        geometry: of points and prototypes.
    """
    means = prototypes[classes]
    nearest = [geometry.pairwise_distance(part, means).argmin(1) for part in torch.split(points, _CHUNK)]
    return classes[torch.cat(nearest)] if nearest else classes[:0]
