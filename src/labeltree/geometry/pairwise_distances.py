"""All distances between two sets of points: exact for close pairs and near the boundary, O(n·m) memory."""

from typing import Any

import torch
from torch import Tensor

from labeltree.geometry.hand_written import differentiable_once
from labeltree.geometry.precision import answer_dtype, widen

__all__ = ["FixedPoints", "pairwise_distance"]

# |x|² + |y|² − 2x·y in float64 is good to about 1e-15·(|x|² + |y|²). Pairs closer than this share of it are
# computed again from their difference.
_CLOSE = {torch.float32: 1e-7, torch.float64: 1e-3}
# Rows are processed in blocks: on a CPU so that a block fits in the cache, elsewhere to bound the memory.
_BLOCK = {"cpu": 1 << 18}
_LARGE_BLOCK = 1 << 25


def pairwise_distance(
    x: Tensor,
    y: Tensor,
    x_factor: Tensor | None = None,
    y_factor: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Distances (n, m) between the rows of `x` (n, d) and of `y` (m, d).

    Without factors, |x − y|. With the conformal factors `x_factor` (n,), `y_factor` (m,) = 1/(1 − |x|²) of
    points in the unit ball, 2·asinh(√(|x − y|²·x_factor·y_factor)): Eq. 2 of Climbing the Label Tree in a
    form that is exact for close pairs. The gradient is 0 where two points coincide. `dtype` is the dtype of
    the result, by default that of the points, at least float32.
    """
    if x.dim() != 2 or y.dim() != 2 or x.shape[1] != y.shape[1]:
        raise ValueError(f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}; expected (n, d) and (m, d)")
    dtype = answer_dtype(x, y) if dtype is None else dtype
    if torch.compiler.is_exporting():
        return _one_expression(widen(x), widen(y), x_factor, y_factor).to(dtype)
    return _PairwiseDistance.apply(x, y, x_factor, y_factor, dtype)  # type: ignore[no-any-return]


def _one_expression(x: Tensor, y: Tensor, x_factor: Tensor | None, y_factor: Tensor | None) -> Tensor:
    """The distances (n, m) in float64, for graphs: without gradient, and without exact close pairs."""
    square = ((x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * x @ y.T).clamp(min=0.0)
    if x_factor is None or y_factor is None:
        return square.sqrt()
    z = square * x_factor.double()[:, None] * y_factor.double()
    return (1.0 + 2.0 * (z + (z * (1.0 + z)).sqrt())).log()  # 2·asinh(√z)


class FixedPoints:
    """Points that many others are compared with: what their distances need of these is computed once.

    Args:
        points: (m, d).
        factor: (m,) their conformal factors in the unit ball, or None.
    """

    def __init__(self, points: Tensor, factor: Tensor | None = None) -> None:
        self.points = widen(points)
        self.factor = factor
        self._square = (self.points * self.points).sum(1)
        self._longest = self._square.amax() if len(points) else None

    @torch.no_grad()
    def distances(
        self,
        x: Tensor,
        x_factor: Tensor | None,
        dtype: torch.dtype,
        slope: Tensor | None = None,
        share: Tensor | None = None,
    ) -> Tensor:
        """Distances (n, m) of `x` (n, d) to the points, without gradient; see `pairwise_distance`.

        `slope` (n, m) is filled with d distance/d|x − y|² and, in the ball, `share` with d distance/d log
        factor.
        """
        wide_x = widen(x)
        # |x − y|² ≤ 2|x|² + 2|y|², which may overflow the dtype of the result where |x − y| does not
        far = (
            len(x) > 0
            and self._longest is not None
            and bool(
                4 * torch.maximum((wide_x * wide_x).sum(1).amax(), self._longest) > torch.finfo(dtype).max
            )
        )
        distance = torch.empty(len(x), len(self.points), dtype=dtype, device=x.device)
        for rows in _blocks(x, self.points):
            square = _squared_distances(wide_x[rows], self.points, self._square, _CLOSE[dtype])
            if x_factor is None or self.factor is None:
                root = square.sqrt_().to(dtype) if far else square.to(dtype).sqrt_()
                if slope is not None:
                    torch.mul(root.reciprocal(), 0.5, out=slope[rows])
                distance[rows] = root
            else:
                z = square.to(dtype)  # only |x − y|² cancels digits: from here on the answer's type is enough
                factors = x_factor[rows].to(dtype)[:, None] * self.factor.to(dtype)
                z *= factors
                root = (z + 1.0).sqrt_() * z.sqrt()  # √(z(1 + z)), which could overflow
                if slope is not None and share is not None:
                    torch.div(factors, root, out=slope[rows])
                    torch.div(z, z + 1.0, out=share[rows]).sqrt_()
                distance[rows] = _log1p(z.add_(root).mul_(2.0))  # 2·asinh(√z)
        return distance


class _PairwiseDistance(torch.autograd.Function):
    """Saves d distance/d|x − y|² and, in the ball, d distance/d log factor for the backward: (n, m) each."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor,
        x_factor: Tensor | None,
        y_factor: Tensor | None,
        dtype: torch.dtype,
    ) -> Tensor:
        differentiable = any(ctx.needs_input_grad)
        slope = torch.empty(len(x), len(y), dtype=dtype, device=x.device) if differentiable else None
        share = torch.empty_like(slope) if slope is not None and x_factor is not None else None
        distance = FixedPoints(y, y_factor).distances(x, x_factor, dtype, slope, share)
        if slope is not None:
            slope.masked_fill_(distance == 0, 0.0)
        ctx.save_for_backward(x, y, x_factor, y_factor, slope, share)
        return distance

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y, x_factor, y_factor, slope, share = ctx.saved_tensors
        need_x, need_y, need_x_factor, need_y_factor, _ = ctx.needs_input_grad
        wide_x, wide_y = widen(x), widen(y)
        x_grad = torch.empty_like(wide_x) if need_x else None
        y_grad = torch.zeros_like(wide_y) if need_y else None
        x_factor_grad = torch.empty_like(x_factor) if need_x_factor else None
        y_factor_grad = torch.zeros_like(y_factor) if need_y_factor else None
        for rows in _blocks(x, y):
            weight = widen(grad[rows] * slope[rows]).mul_(2.0)
            if x_grad is not None:
                x_grad[rows] = torch.addmm(weight.sum(1)[:, None] * wide_x[rows], weight, wide_y, alpha=-1.0)
            if y_grad is not None:
                y_grad += torch.addmm(weight.sum(0)[:, None] * wide_y, weight.T, wide_x[rows], alpha=-1.0)
            if share is not None:
                part = grad[rows] * share[rows]
                if x_factor_grad is not None:
                    x_factor_grad[rows] = part.sum(1).to(x_factor.dtype) / x_factor[rows]
                if y_factor_grad is not None:
                    y_factor_grad += part.sum(0).to(y_factor.dtype) / y_factor
        return (
            None if x_grad is None else x_grad.to(x.dtype),
            None if y_grad is None else y_grad.to(y.dtype),
            x_factor_grad,
            y_factor_grad,
            None,
        )


