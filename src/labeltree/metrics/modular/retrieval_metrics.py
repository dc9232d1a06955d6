"""Leave-one-out retrieval over batches and ranks: every sample searches all others, on all ranks.

The queries are divided over the ranks. Equal similarities are ranked in the order of rank, then of arrival.
With groups, such as patients, a sample's own group is left out of its results, too:
`metric.update(embeddings, nodes, groups=patients)`.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from labeltree.geometry import Geometry, as_geometry
from labeltree.metrics.metric_checks import check_labels, check_positive, check_same_length
from labeltree.metrics.modular.state import CollectedSamples
from labeltree.metrics.retrieval import Relevance, Retrieval
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, TaxonomyDAG

__all__ = [
    "HAP",
    "NDCG",
    "AverageHierarchicalPrecision",
    "AverageSetIntersection",
    "HierarchicalPrecisionAtK",
    "MAPAtR",
    "MeanAveragePrecision",
    "RecallAtK",
    "RetrievalMetrics",
]


class _Retrieval(CollectedSamples):
    """Also collects the groups of the samples; its `function` is a method of `Retrieval`."""

    groups: list[Tensor]
    needs_taxonomy: ClassVar[bool] = True

    def __init__(
        self, taxonomy: AnyTaxonomy | None, geometry: Geometry | str | None, *, settings: Any, **kwargs: Any
    ) -> None:
        if not isinstance(taxonomy, Taxonomy | TaxonomyDAG) and (self.needs_taxonomy or taxonomy is not None):
            raise ValueError(
                f"taxonomy is {taxonomy!r}; expected the taxonomy of the labels"
                f"{'' if self.needs_taxonomy else ', or None'}, and all other arguments by their names"
            )
        settings = {"taxonomy": taxonomy, "geometry": as_geometry(geometry), **settings}
        super().__init__(settings, ("groups",), **kwargs)

    def update(
        self,
        embeddings: Tensor,
        nodes: Tensor,
        *,
        instances: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> None:
        """Add embeddings (b, d) and labels (b,), with their instances and groups.

        Args:
            embeddings: (b, d).
            nodes: (b,), -1 where a label is missing.
            instances: (b,) sample ids, the same on every rank: rows of one sample count once; -1: a sample of
                its own.
            groups: (b,) group ids: samples of a query's own group are left out of its results; -1: no group;
                None: no sample has a group.

        """
        if groups is not None:
            check_labels("groups", groups)
            check_same_length("embeddings", embeddings, "groups", groups)
        super().update(embeddings, nodes, instances=instances)
        self.groups.append(torch.full_like(nodes, -1).long() if groups is None else groups.long())

    def _told_apart(self) -> bool:
        return super()._told_apart() or bool((self._arrived("groups") >= 0).any())

    def value(self, samples: Tensor, labels: Tensor) -> Any:
        """Compute the metric from embeddings (n, d) and labels (n,)."""
        groups = self.rows("groups")
        given = groups if bool((groups >= 0).any()) else None
        settings = self.settings
        taxonomy, geometry = settings.pop("taxonomy"), settings.pop("geometry")
        retrieval = Retrieval(
            samples,
            labels,
            taxonomy,
            geometry=geometry,
            query_groups=given,
            rank_once=False,
            shard=self.shard,
        )
        return type(self).function(retrieval, **settings)


class RecallAtK(_Retrieval):
    """Recall@k for one k; see `labeltree.metrics.functional.recall_at_k`.

    Args:
        taxonomy: The tree of the labels; required with `depth`.
        k: Number of results to look at.
        depth: Cut all labels to this depth first.
        geometry: Geometry of the embeddings, or its name; default the sphere.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> metric = RecallAtK()
        >>> metric.update(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([4, 5]))
        >>> metric.update(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.tensor([4, 5]))
        >>> metric.compute().item()
        0.75

    """

    needs_taxonomy = False
    function = Retrieval.recall
    key = "recall_at_{}"

    def __init__(
        self,
        taxonomy: AnyTaxonomy | None = None,
        *,
        k: int = 1,
        depth: int | None = None,
        geometry: Geometry | str | None = None,
        **kwargs: Any,
    ) -> None:
        check_positive("k", k)
        super().__init__(taxonomy, geometry, settings={"k": k, "depth": depth}, **kwargs)


class _WholeRanking(_Retrieval):
    needs_taxonomy = False

    def __init__(
        self,
        taxonomy: AnyTaxonomy | None = None,
        *,
        depth: int | None = None,
        geometry: Geometry | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(taxonomy, geometry, settings={"depth": depth}, **kwargs)


class MAPAtR(_WholeRanking):
    """MAP@R; see `labeltree.metrics.functional.map_at_r`.

    Args:
        taxonomy: The tree of the labels; required with `depth`.
        depth: Cut all labels to this depth first.
        geometry: Geometry of the embeddings, or its name; default the sphere.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> MAPAtR()(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), torch.tensor([4, 4, 5])).item()
        1.0

    """

    function = Retrieval.map_at_r


class MeanAveragePrecision(_WholeRanking):
    """mAP of whole rankings; see `labeltree.metrics.functional.mean_average_precision`.

    Args:
        taxonomy: The tree of the labels; required with `depth`.
        depth: Cut all labels to this depth first.
        geometry: Geometry of the embeddings, or its name; default the sphere.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> metric = MeanAveragePrecision()
        >>> metric(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), torch.tensor([4, 5, 4])).item()
        0.5

    """

    function = Retrieval.mean_average_precision


class HierarchicalPrecisionAtK(_Retrieval):
    """HP@k for one k; see `labeltree.metrics.functional.hierarchical_precision_at_k`.

    Args:
        taxonomy: a tree or a DAG.
        k: Number of results to look at.
        geometry: Geometry of the embeddings, or its name; default the sphere.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = HierarchicalPrecisionAtK(taxonomy, k=1)
        >>> metric(torch.tensor([[1.0, 0.0], [0.9, 0.1]]), taxonomy.encode(["dog", "cat"])).item()
        1.0

    """

    function = Retrieval.hierarchical_precision
    key = "hp_at_{}"

    def __init__(
        self, taxonomy: AnyTaxonomy, *, k: int = 1, geometry: Geometry | str | None = None, **kwargs: Any
    ) -> None:
        check_positive("k", k)
        super().__init__(taxonomy, geometry, settings={"k": k}, **kwargs)


class AverageHierarchicalPrecision(_Retrieval):
    """AHP@K; see `labeltree.metrics.functional.average_hierarchical_precision`.

    Args:
        taxonomy: a tree or a DAG.
        k: K, the largest k of the average over HP@k.
        rule: "mean" or "trapezoid".
        geometry: Geometry of the embeddings, or its name; default the sphere.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = AverageHierarchicalPrecision(taxonomy, k=2)
        >>> metric(torch.tensor([[1.0, 0.0], [0.9, 0.1]]), taxonomy.encode(["dog", "cat"])).item()
        1.0

    """

    function = Retrieval.ahp

    def __init__(
        self,
        taxonomy: AnyTaxonomy,
        *,
        k: int = 250,
        rule: str = "mean",
        geometry: Geometry | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(taxonomy, geometry, settings={"k": k, "rule": rule}, **kwargs)


class HAP(_Retrieval):
    """H-AP; see `labeltree.metrics.functional.h_ap`.

    Args:
        taxonomy: a tree or a DAG.
        relevance: "pop" or "map".
        alpha: α of "pop".
        weights: Weights of the depths in "map", coarse to fine; None: all the same.
        geometry: Geometry of the embeddings, or its name; default the sphere.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = HAP(taxonomy, relevance="map")
        >>> points = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]])
        >>> metric(points, taxonomy.encode(["dog", "cat", "trout"])).item()
        0.5

    """

    function = Retrieval.h_ap

    def __init__(
        self,
        taxonomy: AnyTaxonomy,
        *,
        relevance: Relevance = "pop",
        alpha: float = 1.0,
        weights: Sequence[float] | None = None,
        geometry: Geometry | str | None = None,
        **kwargs: Any,
    ) -> None:
        settings = {"relevance": relevance, "alpha": alpha, "weights": weights}
        super().__init__(taxonomy, geometry, settings=settings, **kwargs)


class _Graded(_Retrieval):
    def __init__(
        self, taxonomy: AnyTaxonomy, *, geometry: Geometry | str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(taxonomy, geometry, settings={}, **kwargs)


class AverageSetIntersection(_Graded):
    """ASI; see `labeltree.metrics.functional.average_set_intersection`.

    Args:
        taxonomy: a tree or a DAG.
        geometry: Geometry of the embeddings, or its name; default the sphere.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = AverageSetIntersection(taxonomy)
        >>> points = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]])
        >>> metric(points, taxonomy.encode(["dog", "cat", "trout"])).item()
        0.0

    """

    function = Retrieval.asi


class NDCG(_Graded):
    """NDCG by the depth that query and result share; see `labeltree.metrics.functional.ndcg`.

    Args:
        taxonomy: a tree or a DAG.
        geometry: Geometry of the embeddings, or its name; default the sphere.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = NDCG(taxonomy)
        >>> points = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]])
        >>> round(metric(points, taxonomy.encode(["dog", "cat", "trout"])).item(), 4)
        0.6309

    """

    function = Retrieval.ndcg


class RetrievalMetrics(_Retrieval):
    """All retrieval metrics from one ranking, as a dict; see
    `labeltree.metrics.functional.retrieval_metrics`.

    The keys of the dict:

    - `recall@{k}` for every k of `ks`, `map@r`, `map`; also `…/depth{l}` for every l of `depths`;
    - `hp@{k}` for every k of `ks`, `ahp@{ahp_k}`, `ahp@{ahp_k}/trapezoid`;
    - with `graded`: `h_ap`, `h_ap/map`, `asi`, `ndcg`, and `ap/depth{l}` for every depth;
    - counts: `queries`, `queries_without_relevant` (both also `…/depth{l}`), `queries_missing_label`,
      `queries_without_similarity`, with `graded` `queries_without_relatives`, and `database`.

    `only` chooses among them. All values, including counts, are float64 scalars, so that
    `self.log_dict(metric.compute())` in a LightningModule logs them. The curve of HP@1 … HP@K is left out;
    the function gives it. With fewer than `ahp_k` results, AHP is the mean over all of them.

    Args:
        taxonomy: a tree or a DAG.
        ks: The values of k for recall@k and HP@k.
        ahp_k: K for AHP@K.
        depths: Depths at which recall@k, MAP@R and mAP are computed as well.
        graded: Add H-AP, ASI, NDCG and the AP at each depth.
        only: The keys to return; `*` and `?` stand for any text and one character. None: all.
        geometry: Geometry of the embeddings, or its name; default the sphere.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Raises:
        ValueError: Also if an entry of `only` fits no key.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = RetrievalMetrics(taxonomy, ks=(1,), depths=(1,), only=("recall@*", "map@r"))
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> metric.update(embeddings, taxonomy.encode(["dog", "cat", "dog"]))
        >>> values = metric.compute()
        >>> {name: value.item() for name, value in values.items()}
        {'recall@1': 0.0, 'map@r': 0.0, 'recall@1/depth1': 1.0}

    """

    higher_is_better = None
    function = Retrieval.metrics

    def __init__(
        self,
        taxonomy: AnyTaxonomy,
        *,
        ks: Sequence[int] = (1, 2, 5, 10),
        ahp_k: int = 250,
        depths: Sequence[int] = (),
        graded: bool = False,
        only: Sequence[str] | None = None,
        geometry: Geometry | str | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(only, str):
            raise ValueError(f"only is '{only}'; expected a list of keys, such as ['{only}']")
        self.only = None if only is None else tuple(only)
        settings = {"ks": tuple(ks), "ahp_k": ahp_k, "depths": tuple(depths), "graded": graded}
        super().__init__(taxonomy, geometry, settings=settings, **kwargs)

    def value(self, samples: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Float64 scalars by name, including counts, as loggers need them."""
        values = super().value(samples, labels)
        del values["hp_curve"]
        for pattern in self.only or ():
            if not fnmatch.filter(values, pattern):
                near = difflib.get_close_matches(pattern, values, 1)
                known = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(values)}"
                raise ValueError(f"only has '{pattern}', which fits no key; {known}")
        only = ("*",) if self.only is None else self.only
        chosen = {name for pattern in only for name in fnmatch.filter(values, pattern)}
        return {name: value.double() for name, value in values.items() if name in chosen}
