"""Tables with texts, with images and texts, and with several images a row."""

import logging

import pandas as pd
import pytest
import torch

from labeltree.data import make_splits, open_source
from labeltree.errors import DataError

TEXTS = ["a barn owl", "a duck", "an eel", "a tawny owl"]


@pytest.fixture
def table(tmp_path, write_image):
    """Write a table of the columns, beside images 0.png to 5.png."""

    def write(suffix=".csv", **columns):
        for seed in range(6):
            write_image(tmp_path / f"{seed}.png", seed)
        path = tmp_path / f"items{suffix}"
        frame = pd.DataFrame(columns)
        frame.to_parquet(path) if suffix == ".parquet" else frame.to_csv(path, index=False)
        return path

    return write


def of(source):
    return source.taxonomy.decode(source.nodes)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_texts(table, suffix):
    for column in ("text", "Review", "description"):
        source = open_source(table(suffix, label=list("abab"), **{column: TEXTS}))
        assert source.modalities == ("text",)
        assert source.read([3, 0]) == [TEXTS[3], TEXTS[0]]
        assert of(source) == list("abab")
        assert (source.groups, source.split) == (None, None)
    with pytest.raises(DataError, match="has texts, no images"):
        source.load([0])
    named = open_source(table(suffix, label=list("abab"), gloss=TEXTS), text_column="gloss")
    assert named.read(range(4)) == TEXTS


def test_texts_may_have_lines_quotes_and_commas(table):
    texts = ['one\ntwo, "three"', "  spaces  ", "ü – 语", "NA"]
    source = open_source(table(label=list("abab"), text=texts))
    assert source.read(range(4)) == [text.strip() for text in texts]


def test_images_with_texts(table):
    path = table(label=list("abab"), image=[f"{i}.png" for i in (0, 1, 0, 2)], text=TEXTS)
    alone = open_source(path)
    assert alone.modalities == ("image",)
    assert alone.rows.tolist() == [0, 1, 0, 2]
    texts = open_source(path, text_column="text")
    assert texts.modalities == ("text",)
    both = open_source(path, image_column="image", text_column="text")
    assert both.modalities == ("image", "text")
    assert torch.equal(both.load(range(4)), alone.load(range(4)))
    assert both.subset([2, 3]).read([0, 1]) == TEXTS[2:]
    assert both.groups.tolist() == alone.groups.tolist() == [0, -1, 0, -1]


def test_several_images_a_row(table):
    path = table(
        label=["a", "b", "a"],
        left=["0.png", None, "4.png"],
        right=["1.png", "3.png", "0.png"],
        split=["test", "train", "test"],
        stars=[1, 2, 3],
    )
    source = open_source(path, image_column=["left", "right"], aspect_columns="stars")
    assert of(source) == ["a", "a", "b", "a", "a"]
    assert source.instances.tolist() == [0, 1, 3, 4, 5]  # row · 2 + column: an empty cell moves nobody
    assert [name[-5:] for name in source.paths(range(5))] == ["0.png", "1.png", "3.png", "4.png", "0.png"]
    # The images of a row are one group, and so are rows that share a file.
    assert source.groups.tolist() == [0, 0, -1, 0, 0]
    assert source.split.tolist() == ["test", "test", "train", "test", "test"]
    assert source.ratings.tolist() == [[1], [1], [2], [3], [3]]
    with_text = open_source(
        path, image_column=["left", "right"], text_column="label", label_columns=["label"]
    )
    assert with_text.read(range(5)) == ["a", "a", "b", "a", "a"]
    assert torch.equal(with_text.load(range(5)), source.load(range(5)))


def test_groups_join_rows_images_and_files(table):
    path = table(
        label=list("abab"),
        left=["0.png", "1.png", "2.png", "4.png"],
        right=["3.png", None, "1.png", "5.png"],
        patient=["x", "y", None, "x"],
    )
    source = open_source(path, image_column=["left", "right"], group_column="patient")
    assert source.groups.tolist() == [0, 0, 1, 1, 1, 0, 0]
    split = make_splits(source, val=0, test=0.3).split
    for group in (0, 1):
        assert len(set(split[source.groups.numpy() == group])) == 1


