import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling_promises import check_promises
from sampling_trees import even_tree, lca_depth, random_tree

from labeltree.sampling import HierarchicalBatchSampler
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow


@settings(max_examples=120)
@given(
    seed=st.integers(0, 10**6),
    num_nodes=st.integers(2, 25),
    nearness=st.sampled_from([0.3, 1.0, 3.0]),
    n=st.integers(1, 90),
    batch_size=st.integers(1, 40),
    missing=st.sampled_from([0.0, 0.0, 0.3, 0.9]),
    leaves_only=st.booleans(),
    skew=st.sampled_from([0.0, 1.0, 3.0]),
    drop_last=st.booleans(),
)
def test_promises_on_random_trees(
    seed, num_nodes, nearness, n, batch_size, missing, leaves_only, skew, drop_last
):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, num_nodes, nearness)
    labels = tree.leaves.numpy() if leaves_only else np.arange(num_nodes)
    share = 1 / (1 + rng.permutation(len(labels))) ** skew
    nodes = np.where(rng.random(n) < missing, -1, rng.choice(labels, n, p=share / share.sum()))
    if drop_last and n < batch_size:
        batch_size = n
    sampler = HierarchicalBatchSampler(tree, nodes, batch_size, seed=seed, drop_last=drop_last)
    check_promises(tree, sampler, epoch=int(rng.integers(3)))


@pytest.mark.parametrize("batch_size", [4, 10, 12, 60, 64])
def test_promises_where_one_child_dominates(batch_size):
    tree = Taxonomy.from_paths(
        [("a", "x", "1"), ("a", "x", "2"), ("a", "y", "3"), ("b", "z", "4"), ("c", "5"), ("d",)]
    )
    nodes = tree.encode(
        ["1"] * 90 + ["2"] * 20 + ["3"] * 6 + ["4"] * 10 + ["5"] * 3 + ["d"] * 5 + [None] * 10
    )
    sampler = HierarchicalBatchSampler(tree, nodes, batch_size, drop_last=False)
    for epoch in range(3):
        check_promises(tree, sampler, epoch)
    coverage = sampler.coverage(0)
    assert coverage[3] > 0.8
    # y has six samples, too few for the anchors below x to have a partner for depth 1.
    assert coverage[1] < 0.4


def test_every_wish_is_granted_in_an_even_tree():
    tree = even_tree(3, 4, 5)
    nodes = np.repeat(tree.leaves.numpy(), 16)
    sampler = HierarchicalBatchSampler(tree, nodes, 64)
    for epoch in range(3):
        assert sampler.coverage(epoch) == {1: 1.0, 2: 1.0, 3: 1.0}
        for batch in sampler.batches(epoch):
            # 16 groups of 4: each sample of the batch has company at its leaf or at its parents.
            labels = nodes[batch].reshape(16, 4)
            parent = tree.parent.tolist()
            assert all([lca_depth(parent, row[0], p) for p in row[1:]] == [3, 2, 1] for row in labels)


def test_two_samples_a_leaf_suffice_for_the_finest_depth():
    # Random anchors would often take both samples of a leaf; evenly spread ones never do.
    tree = even_tree(5, 8)
    nodes = np.repeat(tree.leaves.numpy(), 2)
    sampler = HierarchicalBatchSampler(tree, nodes, 20)
    assert [sampler.coverage(epoch)[2] for epoch in range(10)] == [1.0] * 10


def test_inner_nodes_have_partners_at_the_depths_they_have():
    tree = Taxonomy.from_paths([("a", "b", "c"), ("a", "b", "d"), ("e", "f")])
    nodes = tree.encode(["a/b"] * 4 + ["c"] * 8 + ["d"] * 8)
    sampler = HierarchicalBatchSampler(tree, nodes, 20)
    seen = set()
    for epoch in range(20):
        check_promises(tree, sampler, epoch)
        plan = sampler.plan(epoch)
        for slot in np.flatnonzero(plan.wish == 0):
            label = nodes[plan.order[slot]]
            seen.add((int(tree.depth[label]), int(plan.wish[slot + 1]) if slot + 1 < 20 else 0))
    assert (2, 2) in seen  # an anchor labelled a/b begins with its partner for depth 2
    assert (2, 3) not in seen
    assert (3, 3) in seen


