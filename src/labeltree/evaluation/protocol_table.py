"""What the protocols found, as plain text for a terminal."""

from __future__ import annotations

import math
import re

from labeltree.evaluation.protocol_result import ProtocolResult
from labeltree.evaluation.result import EvaluationResult

__all__ = ["protocol_table"]

# further looks at the same answers: metrics.json has them
_LEFT_OUT = re.compile(
    r"(^|\.)(tree_accuracy|mistake_severity|mean_average_precision|training_loss|recall_at_(?!1$|1_)\d+"
    r"|(hierarchical_f1|map_at_r|ahp)_(head|middle|tail))$"
)


def protocol_table(result: EvaluationResult) -> str:
    """The main scores of every further protocol, a column a method; empty where none was run.

    Behind a score stand its standard deviation, where it is a mean over draws or folds, and the ends of its
    confidence interval.
    """
    methods = result.methods
    lines: list[str] = []
    for protocol in dict.fromkeys(name for method in methods.values() for name in method.protocols):
        found = {name: method.protocols[protocol] for name, method in methods.items()}
        main = found[result.name]
        lines += ["", f"{protocol}: {main.title}"]
        names = [
            name
            for name in dict.fromkeys(name for each in found.values() for name in each.scores)
            if not _LEFT_OUT.search(name) and not _is_deviation(name, main.scores)
        ]
        cells = {name: [_cell(each, name) for each in found.values()] for name in names}
        cells = {name: row for name, row in cells.items() if any(row)}
        if cells:
            lines += _aligned(list(found), cells)
        lines += [f"  {note}" for note in main.notes]
    return "\n".join(lines[1:])


def _is_deviation(name: str, scores: dict[str, float]) -> bool:
    return name.endswith("_sd") and name.removesuffix("_sd") in scores


def _cell(found: ProtocolResult, name: str) -> str:
    value, deviation = found.scores.get(name, math.nan), found.scores.get(f"{name}_sd", math.nan)
    if math.isnan(value):
        return ""
    spread = "" if math.isnan(deviation) else f" ± {deviation:.4f}"
    ends = found.intervals.get(name)
    return f"{value:.4f}{spread}" + ("" if ends is None else f" [{ends[0]:.4f}, {ends[1]:.4f}]")


def _aligned(heads: list[str], rows: dict[str, list[str]]) -> list[str]:
    label = max(map(len, rows))
    widths = [max(len(head), *(len(row[i]) for row in rows.values())) for i, head in enumerate(heads)]
    table = [("", heads), *rows.items()]
    return [
        f"  {name:<{label}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for name, row in table
    ]
