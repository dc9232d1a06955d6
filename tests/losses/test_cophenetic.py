"""CPCC and HypStructure: published figures, slow loops, batches without a correlation, precision, ranks."""

import json
import math
from pathlib import Path

import pytest
import torch
from slow_classifiers import below, line, same_value_and_gradient
from slow_losses import even_tree, random_batch, random_tree
from torch import distributed

from forked import start_ranks
from labeltree.geometry import Euclidean, PoincareBall, Sphere
from labeltree.losses import CPCCLoss
from labeltree.taxonomy import Taxonomy

(CASE,) = json.loads((Path(__file__).parent / "oracles" / "cpcc.json").read_text())["cases"]
TREES = [random_tree(seed) for seed in range(4)] + [even_tree(2, 3), even_tree(3, 2, 2), even_tree(5)]
GEOMETRIES = [Sphere(), Euclidean(), PoincareBall(-0.7)]
BALL = PoincareBall(max_tangent_norm=None)


@pytest.mark.parametrize("compare", ["leaves", "nodes"])
@pytest.mark.parametrize(("geometry", "figure"), [(Euclidean(), "l2"), (BALL, "poincare_mean")])
def test_published_figures(geometry, figure, compare):
    tree = Taxonomy.from_paths([tuple(path) for path in CASE["paths"]])
    nodes = tree.encode([tuple(path) for path in CASE["paths"]])[CASE["labels"]]
    z = torch.tensor(CASE["embeddings"], dtype=torch.float64, requires_grad=True)
    expected = CASE["expected"][f"{figure}_{compare}"]
    centre = CASE["expected"]["centre" if geometry == BALL else "centre_l2"]
    for weight in (0.0, 0.3):
        loss = CPCCLoss(tree, compare=compare, centre=weight, reads="features", geometry=geometry)
        value = loss(z, nodes)
        assert value.item() == pytest.approx(expected["loss"] - 1 + weight * centre["loss"], rel=1e-10)
        (gradient,) = torch.autograd.grad(value, z)
        wanted = torch.tensor(expected["grad"]) + weight * torch.tensor(centre["grad"])
        torch.testing.assert_close(gradient, wanted.double(), rtol=1e-6, atol=1e-7)


def midpoint(points, curvature):
    """The Einstein midpoint, through Klein coordinates."""
    c = -curvature
    klein = [2 * x / (1 + c * (x @ x)) for x in points]
    factors = [1 / (1 - c * (k @ k)).sqrt() for k in klein]
    m = sum(f * k for f, k in zip(factors, klein, strict=True)) / sum(factors)
    return m / (1 + (1 - c * (m @ m)).sqrt())


def mean(points, geometry):
    if isinstance(geometry, PoincareBall):
        return midpoint(points, geometry.curvature)
    if isinstance(geometry, Sphere):
        total = sum(x / x.norm() for x in points)
        return total / total.norm()
    return sum(points) / len(points)


def apart(x, y, geometry):
    if isinstance(geometry, PoincareBall):
        c = -geometry.curvature
        z = 2 * c * ((x - y) @ (x - y)) / ((1 - c * (x @ x)) * (1 - c * (y @ y)))
        return torch.acosh(1 + z) / c**0.5
    return (x - y).norm()


def in_tree(tree, u, v, metric):
    ways = line(tree, u), line(tree, v)
    common = [w for w in ways[0] if w in ways[1]][-1]
    if metric == "path_length":
        return len(ways[0]) + len(ways[1]) - 2 * len(line(tree, common))
    return int(tree.height[common]) if metric == "lca_height" else -int(tree.depth[common])


