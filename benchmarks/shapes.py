"""Time of the losses for label sets of five shapes, forward and backward (P7).

    python benchmarks/shapes.py [--short]

Balanced, skewed, two leaves, thousands of leaves, ragged: what a loss costs should not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable

from harness import Results, Row, Size, Table, choose, in_turn, limit3, main
from inputs import SHAPES, batch
from objectives import both_ways, objective

D = 128


def measure(size: Size) -> Results:
    """Ratios to limit3, and of the dearest shape to the cheapest."""
    n = choose(size, full=8192, short=8192, tiny=64)
    names = choose(
        size,
        full=["supcon", "hwc", "himulcon", "hicone", "mlcl", "maskcon", "lam"],
        short=["hwc", "himulcon"],
        tiny=["hwc", "lam"],
    )
    candidates: dict[str, Callable[[], object]] = {"limit3": limit3(n, D)}
    for shape in SHAPES:
        inputs = batch(n, D, shape)
        for name in names:
            candidates[f"{name}: {shape}"] = both_ways(objective(name, inputs), inputs.z)
    timings = in_turn(candidates, "limit3", rounds=choose(size, full=7, short=5, tiny=1))
    rows: list[Row] = []
    spread: dict[str, float] = {}
    for name in names:
        ratios = [timings[f"{name}: {shape}"].ratio for shape in SHAPES]
        spread[name] = 100 * (max(ratios) / min(ratios) - 1)
        rows.append([name, *ratios, spread[name]])
    table = Table(f"÷ limit3, n = {n}, d = {D}", ("objective", *SHAPES, "spread, %"), rows)
    notes = [
        "Spread: how much dearer the dearest shape is than the cheapest.",
        "MLCL has a softmax per depth and LAM a term per depth, as many as the tree has depths.",
    ]
    return Results([table], {"P7": spread["hwc"]}, notes)


if __name__ == "__main__":
    main(__doc__, measure)
