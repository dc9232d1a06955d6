"""Class-balanced batches: shares, equal turns, exact sizes, ranks, resuming, and what has no class."""

import math
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling_trees import even_tree, random_tree

from labeltree.sampling import ClassBalancedBatchSampler
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

TREE = even_tree(2, 3)
LEAVES = TREE.leaves.numpy()


def long_tail(rng, n):
    share = 1 / np.arange(1, len(LEAVES) + 1) ** 2
    return rng.choice(LEAVES, n, p=share / share.sum())


@settings(max_examples=120)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 150),
    batch_size=st.integers(1, 20),
    world_size=st.integers(1, 3),
    drop_last=st.booleans(),
    how=st.sampled_from([{}, {"power": 0.5}, {"power": 1.0}, {"beta": 0.9}, {"beta": 0.0}]),
)
def test_promises(seed, n, batch_size, world_size, drop_last, how):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, 12)
    depth = int(rng.integers(1, tree.max_depth + 1))
    nodes = rng.choice(np.arange(-1, 12), n, p=rng.dirichlet(np.full(13, 0.5)))
    classes = np.where(nodes < 0, -1, tree.paths.numpy()[nodes, depth - 1])
    sizes = Counter(classes[classes >= 0].tolist())
    options = {"depth": depth, "seed": seed, "world_size": world_size, "drop_last": drop_last, **how}
    if not sizes:
        with pytest.raises(ValueError, match=r"none of the .* samples has a label at depth"):
            ClassBalancedBatchSampler(tree, nodes, batch_size, **options)
        return
    samplers = [
        ClassBalancedBatchSampler(tree, nodes, batch_size, rank=r, **options) for r in range(world_size)
    ]

    # As long as if each sample with a class came once, and no shorter than one batch a rank.
    full, rest = divmod(sum(sizes.values()) // world_size, batch_size)
    expected = [batch_size] * full + [rest] * (rest > 0 and not drop_last) or [batch_size]
    epoch = [list(sampler.batches(2)) for sampler in samplers]
    for sampler, batches in zip(samplers, epoch, strict=True):
        assert len(sampler) == len(batches)
        assert [len(batch) for batch in batches] == expected
        assert sampler.num_left_out == n - sum(sizes.values())
        assert dict(zip(sampler.classes.tolist(), sampler.class_sizes.tolist(), strict=True)) == sizes

    # Each class has its share, each sample its turn.
    used = [sample for batches in epoch for batch in batches for sample in batch.tolist()]
    assert all(classes[sample] >= 0 for sample in used)
    if "beta" in how:
        beta = how["beta"]
        weight = {c: m / sum(beta**j for j in range(m)) for c, m in sizes.items()}
    else:
        weight = {c: m ** how.get("power", 0.0) for c, m in sizes.items()}
    times, dealt = Counter(used), Counter(classes[used].tolist())
    for c in sizes:
        assert abs(dealt[c] - len(used) * weight[c] / sum(weight.values())) < 1 + 1e-9
        turns = [times[sample] for sample in np.flatnonzero(classes == c).tolist()]
        assert max(turns) - min(turns) <= 1

    # Nobody is twice in a batch, unless the class has more places there than samples.
    for batches in epoch:
        for batch in batches:
            places = Counter(classes[batch].tolist())
            most = Counter(batch.tolist())
            for sample, count in most.items():
                c = classes[sample]
                assert count <= math.ceil(places[c] / sizes[c])


def test_shares_are_right_on_average():
    """Three classes at 4/3 places each an epoch: over the epochs they come equally often."""
    tree = even_tree(3)
    nodes = np.repeat(tree.leaves.numpy(), [2, 1, 1])
    sampler = ClassBalancedBatchSampler(tree, nodes, 4)
    assert sampler.shares.tolist() == pytest.approx([1 / 3] * 3)
    counts = sum(np.bincount(nodes[sampler.epoch_order(e)[0]], minlength=4)[1:] for e in range(600))
    assert np.abs(counts - 800).max() < 60


def test_shares():
    nodes = np.repeat(LEAVES[:3], [100, 10, 1])
    shares = {
        name: ClassBalancedBatchSampler(TREE, nodes, 10, **how).shares
        for name, how in {
            "alike": {},
            "root": {"power": 0.5},
            "as they are": {"power": 1},
            "beta 0": {"beta": 0},
            "beta 1": {"beta": 1 - 1e-9},
            "between": {"beta": 0.9},
        }.items()
    }
    assert shares["alike"].tolist() == pytest.approx([1 / 3] * 3)
    assert shares["root"].tolist() == pytest.approx(np.sqrt([100, 10, 1]) / np.sqrt([100, 10, 1]).sum())
    assert shares["as they are"].tolist() == pytest.approx(np.array([100, 10, 1]) / 111)
    assert shares["beta 0"].tolist() == pytest.approx(shares["as they are"])
    assert shares["beta 1"].tolist() == pytest.approx(shares["alike"], rel=1e-6)
    assert shares["alike"][0] < shares["between"][0] < shares["as they are"][0]


def test_one_epoch_uses_each_sample_of_equal_classes_once():
    nodes = np.repeat(LEAVES, 8)
    sampler = ClassBalancedBatchSampler(TREE, nodes, 12)
    assert sorted(sampler.epoch_order(0).ravel()) == list(range(48))


def test_large_classes_change_from_epoch_to_epoch():
    nodes = np.repeat(LEAVES[:2], [200, 2])
    sampler = ClassBalancedBatchSampler(TREE, nodes, 20)
    seen = [set(sampler.epoch_order(epoch).ravel().tolist()) for epoch in range(6)]
    assert all(len(one) == 102 for one in seen)  # 100 of the large class, both of the small one
    assert set.union(*seen) > seen[0]


def test_starting_late_is_a_slice_and_nothing_is_remembered():
    nodes = long_tail(np.random.default_rng(0), 90)
    sampler = ClassBalancedBatchSampler(TREE, nodes, 12, seed=3)
    whole = [batch.tolist() for batch in sampler.batches(2)]
    assert np.array(whole).tolist() == sampler.epoch_order(2).tolist()
    for batch in sampler.batches(2):
        batch[:] = 0
    next(sampler.batches(5))
    for start in range(len(sampler) + 1):
        fresh = pickle.loads(pickle.dumps(sampler))
        assert [batch.tolist() for batch in fresh.batches(2, start)] == whole[start:]
    others = {
        tuple(ClassBalancedBatchSampler(TREE, nodes, 12, seed=s).epoch_order(e).ravel())
        for s in (3, 4)
        for e in (1, 2)
    }
    assert len(others) == 4


def test_ranks_share_one_epoch():
    nodes = long_tail(np.random.default_rng(1), 96)
    one = ClassBalancedBatchSampler(TREE, nodes, 8)
    two = [ClassBalancedBatchSampler(TREE, nodes, 8, rank=rank, world_size=2) for rank in (0, 1)]
    both = np.stack([sampler.epoch_order(0) for sampler in two], axis=1).reshape(-1, 8)
    assert (both == one.epoch_order(0)).all()


def test_coarse_classes_and_labels_without_a_class():
    tree = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d",)])
    nodes = tree.encode(["b", "c", "a", "d", None])
    coarse = ClassBalancedBatchSampler(tree, nodes, 4, depth=1)
    assert tree.decode(coarse.classes.tolist()) == ["a", "d"]
    assert coarse.class_sizes.tolist() == [3, 1]
    fine = ClassBalancedBatchSampler(tree, nodes, 3)
    assert tree.decode(fine.classes.tolist()) == ["a/b", "a/c", "d"]
    assert fine.num_left_out == 2  # the label a has no node of depth 2
    assert sorted(fine.epoch_order(0).ravel()) == [0, 1, 3]


def test_fewer_samples_than_a_batch():
    nodes = LEAVES[:2]
    assert sorted(ClassBalancedBatchSampler(TREE, nodes, 6).epoch_order(0)[0]) == [0, 0, 0, 1, 1, 1]
    (batch,) = ClassBalancedBatchSampler(TREE, nodes, 6, drop_last=False).batches(0)
    assert sorted(batch) == [0, 1]
    many = ClassBalancedBatchSampler(TREE, nodes, 2, world_size=3, drop_last=False)
    assert [len(batch) for batch in many.batches(0)] == [2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 3}, "depth is 3, expected 1 to 2"),
        ({"depth": 0}, "depth is 0, expected 1 to 2"),
        ({"power": -0.1}, r"power is -0.1, expected 0 \(classes alike\) to 1"),
        ({"power": 2}, "power is 2, expected 0"),
        ({"beta": 1}, "beta is 1, expected at least 0 and less than 1"),
        ({"beta": 0.9, "power": 0.5}, "power and beta are both given"),
        ({"nodes": [99]}, "nodes holds 99, expected at most 8"),
        ({"nodes": [-1, -1]}, "none of the 2 samples has a label at depth 2"),
        ({"nodes": []}, "none of the 0 samples"),
    ],
)
def test_arguments_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        ClassBalancedBatchSampler(**{"taxonomy": TREE, "nodes": LEAVES, "batch_size": 4, **options})
