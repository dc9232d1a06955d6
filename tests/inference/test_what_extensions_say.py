"""What an extension says of itself, learns from, holds out and counts, from tables made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.prototypes_from_names import NamedClasses, NameEvidence
from labeltree.errors import DataError
from labeltree.inference.by_name.named_classes import NamedAccuracy, with_names, worth_text
from labeltree.inference.extend import (
    Extension,
    _accuracies,
    _described,
    _held_out,
    _say_change,
    _to_learn,
    extension_text,
)
from labeltree.inference.place_classes import Placed
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b/z", "b/w"])


def added(path: str, samples: int, held: int, groups: int | None, **more: Any) -> dict[str, Any]:
    return {"class": path, "new": True, "samples": samples, "groups": groups, "held": held, "why": "", **more}


RECORD: dict[str, Any] = {
    "date": "2026-01-02T03:04:05+00:00",
    "data": "new.csv",
    "added": [
        added("a/x", 12, 6, 5, why="'x' is the name of it"),
        added("a/y", 1, 0, 1, new=False),
        added("a/u", 0, 0, None, name=True),
        added("b/z", 1234, 2345, None, name=True),
    ],
    "retired": ["d", "e/f"],
    "accuracies": {"known": 80, "before": 0.9, "after": 0.85, "new": 1020, "of_new": 0.75},
    "notes": ["One.", "Two."],
}


def said(**changes: Any) -> list[str]:
    folder: Any = None  # is not read
    return extension_text(Extension(folder, 3, {**RECORD, **changes})).splitlines()


def test_an_extension_in_lines() -> None:
    assert said() == [
        "extension 3 of 2026-01-02T03:04:05+00:00, from new.csv",
        "  new  a/x ('x' is the name of it): learned from 12 samples of 5 groups, 6 more held out",
        "  more  a/y: learned from 1 sample, none held out: nothing is promised for it",
        "  new   a/u: by its name alone: nothing is promised for it",
        "  new  b/z: learned from 1,234 samples and its name, 2,345 more held out",
        "  retired  d",
        "  retired  e/f",
        "  right of 80 held-out samples of known classes: 90.0% before, 85.0% now",
        "  right of 1,020 held-out samples of new classes: 75.0%",
        "  One.",
        "  Two.",
    ]


def test_an_extension_without_held_out_samples() -> None:
    nothing = {"known": 0, "before": None, "after": None, "new": 0, "of_new": None}
    lines = said(accuracies=nothing, data=None, notes=[], retired=[])
    assert lines[0] == "extension 3 of 2026-01-02T03:04:05+00:00"
    assert lines[-1] == (
        "  no sample of a new class was held out, which takes 10 samples (or groups) of it that the run was "
        "not trained on: how well it is found is not known"
    )
    assert not any("right of" in line for line in lines)
    more = said(accuracies=nothing, added=[RECORD["added"][1]], notes=[], retired=["d"])
    assert more[2:] == ["  retired  d"], "no class is new"


CHOSEN = ChosenClassifier(
    "prototypes", "auto", {"prototypes": 0.875, "lda": 0.5, "probe": 0.75}, 40, ("prototypes", "lda", "probe")
)


def test_what_answers_now_and_before() -> None:
    assert _say_change(CHOSEN, "probe") == (
        "Answers come from the nearest class mean of the embeddings now; before, from a linear probe on the "
        "features. Right: prototypes 87.5%, lda 50.0%, probe 75.0%; --classifier lda|probe takes another."
    )
    new = ChosenClassifier(**{**vars(CHOSEN), "new_class_samples": 7})
    assert "features. Right by the mean of known and new classes: prototypes 87.5%" in _say_change(
        new, "probe"
    )
    assert "the run's own classifier, which cannot have other classes. Right" in _say_change(CHOSEN, "own")
    able = ("prototypes", "probe")
    few = ChosenClassifier(**{**vars(CHOSEN), "few_samples": 3, "offered": able})
    assert _say_change(few, "lda") == (
        "Answers come from the nearest class mean of the embeddings now; before, from a linear discriminant "
        "analysis on the features, which needs held-out samples of new classes. New classes have few "
        "samples, "
        "none held out, and a probe seldom names what has so few; --classifier probe takes another."
    )
    alone = ChosenClassifier("prototypes", "auto", {}, 0, ("prototypes",))
    assert _say_change(alone, "prototypes").endswith("before, from the nearest class mean of the embeddings.")


def table_of(nodes: list[int], groups: list[int] | None = None, **more: Any) -> EmbeddingTable:
    labels = torch.tensor(nodes)
    given = None if groups is None else torch.tensor(groups)
    return EmbeddingTable(torch.eye(len(TREE))[labels.clamp(min=0)], labels, groups=given, **more)


def nodes_of(*paths: str) -> list[int]:
    return [int(TREE.find(path)) for path in paths]


def test_what_cannot_be_learned_from_is_counted() -> None:
    """Two samples without a label, three above the classes; y is new, and z answers already."""
    x, y, z, b = nodes_of("a/x", "a/y", "b/z", "b")
    table = table_of([y, z, -1, 0, z, b, b, b, y])
    old = torch.tensor([0, *nodes_of("a", "a/x", "b", "b/z", "b/w")])  # of the taxonomy before
    found, learned, notes = _to_learn(table, torch.tensor([x, z]), TREE, old)
    assert found.nodes.tolist() == [y, z, z, b, b, b, y]
    assert learned.tolist() == sorted([y, z])
    assert notes == [
        "2 samples have no label, or several, and were left out.",
        "3 samples are labelled 'b', above any class: not learned from.",
    ]
    _, _, notes = _to_learn(table_of([y, -1, b]), torch.tensor([x, z]), TREE, old)
    assert notes == [
        "1 sample has no label, or several, and was left out.",
        "1 sample is labelled 'b', above any class: not learned from.",
    ]
    with pytest.raises(DataError, match="all labels of the data lie above the classes of the run"):
        _to_learn(table_of([b, b]), torch.tensor([x, z]), TREE, old)


X, Y, Z = nodes_of("a/x", "a/y", "b/z")


def held_out(
    nodes: list[int],
    seen: list[int] | None = None,
    groups: list[int] | None = None,
    *,
    set_aside: bool = False,
    seed: int = 0,
) -> np.ndarray[Any, Any]:
    """The split of each sample."""
    known = torch.zeros(len(nodes), dtype=torch.bool)
    known[seen or []] = True
    learned = torch.unique(torch.tensor(nodes))
    found = _held_out(table_of(nodes, groups), known, learned, TREE, seed, set_aside=set_aside)
    return np.asarray(found.split)


def test_a_third_of_ten_samples_is_held_out_and_nothing_of_nine() -> None:
    split = held_out([X] * 12 + [Y] * 9)
    assert sorted(split[:12]) == ["train"] * 8 + ["val"] * 4
    assert set(split[12:]) == {"train"}
    assert (held_out([X] * 10) == "val").sum() in (3, 4)
    assert set(held_out([X] * 9)) == {"train"}
    draws = {tuple(held_out([X] * 12, seed=seed)) for seed in range(4)}
    assert len(draws) > 1, "the seed draws"
    apart = held_out([X] * 20, set_aside=True)
    assert {name: int((apart == name).sum()) for name in set(apart)} == {"val": 5, "calib": 5, "train": 10}


def test_it_takes_ten_groups_and_they_stay_whole() -> None:
    few = np.repeat(np.arange(9), 4).tolist()
    assert set(held_out([X] * 36, groups=few)) == {"train"}, "36 samples of nine groups"
    groups = np.repeat(np.arange(12), 3)
    split = held_out([X] * 36, groups=groups.tolist())
    assert 0 < (split == "val").sum() < 20
    assert all(len(set(split[groups == group])) == 1 for group in range(12))
    ten = [-1, *range(9)]  # a sample without a group is one of its own
    assert (held_out([X] * 10, groups=ten) == "val").any()
    alone = [-1] * 11 + [0]
    assert (held_out([X] * 12, groups=alone) == "val").any()


def test_samples_that_the_run_has_seen_are_not_held_out_nor_those_of_their_groups() -> None:
    assert set(held_out([X] * 12, seen=[0, 1, 2])) == {"train"}, "nine are new to it"
    for seed in range(6):
        split = held_out([X] * 30, seen=[0, 1, 2], seed=seed)
        assert set(split[:3]) == {"train"}
        assert (split == "val").any()
        groups = np.arange(60) // 2
        split = held_out([X] * 60, seen=[0, 4], groups=groups.tolist(), seed=seed)
        assert set(split[[0, 1, 4, 5]]) == {"train"}


def test_a_group_with_a_sample_of_a_small_class_is_learned_from() -> None:
    groups = [*range(20), *range(20)]  # one sample of x and one of another class in each
    nodes = [X] * 20 + [Y] * 5 + [Z] * 15
    for seed in range(6):
        split = held_out(nodes, groups=groups, seed=seed)
        assert set(split[20:25]) == {"train"}, "five samples of y"
        assert set(split[:5]) == {"train"}, "and those of x in their groups"


def test_what_was_learned_of_each_class_is_counted() -> None:
    """Of x 4 samples of 3 groups, two of which are none, and 2 held out; of y what was there before."""
    table = table_of(
        [X, X, X, X, X, X, Y, Y, Z],
        [0, 0, -1, -1, 2, -1, 3, 3, 4],
        split=np.array(["train"] * 4 + ["val", "calib"] + ["train"] * 2 + ["val"]),
    )
    placed = [
        Placed(("a", "x"), "one reason"),
        Placed(("a", "x"), "another"),
        Placed(("a", "x"), "one reason"),
        Placed(("a", "y")),
    ]
    found = _described(table, torch.tensor([X, Y]), torch.tensor([Y]), TREE, placed)
    assert found == [
        {"class": "a/x", "new": True, "samples": 4, "groups": 3, "held": 2, "why": "one reason; another"},
        {"class": "a/y", "new": False, "samples": 2, "groups": 1, "held": 0, "why": ""},
    ]
    plain = table_of([X, X], split=np.array(["train", "val"]))
    (of_x,) = _described(plain, torch.tensor([X]), torch.tensor([], dtype=torch.int64), TREE, placed)
    assert (of_x["groups"], of_x["samples"], of_x["held"]) == (None, 1, 1)


def scorer(classes: list[int], scores: Tensor) -> Any:
    """Scores of the embeddings, which number the samples."""

    class Fake:
        def __init__(self) -> None:
            self.classes = torch.tensor(classes)

        def __call__(self, table: EmbeddingTable) -> Tensor:
            return scores[table.embeddings[:, 0].long()]

    return SimpleNamespace(scores=Fake())


def test_accuracies_of_known_and_of_new_classes() -> None:
    """Old: b and c. New: a, and b and c at other nodes. Rows 0 and 1 are learned from; d has no answer."""
    old, new = Taxonomy.from_paths(["b", "c", "d"]), Taxonomy.from_paths(["a", "b", "c", "d"])
    places = torch.tensor([0, *(int(new.find(name)) for name in "bcd")])
    a, b, c, d = (int(new.find(name)) for name in "abcd")
    nodes = torch.tensor([b, a, b, b, c, c, a, a, a, d])
    split = np.array(["train", "train", *["val"] * 5, *["calib"] * 3])
    points = torch.arange(10.0)[:, None].expand(10, 2)
    table = EmbeddingTable(points, nodes, split=split, geometry="euclidean")
    eye = torch.eye(3)
    # before: b, b, c, b for the four of known classes: three right; now: b, a, c, c: three, other ones
    was = scorer(
        [int(old.find("b")), int(old.find("c"))], eye[torch.tensor([0, 0, 0, 0, 1, 0, 0, 0, 0, 0])][:, :2]
    )
    now = scorer([a, b, c], eye[torch.tensor([1, 0, 1, 0, 2, 0, 0, 1, 2, 0])])
    found = _accuracies(was, now, table, places, torch.tensor([a, b]))
    assert found == {
        "known": 4,
        "before": 0.75,
        "after": 0.5,
        "new": 3,
        "of_new": pytest.approx(1 / 3),
    }
    empty = _accuracies(was, now, table.rows(torch.arange(2)), places, torch.tensor([a, b]))
    assert empty == {"known": 0, "before": None, "after": None, "new": 0, "of_new": None}


def test_what_names_are_worth() -> None:
    evidence = NameEvidence(2.345, torch.zeros(2), 1234)
    names = NamedClasses(torch.tensor([1, 2]), torch.zeros(2, 2), evidence, unit=False)
    worth = "A name is worth 2.3 samples, as 1,234 classes with samples say"
    assert worth_text(names, None) == f"{worth}."
    assert worth_text(names, NamedAccuracy(4321, 0.25, 0.875)) == (
        f"{worth}: known by its name alone, a class of theirs would be found for 25.0% of 4,321 held-out "
        "samples, by its samples for 87.5%."
    )


def test_named_classes_without_samples_are_told_beside_the_others() -> None:
    known = [added("a/x", 4, 0, None), added("b/z", 3, 0, None)]
    found = with_names(known, TREE, [Z, Y], {Z: (), Y: ("why",)})
    assert found == [
        known[0],
        {**known[1], "name": True},
        added("a/y", 0, 0, None, name=True),
    ]
    assert with_names(known, TREE, [], {Y: ()}) == known, "an earlier extension named y"
