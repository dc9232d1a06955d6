"""Names and meanings of the metrics, for readers who know the data but not the mathematics."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = [
    "ASPECTS",
    "GROUPS",
    "SEARCH_FEATURES",
    "AspectMeasure",
    "Measure",
    "MeasureGroup",
    "format_interval",
    "format_score",
    "percent",
    "plural",
]


@dataclass(frozen=True)
class Measure:
    """A metric as the report shows it.

    Attributes:
        metric: its key in the scores.
        role: the representation that it is computed from; ``""`` for any.
        title: in plain words.
        term: the field's name for it.
        meaning: one sentence.
        larger_is_better: which direction is good.
        share: whether it is a proportion, shown in percent.
    """

    metric: str
    role: str
    title: str
    term: str
    meaning: str
    larger_is_better: bool = True
    share: bool = True


@dataclass(frozen=True)
class MeasureGroup:
    """Measures that answer one question."""

    question: str
    answer: str
    measures: tuple[Measure, ...]


def _classification(prefix: str, role: str) -> tuple[Measure, ...]:
    return (
        Measure(
            f"{prefix}top1", role, "Exact class right", "top-1 accuracy",
            "Share of {samples} given exactly the right class.",
        ),
        Measure(
            f"{prefix}tree_accuracy", role, "Nearness of the answer", "H-Acc",
            "The right class counts in full. Another answer counts less, the more steps on the tree lie "
            "between it and the truth.",
        ),
        Measure(
            f"{prefix}hierarchical_f1", role, "Shared path", "hierarchical F1",
            "How much answer and truth have in common of the path from the coarsest group to the class.",
        ),
        Measure(
            f"{prefix}mistake_severity", role, "Severity of mistakes", "mean LCA height of errors",
            "Over the mistakes only: the height of the smallest branch that contains both answer and truth, "
            "in steps. A model that makes only hard mistakes can look worse here.",
            larger_is_better=False, share=False,
        ),
    )  # fmt: skip


_GRADED = (
    Measure(
        "h_ap", "embeddings", "Nearer kinds before farther ones", "H-AP (relevance pop, α = 1)",
        "The precision of the whole list, with part marks: a result counts more, the further down the tree "
        "it shares the {sample}'s path. All results that share equally far count together as much as one.",
    ),
    Measure(
        "ndcg", "embeddings", "Nearest kinds early in the list", "NDCG",
        "Results count 1, 3, 7 … for one, two, three shared groups, and less the later they come. The sum is "
        "compared with that of the best possible list.",
    ),
    Measure(
        "asi", "embeddings", "The right mix at every length", "ASI",
        "How many of the first results are also among the first of the best possible list, in any order, "
        "averaged over all lengths.",
    ),
)  # fmt: skip


def _retrieval(role: str) -> tuple[Measure, ...]:
    found = (
        Measure(
            "recall_at_1", role, "Most similar one is alike", "recall@1",
            "Share of {samples} whose most similar other one has the same class. Only those count that have "
            "one to find.",
        ),
        Measure(
            "recall_at_5", role, "One of five is alike", "recall@5",
            "Share of {samples} with at least one of the same class among the five most similar.",
        ),
        Measure(
            "map_at_r", role, "Own kind comes first", "MAP@R",
            "If the class has R others: the precision of the first R results, where early ones count more.",
        ),
        Measure(
            "mean_average_precision", role, "Own kind anywhere in the list", "mAP",
            "How early in the whole list of results all {samples} of the same class appear.",
        ),
        Measure(
            "ahp", role, "Near kinds come next", "AHP",
            "Results of a related class count in part. The sum is compared with that of the best possible "
            "list, and averaged over list lengths up to {hp_k}.",
        ),
    )  # fmt: skip
    return found + _GRADED if role == "embeddings" else found


_CLASSIFY = MeasureGroup(
    "Does it tell the classes apart?",
    "A simple linear classifier learns from training {samples} and classifies test {samples}.",
    _classification("", ""),
)
_OWN = MeasureGroup(
    "What does the model itself answer?",
    "The answers of the model's own classifier for the same test {samples}.",
    _classification("own_", "predictions"),
)
SEARCH = MeasureGroup(
    "Does it find similar {samples}?",
    "Every {sample} in turn is the query, and {search_words} are sorted by the similarity of their "
    "embeddings to its own: {embedding_words}.",
    _retrieval("embeddings"),
)
SEARCH_FEATURES = MeasureGroup(
    "Does the same search work on the features?",
    "The same search with the output of the encoder, below the head.",
    _retrieval("features"),
)
_ARRANGE = MeasureGroup(
    "Does the arrangement follow the tree?",
    "Distances between embeddings are compared with the tree. No classifier is involved.",
    (
        Measure(
            "prototype_top1",
            "embeddings",
            "Nearest class mean is right",
            "nearest prototype",
            "Share of {samples} that are nearest to the mean of their own class.",
        ),
        Measure(
            "parent_violations",
            "embeddings",
            "Nearer to a wrong group",
            "parent violations",
            "Share of {samples} that are at least as near to another group's mean as to their own.",
            larger_is_better=False,
        ),
        Measure(
            "pair_violations",
            "embeddings",
            "Pairs in the wrong order",
            "pair violations",
            "How often a more closely related pair is further apart than a less related one.",
            larger_is_better=False,
        ),
        Measure(
            "cpcc",
            "embeddings",
            "Distances follow the tree",
            "CPCC",
            "Correlation of the distances between class means with those in the tree: 1 if they are in "
            "proportion, 0 if unrelated.",
            share=False,
        ),
    ),
)
GROUPS = (_CLASSIFY, _OWN, SEARCH, SEARCH_FEATURES, _ARRANGE)


@dataclass(frozen=True)
class AspectMeasure:
    """A proportion that is shown for every aspect, as the answer to a question.

    Attributes:
        name: its key in `AspectResult.named`.
        question: that it answers.
        answer: how it was measured.
        own: whether it is about the model's own answers.
    """

    name: str
    question: str
    answer: str
    own: bool = False


ASPECTS = (
    AspectMeasure(
        "own_accuracy_at_depth_1",
        "What does the model itself answer?",
        "Share for which the model's own classifier gives the right coarsest group of the label (depth 1).",
        own=True,
    ),
    AspectMeasure(
        "accuracy_at_depth_1",
        "Does a simple classifier get it right?",
        "A linear classifier per aspect, learned from training {samples}: the coarsest group (depth 1).",
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


def format_score(value: float, *, share: bool = True) -> str:
    """A score as the table shows it: proportions in percent, an en dash if it is not defined."""
    if math.isnan(value):
        return "–"
    return f"{100 * value:.1f}" if share else f"{value:.2f}"


def format_interval(low: float, high: float, *, share: bool = True) -> str:
    """The ends of an interval as the table shows them; empty if there is none."""
    return "" if math.isnan(low) else f"{format_score(low, share=share)} – {format_score(high, share=share)}"


def percent(value: float, digits: int = 1) -> str:
    """``0.8765`` as ``87.7 %``."""
    return "–" if math.isnan(value) else f"{100 * value:.{digits}f}\u202f%"


def plural(count: int, one: str, many: str | None = None) -> str:
    """``1 class``, ``2 classes``: a count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
