"""The checked rows of one search: queries and database without the rows that have no label."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.metrics.checks import check_embeddings, check_labels, check_same_length
from labeltree.metrics.left_out import LeftOut, groups_of
from labeltree.metrics.relevance import RelevanceScores

__all__ = ["Search"]


class Search:
    """Queries and database of a retrieval metric. A row labelled -1 is neither a query nor in the database.

    Args:
        query_embeddings: (n, d).
        query_nodes: (n,) integers.
        key_embeddings: (m, d), or None where the queries are searched themselves.
        key_nodes: (m,) integers, or None with it.
        query_groups: (n,) integers, -1 for a row that stands alone: rows of a query's own group are not in
            its database. None where every row stands alone.
        key_groups: (m,) likewise, where there are keys.

    Attributes:
        takes_part: (n,) bool, rows that are queries; what follows holds those rows only.
        queries: embeddings of the queries.
        keys: embeddings of the database; None when leaving one out.
        query_nodes: labels of the queries; all labels are on the CPU.
        key_nodes: labels of the database, those of the queries when leaving one out.
        code_nodes: (c,) the distinct labels of the database.
        key_codes: (m,) int32 number of each item's label among them.
        left_out: which items are left out of each query's ranking; None where none is.

    Raises:
        ValueError: for wrong shapes or dtypes, embeddings that are not finite, or half a database.

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
        self.code_nodes, codes = torch.unique(self.key_nodes, return_inverse=True)
        self.key_codes: NDArray[np.int32] = codes.numpy().astype(np.int32)
        self.left_out: LeftOut | None = None
        if query_groups is not None or key_groups is not None:
            self.left_out = self._own_groups(query_nodes, query_groups, key_nodes, key_groups)
        elif self.leave_one_out:
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
    def leave_one_out(self) -> bool:
        """Whether the queries are searched themselves."""
        return self.keys is None

    @property
    def size(self) -> int:
        """Number of items in the database."""
        return len(self.key_codes)

    def relevance(self, cut: Callable[[Tensor], Tensor] | None = None) -> RelevanceScores:
        """Scores to be filled; relevant is what has the query's label, or its label as `cut` gives it."""
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
