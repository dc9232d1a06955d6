"""Working precision: geometry computes in float64 and returns its input's precision, at least float32."""

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")

__all__ = ["answer_dtype", "exact", "widen"]


def answer_dtype(*tensors: Tensor) -> torch.dtype:
    """The dtype of a result: the widest dtype of the inputs, and float32 for half precision and integers."""
    dtype = functools.reduce(torch.promote_types, (t.dtype for t in tensors))
    return dtype if dtype == torch.float64 else torch.float32


def widen(tensor: Tensor) -> Tensor:
    """`tensor` in float64, or in float32 on a device that has no float64 (Apple's)."""
    return tensor.to(torch.float32 if tensor.device.type == "mps" else torch.float64)


def exact(
    method: Callable[Concatenate[S, Tensor, P], R],
) -> Callable[Concatenate[S, Tensor, P], R]:
    """Run a geometry's method with autocast off, so that no product inside it falls to half precision."""

    @functools.wraps(method)
    def wrapped(self: S, x: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with torch.autocast(device_type=x.device.type, enabled=False):
            return method(self, x, *args, **kwargs)

    return wrapped
