"""The head for ratings: against figures, against loops over its formula, and where nothing is rated."""

import copy
import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from labeltree.geometry import Euclidean, PoincareBall, Sphere
from labeltree.losses import JaccardSupConLoss, NTXentLoss, SupConLoss
from labeltree.losses.contrastive.ratings import RatingRelation, jaccard
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

CASES = [
    (case["inputs"], case["expected"])
    for case in json.loads((Path(__file__).parent / "oracles" / "mlcl.json").read_text())["cases"]
    if case["inputs"]["kind"] == "multi_label"
]
SPACES = {"sphere": Sphere(), "euclidean": Euclidean(), "poincare": PoincareBall()}


def batch(seed, n=9, d=3, aspects=4, missing=0.45):
    generator = torch.Generator().manual_seed(seed)
    z = 0.5 * torch.randn(n, d, generator=generator, dtype=torch.float64).clamp(-1, 1)
    ratings = torch.randint(0, 5, (n, aspects), generator=generator)
    ratings[torch.rand(n, aspects, generator=generator) < missing] = -1
    instances = torch.randint(0, n - 2, (n,), generator=generator)
    for instance in instances.unique():
        ratings[instances == instance] = ratings[instances == instance][0]
    return z, ratings, instances


def overlap(u, v):
    """Of two rows of ratings, as a fraction; None: they share no aspect."""
    pairs = [(a, b) for a, b in zip(u, v, strict=True) if a >= 0 and b >= 0]
    if not pairs:
        return None
    most = sum(max(pair) for pair in pairs)
    return Fraction(sum(min(pair) for pair in pairs), most) if most else Fraction(1)


def similarity(x, y, space):
    if space == "sphere":
        return (x @ y) / (x.norm() * y.norm())
    if space == "euclidean":
        return -(x - y).norm()
    return -torch.acosh(1 + 2 * ((x - y) @ (x - y)) / ((1 - x @ x) * (1 - y @ y)))


def slow(z, ratings, instances, tau, threshold, space, undecided, reduction):
    rows = ratings.tolist()
    row_terms, counts = [], []
    for i in range(len(z)):
        mass, positives = [], []
        for k in range(len(z)):
            if k == i:
                continue
            s = similarity(z[i], z[k], space) / tau
            j = Fraction(1) if instances[i] == instances[k] else overlap(rows[i], rows[k])
            if j is None and undecided == "ignore":
                continue
            mass.append(s.exp())
            if j is not None and (instances[i] == instances[k] or j > Fraction(str(threshold))):
                positives.append((float(j), s))
        total = z[i].sum() * 0
        for weight, s in positives:
            total = total + weight * (sum(mass).log() - s)
        row_terms.append(total)
        counts.append(len(positives))
    means = [row / count for row, count in zip(row_terms, counts, strict=True) if count]
    if not means:
        return z.sum() * 0
    if reduction == "pairs":
        return sum(row_terms) / sum(counts)
    return sum(means) / {"sum": 1, "valid": len(means), "all": len(z)}[reduction]


def close(got, expected):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    assert (got.detach() - expected).abs().max() <= 1e-9 * expected.abs().max()


@pytest.mark.parametrize(("given", "expected"), CASES)
def test_figures(given, expected):
    ratings = torch.tensor(given["ratings"])
    close(jaccard(ratings, ratings), expected["jaccard"])
    n = len(ratings)
    instances = torch.arange(n // given["n_views"]).repeat(given["n_views"])
    relation = RatingRelation.of_ratings(ratings, instances, given["threshold"])
    assert (relation.weight() > 0).sum(1).tolist() == expected["n_positives_per_row"]
    for name, reduction in {"global_sum": "sum", "global_mean": "valid"}.items():
        z = torch.tensor(given["z_global"], dtype=torch.float64, requires_grad=True)
        loss = JaccardSupConLoss(given["tau_global"], threshold=given["threshold"], reduction=reduction)
        value = loss(z, ratings, instances)
        close(value, expected[name]["loss"])
        value.backward()
        close(z.grad, expected[name]["grad"])


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("undecided", ["ignore", "negative"])
def test_loops(space, undecided):
    for seed, reduction in enumerate(["valid", "sum", "pairs", "all"]):
        z, ratings, instances = batch(seed)
        x, y = z.clone().requires_grad_(), z.clone().requires_grad_()
        loss = JaccardSupConLoss(
            0.3, threshold=0.4, geometry=SPACES[space], undecided=undecided, reduction=reduction
        )
        value = loss(x, ratings, instances)
        expected = slow(y, ratings, instances, 0.3, 0.4, space, undecided, reduction)
        assert expected > 0
        close(value, expected.detach())
        value.backward()
        expected.backward()
        close(x.grad, y.grad)


def test_gradcheck():
    z, ratings, instances = batch(11, n=7)
    loss = JaccardSupConLoss(0.4, threshold=0.3)
    assert loss(z, ratings, instances) > 0
    assert torch.autograd.gradcheck(loss, (z.requires_grad_(), ratings, instances), fast_mode=True)


def test_the_overlap_is_that_of_whole_numbers():
    rows = torch.tensor(list(itertools.product([-1, 0, 1, 4], repeat=3)))
    found = jaccard(rows, rows)
    for i, u in enumerate(rows.tolist()):
        for k, v in enumerate(rows.tolist()):
            j = overlap(u, v)
            assert math.isnan(found[i, k]) if j is None else float(found[i, k]) == float(j)


@pytest.mark.parametrize(("threshold", "positive"), [(0.79, True), (0.8, False)])
def test_the_threshold_is_strict_whatever_the_precision(threshold, positive):
    """Fours against fives: 4/5, which float32 cannot write."""
    ratings = torch.tensor([[4, 4, 4], [5, 5, 5], [1, 1, 1]])
    for dtype in (torch.float32, torch.float64):
        z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=dtype)
        assert (JaccardSupConLoss(threshold=threshold)(z, ratings) > 0) == positive


