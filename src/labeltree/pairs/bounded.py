"""The primitive of the hierarchical constraint: pair losses kept above a bound, summed per anchor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.pairs.dense import bounded as dense
from labeltree.pairs.implementation import planned
from labeltree.pairs.kernels import bounded as kernels
from labeltree.pairs.precision import at_least_single
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity
from labeltree.pairs.streaming import bounded as streaming

__all__ = ["bounded_sum"]


def bounded_sum(
    queries: Tensor,
    keys: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    *,
    members: Tensor,
    offset: Tensor,
    bound: Tensor,
    similarity: Similarity = "cosine",
) -> Tensor:
    """B_it = Σ_k max(offset_it − s_ik, bound_t) over the keys k whose relation to i is a member of term t.

    With offset = the log-sum-exp of the softmax this is the inner sum of Eq. 6 and 7 of Use All The Labels.
    A pair that ties with the bound keeps its own gradient: nothing is split, and the pair that set the
    bound ties with it exactly.

    Args:
        queries: `(n, d)`.
        keys: `(m, d)`.
        relation: relation of every query to every key, R codes.
        geometry: as in `pair_statistics`.
        temperature: likewise.
        members: `(T, R)` bool, the relations that each term sums over.
        offset: `(n, T)`, finite wherever the anchor has a member of the term.
        bound: `(T,)`; −∞ for no bound.
        similarity: as in `pair_statistics`.

    Returns:
        `(n, T)`, differentiable with respect to the embeddings, `offset` and `bound`; 0 where an anchor has
        no member of a term.

    Example:
        >>> from labeltree.geometry import Sphere
        >>> relation = PairRelation.of_instances(torch.tensor([0, 0, 0]), 3)  # views of one sample: code 3
        >>> z, member = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), torch.arange(5)[None] == 3
        >>> offset, bound = torch.ones(3, 1), torch.tensor([0.3])
        >>> bounded_sum(z, z, relation, Sphere(), 1.0, members=member, offset=offset, bound=bound)
        tensor([[1.3000],
                [0.7000],
                [1.4000]])
    """
    plan = planned(queries.device, len(queries) * len(keys))
    options: dict[str, Any] = {"members": members, "offset": offset, "bound": bound, "similarity": similarity}
    with torch.autocast(queries.device.type, enabled=False):
        if plan.name == "triton" and kernels.supports(
            queries, keys, relation, temperature, similarity, offset
        ):
            return kernels.bounded_sum(
                queries,
                keys,
                relation,
                float(temperature),
                members=members,
                offset=offset,
                bound=bound,
                tile=plan.tile,
            )
        queries, keys = at_least_single(queries, keys)
        if plan.name == "dense":
            return dense.bounded_sum(queries, keys, relation, geometry, temperature, **options)
        return streaming.bounded_sum(queries, keys, relation, geometry, temperature, **options, plan=plan)
