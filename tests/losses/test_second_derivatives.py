"""Second derivatives are right or refused: a hand-written gradient has none, whatever else is beside it."""

import pytest
import torch

from labeltree import losses
from labeltree.geometry import Euclidean, PoincareBall, Sphere
from labeltree.pairs import implementation
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["animal/dog", "animal/cat", "plant/oak", "plant/fir"])
NODES = TREE.leaves.repeat(6)
REFUSED = {
    "supcon": lambda: losses.SupConLoss(TREE),
    "hicone": lambda: losses.HiConELoss(TREE),
    "hwc": lambda: losses.HWCLoss(TREE),
    "hwc, euclidean": lambda: losses.HWCLoss(TREE, geometry="euclidean"),
    "cpcc": lambda: losses.CPCCLoss(TREE),
    "happier": lambda: losses.HAPPIERLoss(TREE, 8),
}
RIGHT = {
    "normalised softmax": lambda: losses.NormalisedSoftmaxLoss(TREE, 8),
    "tree proxies": lambda: losses.TreeProxyLoss(TREE, 8),
    "csl": lambda: losses.CSLLoss(TREE, 8),
}


def points(seed=0):
    return torch.randn(24, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def penalty(loss, z):
    """z and a function of the gradient and, beside it, of z."""
    z = z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(z, NODES) + 0.01 * z.pow(3).sum(), z, create_graph=True)
    return z, gradient.pow(2).sum() + 0.1 * z.pow(2).sum()


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_differentiated_twice_says_so(name):
    """Its share of the second derivative was left out without a word."""
    z, value = penalty(REFUSED[name]().double().eval(), points())
    with pytest.raises(RuntimeError, match="differentiated once, not twice"):
        torch.autograd.grad(value, z)


@pytest.mark.parametrize("name", RIGHT)
def test_others_have_the_right_second_derivative(name):
    loss, direction, step = RIGHT[name]().double().eval(), points(1), 1e-6
    z, value = penalty(loss, points())
    (found,) = torch.autograd.grad(value, z)
    ahead, behind = (float(penalty(loss, points() + way * direction)[1]) for way in (step, -step))
    assert float((found * direction).sum()) == pytest.approx((ahead - behind) / (2 * step), rel=1e-5)


def test_dense_pairs_can_be_differentiated_twice():
    with implementation("dense"):
        z, value = penalty(losses.SupConLoss(TREE).double(), points())
        assert torch.autograd.grad(value, z)[0].isfinite().all()


@pytest.mark.parametrize("geometry", [Sphere(), Euclidean(), PoincareBall()], ids=lambda g: g.name)
def test_distances_refuse_beside_other_uses_of_the_points(geometry):
    z = (0.1 * points()).requires_grad_()
    total = geometry.pairwise_distance(z, z[:5]).square().sum() + z.pow(3).sum()
    (gradient,) = torch.autograd.grad(total, z, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiated once, not twice"):
        (gradient.pow(2).sum() + z.sum()).backward()


def test_a_first_gradient_under_create_graph_is_the_same():
    for build in (REFUSED | RIGHT).values():
        torch.manual_seed(0)
        loss, found = build().double().eval(), []
        for again in (False, True):
            z = points().requires_grad_()
            found.append(torch.autograd.grad(loss(z, NODES), z, create_graph=again)[0].detach())
        assert torch.equal(*found)
