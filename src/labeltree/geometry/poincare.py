"""The Poincaré ball: hyperbolic space of any curvature below zero."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeltree.geometry.geometry_base import Geometry, group_average, group_weights
from labeltree.geometry.pairwise_distances import FixedPoints, pairwise_distance
from labeltree.geometry.precision import answer_dtype, exact, widen
from labeltree.geometry.smooth import asinhc, safe_sqrt, squared_norm, tanhc, to_safe_length

__all__ = ["PoincareBall"]


@dataclass(frozen=True)
class PoincareBall(Geometry):
    """The Poincaré ball of radius 1/√−κ.

    Args:
        curvature: κ < 0.
        eps: Norms are clipped to (1 − eps)/√−κ.
        max_tangent_norm: `embed` clips the norm of its input to this before the exponential map; None: never.
            Without clipping, an untrained head of 256 dimensions maps points to within 1e-5 of the boundary.
        scaled: The geodesic distance (True), or Eq. 2 of Climbing the Label Tree, which lacks its factor
            1/√−κ (False); the two agree at κ = −1. Maps and means are the same for both.
        mean_step: β of the Karcher iteration, Eq. 3; None: 1/L, L the mean over the points of t/tanh t at
            distance t/√−κ, which bounds the curvature of the objective. Eq. 3 has β = 1, but then the steps
            lead away from the mean of points that lie further than about 2/√−κ from it, as embeddings do.
    """

    name: ClassVar[str] = "poincare"
    curvature: float = -1.0
    eps: float = 1e-5
    max_tangent_norm: float | None = 2.3
    scaled: bool = True
    mean_step: float | None = None

    def __post_init__(self) -> None:
        if not (self.curvature < 0 and math.isfinite(self.curvature)):
            raise ValueError(
                f"curvature is {self.curvature}; expected a number below 0, for example -1.0"
                " (curvature 0 is the geometry 'euclidean')"
            )
        if not 0 < self.eps < 1:
            raise ValueError(f"eps is {self.eps}; expected a number between 0 and 1, for example 1e-5")
        if self.max_tangent_norm is not None and not self.max_tangent_norm > 0:
            raise ValueError(
                f"max_tangent_norm is {self.max_tangent_norm}; expected a number above 0, or None"
            )
        if self.mean_step is not None and not 0 < self.mean_step <= 1:
            raise ValueError(f"mean_step is {self.mean_step}; expected a number in (0, 1], or None")

    @property
    def _c(self) -> float:
        return -self.curvature

    def _room(self, x: Tensor) -> Tensor:
        """1 − c|x|² (..., 1); a point outside the ball counts as just inside."""
        return (1.0 - self._c * squared_norm(x)).clamp_min(4 * torch.finfo(x.dtype).eps)

    def _inside(self, x: Tensor) -> Tensor:
        """`x` (..., d) widened, with points outside the ball moved to its boundary."""
        return _clip_norm(widen(x), 1.0 / math.sqrt(self._c))

    def _rescale(self, distance: Tensor) -> Tensor:
        """Scale a distance in the ball of radius 1 to a distance in this ball."""
        return distance / math.sqrt(self._c) if self.scaled else distance

    @exact
    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """Geodesic distance; the arcosh of Eq. 2 in the form 2·asinh(√z), exact for close points."""
        u, v = self._inside(x), self._inside(y)
        z = self._c * squared_norm(u - v) / (self._room(u) * self._room(v))
        return self._rescale(2.0 * safe_sqrt(z).asinh())[..., 0].to(answer_dtype(x, y))

    @exact
    def pairwise_distance(self, x: Tensor, y: Tensor) -> Tensor:
        (u, u_factor), (v, v_factor) = self._scale_to_unit_ball(x), self._scale_to_unit_ball(y)
        return self._rescale(pairwise_distance(u, v, u_factor, v_factor, answer_dtype(x, y)))

    def prepare_distances(self, y: Tensor) -> Callable[[Tensor], Tensor]:
        fixed = FixedPoints(*self._scale_to_unit_ball(y))
        return lambda x: self._rescale(fixed.distances(*self._scale_to_unit_ball(x), answer_dtype(x, y)))

    @exact
    def _scale_to_unit_ball(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Points (n, d) float64 scaled into the unit ball, and their conformal factors (n,)."""
        inside = self._inside(x)
        return math.sqrt(self._c) * inside, 1.0 / self._room(inside)[:, 0]

    @exact
    def project(self, x: Tensor) -> Tensor:
        """Clip the norm of `x` to (1 − eps)/√−κ."""
        dtype = answer_dtype(x)
        share = 1.0 - max(self.eps, 4 * torch.finfo(dtype).eps)
        return _clip_norm(widen(x), share / math.sqrt(self._c)).to(dtype)

    @exact
    def embed(self, features: Tensor) -> Tensor:
        """Clip the norm of `features` to `max_tangent_norm`, map by exp at the origin, clip into the ball."""
        v = widen(features)
        if self.max_tangent_norm is not None:
            v = _clip_norm(v, self.max_tangent_norm)
        return self.project(v * tanhc(self._c * squared_norm(v))).to(answer_dtype(features))

    @exact
    def exp(self, base: Tensor, tangent: Tensor) -> Tensor:
        """x ⊕ tanh(√c·λ_x|v|/2)·v/(√c|v|), c = −κ, λ_x = 2/(1 − c|x|²), ⊕ Möbius addition; then clipped."""
        c, x, v = self._c, widen(base), widen(tangent)
        room = self._room(x)
        w = v / room
        w = w * tanhc(c * squared_norm(w))
        inner = 1.0 + 2.0 * c * (x * w).sum(dim=-1, keepdim=True)
        square = c * squared_norm(w)
        point = ((inner + square) * x + room * w) / (inner + c * squared_norm(x) * square)
        return self.project(point).to(answer_dtype(base, tangent))

    @exact
    def log(self, base: Tensor, point: Tensor) -> Tensor:
        """2/(√c·λ_x)·artanh(√c|w|)·w/|w|, w = (−x) ⊕ y; written with y − x, so that nothing cancels."""
        c, x, y = self._c, widen(base), widen(point)
        difference = y - x
        square, room = c * squared_norm(difference), self._room(x)
        rooms = room * self._room(y)
        z = square / rooms
        w = (room * difference - square * x) / (square + rooms)
        return (room * asinhc(z) * (1.0 + z).sqrt() * w).to(answer_dtype(base, point))

    @exact
    def group_means(
        self,
        x: Tensor,
        groups: Tensor,
        num_groups: int,
        *,
        weights: Tensor | None = None,
        steps: int = 3,
        init: Tensor | None = None,
    ) -> Tensor:
        """See `Geometry.group_means`: the Karcher mean, Eq. 3 of Climbing the Label Tree."""
        kept = groups >= 0
        points, groups = widen(x)[kept], groups[kept]
        weights = None if weights is None else weights[kept]
        present = (group_weights(groups, num_groups, weights, points.dtype) > 0)[:, None]

        def average(values: Tensor) -> Tensor:
            mean = group_average(values, groups, num_groups, weights)
            return torch.where(present, mean, torch.zeros_like(mean))

        mean = self._midpoints(average, points) if init is None else widen(init)
        for _ in range(steps):
            base = mean[groups]
            tangent = self.log(base, points)
            step = average(tangent)
            if self.mean_step is None:
                # |tangent|·λ_base, λ = 2/(1 − c|base|²), is the distance; times √c it is t
                bound = 1.0 / tanhc(4.0 * self._c * squared_norm(tangent / self._room(base)))
                step = step / average(bound).clamp_min(1.0)
            else:
                step = self.mean_step * step
            mean = self.exp(mean, step)
        return torch.where(present, mean, torch.full_like(mean, torch.nan)).to(answer_dtype(x))

    def _midpoints(self, average: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """The normalised mean of the points on the hyperboloid: a closed form near the Karcher mean."""
        factor = 2.0 / self._room(x)
        mean = average(torch.cat([factor - 1.0, factor * x], dim=1))
        time, space = mean[:, :1], mean[:, 1:]
        length = (time * time - self._c * squared_norm(space)).clamp_min(1.0).sqrt()
        return space / (time + length)

    @exact
    def radius(self, x: Tensor) -> Tensor:
        """√c·|x|: relative radius of the points `x` (..., d), from 0 (centre) to 1 (boundary): (...,)."""
        return (self._c * squared_norm(widen(x)))[..., 0].sqrt().to(answer_dtype(x))


def _clip_norm(x: Tensor, limit: float) -> Tensor:
    """`x` (..., d) with longer vectors shortened to norm `limit`."""
    x = x * to_safe_length(x)  # a vector of another factor than 1 is longer than any limit
    square = squared_norm(x)
    long = square > limit * limit
    scale = limit * torch.where(long, square, torch.ones_like(square)).rsqrt()
    return x * torch.where(long, scale, torch.ones_like(scale))
