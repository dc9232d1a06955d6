"""Losses on a GPU, forward and backward: milliseconds and peak bytes by batch and type (P12).

    python benchmarks/gpu.py [--short]

Times are CUDA events, the median of several passes after a warm-up; memory is the greatest that the
allocator gave out, over what was there before. Small batches are compared with the dense implementation in
float64. The losses hand float32 to the kernels; "bfloat16" are vectors of that type and
`torch.set_float32_matmul_precision("medium")`, under which they are multiplied as they are. The
kernels' launch settings are tried in turn. Without a GPU it says so and measures nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from statistics import median
from unittest.mock import patch

import torch

from harness import Results, Row, Size, Table, choose, main
from inputs import Batch, batch
from labeltree.geometry import Sphere
from labeltree.pairs import PairRelation, implementation, pair_statistics
from labeltree.pairs.kernels import launch
from labeltree.pairs.kernels import statistics as kernels
from labeltree.pairs.kernels.layout import sides, tiles_between
from objectives import OBJECTIVES, both_ways, objective, relative_error

D = 128
TYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
PRECISIONS = {torch.bfloat16: "medium", torch.float32: "highest"}


@contextmanager
def precision(dtype: torch.dtype) -> Iterator[None]:
    """Products of float32 in as many digits as a type has."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRECISIONS[dtype])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


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
                    with precision(dtype):
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
            with precision(dtype):
                row += [error(name, there, "triton"), error(name, there, "dense")]
        rows.append(row)
    columns = [f"{by}, {kind}" for kind in TYPES for by in ("ours", "dense")]
    return Table(f"Gradient against dense float64, n = {n}", ("objective", *columns), rows)


def error(name: str, there: Batch, by: str) -> float:
    """Of one implementation, at the inputs as its type has rounded them."""
    wide = there.to("cuda", torch.float64)
    exact = both_ways(objective(name, wide), wide.z, "dense")()
    found = both_ways(objective(name, there), there.z, by)().double()
    return relative_error(found, exact)


def tuning(size: Size) -> Table:
    """Milliseconds of HWC by tile, warps and tiles on their way; None: more than a multiprocessor has."""
    import triton

    n = choose(size, full=65_536, short=65_536, tiny=256)
    there = batch(n, D).to("cuda", torch.bfloat16)
    rows: list[Row] = []
    for tile, warps, stages in product((64, 128), (4, 8), (2, 3, 4)):

        def chosen(dtype: torch.dtype, d: int, side: int | None = None) -> launch.Settings:
            usual = usually(dtype, d, side)  # noqa: B023
            return replace(usual, tile=tile, num_warps=warps, num_stages=stages)  # noqa: B023

        usually = launch.settings
        with patch.object(kernels, "settings", chosen), precision(torch.bfloat16):
            try:
                took = timed(both_ways(objective("hwc", there), there.z, "triton"), 7)[0]
            except triton.runtime.errors.OutOfResources:
                took = None
        rows.append([tile, warps, stages, took])
    return Table(f"Launch settings, HWC, n = {n}, bfloat16", ("tile", "warps", "stages", "ms"), rows)


def parts(size: Size) -> Table:
    """Milliseconds of the parts of HWC."""
    n = choose(size, full=65_536, short=65_536, tiny=256)
    there = batch(n, D).to("cuda", torch.bfloat16)
    relation = PairRelation.of_batch(there.taxonomy.paths.to("cuda"), there.nodes, there.instances)
    statistics = (("count", "sum", "lse"), ("count",))
    rounds = choose(size, full=15, short=7, tiny=1)

    def layout() -> None:
        u, v = sides(relation, 128)
        tiles_between(relation, u, v, 128)

    with implementation("triton"):
        rows: list[Row] = [["order and tiles", timed(layout, rounds)[0]]]
        for want in statistics:
            ours = partial(pair_statistics, there.z, there.z, relation, Sphere(), 0.1, want=want)
            rows.append([f"forward of {', '.join(want)}, with order and tiles", timed(ours, rounds)[0]])
    return Table(f"Parts, n = {n}, bfloat16", ("part", "ms"), rows)


def measure(size: Size) -> Results:
    """Two tables, or the word that there is no GPU."""
    if not torch.cuda.is_available():
        return Results([], {}, ["no GPU: nothing was measured."])
    names = choose(size, full=list(OBJECTIVES), short=["hwc", "himulcon", "hicone", "maskcon"], tiny=["hwc"])
    table, measured = speed(size, names)
    return Results([table, parity(size, names), parts(size), tuning(size)], measured)


if __name__ == "__main__":
    main(__doc__, measure)
