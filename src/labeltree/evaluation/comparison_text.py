"""A comparison as Markdown, which also reads well in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labeltree.evaluation.comparison import (
    Comparison,
    Difference,
    Estimate,
    MetricComparison,
    StratumComparison,
)

__all__ = ["comparison_text"]

_ALPHA = 0.05


def comparison_text(comparison: Comparison, *, parts: int = 20) -> str:
    """Tables of all metrics, their differences to the baseline, and where on the tree they are largest.

    Args:
        comparison: what to show.
        parts: how many subtrees, the surest differences first; depths and frequencies are all shown.
    """
    lines = ["# Comparison", ""]
    for name, runs in comparison.methods.items():
        what = f"{len(runs)} runs: {', '.join(runs)}" if len(runs) > 1 else runs[0]
        mark = " (baseline)" if name == comparison.baseline and len(comparison.methods) > 1 else ""
        lines.append(f"- **{name}**{mark}: {what}")
    lines += ["", *comparison.notes, "", "## Metrics", ""]
    lines += _table(
        ["metric", *comparison.methods],
        [[_label(entry), *_values(comparison, entry)] for entry in comparison.metrics],
    )
    others = [name for name in comparison.methods if name != comparison.baseline]
    if not others:
        return "\n".join(lines) + "\n"
    lines += ["", f"## Differences to {comparison.baseline}", ""]
    lines.append(
        f"Better is +, worse −, by the metric's own direction; * where the corrected p-value is below "
        f"{_ALPHA:g}. The {comparison.tests} tests of this table are corrected together (Holm); metrics that "
        f"are the same on these samples count once."
    )
    lines.append("")
    lines += _table(
        ["metric", "method", "difference", "", "p", "p corrected", "p McNemar"],
        [
            [_label(entry), name, *_difference(entry, part)]
            for entry in comparison.metrics
            for name, part in entry.differences.items()
        ],
    )
    for kind, title in (
        ("subtree", "Where on the tree they differ most"),
        ("depth", "By the depth of the label"),
        ("frequency", "By the frequency of the class in training"),
    ):
        chosen = [entry for entry in comparison.strata if entry.kind == kind and entry.differences]
        if chosen:
            lines += [
                "",
                f"## {title}",
                "",
                *_strata(comparison, chosen, parts if kind == "subtree" else None),
            ]
    return "\n".join(lines) + "\n"


def _strata(comparison: Comparison, entries: list[StratumComparison], most: int | None) -> list[str]:
    shown = entries
    if most is not None:
        shown = sorted(entries, key=_surest)[:most]
    return _table(
        ["where", "samples", "metric", comparison.baseline, "method", "difference", "", "p", "p corrected"],
        [
            [
                entry.name,
                str(entry.samples),
                _label(entry),
                _number(entry.estimates[comparison.baseline].value),
                name,
                *_difference(entry, part)[:-1],
            ]
            for entry in shown
            for name, part in entry.differences.items()
        ],
    )


def _surest(entry: StratumComparison) -> tuple[float, float]:
    """The least p-value first; among equal ones, what moved the most samples."""
    parts = entry.differences.values()
    chance = min(1.0 if math.isnan(part.p) else part.p for part in parts)
    return chance, -max(abs(part.value) for part in parts) * math.sqrt(entry.samples)


def _values(comparison: Comparison, entry: MetricComparison) -> list[str]:
    return [_estimate(entry.estimates.get(name)) for name in comparison.methods]


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    text = _number(estimate.value)
    if not math.isnan(estimate.sd):
        text += f" ± {estimate.sd:.4f}"
    if not math.isnan(estimate.low):
        text += f" [{_number(estimate.low)}, {_number(estimate.high)}]"
    return text


def _difference(entry: MetricComparison | StratumComparison, part: Difference) -> list[str]:
    if math.isnan(part.value):
        return ["–", "", "", "", ""]
    better = part.value if entry.larger_is_better else -part.value
    sure = "*" if part.corrected < _ALPHA else ""
    mark = "" if better == 0 else ("+" if better > 0 else "−") + sure
    ends = "" if math.isnan(part.low) else f" [{part.low:+.4f}, {part.high:+.4f}]"
    return [f"{part.value:+.4f}{ends}", mark, *(_chance(p) for p in (part.p, part.corrected, part.mcnemar))]


def _chance(p: float) -> str:
    return "" if math.isnan(p) else f"{p:.4f}" if p >= 0.0001 else f"{p:.1e}"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _label(entry: MetricComparison | StratumComparison) -> str:
    """Role and metric: `features top1`, and `answers top1` for `answer_top1`."""
    return f"{entry.role} {entry.metric.removeprefix('answer_').replace('_', ' ')}"


def _table(head: Sequence[str], rows: list[list[str]]) -> list[str]:
    """Columns of equal width, so that the text can be read as it is."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in [list(head), *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = [
        "| " + " | ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]
