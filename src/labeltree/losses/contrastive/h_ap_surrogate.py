"""The smooth surrogate of H-AP that HAPPIER maximises, and its gradient, in O(n log n) for every anchor.

The rank of a result sums a step of similarity differences d = s_j − s_k over the less relevant results j

    H⁻(d) = σ(d/τ) up to d = 0,   σ(d/τ) + 1/2 up to δ,   ρ·(d − δ) + c beyond

which is a smooth sum over all results, and what the results beyond 0 and beyond δ add to it:

    σ(d/τ)  +  [d > 0]/2  +  [d > δ]·(ρ·(d − δ) + c − 3/2 + Σ_m (−1)^(m+1)·exp(−m·d/τ))

The terms in brackets are prefix sums of the sorted similarities: 1, s and exp(−m·s/τ), of which three are
enough with δ ≥ 5τ. The sigmoid is summed by cells of width 4τ: the results of a cell become Chebyshev
moments, cells at most seven apart act on each other through a matrix, cells further apart as 0 or 1. So it is
accurate to 1e-8 of the number of results, in time and memory linear in n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["SmoothRank", "h_ap_surrogate"]

_ORDER = 14
"""Chebyshev polynomials of a cell: 3.4^-14 is 3e-8."""
_REACH = 7
"""Cells further apart are 28τ apart: e^-28 is 1e-12."""
_AROUND = 2 * _REACH + 1
_EXPONENTIALS = (1, 2, 3)
"""e^-20 is 2e-9, the first that is left out."""


@dataclass(frozen=True)
class SmoothRank:
    """The step H⁻ by which less relevant results raise a rank.

    Attributes:
        temperature: τ, from 0.005 to δ/5.
        slope: ρ ≥ 0, of the line beyond δ.
        delta: δ, where the line begins.
        offset: c, where it begins.
    """

    temperature: float = 0.01
    slope: float = 100.0
    delta: float = 0.05
    offset: float = 1.44

    def __post_init__(self) -> None:
        if not 0.005 <= self.temperature <= self.delta / 5 * (1 + 1e-9) < math.inf:
            raise ValueError(
                f"temperature is {self.temperature} and delta {self.delta}; expected a temperature of at "
                "least 0.005 and of at most a fifth of delta"
            )
        if not (0 <= self.slope < math.inf and math.isfinite(self.offset)):
            raise ValueError(
                f"slope is {self.slope} and offset {self.offset}; expected finite numbers, the slope at "
                "least 0"
            )


def h_ap_surrogate(
    similarity: Tensor,
    depth: Tensor,
    ranked: Tensor,
    known: Tensor,
    relevance: Tensor,
    step: SmoothRank,
    *,
    by_depth: bool = False,
) -> tuple[Tensor, Tensor]:
    """1 − the surrogate of H-AP for every anchor, and its gradient.

        1 − Σ_k H-rank(k)/rank(k) / Σ_k rel(k)
        H-rank(k) = Σ_j min(rel(j), rel(k))·[s_j ≥ s_k],   j = k included, without gradient
        rank(k) = Σ_{j: rel(j) ≥ rel(k)} [s_j ≥ s_k] + Σ_{j: rel(j) < rel(k)} H⁻(s_j − s_k)

    over the results k with rel(k) > 0. A result whose depth is not known for certain counts for k only if it
    shares at least the depth of k.

    Args:
        similarity: `(b, n)` float64 from −1 to 1.
        depth: `(b, n)` int64 depth that anchor and result share, 0 to L.
        ranked: `(b, n)` bool, the results: not the anchor itself, nor what it says nothing about.
        known: `(b, n)` bool, whether they share this depth and no more.
        relevance: `(b, L + 1)` float64 rel of each depth, 0 at depth 0.
        step: H⁻.
        by_depth: a result is less relevant than k if it shares less depth, whatever its rel.

    Returns:
        `(b,)`, 0 for an anchor without a relevant result, and `(b, n)`, its derivative by the similarity.
    """
    order = similarity.argsort(dim=1, descending=True, stable=True)
    s = similarity.gather(1, order)
    depth, ranked, known = (x.gather(1, order) for x in (depth, ranked, known))
    own = relevance.gather(1, depth) * ranked
    sums = _Sums(s, step)
    value, slopes = torch.zeros_like(s[:, 0]), torch.zeros_like(s)
    for level in range(1, relevance.shape[1]):
        wanted = relevance[:, level : level + 1]
        target = ranked & (depth == level) & (wanted > 0)
        if not bool(target.any()):
            continue
        within = ranked & (known | (depth >= level))
        less = within & ((depth < level) if by_depth else (own < wanted))
        at = target.reshape(-1).nonzero()[:, 0]
        rank, fall = sums.ranks(less, at)
        rank = rank + sums.at_least(within & ~less, at)
        gained = sums.at_least(torch.minimum(own, wanted) * within, at)
        weight = torch.zeros_like(s).reshape(-1)
        weight[at] = gained / rank.square()
        value += torch.zeros_like(weight).index_copy_(0, at, gained / rank).view_as(s).sum(1)
        slopes += sums.pulled(less, weight.view_as(s), at)
        slopes.view(-1)[at] -= weight[at] * fall
    total = own.sum(1)
    some = total > 0
    total = torch.where(some, total, 1.0)
    loss = torch.where(some, 1 - value / total, 0.0)
    gradient = torch.empty_like(slopes).scatter_(1, order, slopes / total[:, None])
    return loss, gradient


class _Sums:
    """Sums over the results of every anchor, whose similarities `s` (b, n) fall."""

    def __init__(self, s: Tensor, step: SmoothRank) -> None:
        self.s, self.step = s, step
        self.tau = step.temperature
        rising = -s
        # how many are above, at least at, and above by δ; and how many are not below by δ
        self.above = self._flat(torch.searchsorted(rising, rising))
        self.reach = self._flat(torch.searchsorted(rising, rising, right=True))
        self.beyond = self._flat(torch.searchsorted(rising, rising - step.delta))
        self.before = self._flat(torch.searchsorted(rising, rising + step.delta, right=True))
        self.cells = _Cells(s, self.tau)
        self.decays = [torch.exp(-m / self.tau * s) for m in _EXPONENTIALS]

    def _flat(self, index: Tensor) -> Tensor:
        """(b·n,) the same indices into (b, n + 1), flattened."""
        start = torch.arange(len(index), device=index.device) * (index.shape[1] + 1)
        return (index + start[:, None]).reshape(-1)

    def at_least(self, values: Tensor, at: Tensor) -> Tensor:
        """(t,) sum of values (b, n) over results at least as similar as those `at` (t,)."""
        return _before(values.to(self.s.dtype))[self.reach[at]]

    def ranks(self, less: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        """(t,) Σ H⁻(s_j − s_k) over the results `less` (b, n), for each k of `at`, and of its derivative."""
        step, s = self.step, self.s.reshape(-1)[at]
        mask = less.to(s.dtype)
        rank, fall = self.cells.sums(mask, at)
        count = _before(mask)
        number, beyond = count[self.beyond[at]], self.beyond[at]
        total = _before(mask * self.s)[beyond]
        rank = rank + 0.5 * count[self.above[at]]
        rank += step.slope * (total - (s + step.delta) * number) + (step.offset - 1.5) * number
        fall = fall + step.slope * number
        for m, decay in zip(_EXPONENTIALS, self.decays, strict=True):
            tail = _before(mask * decay)[beyond] / decay.reshape(-1)[at]
            rank -= (-1) ** m * tail
            fall += (-1) ** m * m / self.tau * tail
        return rank, fall

    def pulled(self, less: Tensor, weight: Tensor, at: Tensor) -> Tensor:
        """(b, n) Σ_k weight_k · derivative of H⁻(s_j − s_k) for each j of `less`, else 0; k is of `at`."""
        pulled = self.cells.transposed(weight, at)
        pulled += self.step.slope * _after(weight)[self.before].view_as(pulled)
        for m, decay in zip(_EXPONENTIALS, self.decays, strict=True):
            tail = _after(weight / decay)[self.before].view_as(pulled) * decay
            pulled += (-1) ** m * m / self.tau * tail
        return torch.where(less, pulled, 0.0)


def _before(values: Tensor) -> Tensor:
    """(b·(n + 1),) sums of the first 0, 1 … n of values (b, n)."""
    sums = values.new_zeros(values.shape[0], values.shape[1] + 1)
    torch.cumsum(values, dim=1, out=sums[:, 1:])
    return sums.reshape(-1)


def _after(values: Tensor) -> Tensor:
    """(b·(n + 1),) sums of all values (b, n) but the first 0, 1 … n."""
    sums = values.new_zeros(values.shape[0], values.shape[1] + 1)
    sums[:, :-1] = values.flip(1).cumsum(1).flip(1)
    return sums.reshape(-1)


class _Cells:
    """Sums of σ((s_j − s_k)/τ) and of its derivative, by cells of width 4τ from −1 to 1."""

    def __init__(self, s: Tensor, tau: float) -> None:
        self.shape = s.shape
        self.count = math.ceil(1 / (2 * tau))
        place = (s.reshape(-1) + 1) / (4 * tau)
        cell = place.floor().clamp(0, self.count - 1)
        self.polynomials = _chebyshev(2 * (place - cell) - 1)
        row = torch.arange(len(s), device=s.device)[:, None]
        cell = cell.to(torch.int64).view_as(s)
        self.cell = (cell + row * self.count).reshape(-1)
        self.padded = (cell + row * (self.count + 2 * _REACH) + _REACH).reshape(-1)
        self.matrix, self.back = _matrices(tau, s.device)

    def sums(self, mask: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        """(t,) both sums over the results with mask (b, n), for the results `at`."""
        padded = self._moments(mask, at=None)
        cells, places = torch.unique(self.cell[at], return_inverse=True)
        windows = padded.unfold(1, _AROUND, 1)[cells // self.count, cells % self.count]
        near = windows.transpose(1, 2).reshape(len(cells), _AROUND * _ORDER) @ self.matrix
        both = near.view(-1, 2, _ORDER)[places]
        sums = torch.einsum("tkp,tp->kt", both, self.polynomials[at])
        # cells too far above count whole
        counts = padded[:, :, 0].flip(1).cumsum(1).flip(1)
        far = torch.zeros_like(counts[:, : self.count])
        far[:, : -_REACH - 1] = counts[:, _AROUND : self.count + _REACH]
        return sums[0] + far.reshape(-1)[self.cell[at]], sums[1]

    def transposed(self, weight: Tensor, at: Tensor) -> Tensor:
        """(b, n) Σ_k weight_k σ'((s_j − s_k)/τ)/τ for each result j; weight (b, n) is 0 but at `at`."""
        moments = self._moments(weight, at)[:, _REACH : _REACH + self.count].reshape(-1, _ORDER)
        cells = torch.unique(self.cell[at])
        spread = (moments[cells] @ self.back).view(-1, _ORDER)
        width = self.count + 2 * _REACH
        first = cells // self.count * width + cells % self.count
        around = (first[:, None] + torch.arange(_AROUND, device=cells.device)).reshape(-1)
        near = weight.new_zeros(self.shape[0] * width, _ORDER).index_add_(0, around, spread)
        near = near.view(self.shape[0], width, _ORDER)[:, _REACH : _REACH + self.count]
        rows = near.reshape(-1, _ORDER)[self.cell]
        return rows.mul_(self.polynomials).sum(1).view(self.shape)

    def _moments(self, weight: Tensor, at: Tensor | None) -> Tensor:
        """(b, cells + 2·reach, p) sums of weight (b, n) times the polynomials, of all results or some."""
        width = self.count + 2 * _REACH
        moments = weight.new_zeros(self.shape[0] * width, _ORDER)
        flat = weight.reshape(-1)
        if at is None:
            moments.index_add_(0, self.padded, self.polynomials * flat[:, None])
        else:
            moments.index_add_(0, self.padded[at], self.polynomials[at] * flat[at, None])
        return moments.view(self.shape[0], width, _ORDER)


