"""Intervals and tests of retrieval count each sample as a query and as a result."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.special import betaincinv, ndtri, stdtrit
from scipy.stats import binomtest
from torch import Tensor

from labeltree.evaluation import (
    EvaluationSettings,
    Inputs,
    JudgingTaxonomy,
    choose_samples,
    compare,
    evaluate,
)
from labeltree.evaluation.outcomes import Outcomes
from labeltree.evaluation.pool_folds import pool_outcomes
from labeltree.evaluation.protocol_registry import get_protocol, run_protocol
from labeltree.evaluation.sample_columns import Column, Place, ResamplingUnits, estimate
from labeltree.evaluation.statistics import Resampling, retrieval_jackknife
from labeltree.evaluation.statistics.retrieval_jackknife import (
    WithoutBlocks,
    draw_blocks,
    values_without_blocks,
)
from labeltree.evaluation.statistics.search_jackknife import BlockEffects, QueryCounts, SearchJackknife
from labeltree.geometry import Sphere
from labeltree.metrics.functional import retrieval_metrics
from labeltree.metrics.search.ranking import RankedChunk, Similarities, ranked_chunks
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy
from sweeps import long_unless

TREE = Taxonomy.from_paths([(a, a + b) for a in "pqr" for b in "xy"])
KEY = ("embeddings", "map_at_r")


def drawn(count: int, seed: int, noise: float = 0.8) -> EmbeddingTable:
    """A table of samples of six Gaussian classes, half of them for learning."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    of = torch.randint(6, (2 * count,), generator=generator)
    points = centres[of] + noise * torch.randn(2 * count, 5, generator=generator)
    return EmbeddingTable(points, TREE.leaves[of], split=np.array(["train", "test"] * count))


def measured(table: EmbeddingTable, **settings: object) -> Outcomes:
    own = EvaluationSettings(**settings)  # type: ignore[arg-type]
    return evaluate(table, TREE, name="mine", settings=own, protocols=["retrieval"]).outcomes["mine"]


def searched(table: EmbeddingTable) -> EmbeddingTable:
    """The samples that are measured, alone."""
    return replace(table.rows(torch.from_numpy(np.flatnonzero(table.split == "test"))), split=None)


def test_blocks_are_of_whole_units_and_even() -> None:
    units = np.repeat(np.arange(120), np.arange(120) % 4 + 1)
    blocks = draw_blocks(units, np.arange(len(units)))
    assert set(blocks.tolist()) == set(range(50))
    of_units = [set(blocks[units == unit].tolist()) for unit in range(120)]
    assert all(len(each) == 1 for each in of_units)
    sizes = np.bincount([each.pop() for each in of_units])
    assert set(sizes.tolist()) <= {2, 3}
    order = np.random.default_rng(0).permutation(len(units))
    _, renumbered = np.unique(-units[order], return_inverse=True)
    np.testing.assert_array_equal(draw_blocks(renumbered, order), blocks[order])


def ranking(points: Tensor) -> Callable[[Tensor, int], Iterator[RankedChunk]]:
    return lambda rows, most: ranked_chunks(points[rows], points, geometry=Sphere(), chunk_rows=most)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("rough", [False, True])
def test_values_without_blocks_are_those_of_searches_without_them(several: bool, rough: bool) -> None:
    """Of every number, with ties and with groups that lie across blocks; the samples are ranked once."""
    generator = torch.Generator().manual_seed(3)
    points = torch.randn(90, 3, generator=generator)
    points = points.round() + 0.5 if rough else points
    nodes = torch.randint(1, len(TREE), (90,), generator=generator)
    own = np.arange(90) // (3 if several else 1)
    blocks, every = np.random.default_rng(0).permutation(90) % 7, np.arange(90)
    common = {"ks": (1, 5), "ahp_k": 20, "depths": (1, 2), "graded": True, "reduction": "none"}

    def searched(queries: Tensor, keys: Tensor, **known: Tensor) -> dict[str, Tensor]:
        sides = (points[queries], nodes[queries], TREE, points[keys], nodes[keys])
        found = retrieval_metrics(*sides, **known, **common)  # type: ignore[arg-type]
        return {name: value for name, value in found.items() if value.shape == queries.shape}

    def without(queries: Tensor, order: Tensor) -> dict[str, Tensor]:
        return searched(queries, torch.from_numpy(every), order=order)

    with patch.object(retrieval_jackknife, "_RANKED", 7 * 90 * 40):
        found = values_without_blocks(without, ranking(points), blocks, own, every, seed=0)
    assert {"recall@1", "map@r", "map/depth1", "ahp@20", "h_ap", "asi", "ndcg", "ap/depth2"} <= set(found)
    for block in range(7):
        rest = torch.from_numpy(np.flatnonzero(blocks != block))
        groups = torch.from_numpy(own)[rest]
        for name, values in searched(rest, rest, query_groups=groups, key_groups=groups).items():
            np.testing.assert_allclose(found[name].values[rest, block], values.numpy(), atol=1e-6)
            assert np.isnan(found[name].values[blocks == block, block]).all()


