"""Where on the tree methods differ: a row a branch or class that was compared, one inside the other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from labeltree.evaluation.comparison import Comparison, StratumComparison
from labeltree.report.comparison_words import better_by, difference_text, estimate_text, verdict
from labeltree.taxonomy.naming import split_path

__all__ = ["DifferenceCell", "DifferenceNode", "difference_tree"]


@dataclass(frozen=True)
class DifferenceCell:
    """One method at one branch: the difference, how it is drawn, and what is sure about it.

    Attributes:
        text: the difference; ``ends`` those of its interval.
        ends: as text.
        verdict: ``better``, ``worse`` or ``not sure``.
        share: length of its bar, 0 to 1, of the largest difference.
        right: whether the bar points to the right, where the method is better.
    """

    text: str
    ends: str
    verdict: str
    share: float
    right: bool


@dataclass
class DifferenceNode:
    """A branch or class with those inside it; ``open`` where something inside is sure, or it is coarse."""

    name: str
    path: str
    samples: int
    base: str
    cells: list[DifferenceCell]
    children: list[DifferenceNode] = field(default_factory=list)
    open: bool = False


def difference_tree(
    comparison: Comparison, metric: str, role: str, *, most_open: int = 40
) -> list[DifferenceNode]:
    """The coarsest branches that were compared by one metric, with all that lie inside them.

    Args:
        comparison: with strata of the kind ``subtree``.
        metric: that is shown.
        role: of it.
        most_open: beyond as many rows only branches with a sure difference inside are unfolded.
    """
    entries = [
        entry
        for entry in comparison.strata
        if entry.kind == "subtree" and (entry.metric, entry.role) == (metric, role)
    ]
    parts = [part for entry in entries for part in entry.differences.values()]
    largest = max((abs(part.value) for part in parts if math.isfinite(part.value)), default=0.0) or 1.0
    top: list[DifferenceNode] = []
    line: list[tuple[tuple[str, ...], DifferenceNode]] = []
    for entry in sorted(entries, key=lambda entry: entry.node):
        path = split_path(entry.name)
        node = _node(entry, path, comparison.baseline, largest)
        while line and line[-1][0] != path[: len(line[-1][0])]:
            line.pop()
        (line[-1][1].children if line else top).append(node)
        line.append((path, node))
    small = len(entries) <= most_open
    for node in top:
        _unfold(node, small)
    return top


def _node(entry: StratumComparison, path: tuple[str, ...], baseline: str, largest: float) -> DifferenceNode:
    cells = []
    for part in entry.differences.values():
        text, ends = difference_text(entry, part)
        good = better_by(entry, part)
        share = abs(good) / largest if math.isfinite(good) else 0.0
        cells.append(DifferenceCell(text, ends, verdict(entry, part), share, good > 0))
    name = path[-1] if path else "All classes"
    return DifferenceNode(name, " › ".join(path), entry.samples, estimate_text(entry, baseline)[0], cells)


def _unfold(node: DifferenceNode, everything: bool) -> bool:
    """Open what leads to a sure difference; says whether there is one at or below the node."""
    inside = [_unfold(child, everything) for child in node.children]
    node.open = everything or any(inside)
    return any(inside) or any(cell.verdict != "not sure" for cell in node.cells)
