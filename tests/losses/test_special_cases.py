"""Losses that are special cases of one another, and batches in which there is nothing to learn."""

import math

import pytest
import torch
from slow_losses import even_tree, random_batch, random_tree

from labeltree.geometry import PoincareBall, Sphere
from labeltree.losses import (
    HiConELoss,
    HiMulConELoss,
    HiMulConLoss,
    HWCLoss,
    LevelAwareMarginLoss,
    NTXentLoss,
    SupConLoss,
    WeightedSupConLoss,
)
from labeltree.pairs import implementation
from labeltree.pairs.terms import term_bounds
from labeltree.taxonomy import Taxonomy
from sweeps import some_now

pytestmark = pytest.mark.slow

TAU = 0.2
SEEDS = range(3)


def equal(a, b, batch):
    z, nodes, instances = batch
    x, y = z.clone().requires_grad_(), z.clone().requires_grad_()
    first, second = a(x, nodes, instances), b(y, nodes, instances)
    torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-13)
    first.backward()
    second.backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-10, atol=1e-12)
    assert x.grad.abs().max() > 1e-3


@pytest.mark.parametrize("seed", SEEDS)
def test_one_depth_of_labels_is_supcon(seed):
    tree = even_tree(4)
    batch = random_batch(tree, seed)
    supcon = SupConLoss(tree, TAU)
    for loss in (
        HiMulConLoss(tree, 1.0, TAU),
        HiConELoss(tree, TAU, variant="paper"),
        HiMulConELoss(tree, "one", TAU, variant="paper"),
        WeightedSupConLoss(tree, TAU),
    ):
        equal(loss, supcon, batch)


@pytest.mark.parametrize("seed", SEEDS)
def test_hwc_without_weights_is_supcon(seed):
    tree = random_tree(seed)
    batch = random_batch(tree, seed)
    for reduction in ("valid", "pairs"):
        supcon = SupConLoss(tree, TAU, reduction=reduction)
        equal(HWCLoss(tree, 0.0, 0.0, TAU, reduction=reduction), supcon, batch)
        equal(HWCLoss(tree, 0.9, 0.9, TAU, omega_max=1.0, reduction=reduction), supcon, batch)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_labels_all_are_simclr(seed):
    tree = random_tree(seed)
    z, nodes, instances = random_batch(tree, seed)
    missing = torch.full_like(nodes, -1)
    simclr = NTXentLoss(TAU)
    for loss in (
        SupConLoss(tree, TAU),
        HWCLoss(tree, 0.7, 0.7, TAU, reduction="valid"),
        WeightedSupConLoss(tree, TAU),
        HiMulConLoss(tree, "one", TAU),
    ):
        equal(loss, simclr, (z, None, instances))
    equal(SupConLoss(tree, TAU, undecided="negative"), simclr, (z, missing, instances))
    equal(lambda z, nodes, ids: simclr(z, None, ids), simclr, (z, nodes, instances))  # labels play no part


def test_constant_omega_is_a_change_of_temperature():
    tree = even_tree(2, 3)
    z, nodes, instances = random_batch(tree, 0, leaves=True)
    values = {}
    for control in (None, "constant_omega"):
        values[control] = HWCLoss(tree, 0.5, 0.5, TAU, control=control)(z, nodes, instances)
    omega = [
        1.5 if u == v else 1 + 0.5 * (1 - 0.5 * (tree.parent[u] == tree.parent[v]).item())
        for i, u in enumerate(nodes.tolist())
        for k, v in enumerate(nodes.tolist())
        if i != k
    ]
    expected = SupConLoss(tree, TAU * len(omega) / sum(omega), reduction="pairs")(z, nodes, instances)
    assert values["constant_omega"] == pytest.approx(float(expected), rel=1e-12)
    assert values[None] != pytest.approx(float(expected), rel=1e-3)


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_flat_gamma_is_a_weight_on_hard_negatives(gamma):
    """Competitors weigh exp(γ·s), as in Robinson et al. 2021 without their normalisation."""
    tree = even_tree(2, 3)
    z, nodes, instances = random_batch(tree, 0, leaves=True)
    s = (z @ z.T) / z.norm(dim=1).outer(z.norm(dim=1)) / TAU
    other = ~torch.eye(len(z), dtype=torch.bool)
    positive = ((nodes[:, None] == nodes) | (instances[:, None] == instances)) & other
    mass = s.exp() * torch.where(positive, 1.0, (gamma * s).exp()) * other
    terms = (mass.sum(1, keepdim=True).log() - s)[positive]
    loss = HWCLoss(tree, 0.0, gamma, TAU, control="flat")(z, nodes, instances)
    assert float(loss) == pytest.approx(float(terms.mean()), rel=1e-12)
    assert float(loss) != pytest.approx(float(HWCLoss(tree, 0.0, gamma, TAU)(z, nodes, instances)), rel=1e-3)


