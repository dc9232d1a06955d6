"""Cross entropy at any depth, with labels of any depth, long tails and smoothing."""

import pytest
import torch
from slow_classifiers import (
    classes_at,
    columns_of,
    labelled_mean,
    probability,
    random_logits,
    same_value_and_gradient,
)
from slow_losses import even_tree, random_tree
from torch.nn import functional

from labeltree.losses import CrossEntropyLoss, class_nodes, class_ranges, node_log_likelihood
from labeltree.taxonomy import Taxonomy

TREES = [random_tree(seed) for seed in range(4)] + [even_tree(2, 3), even_tree(3, 2, 2), even_tree(4)]
CHAIN = Taxonomy.from_paths([("a", "b", "c")])


@pytest.mark.parametrize("tree", [*TREES, CHAIN])
def test_classes_and_what_labels_stand_for(tree):
    for depth in (None, *range(1, tree.max_depth + 1)):
        classes = class_nodes(tree, depth)
        assert classes.tolist() == classes_at(tree, depth)
        ranges = class_ranges(tree, classes)
        for node in range(-1, len(tree)):
            first, end = ranges[node].tolist()
            assert list(range(first, end)) == columns_of(tree, node, classes.tolist())


def slow(tree, logits, nodes, depth, prior=None, smoothing=0.0):
    classes = classes_at(tree, depth)
    rows = []
    for x, node in zip(logits, nodes.tolist(), strict=True):
        x = x if prior is None else x + prior
        own = columns_of(tree, node, classes)
        row = -(1 - smoothing + smoothing * len(own) / len(classes)) * torch.log(probability(x, own))
        for k in range(len(classes)):
            if smoothing and k not in own:
                row = row - smoothing / len(classes) * torch.log(probability(x, [k]))
        rows.append(row)
    return labelled_mean(rows, nodes, logits.sum() * 0)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(len(TREES)))
def test_slow_loop(seed, smoothing):
    tree = TREES[seed]
    for depth in (None, *range(1, tree.max_depth + 1)):
        logits, nodes = random_logits(tree, seed, depth=depth)
        loss = CrossEntropyLoss(tree, depth, label_smoothing=smoothing)
        expected = slow(tree, logits, nodes, depth, smoothing=smoothing)
        same_value_and_gradient(loss(logits, nodes), expected, logits)


def test_leaves_alone_are_the_ordinary_cross_entropy():
    tree = random_tree(7)
    logits, nodes = random_logits(tree, 7, leaves=True)
    column = torch.searchsorted(tree.leaves, nodes)
    for smoothing in (0.0, 0.1):
        loss = CrossEntropyLoss(tree, label_smoothing=smoothing)
        expected = functional.cross_entropy(logits, column, label_smoothing=smoothing)
        same_value_and_gradient(loss(logits, nodes), expected, logits)


def test_classes_at_a_depth_are_the_leaves_of_the_cut():
    tree = random_tree(3)
    cut, mapping = tree.cut(2)
    logits, nodes = random_logits(tree, 0, depth=2)
    there = torch.where(nodes < 0, -1, mapping[nodes])
    same_value_and_gradient(
        CrossEntropyLoss(tree, 2)(logits, nodes), CrossEntropyLoss(cut)(logits, there), logits
    )


@pytest.mark.parametrize("tau", [0.5, 1.0])
def test_logit_adjustment(tau):
    tree = random_tree(2)
    logits, nodes = random_logits(tree, 2)
    training = torch.cat([tree.leaves.repeat_interleave(torch.arange(len(tree.leaves))), nodes])
    counts = [0.0] * len(tree.leaves)
    for node in training.tolist():
        own = columns_of(tree, node, tree.leaves.tolist())
        for k in own if node >= 0 else ():
            counts[k] += 1 / len(own)
    loss = CrossEntropyLoss(tree, logit_adjustment=tau)
    loss.observe_labels(training[:3])
    loss.observe_labels(training)  # forgets what it saw before
    assert loss.class_counts.tolist() == pytest.approx(counts, rel=1e-6, abs=1e-6)
    counts = loss.class_counts.double().clamp(min=1)
    expected = slow(tree, logits, nodes, None, prior=tau * (counts / counts.sum()).log())
    same_value_and_gradient(loss(logits, nodes), expected, logits)
    plain = CrossEntropyLoss(tree)
    assert torch.equal(loss.predict(logits), plain.predict(logits))
    again = CrossEntropyLoss(tree, logit_adjustment=tau)
    again.load_state_dict(loss.state_dict())
    assert torch.equal(again(logits, nodes), loss(logits, nodes))


