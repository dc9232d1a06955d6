"""Intervals and tests of retrieval count each sample as a query and as a result."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.evaluation import EvaluationSettings, compare, evaluate
from labeltree.evaluation.blocks_left_out import draw_blocks, influence_as_results
from labeltree.evaluation.outcomes import Outcomes
from labeltree.metrics.functional import retrieval_metrics
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

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
    return evaluate(table, TREE, name="mine", settings=EvaluationSettings(**settings)).outcomes["mine"]  # type: ignore[arg-type]


def test_blocks_are_of_whole_units_and_even() -> None:
    units = np.repeat(np.arange(45), np.arange(45) % 4 + 1)
    blocks = draw_blocks(units, seed=3)
    assert set(blocks.tolist()) == set(range(20))
    of_units = [set(blocks[units == unit].tolist()) for unit in range(45)]
    assert all(len(each) == 1 for each in of_units)
    sizes = np.bincount([each.pop() for each in of_units])
    assert set(sizes.tolist()) <= {2, 3}
    assert draw_blocks(np.arange(4), seed=0).tolist() != draw_blocks(np.arange(4), seed=1).tolist()


def test_pseudo_values_are_those_of_a_jackknife() -> None:
    """By its definition: every block is left out, and everything computed anew."""
    table = drawn(60, 1)
    points, nodes = table.embeddings[table.split == "test"], table.nodes[table.split == "test"]
    blocks = draw_blocks(np.arange(60), seed=0)

    def of(rows: Tensor) -> Tensor:
        return retrieval_metrics(points[rows], nodes[rows], TREE, reduction="none")["map@r"]

    def without(queries: Tensor, keys: Tensor) -> dict[str, Tensor]:
        return {"map@r": of(keys)[torch.searchsorted(keys, queries)]}

    values = of(torch.arange(60))
    found = influence_as_results({"map@r": values}, without, blocks, torch.arange(60), seed=0)["map@r"]
    whole = float(values.nanmean())
    pseudo = []
    for block in range(20):
        rest = torch.from_numpy(np.flatnonzero(blocks != block))
        pseudo.append(20 * whole - 19 * float(of(rest).nanmean()))
    expected = np.array(pseudo) - np.mean(pseudo)
    mine = np.array([float((values - whole + found)[blocks == block].mean()) for block in range(20)])
    # the mean of a block of three, and that of the others: equal but for samples that count in one of both
    assert np.corrcoef(mine, expected)[0, 1] > 0.99
    assert mine.std() == pytest.approx(expected.std(), rel=0.05)
    assert float(found[~values.isnan()].mean()) == pytest.approx(0, abs=1e-12)


def test_intervals_hold_the_mean_over_repetitions() -> None:
    """Resampling queries alone held it in three of four."""
    values, held = [], []
    for seed in range(60):
        main = evaluate(drawn(80, seed), TREE, name="mine", settings=EvaluationSettings(resamples=200)).main
        values.append(main.score("map_at_r"))
        held.append(main.interval("map_at_r"))
    true = np.mean(values)
    assert np.mean([low <= true <= high for low, high in held]) >= 0.88


def test_equal_encoders_do_not_differ() -> None:
    """Two samples of noise on the same points: p is small in few of 40 repetitions."""
    small = 0
    for seed in range(40):
        table = drawn(60, seed, noise=0.6)
        noisy = [
            replace(table, embeddings=table.embeddings + 0.4 * torch.randn(
                table.embeddings.shape, generator=torch.Generator().manual_seed(100 * seed + number)
            ))
            for number in range(2)
        ]  # fmt: skip
        runs = {name: measured(each, resamples=0) for name, each in zip("ab", noisy, strict=True)}
        found = compare(runs, metrics=["embeddings.map_at_r"], resamples=100, permutations=500)
        small += found.metric("map_at_r", "embeddings").differences["b"].p <= 0.05
    assert small <= 6  # 2 expected; 3 in 1,000 such runs have more


def test_groups_are_left_out_whole() -> None:
    table = drawn(60, 2)
    outcomes = measured(replace(table, groups=torch.arange(120) // 6), leave_group_out="never")
    blocks, groups = outcomes.blocks[KEY], outcomes.groups
    assert groups is not None
    for group in np.unique(groups):
        assert len(set(blocks[groups == group].tolist())) == 1


def test_a_fixed_gallery_is_resampled_by_queries() -> None:
    outcomes = measured(drawn(60, 2), searched="train")
    assert not outcomes.among
    assert not outcomes.influence


def test_parts_of_the_samples_have_no_interval() -> None:
    outcomes = measured(drawn(60, 2))
    assert KEY in outcomes.among
    assert outcomes.resampled(KEY) is not None
    assert outcomes.rows(np.arange(len(outcomes))[::-1]).resampled(KEY) is not None
    part = outcomes.rows(np.arange(len(outcomes)) % 2 == 0)
    assert part.resampled(KEY) is None
    found = compare({"a": part, "b": part}, metrics=["embeddings.map_at_r"]).metric("map_at_r", "embeddings")
    assert np.isnan(found.estimates["a"].low)
    assert np.isnan(found.differences["b"].p)
