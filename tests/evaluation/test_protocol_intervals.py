"""Intervals of the named protocols: the same as loops over the draws, and as those of the standard scores."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from labelled_vectors import tree_vectors
from scipy.stats import beta, norm, t
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from labeltree.evaluation import (
    EvaluationResult,
    EvaluationSettings,
    ProtocolResult,
    evaluate,
    protocol_table,
)
from labeltree.evaluation.chosen_samples import ClassFrequency
from labeltree.evaluation.sample_columns import Column, Place, ResamplingUnits, estimate
from labeltree.evaluation.statistics import Bootstrap, Partition, Resampling, draw_counts
from labeltree.evaluation.statistics.bootstrap import GroupSums
from labeltree.evaluation.statistics.jackknife import block_counts, jackknife
from labeltree.evaluation.statistics.means_over_nodes import largest_unseen
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

TREE = Taxonomy.from_paths(["cat", "dog"])


def ends_of(draws: list[float], value: float, left_out: list[float], groups: int) -> tuple[float, float]:
    """BCa as Efron (1987) and Hesterberg (2015) have it, one number at a time; 95 %."""
    known = sorted(draw for draw in draws if not math.isnan(draw))
    below = sum(draw < value - 1e-12 for draw in known) + 0.5 * sum(abs(d - value) <= 1e-12 for d in known)
    bias = float(norm.ppf(min(max(below / len(known), 1 / (len(known) + 1)), len(known) / (len(known) + 1))))
    mean = sum(left_out) / len(left_out)
    squares = sum((mean - x) ** 2 for x in left_out)
    skew = sum((mean - x) ** 3 for x in left_out) / (6 * squares**1.5) if squares else 0.0
    ends = []
    for side in (-1, 1):
        moved = bias + side * math.sqrt(groups / (groups - 1)) * float(t.ppf(0.975, groups - 1))
        place = float(norm.cdf(bias + moved / (1 - skew * moved))) * (len(known) - 1)
        low = int(place)
        ends.append(known[low] + (place - low) * (known[min(low + 1, len(known) - 1)] - known[low]))
    if groups > 15 and 0.1 <= value <= 0.9:
        return ends[0], ends[1]
    known = [draw for draw in draws if not math.isnan(draw)]
    error = math.sqrt(groups / (groups - 1)) * float(np.std(known))
    count = value * (1 - value) / error**2  # so many samples would be as sure
    low = float(beta.ppf(0.025, value * count, (1 - value) * count + 1))
    high = float(beta.ppf(0.975, value * count + 1, (1 - value) * count))
    return (min(ends[0], low), max(ends[1], high)) if groups <= 15 else (low, high)


def loop(
    metric: Callable[[torch.Tensor], float], groups: torch.Tensor, count: int, counted: int
) -> tuple[float, float]:
    """The interval of any metric of rows (a tensor of positions), measured anew in every draw."""
    if counted < 6:
        return math.nan, math.nan
    rows = torch.arange(len(groups))
    counts = np.concatenate(list(draw_counts(count, 200, 3))).astype(int)
    draws = [metric(rows.repeat_interleave(torch.from_numpy(drawn)[groups])) for drawn in counts]
    left_out = [metric(rows[groups != gone]) for gone in range(count)]
    return ends_of(draws, metric(rows), left_out, counted)


def without_blocks(
    metric: Callable[[torch.Tensor], float], groups: torch.Tensor, count: int, counted: int
) -> tuple[float, float]:
    """The interval of a mean of means, measured anew without each block of groups."""
    rows, kept = torch.arange(len(groups)), block_counts(count)
    left = np.array([metric(rows[torch.from_numpy(block > 0)[groups]]) for block in kept.T])
    squares = (left - np.nanmean(left)) ** 2
    freedom = max(3, 2 * np.nansum(squares) ** 2 / np.nansum(squares**2) - 1)
    value, known = np.array([metric(rows)]), np.array([float(counted)])
    ends = jackknife(value, left[:, None], known, confidence=0.95, freedom=np.array([freedom]))
    return float(ends.low[0]), float(ends.high[0])


@pytest.mark.parametrize("grouped", [False, True])
def test_intervals_of_means_equal_a_loop(taxonomy: Taxonomy, grouped: bool) -> None:
    generator = torch.Generator().manual_seed(7)
    n = 60
    nodes = taxonomy.leaves[torch.randint(taxonomy.num_leaves, (n,), generator=generator)]
    values = torch.rand(n, generator=generator, dtype=torch.float64)
    values[torch.rand(n, generator=generator) < 0.2] = torch.nan
    groups = torch.randint(14, (n,), generator=generator).sort().values if grouped else torch.arange(n)
    groups = torch.unique(groups, return_inverse=True)[1]
    count = int(groups.max()) + 1
    chosen = torch.tensor([taxonomy.find("animal/mammal/dog"), taxonomy.find("plant/moss")])
    many = torch.full((taxonomy.num_nodes,), 5).index_fill_(0, chosen, 9)
    frequency = ClassFrequency(many, few=2, many=6)  # these two are the head
    frequency.counts[0] = 1
    frequency.counts[taxonomy.num_nodes - 1] = 1 if taxonomy.num_nodes - 1 not in chosen else 9
    everything = torch.arange(n)
    halves = [torch.arange(n // 2), torch.arange(n // 2, n)]
    columns = [
        Column("mean", values, everything, by_node=True, by_frequency=True),
        *(Column("halves", values[rows], rows) for rows in halves),
    ]
    units = ResamplingUnits(Resampling(200, seed=3), groups.numpy())
    numbers = estimate(columns, everything, units, nodes, taxonomy, frequency)
    found = {place: (number.low, number.high) for place, number in numbers.items()}
    assert numbers[Place("scores", "mean")].value == pytest.approx(float(torch.nanmean(values)))

    def mean(rows: torch.Tensor) -> float:
        return float(torch.nanmean(values[rows]))

    def class_mean(rows: torch.Tensor) -> float:
        means = [mean(rows[nodes[rows] == node]) for node in chosen.tolist()]
        return float(np.nanmean(means)) if not np.isnan(means).all() else math.nan

    def of_halves(rows: torch.Tensor) -> float:
        return float(np.nanmean([mean(rows[rows < n // 2]), mean(rows[rows >= n // 2])]))

    def groups_of(rows: torch.Tensor) -> int:
        return len(groups[rows][~values[rows].isnan()].unique())

    expected = loop(mean, groups, count, groups_of(everything))
    assert found[Place("scores", "mean")] == pytest.approx(expected, abs=1e-12)
    of_chosen = groups_of(torch.isin(nodes, chosen).nonzero()[:, 0])
    assert found[Place("scores", "mean_head")] == pytest.approx(
        without_blocks(class_mean, groups, count, of_chosen), abs=1e-9, nan_ok=True
    )
    whole = without_blocks(of_halves, groups, count, groups_of(everything))
    assert found[Place("scores", "halves")] == pytest.approx(whole, abs=1e-9)
    for name in ("animal", "animal/fish", "plant/tree/oak"):
        lines = [[*taxonomy.ancestors_of(node), node] for node in nodes.tolist()]
        here = torch.tensor([taxonomy.find(name) in line for line in lines]) & ~values.isnan()

        def below(rows: torch.Tensor, here: torch.Tensor = here) -> float:
            return mean(rows[here[rows]])

        expected = loop(below, groups, count, groups_of(here.nonzero()[:, 0]))
        assert found[Place("by_node", "mean", name)] == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_sparse_columns_are_those_of_the_bootstrap() -> None:
    rng = np.random.default_rng(1)
    values = rng.random((50, 4)) ** 3
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, 3] = np.where(np.isnan(values[:, 3]), np.nan, 1.0)
    groups = rng.integers(0, 17, 50)
    found = Bootstrap(GroupSums.of(values[:, None], groups), resamples=300, seed=4).interval(confidence=0.9)
    every = torch.arange(50)
    columns = [Column(str(number), torch.from_numpy(values[:, number]), every) for number in range(4)]
    units = ResamplingUnits(Resampling(300, seed=4, confidence=0.9), groups)
    numbers = estimate(columns, every, units, torch.zeros_like(every), TREE)
    for column in range(4):
        number = numbers[Place("scores", str(column))]
        assert number[1:3] == pytest.approx((found.low[column], found.high[column]), abs=1e-12)
        assert number.error == pytest.approx(found.error[column], abs=1e-12)


def test_what_is_no_share_has_no_interval_where_all_agree() -> None:
    every = torch.arange(9)
    columns = [Column(str(share), torch.ones(9), every, share=share) for share in (True, False)]
    units = ResamplingUnits(Resampling(50), every.numpy())
    numbers = estimate(columns, every, units, torch.zeros_like(every), TREE)
    assert numbers[Place("scores", "True")][1:3] == pytest.approx((0.025 ** (1 / 9), 1.0))
    assert math.isnan(numbers[Place("scores", "False")].low)


def test_classes_that_are_always_right_may_have_erred_most_in_the_smallest() -> None:
    every = torch.arange(40)
    classes = TREE.leaves[every % 20 % 11 % 2]  # unequal
    sizes = torch.unique(classes, return_counts=True)[1].numpy()
    column = Column("y", torch.ones(40), every, balanced="x")
    units = ResamplingUnits(Resampling(50), every.numpy())
    numbers = estimate([column], every, units, classes, TREE)
    low, high = numbers[Place("scores", "x")][1:3]
    assert (low, high) == pytest.approx((1 - largest_unseen(np.repeat(0.5 / sizes, sizes), 0.025), 1.0))
    assert 1 - low > (1 - 0.025 ** (1 / sizes.min())) / 2  # all errors in the smallest class


def test_agreement_in_draws_is_that_of_the_samples_drawn() -> None:
    rng = np.random.default_rng(0)
    labels, groups = rng.integers(0, 6, 200), rng.integers(0, 60, 200)
    clusters = np.where(rng.random(200) < 0.6, labels, rng.integers(0, 7, 200))
    partition = Partition.of(labels, clusters, groups, 60)
    counts = rng.integers(0, 3, (60, 5)).astype(float)
    counts[:, 4] = 0
    found = partition.agreement(counts)
    for draw in range(4):
        rows = np.repeat(np.arange(200), counts[groups, draw].astype(int))
        expected = normalized_mutual_info_score(labels[rows], clusters[rows])
        assert found[0, draw] == pytest.approx(expected, abs=1e-12)
        assert found[1, draw] == pytest.approx(
            adjusted_mutual_info_score(labels[rows], clusters[rows]), abs=0.03
        )
    assert np.isnan(found[:, 4]).all()
    once = partition.agreement(np.ones((60, 1)))[1, 0]
    assert once == pytest.approx(adjusted_mutual_info_score(labels, clusters), abs=1e-12)


@pytest.fixture(scope="module")
def small(taxonomy: Taxonomy) -> EmbeddingTable:
    nodes = taxonomy.leaves.repeat(24)
    n = len(nodes)
    return EmbeddingTable(
        embeddings=tree_vectors(taxonomy, nodes, 5, 0.6, 2),
        nodes=nodes,
        split=np.resize(np.repeat(["train", "test"], taxonomy.num_leaves), n),
        groups=torch.arange(n) // 32 * 16 + torch.arange(n) % 16,  # two of a leaf and a split each
    )


ASKED = ("class-embeddings", "clustering", "k-fold", "knn", "node-scores", "per-group", "query-gallery")
OPTIONS = {"few-samples": {"per_class": (1, 3), "seeds": 3}, "sgd-probe": {"epochs": 2}}


@pytest.fixture(scope="module")
def measured(small: EmbeddingTable, taxonomy: Taxonomy) -> EvaluationResult:
    settings = EvaluationSettings(resamples=200, options=OPTIONS)
    names = [*ASKED, "few-samples", "sgd-probe", "decisions"]
    return evaluate(small, taxonomy, protocols=names, settings=settings)


@pytest.mark.parametrize("name", [*ASKED, "few-samples", "sgd-probe", "decisions"])
def test_every_number_has_an_interval_that_holds_it(measured: EvaluationResult, name: str) -> None:
    result = measured.main.protocols[name]
    without = ("_sd", "training_loss", "ece_before", "ece_after", "ece_by_chance", "nll_before", "nll_after")
    asked = {key for key, value in result.scores.items() if not key.endswith(without) and value < 1}
    exact = {key for key in asked if result.scores[key] in (0.0, 1.0)}
    assert asked - exact <= set(result.intervals)
    for key, (low, high) in result.intervals.items():
        assert low <= result.scores[key] + 1e-9, key
        assert high >= result.scores[key] - 1e-9, key
    assert set(result.depth_intervals) or name == "few-samples"
    assert set(result.node_intervals) or name == "few-samples"
    for key, ends in result.depth_intervals.items():
        assert len(ends) == len(result.by_depth[key])
    for key, nodes in result.node_intervals.items():
        assert set(nodes) <= set(result.by_node[key])


def test_intervals_are_written_and_read_and_shown(measured: EvaluationResult) -> None:
    content = json.loads(json.dumps(measured.to_dict()))
    again = EvaluationResult.from_dict(content)
    for name, result in measured.main.protocols.items():
        found = again.main.protocols[name]
        assert found.intervals == result.intervals
        assert found.node_intervals == result.node_intervals
        assert str(found.depth_intervals) == str(result.depth_intervals)
        assert found.curve_intervals == result.curve_intervals
    low, high = measured.main.protocols["knn"].intervals["embeddings.top1"]
    assert f"[{low:.4f}, {high:.4f}]" in protocol_table(measured)
    for item in content["methods"].values():
        for result in item["protocols"].values():
            for column in ("intervals", "depth_intervals", "node_intervals", "curve_intervals"):
                del result[column]  # as older versions wrote it
    old = EvaluationResult.from_dict(content).main.protocols["knn"]
    assert old.scores == measured.main.protocols["knn"].scores
    assert (old.intervals, old.node_intervals) == ({}, {})


def test_without_resamples_there_are_none(small: EmbeddingTable, taxonomy: Taxonomy) -> None:
    settings = EvaluationSettings(resamples=0, options=OPTIONS)
    for result in evaluate(
        small, taxonomy, protocols=[*ASKED, "few-samples", "decisions"], settings=settings
    ).main.protocols.values():
        assert (result.intervals, result.depth_intervals, result.node_intervals) == ({}, {}, {})


def test_seeds_and_groups_matter(small: EmbeddingTable, taxonomy: Taxonomy) -> None:
    def top1(table: EmbeddingTable, seed: int) -> ProtocolResult:
        settings = EvaluationSettings(resamples=200, seed=seed)
        return evaluate(table, taxonomy, protocols=["knn"], settings=settings).main.protocols["knn"]

    first = top1(small, 0)
    assert first == top1(small, 0)
    assert first.intervals != top1(small, 1).intervals
    alone = top1(replace(small, groups=None), 0)
    assert alone.scores == first.scores
    assert alone.intervals != first.intervals
