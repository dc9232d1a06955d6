"""Retrieval judged by how much of its path a query shares with each result: H-AP, ASI, NDCG, AP at a depth.

The depth that two labels share is that of their LCA; two samples of one leaf share the last depth, L, also if
the leaf is shallower. An inner-node label stands for itself: it shares no more than its own depth with any
label, and at greater depths it has no AP and is left out of the others' rankings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from torch import Tensor

from labeltree.metrics.retrieval import Relevance, Retrieval, RetrievalOptions
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["average_precision_at_depths", "average_set_intersection", "h_ap", "ndcg"]


def h_ap(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    relevance: Relevance = "pop",
    alpha: float = 1.0,
    weights: Sequence[float] | None = None,
    **options: Unpack[RetrievalOptions],
) -> Tensor:
    """H-AP: average precision in which every result counts as far as it is related (HAPPIER, Section 3).

    `GradedScores` has the formula. The relevance of a result that shares l of the L depths with the query is
    "pop": (l/L)^α / |results that share exactly l|; or "map": Σ_{p≤l} w_p / |results that share p or more|,
    with which H-AP is the mean, weighted by w, of the mAPs at the depths. Both are in use: name the one that
    you took beside the number. A query that shares nothing with any item is left out of the mean.

    Args:
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes: As in `Retrieval`.
        relevance: "pop" or "map".
        alpha: α ≥ 0 of "pop"; 1 is its authors' default.
        weights: w of "map", L numbers of at least 0, coarse to fine; None: all the same.
        **options: Further arguments of `Retrieval`, such as `geometry`.

    Returns:
        float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy,
            an unknown relevance, an α below 0, other than L weights.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> query, database = taxonomy.encode(["dog"]), taxonomy.encode(["cat", "dog", "trout"])
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.0, 1.0]])
        >>> h_ap(embeddings[:1], query, taxonomy, embeddings, database).item()
        0.8333333333333334
        >>> h_ap(embeddings[:1], query, taxonomy, embeddings, database, relevance="map").item()
        0.75

    """
    return Retrieval(
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes, rank_once=False, **options
    ).h_ap(relevance, alpha=alpha, weights=weights)


def average_set_intersection(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    **options: Unpack[RetrievalOptions],
) -> Tensor:
    """ASI: how far the first k results are those of the best ranking, over all k (Dynamic Metric Learning).

    For every k up to R, the number of results that share something with the query, the share of the first k
    results whose depths are those of the first k of the best ranking, in any order; the mean over k (Sun et
    al. 2021; `GradedScores` has the formula). A query that shares nothing with any item is left out.

    Args:
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes: As in `Retrieval`.
        **options: Further arguments of `Retrieval`, such as `geometry`.

    Returns:
        float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> query, database = taxonomy.encode(["dog"]), taxonomy.encode(["cat", "dog", "trout"])
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.0, 1.0]])
        >>> average_set_intersection(embeddings[:1], query, taxonomy, embeddings, database).item()
        0.5

    """
    return Retrieval(
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes, rank_once=False, **options
    ).asi()


def ndcg(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    **options: Unpack[RetrievalOptions],
) -> Tensor:
    """NDCG of the whole ranking, with the gain 2^l − 1 of a result that shares l depths with the query.

    Σ_k (2^l(k) − 1)/log2(1 + k), divided by the same of the best ranking (Järvelin & Kekäläinen 2002; the
    gain of Burges et al. 2005). A query that shares nothing with any item is left out of the mean.

    Args:
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes: As in `Retrieval`.
        **options: Further arguments of `Retrieval`, such as `geometry`.

    Returns:
        float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> query, database = taxonomy.encode(["dog"]), taxonomy.encode(["cat", "dog", "trout"])
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.0, 1.0]])
        >>> value = ndcg(embeddings[:1], query, taxonomy, embeddings, database)
        >>> round(value.item(), 4)  # (1 + 3/log2(3)) / (3 + 1/log2(3))
        0.7967

    """
    return Retrieval(
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes, rank_once=False, **options
    ).ndcg()


def average_precision_at_depths(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    **options: Unpack[RetrievalOptions],
) -> dict[int, Tensor]:
    """AP at each depth: results that share exactly this depth are relevant, finer ones are left out.

    So the order of the near kinds is judged by itself; the mAP at a depth (`mean_average_precision` with
    `depth`) counts finer results as relevant, too. Items labelled with an inner node above the depth are left
    out of its ranking. As in the evaluation of HAPPIER (Ramzi et al. 2022).

    Args:
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes: As in `Retrieval`.
        **options: Further arguments of `Retrieval`, such as `geometry`.

    Returns:
        Depth -> float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> query, database = taxonomy.encode(["dog"]), taxonomy.encode(["cat", "dog", "trout"])
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.0, 1.0]])
        >>> found = average_precision_at_depths(embeddings[:1], query, taxonomy, embeddings, database)
        >>> {depth: value.item() for depth, value in found.items()}
        {1: 1.0, 2: 0.5}

    """
    return Retrieval(
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes, rank_once=False, **options
    ).average_precision_at_depths()
