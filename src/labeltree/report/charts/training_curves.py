"""The training: a chart for every quantity of the history, and the versions that were used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from labeltree.counted_nouns import say_count
from labeltree.report.charts.bar_charts import sparkline
from labeltree.report.wording import CHARTED, metric_words

__all__ = ["history_groups", "trained_with"]

_NOT_CHARTED = ("epoch", "step", "seconds")
_GROUPS = {
    "search": "How well it retrieves: more is better",
    "violations": "How often it violates the tree: less is better",
    "loss": "What training minimises",
    "other": "Further",
}


def history_groups(rows: Sequence[Mapping[str, float]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Headings, each with a chart for every quantity that training recorded and that changed.

    Args:
        rows: One per epoch, from `labeltree.runs.RunFolder.read_history`.
    """
    columns = list(dict.fromkeys(key for row in rows for key in row if key not in _NOT_CHARTED))
    first = float(rows[0].get("epoch", 0)) + 1 if rows else 1.0  # people count from one
    charts_of: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _GROUPS}
    for name in columns:
        values = [float(row.get(name, math.nan)) for row in rows]
        known = [value for value in values if math.isfinite(value)]
        if len(known) < 2 or min(known) == max(known):
            continue
        kind, words, term, share = _describe_column(name)
        scale, digits = (100.0, "%") if share else (1.0, "")
        start, end = (
            f"{scale * value:.{'1f' if share else '3g'}}{digits}" for value in (known[0], known[-1])
        )
        text = f"{words}, {term}, over {say_count(len(rows), 'epoch')}: from {start} to {end}"
        chart = sparkline(values, title=text, first=first)
        charts_of[kind].append({"name": words, "term": term, "start": start, "end": end, "chart": chart})
    return [(_GROUPS[kind], charts) for kind, charts in charts_of.items() if charts]


def _describe_column(column: str) -> tuple[str, str, str, bool]:
    """Kind, title, detail, and whether it is a share, of a column of the history."""
    if column.startswith("train_"):
        part = column.removeprefix("train_")
        return "loss", "Loss", "all terms together" if part == "loss" else part, False
    if column == "lr":
        return "other", "Learning rate", "", False
    metric = column.removeprefix("val_").removeprefix("embeddings_")
    if not column.startswith("val_") or metric not in CHARTED:
        return "other", column.replace("_", " "), "", False
    read = "embeddings" if "embeddings_" in column else "features"
    words = metric_words(metric)
    kind = "search" if words.larger_is_better else "violations"
    return kind, words.title, f"{words.name}, {read}", words.share


_WORDS = {"samples": "fingerprint of the samples", "threads": "threads of the CPU"}
_WHERE = ("began", "epoch", "step")


def trained_with(entries: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """A heading and pairs of name and value for the start of training and for each continuation.

    A continuation lists only what changed.

    Args:
        entries: From `labeltree.runs.RunFolder.read_versions`.
    """
    sections = []
    before: Mapping[str, Any] = {}
    for number, entry in enumerate(entries):
        what = {key: value for key, value in entry.items() if key not in _WHERE}
        new = {key: value for key, value in what.items() if before.get(key) != value}
        pairs = [(_WORDS.get(key, key), str(value)) for key, value in new.items()]
        pairs += [(_WORDS.get(key, key), "no longer recorded") for key in before if key not in what]
        when = f", {entry['began']}" if entry.get("began") else ""
        title = f"From the start{when}"
        if number:
            same = "" if pairs else ", with the same versions"
            title = f"Continued after {int(entry.get('step', 0)):,} steps{when}{same}"
        sections.append((title, pairs))
        before = what
    return sections
