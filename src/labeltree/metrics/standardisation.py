"""Columns of mean 0 and standard deviation 1."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["column_scale"]


def column_scale(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """The mean `(d,)` of each column, and what it is multiplied by to have the standard deviation 1.

    A column that hardly varies is multiplied by 0: it holds only rounding noise, which a division would
    amplify.

    Args:
        vectors: `(n, d)` floating point, n above 0.

    Example:
        >>> mean, scale = column_scale(torch.tensor([[0.0, 5.0], [4.0, 5.0]]))
        >>> mean, scale
        (tensor([2., 5.]), tensor([0.5000, 0.0000]))
    """
    mean, deviation = vectors.mean(0), vectors.std(0, correction=0)
    flat = deviation <= 1e-6 * deviation.max()
    return mean, torch.where(flat, 0.0, 1 / deviation.masked_fill(flat, 1.0))
