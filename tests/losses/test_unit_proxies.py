"""Normalised softmax and tree proxies: slow loops, the Gram term without pairs, streaming, starts, limits."""

import pytest
import torch
from slow_classifiers import below, classes_at, columns_of, labelled_mean, probability
from slow_classifiers import same_value_and_gradient as same
from slow_losses import even_tree, random_batch, random_tree

from labeltree.losses import CrossEntropyLoss, NormalisedSoftmaxLoss, TreeProxyLoss
from labeltree.losses.classifiers.classes import node_log_likelihood
from labeltree.losses.proxies.normalised_softmax import streamed_log_likelihood
from labeltree.taxonomy import Taxonomy
from labeltree.training.optimizer_and_learning_rate import build_optimizer
from labeltree.training.recipe import OptimizerRecipe
from sweeps import long_unless

TREES = [random_tree(seed) for seed in range(5)] + [even_tree(2, 3), even_tree(3, 2, 2), even_tree(4)]
TREES += [Taxonomy.from_paths([("a", "b", "c"), ("a", "b", "d"), ("e",)]), Taxonomy.from_paths([("a", "b")])]


def given(tree, seed, dim=3):
    z, nodes, _ = random_batch(tree, seed, n=9, d=dim)
    nodes[0] = -1
    torch.manual_seed(seed)
    return z.requires_grad_(), nodes


def cosine(x, y):
    return (x @ y) / (x.norm() * y.norm())


def slow_softmax(tree, z, nodes, proxies, temperature):
    classes = classes_at(tree)
    rows = []
    for x, node in zip(z, nodes.tolist(), strict=True):
        logits = [cosine(x, p) / temperature for p in proxies]
        rows.append(-torch.log(probability(logits, columns_of(tree, node, classes))))
    return labelled_mean(rows, nodes, z.sum() * 0)


def likeness(tree, identity):
    """S' by the definition: the lowest common ancestor of each pair of leaves."""
    classes = classes_at(tree)
    rows = []
    for a in classes:
        heights = [tree.height[tree.lca(torch.tensor(a), torch.tensor(b))].item() for b in classes]
        rows.append([(1 - identity) * (1 - h / tree.max_height) for h in heights])
    return torch.tensor(rows, dtype=torch.float64).fill_diagonal_(1.0)


def slow_ancestors(tree, z, nodes, proxies, temperature):
    """−log p of the ancestors of every row's label, without the root, in their mean."""
    classes = classes_at(tree)
    rows = []
    for x, node in zip(z, nodes.tolist(), strict=True):
        logits = [cosine(x, p) / temperature for p in proxies]
        above = [v for v in tree.ancestors_of(node) if v > 0] if node >= 0 else []
        terms = [-torch.log(probability(logits, columns_of(tree, v, classes))) for v in above]
        rows.append(sum(terms) / len(terms) if terms else z.sum() * 0)
    return labelled_mean(rows, nodes, z.sum() * 0)


def slow_tree_proxies(tree, z, nodes, proxies, temperature, align, gram, identity):
    classes = classes_at(tree)
    unit = [p / p.norm() for p in proxies]
    rows = []
    for x, node in zip(z, nodes.tolist(), strict=True):
        row = z.sum() * 0
        if node > 0:
            row = 1 - cosine(x, sum(unit[k] for k, c in enumerate(classes) if c in below(tree, node)))
        rows.append(align * row)
    total = slow_softmax(tree, z, nodes, proxies, temperature) + labelled_mean(rows, nodes, z.sum() * 0)
    target = likeness(tree, identity)
    far = sum((unit[i] @ unit[j] - target[i, j]) ** 2 for i in range(len(unit)) for j in range(len(unit)))
    return total + gram * far / len(unit)


@pytest.mark.parametrize("seed", range(len(TREES)))
def test_normalised_softmax_is_its_slow_loop(seed):
    tree = TREES[seed]
    z, nodes = given(tree, seed)
    loss = NormalisedSoftmaxLoss(tree, 3, 0.3).double()
    same(loss(z, nodes), slow_softmax(tree, z, nodes, loss.proxies, 0.3), z, loss.proxies)


