"""When exp(ω·s) of cosines needs no maximum taken off, and when all relations share one slope."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["common_slope", "exponent_dtype"]

# of the exponent to base 2: sums of exponentials, and slopes divided by them, are far from the format's ends
_LARGEST = {torch.float32: 64.0, torch.float64: 900.0}


def exponent_dtype(dtype: torch.dtype, temperature: float, scale: Tensor | None) -> torch.dtype | None:
    """The type in which exp(ω/τ) of embeddings of a type fits with room to spare; None if there is none."""
    omega = 1.0 if scale is None else float(scale.abs().max())
    exponent = omega / temperature * math.log2(math.e)
    for candidate in (torch.float32, torch.float64):
        if exponent <= _LARGEST[candidate] and (dtype == torch.float32 or candidate == torch.float64):
            return candidate
    return None


def common_slope(slope: Tensor, sums: Tensor, present: Tensor, dtype: torch.dtype) -> Tensor | None:
    """The slope `(n,)` that all relations present in a row share; None if they do not.

    They do wherever the loss takes one logsumexp over all of them, and then tiles of several codes need not
    be taken apart. "The same" allows for the rounding of exp(lse_r − lse) in the loss.

    Args:
        slope: `(n, R)` of the loss in each sum.
        sums: `(n, R)` the sums Σ exp(ω·s).
        present: `(n, R)` bool, relations with pairs.
        dtype: of the loss.
    """
    weight = sums * present
    common = (slope * weight).sum(1) / weight.sum(1).clamp_(min=torch.finfo(sums.dtype).tiny)
    error = torch.finfo(dtype).eps * (8 + 2 * math.log(2) * _LARGEST[sums.dtype])
    apart = (slope - common[:, None]).mul_(present).abs_().amax(1)
    return common if bool((apart <= common.abs().mul_(error)).all()) else None
