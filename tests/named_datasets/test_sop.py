"""Stanford Online Products from a miniature in its layout, and MaskCon's two splits."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from official_layouts import check, check_refuses_what_is_missing, edit_line, write_list

from labeltree.data import make_splits, open_source
from labeltree.errors import DataError

pytestmark = pytest.mark.slow

HEAD = "image_id class_id super_class_id path"
# Product, category, and number of images; the test part has products of its own.
TRAIN = ((1, "bicycle", 12), (2, "bicycle", 7), (3, "coffee_maker", 12), (4, "coffee_maker", 8))
TEST = ((5, "bicycle", 12), (6, "coffee_maker", 9), (7, "coffee_maker", 2))


@pytest.fixture
def folder(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    root = tmp_path / "Stanford_Online_Products"
    number = 0
    for half, products in (("train", TRAIN), ("test", TEST)):
        lines = [HEAD]
        for product, category, images in products:
            for view in range(images):
                number += 1
                file = f"{category}_final/11108512287{product}_{view}.JPG"
                write_image(root / file, number)
                lines.append(f"{number} {product} {1 if category == 'bicycle' else 2} {file}")
        write_list(root / f"Ebay_{half}.txt", *lines)
    return tmp_path


def test_split_1_has_products_with_eight_images_and_unseen_ones_for_the_test(folder: Path) -> None:
    source = open_source("sop-split1", data_path=folder)
    found = Counter(zip(source.split.tolist(), source.taxonomy.decode(source.nodes), strict=True))
    assert found == {
        ("train", "bicycle/1"): 12, ("train", "coffee maker/3"): 12, ("train", "coffee maker/4"): 8,
        ("test", "bicycle/5"): 12, ("test", "coffee maker/6"): 9,
    }  # fmt: skip
    assert source.groups is not None
    assert len(source.groups.unique()) == 5
    splits = make_splits(source, val=0.3)
    val, train = splits.of_split("val"), splits.of_split("train")
    assert val.groups is not None
    assert train.groups is not None
    assert not set(val.groups.tolist()) & set(train.groups.tolist())


def test_split_2_has_products_with_twelve_images_two_of_them_for_the_test(folder: Path) -> None:
    source = open_source("sop-split2", data_path=folder)
    found = Counter(zip(source.split.tolist(), source.taxonomy.decode(source.nodes), strict=True))
    assert found == {
        ("train", "bicycle/1"): 10, ("test", "bicycle/1"): 2,
        ("train", "coffee maker/3"): 10, ("test", "coffee maker/3"): 2,
    }  # fmt: skip
    assert source.groups is None
    assert len(make_splits(source, val=0.1).of_split("test")) == 4
    again = open_source("sop-split2", data_path=folder)
    assert again.split.tolist() == source.split.tolist()


def test_the_draw_does_not_depend_on_the_order_of_lines(folder: Path) -> None:
    def held_out() -> set[str]:
        source = open_source("sop-split2", data_path=folder)
        return set(source.paths(np.flatnonzero(source.split == "test").tolist()))

    before = held_out()
    file = folder / "Stanford_Online_Products" / "Ebay_train.txt"
    head, *lines = file.read_text("utf-8").splitlines()
    write_list(file, head, *lines[::-1], end="\r\n")
    assert held_out() == before


def test_the_authors_lists_are_taken_where_they_are(folder: Path) -> None:
    root = folder / "Stanford_Online_Products"
    files = {
        split: [
            f"{category}_final/11108512287{product}_{view}.JPG"
            for product, category in ((1, "bicycle"), (3, "coffee_maker"))
            for view in views
        ]
        for split, views in (("train", range(10)), ("test", (10, 11)))
    }
    for split, listed in files.items():
        write_list(root / "sop_split2" / f"{split}_path.json", json.dumps(listed))
    source = open_source("sop-split2", data_path=folder)
    test = source.paths(np.flatnonzero(source.split == "test").tolist())
    assert test == [str(root / file) for file in files["test"]]
    write_list(root / "sop_split2" / "train_path.json", json.dumps(files["train"][1:]))
    with pytest.raises(DataError, match=r"line 2: '.*_0\.JPG' is in no list of .*remove that folder"):
        open_source("sop-split2", data_path=folder)
    (root / "sop_split2" / "train_path.json").unlink()
    with pytest.raises(DataError, match=r"train_path\.json' is not a list of files"):
        open_source("sop-split2", data_path=folder)


def test_check(folder: Path) -> None:
    root = folder / "Stanford_Online_Products"
    assert check("sop-split1", folder) == ({"train": 32, "test": 21}, (2, 5), [])
    assert check("sop-split2", root) == ({"train": 20, "test": 4}, (2, 2), [])
    check_refuses_what_is_missing("sop-split1", root, "Ebay_train.txt", "Ebay_test.txt", "bicycle_final")
    check_refuses_what_is_missing("sop-split2", root, "Ebay_train.txt")


@pytest.mark.parametrize(
    ("number", "line", "sentence"),
    [
        (2, "1 1 1", r"Ebay_train\.txt', line 2: it has 3 column"),
        (2, "1 one 1 bicycle_final/a.JPG", "line 2: the product is 'one', expected a whole number"),
        (2, "1 1 1 /bicycle_final/a.JPG", r"line 2: '/bicycle_final/a\.JPG' lies outside"),
        (2, "1 5 1 bicycle_final/a.JPG", None),
    ],
)
def test_wrong_lines(folder: Path, number: int, line: str, sentence: str | None) -> None:
    edit_line(folder / "Stanford_Online_Products" / "Ebay_train.txt", number, line)
    if sentence is None:  # one image of a product of the test is too few for the training
        assert "bicycle/5" not in open_source("sop-split2", data_path=folder).taxonomy.decode([1])
        return
    with pytest.raises(DataError, match=sentence):
        open_source("sop-split1", data_path=folder)


def test_a_product_on_both_sides(folder: Path) -> None:
    root = folder / "Stanford_Online_Products"
    head, *lines = (root / "Ebay_test.txt").read_text("utf-8").splitlines()
    write_list(root / "Ebay_test.txt", head, *(line.replace(" 5 1 ", " 1 1 ") for line in lines))
    with pytest.raises(DataError, match="the product 1 is listed for training and for the test"):
        open_source("sop-split1", data_path=folder)


def test_an_image_that_is_missing(folder: Path) -> None:
    (folder / "Stanford_Online_Products" / "bicycle_final" / "111085122871_4.JPG").unlink()
    with pytest.raises(DataError, match=r"1 of 53 images cannot be read: '.*111085122871_4\.JPG'"):
        open_source("sop-split1", data_path=folder)
    # It still counts as one of the product's twelve: skipping changes no split.
    source = open_source("sop-split2", data_path=folder, on_error="skip")
    assert len(source) == 23
