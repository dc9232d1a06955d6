"""Grocery Store from a miniature in its layout, with the class whose folders disagree."""

from collections.abc import Callable
from pathlib import Path

import pytest
from official_layouts import check, check_refuses_what_is_missing, edit_line, write_list

from labeltree.cli.main import main
from labeltree.data import fetch, get_dataset, open_source
from labeltree.data.data_summary import summarize
from labeltree.errors import DataError

HEAD = (
    "Class Name (str),Class ID (int),Coarse Class Name (str),Coarse Class ID (int),Iconic Image Path (str),"
    "Product Description Path (str)"
)
CLASSES = {  # folder below Fruit, Packages or Vegetables → class number, and the path of its icon
    "Fruit/Apple/Granny-Smith": (1, "Fruit/Apple/Granny-Smith/Granny-Smith_Iconic.jpg"),
    "Fruit/Avocado": (5, "Fruit/Avocado/Avocado_Iconic.jpg"),
    "Packages/Milk/Arla-Standard-Milk": (
        39,
        "Packages/Milk/Arla-Standard-Milk/Arla-Standard-Milk_Iconic.jpg",
    ),
    "Vegetables/Mushroom/Brown-Cap-Mushroom": (
        67,
        "Vegetables/Mushroom/Brown-Cap-Mushroom/Brown-Cap-Mushroom_Iconic.jpg",
    ),
}
MISLAID = ("Vegetables/Mushroom/Brown-Cap-Mushroom", "Vegetables/Brown-Cap-Mushroom")


@pytest.fixture
def clone(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    """Two images of each of four classes in every split."""
    root = tmp_path / "clone" / "dataset"
    rows = [HEAD]
    for folder, (number, icon) in CLASSES.items():
        name, coarse = folder.split("/")[-1], folder.split("/")[1]
        rows.append(f"{name},{number},{coarse},{number // 2},/iconic-images-and-descriptions/{icon},/x.txt")
    write_list(root / "classes.csv", *rows)
    for part in ("train", "val", "test"):
        lines = []
        for folder, (number, _) in CLASSES.items():
            place = folder if part != "train" else folder.replace(*MISLAID)
            for image in (1, 2):
                file = f"{part}/{place}/{folder.split('/')[-1]}_{image:03}.jpg"
                write_image(root / file, number, (348, 348))
                lines.append(f"{file}, {number}, {number // 2}")
        write_list(root / f"{part}.txt", *lines)
    return tmp_path / "clone"


def test_the_lists_decide_what_an_image_shows(clone: Path) -> None:
    source = open_source("grocery-store", data_path=clone, image_size=8)
    assert source.split is not None
    assert source.split.tolist() == [part for part in ("train", "val", "test") for _ in range(8)]
    labels = source.taxonomy.decode(source.nodes)
    assert labels[::2] == list(CLASSES) * 3
    assert source.taxonomy.num_leaves == 4
    assert source.names is not None
    assert source.names[6] == "train/Vegetables/Brown-Cap-Mushroom/Brown-Cap-Mushroom_001.jpg"
    for path in (clone / "dataset", clone.parent / "parent"):
        if not path.is_dir():
            path.mkdir()
            clone.rename(path / "GroceryStoreDataset")
        again = open_source("grocery-store", data_path=path, image_size=8)
        assert again.taxonomy.decode(again.nodes) == labels


def test_as_a_plain_folder_the_mislaid_class_is_named(clone: Path) -> None:
    """A class without training samples, and its namesake."""
    (warning,) = [
        warning
        for warning in summarize(open_source(clone / "dataset", image_size=8)).warnings
        if "of the test split" in warning and "have no training sample" in warning
    ]
    assert (
        "'Vegetables/Mushroom/Brown-Cap-Mushroom' (training has 'Vegetables/Brown-Cap-Mushroom'; if it is "
        "the same class, move one of them)"
    ) in warning


def test_what_is_missing_or_wrong_is_told(clone: Path) -> None:
    root = clone / "dataset"
    assert check("grocery-store", clone) == ({"train": 8, "val": 8, "test": 8}, (3, 4, 3), [])
    check_refuses_what_is_missing("grocery-store", root, "classes.csv", "train.txt", "val.txt", "test.txt")
    edit_line(root / "val.txt", 2, "val/Fruit/x.jpg, 7, 3")
    with pytest.raises(DataError, match=r"val.txt', line 2: the class is 7, which 'classes.csv' does not"):
        open_source("grocery-store", data_path=clone)
    edit_line(root / "val.txt", 2, "../../x.jpg, 1, 0")
    with pytest.raises(DataError, match="lies outside the data set's folder"):
        open_source("grocery-store", data_path=clone)
    edit_line(root / "classes.csv", 3, "Avocado,five,Avocado,1,/icons/Fruit/Avocado/x.jpg,/x.txt")
    with pytest.raises(DataError, match=r"classes.csv', line 3: it describes no class"):
        open_source("grocery-store", data_path=clone)
    edit_line(root / "classes.csv", 1, "a,b")
    with pytest.raises(DataError, match=r"has no column 'Class Name \(str\)'"):
        open_source("grocery-store", data_path=clone)


def test_how_to_get_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    place = get_dataset("grocery-store").folder
    with pytest.raises(DataError) as caught:
        fetch("grocery-store")
    for part in ("117 MB", "licence MIT", "--data_path"):
        assert part in str(caught.value)
    line = f"git clone --depth 1 https://github.com/marcusklasson/GroceryStoreDataset '{place}'"
    assert line in str(caught.value)
    assert main(["data", "get", "grocery-store"]) == 2
    assert line in capsys.readouterr().err
