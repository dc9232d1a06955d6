"""NABirds from a miniature in its layout."""

from collections.abc import Callable
from pathlib import Path

import pytest
from official_layouts import check, check_refuses_what_is_missing, edit_line, write_list

from labeltree.data import get_dataset, open_source
from labeltree.data.images.decode import decode
from labeltree.errors import DataError, TaxonomyError

CLASSES = (
    "0 Birds", "1 Ducks, Geese, and Swans", "5 Owls", "6 Perching Birds", "20 Common Eider", "21 Snowy Owl",
    "22 Wood-Warblers", "30 Yellow-rumped Warbler",
    "295 Common Eider (Adult male)", "300 Common Eider (Female/juvenile)", "817 Snowy Owl", "820 Barn Owl",
    "900 Yellow-rumped Warbler (Breeding Myrtle)",
)  # fmt: skip
EDGES = (
    "1 0",
    "5 0",
    "20 1",
    "21 5",
    "295 20",
    "300 20",
    "817 21",
    "820 5",
    "6 0",
    "22 6",
    "30 22",
    "900 30",
)
LISTS = (
    "images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt", "hierarchy.txt",
    "bounding_boxes.txt", "images",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    """Two images of each of five classes, one of them for the test; leaves at depths 2 to 4."""
    ids, labels = [], []
    for number in (295, 300, 817, 820, 900):
        for part in range(2):
            ids.append(f"{number:08x}-0000-4000-8000-00000000000{part}")
            labels.append(number)
    files = [f"{number:04}/{image.replace('-', '')}.jpg" for image, number in zip(ids, labels, strict=True)]
    for seed, file in enumerate(files):
        write_image(tmp_path / "images" / file, seed, (16, 24))
    write_list(tmp_path / "images.txt", *map(" ".join, zip(ids, files, strict=True)))
    write_list(tmp_path / "image_class_labels.txt", *(f"{i} {c}" for i, c in zip(ids, labels, strict=True)))
    write_list(tmp_path / "train_test_split.txt", *(f"{image} {n % 2}" for n, image in enumerate(ids)))
    write_list(tmp_path / "bounding_boxes.txt", *(f"{image} 3 4 6 8" for image in ids))
    write_list(tmp_path / "classes.txt", *CLASSES)
    write_list(tmp_path / "hierarchy.txt", *EDGES)
    return tmp_path


def test_reader(folder: Path) -> None:
    source = open_source("nabirds", data_path=folder, image_size=8)
    assert source.split.tolist() == ["test", "train"] * 5
    assert source.taxonomy.decode(source.nodes[::2]) == [
        "Ducks, Geese, and Swans/Common Eider/Common Eider (Adult male)",
        r"Ducks, Geese, and Swans/Common Eider/Common Eider (Female\/juvenile)",
        "Owls/Snowy Owl/Snowy Owl",
        "Owls/Barn Owl",
        "Perching Birds/Wood-Warblers/Yellow-rumped Warbler/Yellow-rumped Warbler (Breeding Myrtle)",
    ]
    assert source.taxonomy.names[0] == "Birds"


def test_images_are_cropped_to_the_birds_unless_asked(folder: Path) -> None:
    source = open_source("nabirds", data_path=folder, image_size=8)
    file = Path(source.paths([5])[0])
    assert (source.load([5])[0].numpy() == decode(file, 8, 3, (3, 4, 6, 8))).all()
    (folder / "bounding_boxes.txt").unlink()
    whole = open_source("nabirds-whole", data_path=folder, image_size=8)
    assert (whole.load([5])[0].numpy() == decode(file, 8, 3)).all()
    with pytest.raises(DataError, match=r"bounding_boxes\.txt"):
        open_source("nabirds", data_path=folder)


def test_check(folder: Path) -> None:
    assert check("nabirds", folder) == ({"train": 5, "test": 5}, (3, 4, 4, 1), [])
    check_refuses_what_is_missing("nabirds", folder, *LISTS)
    published = get_dataset("nabirds").published
    assert published is not None
    assert sum(published.splits.values()) == 48_562
    # 555 leaves: 290 at depth 3 and 265 at depth 4; 1,011 nodes with the root
    assert published.classes[3] == 265
    assert 1 + sum(n for n in published.classes if n is not None) == 1_011


def test_line_ends(folder: Path) -> None:
    before = open_source("nabirds", data_path=folder, image_size=8)
    for name in LISTS[:-1]:
        write_list(folder / name, *(folder / name).read_text("utf-8").splitlines(), end="\r\n")
    after = open_source("nabirds", data_path=folder, image_size=8)
    assert after.taxonomy == before.taxonomy
    assert after.nodes.tolist() == before.nodes.tolist()


@pytest.mark.parametrize(
    ("name", "number", "line", "error", "sentence"),
    [
        ("hierarchy.txt", 3, "20", DataError, r"hierarchy\.txt', line 3: it has 1 column"),
        (
            "hierarchy.txt",
            3,
            "20 99",
            DataError,
            r"line 3: the class is 99, which 'classes\.txt' does not have",
        ),
        ("hierarchy.txt", 3, "20 295", TaxonomyError, r"hierarchy\.txt': "),
        ("hierarchy.txt", 3, "295 1", TaxonomyError, r"hierarchy\.txt': "),
        ("classes.txt", 12, "820 Snowy Owl", TaxonomyError, r"'Owls' has two children named 'Snowy Owl'"),
        (
            "image_class_labels.txt",
            1,
            "{} 821",
            DataError,
            r"line 1: the class is 821, which 'hierarchy\.txt'",
        ),
        (
            "bounding_boxes.txt",
            2,
            "{} 1 2 3 wide",
            DataError,
            r"line 2: the height is 'wide', expected a number",
        ),
    ],
)
def test_wrong_lines(folder: Path, name: str, number: int, line: str, error: type, sentence: str) -> None:
    key = (folder / name).read_text("utf-8").splitlines()[number - 1].split()[0]
    edit_line(folder / name, number, line.format(key))
    with pytest.raises(error, match=sentence):
        open_source("nabirds", data_path=folder, image_size=8)


def test_a_box_beside_its_image_and_a_missing_image(folder: Path) -> None:
    key = (folder / "bounding_boxes.txt").read_text("utf-8").split()[0]
    edit_line(folder / "bounding_boxes.txt", 1, f"{key} 30 4 6 8")
    with pytest.raises(
        DataError, match=r"1 of 10 images cannot be read: .*box .* lies outside its 16 x 24 pixels"
    ):
        open_source("nabirds", data_path=folder, image_size=8)
    assert len(open_source("nabirds-whole", data_path=folder, image_size=8)) == 10
    next((folder / "images" / "0820").iterdir()).unlink()
    assert len(open_source("nabirds", data_path=folder, image_size=8, on_error="skip")) == 8
