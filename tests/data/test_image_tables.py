"""Tables: which columns are which, labels, groups, splits, and everything that can be wrong with them."""

import pandas as pd
import pytest
import torch

from labeltree.data import open_source
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow


@pytest.fixture
def table(tmp_path, write_image):
    """Write images and a table of the columns; the column ``image`` names four images unless it is given."""

    def write(suffix=".csv", **columns):
        for seed in range(4):
            write_image(tmp_path / "images" / f"{seed}.png", seed)
        frame = pd.DataFrame({"image": [f"images/{seed}.png" for seed in range(4)]} | columns)
        path = tmp_path / f"birds{suffix}"
        if suffix == ".parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
        return path

    return write


TREE = Taxonomy.from_paths(["bird/owl", "bird/duck", "fish/eel"])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_one_label_column_and_a_taxonomy(table, suffix, tmp_path):
    path = table(suffix, label=["owl", "bird", None, "fish/eel"])
    TREE.save(tmp_path / "tree.json")
    for taxonomy in (TREE, tmp_path / "tree.json", str(tmp_path / "tree.json")):
        source = open_source(path, taxonomy=taxonomy)
        assert source.taxonomy.decode(source.nodes) == ["bird/owl", "bird", None, "fish/eel"]
    assert source.load([3]).shape == (1, 3, 8, 8)
    assert source.paths([1]) == [str(tmp_path / "images" / "1.png")]
    assert source.groups is None
    assert source.split is None
    assert source.name == "birds"


def test_paths_in_one_column_make_a_taxonomy(table):
    source = open_source(table(label=["bird/owl", "bird", "", "fish/eel"]))
    assert source.taxonomy.decode(source.nodes) == ["bird/owl", "bird", None, "fish/eel"]


def test_a_column_per_depth(table):
    columns = {
        "level_2": ["owl", None, None, "owl"],
        "level_1": ["bird", "bird", None, "toy"],
    }
    source = open_source(table(**columns))
    assert source.taxonomy.decode(source.nodes) == ["bird/owl", "bird", None, "toy/owl"]
    renamed = {"genus": columns["level_2"], "family": columns["level_1"]}
    source = open_source(table(**renamed), label_columns=["family", "genus"])
    assert source.taxonomy.decode(source.nodes) == ["bird/owl", "bird", None, "toy/owl"]
    with_tree = open_source(
        table(**renamed),
        label_columns=["family", "genus"],
        taxonomy=Taxonomy.from_paths(["toy/owl", "bird/owl", "bird/duck"]),
    )
    assert with_tree.taxonomy.decode(with_tree.nodes) == ["bird/owl", "bird", None, "toy/owl"]


def test_numbers_are_names(table):
    source = open_source(table(".parquet", label=[10, 2, 10, 3]))
    assert source.taxonomy.decode(source.nodes) == ["10", "2", "10", "3"]
    source = open_source(table(".parquet", label=[10.0, None, 10.0, 3.0]))
    assert source.taxonomy.decode(source.nodes) == ["10", None, "10", "3"]
    source = open_source(table(label=["NA", "null", "01", "1"]))
    assert source.taxonomy.decode(source.nodes) == ["NA", "null", "01", "1"]


def test_a_gap_in_a_label(table):
    with pytest.raises(DataError, match=r"birds\.csv': in 1 of 4 rows (.|\n)*line 3, depth1: it is empty"):
        open_source(table(depth1=["a", None, "b", "b"], depth2=["x", "y", None, "z"]))


def test_labels_that_are_not_in_the_taxonomy(table):
    with pytest.raises(TaxonomyError, match=r"birds\.csv', label: .*'oowl' is not in the taxonomy.*owl"):
        open_source(table(label=["owl", "oowl", None, "eel"]), taxonomy=TREE)


def test_groups_and_splits(table):
    path = table(
        label=["a", "b", "a", "b"], group=["x", None, "x", "y"], split=["train", "Valid", None, "test"]
    )
    source = open_source(path)
    assert source.groups.tolist() == [0, -1, 0, -1]
    assert source.split.tolist() == ["train", "val", "", "test"]
    path = table(label=["a", "b", "a", "b"], patient=[7, 7, 8, 9], fold=["test", "train", "train", "train"])
    source = open_source(path, group_column="patient", split_column="fold")
    assert source.groups.tolist() == [0, 0, -1, -1]
    assert source.split.tolist() == ["test", "train", "train", "train"]


def test_rows_of_one_file_are_one_group(table):
    images = ["images/0.png", "images/1.png", "images/0.png", "images/../images/0.png"]
    source = open_source(table(image=images, label=["a", "b", "c", "a"]))
    assert source.groups.tolist() == [0, -1, 0, 0]
    assert source.rows.tolist() == [0, 1, 0, 0]  # a file is decoded and kept once


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        (
            {"kind": list("abab")},
            {},
            "no column for labels .*it has image, kind: name one as label_columns",
        ),
        ({"label": list("abab")}, {"label_columns": "lable"}, "no column 'lable'; did you mean 'label'"),
        ({"label": list("abab")}, {"label_columns": []}, "label_columns is empty"),
        ({"label": list("abab")}, {"image_column": "img"}, "no column 'img'"),
        ({"label": list("abab")}, {"group_column": "patient"}, "no column 'patient'; it has image, label"),
        ({"label": [None] * 4}, {}, "has no labels: every label is empty"),
        ({"label": list("abab"), "split": ["train", "tst", "", ""]}, {}, "line 3: the split is 'tst'"),
        (
            {"label": list("abab"), "image": ["images/0.png", None, "", ""]},
            {},
            r"3 of 4 rows have no image in 'image': lines 3, 4, 5\. Fill them, or skip",
        ),
    ],
)
def test_wrong_columns(table, columns, options, sentence):
    with pytest.raises(DataError, match=sentence):
        open_source(table(**columns), **options)


def test_images_outside_the_folder(table, tmp_path, write_image):
    (tmp_path / "sub").mkdir()
    path = table(label=list("abab")).rename(tmp_path / "sub" / "t.csv")
    path.write_text("image,label\n../images/0.png,a\n../images/1.png,b\n")
    with pytest.raises(
        DataError, match=r"line 2: the image '\.\./images/0\.png' lies outside the table's folder"
    ):
        open_source(path)
    path.write_text(f"image,label\n{tmp_path}/images/0.png,a\n")
    assert len(open_source(path)) == 1


def test_missing_images(table):
    path = table(image=["images/0.png", "images/9.png", "images/1.png", "images/2.png"], label=list("abab"))
    with pytest.raises(
        DataError, match=r"1 of 4 images cannot be read: '.*9\.png' \(there is no such file\)"
    ):
        open_source(path)
    source = open_source(path, on_error="skip")
    assert source.instances.tolist() == [0, 2, 3]
    assert torch.equal(source.load([1]), open_source(path, on_error="skip").load([1]))


def test_unreadable_tables(tmp_path):
    path = tmp_path / "t.csv"
    with pytest.raises(DataError, match="there is no table"):
        open_source(path)
    path.write_bytes("image,label\nдом.png,a\n".encode("cp1251"))
    with pytest.raises(DataError, match="not UTF-8"):
        open_source(path)
    path.write_text("image,label\n")
    with pytest.raises(DataError, match="has no rows"):
        open_source(path)
    path.write_text("")
    with pytest.raises(DataError, match="cannot be read"):
        open_source(path)
    (tmp_path / "t.parquet").write_text("no parquet")
    with pytest.raises(DataError, match="cannot be read"):
        open_source(tmp_path / "t.parquet")
