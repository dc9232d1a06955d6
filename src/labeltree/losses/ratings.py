"""Pairs of samples by their ratings: how far two rows of ordinal numbers overlap, and what that says."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry.precision import widen
from labeltree.pairs import LabelRows, PairRelation
from labeltree.taxonomy.relations import APART, INSTANCE, SAME, UNKNOWN

__all__ = ["RatingOverlap", "RatingRelation", "check_ratings", "jaccard"]

Rows = slice | Tensor | None

_MOST_BITS = 512  # per row; above, products of bits cost more than a loop over the aspects
_LARGEST = 256  # exact however a device multiplies float32


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
    return RatingOverlap(u, v).jaccard()


class RatingOverlap:
    """Ratings of queries and of keys, prepared so that a tile of Jaccard similarities is a few products.

    Σ_a min(u_a, v_a) is the inner product of two rows of bits, one for every rating t > 0 that occurs in an
    aspect: whether u_a ≥ t, counted as often as t is above the next lower one. Σ_a max = Σ_a u_a + v_a − min.
    Both are whole numbers, and exact in float32; where ratings are too large for that, or too many
    different ratings occur, they are added up aspect by aspect instead.

    Args:
        queries: `(n, A)` integers, ratings of 0 or more; −1 where one is missing.
        keys: `(m, A)`, likewise.
    """

    def __init__(self, queries: Tensor, keys: Tensor) -> None:
        self._queries, self._keys = queries, keys
        both = torch.cat([queries, keys])
        steps = [torch.unique(a[a > 0]) for a in both.unbind(1)]
        largest = int(both.max()) if both.numel() else 0
        self._in_bits = sum(map(len, steps)) <= _MOST_BITS and largest <= _LARGEST
        if self._in_bits:
            known, theirs = ((x >= 0).float() for x in (queries, keys))
            heights, bits = _bits(queries, steps, high=True), _bits(keys, steps)
            self._least = heights, bits
            self._most = (
                torch.cat([queries.clamp(min=0), known, -heights], dim=1),
                torch.cat([theirs, keys.clamp(min=0), bits], dim=1),
            )
            self._shared = known, theirs

    def jaccard(self, rows: Rows = None, cols: Rows = None) -> Tensor:
        """As the function, for a tile `(b, c)`."""
        with torch.autocast(self._keys.device.type, enabled=False):  # bfloat16 does not hold these numbers
            least, most, shared = self._sums(rows, cols)
        # integers up to here, and one division in float64: a ratio of 4/5 is not above a threshold of 0.8
        value = widen(least).div_(widen(most))  # 0/0 where nothing is shared, or all is 0
        return value.masked_fill_((most == 0) & (shared > 0), 1.0)

    def _sums(self, rows: Rows, cols: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """Σ min, Σ max and the number of aspects that both rows have."""
        if self._in_bits:
            least, most, shared = (
                _part(u, rows) @ _part(v, cols).T for u, v in (self._least, self._most, self._shared)
            )
            return least, most, shared
        u, v = _part(self._queries, rows), _part(self._keys, cols)
        least = u.new_zeros((len(u), len(v)))
        most, shared = torch.zeros_like(least), torch.zeros_like(least)
        for a, b in zip(u.unbind(1), v.unbind(1), strict=True):  # one aspect at a time: no (b, c, A) table
            known = (a >= 0)[:, None] & (b >= 0)[None]
            least += torch.minimum(a[:, None], b[None]) * known
            most += torch.maximum(a[:, None], b[None]) * known
            shared += known
        return least, most, shared


def _bits(ratings: Tensor, steps: list[Tensor], *, high: bool = False) -> Tensor:
    """A column for every step of every aspect: whether the rating reaches it; if `high`, times its height."""
    columns = [ratings[:, :0].float()]
    for aspect, step in zip(ratings.unbind(1), steps, strict=True):
        reached = aspect[:, None] >= step
        columns.append(reached * step.diff(prepend=step.new_zeros(1)).float() if high else reached.float())
    return torch.cat(columns, dim=1)


def _part(x: Tensor, rows: Rows) -> Tensor:
    return x if rows is None else x[rows]


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
        self._overlap = RatingOverlap(query_ratings, key_ratings)
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
