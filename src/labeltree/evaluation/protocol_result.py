"""What a protocol found: numbers with their intervals by name, depth and node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from labeltree.evaluation.columns import Column, Number, Place
from labeltree.evaluation.json_numbers import Bounds
from labeltree.evaluation.statistics import Statistic

__all__ = ["NOT_MEASURED", "ProtocolResult"]

_INTERVALS = ("intervals", "depth_intervals", "node_intervals", "curve_intervals")
NOT_MEASURED = "Not measured: "
"""What the only note of a result begins with whose protocol is not defined for the table."""
_ROUNDING = 1e-9
_NAMED = ("scores", "by_depth", "by_node", "curves", "axes", *_INTERVALS)


@dataclass(frozen=True)
class ProtocolResult:
    """The numbers of one protocol for one method.

    Names begin with what was read where a protocol reads both: ``features.top1``, ``embeddings.top1``.

    Attributes:
        title: one line for people.
        scores: name → value; NaN where it is not defined for these samples.
        by_depth: name → values at depth 1 … L, coarse → fine.
        by_node: name → path name of a node (``/`` for the root) → value of the samples labelled at or below
            it.
        curves: name → values over something else than depth, which ``axes`` has.
        axes: name of a curve → what its values belong to (``[1, 5, 20]`` neighbours).
        counts: how many samples and classes were used for what.
        notes: sentences for people on what was read and left out.
        intervals: name of a score → lower and upper end of its confidence interval, NaN where there is none;
            a name that is missing has none.
        depth_intervals: the same of ``by_depth``, a pair a depth.
        node_intervals: of ``by_node``.
        curve_intervals: of ``curves``.
        columns: the outcomes of single samples behind the numbers, for comparisons; not kept in this file.
        statistics: likewise what is behind numbers that are no means.
        of: the `Inputs` whose samples these are of, where they are not those of the evaluated table.
    """

    title: str
    scores: dict[str, float] = field(default_factory=dict)
    by_depth: dict[str, list[float]] = field(default_factory=dict)
    by_node: dict[str, dict[str, float]] = field(default_factory=dict)
    curves: dict[str, list[float]] = field(default_factory=dict)
    axes: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    intervals: dict[str, Bounds] = field(default_factory=dict)
    depth_intervals: dict[str, list[Bounds]] = field(default_factory=dict)
    node_intervals: dict[str, dict[str, Bounds]] = field(default_factory=dict)
    curve_intervals: dict[str, list[Bounds]] = field(default_factory=dict)
    columns: list[Column] = field(default_factory=list, compare=False, repr=False)
    statistics: list[Statistic] = field(default_factory=list, compare=False, repr=False)
    of: Any = field(default=None, compare=False, repr=False)

    @property
    def refusal(self) -> str | None:
        """Why nothing was measured; None where something was."""
        first = self.notes[0] if self.notes and not self.scores else ""
        return first.removeprefix(NOT_MEASURED) if first.startswith(NOT_MEASURED) else None

    def without_samples(self) -> ProtocolResult:
        """The numbers alone."""
        return replace(self, columns=[], statistics=[], of=None)

    def put(self, place: Place, number: Number) -> None:
        """Write a number, and its interval where it is defined."""
        kind, name, at = place
        if kind == "scores":
            self.scores[name] = number.value
        elif kind == "by_node":
            self.by_node.setdefault(name, {})[str(at)] = number.value
        else:
            values = getattr(self, kind).setdefault(name, [])
            values += [math.nan] * (int(at) + 1 - len(values))
            values[int(at)] = number.value
            ends = (self.depth_intervals if kind == "by_depth" else self.curve_intervals).get(name)
            if ends is not None:
                ends += [(math.nan, math.nan)] * (len(values) - len(ends))
        self.put_interval(place, number.low, number.high)

    def put_interval(self, place: Place, low: float, high: float) -> None:
        """Write the interval of a number that is here; nothing where either is not defined.

        A number and the estimate of its interval may be added up in another order: the ends make room for it.
        """
        kind, name, at = place
        column = getattr(self, kind).get(name)
        if column is None or (kind == "by_node" and at not in column):
            return
        number = column if kind == "scores" else column[at]
        if math.isnan(number) or math.isnan(low) or math.isnan(high):
            return
        if abs(number - min(max(number, low), high)) <= _ROUNDING:
            low, high = min(low, number), max(high, number)
        if kind == "scores":
            self.intervals[name] = low, high
        elif kind == "by_node":
            self.node_intervals.setdefault(name, {})[str(at)] = low, high
        else:
            kept = self.depth_intervals if kind == "by_depth" else self.curve_intervals
            kept.setdefault(name, [(math.nan, math.nan)] * len(column))[int(at)] = low, high

    @classmethod
    def joined(
        cls,
        title: str,
        parts: Mapping[str, ProtocolResult],
        counts: Mapping[str, int] | None = None,
        notes: Sequence[str] = (),
    ) -> ProtocolResult:
        """Several results as one, every name beginning with that of its part: ``features.top1``.

        Args:
            title: of the whole.
            parts: name → result; counts and notes that they share are kept once, without the name.
            counts: of the whole, which come first.
            notes: likewise.
        """

        def named(column: str) -> dict[str, Any]:
            return {
                f"{prefix}.{name}": value
                for prefix, part in parts.items()
                for name, value in getattr(part, column).items()
            }

        all_counts = dict(counts or {})
        all_notes = list(notes)
        for part in parts.values():
            all_counts |= part.counts
            all_notes += [note for note in part.notes if note not in all_notes]
        named_columns = [
            replace(column, name=f"{prefix}.{column.name}", balanced=_prefixed(prefix, column.balanced))
            for prefix, part in parts.items()
            for column in part.columns
        ]
        statistics = [
            replace(statistic, names=tuple(f"{prefix}.{name}" for name in statistic.names))
            for prefix, part in parts.items()
            for statistic in part.statistics
        ]
        return cls(
            title,
            **{name: named(name) for name in _NAMED},
            counts=all_counts,
            notes=all_notes,
            columns=named_columns,
            statistics=statistics,
        )


def _prefixed(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if name else ""
