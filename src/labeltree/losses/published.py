"""The per-depth losses of HiMulCon as its authors' published code computes them."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.losses.relation_loss import relation_loss
from labeltree.losses.table import LossTable
from labeltree.pairs import LabelRows, PairRelation, Similarity

__all__ = ["published_depth_losses"]


def published_depth_losses(
    embeddings: Tensor,
    rows: LabelRows,
    table: LossTable,
    *,
    temperature: float,
    geometry: Geometry,
    similarity: Similarity,
    shard: slice | None = None,
) -> Tensor:
    """SupCon at every depth, finest first, over fewer and fewer samples.

    After each depth only one sample of every node of that depth goes on to the next coarser one, with all
    its views: anchors, positives and negatives all shrink. After the finest depth that is the first in the
    batch, later on the one whose finer node comes first in the order of the tree (the published code sorts
    by label prefix there).

    Beyond the published code: a sample whose label is too coarse for a depth takes no part at it and goes
    on, one without a label takes no part at all, and a depth without any positive pair gives 0, not NaN.

    Args:
        embeddings: `(n, d)`.
        rows: their labels.
        table: one term per depth, coarse → fine.
        temperature: τ.
        geometry: as in `relation_loss`.
        similarity: likewise.
        shard: of the union of all ranks' batches, the rows of this rank, as in `PairRelation`.

    Returns:
        `(L,)` coarse → fine; before the factor τ/base_temperature.
    """
    first, sample = _samples(rows)
    alive = first[rows.nodes[first] >= 0]  # a sample is represented by its first row
    losses = []
    for depth in range(len(table) - 1, -1, -1):
        at_depth = rows.paths[alive, depth]
        decided = at_depth >= 0
        taking_part = torch.zeros(len(rows), dtype=torch.bool, device=alive.device)
        taking_part[alive[decided]] = True
        chosen = taking_part[first[sample]].nonzero()[:, 0]
        here = rows[chosen]
        relation = PairRelation(here, here, offset=0)
        relation.shard = _places(chosen, shard)
        losses.append(
            relation_loss(
                embeddings[chosen],
                relation,
                table.term(depth),
                temperature=temperature,
                geometry=geometry,
                similarity=similarity,
            )
        )
        alive = _one_per_node(alive, torch.where(decided, at_depth, rows.nodes[alive]), decided)
    return torch.stack(losses[::-1])


def _places(chosen: Tensor, shard: slice | None) -> slice | None:
    """Where the rows of a shard stand among those chosen, which are in order."""
    if shard is None:
        return None
    start, stop = torch.searchsorted(chosen, chosen.new_tensor([shard.start, shard.stop])).tolist()
    return slice(start, stop)


def _samples(rows: LabelRows) -> tuple[Tensor, Tensor]:
    """The first row of every sample, in the order of the batch, and each row's index among the samples."""
    n, device = len(rows), rows.nodes.device
    index = torch.arange(n, device=device)
    if rows.instances is None:
        return index, index
    ids, sample = torch.unique(rows.instances, return_inverse=True)
    first = torch.full((len(ids),), n, device=device).scatter_reduce(0, sample, index, "amin")
    first, order = first.sort()
    return first, order.argsort()[sample]


def _one_per_node(alive: Tensor, node: Tensor, decided: Tensor) -> Tensor:
    """The first of `alive` at every node, and all that are undecided, in the order of the nodes."""
    node, order = node.sort(stable=True)
    new = torch.ones_like(decided)
    new[1:] = node[1:] != node[:-1]
    return alive[order][new | ~decided[order]]
