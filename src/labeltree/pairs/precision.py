"""Precision: kernels take bf16 and fp16, all other code casts to float32; primitives run without autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from labeltree.geometry.precision import answer_dtype

__all__ = ["HALVES", "as_kernels_take", "at_least_single", "full_precision", "working_dtype"]

HALVES = (torch.bfloat16, torch.float16)


def at_least_single(x: Tensor, *others: Tensor) -> list[Tensor]:
    """The tensors in float32 or better; one that is given twice is cast once, and remains one."""
    cast = {id(each): each.to(answer_dtype(each)) for each in (x, *others)}
    return [cast[id(each)] for each in (x, *others)]


def as_kernels_take(x: Tensor, dtype: torch.dtype) -> Tensor:
    """What a loss that computes in a dtype hands on of its input: half precision on a GPU as it is."""
    return x if x.dtype in HALVES and x.device.type == "cuda" else x.to(dtype)


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Without autocast; entering its context costs as much as an operation, and mostly it is off already."""
    on = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if on else nullcontext()


def working_dtype(z: Tensor) -> torch.dtype:
    """float64 of float64, else float32."""
    return torch.float64 if z.dtype == torch.float64 else torch.float32
