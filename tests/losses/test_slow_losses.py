"""The pairwise losses against slow double loops, value and gradient: ragged trees, all sorts of labels."""

import pytest
import torch
from implementations import IMPLEMENTATIONS
from slow_losses import (
    Pairs,
    SlowSoftmax,
    random_batch,
    random_tree,
    similarities,
    slow_hierarchy,
    slow_hwc,
    slow_published,
)

from labeltree.geometry import Euclidean, PoincareBall, Sphere
from labeltree.losses import (
    HiConELoss,
    HiMulConELoss,
    HiMulConLoss,
    HWCLoss,
    NTXentLoss,
    SupConLoss,
    WeightedSupConLoss,
    depth_weights,
)
from labeltree.pairs import implementation
from sweeps import long_unless, some_now

pytestmark = pytest.mark.slow

SEEDS = some_now(range(5), 2)
TAU = 0.4
SPACES = {
    "cosine": (Sphere(), "cosine"),
    "chord": (Sphere(), "distance"),
    "euclidean": (Euclidean(), None),
    "poincare": (PoincareBall(-0.7), None),
}


def same(loss, slow, z, nodes, instances):
    """The same value and the same gradient, with every implementation."""
    theirs = z.clone().requires_grad_()
    expected = slow(theirs)
    weight = torch.arange(1.0, expected.numel() + 1, dtype=torch.float64).reshape(expected.shape)
    (expected * weight).sum().backward()
    for how, (name, tile) in IMPLEMENTATIONS.items():
        ours = z.clone().requires_grad_()
        with implementation(name, tile=tile):
            value = loss(ours, nodes, instances)
            (value * weight).sum().backward()
        named = {"msg": lambda text, how=how: f"{how}: {text}"}
        torch.testing.assert_close(value, expected, rtol=1e-11, atol=1e-12, **named)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-11, **named)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("undecided", ["ignore", "negative"])
def test_supcon_at_every_depth(seed, undecided):
    tree = random_tree(seed)
    z, nodes, instances = random_batch(tree, seed)
    pairs = Pairs(tree, nodes, instances, undecided)
    for depth in range(1, tree.max_depth + 1):

        def slow(x, depth=depth):
            s = similarities(x, TAU)
            return SlowSoftmax(s, pairs.positive(depth), pairs.member(depth)).reduce("valid")

        same(SupConLoss(tree, TAU, depth=depth, undecided=undecided), slow, z, nodes, instances)


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize(
    "reduction", long_unless(["valid", "all", "pairs", "sum", "none"], ["valid", "none"])
)
def test_ntxent_in_every_geometry_and_reduction(kind, reduction):
    z, nodes, instances = random_batch(random_tree(1), 1)
    geometry, similarity = SPACES[kind]
    loss = NTXentLoss(TAU, geometry=geometry, similarity=similarity, reduction=reduction)

    def slow(x):
        views = lambda i, k: float(instances[i] == instances[k])  # noqa: E731
        return SlowSoftmax(similarities(x, TAU, kind, -0.7), views, lambda i, k: True).reduce(reduction)

    same(loss, slow, z, nodes, instances)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("undecided", ["ignore", "negative"])
