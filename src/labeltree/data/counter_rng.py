"""Counter-based random numbers: functions of (seed, epoch, view, instance, stream) only.

A generator that is advanced call by call gives a sample different views when the batch around it, the
number of workers or the device changes. Hashing a counter does not: every number can be computed anywhere,
in any order. The hash is the finaliser of SplitMix64 (Steele, Lea & Flood 2014), in int64 tensors whose
products wrap.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["bits", "sample_keys", "uniform"]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def _to_signed(value: int) -> int:
    """The int64 with the same 64 bits."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def _shift_right(x: Tensor, count: int) -> Tensor:
    """Logical right shift: torch's `>>` copies the sign bit, so the copies are masked away."""
    return (x >> count) & ((1 << (64 - count)) - 1)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift_right(x, 30)) * _to_signed(_FIRST)
    x = (x ^ _shift_right(x, 27)) * _to_signed(_SECOND)
    return x ^ _shift_right(x, 31)


def _mix_int(x: int) -> int:
    x &= _MASK
    x = ((x ^ (x >> 30)) * _FIRST) & _MASK
    x = ((x ^ (x >> 27)) * _SECOND) & _MASK
    return x ^ (x >> 31)


def sample_keys(seed: int, epoch: int, view: int, instances: Tensor) -> Tensor:
    """One 64-bit key per sample.

    Args:
        seed: The run's seed.
        epoch: Epoch number.
        view: View number within the epoch.
        instances: Instance ids `(n,)`, int64.

    Returns:
        Keys `(n,)`, int64, on the device of `instances`.
    """
    key = 0
    for part in (seed, epoch, view):
        key = _mix_int(key + _GOLDEN * ((part & _MASK) + 1))
    return _mix(_to_signed(key) + _mix(instances.long() * _to_signed(_GOLDEN)))


def bits(keys: Tensor, streams: int, first: int = 0) -> Tensor:
    """Random 64-bit integers `(n, streams)` of the streams `first, first + 1, ...` of every key."""
    counters = [_to_signed(_GOLDEN * (first + stream + 1)) for stream in range(streams)]
    return _mix(keys[:, None] + torch.tensor(counters, dtype=torch.int64, device=keys.device))


def uniform(keys: Tensor, streams: int, first: int = 0) -> Tensor:
    """Uniform numbers in [0, 1), float32 `(n, streams)`: the 24 upper bits, which float32 holds exactly."""
    return _shift_right(bits(keys, streams, first), 40).to(torch.float32) * (1.0 / (1 << 24))
