"""From values per sample, NaN where a sample is left out, to one number."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["check_reduction", "mean_of_counted", "spread"]


def check_reduction(reduction: str) -> None:
    """Raise ``ValueError`` unless `reduction` is "mean" or "none"."""
    if reduction not in ("mean", "none"):
        raise ValueError(f"reduction is {reduction!r}; expected 'mean' or 'none'")


def mean_of_counted(values: Tensor) -> Tensor:
    """Mean of the entries that are not NaN, float64; NaN if there is none."""
    return torch.nanmean(values.double())


def spread(values: Tensor, takes_part: Tensor) -> Tensor:
    """(n,) float64: `values` at the rows that `takes_part` (n,) marks, in their order; NaN at all others.

    It is where `takes_part` is.
    """
    everywhere = torch.full(takes_part.shape, torch.nan, dtype=torch.float64, device=takes_part.device)
    everywhere[takes_part] = values.double().to(takes_part.device)
    return everywhere
