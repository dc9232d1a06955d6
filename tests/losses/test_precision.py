"""Derivatives by finite differences, float32 against float64, and half precision under autocast."""

import pytest
import torch
from slow_losses import even_tree, random_batch, random_tree

from labeltree.geometry import Euclidean, PoincareBall, Sphere
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
from sweeps import some_now

pytestmark = pytest.mark.slow

LOSSES = {
    "ntxent": lambda tree, tau, geometry: NTXentLoss(tau, geometry=geometry),
    "supcon": lambda tree, tau, geometry: SupConLoss(tree, tau, geometry=geometry),
    "hwc": lambda tree, tau, geometry: HWCLoss(tree, 0.5, 1.0, tau, geometry=geometry),
    "hwc own depth": lambda tree, tau, geometry: HWCLoss(
        tree, 0.5, 1.0, tau, geometry=geometry, rho="own_depth"
    ),
    "weighted": lambda tree, tau, geometry: WeightedSupConLoss(tree, tau, geometry=geometry),
    "himulcon": lambda tree, tau, geometry: HiMulConLoss(tree, "exp", tau, geometry=geometry),
    "himulcon reference": lambda tree, tau, geometry: HiMulConLoss(
        tree, "exp", tau, geometry=geometry, variant="reference"
    ),
    "hicone": lambda tree, tau, geometry: HiConELoss(tree, tau, geometry=geometry, variant="paper"),
    "himulcone": lambda tree, tau, geometry: HiMulConELoss(
        tree, "inv", tau, geometry=geometry, positives="exact", variant="paper"
    ),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    "geometry", some_now([Sphere(), PoincareBall(-0.5), Euclidean()], 2), ids=lambda g: g.name
)
def test_gradcheck(name, geometry):
    tree = random_tree(6)
    z, nodes, instances = random_batch(tree, 6, n=8)
    loss = LOSSES[name](tree, 0.5, geometry)
    assert loss(z, nodes, instances) > 0
    assert torch.autograd.gradcheck(loss, (z.requires_grad_(), nodes, instances), fast_mode=True)


@pytest.mark.parametrize("name", LOSSES)
def test_float32_is_as_good_as_float32_can_be(name):
    tree = even_tree(3, 3, 3)
    z, nodes, instances = random_batch(tree, 0, n=48, d=16, leaves=True)
    loss = LOSSES[name](tree, 0.07, Sphere())
    x, y = z.clone().requires_grad_(), z.float().requires_grad_()
    exact, single = loss(x, nodes, instances), loss(y, nodes, instances)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), exact, rtol=1e-5, atol=0)
    exact.backward()
    single.backward()
    assert (y.grad - x.grad).norm() <= 2e-5 * x.grad.norm()


@pytest.mark.parametrize("name", [*LOSSES, "lam"])
def test_bfloat16_embeddings_under_autocast_lose_nothing_inside_the_loss(name):
    tree = even_tree(3, 3)
    z, nodes, instances = random_batch(tree, 0, n=32, d=8, leaves=True)
    half = z.bfloat16().requires_grad_()
    single = half.detach().float().requires_grad_()

    def make():
        return LevelAwareMarginLoss(tree, 8) if name == "lam" else LOSSES[name](tree, 0.05, Sphere())

    with torch.autocast("cpu", torch.bfloat16):
        value = make()(half, nodes, instances)
    expected = make()(single, nodes, instances)
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
    value.backward()
    expected.backward()
    assert half.grad.dtype == torch.bfloat16
    torch.testing.assert_close(half.grad, single.grad.bfloat16())


def test_casting_the_module_keeps_its_weights():
    tree = even_tree(3, 3)
    z, nodes, instances = random_batch(tree, 0, leaves=True)
    loss = HiMulConLoss(tree, [0.1, 1 / 3], 0.1)
    expected = loss(z, nodes, instances)
    assert loss.bfloat16()(z, nodes, instances) == expected
