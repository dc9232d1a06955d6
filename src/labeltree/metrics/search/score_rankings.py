"""One pass over the similarities of a search that fills all requested scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from labeltree.geometry import Geometry, as_geometry
from labeltree.metrics.metric_checks import check_embeddings, check_labels, check_same_length
from labeltree.metrics.search.graded import GradedScores
from labeltree.metrics.search.hierarchical_precision import HierarchicalPrecisionScores
from labeltree.metrics.search.ranking import ranked_chunks
from labeltree.metrics.search.relevant_ranks import RelevanceScores, RelevantRanks
from labeltree.metrics.search.results_left_out import LeftOut, groups_of
from labeltree.progress import Progress

__all__ = ["Search", "own_share", "score_rankings"]

# items per relevant item from which finding the ranks of relevant items is faster than sorting all
_RARE = 16
# Rankings are read in blocks that fit in the cache.
_BLOCK = 2**18


class Search:
    """Queries and database of a retrieval metric. A row labelled -1 is neither a query nor in the database.

    Args:
        query_embeddings: (n, d).
        query_nodes: (n,) integers.
        key_embeddings: (m, d), or None if the queries are the database.
        key_nodes: (m,) integers, or None if there are no `key_embeddings`.
        query_groups: (n,) integers, -1 for a row without a group: rows of a query's own group are not in its
            database. None without groups.
        key_groups: (m,) groups of the keys, if there are keys.

    Attributes:
        takes_part: (n,) bool, rows that are queries; the attributes below hold only these rows.
        queries: Embeddings of the queries.
        keys: Embeddings of the database; None when leaving one out.
        query_nodes: Labels of the queries; all labels are on the CPU.
        key_nodes: Labels of the database; the labels of the queries when leaving one out.
        code_nodes: (c,) the distinct labels of the database.
        key_codes: (m,) int32 index of each item's label in `code_nodes`.
        left_out: The items left out of each query's ranking; None if there are none.
        all_labelled: Whether every query and item has a label.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, or key embeddings without key
            nodes or the reverse.

    """

    def __init__(
        self,
        query_embeddings: Tensor,
        query_nodes: Tensor,
        key_embeddings: Tensor | None = None,
        key_nodes: Tensor | None = None,
        query_groups: Tensor | None = None,
        key_groups: Tensor | None = None,
    ) -> None:
        _check_rows("query", query_embeddings, query_nodes)
        self.takes_part = query_nodes >= 0
        self.queries, self.query_nodes = _labelled(query_embeddings, query_nodes)
        self.keys: Tensor | None = None
        self.key_nodes = self.query_nodes
        self._add_keys(query_embeddings, key_embeddings, key_nodes)
        given = len(query_nodes) + (0 if key_nodes is None else len(key_nodes))
        left = len(self.query_nodes) + (0 if self.keys is None else len(self.key_nodes))
        self.all_labelled = given == left
        self.code_nodes, codes = torch.unique(self.key_nodes, return_inverse=True)
        self.key_codes: NDArray[np.int32] = codes.numpy().astype(np.int32)
        self.left_out: LeftOut | None = None
        if query_groups is not None or key_groups is not None:
            self.left_out = self._own_groups(query_nodes, query_groups, key_nodes, key_groups)
        elif self.keys is None:  # the queries are the database
            self.left_out = LeftOut.rows(np.arange(self.size), self.size)

    def _own_groups(
        self,
        query_nodes: Tensor,
        query_groups: Tensor | None,
        key_nodes: Tensor | None,
        key_groups: Tensor | None,
    ) -> LeftOut:
        if query_groups is None or (key_groups is None) != (key_nodes is None):
            given = "key_groups" if query_groups is None or key_nodes is None else "query_groups"
            expected = "query_groups alone" if key_nodes is None else "query_groups and key_groups"
            raise ValueError(f"only {given} is given; expected {expected}, or neither")
        mine = groups_of("query_groups", query_groups, query_nodes)
        if key_groups is None or key_nodes is None:
            return LeftOut.groups(mine)
        return LeftOut.groups(mine, groups_of("key_groups", key_groups, key_nodes))

    def _add_keys(
        self, query_embeddings: Tensor, key_embeddings: Tensor | None, key_nodes: Tensor | None
    ) -> None:
        if key_embeddings is None or key_nodes is None:
            if key_embeddings is not None or key_nodes is not None:
                given = "key_nodes" if key_embeddings is None else "key_embeddings"
                raise ValueError(f"only {given} is given; expected key_embeddings and key_nodes, or neither")
            return
        _check_rows("key", key_embeddings, key_nodes)
        if key_embeddings.shape[1] != query_embeddings.shape[1]:
            raise ValueError(
                f"key_embeddings has dimension {key_embeddings.shape[1]} and query_embeddings "
                f"{query_embeddings.shape[1]}; expected the same"
            )
        self.keys, self.key_nodes = _labelled(key_embeddings, key_nodes)

    @property
    def size(self) -> int:
        """Number of items in the database."""
        return len(self.key_codes)

    def relevance(self, cut: Callable[[Tensor], Tensor] | None = None) -> RelevanceScores:
        """Empty scores; an item is relevant if its label, cut by `cut` if given, equals the query's."""
        queries, codes = self.query_nodes, self.code_nodes
        if cut is not None:
            queries, codes = cut(queries), cut(codes)
        return RelevanceScores(queries, codes, self.key_codes, left_out=self.left_out)

    def codes(self, order: Tensor) -> NDArray[np.int32]:
        """Codes of the items of rankings, in the shape of `order`."""
        return self.key_codes.take(order.cpu().numpy())


