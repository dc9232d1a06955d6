"""What the kernels of the pair statistics are given."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from labeltree.pairs.kernels.launch import Settings, Vectors
from labeltree.pairs.kernels.layout import Side, Tiles
from labeltree.pairs.relation import PairRelation

__all__ = ["COLUMN", "ROW", "SMALL", "Problem"]

SMALL, ROW, COLUMN = 8, 16, 32
"""Flags beside those of statistics: logits need no maximum; tables of rows count, tables of columns count."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One problem for the kernels: two sides, sorted, and what is asked of their pairs."""

    relation: PairRelation
    queries: Side
    keys: Side
    of_queries: Vectors
    of_keys: Vectors
    tiles: Tiles
    how: Settings
    temperature: float
    scale: Tensor  # ω, float32
    flags: int
    d: int

    @property
    def exponents(self) -> Tensor:
        """What makes logits to the base 2 of cosines, `(R,)`."""
        return self.scale * (math.log2(math.e) / self.temperature)

    @property
    def alike(self) -> bool:
        """Whether queries and keys are one."""
        return self.of_queries is self.of_keys