@pytest.mark.parametrize("groups", long_unless([None, 7, 2], [7, 2]))
@pytest.mark.parametrize("own_group", ["always", "never"])
def test_recall_without_blocks_is_that_of_all_queries(groups: int | None, own_group: str) -> None:
    """Also where the first results are all of one block, and where labels end above the leaves."""
    table = drawn(150, seed=3, noise=1.5)
    generator = torch.Generator().manual_seed(1)
    inner = torch.rand(len(table.nodes), generator=generator) < 0.2
    table = replace(table, nodes=torch.where(inner, TREE.ancestors[table.nodes][:, 1], table.nodes))
    if groups is not None:
        table = replace(table, groups=torch.arange(len(table.nodes)) // (2 * groups))
    all_of_them = measured(table, leave_group_out=own_group).without
    with patch.multiple(retrieval_jackknife, _QUERIES=20, _FIRST_RESULTS=3):
        few = measured(table, leave_group_out=own_group).without
    assert len(few["embeddings", "map_at_r"].rows) == 20
    recalled = [key for key in all_of_them if key[1].startswith("recall")]
    assert ("embeddings", "recall_at_1") in recalled
    for key in recalled:
        np.testing.assert_array_equal(few[key].rows, all_of_them[key].rows)
        np.testing.assert_array_equal(few[key].values, all_of_them[key].values)


def test_first_results_of_all_queries_are_ranked_in_small_tiles() -> None:
    tiles, tile = [], Similarities.tile

    def kept(self: Similarities, *part: Any) -> Tensor:
        tiles.append(tile(self, *part))
        return tiles[-1]

    with patch.object(Similarities, "tile", kept), patch.object(retrieval_jackknife, "_QUERIES", 20):
        measured(drawn(2_500, seed=0))
    assert max(each.numel() for each in tiles) <= 2**22


def test_known_rankings_have_every_query_and_no_missing_label() -> None:
    points, nodes = torch.eye(3), TREE.leaves[:3]
    order = torch.tensor([[1, 2], [0, 2], [0, 1]])
    with pytest.raises(ValueError, match=r"order has 2 rows, query_nodes 3; expected equal numbers"):
        retrieval_metrics(points, nodes, TREE, order=order[:2])
    with pytest.raises(ValueError, match=r"with order every query and item needs one"):
        retrieval_metrics(points, torch.tensor([-1, *nodes[1:]]), TREE, order=order)
    some = torch.tensor([-1, *nodes[1:]])
    with pytest.raises(ValueError, match=r"with order every query and item needs one"):
        retrieval_metrics(points, nodes, TREE, points, some, order=order)
    for beyond in (order + 1, order - 2):
        with pytest.raises(ValueError, match=r"order has rows -?\d to \d; the database has 3"):
            retrieval_metrics(points, nodes, TREE, order=beyond)
    with pytest.raises(ValueError, match=r"order is given beside groups"):
        retrieval_metrics(points, nodes, TREE, order=order, query_groups=torch.arange(3))


def test_what_a_known_ranking_lacks_is_not_in_the_database() -> None:
    nodes = TREE.leaves[torch.tensor([0, 0, 1, 0])]
    order = torch.tensor([[2, 1, -1], [0, 2, 3], [3, -1, -1], [-1, -1, -1]])
    found = retrieval_metrics(torch.eye(4), nodes, TREE, order=order, ks=(1,), reduction="none")
    assert found["map"].nan_to_num(-1).tolist() == pytest.approx([1 / 2, (1 + 2 / 3) / 2, -1, -1])
    assert found["recall@1"].nan_to_num(-1).tolist() == [0, 1, -1, -1]
    # the second of three, of a sibling: 1/2 of what the best ranking of these three has
    assert found["ahp@250"].nan_to_num(-1).tolist() == pytest.approx([3 / 4, (1 + 3 / 4 + 1) / 3, 1, -1])


def test_effects_are_those_of_a_jackknife() -> None:
    """By its definition: every block is left out, and everything computed anew."""
    table = drawn(60, 1)
    points, nodes = table.embeddings[table.split == "test"], table.nodes[table.split == "test"]
    blocks = np.random.default_rng(0).permutation(60) % 20

    @cache
    def of(rows: tuple[int, ...]) -> Tensor:
        return retrieval_metrics(points[list(rows)], nodes[list(rows)], TREE, reduction="none")["map@r"]

    def without(queries: Tensor, order: Tensor) -> dict[str, Tensor]:
        found = []
        for query, ranked in zip(queries, order, strict=True):
            there = torch.cat([query[None], ranked[ranked >= 0]]).sort().values
            found.append(of(tuple(there.tolist()))[torch.searchsorted(there, query)])
        return {"map@r": torch.stack(found)}

    values = of(tuple(range(60))).numpy()
    assert not np.isnan(values).any()
    every = np.arange(60)
    found = values_without_blocks(without, ranking(points), blocks, every, every, seed=0)["map@r"]
    effects = found.effects(csr_array(np.ones((1, 60))), values)
    assert effects.counted.all()
    left_out = np.array([float(of(tuple(np.flatnonzero(blocks != b).tolist())).mean()) for b in range(20)])
    added = (effects.queries + effects.results)[:, 0]
    np.testing.assert_allclose(added, (left_out.mean() - left_out) * 19 / 20, atol=1e-6)


def test_parts_have_what_all_results_add_to_them() -> None:
    """Blocks without a query of the part count, too: their samples are results of its queries."""
    blocks, rows = np.array([0, 0, 1, 1, 2, 2]), np.arange(6)
    values = np.array([1.0, 0.5, 0.25, 0.75, 1.0, 0.0])
    without = np.full((6, 3), np.nan, dtype=np.float32)
    for row in rows:
        for block in set(range(3)) - {int(blocks[row])}:
            without[row, block] = values[row] - 0.125 * (block + 1)
    whole = WithoutBlocks(blocks, rows, without, np.zeros(3, dtype=np.int64))
    first = whole.effects(csr_array(np.array([[1.0, 1, 0, 0, 0, 0]])), values)
    assert first.counted[:, 0].tolist() == [True, False, False]
    # what block 0 adds is not known of its own two queries: nobody else is in the part
    assert np.isnan(first.results).all()
    both = csr_array(np.array([[1.0, 1, 1, 0, 0, 0]]))
    effects = whole.effects(both, values)
    mean = 1.75 / 3
    np.testing.assert_allclose(effects.queries[:, 0], np.array([1.5 - 2 * mean, 0.25 - mean, 0]) / 3)
    np.testing.assert_allclose(effects.results[:, 0], np.array([-0.125, 0, 0.125]) * 2 / 3, atol=1e-6)
    np.testing.assert_allclose(effects.pairs, 0, atol=1e-6)  # a block does the same to all queries
    turned = whole.at(np.arange(6)[::-1]).effects(both[:, ::-1], values[::-1])
    np.testing.assert_allclose(turned.results, effects.results)


def test_what_pairs_of_blocks_do_counts_once() -> None:
    """Queries whose values hang on single results: the plain jackknife says twice their variance.

    Each of 600 queries is right by chance of its own, of the result and of the pair, so that the variance of
    the mean is known; what is taken off is not more than the effects of pairs.
    """
    rng = np.random.default_rng(0)
    samples, count = 600, 50
    blocks = np.arange(samples) % count
    weights = csr_array(np.ones((1, samples)))
    plain, corrected, means = [], [], []
    for _ in range(60):
        result = rng.integers(samples, size=samples)  # the only one that a query has
        good = 0.15 * rng.normal(size=samples)  # of a sample as a result
        value = 0.1 * rng.normal(size=samples) + good[result] + rng.normal(size=samples)
        left = np.where(
            blocks[:, None] == np.arange(count),
            np.nan,
            np.where(blocks[result][:, None] == np.arange(count), 0.0, value[:, None]),
        )
        part = WithoutBlocks(
            blocks, np.arange(samples), left.astype(np.float32), np.zeros(count, dtype=np.int64)
        )
        effects = part.effects(weights, value)
        jackknife = SearchJackknife([effects], [single_queries(600, 1)], np.ones((1, 1), dtype=bool))
        variance, freedom = jackknife.variance(np.ones(1))
        assert 5 <= freedom[0] < 49
        corrected.append(float(variance[0]))
        plain.append(float(np.square(effects.queries + effects.results).sum() * 50 / 49))
        means.append(value.mean())
    known = (0.1**2 + 1.0 + 2 * 0.15**2) / samples  # two queries in 600 have the same result
    assert np.var(means) == pytest.approx(known, rel=0.6)
    assert np.mean(plain) == pytest.approx(2 * known, rel=0.15)
    assert np.mean(corrected) == pytest.approx(known, rel=0.15)


def test_folds_are_searched_one_by_one() -> None:
    table = drawn(120, 4)
    folds = [measured(table.rows(torch.arange(120 * part, 120 * part + 120))) for part in range(2)]
    parts = [each.without[KEY] for each in folds]
    values = [each.values[KEY] for each in folds]
    joined = WithoutBlocks.joined(parts)
    weights = [~np.isnan(each) * 1.0 for each in values]
    effects = joined.effects(csr_array(np.concatenate(weights)[None]), np.concatenate(values))
    alone = [part.effects(csr_array(w[None]), v) for part, w, v in zip(parts, weights, values, strict=True)]
    size, count = len(alone[0].results), len(effects.results)
    share = np.array([w.sum() for w in weights]) / np.concatenate(weights).sum()
    share = share * np.sqrt(size / (size - 1) * (count - 1) / count)  # each fold has a mean of its own
    results = [part * each.results for part, each in zip(share, alone, strict=True)]
    np.testing.assert_allclose(effects.results, np.concatenate(results))
    pairs = [part * each.pairs for part, each in zip(share, alone, strict=True)]
    np.testing.assert_allclose(effects.pairs, np.concatenate(pairs, axis=1))
    of_first = csr_array(np.concatenate([weights[0], 0 * weights[1]])[None])
    first = joined.effects(of_first, np.concatenate(values))
    np.testing.assert_allclose(first.results[:size], share[0] / np.mean(share) * alone[0].results, rtol=0.2)
    assert (first.results[size:] == 0).all()  # no query of this mean is searched there


def test_correlations_over_folds_leave_a_block_out_of_its_own() -> None:
    """More blocks than 50, of folds that differ: the other folds keep their number."""
    sizes = ((70, 4, 0.5), (60, 5, 2.0))
    folds = [measured(drawn(size, seed, noise=noise)) for size, seed, noise in sizes]
    key = ("embeddings", "cpcc")
    parts, values = [each.without[key] for each in folds], [each.values[key] for each in folds]
    weights = [(~np.isnan(each)).astype(float) for each in values]
    left = WithoutBlocks.joined(parts).left_out(
        csr_array(np.concatenate(weights)[None]), np.concatenate(values)
    )[0]  # fmt: skip
    alone = [
        part.left_out(csr_array(weight[None]), each)[0]
        for part, weight, each in zip(parts, weights, values, strict=True)
    ]
    means = [np.nanmean(each) for each in values]
    share = np.array([weight.sum() for weight in weights]) / np.concatenate(weights).sum()
    wanted = share[0] * alone[0] + share[1] * means[1], share[0] * means[0] + share[1] * alone[1]
    np.testing.assert_allclose(left, np.concatenate(wanted), rtol=1e-6)
    assert len(left) == 100
    assert left.std() < 0.1 * abs(means[0] - means[1])
    other = replace(folds[1], instances=folds[1].instances + 1000)
    pooled = pool_outcomes([folds[0], other])
    found = compare({"a": pooled, "b": pooled}, metrics=["embeddings.cpcc", "embeddings.map_at_r"])
    assert 0 < found.metric("cpcc").estimates["a"].error < 0.1
    assert not np.isnan(found.metric("map_at_r", "embeddings").estimates["a"].low)


def effects_of(*columns: tuple[float, float]) -> BlockEffects:
    """Of means with a value and the standard error of twenty blocks that differ alike."""
    value, error = np.array(columns, dtype=float).T
    queries = np.where(np.arange(20) % 2, 1.0, -1.0)[:, None] * error * np.sqrt(19 / 400)
    nothing = np.zeros_like(queries)
    pairs, counted = np.zeros((20, *queries.shape)), np.ones(queries.shape, dtype=bool)
    return BlockEffects(value, queries, nothing, pairs, counted)


@pytest.mark.long
def test_intervals_hold_the_mean_over_repetitions() -> None:
    """Resampling queries alone held it in three of four."""
    values, held = [], []
    for seed in range(40):
        settings, judging = EvaluationSettings(resamples=200), JudgingTaxonomy.of(TREE)
        table = judging.table(searched(drawn(80, seed)))
        samples = choose_samples(table, judging.tree, "test", settings)
        found = run_protocol(
            get_protocol("retrieval"), Inputs(table, judging, samples, settings), strict=True
        )
        values.append(found.scores["embeddings.map_at_r"])
        held.append(found.intervals["embeddings.map_at_r"])
    true = np.mean(values)
    assert np.mean([low <= true <= high for low, high in held]) >= 0.88


@pytest.mark.long
def test_equal_encoders_do_not_differ() -> None:
    """Two samples of noise on the same points: p is small in few of 30 repetitions."""
    small = 0
    for seed in range(30):
        table = drawn(60, seed, noise=0.6)
        noisy = [
            replace(table, embeddings=table.embeddings + 0.4 * torch.randn(
                table.embeddings.shape, generator=torch.Generator().manual_seed(100 * seed + number)
            ))
            for number in range(2)
        ]  # fmt: skip
        runs = {name: measured(searched(each), resamples=0) for name, each in zip("ab", noisy, strict=True)}
        found = compare(runs, metrics=["embeddings.map_at_r"], resamples=100, permutations=500)
        small += found.metric("map_at_r", "embeddings").differences["b"].p <= 0.05
    assert small <= 5  # 1.5 expected; 3 in 1,000 such runs have more


def test_groups_are_left_out_whole() -> None:
    table = drawn(60, 2)
    outcomes = measured(replace(table, groups=torch.arange(120) // 6), leave_group_out="never")
    blocks, groups = outcomes.without[KEY].blocks, outcomes.groups
    assert groups is not None
    for group in np.unique(groups):
        assert len(set(blocks[groups == group].tolist())) == 1


def test_a_fixed_gallery_is_resampled_by_queries() -> None:
    """Classes of one test sample each are searched in the training split."""
    table = drawn(60, 2)
    test = torch.from_numpy(np.flatnonzero(table.split == "test"))
    first = [int(test[table.nodes[test] == node][0]) for node in TREE.leaves]
    outcomes = measured(table.rows(torch.tensor([*np.flatnonzero(table.split == "train"), *first])))
    assert outcomes.search["searched"] == "train"
    assert outcomes.among == {("embeddings", "cpcc")}  # whose samples stand beside each other all the same
    assert set(outcomes.without) == outcomes.among


def test_parts_are_compared_as_parts() -> None:
    """The samples of a branch as queries, all samples as results, in any order."""
    outcomes = measured(drawn(120, 2))
    again = outcomes.rows(np.arange(len(outcomes))[::-1])
    worse = measured(drawn(120, 2, noise=1.5))
    for first, second in ((outcomes, worse), (again, worse)):
        found = compare({"a": first, "b": second}, metrics=["recall_at_1"], strata_metrics=["recall_at_1"])
        branch = next(part for part in found.strata if part.name == "p")
        assert branch.differences["b"].value < 0
        assert branch.differences["b"].low < branch.differences["b"].value < branch.differences["b"].high
        assert 0 < branch.differences["b"].p < 0.2
        assert 0 <= branch.estimates["a"].low <= branch.estimates["a"].high <= 1


def test_another_order_and_another_seed_have_the_same_blocks() -> None:
    table = replace(drawn(60, 2), instances=torch.arange(120))
    turned = measured(table.rows(torch.arange(119, -1, -1)), seed=5)
    found = compare({"a": measured(table), "b": turned}, metrics=["embeddings.map_at_r"])
    part = found.metric("map_at_r", "embeddings").differences["b"]
    assert part.value == pytest.approx(0)
    assert part.p > 0.9


def test_searches_among_other_samples_are_not_compared() -> None:
    """Among 60 samples there are more to find than among 50 of them."""
    one = measured(replace(drawn(60, 2), instances=torch.arange(120)))
    other = measured(replace(drawn(60, 2), instances=torch.arange(120)).rows(torch.arange(100)))
    found = compare({"a": one, "b": other}, metrics=["embeddings.*", "top1"])
    left = {entry.metric for entry in found.metrics}
    assert "top1" in left
    assert not left & {"recall_at_1", "map_at_r", "ahp", "h_ap", "cpcc"}
    told = "the runs searched other samples ('a' among 60 samples, 'b' among 50 samples)"
    assert any(told in note for note in found.notes)


def test_other_blocks_have_neither_intervals_nor_tests() -> None:
    """As of other versions, or of samples in another order; those of the oldest versions have none."""
    one = measured(replace(drawn(60, 2), instances=torch.arange(120)))
    with patch.object(retrieval_jackknife, "_BLOCKS", 20):
        other = measured(replace(drawn(60, 2), instances=torch.arange(120)))
    told = "Retrieval has neither intervals nor p-values"
    for others, said in (
        ({"a": one, "b": other}, True),
        ({"a": replace(one, without={})}, True),
        ({"a": one, "b": one}, False),
    ):
        result = compare(others, metrics=["embeddings.map_at_r", "top1"])
        assert any(note.startswith(told) for note in result.notes) == said
        found = result.metric("map_at_r", "embeddings")
        assert not np.isnan(found.estimates["a"].value)
        assert np.isnan(found.estimates["a"].low) == said
        assert np.isnan(found.differences["b"].p if len(others) == 2 else np.nan) == (
            said or len(others) == 1
        )


def test_a_share_at_the_ceiling_has_the_binomial_interval() -> None:
    """Blocks that agree would have no width, and those that nearly agree too little."""
    apart = drawn(60, 2)
    apart = replace(apart, embeddings=torch.eye(10)[apart.nodes])
    main = evaluate(apart, TREE, name="mine").main
    assert main.score("recall_at_1") == 1
    low, high = main.interval("recall_at_1")
    assert high == 1
    assert low <= 0.025 ** (1 / 60) + 1e-9
    grouped = evaluate(
        replace(apart, groups=torch.arange(120) // 12), TREE, name="mine",
        settings=EvaluationSettings(leave_group_out="never"),
    ).main  # fmt: skip
    assert grouped.interval("recall_at_1")[0] <= 0.025 ** (1 / 10) + 1e-9


def test_a_comparison_has_the_intervals_of_the_evaluation() -> None:
    """Also where some samples are in groups, such as copies, and others are not."""
    table = drawn(90, 3)
    place = torch.arange(len(table.nodes))
    table = replace(table, groups=torch.where(place % 180 < 60, place // 3, -1))
    result = evaluate(table, TREE, name="mine")
    compared = compare(result.outcomes, metrics=["embeddings.recall_at_1", "embeddings.map_at_r"])
    for name in ("recall_at_1", "map_at_r"):
        mine = compared.metric(name, "embeddings").estimates["mine"]
        assert (mine.low, mine.high) == pytest.approx(result.main.interval(name))


def test_shares_of_queries_are_no_surer_than_independent_ones() -> None:
    """48 of 48: what single blocks add would make it known to 2 %."""
    effects = effects_of((1.0, 0.01), (1.0, 0.01), (0.5, 0.01), (0.5, 0.0))
    single = np.array([[True, False, True, False]])
    ends = SearchJackknife([effects], [single_queries(48, 4)], single).interval(np.ones(1))
    np.testing.assert_allclose(ends.low[:2], 0.025 ** (1 / 48))
    np.testing.assert_allclose(ends.high[:2], 1.0)
    np.testing.assert_allclose([ends.low[2], ends.high[2]], binomial_interval(24, 48))
    assert np.isnan([ends.low[3], ends.high[3]]).all()  # all blocks agree


def single_queries(samples: int, means: int) -> QueryCounts:
    """Of means over so many samples, none of which is in a group, half of them right."""
    return QueryCounts(*(np.full(means, float(number)) for number in (samples, samples, samples // 2)))


def test_queries_are_counted_in_their_units() -> None:
    mean = np.array([0, 0, 0, 0, 0, 2, 2, 2])
    units = np.array([7, 7, 7, 3, 1, 3, 3, 1])
    values = np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    counts = QueryCounts.of(mean, units, values, 3)
    np.testing.assert_array_equal(counts.queries, [5, 0, 3])
    np.testing.assert_array_equal(counts.units, [3, 0, 2])
    np.testing.assert_array_equal(counts.rarer, [1, 0, 0])


def test_a_share_of_many_queries_of_few_groups_is_as_sure_as_they_agree() -> None:
    """Beyond one query a group only as far as enough groups have the rarer outcome to tell."""
    errors = np.array([0.02, 0.02, 0.02, 0.08])
    effects = effects_of(*((0.9, error) for error in errors))
    queries, rarer = np.array([1000.0, 1000.0, 50.0, 1000.0]), np.array([20.0, 2.0, 20.0, 2.0])
    counts = QueryCounts(queries, np.full(4, 20.0), rarer)
    ends = SearchJackknife([effects], [counts], np.ones((1, 4), dtype=bool)).interval(np.ones(1))
    sure = 0.09 / (errors * stdtrit([19, 4, 19, 19], 0.975) / ndtri(0.975)) ** 2
    assert sure[1] > 20  # groups
    assert sure[2] > 50  # queries
    assert sure[3] < 20
    sure[2] = 50
    np.testing.assert_allclose(ends.low, betaincinv(0.9 * sure, 0.1 * sure + 1, 0.025))
    np.testing.assert_allclose(ends.high, betaincinv(0.9 * sure + 1, 0.1 * sure, 0.975))


def binomial_interval(hits: int, of: int) -> tuple[float, float]:
    exact = binomtest(hits, of).proportion_ci()
    return exact.low, exact.high


def test_the_ends_are_those_of_as_sure_a_share_or_of_t() -> None:
    reach = stdtrit(19, 0.975)
    of_hundred = 0.05 * ndtri(0.975) / reach  # so that one of t is as long as for 100 samples
    effects = effects_of((0.5, of_hundred), (0.97, 0.02))
    counts, single = single_queries(60, 2), np.zeros((1, 2), dtype=bool)
    ends = SearchJackknife([effects], [counts], single).interval(np.ones(1))
    np.testing.assert_allclose(ends.error, [of_hundred, 0.02])
    np.testing.assert_allclose([ends.low[0], ends.high[0]], binomial_interval(50, 100))
    assert 0.97 - ends.low[1] > 0.02 * reach  # to the side that it can vary to
    assert ends.high[1] < 1
    both = SearchJackknife([effects, effects], [counts, counts], np.repeat(single, 2, axis=0))
    difference = both.interval(np.array([1.0, -1.0]))
    assert np.isnan(difference.low).all()  # the same effects: all blocks agree
    other = both.interval(np.array([1.0, -0.5]))
    np.testing.assert_allclose(other.high - other.low, reach * np.array([of_hundred, 0.02]))


def test_near_the_bounds_half_of_what_pairs_do_is_taken_off() -> None:
    """And no more than leaves five degrees of freedom, as six blocks have."""
    rng = np.random.default_rng(0)
    value = np.array([0.5, 1.0, 0.95, 0.5])
    queries = 0.01 * rng.normal(size=(50, 4))
    pairs = 0.0005 * rng.normal(size=(50, 50, 4)) * np.array([1, 1, 1, 100])
    counted = np.ones((50, 4), dtype=bool)
    effects = BlockEffects(value, 0.5 * queries, 0.5 * queries, pairs, counted)
    counts, single = single_queries(60, 4), np.zeros((1, 4), dtype=bool)
    variance, freedom = SearchJackknife([effects], [counts], single).variance(np.ones(1))
    whole, twice = np.square(queries).sum(axis=0) * 50 / 49, np.square(pairs).sum(axis=(0, 1)) * 50 / 49
    assert (twice[:3] < 0.6 * whole[:3]).all()
    part = np.array([1, 0.5, 0.75])
    np.testing.assert_allclose(variance[:3], whole[:3] - part * twice[:3])
    np.testing.assert_allclose(freedom[:3], 49 * np.square(variance[:3] / whole[:3]))
    assert freedom[3] == pytest.approx(5)


def test_own_groups_stay_left_out() -> None:
    """Without a block, too, no sample of a query's group is among its results."""
    table = replace(drawn(90, 3), groups=torch.arange(180) % 45)
    outcomes = measured(table, leave_group_out="always")
    part, test = outcomes.without[KEY], np.flatnonzero(table.split == "test")
    points, nodes, groups = table.embeddings[test], table.nodes[test], torch.arange(180)[test] % 45
    for block in (0, 7):
        rest = np.flatnonzero(part.blocks != block)
        alone = retrieval_metrics(
            points[rest], nodes[rest], TREE, query_groups=groups[rest], reduction="none"
        )["map@r"].numpy()
        found = part.values[np.isin(part.rows, rest), block]
        np.testing.assert_allclose(found, alone, rtol=1e-6)


def test_a_mean_over_several_searches_has_no_interval() -> None:
    """Columns of one name are parts of a number, such as folds; each has blocks of its own."""
    table = drawn(60, 2)
    outcomes = measured(table)
    rows = torch.from_numpy(np.flatnonzero(table.split == "test"))
    column = Column(
        "x", torch.from_numpy(outcomes.values[KEY]), rows, among=True, without=outcomes.without[KEY]
    )
    units = ResamplingUnits(Resampling(100), np.arange(60))
    for several, known in (([column], True), ([column, column], False)):
        found = estimate(several, rows, units, table.nodes, TREE)[Place("scores", "x")]
        assert found.value == pytest.approx(np.nanmean(outcomes.values[KEY]))
        assert np.isnan(found.low) != known


def test_the_ends_of_cpcc_are_those_of_a_correlation() -> None:
    nodes = TREE.leaves[torch.arange(40) % len(TREE.leaves)]
    settings = EvaluationSettings(resamples=200)
    runs, ends = {}, {}
    for name, seed in (("a", 0), ("b", 3)):
        noise = torch.randn(40, 6, generator=torch.Generator().manual_seed(seed))
        result = evaluate(EmbeddingTable(noise, nodes), TREE, name=name, settings=settings)
        low, high = result.main.interval("cpcc")
        assert -1 <= low < result.main.score("cpcc") < high <= 1
        runs[name], ends[name] = result.outcomes[name], (low, high)
    compared = compare(runs, metrics=["embeddings.cpcc"]).metric("cpcc")
    for name, found in compared.estimates.items():
        assert (found.low, found.high) == pytest.approx(ends[name])  # as its own evaluation says
    difference = compared.differences["b"]
    assert difference.test == "jackknife"
    assert 0 < difference.p <= 1


@pytest.mark.parametrize(("groups", "told"), [(9, False), (18, True)])
def test_average_precision_at_one_depth_of_few_groups_has_no_interval(groups: int, told: bool) -> None:
    group = torch.arange(groups).repeat_interleave(5)
    points = torch.randn(len(group), 5, generator=torch.Generator().manual_seed(1))
    table = EmbeddingTable(points, TREE.leaves[group % 6], groups=group)
    settings = EvaluationSettings(resamples=100, leave_group_out="never")
    result = evaluate(table, TREE, name="mine", settings=settings).main
    assert result.score("ap_at_depth_1") > 0
    assert not np.isnan(result.interval("h_ap")[0])
    assert np.isnan(result.interval("ap_at_depth_1")[0]) != told
