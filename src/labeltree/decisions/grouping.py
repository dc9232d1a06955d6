"""Samples that belong together, such as those of a patient, and parts that never divide them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["count_groups", "group_codes", "share_of_groups"]


def group_codes(groups: Tensor | None, count: int) -> Tensor:
    """Numbers 0, 1, … of the groups of samples: (n,) int64.

    Args:
        groups: (n,) int64, -1 for a sample that is a group of its own; None: each is.
        count: n.
    """
    if groups is None:
        return torch.arange(count)
    names = groups.clone()
    alone = names < 0
    names[alone] = (int(names.max()) if count else 0) + 1 + torch.arange(int(alone.sum()))
    codes: Tensor = torch.unique(names, return_inverse=True)[1]
    return codes


def count_groups(groups: Tensor | None, count: int) -> int:
    """How many groups n samples are of; see `group_codes`."""
    return len(torch.unique(group_codes(groups, count)))


def share_of_groups(rows: Tensor, groups: Tensor | None, share: float, seed: int) -> Tensor:
    """(n,) bool, the samples of a share of the groups that have one of the rows, rounded down, drawn by seed.

    Args:
        rows: (n,) bool.
        groups: see `group_codes`.
        share: from 0 to 1.
        seed: of the choice.
    """
    codes = group_codes(groups, len(rows))
    present = torch.unique(codes[rows])
    order = torch.randperm(len(present), generator=torch.Generator().manual_seed(seed))
    return torch.isin(codes, present[order[: math.floor(share * len(present))]])
