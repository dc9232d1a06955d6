"""Data sets of other libraries: torchvision's and Hugging Face's kinds, and what is unclear in them."""

import doctest
import io

import numpy as np
import pytest
import torch
from PIL import Image

from labeltree.data import adapters, from_dataset, make_splits
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["animal/cat", "animal/dog", "plant/oak"])
CLASSES = ["oak", "cat", "dog"]


def picture(seed, size=(8, 8), mode="RGB"):
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8), mode)


class Items:
    """As torchvision's data sets are: items by number, classes by name."""

    classes = CLASSES

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, row):
        item = self.items[row]
        if isinstance(item, Exception):
            raise item
        return item


class ClassLabel:
    dtype = "int64"

    def __init__(self, names):
        self.names = names


class Value:
    def __init__(self, dtype):
        self.dtype = dtype


class Picture:
    dtype = "PIL.Image.Image"


Picture.__name__ = "Image"


class Columns:
    """As Hugging Face's data sets are: features, columns by name, rows by number."""

    def __init__(self, features, columns):
        self.features = features
        self.columns = columns

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key):
        if isinstance(key, str):
            return self.columns[key]
        return {name: values[key] for name, values in self.columns.items()}


def columns(n=6, **more):
    features = {"image": Picture(), "label": ClassLabel(CLASSES), "caption": Value("string")}
    values = {"image": [picture(i) for i in range(n)], "label": [i % 3 for i in range(n)]}
    values["caption"] = [f"picture {i}" for i in range(n)]
    return Columns(features | {name: Value("int64") for name in more}, values | more)


def names(source):
    return [None if node < 0 else source.taxonomy.names[node] for node in source.nodes.tolist()]


def test_items_of_image_and_class():
    items = Items([(picture(i), i % 3) for i in range(6)])
    source = from_dataset(items, TREE, split="train", name="mine")
    assert (source.name, len(source), source.image_shape) == ("mine", 6, (3, 8, 8))
    assert names(source) == ["oak", "cat", "dog"] * 2
    assert source.split.tolist() == ["train"] * 6
    assert np.array_equal(source.load([4])[0].numpy(), np.asarray(picture(4)).transpose(2, 0, 1))
    flat = from_dataset(items)
    assert (flat.taxonomy.max_depth, flat.split) == (1, None)
    other = from_dataset(items, TREE, classes=["cat", "cat", "oak"])
    assert names(other)[:3] == ["cat", "cat", "oak"]


def test_targets_spare_reading_images_for_their_labels():
    items = Items([(picture(i), 0) for i in range(3)])
    items.targets = torch.tensor([2, 1, 0])
    assert names(from_dataset(items, TREE)) == ["dog", "cat", "oak"]
    part = torch.utils.data.Subset(Items([(picture(i), i % 3) for i in range(6)]), [5, 3])
    assert names(from_dataset(part, TREE)) == ["dog", "oak"], "the classes are those of the whole"


def test_a_data_set_of_torchvision(tmp_path, write_image):
    from torchvision.datasets import ImageFolder

    for seed, name in enumerate(["cat", "dog", "oak", "oak"]):
        write_image(tmp_path / name / f"{seed}.png", seed)
    source = from_dataset(ImageFolder(str(tmp_path)), TREE)
    assert names(source) == ["cat", "dog", "oak", "oak"]


def test_columns_with_class_labels():
    source = from_dataset(columns(), TREE)
    assert source.modalities == ("image",)
    assert names(source)[:3] == CLASSES
    both = from_dataset(columns(), TREE, image="image", text="caption")
    assert both.modalities == ("image", "text")
    assert both.read([3]) == ["picture 3"]
    texts = from_dataset(columns(), TREE, text="caption")
    assert texts.modalities == ("text",)
    grouped = from_dataset(columns(who=[7, 7, 8, 8, 9, 9]), TREE, group="who")
    assert grouped.groups.tolist() == [0, 0, 1, 1, 2, 2]


def test_splits_come_from_a_mapping():
    source = from_dataset({"train": columns(6), "validation": columns(3), "test": columns(3)}, TREE)
    assert source.split.tolist() == ["train"] * 6 + ["val"] * 3 + ["test"] * 3
    assert torch.equal(source.load([6]), source.load([0]))
    assert len(make_splits(source).of_split("test")) == 3
    with pytest.raises(DataError, match="leave split out"):
        from_dataset({"train": columns()}, TREE, split="train")
    with pytest.raises(DataError, match="split is 'unsupervised'; it must be one of train"):
        from_dataset({"unsupervised": columns()}, TREE)


