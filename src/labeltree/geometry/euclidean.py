"""Euclidean space."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from labeltree.geometry.geometry_base import Geometry, group_average
from labeltree.geometry.pairwise_distances import FixedPoints, pairwise_distance
from labeltree.geometry.precision import answer_dtype, exact, widen
from labeltree.geometry.smooth import safe_sqrt, squared_norm

__all__ = ["Euclidean"]


@dataclass(frozen=True)
class Euclidean(Geometry):
    """Euclidean space: distance |x − y|, similarity −|x − y|, arithmetic means."""

    name: ClassVar[str] = "euclidean"

    @exact
    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        return safe_sqrt(squared_norm(widen(x) - widen(y)))[..., 0].to(answer_dtype(x, y))

    @exact
    def pairwise_distance(self, x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y)

    def prepare_distances(self, y: Tensor) -> Callable[[Tensor], Tensor]:
        fixed = FixedPoints(y)
        return lambda x: fixed.distances(x, None, answer_dtype(x, y))

    def project(self, x: Tensor) -> Tensor:
        return x.to(answer_dtype(x))

    def embed(self, features: Tensor) -> Tensor:
        return features.to(answer_dtype(features))

    def exp(self, base: Tensor, tangent: Tensor) -> Tensor:
        return (base + tangent).to(answer_dtype(base, tangent))

    def log(self, base: Tensor, point: Tensor) -> Tensor:
        dtype = answer_dtype(base, point)
        return point.to(dtype) - base.to(dtype)

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
        return group_average(x, groups, num_groups, weights, of=widen).to(answer_dtype(x))
