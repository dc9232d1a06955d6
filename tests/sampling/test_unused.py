"""Samplers say which samples they never use."""

import numpy as np
import pytest

from labeltree.sampling import (
    BalancedBatchSampler,
    ClassBalancedBatchSampler,
    HierarchicalBatchSampler,
    RandomBatchSampler,
)
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("m", "dog"), ("m", "cat"), ("f", "trout"), ("f", "cod"), ("p", "oak")])
NODES = TREE.encode(["dog"] * 300 + ["cat"] * 3 + ["trout"] + ["cod"] * 40 + ["oak"] * 2 + ["m"] * 4).numpy()


def used(sampler: RandomBatchSampler, epochs: int = 60) -> set[int]:
    """Nodes whose samples occur."""
    seen = np.concatenate([sampler.epoch_order(epoch).ravel() for epoch in range(epochs)])
    return set(NODES[seen[seen >= 0]].tolist())


def test_small_classes_and_coarse_labels() -> None:
    sampler = BalancedBatchSampler(TREE, NODES, 32)
    assert sampler.describe_unused() == (
        "the sampler never uses 3 classes with fewer than 16 samples ('m/cat', 'f/trout' and 'p/oak'; 6 in "
        "all) and 4 samples without a label at depth 2; a smaller batch_size, or --sampler class-balanced, "
        "uses more of them"
    )
    assert used(sampler) == {TREE.find("dog"), TREE.find("cod")}
    assert len(list(sampler.batches(0))) == len(sampler)


def test_coarse_labels_alone() -> None:
    sampler = ClassBalancedBatchSampler(TREE, NODES, 32)
    assert sampler.describe_unused() == "the sampler never uses 4 samples without a label at depth 2"
    assert used(sampler) == set(NODES.tolist()) - {TREE.find("m")}
    one = ClassBalancedBatchSampler(TREE, [*NODES[:300], -1], 32)
    assert one.describe_unused() == "the sampler never uses 1 sample without a label at depth 2"


@pytest.mark.parametrize("kind", [BalancedBatchSampler, ClassBalancedBatchSampler])
def test_nothing_is_said_where_all_is_used(kind: type[BalancedBatchSampler]) -> None:
    assert kind(TREE, NODES[:300].tolist() + NODES[304:344].tolist(), 4).describe_unused() == ""


def test_samplers_that_use_all() -> None:
    for sampler in (RandomBatchSampler(NODES, 32), HierarchicalBatchSampler(TREE, NODES, 32)):
        assert sampler.describe_unused() == ""
        assert used(sampler) == set(NODES.tolist())  # type: ignore[arg-type]
