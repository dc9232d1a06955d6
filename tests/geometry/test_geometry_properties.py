"""What holds in every geometry: metric axioms, inverse maps, gradients, dtypes, one answer by every route."""

import pickle

import pytest
import torch
from torch.autograd import gradcheck

from labeltree.geometry import Euclidean, PoincareBall, Sphere

pytestmark = pytest.mark.slow

GEOMETRIES = [
    Sphere(),
    Euclidean(),
    PoincareBall(),
    PoincareBall(-0.25),
    PoincareBall(-4.0),
    PoincareBall(-1.5, scaled=False),
]
DTYPES = {torch.float32: 2e-6, torch.float64: 1e-12}
each_geometry = pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
each_dtype = pytest.mark.parametrize("dtype", list(DTYPES), ids=str)


def points(geometry, n, d=5, seed=0, dtype=torch.float64, spread=0.6):
    generator = torch.Generator().manual_seed(seed)
    spread /= (-getattr(geometry, "curvature", -1.0)) ** 0.5
    return geometry.embed(spread * torch.randn(n, d, generator=generator, dtype=torch.float64)).to(dtype)


@each_geometry
@each_dtype
def test_distance_is_a_metric(geometry, dtype):
    x = points(geometry, 12, dtype=dtype)
    distance = geometry.pairwise_distance(x, x)
    assert distance.dtype == dtype
    assert (distance.diagonal() == 0).all()
    assert (distance + torch.eye(12) > 0).all()
    torch.testing.assert_close(distance, distance.T, rtol=DTYPES[dtype], atol=0.0)
    detour = (distance[:, :, None] + distance[None, :, :]).amin(dim=1)  # over every third point
    assert (distance <= detour * (1 + DTYPES[dtype])).all()


@each_geometry
@each_dtype
def test_pairwise_equals_elementwise(geometry, dtype):
    x, y = points(geometry, 7, dtype=dtype), points(geometry, 4, seed=1, dtype=dtype)
    for all_pairs, single in (
        (geometry.pairwise_distance, geometry.distance),
        (geometry.pairwise_similarity, geometry.similarity),
    ):
        matrix = all_pairs(x, y)
        assert matrix.shape == (7, 4)
        expected = torch.stack([torch.stack([single(u, v) for v in y]) for u in x])
        torch.testing.assert_close(matrix, expected, rtol=DTYPES[dtype], atol=DTYPES[dtype])
        torch.testing.assert_close(single(x[:, None], y), expected, rtol=DTYPES[dtype], atol=DTYPES[dtype])


def test_pairwise_distance_in_several_blocks():
    generator = torch.Generator().manual_seed(4)
    x, y = (
        torch.randn(n, 3, generator=generator, dtype=torch.float64) for n in (700, 1500)
    )  # over a million pairs
    weight = torch.randn(700, 1500, generator=generator, dtype=torch.float64)
    results = []
    for route in (Euclidean().pairwise_distance, lambda a, b: (a[:, None] - b[None]).square().sum(-1).sqrt()):
        u, v = x.clone().requires_grad_(), y.clone().requires_grad_()
        distance = route(u, v)
        (distance * weight).sum().backward()
        results.append((distance.detach(), u.grad, v.grad))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-10)


@each_geometry
def test_similarity_orders_as_the_distance(geometry):
    x, y = points(geometry, 1), points(geometry, 30, seed=1)
    by_distance = geometry.pairwise_distance(x, y)[0].argsort()
    by_similarity = geometry.pairwise_similarity(x, y)[0].argsort(descending=True)
    assert by_distance.tolist() == by_similarity.tolist()


def test_the_sphere_has_cosine_and_chord():
    x, y = torch.tensor([3.0, 0.0]), torch.tensor([1.0, 1.0])
    torch.testing.assert_close(Sphere().similarity(x, y), torch.tensor(0.5**0.5))
    torch.testing.assert_close(Sphere().distance(x, y), torch.tensor((2 - 2 * 0.5**0.5) ** 0.5))


