"""ImageNet-32: batches of arrays as pickles and as .npz, in miniature."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from labeltree.data import check_layout, get_dataset, open_source
from labeltree.errors import DataError


def write_batches(folder: Path, form: str) -> Path:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(11):
        name = f"train_data_batch_{number + 1}" if number < 10 else "val_data"
        data = rng.integers(0, 256, (100, 3072), dtype=np.uint8)
        batch = {"data": data, "labels": list(range(100 * (number % 10) + 1, 100 * (number % 10) + 101))}
        if form == "npz":
            np.savez(folder / f"{name}.npz", data=batch["data"], labels=np.array(batch["labels"]))
        else:
            with (folder / name).open("wb") as file:
                pickle.dump(batch | {"mean": data.mean(0)}, file, protocol=2)
    return folder


@pytest.mark.parametrize("form", ["pickle", "npz"])
def test_imagenet_32(tmp_path, form):
    folder = write_batches(tmp_path / "small", form)
    source = open_source("imagenet-32", data_path=folder)
    assert source.split.tolist() == ["train"] * 1000 + ["test"] * 100
    assert source.taxonomy.decode(source.nodes[:2]) == [
        "mammal/n02119789 kit fox",
        "domestic animal/n02100735 English setter",
    ]
    first = np.random.default_rng(0).integers(0, 256, (100, 3072), dtype=np.uint8)
    assert np.array_equal(source.load(range(100)).numpy(), first.reshape(-1, 3, 32, 32))
    assert check_layout(get_dataset("imagenet-32"), folder).labels == (12, 1000)


def test_broken_batches(tmp_path):
    folder = write_batches(tmp_path / "small", "npz")
    (folder / "train_data_batch_3.npz").unlink()
    with pytest.raises(DataError, match="has no train_data_batch_3, as they are or with"):
        open_source("imagenet-32", data_path=folder)
    with pytest.raises(DataError, match=r"Imagenet32_val\*/val_data\*"):
        open_source("imagenet-32", data_path=tmp_path)
    for content, sentence in (
        ({"data": np.zeros((2, 3072), np.uint8)}, "has no 'labels'"),
        ({"data": np.zeros((2, 12288), np.uint8), "labels": [1, 2]}, r"must be uint8 \(2, 3072\)"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [0, 2]}, "labels run from 0 to 2"),
    ):
        np.savez(folder / "train_data_batch_3.npz", **content)
        with pytest.raises(DataError, match=sentence):
            open_source("imagenet-32", data_path=folder)
    (folder / "train_data_batch_3.npz").write_bytes(b"half")
    with pytest.raises(DataError, match=r"cannot be read as a batch of images"):
        open_source("imagenet-32", data_path=folder)
