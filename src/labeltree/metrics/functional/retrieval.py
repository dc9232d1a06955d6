"""Retrieval with flat relevance: recall@k, MAP@R and mAP at the finest label or at any depth of the taxonomy.

A result is relevant if it has the query's label: the same node or, at a given depth, the same node of that
depth (a leaf stands for itself at greater depths). Rows without a label are neither queries nor in the
database; at a given depth the same holds for rows whose label is an inner node above it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.metrics.checks import (
    check_nodes,
    check_positive,
    check_reduction,
    mean_of_counted,
    spread,
)
from labeltree.metrics.search.score_rankings import Search, score_rankings
from labeltree.progress import Progress
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.dag import check_tree

__all__ = ["map_at_r", "mean_average_precision", "nodes_at_depth", "recall_at_k"]


def nodes_at_depth(nodes: Tensor, taxonomy: AnyTaxonomy, depth: int) -> Tensor:
    """Cut labels to one depth: the node of that depth on each label's path.

    Args:
        nodes: (n,) nodes, -1 for a missing label.
        taxonomy: the tree.
        depth: depth to cut to, 1 (coarsest) to `taxonomy.max_depth`.

    Returns:
        (n,) int64; a leaf shallower than `depth` stays itself, an inner node coarser than `depth` becomes -1.

    Raises:
        ValueError: if `depth` is not a depth of the taxonomy, or `nodes` are not nodes of the taxonomy.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("squid",)])
        >>> nodes = taxonomy.encode(["mammal/cat", "squid", "mammal"])
        >>> taxonomy.decode(nodes_at_depth(nodes, taxonomy, 1))
        ['mammal', 'squid', 'mammal']
        >>> taxonomy.decode(nodes_at_depth(nodes, taxonomy, 2))
        ['mammal/cat', 'squid', None]

    """
    tree = check_tree("labels at one depth", taxonomy)
    check_nodes("nodes", nodes, tree)
    if not 1 <= depth <= taxonomy.max_depth:
        raise ValueError(f"depth is {depth!r}; expected a depth of the taxonomy, 1 to {taxonomy.max_depth}")
    paths = tree.paths.to(nodes.device)
    return torch.where(nodes >= 0, paths[nodes.clamp(min=0), depth - 1], -1)


def recall_at_k(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    ks: Sequence[int] = (1, 2, 5, 10),
    geometry: Geometry | str | None = None,
    taxonomy: AnyTaxonomy | None = None,
    depth: int | None = None,
    query_groups: Tensor | None = None,
    key_groups: Tensor | None = None,
    reduction: str = "mean",
    shard: bool = False,
    progress: Progress | None = None,
) -> dict[int, Tensor]:
    """Share of queries with a relevant item among the first k results.

    As in Section 4 of MaskCon, except that the query itself is left out by its row and not by its rank.
    Queries without any relevant item in the database are left out of the mean.

    Args:
        query_embeddings: (n, d) points of the geometry.
        query_nodes: (n,) labels, -1 for a missing one.
        key_embeddings: (m, d) database; None searches the queries themselves, each query left out of its own
            results.
        key_nodes: (m,) labels of the database.
        ks: numbers of results to look at; above the size of the database, all of it.
        geometry: ranks by its similarity; default `Sphere()`, the cosine. Ties are ranked in database order.
        taxonomy: the tree of the labels; required with `depth`.
        depth: cut all labels to this depth first, see `nodes_at_depth`.
        query_groups: (n,) group of each query, such as a patient, -1 for one that stands alone. Items of the
            query's own group are left out of its results (leave one group out), and are not relevant either.
        key_groups: (m,) group of each item, where there is a database.
        reduction: "mean", or "none" for one value per query, NaN where the query is left out.
        shard: divide the queries over the ranks of `torch.distributed`; all ranks give the same arguments and
            get the same result.
        progress: called as ``progress("ranking", done, total)``.

    Returns:
        k -> float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: for wrong shapes or dtypes, embeddings that are not finite, a k below 1, a `depth` without
            taxonomy.

    Example:
        >>> import torch
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.6, 0.8]])
        >>> recall = recall_at_k(embeddings, torch.tensor([0, 0, 1, 1]), ks=(1, 2))
        >>> {k: value.item() for k, value in recall.items()}
        {1: 1.0, 2: 1.0}

    """
    check_reduction(reduction)
    for k in ks:
        check_positive("an entry of ks", k)
    search = _search(
        query_embeddings, query_nodes, key_embeddings, key_nodes, taxonomy, depth, query_groups, key_groups
    )
    scores = search.relevance()
    reach = max(ks, default=1)
    score_rankings(search, [scores], geometry=geometry, reach=reach, shard=shard, progress=progress)
    values = {k: spread(scores.recall(k), search.takes_part) for k in ks}
    return values if reduction == "none" else {k: mean_of_counted(value) for k, value in values.items()}


def map_at_r(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    geometry: Geometry | str | None = None,
    taxonomy: AnyTaxonomy | None = None,
    depth: int | None = None,
    query_groups: Tensor | None = None,
    key_groups: Tensor | None = None,
    reduction: str = "mean",
    shard: bool = False,
    progress: Progress | None = None,
) -> Tensor:
    """MAP@R: mean average precision within the first R results, R = number of relevant items of the query.

    AP@R = (1/R) Σ_{i≤R} precision@i · [result i is relevant]  (Musgrave et al., A Metric Learning Reality
    Check, Section 3.2; used by Zhang et al. 2022). Queries without any relevant item are left out of the
    mean.

    Args:
        query_embeddings: (n, d) points of the geometry; all arguments are as in `recall_at_k`.
        query_nodes: (n,) labels, -1 for a missing one.
        key_embeddings: (m, d) database, or None.
        key_nodes: (m,) labels of the database.
        geometry: geometry of the embeddings, or its name; default `Sphere()`.
        taxonomy: the tree of the labels; required with `depth`.
        depth: cut all labels to this depth first, see `nodes_at_depth`.
        query_groups: see `recall_at_k`.
        key_groups: see `recall_at_k`.
        reduction: "mean", or "none" for one value per query, NaN where the query is left out.
        shard: see `recall_at_k`.
        progress: see `recall_at_k`.

    Returns:
        float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: for wrong shapes or dtypes, embeddings that are not finite, a `depth` without taxonomy.

    Example:
        >>> import torch
        >>> database = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> query, node = torch.tensor([[1.0, 0.0]]), torch.tensor([4])
        >>> map_at_r(query, node, database, torch.tensor([4, 3, 4])).item()
        0.5

    """
    check_reduction(reduction)
    search = _search(
        query_embeddings, query_nodes, key_embeddings, key_nodes, taxonomy, depth, query_groups, key_groups
    )
    scores = search.relevance()
    reach = int(scores.relevant.max()) if len(scores.relevant) else 0
    score_rankings(search, [scores], geometry=geometry, reach=reach, shard=shard, progress=progress)
    values = spread(scores.precision_at_r, search.takes_part)
    return values if reduction == "none" else mean_of_counted(values)


def mean_average_precision(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    geometry: Geometry | str | None = None,
    taxonomy: AnyTaxonomy | None = None,
    depth: int | None = None,
    query_groups: Tensor | None = None,
    key_groups: Tensor | None = None,
    reduction: str = "mean",
    shard: bool = False,
    progress: Progress | None = None,
) -> Tensor:
    """mAP: mean over queries of the average precision of the whole ranking.

    AP = (1/R) Σ of the precision at the rank of each relevant result. Queries without any relevant item are
    left out of the mean. Similarities may have any sign.

    Args:
        query_embeddings: (n, d) points of the geometry; all arguments are as in `recall_at_k`.
        query_nodes: (n,) labels, -1 for a missing one.
        key_embeddings: (m, d) database, or None.
        key_nodes: (m,) labels of the database.
        geometry: geometry of the embeddings, or its name; default `Sphere()`.
        taxonomy: the tree of the labels; required with `depth`.
        depth: cut all labels to this depth first, see `nodes_at_depth`.
        query_groups: see `recall_at_k`.
        key_groups: see `recall_at_k`.
        reduction: "mean", or "none" for one value per query, NaN where the query is left out.
        shard: see `recall_at_k`.
        progress: see `recall_at_k`.

    Returns:
        float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: for wrong shapes or dtypes, embeddings that are not finite, a `depth` without taxonomy.

    Example:
        >>> import torch
        >>> database = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> query, node = torch.tensor([[1.0, 0.0]]), torch.tensor([4])
        >>> value = mean_average_precision(query, node, database, torch.tensor([4, 3, 4]))
        >>> round(value.item(), 4)  # (1/1 + 2/3) / 2
        0.8333

    """
    check_reduction(reduction)
    search = _search(
        query_embeddings, query_nodes, key_embeddings, key_nodes, taxonomy, depth, query_groups, key_groups
    )
    scores = search.relevance()
    score_rankings(search, [scores], geometry=geometry, shard=shard, progress=progress)
    values = spread(scores.average_precision, search.takes_part)
    return values if reduction == "none" else mean_of_counted(values)


def _search(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    key_embeddings: Tensor | None,
    key_nodes: Tensor | None,
    taxonomy: AnyTaxonomy | None,
    depth: int | None,
    query_groups: Tensor | None,
    key_groups: Tensor | None,
) -> Search:
    """Queries and database, with labels cut to `depth` if it is given."""
    if depth is not None:
        if taxonomy is None:
            raise ValueError(
                "depth is given without taxonomy; expected the taxonomy that the labels belong to"
            )
        query_nodes = nodes_at_depth(query_nodes, taxonomy, depth)
        key_nodes = None if key_nodes is None else nodes_at_depth(key_nodes, taxonomy, depth)
    return Search(query_embeddings, query_nodes, key_embeddings, key_nodes, query_groups, key_groups)
