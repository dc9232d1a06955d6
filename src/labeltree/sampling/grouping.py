"""Sorting and shuffling by group, in time proportional to the number of entries."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["key_dtype", "shuffle_within", "stable_order"]

LARGE_GROUP = 64  # entries; the mean from which on shuffling group by group is the faster way


def key_dtype(num_keys: int) -> type[np.unsignedinteger]:
    """The unsigned type in which `stable_order` sorts keys 0 ... num_keys - 1 fastest."""
    return np.uint16 if num_keys <= 2**16 else np.uint32


def stable_order(keys: NDArray[np.unsignedinteger]) -> NDArray[np.intp]:
    """The stable order of unsigned keys; numpy sorts 16-bit ones by radix, so wider ones go in two passes."""
    if keys.dtype.itemsize <= 2:
        return np.argsort(keys, kind="stable")
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    return order[np.argsort((keys >> 16).astype(np.uint16)[order], kind="stable")]


def shuffle_within(
    values: NDArray[np.int64], first: NDArray[np.int64], size: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Ranges of `values` one after the other, each in random order.

    Args:
        values: (n,)
        first: (g,) where each range begins; ranges may overlap.
        size: (g,) how long it is.
        rng: the source of randomness.

    Returns:
        (sum of sizes,) the first range's values shuffled, then the second's, ...
    """
    begin, total = np.cumsum(size) - size, int(size.sum())
    if LARGE_GROUP * len(size) > total:
        index: NDArray[np.int64] = np.arange(total) + np.repeat(first - begin, size)
        group = np.repeat(np.arange(len(size), dtype=key_dtype(len(size))), size)
        order = rng.permutation(total)
        index = index[order[stable_order(group[order])]]
        return values[index]
    shuffled = np.empty(total, dtype=np.int64)  # few large groups: stay in the cache, one group at a time
    for source, target, length in zip(first.tolist(), begin.tolist(), size.tolist(), strict=True):
        part = shuffled[target : target + length]
        part[:] = values[source : source + length]
        rng.shuffle(part)
    return shuffled
