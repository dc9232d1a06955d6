"""CSL and hierarchical proxies: published figures, slow loops, special cases, margins of any depth."""

import json
import math
from pathlib import Path

import pytest
import torch
from slow_classifiers import below, classes_at, columns_of, labelled_mean, line, probability
from slow_classifiers import same_value_and_gradient as same
from slow_losses import even_tree, random_batch, random_tree

from labeltree.losses import CrossEntropyLoss, CSLLoss, HierarchicalProxyLoss
from labeltree.taxonomy import Taxonomy

TREES = [random_tree(seed) for seed in range(5)] + [even_tree(2, 3), even_tree(3, 2, 2), even_tree(4)]
TREES += [Taxonomy.from_paths([("a", "b", "c"), ("a", "b", "d")]), Taxonomy.from_paths([("a", "b")])]


def given(tree, seed, *, leaves=False):
    z, nodes, _ = random_batch(tree, seed, n=9, d=3, leaves=leaves)
    nodes[0] = -1
    torch.manual_seed(seed)
    return z.requires_grad_(), nodes


def test_published_figures_of_csl():
    (case,) = json.loads((Path(__file__).parent / "oracles" / "csl.json").read_text())["cases"]
    inputs, expected = case["inputs"], case["expected"]
    paths = [tuple(path) for path in inputs["paths"]]
    tree = Taxonomy.from_paths(paths)
    leaves = tree.encode(paths)
    assert torch.equal(leaves, tree.leaves)
    z = torch.tensor(inputs["embeddings"], dtype=torch.float64, requires_grad=True)
    loss = CSLLoss(tree, z.shape[1]).double()
    with torch.no_grad():
        loss.proxies.copy_(torch.tensor(inputs["proxies"], dtype=torch.float64))
    value = loss(z, leaves[inputs["labels"]])
    value.backward()
    assert value.item() == pytest.approx(expected["loss"], rel=1e-10)
    for got, figure in ((z.grad, expected["grad"]), (loss.proxies.grad, expected["grad_proxies"])):
        torch.testing.assert_close(got, torch.tensor(figure).double(), rtol=1e-6, atol=1e-7)


def cosine(x, y):
    return (x @ y) / (x.norm() * y.norm())


def at_depth(tree, node, depth):
    """The node on the path at a depth; a leaf continues itself; None: undecided."""
    way = line(tree, node)
    return way[depth] if len(way) > depth else None if tree.children(node) else node


def slow_csl(tree, z, nodes, proxies, scale, margins):
    leaves = classes_at(tree)
    total = z.sum() * 0
    for depth, margin in enumerate(margins, start=1):
        rows = []
        for x, node in zip(z, nodes.tolist(), strict=True):
            mine = None if node < 0 else at_depth(tree, node, depth)
            if mine is None:
                continue
            s = [scale * cosine(x, p) for p in proxies]
            outside = [torch.exp(s[k]) for k, c in enumerate(leaves) if at_depth(tree, c, depth) != mine]
            own = [torch.exp(s[k]) for k, c in enumerate(leaves) if c in below(tree, node)]
            odds = sum(outside) / sum(own) * math.exp(scale * margin)
            rows.append(torch.log(1 + odds))
        if rows:
            total = total + sum(rows) / len(rows)
    return total


@pytest.mark.parametrize("seed", range(len(TREES)))
def test_csl_is_its_slow_loop(seed):
    tree = TREES[seed]
    z, nodes = given(tree, seed)
    margins = [0.6 - 0.1 * t for t in range(tree.max_depth)]
    loss = CSLLoss(tree, 3, 3.0, margins=margins).double()
    same(loss(z, nodes), slow_csl(tree, z, nodes, loss.proxies, 3.0, margins), z, loss.proxies)


