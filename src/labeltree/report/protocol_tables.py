"""The numbers of further protocols: a block for each protocol, a table for each kind of number."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from labeltree.evaluation import EvaluationResult, attribute_rows
from labeltree.evaluation.result import ProtocolResult
from labeltree.report.wording import plural

__all__ = ["NumberTable", "ProtocolBlock", "attribute_tables", "protocol_blocks"]

_MOST_SCORES = 6
_MOST_NODES = 100


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
    """One table of the evaluated method: a row per node, a column per metric, in the order of the tree."""
    method, first = next(iter(found.items()))
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
    what = plural(len(known), "branch or class", "branches and classes")
    less = f"the {len(shown)} lowest of {what}" if len(shown) < len(known) else what
    return [NumberTable(f"{method}: {less}", "Branch or class", [_words(name) for name in names], rows)]


def _lowest(result: ProtocolResult, names: list[str], path: str) -> float:
    """The first metric of a node that is defined."""
    values = (result.by_node[name].get(path, math.nan) for name in names)
    return next((value for value in values if not math.isnan(value)), math.inf)


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
