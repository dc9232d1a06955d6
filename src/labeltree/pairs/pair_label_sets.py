"""The relation of pairs of samples with several labels: that of their two closest labels."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.pairs.relation import LabelRows, NodeCodes, PairRelation
from labeltree.pairs.relation_codes import RelationCodes
from labeltree.taxonomy.relations import INSTANCE, SAME, UNKNOWN

__all__ = ["SetRelation", "closeness"]


class SetRelation(PairRelation):
    """The relation of every pair of a batch whose rows have several labels each.

    Two rows are related as the closest two of their labels: one that they share, else the two whose lowest
    common ancestor is deepest (of equally deep ones, a label above the other before two labels apart). So
    two rows agree at a depth if any of their labels do. With two labels apart from each other, a row can be
    the same as two others that have nothing in common.

    The codes of all pairs of sets of the batch are a small table, made once. It has no paths, so that this
    relation is computed by the general tiles, on a GPU as well.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> t = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> dog, cat, oak = t.encode(["dog", "cat", "oak"]).tolist()
        >>> relation = SetRelation.of_sets(t.paths, torch.tensor([[dog, oak], [cat, -1], [oak, -1]]))
        >>> relation.codes()  # dog and cat agree down to depth 1; oak is shared: SAME(2) = 8; excluded = 13
        tensor([[13,  1,  8],
                [ 1, 13,  0],
                [ 8,  0, 13]])
    """

    @classmethod
    def of_sets(
        cls,
        taxonomy_paths: Tensor,
        label_sets: Tensor,
        instances: Tensor | None = None,
        *,
        taxonomy_depth: Tensor | None = None,
    ) -> PairRelation:
        """The relation of a batch with itself; of rows with one label each, the ordinary one.

        Args:
            taxonomy_paths: As in `PairRelation.of_batch`.
            label_sets: `(n, k)` labels of each row, −1 where there is no further one.
            instances: As in `PairRelation.of_batch`.
            taxonomy_depth: Likewise.
        """
        several = (label_sets >= 0).sum(1) > 1
        if not bool(several.any()):
            only = label_sets.amax(1) if label_sets.shape[1] else label_sets.new_full((len(label_sets),), -1)
            return PairRelation.of_batch(taxonomy_paths, only, instances, taxonomy_depth=taxonomy_depth)
        ordered = label_sets.sort(1).values
        kinds, index = torch.unique(ordered, dim=0, return_inverse=True)
        labels, places = torch.unique(kinds, return_inverse=True)
        of_labels = PairRelation.of_batch(taxonomy_paths, labels, taxonomy_depth=taxonomy_depth)
        codes = of_labels.label_codes(of_labels.queries, of_labels.keys)
        rank = closeness(of_labels.space).to(codes.device)
        by_rank, ranked = rank.argsort(), rank[codes]
        best = ranked.new_zeros(len(kinds), len(kinds))
        for own in places.unbind(1):
            for other in places.unbind(1):
                best = torch.maximum(best, ranked[own][:, other])
        table = codes.new_full((len(kinds) + 1, len(kinds) + 1), len(rank) - 1)
        table[:-1, :-1] = by_rank[best]
        nothing = taxonomy_paths.new_zeros(len(index), taxonomy_paths.shape[1])
        depth = None if taxonomy_depth is None else torch.zeros_like(index)
        rows = LabelRows(index, nothing, instances, depth, NodeCodes(table.to(torch.int32)))
        return cls(rows, rows, offset=0)


def closeness(space: RelationCodes) -> Tensor:
    """The rank of each code by how close two labels with it are, `(size,)` int64; 0 is an unknown relation.

    Equal labels are closest; then counts the depth of the common ancestor, then whether one label lies above
    the other, then how shallow the shallower label is.
    """
    kind, depth = space.spread(space.relations.kind), space.spread(space.relations.depth)
    width = int(space.shallower.max()) + 2 if space.size else 2
    same = (kind == SAME) | (kind == INSTANCE)
    order = ((same.long() * width + depth) * 4 + kind) * width + (width - 1 - space.shallower)
    order = torch.where(kind == UNKNOWN, -1, order)
    return order.argsort(stable=True).argsort()
