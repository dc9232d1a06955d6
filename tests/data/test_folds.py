"""Folds: whole groups, every sample once, balanced at every node, the same whatever the order."""

import numpy as np
import pytest
import torch
from sklearn.model_selection import StratifiedGroupKFold

from labeltree.data import Source, hold_out_fold, make_folds, make_splits
from labeltree.data.splits import fold_number
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([(f"a{i % 3}", f"b{i % 9}", f"c{i}") for i in range(40)])


def case(groups: int, seed: int, mixed: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Long-tailed labels and groups of several samples; a share of the labels is not that of its group."""
    random = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), random.geometric(0.3, groups))
    rank = np.minimum(random.zipf(1.5, groups) - 1, 39)[group]
    other = random.random(len(group)) < mixed
    rank[other] = random.integers(0, 40, int(other.sum()))
    return TREE.leaves[torch.from_numpy(rank)], torch.from_numpy(group)


def counts(folds: torch.Tensor, nodes: torch.Tensor, number: int) -> dict[int, list[int]]:
    """How many samples at or below each node each fold has."""
    found: dict[int, list[int]] = {}
    for fold, node in zip(folds.tolist(), nodes.tolist(), strict=True):
        for ancestor in [*TREE.ancestors_of(node), node] if node >= 0 else [0, -1]:
            found.setdefault(ancestor, [0] * number)[fold] += 1
    return found


def imbalance(folds: torch.Tensor, nodes: torch.Tensor, number: int) -> float:
    """Chi-square distance from equal shares, over all nodes."""
    return sum(
        (here - sum(row) / number) ** 2 / (sum(row) / number)
        for row in counts(folds, nodes, number).values()
        for here in row
    )


@pytest.mark.parametrize("number", [2, 3, 7])
def test_single_samples_are_even_to_within_one_at_every_node(number: int) -> None:
    generator = torch.Generator().manual_seed(number)
    nodes = torch.randint(-1, TREE.num_nodes, (333,), generator=generator)
    folds = make_folds(nodes, TREE, number)
    rows = counts(folds, nodes, number)
    assert len(rows) > 30
    assert all(max(row) - min(row) <= 1 for row in rows.values())


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@pytest.mark.parametrize("mixed", [0.0, 0.3])
@pytest.mark.parametrize(("groups", "number"), [(60, 3), (200, 5), (600, 5)])
def test_groups_stay_whole_and_are_better_balanced_than_by_leaves_alone(
    groups: int, number: int, mixed: float
) -> None:
    nodes, group = case(groups, groups + number, mixed)
    folds = make_folds(nodes, TREE, number, groups=group)
    for one in group.unique():
        assert len(folds[group == one].unique()) == 1
    assert set(folds.tolist()) == set(range(number))
    theirs = torch.empty_like(folds)
    splitter = StratifiedGroupKFold(number, shuffle=True, random_state=0)
    for i, (_, test) in enumerate(splitter.split(nodes, nodes.numpy(), group.numpy())):
        theirs[torch.from_numpy(test)] = i
    assert imbalance(folds, nodes, number) <= imbalance(theirs, nodes, number)


def test_rare_leaves_are_spread_by_their_parent() -> None:
    """Six leaves with one patient each, under one parent: no fold may have two of them."""
    tree = Taxonomy.from_paths([("rare", f"r{i}") for i in range(6)] + [("common", "c")])
    nodes = torch.cat([tree.encode([f"r{i}"]).repeat(2) for i in range(6)] + [tree.encode(["c"] * 60)])
    groups = torch.cat([torch.arange(6).repeat_interleave(2), 6 + torch.arange(60) // 2])
    folds = make_folds(nodes, tree, 6, groups=groups)
    assert sorted(folds[:12:2].tolist()) == list(range(6))


@pytest.mark.parametrize("grouped", [False, True])
def test_the_order_of_the_samples_does_not_matter_but_the_seed_does(grouped: bool) -> None:
    nodes, group = case(120, 5, 0.2)
    ids = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(1)) * 3
    order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(2))

    def folds(rows: torch.Tensor, seed: int) -> torch.Tensor:
        groups = group[rows] if grouped else None
        return make_folds(nodes[rows], TREE, 4, groups=groups, ids=ids[rows], seed=seed)

    straight = folds(torch.arange(len(nodes)), 0)
    assert torch.equal(folds(order, 0), straight[order])
    assert not torch.equal(folds(torch.arange(len(nodes)), 1), straight)


def test_a_sample_without_a_group_is_one_by_itself() -> None:
    nodes = TREE.leaves[:6]
    folds = make_folds(nodes, TREE, 5, groups=torch.tensor([0, 0, -1, -1, -1, -1]))
    assert folds[0] == folds[1]
    assert len(set(folds.tolist())) == 5


def test_no_fold_is_empty() -> None:
    nodes = TREE.leaves[:1].repeat(103)
    folds = make_folds(nodes, TREE, 4, groups=torch.tensor([0] * 100 + [1, 2, 3]))
    assert folds.bincount().tolist().count(1) == 3


def test_bad_arguments_are_named() -> None:
    nodes = TREE.leaves[:4]
    with pytest.raises(ValueError, match="folds is 1"):
        make_folds(nodes, TREE, 1)
    with pytest.raises(DataError, match=r"4 sample\(s\) cannot make 5 folds; ask for at most 4"):
        make_folds(nodes, TREE, 5)
    with pytest.raises(DataError, match=r"2 group\(s\) of 4 samples cannot make 3 folds"):
        make_folds(nodes, TREE, 3, groups=torch.tensor([0, 0, 1, 1]))
    with pytest.raises(DataError, match="2 groups for 4 samples"):
        make_folds(nodes, TREE, 2, groups=torch.tensor([0, 1]))


def source(split: list[str] | None = None) -> Source:
    nodes, group = case(80, 3, 0.1)
    count = len(nodes)
    return Source(
        name="clinic",
        taxonomy=TREE,
        nodes=nodes,
        instances=torch.arange(count),
        store=None,
        rows=torch.arange(count),
        groups=group,
        texts=["note"] * count,
        split=None if split is None else np.resize(np.array(split), count),
    )


def test_every_sample_is_tested_in_one_fold_and_no_patient_is_on_two_sides() -> None:
    tested: list[int] = []
    for number in range(1, 5):
        samples = make_splits(hold_out_fold(source(), f"{number}/4"))
        assert samples.split is not None
        assert samples.groups is not None
        of = {name: set(samples.groups[torch.from_numpy(samples.split == name)].tolist()) for name in
              ("train", "val", "test")}  # fmt: skip
        assert all(of.values())
        assert not of["train"] & of["test"] | of["val"] & of["test"] | of["train"] & of["val"]
        tested += samples.instances[torch.from_numpy(samples.split == "test")].tolist()
    assert sorted(tested) == source().instances.tolist()


def test_what_the_data_set_holds_for_the_test_is_left_out() -> None:
    given = source()
    assert given.groups is not None
    held = torch.from_numpy(np.asarray(given.groups) % 4 == 0)
    samples = given.with_split(np.where(held.numpy(), "test", "train"))
    kept = hold_out_fold(samples, "1/3")
    assert kept.instances.tolist() == given.instances[~held].tolist()


@pytest.mark.parametrize("text", ["0/5", "6/5", "2", "a/5", "1/1", "2/"])
def test_a_fold_is_written_as_two_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=f"fold is '{text}'; it is written as 2/5"):
        fold_number(text)


def test_too_few_patients_name_the_source() -> None:
    with pytest.raises(DataError, match="source 'clinic': 80 group"):
        hold_out_fold(source(), "1/100")
