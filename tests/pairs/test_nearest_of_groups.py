"""Several groups of prototypes at once: what `nearest_other` gives for each, value and gradient."""

import pytest
import torch

from labeltree.geometry import Euclidean, PoincareBall, Sphere
from labeltree.pairs import implementation, nearest_of_groups, nearest_other

SPACES = [
    (Sphere(), "distance"),
    (Sphere(), "cosine"),
    (Euclidean(), "distance"),
    (PoincareBall(-0.7), "distance"),
]
SIZES = [2, 5, 3]


def drawn(seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(19, 4, generator=generator, dtype=torch.float64).to(dtype).clamp(-2, 2) / 5
    own = torch.stack([torch.randint(size, (9,), generator=generator) for size in SIZES], 1)
    return z[:9], z[9:], own + torch.tensor([0, 2, 7])


def both(points, prototypes, own, geometry, kind, name="dense"):
    """Distances and gradients, of all groups together and one by one."""
    weight = torch.linspace(0.5, 1.5, 9 * 3, dtype=torch.float64).view(9, 3)
    x, y = points.clone().requires_grad_(), points.clone().requires_grad_()
    with implementation(name):
        mine, other = nearest_of_groups(x, prototypes, SIZES, own, geometry, kind)
        (weight * mine - 0.7 * weight.flip(0) * other).sum().backward()
    with implementation("dense"):
        starts = (0, 2, 7)
        each = [
            nearest_other(y, prototypes[s : s + m], own[:, g] - s, geometry, kind)
            for g, (s, m) in enumerate(zip(starts, SIZES, strict=True))
        ]
        slow_mine, slow_other = (torch.stack([one[k] for one in each], 1) for k in (0, 1))
        (weight * slow_mine - 0.7 * weight.flip(0) * slow_other).sum().backward()
    return (mine, other, x.grad), (slow_mine, slow_other, y.grad)


@pytest.mark.parametrize("name", ["dense", "streaming"])
@pytest.mark.parametrize(("geometry", "kind"), SPACES)
def test_all_groups_as_one_by_one(geometry, kind, name):
    for seed in range(4):
        for ours, theirs in zip(*both(*drawn(seed), geometry, kind, name), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_on_and_next_to_prototypes_and_without_direction(dtype):
    points, prototypes, own = drawn(7, dtype)
    points[:3] = prototypes[own[:3, 1]] * 2
    points[3:6] = prototypes[own[3:6, 1]] * (1 + 1e-5 * torch.randn(3, 4, dtype=dtype))
    points[6] = 0
    (mine, other, grad), slow = both(points, prototypes, own, Sphere(), "distance")
    assert mine.dtype == dtype
    assert not mine[:3, 1].any()
    assert 0 < mine[3:6, 1].min().item() < 1e-3
    for ours, theirs in zip((mine, other), slow, strict=False):
        torch.testing.assert_close(ours, theirs, rtol=1e-6 if dtype == torch.float32 else 1e-11, atol=0)
    torch.testing.assert_close(grad, slow[2], rtol=1e-5, atol=1e-5 * float(slow[2].abs().max()))


def test_groups_are_differentiated_once():
    points, prototypes, own = drawn(1)
    x = points.requires_grad_()
    with implementation("dense"):
        mine, _ = nearest_of_groups(x, prototypes, SIZES, own, Sphere())
    (grad,) = torch.autograd.grad(mine.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once"):
        grad.sum().backward()