@pytest.mark.parametrize("seed", range(len(TREES)))
@pytest.mark.parametrize("start", ["tree", "random"])
def test_tree_proxies_are_their_slow_loop(seed, start):
    tree = TREES[seed]
    z, nodes = given(tree, seed)
    loss = TreeProxyLoss(tree, 3, 0.5, align=0.7, gram=0.3, identity=0.4, start=start).double()
    expected = slow_tree_proxies(tree, z, nodes, loss.proxies, 0.5, 0.7, 0.3, 0.4)
    same(loss(z, nodes), expected, z, loss.proxies)


@pytest.mark.parametrize("temperature", [0.5, 0.02])  # sums in float32, and in float64
@pytest.mark.parametrize("seed", long_unless(range(len(TREES)), [0, 5, 7, 8, 9]))
def test_ancestors_are_their_slow_loop(seed, temperature, monkeypatch):
    tree = TREES[seed]
    z, nodes = given(tree, seed)
    loss = TreeProxyLoss(tree, 3, temperature, align=0.0, gram=0.0, ancestors=0.6).double()
    expected = slow_softmax(tree, z, nodes, loss.proxies, temperature)
    expected = expected + 0.6 * slow_ancestors(tree, z, nodes, loss.proxies, temperature)
    same(loss(z, nodes), expected, z, loss.proxies)
    monkeypatch.setattr("labeltree.losses.proxies.normalised_softmax._ENTRIES", 0)
    same(loss(z, nodes), expected, z, loss.proxies)


@pytest.mark.parametrize("temperature", [0.1, 0.01, 0.001])
def test_ancestors_that_are_far_away_are_finite(temperature):
    """A class on the other side of the sphere has no share that float32, or even float64, could hold."""
    tree = even_tree(2, 2)
    loss = TreeProxyLoss(tree, 3, temperature, ancestors=1.0, align=0.0, gram=0.0)
    with torch.no_grad():
        loss.proxies.copy_(torch.tensor([[1.0, 0, 0], [1, 0.01, 0], [-1, 0, 0], [-1, 0.01, 0]]))
    z = torch.tensor([[-1.0, 0.0, 0.001]], requires_grad=True)
    value = loss(z, tree.leaves[:1])
    value.backward()
    assert value.isfinite()
    assert z.grad.isfinite().all()
    if temperature > 0.003:
        assert float(value.detach()) == pytest.approx(4 / temperature, rel=0.05)


def test_without_its_terms_it_is_the_normalised_softmax():
    tree = TREES[1]
    z, nodes = given(tree, 1)
    plain, tied = NormalisedSoftmaxLoss(tree, 3).double(), TreeProxyLoss(tree, 3, align=0, gram=0).double()
    with torch.no_grad():
        plain.proxies.copy_(tied.proxies)
    torch.testing.assert_close(plain(z, nodes), tied(z, nodes), rtol=0, atol=0)