def test_outside_weights_of_same_leaves_at_one_depth_only_scale_supcon():
    tree = even_tree(2, 2)
    batch = random_batch(tree, 0, leaves=True)
    supcon = SupConLoss(tree, TAU)
    outside = WeightedSupConLoss(tree, TAU, positives="same", alpha=0.6)
    equal(outside, lambda *b: 1.6 * supcon(*b), batch)


def test_hicone_without_finer_pairs_is_himulcon():
    tree = even_tree(2, 40)
    z, _, _ = random_batch(tree, 0)
    nodes = tree.leaves[torch.arange(len(z)) * 5]  # all leaves differ: only the coarse depth has pairs
    equal(HiMulConELoss(tree, "inv", TAU, variant="paper"), HiMulConLoss(tree, "inv", TAU), (z, nodes, None))


def test_the_hierarchical_constraint_holds():
    """No coarse pair loses less than the worst fine pair, so HiConE lies above HiMulCon in random batches."""
    tree = even_tree(3, 3)
    z, nodes, instances = random_batch(tree, 0, n=24, leaves=True)
    assert (
        HiConELoss(tree, TAU, variant="paper")(z, nodes, instances)
        > HiMulConLoss(tree, "one", TAU)(z, nodes, instances) + 0.1
    )


def test_eq_8_the_gradient_of_hwc_with_respect_to_the_logits():
    tree = even_tree(2, 2, 2)
    z, nodes, instances = random_batch(tree, 3, leaves=True)
    loss = HWCLoss(tree, 0.5, 0.8, TAU, reduction="none")
    relation = loss.relation(len(z), nodes, instances, z.device)
    codes = relation.codes()
    omega = torch.cat([loss.table.scale, torch.zeros(1, dtype=torch.float64)])[codes]
    positive = torch.cat([loss.table.positive[0], torch.zeros(1, dtype=torch.float64)])[codes]
    # similarities as free variables: embed each key on its own axis, the anchor's coordinates are the cosines
    anchor = int(positive.sum(1).argmax())
    c = torch.linspace(-0.4, 0.5, len(z), dtype=torch.float64)
    others = [k for k in range(len(z)) if k != anchor]
    c = (0.9 * c / c[others].norm()).requires_grad_()
    rows = torch.zeros(len(z), len(z), dtype=torch.float64)
    for k in others:
        rows[k, k] = 1.0
    first = torch.where(torch.arange(len(z)) == anchor, (1 - (c[others] ** 2).sum()).sqrt(), c)
    embeddings = torch.where((torch.arange(len(z)) == anchor)[:, None], first[None], rows)
    loss(embeddings, nodes, instances)[anchor].backward()
    logits = omega[anchor] * c.detach() / TAU
    logits[anchor] = -torch.inf
    pi = logits.softmax(0)
    share = positive[anchor] / positive[anchor].sum()
    expected = (omega[anchor] * pi - omega[anchor] * share) / TAU
    torch.testing.assert_close(c.grad[others], expected[others], rtol=1e-9, atol=1e-12)


