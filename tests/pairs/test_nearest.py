"""The own and the nearest other prototype, against loops, in every implementation."""

import pytest
import torch

from labeltree.geometry import Euclidean, PoincareBall, Sphere
from labeltree.pairs import implementation, nearest_other

pytestmark = pytest.mark.slow

SPACES = [
    (Sphere(), "distance"),
    (Sphere(), "cosine"),
    (Euclidean(), "distance"),
    (PoincareBall(-0.7), "distance"),
]
WAYS = [("dense", None), ("streaming", 1), ("streaming", 4), ("streaming", 64)]


def points(seed, n=9, m=11, d=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(n + m, d, generator=generator, dtype=torch.float64).clamp(-2, 2) / 4
    return z[:n].to(dtype), z[n:].to(dtype), torch.randint(0, m, (n,), generator=generator)


def single(x, y, geometry, kind):
    return 1 - (x @ y) / (x.norm() * y.norm()) if kind == "cosine" else geometry.distance(x, y)


@pytest.mark.parametrize(("name", "tile"), WAYS)
@pytest.mark.parametrize(("geometry", "kind"), SPACES)
def test_against_loops(geometry, kind, name, tile):
    for seed in range(3):
        x, prototypes, own = points(seed)
        x.requires_grad_()
        with implementation(name, tile=tile):
            mine, other, index = nearest_other(x, prototypes, own, geometry, kind)
        y = x.detach().clone().requires_grad_()
        slow_mine, slow_other = [], []
        for i in range(len(x)):
            distances = [single(y[i], c, geometry, kind) for c in prototypes]
            slow_mine.append(distances[own[i]])
            rest = [k for k in range(len(prototypes)) if k != own[i]]
            at = min(rest, key=lambda k: distances[k].item())
            assert index[i] == at
            slow_other.append(distances[at])
        slow_mine, slow_other = torch.stack(slow_mine), torch.stack(slow_other)
        torch.testing.assert_close(mine, slow_mine, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(other, slow_other, rtol=1e-12, atol=1e-13)
        weights = torch.linspace(0.5, 1.5, len(x), dtype=torch.float64)
        (weights @ mine - 0.7 * weights.flip(0) @ other).backward()
        (weights @ slow_mine - 0.7 * weights.flip(0) @ slow_other).backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "tile"), WAYS)
def test_of_equals_the_first_counts_and_the_own_one_never(name, tile):
    prototypes = torch.tensor([[5.0], [1.0], [0.0], [1.0], [-1.0], [1.0]])
    x, own = torch.tensor([[0.0], [1.0], [1.0]], requires_grad=True), torch.tensor([2, 1, 0])
    with implementation(name, tile=tile):
        mine, other, index = nearest_other(x, prototypes, own, Euclidean())
    assert index.tolist() == [1, 3, 1]
    assert mine.tolist() == [0, 0, 4]
    assert other.tolist() == [1, 0, 0]
    other.sum().backward()
    assert x.grad.flatten().tolist() == [-1, 0, 0]


@pytest.mark.parametrize(("name", "tile"), WAYS)
@pytest.mark.parametrize(("geometry", "kind"), SPACES)
def test_dtypes_and_no_points(geometry, kind, name, tile):
    x, prototypes, own = points(1)
    with implementation(name, tile=tile):
        exact = nearest_other(x, prototypes, own, geometry, kind)
        half = x.bfloat16().requires_grad_()
        found = nearest_other(half, prototypes.float(), own, geometry, kind)
        empty = nearest_other(x[:0], prototypes, own[:0], geometry, kind)
    assert found[0].dtype == found[1].dtype == torch.float32
    torch.testing.assert_close(found[0].double(), exact[0], rtol=0, atol=0.02)
    found[1].sum().backward()
    assert half.grad.dtype == torch.bfloat16
    assert half.grad.isfinite().all()
    assert [part.shape for part in empty] == [(0,)] * 3


def test_prototypes_have_no_gradient():
    x, prototypes, own = points(2)
    prototypes.requires_grad_()
    for name, tile in WAYS:
        with implementation(name, tile=tile):
            nearest_other(x.requires_grad_(), prototypes, own, Euclidean())[0].sum().backward()
    assert prototypes.grad is None


def test_one_prototype_has_no_other():
    x, prototypes, own = points(0)
    with pytest.raises(ValueError, match="prototypes must be two or more, or there is no other; got 1"):
        nearest_other(x, prototypes[:1], own * 0, Euclidean())
