"""How numbers of a search depend on the samples as results: blocks of the samples are left out in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.progress import Progress

__all__ = ["draw_blocks", "influence_as_results"]

_BLOCKS = 20
_QUERIES = 512  # of which the values without a block are computed


def draw_blocks(units: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """The block ``(n,)`` of each sample: at most 20 random blocks of equally many units, from 0.

    Args:
        units: ``(n,)`` resampling unit of each sample, numbered from 0.
        seed: random seed of the partition.
    """
    count = int(units.max(initial=-1)) + 1
    order = np.random.default_rng(seed).permutation(count)
    return (order % min(_BLOCKS, max(count, 1)))[units]


def influence_as_results(
    values: Mapping[str, Tensor],
    measure: Callable[[Tensor, Tensor], Mapping[str, Tensor]],
    blocks: NDArray[np.int64],
    among: Tensor,
    seed: int,
    progress: Progress | None = None,
) -> dict[str, Tensor]:
    """What each sample adds to the mean of a search among the samples by being a result of the others.

    A sample's value tells how it fares as a query. Value plus influence are the pseudo-values of a
    delete-block jackknife (Shao & Tu 1995, Chapter 2): with block b of B left out as queries and as results,
    the mean T becomes T₍b₎, and B·T − (B − 1)·T₍b₎ is what the block stands for, up to a constant. So
    resampling blocks of these sums covers both roles of a sample; resampling queries covers one.

    Args:
        values: number → ``(n,)`` value of each query among the others, NaN where it does not count.
        measure: gives the same numbers of queries ``(q,)`` searched among the samples ``(k,)``, which hold
            them; both are positions in ``values``.
        blocks: ``(n,)`` block of each sample, see `draw_blocks`.
        among: ``(c,)`` positions of the queries that all numbers count; values without a block are computed
            for 512 of them, drawn at random.
        seed: random seed of that draw.
        progress: called as ``progress(message, done, total)``.

    Returns:
        number → ``(n,)`` influence in shares of its block, whose mean over the queries that count is 0; NaN
        where the number is not defined without some block.
    """
    rng = np.random.default_rng(seed)
    count = int(blocks.max(initial=-1)) + 1
    chosen = np.sort(rng.permutation(among.numpy())[:_QUERIES])
    lost = {name: np.full(count, np.nan) for name in values}
    for block in range(count if count > 1 else 0):
        queries = torch.from_numpy(chosen[blocks[chosen] != block])
        without = measure(queries, torch.from_numpy(np.flatnonzero(blocks != block)))
        for name, losses in lost.items():
            losses[block] = float(values[name][queries].nanmean() - without[name].nanmean())
        if progress is not None:
            progress("without blocks of results", block + 1, count)
    found = {}
    for name, losses in lost.items():
        shares = torch.from_numpy((count - 1) * losses[blocks])
        counted = ~values[name].isnan()
        found[name] = shares - shares[counted].mean()
    return found
