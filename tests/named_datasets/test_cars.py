"""Stanford Cars from miniatures in its two layouts."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from official_layouts import check, check_refuses_what_is_missing
from scipy.io import savemat

from labeltree.data import open_source
from labeltree.data.images.decode import decode
from labeltree.datasets import cars_taxonomy
from labeltree.datasets.cars import TYPES
from labeltree.errors import DataError

pytestmark = pytest.mark.slow

NAMES = [f"Maker Model {number}" for number in range(1, 197)]
NAMES[173] = "Ram C/V Cargo Van Minivan 2012"
CLASSES = (1, 2, 174, 196)  # an SUV, a sedan, a van, a convertible
BOX = {"bbox_x1": 3, "bbox_y1": 2, "bbox_x2": 12, "bbox_y2": 9}


def save(file: Path, records: list[dict[str, Any]] | None = None, names: list[str] | None = None) -> None:
    """A MATLAB file with a struct array and a cell array, as the official ones."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {}
    if records is not None:
        rows = [tuple(record.values()) for record in records]
        content["annotations"] = np.array([rows], dtype=[(field, "O") for field in records[0]])
    if names is not None:
        content["class_names"] = np.array([names], dtype=object)
    savemat(file, content)


@pytest.fixture
def together(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    """cars_annos.mat and car_ims: two images a class, one of them for the test."""
    records = []
    for number, klass in enumerate(CLASSES * 2):
        name = f"car_ims/{number + 1:06}.jpg"
        write_image(tmp_path / name, number, (20, 14))
        records.append({"relative_im_path": name, **BOX, "class": klass, "test": number // 4})
    save(tmp_path / "cars_annos.mat", records, NAMES)
    return tmp_path


@pytest.fixture
def apart(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    """The devkit and a folder of images for either part."""
    for part in ("train", "test"):
        records = []
        for number, klass in enumerate(CLASSES):
            write_image(tmp_path / f"cars_{part}" / f"{number + 1:05}.jpg", number, (20, 14))
            records.append({**BOX, "class": klass, "fname": f"{number + 1:05}.jpg"})
        place = "devkit/cars_train_annos.mat" if part == "train" else "cars_test_annos_withlabels.mat"
        save(tmp_path / place, records)
    save(tmp_path / "devkit/cars_meta.mat", names=NAMES)
    return tmp_path


LABELS = [
    "SUV/Maker Model 1",
    "sedan/Maker Model 2",
    r"van/Ram C\/V Cargo Van Minivan 2012",
    "convertible/Maker Model 196",
]


@pytest.mark.parametrize("layout", ["together", "apart"])
def test_reader(layout: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(layout)
    source = open_source("cars-196", data_path=folder, image_size=8)
    assert source.taxonomy.decode(source.nodes) == LABELS * 2
    assert source.split.tolist() == ["train"] * 4 + ["test"] * 4
    assert check("cars-196", folder) == ({"train": 4, "test": 4}, (4, 4), [])
    cropped = open_source("cars-196-cropped", data_path=folder, image_size=8)
    file = Path(source.paths([6])[0])
    # Pixels 3 to 12 and 2 to 9, counted from 1, both ends included.
    assert (cropped.load([6])[0].numpy() == decode(file, 8, 3, (2, 1, 10, 8))).all()
    assert (source.load([6])[0].numpy() == decode(file, 8, 3)).all()


def test_types() -> None:
    assert [len(numbers) for numbers in TYPES.values()] == [
        18,
        50,
        36,
        30,
        29,
        14,
        6,
        13,
    ]  # MaskCon's, cab to van
    assert Counter(n for numbers in TYPES.values() for n in numbers) == Counter(range(1, 197))
    tree = cars_taxonomy(NAMES)
    assert (tree.num_leaves, tree.max_depth) == (196, 2)


def test_half_unpacked(together: Path, apart: Path) -> None:
    # `together` and `apart` share a folder: the annotations of all images win; without them the parts count.
    check_refuses_what_is_missing("cars-196", together)
    (apart / "cars_annos.mat").unlink()
    for file in ("devkit/cars_meta.mat", "devkit/cars_train_annos.mat", "cars_test_annos_withlabels.mat"):
        (apart / file).rename(apart / "aside")
        with pytest.raises(DataError, match=f"there is no .*{Path(file).name}"):
            open_source("cars-196", data_path=apart)
        assert not check("cars-196", apart)[0]
        (apart / "aside").rename(apart / file)
    (apart / "cars_test_annos_withlabels.mat").rename(apart / "devkit" / "cars_test_annos_withlabels.mat")
    assert check("cars-196", apart)[2] == []


def test_annotations_that_do_not_fit(apart: Path) -> None:
    file = apart / "cars_test_annos_withlabels.mat"

    def refused(sentence: str) -> None:
        with pytest.raises(DataError, match=sentence):
            open_source("cars-196", data_path=apart, image_size=8)

    save(file, [{**BOX, "fname": "00001.jpg"}])
    refused(r"no field 'class'; those with labels are called cars_test_annos_withlabels\.mat")
    save(file, [{**BOX, "class": 197, "fname": "00001.jpg"}])
    refused(r"give 'cars_test/00001\.jpg' the class 197, expected 1 to 196")
    save(file, [{**BOX, "class": "SUV", "fname": "00001.jpg"}])
    refused("the field 'class' of .* holds values that are not numbers")
    save(file, names=NAMES)
    refused("has no annotations")
    file.write_bytes(b"MATLAB 5.0 MAT-file, truncated")
    refused("cannot be read as a MATLAB file")
    save(apart / "devkit/cars_meta.mat", names=NAMES[:-1])
    save(file, [{**BOX, "class": 1, "fname": "00001.jpg"}])
    refused("name 195 models; Stanford Cars has 196")


def test_an_image_that_is_missing(together: Path) -> None:
    (together / "car_ims" / "000003.jpg").unlink()
    with pytest.raises(
        DataError, match=r"1 of 8 images cannot be read: '.*000003\.jpg' \(there is no such file\)"
    ):
        open_source("cars-196", data_path=together, image_size=8)
    source = open_source("cars-196", data_path=together, image_size=8, on_error="skip")
    assert source.instances.tolist() == [0, 1, 3, 4, 5, 6, 7]
