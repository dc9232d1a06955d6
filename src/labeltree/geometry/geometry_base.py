"""The base class of geometries: distances, similarities, exponential and logarithmic maps, means."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

__all__ = ["Geometry", "group_average", "group_weights"]

_PART_ELEMENTS = 2**21


@dataclass(frozen=True)
class Geometry(ABC):
    """A space of embeddings. Stateless, immutable, hashable; the last dimension of a tensor is the feature.

    Every method is differentiable with finite gradients, computes in float32 or better also under autocast,
    and returns the dtype of its input (float32 for half precision).
    """

    name: ClassVar[str]

    @abstractmethod
    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """Distance of `x` (..., d) and `y` (..., d), broadcast: (...,). Equal points: 0, with gradient 0."""

    @abstractmethod
    def pairwise_distance(self, x: Tensor, y: Tensor) -> Tensor:
        """Distances (n, m) of all rows of `x` (n, d) to all rows of `y` (m, d), in O(n·m) memory."""

    def prepare_distances(self, y: Tensor) -> Callable[[Tensor], Tensor]:
        """A function from points (n, d) to distances (n, m) to the rows of `y` (m, d), without gradient.

        As `pairwise_distance`; what it needs of `y` is computed once, for many calls with few points.
        """
        return lambda x: self.pairwise_distance(x, y)

    def similarity(self, x: Tensor, y: Tensor) -> Tensor:
        """Similarity of `x` (..., d) and `y` (..., d), broadcast (...,); by default −distance."""
        return -self.distance(x, y)

    def pairwise_similarity(self, x: Tensor, y: Tensor) -> Tensor:
        """Similarities (n, m) of all rows of `x` (n, d) to all rows of `y` (m, d)."""
        return -self.pairwise_distance(x, y)

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """The point of the space nearest to `x` (..., d)."""

    @abstractmethod
    def embed(self, features: Tensor) -> Tensor:
        """Map Euclidean vectors (..., d), the output of a head, to points of the space."""

    @abstractmethod
    def exp(self, base: Tensor, tangent: Tensor) -> Tensor:
        """The point reached from `base` (..., d) along the geodesic that starts as `tangent` (..., d)."""

    @abstractmethod
    def log(self, base: Tensor, point: Tensor) -> Tensor:
        """The tangent vector at `base` (..., d) whose `exp` is `point` (..., d)."""

    @abstractmethod
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
        """Mean point of every group.

        Args:
            x: Points (n, d).
            groups: Group of each point (n,), int64; points with a negative group are left out.
            num_groups: Number of groups G.
            weights: non-negative weight of each point (n,); default 1.
            steps: Number of fixed-point steps, if the space needs them.
            init: Starting points of these steps (G, d); default a closed-form approximation of the mean.

        Returns:
            Means (G, d); NaN for a group without points or without weight.
        """

    def mean(
        self, x: Tensor, weights: Tensor | None = None, steps: int = 3, init: Tensor | None = None
    ) -> Tensor:
        """Mean (d,) of `x` (n, d) with `weights` (n,); `steps` and `init` (d,) as in `group_means`."""
        if x.dim() != 2:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected (n, d): a mean is taken over the rows")
        groups = torch.zeros(x.shape[0], dtype=torch.long, device=x.device)
        start = None if init is None else init[None]
        return self.group_means(x, groups, 1, weights=weights, steps=steps, init=start)[0]

    def ema(self, old: Tensor, new: Tensor, eta: float) -> Tensor:
        """Move `old` (..., d) by the fraction `eta` of the way to `new` (..., d) along their geodesic."""
        return self.exp(old, eta * self.log(old, new))

    def ema_groups(self, old: Tensor, x: Tensor, groups: Tensor, eta: float) -> Tensor:
        """Move the prototypes `old` (G, d) towards the points `x` (n, d) of their `groups` (n,).

        exp_old(η·mean of log_old(x)), Eq. 9 and 10 of Climbing the Label Tree. A group without points keeps
        its prototype; points of a negative group are left out.
        """
        kept = groups >= 0
        x, groups = x[kept], groups[kept]
        step = group_average(self.log(old[groups], x), groups, len(old))
        present = group_weights(groups, len(old), dtype=step.dtype) > 0
        step = torch.where(present[:, None], step, torch.zeros_like(step))
        return torch.where(present[:, None], self.exp(old, eta * step), old.to(step.dtype))


def group_weights(
    groups: Tensor, num_groups: int, weights: Tensor | None = None, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Total weight (G,) of the points in each group; their number without `weights`."""
    if weights is None:
        weights = torch.ones(groups.shape, dtype=dtype, device=groups.device)
    kept = groups >= 0
    total = torch.zeros(num_groups, dtype=dtype, device=groups.device)
    return total.index_add(0, groups[kept], weights[kept].to(dtype))


def group_average(
    x: Tensor,
    groups: Tensor,
    num_groups: int,
    weights: Tensor | None = None,
    *,
    of: Callable[[Tensor], Tensor] = lambda rows: rows,
) -> Tensor:
    """Weighted arithmetic mean (G, d) of the rows of `of(x)` (n, d) by group, a part of the rows at a time.

    Points with a negative group are left out; an empty group gives NaN.
    """
    if x.dim() != 2 or groups.shape != x.shape[:1]:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and groups {tuple(groups.shape)}; expected (n, d) and (n,)"
        )
    if weights is not None and weights.shape != groups.shape:
        raise ValueError(
            f"weights has shape {tuple(weights.shape)}; expected {tuple(groups.shape)}, one per point"
        )
    step = max(1, _PART_ELEMENTS // max(x.shape[1], 1))
    sums = None
    for start in range(0, max(len(x), 1), step):
        some = slice(start, start + step)
        part, place = of(x[some]), groups[some]
        if weights is not None:
            part = part * weights[some].to(part.dtype)[:, None]
        if sums is None:
            sums = torch.zeros(num_groups, x.shape[1], dtype=part.dtype, device=x.device)
        kept = place >= 0
        sums = sums.index_add(0, place[kept], part[kept])
    assert sums is not None
    total = group_weights(groups, num_groups, weights, sums.dtype)
    present = total > 0
    mean = sums / torch.where(present, total, torch.ones_like(total))[:, None]
    return torch.where(present[:, None], mean, torch.full_like(mean, torch.nan))
