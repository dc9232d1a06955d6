"""DeepFashion Category and Attribute Prediction from a miniature in its layout."""

from collections.abc import Callable
from pathlib import Path

import pytest
from official_layouts import check, check_refuses_what_is_missing, edit_line, write_list

from labeltree.data import make_splits, open_source
from labeltree.data.images.decode import decode
from labeltree.errors import DataError

CATEGORIES = (("Anorak", 1), ("Blouse", 1), ("Jeans", 2), ("Dress", 3), ("Button-Down", 1))
FILES = [f"img/Item_{number // 2}/img_{number:08}.jpg" for number in range(8)]
LABELS = (1, 1, 2, 3, 3, 4, 4, 5)
SPLITS = ("train", "val", "train", "train", "test", "train", "val", "test")
LISTS = (
    "Anno_coarse/list_category_cloth.txt",
    "Anno_coarse/list_category_img.txt",
    "Eval/list_eval_partition.txt",
)
BOXES = "Anno_coarse/list_bbox.txt"


@pytest.fixture
def folder(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    def write(name: str, heading: str, rows: list[str]) -> None:
        write_list(tmp_path / name, str(len(rows)), heading, *rows)

    write(LISTS[0], "category_name  category_type", [f"{name:<15}{kind}" for name, kind in CATEGORIES])
    write(LISTS[1], "image_name category_label", [f"{f:<70}{c}" for f, c in zip(FILES, LABELS, strict=True)])
    write(LISTS[2], "image_name evaluation_status", [f"{f} {s}" for f, s in zip(FILES, SPLITS, strict=True)])
    write(BOXES, "image_name x_1 y_1 x_2 y_2", [f"{file}  002 003 010 009" for file in FILES[::-1]])
    for seed, file in enumerate(FILES):
        write_image(tmp_path / "Img" / file, seed, (14, 18))
    return tmp_path


def test_reader(folder: Path) -> None:
    source = open_source("deepfashion", data_path=folder, image_size=8)
    assert source.taxonomy.decode(source.nodes) == [
        "upper body/Anorak", "upper body/Anorak", "upper body/Blouse", "lower body/Jeans", "lower body/Jeans",
        "full body/Dress", "full body/Dress", "upper body/Button-Down",
    ]  # fmt: skip
    assert source.split.tolist() == list(SPLITS)
    assert [source.taxonomy.names[node] for node in source.taxonomy.leaves.tolist()] == [
        "Anorak", "Blouse", "Button-Down", "Jeans", "Dress",
    ]  # fmt: skip
    assert make_splits(source).split.tolist() == list(SPLITS)  # the official validation stays


def test_boxes(folder: Path) -> None:
    cropped = open_source("deepfashion-cropped", data_path=folder, image_size=8)
    assert (cropped.load([3])[0].numpy() == decode(folder / "Img" / FILES[3], 8, 3, (2, 3, 8, 6))).all()


def test_check(folder: Path) -> None:
    assert check("deepfashion", folder) == ({"train": 4, "val": 2, "test": 2}, (3, 5), [])
    check_refuses_what_is_missing("deepfashion", folder, *LISTS, "Img/img")
    check_refuses_what_is_missing("deepfashion-cropped", folder, BOXES)


def test_older_folders_and_line_ends(folder: Path) -> None:
    for name in (*LISTS, BOXES):
        write_list(folder / name, *(folder / name).read_text("utf-8").splitlines(), end="\r\n")
    (folder / "Anno_coarse").rename(folder / "Anno")
    (folder / "Img" / "img").rename(folder / "img")
    source = open_source("deepfashion-cropped", data_path=folder, image_size=8)
    assert len(source) == 8
    assert source.paths([0]) == [str(folder / FILES[0])]


@pytest.mark.parametrize(
    ("name", "line", "sentence"),
    [
        (LISTS[0], "Anorak 4", r"list_category_cloth\.txt', line 3: the group is '4', expected 1 or 2 or 3"),
        (LISTS[0], "Anorak", r"line 3: it has 1 column\(s\), expected 2: category, group"),
        (LISTS[1], f"{FILES[0]} 6", r"list_category_img\.txt', line 3: the category is 6, expected 1 to 5"),
        (LISTS[1], f"{FILES[0]}x 1", rf"list_category_img\.txt' has no line for the image '{FILES[0]}'"),
        (LISTS[2], f"{FILES[0]} gallery", "line 3: the split is 'gallery', expected train or val or test"),
        (LISTS[2], f"{FILES[1]} train", rf"line 4: the image '{FILES[1]}' has a line already, 3"),
        (BOXES, f"{FILES[7]} 1 2 3", "line 3: it has 4 column"),
    ],
)
def test_wrong_lines(folder: Path, name: str, line: str, sentence: str) -> None:
    edit_line(folder / name, 3, line)
    with pytest.raises(DataError, match=sentence):
        open_source("deepfashion-cropped", data_path=folder, image_size=8)


def test_names_in_latin_1(folder: Path) -> None:
    (folder / LISTS[0]).write_bytes(b"5\nname type\nD\xe9bardeur 1\nBlouse 1\nJeans 2\nDress 3\nTop 1\n")
    for name in LISTS[1:]:
        content = (folder / name).read_text("utf-8").replace("Item_0/", "D\xe9bardeur/")
        (folder / name).write_bytes(content.encode("latin-1"))
    path = bytes(folder) + b"/Img/img/D\xe9bardeur"
    try:
        (folder / "Img/img/Item_0").rename(path.decode("utf-8", "surrogateescape"))
    except OSError:
        pytest.skip("this file system has no names that are not UTF-8")
    source = open_source("deepfashion", data_path=folder, image_size=8)
    assert source.taxonomy.decode(source.nodes[:1]) == ["upper body/Débardeur"]
    assert source.paths([0])[0].endswith(r"D\xe9bardeur/img_00000000.jpg")


def test_an_image_that_is_missing(folder: Path) -> None:
    (folder / "Img" / FILES[2]).unlink()
    with pytest.raises(DataError, match=r"1 of 8 images cannot be read: '.*img_00000002\.jpg'"):
        open_source("deepfashion", data_path=folder, image_size=8)
    assert len(open_source("deepfashion", data_path=folder, image_size=8, on_error="skip")) == 7
