"""The most frequent confusions in words and pictures, and what every node is most often taken for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from labeltree.decisions.choose_classifier import ClassifierKind
from labeltree.evaluation import Reading, TreeErrors
from labeltree.evaluation.answer_columns import PREFIX
from labeltree.evaluation.outcomes import Outcomes
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.charts.tree_colours import nearness_colour
from labeltree.report.shown_samples.encode_pictures import fetch, picture
from labeltree.taxonomy import Taxonomy

__all__ = [
    "ConfusionRow",
    "Example",
    "WrongPair",
    "confusion_rows",
    "example_pictures",
    "taken_for",
    "wrong_pairs",
]

WrongPair = tuple[int, int, int]
"""True node, predicted node, how many samples."""


@dataclass(frozen=True)
class Example:
    """Pictures of a confusion: confused samples of the true class, and typical samples of the other class."""

    true: list[str]
    predicted: list[str]


@dataclass(frozen=True)
class ConfusionRow:
    """A confusion as the report shows it; its severity is `steps` of at most `most`."""

    true: str
    true_path: str
    predicted: str
    predicted_path: str
    lca: str
    count: int
    share: float
    steps: int
    most: int
    colour: str
    example: Example | None = field(default=None, repr=False)


def confusion_rows(
    errors: TreeErrors,
    taxonomy: Taxonomy,
    names: NodeNames,
    examples: dict[tuple[int, int], Example] | None = None,
    *,
    limit: int = 12,
) -> list[ConfusionRow]:
    """Describe the most frequent confusions, with the pictures of `example_pictures`."""
    most = max(taxonomy.max_height, 1)
    return [
        ConfusionRow(
            true=names.short(entry.true_node),
            true_path=names.full(entry.true_node),
            predicted=names.short(entry.predicted_node),
            predicted_path=names.full(entry.predicted_node),
            lca=names.short(entry.lca_node),
            count=entry.count,
            share=entry.share,
            steps=entry.severity,
            most=most,
            colour=nearness_colour(entry.severity / most),
            example=(examples or {}).get((entry.true_node, entry.predicted_node)),
        )
        for entry in errors.confusions[:limit]
    ]


def wrong_pairs(
    errors: TreeErrors,
    outcomes: Outcomes | None = None,
    classifier: ClassifierKind = "probe",
    *,
    only_mistakes: bool = False,
) -> list[WrongPair]:
    """All wrong pairs of a classifier if the samples' outcomes are given; else the most frequent ones.

    Args:
        errors: Its errors.
        outcomes: Of the samples.
        classifier: Which one.
        only_mistakes: Without samples of coarse labels, whose answers are not counted as right or wrong.
    """
    if outcomes is None or classifier not in outcomes.predicted:
        return [(entry.true_node, entry.predicted_node, entry.count) for entry in errors.confusions]
    true, answers = torch.from_numpy(outcomes.nodes), torch.from_numpy(outcomes.predicted[classifier])
    wrong = (answers > 0) & (answers != true)
    for (role, metric), right in outcomes.values.items() if only_mistakes else ():
        if metric == f"{PREFIX[classifier]}top1" and role not in outcomes.protocols:
            wrong &= torch.from_numpy(~np.isnan(right))
    pairs, counts = torch.unique(torch.stack([true[wrong], answers[wrong]], 1), dim=0, return_counts=True)
    return [(a, b, count) for (a, b), count in zip(pairs.tolist(), counts.tolist(), strict=True)]


def taken_for(pairs: Sequence[WrongPair], taxonomy: Taxonomy) -> dict[int, tuple[int, int]]:
    """The most frequent confusion of each node, as a mapping from node to (other node, count).

    For the samples at or below a node whose answer lies outside it, answers are counted by their ancestor at
    the depth of the node; the most frequent ancestor is returned, the first in a tie.
    """
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    paths = taxonomy.paths
    for true, predicted, count in pairs:
        ours, theirs = paths[true].tolist(), paths[predicted].tolist()
        for depth, (node, answer) in enumerate(zip(ours, theirs, strict=True)):
            if node <= 0 or (depth and node == ours[depth - 1]):
                break  # paths are padded below the label
            if node != answer:
                counts[node][answer if answer > 0 else predicted] += count
    return {
        node: min(counted.items(), key=lambda item: (-item[1], item[0])) for node, counted in counts.items()
    }


def example_pictures(
    errors: TreeErrors,
    reading: Reading,
    rows: Tensor,
    nodes: Tensor,
    instances: Tensor,
    images: Callable[[Tensor], Tensor],
    outcomes: Outcomes | None = None,
    *,
    classifier: ClassifierKind = "probe",
    limit: int = 12,
    of_true: int = 3,
    of_predicted: int = 2,
) -> dict[tuple[int, int], Example]:
    """Pictures for the most frequent confusions.

    For the true class, the pictures show samples that were taken for the other class, if the outcomes are
    given; otherwise the samples nearest to the mean of the other class. For the other class, they show the
    samples nearest to its own mean.

    Args:
        errors: Errors of the classifier, with the confused pairs.
        reading: The representation in which distances are measured.
        rows: `(n,)` rows to choose from.
        nodes: Labels of all rows of the table.
        instances: Instance ids of all rows of the table.
        images: Function from instance ids to images.
        outcomes: The answer for every sample, if known.
        classifier: Name of the classifier that made the answers and errors.
        limit: Maximum number of pairs.
        of_true: Number of pictures of the true class.
        of_predicted: Number of pictures of the other class.
    """
    labels = nodes[rows]
    answers = _answers(instances[rows], outcomes, classifier)
    points, geometry = reading.points, reading.geometry
    chosen: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for entry in errors.confusions[:limit]:
        ours, theirs = rows[labels == entry.true_node], rows[labels == entry.predicted_node]
        if answers is not None:
            ours = rows[(labels == entry.true_node) & (answers == entry.predicted_node)]
        if not len(ours) or not len(theirs):
            continue
        mean = geometry.mean(points[theirs].double())[None]
        true, predicted = (
            each[geometry.pairwise_distance(points[each].double(), mean)[:, 0].argsort(stable=True)]
            for each in (ours, theirs)
        )
        pair = entry.true_node, entry.predicted_node
        chosen[pair] = true[:of_true].tolist(), predicted[:of_predicted].tolist()
    wanted = sorted({row for pair in chosen.values() for side in pair for row in side})
    drawn = {row: picture(image, 64) for row, image in fetch(wanted, instances, images, "images").items()}
    return {
        pair: Example([drawn[row] for row in true], [drawn[row] for row in predicted])
        for pair, (true, predicted) in chosen.items()
    }


def _answers(instances: Tensor, outcomes: Outcomes | None, classifier: str) -> Tensor | None:
    """A classifier's answer for each instance, `(n,)`; -1 where unknown."""
    if outcomes is None or classifier not in outcomes.predicted or not len(outcomes):
        return None
    order = np.argsort(outcomes.instances, kind="stable")
    ids = outcomes.instances[order]
    place = np.searchsorted(ids, instances.numpy()).clip(max=len(ids) - 1)
    answers = np.where(ids[place] == instances.numpy(), outcomes.predicted[classifier][order][place], -1)
    return torch.from_numpy(answers)
