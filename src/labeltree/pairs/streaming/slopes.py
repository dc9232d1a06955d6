"""The way back from pair statistics to the similarities of a tile."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry.precision import widen
from labeltree.pairs.dense.statistics import sum_by_code
from labeltree.pairs.summary import PairWeight

__all__ = ["Slopes"]


class Slopes:
    """The derivative of the loss with respect to the similarities of a tile, from those of the statistics.

    Args:
        scale: `(R,)` ω, or None.
        lse: `(n, R)`, in float64.
        index: `(n, R)` of the least similar keys.
        grads: of the fields of `PairStatistics`, in their order.
        pair_weight: as in `pair_statistics`.
        dtype: of the similarities.
    """

    def __init__(
        self,
        scale: Tensor | None,
        lse: Tensor,
        index: Tensor,
        grads: tuple[Tensor | None, ...],
        pair_weight: PairWeight | None,
        dtype: torch.dtype,
    ) -> None:
        _, of_sum, of_lse, self._of_least, _, _, self._of_weighted = grads
        self._index, self._size = index, lse.shape[1]
        self._pair_weight = pair_weight
        self._of_sum, self._of_lse = of_sum, of_lse
        self._factor, self._of_factor = None, None
        excluded = lse.new_zeros(len(lse), 1, dtype=dtype)
        if scale is not None:
            self._factor = torch.cat([scale.to(dtype), scale.new_ones(1, dtype=dtype)])
            self._of_factor, self._scale_dtype = widen(torch.zeros_like(self._factor[:-1])), scale.dtype
        if of_sum is not None:
            self._of_sum = torch.cat([of_sum, excluded], dim=1)
        if of_lse is not None:
            # exp(s − lse) = exp(s − rounded)·exp(rounded − lse)
            rounded = lse.to(dtype)
            rest = torch.where(lse == -torch.inf, 0.0, rounded - lse).exp_()
            self._of_lse = torch.cat([(of_lse * rest).to(dtype), excluded], dim=1)
            self._lse = torch.cat([rounded, excluded + torch.inf], dim=1)

    @property
    def of_scale(self) -> Tensor | None:
        """The gradient of the scale, of the tiles so far."""
        return None if self._of_factor is None else self._of_factor.to(self._scale_dtype)

    def tile(self, s: Tensor, codes: Tensor, rows: slice, cols: slice, *, of_scale: bool = True) -> Tensor:
        """Slopes `(b, c)` of the anchors `rows`; adds to the gradient of the scale unless told not to."""
        slope = torch.zeros_like(s)
        if self._of_sum is not None:
            slope += self._of_sum[rows].gather(1, codes)
        if self._of_lse is not None:
            omega = None if self._factor is None else self._factor[codes]
            scaled = s if omega is None else s * omega
            share = (scaled - self._lse[rows].gather(1, codes)).exp_() * self._of_lse[rows].gather(1, codes)
            slope += share if omega is None else share * omega
            if of_scale and self._of_factor is not None:
                self._of_factor += sum_by_code(share * s, codes, self._size).sum(0)
        if self._of_least is not None:
            at = self._index[rows] - cols.start
            i, r = ((at >= 0) & (at < s.shape[1])).nonzero(as_tuple=True)
            slope.index_put_((i, at[i, r]), self._of_least[rows][i, r], accumulate=True)
        if self._of_weighted is not None:
            assert self._pair_weight is not None
            w = self._pair_weight(rows, cols).to(s.dtype).masked_fill(codes == self._size, 0.0)
            slope += w * self._of_weighted[rows][:, None]
        return slope
