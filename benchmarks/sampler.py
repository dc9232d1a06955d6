"""Time of one epoch of the hierarchical batch sampler, on one core.

    OMP_NUM_THREADS=1 python benchmarks/sampler.py [--samples 1000000 10000000] [--repeats 5]

Every row is also checked: each sample exactly once (less what does not fill a batch), every batch exactly
full.
"""

import argparse
import time

import numpy as np
import torch

from labeltree.sampling import HierarchicalBatchSampler
from labeltree.taxonomy import Taxonomy

BATCH = 512


def balanced_tree(*branching: int) -> Taxonomy:
    """A tree in which every node of depth l has `branching[l]` children."""
    edges, nodes = [], ["root"]
    for width in branching:
        edges += [(f"{node}/{child}", node) for node in nodes for child in range(width)]
        nodes = [f"{node}/{child}" for node in nodes for child in range(width)]
    return Taxonomy.from_edges(edges)


def random_tree(num_nodes: int, seed: int = 0) -> Taxonomy:
    """A tree of ragged depth: every node's parent is drawn from the nodes before it."""
    rng = np.random.default_rng(seed)
    return Taxonomy.from_edges([(str(v), str(int(rng.integers(v)))) for v in range(1, num_nodes)])


def cases(num_samples: int) -> dict[str, tuple[Taxonomy, np.ndarray]]:
    """Trees and labels: equal depth, skewed, ragged with inner and missing labels, many nodes."""
    rng = np.random.default_rng(0)
    tree = balanced_tree(8, 10, 20)
    leaves = tree.leaves.numpy()
    share = 1 / np.arange(1, len(leaves) + 1)
    ragged, large = random_tree(2_400), random_tree(100_000)
    mixed = rng.integers(0, ragged.num_nodes, num_samples)
    mixed[rng.random(num_samples) < 0.05] = -1
    return {
        "1,600 leaves, even": (tree, rng.choice(leaves, num_samples)),
        "1,600 leaves, Zipf": (tree, rng.choice(leaves, num_samples, p=share / share.sum())),
        f"2,400 nodes, ragged, {ragged.max_depth} deep": (ragged, mixed),
        f"100,000 nodes, {large.max_depth} deep": (large, rng.choice(large.leaves.numpy(), num_samples)),
    }


def main() -> None:
    """Prints the table."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--samples", type=int, nargs="+", default=[1_000_000, 10_000_000])
    arguments.add_argument("--repeats", type=int, default=5)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    print(
        f"{'samples':>11}  {'tree':32}  {'set-up s':>8}  {'CPU s':>7} {'wall s (best, worst)':>20}  coverage"
    )
    for num_samples in given.samples:
        for name, (tree, nodes) in cases(num_samples).items():
            began = time.perf_counter()
            sampler = HierarchicalBatchSampler(tree, nodes, BATCH)
            setup, times, cpu = time.perf_counter() - began, [], []
            for epoch in range(given.repeats):
                began, busy = time.perf_counter(), time.process_time()
                order = sampler.plan(epoch).order
                times.append(time.perf_counter() - began)
                cpu.append(time.process_time() - busy)
            assert len(order) == num_samples // BATCH * BATCH
            assert np.bincount(order, minlength=num_samples).max() == 1
            assert all(len(batch) == BATCH for batch in sampler.batches(given.repeats - 1))
            shares = " ".join(
                f"{share:.2f}" for share in list(sampler.coverage(given.repeats - 1).values())[:6]
            )
            seconds = f"{setup:8.2f}  {min(cpu):7.3f} {min(times):10.3f} {max(times):9.3f}"
            print(f"{num_samples:>11,}  {name:32}  {seconds}  {shares}")


if __name__ == "__main__":
    main()
