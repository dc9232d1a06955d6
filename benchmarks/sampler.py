"""Time of one epoch of the hierarchical batch sampler (P11).

    python benchmarks/sampler.py [--short]

Every row is also checked: each sample exactly once (less what does not fill a batch), every batch exactly
full.
"""

from __future__ import annotations

import time

import numpy as np

from harness import Results, Row, Size, Table, best, choose, main
from inputs import balanced, ragged
from labeltree.sampling import HierarchicalBatchSampler
from labeltree.taxonomy import Taxonomy

BATCH = 512
GOALS = {1_000_000: "P11 1M", 10_000_000: "P11 10M"}


def cases(num_samples: int) -> dict[str, tuple[Taxonomy, np.ndarray]]:
    """Trees and labels: equal depth, skewed, ragged with inner and missing labels, many nodes."""
    rng = np.random.default_rng(0)
    tree = balanced(8, 80, 1_600)
    leaves = tree.leaves.numpy()
    share = 1 / np.arange(1, len(leaves) + 1)
    mixed_tree, large = ragged(2_400), ragged(100_000)
    mixed = rng.integers(0, mixed_tree.num_nodes, num_samples)
    mixed[rng.random(num_samples) < 0.05] = -1
    return {
        "1,600 leaves, even": (tree, rng.choice(leaves, num_samples)),
        "1,600 leaves, Zipf": (tree, rng.choice(leaves, num_samples, p=share / share.sum())),
        f"2,400 nodes, ragged, {mixed_tree.max_depth} deep": (mixed_tree, mixed),
        f"100,000 nodes, {large.max_depth} deep": (large, rng.choice(large.leaves.numpy(), num_samples)),
    }


def check(sampler: HierarchicalBatchSampler, num_samples: int, epoch: int) -> None:
    """Every sample at most once, every batch full."""
    order = sampler.plan(epoch).order
    if len(order) != num_samples // BATCH * BATCH or np.bincount(order, minlength=num_samples).max() > 1:
        raise AssertionError("the epoch does not hold every sample exactly once")
    if any(len(batch) != BATCH for batch in sampler.batches(epoch)):
        raise AssertionError("a batch is not full")


def measure(size: Size) -> Results:
    """Seconds of planning an epoch; the best, as the work is the same every time."""
    counts = choose(size, full=[1_000_000, 10_000_000], short=[1_000_000], tiny=[4_000])
    rows: list[Row] = []
    measured: dict[str, float] = {}
    for num_samples in counts:
        for name, (tree, nodes) in cases(num_samples).items():
            began = time.process_time()
            sampler = HierarchicalBatchSampler(tree, nodes, BATCH)
            setup = time.process_time() - began
            epochs = iter(range(1_000))
            cpu, wall = best(
                lambda sampler=sampler, epochs=epochs: sampler.plan(next(epochs)),  # type: ignore[misc]
                choose(size, full=5, short=5, tiny=1),
            )
            check(sampler, num_samples, epoch=0)
            reached = " ".join(f"{share:.2f}" for share in list(sampler.coverage(0).values())[:6])
            rows.append([name, num_samples, setup, cpu, wall, reached])
            if num_samples in GOALS:
                goal = GOALS[num_samples]
                measured[goal] = max(measured.get(goal, 0.0), cpu)
    columns = ("labels", "samples", "set-up, CPU s", "epoch, CPU s", "by the clock", "coverage by depth")
    note = "Coverage: the share of anchors with a partner at each depth, coarse to fine, of the first six."
    return Results([Table("One epoch in batches of 512", columns, rows)], measured, [note])


if __name__ == "__main__":
    main(__doc__, measure)