def all_losses(tree, geometry, tau):
    how = {"geometry": geometry}
    return [
        NTXentLoss(tau, **how),
        SupConLoss(tree, tau, **how),
        HWCLoss(tree, 1.0, 1.0, tau, **how),
        HWCLoss(tree, 1.0, 1.0, tau, control="constant_omega", rho="own_depth", **how),
        HWCLoss(tree, 1.0, 1.0, tau, reduction="none", **how),
        WeightedSupConLoss(tree, tau, **how),
        HiMulConLoss(tree, temperature=tau, **how),
        HiMulConLoss(tree, temperature=tau, variant="reference", **how),
        HiConELoss(tree, tau, **how, variant="paper"),
        HiConELoss(tree, tau, positives="exact", detach_bound=True, **how, variant="paper"),
        HiMulConELoss(tree, temperature=tau, variant="reference", **how),
        LevelAwareMarginLoss(tree, 4, **how),
    ]


KINDS = ["one leaf", "all missing", "one row", "no rows", "all different", "root", "one point", "mixed"]


@pytest.mark.parametrize("geometry", some_now([Sphere(), PoincareBall()]), ids=lambda g: g.name)
@pytest.mark.parametrize("kind", KINDS)
def test_no_nan_in_batches_of_every_kind(geometry, kind):
    """At a low and a usual temperature, of which one has instances, by turns from loss to loss."""
    tree = random_tree(4)
    z, nodes, instances = random_batch(tree, 0)
    if kind == "one leaf":
        nodes = tree.leaves[:1].expand(len(z))
    elif kind == "all missing":
        nodes = torch.full_like(nodes, -1)
    elif kind == "one row":
        z, nodes, instances = z[:1], nodes[:1], instances[:1]
    elif kind == "no rows":
        z, nodes, instances = z[:0], nodes[:0], instances[:0]
    elif kind == "all different":
        nodes = tree.leaves
        z, instances = z[: len(nodes)], torch.arange(len(nodes))
    elif kind == "root":
        nodes = torch.zeros_like(nodes)
    elif kind == "one point":
        z = z[:1].expand(len(z), -1)
    for turn, (tau, dtype) in enumerate([(0.01, torch.float32), (0.5, torch.float64)], KINDS.index(kind)):
        for number, loss in enumerate(all_losses(tree, geometry, tau), turn):
            x = z.to(dtype).clone().requires_grad_()
            value = loss(x, nodes, instances if number % 2 else None)
            assert value.isfinite().all(), loss
            (grad,) = torch.autograd.grad(value.sum(), x)
            assert grad.isfinite().all(), loss
            if kind in ("one row", "no rows") and not isinstance(loss, LevelAwareMarginLoss):
                assert (value == 0).all()
                assert (grad == 0).all()


@pytest.mark.parametrize(("name", "tile"), [("dense", None), ("streaming", None), ("streaming", 16)])
@pytest.mark.parametrize("detach_bound", [False, True])
@pytest.mark.parametrize("tree", [even_tree(4), even_tree(3, 3)], ids=["one depth", "two depths"])
def test_the_hierarchical_constraint_does_not_hide_nan(name, tile, detach_bound, tree):
    z, nodes, instances = random_batch(tree, 0, n=24, leaves=True)
    z[5] = math.nan
    z.requires_grad_()
    with implementation(name, tile=tile):
        value = HiConELoss(tree, TAU, detach_bound=detach_bound, variant="paper")(z, nodes, instances)
    value.backward()
    assert value.isnan()
    assert z.grad.isnan().any()


def test_nan_is_the_bound_of_every_term():
    largest = torch.tensor([[1.0, 2.0, 3.0], [0.0, math.nan, -math.inf]], requires_grad=True)
    bounds = term_bounds(largest)
    assert bounds.isnan().all()
    bounds.sum().backward()
    assert largest.grad[1, 1] != 0
    assert term_bounds(largest.detach()[:1]).tolist() == [3.0, 3.0, -math.inf]


