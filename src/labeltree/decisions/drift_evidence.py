"""Evidence, sample after sample, that new samples are not like the held-out ones."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from labeltree.decisions.drift import DriftRule, Seen
from labeltree.decisions.novelty import FALSE_ALARMS

__all__ = ["DriftEvidence"]

_CELLS = 2 * 0x7C01  # half-precision numbers from -infinity to infinity, in order
_DIRECTIONS = 8  # along which the embeddings of the reference vary most
_JUMP = 0.01
_STAKES = np.array([-1.0, 0.0, 1.0])
_MOST = 1e9  # no more is needed, and more would overflow


class DriftEvidence:
    """A test that may be read after every sample: one false alarm in twenty services, not in twenty readings.

    Ten scores of a sample are read: the distance to the nearest reference sample, the certainty, and the
    places along the eight directions in which the reference varies most. In each, the p-value of a new sample
    is the share of all samples before it, the held-out ones included, whose score is greater, ties broken at
    random. While new samples are like the held-out ones, these p-values are independent and uniform (Vovk,
    Gammerman & Shafer 2005). A capital of 1, in equal parts on the scores, is bet against that by the Simple
    Jumper (Vovk et al. 2021). The probability that it ever reaches c is at most 1/c (Ville's inequality),
    over draws of held-out and of new samples.

    Every new sample joins those that later ones are compared with: against the held-out samples alone the
    p-values would depend on each other, and alarms be more frequent than is said.

    Args:
        rule: The held-out samples, which are not of groups, and the reference.
    """

    def __init__(self, rule: DriftRule) -> None:
        points = rule.reference.points.double()
        self._directions = torch.linalg.eigh(torch.cov(points.T).reshape(2 * points.shape[1:]))[1][
            :, -_DIRECTIONS:
        ]
        cells = self._cells(rule.held)
        self._counts = np.stack([np.bincount(each, minlength=_CELLS) for each in cells])
        self._draw = np.random.default_rng(rule.seed)
        self._capital = np.full((len(cells), len(_STAKES)), 1 / (len(cells) * len(_STAKES)))
        self._highest = 1.0
        self._held, self.count = len(rule.held), 0

    @property
    def value(self) -> float:
        """The highest capital so far, at most 10⁹: 20 or more in at most 5 % of services without drift."""
        return self._highest

    def alarms(self, false_alarms: float = FALSE_ALARMS) -> bool:
        """Whether new samples differ, if at most this share of services may ever say so wrongly."""
        return self._highest >= 1 / false_alarms

    def add(self, seen: Seen) -> None:
        """Take n further samples into account, in the order in which they came."""
        for cells in self._cells(seen).T:
            if self._highest < _MOST:
                self._bet(cells)
            self.count += 1

    def _bet(self, cells: NDArray[np.int64]) -> None:
        for which, cell in enumerate(cells):
            counts = self._counts[which]
            more = counts[cell + 1 :].sum()
            p = (more + self._draw.random() * (counts[cell] + 1)) / (self._held + self.count + 1)
            counts[cell] += 1
            capital = self._capital[which]
            capital[:] = (1 - _JUMP) * capital + _JUMP * capital.mean()
            capital *= 1 + _STAKES * (p - 0.5)
        self._highest = min(_MOST, max(self._highest, float(self._capital.sum())))

    def sentence(self) -> str:
        """What was found, in words, for a user."""
        start = f"the {self.count:,} samples since the start are"
        if not self.alarms():
            return f"{start} like the held-out samples that coverage was calibrated on, as far as can be told"
        return (
            f"{start} not all like the held-out samples that coverage was calibrated on: of services "
            f"whose samples are, at most {100 * FALSE_ALARMS:.0f} in 100 ever say this"
        )

    def _cells(self, seen: Seen) -> NDArray[np.int64]:
        """What is bet on (k, n), each as the place of a half-precision number among all of them.

        So the memory does not grow with the samples. Rounding is the same for all of them, and may tie them.
        """
        scores = torch.stack([seen.distance, 1 - seen.certainty])
        if seen.embeddings is not None:
            scores = torch.cat([scores, (seen.embeddings @ self._directions).T])
        bits = scores.to(torch.float16).numpy().view(np.uint16).astype(np.int64)
        return np.where(bits < 0x8000, _CELLS // 2 + bits, _CELLS // 2 - 1 - (bits - 0x8000))
