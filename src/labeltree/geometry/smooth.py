"""Functions that stay smooth where the usual formula is 0/0: each takes the *square* of its argument."""

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["asinhc", "cosine", "safe_sqrt", "sinc", "squared_norm", "tanhc", "to_safe_length", "unit"]

_SERIES_BELOW = 1e-3
# Entries up to the first have squares that can be summed; the second scales all others to that range.
_SAFE = {torch.float32: (2.0**48, 2.0**-72), torch.float64: (2.0**480, 2.0**-560)}


def _even(q: Tensor, formula: Callable[[Tensor], Tensor], series: tuple[float, ...]) -> Tensor:
    """`formula(√q)`, even in √q, by its power series in q near 0, where value and gradient are then exact.

    Each branch gets a safe input where it is not used: `where` alone would let NaN gradients through.
    """
    small = q < _SERIES_BELOW
    near = torch.where(small, q, torch.zeros_like(q))
    value = torch.full_like(near, series[-1])
    for coefficient in reversed(series[:-1]):
        value = value * near + coefficient
    return torch.where(small, value, formula(torch.where(small, torch.ones_like(q), q).sqrt()))


def tanhc(q: Tensor) -> Tensor:
    """tanh(√q)/√q, 1 at q = 0."""
    return _even(
        q,
        lambda t: t.tanh() / t,
        (1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925, 21844 / 6081075),
    )


def asinhc(q: Tensor) -> Tensor:
    """asinh(√q)/√q, 1 at q = 0."""
    return _even(
        q, lambda t: t.asinh() / t, (1.0, -1 / 6, 3 / 40, -15 / 336, 105 / 3456, -945 / 42240, 10395 / 599040)
    )


def sinc(q: Tensor) -> Tensor:
    """sin(√q)/√q, 1 at q = 0."""
    return _even(q, lambda t: t.sin() / t, (1.0, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880))


def cosine(q: Tensor) -> Tensor:
    """cos(√q)."""
    return _even(q, torch.cos, (1.0, -1 / 2, 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800))


def safe_sqrt(q: Tensor) -> Tensor:
    """√q with gradient 0 where q ≤ 0; NaN stays NaN."""
    zero = q <= 0
    return torch.where(zero, torch.zeros_like(q), torch.where(zero, torch.ones_like(q), q).sqrt())


def squared_norm(x: Tensor) -> Tensor:
    """|x|² over the last dimension, kept: (..., 1)."""
    return (x * x).sum(dim=-1, keepdim=True)


def to_safe_length(x: Tensor) -> Tensor:
    """Factors (..., 1) for vectors (..., d) whose squared norm would overflow: a power of 2; 1 for others."""
    if not x.shape[-1]:
        return x.new_ones((*x.shape[:-1], 1))
    limit, factor = _SAFE[x.dtype]
    largest = x.detach().abs().amax(dim=-1, keepdim=True)  # far faster on a CPU than the norm that it is
    return torch.where(largest > limit, factor, 1.0).to(x.dtype)


def unit(x: Tensor, least: float = 1e-12) -> Tensor:
    """x/|x|, of any finite length; a vector shorter than `least` becomes 0 with zero gradient."""
    x = x * to_safe_length(x)
    square = squared_norm(x)
    zero = square <= least * least
    scale = torch.where(zero, torch.ones_like(square), square).rsqrt()
    return x * torch.where(zero, torch.zeros_like(scale), scale)
