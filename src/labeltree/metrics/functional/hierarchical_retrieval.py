"""Retrieval judged by the taxonomy: HP@k, AHP@K, and all retrieval metrics from one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from torch import Tensor

from labeltree.metrics.retrieval import Retrieval, RetrievalOptions
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["average_hierarchical_precision", "hierarchical_precision_at_k", "retrieval_metrics"]


def hierarchical_precision_at_k(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    ks: Sequence[int] = (1, 2, 5, 10),
    **options: Unpack[RetrievalOptions],
) -> dict[int, Tensor]:
    """HP@k: how near to the query's label the first k results are, relative to the best possible ranking.

    `HierarchicalPrecisionScores` has the formula (Eq. 11 of Barz & Denzler 2019). A query itself is left out
    of both its results and the best ranking. Labels may be inner nodes: two samples of one inner node have
    similarity 1 − height/H. A query whose similarity to every item is 0 is left out of the mean.

    Args:
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes: As in `Retrieval`.
        ks: Numbers of results to look at; above the size of the database, all of it, which gives 1.
        **options: Further arguments of `Retrieval`, such as `geometry`.

    Returns:
        k -> float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy, a
            k below 1.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> query, database = taxonomy.encode(["dog"]), taxonomy.encode(["cat", "dog", "trout"])
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.0, 1.0]])
        >>> precision = hierarchical_precision_at_k(
        ...     embeddings[:1], query, taxonomy, embeddings, database, ks=(1, 2)
        ... )
        >>> {k: value.item() for k, value in precision.items()}
        {1: 0.5, 2: 1.0}

    """
    return Retrieval(
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes, rank_once=False, **options
    ).hierarchical_precision(tuple(ks))


def average_hierarchical_precision(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    k: int = 250,
    rule: str = "mean",
    **options: Unpack[RetrievalOptions],
) -> Tensor:
    """AHP@K: the area under the curve of HP@k, k = 1 … K (Section 4 of Barz & Denzler 2019).

    Args:
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes: As in `Retrieval`.
        k: K, or the size of the database if that is smaller.
        rule: "mean" of HP@1 … HP@K, which gives a perfect ranking 1; or "trapezoid", the rule (1/K)·[Σ HP@k −
            (HP@1 + HP@K)/2] of the published figures, which gives a perfect ranking (K − 1)/K.
        **options: Further arguments of `Retrieval`, such as `geometry`.

    Returns:
        float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy, a
            k below 1, an unknown rule.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> query, database = taxonomy.encode(["dog"]), taxonomy.encode(["cat", "dog", "trout"])
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.0, 1.0]])
        >>> average_hierarchical_precision(embeddings[:1], query, taxonomy, embeddings, database, k=2).item()
        0.75

    """
    return Retrieval(
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes, rank_once=False, **options
    ).ahp(k, rule=rule)


def retrieval_metrics(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    ks: Sequence[int] = (1, 2, 5, 10),
    ahp_k: int = 250,
    depths: Sequence[int] = (),
    graded: bool | Tensor = False,
    order: Tensor | None = None,
    **options: Unpack[RetrievalOptions],
) -> dict[str, Tensor]:
    """All retrieval metrics from one pass over the similarities.

    Each value equals that of the function of the same name; the ranking is made once.

    Args:
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes: As in `Retrieval`.
        ks: The values of k for recall@k and HP@k.
        ahp_k: K for AHP@K and for the curve.
        depths: Depths at which recall@k, MAP@R and mAP are computed as well.
        graded: Add H-AP, ASI, NDCG and the AP at each depth, which sort whole rankings; or (n,) bool, the
            queries to compute them for.
        order: Rankings that are known already, as in `Retrieval`.
        **options: Further arguments of `Retrieval`, such as `geometry`.

    Returns:
        float64 scalars "recall@{k}", "map@r", "map", "hp@{k}", "ahp@{ahp_k}", "ahp@{ahp_k}/trapezoid"; the
        first three also as "…/depth{l}" for l in `depths`; if `graded`, "h_ap" (with the relevance "pop"),
        "h_ap/map", "asi", "ndcg", and for every depth l "ap/depth{l}"; "hp_curve", (min(ahp_k, m),), the mean
        HP@1 … HP@K, where a query with fewer items keeps its last value; and int64 counts: "queries" with a
        label, "queries_missing_label", "queries_without_relevant" (left out of recall, MAP@R and mAP; also
        per depth, where "queries/depth{l}" counts the queries whose label decides the depth),
        "queries_without_similarity" (left out of HP and AHP), if `graded` "queries_without_relatives" (left
        out of H-AP, ASI and NDCG), "database" (labelled items).

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy, a
            k below 1, a depth outside the taxonomy, an `order` of another length, beside groups, or of rows
            that are not there or have no label.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> nodes = taxonomy.encode(["dog", "dog", "cat", "trout"])
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.7, 0.3], [0.0, 1.0]])
        >>> metrics = retrieval_metrics(embeddings, nodes, taxonomy, ks=(1,), depths=(1,))
        >>> metrics["recall@1"].item(), metrics["recall@1/depth1"].item(), metrics["map"].item()
        (1.0, 1.0, 1.0)
        >>> metrics["queries"].item(), metrics["queries_without_relevant"].item()
        (4, 2)

    """
    return Retrieval(
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes, order=order, **options
    ).metrics(ks=ks, ahp_k=ahp_k, depths=depths, graded=graded)