@pytest.mark.parametrize("rho", ["max_depth", "own_depth", "same_one"])
def test_hwc(seed, undecided, rho):
    tree = random_tree(seed)
    z, nodes, instances = random_batch(tree, seed)
    slow = slow_hwc(tree, Pairs(tree, nodes, instances, undecided), rho, 0.6, 0.9)
    loss = HWCLoss(tree, 0.6, 0.9, TAU, rho=rho, undecided=undecided)
    same(loss, lambda x: slow(similarities(x, TAU)), z, nodes, instances)


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize(
    "reduction", long_unless(["valid", "all", "pairs", "sum", "none"], ["pairs", "none"])
)
def test_hwc_in_every_geometry_and_reduction(kind, reduction):
    tree = random_tree(2)
    z, nodes, instances = random_batch(tree, 2)
    geometry, similarity = SPACES[kind]
    slow = slow_hwc(tree, Pairs(tree, nodes, instances), "max_depth", 0.5, 0.8, reduction=reduction)
    loss = HWCLoss(tree, 0.5, 0.8, TAU, geometry=geometry, similarity=similarity, reduction=reduction)
    same(loss, lambda x: slow(similarities(x, TAU, kind, -0.7)), z, nodes, instances)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "options",
    [
        {"control": "constant_omega"},
        {"control": "constant_omega", "omega_max": 1.3, "rho": "own_depth"},
        {"control": "outside_softmax"},
        {"control": "outside_softmax", "rho": "own_depth"},
        {"omega_max": 1.2},
        {"positives": "instance"},
    ],
    ids=str,
)
def test_hwc_controls(seed, options):
    tree = random_tree(seed)
    z, nodes, instances = random_batch(tree, seed)
    slow = slow_hwc(
        tree, Pairs(tree, nodes, instances), alpha=0.6, gamma=0.9, **{"rho": "max_depth", **options}
    )
    loss = HWCLoss(tree, 0.6, 0.9, TAU, **options)
    same(loss, lambda x: slow(similarities(x, TAU)), z, nodes, instances)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("reduction", ["valid", "pairs"])
@pytest.mark.parametrize("undecided", ["ignore", "negative"])
def test_weighted_supcon_of_related_pairs(seed, reduction, undecided):
    tree = random_tree(seed)
    z, nodes, instances = random_batch(tree, seed)
    pairs = Pairs(tree, nodes, instances, undecided)
    rho = pairs.rho("max_depth")

    def weight(i, k):
        return 1.0 if pairs.views(i, k) and rho(i, k) == 0 else rho(i, k)

    def slow(x):
        return SlowSoftmax(similarities(x, TAU), weight, pairs.member(1)).reduce(reduction)

    same(WeightedSupConLoss(tree, TAU, reduction=reduction, undecided=undecided), slow, z, nodes, instances)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("undecided", ["ignore", "negative"])
def test_the_three_losses_over_depths(seed, undecided):
    """Positives are nested with one rule for undecided pairs and exact with the other, by turns."""
    positives = "nested" if (seed % 2 == 0) == (undecided == "ignore") else "exact"
    tree = random_tree(seed)
    z, nodes, instances = random_batch(tree, seed)
    pairs = Pairs(tree, nodes, instances, undecided)
    weights = depth_weights("pow2", tree.max_depth).tolist()
    ones = [1.0] * tree.max_depth
    options = {"positives": positives, "undecided": undecided}

    def slow(weights, **how):
        return lambda x: slow_hierarchy(
            tree, similarities(x, TAU), pairs, weights, positives=positives, **how
        )

    same(HiMulConLoss(tree, "pow2", TAU, **options), slow(weights), z, nodes, instances)
    same(
        HiMulConELoss(tree, "pow2", TAU, **options, variant="paper"),
        slow(weights, constrained=True),
        z,
        nodes,
        instances,
    )
    same(HiConELoss(tree, TAU, **options, variant="paper"), slow(ones, constrained=True), z, nodes, instances)
    detached = HiMulConELoss(tree, "pow2", TAU, detach_bound=True, **options, variant="paper")
    same(detached, slow(weights, constrained=True, detach=True), z, nodes, instances)


@pytest.mark.parametrize("seed", some_now(range(4), 2))
@pytest.mark.parametrize("leaves", [True, False])
def test_the_published_code(seed, leaves):
    tree = random_tree(seed)
    z, nodes, instances = random_batch(tree, seed, n=18, leaves=leaves)
    pairs = Pairs(tree, nodes, instances)
    for loss, constrained, weighted in (
        (HiMulConLoss(tree, temperature=TAU, variant="reference", base_temperature=0.2), False, True),
        (HiConELoss(tree, TAU, variant="reference", base_temperature=0.2), True, False),
        (HiMulConELoss(tree, temperature=TAU, variant="reference", base_temperature=0.2), True, True),
    ):

        def slow(x, constrained=constrained, weighted=weighted):
            return slow_published(tree, x, pairs, TAU, 0.2, constrained=constrained, weighted=weighted)

        same(loss, slow, z, nodes, instances)
