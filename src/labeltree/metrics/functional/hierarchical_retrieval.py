"""Retrieval judged by the taxonomy: HP@k, AHP@K, and all retrieval metrics from one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.metrics.checks import (
    check_nodes,
    check_positive,
    check_reduction,
    check_same_length,
    mean_of_counted,
    spread,
)
from labeltree.metrics.functional.retrieval import nodes_at_depth
from labeltree.metrics.search.graded import GradedScores
from labeltree.metrics.search.hierarchical_precision import HierarchicalPrecisionScores
from labeltree.metrics.search.left_out import LeftOut
from labeltree.metrics.search.score_rankings import Search, score_rankings
from labeltree.progress import Progress
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
    geometry: Geometry | str | None = None,
    query_groups: Tensor | None = None,
    key_groups: Tensor | None = None,
    reduction: str = "mean",
    shard: bool = False,
    progress: Progress | None = None,
) -> dict[int, Tensor]:
    """HP@k: how near to the query's label the first k results are, relative to the best possible ranking.

    `HierarchicalPrecisionScores` has the formula (Eq. 11 of Barz & Denzler 2019). A query itself is left out
    of both its results and the best ranking. Labels may be inner nodes: two samples of one inner node have
    similarity 1 − height/H. A query whose similarity to every item is 0 is left out of the mean.

    Args:
        query_embeddings: (n, d) points of the geometry.
        query_nodes: (n,) labels, -1 for a missing one.
        taxonomy: the tree or DAG that the labels belong to.
        key_embeddings: (m, d) database; None searches the queries themselves, each query left out of its own
            results.
        key_nodes: (m,) labels of the database; rows without a label are not in it.
        ks: numbers of results to look at; above the size of the database, all of it, which gives 1.
        geometry: ranks by its similarity; default `Sphere()`, the cosine. Ties are ranked in database order.
        query_groups: (n,) group of each query, such as a patient, -1 for one that stands alone. Items of the
            query's own group are left out both of its results and of the best possible ranking.
        key_groups: (m,) group of each item, where there is a database.
        reduction: "mean", or "none" for one value per query, NaN where the query is left out.
        shard: divide the queries over the ranks of `torch.distributed`; all ranks give the same arguments and
            get the same result.
        progress: called as ``progress("ranking", done, total)``.

    Returns:
        k -> float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: for wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy, a
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
    check_reduction(reduction)
    search = _search(
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes, query_groups, key_groups
    )
    scores = _scores(search, taxonomy, 1, ks)
    score_rankings(search, (), scores, geometry=geometry, shard=shard, progress=progress)
    values = {k: spread(scores.at[k], search.takes_part) for k in ks}
    return values if reduction == "none" else {k: mean_of_counted(value) for k, value in values.items()}