def test_equal_frequencies_adjust_nothing():
    tree = even_tree(3, 2)
    logits, nodes = random_logits(tree, 1)
    loss = CrossEntropyLoss(tree, logit_adjustment=1.0)
    loss.observe_labels(tree.leaves.repeat(5))
    same_value_and_gradient(loss(logits, nodes), CrossEntropyLoss(tree)(logits, nodes), logits)


def test_adjusting_favours_the_rare_class_in_predictions_of_a_constant_model():
    tree = even_tree(2)
    loss = CrossEntropyLoss(tree, logit_adjustment=1.0)
    nodes = tree.leaves[torch.tensor([0] * 9 + [1])]
    loss.observe_labels(nodes)
    logits = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=4.0)
    for _ in range(100):
        optimizer.zero_grad()
        loss(logits.expand(10, 2), nodes).backward()
        optimizer.step()
    assert logits.softmax(0).tolist() == pytest.approx([0.5, 0.5], abs=1e-3)  # as if both were as frequent


def test_logits_are_not_adjusted_before_labels_were_seen():
    tree = even_tree(2, 2)
    loss = CrossEntropyLoss(tree, logit_adjustment=1.0)
    with pytest.raises(ValueError, match="observe_labels"):
        loss(torch.zeros(1, 4), tree.leaves[:1])


def test_root_and_missing_labels():
    tree = random_tree(5)
    logits, _ = random_logits(tree, 0, n=3)
    ranges = class_ranges(tree, class_nodes(tree))
    assert node_log_likelihood(logits, torch.tensor([0, -1, 0]), ranges).tolist() == [0.0] * 3
    loss = CrossEntropyLoss(tree)
    one = loss(logits[:1], tree.leaves[:1])
    assert torch.equal(loss(logits, torch.tensor([int(tree.leaves[0]), -1, -1])), one)
    torch.testing.assert_close(loss(logits, torch.tensor([int(tree.leaves[0]), -1, 0])), one / 2)


def test_prediction():
    tree = random_tree(1)
    logits, _ = random_logits(tree, 1)
    for depth in (None, 1):
        loss = CrossEntropyLoss(tree, depth)
        x = logits[:, : len(loss.classes)]
        expected = [classes_at(tree, depth)[max(range(len(row)), key=row.__getitem__)] for row in x.tolist()]
        assert loss.predict(x).tolist() == expected


def test_large_logits_keep_their_digits():
    tree = even_tree(2, 2)
    logits = torch.tensor([[1e4, 1e4 + 1, 1e4, 1e4 - 1]])
    nodes = tree.encode([("0",)])
    exact = CrossEntropyLoss(tree)(logits.double(), nodes)
    torch.testing.assert_close(CrossEntropyLoss(tree)(logits, nodes).double(), exact, rtol=1e-6, atol=0)
    far = torch.tensor([[0.0, 0.0, 2e4, 0.0]], requires_grad=True)  # p(node) vanishes in any precision
    value = CrossEntropyLoss(tree)(far, nodes)
    value.backward()
    assert 1.9e4 < value < 2.1e4
    assert far.grad.isfinite().all()


def test_ten_thousand_classes_of_any_depth_are_fast_and_small():
    tree = even_tree(10, 10, 100)
    nodes = torch.randint(-1, len(tree), (64,), generator=torch.Generator().manual_seed(0))
    logits = torch.zeros(64, 10_000, requires_grad=True)
    value = CrossEntropyLoss(tree)(logits, nodes)
    size = tree.subtree_end - torch.arange(len(tree))
    shares = {1: 1e-4, 101: 1e-2, 1011: 1e-1}
    expected = [-torch.tensor(shares.get(int(size[v]), 1.0)).log() for v in nodes if v >= 0]
    torch.testing.assert_close(value, torch.stack(expected).mean())