def test_several_columns_are_a_path_and_labels_may_be_missing():
    depths = {"kind": ["animal", "animal", "plant", None], "what": ["cat", None, "oak", None]}
    data = Columns(
        {"kind": Value("string"), "what": Value("string"), "t": Value("string")}, depths | {"t": ["x"] * 4}
    )
    source = from_dataset(data, labels=["kind", "what"], text="t")
    assert source.taxonomy.decode(source.nodes) == ["animal/cat", "animal", "plant/oak", None]
    again = from_dataset(data, TREE, labels=["kind", "what"], text="t")
    assert names(again) == ["cat", "animal", "oak", None]
    data.columns["kind"][0] = None
    with pytest.raises(DataError, match="item 0 has a gap in its labels"):
        from_dataset(data, labels=["kind", "what"], text="t")
    missing = Items([(picture(0), -1), (picture(1), 1)])
    assert names(from_dataset(missing, TREE)) == [None, "cat"]


def test_images_in_all_their_forms(tmp_path):
    pixels = np.asarray(picture(1))
    packed = io.BytesIO()
    picture(1).save(packed, "png")
    picture(1).save(tmp_path / "1.png")
    forms = [picture(1), {"bytes": packed.getvalue()}, {"bytes": None, "path": str(tmp_path / "1.png")}]
    forms += [
        pixels,
        torch.from_numpy(pixels.copy()).permute(2, 0, 1),
        torch.from_numpy(pixels / 255).permute(2, 0, 1),
    ]
    source = from_dataset(Items([(form, 0) for form in forms]), TREE)
    for row in range(len(forms)):
        assert np.array_equal(source.load([row])[0].numpy(), pixels.transpose(2, 0, 1)), row
    gray = from_dataset(Items([(picture(1, mode="L"), 0), (np.zeros((8, 8, 1), np.uint8), 1)]), TREE)
    assert gray.image_shape == (1, 8, 8)
    sizes = from_dataset(Items([(picture(1, (9, 30)), 0), (picture(2), 1)]), TREE)
    assert sizes.image_shape == (3, 32, 32)


def test_unreadable_items_are_reported_together(caplog):
    bad = [
        (picture(0), 0),
        ({"bytes": b"no image"}, 1),
        (picture(1), 1),
        (torch.randn(3, 8, 8) - 5, 2),
        ("x", 0),
    ]
    data = Items(bad)
    expected = r"3 of 5 images cannot be read: 'item 1 of the data set' \(it is not an image .*'item 3 of"
    with pytest.raises(DataError, match=expected) as error:
        from_dataset(data, TREE)
    assert "its pixels are floats outside [0, 1]; open the data set without a transform" in str(error.value)
    assert "it is a str, not an image" in str(error.value)
    for cache in (None, False):
        source = from_dataset(data, TREE, on_error="skip", cache=cache)
        assert source.instances.tolist() == [0, 2]
        assert np.array_equal(source.load([1])[0].numpy(), np.asarray(picture(1)).transpose(2, 0, 1))
    data.targets = [0, 1, 1, 2, 0]
    data.items[2] = OSError("the disk is gone")
    with pytest.raises(DataError, match=r"'item 2 of the data set' \(the disk is gone\)"):
        from_dataset(data, TREE)


def test_what_is_unclear_or_missing():
    two = columns()
    two.features["other"] = ClassLabel(["a"])
    two.columns["other"] = [0] * 6
    with pytest.raises(
        DataError, match="the columns label, other may all be the labels; choose one with labels="
    ):
        from_dataset(two, TREE)
    with pytest.raises(DataError, match="there is no column 'lable' in the columns image, label, caption"):
        from_dataset(columns(), TREE, labels="lable")
    with pytest.raises(DataError, match="no column of the columns t has class labels"):
        from_dataset(Columns({"t": Value("string")}, {"t": ["x"]}), TREE)
    with pytest.raises(DataError, match="there are neither images nor texts in the columns label"):
        from_dataset(Columns({"label": ClassLabel(CLASSES)}, {"label": [0]}), TREE)
    with pytest.raises(DataError, match="the label of item 1 is 3, but there are 3 classes"):
        from_dataset(Items([(picture(0), 0), (picture(0), 3)]), TREE)
    with pytest.raises(TaxonomyError, match="elk"):
        from_dataset(Items([(picture(0), 0)]), TREE, classes=["elk"])
    with pytest.raises(DataError, match="the data set is empty"):
        from_dataset(Items([]), TREE)
    with pytest.raises(DataError, match="no length or no items by number; give a data set that is loaded"):
        from_dataset(iter([]), TREE)
    with pytest.raises(DataError, match="items are int, expected"):
        from_dataset(Items([1, 2]), TREE)
    with pytest.raises(DataError, match="the text of item 0 is 0, expected a string"):
        from_dataset(columns(), TREE, text="label")


def test_a_real_data_set_of_hugging_face():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=CLASSES)}
    )
    data = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [2, -1]}, features=features)
    source = from_dataset(data, TREE)
    assert (names(source), source.read([0])) == (["dog", None], ["a"])


def test_examples():
    assert doctest.testmod(adapters) == (0, 5)
