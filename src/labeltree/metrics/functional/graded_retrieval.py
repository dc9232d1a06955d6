"""Retrieval judged by how much of its path a query shares with each result: H-AP, ASI, NDCG, AP at a depth.

The depth that two labels share is that of their LCA; two samples of one leaf share the last depth, L, also if
the leaf is shallower. An inner-node label stands for itself: it shares no more than its own depth with any
label, and at greater depths it has no AP and is left out of the others' rankings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.metrics.checks import check_nodes, check_reduction, mean_of_counted, spread
from labeltree.metrics.search.graded import GradedScores
from labeltree.metrics.search.score_rankings import Search, score_rankings
from labeltree.progress import Progress
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["Relevance", "average_precision_at_depths", "average_set_intersection", "h_ap", "ndcg"]

Relevance = Literal["pop", "map"]


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
    geometry: Geometry | str | None = None,
    query_groups: Tensor | None = None,
    key_groups: Tensor | None = None,
    reduction: str = "mean",
    shard: bool = False,
    progress: Progress | None = None,
) -> Tensor:
    """H-AP: average precision in which every result counts as far as it is related (HAPPIER, Section 3).

    `GradedScores` has the formula. The relevance of a result that shares l of the L depths with the query is
    "pop": (l/L)^α / |results that share exactly l|; or "map": Σ_{p≤l} w_p / |results that share p or more|,
    with which H-AP is the mean, weighted by w, of the mAPs at the depths. Both are in use: name the one that
    you took beside the number. A query that shares nothing with any item is left out of the mean.

    Args:
        query_embeddings: (n, d) points of the geometry; all arguments are as in
            `hierarchical_precision_at_k`.
        query_nodes: (n,) labels, -1 for a missing one.
        taxonomy: the tree or DAG of the labels.
        key_embeddings: (m, d) database, or None.
        key_nodes: (m,) labels of the database.
        relevance: "pop" or "map".
        alpha: α ≥ 0 of "pop"; 1 is its authors' default.
        weights: w of "map", L numbers of at least 0, coarse to fine; None: all the same.
        geometry: geometry of the embeddings, or its name; default `Sphere()`.
        query_groups: see `hierarchical_precision_at_k`.
        key_groups: see `hierarchical_precision_at_k`.
        reduction: "mean", or "none" for one value per query, NaN for a query that shares nothing with any
            item.
        shard: see `hierarchical_precision_at_k`.
        progress: see `hierarchical_precision_at_k`.

    Returns:
        float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: for wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy,
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
    check_reduction(reduction)
    if relevance not in get_args(Relevance):
        raise ValueError(f"relevance is {relevance!r}; expected 'pop' or 'map'")
    if not 0 <= alpha < math.inf:
        raise ValueError(f"alpha is {alpha!r}; expected a number of at least 0")
    _check_weights(weights, taxonomy)
    sides = (query_embeddings, query_nodes, key_embeddings, key_nodes, query_groups, key_groups)
    search, scores = _scored(taxonomy, sides, (geometry, shard, progress), alpha=alpha, weights=weights)
    values = spread(scores.pop if relevance == "pop" else scores.map, search.takes_part)
    return values if reduction == "none" else mean_of_counted(values)


def average_set_intersection(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    geometry: Geometry | str | None = None,
    query_groups: Tensor | None = None,
    key_groups: Tensor | None = None,
    reduction: str = "mean",
    shard: bool = False,
    progress: Progress | None = None,
) -> Tensor:
    """ASI: how far the first k results are those of the best ranking, over all k (Dynamic Metric Learning).

    For every k up to R, the number of results that share something with the query, the share of the first k
    results whose depths are those of the first k of the best ranking, in any order; the mean over k (Sun et
    al. 2021; `GradedScores` has the formula). A query that shares nothing with any item is left out.

    Args:
        query_embeddings: (n, d) points of the geometry; all arguments are as in
            `hierarchical_precision_at_k`.
        query_nodes: (n,) labels, -1 for a missing one.
        taxonomy: the tree or DAG of the labels.
        key_embeddings: (m, d) database, or None.
        key_nodes: (m,) labels of the database.
        geometry: geometry of the embeddings, or its name; default `Sphere()`.
        query_groups: see `hierarchical_precision_at_k`.
        key_groups: see `hierarchical_precision_at_k`.
        reduction: "mean", or "none" for one value per query, NaN for a query that shares nothing with any
            item.
        shard: see `hierarchical_precision_at_k`.
        progress: see `hierarchical_precision_at_k`.

    Returns:
        float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: for wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> query, database = taxonomy.encode(["dog"]), taxonomy.encode(["cat", "dog", "trout"])
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.0, 1.0]])
        >>> average_set_intersection(embeddings[:1], query, taxonomy, embeddings, database).item()
        0.5

    """
    check_reduction(reduction)
    sides = (query_embeddings, query_nodes, key_embeddings, key_nodes, query_groups, key_groups)
    search, scores = _scored(taxonomy, sides, (geometry, shard, progress))
    values = spread(scores.asi, search.takes_part)
    return values if reduction == "none" else mean_of_counted(values)


