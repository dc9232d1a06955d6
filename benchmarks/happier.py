"""HAPPIER's surrogate of H-AP (P21): value and gradient, beside the cubic form.

    python benchmarks/happier.py [--short]

n rows of 128 dimensions, every row a query among the others; labels 8/64/512, drawn in groups as a sampler
draws them: each class has four rows. "Cubic" compares every pair of results for every anchor, as the
published code does, in float32, a few anchors at a time so that it fits into memory, with autograd.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import torch
from torch import Tensor

from harness import Results, Row, Size, Table, choose, main
from inputs import balanced
from labeltree.losses import HAPPIERLoss
from peak import forget_peak, resident

D = 128
AT_ONCE = 2**24
"""Triples of anchor, result and rival that the cubic form holds at a time."""


def sample(n: int) -> tuple[Tensor, Tensor, HAPPIERLoss]:
    """Embeddings (n, d) in clusters, their nodes (n,), and the loss."""
    taxonomy = balanced(8, 64, 512)
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(len(taxonomy.leaves), generator=generator)[: max(1, n // 4)]
    nodes = taxonomy.leaves[chosen].repeat(4)[:n]
    while len(nodes) < n:
        nodes = torch.cat([nodes, nodes])[:n]
    centres = torch.randn(taxonomy.num_nodes, D, generator=generator)
    points = torch.randn(n, D, generator=generator) + centres[taxonomy.paths[nodes]].sum(dim=1)
    return points, nodes, HAPPIERLoss(taxonomy, D)


def ours(points: Tensor, nodes: Tensor, loss: HAPPIERLoss) -> tuple[float, Tensor]:
    """Value and gradient of the surrogate."""
    leaf = points.clone().requires_grad_()
    value = loss.ranked(leaf, nodes)
    value.backward()
    assert leaf.grad is not None
    return float(value.detach()), leaf.grad


def cubic(points: Tensor, nodes: Tensor, loss: HAPPIERLoss) -> tuple[float, Tensor]:
    """The same over all triples."""
    leaf, n, step = points.clone().requires_grad_(), len(points), loss.step
    total, count = 0.0, 0
    chunk = max(1, AT_ONCE // (n * n))
    for start in range(0, n, chunk):
        rows = slice(start, min(start + chunk, n))
        unit = torch.nn.functional.normalize(leaf)
        s = unit[rows] @ unit.T
        depth, ranked, _ = loss.shared(nodes, None, rows)
        own = (loss.relevances(depth, ranked).gather(1, depth) * ranked).float()
        d = s[:, None, :] - s[:, :, None]
        ahead = (d.detach() >= 0) & ranked[:, None, :]
        less = (own[:, None, :] < own[:, :, None]) & ranked[:, None, :]
        smooth = torch.sigmoid(d / step.temperature) + 0.5 * (d.detach() > 0)
        smooth = torch.where(d > step.delta, step.slope * (d - step.delta) + step.offset, smooth)
        rank = torch.where(less, smooth, ahead.float()).sum(2)
        gained = (torch.minimum(own[:, None, :], own[:, :, None]) * ahead).sum(2)
        some = own.sum(1) > 0
        value = torch.where(own > 0, gained / rank.clamp(min=1e-30), 0.0).sum(1)
        lost = (1 - value[some] / own.sum(1)[some]).sum()
        lost.backward()
        total, count = total + float(lost.detach()), count + int(some.sum())
    assert leaf.grad is not None
    return total / count, leaf.grad / count


def timed(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """The least CPU seconds of a call, and megabytes over the baseline of the first."""
    gc.collect()
    forget_peak()
    before, seconds, memory = resident("VmRSS:"), [], 0.0
    for at in range(repeats):
        busy = time.process_time()
        call()
        seconds.append(time.process_time() - busy)
        if not at:
            memory = (resident("VmHWM:") - before) / 1e6
    return min(seconds), memory


def measure(size: Size) -> Results:
    """Both at every n that the cubic form can do, ours at more."""
    both = choose(size, full=(128, 256, 512), short=(512,), tiny=(24,))
    alone = choose(size, full=(1024, 2048, 4096), short=(2048,), tiny=(48,))
    repeats = choose(size, full=3, short=2, tiny=1)
    rows: list[Row] = []
    measured: dict[str, float] = {}
    for n in (*both, *alone):
        batch = sample(n)
        fast, small = timed(lambda batch=batch: ours(*batch), repeats)  # type: ignore[misc]
        if n in alone:
            rows.append([n, "–", fast, "–", "–", small, "–"])
            continue
        slow, large = timed(lambda batch=batch: cubic(*batch), repeats)  # type: ignore[misc]
        (value, slope), (expected, gradient) = ours(*batch), cubic(*batch)
        error = max(abs(value - expected), float((slope - gradient).abs().max() / gradient.abs().max()))
        rows.append([n, slow, fast, slow / fast, large, small, error])
        if n == max(both):
            measured["P21"] = slow / fast
    columns = (
        "n",
        "cubic, CPU s",
        "ours, CPU s",
        "cubic ÷ ours",
        "cubic, MB over baseline",
        "ours, MB over baseline",
        "largest difference",
    )
    note = (
        "The difference is that of the values, or of the gradients over the largest gradient; most of it is "
        "the float32 of the cubic form. Ours computes in float64."
    )
    table = Table("HAPPIER's surrogate of H-AP, value and gradient, labels 8/64/512", columns, rows)
    return Results([table], measured, [note])


if __name__ == "__main__":
    main(__doc__, measure)