def _blocks(x: Tensor, y: Tensor) -> list[slice]:
    size = max(1, _BLOCK.get(x.device.type, _LARGE_BLOCK) // max(1, len(y)))
    return [slice(start, start + size) for start in range(0, len(x), size)]


def _squared_distances(x: Tensor, y: Tensor, y_square: Tensor, close: float) -> Tensor:
    """|x − y|² (b, m) of float64 rows; relative error below 1e-8 (`close` of float32) or 1e-12 (float64)."""
    scale = (x * x).sum(1)[:, None] + y_square
    square = torch.addmm(scale, x, y.T, alpha=-2.0)
    rows, columns = (square <= scale.mul_(close)).nonzero(as_tuple=True)
    if 8 * len(rows) > square.numel():  # a collapsed batch: nearly every pair is close
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").square_()
    size = max(1, _LARGE_BLOCK // (8 * max(1, x.shape[1])))
    for start in range(0, len(rows), size):
        i, j = rows[start : start + size], columns[start : start + size]
        square[i, j] = (x[i] - y[j]).square_().sum(1)
    return square


def _log1p(w: Tensor) -> Tensor:
    """log(1 + w) for w ≥ 0, far faster than torch.log1p on a CPU: the rounding of 1 + w divides out."""
    above = w + 1.0
    logarithm = above.log()
    above -= 1.0
    return w * (logarithm / above).masked_fill_(above == 0, 1.0)
