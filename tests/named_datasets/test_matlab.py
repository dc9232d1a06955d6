"""MATLAB files against SciPy's reader, and damaged ones, on which that one may end the process."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from labeltree.datasets.formats.matlab import read_matlab
from labeltree.errors import DataError

RECORDS = np.array(
    [[("a.jpg", 3, np.array([[1.5, 2.5]]), ""), ("äö.jpg", 300, np.zeros((0, 0)), "x y")]],
    dtype=[(name, "O") for name in ("file", "number", "box", "note")],
)
CONTENT: dict[str, Any] = {
    "records": RECORDS,
    "one": RECORDS[:, :1],
    "names": np.array([["x", "Maker Model", "C/V"]], dtype=object),
    "scalar": 7.25,
    "flat": np.arange(5, dtype=np.int16),
    "table": np.arange(12.0).reshape(3, 4),
    "cube": np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    "words": np.array(["abc", "def"]),
    "text": "one text",
    "large": np.arange(6, dtype=np.int64) << 40,
}


def is_empty(value: Any) -> bool:
    return len(value) == 0 if isinstance(value, str) else np.size(value) == 0


def same(one: Any, other: Any) -> bool:
    """Whether two readers found the same; what is empty has no shape that matters."""
    if is_empty(one) or is_empty(other):
        return is_empty(one) and is_empty(other)
    if isinstance(one, np.ndarray) and one.dtype.names:
        return one.dtype.names == other.dtype.names and all(same(one[n], other[n]) for n in one.dtype.names)
    if isinstance(one, np.ndarray) and one.dtype == object:
        return one.shape == other.shape and all(map(same, one.ravel(), other.ravel()))
    return bool(np.array_equal(one, other))


@pytest.mark.parametrize("packed", [False, True])
def test_it_reads_what_scipy_reads(packed: bool, tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", CONTENT, do_compression=packed)
    expected = loadmat(tmp_path / "a.mat", squeeze_me=True)
    found = read_matlab(tmp_path / "a.mat")
    assert set(found) == set(CONTENT)
    for name, value in found.items():
        assert same(value, expected[name]), (name, value, expected[name])


def test_what_is_damaged_is_refused_or_read(tmp_path: Path) -> None:
    file = tmp_path / "a.mat"
    savemat(file, CONTENT)
    whole = file.read_bytes()
    rng = random.Random(0)
    said = set()
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 3, 30])):
            data[rng.randrange(100, len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        file.write_bytes(data)
        try:
            read_matlab(file)
        except DataError as error:
            said.add(str(error))
    assert said == {
        f"'{file}' cannot be read as a MATLAB file: it is damaged, or of another version than 5 to 7; "
        "unpack it again"
    }


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no"):
        read_matlab(tmp_path / "a.mat")
