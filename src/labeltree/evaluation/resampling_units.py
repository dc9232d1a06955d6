"""What the bootstrap draws: groups of test samples where there are enough of them, else samples."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.evaluation.statistics import Resampling, number_groups
from labeltree.runs import EmbeddingTable

__all__ = ["FEWEST_GROUPS", "ResamplingUnits", "drawn_groups", "few_groups_note"]

FEWEST_GROUPS = 6
"""With fewer no sign-flip test can reach 5 % (2 / 2⁵ = 6.25 %), and few different draws of groups exist."""


class ResamplingUnits:
    """Which of some samples are drawn together, and the draws.

    Groups are drawn with replacement, with the same draws for all numbers of as many groups; classifiers,
    clusters and databases stay as they are.

    Args:
        resampling: the draws; None leaves all intervals out.
        units: ``(n,)`` what is drawn as a whole: the group of each sample, −1 for one that stands alone.

    Attributes:
        resampling: as given; None also where there are no samples.
        groups: ``(n,)`` the number of each sample's group.
        count: G, how many groups there are.
    """

    def __init__(self, resampling: Resampling | None, units: NDArray[np.int64]) -> None:
        self.resampling = resampling if len(units) else None
        self.groups = number_groups(units)
        self.count = int(self.groups.max()) + 1 if len(units) else 0


def drawn_groups(table: EmbeddingTable, tested: Tensor) -> Tensor | None:
    """``(n,)`` the groups of all rows; None without groups, or with fewer than six among the tested rows.

    Args:
        table: whose ``groups`` say which rows are no independent evidence; −1 stands alone.
        tested: ``(t,)`` rows of the evaluated split.
    """
    few = 0 < _count(table, tested) < FEWEST_GROUPS
    return None if few else table.groups


def few_groups_note(table: EmbeddingTable, tested: Tensor) -> list[str]:
    """A sentence for where groups are too few to be drawn."""
    count = _count(table, tested)
    if not 0 < count < FEWEST_GROUPS:
        return []
    groups, these = ("groups", "these groups") if count > 1 else ("group", "this group")
    return [
        f"The test samples are of {count} {groups}, too few to draw from: intervals and tests draw single "
        f"samples. They hold for more samples of {these} and say nothing of other groups."
    ]


def _count(table: EmbeddingTable, tested: Tensor) -> int:
    if table.groups is None:
        return 0
    groups = table.groups[tested]
    alone = int((groups < 0).sum())
    return len(torch.unique(groups[groups >= 0])) + alone