def _chebyshev(t: Tensor) -> Tensor:
    """(m, p) the polynomials T_0 … T_(p−1) at t (m,)."""
    polynomials = t.new_empty(_ORDER, len(t))
    polynomials[0], polynomials[1] = 1.0, t
    for at in range(2, _ORDER):
        torch.mul(polynomials[at - 1], t, out=polynomials[at]).mul_(2).sub_(polynomials[at - 2])
    return polynomials.T.contiguous()


def _matrices(tau: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """(offsets·p, 2p) from moments of the cells around to σ and its derivative, and (p, offsets·p) back."""
    nodes = torch.cos(torch.pi * (torch.arange(_ORDER, dtype=torch.float64) + 0.5) / _ORDER)
    fit = 2 / _ORDER * _chebyshev(nodes).T
    fit[0] /= 2
    offsets = torch.arange(-_REACH, _REACH + 1, dtype=torch.float64)
    # (offset, source, target): differences in units of τ
    apart = 4 * offsets[:, None, None] + 2 * (nodes[:, None] - nodes)
    value = torch.sigmoid(apart)
    slope = value * torch.sigmoid(-apart) / tau
    value, slope = (fit @ each @ fit.T for each in (value, slope))
    # from the moments of a cell's targets to the sources of the cells around
    back = slope.permute(2, 0, 1).reshape(_ORDER, -1)
    forth = torch.cat([value, slope], dim=2).reshape(-1, 2 * _ORDER)
    return forth.to(device), back.contiguous().to(device)
