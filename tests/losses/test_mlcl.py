"""MLCL: against figures, against loops, its special cases, and labels that are missing or coarse."""

import copy
import json
import pickle
from pathlib import Path

import pytest
import torch
from slow_losses import Pairs, even_tree, line, random_batch, random_tree, similarities

from labeltree.geometry import PoincareBall
from labeltree.losses import CrossEntropyLoss, HiMulConLoss, JaccardSupConLoss, MLCLLoss, SupConLoss
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

CASES = [
    (case["inputs"], case["expected"])
    for case in json.loads((Path(__file__).parent / "oracles" / "mlcl.json").read_text())["cases"]
]
HIERARCHIES = [(given, expected) for given, expected in CASES if given["kind"] == "heads"]
REVIEWS = [(given, expected) for given, expected in CASES if given["kind"] == "multi_label"]
TREE = even_tree(2, 2)


def close(got, expected):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    assert (got.detach() - expected).abs().max() <= 1e-9 * expected.abs().max()


def flat(labels):
    """A taxonomy of one depth for class numbers, and their nodes."""
    tree = Taxonomy.from_paths([(str(label),) for label in sorted(set(labels))])
    return tree, tree.encode([str(label) for label in labels])


def two_trees(seed, n=8):
    """Two aspects with trees of their own, the second ragged, and labels of all sorts."""
    trees = (even_tree(2, 2), random_tree(seed, 9))
    z, first, instances = random_batch(trees[0], seed, n)
    _, second, _ = random_batch(trees[1], seed, n)
    for instance in instances.unique():
        second[instances == instance] = second[instances == instance][0]
    return trees, z, torch.stack([first, second], 1), instances


def heads_of(seed, count, n, d=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, d, generator=generator, dtype=dtype).requires_grad_() for _ in range(count)]


@pytest.mark.parametrize(("given", "expected"), HIERARCHIES)
def test_figures_of_heads(given, expected):
    trees, nodes = zip(*(flat(labels) for labels in given["labels"]), strict=True)
    for name, reduction in {"eq2_sum": "sum", "eq2_mean": "valid"}.items():
        heads = [torch.tensor(z, dtype=torch.float64, requires_grad=True) for z in given["z"]]
        loss = MLCLLoss(trees, given["tau"], given["alpha"], reduction=reduction)
        value = loss(heads, torch.stack(nodes, 1))
        close(value, expected[name]["loss"])
        value.backward()
        for z, grad in zip(heads, expected[name]["grads"], strict=True):
            close(z.grad, grad)
        alone = expected["per_head_sum" if reduction == "sum" else "per_head_mean"]
        for contrast, z, column, figure in zip(loss.contrasts, heads, nodes, alone, strict=True):
            close(contrast(z, column), figure)


def test_figures_of_a_coarse_depth():
    """The figures' second labels as depth 1 of a tree, each with the first below it; by default as CIFAR."""
    given, expected = HIERARCHIES[0]
    paths = [(str(c), str(f)) for f, c in zip(*given["labels"], strict=True)]
    tree = Taxonomy.from_paths(sorted(set(paths)))
    nodes = tree.encode(paths)
    heads = [torch.tensor(z, dtype=torch.float64) for z in reversed(given["z"])]
    coarse = SupConLoss(tree, given["tau"][1], depth=1)(heads[0], nodes)
    close(coarse, expected["per_head_mean"][1])
    fine = SupConLoss(tree, given["tau"][0])(heads[1], nodes)
    close(MLCLLoss(tree)(heads, nodes), (coarse + fine) / 2)


