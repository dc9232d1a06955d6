"""Sums of a small tile over the pairs that stand in the denominators of a loss's terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.pairs.streaming.label_pairs import LabelPairs
from labeltree.pairs.streaming.scratch import scratch

__all__ = ["PairSets"]


class PairSets:
    """The pairs in the denominator of each term; mostly all pairs, in all of them.

    Args:
        pairs: of a batch.
        members: `(T, R)` bool, the relations in the denominator of each term.

    Attributes:
        of_term: `(T,)` which of the S distinct denominators each term has.
    """

    def __init__(self, pairs: LabelPairs, members: NDArray[np.bool_]) -> None:
        self.of_term = np.zeros(len(members), np.int64)
        self._sets: NDArray[np.bool_] | None = None
        if not members[:, pairs.present].all():
            kinds, self.of_term = np.unique(members, axis=0, return_inverse=True)
            self._sets = np.stack([pairs.spread(kind) for kind in kinds])

    def sums(self, tile: Tensor) -> Tensor:
        """Of each row of a tile, over each of the sets, `(S, n)`."""
        if self._sets is None:
            return tile.sum(1)[None]
        return torch.stack([(tile * part).sum(1) for part in torch.from_numpy(self._sets)])

    def by_set(self, values: NDArray[Any]) -> Tensor:
        """What the terms have in `values (T, n)`, added up over those of each set, `(S, n)`."""
        if self._sets is None:
            return torch.from_numpy(values.sum(0, keepdims=True))
        found = torch.zeros((len(self._sets), values.shape[1]), dtype=torch.from_numpy(values).dtype)
        return found.index_add_(0, torch.from_numpy(self.of_term), torch.from_numpy(values))

    def slopes(self, tile: Tensor, of_sums: Tensor) -> Tensor:
        """The tile times what both rows of a pair have in `of_sums (S, n)`, over the sets."""
        out, found = scratch("slopes", tuple(tile.shape), tile), None
        for number, one in enumerate(of_sums):
            if self._sets is None:
                return torch.add(one[:, None], one, out=out).mul_(tile)
            part = (one[:, None] + one) * torch.from_numpy(self._sets[number])
            found = part if found is None else found.add_(part)
        assert found is not None
        return torch.mul(found, tile, out=out)
