"""What the metrics are called and what they mean, for somebody who knows the data and not the mathematics."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = [
    "ASPECTS",
    "GROUPS",
    "SEARCH",
    "SEARCH_EMBEDDINGS",
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
        role: the representation it is asked of; ``""`` for whichever has it.
        title: in plain words.
        term: the field's name for it.
        meaning: one sentence.
        larger_is_better: which direction is good.
        share: whether it is a share, shown in percent.
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
            "Full marks for the right class, fewer the more steps on the tree lie between answer and truth.",
        ),
        Measure(
            f"{prefix}hierarchical_f1", role, "Shared path", "hierarchical F1",
            "How much of the way from the coarsest group to the class answer and truth have in common.",
        ),
        Measure(
            f"{prefix}mistake_severity", role, "Severity of mistakes", "mean LCA height of errors",
            "Mistakes only: how tall the smallest branch is that holds both answer and truth, in steps. "
            "A model that makes only the hard mistakes can look worse here.",
            larger_is_better=False, share=False,
        ),
    )  # fmt: skip


def _retrieval(role: str) -> tuple[Measure, ...]:
    return (
        Measure(
            "recall_at_1", role, "Most similar one is alike", "recall@1",
            "Share of {samples} whose most similar other has the same class, of those that have any to find.",
        ),
        Measure(
            "recall_at_5", role, "One of five is alike", "recall@5",
            "Share of {samples} with at least one of the same class among the five most similar.",
        ),
        Measure(
            "map_at_r", role, "Own kind comes first", "MAP@R",
            "If there are R others of the class: how pure the first R results are, early ones counting more.",
        ),
        Measure(
            "mean_average_precision", role, "Own kind anywhere in the list", "mAP",
            "How early in the whole list of results all {samples} of the same class appear.",
        ),
        Measure(
            "ahp", role, "Near kinds come next", "AHP",
            "Results of a related class earn part of a mark; the sum is compared with the best possible "
            "list, averaged over list lengths up to {hp_k}.",
        ),
    )  # fmt: skip


_CLASSIFY = MeasureGroup(
    "Does it tell the classes apart?",
    "A simple linear classifier learns from training {samples}, then names test {samples} it has not seen.",
    _classification("", ""),
)
_OWN = MeasureGroup(
    "What does the model itself answer?",
    "The answers that the model gives by its own classifier, for the same test {samples}.",
    _classification("own_", "predictions"),
)
SEARCH = MeasureGroup(
    "Does it find similar {samples}?",
    "Every {sample} in turn is the query, and {search_words} are sorted by similarity to it.",
    _retrieval("features"),
)
SEARCH_EMBEDDINGS = MeasureGroup(
    "Does the same search work on the embeddings?",
    "The same search with the {embedding_words}.",
    _retrieval("embeddings"),
)
_ARRANGE = MeasureGroup(
    "Is the arrangement that of the tree?",
    "Distances between embeddings are compared with the tree. No classifier is involved.",
    (
        Measure(
            "prototype_top1",
            "embeddings",
            "Nearest class average is right",
            "nearest prototype",
            "Share of {samples} that lie nearest to the average of their own class.",
        ),
        Measure(
            "parent_violations",
            "embeddings",
            "Nearer to a wrong group",
            "parent violations",
            "Share of {samples} that lie at least as near to another group's average as to their own.",
            larger_is_better=False,
        ),
        Measure(
            "pair_violations",
            "embeddings",
            "Pairs in the wrong order",
            "pair violations",
            "How often a more closely related pair lies further apart than a less related one.",
            larger_is_better=False,
        ),
    ),
)
GROUPS = (_CLASSIFY, _OWN, SEARCH, SEARCH_EMBEDDINGS, _ARRANGE)


@dataclass(frozen=True)
class AspectMeasure:
    """A share that is shown for every aspect, as the answer to a question.

    Attributes:
        name: its key in `AspectResult.named`.
        question: that it answers.
        answer: how it was measured.
        own: whether it is the model's own answers that are judged.
    """

    name: str
    question: str
    answer: str
    own: bool = False


ASPECTS = (
    AspectMeasure(
        "own_accuracy_at_depth_1",
        "What does the model itself answer?",
        "Share for which the model's own classifier names the right coarsest group of the label (depth 1).",
        own=True,
    ),
    AspectMeasure(
        "accuracy_at_depth_1",
        "Does a simple classifier get it right?",
        "A linear classifier for each aspect, learned from training {samples}: the coarsest group (depth 1).",
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
    """A score as the table shows it: shares in percent, an en dash where it is not defined."""
    if math.isnan(value):
        return "–"
    return f"{100 * value:.1f}" if share else f"{value:.2f}"


def format_interval(low: float, high: float, *, share: bool = True) -> str:
    """The ends of an interval as the table shows them; empty where there is none."""
    return "" if math.isnan(low) else f"{format_score(low, share=share)} – {format_score(high, share=share)}"


def percent(value: float, digits: int = 1) -> str:
    """``0.8765`` as ``87.7 %``."""
    return "–" if math.isnan(value) else f"{100 * value:.{digits}f}\u202f%"


def plural(count: int, one: str, many: str | None = None) -> str:
    """``1 class``, ``2 classes``: a count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
