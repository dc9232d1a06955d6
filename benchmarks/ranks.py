"""Losses on 1, 2 and 4 ranks against one process with all of the batch (P9).

    python benchmarks/ranks.py [--short]

Real gloo processes with parts of uneven size of one float64 batch. DDP means the gradients of its ranks, so
what is compared is the gradient of each rank's rows over the number of ranks; and the value, which is to be
the same on all. Collectives are counted in the forward and in the backward pass, as the profiler names them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, distributed
from torch.multiprocessing.spawn import spawn
from torch.profiler import ProfilerActivity, profile

from harness import Results, Row, Size, Table, choose, main
from inputs import Batch, batch, ragged
from objectives import OBJECTIVES, objective, relative_error

T = TypeVar("T")
D = 16


def rows_of_all(n: int) -> Batch:
    """A small tree of many depths; labels at all of its nodes, every ninth missing."""
    inputs = batch(n, D, taxonomy=ragged(40))
    samples = torch.arange(n // 2)
    nodes = torch.where(samples % 9 == 4, -1, samples * 7 % len(inputs.taxonomy)).repeat(2)
    return replace(inputs, nodes=nodes).to(dtype=torch.float64)


def parts(n: int, ranks: int) -> list[slice]:
    """Rows of each rank, in order and of uneven size: shares of 1, 2, 3 …"""
    total = ranks * (ranks + 1) // 2
    ends = [n * rank * (rank + 1) // 2 // total for rank in range(ranks + 1)]
    return [slice(begin, end) for begin, end in pairwise(ends)]


def counted(work: Callable[[], T]) -> tuple[T, int]:
    """What the work gives, and how many collectives it started."""
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        result = work()
    return result, sum(event.name.startswith("c10d::") for event in trace.events() or [])


def one(name: str, n: int, rows: slice) -> tuple[Tensor, Tensor, int, int]:
    """Value and gradient of some rows of the batch, and collectives forward and backward."""
    inputs = rows_of_all(n).rows(rows)
    z = inputs.z.clone().requires_grad_()
    function = objective(name, inputs)
    value, forward = counted(lambda: function(z))
    _, backward = counted(lambda: value.backward())  # type: ignore[no-untyped-call]
    assert z.grad is not None
    return value.detach(), z.grad, forward, backward


def rank_of(rank: int, ranks: int, n: int, names: list[str], folder: str) -> None:
    """What one process does."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    rows = parts(n, ranks)[rank]
    torch.save({name: one(name, n, rows) for name in names}, f"{folder}/{rank}")
    distributed.barrier()
    distributed.destroy_process_group()


def on_ranks(ranks: int, n: int, names: list[str]) -> list[dict[str, tuple[Tensor, Tensor, int, int]]]:
    """What each of so many processes found."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(rank_of, (ranks, n, names, folder), nprocs=ranks)  # type: ignore[no-untyped-call]
        return [torch.load(Path(folder) / str(rank)) for rank in range(ranks)]


def measure(size: Size) -> Results:
    """Greatest relative difference of values, relative difference of gradients, collectives."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own messages, here and in the ranks
    n = choose(size, full=256, short=128, tiny=48)
    worlds = choose(size, full=[1, 2, 4], short=[2, 4], tiny=[2])
    names = choose(size, full=list(OBJECTIVES), short=list(OBJECTIVES), tiny=["hwc", "lam"])
    alone = {name: one(name, n, slice(None)) for name in names}
    rows: list[Row] = []
    worst, collectives = 0.0, 0
    for ranks in worlds:
        found = on_ranks(ranks, n, names)
        for name in names:
            value, gradient, _, _ = alone[name]
            values = torch.stack([of_rank[name][0] for of_rank in found])
            gradients = torch.cat([of_rank[name][1] for of_rank in found]) / ranks
            of_value = max(relative_error(other, value) for other in values)
            of_gradient = relative_error(gradients, gradient)
            forward = max(of_rank[name][2] for of_rank in found)
            backward = max(of_rank[name][3] for of_rank in found)
            worst, collectives = max(worst, of_value, of_gradient), max(collectives, backward)
            rows.append([name, ranks, of_value, of_gradient, forward, backward])
    rows.sort(key=lambda row: names.index(str(row[0])))
    columns = ("objective", "ranks", "value", "gradient", "collectives forward", "backward")
    table = Table(f"Relative difference from one process, n = {n}, 40 nodes, ragged, float64", columns, rows)
    return Results([table], {"P9": worst, "P9 collectives": float(collectives)})


if __name__ == "__main__":
    main(__doc__, measure)