def test_a_loss_without_positives_is_zero_and_connected():
    tree = even_tree(8, 2)
    z = torch.randn(4, 3, requires_grad=True)
    nodes = tree.leaves[::4]  # no two share anything
    for loss in all_losses(tree, Sphere(), 0.1)[:-1]:
        value = loss(z, nodes)
        assert value.requires_grad
        assert (value == 0).all()
        value.sum().backward()
    assert (z.grad == 0).all()


def test_an_unlabelled_sample_is_nobodys_negative():
    tree = random_tree(0)
    z, nodes, instances = random_batch(tree, 0, leaves=True)
    instances = torch.arange(len(z))
    with_stranger = torch.cat([nodes, torch.tensor([-1])])
    x = torch.cat([z, torch.randn(1, 4).double()])
    for loss in (
        SupConLoss(tree, TAU),
        HWCLoss(tree, alpha=0.5),
        HiMulConLoss(tree),
        HiMulConELoss(tree, variant="paper"),
        WeightedSupConLoss(tree),
    ):
        assert loss(x, with_stranger) == pytest.approx(float(loss(z, nodes)), rel=1e-12)
        options = {"variant": "paper"} if isinstance(loss, HiMulConELoss) else {}
        strict = type(loss)(tree, undecided="negative", **options)
        assert strict(x, with_stranger) != pytest.approx(float(strict(z, nodes)), rel=1e-6)
    assert instances.unique().numel() == len(z)


def test_a_coarse_label_counts_as_deep_as_it_goes():
    """A sample labelled 'animal' attracts dogs at depth 1, and is left out at depth 2."""
    tree = even_tree(2, 2)
    animal, dog, cat = tree.find(("0",)), tree.encode(["0/0"]), tree.encode(["0/1"])
    plant = tree.encode(["1/0"])
    nodes = torch.cat([torch.tensor([animal]), dog, dog, cat, plant])
    z = torch.randn(5, 3, dtype=torch.float64)
    fine = SupConLoss(tree, TAU)
    assert fine(z, nodes) == pytest.approx(float(fine(z[1:], nodes[1:])), rel=1e-12)
    coarse = SupConLoss(tree, TAU, depth=1)
    as_dog = torch.cat([dog, nodes[1:]])
    assert coarse(z, nodes) == pytest.approx(float(coarse(z, as_dog)), rel=1e-12)
    expected = (coarse(z, as_dog) + fine(z[1:], nodes[1:])) / 2
    assert HiMulConLoss(tree, "one", TAU)(z, nodes) == pytest.approx(float(expected), rel=1e-12)


def test_a_shallow_leaf_agrees_with_itself_at_every_depth():
    tree = Taxonomy.from_paths([("a", "b", "c"), ("d",)])
    nodes = tree.encode(["d", "d", "c"])
    z = torch.randn(3, 4, dtype=torch.float64)
    supcon = SupConLoss(tree, TAU)(z, nodes)
    assert HiMulConLoss(tree, "one", TAU)(z, nodes) == pytest.approx(float(supcon), rel=1e-12)
    assert supcon > 0


def test_names_may_repeat_under_different_parents():
    tree = even_tree(2, 2)  # 0/0, 0/1, 1/0, 1/1
    z = torch.randn(3, 4, dtype=torch.float64)
    nodes = tree.encode(["0/0", "1/0", "0/0"])
    alone = HiMulConLoss(tree, "one", TAU, reduction="none")(z, nodes)
    assert alone[1] == 0
    assert (alone[[0, 2]] > 0).all()


def test_small_temperature_keeps_large_scales_finite():
    tree = even_tree(2, 2)
    z, nodes, instances = random_batch(tree, 0, leaves=True)
    loss = HWCLoss(tree, 1.0, 1.0, 0.01)
    exact = loss(z, nodes, instances)
    assert exact > 10  # logits of ±200
    assert loss(z.float(), nodes, instances) == pytest.approx(float(exact), rel=1e-5)
    assert math.isfinite(exact)
