"""When a number rests on too few samples to be shown without a warning."""

from __future__ import annotations

import math

from labeltree.counted_nouns import say_count

__all__ = ["FEW", "FEW_CASES", "TOO_FEW", "ends_text", "few_note", "says_nothing"]

FEW = 10
"""Numbers computed from fewer samples than this are shown with a warning."""
FEW_CASES = 20
"""A rate of a single node or question with fewer cases than this is marked in reports."""


def few_note(count: int, measure: str) -> str:
    """A warning that a measure is computed from only `count` samples."""
    return f"{measure} is computed from only {say_count(count, 'sample')}: it says little."


TOO_FEW = "too few to tell"
"""What stands in place of an interval of a share that holds everything from 0 to 1."""


def says_nothing(low: float, high: float) -> bool:
    """Whether an interval holds every share there is, to three digits; NaN are no interval."""
    return low < 0.0005 and 0.9995 < high <= 1


def ends_text(low: float, high: float, digits: int = 3) -> str:
    """The ends of an interval in brackets, after a space, or what is wrong with it; empty for NaN.

    Example:
        >>> ends_text(0.25, 0.5), ends_text(0.0, 1.0), ends_text(math.nan, math.nan)
        (' [0.250, 0.500]', ' [too few to tell]', '')
    """
    if math.isnan(low):
        return ""
    return f" [{TOO_FEW}]" if says_nothing(low, high) else f" [{low:.{digits}f}, {high:.{digits}f}]"
