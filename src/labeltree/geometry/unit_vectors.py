"""Vectors of unit length, from numbers of any size."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.errors import DataError

__all__ = ["check_finite", "unit_vectors"]

_NAMED = 3  # rows that a message names


def unit_vectors(vectors: Tensor) -> Tensor:
    """Vectors `(n, d)` as float64, each divided by its own length; a vector of zeros stays.

    Lengths neither overflow nor vanish, be the numbers as large or as small as float64 has them.

    Raises:
        DataError: If a vector holds NaN or infinity.
    """
    check_finite(vectors)
    wide = vectors.double()
    if not wide.numel():
        return wide
    largest = wide.abs().amax(1, keepdim=True)
    wide = wide / torch.where(largest > 0, largest, 1.0)
    lengths: Tensor = torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    return wide / torch.where(lengths > 0, lengths, 1.0)


def check_finite(vectors: Tensor) -> None:
    """Raise a `DataError` that names the rows of `(n, d)` with NaN or infinity."""
    if bool(vectors.sum().isfinite()) or bool(torch.isfinite(vectors).all()):
        return
    rows = (~torch.isfinite(vectors)).any(1).nonzero()[:, 0].tolist()
    named = ", ".join(map(str, rows[:_NAMED])) + (f" and {len(rows) - _NAMED} more" if rows[_NAMED:] else "")
    what = f"vectors {named} hold" if len(rows) > 1 else f"vector {named} holds"
    raise DataError(f"{what} NaN or infinity; leave such rows out")
