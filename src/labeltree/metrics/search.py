"""The checked rows of one search: queries and database without the rows that have no label."""

from __future__ import annotations

from torch import Tensor

from labeltree.metrics.checks import check_embeddings, check_labels, check_same_length

__all__ = ["Search"]


class Search:
    """Queries and database of a retrieval metric. A row labelled -1 is neither a query nor in the database.

    Args:
        query_embeddings: (n, d).
        query_nodes: (n,) integers.
        key_embeddings: (m, d), or None where the queries are searched themselves.
        key_nodes: (m,) integers, or None with it.

    Attributes:
        takes_part: (n,) bool, rows that are queries; what follows holds those rows only.
        queries, query_nodes: the queries.
        keys: embeddings of the database; None when leaving one out.
        key_nodes: labels of the database, those of the queries when leaving one out.

    Raises:
        ValueError: for wrong shapes or dtypes, embeddings that are not finite, or half a database.

    """

    def __init__(
        self,
        query_embeddings: Tensor,
        query_nodes: Tensor,
        key_embeddings: Tensor | None = None,
        key_nodes: Tensor | None = None,
    ) -> None:
        _check_rows("query", query_embeddings, query_nodes)
        self.takes_part = query_nodes >= 0
        self.queries, self.query_nodes = _labelled(query_embeddings, query_nodes)
        self.keys: Tensor | None = None
        self.key_nodes = self.query_nodes
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


def _check_rows(side: str, embeddings: Tensor, nodes: Tensor) -> None:
    check_embeddings(f"{side}_embeddings", embeddings)
    check_labels(f"{side}_nodes", nodes)
    check_same_length(f"{side}_embeddings", embeddings, f"{side}_nodes", nodes)


def _labelled(embeddings: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    labelled = nodes >= 0
    return embeddings[labelled].detach(), nodes[labelled].long()
