"""The normalised softmax: cross entropy over the cosines of an embedding and a learnt proxy of each class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from labeltree.geometry import Sphere
from labeltree.geometry.hand_written import differentiable_once
from labeltree.geometry.precision import answer_dtype
from labeltree.losses.batch import check_batch, check_width, follow_device
from labeltree.losses.classifiers.classes import node_log_likelihood
from labeltree.losses.proxies.unit_proxies import ProxyLoss
from labeltree.losses.reduction import propagate_nan
from labeltree.taxonomy import Taxonomy

__all__ = ["NormalisedSoftmaxLoss", "streamed_log_likelihood"]

_ENTRIES = 2**24  # of rows × classes, beyond which the cosines are not kept: 64 MB in float32
_TILE = 2**21


class NormalisedSoftmaxLoss(ProxyLoss):
    """Cross entropy over cosines (NormFace, Wang et al. 2017; Zhai & Wu 2019; ProxyNCA++, Teh et al. 2020).

        L = mean over labelled rows of −log p(y_i),   p(v) = Σ_{c∈v} softmax_c(cos(z_i, P_c)/τ)

    A label at an inner node is as likely as its classes together. With more than 2²⁴ pairs of rows and
    classes the cosines are computed tile by tile, and once more for the gradient: memory then grows with the
    rows plus the classes, and the value stays exact.

    Args:
        taxonomy: The tree of the labels.
        dim: d, dimension of the embeddings.
        temperature: τ > 0.
        learn_temperature: Learn τ, from `temperature` on.
        depth: The classes are the nodes of this depth and the leaves above it; None: the leaves.
        lr_factor: Factor of the learning rate of the proxies, above 0 ("fast moving proxies", Teh et al.
            2020); the optimizer of `labeltree train` reads it.

    Attributes:
        proxies: `(C, dim)` parameter, in the order of `classes`; only directions count.
        log_scale: −log τ, a parameter, if τ is learnt; else None.

    Call with `embeddings (n, dim)` and `nodes (n,)`, −1 where missing. The mean is over labelled rows, of all
    ranks in training; without any it is exactly 0.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant",)])
        >>> loss = NormalisedSoftmaxLoss(taxonomy, dim=3, temperature=1.0)
        >>> with torch.no_grad():
        ...     _ = loss.proxies.copy_(torch.eye(3))
        >>> z = torch.tensor([[5.0, 0.0, 0.0]])  # e/(e + 2), (e + 1)/(e + 2)
        >>> [round(loss(z, taxonomy.encode([label])).neg().exp().item(), 4) for label in ("dog", "animal")]
        [0.5761, 0.7881]
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        dim: int,
        temperature: float = 0.1,
        *,
        learn_temperature: bool = False,
        depth: int | None = None,
        lr_factor: float = 1.0,
    ) -> None:
        super().__init__(taxonomy, dim, depth)
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0; got {temperature}")
        if not 0 < lr_factor < float("inf"):
            raise ValueError(f"lr_factor must be finite and above 0; got {lr_factor}")
        self.lr_factor = float(lr_factor)
        self.temperature = temperature
        self.learn_temperature = learn_temperature
        self.log_scale = nn.Parameter(-torch.tensor(temperature).log()) if learn_temperature else None

    @property
    def scale(self) -> Tensor | float:
        """1/τ, by which cosines are multiplied."""
        return 1 / self.temperature if self.log_scale is None else self.log_scale.exp()

    @property
    def lr_factors(self) -> list[tuple[nn.Parameter, float]]:
        """The parameters whose learning rate has a factor of its own, and the factors."""
        return [(self.proxies, self.lr_factor)]

    def logits(self, embeddings: Tensor) -> Tensor:
        """The logits cos(z, P_c)/τ of embeddings `(n, dim)`, `(n, C)`, float32 or better."""
        check_width(embeddings, self.dim)
        dtype = answer_dtype(embeddings, self.proxies)
        points, proxies = (Sphere().project(x.to(dtype)) for x in (embeddings, self.proxies))
        with torch.autocast(points.device.type, enabled=False):
            return (points * self.scale).to(dtype) @ proxies.T  # fewer numbers to scale than logits

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        nodes = self.checked(embeddings, nodes)
        return propagate_nan(self.mean(-self.row_likelihood(embeddings, nodes), nodes), embeddings)

    def checked(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """The nodes of a batch on the device of the embeddings; errors as of the class."""
        check_width(embeddings, self.dim)
        rows, _ = check_batch(embeddings, nodes, None, len(self.ranges) - 1, self)
        if rows is None:
            raise ValueError(f"nodes must be an integer tensor of shape ({len(embeddings)},); got None")
        follow_device(self, self.classes, embeddings.device)
        return rows

    def keeps_logits(self, rows: int) -> bool:
        """Whether the logits of a batch of so many rows are few enough to be kept."""
        return rows * len(self.classes) <= _ENTRIES

    def row_likelihood(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """log p of every row's label, `(n,)`; see `node_log_likelihood`."""
        if self.keeps_logits(len(embeddings)):
            return node_log_likelihood(self.logits(embeddings), nodes, self.ranges)
        points, proxies = Sphere().project(embeddings), Sphere().project(self.proxies)
        return streamed_log_likelihood(points, proxies.to(points.dtype), self.scale, self.ranges[nodes])


def streamed_log_likelihood(
    points: Tensor, proxies: Tensor, scale: Tensor | float, ranges: Tensor, tile: int = _TILE
) -> Tensor:
    """log Σ_{c∈range} e^{s·x·P_c} − log Σ_c e^{s·x·P_c} of every row, `(n,)`, tile by tile.

    No more than `tile` of the `(n, C)` products are held at a time.

    Args:
        points: `(n, d)` x, float32 or float64.
        proxies: `(C, d)` P, of the same type.
        scale: s, a number or a tensor of one.
        ranges: `(n, 2)` the first class of each row's label and one past its last.
        tile: Number of products.

    Returns:
        `(n,)` ≤ 0; exactly 0 where the range is all classes. It can be differentiated once.
    """
    scale = torch.as_tensor(scale, dtype=points.dtype, device=points.device)
    log_likelihood: Tensor = _Streamed.apply(
        points, proxies, scale, ranges, max(1, tile // max(1, len(points)))
    )
    return log_likelihood


class _Streamed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, points: Tensor, proxies: Tensor, scale: Tensor, ranges: Tensor, width: int
    ) -> Tensor:
        every, own = _RunningSum(points), _RunningSum(points)
        for start in range(0, len(proxies), width):
            products = _products(points, proxies[start : start + width], scale)
            every.add(products)
            own.add(products.masked_fill_(~_inside(products, start, ranges), -torch.inf))
        of_every, of_own = every.log(), own.log()
        ctx.width = width
        ctx.save_for_backward(points, proxies, scale, ranges, of_every, of_own)
        return of_own - of_every

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        points, proxies, scale, ranges, of_every, of_own = ctx.saved_tensors
        by_row = grads[0][:, None]
        for_points, for_proxies = torch.zeros_like(points), torch.empty_like(proxies)
        for_scale = torch.zeros_like(scale)
        with torch.autocast(points.device.type, enabled=False):
            for start in range(0, len(proxies), ctx.width):
                some = proxies[start : start + ctx.width]
                products = _products(points, some, scale)
                share = (products - of_own[:, None]).exp_()
                share.masked_fill_(~_inside(products, start, ranges), 0.0)
                share = share.sub_((products - of_every[:, None]).exp_()).mul_(by_row)
                for_scale += (share * products).sum() / scale
                share *= scale
                for_points.addmm_(share, some)
                for_proxies[start : start + ctx.width] = share.T @ points
        return for_points, for_proxies, for_scale, None, None


class _RunningSum:
    """log Σ e^x of each row, over columns that come tile by tile."""

    def __init__(self, rows: Tensor) -> None:
        self._largest = rows.new_full((len(rows),), -torch.inf)
        self._sum = rows.new_zeros(len(rows))

    def add(self, columns: Tensor) -> None:
        largest = torch.maximum(self._largest, columns.amax(1))
        safe = largest.masked_fill(largest == -torch.inf, 0.0)
        self._sum = self._sum * (self._largest - safe).exp() + (columns - safe[:, None]).exp().sum(1)
        self._largest = largest

    def log(self) -> Tensor:
        return self._largest + self._sum.log()


def _products(points: Tensor, proxies: Tensor, scale: Tensor) -> Tensor:
    with torch.autocast(points.device.type, enabled=False):
        return (points @ proxies.T).mul_(scale)


def _inside(products: Tensor, start: int, ranges: Tensor) -> Tensor:
    columns = torch.arange(start, start + products.shape[1], device=ranges.device)
    return (columns >= ranges[:, :1]) & (columns < ranges[:, 1:])