def slow(tree, z, nodes, geometry, metric, compare, centre):
    found = {}
    for v in range(len(tree)):
        if compare == "nodes" or not tree.children(v):
            rows = [x for x, node in zip(z, nodes.tolist(), strict=True) if node in below(tree, v)]
            if rows:
                found[v] = mean(rows, geometry)
    pairs = [(u, v) for u in found for v in found if u < v]
    # single children have the mean of their parent
    d = [apart(found[u], found[v], geometry) if not torch.equal(found[u], found[v]) else 0 for u, v in pairs]
    t = [in_tree(tree, u, v, metric) for u, v in pairs]
    total = z.sum() * 0
    if len(found) > 2 and len(set(t)) > 1:
        d_mean, t_mean = sum(d) / len(d), sum(t) / len(t)
        across = sum((x - d_mean) ** 2 for x in d).sqrt()
        along = math.sqrt(sum((y - t_mean) ** 2 for y in t))
        total = total - sum((x - d_mean) * (y - t_mean) for x, y in zip(d, t, strict=True)) / across / along
    rows = [x for x, node in zip(z, nodes.tolist(), strict=True) if node >= 0]
    if centre and rows:
        ball = isinstance(geometry, PoincareBall)
        unit = [x / x.norm() for x in rows] if isinstance(geometry, Sphere) else rows
        middle = midpoint(rows, geometry.curvature) if ball else sum(unit) / len(unit)
        total = total + centre * middle.norm()
    return total


@pytest.mark.parametrize("compare", ["leaves", "nodes"])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
@pytest.mark.parametrize("seed", range(len(TREES)))
def test_slow_loop(seed, geometry, compare):
    tree = TREES[seed]
    metric = ["path_length", "lca_height", "lca_depth"][seed % 3]
    z, nodes, _ = random_batch(tree, seed, n=10, d=3)
    z.requires_grad_()
    centre = 0.2 * (seed % 2)
    loss = CPCCLoss(tree, metric, compare=compare, centre=centre, geometry=geometry)
    same_value_and_gradient(loss(z, nodes), slow(tree, z, nodes, geometry, metric, compare, centre), z)


def test_defaults_of_the_geometries():
    tree = even_tree(2, 2)
    flat, ball = CPCCLoss(tree), CPCCLoss(tree, geometry="poincare")
    assert (flat.compare, flat.centre) == ("leaves", 0)
    assert (ball.compare, ball.centre) == ("nodes", 0.01)
    assert CPCCLoss(tree, geometry="poincare", compare="leaves", centre=0.0).compare == "leaves"


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
def test_batches_without_a_correlation(geometry):
    """Few classes, one row, no row, no label, equal distances: exactly 0, with a gradient of 0."""
    tree = even_tree(2, 2)
    a, b, c, _ = tree.leaves.tolist()
    flat = even_tree(4)
    corners = 0.5 * torch.eye(4)
    for taxonomy, z, nodes in [
        (tree, torch.randn(4, 4), [a, a, b, b]),
        (tree, torch.randn(1, 4), [a]),
        (tree, torch.randn(0, 4), []),
        (tree, torch.randn(5, 4), [-1] * 5),
        (tree, torch.randn(3, 4), [0, 1, 1]),
        (flat, torch.randn(4, 4), flat.leaves.tolist()),
        (tree, corners, tree.leaves.tolist()),
        (tree, corners.double(), tree.leaves.tolist()),
        (tree, torch.full((3, 4), 0.1), [a, b, c]),
        (Taxonomy.from_paths(["a"]), torch.randn(3, 4), [1, 1, 0]),
    ]:
        z = (0.3 * z).requires_grad_()
        loss = CPCCLoss(taxonomy, compare="leaves", centre=0.0, geometry=geometry)
        value = loss(z, torch.tensor(nodes, dtype=torch.int64))
        value.backward()
        assert value == 0
        assert not z.grad.any()
        assert z.grad.isfinite().all()


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
@pytest.mark.parametrize("length", [0.01, 0.3, 0.9, 1.5, 40.0])
def test_equal_embeddings_have_no_correlation(geometry, length):
    """Their distances are of rounding alone, in the ball above all; the gradient was 1e15."""
    tree = even_tree(2, 2)
    one = torch.randn(1, 8, generator=torch.Generator().manual_seed(0))
    z = (length * one / one.norm()).repeat(12, 1).requires_grad_()
    value = CPCCLoss(tree, centre=0.0, geometry=geometry)(z, tree.leaves.repeat(3))
    value.backward()
    assert value == 0
    assert not z.grad.any()