@each_geometry
@each_dtype
def test_exp_undoes_log(geometry, dtype):
    base, point = points(geometry, 20, dtype=dtype), points(geometry, 20, seed=1, dtype=dtype)
    tangent = geometry.log(base, point)
    assert tangent.dtype == dtype
    torch.testing.assert_close(geometry.exp(base, tangent), point, rtol=DTYPES[dtype], atol=DTYPES[dtype])
    torch.testing.assert_close(geometry.log(base, base), torch.zeros_like(base), rtol=0, atol=1e-7)


@each_geometry
def test_log_undoes_exp(geometry):
    base = points(geometry, 20)
    tangent = 0.3 * torch.randn(20, 5, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    if geometry.name == "sphere":
        tangent -= (tangent * base).sum(1, keepdim=True) * base
    if geometry.name == "poincare":  # lengths as measured at the base
        tangent *= 1 + geometry.curvature * base.square().sum(1, keepdim=True)
    back = geometry.log(base, geometry.exp(base, tangent))
    torch.testing.assert_close(back, tangent, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("curvature", [-1.0, -0.25, -4.0])
def test_length_of_log_is_the_distance(curvature):
    ball = PoincareBall(curvature)
    base, point = points(ball, 20), points(ball, 20, seed=1)
    factor = 2 / (1 + curvature * base.square().sum(1))
    torch.testing.assert_close(ball.log(base, point).norm(dim=1) * factor, ball.distance(base, point))


@pytest.mark.parametrize("curvature", [-0.25, -3.0])
def test_the_curvature_is_a_unit_of_length(curvature):
    """A ball of curvature κ is that of curvature −1 with lengths √−κ times as long, clipping included."""
    root = (-curvature) ** 0.5
    x = torch.randn(20, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ball, unit = PoincareBall(curvature), PoincareBall(max_tangent_norm=2.3 * root)
    here, there = ball.embed(x), unit.embed(root * x)
    torch.testing.assert_close(root * here, there)
    torch.testing.assert_close(
        root * ball.pairwise_distance(here, here), unit.pairwise_distance(there, there), atol=1e-6, rtol=1e-9
    )


def test_the_ball_flattens_as_curvature_vanishes():
    x, y = points(Euclidean(), 9, spread=0.3), points(Euclidean(), 9, seed=1, spread=0.3)
    ball = PoincareBall(-1e-9)
    torch.testing.assert_close(ball.distance(x, y), 2 * Euclidean().distance(x, y), rtol=1e-8, atol=0)
    torch.testing.assert_close(ball.mean(x), Euclidean().mean(x), rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(ball.exp(x, y), x + y, rtol=1e-7, atol=1e-9)


@each_geometry
def test_ema_moves_along_the_geodesic(geometry):
    old, new = points(geometry, 10), points(geometry, 10, seed=1)
    torch.testing.assert_close(geometry.ema(old, new, 0.0), old)
    torch.testing.assert_close(geometry.ema(old, new, 1.0), new)
    if geometry.name != "sphere":  # whose distance is the chord, not the arc
        step = geometry.ema(old, new, 0.3)
        torch.testing.assert_close(geometry.distance(old, step), 0.3 * geometry.distance(old, new))
        torch.testing.assert_close(geometry.distance(step, new), 0.7 * geometry.distance(old, new))


@each_geometry
def test_gradients_against_finite_differences(geometry):
    x, y = points(geometry, 4, d=3), points(geometry, 3, d=3, seed=1)
    x, y = x.requires_grad_(), y.requires_grad_()
    assert gradcheck(geometry.pairwise_distance, (x, y), fast_mode=True)
    assert gradcheck(geometry.pairwise_similarity, (x, y), fast_mode=True)
    assert gradcheck(lambda a, b: geometry.distance(a[:, None], b), (x, y), fast_mode=True)
    assert gradcheck(lambda a, b: geometry.log(a[:, None], b), (x, y), fast_mode=True)
    assert gradcheck(lambda a, b: geometry.exp(a[:, None], 0.4 * b), (x, y), fast_mode=True)
    assert gradcheck(lambda a: geometry.mean(a), (x,), fast_mode=True)
    assert gradcheck(lambda a: geometry.embed(3 * a), (x,), fast_mode=True)
    near = (x + 0.01).detach()  # computed from differences
    assert gradcheck(lambda a: geometry.pairwise_distance(a, near), (x,))


@pytest.mark.parametrize("geometry", [Sphere(), PoincareBall(), PoincareBall(-3.0)], ids=str)
def test_log_and_exp_are_smooth_at_coincidence_and_at_zero(geometry):
    base = points(geometry, 3, d=3).requires_grad_()
    jacobian = torch.autograd.functional.jacobian(
        lambda y: geometry.log(base.detach()[0], y), base.detach()[0]
    )
    projected = torch.eye(3, dtype=torch.float64)
    if geometry.name == "sphere":
        projected -= base.detach()[0][:, None] * base.detach()[0]
    torch.testing.assert_close(jacobian, projected, rtol=1e-9, atol=1e-9)
    zero = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(geometry.exp, (base, zero))


@each_geometry
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_is_answered_in_float32(geometry, half):
    x, y = points(geometry, 6).to(half), points(geometry, 5, seed=1).to(half)
    for method in (geometry.pairwise_distance, geometry.pairwise_similarity):
        value = method(x, y)
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, method(x.double(), y.double()).float(), rtol=1e-5, atol=1e-6)
    assert geometry.embed(x).dtype == geometry.project(x).dtype == torch.float32
    assert geometry.log(x, x).dtype == geometry.exp(x, 0 * x).dtype == torch.float32
    assert geometry.mean(x).dtype == torch.float32


@each_geometry
def test_autocast_changes_nothing(geometry):
    x, y = points(geometry, 6, dtype=torch.float32), points(geometry, 5, seed=1, dtype=torch.float32)
    groups = torch.tensor([0, 1, 0, 1, 1, 0])

    def everything():
        a = x.clone().requires_grad_()
        values = [
            geometry.pairwise_distance(a, y),
            geometry.pairwise_similarity(a, y),
            geometry.similarity(a[:5], y),
            geometry.embed(a),
            geometry.group_means(a, groups, 2),
            geometry.ema_groups(y[:2], a, groups, 0.1),
        ]
        return a, values

    runs = [everything()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        runs.append(everything())
    for a, values in runs:
        sum(value.sum() for value in values).backward()
        values.append(a.grad)
    plain, under_autocast = (values for _, values in runs)
    for ours, expected in zip(under_autocast, plain, strict=True):
        assert ours.dtype == torch.float32
        assert torch.equal(ours, expected)


@each_geometry
def test_empty_and_single_inputs(geometry):
    x, none = points(geometry, 1), torch.zeros(0, 5, dtype=torch.float64)
    assert geometry.pairwise_distance(x, none).shape == (1, 0)
    assert geometry.pairwise_distance(none, x).shape == (0, 1)
    assert geometry.embed(none).shape == (0, 5)
    assert geometry.mean(none).isnan().all()
    torch.testing.assert_close(geometry.mean(x), x[0])
    assert geometry.distance(x[0], x[0]).shape == ()


@each_geometry
def test_geometries_are_immutable_values(geometry):
    assert pickle.loads(pickle.dumps(geometry)) == geometry
    assert hash(pickle.loads(pickle.dumps(geometry))) == hash(geometry)
    with pytest.raises(AttributeError):
        geometry.curvature = -2.0


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"x has shape \(3, 2\) and y \(3, 4\)"):
        Euclidean().pairwise_distance(torch.zeros(3, 2), torch.zeros(3, 4))
