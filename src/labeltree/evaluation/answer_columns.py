"""The columns of the classifier that answers, under names of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from labeltree.decisions.choose_classifier import ClassifierKind
from labeltree.evaluation.outcomes import Key, Outcomes

__all__ = ["ANSWERS", "CLASSIFIER_ROLES", "PREFIX", "add_answers", "is_of_answers"]

ANSWERS = "answers"
"""The role of the metrics of the classifier that answers, whichever it is."""
PREFIX: dict[ClassifierKind, str] = {
    "probe": "",
    "prototypes": "prototype_",
    "own": "own_",
    "lda": "lda_",
    "feature-means": "feature_mean_",
    "each-fold": "answer_",
}
"""Prefix of the score names of each classifier."""
CLASSIFIER_ROLES: dict[ClassifierKind, str] = {
    "prototypes": "embeddings",
    "own": "predictions",
    "each-fold": ANSWERS,
}
"""Role of the scores of a classifier; that of the others is the first."""
_METRICS = ("top1", "hierarchical_f1", "hierarchical_f1_micro", "tree_accuracy", "mistake_severity")


def is_of_answers(metric: str) -> bool:
    """Whether a metric, without the prefix of a classifier, is measured of answers; alone, of the probe's.

    Example:
        >>> is_of_answers("top1"), is_of_answers("recall_at_1")
        (True, False)
    """
    return metric in _METRICS or metric.startswith("accuracy_at_depth_")


def add_answers(outcomes: Outcomes, classifier: ClassifierKind) -> Outcomes:
    """The outcomes, preceded by a copy of a classifier's metrics as `answer_top1` … of the role `answers`.

    Its answers are also those of the classifier `each-fold`.
    """
    prefix = PREFIX[classifier]
    answers: dict[Key, Key] = {}
    for role, metric in outcomes.values:
        of_answers = metric.removeprefix(prefix)
        wanted = is_of_answers(of_answers)
        if wanted and metric.startswith(prefix) and role not in outcomes.protocols:
            answers[ANSWERS, f"{PREFIX['each-fold']}{of_answers}"] = role, metric

    def also(keys: frozenset[Key]) -> frozenset[Key]:
        return keys | {new for new, old in answers.items() if old in keys}

    def both(columns: dict[Key, Any]) -> dict[Key, Any]:
        copies = {new: columns[old] for new, old in answers.items() if old in columns}
        return copies | columns | copies  # before the others, and instead of earlier ones

    said = {"each-fold": outcomes.predicted[classifier]} if classifier in outcomes.predicted else {}
    return replace(
        outcomes,
        values=both(outcomes.values),
        weights=both(outcomes.weights),
        classes=both(outcomes.classes),
        folds=both(outcomes.folds),
        whole=also(outcomes.whole),
        smaller_is_better=also(outcomes.smaller_is_better),
        directions=both(outcomes.directions),
        no_share=also(outcomes.no_share),
        predicted=outcomes.predicted | said,
    )
