"""Losses on a GPU, forward and backward: milliseconds and peak bytes by batch and type (P12).

    python benchmarks/gpu.py [--short]

Times are CUDA events, the median of several passes after a warm-up; memory is the greatest that the
allocator gave out, over what was there before. Small batches are compared with the dense implementation in
float64. Without a GPU it says so and measures nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import torch

from harness import Results, Row, Size, Table, choose, main
from inputs import Batch, batch
from objectives import OBJECTIVES, both_ways, objective, relative_error

D = 128
TYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def timed(call: Callable[[], object], rounds: int, warmup: int = 3) -> tuple[float, float]:
    """Median milliseconds of a call, and peak bytes over what was allocated before."""
    for _ in range(warmup):
        call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before, took = torch.cuda.memory_allocated(), []
    for _ in range(rounds):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        began.record()
        call()
        ended.record()
        torch.cuda.synchronize()
        took.append(began.elapsed_time(ended))
    return median(took), float(torch.cuda.max_memory_allocated() - before)


def speed(size: Size, names: list[str]) -> tuple[Table, dict[str, float]]:
    """Milliseconds and peak memory of the objectives."""
    counts = choose(size, full=[512, 8192, 65_536], short=[65_536], tiny=[256])
    rows: list[Row] = []
    measured = {}
    for n in counts:
        inputs = batch(n, D)
        for kind, dtype in TYPES.items():
            there = inputs.to("cuda", dtype)
            for name in names:
                call = both_ways(objective(name, there), there.z)
                try:
                    milliseconds, peak = timed(call, choose(size, full=15, short=7, tiny=1))
                except torch.OutOfMemoryError:
                    rows.append([name, n, kind, None, None])
                    continue
                rows.append([name, n, kind, milliseconds, peak / 1e9])
                if (name, n, kind) == ("hwc", 65_536, "bfloat16"):
                    measured = {"P12": milliseconds, "P12 memory": peak / 1e9}
    columns = ("objective", "n", "inputs", "ms", "peak, GB")
    return Table(f"Forward and backward, d = {D}, 8/64/512 nodes", columns, rows), measured


def parity(size: Size, names: list[str]) -> Table:
    """Relative difference of gradients from dense float64, of ours and of the dense implementation."""
    n = choose(size, full=1024, short=512, tiny=64)
    inputs = batch(n, D)
    rows: list[list[str | float]] = []
    for name in names:
        row: list[str | float] = [name]
        for dtype in TYPES.values():
            there = inputs.to("cuda", dtype)
            row += [error(name, there, "auto"), error(name, there, "dense")]
        rows.append(row)
    columns = [f"{by}, {kind}" for kind in TYPES for by in ("ours", "dense")]
    return Table(f"Gradient against dense float64, n = {n}", ("objective", *columns), rows)


def error(name: str, there: Batch, by: str) -> float:
    """Of one implementation, at the inputs as its type has rounded them."""
    wide = there.to("cuda", torch.float64)
    exact = both_ways(objective(name, wide), wide.z, "dense")()
    found = both_ways(objective(name, there), there.z, by)().double()
    return relative_error(found, exact)


def measure(size: Size) -> Results:
    """Two tables, or the word that there is no GPU."""
    if not torch.cuda.is_available():
        return Results([], {}, ["no GPU: nothing was measured."])
    names = choose(size, full=list(OBJECTIVES), short=["hwc", "himulcon", "hicone", "maskcon"], tiny=["hwc"])
    table, measured = speed(size, names)
    return Results([table, parity(size, names)], measured)


if __name__ == "__main__":
    main(__doc__, measure)
