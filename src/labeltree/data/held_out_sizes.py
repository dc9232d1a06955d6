"""How many held-out samples, or groups of them, it takes to keep what answers promise."""

from __future__ import annotations

import math
from fractions import Fraction

from labeltree.options.answer_options import AnswerOptions

__all__ = ["FEWEST_FOR_DRIFT", "add_sample_for_answers", "samples_for_coverage", "sizes_for_answers"]

FEWEST_FOR_DRIFT = 20
"""Fewer samples, or groups of them, cannot be tested for drift, nor be what others are compared with."""


def samples_for_coverage(coverage: float) -> int:
    """The fewest samples, or groups, of which a conformal threshold can promise a coverage.

    Example:
        >>> samples_for_coverage(0.9), samples_for_coverage(0.95)
        (9, 19)
    """
    share = Fraction(str(coverage))
    return math.ceil(share / (1 - share))


def sizes_for_answers() -> dict[str, int]:
    """The fewest held-out samples, or groups, for what `predict` does unless it is told otherwise."""
    coverage, unknown = AnswerOptions.coverage, AnswerOptions.unknown
    return {
        f"a coverage of {coverage:g}": samples_for_coverage(coverage),
        f"unknown classes at {unknown:g}": math.ceil(1 / Fraction(str(unknown)) - 1),
        "a test for drift": FEWEST_FOR_DRIFT,
    }


def add_sample_for_answers(count: int) -> int:
    """A number of samples to hold out, and one more where that makes one of `sizes_for_answers` possible.

    Example:
        >>> [add_sample_for_answers(count) for count in (7, 8, 17, 18, 19, 20)]
        [7, 9, 17, 19, 20, 20]
    """
    return count + 1 if count + 1 in sizes_for_answers().values() else count
