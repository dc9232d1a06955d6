"""Which rows are used for what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from labeltree.errors import DataError
from labeltree.evaluation.subsampling import half_split, stratified_subsample
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import finest_labels


def test_finest_labels_against_a_loop(taxonomy: Taxonomy) -> None:
    generator = torch.Generator().manual_seed(0)
    for size in (1, 3, 6, 12):
        labels = torch.randint(-1, taxonomy.num_nodes, (size,), generator=generator)
        used = {label for label in labels.tolist() if label > 0}
        expected = [
            node in used and not any(node in taxonomy.ancestors_of(other) for other in used)
            for node in range(taxonomy.num_nodes)
        ]
        assert finest_labels(labels, taxonomy).tolist() == expected


def test_half_split_keeps_the_views_of_an_instance_together() -> None:
    instances = torch.arange(20).repeat(2)
    nodes = (instances % 2) + 3
    table = EmbeddingTable(torch.zeros(40, 1), nodes, instances=instances)
    half = half_split(table, torch.ones(40, dtype=torch.bool), seed=0)

    assert torch.equal(half[:20], half[20:])
    for node in (3, 4):
        assert int(half[nodes == node].sum()) == 10
    assert torch.equal(half, half_split(table, torch.ones(40, dtype=torch.bool), seed=0))
    assert not torch.equal(half, half_split(table, torch.ones(40, dtype=torch.bool), seed=1))


@pytest.mark.parametrize("grouped", [False, True])
def test_half_split_of_ids_does_not_depend_on_the_order_of_rows(grouped: bool) -> None:
    """So that vectors of the same samples in another order are tested on the same ones."""
    draw = np.random.default_rng(3)
    nodes = torch.from_numpy(draw.integers(1, 6, 200))
    groups = torch.from_numpy(draw.integers(0, 60, 200)) if grouped else None
    ids = np.array([f"sample {number}" for number in range(200)])
    table = EmbeddingTable(torch.zeros(200, 1), nodes, groups=groups, ids=ids)
    other = table.rows(torch.from_numpy(draw.permutation(200)))
    assert other.ids is not None
    if other.groups is not None:
        numbers = torch.from_numpy(draw.permutation(60))  # as another file numbers them
        other = replace(other, groups=numbers[other.groups])
    every = torch.ones(200, dtype=torch.bool)
    halves = [
        set(each.ids[half_split(each, every, 0).numpy()]) for each in (table, other) if each.ids is not None
    ]
    assert halves[0] == halves[1]
    numbered = replace(other, instances=torch.arange(200))
    assert torch.equal(half_split(other, every, 0), half_split(numbered, every, 0))
    bare = [half_split(replace(each, ids=None), every, 0).numpy() for each in (table, other)]
    assert set(ids[bare[0]]) != set(other.ids[bare[1]])


def test_half_split_gives_a_lone_sample_to_learning() -> None:
    table = EmbeddingTable(torch.zeros(4, 1), torch.tensor([1, 2, 2, 2]))
    half = half_split(table, torch.tensor([True, True, True, False]), seed=0)
    assert half[0]
    assert not half[3]
    assert int(half[1:3].sum()) == 1


def grouped(sizes: list[int], mixed: float, seed: int) -> EmbeddingTable:
    """Groups of these sizes, each of one label, but for a share of samples that have any."""
    generator = torch.Generator().manual_seed(seed)
    groups = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    n = len(groups)
    nodes = 1 + (groups % 4)
    other = torch.rand(n, generator=generator) < mixed
    nodes[other] = torch.randint(1, 5, (int(other.sum()),), generator=generator)
    order = torch.randperm(n, generator=generator)
    return EmbeddingTable(torch.zeros(n, 1), nodes[order], groups=groups[order])


@pytest.mark.parametrize("mixed", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_half_split_parts_no_group_and_is_even_on_skewed_ones(mixed: float, seed: int) -> None:
    sizes = [60, 40, 30, 25] + [int(20 / (i + 1)) + 1 for i in range(76)]
    table = grouped(sizes, mixed, seed)
    assert table.groups is not None
    half = half_split(table, torch.ones(len(table), dtype=torch.bool), seed)
    both = set(table.groups[half].tolist()) & set(table.groups[~half].tolist())
    assert not both
    for node in range(1, 5):
        mine = table.nodes == node
        largest = int(table.groups[mine].bincount().max())
        assert abs(int(half[mine].sum()) - int((~half)[mine].sum())) <= max(largest, 2), node
        assert 0.35 < float(half[mine].float().mean()) < 0.75, node


def test_half_split_gives_both_halves_a_label_of_two_groups() -> None:
    groups = torch.tensor([0] * 50 + [1] + [2] * 7 + [3] * 2 + [4] * 5)
    nodes = torch.tensor([1] * 51 + [2] * 9 + [3] * 5)
    table = EmbeddingTable(torch.zeros(len(nodes), 1), nodes, groups=groups)
    for seed in range(5):
        half = half_split(table, torch.ones(len(nodes), dtype=torch.bool), seed)
        for node in (1, 2):
            assert set(half[nodes == node].tolist()) == {True, False}
        assert half[nodes == 3].all(), "a label of one group is learned from"


def test_half_split_joins_groups_that_share_an_instance() -> None:
    instances = torch.tensor([0, 0, 1, 2, 3, 4, 5, 6])
    groups = torch.tensor([5, 7, 7, 5, -1, -1, 9, 9])  # instance 0 has rows in 5 and in 7
    table = EmbeddingTable(
        torch.zeros(8, 1), torch.ones(8, dtype=torch.int64), instances=instances, groups=groups
    )
    for seed in range(5):
        half = half_split(table, torch.ones(8, dtype=torch.bool), seed)
        assert len(set(half[:4].tolist())) == 1
        assert half[6] == half[7]
        assert half[0] != half[6], "the two largest are on two sides"
    with pytest.raises(DataError, match="all are of one group"):
        half_split(table, torch.tensor([True] * 4 + [False] * 4), 0)


def test_groups_of_one_instance_each_change_nothing() -> None:
    nodes = torch.arange(30) % 3 + 1
    plain = EmbeddingTable(torch.zeros(30, 1), nodes)
    alone = EmbeddingTable(torch.zeros(30, 1), nodes, groups=torch.arange(30) - 1)
    every = torch.ones(30, dtype=torch.bool)
    assert torch.equal(half_split(plain, every, 3), half_split(alone, every, 3))


def test_a_stratified_subsample_takes_the_same_share_of_every_label_and_loses_none() -> None:
    nodes = torch.tensor([1] * 80 + [2] * 40 + [3])
    rows = stratified_subsample(torch.arange(121) + 7, nodes, 30, seed=0)
    kept = nodes[rows - 7]
    assert rows.tolist() == sorted(rows.tolist())
    first, second, last = (int((kept == node).sum()) for node in (1, 2, 3))
    assert last == 1
    assert first + second == 29
    assert abs(first - 2 * second) <= 2
    assert torch.equal(stratified_subsample(rows, nodes[rows - 7], 30, seed=0), rows)
