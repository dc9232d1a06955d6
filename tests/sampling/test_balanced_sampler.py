import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling_trees import even_tree, random_tree

from labeltree.sampling import BalancedBatchSampler
from labeltree.taxonomy import Taxonomy


def most_batches(chunks: list[int], m: int) -> int:
    """Takes one chunk of each of the m classes with most chunks left, as often as that goes."""
    count = 0
    while len(chunks) >= m and sorted(chunks)[-m] > 0:
        chunks = sorted(chunks)
        chunks = chunks[:-m] + [c - 1 for c in chunks[-m:]]
        count += 1
    return count


@settings(max_examples=120)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 120),
    m=st.integers(1, 4),
    k=st.integers(1, 4),
    world_size=st.integers(1, 2),
    repeat=st.booleans(),
)
def test_batches_have_m_classes_with_k_samples(seed, n, m, k, world_size, repeat):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, 12)
    depth = int(rng.integers(1, tree.max_depth + 1))
    share = 1 / np.arange(1, 14) ** rng.choice([0.0, 1.5])
    nodes = rng.choice(np.arange(-1, 12), n, p=share / share.sum())
    classes = np.where(nodes < 0, -1, tree.paths.numpy()[nodes, depth - 1])
    sizes = {c: count for c, count in Counter(classes.tolist()).items() if c >= 0 and count >= k}
    options = {"depth": depth, "samples_per_class": k, "seed": seed, "repeat": repeat}
    expected = most_batches([size // k for size in sizes.values()], m)
    if repeat and len(sizes) >= m:
        expected = max(sum(sizes.values()) // (m * k), 1)
    if expected < world_size:
        with pytest.raises(ValueError, match="too few for one batch"):
            BalancedBatchSampler(tree, nodes, m * k, world_size=world_size, **options)
        return
    used = []
    for rank in range(world_size):
        sampler = BalancedBatchSampler(tree, nodes, m * k, rank=rank, world_size=world_size, **options)
        assert len(sampler) == expected // world_size
        assert sampler.num_left_out == n - sum(sizes.values())
        for batch in sampler.batches(1):
            assert len(set(batch.tolist())) == m * k
            found = classes[batch].reshape(m, k)
            assert (found == found[:, :1]).all()
            assert len(set(found[:, 0].tolist())) == m
            used += batch.tolist()
    dealt = Counter(classes[used].tolist())
    if repeat:
        dealt = {c: dealt[c] // k for c in sizes}
        assert max(dealt.values()) - min(dealt.values()) <= 1
        # Nobody comes a second time before the class was dealt out once.
        times = Counter(used)
        for c, size in sizes.items():
            assert len({s for s in times if classes[s] == c}) >= min(dealt[c], size // k) * k
    else:
        assert len(set(used)) == len(used)
        # No class occurs more often than it must: the others, where rarer, have nothing left.
        most = max(dealt.values())
        for c, size in sizes.items():
            assert dealt[c] >= most - k or dealt[c] == size // k * k


def test_default_batches_hold_as_many_classes_as_there_are():
    tree = even_tree(2, 5)
    nodes = np.repeat(tree.leaves.numpy(), 64)
    sampler = BalancedBatchSampler(tree, nodes, 64)
    assert (sampler.depth, sampler.num_classes, sampler.samples_per_class) == (2, 8, 8)
    assert len(sampler) == 10
    assert sorted(sampler.epoch_order(0).ravel()) == list(range(640))
    assert BalancedBatchSampler(tree, nodes, 1).samples_per_class == 1


def test_all_classes_meet_each_other():
    tree = even_tree(7)
    nodes = np.repeat(tree.leaves.numpy(), 8)
    sampler = BalancedBatchSampler(tree, nodes, 8, samples_per_class=4)
    pairs = {frozenset(nodes[batch].tolist()) for epoch in range(40) for batch in sampler.batches(epoch)}
    assert pairs == {frozenset(pair) for pair in itertools.combinations(tree.leaves.tolist(), 2)}


def test_classes_of_a_coarse_depth_and_shallow_leaves():
    tree = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d",)])
    nodes = tree.encode(["b", "c", "a", "d", "d", "d", None])
    coarse = BalancedBatchSampler(tree, nodes, 6, depth=1, samples_per_class=3)
    (batch,) = coarse.batches(0)
    assert sorted(map(sorted, batch.reshape(2, 3).tolist())) == [[0, 1, 2], [3, 4, 5]]
    fine = BalancedBatchSampler(tree, nodes, 2, depth=2, samples_per_class=1)
    assert fine.num_left_out == 2  # the label a has no node of depth 2
    assert len(fine) == 2  # d with b, d with c


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 3}, "depth is 3, expected 1 to 2"),
        ({"depth": 0}, "depth is 0, expected 1 to 2"),
        ({"samples_per_class": 5}, "samples_per_class is 5, expected a divisor of batch_size, which is 8"),
        ({"samples_per_class": 1}, r"6 classes with at least 1 samples .* 8 classes × 1 samples"),
        ({"drop_last": False}, "drop_last is False, expected True"),
        ({"nodes": [99] * 8}, "nodes holds 99, expected at most 8"),
    ],
)
def test_arguments_that_make_no_sense(options, message):
    tree = even_tree(2, 3)
    given = {"nodes": np.repeat(tree.leaves.numpy(), 4), "batch_size": 8, **options}
    with pytest.raises(ValueError, match=message):
        BalancedBatchSampler(tree, **given)
