"""Every pairwise objective as a function of the embeddings of one batch."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite

from torch import Tensor, nn

from inputs import Batch
from labeltree import losses
from labeltree.geometry import Euclidean, PoincareBall
from labeltree.pairs.pair_plan import implementation

__all__ = ["OBJECTIVES", "both_ways", "implementation", "objective", "relative_error"]

Function = Callable[[Tensor], Tensor]


def _labelled(build: Callable[[Batch], nn.Module], radius: float = 1.0) -> Callable[[Batch], Function]:
    """A loss of embeddings, nodes and instances; the unit vectors are multiplied by `radius`."""

    def made(batch: Batch) -> Function:
        loss = build(batch).to(batch.z.device)
        return lambda z: loss(z * radius if radius != 1 else z, batch.nodes, batch.instances)

    return made


def _several_heads(batch: Batch) -> Function:
    loss = losses.MLCLLoss(batch.taxonomy)
    return lambda z: loss([z] * loss.num_heads, batch.nodes, batch.instances)


def _rated(batch: Batch) -> Function:
    loss = losses.JaccardSupConLoss()
    return lambda z: loss(z, batch.ratings, batch.instances)


def _queued(build: Callable[[Batch], nn.Module]) -> Callable[[Batch], Function]:
    """A loss of queries, their keys and the queue."""

    def made(batch: Batch) -> Function:
        loss = build(batch)
        return lambda z: loss(z, batch.keys, batch.stored, batch.nodes, batch.instances)

    return made


def _margin(batch: Batch) -> nn.Module:
    return losses.LevelAwareMarginLoss(batch.taxonomy, dim=batch.z.shape[1]).to(batch.z.dtype)


OBJECTIVES: dict[str, Callable[[Batch], Function]] = {
    "ntxent": _labelled(lambda batch: losses.NTXentLoss()),
    "supcon": _labelled(lambda batch: losses.SupConLoss(batch.taxonomy)),
    "outside softmax": _labelled(lambda batch: losses.WeightedSupConLoss(batch.taxonomy)),
    "hwc": _labelled(lambda batch: losses.HWCLoss(batch.taxonomy, alpha=0.5)),
    "hwc, constant ω": _labelled(
        lambda batch: losses.HWCLoss(batch.taxonomy, alpha=0.5, control="constant_omega")
    ),
    "hwc, euclidean": _labelled(
        lambda batch: losses.HWCLoss(batch.taxonomy, alpha=0.5, geometry=Euclidean())
    ),
    "hwc, poincaré": _labelled(
        lambda batch: losses.HWCLoss(batch.taxonomy, alpha=0.5, geometry=PoincareBall()), 0.7
    ),
    "himulcon": _labelled(lambda batch: losses.HiMulConLoss(batch.taxonomy)),
    "hicone": _labelled(lambda batch: losses.HiConELoss(batch.taxonomy, variant="paper")),
    "himulcone": _labelled(lambda batch: losses.HiMulConELoss(batch.taxonomy, variant="paper")),
    "mlcl": _several_heads,
    "jaccard": _rated,
    "maskcon": _queued(lambda batch: losses.MaskConLoss(batch.taxonomy)),
    "grafit": _queued(lambda batch: losses.GrafitLoss(batch.taxonomy)),
    "lam": _labelled(_margin),
}


def objective(name: str, batch: Batch) -> Function:
    """The loss called `name` as a function of embeddings like `batch.z`."""
    return OBJECTIVES[name](batch)


def both_ways(function: Function, z: Tensor, by: str = "auto") -> Callable[[], Tensor]:
    """Forward and backward pass at `z`, which returns the gradient `(n, d)`, with the implementation `by`."""

    def call() -> Tensor:
        x = z.detach().requires_grad_()
        with implementation(by):
            function(x).backward()
        assert x.grad is not None
        return x.grad

    return call


def relative_error(found: Tensor, exact: Tensor) -> float:
    """|found − exact| / |exact|; ∞ where that is no number, so that no maximum passes over it."""
    error = float((found - exact).norm() / exact.norm())
    return error if isfinite(error) else inf