@pytest.mark.parametrize("identity", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("tree", TREES[4:9])
def test_with_enough_dimensions_the_start_is_the_tree(tree, identity):
    loss = TreeProxyLoss(tree, tree.num_leaves + 2, identity=identity).double()
    assert loss.gram_distance().abs() < 1e-6
    products = loss.proxies @ loss.proxies.T
    torch.testing.assert_close(products, likeness(tree, identity), rtol=0, atol=1e-6)


def test_in_few_dimensions_the_start_is_nearer_to_the_tree_than_random_directions():
    tree = even_tree(4, 4, 3)
    torch.manual_seed(0)
    near, far = (
        torch.stack([TreeProxyLoss(tree, 24, start=start).gram_distance() for _ in range(10)]).mean()
        for start in ("tree", "random")
    )
    assert near < 0.8 * far


def test_the_gram_matrix_of_the_tree_is_a_minimum():
    tree = even_tree(2, 3)
    loss = TreeProxyLoss(tree, 8, align=0, identity=0.2).double()
    moved = TreeProxyLoss(tree, 8, align=0, identity=0.2).double()
    with torch.no_grad():
        moved.proxies.add_(0.1 * torch.randn(6, 8, generator=torch.Generator().manual_seed(0)))
    assert loss.gram_distance() < 1e-9 < moved.gram_distance()


@pytest.mark.parametrize("tile", [1, 7, 40, 10_000])
@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_streaming_is_the_matrix_of_all_classes(tile, scale):
    tree = random_tree(3)
    z, nodes = given(tree, 3)
    torch.manual_seed(1)
    proxies = torch.randn(tree.num_leaves, 3, dtype=torch.float64, requires_grad=True)
    factor = torch.tensor(scale, dtype=torch.float64, requires_grad=True)
    ranges = NormalisedSoftmaxLoss(tree, 3).ranges
    got = streamed_log_likelihood(z, proxies, factor, ranges[nodes], tile)
    expected = node_log_likelihood(z @ proxies.T * factor, nodes, ranges)
    weights = torch.linspace(0.5, 2, len(z), dtype=torch.float64)
    same((got * weights).sum(), (expected * weights).sum(), z, proxies, factor)
    assert (got[nodes <= 0] == 0).all()


def test_many_classes_are_streamed(monkeypatch):
    tree = TREES[2]
    z, nodes = given(tree, 2)
    whole = TreeProxyLoss(tree, 3, learn_temperature=True, ancestors=0.5).double()
    expected = whole(z, nodes)
    gradient = torch.autograd.grad(expected, [z, whole.proxies, whole.log_scale])
    monkeypatch.setattr("labeltree.losses.proxies.normalised_softmax._ENTRIES", 0)
    value = whole(z, nodes)
    torch.testing.assert_close(value, expected)
    for a, b in zip(torch.autograd.grad(value, [z, whole.proxies, whole.log_scale]), gradient, strict=True):
        torch.testing.assert_close(a, b)


def test_the_temperature_is_learnt():
    tree = even_tree(2, 2)
    loss = NormalisedSoftmaxLoss(tree, 4, 0.2, learn_temperature=True)
    assert float(loss.scale) == pytest.approx(5.0)
    loss(loss.proxies.detach(), tree.leaves).backward()
    assert loss.log_scale.grad < 0  # all right: be surer
    fixed = NormalisedSoftmaxLoss(tree, 4, 0.2)
    fixed.load_state_dict({k: v for k, v in loss.state_dict().items() if k != "log_scale"})
    z = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(loss.logits(z), fixed.logits(z))


def test_a_softmax_over_cosines():
    tree = random_tree(2)
    z, nodes = given(tree, 2)
    loss = NormalisedSoftmaxLoss(tree, 3, 0.2).double()
    torch.testing.assert_close(loss(z, nodes), CrossEntropyLoss(tree)(loss.logits(z), nodes))
    expected = [tree.leaves[torch.stack([cosine(x, p) for p in loss.proxies]).argmax()].item() for x in z]
    assert loss.predict(z).tolist() == expected


@pytest.mark.parametrize("make", [NormalisedSoftmaxLoss, TreeProxyLoss])
def test_rows_of_any_label(make):
    tree = even_tree(2, 2)
    torch.manual_seed(0)
    loss = make(tree, 3)
    for node in range(-1, len(tree)):
        z = torch.randn(1, 3, requires_grad=True)
        value = loss(z, torch.tensor([node]))
        value.backward()
        assert value.isfinite()
        assert z.grad.isfinite().all()
        assert bool(z.grad.any()) == (node > 0)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"align": -1.0}, "align must be finite"),
        ({"gram": float("inf")}, "gram must be finite"),
        ({"identity": 1.5}, "identity must lie between 0 and 1"),
        ({"start": "shuffled"}, "start"),
    ],
)
def test_settings_out_of_range(options, problem):
    with pytest.raises(ValueError, match=problem):
        TreeProxyLoss(even_tree(2, 2), 3, **options)


def test_in_few_dimensions_the_start_has_the_similarities_of_the_tree_on_average():
    tree = even_tree(3, 4, 3)
    torch.manual_seed(0)
    starts = [TreeProxyLoss(tree, 20, identity=0.3).double().proxies.detach() for _ in range(60)]
    products = torch.stack([start @ start.T for start in starts]).mean(0)
    assert starts[0].norm(dim=1).sub(1).abs().max() < 1e-6
    assert (products - likeness(tree, 0.3)).abs().max() < 0.15  # of means with a deviation of 0.03 at most


def test_the_learning_rate_of_proxies():
    loss = TreeProxyLoss(even_tree(2, 2), 3, learn_temperature=True, lr_factor=10)
    groups = build_optimizer(OptimizerRecipe(), torch.nn.Linear(3, 3), loss, (0.1, 0.2)).param_groups
    rates = {id(p): group["lr"] for group in groups for p in group["params"]}
    assert (rates[id(loss.proxies)], rates[id(loss.log_scale)]) == (2.0, 0.2)
    assert len(rates) == 4
    with pytest.raises(ValueError, match="lr_factor must be finite and above 0"):
        NormalisedSoftmaxLoss(even_tree(2, 2), 3, lr_factor=0)
