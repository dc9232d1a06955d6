"""Pair violations against loops over all pairs of pairs."""

import math
from itertools import combinations

import pytest
import torch
from metric_loops import Tree, ragged_tree, score
from torch import Tensor

from labeltree.geometry import Euclidean, PoincareBall, Sphere
from labeltree.metrics import functional
from labeltree.metrics.functional import pair_order
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

TAXONOMY = ragged_tree()
TREE = Tree(TAXONOMY)
READINGS = ("comparisons", "triplets", "pairs", "finer_pairs")


def sample(count: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    points = 0.15 * torch.randn(count, 4, generator=generator, dtype=torch.float64)
    return points, torch.randint(-1, TAXONOMY.num_nodes, (count,), generator=generator)


def slow(points: Tensor, nodes: Tensor, name: str, reading: str, ties: str) -> float:
    pairs = []
    for i, j in combinations([row for row, node in enumerate(nodes.tolist()) if node >= 0], 2):
        u, v = int(nodes[i]), int(nodes[j])
        lca = TREE.lca(u, v)
        if lca in (u, v) and lca not in TREE.leaves:
            continue
        pairs.append(({i, j}, TREE.depth(lca), -score(name, points[i].tolist(), points[j].tolist())))
    comparable, violating, finer, involved, involved_finer = 0, 0, set(), set(), set()
    for a, (rows_a, depth_a, distance_a) in enumerate(pairs):
        for b, (rows_b, depth_b, distance_b) in enumerate(pairs):
            if depth_a <= depth_b or (reading == "triplets" and not rows_a & rows_b):
                continue
            comparable += 1
            finer.add(a)
            if distance_a > distance_b or (ties == "count" and distance_a == distance_b):
                violating += 1
                involved |= {a, b}
                involved_finer.add(a)
    if reading == "pairs":
        return len(involved) / len(pairs) if pairs else math.nan
    if reading == "finer_pairs":
        return len(involved_finer) / len(finer) if finer else math.nan
    return violating / comparable if comparable else math.nan


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("geometry", [Sphere(), Euclidean(), PoincareBall()])
def test_against_loops(geometry: Sphere | Euclidean | PoincareBall, reading: str) -> None:
    points, nodes = sample(16, 0)
    expected = slow(points, nodes, geometry.name, reading, "ignore")
    found = functional.pair_violations(points, nodes, TAXONOMY, geometry, reading=reading)
    assert found.item() == pytest.approx(expected)
    assert expected > 0


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("ties", ["ignore", "count"])
def test_ties(ties: str, reading: str) -> None:
    _, nodes = sample(16, 1)
    line = torch.randint(0, 3, (16, 1), generator=torch.Generator().manual_seed(2)).double()
    expected = slow(line, nodes, "euclidean", reading, ties)
    found = functional.pair_violations(line, nodes, TAXONOMY, Euclidean(), reading=reading, ties=ties)
    assert found.item() == pytest.approx(expected)
    other = slow(line, nodes, "euclidean", reading, "count" if ties == "ignore" else "ignore")
    assert expected != other or reading in ("pairs", "finer_pairs")


def test_more_pairs_than_allowed_are_sampled() -> None:
    generator = torch.Generator().manual_seed(3)
    nodes = TAXONOMY.leaves[torch.randint(TAXONOMY.num_leaves, (300,), generator=generator)]
    points = torch.randn(TAXONOMY.num_nodes, 4, generator=generator)[nodes]
    points += torch.randn(300, 4, generator=generator)
    for reading in ("comparisons", "triplets"):
        everything = functional.pair_violations(points, nodes, TAXONOMY, reading=reading, max_pairs=10**6)
        some = [
            functional.pair_violations(points, nodes, TAXONOMY, reading=reading, max_pairs=9000, seed=seed)
            for seed in (0, 0, 1)
        ]
        assert some[0] == some[1] != some[2]
        for value in some:
            assert value.item() == pytest.approx(everything.item(), abs=0.03)


@pytest.mark.parametrize("reading", READINGS)
def test_nothing_comparable_is_nan(reading: str) -> None:
    for labels in ([], [None, None], ["poodle"], ["poodle", "tabby"], ["animal/dog", "animal/dog", "poodle"]):
        nodes = TAXONOMY.encode(labels)
        found = functional.pair_violations(torch.randn(len(nodes), 3), nodes, TAXONOMY, reading=reading)
        expected = slow(torch.randn(len(nodes), 3), nodes, "euclidean", reading, "ignore")
        assert math.isnan(found.item()) == math.isnan(expected)
        assert math.isnan(expected) or (reading == "pairs" and found.item() == expected == 0)


def test_one_class() -> None:
    taxonomy = Taxonomy.from_paths([("only",)])
    assert functional.pair_violations(torch.randn(5, 2), torch.ones(5, dtype=torch.int64), taxonomy).isnan()


def test_bad_arguments_are_named() -> None:
    points, nodes = sample(4, 4)
    for options, message in (
        ({"reading": "all"}, "reading is 'all'; expected one of 'comparisons'"),
        ({"ties": "half"}, "ties is 'half'; expected 'ignore' or 'count'"),
        ({"max_pairs": 0}, "max_pairs is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            functional.pair_violations(points, nodes, TAXONOMY, **options)


def weighted(points: Tensor, nodes: Tensor, weights: list[float]) -> float:
    """The share of comparisons where a comparison weighs as much as its four rows multiplied."""
    pairs = []
    for i, j in combinations([row for row, node in enumerate(nodes.tolist()) if node >= 0], 2):
        lca = TREE.lca(int(nodes[i]), int(nodes[j]))
        if lca not in (int(nodes[i]), int(nodes[j])) or lca in TREE.leaves:
            distance = -score("euclidean", points[i].tolist(), points[j].tolist())
            pairs.append((weights[i] * weights[j], TREE.depth(lca), distance))
    violating = comparable = 0.0
    for weight_a, depth_a, distance_a in pairs:
        for weight_b, depth_b, distance_b in pairs:
            if depth_a > depth_b:
                comparable += weight_a * weight_b
                violating += weight_a * weight_b * (distance_a > distance_b)
    return violating / comparable


def test_pseudo_values_are_the_derivatives_by_the_weights_of_the_samples() -> None:
    points, nodes = sample(12, 3)
    found = functional.pair_violations(points, nodes, TAXONOMY, Euclidean(), reduction="none")
    share = functional.pair_violations(points, nodes, TAXONOMY, Euclidean())
    assert torch.equal(found.isnan(), nodes < 0)
    assert found.nanmean().item() == pytest.approx(share.item(), rel=1e-12)
    labelled = int((nodes >= 0).sum())
    step = 1e-5
    for row in (nodes >= 0).nonzero().squeeze(1).tolist():
        ends = [
            weighted(points, nodes, [1 + side * step * (i == row) for i in range(12)]) for side in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / (2 * step)
        assert found[row].item() == pytest.approx(share.item() + labelled * slope, abs=1e-6)


def test_their_spread_is_that_of_the_share() -> None:
    generator = torch.Generator().manual_seed(0)
    shares, errors = [], []
    for _ in range(150):
        nodes = TAXONOMY.leaves[torch.randint(len(TAXONOMY.leaves), (60,), generator=generator)]
        points = torch.nn.functional.one_hot(nodes, TAXONOMY.num_nodes).double()
        points += 0.5 * torch.randn(points.shape, generator=generator, dtype=torch.float64)
        values = functional.pair_violations(points, nodes, TAXONOMY, Euclidean(), reduction="none")
        shares.append(values.mean())
        errors.append(values.std() / 60**0.5)
    assert torch.stack(errors).mean().item() == pytest.approx(torch.stack(shares).std().item(), rel=0.2)


def test_pseudo_values_are_of_comparisons() -> None:
    points, nodes = sample(5, 0)
    with pytest.raises(ValueError, match="reading 'triplets'"):
        functional.pair_violations(points, nodes, TAXONOMY, reading="triplets", reduction="none")


def tied_points(count: int) -> Tensor:
    """Many equal distances: few distinct rows, and rows that are others with their entries reordered."""
    generator = torch.Generator().manual_seed(0)
    rows = 0.1 * torch.randn(count // 4, 33, generator=generator, dtype=torch.float64)
    return torch.cat([rows, rows, rows.roll(1, 1), 0.3 * rows.sign()])


@pytest.mark.parametrize("geometry", [Euclidean(), PoincareBall()])
def test_blocks_leave_order_and_ties_as_they_are(
    geometry: Euclidean | PoincareBall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_order, "_BLOCK_ELEMENTS", 40 * 7)  # blocks of seven rows
    points = tied_points(40)
    first, second = pair_order.choose_pairs(40, 10**6, torch.Generator())
    first, second = torch.cat([first, second[:9]]), torch.cat([second, first[:9]])  # some the other way
    exact = geometry.distance(points[first], points[second])
    found = pair_order._distances(points, first, second, geometry)
    torch.testing.assert_close(found, exact, rtol=1e-9, atol=0)
    assert torch.equal(found[:, None] < found, exact[:, None] < exact)


@pytest.mark.parametrize("max_pairs", [1500, 10**6])  # few of all pairs, one by one; all, in blocks
def test_pairs_are_measured_in_parts(max_pairs: int) -> None:
    sizes = []

    class Watched(Euclidean):
        def distance(self, x: Tensor, y: Tensor) -> Tensor:
            sizes.append(x.numel())
            return super().distance(x, y)

        def pairwise_distance(self, x: Tensor, y: Tensor) -> Tensor:
            sizes.append(len(x) * len(y))
            return super().pairwise_distance(x, y)

    generator = torch.Generator().manual_seed(0)
    points = torch.randint(2, (200, 5), generator=generator).repeat(1, 400).float()  # nearly all are tied
    nodes = TAXONOMY.leaves[torch.randint(len(TAXONOMY.leaves), (200,), generator=generator)]
    functional.pair_violations(points, nodes, TAXONOMY, Watched(), max_pairs=max_pairs)
    assert max(sizes) <= 2**17  # of 200 × 200 × 2,000
