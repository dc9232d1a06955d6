"""LAM: the hinge against loops, and the life of its prototypes."""

import pickle

import pytest
import torch
from slow_losses import even_tree, line, random_batch, random_tree, slow_margin
from torch import distributed

from forked import start_ranks
from labeltree.geometry import Euclidean, PoincareBall, Sphere
from labeltree.losses import LevelAwareMarginLoss
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

GEOMETRIES = {"unit": Sphere(), "cosine": Sphere(), "raw": Euclidean(), "poincare": PoincareBall(-0.6)}


def metric(name):
    def distance(x, y):
        if name == "raw":
            return (x - y).norm()
        if name == "poincare":
            z = 2 * 0.6 * ((x - y) @ (x - y)) / ((1 - 0.6 * (x @ x)) * (1 - 0.6 * (y @ y)))
            return torch.acosh(1 + z) / 0.6**0.5
        cosine = (x @ y) / (x.norm() * y.norm())
        return 1 - cosine if name == "cosine" else (2 - 2 * cosine).sqrt()

    return distance


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("divisor", ["batch", "contributing"])
def test_value_and_gradient_against_loops(name, divisor):
    for seed in range(4):
        tree = random_tree(seed, num_nodes=20)
        depths = tree.max_depth - 1
        margins, weights = [0.7 / (1 + d) for d in range(depths)], [1.0 + d for d in range(depths)]
        loss = LevelAwareMarginLoss(
            tree, 4, margins, weights, geometry=GEOMETRIES[name], distance=name, divisor=divisor
        ).double()
        loss(*random_batch(tree, seed, n=6)[:2])  # some nodes have been seen, others not
        loss.eval()
        assert loss.seen.any()
        assert not loss.seen.all()
        z, nodes, _ = random_batch(tree, seed + 50, n=14)
        x, y = z.clone().requires_grad_(), z.clone().requires_grad_()
        value = loss(x, nodes)
        expected = slow_margin(
            tree, y, nodes, loss.prototypes, loss.seen, margins, weights, metric(name), divisor
        )
        torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12)
        value.backward()
        expected.backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_gradcheck(name):
    tree = even_tree(2, 2, 2)
    loss = LevelAwareMarginLoss(tree, 4, geometry=GEOMETRIES[name], distance=name).double()
    loss(*random_batch(tree, 0, leaves=True)[:2])
    z, nodes, _ = random_batch(tree, 1, n=6)
    assert torch.autograd.gradcheck(loss.eval(), (z.requires_grad_(), nodes), fast_mode=True)


def below(tree, nodes, node):
    """Rows whose label lies below a node, or is it."""
    return torch.tensor([label >= 0 and node in line(tree, label) for label in nodes.tolist()])


@pytest.mark.parametrize("name", ["unit", "raw", "poincare"])
def test_prototypes_start_as_means_and_follow_by_the_moving_average(name):
    tree, geometry = random_tree(3, num_nodes=18), GEOMETRIES[name]
    loss = LevelAwareMarginLoss(tree, 4, eta=0.3, geometry=geometry).double()
    kept = [v for v in range(1, len(tree)) if tree.children(v)]
    expected = {}
    for step in range(4):
        z, nodes, _ = random_batch(tree, step, n=5)
        z, nodes = z.requires_grad_(), nodes.clamp(min=-1)
        points = geometry.project(z).detach()
        loss(z, nodes)
        for v in kept:
            rows = points[below(tree, nodes, v)]
            if not len(rows):
                continue
            if v not in expected:
                plain = name != "poincare"
                expected[v] = rows.mean(0) if plain else geometry.mean(rows)
            elif name == "poincare":
                move = torch.stack([geometry.log(expected[v], x) for x in rows]).mean(0)
                expected[v] = geometry.exp(expected[v], 0.3 * move)
            else:
                expected[v] = 0.7 * expected[v] + 0.3 * rows.mean(0)
    assert len(expected) > 3
    assert loss.seen.nonzero()[:, 0].tolist() == sorted(expected)
    for v, point in expected.items():
        torch.testing.assert_close(loss.prototypes[v], point, rtol=1e-9, atol=1e-12)
    assert not loss.prototypes.requires_grad


def test_update_before_and_after_differ_only_in_the_loss():
    tree = even_tree(3, 2)
    losses = [LevelAwareMarginLoss(tree, 4, eta=0.5, update=when).double() for when in ("after", "before")]
    for step in range(2):
        z, nodes, _ = random_batch(tree, step, leaves=True)
        after, before = (loss(z, nodes) for loss in losses)
        assert torch.equal(losses[0].prototypes, losses[1].prototypes)
        assert (after == before) == (step == 0)  # the first batch has only started them
    last = losses[0].eval()(z, nodes)
    assert last == before


def test_renormalised_prototypes_stay_on_the_sphere():
    tree = even_tree(3, 2)
    loss = LevelAwareMarginLoss(tree, 4, renormalise=True)
    for step in range(2):
        loss(random_batch(tree, step, leaves=True)[0].float(), random_batch(tree, step, leaves=True)[1])
    assert loss.prototypes[loss.seen].norm(dim=1) == pytest.approx(1, abs=1e-6)
    assert loss.seen.sum() == 3


def test_evaluation_changes_nothing():
    tree = even_tree(2, 2)
    loss = LevelAwareMarginLoss(tree, 4).eval()
    z, nodes, _ = random_batch(tree, 0)
    assert loss(z, nodes) == 0
    assert not loss.seen.any()
    assert (loss.prototypes == 0).all()


