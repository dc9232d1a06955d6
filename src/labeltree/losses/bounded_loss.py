"""The hierarchical constraint: no pair of a coarser depth has a smaller loss than any of a finer one."""

from __future__ import annotations

from torch import Tensor

from labeltree.geometry import Geometry, as_geometry
from labeltree.losses.reduction import Reduction, hide_nothing, reduce_terms
from labeltree.losses.table import LossTable
from labeltree.pairs import PairRelation, Similarity, bounded_terms

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

    Eq. 5 and 6 of Use All The Labels, see `labeltree.pairs.bounded_terms`.

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
        >>> import torch
        >>> from labeltree.losses import instance_table
        >>> relation = PairRelation.of_instances(torch.tensor([0, 0, 1]), 3)
        >>> table = instance_table(relation.space)  # one term: nothing finer to be bounded by
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> bounded_relation_loss(z, relation, table.to(z.device, z.dtype), temperature=0.5)
        tensor(0.3485)
    """
    geometry = as_geometry(geometry)
    positive = table.positive > 0
    row, share = bounded_terms(
        embeddings,
        relation,
        geometry,
        temperature,
        members=table.member,
        positives=positive,
        similarity=similarity,
        detach_bound=detach_bound,
    )
    loss = reduce_terms(row, share, table.term_weight, reduction, relation.shard)
    return hide_nothing(loss, embeddings, shard=relation.shard)
