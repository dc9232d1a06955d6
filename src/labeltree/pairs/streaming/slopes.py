"""The way back from pair statistics to the similarities of a tile."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.pairs.summary import PairWeight

__all__ = ["Slopes"]


class Slopes:
    """The derivative of the loss with respect to the similarities of a tile, from those of the statistics.

    Args:
        scale: `(R,)` ω, or None.
        lse: `(n, R)`.
        index: `(n, R)` of the least similar keys.
        grads: of the fields of `PairStatistics`, in their order.
        pair_weight: as in `pair_statistics`.
    """

    def __init__(
        self,
        scale: Tensor | None,
        lse: Tensor,
        index: Tensor,
        grads: tuple[Tensor | None, ...],
        pair_weight: PairWeight | None,
    ) -> None:
        _, of_sum, of_lse, self._of_least, _, _, self._of_weighted = grads
        self._index, self._lse, self._size = index, lse, lse.shape[1]
        self._pair_weight = pair_weight
        self._of_sum, self._of_lse = of_sum, of_lse
        self._factor, self._of_factor = None, None
        excluded = lse.new_zeros(len(lse), 1)
        if scale is not None:
            self._factor = torch.cat([scale.to(lse.dtype), lse.new_ones(1)])
            self._of_factor, self._scale_dtype = torch.zeros_like(self._factor), scale.dtype
        if of_sum is not None:
            self._of_sum = torch.cat([of_sum, excluded], dim=1)
        if of_lse is not None:
            self._of_lse = torch.cat([of_lse, excluded], dim=1)
            self._lse = torch.cat([lse, excluded + torch.inf], dim=1)

    @property
    def of_scale(self) -> Tensor | None:
        """The gradient of the scale, of the tiles so far."""
        return None if self._of_factor is None else self._of_factor[:-1].to(self._scale_dtype)

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
                self._of_factor.index_add_(0, codes.flatten(), (share * s).flatten())
        if self._of_least is not None:
            at = self._index[rows] - cols.start
            i, r = ((at >= 0) & (at < s.shape[1])).nonzero(as_tuple=True)
            slope.index_put_((i, at[i, r]), self._of_least[rows][i, r], accumulate=True)
        if self._of_weighted is not None:
            assert self._pair_weight is not None
            w = self._pair_weight(rows, cols).to(s.dtype).masked_fill(codes == self._size, 0.0)
            slope += w * self._of_weighted[rows][:, None]
        return slope
