"""Guided prototypes: distortion, nearest prototypes, labels of any depth."""

import json
from pathlib import Path

import pytest
import torch
from slow_classifiers import classes_at, columns_of, labelled_mean, line, probability, same_value_and_gradient
from slow_losses import even_tree, random_tree

from labeltree.geometry import PoincareBall, Sphere
from labeltree.losses import GuidedPrototypeLoss, prototype_distortion
from labeltree.taxonomy import Taxonomy
from sweeps import long_unless

TREES = [random_tree(seed) for seed in range(4)] + [even_tree(2, 3), even_tree(3, 2, 2), even_tree(4)]
CASES = json.loads((Path(__file__).parent / "oracles" / "guided_distortion.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["inputs"]["taxonomy"])
@pytest.mark.parametrize("scale_free", [True, False])
def test_published_figures(case, scale_free):
    given, expected = case["inputs"], case["expected"]
    tree = Taxonomy.from_edges([pair for pair in given["parent"].items() if pair[1] is not None])
    order = tree.encode(given["classes"]).argsort()
    prototypes = torch.tensor(given["prototypes"], dtype=torch.float64)
    loss = GuidedPrototypeLoss(tree, prototypes.shape[1], scale_free=scale_free).double()
    with torch.no_grad():
        loss.prototypes.copy_(prototypes[order])
    assert torch.equal(loss.tree.double(), torch.tensor(given["D"], dtype=torch.float64)[order][:, order])
    figures = expected["squared_distortion_" + ("scale_free" if scale_free else "unscaled")]
    value = loss.distortion()
    assert value.item() == pytest.approx(figures["loss"], rel=1e-9, abs=0)
    value.backward()
    grad = torch.tensor(figures["grad"], dtype=torch.float64)[order]
    assert (loss.prototypes.grad - grad).abs().max() <= 1e-9 * grad.abs().max()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["inputs"]["taxonomy"])
def test_published_scales(case):
    """The scale at which the distortion is least; and the distortions that are not squared."""
    given, expected = case["inputs"], case["expected"]
    tree = Taxonomy.from_edges([pair for pair in given["parent"].items() if pair[1] is not None])
    points = torch.tensor(given["prototypes"], dtype=torch.float64)
    loss = GuidedPrototypeLoss(tree, points.shape[1]).double()
    with torch.no_grad():
        loss.prototypes.copy_(points[tree.encode(given["classes"]).argsort()])
    distances, steps = -loss.logits(loss.prototypes).detach(), loss.tree.double()
    scaled = prototype_distortion(expected["scale"] * distances, steps, scale_free=False)
    assert scaled.item() == pytest.approx(expected["squared_distortion_scale_free"]["loss"], rel=1e-9, abs=0)
    for factor in (1 - 1e-4, 1 + 1e-4):
        other = prototype_distortion(factor * expected["scale"] * distances, steps, scale_free=False)
        assert other > scaled * (1 + 1e-10)
    apart = ~torch.eye(len(steps), dtype=torch.bool)

    def unsquared(scale):
        return (scale * distances / steps - 1)[apart].abs().mean().item()

    assert unsquared(1.0) == pytest.approx(expected["distortion"], rel=1e-9, abs=0)
    least = unsquared(expected["scale_free_distortion_scale"])
    assert least == pytest.approx(expected["scale_free_distortion"], rel=1e-9, abs=0)


def batch(tree, seed, n=7, dim=3):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(n, dim, generator=generator, dtype=torch.float64)
    return z.requires_grad_(), torch.randint(-1, len(tree), (n,), generator=generator)


def tree_distance(tree, u, v, metric):
    common = [w for w in line(tree, u) if w in line(tree, v)][-1]
    if metric == "path_length":
        return len(line(tree, u)) + len(line(tree, v)) - 2 * len(line(tree, common))
    if metric == "lca_height":
        return int(tree.height[common]) / tree.max_height
    return 1 - int(tree.depth[common]) / tree.max_depth


def slow(tree, z, nodes, points, depth, weight, metric, scale_free, squared):
    classes = classes_at(tree, depth)
    rows = []
    for x, node in zip(z, nodes.tolist(), strict=True):
        distances = [(x - p).norm() for p in points]
        logits = [-(d**2) if squared else -d for d in distances]
        rows.append(-torch.log(probability(logits, columns_of(tree, node, classes))))
    ratios = [
        (points[k] - points[m]).norm() / tree_distance(tree, classes[k], classes[m], metric)
        for k in range(len(classes))
        for m in range(len(classes))
        if k != m
    ]
    scale = sum(ratios) / sum(r**2 for r in ratios) if scale_free else 1.0
    distortion = sum((scale * r - 1) ** 2 for r in ratios) / len(ratios)
    return labelled_mean(rows, nodes, z.sum() * 0) + weight * distortion


@pytest.mark.parametrize("metric", ["path_length", "lca_height", "lca_depth"])
@pytest.mark.parametrize("scale_free", [True, False])
@pytest.mark.parametrize("seed", long_unless(range(len(TREES)), [0, 1, 4, 6]))
def test_slow_loop(seed, metric, scale_free):
    tree = TREES[seed]
    z, nodes = batch(tree, seed)
    squared, depth = seed % 2 == 0, 2 if seed == 3 else None
    loss = GuidedPrototypeLoss(
        tree, 3, 0.7, depth=depth, metric=metric, scale_free=scale_free, squared=squared
    ).double()
    expected = slow(tree, z, nodes, loss.prototypes, depth, 0.7, metric, scale_free, squared)
    same_value_and_gradient(loss(z, nodes), expected, z, loss.prototypes)


def test_without_distortion_and_labels_nothing_is_left():
    tree = even_tree(2, 2)
    z, _ = batch(tree, 0)
    missing = torch.full((7,), -1)
    free = GuidedPrototypeLoss(tree, 3, 0.0).double()
    assert free(z, missing) == 0
    guided = GuidedPrototypeLoss(tree, 3, 2.0).double()
    assert guided(z, missing) == 2 * guided.distortion()


def test_prediction_is_the_nearest_prototype():
    tree = random_tree(2)
    z, _ = batch(tree, 1)
    loss = GuidedPrototypeLoss(tree, 3).double()
    expected = [tree.leaves[(loss.prototypes - x).norm(dim=1).argmin()].item() for x in z]
    assert loss.predict(z).tolist() == expected


def test_a_multiple_of_the_tree_has_no_distortion():
    tree = random_tree(1)
    leaves = tree.leaves
    distances = tree.path_length(leaves[:, None], leaves).double()
    assert prototype_distortion(3.7 * distances, distances) < 1e-25
    assert prototype_distortion(2.0 * distances, distances, scale_free=False) == pytest.approx(1.0)


def test_coincident_prototypes_have_a_finite_gradient():
    tree = even_tree(2, 2)
    for scale_free in (True, False):
        loss = GuidedPrototypeLoss(tree, 3, scale_free=scale_free)
        with torch.no_grad():
            loss.prototypes.zero_()
        value = loss(torch.zeros(2, 3), tree.leaves[:2])
        value.backward()
        assert value.isfinite()
        assert loss.prototypes.grad.isfinite().all()


def test_one_class():
    tree = Taxonomy.from_paths([("a", "b")])
    loss = GuidedPrototypeLoss(tree, 2)
    value = loss(torch.ones(3, 2), torch.tensor([2, 1, -1]))
    value.backward()
    assert value == 0
    assert loss.prototypes.grad.isfinite().all()


@pytest.mark.parametrize("geometry", [Sphere(), PoincareBall(-1.0)], ids=lambda g: g.name)
def test_other_geometries(geometry):
    tree = even_tree(2, 2)
    z, nodes = batch(tree, 2)
    z = geometry.embed(z)
    loss = GuidedPrototypeLoss(tree, 3, geometry=geometry).double()
    points = geometry.embed(loss.prototypes)
    logits = torch.stack([-geometry.distance(x, points) for x in z])
    torch.testing.assert_close(loss.logits(z), logits)
    loss(z, nodes).backward()
    assert loss.prototypes.grad.isfinite().all()
    assert loss.prototypes.grad.any()


def test_prototypes_move_until_their_distances_are_those_of_the_tree():
    tree = random_tree(0)
    torch.manual_seed(0)
    loss = GuidedPrototypeLoss(tree, 8)
    before = loss.distortion().item()
    optimizer = torch.optim.Adam(loss.parameters(), lr=0.05)
    for _ in range(100):
        optimizer.zero_grad()
        loss.distortion().backward()
        optimizer.step()
    assert loss.distortion().item() < 0.05 * before
