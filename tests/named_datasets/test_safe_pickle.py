"""Pickles of arrays: what is read, and that nothing in a file can make NumPy do something else."""

import io
import pickle
import tarfile

import numpy as np
import pytest

from labeltree.data import open_source
from labeltree.datasets import cifar as cifar_files
from labeltree.datasets.formats.safe_pickle import load_arrays
from labeltree.errors import DataError


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments, state=None):
        self.parts = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.parts


def load(value, protocol=2):
    return load_arrays(io.BytesIO(pickle.dumps({"x": value}, protocol)), "file")["x"]


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("kind", ["u1", "<i8", ">i4", ">f8", "?"])
def test_arrays_come_back(kind, protocol):
    array = np.arange(6).reshape(2, 3).astype(kind)
    for form in (array, np.asfortranarray(array), array[:, :0]):
        found = load(form, protocol)
        assert found.dtype == form.dtype
        np.testing.assert_array_equal(found, form)
    assert load([1, "a", b"\xff"], protocol) == [1, "a", b"\xff"]


@pytest.mark.parametrize(
    "evil",
    [
        Call(np.ndarray, (1,), "O", b"\x10" * 8),  # an object at an address of the file's choice
        Call(np.ndarray, (4,), "u8", b"\0" * 64, 0, (1 << 20,)),  # numbers from behind the buffer
        Call(np.ndarray, (1 << 50,), "u1"),
        np.array([object], dtype=object),
        np.zeros(2, [("a", "u1")]),
        np.array(["text"]),
    ],
)
def test_numpy_is_never_called(evil):
    with pytest.raises(DataError, match="'file' cannot be read as a pickle of arrays"):
        load(evil)


def test_content_must_fit_the_shape():
    whole = pickle.dumps({"x": np.zeros((2, 3), np.uint8)}, 2)
    with pytest.raises(DataError, match="cannot reshape"):
        load_arrays(io.BytesIO(whole.replace(b"K\x02K\x03\x86", b"K\x02K\x09\x86")), "file")


def test_a_batch_in_an_archive_cannot_claim_any_size(tmp_path, monkeypatch):
    """A packed file of a few bytes can hold gigabytes of zeros."""
    monkeypatch.setattr(cifar_files, "_LARGEST", 1000)
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as out:
        member = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
        member.size = 1001
        out.addfile(member, io.BytesIO(bytes(1001)))
    with pytest.raises(DataError, match=r"'data_batch_1' in .*tar.gz' has 1,001 bytes; it is not a batch"):
        open_source("cifar-10", data_path=tmp_path)