def test_a_lone_prototype_and_too_shallow_labels_add_nothing():
    tree = Taxonomy.from_paths([("a", "b", "c"), ("d",)])  # depth 1 has one inner node, a, depth 2 one, b
    loss = LevelAwareMarginLoss(tree, 3)
    z = torch.randn(3, 3, requires_grad=True)
    value = loss(z, tree.encode(["c", "d", None]))
    assert value == 0
    value.backward()
    assert (z.grad == 0).all()
    assert loss.seen.nonzero()[:, 0].tolist() == [tree.find("a"), tree.find("b")]


def test_a_tree_of_one_depth_has_no_margins():
    loss = LevelAwareMarginLoss(even_tree(3), 4)
    z = torch.randn(5, 4, requires_grad=True)
    value = loss(z, torch.tensor([1, 2, 3, -1, 0]))
    assert value == 0
    value.backward()


def test_state_round_trips_and_continues_the_same():
    tree = even_tree(3, 2)
    z, nodes, _ = random_batch(tree, 0, leaves=True)
    loss = LevelAwareMarginLoss(tree, 4, geometry=PoincareBall())
    loss(z.float(), nodes)
    assert set(loss.state_dict()) == {"prototypes", "seen"}
    assert loss.prototypes.shape == (len(tree), 4)
    assert loss.seen.shape == (len(tree),)
    fresh = LevelAwareMarginLoss(tree, 4, geometry=PoincareBall())
    fresh.load_state_dict(loss.state_dict())
    copied = pickle.loads(pickle.dumps(loss))
    again = random_batch(tree, 1, leaves=True)
    values = [one(again[0].float(), again[1]) for one in (loss, fresh, copied)]
    assert values[0] == values[1] == values[2]
    assert torch.equal(loss.prototypes, fresh.prototypes)
    assert torch.equal(loss.prototypes, copied.prototypes)


def test_defaults_fall_from_coarse_to_fine():
    loss = LevelAwareMarginLoss(even_tree(1, 1, 1, 1, 1, 1, 2), 4)
    assert loss.margins.tolist() == pytest.approx([0.4, 0.3, 0.2, 0.1, 0.1, 0.1])
    assert loss.weights.tolist() == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0}, "dim must be the dimension of the embeddings.*got 0"),
        ({"eta": 0.0}, "eta must lie above 0 and not above 1; got 0.0"),
        ({"margins": [0.1, 0.2]}, "margins must have 1 entries, one per depth, coarse → fine; got 2"),
        ({"weights": [-1.0]}, "weights must be finite and not negative"),
        ({"distance": "poincare"}, "distance='poincare' needs a PoincareBall as geometry; got 'sphere'"),
        ({"distance": "l2"}, "distance is 'l2'; expected one of 'unit', 'raw', 'cosine', 'poincare'"),
        ({"update": "never"}, "update is 'never'; expected 'after' or 'before'"),
        ({"divisor": "n"}, "divisor is 'n'; expected 'batch' or 'contributing'"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        LevelAwareMarginLoss(even_tree(2, 2), **{"dim": 4, **options})


def test_embeddings_of_another_dimension():
    with pytest.raises(ValueError, match=r"embeddings must have shape \(n, 4\), as dim=4; got \(3, 5\)"):
        LevelAwareMarginLoss(even_tree(2, 2), 4)(torch.randn(3, 5), torch.tensor([2, 3, 5]))


RANKED = {"unit": "batch", "poincare": "contributing"}


def _start(name):
    tree = even_tree(3, 2, 2)
    options = {"geometry": GEOMETRIES[name], "divisor": RANKED[name], "eta": 0.3}
    return tree, LevelAwareMarginLoss(tree, 4, **options).double()


def _step(tree, step):
    """A batch of 7, 8 or 9 rows, and how many of them the first of two ranks has."""
    z, nodes, _ = random_batch(tree, step, n=7 + step)
    return z, nodes, 2 + step % 2


def _rank(rank: int, store: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    results = {}
    for name in RANKED:
        tree, loss = _start(name)
        for step in range(3):
            z, nodes, cut = _step(tree, step)
            mine = slice(0, cut) if rank == 0 else slice(cut, None)
            x = z[mine].clone().requires_grad_()
            value = loss(x, nodes[mine])
            value.backward()
            results[name, step] = (value.detach(), x.grad, loss.prototypes.clone())
    torch.save(results, f"{store}.{rank}")
    distributed.destroy_process_group()


def test_two_ranks_equal_one_process_over_the_union(tmp_path):
    store = str(tmp_path / "store")
    start_ranks(_rank, (store,), nprocs=2)
    first, second = (torch.load(f"{store}.{rank}") for rank in (0, 1))
    for name in RANKED:
        tree, loss = _start(name)
        for step in range(3):
            z, nodes, _ = _step(tree, step)
            x = z.clone().requires_grad_()
            value = loss(x, nodes)
            value.backward()
            for rank in (first, second):
                torch.testing.assert_close(rank[name, step][0], value.detach(), rtol=1e-12, atol=1e-13)
                torch.testing.assert_close(rank[name, step][2], loss.prototypes, rtol=1e-12, atol=1e-13)
            assert torch.equal(first[name, step][2], second[name, step][2])  # the same to the bit
            # DDP takes the mean of the ranks' gradients
            union = torch.cat([first[name, step][1], second[name, step][1]]) / 2
            torch.testing.assert_close(union, x.grad, rtol=1e-12, atol=1e-13)
        assert value > 0
