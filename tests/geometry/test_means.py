"""Means of points: stationarity, weights, groups, convergence."""

import pytest
import torch

from labeltree.geometry import Euclidean, PoincareBall, Sphere
from labeltree.geometry import geometry_base as base
from sweeps import long_unless

pytestmark = pytest.mark.slow

GEOMETRIES = [Sphere(), Euclidean(), PoincareBall(), PoincareBall(-0.25), PoincareBall(-4.0)]
each_geometry = pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)


def points(geometry, n, d=4, seed=0, spread=0.7, shift=0.3):
    generator = torch.Generator().manual_seed(seed)
    return geometry.embed(shift + spread * torch.randn(n, d, generator=generator, dtype=torch.float64))


def objective(geometry, mean, x, weights):
    return (weights * geometry.distance(mean, x).square()).sum()


@each_geometry
def test_the_mean_is_stationary(geometry):
    x = points(geometry, 15)
    weights = torch.rand(15, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mean = geometry.mean(x, weights, steps=60).requires_grad_()
    (gradient,) = torch.autograd.grad(objective(geometry, mean, x, weights), mean)
    assert gradient.norm() < 1e-9
    least = objective(geometry, mean.detach(), x, weights)
    for step in 0.05 * torch.eye(4, dtype=torch.float64):
        for moved in (mean.detach() + step, mean.detach() - step):
            assert objective(geometry, geometry.project(moved), x, weights) > least


@pytest.mark.parametrize("dim", long_unless([2, 16, 128], [16]))
@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_three_steps_of_the_karcher_mean_come_near(dim, spread):
    """Also for points as wide apart as the tangent clip admits, where steps of β = 1 lead away."""
    ball = PoincareBall()
    x = points(ball, 40, d=dim, spread=spread / dim**0.5)
    exact = ball.mean(x, steps=300)
    typical = ball.distance(exact, x).mean()
    assert ball.distance(ball.mean(x), exact) < 0.01 * typical


def test_the_papers_step_leads_away_from_wide_points():
    """The reason for the default of `mean_step`: with β = 1 the iteration ends at no mean."""
    x = points(PoincareBall(), 40, d=16, spread=0.5)
    exact = PoincareBall().mean(x, steps=300)
    assert PoincareBall().distance(PoincareBall(mean_step=1.0).mean(x, steps=100), exact) > 0.5


def test_near_points_need_no_damping():
    ball = PoincareBall()
    x = points(ball, 12, spread=0.1)
    torch.testing.assert_close(PoincareBall(mean_step=1.0).mean(x, steps=30), ball.mean(x, steps=30))


@each_geometry
def test_a_weight_counts_points(geometry):
    x = points(geometry, 3)
    repeated = x[[0, 1, 1, 2, 2, 2]]
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(geometry.mean(x, weights), geometry.mean(repeated))
    torch.testing.assert_close(geometry.mean(x, 5 * weights), geometry.mean(x, weights))


@each_geometry
@pytest.mark.parametrize("weighted", [False, True])
def test_group_means_are_the_means_of_the_groups(geometry, weighted):
    x = points(geometry, 10)
    groups = torch.tensor([2, 0, -1, 2, 0, 4, 2, -1, 4, 4])
    weights = torch.arange(1.0, 11.0, dtype=torch.float64) if weighted else None
    init = points(geometry, 5, seed=2)
    for start in (None, init):
        means = geometry.group_means(x, groups, 5, weights=weights, init=start)
        for group in range(5):
            inside = groups == group
            if not inside.any():
                assert means[group].isnan().all()
                continue
            one = geometry.mean(
                x[inside],
                None if weights is None else weights[inside],
                init=None if start is None else start[group],
            )
            torch.testing.assert_close(means[group], one)


@each_geometry
def test_empty_groups_leave_gradients_finite(geometry):
    x = points(geometry, 4).requires_grad_()
    weights = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    means = geometry.group_means(x, torch.tensor([0, 0, 2, 2]), 3, weights=weights)
    assert means.isnan().all(dim=1).tolist() == [False, True, True]
    means[0].sum().backward()
    assert x.grad.isfinite().all()
    assert (x.grad[2:] == 0).all()


@each_geometry
def test_ema_groups_moves_each_prototype_by_its_own_points(geometry):
    x, old = points(geometry, 6), points(geometry, 3, seed=3).requires_grad_()
    moved = geometry.ema_groups(old, x, torch.tensor([0, 0, 2, -1, 2, 2]), 0.2)
    for group, members in ((0, [0, 1]), (2, [2, 4, 5])):
        tangents = [geometry.log(old[group], x[m]) for m in members]
        expected = geometry.exp(old[group], 0.2 * sum(tangents) / len(members))
        torch.testing.assert_close(moved[group], expected)
    assert torch.equal(moved[1], old[1])
    (gradient,) = torch.autograd.grad(moved.sum(), old)
    assert gradient.isfinite().all()
    assert gradient[1].tolist() == [1.0] * 4


def test_euclidean_prototypes_follow_equation_9():
    old = torch.tensor([[1.0, 0.0]])
    x = torch.tensor([[0.0, 1.0], [0.0, 3.0]])
    moved = Euclidean().ema_groups(old, x, torch.tensor([0, 0]), 0.25)
    torch.testing.assert_close(moved, torch.tensor([[0.75, 0.5]]))


def test_the_mean_on_the_sphere_is_normalised():
    mean = Sphere().mean(torch.tensor([[2.0, 0.0], [0.0, 5.0]]))
    torch.testing.assert_close(mean, torch.tensor([0.5, 0.5]).sqrt())


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"shape \(4,\); expected \(n, d\)"):
        Euclidean().mean(torch.zeros(4))
    with pytest.raises(ValueError, match=r"weights has shape \(2,\); expected \(4,\)"):
        Euclidean().mean(torch.zeros(4, 3), torch.ones(2))
    with pytest.raises(ValueError, match=r"groups \(3,\)"):
        Sphere().group_means(torch.zeros(4, 3), torch.zeros(3, dtype=torch.long), 2)


@pytest.mark.parametrize("geometry", [Sphere(), Euclidean()], ids=str)
@pytest.mark.parametrize("rows", [1, 3])
def test_means_are_the_same_in_parts(geometry, rows, monkeypatch):
    x = points(geometry, 10)
    groups = torch.tensor([2, 0, -1, 2, 0, 4, 2, -1, 4, 4])
    weights = torch.arange(1.0, 11.0, dtype=torch.float64, requires_grad=True)

    def both():
        means = geometry.group_means(x, groups, 5, weights=weights)
        return means.detach(), torch.autograd.grad(means[groups[groups >= 0]].square().sum(0)[0], weights)[0]

    whole = both()
    monkeypatch.setattr(base, "_PART_ELEMENTS", rows * x.shape[1])
    for part, expected in zip(both(), whole, strict=True):
        torch.testing.assert_close(part, expected, rtol=0, atol=0, equal_nan=True)
