"""The unit sphere."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeltree.geometry.geometry_base import Geometry, group_average
from labeltree.geometry.pairwise_distances import FixedPoints, pairwise_distance
from labeltree.geometry.precision import answer_dtype, exact, widen
from labeltree.geometry.smooth import cosine, safe_sqrt, sinc, squared_norm, unit

__all__ = ["Sphere"]


@dataclass(frozen=True)
class Sphere(Geometry):
    """The unit sphere; inputs are normalised. Similarity = cosine, distance = the chord |x/|x| − y/|y||.

    The chord is the distance of the Euclidean mode of Climbing the Label Tree (section 3.1). `exp`, `log` and
    `ema` follow great circles; that mode's prototypes, which leave the sphere (Eq. 9), are moved by
    `Euclidean().ema_groups`. A zero vector has no direction: it stays 0 and has similarity 0 to every vector.
    """

    name: ClassVar[str] = "sphere"

    @exact
    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        difference = unit(widen(x)) - unit(widen(y))
        return safe_sqrt(squared_norm(difference))[..., 0].to(answer_dtype(x, y))

    @exact
    def pairwise_distance(self, x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(unit(widen(x)), unit(widen(y)), dtype=answer_dtype(x, y))

    def prepare_distances(self, y: Tensor) -> Callable[[Tensor], Tensor]:
        fixed = FixedPoints(self.project(widen(y)))
        return lambda x: fixed.distances(self.project(widen(x)), None, answer_dtype(x, y))

    @exact
    def similarity(self, x: Tensor, y: Tensor) -> Tensor:
        dtype = answer_dtype(x, y)
        return (unit(x.to(dtype)) * unit(y.to(dtype))).sum(dim=-1)

    @exact
    def pairwise_similarity(self, x: Tensor, y: Tensor) -> Tensor:
        dtype = answer_dtype(x, y)
        return unit(x.to(dtype)) @ unit(y.to(dtype)).T

    @exact
    def project(self, x: Tensor) -> Tensor:
        return unit(x.to(answer_dtype(x)))

    def embed(self, features: Tensor) -> Tensor:
        return self.project(features)

    @exact
    def exp(self, base: Tensor, tangent: Tensor) -> Tensor:
        x, v = unit(widen(base)), widen(tangent)
        v = v - (v * x).sum(dim=-1, keepdim=True) * x
        square = squared_norm(v)
        return unit(cosine(square) * x + sinc(square) * v).to(answer_dtype(base, tangent))

    @exact
    def log(self, base: Tensor, point: Tensor) -> Tensor:
        """See `Geometry.log`; 0 towards the antipode, where the direction is not unique."""
        x, y = unit(widen(base)), unit(widen(point))
        # sin θ and cos θ from the difference: 1 − cos θ loses all digits for close points
        difference = y - x
        across = difference + 0.5 * squared_norm(difference) * x  # y − cos θ·x
        sine = safe_sqrt(squared_norm(across))
        angle = torch.atan2(sine, (x * y).sum(dim=-1, keepdim=True))
        small = sine < 1e-7
        stretch = torch.where(
            small, torch.ones_like(sine), angle / torch.where(small, torch.ones_like(sine), sine)
        )
        return (stretch * across).to(answer_dtype(base, point))

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
        """See `Geometry.group_means`: the normalised arithmetic mean of the normalised points."""
        means = group_average(x, groups, num_groups, weights, of=lambda rows: unit(widen(rows)))
        return torch.where(means.isnan(), means, unit(means)).to(answer_dtype(x))
