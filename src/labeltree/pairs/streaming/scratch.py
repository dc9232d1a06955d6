"""Memory for tiles that is used again: a fresh megabyte costs as much time as the arithmetic on it."""

from __future__ import annotations

import math
import threading

import torch
from torch import Tensor

__all__ = ["scratch"]

_LARGEST = 4 << 20  # bytes of a tensor that is worth keeping


class _Buffers(threading.local):
    def __init__(self) -> None:
        self.of: dict[tuple[str, torch.dtype], Tensor] = {}


_BUFFERS = _Buffers()


def scratch(name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An uninitialised tensor, valid until the next call with its name in this thread.

    Args:
        name: of the use; two tensors that are needed at once have two names.
        shape: of the tensor.
        like: its device and its type.
    """
    dtype = like.dtype
    size = math.prod(shape)
    if like.device.type != "cpu" or size * dtype.itemsize > _LARGEST:
        return torch.empty(shape, dtype=dtype, device=like.device)
    buffer = _BUFFERS.of.get((name, dtype))
    if buffer is None or buffer.numel() < size:
        with torch.inference_mode(False):
            buffer = _BUFFERS.of[name, dtype] = torch.empty(size, dtype=dtype)
    return buffer[:size].view(shape)
