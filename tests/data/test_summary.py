"""What is said of data before training: counts of every split, and what cannot be measured."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.data import ArrayStore, Source, make_splits, open_source, summarize
from labeltree.data.data_summary import check_held_out_labels
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("top", f"b{i // 4}", f"c{i}") for i in range(12)])
SPLITS = ("train", "val", "test")


def source(
    nodes: torch.Tensor,
    split: Sequence[str] | None = None,
    groups: torch.Tensor | None = None,
    tree: Taxonomy = TREE,
) -> Source:
    rows = torch.arange(len(nodes))
    images = ArrayStore(np.zeros((len(nodes), 1, 1), np.uint8))
    made = Source("made", tree, nodes, rows, images, rows, groups=groups)
    return make_splits(made) if split is None else made.with_split(split)


def warned(made: Source, *parts: str) -> bool:
    return any(all(part in warning for part in parts) for warning in summarize(made).warnings)


def test_counts_of_every_split() -> None:
    nodes = torch.cat([TREE.leaves.repeat(30), torch.tensor([2, 2, -1])])  # b0 is an inner node
    groups = torch.cat([torch.arange(360) // 12, torch.tensor([-1, -1, -1])])
    split = ["train"] * 288 + ["val"] * 36 + ["test"] * 36 + ["train", "test", "test"]
    summary = summarize(source(nodes, split, groups))
    train, val, test = summary.splits.values()
    assert list(summary.splits) == ["train", "val", "test"]
    assert (train.samples, train.groups, train.classes, train.inner, train.missing) == (289, 25, 12, 1, 0)
    assert (test.samples, test.groups, test.classes, test.inner, test.missing) == (38, 5, 12, 1, 1)
    assert train.by_depth == val.by_depth == (1, 3, 12)
    assert (test.single, test.unseen) == (0, 0)
    assert summary.classes == (1, 3, 12)
    assert json.loads(json.dumps(summary.to_dict()))["splits"]["test"]["missing"] == 1
    lines = str(summary).splitlines()
    assert "split  samples  groups  classes  not in train" in "\n".join(lines)
    assert any(line.startswith("test") and line.split()[1:4] == ["38", "5", "12"] for line in lines)
    shown = summary._repr_html_()
    assert shown.count("<tr>") == 4  # the names of the columns, and a row for each split
    assert shown.startswith("<p>data: made, 363 samples (images)</p>")
    assert "<details" in source(nodes)._repr_html_()
    with pytest.raises(DataError, match="no splits yet"):
        summarize(
            Source(
                "made",
                TREE,
                nodes,
                torch.arange(363),
                ArrayStore(np.zeros((363, 1, 1), np.uint8)),
                torch.arange(363),
            )
        )


def test_a_sound_source_gives_no_warning() -> None:
    tree = Taxonomy.from_paths([(f"b{i // 4}", f"c{i}") for i in range(12)])
    assert summarize(source(tree.leaves.repeat(60), tree=tree)).warnings == ()


def test_classes_that_training_has_not_seen_and_why() -> None:
    products = torch.arange(12).repeat_interleave(40)
    held_out = source(TREE.leaves[products], groups=products)
    assert len(held_out.of_split("test").nodes.unique()) == 3  # one of each branch
    unseen = "all 3 classes of the test split (120 samples) have no training sample"
    what = "Top-1, accuracy at the finest depth and the model's own answers there cannot be measured"
    assert warned(held_out, unseen, "(each is one group, and groups are kept whole)", what)
    assert warned(held_out, what, "accuracy at depth 2 and retrieval can")
    assert warned(held_out, "of the val split", "The best epoch is chosen by a search among classes")
    some = ["train" if n < 400 else "test" for n in range(480)]
    some[0:10] = ["test"] * 10
    assert warned(
        source(TREE.leaves[products], some),
        "2 of 3 classes of the test split",
        "they count as errors of top-1",
    )
    meant = source(TREE.leaves[products], ["unseen" if n >= 440 else SPLITS[n % 3] for n in range(480)])
    assert not warned(meant, "no training sample")  # classes that were hidden on purpose are no surprise
    assert summarize(meant).splits["unseen"].unseen == 1


def test_classes_without_training_samples_are_named() -> None:
    """Up to five; those first that training has under another parent, or with another letter."""
    names = [("a", f"x{n}") for n in range(7)] + [("a", "sparrow"), ("b", "Sparrow"), ("b", "robin")]
    names += [("c", "robbin"), ("a", "young"), ("b", "young"), ("c", "young")]
    tree = Taxonomy.from_paths(names)
    learned = tree.encode([("a", "sparrow"), ("c", "robbin"), ("a", "young"), ("b", "young")])
    unseen = tree.encode([*names[:7], ("b", "Sparrow"), ("b", "robin"), ("c", "young")])
    nodes = torch.cat([learned.repeat(9), unseen])
    made = source(nodes, ["train"] * 36 + ["test"] * 10, tree=tree)
    (said,) = [warning for warning in summarize(made).warnings if "have no training sample" in warning]
    assert (
        ": 'b/Sparrow' (training has 'a/sparrow'; if it is the same class, move one of them), 'b/robin' "
        "(training has 'c/robbin'; if it is the same class, move one of them), 'a/x0', 'a/x1', 'a/x2' and 5 "
        "more. Top-1, accuracy"
    ) in said


def test_leaves_without_any_sample_are_named() -> None:
    nodes = TREE.leaves[:5].repeat(30)
    (note,) = summarize(source(nodes)).notes
    named = "'top/b1/c5', 'top/b1/c6', 'top/b1/c7', 'top/b2/c8', 'top/b2/c9' and 2 more"
    assert note == f"7 of 12 leaves of the taxonomy have no sample: {named}"


def test_what_cannot_be_measured() -> None:
    nodes = TREE.leaves.repeat(30)
    every = [SPLITS[n % 3] for n in range(360)]
    assert warned(source(nodes, every), "all labels agree at depth 1 ('top')")
    assert warned(source(nodes, ["train", "test"] * 180), "no validation split")
    assert warned(source(nodes, ["train", "val"] * 180), "no test split")
    single = ["test" if n < 12 else "train" for n in range(360)]
    assert warned(source(nodes, single), "no class of the test split has two samples")
    assert warned(source(nodes, single), "only 12 test samples", "± 28 percentage points")
    pairs = dataclasses.replace(source(nodes, single), groups=torch.arange(360) // 2)
    assert warned(pairs, "only 12 test samples of 6 groups", "± 28", "up to ± 40 where samples of one group")
    half = ["test" if n < 14 else "train" for n in range(360)]
    assert warned(source(nodes, half), "10 of 12 classes of the test split have a single sample")
    one = torch.full((360,), int(TREE.leaves[0]))
    assert warned(source(one, every), "training has a single class, 'top/b0/c0'")
    assert warned(source(torch.full((360,), -1), every), "no training sample has a label of a class")


def test_too_few_held_out_samples_for_what_answers_promise() -> None:
    nodes = TREE.leaves.repeat(10)

    def said(held: int, groups: torch.Tensor | None = None, name: str = "val") -> list[str]:
        split = [name] * held + ["train"] * (108 - held) + ["test"] * 12
        return [one for one in summarize(source(nodes, split, groups)).warnings if "too few for" in one]

    (one,) = said(18)
    assert (
        "only 18 validation samples: too few for unknown classes at 0.05 (19) and a test for drift (20)"
        in one
    )
    assert "about --val 0.19 holds out enough, or 'labeltree calibrate RUN --data DATA'" in one
    (one,) = said(3)
    assert "too few for a coverage of 0.9 (9), unknown classes at 0.05 (19) and a test for drift (20);" in one
    assert not said(20)
    groups = torch.arange(120) // 4
    (one,) = said(40, groups)
    assert "only 10 validation groups: too few for unknown classes" in one
    assert "label more samples" in one, "20 of 27 groups are too many to hold out"
    (one,) = said(4, groups)
    assert "only 1 validation group: too few" in one
    (one,) = said(18, name="calib")
    assert "only 18 calib samples" in one
    assert "about --calib 0.19" in one


def test_a_share_is_not_proposed_where_the_data_say_which_samples_are_held_out(tmp_path: Path) -> None:
    rows = [f"text {n},c{n % 3},{'val' if n % 20 == 0 else 'train'}" for n in range(200)]
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["text,label,split", *rows]), encoding="utf-8")
    (one,) = [one for one in summarize(make_splits(open_source(path))).warnings if "too few for" in one]
    assert "only 10 validation samples" in one
    assert "; mark more samples as 'val' in the data, or 'labeltree calibrate" in one
    assert "--val" not in one


def test_names_that_may_mean_missing_are_counted() -> None:
    tree = Taxonomy.from_paths([("a", "x"), ("a", "unknown"), ("b", "y"), ("b", "other")])
    made = source(tree.leaves.repeat(20), tree=tree)
    assert warned(made, "'a/unknown' (20 samples)", "--missing_labels '[\"unknown\"]'")
    assert warned(made, "'b/other' (20 samples)", "may have nothing in common")


def test_labels_that_no_held_out_sample_has_are_refused() -> None:
    """A column of labels that is all but empty would train for hours, and measure nothing."""
    nodes = torch.tensor([TREE.find(f"top/b{n % 3}") for n in range(200)])
    nodes[:3] = TREE.leaves[[0, 4, 8]]
    splits = ["train" if n < 150 else SPLITS[1 + n % 2] for n in range(200)]
    made = dataclasses.replace(source(nodes, splits), columns={"labels": ("kind", "label")})
    expected = (
        r"only 3 of 200 samples have a label of a class \(column 'label'\), and none of the 25 validation "
        r"and 25 test samples.*Name label columns that are filled \(--table.label_columns '\[\"kind\"\]'\)"
    )
    with pytest.raises(DataError, match=expected):
        check_held_out_labels(made, summarize(made))
    nodes[199] = TREE.leaves[0]
    for allowed in (
        dataclasses.replace(made, own_splits=frozenset({"test"})),
        source(nodes, splits),
        source(nodes[:150], splits[:150]),
    ):
        check_held_out_labels(allowed, summarize(allowed))
