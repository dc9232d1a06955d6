"""Stable splits: decided by a hash of names, not by a draw or by the order of the samples."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

__all__ = ["hash_fraction", "hash_number", "hash_splits", "stratified_hash_splits"]

Array = np.ndarray[Any, Any]


def hash_number(key: str) -> int:
    """A number below 2⁶⁴ that depends on the name alone: the first 8 bytes of its SHA-256."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")


def hash_fraction(key: str) -> float:
    """`hash_number` as a number in [0, 1).

    Example:
        >>> round(hash_fraction("apt"), 4)
        0.3126
    """
    return hash_number(key) / 2**64


def hash_splits(keys: Sequence[str], val: float, test: float) -> Array:
    """The split of each key by itself: keys that are added later do not change the splits of others.

    Args:
        keys: Names of the n samples, or of their groups.
        val: Share of the keys, below `1 - test`.
        test: Share of the keys.

    Returns:
        `train`, `val` or `test` for each key `(n,)`.

    Example:
        >>> hash_splits(["apt", "bash", "coreutils", "apt"], val=0.1, test=0.3).tolist()
        ['val', 'test', 'test', 'val']
    """
    sides = {key: _side(hash_fraction(key), val, test) for key in set(keys)}
    return np.array([sides[key] for key in keys], dtype="<U5")


def _side(fraction: float, val: float, test: float) -> str:
    if fraction < test:
        return "test"
    return "val" if fraction < test + val else "train"


def stratified_hash_splits(keys: Sequence[str], strata: Sequence[Hashable], val: float, test: float) -> Array:
    """The split of each key, such that every stratum gives its shares.

    The keys of a stratum are put in the order of their hashes. The first ones are for the test, the next for
    validation, as many as their shares come to (to the nearest, a half up). Equal keys stay together, in the
    stratum of the first of them.

    Args:
        keys: Names of the n samples, or of their groups.
        strata: Stratum of each, such as its label.
        val: Share of the keys of a stratum.
        test: Share of the keys of a stratum.

    Returns:
        `train`, `val` or `test` for each key `(n,)`.
    """
    members: dict[Hashable, dict[str, None]] = {}
    homes: dict[str, Hashable] = {}
    for key, stratum in zip(keys, strata, strict=True):
        members.setdefault(homes.setdefault(key, stratum), {})[key] = None
    sides: dict[str, str] = {}
    for own in members.values():
        first, second = (int(share * len(own) + 0.5) for share in (test, test + val))
        for rank, key in enumerate(sorted(own, key=hash_fraction)):
            sides[key] = "test" if rank < first else "val" if rank < second else "train"
    return np.array([sides[key] for key in keys], dtype="<U5")
