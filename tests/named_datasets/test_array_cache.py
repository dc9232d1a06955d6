"""Arrays that are kept in the cache: damaged ones are made anew, and half of one is never seen."""

import os

import numpy as np
import pytest
import torch

from labeltree.datasets.formats.arrays import Batch, open_arrays
from labeltree.errors import DataError


@pytest.fixture
def opened(tmp_path, cache_folder):
    """Opens a file of four images, and counts how often it is read."""
    file = tmp_path / "batch"
    file.write_bytes(b"x")
    images = np.arange(4 * 3 * 4, dtype=np.uint8).reshape(4, 3, 2, 2)
    reads = []

    def read(path):
        reads.append(path)
        yield Batch(images[:2], np.array([[0], [1]]))
        yield Batch(images[2:], np.array([[2], [3]]))

    def check(**settings):
        store, labels = open_arrays("some", [file], read, **settings)
        assert labels.tolist() == [[0], [1], [2], [3]]
        np.testing.assert_array_equal(store.load(torch.arange(4)).numpy(), images)
        return len(reads)

    return check


@pytest.mark.parametrize("name", ["images.bin", "labels.npy", "shape.npy"])
@pytest.mark.parametrize("harm", ["empty", "half", "gone"])
def test_what_is_damaged_is_read_again(opened, cache_folder, name, harm):
    assert opened() == opened() == 1
    (folder,) = (cache_folder / "images").iterdir()
    if harm == "gone":
        (folder / name).unlink()
    else:
        os.truncate(folder / name, 0 if harm == "empty" else (folder / name).stat().st_size // 2)
    assert opened() == opened() == 2
    assert [place.name for place in (cache_folder / "images").iterdir()] == [folder.name]


def test_without_a_cache(opened, cache_folder):
    assert opened(cache=False) == 1
    assert not list(cache_folder.iterdir())


def test_shapes_that_differ_leave_nothing(tmp_path, cache_folder):
    file = tmp_path / "batch"
    file.write_bytes(b"x")

    def read(path):
        for side in (2, 3):
            yield Batch(np.zeros((1, 3, side, side), np.uint8), np.zeros((1, 1), np.int64))

    with pytest.raises(DataError, match="images of different shapes cannot be joined"):
        open_arrays("some", [file], read)
    assert not list((cache_folder / "images").iterdir())
