"""Retrieval with flat relevance: recall@k, MAP@R and mAP at the finest label or at any depth of the taxonomy.

A result is relevant if it has the query's label: the same node or, at a given depth, the same node of that
depth (a leaf stands for itself at greater depths). Rows without a label are neither queries nor in the
database; at a given depth the same holds for rows whose label is an inner node above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from torch import Tensor

from labeltree.metrics.retrieval import Retrieval, RetrievalOptions
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["map_at_r", "mean_average_precision", "recall_at_k"]


def recall_at_k(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    ks: Sequence[int] = (1, 2, 5, 10),
    taxonomy: AnyTaxonomy | None = None,
    depth: int | None = None,
    **options: Unpack[RetrievalOptions],
) -> dict[int, Tensor]:
    """Share of queries with a relevant item among the first k results.

    As in Section 4 of MaskCon, except that the query itself is left out by its row and not by its rank.
    Queries without any relevant item in the database are left out of the mean.

    Args:
        query_embeddings, query_nodes, key_embeddings, key_nodes: As in `Retrieval`.
        ks: Numbers of results to look at; above the size of the database, all of it.
        taxonomy: The tree of the labels; required with `depth`.
        depth: Cut all labels to this depth first, see `nodes_at_depth`.
        **options: Further arguments of `Retrieval`, such as `geometry`.

    Returns:
        k -> float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, a k below 1, a `depth` without
            taxonomy.

    Example:
        >>> import torch
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.6, 0.8]])
        >>> recall = recall_at_k(embeddings, torch.tensor([0, 0, 1, 1]), ks=(1, 2))
        >>> {k: value.item() for k, value in recall.items()}
        {1: 1.0, 2: 1.0}

    """
    return Retrieval(
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes, rank_once=False, **options
    ).recall(tuple(ks), depth=depth)


def map_at_r(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    taxonomy: AnyTaxonomy | None = None,
    depth: int | None = None,
    **options: Unpack[RetrievalOptions],
) -> Tensor:
    """MAP@R: mean average precision within the first R results, R = number of relevant items of the query.

    AP@R = (1/R) Σ_{i≤R} precision@i · [result i is relevant]  (Musgrave et al., A Metric Learning Reality
    Check, Section 3.2; used by Zhang et al. 2022). Queries without any relevant item are left out of the
    mean.

    Args:
        query_embeddings, query_nodes, key_embeddings, key_nodes: As in `Retrieval`.
        taxonomy: The tree of the labels; required with `depth`.
        depth: Cut all labels to this depth first, see `nodes_at_depth`.
        **options: Further arguments of `Retrieval`, such as `geometry`.

    Returns:
        float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, a `depth` without taxonomy.

    Example:
        >>> import torch
        >>> database = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> query, node = torch.tensor([[1.0, 0.0]]), torch.tensor([4])
        >>> map_at_r(query, node, database, torch.tensor([4, 3, 4])).item()
        0.5

    """
    return Retrieval(
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes, rank_once=False, **options
    ).map_at_r(depth=depth)


def mean_average_precision(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    taxonomy: AnyTaxonomy | None = None,
    depth: int | None = None,
    **options: Unpack[RetrievalOptions],
) -> Tensor:
    """mAP: mean over queries of the average precision of the whole ranking.

    AP = (1/R) Σ of the precision at the rank of each relevant result. Queries without any relevant item are
    left out of the mean. Similarities may have any sign.

    Args:
        query_embeddings, query_nodes, key_embeddings, key_nodes: As in `Retrieval`.
        taxonomy: The tree of the labels; required with `depth`.
        depth: Cut all labels to this depth first, see `nodes_at_depth`.
        **options: Further arguments of `Retrieval`, such as `geometry`.

    Returns:
        float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, a `depth` without taxonomy.

    Example:
        >>> import torch
        >>> database = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> query, node = torch.tensor([[1.0, 0.0]]), torch.tensor([4])
        >>> value = mean_average_precision(query, node, database, torch.tensor([4, 3, 4]))
        >>> round(value.item(), 4)  # (1/1 + 2/3) / 2
        0.8333

    """
    return Retrieval(
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes, rank_once=False, **options
    ).mean_average_precision(depth=depth)
