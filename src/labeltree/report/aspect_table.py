"""The table of aspects: a group of rows a measure, a row an aspect, a column a method."""

from __future__ import annotations

import math

from labeltree.evaluation import EvaluationResult, MethodResult
from labeltree.report.metric_table import TableGroup, TableRow, table_cells
from labeltree.report.wording import ASPECTS, AspectMeasure, plural

__all__ = ["aspect_table"]


def aspect_table(result: EvaluationResult, sample: str, samples: str) -> list[TableGroup]:
    """The numbers of every aspect and their mean, in plain words; an empty list where there are no aspects.

    Measures that no method has are left out, and the exact label where no aspect has a tree.
    """
    words = {"sample": sample, "samples": samples}
    names = list(dict.fromkeys(name for method in result.methods.values() for name in method.aspects))
    depths = [len(item.by_depth["probe"]) for m in result.methods.values() for item in m.aspects.values()]
    groups = []
    for measure in ASPECTS:
        if measure.name == "top1" and max(depths, default=1) < 2:
            continue  # the coarsest group is the label
        rows = [_row(result, measure, name, samples) for name in names]
        if any(cell.text != "–" for row in rows for cell in row.cells):
            means = [method.score(f"aspect_{measure.name}", "aspects") for method in result.methods.values()]
            mean = TableRow("Mean over the aspects", "", "", True, "%", table_cells(means))
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
    term = f"{plural(counts['classes tested'], 'class', 'classes')}, {counts['test samples']:,} {samples}"
    return TableRow(name, term, "", True, "%", table_cells(values))


def _value(method: MethodResult, measure: AspectMeasure, name: str) -> float:
    if name not in method.aspects:
        return math.nan
    return method.aspects[name].named().get(measure.name, math.nan)


def _first_role(method: MethodResult) -> str:
    return next(iter(method.representations))
