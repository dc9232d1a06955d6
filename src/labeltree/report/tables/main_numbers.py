"""The table of main numbers that `evaluate` prints."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labeltree.decisions.choose_classifier import classifier_words
from labeltree.evaluation import EvaluationResult
from labeltree.evaluation.answer_columns import PREFIX
from labeltree.evaluation.fewest_samples import ends_text
from labeltree.evaluation.result import bracket_sentence, counted_units
from labeltree.metrics.catalogue import metric_name
from labeltree.report.compare_answers import Differences, added_by_training

__all__ = [
    "main_numbers_table",
    "short_table",
]


# the terminal's table: metrics, and the representation that each is read from
_ANSWERS = ("top1", "hierarchical_f1", "tree_accuracy")  # of the classifier that answers
_METRICS = (
    ("recall_at_1", "embeddings"),
    ("map_at_r", "embeddings"),
    ("ahp", "embeddings"),
    ("parent_violations", "embeddings"),
    ("recall_at_1", "features"),
    ("map_at_r", "features"),
    ("recall_at_1", "posterior"),
    ("map_at_r", "posterior"),
    ("ahp", "posterior"),
    ("parent_violations", "posterior"),
    ("top1", None),
    ("lda_top1", None),
    ("feature_mean_top1", None),
    ("prototype_top1", "embeddings"),
    ("own_top1", "predictions"),
    ("aspect_accuracy_at_depth_1", "aspects"),
    ("aspect_own_accuracy_at_depth_1", "aspects"),
    ("aspect_recall_at_1", "aspects"),
)
_NOT_ALWAYS = ("posterior", "predictions", "aspects")
_SHORT_ANSWERS = _ANSWERS[:2]
_SHORT = [(metric, "embeddings") for metric in ("recall_at_1", "map_at_r", "parent_violations")]


def main_numbers_table(result: EvaluationResult, differences: Differences | None = None) -> str:
    """The main numbers of every method with their confidence intervals, as a plain-text table.

    First come those of the classifier that answers, then what embeddings are worth without one, then every
    classifier by itself.

    Args:
        result: The result.
        differences: Its `answer_differences`; None = they are computed.
    """
    shown = [
        (metric, role)
        for metric, role in _METRICS
        if role not in _NOT_ALWAYS or any(metric in m.scores.get(role, {}) for m in result.methods.values())
    ]
    if "features" not in result.main.representations:  # nothing beside the space that is searched
        shown = [(metric, role) for metric, role in shown if role != "features"]
    lines = _table(result, _ANSWERS, shown)
    added = added_by_training(result, differences)
    space = result.main.classifier.space.sentence
    last = [result.main.classifier.sentence, *result.cautions, *([added] if added else [])]
    last += [space] if space else []
    return "\n".join([*lines, *last])


def short_table(result: EvaluationResult) -> str:
    """The numbers to remember of every method, as a plain-text table, and below it the cautions, a line each.

    Numbers that are not defined for any method are left out.
    """
    methods = result.methods.values()
    shown = [each for each in _SHORT if any(not math.isnan(m.score(*each)) for m in methods)]
    return "\n".join([*_table(result, _SHORT_ANSWERS, shown), *_other_classifier(result), *result.cautions])


def _other_classifier(result: EvaluationResult) -> list[str]:
    """A sentence on the classifier that answers, if nobody asked for it and there is a reason for another."""
    chosen = result.main.classifier
    if len(chosen.equals) > 1:
        words = classifier_words(chosen.name, features=chosen.features)
        equal = f"{len(chosen.equals)} classifiers are equally good on {chosen.samples:,} validation samples"
        return [
            f"Answers come from {words}; {equal}, too few to tell the best (--classifier NAME takes one)."
        ]
    if chosen.name in ("own", chosen.asked) or "own" not in chosen.accuracies:
        return []
    words = classifier_words(chosen.name, features=chosen.features)
    return [f"Answers come from {words}; with --classifier own, from the run's own classifier."]


def _table(
    result: EvaluationResult, answers: Sequence[str], shown: Sequence[tuple[str, str | None]]
) -> list[str]:
    """The numbers of every method in columns, and what the brackets are.

    Args:
        result: The result.
        answers: Metrics of the classifier that answers.
        shown: Further metrics, and the representation that each is read from.
    """
    names = [metric_name(metric) for metric in answers]
    columns = [["", "classifier", *names, *(_title(metric, role) for metric, role in shown)]]
    for name, method in result.methods.items():
        given = [_cell(method.answer_score(metric), method.answer_interval(metric)) for metric in answers]
        others = [_cell(method.score(metric, role), method.interval(metric, role)) for metric, role in shown]
        columns.append([name, method.classifier.name, *given, *others])
    counts = counted_units(result, [f"{PREFIX[result.main.classifier.name]}{m}" for m in answers], shown)
    columns += counts
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
    if any(" [" in cell for column in columns for cell in column):
        lines.append(bracket_sentence(result, counts))
    return lines


def _title(metric: str, role: str | None) -> str:
    name = metric_name(metric)
    if metric == "top1":
        return f"{name}, linear probe"
    return f"{name}, {role}" if role in ("features", "posterior") else name


def _cell(value: float, bounds: tuple[float, float]) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:.4f}{ends_text(*bounds)}"
