"""tieredImageNet-H and iNaturalist19-H from miniatures in the layouts of their publishers and of the splits.

Their trees have the depths of the real ones.
"""

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from official_layouts import check, check_refuses_what_is_missing, edit_line, write_list

from labeltree.data import open_source
from labeltree.errors import DataError, TaxonomyError

TENCH, FOX, SETTER = "n01440764", "n02119789", "n02100735"
CHAIN = [f"n{depth}" for depth in range(2, 13)]
EDGES = (f"n1 {TENCH}", *map(" ".join, zip(["n1", *CHAIN], [*CHAIN, FOX], strict=True)), f"n12 {SETTER}")
TITLES = {TENCH: "n01440764 tench", FOX: "n02119789 kit fox", SETTER: "n02100735 English setter"}
NATURE_EDGES = (
    *(f"{above} node_{below}" for above, below in (("root", "A1"), ("root", "C1"))),
    *(f"node_{of}{depth} node_{of}{depth + 1}" for of in "AC" for depth in range(1, 6)),
    "node_A6 nat0000",
    "node_A6 nat0010",
    "node_C6 nat0002",
)
NATURE = ("nat0000", "nat0002", "nat0010")
PARTS = ("train", "val", "test")
Write = Callable[..., Path]


@pytest.fixture
def tiered(tmp_path: Path, write_image: Write) -> Path:
    """ImageNet's training and flat validation images, beside a clone with the lists."""
    root, clone = tmp_path / "imagenet", tmp_path / "imagenet" / "making-better-mistakes"
    write_list(clone / "data" / "tiered_imagenet_isa.txt", *EDGES)
    lists = {}
    for place, wnid in enumerate(TITLES):
        train = [f"{wnid}_{image}.JPEG" for image in range(3)]
        held = [f"ILSVRC2012_val_{2 * place + image:08}.JPEG" for image in range(2)]
        for name in train:
            write_image(root / "train" / wnid / name, place, (10, 12))
        for name in held:
            write_image(root / "val" / name, place, (10, 12))
        lists |= {("train", wnid): train[:2], ("val", wnid): held[:1], ("test", wnid): held[1:]}
    write_image(root / "train" / "n09999999" / "n09999999_1.JPEG", 9, (10, 12))  # a class that the tree lacks
    pack(clone / "dataset_splits" / "splits_tiered.zip", "splits_tieredImageNet-H", lists)
    return root


@pytest.fixture
def nature(tmp_path: Path, write_image: Write) -> Path:
    """The images of three categories of iNaturalist 2019, the tree and the unpacked lists."""
    root = tmp_path / "inat"
    write_list(root / "inaturalist19_isa.txt", *NATURE_EDGES)
    for number, (name, kind) in enumerate(zip(NATURE, ("Birds", "Plants", "Birds"), strict=True)):
        for image, part in enumerate(PARTS):
            file = f"{number}{image}ab.jpg"
            write_image(root / "train_val2019" / kind / str(int(name[3:])) / file, number, (10, 12))
            write_list(root / "splits_inat19" / "splits_inat19" / part / f"{name}.txt", file)
    return root


