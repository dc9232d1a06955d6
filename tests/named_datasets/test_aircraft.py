"""FGVC-Aircraft from a miniature in its official layout."""

from collections.abc import Callable
from pathlib import Path

import pytest
from official_layouts import check, check_refuses_what_is_missing, edit_line, write_list

from labeltree.data import get_dataset, open_source
from labeltree.errors import DataError

VARIANTS = {  # variant → family and manufacturer; two share their family's name, one has a slash in it
    "707-320": ("Boeing 707", "Boeing"),
    "747-100": ("Boeing 747", "Boeing"),
    "747-200": ("Boeing 747", "Boeing"),
    "DHC-1": ("DHC-1", "de Havilland"),
    "F/A-18": ("F/A-18", "McDonnell Douglas"),
}


@pytest.fixture
def data(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    """One image of each variant in every split, and the lists."""
    root = tmp_path / "fgvc-aircraft-2013b" / "data"
    boxes = []
    for number, part in enumerate(("train", "val", "test")):
        names = [f"{number}0000{place}" for place in range(len(VARIANTS))]
        for level, column in (
            ("variant", list(VARIANTS)),
            ("family", [family for family, _ in VARIANTS.values()]),
            ("manufacturer", [maker for _, maker in VARIANTS.values()]),
        ):
            lines = [f"{name} {label}" for name, label in zip(names, column, strict=True)]
            write_list(root / f"images_{level}_{part}.txt", *lines)
        for place, name in enumerate(names):
            write_image(root / "images" / f"{name}.jpg", place, (30, 20))
            boxes.append(f"{name} 5 4 14 13")
    write_list(root / "images_box.txt", *reversed(boxes))
    return root


def test_the_tree_is_that_of_the_lists(data: Path) -> None:
    for path in (data, data.parent, data.parent.parent):
        source = open_source("fgvc-aircraft", data_path=path, image_size=8)
        assert source.split is not None
        assert source.split.tolist() == [part for part in ("train", "val", "test") for _ in VARIANTS]
        labels = [source.taxonomy.path(int(node)) for node in source.nodes[:5]]
        assert labels == [(maker, family, variant) for variant, (family, maker) in VARIANTS.items()]
        assert source.taxonomy.max_depth == 3
    assert check("fgvc-aircraft", data) == ({"train": 5, "val": 5, "test": 5}, (3, 4, 5), [])


def test_as_many_as_the_authors_say() -> None:
    published = get_dataset("fgvc-aircraft").published
    assert published is not None
    assert (sum(published.splits.values()), published.classes) == (10_000, (30, 70, 100))


def test_the_aircraft_alone(data: Path) -> None:
    whole = open_source("fgvc-aircraft", data_path=data, image_size=8)
    alone = open_source("fgvc-aircraft-cropped", data_path=data, image_size=8)
    assert alone.names == whole.names
    assert alone.nodes.tolist() == whole.nodes.tolist()
    write_list(data / "images_box.txt", *(data / "images_box.txt").read_text().splitlines()[1:])
    with pytest.raises(DataError, match=r"images_box.txt' has no line for the image '200004'"):
        open_source("fgvc-aircraft-cropped", data_path=data)


def test_what_is_missing_or_wrong_is_told(data: Path) -> None:
    levels = ("variant", "family", "manufacturer")
    lists = [f"images_{level}_{part}.txt" for level in levels for part in ("train", "val", "test")]
    check_refuses_what_is_missing("fgvc-aircraft", data, *lists, "images")
    check_refuses_what_is_missing("fgvc-aircraft-cropped", data, "images_box.txt")
    with pytest.raises(DataError, match=r"images_variant_train.txt' or .*fgvc-aircraft-2013b.tar.gz"):
        open_source("fgvc-aircraft", data_path=data / "images")
    edit_line(data / "images_family_val.txt", 2, "100001 Boeing 707")
    with pytest.raises(DataError, match="put the variant '747-100' into the family 'Boeing 747' and into"):
        open_source("fgvc-aircraft", data_path=data)
    edit_line(data / "images_family_val.txt", 2, "100009 Boeing 747")
    with pytest.raises(DataError, match=r"images_family_val.txt' has no line for the image '100001'"):
        open_source("fgvc-aircraft", data_path=data)
    edit_line(data / "images_family_val.txt", 2, "100001 Boeing 747")
    edit_line(data / "images_variant_test.txt", 1, "../../x 707-320")
    with pytest.raises(DataError, match="lies outside the data set's folder"):
        open_source("fgvc-aircraft", data_path=data)
    write_list(data / "images_variant_test.txt")
    with pytest.raises(DataError, match=r"images_variant_test.txt' lists nothing"):
        open_source("fgvc-aircraft", data_path=data)
