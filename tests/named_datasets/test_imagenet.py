"""ImageNet on miniatures in its official layouts, with a WordNet of the test's own."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from labeltree.data import check_layout, get_dataset, open_source
from labeltree.datasets.imagenet_trees import (
    GROUPS,
    imagenet_32_taxonomy,
    imagenet_classes,
    imagenet_graph,
    imagenet_taxonomy,
)
from labeltree.errors import DataError
from labeltree.taxonomy import match_nodes

KIT_FOX, SETTER, TENCH = "n02119789", "n02100735", "n01440764"
# offset: word, hypernyms
SYNSETS = {
    1740: ("entity", []),
    15388: ("animal", [1740]),
    2083346: ("canine", [15388]),
    2098000: ("domestic_animal", [15388]),
    2100735: ("English_setter", [2083346, 2098000]),
    2119789: ("kit_fox", [2083346]),
    1440764: ("tench", [15388]),
}
TRUTH = [TENCH, KIT_FOX, SETTER, KIT_FOX]
IDS = {KIT_FOX: 1, SETTER: 2, TENCH: 3}


@pytest.fixture(autouse=True)
def wordnet(cache_folder) -> Path:
    folder = cache_folder / "wordnet"
    folder.mkdir()
    lines = []
    for offset, (word, above) in SYNSETS.items():
        aims = "".join(f"@ {target:08d} n 0000 " for target in above)
        lines.append(f"{offset:08d} 05 n 01 {word} 0 {len(above):03d} {aims}| a gloss  \n")
    (folder / "data.noun").write_text("".join(lines))
    words = {word.lower(): offset for offset, (word, _) in SYNSETS.items()}
    index = [f"{word} n 1 1 @ 1 1 {offset:08d}  \n" for word, offset in sorted(words.items())]
    (folder / "index.noun").write_text("".join(index))
    (folder / "noun.exc").write_text("geese goose\n")
    return folder


@pytest.fixture
def photos(tmp_path, write_image):
    """Writes the training images, and the validation images flat or in folders."""

    def write(flat: bool = True, below: str = "") -> Path:
        root = tmp_path / "imagenet"
        for number, wnid in enumerate(IDS):
            for image in range(2):
                write_image(root / below / "train" / wnid / f"{wnid}_{image}.JPEG", seed=10 * number + image)
        for number, wnid in enumerate(TRUTH, 1):
            folder = root / below / "val" / ("" if flat else wnid)
            write_image(folder / f"ILSVRC2012_val_{number:08d}.JPEG", seed=100 + number)
        return root

    return write


def write_devkit(root: Path) -> None:
    folder = root / "ILSVRC2012_devkit_t12" / "data"
    folder.mkdir(parents=True)
    truth = "".join(f"{IDS[wnid]}\n" for wnid in TRUTH)
    (folder / "ILSVRC2012_validation_ground_truth.txt").write_text(truth)
    fields = [("ILSVRC2012_ID", object), ("WNID", object), ("words", object), ("num_children", object)]
    rows = [(number, wnid, "words", 0) for wnid, number in IDS.items()] + [(1001, "n00015388", "animal", 3)]
    synsets = np.array(rows, dtype=fields).reshape(-1, 1)
    scipy.io.savemat(folder / "meta.mat", {"synsets": synsets})


def labels(source, split):
    part = source.of_split(split)
    return [source.taxonomy.names[node] for node in part.nodes]


def test_flat_validation_images_with_the_development_kit(photos):
    root = photos()
    write_devkit(root)
    source = open_source("imagenet", data_path=root)
    assert labels(source, "test") == [
        "n01440764 tench", "n02119789 kit fox", "n02100735 English setter", "n02119789 kit fox",
    ]  # fmt: skip
    assert labels(source, "train")[:2] == ["n01440764 tench"] * 2, "classes are listed by name"
    assert source.paths([0]) == [str(root / "train" / TENCH / f"{TENCH}_0.JPEG")]
    tree = source.taxonomy
    setter = tree.find("n02100735 English setter")
    assert tree.path(setter) == ("animal.n.01", "canine.n.01", "n02100735 English setter")
    assert "domestic_animal.n.01" not in tree.names, "the way over the canines adds fewer nodes"
    graph = imagenet_graph(IDS)
    above = [graph.names[node] for node in graph.parents(graph.find("n02100735 English setter"))]
    assert sorted(above) == ["canine.n.01", "domestic_animal.n.01"]
    assert match_nodes(tree, graph).nodes.min() >= 0, "a run on the tree can be judged by the graph"
    inventory = check_layout(get_dataset("imagenet"), root)
    assert inventory.samples == {"train": 6, "test": 4}
    assert inventory.labels == (1, 2, 2)
    assert any("1,281,167 are published" in problem for problem in inventory.problems)


def test_validation_images_in_folders_and_kaggles_layout(photos):
    root = photos(flat=False)
    assert sorted(labels(open_source("imagenet", data_path=root), "test"))[0] == "n01440764 tench"
    (root / "train").rename(root / "elsewhere")
    kaggle = photos(below="ILSVRC/Data/CLS-LOC")
    with (kaggle / "LOC_val_solution.csv").open("w", newline="") as file:
        rows = [(f"ILSVRC2012_val_{n:08d}", f"{wnid} 1 2 3 4 ") for n, wnid in enumerate(TRUTH, 1)]
        csv.writer(file).writerows([("ImageId", "PredictionString"), *rows])
    source = open_source("imagenet", data_path=kaggle)
    assert labels(source, "test")[1] == "n02119789 kit fox"
    assert len(source) == 10


def test_what_is_half_there(photos, tmp_path):
    root = photos()
    with pytest.raises(
        DataError, match=r"lie flat, and nothing says .* nor both .*meta.mat' \(ILSVRC2012_devkit"
    ):
        open_source("imagenet", data_path=root)
    write_devkit(root)
    truth = root / "ILSVRC2012_devkit_t12" / "data" / "ILSVRC2012_validation_ground_truth.txt"
    truth.write_text("3\n1\n1001\n1\n")
    with pytest.raises(DataError, match="line 3: '1001' is not a class of"):
        open_source("imagenet", data_path=root)
    truth.write_text("3\n1\n")
    with pytest.raises(DataError, match=r"val_00000003.JPEG' is not a validation image that"):
        open_source("imagenet", data_path=root)
    (root / "LOC_val_solution.csv").write_bytes(b"ImageId,PredictionString\n\xff,n1\n")
    with pytest.raises(DataError, match=r"LOC_val_solution.csv' has no column ImageId, or"):
        open_source("imagenet", data_path=root)
    (root / "LOC_val_solution.csv").unlink()
    (truth.parent / "meta.mat").write_bytes(b"MATLAB")
    with pytest.raises(DataError, match=r"meta.mat' cannot be read as a MATLAB file"):
        open_source("imagenet", data_path=root)
    packed = tmp_path / "packed"
    (packed / "train").mkdir(parents=True)
    (packed / "val").mkdir()
    (packed / "train" / "n01440764.tar").touch()
    with pytest.raises(DataError, match=r"holds 1 archives such as 'n01440764.tar'; unpack each"):
        open_source("imagenet", data_path=packed)
    os.remove(packed / "train" / "n01440764.tar")
    with pytest.raises(DataError, match="none in a folder such as n01440764"):
        open_source("imagenet", data_path=packed)
    (packed / "val").rmdir()
    with pytest.raises(DataError, match=r"there is no .*/val' or .*ILSVRC2012_img_val.tar"):
        open_source("imagenet", data_path=packed)


def test_broken_photographs_are_named(photos):
    root = photos(flat=False)
    (root / "train" / SETTER / f"{SETTER}_1.JPEG").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"1 of 10 images cannot be read: .*n02100735_1.JPEG' \(the file is empty"
    ):
        open_source("imagenet", data_path=root)
    assert len(open_source("imagenet", data_path=root, on_error="skip")) == 9


def test_without_wordnet(photos, wordnet, monkeypatch):
    root = photos(flat=False)
    with pytest.raises(DataError, match="class 'n09999999' is not a noun of the WordNet in"):
        imagenet_taxonomy([KIT_FOX, "n09999999"])
    (wordnet / "data.noun").unlink()
    monkeypatch.setattr("labeltree.datasets.wordnet.INSTALLED", root)
    with pytest.raises(DataError, match="'labeltree data get wordnet' fetches them"):
        open_source("imagenet", data_path=root)


def test_the_hierarchy_files_of_the_robustness_library(photos):
    root = photos(flat=False)
    with pytest.raises(DataError, match=r"there is no .*class_hierarchy.txt' or .*wordnet.is_a.txt'"):
        open_source("imagenet-robustness", data_path=root)
    edges = [("n1", "n2"), ("n2", TENCH), ("n1", "n3"), ("n2", SETTER), ("n3", SETTER), ("n3", KIT_FOX)]
    text = "".join(f"{parent} {child}\n" for parent, child in [*edges, ("n1", "n9")])
    (root / "wordnet.is_a.txt").write_text(text)
    (root / "words.txt").write_text(f"n1\tentity\nn3\tcanine, canid\n{SETTER}\tEnglish setter\n")
    tree = open_source("imagenet-robustness", data_path=root).taxonomy
    assert tree.path(tree.find(f"{SETTER} English setter")) == (
        "n3 canine, canid",
        f"{SETTER} English setter",
    ), "of two parents the last line decides"
    assert "n9" not in tree.names
    assert tree.path(tree.find(TENCH)) == ("n2", TENCH)
    (root / "class_hierarchy.txt").write_text("n1 n2\nn2\n")
    with pytest.raises(DataError, match=r"class_hierarchy.txt', line 2: expected two fields"):
        open_source("imagenet-robustness", data_path=root)
    (root / "class_hierarchy.txt").write_text(text.replace(TENCH, "n5"))
    with pytest.raises(DataError, match="has no node for 1 of 3 classes, 'n01440764' the first"):
        open_source("imagenet-robustness", data_path=root)
    (root / "class_hierarchy.txt").write_text(text)
    again = open_source("imagenet-robustness", data_path=root).taxonomy
    assert again.path(again.find(SETTER))[0] == "n2", "without names; and the rule of YOLO9000 chooses"


def test_the_thousand_classes():
    classes = imagenet_classes()
    assert len({c.wnid for c in classes}) == 1000
    counts = np.bincount([c.group for c in classes])
    assert counts.tolist() == [61, 123, 59, 95, 60, 130, 70, 53, 105, 71, 93, 80]
    by_wnid = sorted(classes)
    assert [c.name for c in by_wnid[:2]] == ["n01440764 tench", "n01443537 goldfish"]
    assert GROUPS[by_wnid[0].group] == "reptile or aquatic vertebrate"
    assert by_wnid[-1].wnid == "n15075141"
    assert [c.wnid for c in classes if c.words == "crane"] == ["n02012849", "n03126707"]
    tree = imagenet_32_taxonomy()
    assert (tree.num_nodes, tree.max_depth) == (1013, 2)
