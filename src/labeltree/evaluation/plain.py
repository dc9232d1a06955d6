"""Numbers as JSON has them, which knows no NaN: None in its place, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Bounds", "bounds", "curves", "number", "numbers", "without_nan"]

Bounds = tuple[float, float]
"""Lower and upper end of a confidence interval, NaN where there is none."""


def bounds(ends: Sequence[float | None]) -> Bounds:
    """The ends of an interval, read from JSON."""
    low, high = ends
    return number(low), number(high)


def number(value: float | None) -> float:
    """A number read from JSON."""
    return math.nan if value is None else value


def numbers(item: Mapping[str, float | None]) -> dict[str, float]:
    """Numbers by name, read from JSON."""
    return {key: number(value) for key, value in item.items()}


def curves(item: Mapping[str, Sequence[float | None]]) -> dict[str, list[float]]:
    """Lists of numbers by name, read from JSON."""
    return {key: [number(value) for value in values] for key, values in item.items()}


def without_nan(value: Any) -> Any:
    """The same structure with None for every number that is not finite."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