def ndcg(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    geometry: Geometry | str | None = None,
    query_groups: Tensor | None = None,
    key_groups: Tensor | None = None,
    reduction: str = "mean",
    shard: bool = False,
    progress: Progress | None = None,
) -> Tensor:
    """NDCG of the whole ranking, with the gain 2^l − 1 of a result that shares l depths with the query.

    Σ_k (2^l(k) − 1)/log2(1 + k), divided by the same of the best ranking (Järvelin & Kekäläinen 2002; the
    gain of Burges et al. 2005). A query that shares nothing with any item is left out of the mean.

    Args:
        query_embeddings: (n, d) points of the geometry; all arguments are as in
            `hierarchical_precision_at_k`.
        query_nodes: (n,) labels, -1 for a missing one.
        taxonomy: the tree or DAG of the labels.
        key_embeddings: (m, d) database, or None.
        key_nodes: (m,) labels of the database.
        geometry: geometry of the embeddings, or its name; default `Sphere()`.
        query_groups: see `hierarchical_precision_at_k`.
        key_groups: see `hierarchical_precision_at_k`.
        reduction: "mean", or "none" for one value per query, NaN for a query that shares nothing with any
            item.
        shard: see `hierarchical_precision_at_k`.
        progress: see `hierarchical_precision_at_k`.

    Returns:
        float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: for wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy.

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
    check_reduction(reduction)
    sides = (query_embeddings, query_nodes, key_embeddings, key_nodes, query_groups, key_groups)
    search, scores = _scored(taxonomy, sides, (geometry, shard, progress))
    values = spread(scores.ndcg, search.takes_part)
    return values if reduction == "none" else mean_of_counted(values)


def average_precision_at_depths(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    geometry: Geometry | str | None = None,
    query_groups: Tensor | None = None,
    key_groups: Tensor | None = None,
    reduction: str = "mean",
    shard: bool = False,
    progress: Progress | None = None,
) -> dict[int, Tensor]:
    """AP at each depth: results that share exactly this depth are relevant, finer ones are left out.

    So the order of the near kinds is judged by itself; the mAP at a depth (`mean_average_precision` with
    `depth`) counts finer results as relevant, too. Items labelled with an inner node above the depth are left
    out of its ranking. As in the evaluation of HAPPIER (Ramzi et al. 2022).

    Args:
        query_embeddings: (n, d) points of the geometry; all arguments are as in
            `hierarchical_precision_at_k`.
        query_nodes: (n,) labels, -1 for a missing one.
        taxonomy: the tree or DAG of the labels.
        key_embeddings: (m, d) database, or None.
        key_nodes: (m,) labels of the database.
        geometry: geometry of the embeddings, or its name; default `Sphere()`.
        query_groups: see `hierarchical_precision_at_k`.
        key_groups: see `hierarchical_precision_at_k`.
        reduction: "mean", or "none" for one value per query, NaN for a query that shares this depth
            exactly with no item.
        shard: see `hierarchical_precision_at_k`.
        progress: see `hierarchical_precision_at_k`.

    Returns:
        depth -> float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: for wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy.

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
    check_reduction(reduction)
    sides = (query_embeddings, query_nodes, key_embeddings, key_nodes, query_groups, key_groups)
    search, scores = _scored(taxonomy, sides, (geometry, shard, progress))
    found = {at: spread(each, search.takes_part) for at, each in enumerate(scores.at_depth, start=1)}
    return found if reduction == "none" else {at: mean_of_counted(each) for at, each in found.items()}


def _scored(
    taxonomy: AnyTaxonomy,
    sides: tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None],
    how: tuple[Geometry | str | None, bool, Progress | None],
    **settings: Any,
) -> tuple[Search, GradedScores]:
    """The search among the sides, as `Search` takes them, and its scores."""
    check_nodes("query_nodes", sides[1], taxonomy)
    if sides[3] is not None:
        check_nodes("key_nodes", sides[3], taxonomy)
    search = Search(*sides)
    nodes = (search.query_nodes, search.code_nodes, search.key_codes)
    scores = GradedScores(taxonomy, *nodes, left_out=search.left_out, **settings)
    geometry, shard, progress = how
    score_rankings(search, (), None, scores, geometry=geometry, shard=shard, progress=progress)
    return search, scores


def _check_weights(weights: Sequence[float] | None, taxonomy: AnyTaxonomy) -> None:
    if weights is None:
        return
    given = torch.as_tensor(weights, dtype=torch.float64)
    usable = given.isfinite() & (given >= 0)
    if given.shape != (taxonomy.max_depth,) or not bool(usable.all()) or not bool((given > 0).any()):
        raise ValueError(
            f"weights is {weights!r}; expected {taxonomy.max_depth} numbers of at least 0, one for each "
            "depth, coarse to fine, not all of them 0"
        )
