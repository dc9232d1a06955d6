"""The sign-flip permutation test of two runs on the same samples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labeltree.evaluation.statistics.sums import Floats, GroupSums, divided

__all__ = ["sign_flip_test"]

_CHUNK_ELEMENTS = 2**21
_SAME = 1e-9


def sign_flip_test(sums: GroupSums, *, permutations: int = 10_000, seed: int = 0) -> Floats:
    """p-values of the hypothesis that it does not matter which of two runs an outcome came from.

    The outcomes of a group change hands as a whole, numerators with denominators, with probability ½. The
    p-value is the share of such exchanges whose difference is at least as large, on either side, the one
    observed included (Phipson and Smyth 2010): with N permutations it is at least 1/(N + 1). With so few
    groups that there are no more than N exchanges, each is tried once and the test is exact.

    Args:
        sums: of two runs.
        permutations: how many exchanges are drawn.
        seed: of the draw.

    Returns:
        ``(m,)``, NaN where the difference is not defined.

    Raises:
        ValueError: unless there are two runs.
    """
    if sums.numerators.shape[1] != 2:
        raise ValueError(f"sums are of {sums.numerators.shape[1]} runs; expected two")
    groups, _, metrics = sums.numerators.shape
    both = np.concatenate([sums.numerators, sums.denominators], axis=2)
    half = (both[:, 0] - both[:, 1]) / 2
    middle = both.sum(axis=(0, 1)) / 2
    ratios = sums.ratios
    observed = np.abs(ratios[0] - ratios[1])
    margin = _SAME * np.maximum(1.0, np.abs(ratios).max(axis=0))
    extreme, known = np.zeros(metrics), np.zeros(metrics)
    everything = groups < 60 and 2**groups <= permutations
    for signs in _every(groups) if everything else _drawn(groups, permutations, seed):
        moved = signs @ half
        first, second = middle + moved, middle - moved
        found = divided(first[:, :metrics], first[:, metrics:]) - divided(
            second[:, :metrics], second[:, metrics:]
        )
        extreme += (np.abs(found) >= observed - margin).sum(axis=0)
        known += (~np.isnan(found)).sum(axis=0)
    itself = 0 if everything else 1
    p = (extreme + itself) / np.maximum(known + itself, 1)
    return np.where(np.isnan(observed), np.nan, p)


def _drawn(groups: int, permutations: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK_ELEMENTS // groups)
    width = -(-groups // 8)
    for start in range(0, permutations, step):
        count = min(step, permutations - start)
        bits = np.frombuffer(rng.bytes(count * width), dtype=np.uint8).reshape(count, width)
        yield 2.0 * np.unpackbits(bits, axis=1, count=groups).astype(np.float64) - 1.0


def _every(groups: int) -> Iterator[Floats]:
    numbers = np.arange(2**groups)
    yield 2.0 * ((numbers[:, None] >> np.arange(groups)) & 1).astype(np.float64) - 1.0
