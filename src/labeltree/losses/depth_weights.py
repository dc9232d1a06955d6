"""Weights of the depths of a tree, coarse → fine, by name or as a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

__all__ = ["DEPTH_WEIGHTS", "DepthWeights", "depth_weights"]

DepthWeights = str | float | Sequence[float]

# t: depth from 1 (coarsest) to L. The supplement of Use All The Labels counts l from 0 where it writes
# |L| − l (which would vanish otherwise), and from 1 where it writes 1/l.
DEPTH_WEIGHTS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "exp": lambda t, n: torch.exp(t),
    "exp_inv": lambda t, n: torch.exp(1 / (n + 1 - t)),
    "pow2": lambda t, n: 2**t,
    "pow2_inv": lambda t, n: 2 ** (1 / (n + 1 - t)),
    "inv": lambda t, n: 1 / (n + 1 - t),
    "one": lambda t, n: torch.ones_like(t),
    "coarse_inv": lambda t, n: 1 / t,
    "coarse_exp_inv": lambda t, n: torch.exp(1 / t),
    "coarse_pow2_inv": lambda t, n: 2 ** (1 / t),
}


def depth_weights(weights: DepthWeights, num_depths: int, name: str = "weights") -> Tensor:
    """Weights of the depths 1 … L, coarse → fine, `(L,)` float64.

    Args:
        weights: one number for all depths; a sequence of L numbers; or a name. Growing with depth (Table 2
            of the supplement of Use All The Labels; t is the depth, L the number of depths): `"exp"` = e^t,
            `"exp_inv"` = e^(1/(L+1−t)), `"pow2"` = 2^t, `"pow2_inv"` = 2^(1/(L+1−t)), `"inv"` = 1/(L+1−t).
            Constant or falling with depth (its Table 3): `"one"`, `"coarse_inv"` = 1/t, `"coarse_exp_inv"`
            = e^(1/t), `"coarse_pow2_inv"` = 2^(1/t).
        num_depths: L.
        name: of the argument, for error messages.

    Raises:
        ValueError: an unknown name, a list of another length, or a weight that is negative or not finite.

    Example:
        >>> depth_weights("inv", 3)
        tensor([0.3333, 0.5000, 1.0000], dtype=torch.float64)
    """
    if isinstance(weights, str):
        if weights not in DEPTH_WEIGHTS:
            raise ValueError(f"{name} must be numbers or one of {', '.join(DEPTH_WEIGHTS)}; got {weights!r}")
        return DEPTH_WEIGHTS[weights](torch.arange(1, num_depths + 1, dtype=torch.float64), num_depths)
    if isinstance(weights, int | float):
        weights = [weights] * num_depths
    values = torch.tensor(list(weights), dtype=torch.float64)
    if values.shape != (num_depths,):
        raise ValueError(
            f"{name} must have {num_depths} entries, one per depth, coarse → fine; "
            f"got {len(values)}: {list(weights)}"
        )
    if not bool((values.isfinite() & (values >= 0)).all()):
        raise ValueError(f"{name} must be finite and not negative; got {list(weights)}")
    return values