def test_all_missing_and_root_labels_give_random_batches():
    tree = even_tree(2, 2)
    for label in (-1, 0):
        sampler = HierarchicalBatchSampler(tree, np.full(50, label), 8, drop_last=False)
        assert sampler.coverage(0) == {}
        assert sorted(np.concatenate(list(sampler.batches(0)))) == list(range(50))
        check_promises(tree, sampler, 1)


def test_missing_labels_are_spread_evenly():
    tree = even_tree(2, 3)
    rng = np.random.default_rng(0)
    nodes = np.where(rng.random(1000) < 0.5, -1, rng.choice(tree.leaves.numpy(), 1000))
    sampler = HierarchicalBatchSampler(tree, nodes, 50)
    missing = [int((nodes[batch] < 0).sum()) for batch in sampler.batches(0)]
    assert max(missing) - min(missing) <= 1
    assert sampler.coverage(0)[2] == 1.0  # they take no partner's place


def test_one_class_and_one_node():
    tree = Taxonomy.from_paths([("only",)])
    sampler = HierarchicalBatchSampler(tree, np.ones(10, dtype=int), 5)
    check_promises(tree, sampler, 0)
    assert sampler.coverage(0)[1] == pytest.approx(4 / 6)  # 2 of 5 in pairs; the fifth is an anchor cut short


def test_anchors_and_partners_change_with_the_epoch_and_all_samples_get_their_turn():
    tree = even_tree(2, 3)
    nodes = np.repeat(tree.leaves.numpy(), 10)
    sampler = HierarchicalBatchSampler(tree, nodes, 24)  # 48 of 60 an epoch
    anchors, left_out = np.zeros(60), np.zeros(60)
    for epoch in range(200):
        plan = sampler.plan(epoch)
        anchors[plan.order[plan.wish == 0]] += 1
        left_out += np.bincount(plan.order, minlength=60) == 0
    assert anchors.min() > 25  # expected 53 each
    assert left_out.max() < 80  # expected 40 each
    assert left_out.min() > 12


def test_partners_come_from_all_siblings():
    tree = even_tree(1, 6)
    leaves = tree.leaves.tolist()
    nodes = np.repeat(leaves, 12)
    sampler = HierarchicalBatchSampler(tree, nodes, 72)
    pairs = set()
    for epoch in range(60):
        plan = sampler.plan(epoch)
        heads = np.flatnonzero(plan.wish == 0)
        pairs |= {(int(nodes[plan.order[h]]), int(nodes[plan.order[h + 2]])) for h in heads}
    assert pairs == {(a, b) for a in leaves for b in leaves if a != b}


def test_deep_chain_and_many_nodes():
    chain = Taxonomy.from_edges([(str(v), str(v - 1)) for v in range(1, 40)])
    sampler = HierarchicalBatchSampler(chain, np.arange(1, 40).repeat(2), 13)
    check_promises(chain, sampler, 0)
    rng = np.random.default_rng(0)
    wide = random_tree(rng, 70_000)  # more labels than 16 bits hold
    nodes = rng.permutation(np.arange(1, 70_000))
    order = HierarchicalBatchSampler(wide, nodes, 100, drop_last=False).plan(0).order
    assert sorted(order.tolist()) == list(range(len(nodes)))


def test_labels_as_tensor_list_or_array_are_the_same_and_copied():
    tree = even_tree(2, 2)
    nodes = np.repeat(tree.leaves.numpy(), 5)
    given = nodes.copy()
    samplers = [
        HierarchicalBatchSampler(tree, x, 4) for x in (given, torch.from_numpy(nodes), nodes.tolist())
    ]
    given[:] = -1
    orders = [sampler.epoch_order(0) for sampler in samplers]
    assert (orders[0] == orders[1]).all()
    assert (orders[0] == orders[2]).all()


def test_a_label_outside_the_tree_is_an_error():
    tree = even_tree(2)
    with pytest.raises(ValueError, match=r"nodes holds 3, expected less than the 3 nodes of the taxonomy"):
        HierarchicalBatchSampler(tree, [1, 2, 3], 2)
