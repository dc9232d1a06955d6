"""Error of float32 gradients against float64, beside that of the dense float32 implementation (P6).

    python benchmarks/accuracy.py [--short]

|g − g₆₄| / |g₆₄|, where g₆₄ is the gradient of the dense implementation in float64 at the same float32
embeddings. The dense implementation in float32 is the measure of what float32 allows.
"""

from __future__ import annotations

from math import isfinite

import torch
from torch import Tensor

from harness import Results, Row, Size, Table, choose, main
from inputs import SHAPES, Batch, batch
from labeltree.losses import HWCLoss
from objectives import OBJECTIVES, both_ways, objective, relative_error

D = 128
SPREADS: dict[str, dict[str, float]] = {  # `noise` and `apart` of `inputs.batch`
    "random": {},
    "tight clusters": {"noise": 1e-3},
    "clusters and queue, noise 0.1": {"noise": 0.1, "apart": 0.1},
    "clusters and queue, noise 0.01": {"noise": 1e-2, "apart": 1e-2},
    "clusters and queue, noise 0.001": {"noise": 1e-3, "apart": 1e-3},
}
FLOOR = 1e-7  # errors below float32's own grain are not told apart


def gradient(name: str, inputs: Batch, by: str) -> Tensor:
    """The gradient, of a loss that is made anew: prototypes begin with the batch."""
    return both_ways(objective(name, inputs), inputs.z, by)()


def errors(name: str, inputs: Batch, by: str) -> tuple[float, float] | None:
    """Relative errors of the dense implementation and of `by` in float32; None where the gradient is 0."""
    exact = gradient(name, inputs.to(dtype=torch.float64), "dense")
    if not exact.any():
        return None
    dense, ours = (relative_error(gradient(name, inputs, kind), exact) for kind in ("dense", by))
    return dense, ours


def cold(inputs: Batch, by: str) -> tuple[int, float, float]:
    """τ = 0.01 and ω up to 2: values that are not finite, and the errors of dense and ours."""
    loss = HWCLoss(inputs.taxonomy, alpha=1.0, gamma=1.0, temperature=0.01)

    def of(z: Tensor) -> Tensor:
        return loss(z, inputs.nodes, inputs.instances)

    z = inputs.z
    exact = both_ways(of, z.double(), "dense")()
    dense, ours = (both_ways(of, z, kind)() for kind in ("dense", by))
    value = float(of(z))
    wrong = int((~ours.isfinite()).sum()) + (not isfinite(value))
    return wrong, relative_error(dense, exact), relative_error(ours, exact)


def measure(size: Size, by: str = "streaming") -> Results:
    """A table per kind of embeddings, and one of the cold softmax."""
    n = choose(size, full=2048, short=1024, tiny=32)  # a batch of up to 512 is one tile, and has its own code
    names = choose(size, full=list(OBJECTIVES), short=list(OBJECTIVES), tiny=["hwc", "hicone", "lam"])
    shapes = choose(size, full=list(SHAPES), short=list(SHAPES), tiny=list(SHAPES)[:2])
    tables, worst, unfinite = [], 0.0, 0
    cold_rows: list[Row] = []
    for kind, spread in SPREADS.items():
        rows: list[Row] = []
        for shape in shapes:
            inputs = batch(n, D, shape, **spread)
            for name in names:
                found = errors(name, inputs, by)
                if found is None:
                    continue
                dense, ours = found
                ratio = max(ours, FLOOR) / max(dense, FLOOR)
                worst = max(worst, ratio)
                rows.append([name, shape, ours, dense, ratio])
            wrong, dense, ours = cold(inputs, by)
            unfinite += wrong
            cold_rows.append([kind, shape, ours, dense, wrong])
        rows.sort(key=lambda row: names.index(str(row[0])))
        columns = ("objective", "labels", "ours", "dense float32", "ours ÷ dense")
        tables.append(Table(f"{kind.capitalize()}, n = {n}, d = {D}", columns, rows))
    columns = ("embeddings", "labels", "ours", "dense float32", "not finite")
    tables.append(Table("HWC, τ = 0.01, α = γ = 1", columns, cold_rows))
    notes = [
        f"Errors below {FLOOR:g} count as that much.",
        "An objective whose gradient is 0 (LAM on a tree of one depth) is left out.",
    ]
    return Results(tables, {"P6": worst, "P6 finite": float(unfinite)}, notes)


if __name__ == "__main__":
    main(__doc__, measure, {"by": "implementation to measure; else streaming"})
