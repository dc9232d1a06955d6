"""Whether the samples of a folder of parts are like those that its answers' promises rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.decisions.drift import DriftRule, Seen
from labeltree.inference.decider import Decider
from labeltree.runs import EmbeddingTable

__all__ = ["PartDraw", "tell_drift"]

DRAWN = 200
"""The number of samples of a part that are compared."""
_DIGITS = 7

_GROUPS = (
    "not tested whether these samples are like those of training: the held-out samples are of groups "
    "(patients), and a folder of parts does not read groups"
)


class PartDraw:
    """Draws samples of a part, all with the same chance, while the part is being made.

    The draw depends on the number of the part and its samples alone, not on the size of batches.

    Args:
        decider: The run with its decision rule.
        number: The number of the part.
    """

    def __init__(self, decider: Decider, number: int) -> None:
        self._decider = decider
        self._draw = np.random.default_rng(number)
        self._tables: list[EmbeddingTable] = []
        self._keys = torch.empty(0, dtype=torch.float64)

    def add(self, table: EmbeddingTable) -> None:
        """Draw among further samples."""
        keys = torch.cat([self._keys, torch.from_numpy(self._draw.random(len(table)))])
        kept = keys.argsort()[:DRAWN].sort().values
        ends = np.cumsum([0, *(len(each) for each in self._tables), len(table)])
        places = torch.from_numpy(ends)
        tables = [
            each.rows(kept[(kept >= low) & (kept < high)] - low)
            for each, low, high in zip([*self._tables, table], places[:-1], places[1:], strict=True)
        ]
        self._tables, self._keys = [each for each in tables if len(each)], keys[kept]

    def note(self) -> dict[str, list[float]]:
        """What the test reads of the drawn samples; empty if the run has nothing to compare them with."""
        rule = self._decider.drift
        if rule is None or rule.held.groups is not None:
            return {}
        answer = self._decider.rule.probabilities
        seen = [rule.seen(each, answer(self._decider.scores(each))) for each in self._tables]
        return {
            name: [round(value, _DIGITS) for each in seen for value in getattr(each, name).tolist()]
            for name in ("distance", "certainty")
        }


def tell_drift(rule: DriftRule | None, notes: Sequence[Mapping[str, Any]]) -> str | None:
    """Say so if the drawn samples of all parts together are not like the held-out ones.

    Parts are not tested one by one: the files of a folder are often sorted by class.

    Args:
        rule: The held-out samples.
        notes: `PartDraw.note` of each part.

    Returns:
        a sentence; None if nothing differs, there are too few samples to tell, or nothing to compare with.
    """
    if rule is None:
        return None
    if rule.held.groups is not None:
        return _GROUPS

    def drawn(name: str) -> Tensor:
        return torch.tensor([value for note in notes for value in note.get(name, ())], dtype=torch.float64)

    drift = rule.test(Seen(drawn("distance"), drawn("certainty"), None))
    return drift.sentence() if drift is not None and drift.alarms() else None