def pack(file: Path, folder: str, lists: dict[tuple[str, str], list[str]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        for (part, name), images in lists.items():
            archive.writestr(f"{folder}/{part}/{name}.txt", "\n".join(images))
        archive.writestr(f"__MACOSX/{folder}/val/._{TENCH}.txt", "resource fork")


def apply_splits(name: str, data: Path, to: Path, suffix: str = "") -> Path:
    """Copy the images into a folder a class for each split, with the tree."""
    source = open_source(name, data_path=data, image_size=8)
    assert source.names is not None
    assert source.split is not None
    classes = [source.taxonomy.names[int(node)].split()[0] for node in source.nodes]
    for file, part, of in zip(source.names, source.split, classes, strict=True):
        place = to / f"{part}{suffix}" / of / Path(file).name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(data / file, place)
    for tree in data.rglob("*_isa.txt"):
        shutil.copy(tree, to)
    return to


def test_tiered_imagenet_by_its_lists(tiered: Path) -> None:
    source = open_source("tiered-imagenet-h", data_path=tiered, image_size=8)
    assert source.split is not None
    assert source.names is not None
    assert source.split.tolist() == ["train"] * 6 + ["val"] * 3 + ["test"] * 3
    labels = [source.taxonomy.path(int(node)) for node in source.nodes]
    fox, setter = (*CHAIN, TITLES[FOX]), (*CHAIN, TITLES[SETTER])
    assert labels == [
        label for n in (2, 1, 1) for of in ((TITLES[TENCH],), setter, fox) for label in [of] * n
    ]
    assert source.names[0] == f"train/{TENCH}/{TENCH}_0.JPEG"
    assert source.names[-2:] == ["val/ILSVRC2012_val_00000005.JPEG", "val/ILSVRC2012_val_00000003.JPEG"]
    assert check("tiered-imagenet-h", tiered) == ({"train": 6, "val": 3, "test": 3}, (2, *[1] * 10, 2), [])


def test_validation_images_in_folders_and_kaggles_layout(tiered: Path) -> None:
    flat = open_source("tiered-imagenet-h", data_path=tiered, image_size=8)
    for place, wnid in enumerate(TITLES):
        (tiered / "val" / wnid).mkdir()
        for image in range(2):
            name = f"ILSVRC2012_val_{2 * place + image:08}.JPEG"
            (tiered / "val" / name).rename(tiered / "val" / wnid / name)
    kaggle = tiered / "ILSVRC" / "Data" / "CLS-LOC"
    kaggle.mkdir(parents=True)
    for part in ("train", "val"):
        (tiered / part).rename(kaggle / part)
    nested = open_source("tiered-imagenet-h", data_path=tiered, image_size=8)
    assert nested.nodes.tolist() == flat.nodes.tolist()
    assert nested.names is not None
    assert nested.names[0] == f"ILSVRC/Data/CLS-LOC/train/{TENCH}/{TENCH}_0.JPEG"


def test_inaturalist_by_its_lists(nature: Path) -> None:
    source = open_source("inaturalist-2019-h", data_path=nature, image_size=8)
    assert source.names is not None
    assert source.names[:3] == [
        f"train_val2019/{of}ab.jpg" for of in ("Birds/0/00", "Plants/2/10", "Birds/10/20")
    ]
    labels = [source.taxonomy.path(int(node))[-2:] for node in source.nodes]
    assert labels == [("node_A6", "nat0000"), ("node_C6", "nat0002"), ("node_A6", "nat0010")] * 3
    assert check("inaturalist-2019-h", nature) == (dict.fromkeys(PARTS, 3), (*[2] * 6, 3), [])
    check_refuses_what_is_missing("inaturalist-2019-h", nature, "inaturalist19_isa.txt", "train_val2019")


@pytest.mark.parametrize("suffix", ["", "_images"])
def test_splits_that_are_applied(tiered: Path, nature: Path, tmp_path: Path, suffix: str) -> None:
    for name, data in (("tiered-imagenet-h", tiered), ("inaturalist-2019-h", nature)):
        by_lists = open_source(name, data_path=data, image_size=8)
        folder = apply_splits(name, data, tmp_path / name, suffix)
        source = open_source(name, data_path=folder, image_size=8)
        assert source.split is not None
        assert by_lists.split is not None
        assert source.split.tolist() == by_lists.split.tolist()
        assert source.nodes.sort().values.tolist() == by_lists.nodes.sort().values.tolist()
        assert check(name, folder)[2] == []


def test_partial_data_are_told(tiered: Path, nature: Path, tmp_path: Path) -> None:
    def refused(sentence: str, name: str = "tiered-imagenet-h", data: Path = tiered) -> None:
        with pytest.raises((DataError, TaxonomyError), match=sentence):
            open_source(name, data_path=data)

    (tiered / "train" / FOX / f"{FOX}_0.JPEG").unlink()
    (tiered / "val" / "ILSVRC2012_val_00000001.JPEG").unlink()
    refused(rf"names 2 images that are not in '{tiered}', the first of class {FOX}: {FOX}_0.JPEG; unpack")
    clone = tiered / "making-better-mistakes"
    archive = clone / "dataset_splits" / "splits_tiered.zip"
    pack(archive, "splits", {("train", TENCH): ["a.JPEG"], ("train", "n5"): ["b.JPEG"]})
    refused(r"'train' of '.*splits_tiered.zip' has 'n5', which is not a class of '.*tiered_imagenet_isa.txt'")
    pack(archive, "splits", {("train", TENCH): ["a.JPEG"]})
    refused(rf"has no images of 2 of 3 classes, '{SETTER}' the first; it is incomplete")
    archive.write_bytes(archive.read_bytes()[:80])
    refused(r"splits_tiered.zip' is damaged or half downloaded")
    archive.unlink()
    refused(r"no '.*splits_tiered\*' or .* \(the splits, dataset_splits/ of making-better-mistakes; or test/")
    refused(r"there is no '.*tiered_imagenet_isa.txt' or ", data=tiered / "train")
    edit_line(clone / "data" / "tiered_imagenet_isa.txt", 1, "n1")
    (tiered / "splits_tiered").mkdir()
    refused(r"tiered_imagenet_isa.txt', line 1: it has 1 column\(s\), expected 2: parent, child")
    edit_line(clone / "data" / "tiered_imagenet_isa.txt", 1, f"n1 {FOX}")
    refused(r"tiered_imagenet_isa.txt': node 'n02119789' has two parents")

    folder = apply_splits("inaturalist-2019-h", nature, tmp_path / "applied")
    shutil.rmtree(folder / "val")
    refused(r"there is no folder '.*val' beside the other splits", "inaturalist-2019-h", folder)
    (folder / "val" / "nat0007").mkdir(parents=True)
    refused(r"val' has no images of 3 of 3 classes, 'nat0000' the first", "inaturalist-2019-h", folder)
    shutil.copytree(folder / "test" / "nat0002", folder / "val" / "nat0007", dirs_exist_ok=True)
    refused(r"val' has 'nat0007', which is not a class of '.*inaturalist19_isa", "inaturalist-2019-h", folder)
