"""The Poincaré ball and the sphere against geoopt, if installed; its artanh form is good to about 1e-6."""

import pytest
import torch

from labeltree.geometry import PoincareBall, Sphere

geoopt = pytest.importorskip("geoopt")


@pytest.fixture(params=[-1.0, -0.2, -3.0])
def balls(request):
    return PoincareBall(request.param), geoopt.PoincareBall(c=-request.param).double()


def points(ball, n, seed):
    generator = torch.Generator().manual_seed(seed)
    return ball.embed(0.3 * torch.randn(n, 6, generator=generator, dtype=torch.float64))


def test_ball(balls):
    ours, theirs = balls
    x, y = points(ours, 8, 0), points(ours, 8, 1)
    tangent = 0.2 * torch.randn(8, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    torch.testing.assert_close(ours.distance(x, y), theirs.dist(x, y), rtol=1e-6, atol=0)
    torch.testing.assert_close(ours.pairwise_distance(x, y), theirs.dist(x[:, None], y), rtol=1e-6, atol=0)
    torch.testing.assert_close(ours.log(x, y), theirs.logmap(x, y), rtol=1e-5, atol=1e-12)
    torch.testing.assert_close(ours.exp(x, tangent), theirs.expmap(x, tangent), rtol=1e-5, atol=1e-12)
    torch.testing.assert_close(
        ours.ema(x, y, 0.3), theirs.geodesic(torch.tensor(0.3), x, y), rtol=1e-5, atol=1e-12
    )
    v = points(ours, 8, 3)
    torch.testing.assert_close(ours.embed(v), theirs.expmap0(v), rtol=1e-5, atol=1e-12)


def test_sphere():
    ours, theirs = Sphere(), geoopt.Sphere()
    generator = torch.Generator().manual_seed(0)
    x, y = (ours.embed(torch.randn(8, 5, generator=generator, dtype=torch.float64)) for _ in range(2))
    torch.testing.assert_close(ours.log(x, y), theirs.logmap(x, y), rtol=1e-5, atol=1e-12)
    tangent = theirs.logmap(x, y) * 0.7
    torch.testing.assert_close(ours.exp(x, tangent), theirs.expmap(x, tangent), rtol=1e-5, atol=1e-12)
