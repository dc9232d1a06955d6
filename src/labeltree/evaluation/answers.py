"""What every classifier is judged by, and what every retrieval: the same numbers under the same names."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from labeltree.evaluation.classification import classification_scores
from labeltree.evaluation.evidence import Evidence
from labeltree.evaluation.frequency import GROUPS, ClassFrequency
from labeltree.evaluation.gathering import sample_scores
from labeltree.evaluation.ground import Ground
from labeltree.evaluation.places import Place
from labeltree.evaluation.protocol_result import ProtocolResult
from labeltree.evaluation.retrieval import without_numbers
from labeltree.evaluation.subtrees import by_subtree
from labeltree.geometry import Geometry
from labeltree.metrics.functional import (
    average_hierarchical_precision,
    hierarchical_f1,
    retrieval_metrics,
)
from labeltree.metrics.ranking import Progress
from labeltree.taxonomy.shared_depths import shared_depth

__all__ = ["judge_answers", "judge_retrieval"]


def judge_answers(
    predicted: Tensor,
    target: Tensor,
    decided: Tensor,
    ground: Ground,
    frequency: ClassFrequency | None = None,
    title: str = "",
    evidence: Evidence | None = None,
    shared: int | None = None,
) -> ProtocolResult:
    """Score predicted nodes: overall, by depth, by subtree and by the frequency of the classes.

    Args:
        predicted: ``(n,)`` nodes, none missing.
        target: ``(n,)`` labels, none missing.
        decided: ``(n,)`` bool, which labels are finest; the others count in the accuracy by depth alone.
        ground: of the nodes.
        frequency: of the classes; where they are unequal, scores by head, middle and tail are added.
        title: of the result.
        evidence: of the samples; gives all numbers their intervals.
        shared: as for `classification_scores`.

    Returns:
        ``top1``, ``balanced_top1`` (the mean over classes), ``hierarchical_f1``, ``tree_accuracy``,
        ``mistake_severity``; ``top1_head`` …; accuracy by depth; top1 and hierarchical F1 by subtree.
    """
    scores, depths = classification_scores(predicted, target, decided, ground, shared)
    guess, truth = predicted[decided], target[decided]
    right = (guess == truth).double()
    f1 = hierarchical_f1(ground.in_judge(guess), ground.in_judge(truth), ground.judge, reduction="none")
    scores["balanced_top1"] = class_mean(right, truth)
    if frequency is not None and frequency.uneven:
        for name, values in (("top1", right), ("hierarchical_f1", f1)):
            scores |= {f"{name}_{group}": value for group, value in frequency.means(values, truth).items()}
    result = ProtocolResult(
        title,
        scores=scores,
        by_depth={"accuracy": depths},
        by_node={
            "top1": by_subtree(right, truth, ground.tree),
            "hierarchical_f1": by_subtree(f1, truth, ground.tree),
        },
    )
    if evidence is None:
        return result
    outcomes, _ = sample_scores(predicted, target, decided, ground, shared)
    for name in ("top1", "hierarchical_f1", "tree_accuracy", "mistake_severity"):
        evidence.add(Place("scores", name), outcomes[name], share=name != "mistake_severity")
    evidence.add_depths(
        "accuracy", [outcomes[f"accuracy_at_depth_{depth}"] for depth in range(1, len(depths) + 1)]
    )
    for name in ("top1", "hierarchical_f1"):
        evidence.add_subtrees(name, outcomes[name], target, ground.tree)
        means = {} if frequency is None else bands(name, frequency)
        if name == "top1":
            means[Place("scores", "balanced_top1")] = every_class
        evidence.add_class_means(outcomes[name], target, means)
    return evidence.fill(result)


def judge_retrieval(
    points: Tensor,
    nodes: Tensor,
    ground: Ground,
    geometry: Geometry,
    *,
    keys: Tensor | None = None,
    key_nodes: Tensor | None = None,
    groups: Tensor | None = None,
    key_groups: Tensor | None = None,
    ks: tuple[int, ...] = (1, 2, 5, 10),
    hp_k: int = 250,
    frequency: ClassFrequency | None = None,
    title: str = "",
    progress: Progress | None = None,
    evidence: Evidence | None = None,
) -> ProtocolResult:
    """Score rankings with flat relevance: overall, by depth, by subtree and by the frequency of the classes.

    Args:
        points: ``(n, d)`` queries.
        nodes: ``(n,)`` their labels, nodes of the tree.
        ground: of the nodes.
        geometry: of the points.
        keys: ``(m, d)`` gallery; None searches the queries themselves, each left out of its own results.
        key_nodes: ``(m,)``.
        groups: ``(n,)`` of the queries: results of a query's own group do not count; None where all do.
        key_groups: ``(m,)`` of the gallery.
        ks: of recall@k.
        hp_k: K of AHP@K.
        frequency: as for `judge_answers`.
        title: of the result.
        progress: called as ``progress(message, done, total)``.
        evidence: of the queries; gives all numbers their intervals.

    Returns:
        ``recall_at_1`` …, ``map_at_r``, ``mean_average_precision``, ``ahp``; all but the last by depth;
        recall@1, MAP@R and AHP by subtree and by frequency (``recall_at_1_head`` …).
    """
    tree = ground.tree
    depths = range(1, tree.max_depth + 1)
    of_depths = [*(f"recall@{k}" for k in ks), "map@r", "map"]
    values = retrieval_metrics(
        points,
        nodes,
        tree,
        keys,
        key_nodes,
        query_groups=groups,
        key_groups=key_groups,
        ks=ks,
        ahp_k=hp_k,
        depths=depths,
        geometry=geometry,
        reduction="none",
        progress=progress,
    )
    if tree is not ground.judge:
        values[f"ahp@{hp_k}"] = average_hierarchical_precision(
            points,
            ground.in_judge(nodes),
            ground.judge,
            keys,
            None if key_nodes is None else ground.in_judge(key_nodes),
            query_groups=groups,
            key_groups=key_groups,
            k=hp_k,
            geometry=geometry,
            reduction="none",
        )
    searched = nodes if key_nodes is None else torch.cat([nodes, key_nodes])
    for depth in depths[: shared_depth(searched, tree)]:  # whatever is found is right
        values |= {
            f"{key}/depth{depth}": torch.full_like(values[f"{key}/depth{depth}"], torch.nan)
            for key in of_depths
        }
    if len(torch.unique(searched)) < 2:
        values = without_numbers(values)  # of one class, whatever is found is right
    names = {f"recall@{k}": f"recall_at_{k}" for k in ks}
    names |= {"map@r": "map_at_r", "map": "mean_average_precision", f"ahp@{hp_k}": "ahp"}
    scores = {name: mean(values[key]) for key, name in names.items()}
    main = {key: names[key] for key in (f"recall@{ks[0]}", "map@r", f"ahp@{hp_k}")}
    if frequency is not None and frequency.uneven:
        for key, name in main.items():
            parts = frequency.means(values[key], nodes)
            scores |= {f"{name}_{group}": value for group, value in parts.items()}
    result = ProtocolResult(
        title,
        scores=scores,
        by_depth={
            name: [mean(values[f"{key}/depth{d}"]) for d in depths]
            for key, name in names.items()
            if name != "ahp"
        },
        by_node={name: by_subtree(values[key], nodes, tree) for key, name in main.items()},
    )
    if evidence is None:
        return result
    for key, name in names.items():
        evidence.add(Place("scores", name), values[key])
        if name != "ahp":
            evidence.add_depths(name, [values[f"{key}/depth{d}"] for d in depths])
    for key, name in main.items():
        evidence.add_subtrees(name, values[key], nodes, tree)
        if frequency is not None:
            evidence.add_class_means(values[key], nodes, bands(name, frequency))
    return evidence.fill(result)


def mean(values: Tensor) -> float:
    """Of the values that are not NaN."""
    return float(torch.nanmean(values))


def bands(name: str, frequency: ClassFrequency) -> dict[Place, Callable[[Tensor], Tensor]]:
    """Where the means over head, middle and tail classes of a score stand, and which classes they are of."""

    def chosen(place: int) -> Callable[[Tensor], Tensor]:
        return lambda classes: frequency.group(classes) == place

    if not frequency.uneven:
        return {}
    return {Place("scores", f"{name}_{group}"): chosen(place) for place, group in enumerate(GROUPS)}


def every_class(classes: Tensor) -> Tensor:
    """``(c,)`` bool, all of them."""
    return torch.ones(len(classes), dtype=torch.bool)


def class_mean(values: Tensor, classes: Tensor) -> float:
    """Mean over classes of the mean of each; NaN without any."""
    found, places, sizes = torch.unique(classes, return_inverse=True, return_counts=True)
    if not len(found):
        return math.nan
    sums = torch.zeros(len(found), dtype=torch.float64).index_add_(0, places, values.double())
    return float((sums / sizes).mean())
