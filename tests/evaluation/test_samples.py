"""Which rows are used for what."""

from __future__ import annotations

import torch

from labeltree.evaluation.samples import half_split, thin_out
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.finest import finest_labels


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


def test_half_split_gives_a_lone_sample_to_learning() -> None:
    table = EmbeddingTable(torch.zeros(4, 1), torch.tensor([1, 2, 2, 2]))
    half = half_split(table, torch.tensor([True, True, True, False]), seed=0)
    assert half[0]
    assert not half[3]
    assert int(half[1:3].sum()) == 1


def test_thin_out_takes_the_same_share_of_every_label_and_loses_none() -> None:
    nodes = torch.tensor([1] * 80 + [2] * 40 + [3])
    rows = thin_out(torch.arange(121) + 7, nodes, 30, seed=0)
    kept = nodes[rows - 7]
    assert rows.tolist() == sorted(rows.tolist())
    assert [int((kept == node).sum()) for node in (1, 2, 3)] == [20, 9, 1] or int((kept == 3).sum()) == 1
    assert abs(int((kept == 1).sum()) - 20) <= 1
    assert torch.equal(thin_out(rows, nodes[rows - 7], 30, seed=0), rows)
