"""The sums of the ridge head over many vectors (P29), beside the product XᵀX of the same blocks in float64.

    python benchmarks/ridge_sums.py [--short]

1,000,000 vectors of 768 dimensions, float32, in 1,000 classes, come in parts of 50,000. Every part is summed
and multiplied in turn. Memory is the peak of the process.
"""

from __future__ import annotations

import time
from statistics import median

import torch

from harness import Results, Size, Table, choose, main
from labeltree.ridge.moments import Moments
from peak import resident

CLASSES = 1000
BLOCK = 4096
"""Rows that the product widens to float64 at once."""


def product(vectors: torch.Tensor) -> torch.Tensor:
    """XᵀX in float64, block by block."""
    total = torch.zeros(vectors.shape[1], vectors.shape[1], dtype=torch.float64)
    for block in vectors.split(BLOCK):
        wide = block.double()
        total.addmm_(wide.T, wide)
    return total


def measure(size: Size) -> Results:
    """CPU seconds of both over all parts, the ratio and the peak."""
    n, part, d = choose(size, full=(1_000_000, 50_000, 768), short=(150_000, 50_000, 768), tiny=(200, 100, 8))
    generator = torch.Generator().manual_seed(0)
    seconds: dict[str, list[float]] = {"sums": [], "product": []}
    moments = None
    for _ in range(n // part):
        vectors = torch.randn(part, d, generator=generator)
        nodes = torch.randint(1, CLASSES + 1, (part,), generator=generator)
        before = time.process_time()
        product(vectors)
        between = time.process_time()
        more = Moments.of(vectors, nodes)
        moments = more if moments is None else moments + more
        after = time.process_time()
        seconds["product"].append(between - before)
        seconds["sums"].append(after - between)
    ratio = sum(seconds["sums"]) / sum(seconds["product"])
    ratios = [ours / theirs for ours, theirs in zip(seconds["sums"], seconds["product"], strict=True)]
    peak = resident("VmHWM:") / 1e6
    table = Table(
        f"{n:,} × {d} float32 in parts of {part:,}, {CLASSES:,} classes",
        ["", "CPU s", "÷ product", "median of the parts"],
        [
            ["XᵀX in float64", sum(seconds["product"]), 1.0, 1.0],
            ["counts, sums and products", sum(seconds["sums"]), ratio, median(ratios)],
        ],
    )
    note = f"Peak memory of the process, with the vectors of a part: {peak:,.0f} MB."
    return Results([table], {"P29": ratio, "P29 memory": peak}, [note])


if __name__ == "__main__":
    main(__doc__, measure)
