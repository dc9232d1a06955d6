"""The numbers of further protocols: a block for each protocol, a table for each kind of number."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from labeltree.counted_nouns import say_count
from labeltree.evaluation import EvaluationResult, attribute_rows
from labeltree.evaluation.fewest_samples import TOO_FEW, says_nothing
from labeltree.evaluation.protocols.nodes_as_tests import QUESTION_COUNTS
from labeltree.evaluation.result import ProtocolResult
from labeltree.evaluation.rule_table import rule_rows
from labeltree.metrics.catalogue import metric_name
from labeltree.report.tables.node_table import NodeTable, node_table

__all__ = ["NumberTable", "ProtocolBlock", "attribute_tables", "protocol_blocks", "tells_coverage"]

_MOST_SCORES = 6
_MOST_NODES = 100


@dataclass(frozen=True)
class NumberTable:
    """A table of numbers as text; each of the `rows` has a name and one cell per column."""

    title: str
    first: str
    columns: list[str]
    rows: list[tuple[str, list[str]]]


@dataclass(frozen=True)
class ProtocolBlock:
    """The results of one protocol: its main numbers, its table of nodes, and tables that are folded."""

    name: str
    title: str
    tables: list[NumberTable]
    nodes: NodeTable | None
    folded: list[NumberTable]
    counts: str
    notes: list[str]


def attribute_tables(result: EvaluationResult) -> list[NumberTable]:
    """The main numbers by each attribute of the evaluated method; an empty list without attributes."""
    heads, rows = attribute_rows(result)
    names = list(dict.fromkeys(part.attribute for part in result.main.by_attribute))
    return [
        NumberTable(
            "",
            name,
            heads,
            [
                (row.partition(" = ")[2], cells)
                for row, cells in rows.items()
                if row.partition(" = ")[0] == name
            ],
        )
        for name in names
    ]


def tells_coverage(table: NumberTable) -> bool:
    """Whether a table of `attribute_tables` has a coverage."""
    return any(head.startswith(metric_name("coverage_at_")) for head in table.columns)


def protocol_blocks(result: EvaluationResult) -> list[ProtocolBlock]:
    """All protocols that were run, in the order of the methods; an empty list without any."""
    names = list(dict.fromkeys(name for method in result.methods.values() for name in method.protocols))
    return [_block(name, result) for name in names]


def _block(name: str, result: EvaluationResult) -> ProtocolBlock:
    results = {key: m.protocols[name] for key, m in result.methods.items() if name in m.protocols}
    first = next(iter(results.values()))
    scores = _scores(results)
    main, rest = replace(scores, rows=scores.rows[:_MOST_SCORES]), scores.rows[_MOST_SCORES:]
    if name == "decoding":
        main, rest = NumberTable("", "Rule", *rule_rows(first)), scores.rows if len(results) > 1 else []
    nodes = node_table(first) if name == "node-scores" else None
    further = [
        replace(scores, title="Further measures", rows=rest),
        *_depth_tables(results),
        *_curves(results),
        *(_nodes(results) if nodes is None else []),
    ]

    def plain(key: str) -> bool:
        return key.rpartition(": ")[2] not in QUESTION_COUNTS  # those are on the first screen

    return ProtocolBlock(
        name,
        first.title or name.replace("_", " "),
        [table for table in [main] if table.rows],
        nodes,
        [table for table in further if table.rows],
        ", ".join(f"{key.replace('_', ' ')} {value:,}" for key, value in first.counts.items() if plain(key)),
        _notes(results),
    )


def _notes(results: dict[str, ProtocolResult]) -> list[str]:
    """The notes of the evaluated method, and what differs for others, with their names."""
    own, *_ = (item.notes for item in results.values())
    theirs = [f"{name}: {note}" for name, item in results.items() for note in item.notes if note not in own]
    return list(dict.fromkeys([*own, *theirs]))


def _scores(results: dict[str, ProtocolResult]) -> NumberTable:
    names = _union(item.scores for item in results.values())
    rows = [
        (
            metric_name(n),
            [_cell(item.scores.get(n, math.nan), item.intervals.get(n)) for item in results.values()],
        )
        for n in names
    ]
    return NumberTable("", "Measure", list(results), rows)


def _depth_tables(results: dict[str, ProtocolResult]) -> list[NumberTable]:
    """One table of all numbers by depth: a row for each measure and method, a column for each depth."""
    deepest = max((len(v) for item in results.values() for v in item.by_depth.values()), default=0)
    columns = [f"Depth {depth}" for depth in range(1, deepest + 1)]
    names = _union(item.by_depth for item in results.values())
    rows = [row for name in names for row in _series(results, "by_depth", name, range(deepest))]
    return [NumberTable("By depth", "Measure", columns, rows)]


def _curves(results: dict[str, ProtocolResult]) -> list[NumberTable]:
    """A table for all curves along the same axis: a row for each curve and method, a column for a point."""
    by_axis: dict[tuple[str, ...], list[str]] = {}
    for name in _union(item.curves for item in results.values()):
        longest = max(len(item.curves.get(name, [])) for item in results.values())
        axis = next((item.axes[name] for item in results.values() if name in item.axes), [])
        columns = [f"{axis[i]:g}" if i < len(axis) else str(i + 1) for i in range(longest)]
        by_axis.setdefault(tuple(columns), []).append(name)
    tables = []
    for points, names in by_axis.items():
        keep = _spread_out(len(points), 12)
        rows = [row for name in names for row in _series(results, "curves", name, keep)]
        title = metric_name(names[0]) if len(names) == 1 else "Curves along the same axis"
        tables.append(NumberTable(title, "Curve", [points[i] for i in keep], rows))
    return tables


def _series(
    results: dict[str, ProtocolResult], kind: str, name: str, keep: Iterable[int]
) -> list[tuple[str, list[str]]]:
    """A row for each method that has a series of numbers of this name."""
    of_kind = "depth_intervals" if kind == "by_depth" else "curve_intervals"
    rows = []
    for method, item in results.items():
        values = getattr(item, kind).get(name, [])
        ends = dict(enumerate(getattr(item, of_kind).get(name, [])))
        if values:
            title = metric_name(name) if len(results) == 1 else f"{metric_name(name)} · {method}"
            rows.append((title, [_cell(values[i], ends.get(i)) if i < len(values) else "–" for i in keep]))
    return rows


def _nodes(results: dict[str, ProtocolResult]) -> list[NumberTable]:
    """One table of the evaluated method: a row per node, a column per metric, in the order of the tree."""
    method, first = next(iter(results.items()))
    names = list(first.by_node)
    if not names:
        return []
    paths = _union(first.by_node.values())
    known = [
        path for path in paths if any(not math.isnan(first.by_node[n].get(path, math.nan)) for n in names)
    ]
    least = sorted(known, key=lambda path: _lowest(first, names, path))[:_MOST_NODES]
    shown = [path for path in known if path in set(least)]
    rows = [
        (
            path,
            [
                _cell(first.by_node[n].get(path, math.nan), first.node_intervals.get(n, {}).get(path))
                for n in names
            ],
        )
        for path in shown
    ]
    what = say_count(len(known), "branch or class", "branches and classes")
    less = f"the {len(shown)} lowest of {what}" if len(shown) < len(known) else what
    return [NumberTable(f"{method}: {less}", "Branch or class", [metric_name(name) for name in names], rows)]


def _lowest(result: ProtocolResult, names: list[str], path: str) -> float:
    """The first metric of a node that is defined."""
    values = (result.by_node[name].get(path, math.nan) for name in names)
    return next((value for value in values if not math.isnan(value)), math.inf)


def _union(parts: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for part in parts for name in part))


def _spread_out(length: int, most: int) -> list[int]:
    """At most `most` positions of a list, including the first and the last."""
    if length <= most:
        return list(range(length))
    return sorted({round(i * (length - 1) / (most - 1)) for i in range(most)})


def _cell(value: float, ends: tuple[float, float] | None = None) -> str:
    """A number, followed by its confidence interval if it has one."""
    if math.isnan(value):
        return "–"
    if ends is None or math.isnan(ends[0]):
        return _number(value)
    if says_nothing(*ends):
        return f"{_number(value)} ({TOO_FEW})"
    return f"{_number(value)} ({_number(ends[0])} – {_number(ends[1])})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"
