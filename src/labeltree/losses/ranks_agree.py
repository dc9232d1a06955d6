"""Whether the parameters of a loss are the same on all ranks, which nothing but DDP keeps them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed, nn

from labeltree.pairs.gather_ranks import num_ranks

__all__ = ["watch_parameters"]

_TOLERANCE = 1e-6  # relative; equal parameters may be summed in another order on another processor


def watch_parameters(loss: nn.Module) -> None:
    """Raise an error in training if the parameters of a loss differ between ranks.

    Compared are sums, at the 1st, 2nd, 4th, 8th, … forward pass: the loss was then stepped by gradients of
    each rank's own samples. Parameters that are sharded over ranks are left out.
    """
    loss.register_forward_pre_hook(_Watch())


class _Watch:
    def __init__(self) -> None:
        self.passes = 0

    def __call__(self, loss: nn.Module, _: Any) -> None:
        if not loss.training or num_ranks() == 1 or not torch.is_grad_enabled():
            return
        self.passes += 1
        if self.passes & (self.passes - 1):
            return
        own = {n: p for n, p in loss.named_parameters() if p.requires_grad and type(p.data) is Tensor}
        if not own:
            return
        sums = torch.stack([each for p in own.values() for each in _sums(p.detach())])
        ends = torch.cat([sums, -sums])
        distributed.all_reduce(ends, distributed.ReduceOp.MAX)
        most, least = ends[: len(sums)], -ends[len(sums) :]
        size = sums.view(-1, 2)[:, 1].repeat_interleave(2)
        differ = ((most - least) > _TOLERANCE * size).view(-1, 2).any(dim=1).tolist()
        names = [name for name, apart in zip(own, differ, strict=True) if apart]
        if names:
            kind = type(loss).__name__
            raise RuntimeError(
                f"{kind} has parameters that differ between ranks ({', '.join(names)}): nothing averages "
                "their gradients. Wrap the loss as the model is: "
                "loss = torch.nn.parallel.DistributedDataParallel(loss)"
            )


def _sums(x: Tensor) -> tuple[Tensor, Tensor]:
    """A weighted sum that tells values and places apart, and that of its magnitudes."""
    x = x.double().flatten()
    x = x * torch.linspace(1, 2, len(x), dtype=torch.float64, device=x.device)
    return x.sum(), x.abs().sum()
