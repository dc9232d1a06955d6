"""The numbers of the protocol `decoding` as a table: a row for each rule, a column for each metric."""

from __future__ import annotations

import math

from labeltree.evaluation.fewest_samples import ends_text
from labeltree.evaluation.result import ProtocolResult
from labeltree.metrics.catalogue import metric_name

__all__ = ["rule_rows"]

_SHOWN = ("top1", "hierarchical_f1", "tree_distance", "wu_palmer", "coverage", "depth", "h_aurc")


def rule_rows(
    result: ProtocolResult, *, intervals: bool = True
) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The heads of the columns, and each rule with a cell a column; `–` where a rule has no such number."""
    rows: dict[str, list[str]] = {}
    for name in dict.fromkeys(key.partition(".")[0] for key in result.scores):
        cells = []
        for metric in _SHOWN:
            value = result.scores.get(f"{name}.{metric}", math.nan)
            low, high = result.intervals.get(f"{name}.{metric}", (math.nan, math.nan))
            ends = ends_text(low, high) if intervals else ""
            cells.append("–" if math.isnan(value) else f"{value:.3f}{ends}")
        rows[name] = cells
    return [metric_name(metric) for metric in _SHOWN], list(rows.items())
