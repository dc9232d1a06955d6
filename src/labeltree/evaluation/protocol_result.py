"""What a protocol found: plain numbers by name, depth and node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labeltree.evaluation.plain import Bounds, bounds, curves, number, numbers

__all__ = ["NOT_MEASURED", "ProtocolResult"]

_INTERVALS = ("intervals", "depth_intervals", "node_intervals", "curve_intervals")
NOT_MEASURED = "Not measured: "
"""What the only note of a result begins with whose protocol is not defined for the table."""
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

    @property
    def refusal(self) -> str | None:
        """Why nothing was measured; None where something was."""
        first = self.notes[0] if self.notes and not self.scores else ""
        return first.removeprefix(NOT_MEASURED) if first.startswith(NOT_MEASURED) else None

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
        columns = {name: named(name) for name in _NAMED}
        return cls(title, **columns, counts=all_counts, notes=all_notes)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ProtocolResult:
        """Read what `dataclasses.asdict` gave, None standing for NaN; columns that are missing are empty."""
        return cls(
            title=content["title"],
            scores=numbers(content.get("scores", {})),
            by_depth=curves(content.get("by_depth", {})),
            by_node={name: numbers(item) for name, item in content.get("by_node", {}).items()},
            curves=curves(content.get("curves", {})),
            axes={name: [number(v) for v in item] for name, item in content.get("axes", {}).items()},
            counts=dict(content.get("counts", {})),
            notes=list(content.get("notes", [])),
            intervals={name: bounds(ends) for name, ends in content.get("intervals", {}).items()},
            node_intervals={
                name: {node: bounds(ends) for node, ends in item.items()}
                for name, item in content.get("node_intervals", {}).items()
            },
            **{
                column: {
                    name: [bounds(ends) for ends in item] for name, item in content.get(column, {}).items()
                }
                for column in ("depth_intervals", "curve_intervals")
            },
        )
