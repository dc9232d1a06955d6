"""The tables of all numbers: rows grouped by question, one column per method."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from labeltree.counted_nouns import say_count
from labeltree.evaluation import EvaluationResult, MethodResult
from labeltree.metrics.catalogue import Metric
from labeltree.report.wording import (
    ASPECTS,
    GROUPS,
    SEARCH_FEATURES,
    AspectMeasure,
    MeasureGroup,
    format_interval,
    format_score,
    metric_words,
)

__all__ = ["TableCell", "TableGroup", "TableRow", "aspect_table", "metric_table", "table_cells"]

_SHARE = Metric("", "")


@dataclass(frozen=True)
class TableCell:
    """A number as text, whether it is the best of its row, and its confidence interval as text."""

    text: str
    best: bool
    interval: str = ""


@dataclass(frozen=True)
class TableRow:
    """One metric, for all methods."""

    metric: Metric
    cells: list[TableCell]


@dataclass(frozen=True)
class TableGroup:
    """Metrics that answer one question."""

    question: str
    answer: str
    reads: str
    rows: list[TableRow]


def metric_table(result: EvaluationResult, sample: str, samples: str) -> list[TableGroup]:
    """The numbers of all methods with plain words, the best of each row marked.

    Metrics that are not defined for any method are left out.
    """
    words = {
        "sample": sample,
        "samples": samples,
        "hp_k": result.settings.hp_k,
        "search_words": _searched(result, samples),
        "embedding_words": f"{result.main.representations['embeddings'].dim} numbers that the loss is "
        "computed from",
    }
    groups = []
    one_role = "features" not in result.main.representations
    for group in GROUPS:
        if one_role and group is SEARCH_FEATURES:
            continue  # there is only one representation
        metrics = [metric_words(key) for key in group.metrics]
        rows = [
            TableRow(
                replace(metric, sentence=metric.sentence.format(**words)), _cells(result, metric, group.role)
            )
            for metric in metrics
        ]
        rows = [row for row in rows if any(cell.text != "–" for cell in row.cells)]
        if rows:
            reads = _reads(result, group)
            question, answer = group.question.format(**words), group.answer.format(**words)
            groups.append(TableGroup(question, answer, reads, rows))
    return groups


def _cells(result: EvaluationResult, metric: Metric, role: str) -> list[TableCell]:
    values = [method.score(metric.key, role or None) for method in result.methods.values()]
    bounds = [method.interval(metric.key, role or None) for method in result.methods.values()]
    return table_cells(values, bounds, metric)


def table_cells(
    values: list[float],
    bounds: list[tuple[float, float]] | None = None,
    metric: Metric = _SHARE,
) -> list[TableCell]:
    """The cells of a row with their intervals; the best is marked if several are known."""
    texts = [format_score(value, share=metric.share) for value in values]
    known = [value for value in values if not math.isnan(value)]
    best = ""
    several = len({format_score(value, share=metric.share) for value in known}) > 1
    if several and metric.larger_is_better is not None:  # else none is best
        best = format_score((max if metric.larger_is_better else min)(known), share=metric.share)
    bounds = bounds or [(math.nan, math.nan)] * len(values)
    return [
        TableCell(text, text == best, format_interval(*ends, share=metric.share))
        for text, ends in zip(texts, bounds, strict=True)
    ]


def _reads(result: EvaluationResult, group: MeasureGroup) -> str:
    main, key = result.main, group.metrics[0]
    role = next((r for r, scores in main.scores.items() if group.role in ("", r) and key in scores), None)
    read = main.representations.get(role or "")
    return "" if read is None else read.source


def _searched(result: EvaluationResult, samples: str) -> str:
    """The samples that each query is compared with."""
    whole = f"all training {samples}" if result.search.get("searched") == "train" else f"all other {samples}"
    return f"{whole} except those of its own group" if result.search.get("own_group") == "left out" else whole


def aspect_table(result: EvaluationResult, sample: str, samples: str) -> list[TableGroup]:
    """The numbers of every aspect and their mean, with plain words; empty without aspects.

    Metrics that no method has are left out, and so is the exact label if no aspect has a tree.
    """
    words = {"sample": sample, "samples": samples}
    names = list(dict.fromkeys(name for method in result.methods.values() for name in method.aspects))
    depths = [len(item.by_depth["probe"]) for m in result.methods.values() for item in m.aspects.values()]
    groups = []
    for measure in ASPECTS:
        if measure.name == "top1" and max(depths, default=1) < 2:
            continue  # the main branch is the label
        rows = [_row(result, measure, name, samples) for name in names]
        if any(cell.text != "–" for row in rows for cell in row.cells):
            means = [method.score(f"aspect_{measure.name}", "aspects") for method in result.methods.values()]
            mean = TableRow(Metric("", "", "Mean over the aspects"), table_cells(means))
            reads = "" if measure.own else result.main.representations[_first_role(result.main)].source
            groups.append(
                TableGroup(
                    measure.question.format(**words), measure.answer.format(**words), reads, [*rows, mean]
                )
            )
    return groups


def _row(result: EvaluationResult, measure: AspectMeasure, name: str, samples: str) -> TableRow:
    values = [_value(method, measure, name) for method in result.methods.values()]
    counts = next(m.aspects[name].counts for m in result.methods.values() if name in m.aspects)
    term = f"{say_count(counts['classes tested'], 'class', 'classes')}, {counts['test samples']:,} {samples}"
    return TableRow(Metric("", term, name), table_cells(values))


def _value(method: MethodResult, measure: AspectMeasure, name: str) -> float:
    if name not in method.aspects:
        return math.nan
    return method.aspects[name].named().get(measure.name, math.nan)


def _first_role(method: MethodResult) -> str:
    return next(iter(method.representations))
