"""Where the numbers of a protocol stand, and how intervals get beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

from labeltree.evaluation.plain import Bounds
from labeltree.evaluation.protocol_result import ProtocolResult

__all__ = ["Place", "write_intervals"]


_ROUNDING = 1e-9


class Place(NamedTuple):
    """Where a number stands in a `ProtocolResult`.

    Attributes:
        kind: the column.
        name: its key there.
        at: position in a list by depth or in a curve, or path name of a node; nothing for a score.
    """

    kind: Literal["scores", "by_depth", "by_node", "curves"]
    name: str
    at: int | str = 0


def write_intervals(result: ProtocolResult, found: Mapping[Place, Bounds]) -> ProtocolResult:
    """Put intervals into a result, those that are defined of numbers that it has, and return it.

    A number and the estimate of its interval may be added up in another order: the ends make room for it.
    """
    for place, ends in found.items():
        number = _number(result, place)
        if number is None or math.isnan(number) or math.isnan(sum(ends)):
            continue
        if abs(number - min(max(number, ends[0]), ends[1])) <= _ROUNDING:
            ends = (min(ends[0], number), max(ends[1], number))
        kind, name, at = place
        if kind == "scores":
            result.intervals[name] = ends
        elif kind == "by_node":
            result.node_intervals.setdefault(name, {})[str(at)] = ends
        else:
            kept = result.depth_intervals if kind == "by_depth" else result.curve_intervals
            length = len(getattr(result, kind)[name])
            kept.setdefault(name, [(math.nan, math.nan)] * length)[int(at)] = ends
    return result


def _number(result: ProtocolResult, place: Place) -> float | None:
    column = getattr(result, place.kind).get(place.name)
    if column is None or place.kind == "scores":
        return column if column is None else float(column)
    if isinstance(column, dict):
        return column.get(place.at)
    return float(column[int(place.at)]) if int(place.at) < len(column) else None
