"""HAF: published figures, a slow loop, each term alone, depths, labels of any depth."""

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from slow_classifiers import below, classes_at, columns_of, labelled_mean, line, probability
from slow_classifiers import same_value_and_gradient as same
from slow_losses import even_tree, random_batch, random_tree

from labeltree.losses import CrossEntropyLoss, HAFLoss
from labeltree.taxonomy import Taxonomy

TREES = [random_tree(seed) for seed in range(5)] + [even_tree(2, 3), even_tree(3, 2, 2), even_tree(4)]


def batch(tree, seed, n=9):
    x, nodes, _ = random_batch(tree, seed, n=n, d=3)
    nodes[2] = -1
    torch.manual_seed(seed)
    return (3 * x).requires_grad_(), nodes


@pytest.fixture
def published():
    (case,) = json.loads((Path(__file__).parent / "oracles" / "haf.json").read_text())["cases"]
    inputs, expected = case["inputs"], case["expected"]
    paths = [tuple(path) for path in inputs["paths"]]
    tree = Taxonomy.from_paths(paths)
    assert torch.equal(tree.encode(paths), tree.leaves)
    x = torch.tensor(inputs["features"], dtype=torch.float64, requires_grad=True)
    loss = HAFLoss(tree, x.shape[1]).double()
    with torch.no_grad():
        for linear, weight, bias in zip(loss.classifiers, inputs["weights"], inputs["biases"], strict=True):
            linear.weight.copy_(torch.tensor(weight, dtype=torch.float64))
            linear.bias.copy_(torch.tensor(bias, dtype=torch.float64))
    return loss, x, tree.leaves[inputs["labels"]], expected


def test_published_figures(published):
    loss, x, nodes, expected = published
    value = loss(x, nodes)
    value.backward()
    assert value.item() == pytest.approx(expected["loss"] + 4, rel=1e-10)
    torch.testing.assert_close(x.grad, torch.tensor(expected["grad"]).double(), rtol=1e-6, atol=1e-7)
    for linear, figure in zip(loss.classifiers, expected["grad_weights"], strict=True):
        torch.testing.assert_close(linear.weight.grad, torch.tensor(figure).double(), rtol=1e-6, atol=1e-7)


def test_published_figures_of_each_term(published):
    loss, x, nodes, expected = published
    for term, figure in (
        ("consistency_weight", expected["consistency"]),
        ("margin_weight", expected["margin"]),
        ("geometric_weight", 4 - expected["cosines"]),
    ):
        for name in ("consistency_weight", "margin_weight", "geometric_weight"):
            setattr(loss, name, 2.5 * (name == term))
        value = loss(x, nodes).item()
        assert value == pytest.approx(expected["cross_entropy"] + 2.5 * figure, rel=1e-10)


def relative(p, r):
    return sum(a * torch.log(a / b) for a, b in zip(p, r, strict=True))


def cosine(x, y):
    return (x @ y) / (x.norm() * y.norm())


def slow(tree, x, nodes, loss):
    depths = loss.depths
    classes = [classes_at(tree, depth) for depth in depths]
    weights = [[w / w.norm() for w in linear.weight] for linear in loss.classifiers]
    logits = [
        [[row @ w + b for w, b in zip(unit, linear.bias, strict=True)] for row in x]
        for unit, linear in zip(weights, loss.classifiers, strict=True)
    ]
    answers = [[torch.softmax(torch.stack(row), 0) for row in rows] for rows in logits]
    zero = x.sum() * 0
    rows = [
        -torch.log(probability(row, columns_of(tree, node, classes[-1])))
        for row, node in zip(logits[-1], nodes.tolist(), strict=True)
    ]
    total = labelled_mean(rows, nodes, zero)
    for at, (coarse, fine) in enumerate(pairwise(classes)):
        children = [[e for e, c in enumerate(fine) if c in below(tree, parent)] for parent in coarse]
        rows = []
        for p, finer in zip(answers[at], answers[at + 1], strict=True):
            q = torch.stack([sum(finer[e] for e in own) for own in children])
            rows.append((relative(p, (p + q) / 2) + relative(q, (p + q) / 2)) / 2)
        total = total + loss.consistency_weight * labelled_mean(rows, nodes, zero)

        def known(node, at=at):
            way = line(tree, node) if node >= 0 else []
            if len(way) > depths[at]:
                return way[depths[at]]
            return None if not way or tree.children(node) else node

        hinges = []
        for i in range(len(x)):
            j = (i + 1) % len(x)
            u, v = known(int(nodes[i])), known(int(nodes[j]))
            if u is not None and v is not None and u != v:
                p, q = answers[at][i], answers[at][j]
                r = (p + q) / 2
                hinges += [(loss.margin - relative(p, r)).relu(), (loss.margin - relative(q, r)).relu()]
        if hinges:
            total = total + loss.margin_weight * sum(hinges) / len(hinges)
        cosines = [
            cosine(weights[at][k], sum(weights[at + 1][e] for e in own)) for k, own in enumerate(children)
        ]
        total = total + loss.geometric_weight * (1 - sum(cosines) / len(cosines))
    return total


