"""When a number rests on too few samples to be shown without a warning."""

from labeltree.counted_nouns import say_count

__all__ = ["FEW", "FEW_CASES", "few_note"]

FEW = 10
"""Numbers computed from fewer samples than this are shown with a warning."""
FEW_CASES = 20
"""A rate of a single node or question with fewer cases than this is marked in reports."""


def few_note(count: int, measure: str) -> str:
    """A warning that a measure is computed from only `count` samples."""
    return f"{measure} is computed from only {say_count(count, 'sample')}: it says little."
