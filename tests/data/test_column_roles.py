"""A column that is named for something is taken for nothing else by its name; what is taken so is said."""

import numpy as np
import pytest

import labeltree as lt
from labeltree.data import make_splits, open_source, summarize
from labeltree.errors import DataError
from labeltree.inference.load_run import load_run
from labeltree.inference.named_samples import open_other

TEXTS = ["red apple", "green pear", "old saw", "new drill", "sour plum", "long nail"]
KINDS = ["fruit", "fruit", "tool", "tool", "fruit", "tool"]


def write(path, **columns):
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(rows))
    return path


def notes_on_names(source):
    return [note for note in source.notes if "judging by" in note]


@pytest.mark.parametrize("label", ["group", "split", "id", "image", "file", "description"])
def test_a_column_of_labels_is_nothing_else(tmp_path, label):
    path = write(tmp_path / "t.csv", text=TEXTS, **{label: KINDS})
    source = open_source(path, label_columns=[label])
    assert source.columns == {"texts": ("text",), "labels": (label,)}
    assert source.groups is None
    assert source.split is None
    assert notes_on_names(source) == []


def test_aspects_and_texts_that_are_named_are_no_groups_or_labels(tmp_path):
    path = write(tmp_path / "t.csv", text=TEXTS, label=KINDS, group=KINDS)
    assert open_source(path, aspect_columns=["group"]).groups is None
    path = write(tmp_path / "u.csv", category=TEXTS, label=KINDS, split=TEXTS)
    source = open_source(path, text_column="split")
    assert source.split is None
    with pytest.raises(DataError, match=r"'label' is named for something else.*'\[\"label\"\]'"):
        open_source(write(tmp_path / "v.csv", label=TEXTS, what=KINDS), text_column="label")


def test_texts_that_say_which_rows_belong_together_are_still_read(tmp_path):
    path = write(tmp_path / "t.csv", text=TEXTS, label=KINDS)
    assert open_source(path, group_column="text").columns["texts"] == ("text",)
    assert open_source(path, group_column="label").columns["labels"] == ("label",)


def test_a_column_that_is_named_for_labels_can_be_named_for_images_too(tmp_path):
    path = write(tmp_path / "t.csv", image=KINDS, name=TEXTS)
    with pytest.raises(DataError, match=r"'image' is named for something else.*--table.image_column image"):
        open_source(path, label_columns=["image"])


def test_groups_and_splits_that_are_taken_by_their_names_are_said(tmp_path):
    splits = ["train", "train", "val", "val", "test", "test"]
    path = write(tmp_path / "t.csv", text=TEXTS, label=KINDS, group=list("aabbcc"), split=splits)
    (note,) = notes_on_names(open_source(path))
    assert note == (
        "rows with equal 'group' are one group, which no split divides, and 'split' says the split of each "
        "row, judging by their names; --table.group_column and --table.split_column name another, or "
        "'none'"
    )
    assert notes_on_names(open_source(path, group_column="group", split_column="split")) == []
    bare = open_source(path, group_column="none", split_column="none")
    assert bare.groups is None
    assert bare.split is None


def test_ids_of_vectors_are_said_and_can_be_left(tmp_path):
    path = write(tmp_path / "v.csv", id=list("uvwxyz"), label=KINDS, a=range(6), b=range(6))
    source = open_source(path)
    assert source.sample_names()[0] == "u"
    assert "'id' names the samples, judging by its name; --table.id_column" in notes_on_names(source)[0]
    assert open_source(path, id_column="none").sample_names()[0] == "line 2"
    taken = open_source(write(tmp_path / "w.csv", id=KINDS, a=range(6), b=range(6)), label_columns=["id"])
    assert taken.sample_names()[0] == "line 2"


def test_the_summary_says_which_settings_name_other_columns(tmp_path):
    source = make_splits(open_source(write(tmp_path / "t.csv", text=TEXTS, label=KINDS)), val=0)
    line = str(summarize(source)).splitlines()[1]
    assert (
        line == "columns: texts = text; labels = label (others: --table.text_column, --table.label_columns)"
    )


def test_errors_name_the_column_of_groups_and_of_splits(tmp_path):
    path = write(tmp_path / "t.csv", text=TEXTS, label=KINDS, group=KINDS)
    with pytest.raises(DataError, match=r"values of the column 'group'; set table.group_column to another"):
        make_splits(open_source(path))
    path = write(tmp_path / "u.csv", text=TEXTS, label=KINDS, split=["ripe"] * 6)
    with pytest.raises(DataError, match=r"'split' does not say the split, set --table.split_column none"):
        open_source(path)
    path = write(tmp_path / "v.csv", text=TEXTS, group=KINDS)
    with pytest.raises(DataError, match=r"'group', taken as the groups, is the label.*'\[\"group\"\]'"):
        open_source(path)


def test_vectors_join_in_order_where_no_column_is_an_id(tmp_path):
    np.savez(tmp_path / "g.npz", vectors=np.eye(6, dtype=np.float32), id=np.arange(6))
    write(tmp_path / "f.csv", id=[3] * 6, label=KINDS)
    with pytest.raises(DataError, match=r"same id"):
        open_source(tmp_path / "g.npz", label_file=tmp_path / "f.csv")
    source = open_source(tmp_path / "g.npz", label_file=tmp_path / "f.csv", id_column="none")
    assert len(source) == 6


def test_other_samples_of_a_run_have_the_columns_of_its_own(tmp_path):
    """`group` is the label of the run: it makes no groups of samples that are answered without labels."""
    kinds = ["fruit", "tool", "animal"] * 20
    places = np.random.default_rng(0).normal(size=(60, 3)).round(3)
    numbers = {f"n{column}": places[:, column] for column in range(3)}
    path = write(tmp_path / "t.csv", group=kinds, **numbers)
    lt.train(path, table={"label_columns": ["group"]}, out=tmp_path / "run")
    assert open_other(load_run(tmp_path / "run"), path, unlabelled=True).groups is None