@pytest.mark.parametrize("seed", range(len(TREES)))
def test_slow_loop(seed):
    tree = TREES[seed]
    x, nodes = batch(tree, seed)
    depths = [1, tree.max_depth] if seed == 1 else [1, 2] if seed == 6 else None
    loss = HAFLoss(
        tree,
        3,
        depths,
        consistency_weight=0.7,
        margin_weight=1.3,
        geometric_weight=0.4,
        margin=3.0 if seed % 2 else 0.1,
    ).double()
    same(loss(x, nodes), slow(tree, x, nodes, loss), x, *loss.parameters())


def test_one_depth_is_cross_entropy_of_unit_weights():
    for tree, depths in ((even_tree(4), None), (even_tree(2, 3), [2]), (even_tree(2, 3), [1])):
        x, nodes = batch(tree, 0)
        loss = HAFLoss(tree, 3, depths).double()
        (logits,) = loss.logits_of_depths(x)
        (linear,) = loss.classifiers
        torch.testing.assert_close(logits, x @ torch.nn.functional.normalize(linear.weight).T + linear.bias)
        expected = CrossEntropyLoss(tree, (depths or [None])[0])(logits, nodes)
        torch.testing.assert_close(loss(x, nodes), expected)


def test_the_published_margin_is_never_met():
    tree = even_tree(2, 2)
    torch.manual_seed(0)
    loss = HAFLoss(tree, 2, consistency_weight=0.0, geometric_weight=0.0).double()
    x = torch.tensor([[90.0, 0.0], [-90.0, 0.0]], dtype=torch.float64)
    with torch.no_grad():
        for linear in loss.classifiers:
            linear.bias.zero_()
        loss.classifiers[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    nodes = tree.leaves[[0, 3]]
    values = {}
    for weight, margin in ((0.0, 3.0), (1.0, 3.0), (1.0, 0.69), (1.0, 1.0)):
        loss.margin_weight, loss.margin = weight, margin
        values[weight * margin] = loss(x, nodes).item()
    assert values[3.0] - values[0.0] == pytest.approx(3 - math.log(2), rel=1e-5)
    assert values[1.0] - values[0.0] == pytest.approx(1 - math.log(2), rel=1e-5)
    assert values[0.69] == values[0.0]


def test_one_row_and_few_labels():
    tree = even_tree(2, 2)
    torch.manual_seed(0)
    loss = HAFLoss(tree, 3)
    left = sum(
        (1 - torch.stack([cosine(w, fine[[2 * k, 2 * k + 1]].sum(0)) for k, w in enumerate(coarse)]).mean())
        for coarse, fine in pairwise(torch.nn.functional.normalize(c.weight) for c in loss.classifiers)
    )
    for nodes in ([-1], [3], [1], [-1, -1], []):
        x = torch.randn(len(nodes), 3, requires_grad=True)
        value = loss(x, torch.tensor(nodes, dtype=torch.int64))
        value.backward()
        assert x.grad.isfinite().all()
        if max(nodes, default=-1) < 0:
            torch.testing.assert_close(value, left)
            assert not x.grad.any()


def test_training_makes_the_depths_agree():
    tree = even_tree(3, 2)
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    centres = torch.randn(len(tree), 8, generator=generator)
    nodes = tree.leaves.repeat(8)[torch.randperm(48, generator=generator)]
    x = 2 * centres[nodes] + 0.3 * torch.randn(48, 8, generator=generator)
    loss = HAFLoss(tree, 8)
    optimizer = torch.optim.Adam(loss.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        loss(x, nodes).backward()
        optimizer.step()
    assert (loss.predict(x) == nodes).all()
    coarse = loss.logits_of_depths(x)[0].argmax(1)
    assert (torch.tensor(tree.children(0))[coarse] == tree.parent[nodes]).all()
