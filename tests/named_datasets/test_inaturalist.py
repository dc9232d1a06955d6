"""iNaturalist on miniatures in the layouts of its three years."""

import json
import shutil
from pathlib import Path

import pytest

from labeltree.data import check_layout, get_dataset, open_source
from labeltree.datasets.inaturalist import RANKS, genus_paths, rank_paths
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

TAXA = {
    "Bufo bufo": ("Animalia", "Chordata", "Amphibia", "Anura", "Bufonidae", "Bufo"),
    "Bufo gargarizans": ("Animalia", "Chordata", "Amphibia", "Anura", "Bufonidae", "Bufo"),
    "Prunella modularis": ("Animalia", "Chordata", "Aves", "Passeriformes", "Prunellidae", "Prunella"),
    "Prunella vulgaris": ("Plantae", "Tracheophyta", "Magnoliopsida", "Lamiales", "Lamiaceae", "Prunella"),
    "Abudefduf saxatilis": ("Animalia", "Chordata", "Actinopterygii", "", "Pomacentridae", "Abudefduf"),
}
SUPER = {
    "Bufo": "Amphibians",
    "Prunella modularis": "Birds",
    "Prunella vulgaris": "Plants",
    "Abudefduf": "Fishes",
}


def category(number: int, species: str, ranks: bool = True) -> dict:
    kind = SUPER.get(species) or SUPER[species.split()[0]]
    found = {"id": number, "name": species, "supercategory": kind}
    return found | (dict(zip(RANKS, TAXA[species], strict=True)) if ranks else {})


def annotated(folder: str, split: str, ranks: bool = True, per_class: int = 2) -> dict:
    """A file of annotations, whose images and ids are in no common order."""
    images, annotations = [], []
    for number in range(len(TAXA)):
        for copy in range(per_class):
            identity = 1000 * (split == "val") + 100 - 10 * number - copy
            images.append({"id": identity, "file_name": f"{folder}/{number}/{split}{copy}.jpg", "width": 8})
            annotations.insert(0, {"id": identity, "image_id": identity, "category_id": number})
    categories = [category(number, species, ranks) for number, species in enumerate(TAXA)]
    return {
        "info": {},
        "images": images,
        "annotations": annotations,
        "categories": categories,
        "licenses": [],
    }


@pytest.fixture
def miniature(tmp_path, write_image):
    def write(year: str) -> Path:
        root = tmp_path / year
        train, val = ("train", "val") if year.startswith("2021") else ("train_val2019", "train_val2019")
        train, val = ("train_val_images",) * 2 if year == "2017" else (train, val)
        names = {"2017": ("train2017", "val2017"), "2019": ("train2019", "val2019"), "2021": ("train", "val")}
        if year == "2021-mini":
            train, names["2021-mini"] = "train_mini", ("train_mini", "val")
        root.mkdir()
        for split, folder, name, copies in (
            ("train", train, names[year][0], 2),
            ("val", val, names[year][1], 1),
        ):
            document = annotated(folder, split, year.startswith("2021"), copies)
            for seed, image in enumerate(document["images"]):
                write_image(root / image["file_name"], seed)
            (root / f"{name}.json").write_text(json.dumps(document))
        if year == "2019":
            listed = [category(number, species) for number, species in enumerate(TAXA)]
            (root / "categories.json").write_text(json.dumps(listed))
        return root

    return write


@pytest.mark.parametrize("year", ["2019", "2021", "2021-mini"])
def test_seven_ranks(miniature, year):
    root = miniature(year)
    source = open_source(f"inaturalist-{year}", data_path=root)
    tree = source.taxonomy
    assert source.split.tolist() == ["train"] * 10 + ["test"] * 5
    assert [tree.names[node] for node in source.nodes[::2][:5]] == list(TAXA)
    assert [tree.names[node] for node in source.nodes[10:]] == list(TAXA)
    assert tree.depth[tree.leaves].unique().tolist() == [7], "depth is rank"
    bufo = tree.find("Bufo bufo")
    assert tree.path(bufo) == (*TAXA["Bufo bufo"], "Bufo bufo")
    assert [n for n in tree.names if "incertae" in n] == ["Pomacentridae (order incertae sedis)"]
    assert source.paths([0])[0].endswith("0/train0.jpg")
    inventory = check_layout(get_dataset(f"inaturalist-{year}"), root)
    assert inventory.labels == (2, 2, 4, 4, 4, 4, 5)
    assert inventory.samples == {"train": 10, "test": 5}


