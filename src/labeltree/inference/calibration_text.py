"""What a calibration says of itself, as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from labeltree.decisions.conformal import Promise, samples_needed
from labeltree.decisions.rule import DecisionRule
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import shared_note

__all__ = ["calibration_text"]


def calibration_text(rule: DecisionRule, record: Mapping[str, Any], rests_on: str) -> str:
    """Summary of a calibration as text: its samples, the calibration error by depth, and thresholds."""
    counts = ", ".join(f"{count} {name}" for name, count in rule.counts.items() if count)
    lines = [
        record["classifier_choice"]["sentence"],
        record["calibration_check"]["sentence"],
        f"{record['calibrated_on']}: {counts}",
        rests_on,
    ]
    before, after = (record["calibration_by_depth"][name] for name in ("before", "after"))
    check = rule.check
    tried = "if applied" if check is not None and check.before and not check.applied else "after"
    lines += ["", f"{'depth':<8}{'accuracy':>10}{'error of p before':>20}{tried:>12}{'if perfect':>12}"]
    chance = after.get("by_chance", [math.nan] * len(after["error"]))  # of versions that did not record it
    columns = after["accuracy"], before["error"], after["error"], chance
    for depth, values in enumerate(zip(*columns, strict=True), 1):
        cells = ["–" if math.isnan(value) else f"{value:.4f}" for value in values]
        lines.append(f"{depth:<8}{cells[0]:>10}{cells[1]:>20}{cells[2]:>12}{cells[3]:>12}")
    if isinstance(rule.classes.taxonomy, Taxonomy):
        lines += shared_note(
            rule.classes.nodes, rule.classes.taxonomy, what="accuracy and the error of probabilities"
        )
    lines += ["", "a node is answered if its probability exceeds"]
    counted = "samples" if rule.fitted.groups is None else "groups"
    for coverage in (0.8, 0.9, 0.95, 0.99):
        promise = Promise(coverage)
        enough = rule.fitted.num_groups >= samples_needed(promise)
        at = f"{float(rule.bars(promise)[0]):.4f}" if enough else f"needs {samples_needed(promise)} {counted}"
        lines.append(f"  {at} for a coverage of {coverage:g}")
    return "\n".join(lines) + "\n"
