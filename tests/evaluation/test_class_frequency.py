"""Head, middle and tail against sorted lists."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labeltree.errors import DataError
from labeltree.evaluation import EvaluationSettings, Inputs, JudgingTaxonomy, choose_samples
from labeltree.evaluation.chosen_samples import class_frequency
from labeltree.evaluation.protocol_registry import get_protocol
from labeltree.evaluation.sample_columns import Column, Place, ResamplingUnits, estimate
from labeltree.evaluation.subsampling import share_of_labels
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy


def long_tail(sizes: list[int]) -> tuple[Taxonomy, EmbeddingTable]:
    taxonomy = Taxonomy.from_paths([(f"g{i % 3}", f"c{i}") for i in range(len(sizes))])
    leaves = taxonomy.encode([f"g{i % 3}/c{i}" for i in range(len(sizes))])
    nodes = torch.cat([leaves.repeat_interleave(torch.tensor(sizes)), leaves.repeat(4)])
    split = np.array(["train"] * sum(sizes) + ["test"] * 4 * len(sizes))
    vectors = torch.randn(len(nodes), 4, generator=torch.Generator().manual_seed(len(sizes)))
    centres = 1.5 * torch.randn(taxonomy.num_nodes, 4, generator=torch.Generator().manual_seed(1))
    return taxonomy, EmbeddingTable(vectors + centres[nodes], nodes, split=split)


def inputs_of(taxonomy: Taxonomy, table: EmbeddingTable, **choices: object) -> Inputs:
    settings = EvaluationSettings(**choices)
    return Inputs(
        table, JudgingTaxonomy.of(taxonomy), choose_samples(table, taxonomy, "test", settings), settings
    )


@pytest.mark.parametrize(
    "sizes", [[9, 5, 5, 3, 2, 1, 1], [4, 4, 4, 1, 1, 1], [30, 20, 10], [2, 0, 7, 7, 7, 1]]
)
@pytest.mark.parametrize("bounds", [(), (2, 6)])
def test_groups(sizes: list[int], bounds: tuple[int, ...]) -> None:
    taxonomy, table = long_tail(sizes)
    inputs = inputs_of(taxonomy, table, frequency_bounds=bounds)
    frequency = inputs.frequency
    learned = [size for size in sizes if size]
    expected = []
    for size in sizes:
        if not size:
            expected.append(-1)
        elif bounds:
            expected.append(0 if size > 6 else 1 if size > 2 else 2)
        else:  # by the place of the first class of that size, the most frequent first
            expected.append(sorted(learned, reverse=True).index(size) * 3 // len(learned))
    leaves = taxonomy.encode([f"g{i % 3}/c{i}" for i in range(len(sizes))])
    assert frequency.group(leaves).tolist() == expected
    assert frequency.uneven == ({0, 1, 2} <= set(expected))
    values = torch.rand(len(sizes) * 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values[3] = torch.nan
    rows, units = torch.arange(len(values)), ResamplingUnits(None, np.arange(len(values)))
    column = Column("x", values, rows, by_frequency=True)
    means = estimate([column], rows, units, leaves.repeat(2), taxonomy, frequency)
    assert len(means) == (4 if frequency.uneven else 1)
    for place, name in enumerate(("head", "middle", "tail")):
        of_class = [
            np.nanmean([float(values[i]), float(values[i + len(sizes)])])
            for i in range(len(sizes))
            if expected[i] == place
        ]
        if frequency.uneven:
            assert means[Place("scores", f"x_{name}")].value == pytest.approx(np.mean(of_class))


def test_counts_are_those_before_subsampling() -> None:
    taxonomy, table = long_tail([9, 5, 3])
    inputs = inputs_of(taxonomy, table, max_probe_samples=4)
    assert len(inputs.samples.train) == 4
    counts = class_frequency(inputs.table, inputs.samples, taxonomy.num_nodes).counts
    assert counts[taxonomy.encode(["g0/c0", "g1/c1", "g2/c2"])].tolist() == [9, 5, 3]


def test_the_protocol_breaks_down_every_score() -> None:
    taxonomy, table = long_tail([40, 30, 12, 9, 3, 2])
    inputs = inputs_of(taxonomy, table)
    entry = get_protocol("frequency")
    result = entry.run(inputs, entry.choose({}))
    by_class = result.by_node["probe.top1"]
    for name, classes in (("head", (0, 1)), ("middle", (2, 3)), ("tail", (4, 5))):
        expected = np.mean([by_class[f"g{i % 3}/c{i}"] for i in classes])
        assert result.scores[f"probe.top1_{name}"] == pytest.approx(expected)
        assert f"prototypes.hierarchical_f1_{name}" in result.scores
        assert f"retrieval.embeddings.map_at_r_{name}" in result.scores
        assert result.counts[f"{name} classes tested"] == 2
    even = inputs_of(*long_tail([5, 5, 5]))
    with pytest.raises(DataError, match="do not fall into head, middle and tail"):
        entry.run(even, entry.choose({}))


def test_a_share_of_every_label() -> None:
    nodes = torch.tensor([1] * 10 + [2] * 3 + [3] + [4] * 2)
    chosen = share_of_labels(nodes, 0.4, 0)
    assert [int(chosen[nodes == node].sum()) for node in (1, 2, 3, 4)] == [4, 1, 0, 1]
    assert not torch.equal(chosen, share_of_labels(nodes, 0.4, 1))
