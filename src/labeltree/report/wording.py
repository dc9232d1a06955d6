"""Which metrics answer which question in the report, and how numbers are written."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from labeltree.counted_nouns import say_count
from labeltree.evaluation.fewest_samples import TOO_FEW, says_nothing
from labeltree.metrics.catalogue import Metric, find_metric, is_larger_better

__all__ = [
    "ASPECTS",
    "CHARTED",
    "GROUPS",
    "SEARCH_FEATURES",
    "AspectMeasure",
    "MeasureGroup",
    "format_interval",
    "format_points",
    "format_score",
    "metric_words",
    "percent",
    "say_far_off",
]


@dataclass(frozen=True)
class MeasureGroup:
    """Metrics that answer one question.

    Attributes:
        question: In plain words.
        answer: How it was measured.
        role: The representation that they are computed from; `""` for any.
        metrics: Their keys in the scores.
    """

    question: str
    answer: str
    role: str
    metrics: tuple[str, ...]


_ANSWERS = ("top1", "tree_accuracy", "hierarchical_f1", "mistake_severity")
_RETRIEVAL = ("recall_at_1", "recall_at_5", "map_at_r", "mean_average_precision", "ahp")
SEARCH_FEATURES = MeasureGroup(
    "Does the same search work on the features?",
    "The same search with the output of the encoder, below the head.",
    "features",
    _RETRIEVAL,
)
GROUPS = (
    MeasureGroup(
        "Does it tell the classes apart?",
        "A simple linear classifier learns from training {samples} and classifies test {samples}.",
        "",
        _ANSWERS,
    ),
    MeasureGroup(
        "What does the model itself answer?",
        "The answers of the model's own classifier for the same test {samples}.",
        "predictions",
        tuple(f"own_{key}" for key in _ANSWERS),
    ),
    MeasureGroup(
        "Does it find similar {samples}?",
        "Every {sample} in turn is the query, and {search_words} are sorted by the similarity of their "
        "embeddings to its own: {embedding_words}.",
        "embeddings",
        (*_RETRIEVAL, "h_ap", "ndcg", "asi"),
    ),
    SEARCH_FEATURES,
    MeasureGroup(
        "Does the arrangement follow the tree?",
        "Distances between embeddings are compared with the tree. No classifier is involved.",
        "embeddings",
        ("prototype_top1", "parent_violations", "pair_violations", "cpcc"),
    ),
    MeasureGroup(
        "What would its answers find?",
        "The same search and violations in the posterior space, where every {sample} lies at the mean of the "
        "classes' embeddings by its probabilities.",
        "posterior",
        ("recall_at_1", "map_at_r", "ahp", "parent_violations"),
    ),
)
CHARTED = frozenset(key for group in GROUPS for key in group.metrics)
"""Metrics that the report has words for."""


def metric_words(key: str) -> Metric:
    """The metric of a key of results, as the report shows it: one without a title has its name as title."""
    words = key.rpartition(".")[2].replace("_", " ")
    metric = find_metric(key) or Metric(key, words, larger_is_better=is_larger_better(key))
    if metric.title:
        return metric
    return replace(metric, title=metric.name[:1].upper() + metric.name[1:], name="")


@dataclass(frozen=True)
class AspectMeasure:
    """A proportion that is shown for every aspect, as the answer to a question.

    Attributes:
        name: Its key in `AspectResult.named`.
        question: That it answers.
        answer: How it was measured.
        own: Whether it is about the model's own answers.
    """

    name: str
    question: str
    answer: str
    own: bool = False


ASPECTS = (
    AspectMeasure(
        "own_accuracy_at_depth_1",
        "What does the model itself answer?",
        "Share for which the model's own classifier gives the right main branch (depth 1).",
        own=True,
    ),
    AspectMeasure(
        "accuracy_at_depth_1",
        "Does a simple classifier get it right?",
        "A linear classifier per aspect, learned from training {samples}: the main branch (depth 1).",
    ),
    AspectMeasure(
        "top1",
        "Does it get the exact label right?",
        "The same linear classifiers: exactly the right label.",
    ),
    AspectMeasure(
        "recall_at_1",
        "Is the most similar {sample} alike?",
        "Share whose most similar other {sample} has the same label in the aspect.",
    ),
)


def say_far_off(steps: int, tallest: int) -> str:
    """How far off a label is, see `HOW_FAR_OFF`, in a tree of this height: `2 steps off`."""
    off = f"{say_count(steps, 'step')} off"
    return f"{off}: only the root in common" if steps == tallest else off


def format_score(value: float, *, share: bool = True) -> str:
    """A score as the table shows it: proportions in percent, an en dash if it is not defined."""
    if math.isnan(value):
        return "–"
    return f"{100 * value:.1f}" if share else f"{value:.2f}"


def format_interval(low: float, high: float, *, share: bool = True) -> str:
    """The ends of an interval as the table shows them; empty if there is none."""
    if share and says_nothing(low, high):
        return TOO_FEW
    return "" if math.isnan(low) else f"{format_score(low, share=share)} – {format_score(high, share=share)}"


def format_points(share: float) -> str:
    """A difference of two shares in points with its sign: `-0.083` as `−8.3`."""
    return f"{100 * share:+.1f}".replace("-", "−")


def percent(value: float, digits: int = 1) -> str:
    """`0.8768` as `87.7 %`."""
    return "–" if math.isnan(value) else f"{100 * value:.{digits}f}\u202f%"
