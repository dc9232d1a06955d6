"""Where errors fall on the tree, against a loop over samples."""

from __future__ import annotations

import torch

from labeltree.evaluation import tree_errors
from labeltree.taxonomy import Taxonomy


def test_errors_are_sorted_by_the_node_where_the_paths_part(taxonomy: Taxonomy) -> None:
    generator = torch.Generator().manual_seed(0)
    target = taxonomy.leaves[torch.randint(len(taxonomy.leaves), (200,), generator=generator)]
    other = taxonomy.leaves[torch.randint(len(taxonomy.leaves), (200,), generator=generator)]
    predicted = torch.where(torch.rand(200, generator=generator) < 0.5, target, other)
    found = tree_errors(predicted, target, taxonomy)

    def path(node: int) -> list[int]:
        return [*taxonomy.ancestors_of(node), node]

    for entry in found.nodes:
        samples = wrong = here = 0
        parted = [0] * entry.depth
        for true, guess in zip(target.tolist(), predicted.tolist(), strict=True):
            shared = [a for a, b in zip(path(true), path(guess), strict=False) if a == b][-1]
            here += true != guess and shared == entry.node
            if entry.node not in path(true):
                continue
            samples += 1
            wrong += true != guess
            if entry.node not in path(guess):
                parted[int(taxonomy.depth[shared])] += 1
        counted = (entry.samples, entry.wrong, entry.errors_here, entry.parted)
        assert counted == (samples, wrong, here, parted), entry.path
        assert entry.stayed == samples - sum(parted)
    assert sum(found.by_depth) == found.errors == sum(entry.errors_here for entry in found.nodes)
    assert found.samples == 200


def test_confusions_are_the_most_frequent_wrong_pairs(taxonomy: Taxonomy) -> None:
    dog, cat, trout, oak = taxonomy.encode(["dog", "cat", "trout", "oak"]).tolist()
    target = torch.tensor([dog] * 5 + [cat] * 3 + [oak])
    predicted = torch.tensor([dog, cat, cat, cat, oak, cat, trout, dog, oak])
    first, *rest = tree_errors(predicted, target, taxonomy, confusions=4).confusions

    assert (first.true, first.predicted, first.lca) == (
        "animal/mammal/dog",
        "animal/mammal/cat",
        "animal/mammal",
    )
    assert (first.count, first.share, first.severity) == (3, 3 / 5, 1)
    assert len(rest) == 3
    assert {entry.count for entry in rest} == {1}
    far = [entry for entry in rest if entry.lca == "/"]
    assert [entry.severity for entry in far] == [3]


def test_no_errors(taxonomy: Taxonomy) -> None:
    found = tree_errors(taxonomy.leaves, taxonomy.leaves, taxonomy)
    assert found.errors == 0
    assert found.confusions == []
    assert found.by_depth == [0] * (taxonomy.max_depth + 1)
    empty = tree_errors(taxonomy.leaves[:0], taxonomy.leaves[:0], taxonomy)
    assert (empty.samples, empty.nodes) == (0, [])
