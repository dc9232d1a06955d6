"""Pairs of samples by their ratings: how far two rows of ordinal numbers overlap, and what that says."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry.precision import widen
from labeltree.pairs import LabelRows, PairRelation
from labeltree.taxonomy.relations import APART, INSTANCE, SAME, UNKNOWN

__all__ = ["RatingRelation", "check_ratings", "jaccard"]

Rows = slice | Tensor | None


def jaccard(u: Tensor, v: Tensor) -> Tensor:
    """The Jaccard similarity of ratings, Σ_a min(u_a, v_a) / Σ_a max(u_a, v_a), of every pair.

    The sums run over the aspects that both rows have. Rows that are all 0 there are equal: their similarity
    is 1. Where two rows have no aspect in common nothing can be said: NaN.

    Args:
        u: `(b, A)` integers, ratings of 0 or more; −1 where one is missing.
        v: `(c, A)`, likewise.

    Returns:
        `(b, c)` float64 in [0, 1] or NaN.

    Example:
        >>> hotels = torch.tensor([[5, 4, 4], [4, 5, -1], [-1, -1, 2]])
        >>> jaccard(hotels, hotels)
        tensor([[1.0000, 0.8000, 0.5000],
                [0.8000, 1.0000,    nan],
                [0.5000,    nan, 1.0000]], dtype=torch.float64)
    """
    least = u.new_zeros((len(u), len(v)))
    most, shared = torch.zeros_like(least), torch.zeros_like(least, dtype=torch.bool)
    for a, b in zip(u.unbind(1), v.unbind(1), strict=True):  # one aspect at a time: no (b, c, A) table
        known = (a >= 0)[:, None] & (b >= 0)[None]
        least += torch.minimum(a[:, None], b[None]) * known
        most += torch.maximum(a[:, None], b[None]) * known
        shared |= known
    # integers up to here, and one division in float64: a ratio of 4/5 is not above a threshold of 0.8
    value = torch.where(most > 0, widen(least) / widen(most.clamp(min=1)), 1.0)
    return torch.where(shared, value, torch.nan)


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
        self.query_ratings = query_ratings
        self.key_ratings = key_ratings
        self.threshold = threshold

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
        by_instance = super().codes(rows, cols)  # INSTANCE, excluded, or nothing known
        similarity = jaccard(*self._tile(rows, cols))
        of_ratings = torch.where(similarity > self.threshold, SAME, APART)
        of_ratings.masked_fill_(similarity.isnan(), UNKNOWN)
        return torch.where(by_instance == UNKNOWN, of_ratings, by_instance)

    def weight(self, rows: Rows = None, cols: Rows = None) -> Tensor:
        """The similarity of positives, `(b, c)`: 1 for views of one sample, 0 for pairs that are none."""
        codes, similarity = self.codes(rows, cols), jaccard(*self._tile(rows, cols))
        weight = torch.where(codes == SAME, similarity, 0.0)
        return weight.masked_fill_(codes == INSTANCE, 1.0)

    def _tile(self, rows: Rows, cols: Rows) -> tuple[Tensor, Tensor]:
        u, v = self.query_ratings, self.key_ratings
        return (u if rows is None else u[rows]), (v if cols is None else v[cols])


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
