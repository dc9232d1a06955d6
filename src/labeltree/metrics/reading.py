"""One pass over the similarities of a search, which fills every score that is wanted of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.geometry import Geometry, as_geometry
from labeltree.metrics.hierarchical_precision import HierarchicalPrecisionScores
from labeltree.metrics.left_out import LeftOut
from labeltree.metrics.placing import Placing
from labeltree.metrics.ranking import Progress, ranked_chunks
from labeltree.metrics.relevance import RelevanceScores
from labeltree.metrics.search import Search
from labeltree.metrics.sharing import merge, own_share

__all__ = ["read_rankings"]

# items per relevant item from which placing the relevant ones is faster than sorting all
_RARE = 16
# Rankings are read in blocks that stay in the cache.
_BLOCK = 2**18


def read_rankings(
    search: Search,
    relevance: Sequence[RelevanceScores] = (),
    hierarchical: HierarchicalPrecisionScores | None = None,
    *,
    geometry: Geometry | str | None = None,
    reach: int | None = None,
    shard: bool = False,
    progress: Progress | None = None,
) -> None:
    """Rank the database for every query and fill the scores.

    Args:
        search: queries and database.
        relevance: scores of `search`, by one or several kinds of labels.
        hierarchical: scores of `search`; reads as far as it wants.
        geometry: or its name; default `Sphere()`.
        reach: how many results `relevance` reads; None for all.
        shard: divide the queries over the ranks of `torch.distributed`.
        progress: see `ranked_chunks`.

    """
    rows = np.arange(len(search.queries))
    few = 0 if hierarchical is None else hierarchical.length
    if hierarchical is not None and few > search.size // 8:
        # queries of one label share their best ranking, which then is made once
        rows = np.argsort(hierarchical.query_codes, kind="stable")
    if shard:
        rows = own_share(rows)
    placing = None
    top: int | None = few
    if relevance and reach is None:
        placing = _placing(search, relevance, few)
        top = None if placing is None else max(few, 1)
    elif relevance and reach is not None:
        top = max(few, reach)

    def watch(chunk: slice, scores: NDArray[np.float32]) -> None:
        if placing is not None:
            out = search.left_out
            placing.add(rows[chunk], scores, None if out is None else out.subset(rows[chunk]))

    for start, order in ranked_chunks(
        *_sides(search, rows),
        geometry=as_geometry(geometry),
        top=top,
        watch=None if placing is None else watch,
        progress=progress,
    ):
        step = max(1, _BLOCK // max(order.shape[1], 1))
        for first in range(0, len(order), step):
            part = order[first : first + step]
            some, codes = rows[start + first : start + first + len(part)], search.codes(part)
            if hierarchical is not None:
                hierarchical.add(some, codes)
            if placing is None:
                for each in relevance:
                    each.add(some, codes)
    if shard:
        for each in relevance:
            merge(rows, (each.first, each.average_precision, each.precision_at_r))
        if hierarchical is not None:
            by_row = (hierarchical.mean, hierarchical.trapezoid, *hierarchical.at.values())
            merge(rows, by_row, (hierarchical.curve_sum, hierarchical.curve_count))


def _sides(search: Search, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor | None, LeftOut | None]:
    """Queries `rows`, database, and what is left out of each query's ranking."""
    if np.array_equal(rows, np.arange(len(search.queries))):
        return search.queries, search.keys, search.left_out
    chosen = torch.from_numpy(rows).to(search.queries.device)
    keys = search.queries if search.keys is None else search.keys
    return search.queries[chosen], keys, None if search.left_out is None else search.left_out.subset(rows)


def _placing(search: Search, relevance: Sequence[RelevanceScores], few: int) -> Placing | None:
    """Where placing relevant items is faster than whole rankings: how to."""
    sides = (search.queries, search.queries if search.keys is None else search.keys)
    if any(side.device.type != "cpu" or side.dtype == torch.float64 for side in sides):
        return None
    if few > search.size // 8 or any(each.skips for each in relevance):
        return None
    relevant = sum(int(each.relevant.sum()) for each in relevance)
    if relevant * _RARE > len(search.queries) * search.size:
        return None
    return Placing(relevance, search.key_codes)