@pytest.mark.parametrize(("given", "expected"), REVIEWS)
def test_figures_of_aspects(given, expected):
    ratings, sentiment = torch.tensor(given["ratings"]), torch.tensor(given["sentiment"])
    n, aspects = sentiment.shape
    trees = [Taxonomy.from_paths([("0",), ("1",), ("2",)])] * aspects
    nodes = trees[0].leaves[sentiment]
    instances = torch.arange(n // given["n_views"]).repeat(given["n_views"])
    logits = torch.tensor(given["class_logits"], dtype=torch.float64).flatten(1)
    for name, reduction in {"eq3_mean": "valid", "eq3_sum": "sum"}.items():
        loss = MLCLLoss(
            trees,
            [*given["tau_aspects"], given["tau_global"]],
            given["alpha"],
            global_head=True,
            threshold=given["threshold"],
            ce=True,
            feature_dim=3 * aspects,
            reduction=reduction,
        ).double()
        with torch.no_grad():  # classifiers that hand the figures' logits through
            for aspect, layer in enumerate(loss.classifiers):
                layer.weight.copy_(torch.eye(3 * aspects)[3 * aspect : 3 * aspect + 3])
                layer.bias.zero_()
        heads = [torch.tensor(z, dtype=torch.float64, requires_grad=True) for z in given["z_aspects"]]
        heads.append(torch.tensor(given["z_global"], dtype=torch.float64, requires_grad=True))
        value = loss(heads, nodes, instances, ratings, logits)
        close(value, expected[name]["loss"])
        value.backward()
        if "grad_global" in expected[name]:
            close(heads[-1].grad, expected[name]["grad_global"])
            close(heads[0].grad, expected[name]["grad_first_aspect_head"])
        for aspect, contrast in enumerate(loss.contrasts[:-1]):
            kind = "aspect_heads_mean" if reduction == "valid" else "aspect_heads_sum"
            close(contrast(heads[aspect], nodes[:, aspect], instances), expected[kind][aspect])
        assert torch.equal(loss.classify(logits), trees[0].leaves[logits.view(n, aspects, 3).argmax(2)])
        loss.weights = [0.0] * len(heads)  # the cross entropy alone
        close(loss(heads, nodes, instances, ratings, logits), expected["cross_entropy_mean"])


def slow_head(tree, z, nodes, instances, depth, tau, undecided):
    """Eq. 1 by loops."""
    s, pairs = similarities(z, tau), Pairs(tree, nodes, instances, undecided)
    positive, member = pairs.positive(depth), pairs.member(depth)
    means = []
    for i in range(len(z)):
        others = [k for k in range(len(z)) if k != i]
        mass = [s[i][k].exp() for k in others if member(i, k)]
        losses = [sum(mass).log() - s[i][p] for p in others if positive(i, p)]
        if losses:
            means.append(sum(losses) / len(losses))
    return sum(means) / len(means) if means else z.sum() * 0


@pytest.mark.parametrize("undecided", ["ignore", "negative"])
@pytest.mark.parametrize("seed", range(3))
def test_loops_over_depths(seed, undecided):
    tree = random_tree(seed)
    _, nodes, instances = random_batch(tree, seed, n=8)
    depths = tree.max_depth
    taus, alphas = torch.rand(depths).add(0.2).tolist(), torch.rand(depths).tolist()
    heads = heads_of(seed, depths, 8)
    again = [z.detach().clone().requires_grad_() for z in heads]
    value = MLCLLoss(tree, taus, alphas, undecided=undecided)(heads, nodes, instances)
    expected = sum(
        alphas[h] * slow_head(tree, again[h], nodes, instances, h + 1, taus[h], undecided)
        for h in range(depths)
    )
    close(value, expected.detach())
    value.backward()
    expected.backward()
    for z, y in zip(heads, again, strict=True):
        close(z.grad, y.grad)


@pytest.mark.parametrize("seed", range(3))
def test_loops_over_aspects_and_their_cross_entropy(seed):
    trees, _, nodes, instances = two_trees(seed)
    heads, features = heads_of(seed, 2, 8), torch.randn(8, 5, dtype=torch.float64)
    loss = MLCLLoss(trees, ce=True, feature_dim=5).double()
    assert loss.weights == [0.1, 0.1]
    expected, terms = 0.0, []
    for a, tree in enumerate(trees):
        column = nodes[:, a]
        expected += 0.1 * slow_head(tree, heads[a], column, instances, tree.max_depth, 0.1, "ignore")
        layer = loss.classifiers[a]
        for x, node in zip(features, column.tolist(), strict=True):
            if node < 0:
                continue
            p = (layer.weight @ x + layer.bias).softmax(0)
            below = [node in line(tree, leaf) for leaf in tree.leaves.tolist()]
            terms.append(-p[torch.tensor(below)].sum().log())
    expected = expected + 0.8 * sum(terms) / len(terms)
    close(loss(heads, nodes, instances, features=features), expected.detach())


@pytest.mark.parametrize("tree", [even_tree(3, 2), random_tree(1), random_tree(4)])
def test_one_head_is_supcon(tree):
    for seed in range(3):
        z, nodes, instances = random_batch(tree, seed)
        for depth in range(1, tree.max_depth + 1):
            loss = MLCLLoss(tree, depths=[depth])
            assert (loss.plan[0].temperature, loss.weights) == (0.1, [1.0])
            expected = SupConLoss(tree, depth=depth)(z, nodes, instances)
            assert expected > 0
            torch.testing.assert_close(loss([z], nodes, instances), expected, rtol=1e-12, atol=0)
    flat_tree = even_tree(4)
    z, nodes, instances = random_batch(flat_tree, 0)
    torch.testing.assert_close(
        MLCLLoss(flat_tree)([z], nodes, instances), SupConLoss(flat_tree)(z, nodes, instances)
    )


def test_one_embedding_for_all_heads_is_himulcon():
    tree = random_tree(2)
    z, nodes, instances = random_batch(tree, 2)
    count = tree.max_depth
    weights = [1.0 / (h + 1) for h in range(count)]
    loss = MLCLLoss(tree, 0.3, [w / count for w in weights])
    expected = HiMulConLoss(tree, weights, 0.3)(z, nodes, instances)
    torch.testing.assert_close(loss([z] * count, nodes, instances), expected, rtol=1e-12, atol=0)


def test_one_aspect_is_the_ordinary_case():
    z, nodes, instances = random_batch(TREE, 0)
    heads = [z, z.flip(1)]
    plain, one = MLCLLoss(TREE), MLCLLoss([TREE])
    expected = plain(heads, nodes, instances)
    assert one(heads, nodes[:, None], instances) == expected
    assert one(heads, nodes, instances) == plain(heads, nodes[:, None], instances) == expected


def test_no_weight_for_the_heads_is_cross_entropy():
    z, nodes, instances = random_batch(TREE, 1)
    loss = MLCLLoss(TREE, weights=0.0, ce=True, feature_dim=4).double()
    logits = loss.classifiers[0](z)
    expected = CrossEntropyLoss(TREE)(logits, nodes)
    torch.testing.assert_close(loss([z, z], nodes, instances, features=z), expected, rtol=1e-12, atol=0)
    assert torch.equal(loss.predict(z), CrossEntropyLoss(TREE).predict(logits))


def test_the_global_head_beside_depths():
    z, nodes, instances = random_batch(TREE, 3)
    ratings = torch.randint(-1, 5, (12, 3))
    loss = MLCLLoss(TREE, global_head=True, threshold=0.3)
    assert loss.num_heads == 3
    assert loss.weights == pytest.approx([1 / 3] * 3)
    expected = SupConLoss(TREE, 0.5, depth=1)(z, nodes, instances) + SupConLoss(TREE)(z, nodes, instances)
    expected = expected + JaccardSupConLoss(threshold=0.3)(z, ratings, instances)
    torch.testing.assert_close(loss([z] * 3, nodes, instances, ratings), expected / 3, rtol=1e-12, atol=0)


def test_default_temperatures_and_weights():
    assert repr(MLCLLoss(TREE)) == (
        "MLCLLoss(depth 1: τ=0.5, α=0.5; depth 2: τ=0.1, α=0.5; "
        "geometry=sphere, similarity=cosine, reduction=valid, undecided=ignore)"
    )
    deep = MLCLLoss(even_tree(2, 2, 2, 2))
    assert [head.temperature for head in deep.plan] == pytest.approx(
        [0.1 * 5 ** (1 - h / 3) for h in range(4)]
    )
    assert deep.weights == [0.25] * 4
    some = MLCLLoss(even_tree(2, 2, 2, 2), depths=[1, 4])
    assert [(head.depth, head.temperature) for head in some.plan] == [(1, 0.5), (4, 0.1)]
    reviews = MLCLLoss([TREE] * 5, global_head=True, ce=True, feature_dim=8)
    assert reviews.weights == pytest.approx([0.04] * 5 + [0.1])  # the paper's for BeerAdvocate
    assert "cross entropy: 0.7; threshold=0.75" in repr(reviews)
    assert [head.depth for head in MLCLLoss([TREE, even_tree(3)], depths=[1, 1]).plan] == [1, 1]


def test_aspects_at_a_coarse_depth():
    """Ratings under their sentiment: heads and classifiers are those of the sentiment."""
    tree = Taxonomy.from_paths(["negative/1", "negative/2", "neutral/3", "positive/4", "positive/5"])
    nodes = tree.encode(["1", "2", "4", "5"])[:, None].repeat(1, 2)
    loss = MLCLLoss([tree, tree], depths=[1, 1], ce=True, feature_dim=4)
    assert [layer.out_features for layer in loss.classifiers] == [3, 3]
    z = torch.eye(4)
    assert loss.contrasts[0](z, nodes[:, 0]) > 0  # 1 and 2 attract
    assert set(tree.decode(loss.classify(torch.randn(9, 4)).flatten())) <= {"negative", "neutral", "positive"}
    assert loss.classify(torch.randn(9, 4)).shape == (9, 2)


def test_only_one_taxonomy_answers():
    assert not hasattr(MLCLLoss(TREE), "predict")
    assert not hasattr(MLCLLoss([TREE, TREE], ce=True, feature_dim=4), "predict")
    answers = MLCLLoss(TREE, ce=True, feature_dim=4).predict(torch.randn(5, 4))
    assert answers.shape == (5,)
    assert set(answers.tolist()) <= set(TREE.leaves.tolist())


def test_missing_labels_of_one_aspect_leave_the_other():
    trees, _, nodes, _ = two_trees(0)
    heads = heads_of(0, 2, 8)
    nodes[:, 1] = -1
    loss = MLCLLoss(trees)
    first = SupConLoss(trees[0])(heads[0], nodes[:, 0], torch.arange(8))
    torch.testing.assert_close(loss(heads, nodes, torch.arange(8)), first / 2, rtol=1e-12, atol=0)
    full = MLCLLoss(trees, ce=True, feature_dim=3).double()
    value = full(heads, torch.full_like(nodes, -1), torch.arange(8), features=heads[0])
    assert value == 0
    value.backward()
    assert all((z.grad == 0).all() for z in heads)


def test_without_labels_every_head_is_simclr():
    z, _, instances = random_batch(TREE, 0)
    loss = MLCLLoss(TREE, ce=True, feature_dim=4).double()
    expected = 0.1 * SupConLoss(TREE, 0.5, depth=1)(z, None, instances)
    expected = expected + 0.1 * SupConLoss(TREE)(z, None, instances)
    torch.testing.assert_close(loss([z, z], None, instances, features=z), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("n", [0, 1])
def test_hardly_any_rows(n):
    heads = [torch.randn(n, 3, requires_grad=True) for _ in range(3)]
    loss = MLCLLoss(TREE, global_head=True, ce=True, feature_dim=3)
    value = loss(
        heads, torch.full((n,), -1), torch.arange(n), torch.ones(n, 2, dtype=torch.int64), heads[0].detach()
    )
    assert value == 0
    value.backward()
    assert all((z.grad == 0).all() for z in heads)


def test_gradcheck_and_other_geometries():
    trees, _, nodes, instances = two_trees(2, 6)
    ratings = torch.randint(0, 4, (6, 2))
    heads = heads_of(2, 3, 6)
    for geometry in (None, PoincareBall(-0.5)):
        loss = MLCLLoss(
            trees, 0.5, global_head=True, threshold=0.2, ce=True, feature_dim=3, geometry=geometry
        ).double()

        def of_heads(*z, loss=loss):
            return loss(list(z), nodes, instances, ratings, z[0])

        assert torch.autograd.gradcheck(
            of_heads, tuple((0.3 * z.detach()).requires_grad_() for z in heads), fast_mode=True
        )


def test_half_precision_and_float32():
    trees, _, nodes, instances = two_trees(1, 32)
    loss = MLCLLoss(trees, ce=True, feature_dim=3)
    heads = [z.detach().bfloat16().requires_grad_() for z in heads_of(1, 2, 32)]
    features = heads[0].detach().float()
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(heads, nodes, instances, features=features)
    assert value.dtype == torch.float32
    value.backward()
    assert all(z.grad.isfinite().all() for z in heads)
    exact = copy.deepcopy(loss).double()
    exact = exact([z.detach().double() for z in heads], nodes, instances, features=features.double())
    single = loss([z.detach().float() for z in heads], nodes, instances, features=features)
    torch.testing.assert_close(single.double(), exact, rtol=1e-5, atol=0)
    torch.testing.assert_close(value.double(), exact, rtol=2e-2, atol=0)


def test_copies_and_pickles():
    z, nodes, instances = random_batch(TREE, 0, d=4)
    loss = MLCLLoss(TREE, ce=True, feature_dim=4).double()
    expected = loss([z, z], nodes, instances, features=z)
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert other([z, z], nodes, instances, features=z) == expected
    fresh = MLCLLoss(TREE, ce=True, feature_dim=4).double()
    fresh.load_state_dict(loss.state_dict())
    assert fresh([z, z], nodes, instances, features=z) == expected
    assert set(loss.state_dict()) == {"classifiers.0.weight", "classifiers.0.bias"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depths": [2, 1]}, r"depths must be some of 1 to 2, .* coarse → fine; got \[2, 1\]"),
        ({"depths": [3]}, "depths must be some of 1 to 2"),
        ({"depths": []}, "depths must be some of 1 to 2"),
        (
            {"temperatures": [0.1]},
            r"temperatures must have 2 entries, one per head \(depth 1, depth 2\); got 1",
        ),
        ({"temperatures": 0.0}, "temperatures must be above 0"),
        ({"weights": [0.5, -0.5]}, "weights must be finite and not negative"),
        ({"weights": [0.9, 0.9], "ce": True, "feature_dim": 4}, "weights must sum to 1 at most"),
        ({"ce": True}, "ce=True needs feature_dim"),
        ({"ce": True, "feature_dim": 4, "reduction": "none"}, "reduction='none' has no cross entropy"),
        ({"taxonomy": []}, "taxonomy must be a taxonomy, or a sequence of one per aspect"),
        ({"taxonomy": [TREE, TREE], "depths": [1]}, "depths must be one per aspect, 2"),
        (
            {"taxonomy": [TREE, TREE], "depths": [1, 3]},
            "depths must lie between 1 and 2, .* of aspect 1; got 3",
        ),
        (
            {"taxonomy": [TREE, TREE], "global_head": True, "weights": [0.5, 0.5]},
            r"weights must have 3 entries, one per head \(aspect 0, aspect 1, global\)",
        ),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        MLCLLoss(**{"taxonomy": TREE, **options})


def test_wrong_batches():
    z, nodes, _ = random_batch(TREE, 0)
    loss, aspects = MLCLLoss(TREE), MLCLLoss([TREE, TREE])
    for heads in ([z], z, [z, z, z]):
        with pytest.raises(
            ValueError, match=r"heads must be a list of 2 tensors \(n, d\), .*depth 1, depth 2"
        ):
            loss(heads, nodes)
    with pytest.raises(ValueError, match="embeddings must be a floating-point tensor"):
        loss([z, z[0]], nodes)
    with pytest.raises(
        ValueError, match=r"nodes must be .* \(n, 2\), a column per aspect; got shape \(12,\)"
    ):
        aspects([z, z], nodes)
    with pytest.raises(ValueError, match=r"nodes must be an integer tensor of shape \(n,\); got list"):
        loss([z, z], nodes.tolist())
    with pytest.raises(ValueError, match=r"nodes must have shape \(12,\), one per row"):
        loss([z, z], nodes[:5])
    with pytest.raises(ValueError, match="the global head needs ratings"):
        MLCLLoss(TREE, global_head=True)([z] * 3, nodes)
    with pytest.raises(ValueError, match="ce=True needs features"):
        MLCLLoss(TREE, ce=True, feature_dim=4)([z, z], nodes)