def test_equal_ratings_are_supcon():
    """Where likeness is all or nothing, J = 1 on equal labels and 0 on others: SupCon."""
    tree = Taxonomy.from_paths([("a",), ("b",), ("c",), ("d",)])
    columns = torch.eye(4, dtype=torch.int64)
    for seed in range(3):
        z, _, instances = batch(seed)
        label = instances % 4
        nodes = tree.leaves[label]
        for reduction in ("valid", "pairs", "none"):
            found = JaccardSupConLoss(0.2, threshold=0.5, reduction=reduction)(z, columns[label], instances)
            expected = SupConLoss(tree, 0.2, reduction=reduction)(z, nodes, instances)
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


def test_nothing_rated_leaves_the_views():
    """All ratings missing, or no aspects at all: only views of one sample are compared, at a loss of 0."""
    z = torch.randn(4, 3, requires_grad=True)
    instances = torch.tensor([0, 1, 0, 2])
    for ratings in (torch.full((4, 2), -1), torch.zeros(4, 0, dtype=torch.int64)):
        alone = JaccardSupConLoss()(z, ratings, instances)  # views without competitors: log(exp(s)) − s
        assert alone.item() == pytest.approx(0, abs=1e-6)
        simclr = JaccardSupConLoss(undecided="negative")(z, ratings, instances)
        torch.testing.assert_close(simclr, NTXentLoss()(z, None, instances))


def test_without_positives_or_rows_it_is_zero_and_connected():
    for n, ratings in ((3, [[1, 0], [0, 1], [5, 0]]), (1, [[3, 3]]), (0, torch.zeros(0, 2).tolist())):
        z = torch.randn(n, 3, requires_grad=True)
        value = JaccardSupConLoss()(z, torch.tensor(ratings, dtype=torch.int64).reshape(n, 2))
        assert value == 0
        value.backward()
        assert (z.grad == 0).all()


def test_rows_of_zeros_are_alike():
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    ratings = torch.tensor([[0, 0], [0, 0], [0, 3]])
    relation = RatingRelation.of_ratings(ratings, None, 0.75)
    assert relation.weight().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert JaccardSupConLoss(1.0)(z, ratings) > 0


def test_tiles_are_parts_of_the_whole():
    _, ratings, instances = batch(5)
    relation = RatingRelation.of_ratings(ratings, instances, 0.4)
    rows, cols = slice(2, 7), torch.tensor([8, 0, 3])
    assert torch.equal(relation.codes(rows, cols), relation.codes()[rows][:, cols])
    assert torch.equal(relation.weight(rows, cols), relation.weight()[rows][:, cols])


def test_half_precision():
    z, ratings, instances = batch(2, n=32, d=8)
    half = z.bfloat16().requires_grad_()
    single = half.detach().float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        value = JaccardSupConLoss(0.05, threshold=0.4)(half, ratings, instances)
    expected = JaccardSupConLoss(0.05, threshold=0.4)(single, ratings, instances)
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
    exact = JaccardSupConLoss(0.05, threshold=0.4)(single.detach().double(), ratings, instances)
    torch.testing.assert_close(value.double(), exact, rtol=1e-5, atol=0)
    value.backward()
    assert half.grad.isfinite().all()


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ([[1], [2], [3]], "ratings must be an integer tensor .* got list"),
        (torch.ones(3), r"shape \(3, A\), a column per aspect; got torch.float32 of shape \(3,\)"),
        (torch.ones(3, 2), r"ratings must be an integer tensor .* got torch.float32 of shape \(3, 2\)"),
        (torch.ones(2, 2).long(), r"one row per row of embeddings \(3, 4\); got torch.int64 of shape \(2, 2"),
        (torch.tensor([[1], [-2], [0]]), r"0 or more, or -1 .* got \[-2\] in row 1"),
    ],
)
def test_wrong_ratings(ratings, message):
    with pytest.raises(ValueError, match=message):
        JaccardSupConLoss()(torch.randn(3, 4), ratings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 1.0}, "threshold must be 0 or more and below 1; got 1.0"),
        ({"threshold": -0.1}, "threshold must be 0 or more and below 1; got -0.1"),
        ({"undecided": "drop"}, "undecided is 'drop'; expected 'ignore' or 'negative'"),
        ({"temperature": 0.0}, "temperature must be above 0; got 0.0"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        JaccardSupConLoss(**options)


def test_copies_are_equal():
    z, ratings, instances = batch(0)
    loss = JaccardSupConLoss(0.2, threshold=0.4)
    expected = loss(z, ratings, instances)
    assert copy.deepcopy(loss)(z, ratings, instances) == expected
