"""CUB-200-2011 from a miniature in its layout, and its three trees."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from official_layouts import check, check_refuses_what_is_missing, edit_line, write_list

from labeltree.cli.main import main
from labeltree.data import fetch, get_dataset, make_splits, open_source
from labeltree.data.images.decode import decode
from labeltree.datasets import cub_taxonomy
from labeltree.errors import DataError

pytestmark = pytest.mark.slow

CLASSES = {
    1: "001.Black_footed_Albatross",
    2: "002.Laysan_Albatross",
    110: "110.Geococcyx",
    200: "200.Common_Yellowthroat",
}
LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt", "bounding_boxes.txt")


@pytest.fixture
def folder(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    """Three images of each of four classes, the third of them for the test."""
    files = [
        f"{name}/{name[4:]}_{number:04}_{number}.jpg" for name in CLASSES.values() for number in range(3)
    ]
    for seed, file in enumerate(files):
        write_image(tmp_path / "images" / file, seed, (20, 12))
    ids = range(1, len(files) + 1)
    write_list(tmp_path / "images.txt", *(f"{i} {file}" for i, file in zip(ids, files, strict=True)))
    labels = [number for number in CLASSES for _ in range(3)]
    write_list(tmp_path / "image_class_labels.txt", *(f"{i} {c}" for i, c in zip(ids, labels, strict=True)))
    write_list(tmp_path / "train_test_split.txt", *(f"{i} {int(i % 3 > 0)}" for i in ids))
    write_list(tmp_path / "classes.txt", *(f"{number} {name}" for number, name in CLASSES.items()))
    write_list(tmp_path / "bounding_boxes.txt", *(f"{i} 2.0 1.0 10.0 6.0" for i in ids))
    return tmp_path


def test_reader(folder: Path) -> None:
    source = open_source("cub-200", data_path=folder, image_size=8)
    assert source.split.tolist() == ["train", "train", "test"] * 4
    assert source.taxonomy.decode(source.nodes[::3]) == [
        "Procellariiformes/Diomedeidae/Phoebastria/Black footed Albatross",
        "Procellariiformes/Diomedeidae/Phoebastria/Laysan Albatross",
        "Cuculiformes/Cuculidae/Geococcyx",
        "Passeriformes/Parulidae/Geothlypis/Common Yellowthroat",
    ]
    assert source.taxonomy.num_leaves == 4
    assert source.paths([0]) == [
        str(folder / "images" / "001.Black_footed_Albatross" / "Black_footed_Albatross_0000_0.jpg")
    ]
    assert len(make_splits(source, val=0.25).of_split("test")) == 4


@pytest.mark.parametrize(
    ("name", "depth", "path"),
    [
        ("cub-200-balanced", 7, None),
        ("cub-200-wikispecies", 6, "Procellariiformes/Diomedeidae/Phoebastria/Laysan Albatross"),
    ],
)
def test_other_trees(folder: Path, name: str, depth: int, path: str | None) -> None:
    source = open_source(name, data_path=folder, image_size=8)
    assert source.taxonomy.depth[source.taxonomy.find("Common Yellowthroat")] == depth
    assert source.taxonomy.names[int(source.nodes[3])] == "Laysan Albatross"
    if path:
        assert source.taxonomy.decode(source.nodes[3:4]) == [path]


def test_boxes(folder: Path) -> None:
    cropped = open_source("cub-200-cropped", data_path=folder, image_size=8)
    file = Path(cropped.paths([0])[0])
    assert (cropped.load([0])[0].numpy() == decode(file, 8, 3, (2, 1, 10, 6))).all()
    whole = open_source("cub-200", data_path=folder, image_size=8)
    assert (whole.load([0])[0].numpy() == decode(file, 8, 3)).all()


def test_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("cub-200", folder) == ({"train": 8, "test": 4}, (3, 3, 3, 3), [])
    check_refuses_what_is_missing("cub-200-cropped", folder, *LISTS, "images")
    assert main(["data", "check", "cub-200", str(folder)]) == 2  # as few samples as these are not published
    said = capsys.readouterr()
    assert "samples: 8 train, 4 test" in said.out
    assert "8 samples in 'train' where 5,994 are published (Wah et al. 2011" in said.out
    assert "is not all of 'cub-200'" in said.err


def test_the_folder_of_the_archive_is_found(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    above = tmp_path_factory.mktemp("above")
    (above / "CUB_200_2011").symlink_to(folder)
    assert len(open_source("cub-200", data_path=above, image_size=8)) == 12


@pytest.mark.parametrize("end", ["\r\n", "\n\n"])
def test_line_ends_and_order(folder: Path, end: str) -> None:
    before = open_source("cub-200", data_path=folder, image_size=8)
    for name in LISTS:
        lines = (folder / name).read_text("utf-8").splitlines()
        write_list(folder / name, *(lines if name == "images.txt" else lines[::-1]), end=end)
    after = open_source("cub-200", data_path=folder, image_size=8)
    assert after.taxonomy.decode(after.nodes) == before.taxonomy.decode(before.nodes)
    assert after.split.tolist() == before.split.tolist()


def test_names_in_latin_1(folder: Path) -> None:
    (folder / "classes.txt").write_bytes(b"1 001.P\xe9trel\n2 002.Laysan\n110 110.G\n200 200.C\n")
    source = open_source("cub-200", data_path=folder, image_size=8)
    assert source.taxonomy.names[int(source.nodes[0])] == "Pétrel"


@pytest.mark.parametrize(
    ("name", "number", "line", "sentence"),
    [
        ("images.txt", 2, "2", r"images\.txt', line 2: it has 1 column"),
        ("images.txt", 2, "1 twice.jpg", r"line 2: the image '1' has a line already, 1"),
        ("images.txt", 2, "2 ../x.jpg", r"line 2: '\.\./x\.jpg' lies outside"),
        ("image_class_labels.txt", 5, "5 3", r"line 5: the class is 3, which 'classes\.txt' does not have"),
        ("image_class_labels.txt", 5, "x 3", r"image_class_labels\.txt' has no line for the image '5'"),
        ("train_test_split.txt", 1, "1 2", r"line 1: the split is '2', expected 1 or 0"),
        ("classes.txt", 4, "201 201.Dodo", r"no class 201 \('Dodo'\); its classes are 1 to 200"),
        ("bounding_boxes.txt", 3, "3 1 2 x 4", r"line 3: the width is 'x', expected a number"),
    ],
)
def test_wrong_lines(folder: Path, name: str, number: int, line: str, sentence: str) -> None:
    edit_line(folder / name, number, line)
    with pytest.raises(DataError, match=sentence):
        open_source("cub-200-cropped", data_path=folder, image_size=8)
    assert any("line" in p or "class" in p for p in check("cub-200-cropped", folder)[2])


def test_images_that_are_missing_or_broken(folder: Path) -> None:
    (folder / "images" / "110.Geococcyx" / "Geococcyx_0000_0.jpg").unlink()
    (folder / "images" / "110.Geococcyx" / "Geococcyx_0001_1.jpg").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"2 of 12 images cannot be read: .*0000_0.jpg' \(there is no such file\); .*empty"
    ):
        open_source("cub-200", data_path=folder, image_size=8)
    source = open_source("cub-200", data_path=folder, image_size=8, on_error="skip")
    assert source.instances.tolist() == [0, 1, 2, 3, 4, 5, 8, 9, 10, 11]
    samples, _, problems = check("cub-200", folder)
    assert samples == {"train": 6, "test": 4}
    assert len(problems) == 1


def test_it_says_where_it_should_be(cache_folder: Path) -> None:
    with pytest.raises(DataError, match=r"no folder '.*cub-200'\. .*from CUB_200_2011\.tgz.*data_path"):
        open_source("cub-200-balanced")
    with pytest.raises(DataError, match="get it from its authors"):
        fetch("cub-200")
    assert get_dataset("cub-200-wikispecies").folder == cache_folder / "cub-200"


# Nodes, leaves by depth, and the sorted edges with species by number, as Barz & Denzler's group has them.
TREES = {
    "cub-200": (368, {3: 4, 4: 196}, "f96ecc050d64bf9d50698f3bacf457a1"),
    "cub-200-balanced": (421, {6: 4, 7: 196}, "6f03399c34276c4194023211dea54f69"),
    "cub-200-wikispecies": (383, {3: 2, 4: 35, 5: 25, 6: 138}, "28dc6e5ffc1f2cd9dbc9610c0725bfb3"),
}


@pytest.mark.parametrize("name", TREES)
def test_trees(name: str) -> None:
    nodes, depths, digest = TREES[name]
    tree = cub_taxonomy(name)
    assert tree.num_nodes == nodes
    found = tree.depth[tree.leaves].bincount().tolist()
    assert {depth: count for depth, count in enumerate(found) if count} == depths
    assert {tree.names[leaf] for leaf in tree.leaves.tolist()} == {str(number) for number in range(1, 201)}
    edges = sorted((tree.names[v], tree.names[int(tree.parent[v])]) for v in range(1, tree.num_nodes))
    assert hashlib.sha256("\n".join(f"{c}<{p}" for c, p in edges).encode()).hexdigest().startswith(digest)
    published = get_dataset(name).published
    assert published is not None
    per_depth = [int((column.unique() >= 0).sum()) for column in tree.ancestors[tree.leaves, 1:].T]
    assert tuple(per_depth) == published.classes