def _check_rows(side: str, embeddings: Tensor, nodes: Tensor) -> None:
    check_embeddings(f"{side}_embeddings", embeddings)
    check_labels(f"{side}_nodes", nodes)
    check_same_length(f"{side}_embeddings", embeddings, f"{side}_nodes", nodes)


def _labelled(embeddings: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    labelled = nodes >= 0
    return embeddings[labelled].detach(), nodes[labelled].long().cpu()


def own_share(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The consecutive rows that belong to this rank: equal parts, one row longer on the first ranks."""
    return np.array_split(rows, dist.get_world_size())[dist.get_rank()]


def _merge(rows: NDArray[np.int64], by_row: Iterable[Tensor], sums: Iterable[Tensor] = ()) -> None:
    """Merge the results of all ranks, in place.

    Args:
        rows: The rows of this rank.
        by_row: Tensors (n, …) that are correct at `rows`; each row belongs to one rank.
        sums: Tensors to be summed over ranks.

    """
    mine = torch.from_numpy(rows)
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    for values in by_row:
        share = torch.zeros_like(values)
        share[mine] = values[mine]
        values.copy_(_summed(share.to(device)))
    for values in sums:
        values.copy_(_summed(values.to(device)))


def _summed(share: Tensor) -> Tensor:
    dist.all_reduce(share)
    return share


def score_rankings(
    search: Search,
    relevance: Sequence[RelevanceScores] = (),
    hierarchical: HierarchicalPrecisionScores | None = None,
    graded: GradedScores | None = None,
    *,
    geometry: Geometry | str | None = None,
    reach: int | None = None,
    queries: NDArray[np.int64] | None = None,
    order: NDArray[np.int64] | None = None,
    shard: bool = False,
    progress: Progress | None = None,
) -> None:
    """Rank the database for every query and fill the scores.

    Args:
        search: Queries and database.
        relevance: Scores to fill, for one or several kinds of labels.
        hierarchical: Hierarchical scores to fill; they read as many results as they need.
        graded: Graded scores to fill; they read all results.
        geometry: Geometry of the embeddings, or its name; default `Sphere()`.
        reach: Number of results that `relevance` reads; None for all.
        queries: The queries to rank the database for; None: all of them.
        order: (n, w) the rankings of all queries, where they are known; what follows a query's last result is
            not read. None: they are made.
        shard: Divide the queries over the ranks of `torch.distributed`.
        progress: See `ranked_chunks`.

    """
    rows = np.arange(len(search.queries)) if queries is None else queries
    few = 0 if hierarchical is None else hierarchical.length
    if hierarchical is not None and (few > search.size // 8 or graded is not None):
        # queries of one label share their best ranking, which is then computed once
        rows = rows[np.argsort(hierarchical.query_codes[rows], kind="stable")]
    if shard:
        rows = own_share(rows)
    ranks = None
    top: int | None = few
    if graded is not None or order is not None:
        top = None
    elif relevance and reach is None:
        ranks = _relevant_ranks(search, relevance, few)
        top = None if ranks is None else max(few, 1)
    elif relevance and reach is not None:
        top = max(few, reach)

    def watch(chunk: slice, scores: NDArray[np.float32]) -> None:
        if ranks is not None:
            out = search.left_out
            ranks.add(rows[chunk], scores, None if out is None else out.subset(rows[chunk]))

    chunks: Iterable[tuple[int, Tensor]]
    if order is not None:
        chunks = [(0, torch.from_numpy(order[rows]))]
    else:
        chunks = ranked_chunks(
            *_sides(search, rows),
            geometry=as_geometry(geometry),
            top=top,
            watch=None if ranks is None else watch,
            progress=progress,
        )
    for start, ranked in chunks:
        step = max(1, _BLOCK // max(ranked.shape[1], 1))
        for first in range(0, len(ranked), step):
            part = ranked[first : first + step]
            some, codes = rows[start + first : start + first + len(part)], search.codes(part)
            if hierarchical is not None:
                hierarchical.add(some, codes)
            if graded is not None:
                graded.add(some, codes)
            if ranks is None:
                for each in relevance:
                    each.add(some, codes)
    if shard:
        for each in relevance:
            _merge(rows, (each.first, each.average_precision, each.precision_at_r))
        if hierarchical is not None:
            by_row = (hierarchical.mean, hierarchical.trapezoid, *hierarchical.at.values())
            _merge(rows, by_row, (hierarchical.curve_sum, hierarchical.curve_count))
        if graded is not None:
            _merge(rows, graded.by_row)


def _sides(search: Search, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor | None, LeftOut | None]:
    """The queries `rows`, the database, and the items left out of each query's ranking."""
    if np.array_equal(rows, np.arange(len(search.queries))):
        return search.queries, search.keys, search.left_out
    chosen = torch.from_numpy(rows).to(search.queries.device)
    keys = search.queries if search.keys is None else search.keys
    return search.queries[chosen], keys, None if search.left_out is None else search.left_out.subset(rows)


def _relevant_ranks(search: Search, relevance: Sequence[RelevanceScores], few: int) -> RelevantRanks | None:
    """The `RelevantRanks` to use if it is faster than whole rankings, else None."""
    sides = (search.queries, search.queries if search.keys is None else search.keys)
    if any(side.device.type != "cpu" or side.dtype == torch.float64 for side in sides):
        return None
    if few > search.size // 8 or any(each.skips for each in relevance):
        return None
    relevant = sum(int(each.relevant.sum()) for each in relevance)
    if relevant * _RARE > len(search.queries) * search.size:
        return None
    return RelevantRanks(relevance, search.key_codes)
