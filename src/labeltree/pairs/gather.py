"""Rows of all ranks, for what must be the same everywhere."""

from __future__ import annotations

import torch
from torch import Tensor, distributed

__all__ = ["gather_rows", "num_ranks", "sum_over_ranks"]


def num_ranks() -> int:
    """Number of processes that train together; 1 without `torch.distributed`."""
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    return 1


def gather_rows(x: Tensor) -> Tensor:
    """The rows of all ranks, in the order of the ranks, without gradient. Ranks may hold different numbers.

    Args:
        x: `(n_rank, ...)`; dtype and trailing shape are the same on every rank.

    Returns:
        `(Σ n_rank, ...)`, the same on every rank.
    """
    x = x.detach()
    if num_ranks() == 1:
        return x
    sizes = [torch.zeros(1, dtype=torch.int64, device=x.device) for _ in range(num_ranks())]
    distributed.all_gather(sizes, torch.tensor([len(x)], device=x.device))
    counts = [int(size) for size in sizes]
    padded = torch.cat([x, x.new_zeros(max(counts) - len(x), *x.shape[1:])])
    parts = [torch.empty_like(padded) for _ in counts]
    distributed.all_gather(parts, padded.contiguous())
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


def sum_over_ranks(x: Tensor) -> Tensor:
    """The sum of a tensor over all ranks; without gradient."""
    x = x.detach().clone()
    if num_ranks() > 1:
        distributed.all_reduce(x)
    return x
