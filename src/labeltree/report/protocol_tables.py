"""The numbers of further protocols: a block for each protocol, a table for each kind of number."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from labeltree.evaluation import EvaluationResult
from labeltree.evaluation.result import ProtocolResult
from labeltree.report.wording import plural

__all__ = ["NumberTable", "ProtocolBlock", "protocol_blocks"]

_MOST_SCORES = 6
_MOST_NODES = 40


@dataclass(frozen=True)
class NumberTable:
    """A table of numbers as text; each of the ``rows`` has a name and one cell per column."""

    title: str
    first: str
    columns: list[str]
    rows: list[tuple[str, list[str]]]


@dataclass(frozen=True)
class ProtocolBlock:
    """The results of one protocol: its main numbers, and tables that are folded."""

    name: str
    title: str
    tables: list[NumberTable]
    folded: list[NumberTable]
    counts: str
    notes: list[str]


def protocol_blocks(result: EvaluationResult) -> list[ProtocolBlock]:
    """All protocols that were run, in the order of the methods; an empty list without any."""
    names = list(dict.fromkeys(name for method in result.methods.values() for name in method.protocols))
    return [_block(name, result) for name in names]


def _block(name: str, result: EvaluationResult) -> ProtocolBlock:
    found = {key: m.protocols[name] for key, m in result.methods.items() if name in m.protocols}
    first = next(iter(found.values()))
    scores = _scores(found)
    main, rest = replace(scores, rows=scores.rows[:_MOST_SCORES]), scores.rows[_MOST_SCORES:]
    further = [
        replace(scores, title="Further measures", rows=rest),
        *_lists(found, "by_depth"),
        *_lists(found, "curves"),
        *_nodes(found),
    ]
    return ProtocolBlock(
        name,
        first.title or name.replace("_", " "),
        [table for table in [main] if table.rows],
        [table for table in further if table.rows],
        ", ".join(f"{key.replace('_', ' ')} {value:,}" for key, value in first.counts.items()),
        list(dict.fromkeys(note for item in found.values() for note in item.notes)),
    )


def _scores(found: dict[str, ProtocolResult]) -> NumberTable:
    names = _union(item.scores for item in found.values())
    rows = [
        (_words(n), [_cell(item.scores.get(n, math.nan), item.intervals.get(n)) for item in found.values()])
        for n in names
    ]
    return NumberTable("", "Measure", list(found), rows)


def _lists(found: dict[str, ProtocolResult], kind: str) -> list[NumberTable]:
    """A table for each curve: a row per method, a column per depth or position on the curve's axis."""
    tables = []
    of_kind = "depth_intervals" if kind == "by_depth" else "curve_intervals"
    for name in _union(getattr(item, kind) for item in found.values()):
        lines = {key: getattr(item, kind).get(name, []) for key, item in found.items()}
        longest = max(len(values) for values in lines.values())
        if kind == "by_depth":
            columns = [f"Depth {depth}" for depth in range(1, longest + 1)]
        else:
            axis = next((item.axes[name] for item in found.values() if name in item.axes), [])
            columns = [f"{axis[i]:g}" if i < len(axis) else str(i + 1) for i in range(longest)]
        keep = _spread_out(longest, 12)
        ends = {key: dict(enumerate(getattr(item, of_kind).get(name, []))) for key, item in found.items()}
        rows = [
            (key, [_cell(values[i], ends[key].get(i)) if i < len(values) else "–" for i in keep])
            for key, values in lines.items()
            if values
        ]
        tables.append(NumberTable(_words(name), "Method", [columns[i] for i in keep], rows))
    return tables


def _nodes(found: dict[str, ProtocolResult]) -> list[NumberTable]:
    """A table for each metric of nodes: the nodes where the first method has the lowest values."""
    tables = []
    for name in _union(item.by_node for item in found.values()):
        values = {key: item.by_node.get(name, {}) for key, item in found.items()}
        paths = _union(values.values())
        first = next(iter(values.values()))
        known = [path for path in paths if not math.isnan(first.get(path, math.nan))]
        least = sorted(known, key=lambda path: first[path])[:_MOST_NODES]
        ends = {key: item.node_intervals.get(name, {}) for key, item in found.items()}
        rows = [
            (p, [_cell(line.get(p, math.nan), ends[key].get(p)) for key, line in values.items()])
            for p in least
        ]
        what = plural(len(known), "branch or class", "branches and classes")
        less = f"the {len(least)} lowest of {what}" if len(least) < len(known) else what
        tables.append(NumberTable(f"{_words(name)}: {less}", "Branch or class", list(found), rows))
    return tables


def _union(parts: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for part in parts for name in part))


def _spread_out(length: int, most: int) -> list[int]:
    """At most ``most`` positions of a list, including the first and the last."""
    if length <= most:
        return list(range(length))
    return sorted({round(i * (length - 1) / (most - 1)) for i in range(most)})


def _words(name: str) -> str:
    """A key as it is shown: `features.recall_at_1` as "features: recall at 1"; the points of numbers stay."""
    return re.sub(r"(?<!\d)\.|\.(?!\d)", ": ", name.replace("_", " "), count=1)


def _cell(value: float, ends: tuple[float, float] | None = None) -> str:
    """A number, followed by its confidence interval if it has one."""
    if math.isnan(value):
        return "–"
    if ends is None or math.isnan(ends[0]):
        return _number(value)
    return f"{_number(value)} ({_number(ends[0])} – {_number(ends[1])})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"
