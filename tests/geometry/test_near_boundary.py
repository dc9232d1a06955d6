"""Precision where it is lost: points near the ball's boundary, close pairs, coincident points."""

import numpy as np
import pytest
import torch

from labeltree.geometry import Euclidean, PoincareBall, Sphere


def reference(x, y, curvature=-1.0):
    """Eq. 2, scaled, pair by pair in extended precision on the very values given."""
    c = np.longdouble(-curvature)
    result = np.empty((len(x), len(y)))
    for i, u in enumerate(x.numpy().astype(np.longdouble)):
        for j, v in enumerate(y.numpy().astype(np.longdouble)):
            argument = c * ((u - v) ** 2).sum() / ((1 - c * (u * u).sum()) * (1 - c * (v * v).sum()))
            result[i, j] = 2 / np.sqrt(c) * np.arcsinh(np.sqrt(argument))
    return torch.from_numpy(result)


def pairs_half_apart(radius, pairs=20, dim=16):
    """Points of norm `radius`, row i of the two sets 0.5 apart, as float32."""
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(pairs, dim, generator=generator, dtype=torch.float64)
    u /= u.norm(dim=1, keepdim=True)
    across = torch.randn(pairs, dim, generator=generator, dtype=torch.float64)
    across -= (across * u).sum(1, keepdim=True) * u
    across /= across.norm(dim=1, keepdim=True)
    angle = 2 * np.arcsin(0.25 / radius)
    return (radius * u).float(), (radius * (np.cos(angle) * u + np.sin(angle) * across)).float()


@pytest.mark.parametrize("curvature", [-1.0, -0.3])
@pytest.mark.parametrize("radius", [0.5, 0.9, 0.99, 0.999])
def test_float32_distances_near_the_boundary(radius, curvature):
    x, y = pairs_half_apart(radius)
    x, y = (t / (-curvature) ** 0.5 for t in (x, y))
    expected = reference(x, y, curvature)
    ball = PoincareBall(curvature)
    for distance in (ball.pairwise_distance(x, y), ball.distance(x[:, None], y[None])):
        assert distance.dtype == torch.float32
        error = ((distance.double() - expected) / expected).abs().max()
        assert error < 1e-6  # the promise is 1e-4


def test_float32_gradients_near_the_boundary():
    x, y = pairs_half_apart(0.999)
    ball, gradients = PoincareBall(), []
    for dtype in (torch.float32, torch.float64):
        u, v = x.to(dtype, copy=True).requires_grad_(), y.to(dtype, copy=True).requires_grad_()
        ball.pairwise_distance(u, v).square().sum().backward()
        gradients.append(torch.cat([u.grad, v.grad]).double())
    assert ((gradients[0] - gradients[1]).norm() / gradients[1].norm()) < 1e-5


@pytest.mark.parametrize("gap", [1e-1, 1e-2, 1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_close_pairs(gap, dtype):
    generator = torch.Generator().manual_seed(1)
    x = PoincareBall().embed(torch.randn(12, 8, generator=generator, dtype=torch.float64)).to(dtype)
    y = (
        x + gap * torch.randn(12, 8, generator=generator, dtype=torch.float64) * (1 - x.norm(dim=1))[:, None]
    ).to(dtype)
    expected = reference(x, y)
    distance = PoincareBall().pairwise_distance(x, y)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(distance.double(), expected, rtol=tolerance, atol=0.0)


def test_close_pairs_of_a_collapsed_batch():
    """Nearly all pairs are close: the path that gives up on inner products."""
    generator = torch.Generator().manual_seed(2)
    x = 0.5 + 1e-6 * torch.randn(9, 6, generator=generator, dtype=torch.float64)
    expected = torch.tensor(
        [[float((u - v).square().sum().sqrt()) for v in x] for u in x], dtype=torch.float64
    )
    torch.testing.assert_close(Euclidean().pairwise_distance(x, x), expected, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("geometry", [Sphere(), Euclidean(), PoincareBall(), PoincareBall(-2.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_coincident_points_have_distance_0_and_gradient_0(geometry, dtype):
    point = geometry.embed(torch.tensor([[0.3, -0.2, 0.6]], dtype=dtype))
    for distance in (geometry.distance, geometry.pairwise_distance):
        x, y = point.clone().requires_grad_(), point.clone().requires_grad_()
        value = distance(x, y)
        assert value.item() == 0.0
        value.sum().backward()
        assert x.grad.tolist() == y.grad.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    "geometry", [Sphere(), Euclidean(), PoincareBall(), PoincareBall(-2.0), PoincareBall(-0.1)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients_are_finite_everywhere(geometry, dtype):
    direction = torch.tensor([0.6, 0.8, 0.0], dtype=dtype)
    rim = geometry.project(1e3 * direction)
    features = torch.stack(
        [0 * direction, rim, -rim, rim, 1e-30 * direction, 0.1 * direction, 1e4 * direction]
    )
    methods = [
        lambda x: geometry.embed(x),
        lambda x: geometry.project(x),
        lambda x: geometry.pairwise_distance(x, x),
        lambda x: geometry.pairwise_similarity(x, x),
        lambda x: geometry.distance(x[:, None], x[None]),
        lambda x: geometry.similarity(x[:, None], x[None]),
        lambda x: geometry.log(geometry.project(x)[:, None], geometry.project(x)[None]),
        lambda x: geometry.exp(geometry.project(x)[:, None], x[None]),
        lambda x: geometry.ema(geometry.project(x)[:, None], geometry.project(x)[None], 0.1),
        lambda x: geometry.mean(geometry.project(x)),
    ]
    for number, method in enumerate(methods):
        x = features.clone().requires_grad_()
        value = method(x)
        value.sum().backward()
        assert value.isfinite().all(), number
        assert x.grad.isfinite().all(), number


def test_huge_vectors_land_on_the_rim_with_finite_gradients():
    x = torch.tensor([[3e36, 4e36]], requires_grad=True)
    point = PoincareBall(max_tangent_norm=None).embed(x)
    torch.testing.assert_close(point.detach(), torch.tensor([[0.6, 0.8]]), rtol=1e-4, atol=0)
    point.sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("geometry", [Sphere(), Euclidean(), PoincareBall()])
def test_nan_is_not_swallowed(geometry):
    x = torch.tensor([[0.1, 0.2], [float("nan"), 0.2]])
    assert geometry.distance(x, x.flip(0)).isnan().all()
    assert geometry.pairwise_distance(x, x).isnan().tolist() == [[False, True], [True, True]]
    assert geometry.pairwise_similarity(x, x).isnan().tolist() == [[False, True], [True, True]]
    assert geometry.embed(x)[1].isnan().any()
    assert geometry.mean(x).isnan().any()
    assert geometry.ema_groups(x[:1], x, torch.tensor([-1, 0]), 0.1).isnan().any()


def test_points_stay_inside_the_ball_in_float32():
    ball = PoincareBall(max_tangent_norm=None)
    far = ball.embed(50 * torch.randn(200, 32, generator=torch.Generator().manual_seed(3)))
    assert ball.radius(far).max() <= 1 - 0.99e-5
    assert ball.radius(far).min() > 1 - 1.1e-5
    clipped = PoincareBall().embed(50 * torch.randn(200, 32, generator=torch.Generator().manual_seed(3)))
    torch.testing.assert_close(PoincareBall().radius(clipped), torch.full((200,), np.tanh(2.3)).float())