def test_equal_texts_stay_together_unless_the_table_says(table):
    texts = ["good", "bad", "good", "fine"]
    assert open_source(table(label=list("abab"), text=texts)).groups.tolist() == [0, -1, 0, -1]
    given = open_source(table(label=list("abab"), text=texts, split=["train", "val", "test", "train"]))
    assert given.groups is None
    make_splits(given)


def test_empty_texts_are_counted_and_named(table, caplog):
    path = table(label=list("abab"), text=["one", None, " ", "four"])
    with pytest.raises(DataError, match=r"2 of 4 rows have no text in 'text': lines 3, 4\. Fill them"):
        open_source(path)
    with caplog.at_level(logging.WARNING, "labeltree.data"):
        source = open_source(path, on_error="skip")
    assert "2 of 4 rows have no text" in caplog.text
    assert source.read([0, 1]) == ["one", "four"]
    assert source.instances.tolist() == [0, 3]
    with pytest.raises(DataError, match="4 of 4 rows have no text"):
        open_source(table(label=list("abab"), text=[None] * 4), on_error="skip")


def test_rows_without_an_image_or_a_text(table):
    path = table(
        label=list("abab"), image=["0.png", None, "1.png", "2.png"], text=["one", "two", None, "four"]
    )
    both = {"image_column": "image", "text_column": "text"}
    with pytest.raises(DataError, match="1 of 4 rows have no image in 'image': line 3"):
        open_source(path, **both)
    source = open_source(path, **both, on_error="skip")
    assert source.instances.tolist() == [0, 3]
    (path.parent / "2.png").unlink()
    assert open_source(path, **both, on_error="skip").read([0]) == ["one"]
    with pytest.raises(DataError, match="no row with both an image and a text"):
        open_source(
            table(label=["a", "b"], image=["0.png", None], text=[None, "two"]), **both, on_error="skip"
        )


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ({"words": TEXTS}, {}, "no column of images .* or texts .*: name one as image_column or text_column"),
        ({"words": TEXTS}, {"text_column": "word"}, "no column 'word'; did you mean 'words'"),
        ({"words": TEXTS}, {"image_column": []}, "image_column is empty"),
        ({"left": TEXTS}, {"image_column": ["left", "write"]}, "no column 'write'"),
        ({"image": [["a", "b"]] * 4}, {}, "the column 'image' holds list.*, not text or numbers"),
        ({"words": [b"png"] * 4}, {"text_column": "words"}, "'words' holds binary, not text or numbers"),
    ],
)
def test_wrong_columns_of_samples(table, columns, options, sentence):
    with pytest.raises(DataError, match=sentence):
        open_source(table(".parquet", label=list("abab"), **columns), **options)


def test_kinds_of_cells(table):
    source = open_source(
        table(
            ".parquet",
            text=[1.5, 2.0, 3.25, 4.0],
            label=pd.Categorical(["b", "a", None, "b"]),
            split=pd.array(["train", "val", None, "test"], dtype="string"),
            aspect=pd.array([1, None, 2, 1], dtype="Int64"),
            flag=[True, False, True, True],
        ),
        aspect_columns=["aspect", "flag"],
    )
    assert source.read(range(4)) == ["1.5", "2", "3.25", "4"]
    assert of(source) == ["b", "a", None, "b"]
    assert source.split.tolist() == ["train", "val", "", "test"]
    assert source.ratings.tolist() == [[1, -1], [-1, -1], [2, -1], [1, -1]]
    assert source.aspect_taxonomies[1].decode(source.aspects[:, 1]) == ["True", "False", "True", "True"]


def test_samples_without_a_group_are_counted(tmp_path):
    rows = [f"word{place},{'xy'[place % 2]},{'' if place % 4 == 0 else place // 2}" for place in range(12)]
    (tmp_path / "notes.csv").write_text("\n".join(["text,label,patient", *rows]))
    (said,) = open_source(tmp_path / "notes.csv", group_column="patient", label_columns=["label"]).notes
    assert said.startswith("3 of 12 samples have no 'patient'")
