"""HXE: its weights, its normalisations, its path."""

import itertools
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

from labeltree.losses import CrossEntropyLoss, HXELoss
from labeltree.taxonomy import Taxonomy
from sweeps import long_unless

pytestmark = pytest.mark.slow

TREES = [random_tree(seed) for seed in range(4)] + [even_tree(2, 3), even_tree(3, 2, 2), even_tree(4)]
CASES = json.loads((Path(__file__).parent / "oracles" / "hxe_softlabels.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["inputs"]["taxonomy"])
def test_published_figures(case):
    given, expected = case["inputs"], case["expected"]
    tree = Taxonomy.from_edges([pair for pair in given["parent"].items() if pair[1] is not None])
    classes = tree.encode(given["classes"])
    order = classes.argsort()
    nodes = classes[torch.tensor(given["labels"])]

    def check(loss, figures):
        logits = torch.tensor(given["logits"], dtype=torch.float64, requires_grad=True)
        value = loss(logits[:, order], nodes)
        assert value.item() == pytest.approx(figures["loss"], rel=1e-9, abs=0)
        if "grad" in figures:
            value.backward()
            grad = torch.tensor(figures["grad"], dtype=torch.float64)
            assert (logits.grad - grad).abs().max() <= 1e-9 * grad.abs().max()

    assert torch.equal(classes[order], HXELoss(tree).classes)
    for figures in expected["hxe_official"]:
        check(HXELoss(tree, figures["alpha"], variant="reference"), figures)
    for figures in expected["hxe_unnormalised"]:
        check(HXELoss(tree, figures["alpha"]), figures)
    for figures in expected["hxe_node_height"]:
        check(HXELoss(tree, figures["alpha"], weights="height"), figures)
    check(HXELoss(tree, 0.0), {"loss": expected["cross_entropy"]})
    check(CrossEntropyLoss(tree), {"loss": expected["cross_entropy"]})


def slow(tree, logits, nodes, alpha, weights, variant):
    classes = classes_at(tree)
    steps = tree.depth.tolist() if weights == "depth" else tree.height.tolist()
    total = sum(math.exp(-alpha * steps[v]) for v in range(len(tree))) if variant == "reference" else 1.0
    rows = []
    for x, node in zip(logits, nodes.tolist(), strict=True):
        way = line(tree, node) if node >= 0 else [0]
        row = x.sum() * 0
        for parent, child in itertools.pairwise(way):
            conditional = probability(x, columns_of(tree, child, classes)) / probability(
                x, columns_of(tree, parent, classes)
            )
            row = row - math.exp(-alpha * steps[child]) * torch.log(conditional)
        rows.append(row / total)
    return labelled_mean(rows, nodes, logits.sum() * 0)


@pytest.mark.parametrize("variant", ["paper", "reference"])
@pytest.mark.parametrize("weights", ["depth", "height"])
@pytest.mark.parametrize("seed", long_unless(range(len(TREES)), [0, 1, 4, 6]))
def test_slow_loop(seed, weights, variant):
    tree = TREES[seed]
    logits, nodes = random_logits(tree, seed)
    for alpha in (0.0, 0.1, 1.0):
        loss = HXELoss(tree, alpha, weights=weights, variant=variant)
        same_value_and_gradient(
            loss(logits, nodes), slow(tree, logits, nodes, alpha, weights, variant), logits
        )


@pytest.mark.parametrize("weights", ["depth", "height"])
def test_without_alpha_it_is_cross_entropy(weights):
    for seed, tree in enumerate(TREES):
        logits, nodes = random_logits(tree, seed)
        expected = CrossEntropyLoss(tree)(logits, nodes)
        same_value_and_gradient(HXELoss(tree, 0.0, weights=weights)(logits, nodes), expected, logits)
        published = HXELoss(tree, 0.0, weights=weights, variant="reference")(logits, nodes)
        same_value_and_gradient(published, expected / len(tree), logits)


def test_on_a_tree_of_one_depth_it_is_cross_entropy_times_a_weight():
    tree = even_tree(5)
    logits, nodes = random_logits(tree, 0)
    expected = math.exp(-0.7) * CrossEntropyLoss(tree)(logits, nodes)
    same_value_and_gradient(HXELoss(tree, 0.7)(logits, nodes), expected, logits)


def test_a_vanishing_probability_is_a_large_loss():
    tree = even_tree(2, 2)
    for dtype in (torch.float32, torch.float64):
        logits = torch.tensor([[-3000.0, 0.0, 0.0, 0.0]], dtype=dtype, requires_grad=True)
        value = HXELoss(tree, 0.0)(logits, tree.leaves[:1])
        value.backward()
        assert value.item() == pytest.approx(3000 + math.log(3), rel=1e-5)
        assert logits.grad.tolist()[0] == pytest.approx([-1, 1 / 3, 1 / 3, 1 / 3], abs=1e-6)
        nowhere = torch.tensor([[-3000.0, -3001.0, 0.0, 0.0]], dtype=dtype)  # its branch vanishes as a whole
        value = HXELoss(tree, 5.0, weights="height")(nowhere, tree.leaves[:1])
        step = math.log(1 + math.exp(-1))
        assert value.item() == pytest.approx(step + math.exp(-5) * (3000 - step + math.log(2)), rel=1e-4)


def test_alpha_can_change_while_training():
    tree = random_tree(1)
    logits, nodes = random_logits(tree, 1)
    loss = HXELoss(tree, 0.1)
    loss.alpha = 0.9
    assert torch.equal(loss(logits, nodes), HXELoss(tree, 0.9)(logits, nodes))


@pytest.mark.parametrize("weights", ["depth", "height"])
def test_weights_are_finite_numbers(weights):
    tree = random_tree(2)
    logits, nodes = random_logits(tree, 2)
    for alpha in (math.inf, -math.inf, math.nan, -1e3):
        with pytest.raises(ValueError, match="alpha must be finite"):
            HXELoss(tree, alpha, weights=weights)
    for dtype in (torch.float32, torch.float64):  # 1e40 is infinite in float32
        steep = HXELoss(tree, 1e40, weights=weights)(logits.to(dtype), nodes)
        limit = HXELoss(tree, 1e3, weights=weights)(logits.to(dtype), nodes)
        assert steep == limit
    assert (limit > 0) == (weights == "height")  # the step to the leaf alone is left


def test_the_published_code_divides_by_the_weights_of_all_nodes():
    for case in CASES:
        given = case["inputs"]
        tree = Taxonomy.from_edges([pair for pair in given["parent"].items() if pair[1] is not None])
        logits, nodes = random_logits(tree, 0)
        for figures in case["expected"]["hxe_official"]:
            alpha = figures["alpha"]
            published = HXELoss(tree, alpha, variant="reference")
            ratio = HXELoss(tree, alpha)(logits, nodes) / published(logits, nodes)
            assert ratio.item() == pytest.approx(figures["weight_sum"], rel=1e-9, abs=0)
