"""Groups of samples that no split may part."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

__all__ = ["grouped"]


def grouped(keys: Sequence[Hashable]) -> Tensor:
    """Groups ``(n,)``: samples with equal keys share one; numbered as they first occur.

    Example:
        >>> grouped(["patient 7", "patient 3", "patient 7"])
        tensor([0, 1, 0])
    """
    numbers: dict[Hashable, int] = {}
    return torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys], dtype=torch.int64)
