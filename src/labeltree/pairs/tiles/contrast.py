"""Contrast over tiles: log-sum-exps over the denominators of a table's terms, and sums of their numerators.

Cosines are bounded, so exp(ω·s) needs no maximum taken off as long as ω/τ fits the exponent of the number
format: tiles are float32 up to ω/τ = 44, float64 beyond. Relations that stand in the same denominators are
summed together, so that mostly, where all pairs compete in all terms, a tile has one sum per row.

With E = exp(ω·s), a_i the slope of the loss in the row's sum of exponentials and b_i(r) that in its sums of
ω·s, the slope in a cosine is (E·(a_i + a_k) + b_i(r) + b_k(r))·ω/τ. In a tight cluster both parts nearly
cancel, and the gradient is what is left: they are therefore added pair by pair.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labeltree.pairs.tiles.grid import Grid, Tile, scratch
from labeltree.pairs.tiles.walk import Cosines, Slope

__all__ = ["Contrast", "add_up", "exponent_dtype"]

# of the exponent to base 2: sums of exponentials, and slopes divided by them, are far from the format's ends
_LARGEST = {torch.float32: 64.0, torch.float64: 900.0}
_FAR = 1e4  # beyond every exponent there is


def exponent_dtype(dtype: torch.dtype, temperature: float, scale: Tensor | None) -> torch.dtype | None:
    """The type in which exp(ω/τ) of embeddings of a type fits with room to spare; None if there is none."""
    omega = 1.0 if scale is None else float(scale.abs().max())
    exponent = omega / temperature * math.log2(math.e)
    for candidate in (torch.float32, torch.float64):
        if exponent <= _LARGEST[candidate] and (dtype == torch.float32 or candidate == torch.float64):
            return candidate
    return None


class Contrast:
    """A `TileLoss` that finds, for every row i and term t, sums over the members and the positives of t.

        lse_it   = log Σ_{k: member_t(r_ik)} exp(ω(r_ik)·s_ik),  0 without members
        total_it = Σ_k positive_t(r_ik)·ω(r_ik)·s_ik
        least_it = min of s_ik over the positives, +∞ without any; without gradient

    Attributes:
        attracted: After the forward, `(n, T)` Σ_k positive_t(r_ik), in the order of the batch.
        normaliser: Likewise, Σ_k normaliser_t(r_ik).
        least: Likewise, the least similarities; only if requested.

    Args:
        grid: The tiles.
        dtype: Dtype of the embeddings.
        temperature: τ.
        positive: `(T, R)`.
        normaliser: `(T, R)`.
        member: `(T, R)` bool.
        scale: `(R,)` ω, or None.
        least: Whether the least similarities are wanted rather than `total`.
    """

    def __init__(
        self,
        grid: Grid,
        dtype: torch.dtype,
        temperature: float,
        positive: Tensor,
        normaliser: Tensor,
        member: Tensor,
        scale: Tensor | None,
        *,
        least: bool = False,
    ) -> None:
        exponents = exponent_dtype(dtype, temperature, scale)
        assert exponents is not None
        self._grid, self._temperature, self._dtype, self._exponents = grid, temperature, dtype, exponents
        self._base = math.log2(math.e) / temperature
        self._scale = None if scale is None else scale.detach().to(dtype)
        self._omega = None if scale is None else scale.tolist()
        columns = torch.cat([member.to(positive.dtype), positive, normaliser])
        groups, group = torch.unique(columns, dim=1, return_inverse=True)
        in_terms, self._positive, self._share = groups.double().chunk(3)
        sets, set_of = torch.unique(in_terms, dim=1, return_inverse=True)
        self._member = sets
        self._group, self._set = group, set_of[group]
        self._group_of, self._set_of = group.tolist(), set_of.tolist()
        self._attracts = (self._positive != 0).any(0).tolist()
        self._counts = ((self._positive != 0) | (self._share != 0)).any(0).tolist()
        self._competes = (sets != 0).any(0).tolist()
        self._is_group = (torch.arange(groups.shape[1], device=group.device)[:, None] == group).to(dtype)
        own = len(grid.order) if grid.shard is None else len(grid.shard)
        self._sums = sets.new_zeros(sets.shape[1], own)
        self._count, self._total = sets.new_zeros(len(self._counts), own), sets.new_zeros(0)
        if least:
            self._total = self._total.new_full(self._count.shape, torch.inf)
        else:
            self._total = torch.zeros_like(self._count)
        self._least = least

    def see(self, tile: Tile, cosines: Cosines) -> Tensor:
        """As `TileLoss.see`."""
        exponent, pure = self._exponent(tile, cosines), tile.code >= 0
        groups, sets = self._present(tile)
        if any(self._counts[group] for group in groups):
            if pure:
                _add_up_pure(self._count[groups[0]], tile)
            else:
                self._grid.add_counts(self._count, tile, self._group)
            if self._least:
                for group in groups:
                    self._lower(tile, exponent, group)
            elif pure:
                add_up(self._total[groups[0]], tile, exponent)
            else:
                self._grid.add_sums(self._total, tile, exponent, self._group)
        values = tile.clear(exponent.to(self._exponents).exp2_())
        if len(sets) > 1:
            self._grid.add_sums(self._sums, tile, values, self._set)
        elif self._competes[sets[0]]:
            add_up(self._sums[sets[0]], tile, values)
        return values

    def _lower(self, tile: Tile, exponent: Tensor, group: int) -> None:
        """Lower the least exponents of a group of positives."""
        if not self._attracts[group]:
            return
        least, part = self._total[group], exponent
        if tile.code < 0:
            mask = self._grid.spread(tile, self._is_group[group], "mask")
            part = torch.mul(exponent, mask, out=scratch("part", tile.shape, mask))
            part.add_(mask.mul_(-_FAR).add_(_FAR))
        least[tile.rows] = torch.minimum(least[tile.rows], part.amin(1))
        if tile.both:
            least[tile.cols] = torch.minimum(least[tile.cols], part.amin(0))

    def results(self) -> tuple[Tensor, ...]:
        """The log-sum-exps and, unless the least similarities are wanted, the totals, `(n, T)`."""
        tables = [self._sums, self._count, self._total]
        every = self._grid.from_ranks(torch.cat(tables).T)
        sums, count, total = torch.split(every, [len(table) for table in tables], dim=1)
        del self._sums, self._count, self._total
        self._denominators = sums @ self._member.T
        lse = torch.where(self._denominators > 0, self._denominators, 1.0).log_().to(self._dtype)
        self.attracted, self.normaliser = (
            self._grid.unsorted((count @ x.T).to(self._dtype)) for x in (self._positive, self._share)
        )
        if not self._least:
            return lse, (total @ self._positive.T).mul_(math.log(2)).to(self._dtype)
        total = torch.where(total > _FAR / 2, torch.inf, total * math.log(2))
        least = [
            total[:, term != 0].amin(1) if bool(term.any()) else total.new_full((len(total),), torch.inf)
            for term in self._positive
        ]
        self.least = self._grid.unsorted(torch.stack(least, dim=1).to(self._dtype))
        return (lse,)

    def slopes(self, *grads: Tensor | None) -> Slope:
        """As `TileLoss.slopes`."""
        grad_lse, grad_total, here = grads[0], None if self._least else grads[1], self._denominators
        zero = here.new_zeros(len(here), len(self._member))
        of_sums = zero if grad_lse is None else torch.where(here > 0, grad_lse / here, 0.0)
        of_sums = (of_sums @ self._member).div_(self._temperature).to(self._exponents).T.contiguous()
        own_sums = self._grid.own(of_sums.T).T
        of_total = own_total = None
        if grad_total is not None:
            of_total = (grad_total.double() @ self._positive).div_(self._temperature)
            of_total = of_total.to(self._dtype).T.contiguous()
            own_total = self._grid.own(of_total.T).T

        def slope(tile: Tile, seen: Tensor | None, cosines: Cosines) -> Tensor:
            groups, sets = self._present(tile)
            omega = self._omega[tile.code] if self._omega is not None and tile.code >= 0 else 1.0
            if seen is None:
                seen = tile.clear(self._exponent(tile, cosines).to(self._exponents).exp2_())
            if len(sets) > 1:
                slopes = seen.mul_(self._grid.both_sides(tile, own_sums, of_sums, self._set))
            else:  # 0 of a set that stands in no denominator
                row, col = own_sums[sets[0], tile.rows, None], of_sums[sets[0], tile.cols]
                slopes = seen.mul_(
                    torch.add(row * omega, col * omega, out=scratch("slopes", tile.shape, seen))
                )
            slopes = slopes.to(self._dtype)
            if own_total is not None and of_total is not None and any(self._attracts[g] for g in groups):
                if tile.code < 0:
                    slopes.add_(self._grid.both_sides(tile, own_total, of_total, self._group))
                else:
                    row, col = own_total[groups[0], tile.rows, None], of_total[groups[0], tile.cols]
                    both = torch.add(row * omega, col * omega, out=scratch("part", tile.shape, slopes))
                    slopes.add_(both)
            return self._scale_pairs(tile, slopes)

        return slope

    def _present(self, tile: Tile) -> tuple[list[int], list[int]]:
        """The groups and the sets of relations of a tile's pairs."""
        groups = sorted({self._group_of[code] for code in self._grid.present(tile)})
        return groups, sorted({self._set_of[group] for group in groups})

    def _exponent(self, tile: Tile, cosines: Cosines) -> Tensor:
        """ω·s in units of log 2, `(b, c)`."""
        omega = self._omega[tile.code] if self._omega is not None and tile.code >= 0 else 1.0
        return self._scale_pairs(tile, cosines(self._base * omega))

    def _scale_pairs(self, tile: Tile, values: Tensor) -> Tensor:
        """The values times ω, in place, unless one number ω is that of all pairs of the tile."""
        if self._scale is None or tile.code >= 0:
            return values
        return values.mul_(self._grid.spread(tile, self._scale, "mask"))


def _add_up_pure(count: Tensor, tile: Tile) -> None:
    """Add the pairs of a tile of one relation to `count (m,)`."""
    count[tile.rows] += tile.shape[1]
    if tile.both:
        count[tile.cols] += tile.shape[0]


def add_up(total: Tensor, tile: Tile, values: Tensor) -> None:
    """Add a tile's row sums to `total (m,)`; for both sides, its column sums, too."""
    total[tile.rows] += values.sum(1)
    if tile.both:
        total[tile.cols] += values.sum(0)
