"""Sorting by a small integer key, in time proportional to the number of entries."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["key_dtype", "stable_order"]


def key_dtype(num_keys: int) -> type[np.unsignedinteger]:
    """The unsigned type in which `stable_order` sorts keys 0 ... num_keys - 1 fastest."""
    return np.uint16 if num_keys <= 2**16 else np.uint32


def stable_order(keys: NDArray[np.unsignedinteger]) -> NDArray[np.intp]:
    """The stable order of unsigned keys; numpy sorts 16-bit ones by radix, so wider ones go in two passes."""
    if keys.dtype.itemsize <= 2:
        return np.argsort(keys, kind="stable")
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    return order[np.argsort((keys >> 16).astype(np.uint16)[order], kind="stable")]