def test_margins_of_any_depth():
    def margins(tree):
        return CSLLoss(tree, 2).margins.tolist()

    assert margins(even_tree(3)) == [0.25]
    assert margins(even_tree(2, 2)) == pytest.approx([0.45, 0.25])
    assert margins(even_tree(2, 2, 2)) == pytest.approx([0.45, 0.35, 0.25])
    assert margins(even_tree(1, 1, 1, 1, 1)) == pytest.approx([0.45, 0.40, 0.35, 0.30, 0.25])
    assert CSLLoss(even_tree(2, 2), 2, margins=0.3).margins.tolist() == [0.3, 0.3]


def test_far_classes_vanish_without_nan():
    """Of a large scale the others' shares are beyond float32: the loss is what it is in float64."""
    tree = even_tree(2, 2)
    loss = CSLLoss(tree, 2, 200.0)
    with torch.no_grad():
        loss.proxies.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.1], [-1.0, 0.0], [-1.0, -0.1]]))
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    nodes = tree.leaves[[0, 0]]
    near = loss(z, nodes)
    near.backward()
    expected = slow_csl(tree, z.double(), nodes, loss.proxies.double(), 200.0, [0.45, 0.25])
    assert near.item() == pytest.approx(expected.item(), rel=1e-6)
    assert near.dtype == torch.float32
    assert z.grad.isfinite().all()
    assert loss.float()(z[:1], tree.leaves[:1]) < 1e-6


def slow_hierarchy(tree, z, nodes, proxies, weights, temperature):
    leaves = classes_at(tree)
    unit = [p / p.norm() for p in proxies]
    total = z.sum() * 0
    for depth, weight in enumerate(weights, start=1):
        classes = classes_at(tree, depth)
        means = []
        for a in classes:
            under = [unit[k] for k, c in enumerate(leaves) if c in below(tree, a)]
            means.append(sum(under) / len(under))
        rows = []
        for x, node in zip(z, nodes.tolist(), strict=True):
            logits = [cosine(x, p) / temperature for p in means]
            rows.append(-torch.log(probability(logits, columns_of(tree, node, classes))))
        total = total + weight * labelled_mean(rows, nodes, total * 0)
    return total


@pytest.mark.parametrize("seed", range(len(TREES)))
def test_hierarchical_proxies_are_their_slow_loop(seed):
    tree = TREES[seed]
    z, nodes = given(tree, seed)
    weights = [1.0 + t for t in range(tree.max_depth)]
    loss = HierarchicalProxyLoss(tree, 3, weights, temperature=0.5).double()
    same(loss(z, nodes), slow_hierarchy(tree, z, nodes, loss.proxies, weights, 0.5), z, loss.proxies)


def test_a_tree_of_one_depth_is_a_softmax_over_cosines():
    tree = even_tree(4)
    z, nodes = given(tree, 1)
    loss = HierarchicalProxyLoss(tree, 3, temperature=0.2).double()
    expected = CrossEntropyLoss(tree)(loss.logits(z) / 0.2, nodes)
    torch.testing.assert_close(loss(z, nodes), expected)


@pytest.mark.parametrize("make", [CSLLoss, HierarchicalProxyLoss])
def test_the_answer_is_the_nearest_proxy(make):
    tree = random_tree(2)
    z, _ = given(tree, 2)
    loss = make(tree, 3).double()
    expected = [tree.leaves[torch.stack([cosine(x, p) for p in loss.proxies]).argmax()].item() for x in z]
    assert loss.predict(z).tolist() == expected
    assert loss.proxies.norm(dim=1).sub(1).abs().max() < 1e-6


@pytest.mark.parametrize("make", [CSLLoss, HierarchicalProxyLoss])
def test_one_row_of_any_label(make):
    tree = even_tree(2, 2)
    torch.manual_seed(0)
    loss = make(tree, 3)
    for node in range(-1, len(tree)):
        z = torch.randn(1, 3, requires_grad=True)
        value = loss(z, torch.tensor([node]))
        value.backward()
        assert (value == 0) == (node <= 0)
        assert z.grad.isfinite().all()
        assert z.grad.any() == (node > 0)
