"""The hierarchical constraint: no pair of a coarser depth has a smaller loss than any of a finer one."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from labeltree.geometry import Geometry, as_geometry
from labeltree.losses.reduction import Reduction, hide_nothing, reduce_terms
from labeltree.losses.table import LossTable
from labeltree.pairs import PairRelation, Similarity, bounded_sum, bounded_terms, denominators, weigh

__all__ = ["bounded_relation_loss"]


def bounded_relation_loss(
    embeddings: Tensor,
    relation: PairRelation,
    table: LossTable,
    *,
    temperature: float | Tensor = 0.1,
    geometry: Geometry | str | None = None,
    similarity: Similarity = "cosine",
    reduction: Reduction = "valid",
    detach_bound: bool = False,
) -> Tensor:
    """A table's pair losses, each term's bounded below by the largest of the next one.

    Eq. 5 and 6 of Use All The Labels, with the index l + 1 that its order "from L down" needs, and the minus
    sign that Eq. 3 lacks:

        ℓ_t(i,p) = log Σ_{k: member_t} exp(s_ik) − s_ip        v_t(i,p) = max(ℓ_t(i,p), M_{t+1})
        M_t = max(M_{t+1}, largest ℓ_t(i,p) of all positives of term t),   M_{T+1} = −∞

    Two passes over the pairs: the log-sum-exp and the least similar positive of each anchor, then the
    bounded sum.

    Args:
        embeddings: `(n, d)`.
        relation: of the batch with itself; with a `shard`, of the union of all ranks' batches.
        table: T terms, coarse → fine, whose positives all have weight 1; without scale.
        temperature: τ.
        geometry: where `similarity="distance"` measures; None: the sphere.
        similarity: as in `pair_statistics`.
        reduction: as in `reduce_terms`.
        detach_bound: whether the M are constants for the gradient. A pair that ties with its bound keeps
            its own gradient, the pair that set the bound among them.

    Returns:
        A scalar, or `(n,)` for `reduction="none"`, of which a shard gets its own rows.

    Example:
        >>> from labeltree.losses import instance_table
        >>> relation = PairRelation.of_instances(torch.tensor([0, 0, 1]), 3)
        >>> table = instance_table(relation.space)  # one term: nothing finer to be bounded by
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> bounded_relation_loss(z, relation, table.to(z.device, z.dtype), temperature=0.5)
        tensor(0.3485)
    """
    geometry = as_geometry(geometry)
    positive = table.positive > 0
    small = bounded_terms(
        embeddings,
        relation,
        temperature,
        members=table.member,
        positives=positive,
        similarity=similarity,
        detach_bound=detach_bound,
    )
    if small is not None:
        loss = reduce_terms(*small, table.term_weight, reduction, relation.shard)
        return hide_nothing(loss, embeddings, shard=relation.shard)
    _check_room(len(embeddings), len(table.member), relation.num_relations, embeddings)
    count, denominator, statistics = denominators(
        embeddings, relation, geometry, temperature, table.member, want={"least"}, similarity=similarity
    )
    assert statistics.least is not None
    share = weigh(count, table.share)
    least_positive = torch.where(positive, statistics.least[:, None, :], torch.inf).min(-1).values
    bound = term_bounds(torch.where(share > 0, denominator - least_positive, -torch.inf))
    row = bounded_sum(
        embeddings,
        embeddings,
        relation,
        geometry,
        temperature,
        members=positive,
        offset=denominator,
        bound=bound.detach() if detach_bound else bound,
        similarity=similarity,
    )
    loss = reduce_terms(row, share, table.term_weight, reduction, relation.shard)
    return hide_nothing(loss, embeddings, shard=relation.shard)


def _check_room(rows: int, terms: int, relations: int, like: Tensor) -> None:
    """A sentence in place of a table (n, T, R) that no memory holds; T and R grow with the tree's depth."""
    needed, there = rows * terms * relations * max(like.element_size(), 4), _memory(like.device)
    if needed > there:
        raise ValueError(
            f"the bounds of {rows} rows at {terms} depths take a table of {needed / 1e9:.3g} GB, and there "
            f"are {there / 1e9:.3g} GB of memory; take smaller batches, a tree of fewer depths "
            "(taxonomy.cut(depth), or --coarsen), or variant='reference', which needs no such table"
        )


def _memory(device: torch.device) -> int:
    """All memory of a device, in bytes."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def term_bounds(largest: Tensor) -> Tensor:
    """M_{t+1} of every term `(T,)` from the largest pair loss of each anchor `(n, T)`, −∞ where it has none.

    Where several pairs attain the maximum, the gradient goes to the first alone. A NaN is every term's bound:
    comparisons with it, which decide between a pair's own loss and the bound, would hide it.
    """
    bound = largest.new_full((), -torch.inf)
    if len(largest):
        worst = largest.flatten()[largest.argmax()]  # a NaN is the largest
        bound = torch.where(worst.isnan(), worst, bound)
    bounds = []
    for term in reversed(range(largest.shape[1])):
        bounds.append(bound)
        if len(largest):
            here = largest[largest[:, term].argmax(), term]
            bound = torch.where(here > bound, here, bound)
    return torch.stack(bounds[::-1])
