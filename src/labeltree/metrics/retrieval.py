"""A search and its numbers, from one ranking: recall, MAP@R, mAP, HP@k, AHP, H-AP, ASI, NDCG, AP by depth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Literal, NamedTuple, TypedDict, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.geometry import Geometry
from labeltree.metrics.labels_at_depth import nodes_at_depth
from labeltree.metrics.metric_checks import (
    check_nodes,
    check_positive,
    check_reduction,
    check_same_length,
    mean_of_counted,
    spread,
)
from labeltree.metrics.search.graded import GradedScores
from labeltree.metrics.search.hierarchical_precision import HierarchicalPrecisionScores
from labeltree.metrics.search.relevant_ranks import RelevanceScores
from labeltree.metrics.search.results_left_out import LeftOut
from labeltree.metrics.search.score_rankings import Search, score_rankings
from labeltree.progress import Progress
from labeltree.taxonomy import AnyTaxonomy, Taxonomy

__all__ = ["Relevance", "Retrieval", "RetrievalOptions"]

Relevance = Literal["pop", "map"]
_KS = (1, 2, 5, 10)
_AHP_K = 250


class RetrievalOptions(TypedDict, total=False):
    """The further arguments of every retrieval function, which are those of `Retrieval`."""

    geometry: Geometry | str | None
    query_groups: Tensor | None
    key_groups: Tensor | None
    reduction: str
    shard: bool
    progress: Progress | None


class _Scores(NamedTuple):
    """Per-query scores that one ranking has filled; flat ones by the depth of the labels, None uncut."""

    flat: dict[int | None, RelevanceScores]
    hierarchical: HierarchicalPrecisionScores | None
    graded: GradedScores | None


class Retrieval:
    """A search of every query in a database, and its numbers, for which the database is ranked once.

    The first number asked for makes one pass over the similarities, in which the scores of each query are
    kept (never the rankings): all other numbers follow without another. Only HP@k at other k than 1, 2, 5 and
    10, AHP at another K than 250 and H-AP with an α or weights make a pass each.

    A row without a label is neither a query nor in the database. Labels may be inner nodes. Similarities may
    have any sign; ties are ranked in database order. Where several items are of the query's own group, or
    the queries are the database, what is left out of the results is left out of the best possible ranking
    and of the relevant items, too.

    Args:
        query_embeddings: (n, d) points of the geometry.
        query_nodes: (n,) labels, -1 for a missing one.
        taxonomy: The tree or DAG of the labels. Without one, which flat relevance does not need, the labels
            may be any integers.
        key_embeddings: (m, d) database; None searches the queries themselves, each query left out of its own
            results.
        key_nodes: (m,) labels of the database.
        geometry: Ranks by its similarity; its name or itself, default `Sphere()`, the cosine.
        query_groups: (n,) group of each query, such as a patient, -1 for one that stands alone. Items of the
            query's own group are left out of its results (leave one group out).
        key_groups: (m,) group of each item, where there is a database.
        order: (n, w) int64 rows of the database, best first, then -1: whole rankings that are known already.
            Rows that a ranking does not have are not in that query's database. None ranks by the embeddings.
        reduction: "mean" over the queries that a number counts, float64 scalars, NaN if there are none; or
            "none", (n,) float64, NaN where a query is left out.
        rank_once: Read all scores in the first pass, see above. False: every number makes a pass that reads
            what it needs alone, which is quicker for a single number; the functions do so. Recall, MAP@R and
            mAP need none if a number before them looked at as many results.
        shard: Divide the queries over the ranks of `torch.distributed`; all ranks give the same arguments and
            get the same result.
        progress: Called as `progress("ranking", done, total)`.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy,
            one of two arguments that go together, an `order` of another length, beside groups, or of rows
            that are not there or have no label. The methods: for a k below 1, a depth outside the taxonomy,
            and where they need a taxonomy and there is none.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> nodes = taxonomy.encode(["dog", "dog", "cat", "trout"])
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.7, 0.3], [0.0, 1.0]])
        >>> retrieval = Retrieval(embeddings, nodes, taxonomy)
        >>> retrieval.recall(1).item(), retrieval.recall(1, depth=1).item(), retrieval.map_at_r().item()
        (1.0, 1.0, 1.0)
        >>> retrieval.ahp().item(), retrieval.h_ap().item(), retrieval.ndcg().item()
        (1.0, 1.0, 1.0)

    """

    def __init__(
        self,
        query_embeddings: Tensor,
        query_nodes: Tensor,
        taxonomy: AnyTaxonomy | None = None,
        key_embeddings: Tensor | None = None,
        key_nodes: Tensor | None = None,
        *,
        geometry: Geometry | str | None = None,
        query_groups: Tensor | None = None,
        key_groups: Tensor | None = None,
        order: Tensor | None = None,
        reduction: str = "mean",
        rank_once: bool = True,
        shard: bool = False,
        progress: Progress | None = None,
    ) -> None:
        check_reduction(reduction)
        for name, nodes in (("query_nodes", query_nodes), ("key_nodes", key_nodes)):
            if taxonomy is not None and nodes is not None:
                check_nodes(name, nodes, taxonomy)
        self._taxonomy, self._reduction, self._rank_once = taxonomy, reduction, rank_once
        self._sides = (query_embeddings, query_nodes, key_embeddings, key_nodes, query_groups, key_groups)
        self._search = search = Search(*self._sides)
        self._reached: dict[int | None, tuple[int | None, RelevanceScores, Tensor]] = {}
        self._order = None
        if order is not None:
            self._order = _known_rankings(order, query_nodes, search, query_groups, key_groups)
            search.left_out = LeftOut.outside(self._order, search.size)
        self._score = partial(
            score_rankings, geometry=geometry, order=self._order, shard=shard, progress=progress
        )

    @overload
    def recall(self, k: int, *, depth: int | None = None) -> Tensor: ...
    @overload
    def recall(self, k: Sequence[int] = _KS, *, depth: int | None = None) -> dict[int, Tensor]: ...
    def recall(self, k: int | Sequence[int] = _KS, *, depth: int | None = None) -> Tensor | dict[int, Tensor]:
        """Recall@k, as in `recall_at_k`; of several k a dict, and with `depth` of labels cut to it."""
        ks = _check_ks(k)
        scores, there = self._flat(depth, lambda _: max(ks, default=1))
        values = {each: self._reduced(scores.recall(each), there) for each in ks}
        return values if isinstance(k, Iterable) else values[k]

    def map_at_r(self, *, depth: int | None = None) -> Tensor:
        """MAP@R, as in `map_at_r`; with `depth` of labels cut to it."""
        scores, there = self._flat(depth, lambda empty: max(empty.relevant.tolist(), default=0))
        return self._reduced(scores.precision_at_r, there)

    def mean_average_precision(self, *, depth: int | None = None) -> Tensor:
        """mAP of whole rankings, as in `mean_average_precision`; with `depth` of labels cut to it."""
        scores, there = self._flat(depth, lambda _: None)
        return self._reduced(scores.average_precision, there)

    @overload
    def hierarchical_precision(self, k: int) -> Tensor: ...
    @overload
    def hierarchical_precision(self, k: Sequence[int] = _KS) -> dict[int, Tensor]: ...
    def hierarchical_precision(self, k: int | Sequence[int] = _KS) -> Tensor | dict[int, Tensor]:
        """HP@k, as in `hierarchical_precision_at_k`; of several k a dict."""
        scores = self._hierarchical(None, ks := _check_ks(k))
        values = {each: self._reduced(scores.at[each]) for each in ks}
        return values if isinstance(k, Iterable) else values[k]

    def ahp(self, k: int = _AHP_K, *, rule: str = "mean") -> Tensor:
        """AHP@K by the `rule` "mean" or "trapezoid", as in `average_hierarchical_precision`."""
        check_positive("k", k)
        check_choice("rule", rule, ("mean", "trapezoid"))
        scores = self._hierarchical(k, ())
        return self._reduced(scores.mean if rule == "mean" else scores.trapezoid)

    def h_ap(
        self, relevance: Relevance = "pop", *, alpha: float = 1.0, weights: Sequence[float] | None = None
    ) -> Tensor:
        """H-AP with the `relevance` "pop", which has an α, or "map", which has weights, as in `h_ap`."""
        check_choice("relevance", relevance, Relevance)
        if not 0 <= alpha < math.inf:
            raise ValueError(f"alpha is {alpha!r}; expected a number of at least 0")
        _check_weights(weights, self.taxonomy)
        scores = self._graded(alpha, weights)
        return self._reduced(scores.pop if relevance == "pop" else scores.map)

    def asi(self) -> Tensor:
        """ASI, as in `average_set_intersection`."""
        return self._reduced(self._graded().asi)

    def ndcg(self) -> Tensor:
        """NDCG of whole rankings, as in `ndcg`."""
        return self._reduced(self._graded().ndcg)

    def average_precision_at_depths(self) -> dict[int, Tensor]:
        """AP at each depth, as in `average_precision_at_depths`."""
        return {depth: self._reduced(each) for depth, each in enumerate(self._graded().at_depth, start=1)}

    def metrics(
        self,
        *,
        ks: Sequence[int] = _KS,
        ahp_k: int = _AHP_K,
        depths: Sequence[int] = (),
        graded: bool | Tensor = False,
    ) -> dict[str, Tensor]:
        """All numbers by name, and counts, from a pass of their own; see `retrieval_metrics`."""
        check_positive("ahp_k", ahp_k)
        search, chosen = self._search, None
        if isinstance(graded, Tensor):
            check_same_length("graded", graded, "query_nodes", search.takes_part)
            chosen = graded[search.takes_part].nonzero()[:, 0].cpu().numpy()
        flat = {depth: self._empty_flat(depth) for depth in (None, *depths)}
        hierarchical = self._empty_hierarchical(ahp_k, _check_ks(ks))
        scored = self._empty_graded() if chosen is not None or graded else None
        self._score(search, list(flat.values()), hierarchical, scored if chosen is None else None)
        if chosen is not None:
            self._score(search, (), None, scored, queries=chosen)

        results: dict[str, Tensor] = {}
        for depth, scores in flat.items():
            suffix = "" if depth is None else f"/depth{depth}"
            results |= {f"recall@{k}{suffix}": self._reduced(scores.recall(k)) for k in ks}
            results[f"map@r{suffix}"] = self._reduced(scores.precision_at_r)
            results[f"map{suffix}"] = self._reduced(scores.average_precision)
            results[f"queries{suffix}"] = scores.counted.sum()
            results[f"queries_without_relevant{suffix}"] = (scores.counted & (scores.relevant == 0)).sum()
        results |= {f"hp@{k}": self._reduced(hierarchical.at[k]) for k in ks}
        results[f"ahp@{ahp_k}"] = self._reduced(hierarchical.mean)
        results[f"ahp@{ahp_k}/trapezoid"] = self._reduced(hierarchical.trapezoid)
        if scored is not None:
            results |= {"h_ap": self._reduced(scored.pop), "h_ap/map": self._reduced(scored.map)}
            results |= {"asi": self._reduced(scored.asi), "ndcg": self._reduced(scored.ndcg)}
            results |= {f"ap/depth{at}": self._reduced(each) for at, each in enumerate(scored.at_depth, 1)}
            asked = scored.asi if chosen is None else scored.asi[torch.from_numpy(chosen)]
            results["queries_without_relatives"] = asked.isnan().sum()
        results["hp_curve"] = hierarchical.curve
        results["queries_without_similarity"] = hierarchical.mean.isnan().sum()
        results["queries_missing_label"] = (~search.takes_part).sum()
        results["database"] = torch.tensor(search.size)
        return {name: value.to(search.takes_part.device) for name, value in results.items()}

    @property
    def taxonomy(self) -> AnyTaxonomy:
        """The taxonomy of the labels; `ValueError` if there is none."""
        if self._taxonomy is None:
            raise ValueError("taxonomy is None; expected the taxonomy that the labels belong to")
        return self._taxonomy

    @cached_property
    def _everything(self) -> _Scores:
        """All scores with their defaults, from one pass."""
        tree = self._taxonomy if isinstance(self._taxonomy, Taxonomy) else None
        depths = () if tree is None else range(1, tree.max_depth + 1)
        scores = _Scores(
            {depth: self._empty_flat(depth) for depth in (None, *depths)},
            None if self._taxonomy is None else self._empty_hierarchical(_AHP_K, _KS),
            None if self._taxonomy is None else self._empty_graded(),
        )
        self._score(self._search, list(scores.flat.values()), scores.hierarchical, scores.graded)
        return scores

    def _flat(
        self, depth: int | None, reach: Callable[[RelevanceScores], int | None]
    ) -> tuple[RelevanceScores, Tensor]:
        """Filled flat scores, and the queries that they are of; `reach` says how many results they need.

        Without `rank_once` scores that reached as far for another number serve again.
        """
        search, scores = self._search, self._empty_flat(depth)
        if self._rank_once:
            return self._everything.flat[depth], search.takes_part
        if (known := self._reached.get(depth)) is not None:
            reached, filled, takes_part = known
            needed = reach(filled)
            if reached is None or (needed is not None and needed <= reached):
                return filled, takes_part
        if depth is not None and scores.skips and self._order is None:
            # of a search without what lies above the depth, a few results are soon found
            embeddings, nodes, keys, key_nodes, *groups = self._sides
            key_nodes = None if key_nodes is None else self._cut(key_nodes, depth)
            search = Search(embeddings, self._cut(nodes, depth), keys, key_nodes, *groups)
            scores = search.relevance()
        needed = reach(scores)
        self._score(search, [scores], reach=needed)
        self._reached[depth] = needed, scores, search.takes_part
        return scores, search.takes_part

    def _hierarchical(self, k: int | None, ks: tuple[int, ...]) -> HierarchicalPrecisionScores:
        """Filled scores for AHP at `k` (None: at any) and HP at each of `ks`."""
        if self._rank_once and k in (None, _AHP_K) and {*ks} <= {*_KS}:
            scores = self._everything.hierarchical
            if scores is not None:
                return scores
        scores = self._empty_hierarchical(1 if k is None else k, ks)
        self._score(self._search, (), scores)
        return scores

    def _graded(self, alpha: float = 1.0, weights: Sequence[float] | None = None) -> GradedScores:
        if self._rank_once and alpha == 1.0 and weights is None:
            scores = self._everything.graded
            if scores is not None:
                return scores
        scores = self._empty_graded(alpha, weights)
        self._score(self._search, (), None, scores)
        return scores

    def _empty_flat(self, depth: int | None) -> RelevanceScores:
        return self._search.relevance(None if depth is None else partial(self._cut, depth=depth))

    def _cut(self, nodes: Tensor, depth: int) -> Tensor:
        if self._taxonomy is None:
            raise ValueError(
                "depth is given without taxonomy; expected the taxonomy that the labels belong to"
            )
        return nodes_at_depth(nodes, self._taxonomy, depth)

    def _empty_hierarchical(self, k: int, ks: tuple[int, ...]) -> HierarchicalPrecisionScores:
        return HierarchicalPrecisionScores(
            self.taxonomy, *self._labels, left_out=self._search.left_out, k=k, ks=ks
        )

    def _empty_graded(self, alpha: float = 1.0, weights: Sequence[float] | None = None) -> GradedScores:
        out = self._search.left_out
        return GradedScores(self.taxonomy, *self._labels, left_out=out, alpha=alpha, weights=weights)

    @property
    def _labels(self) -> tuple[Tensor, Tensor, NDArray[np.int32]]:
        return self._search.query_nodes, self._search.code_nodes, self._search.key_codes

    def _reduced(self, values: Tensor, takes_part: Tensor | None = None) -> Tensor:
        """One value for each row, or their mean, of values of the queries that take part."""
        everywhere = spread(values, self._search.takes_part if takes_part is None else takes_part)
        return everywhere if self._reduction == "none" else mean_of_counted(everywhere)


def _known_rankings(
    order: Tensor, query_nodes: Tensor, search: Search, *groups: Tensor | None
) -> NDArray[np.int64]:
    check_same_length("order", order, "query_nodes", query_nodes)
    if any(given is not None for given in groups):
        raise ValueError("order is given beside groups; expected rankings without what a query leaves out")
    if not search.all_labelled:
        raise ValueError("some rows have missing labels; with order every query and item needs one")
    rankings: NDArray[np.int64] = order.cpu().numpy()
    least, most = rankings.min(initial=-1), rankings.max(initial=-1)
    if least < -1 or most >= search.size:
        raise ValueError(f"order has rows {least} to {most}; the database has {search.size}")
    return rankings


def _check_ks(k: int | Sequence[int]) -> tuple[int, ...]:
    """The values of k as a tuple, each of at least 1."""
    several = isinstance(k, Iterable)
    ks = tuple(k) if isinstance(k, Iterable) else (k,)
    for each in ks:
        check_positive("an entry of ks" if several else "k", each)
    return ks


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
