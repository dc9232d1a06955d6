"""How far rows of ordinal numbers overlap: the Jaccard similarity of every pair, as a few products."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from labeltree.geometry.precision import widen

__all__ = ["RatingOverlap", "jaccard"]

Rows = slice | Tensor | None

_MOST_BITS = 512  # per row; above, products of bits cost more than a loop over the aspects
_LARGEST = 256  # exact however a device multiplies float32
_MOST_SUM = 2048  # below, float32 tells all fractions of whole numbers apart
_NOTHING = 1e-30  # a whole number stays what it is when this is added; 0/0 becomes 1


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
        self._most_sum = sum(int(step[-1]) for step in steps if len(step))
        if self._in_bits:
            known, theirs = ((x >= 0).float() for x in (queries, keys))
            ours, others = queries.clamp(min=0).float(), keys.clamp(min=0).float()
            heights, bits = _bits(queries, steps, high=True), _bits(keys, steps)
            self._totals = ours.sum(1), others.sum(1)
            # nothing is missing, and no row is all 0: no denominator is 0
            self._complete = bool((both >= 0).all() & (both > 0).any(1).all())
            self._least = heights, bits
            self._both = torch.cat([ours, known], dim=1), torch.cat([theirs, others], dim=1)
            self._shared = known, theirs

    def jaccard(self, rows: Rows = None, cols: Rows = None) -> Tensor:
        """As the function, for a tile `(b, c)`."""
        with torch.autocast(self._keys.device.type, enabled=False):  # bfloat16 does not hold these numbers
            least, most, shared = self._sums(rows, cols)
        # integers up to here, and one division in float64: a ratio of 4/5 is not above a threshold of 0.8
        value = widen(least).div_(widen(most))  # 0/0 where nothing is shared, or all is 0
        return value.masked_fill_((most == 0) & (shared > 0), 1.0)

    def above(
        self, threshold: float, rows: Rows, cols: Rows, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor | None]:
        """The similarities of a tile that exceed the threshold, and where there is none.

        Rounding to float32 makes no difference to which do: a fraction is compared with the largest one that
        does not exceed the threshold, and float32 tells all of them apart.

        Returns:
            `(b, c)` as `dtype`, 0 where it does not exceed the threshold; `(b, c)` 1 where two rows have no
            aspect in common and else 0, None where all have.
        """
        if not self._in_bits or self._most_sum > _MOST_SUM:
            value = self.jaccard(rows, cols)
            nothing = value.isnan()
            value.masked_fill_(~(value > threshold), 0.0)
            return value.to(dtype), nothing.to(dtype) if bool(nothing.any()) else None
        unknown: Tensor | None = None
        with torch.autocast(self._keys.device.type, enabled=False):
            least = _products(self._least, rows, cols)
            if self._complete:
                ours, theirs = self._totals
                most = (_part(ours, rows)[:, None] + _part(theirs, cols)).sub_(least)
            else:
                most = _products(self._both, rows, cols).sub_(least)
                shared = _products(self._shared, rows, cols)
                least.add_(shared, alpha=_NOTHING)
                most.add_(shared, alpha=_NOTHING)
                if shared.numel() and not shared.amin() > 0:
                    unknown = shared.clamp_(max=1).neg_().add_(1).to(dtype)
                    most.clamp_(min=_NOTHING)
        bound = torch.tensor(_largest_fraction(threshold, self._most_sum), dtype=dtype).item()
        value = least.to(dtype).div_(most.to(dtype))
        return torch.nn.functional.threshold(value, bound, 0.0, inplace=True), unknown

    def _sums(self, rows: Rows, cols: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """Σ min, Σ max and the number of aspects that both rows have."""
        if self._in_bits:
            least, both, shared = (
                _products(of, rows, cols) for of in (self._least, self._both, self._shared)
            )
            return least, both - least, shared
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


def _products(of: tuple[Tensor, Tensor], rows: Rows, cols: Rows) -> Tensor:
    """Inner products `(b, c)` of rows of the one with rows of the other."""
    return _part(of[0], rows) @ _part(of[1], cols).T


def _part(x: Tensor, rows: Rows) -> Tensor:
    return x if rows is None else x[rows]


@lru_cache(maxsize=64)
def _largest_fraction(threshold: float, most: int) -> float:
    """The largest fraction with a denominator up to `most` that does not exceed it, or a bit above 0."""
    below = torch.arange(1, most + 1, dtype=torch.float64)
    near = (threshold * below).floor() + torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
    fractions = near / below
    found = fractions[fractions <= threshold]
    return max(float(found.max()) if found.numel() else 0.0, 1e-20)
