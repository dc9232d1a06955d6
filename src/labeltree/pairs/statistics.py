"""Pair statistics: what losses need to know of the similarities, summed up per anchor and relation.

A loss written over these statistics does not care how they were computed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, get_args

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.pairs.dense import statistics as dense
from labeltree.pairs.implementation import planned
from labeltree.pairs.kernels import statistics as kernels
from labeltree.pairs.precision import at_least_single
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity
from labeltree.pairs.streaming import statistics as streaming
from labeltree.pairs.summary import PairStatistics, PairWeight, Statistic, by_relation

__all__ = ["pair_counts", "pair_statistics"]


def pair_statistics(
    queries: Tensor,
    keys: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    *,
    similarity: Similarity = "cosine",
    scale: Tensor | None = None,
    pair_weight: PairWeight | None = None,
    want: Collection[Statistic] = ("count", "sum", "lse"),
) -> PairStatistics:
    """Statistics of the similarities of every query to all keys, by relation.

    Differentiable with respect to `queries`, `keys` and `scale`. Computed in float32 or better, also of
    half-precision embeddings, whose gradient is rounded once, and under autocast. Excluded
    pairs (a sample with itself) count nowhere.

    Args:
        queries: `(n, d)` embeddings of the anchors.
        keys: `(m, d)` embeddings they are compared with.
        relation: relation of every query to every key, R codes.
        geometry: where `similarity="distance"` measures.
        temperature: τ > 0.
        similarity: `"cosine"` (of the vectors, in any geometry) or `"distance"`.
        scale: `(R,)` ω(r), the factor on s inside `lse`; None: 1.
        pair_weight: for `want="weighted"`: a function of (rows, cols) that gives the weights w_ik `(b, c)`
            of a tile, such as soft targets or the overlap of ratings.
        want: the statistics to compute: `"count"`, `"sum"`, `"lse"`, `"lse_all"`, `"least"`,
            `"least_index"`, `"weighted"`.

    Returns:
        The statistics asked for.

    Example:
        >>> from labeltree.geometry import Sphere
        >>> relation = PairRelation.of_instances(torch.tensor([0, 0, 1]), 3)
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> pair_statistics(z, z, relation, Sphere(), 0.5).sum  # codes: 3 is "same instance", 4 "unknown"
        tensor([[0., 0., 0., 2., 0.],
                [0., 0., 0., 2., 0.],
                [0., 0., 0., 0., 0.]])
    """
    if similarity not in get_args(Similarity):
        raise ValueError(f"similarity must be one of {', '.join(get_args(Similarity))}; got {similarity!r}")
    if "weighted" in want and pair_weight is None:
        raise ValueError('want="weighted" needs pair_weight, a function of (rows, cols)')
    plan = planned(queries.device, len(queries) * len(keys))
    options: dict[str, Any] = {
        "similarity": similarity,
        "scale": scale,
        "pair_weight": pair_weight,
        "want": by_relation(want),
    }
    with torch.autocast(queries.device.type, enabled=False):
        if plan.name == "triton" and kernels.supports(
            queries, keys, relation, temperature, similarity, scale, by_relation(want)
        ):
            found = kernels.pair_statistics(
                queries,
                keys,
                relation,
                float(temperature),
                scale=scale,
                want=by_relation(want),
                tile=plan.tile,
            )
        elif plan.name == "dense":
            queries, keys = at_least_single(queries, keys)
            found = dense.pair_statistics(queries, keys, relation, geometry, temperature, **options)
        else:
            queries, keys = at_least_single(queries, keys)
            options["want"] = frozenset(want)
            found = streaming.pair_statistics(
                queries, keys, relation, geometry, temperature, **options, plan=plan
            )
        return found.over_all() if "lse_all" in want and found.lse_all is None else found


def pair_counts(relation: PairRelation) -> Tensor:
    """Number of keys in each relation to each query, `(n, R)` int64."""
    plan = planned(relation.queries.nodes.device, relation.num_queries * relation.num_keys)
    if plan.name == "dense":
        return dense.pair_counts(relation)
    if plan.name == "triton" and kernels.supports_counts(relation):
        return kernels.pair_counts(relation, plan.tile)
    return streaming.pair_counts(relation, plan)
