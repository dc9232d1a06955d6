"""Work on queries divided over the ranks of a process group."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["merge", "own_share"]


def own_share(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows that are this rank's: equal stretches, longer by one on the first ranks."""
    return np.array_split(rows, dist.get_world_size())[dist.get_rank()]


def merge(rows: NDArray[np.int64], by_row: Iterable[Tensor], sums: Iterable[Tensor] = ()) -> None:
    """Give all ranks what each has found, in place.

    Args:
        rows: this rank's.
        by_row: tensors (n, …) that are right at `rows`; each row belongs to one rank.
        sums: tensors of which each rank has a part.

    """
    mine = torch.from_numpy(rows)
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    for values in by_row:
        share = torch.zeros_like(values)
        share[mine] = values[mine]
        values.copy_(_summed(share.to(device)))
    for values in sums:
        values.copy_(_summed(values.to(device)))


def _summed(share: Tensor) -> Tensor:
    dist.all_reduce(share)
    return share
