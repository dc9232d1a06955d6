"""Soft labels: targets, normalisations, labels that leave classes open."""

import json
import math
from pathlib import Path

import pytest
import torch
from slow_classifiers import (
    classes_at,
    columns_of,
    labelled_mean,
    line,
    probability,
    random_logits,
    same_value_and_gradient,
)
from slow_losses import even_tree, random_tree

from labeltree.losses import CrossEntropyLoss, SoftLabelLoss
from labeltree.taxonomy import Taxonomy
from sweeps import long_unless

pytestmark = pytest.mark.slow

TREES = [random_tree(seed) for seed in range(4)] + [even_tree(2, 3), even_tree(3, 2, 2), even_tree(4)]
CASES = json.loads((Path(__file__).parent / "oracles" / "hxe_softlabels.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["inputs"]["taxonomy"])
def test_published_figures(case):
    given, expected = case["inputs"], case["expected"]["soft_labels"]
    tree = Taxonomy.from_edges([pair for pair in given["parent"].items() if pair[1] is not None])
    classes = tree.encode(given["classes"])
    order = classes.argsort()
    nodes = classes[torch.tensor(given["labels"])]
    for figures in expected:
        targets = SoftLabelLoss(tree, figures["beta"]).targets(classes, torch.float64)[:, order.argsort()]
        matrix = torch.tensor(figures["matrix"], dtype=torch.float64)
        torch.testing.assert_close(targets, matrix, rtol=1e-9, atol=0)
        logits = torch.tensor(given["logits"], dtype=torch.float64, requires_grad=True)
        value = SoftLabelLoss(tree, figures["beta"])(logits[:, order], nodes)
        assert value.item() == pytest.approx(figures["soft_cross_entropy"]["loss"], rel=1e-9, abs=0)
        value.backward()
        grad = torch.tensor(figures["soft_cross_entropy"]["grad"], dtype=torch.float64)
        assert (logits.grad - grad).abs().max() <= 1e-9 * grad.abs().max()
        logits.grad = None
        published = SoftLabelLoss(tree, figures["beta"], variant="reference")(logits[:, order], nodes)
        assert published.item() == pytest.approx(figures["kl_elementwise_mean"], rel=1e-9, abs=0)
        assert published.item() * len(classes) == pytest.approx(figures["kl_batchmean"], rel=1e-9, abs=0)
        published.backward()
        assert (logits.grad * len(classes) - grad).abs().max() <= 1e-9 * grad.abs().max()


def lca_height(tree, u, v):
    return max(
        int(tree.height[w]) for w in set(line(tree, u)) & set(line(tree, v)) if w == shared(tree, u, v)
    )


def shared(tree, u, v):
    return max(set(line(tree, u)) & set(line(tree, v)), key=lambda w: int(tree.depth[w]))


def soft_label(tree, leaf, classes, beta, largest):
    row = [math.exp(-beta * lca_height(tree, leaf, c) / largest) for c in classes]
    return [x / sum(row) for x in row]


def slow(tree, logits, nodes, beta, variant):
    classes = classes_at(tree)
    largest = tree.max_height
    if variant == "reference":
        pairs = [(u, v) for u in classes for v in classes if u != v]
        largest = max((lca_height(tree, u, v) for u, v in pairs), default=largest)
    rows = []
    for x, node in zip(logits, nodes.tolist(), strict=True):
        own = columns_of(tree, node, classes)
        soft = [soft_label(tree, classes[k], classes, beta, largest) for k in own]
        target = [sum(column) / len(own) for column in zip(*soft, strict=True)]
        events = [[k] for k in range(len(classes)) if k not in own] + [own]
        row = x.sum() * 0
        for event in events:
            t = sum(target[k] for k in event)
            row = row - t * torch.log(probability(x, event))
            if variant == "reference":
                row = row + t * math.log(t)
        rows.append(row / (len(classes) if variant == "reference" else 1))
    return labelled_mean(rows, nodes, logits.sum() * 0)


@pytest.mark.parametrize("variant", ["paper", "reference"])
@pytest.mark.parametrize("seed", long_unless(range(len(TREES)), [0, 1, 4, 6]))
def test_slow_loop(seed, variant):
    tree = TREES[seed]
    logits, nodes = random_logits(tree, seed)
    for beta in (0.0, 1.0, 10.0):
        loss = SoftLabelLoss(tree, beta, variant=variant)
        same_value_and_gradient(loss(logits, nodes), slow(tree, logits, nodes, beta, variant), logits)


def test_a_root_with_a_single_child():
    tree = Taxonomy.from_paths([("all", "a", "b"), ("all", "a", "c"), ("all", "d", "e")])
    logits, nodes = random_logits(tree, 0)
    for variant in ("paper", "reference"):
        loss = SoftLabelLoss(tree, 3.0, variant=variant)
        same_value_and_gradient(loss(logits, nodes), slow(tree, logits, nodes, 3.0, variant), logits)


@pytest.mark.parametrize("seed", range(len(TREES)))
def test_sharp_soft_labels_are_cross_entropy_for_labels_of_any_depth(seed):
    tree = TREES[seed]
    logits, nodes = random_logits(tree, seed)
    loss = SoftLabelLoss(tree, 1e4)
    same_value_and_gradient(loss(logits, nodes), CrossEntropyLoss(tree)(logits, nodes), logits)


@pytest.mark.parametrize("beta", [math.inf, 1e40, 1e5])
@pytest.mark.parametrize("variant", ["paper", "reference"])
def test_infinitely_sharp_soft_labels_are_cross_entropy(beta, variant):
    for seed, tree in enumerate(TREES):
        logits, nodes = random_logits(tree, seed)
        logits = logits.detach().float().requires_grad_()
        expected = CrossEntropyLoss(tree)(logits, nodes)
        if variant == "reference":
            expected = expected / tree.num_leaves  # a target of one event has no entropy
        value = SoftLabelLoss(tree, beta, variant=variant)(logits, nodes)
        torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-7)
        (grad,), (wanted,) = (torch.autograd.grad(x, logits) for x in (value, expected))
        torch.testing.assert_close(grad, wanted, rtol=1e-5, atol=1e-7)


def test_flat_soft_labels_are_uniform():
    tree = random_tree(3)
    logits, nodes = random_logits(tree, 3, leaves=True)
    expected = -torch.log_softmax(logits, 1).mean()
    same_value_and_gradient(SoftLabelLoss(tree, 0.0)(logits, nodes), expected, logits)


def test_targets_add_up_to_one_and_fall_with_distance():
    tree = even_tree(2, 2, 2)
    for node in (-1, *range(len(tree))):
        row = SoftLabelLoss(tree, 2.0).targets(torch.tensor([node]), torch.float64)[0]
        assert row.sum().item() == pytest.approx(1, rel=1e-12)
    first = SoftLabelLoss(tree, 2.0).targets(tree.leaves[:1], torch.float64)[0].tolist()
    assert first[0] > first[1] > first[2] == first[3] > first[4] == first[7]


def test_the_least_loss_is_reached_at_the_targets_whatever_happens_inside_an_inner_node():
    tree = even_tree(2, 2)
    loss = SoftLabelLoss(tree, 2.0)
    node = tree.encode([("0",)])
    target = loss.targets(node, torch.float64)
    least = loss(target.log(), node)
    moved = target * torch.tensor([0.2, 1.8, 1.0, 1.0])
    torch.testing.assert_close(loss(moved.log(), node), least)
    assert loss((target * torch.tensor([1.0, 1.0, 1.5, 0.5])).log(), node) > least
