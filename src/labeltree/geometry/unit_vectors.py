"""Vectors of unit length, from numbers of any size."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.errors import DataError

__all__ = ["check_finite", "unit_vectors"]

_NAMED = 3  # rows that a message names
_SHORT = 1e-140  # the square of a smaller length loses digits
_ROWS = 16384  # rows that are looked at at once


def unit_vectors(vectors: Tensor) -> Tensor:
    """Vectors `(n, d)` as float64, each divided by its own length; a vector of zeros stays.

    Lengths neither overflow nor vanish, be the numbers as large or as small as float64 has them.

    Raises:
        DataError: If a vector holds NaN or infinity.
    """
    wide = vectors.double()
    if not wide.numel():
        return wide
    lengths: Tensor = torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    if bool(((lengths > _SHORT) & torch.isfinite(lengths)).all()):
        return wide / lengths if vectors.dtype == torch.float64 else wide.div_(lengths)
    check_finite(vectors)
    largest = wide.abs().amax(1, keepdim=True)
    wide = wide / torch.where(largest > 0, largest, 1.0)
    lengths = torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    return wide / torch.where(lengths > 0, lengths, 1.0)


def check_finite(vectors: Tensor) -> None:
    """Raise a `DataError` that names the rows of `(n, d)` with NaN or infinity."""
    if bool(torch.isfinite(vectors.sum())):
        return
    finite = torch.cat([torch.isfinite(part).all(1) for part in torch.split(vectors, _ROWS)])
    rows = (~finite).nonzero()[:, 0].tolist()
    if not rows:  # the sum was too large
        return
    named = ", ".join(map(str, rows[:_NAMED])) + (f" and {len(rows) - _NAMED} more" if rows[_NAMED:] else "")
    what = f"vectors {named} hold" if len(rows) > 1 else f"vector {named} holds"
    raise DataError(f"{what} NaN or infinity; leave such rows out")
