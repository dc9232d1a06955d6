"""Intervals of nodes and of means over nodes: loops over the draws, and how often they hold the truth."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import norm, t

from labeltree.evaluation.reported_nodes import (
    NodeIntervals,
    ReportedNodes,
    counted_nodes,
    mean_auroc,
    node_result,
)
from labeltree.evaluation.result import ProtocolResult
from labeltree.evaluation.sample_columns import Number, Place, ResamplingUnits
from labeltree.evaluation.statistics import Partition, Resampling, agreement_intervals
from labeltree.evaluation.statistics.jackknife import block_counts, jackknife
from labeltree.evaluation.statistics.means_over_nodes import MeanOverNodes, Share, largest_unseen
from labeltree.metrics.functional import node_auroc, node_decision_metrics
from labeltree.metrics.functional.node_resampling import RATES, decided_nodes
from labeltree.taxonomy import Taxonomy
from sweeps import long_unless

pytestmark = pytest.mark.slow

TREE = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b",)])


def simulated(n: int, seed: int, groups: int | None = None) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Probabilities, labels and groups, of which each has one label."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) if groups is None else np.arange(n) % groups
    label = rng.integers(0, 3, n if groups is None else groups)[group]
    logits = rng.normal(size=(n, 3)) + 1.2 * np.eye(3)[label]
    if groups is not None:
        logits += 1.5 * rng.normal(size=(groups, 3))[group]
    return torch.softmax(torch.from_numpy(logits), 1), TREE.leaves[torch.from_numpy(label)], group


def every_node(rates: Iterable[str]) -> ProtocolResult:
    """A result that has some number everywhere, for intervals to stand beside."""
    result = ProtocolResult("")
    for name in ("auroc", "average_precision", *(f"d_{name}" for name in rates)):
        result.put(Place("scores", name), Number(0.5))
        for depth in range(2):
            result.put(Place("by_depth", name, depth), Number(0.5))
        for node in range(TREE.num_nodes):
            result.put(Place("by_node", name, TREE.path_name(node)), Number(0.5))
    return result


@pytest.mark.parametrize(("samples", "groups", "blocks"), [(40, 12, 12), (130, 65, 50)])
def test_means_over_nodes_are_those_of_the_rows_left(samples: int, groups: int, blocks: int) -> None:
    probabilities, target, group = simulated(samples, 0, groups)
    units = ResamplingUnits(Resampling(30, seed=2), group)
    mean = mean_auroc(probabilities, target, TREE, TREE.leaves, units)
    counts = block_counts(groups)
    assert counts.shape == (groups, blocks)
    assert (counts.sum(axis=1) == blocks - 1).all()
    for block in range(blocks):
        rows = np.flatnonzero(counts[group, block])
        expected = float(torch.nanmean(node_auroc(probabilities[rows], target[rows], TREE)))
        assert mean.left[block] == pytest.approx(expected, abs=1e-12)
    assert mean.value == pytest.approx(
        float(torch.nanmean(node_auroc(probabilities, target, TREE))), abs=1e-12
    )


def test_a_mean_of_means_leaves_out_what_is_not_defined() -> None:
    whole = MeanOverNodes(9, 2)
    for value, left in ((0.5, [0.5, math.nan]), (0.9, [0.7, 0.8])):
        part = MeanOverNodes(9, 2)
        part.add(np.array([value]), np.array([left]), ())
        whole.add_mean(part)
    whole.add_mean(MeanOverNodes(9, 2))
    assert whole.value == pytest.approx(0.7)
    assert whole.left == pytest.approx([0.6, 0.8])


def test_all_places_of_nodes_get_intervals() -> None:
    probabilities, target, groups = simulated(150, 1)
    units = ResamplingUnits(Resampling(100), groups)
    result = every_node(RATES)
    nodes = NodeIntervals(result, units, TREE)
    counted = np.arange(TREE.num_nodes) > 0
    nodes.add_ranking(
        probabilities, target, TREE.leaves, dict.fromkeys(("auroc", "average_precision"), counted)
    )
    said = decided_nodes(TREE.leaves[probabilities.argmax(1)], target, TREE, groups, 150)
    nodes.add_rates("d_", said, {f"d_{name}": counted for name in RATES})
    for name in ("auroc", "average_precision", *(f"d_{name}" for name in RATES)):
        for low, high in (
            result.intervals[name],
            *result.depth_intervals[name],
            result.node_intervals[name]["a/x"],
        ):
            assert 0 <= low < high <= 1, name


def test_a_node_leaves_the_means_with_its_last_positive() -> None:
    target = TREE.encode(["a/x"] * 9 + ["a/y"] * 7 + ["b"])  # without the last sample b has no positive
    predicted = TREE.encode(["a/x"] * 7 + ["a/y"] * 7 + ["b", "a/x", "b"])
    left = []
    for out in range(len(target)):
        rows = torch.arange(len(target)) != out
        rates = node_decision_metrics(predicted[rows], target[rows], TREE)
        nodes = ReportedNodes.of(rates, TREE)
        left.append(float(rates["specificity"][nodes.counted].mean()))
    rates = node_decision_metrics(predicted, target, TREE)
    nodes, units = ReportedNodes.of(rates, TREE), ResamplingUnits(Resampling(50), np.arange(len(target)))
    of_nodes = {name: rates[name] for name in RATES}
    result = node_result(of_nodes, nodes)
    said = decided_nodes(predicted, target, TREE, units.groups, units.count)
    NodeIntervals(result, units, TREE).add_rates("", said, counted_nodes(of_nodes, nodes))
    expected = jackknife(
        np.array([result.scores["specificity"]]), np.array(left)[:, None], np.array([17.0]), confidence=0.95
    )
    # nodes without a false answer: as many of their negatives may be false as no sample shows
    weights = np.zeros(len(target))
    for node in np.flatnonzero(nodes.counted):
        negatives = [row for row, label in enumerate(target.tolist()) if not below(label, int(node))]
        if not any(below(int(predicted[row]), int(node)) for row in negatives):
            weights[negatives] += 1 / len(negatives) / int(nodes.counted.sum())
    value, unseen = result.scores["specificity"], largest_unseen(weights, 0.025)
    assert unseen > 0
    low, high = result.intervals["specificity"]
    assert low == pytest.approx(value - math.hypot(value - expected.low[0], unseen))
    assert high == pytest.approx(expected.high[0])


def below(node: int, above: int) -> bool:
    return above in [node, *TREE.ancestors_of(node)]


@pytest.mark.parametrize("weights", [[0.25] * 4, [0.5, 0.1, 0.1, 0.0], [0.3], [0.2, 0.2, 0.05, 0.05, 0.05]])
def test_the_largest_unseen_sum_is_that_of_a_search(weights: list[float]) -> None:
    of = np.array(weights)
    used = of > 0
    found = minimize(
        lambda q: -(of[used] @ q),
        np.full(used.sum(), 0.01),
        bounds=[(0, 0.975)] * int(used.sum()),
        constraints={"type": "ineq", "fun": lambda q: np.log1p(-q).sum() - math.log(0.025)},
    )
    assert largest_unseen(of, 0.025) == pytest.approx(-found.fun, rel=1e-4)


def test_where_all_cases_agree_the_mean_has_the_exact_interval() -> None:
    mean = MeanOverNodes(12, 12)
    cases = np.eye(2, dtype=bool)[np.arange(12) // 6].T
    mean.add(np.ones(2), np.ones((2, 12)), [Share(np.ones(2), cases)])
    low, high, _ = mean.interval(Resampling(10))
    assert (low, high) == pytest.approx((1 - (1 - 0.025 ** (1 / 12)), 1.0))


def test_a_case_is_wrong_in_as_many_nodes_as_a_path_has() -> None:
    """Four nodes that each of ten cases is no sample of: one false answer is false at one of them."""
    cases = np.ones((4, 10), dtype=bool)
    for depth, on_path, at_once in ((4, True, 4), (2, True, 2), (1, True, 1), (1, False, 4)):
        mean = MeanOverNodes(10, 10, depth)
        mean.add(np.ones(4), np.ones((4, 10)), [Share(np.ones(4), cases, on_path=on_path)])
        low = mean.interval(Resampling(10))[0]
        assert low == pytest.approx(1 - at_once / 4 * (1 - 0.025 ** (1 / 10)))
    both = MeanOverNodes(10, 10)  # balanced accuracy: a wrong answer counts in both of its shares
    both.add(np.ones(4), np.ones((4, 10)), [Share(np.ones(4), cases), Share(np.ones(4), cases, on_path=True)])
    low = both.interval(Resampling(10))[0]
    assert low == pytest.approx(1 - (4 + 1) / 8 * (1 - 0.025 ** (1 / 10)))


def test_a_mean_of_graded_numbers_is_widened_only_where_all_agree() -> None:
    value, cases = np.array([1.0, 0.8]), np.eye(2, dtype=bool)[np.arange(12) // 6].T
    left = np.stack([np.ones(12), 0.8 + 0.05 * (-1.0) ** np.arange(12)])
    graded, plain = MeanOverNodes(12, 12), MeanOverNodes(12, 12)
    graded.add(value, left, [Share(value, cases, graded=True)])
    plain.add(value, left, [Share(value, cases)])
    assert graded.interval(Resampling(10))[0] > plain.interval(Resampling(10))[0]
    graded = MeanOverNodes(12, 12)
    graded.add(np.ones(2), np.ones((2, 12)), [Share(np.ones(2), cases, graded=True)])
    assert graded.interval(Resampling(10))[0] == pytest.approx(0.025 ** (1 / 12))


def test_nodes_of_few_cases_that_agree_widen_a_mean() -> None:
    """7 of 8, 2 of 2, 0 of 3 and 0 of 3: the jackknife sees no variance in three of the four."""
    sizes, right = [8, 2, 3, 3], [7, 2, 0, 0]
    node = np.repeat(np.arange(4), sizes)
    hit = np.concatenate([np.arange(n) < k for n, k in zip(sizes, right, strict=True)]).astype(float)
    left = np.full((4, 16), np.nan)
    for case in range(16):
        for each in range(4):
            kept = (node == each) & (np.arange(16) != case)
            left[each, case] = hit[kept].mean()
    value = np.array([7 / 8, 1.0, 0.0, 0.0])
    mean = MeanOverNodes(16, 16)
    mean.add(value, left, [Share(value, node == np.arange(4)[:, None])])
    wide = mean.interval(Resampling(10))
    narrow = jackknife(value.mean(keepdims=True), mean.left[:, None], np.array([16.0]), confidence=0.95)
    assert (narrow.low[0], narrow.high[0]) == pytest.approx((0.401, 0.537), abs=1e-3)
    assert wide[0] < value.mean() - (1 - 0.025 ** (1 / 2)) / 4  # the node of 2 of 2
    assert wide[1] > value.mean() + (1 - 0.025 ** (1 / 6)) / 2  # the two nodes of 0 of 3
    folded = MeanOverNodes(16, 16)
    folded.add_mean(mean)
    assert folded.interval(Resampling(10)) == pytest.approx(wide)


@pytest.mark.parametrize("seed", [0, 4])
def test_intervals_of_few_groups_stay_between_0_and_1(seed: int) -> None:
    probabilities, target, groups = simulated(48, seed, 12)
    result, counted = every_node(()), np.ones(TREE.num_nodes, dtype=bool)
    nodes = NodeIntervals(result, ResamplingUnits(Resampling(100), groups), TREE)
    nodes.add_ranking(
        probabilities, target, TREE.leaves, dict.fromkeys(("auroc", "average_precision"), counted)
    )
    ends = [
        end for name in ("auroc", "average_precision") for end in result.node_intervals.get(name, {}).values()
    ]
    assert ends
    assert all(0 <= low <= high <= 1 for low, high in ends), ends


def test_where_all_pairs_are_right_the_interval_is_that_of_so_many_pairs() -> None:
    target = TREE.encode(["b"] * 6 + ["a/x"] * 9 + ["a/y"] * 9)
    risk = torch.cat([torch.full((6,), 0.9), torch.full((18,), 0.2)]).double()
    probabilities = torch.stack([(1 - risk) / 2, (1 - risk) / 2, risk], dim=1)
    classes = TREE.encode(["a/x", "a/y", "b"])
    units = ResamplingUnits(Resampling(50), np.arange(24))
    counted = dict.fromkeys(("auroc", "average_precision"), np.ones(TREE.num_nodes, dtype=bool))
    result = every_node(())
    result.put(Place("by_node", "auroc", "b"), Number(1.0))
    NodeIntervals(result, units, TREE).add_ranking(probabilities, target, classes, counted)
    assert result.node_intervals["auroc"]["b"] == pytest.approx((0.025 ** (1 / 6), 1.0))
    assert "b" not in result.node_intervals["average_precision"]


@pytest.mark.parametrize("groups", long_unless([None, 60], [60]))
def test_intervals_of_auroc_cover_it(groups: int | None) -> None:
    """The AUROC of two normal distributions is known; groups share what moves their scores."""
    rng = np.random.default_rng(3)
    two = Taxonomy.from_paths(["no", "yes"])
    n, shared = (120, 0.0) if groups is None else (240, 1.0)
    truth = float(norm.cdf(1.0 / math.sqrt(2 * (1 + shared**2))))
    covered = ignored = 0
    for _ in range(120):
        group = np.arange(n) if groups is None else np.arange(n) % groups
        label = (rng.random(group.max() + 1) < 0.4)[group]
        score = label + rng.normal(size=n) + shared * rng.normal(size=group.max() + 1)[group]
        risk = torch.from_numpy(norm.cdf(score))
        given = torch.stack([1 - risk, risk], dim=1)
        target = two.leaves[torch.from_numpy(label.astype(np.int64))]
        for units in (group, np.arange(n)):
            drawn = ResamplingUnits(Resampling(200), units)
            low, high = mean_auroc(given, target, two, two.leaves, drawn).interval(drawn.resampling)[:2]
            hit = low <= truth <= high
            covered += hit if units is group else 0
            ignored += hit if units is not group else 0
    assert 0.9 <= covered / 120 <= 0.99
    if groups is not None:
        assert ignored < covered - 15, "the simulation must show what ignoring groups does"


def test_intervals_of_agreement_cover_that_of_so_many_samples() -> None:
    rng = np.random.default_rng(5)

    def drawn() -> tuple[np.ndarray, np.ndarray]:
        labels = rng.integers(0, 8, 150)
        return labels, np.where(rng.random(150) < 0.6, labels, rng.integers(0, 8, 150))

    once = np.ones((150, 1))
    many = np.array([Partition.of(*drawn(), np.arange(150), 150).agreement(once)[:, 0] for _ in range(300)])
    truth = many.mean(axis=0)
    hits = np.zeros(2)
    for _ in range(150):
        partition = Partition.of(*drawn(), np.arange(150), 150)
        found = agreement_intervals([partition], [], 0.95)[1]
        hits += (found.low <= truth) & (truth <= found.high)
    assert (hits / 150 >= 0.9).all()


def test_agreement_without_room_above_chance_has_no_interval() -> None:
    every = np.arange(30)
    pairs = np.repeat(np.arange(15), 2)
    some = np.where(every % 5 == 0, 0, every)  # few of the singletons are clustered together
    parts = [Partition.of(*both, every, 30) for both in ((every, some), (pairs, every % 7))]
    (nmi, ami), found = agreement_intervals(parts, [(0, 1)], 0.95)
    low, high = found.low.reshape(2, 3), found.high.reshape(2, 3)
    assert ami[0] == pytest.approx(0.0, abs=1e-9)
    assert np.isnan(low[1, [0, 2]]).all()
    assert low[1, 1] < ami[1] < high[1, 1]
    assert (low[0] < nmi).all()
    assert (nmi < high[0]).all()


def test_the_jackknife_of_a_mean_is_the_interval_of_t() -> None:
    values = np.random.default_rng(0).normal(0.5, 0.05, 30)
    left = (values.sum() - values) / 29
    mean, half = values.mean(), t.ppf(0.975, 29) * values.std(ddof=1) / math.sqrt(30)
    found = jackknife(np.array([mean]), left[:, None], np.array([30.0]), confidence=0.95, lowest=-np.inf)
    assert (found.low[0], found.high[0]) == pytest.approx((mean - half, mean + half))
    for lowest in (0.0, -1.0):  # of t on the scale of the arcsine, where nothing is lower
        bounded = jackknife(np.array([mean]), left[:, None], np.array([30.0]), confidence=0.95, lowest=lowest)
        scaled = np.arcsin(np.sqrt((left - lowest) / (1 - lowest)))
        reach = t.ppf(0.975, 29) * scaled.std(ddof=1) * 29 / math.sqrt(30)
        at = math.asin(math.sqrt((mean - lowest) / (1 - lowest)))
        ends = [lowest + (1 - lowest) * math.sin(at + side * reach) ** 2 for side in (-1, 1)]
        assert [bounded.low[0], bounded.high[0]] == pytest.approx(ends)
        assert bounded.error[0] == pytest.approx(found.error[0])
    few = jackknife(np.array([mean]), left[:5, None], np.array([5.0]), confidence=0.95)
    assert np.isnan([few.low[0], few.high[0], few.error[0]]).all()
    clipped = jackknife(np.array([0.999]), 0.999 + left[:, None] - mean, np.array([30.0]), confidence=0.95)
    assert clipped.high[0] == 1.0