def test_nearly_equal_distances_have_no_correlation_in_float32():
    """Rounding must not be taken for an order: its gradient would be a million times too large."""
    tree = even_tree(2, 2)
    rotation, _ = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(3)))
    assert CPCCLoss(tree)(rotation.float(), tree.leaves) == 0


def test_missing_labels_change_nothing_and_inner_nodes_count_above_leaves():
    tree = random_tree(2)
    z, nodes, _ = random_batch(tree, 3, n=12)
    nodes[::5] = -1
    kept = nodes >= 0
    inner = kept & ~tree.is_leaf[nodes]
    assert inner.any()
    for compare in ("leaves", "nodes"):
        loss = CPCCLoss(tree, compare=compare)
        torch.testing.assert_close(loss(z, nodes), loss(z[kept], nodes[kept]), rtol=0, atol=0)
        without = loss(z[~inner], nodes[~inner])
        assert (loss(z, nodes) == without) == (compare == "leaves")


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
def test_embeddings_become_the_tree(geometry):
    tree = even_tree(2, 2, 2)
    z = (0.1 * torch.randn(24, 8, generator=torch.Generator().manual_seed(0))).requires_grad_()
    nodes = tree.leaves.repeat(3)
    loss = CPCCLoss(tree, reads="features", geometry=geometry)
    optimizer = torch.optim.Adam([z], lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        loss(z, nodes).backward()
        optimizer.step()
    assert loss(z, nodes) < -0.95


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
def test_precision(geometry):
    tree = even_tree(3, 3)
    z, nodes, _ = random_batch(tree, 0, n=32, d=8, leaves=True)
    loss = CPCCLoss(tree, geometry=geometry, centre=0.1)
    exact, single = loss(z, nodes), loss(z.float(), nodes)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), exact, rtol=1e-5, atol=1e-6)
    half = z.bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(half, nodes)
    assert torch.equal(value, loss(half.detach().float(), nodes))
    value.backward()
    assert half.grad.isfinite().all()
    assert torch.autograd.gradcheck(lambda x: loss(x, nodes[:8]), (z[:8].requires_grad_(),), fast_mode=True)


def test_bad_arguments():
    tree = even_tree(2, 2)
    z = torch.randn(4, 3)
    with pytest.raises(ValueError, match="metric is 'hops'; expected one of 'path_length'"):
        CPCCLoss(tree, "hops")
    with pytest.raises(ValueError, match="compare is 'classes'; expected 'leaves' or 'nodes'"):
        CPCCLoss(tree, compare="classes")
    with pytest.raises(ValueError, match="reads is 'logits'; expected 'embeddings' or 'features'"):
        CPCCLoss(tree, reads="logits")
    for centre in (-0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match="centre must be finite"):
            CPCCLoss(tree, centre=centre)
    with pytest.raises(ValueError, match=r"nodes must be an integer tensor of shape \(4,\); got None"):
        CPCCLoss(tree)(z, None)
    with pytest.raises(ValueError, match="nodes must lie between -1"):
        CPCCLoss(tree)(z, torch.full((4,), len(tree)))


def _rank(rank: int, store: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    tree = random_tree(3)
    z, nodes, _ = random_batch(tree, 5, n=9)
    mine = slice(0, 2) if rank == 0 else slice(2, None)
    own = z[mine].clone().requires_grad_()
    value = CPCCLoss(tree, geometry="poincare")(own, nodes[mine])
    value.backward()
    torch.save((value.detach(), own.grad), f"{store}.{rank}")
    distributed.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_are_one_batch(tmp_path):
    store = str(tmp_path / "store")
    start_ranks(_rank, (store,), nprocs=2)
    first, second = (torch.load(f"{store}.{rank}") for rank in (0, 1))
    tree = random_tree(3)
    z, nodes, _ = random_batch(tree, 5, n=9)
    value = CPCCLoss(tree, geometry="poincare")(z.requires_grad_(), nodes)
    value.backward()
    for found in (first, second):
        torch.testing.assert_close(found[0], value.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(torch.cat([first[1], second[1]]) / 2, z.grad, rtol=1e-11, atol=1e-13)