def average_hierarchical_precision(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    key_embeddings: Tensor | None = None,
    key_nodes: Tensor | None = None,
    *,
    k: int = 250,
    rule: str = "mean",
    geometry: Geometry | str | None = None,
    query_groups: Tensor | None = None,
    key_groups: Tensor | None = None,
    reduction: str = "mean",
    shard: bool = False,
    progress: Progress | None = None,
) -> Tensor:
    """AHP@K: the area under the curve of HP@k, k = 1 … K (Section 4 of Barz & Denzler 2019).

    Args:
        query_embeddings: (n, d) points of the geometry; all arguments are as in
            `hierarchical_precision_at_k`.
        query_nodes: (n,) labels, -1 for a missing one.
        taxonomy: the tree or DAG of the labels.
        key_embeddings: (m, d) database, or None.
        key_nodes: (m,) labels of the database.
        k: K, or the size of the database if that is smaller.
        rule: "mean" of HP@1 … HP@K, which gives a perfect ranking 1; or "trapezoid", the rule (1/K)·[Σ HP@k −
            (HP@1 + HP@K)/2] of the published figures, which gives a perfect ranking (K − 1)/K.
        geometry: geometry of the embeddings, or its name; default `Sphere()`.
        query_groups: see `hierarchical_precision_at_k`.
        key_groups: see `hierarchical_precision_at_k`.
        reduction: "mean", or "none" for one value per query, NaN for a query whose similarity to every item
            is 0.
        shard: see `hierarchical_precision_at_k`.
        progress: see `hierarchical_precision_at_k`.

    Returns:
        float64 scalar, NaN if no query counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: for wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy, a
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
    check_reduction(reduction)
    check_positive("k", k)
    if rule not in ("mean", "trapezoid"):
        raise ValueError(f"rule is {rule!r}; expected 'mean' or 'trapezoid'")
    search = _search(
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes, query_groups, key_groups
    )
    scores = _scores(search, taxonomy, k, ())
    score_rankings(search, (), scores, geometry=geometry, shard=shard, progress=progress)
    values = spread(scores.mean if rule == "mean" else scores.trapezoid, search.takes_part)
    return values if reduction == "none" else mean_of_counted(values)


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
    geometry: Geometry | str | None = None,
    query_groups: Tensor | None = None,
    key_groups: Tensor | None = None,
    order: Tensor | None = None,
    reduction: str = "mean",
    shard: bool = False,
    progress: Progress | None = None,
) -> dict[str, Tensor]:
    """All retrieval metrics from one pass over the similarities.

    Each value equals that of the function of the same name; the ranking is made once.

    Args:
        query_embeddings: (n, d) points of the geometry; all arguments are as in
            `hierarchical_precision_at_k`.
        query_nodes: (n,) labels, -1 for a missing one.
        taxonomy: the tree or DAG of the labels.
        key_embeddings: (m, d) database, or None.
        key_nodes: (m,) labels of the database.
        ks: the values of k for recall@k and HP@k.
        ahp_k: K for AHP@K and for the curve.
        depths: depths at which recall@k, MAP@R and mAP are computed as well.
        graded: add H-AP, ASI, NDCG and the AP at each depth, which sort whole rankings; or (n,) bool, the
            queries to compute them for.
        geometry: geometry of the embeddings, or its name; default `Sphere()`.
        query_groups: see `hierarchical_precision_at_k`.
        key_groups: see `hierarchical_precision_at_k`.
        order: (n, w) int64 rows of the database, best first, then -1: whole rankings that are known already.
            Rows that a ranking does not have are not in that query's database. None ranks by the embeddings.
        reduction: "mean", or "none" for (n,) values, one per query, in place of scalars; NaN where a query is
            left out.
        shard: see `hierarchical_precision_at_k`.
        progress: see `hierarchical_precision_at_k`.

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
        ValueError: for wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy, a
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
    check_positive("ahp_k", ahp_k)
    check_reduction(reduction)
    search = _search(
        query_embeddings, query_nodes, taxonomy, key_embeddings, key_nodes, query_groups, key_groups
    )
    known = None
    if order is not None:
        known = _known_rankings(order, query_nodes, search, query_groups, key_groups)
        search.left_out = LeftOut.outside(known, search.size)
    reduced = mean_of_counted if reduction == "mean" else partial(spread, takes_part=search.takes_part)
    hierarchical = _scores(search, taxonomy, ahp_k, ks)
    flat = {"": search.relevance()}
    for depth in depths:
        flat[f"/depth{depth}"] = search.relevance(partial(nodes_at_depth, taxonomy=taxonomy, depth=depth))
    scored, chosen = None, None
    if isinstance(graded, Tensor) or graded:
        nodes = (search.query_nodes, search.code_nodes, search.key_codes)
        scored = GradedScores(taxonomy, *nodes, left_out=search.left_out)
    if isinstance(graded, Tensor):
        check_same_length("graded", graded, "query_nodes", query_nodes)
        chosen = graded[search.takes_part].nonzero()[:, 0].cpu().numpy()
    score = partial(score_rankings, search, geometry=geometry, order=known, shard=shard, progress=progress)
    score(list(flat.values()), hierarchical, scored if chosen is None else None)
    if chosen is not None:
        score((), None, scored, queries=chosen)

    results: dict[str, Tensor] = {}
    for suffix, scores in flat.items():
        results |= {f"recall@{k}{suffix}": reduced(scores.recall(k)) for k in ks}
        results[f"map@r{suffix}"] = reduced(scores.precision_at_r)
        results[f"map{suffix}"] = reduced(scores.average_precision)
        results[f"queries{suffix}"] = scores.counted.sum()
        results[f"queries_without_relevant{suffix}"] = (scores.counted & (scores.relevant == 0)).sum()
    results |= {f"hp@{k}": reduced(hierarchical.at[k]) for k in ks}
    results[f"ahp@{ahp_k}"] = reduced(hierarchical.mean)
    results[f"ahp@{ahp_k}/trapezoid"] = reduced(hierarchical.trapezoid)
    if scored is not None:
        results |= {"h_ap": reduced(scored.pop), "h_ap/map": reduced(scored.map)}
        results |= {"asi": reduced(scored.asi), "ndcg": reduced(scored.ndcg)}
        results |= {f"ap/depth{at}": reduced(each) for at, each in enumerate(scored.at_depth, start=1)}
        asked = scored.asi if chosen is None else scored.asi[torch.from_numpy(chosen)]
        results["queries_without_relatives"] = asked.isnan().sum()
    results["hp_curve"] = hierarchical.curve
    results["queries_without_similarity"] = hierarchical.mean.isnan().sum()
    results["queries_missing_label"] = (~search.takes_part).sum()
    results["database"] = torch.tensor(search.size)
    return {name: value.to(query_nodes.device) for name, value in results.items()}


def _known_rankings(
    order: Tensor, query_nodes: Tensor, search: Search, *groups: Tensor | None
) -> NDArray[np.int64]:
    check_same_length("order", order, "query_nodes", query_nodes)
    if any(given is not None for given in groups):
        raise ValueError("order is given beside groups; expected rankings without what a query leaves out")
    if not search.all_labelled:
        raise ValueError("some rows have missing labels; with order every query and item needs one")
    found: NDArray[np.int64] = order.cpu().numpy()
    least, most = found.min(initial=-1), found.max(initial=-1)
    if least < -1 or most >= search.size:
        raise ValueError(f"order has rows {least} to {most}; the database has {search.size}")
    return found


def _search(
    query_embeddings: Tensor,
    query_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    key_embeddings: Tensor | None,
    key_nodes: Tensor | None,
    query_groups: Tensor | None,
    key_groups: Tensor | None,
) -> Search:
    """Queries and database, after checking that all labels are nodes of the taxonomy."""
    check_nodes("query_nodes", query_nodes, taxonomy)
    if key_nodes is not None:
        check_nodes("key_nodes", key_nodes, taxonomy)
    return Search(query_embeddings, query_nodes, key_embeddings, key_nodes, query_groups, key_groups)


def _scores(search: Search, taxonomy: AnyTaxonomy, k: int, ks: Sequence[int]) -> HierarchicalPrecisionScores:
    """Empty scores for HP at each of `ks` and AHP at `k`."""
    for cutoff in ks:
        check_positive("an entry of ks", cutoff)
    return HierarchicalPrecisionScores(
        taxonomy,
        search.query_nodes,
        search.code_nodes,
        search.key_codes,
        left_out=search.left_out,
        k=k,
        ks=tuple(ks),
    )
