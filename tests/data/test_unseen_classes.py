"""Classes hidden from training: how they are drawn, and what becomes of samples, limits and folds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from labeltree.data import ArrayStore, Source, hold_out_fold, make_splits
from labeltree.data.splits import choose_unseen
from labeltree.errors import DataError, TaxonomyError
from labeltree.split_names import UNSEEN
from labeltree.taxonomy import Taxonomy

PATHS = [
    *(("animal", "mammal", f"m{i}") for i in range(8)),
    *(("animal", "fish", f"f{i}") for i in range(4)),
    ("animal", "worm"),
    *(("plant", "tree", f"t{i}") for i in range(2)),
    ("stone", "granite"),
]
TREE = Taxonomy.from_paths(PATHS)


def source_of(nodes: torch.Tensor) -> Source:
    n = len(nodes)
    return Source(
        name="made",
        taxonomy=TREE,
        nodes=nodes,
        instances=torch.arange(n),
        store=ArrayStore(torch.zeros(n, 2, 2, dtype=torch.uint8)),
        rows=torch.arange(n),
    )


@pytest.fixture
def source() -> Source:
    """Twenty samples a leaf, every fourth for the test."""
    made = source_of(TREE.leaves.repeat(20))
    return made.with_split(np.where(np.arange(len(made)) // len(TREE.leaves) % 4 == 0, "test", ""))


def names(nodes: torch.Tensor) -> set[str]:
    return {TREE.names[node] for node in nodes.tolist()}


def of_split(source: Source, name: str) -> torch.Tensor:
    return source.nodes[torch.from_numpy(np.asarray(source.split) == name)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("wanted", [1, 3, 7, 12, 0.2, 0.5])
def test_every_parent_keeps_a_seen_child_and_gives_its_part(source: Source, wanted: float, seed: int) -> None:
    hidden = choose_unseen(source, wanted, seed=seed)
    count = wanted if isinstance(wanted, int) else round(wanted * len(TREE.leaves))
    assert len(hidden) == len(set(hidden.tolist())) == count
    assert torch.isin(hidden, TREE.leaves).all()
    seen = set(TREE.leaves.tolist()) - set(hidden.tolist())
    for node in range(TREE.num_nodes):  # everything above stays seen
        if node not in TREE.leaves:
            assert any(node in TREE.ancestors_of(leaf) for leaf in seen), TREE.path_name(node)
    gave = {p: sum(name[0] == p for name in names(hidden)) for p in "mft"}
    free = {"m": (8, 7), "f": (4, 3), "t": (2, 1)}
    for p, (size, most) in free.items():  # none could give one less and another one more, and be more even
        for q, (other, room) in free.items():
            if gave[p] > 0 and gave[q] < room and p != q:
                assert (gave[p] - 0.5) / size <= (gave[q] + 0.5) / other + 1e-9
        assert gave[p] <= most


def test_the_seed_draws_and_the_samples_do_not(source: Source) -> None:
    found = {tuple(choose_unseen(source, 4, seed=seed).tolist()) for seed in range(8)}
    assert len(found) > 4
    order = torch.randperm(len(source), generator=torch.Generator().manual_seed(0))
    assert torch.equal(choose_unseen(source.subset(order), 4, seed=3), choose_unseen(source, 4, seed=3))
    fewer, more = choose_unseen(source, 3, seed=3), choose_unseen(source, 7, seed=3)
    assert set(fewer.tolist()) <= set(more.tolist())


def test_whole_categories_are_drawn_at_a_depth(source: Source) -> None:
    assert names(choose_unseen(source, 2, depth=1)) < {"animal", "plant", "stone"}
    with pytest.raises(DataError, match=r"is 3 classes, but of the 3 .* only 2 can be hidden"):
        choose_unseen(source, 3, depth=1)
    # labels that end above the depth stay what they are; tree and granite are only children
    drawn = [names(choose_unseen(source, 2, depth=2, seed=seed)) for seed in range(20)]
    assert set().union(*drawn) == {"mammal", "fish", "worm"}
    with pytest.raises(DataError, match="only 2 can be hidden"):
        choose_unseen(source, 3, depth=2)
    with pytest.raises(DataError, match="unseen_depth is 4, but the tree ends at depth 3"):
        choose_unseen(source, 1, depth=4)


def test_a_class_without_test_samples_is_not_drawn(source: Source) -> None:
    away = torch.from_numpy(np.asarray(source.split) == "test") & torch.isin(
        source.nodes, TREE.encode([f"m{i}" for i in range(6)])
    )
    fewer = source.subset((~away).nonzero()[:, 0])
    for seed in range(6):
        assert not names(choose_unseen(fewer, 3, seed=seed)) & {f"m{i}" for i in range(6)}


def test_samples_of_hidden_classes_are_in_the_test_alone(source: Source) -> None:
    split = make_splits(source, val=0.2, unseen_classes=["fish", "animal/mammal/m0"])
    hidden = {"f0", "f1", "f2", "f3", "m0"}
    assert names(of_split(split, UNSEEN)) == hidden
    assert len(of_split(split, UNSEEN)) == 5 * 15
    assert not names(of_split(split, "train")) & hidden
    assert not names(of_split(split, "val")) & hidden
    assert names(of_split(split, "val")) == names(TREE.leaves) - hidden
    assert torch.equal(of_split(split, "test"), of_split(make_splits(source, val=0.2), "test"))
    assert len(split) == len(source)
    one = make_splits(source, val=0.2, unseen_classes="fish")
    assert names(of_split(one, UNSEEN)) == hidden - {"m0"}


def test_given_validation_samples_are_hidden_as_well(source: Source) -> None:
    given = np.asarray(source.split).astype("<U5")
    given[np.flatnonzero(given == "")[::5]] = "val"
    split = make_splits(source.with_split(given), unseen_classes="plant")
    assert len(of_split(split, UNSEEN)) == 30
    assert not names(of_split(split, "val")) & {"t0", "t1"}


def test_labels_above_a_hidden_class_stay(source: Source) -> None:
    nodes = source.nodes.clone()
    nodes[::5] = TREE.parent[nodes[::5]]
    coarse = dataclasses.replace(source, nodes=nodes)
    split = make_splits(coarse, unseen_classes=["m0", "m1", "m2"])
    assert "mammal" in names(of_split(split, "train"))
    assert names(of_split(split, UNSEEN)) == {"m0", "m1", "m2"}


def test_limits_are_of_what_training_sees_and_thin_the_hidden_alike(source: Source) -> None:
    plain = make_splits(source, val=0.2, unseen_classes="fish")
    limited = make_splits(source, val=0.2, unseen_classes="fish", limit=90)
    assert len(of_split(limited, "train")) + len(of_split(limited, "val")) == 90
    share = 90 / (len(of_split(plain, "train")) + len(of_split(plain, "val")))
    counts = of_split(limited, UNSEEN).bincount()
    assert set(counts[counts > 0].tolist()) == {round(share * 15)}
    assert torch.equal(of_split(limited, "test"), of_split(plain, "test"))
    few = make_splits(source, val=0.2, unseen_classes="fish", train_limit=3)
    assert names(of_split(few, UNSEEN)) == {"f0", "f1", "f2", "f3"}, "no class is lost"
    tested = make_splits(source, val=0.2, unseen_classes="fish", test_limit=20)
    assert torch.equal(of_split(tested, UNSEEN), of_split(plain, UNSEEN))


def test_folds_test_the_hidden_classes_too(source: Source) -> None:
    for fold in ("1/3", "3/3"):
        split = make_splits(hold_out_fold(source, fold), unseen_classes="fish")
        assert names(of_split(split, "test")) == names(TREE.leaves)
        assert not names(of_split(split, "train")) & {"f0", "f1", "f2", "f3"}


def test_what_cannot_be_hidden_is_said(source: Source) -> None:
    def refused(error: type[Exception], match: str, wanted: object, of: Source = source) -> None:
        with pytest.raises(error, match=match):
            make_splits(of, unseen_classes=wanted)  # type: ignore[arg-type]

    refused(TaxonomyError, "unseen_classes names something that is not a node: .*'m9'", ["m9"])
    refused(DataError, "all training samples .* are of the unseen classes", ["animal", "plant", "stone"])
    refused(DataError, "only 12 can be hidden", 13)
    refused(ValueError, "a share between 0 and 1", 1.0)
    refused(ValueError, "1 or more", 0)
    refused(DataError, "empty name", [""])
    in_test = torch.from_numpy(np.asarray(source.split) == "test")
    stones = torch.isin(source.nodes, TREE.encode(["granite"]))
    no_test = source.subset((~(in_test & stones)).nonzero()[:, 0])
    refused(DataError, "no test sample .* is of the unseen classes", "stone", no_test)
    no_train = source.subset((in_test | ~stones).nonzero()[:, 0])
    refused(DataError, "names 'stone', of which 'made' has no sample outside", ["fish", "stone"], no_train)
