"""Distances that nobody differentiates: the same values, without what a backward would need."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from labeltree.geometry import Euclidean, PoincareBall, Sphere


class Made(TorchDispatchMode):
    """Counts the matrices of a shape that are allocated, not computed from others."""

    def __init__(self, shape):
        super().__init__()
        self.shape, self.number = shape, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        empty = func.overloadpacket in (torch.ops.aten.empty, torch.ops.aten.empty_like)
        self.number += empty and tuple(found.shape) == self.shape
        return found


@pytest.mark.parametrize(
    ("geometry", "kept"),
    [(Euclidean(), 1), (Sphere(), 1), (PoincareBall(), 2)],
    ids=["euclidean", "sphere", "ball"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_slopes_are_kept(geometry, kept, dtype):
    generator = torch.Generator().manual_seed(0)
    x, y = (0.2 * torch.randn(n, 3, generator=generator, dtype=dtype) for n in (5, 7))
    with Made((5, 7)) as without:
        found = geometry.pairwise_distance(x, y)
    x.requires_grad_()
    with Made((5, 7)) as differentiable:
        expected = geometry.pairwise_distance(x, y)
    assert torch.equal(found, expected.detach())
    assert differentiable.number - without.number == kept
    with torch.no_grad():
        assert torch.equal(geometry.pairwise_distance(x, y), found)


@pytest.mark.parametrize("geometry", [Euclidean(), Sphere(), PoincareBall(-0.5)], ids=lambda g: g.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distances_to_fixed_points_are_those_of_all_pairs(geometry, dtype):
    generator = torch.Generator().manual_seed(0)
    x, y = (0.2 * torch.randn(n, 3, generator=generator, dtype=dtype) for n in (5, 7))
    x[0] = y[2]
    distances = geometry.prepare_distances(y)
    expected = geometry.pairwise_distance(x, y)
    assert expected[0, 2] == 0
    assert torch.equal(distances(x), expected)
    assert torch.equal(distances(x[1:2]), geometry.pairwise_distance(x[1:2], y))
    assert torch.equal(geometry.prepare_distances(y[:0])(x), expected[:, :0])
    assert not distances(x.requires_grad_()).requires_grad