def test_genus_and_species_of_2017(miniature):
    source = open_source("inaturalist-2017", data_path=miniature("2017"))
    assert source.taxonomy.decode(source.nodes[10:]) == [
        "Bufo/Bufo bufo",
        "Bufo/Bufo gargarizans",
        "Prunella (Birds)/Prunella modularis",
        "Prunella (Plants)/Prunella vulgaris",
        "Abudefduf/Abudefduf saxatilis",
    ]


def test_filled_ranks_make_nothing_alike():
    """Two fish of one class, both without an order, share the class and nothing below it."""
    fish = [("a b", "F1", "a"), ("c d", "F2", "c"), ("c e", "F2", "c")]
    listed = [
        {
            "id": n,
            "name": name,
            "kingdom": "K",
            "phylum": None,
            "class": "C",
            "family": family,
            "genus": genus,
        }
        for n, (name, family, genus) in enumerate(fish)
    ]
    paths = rank_paths(listed)
    tree = Taxonomy.from_paths(paths.values())
    first, second, third = (tree.find(name) for name, *_ in fish)
    assert tree.names[int(tree.lca(first, second))] == "C"
    assert tree.names[int(tree.lca(second, third))] == "c"
    assert paths[0][1] == "C (phylum incertae sedis)"
    bare = rank_paths([{"id": 5, "name": "x y", "kingdom": "K"}])[5]
    assert bare[5] == "x y (genus incertae sedis)"
    assert bare[1] == "x y (phylum incertae sedis)"
    twice = genus_paths([{"id": 1, "name": "a b"}, {"id": 2, "name": "a b"}])
    assert twice == {1: ("a", "a b (1)"), 2: ("a", "a b (2)")}
    with pytest.raises(DataError, match="a category has no name"):
        rank_paths([{"id": 1, "name": " "}])


def test_hidden_names_of_2019(miniature):
    root = miniature("2019")
    (root / "categories.json").rename(root / "kept")
    with pytest.raises(
        DataError, match=r"train2019.json' hides .* no .*categories.json' .*categories.json.tar.gz"
    ):
        open_source("inaturalist-2019", data_path=root)
    document = json.loads((root / "train2019.json").read_text())
    document["categories"] = json.loads((root / "kept").read_text())
    (root / "train2019.json").write_text(json.dumps(document))
    assert open_source("inaturalist-2019", data_path=root).taxonomy.max_depth == 7, (
        "put in, as its authors say"
    )


def test_half_unpacked(miniature):
    root = miniature("2021")
    shutil.rmtree(root / "val")
    with pytest.raises(
        DataError, match=r"there is no .*2021/val' \(the images; train.tar.gz and val.tar.gz\)"
    ):
        open_source("inaturalist-2021", data_path=root)
    (root / "val").mkdir()
    with pytest.raises(
        DataError, match=r"5 of 15 images cannot be read: .*val0.jpg' \(there is no such file\)"
    ):
        open_source("inaturalist-2021", data_path=root)
    assert len(open_source("inaturalist-2021", data_path=root, on_error="skip")) == 10


def test_damaged_annotations(miniature):
    root = miniature("2021")
    good = json.loads((root / "train.json").read_text())
    first = good["annotations"][0]
    for change, sentence in (
        ({"annotations": [first, first | {"category_id": 0}]}, "is of category 4 and of 0"),
        ({"annotations": [first | {"image_id": 7}]}, "there is no image 7, which has an annotation"),
        ({"annotations": [first | {"category_id": 77}]}, "is of category 77, which is not described"),
        ({"annotations": [{"id": 1}]}, "an image or an annotation lacks 'image_id'"),
        (
            {"images": [{"id": 1, "file_name": "../x.jpg"}], "annotations": []},
            "lists the image '../x.jpg', which lies outside",
        ),
        ({"images": {}}, "does not hold lists of images, annotations, categories"),
        ({"categories": ["a bird"]}, "does not hold lists of images, annotations, categories"),
    ):
        (root / "train.json").write_text(json.dumps(good | change))
        with pytest.raises(DataError, match=sentence):
            open_source("inaturalist-2021", data_path=root)
    (root / "train.json").write_text(json.dumps(good)[:500])
    with pytest.raises(DataError, match=r"train.json' is not JSON, or only half of it"):
        open_source("inaturalist-2021", data_path=root)
    (root / "train.json").write_text(json.dumps(good | {"annotations": good["annotations"][1:]}))
    source = open_source("inaturalist-2021", data_path=root)
    assert (source.nodes < 0).sum() == 1, "an image without an annotation stays, without a label"
