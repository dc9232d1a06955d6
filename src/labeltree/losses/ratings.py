"""Pairs of samples by their ratings: which are alike, and how much."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from labeltree.losses.rating_overlap import RatingOverlap
from labeltree.pairs import LabelRows, PairRelation
from labeltree.taxonomy.relations import APART, INSTANCE, SAME, UNKNOWN

__all__ = ["RatingRelation", "check_ratings"]

Rows = slice | Tensor | None


class RatingRelation(PairRelation):
    """The relation of pairs by their ratings, in the codes of a tree of depth 0.

    Views of one sample are `INSTANCE`; else two samples whose ratings have a Jaccard similarity above the
    threshold are `SAME`, others `APART`, and `UNKNOWN` if they have no aspect in common.

    Args:
        queries: the n queries; of their labels, the instances alone count.
        keys: the m keys, likewise.
        offset: as in `PairRelation`.
        query_ratings: `(n, A)`; −1 where missing.
        key_ratings: `(m, A)`.
        threshold: what the similarity must exceed.
    """

    def __init__(
        self,
        queries: LabelRows,
        keys: LabelRows,
        *,
        offset: int | None,
        query_ratings: Tensor,
        key_ratings: Tensor,
        threshold: float,
    ) -> None:
        super().__init__(queries, keys, offset=offset)
        self.threshold = threshold
        self._ratings = query_ratings, key_ratings
        self._last: tuple[tuple[Rows, Rows], tuple[Tensor, Tensor]] | None = None

    @classmethod
    def of_ratings(cls, ratings: Tensor, instances: Tensor | None, threshold: float) -> RatingRelation:
        """The relation of a batch with itself.

        Args:
            ratings: `(n, A)`; −1 where missing.
            instances: `(n,)` instance ids; None: every row is its own instance.
            threshold: what the similarity must exceed.
        """
        missing = ratings.new_full((len(ratings),), -1)
        rows = LabelRows(missing, missing.new_empty((len(ratings), 0)), instances, None)
        return cls(rows, rows, offset=0, query_ratings=ratings, key_ratings=ratings, threshold=threshold)

    def codes(self, rows: Rows = None, cols: Rows = None) -> Tensor:
        """As `PairRelation.codes`."""
        return self._tile(rows, cols)[0]

    def weight(self, rows: Rows = None, cols: Rows = None) -> Tensor:
        """The similarity of positives, `(b, c)`: 1 for views of one sample, 0 for pairs that are none."""
        codes, similarity = self._tile(rows, cols)
        weight = torch.where(codes == SAME, similarity, 0.0)
        return weight.masked_fill_(codes == INSTANCE, 1.0)

    @cached_property
    def kinds(self) -> Tensor:
        """A number `(n,)` int64 from 0 for the ratings of each query, the same for equal ones.

        They ascend with the sum of the ratings: J is at most the lower sum over the higher one, so that whole
        ranges of kinds have no positives in others.
        """
        ratings = self._ratings[0]
        kinds: Tensor = torch.unique(ratings.clamp(min=0).sum(1), return_inverse=True)[1]
        for aspect in ratings.unbind(1):  # the rank by all aspects so far: no number is too large
            values, value = torch.unique(aspect, return_inverse=True)
            kinds = torch.unique(kinds * len(values) + value, return_inverse=True)[1]
        return kinds

    def kind_weights(
        self, rows: slice | Tensor, cols: slice | Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor | None]:
        """What the ratings say of queries of some kinds and of others.

        Returns:
            `(b, c)` as `dtype`, the weight of what is `SAME`, and 0 elsewhere; `(b, c)` 1 for `UNKNOWN` and
            else 0, None where nothing is.
        """
        return self._overlap_of_kinds.above(self.threshold, rows, cols, dtype)

    @cached_property
    def _overlap(self) -> RatingOverlap:
        return RatingOverlap(*self._ratings)

    @cached_property
    def _overlap_of_kinds(self) -> RatingOverlap:
        ratings, kinds = self._ratings[0], self.kinds
        row = torch.arange(len(kinds), device=kinds.device)
        size = int(kinds.max()) + 1 if len(kinds) else 0
        ratings = ratings[row.new_empty(size).scatter_(0, kinds, row)]
        return RatingOverlap(ratings, ratings)

    def _tile(self, rows: Rows, cols: Rows) -> tuple[Tensor, Tensor]:
        """Codes and similarities of a tile; the last one is kept, as its weights follow upon its codes."""
        where = rows, cols
        lasting = not isinstance(rows, Tensor) and not isinstance(cols, Tensor)
        if lasting and self._last is not None and self._last[0] == where:
            return self._last[1]
        codes = super().codes(rows, cols)  # INSTANCE, excluded, or nothing known
        similarity = self._overlap.jaccard(rows, cols)
        of_ratings = torch.where(similarity > self.threshold, SAME, APART)
        of_ratings.masked_fill_(similarity.isnan(), UNKNOWN)
        tile = torch.where(codes == UNKNOWN, of_ratings, codes), similarity
        if lasting:
            self._last = where, tile
        return tile


def check_ratings(ratings: object, embeddings: Tensor) -> Tensor:
    """The ratings as int64 `(n, A)` on the device of the embeddings `(n, d)`.

    Raises:
        ValueError: if they are of another shape or type, or a rating is below −1.
    """
    n = len(embeddings)
    if not isinstance(ratings, Tensor) or ratings.dtype == torch.bool or ratings.dim() != 2:
        shape = f" of shape {tuple(ratings.shape)}" if isinstance(ratings, Tensor) else ""
        raise ValueError(
            f"ratings must be an integer tensor of shape ({n}, A), a column per aspect; "
            f"got {getattr(ratings, 'dtype', type(ratings).__name__)}{shape}"
        )
    if ratings.is_floating_point() or ratings.is_complex() or len(ratings) != n:
        raise ValueError(
            f"ratings must be an integer tensor of shape ({n}, A), one row per row of embeddings "
            f"{tuple(embeddings.shape)}; got {ratings.dtype} of shape {tuple(ratings.shape)}"
        )
    if ratings.numel() and int(ratings.min()) < -1:
        row = int((ratings < -1).any(1).nonzero()[0])
        raise ValueError(
            f"ratings must be 0 or more, or -1 where one is missing; got {ratings[row].tolist()} in row {row}"
        )
    return ratings.to(embeddings.device, torch.int64)
