"""Every node as a test of its own, in one table: how many cases, and the rates of both decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from labeltree.counted_nouns import say_count
from labeltree.evaluation.fewest_samples import FEW_CASES
from labeltree.evaluation.result import ProtocolResult
from labeltree.report.wording import format_interval, format_score

__all__ = ["NodeCell", "NodeRow", "NodeTable", "node_table"]

_SHOWN = 30
_MOST = 500
_RATES = (
    ("sensitivity", "Sensitivity"),
    ("specificity", "Specificity"),
    ("ppv", "PPV"),
    ("npv", "NPV"),
)


@dataclass(frozen=True)
class NodeCell:
    """A number as text, its interval, and the key to sort by."""

    text: str
    interval: str
    key: str


@dataclass(frozen=True)
class NodeRow:
    """A node: its name, indented by its depth, and its numbers; `first` if it is shown without a click."""

    name: str
    path: str
    depth: int
    cases: str
    few: bool
    auroc: NodeCell
    decided: list[NodeCell]
    pointed: list[NodeCell]
    first: bool


@dataclass(frozen=True)
class NodeTable:
    """All nodes, in the order of the tree.

    Attributes:
        rows: Of the nodes with most cases, at most 500.
        rates: Titles of the rates.
        hidden: Number of rows that a click shows.
        note: Which nodes are left out and what is uncertain.
    """

    rows: list[NodeRow]
    rates: list[str]
    hidden: int
    note: str


def node_table(result: ProtocolResult) -> NodeTable | None:
    """The table of the protocol `node-scores`; None if it has no numbers of nodes.

    Of several representations, the numbers of the first are shown.
    """
    name = next((name for name in result.by_node if name.endswith("decision_sensitivity")), None)
    if name is None:
        return None
    prefix = name.removesuffix("decision_sensitivity")
    positives = result.by_node.get(f"{prefix}positives", {})
    negatives = result.by_node.get(f"{prefix}negatives", {})
    known = [path for path, count in positives.items() if path != "/" and count > 0]
    largest = sorted(known, key=lambda path: (-positives[path], path))
    kept, first = set(largest[:_MOST]), set(largest[:_SHOWN])

    def cell(metric: str, path: str, *, share: bool = True) -> NodeCell:
        values: Mapping[str, float] = result.by_node.get(f"{prefix}{metric}", {})
        value = values.get(path, math.nan)
        low, high = result.node_intervals.get(f"{prefix}{metric}", {}).get(path, (math.nan, math.nan))
        ends = format_interval(low, high, share=share).replace(" – ", "–")
        return NodeCell(format_score(value, share=share), ends, "" if math.isnan(value) else f"{value:.5g}")

    rows = [
        NodeRow(
            path.rpartition("/")[2],
            path,
            path.count("/"),
            f"{positives[path]:,.0f}",
            min(positives[path], negatives.get(path, math.inf)) < FEW_CASES,
            cell("auroc", path, share=False),
            [cell(f"decision_{rate}", path) for rate, _ in _RATES],
            [cell(f"point_{rate}", path) for rate, _ in _RATES],
            path in first,
        )
        for path in known
        if path in kept
    ]
    if not rows:
        return None
    return NodeTable(rows, [title for _, title in _RATES], len(rows) - len(first), _note(rows, len(known)))


def _note(rows: list[NodeRow], known: int) -> str:
    said = []
    if any(row.few for row in rows):
        said.append(f"† Fewer than {FEW_CASES} positive or negative cases: the numbers are uncertain.")
    if any(not cell.key for row in rows for cell in (row.auroc, *row.decided, *row.pointed)):
        said.append("– Not defined: there is nothing to divide by.")
    if len(rows) < known:
        left = say_count(known - len(rows), "node")
        said.append(f"{left} with fewer cases are in metrics.json.")
    return " ".join(said)
