"""The draws of a bootstrap, the same for everything that is measured of the same groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from labeltree.evaluation.statistics.bootstrap import draw_counts
from labeltree.evaluation.statistics.ends import SAME, Interval, interval_ends
from labeltree.evaluation.statistics.sums import Floats

__all__ = ["Resampling"]

_BATCH = 64
_MOST_KEPT = 2**26
_PATIENCE = 1.0  # seconds before progress is told

Counts = NDArray[np.uint16]


class Resampling:
    """Draws of groups with replacement, and how sure they leave us; see `Bootstrap`, whose draws they are.

    Args:
        resamples: how many draws, at least 1.
        confidence: of the intervals.
        seed: of the draws.
        progress: called as ``progress(message, done, total)``, where it takes longer than a second.
    """

    def __init__(
        self,
        resamples: int = 2000,
        *,
        confidence: float = 0.95,
        seed: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        if resamples < 1 or not 0 < confidence < 1:
            raise ValueError(
                f"resamples is {resamples} and confidence {confidence}; expected at least 1, and a number "
                "between 0 and 1"
            )
        self.resamples = resamples
        self.confidence = confidence
        self.seed = seed
        self.progress = progress
        self._kept: tuple[int, list[Counts]] = (0, [])

    def batches(self, groups: int, dtype: type[np.floating] = np.float64) -> Iterator[tuple[slice, Floats]]:
        """For a few draws at a time: which, and how often each group is drawn in them, ``(groups, b)``."""
        done, began = 0, time.monotonic()
        for drawn in self._drawn(groups):
            for start in range(0, drawn.shape[1], _BATCH):
                counts = np.ascontiguousarray(drawn[:, start : start + _BATCH]).astype(dtype)
                yield slice(done, done + counts.shape[1]), counts
                done += counts.shape[1]
                if self.progress is not None and time.monotonic() - began > _PATIENCE:
                    self.progress("confidence intervals", done, self.resamples)

    def _drawn(self, groups: int) -> Iterator[Counts]:
        """``(groups, c)`` a chunk; kept for the next time where they are not too many."""
        if self._kept[0] == groups:
            yield from self._kept[1]
            return
        keep = groups * self.resamples <= _MOST_KEPT
        chunks = []
        for counts in draw_counts(groups, self.resamples, self.seed):
            chunk = np.ascontiguousarray(counts.T.astype(np.uint16))
            if keep:
                chunks.append(chunk)
            yield chunk
        if keep:
            self._kept = (groups, chunks)

    def ends(
        self,
        draws: Floats,
        value: Floats,
        groups: Floats,
        acceleration: Floats,
        agreeing: Floats | None = None,
        share: bool | NDArray[np.bool_] = True,
    ) -> Interval:
        """BCa intervals from draws ``(m, resamples)``; the further arguments are those of `interval_ends`.

        A metric that is no share has none where all draws agree: nothing says how sure that is.
        """
        found = interval_ends(
            draws.T,
            value,
            groups,
            confidence=self.confidence,
            acceleration=acceleration,
            share=share,
            agreeing=agreeing,
        )
        flat = (found.high - found.low <= SAME) & ((np.abs(found.error) <= SAME) | ~np.asarray(share))
        low, high = (np.where(flat, np.nan, part) for part in (found.low, found.high))
        return Interval(found.value, low, high, found.error)
