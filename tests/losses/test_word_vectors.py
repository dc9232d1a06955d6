"""Word vectors are read from the formats that people have them in; names of several words have a vector."""

from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.losses.classifiers.devise import name_forms, name_vector, read_word_vectors

LINES = [
    "the 0.5 -1 2",
    "ankle 1 0 0",
    "boot 0 2 0",
    "\x85 7 7 7",
    ". . . 1 2 3",
    "Boot 9 9 9",
    "ankle 8 8 8",
    "é 0 0 1",
]


@pytest.fixture(params=["glove", "word2vec", "text arrays", "byte arrays"])
def vector_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The same vectors as text without and with a first line, and as arrays of text and of bytes."""
    if request.param in ("glove", "word2vec"):
        path = tmp_path / "vectors.txt"
        first = ["8 3"] if request.param == "word2vec" else []
        path.write_text("\n".join([*first, *LINES]) + "\n", "utf-8", newline="\n")
        return path
    path = tmp_path / "vectors.npz"
    rows = [line.rsplit(" ", 3) for line in LINES]
    words = [row[0] if request.param == "text arrays" else row[0].encode() for row in rows]
    np.savez(path, words=np.array(words), vectors=np.array([row[1:] for row in rows], dtype=np.float32))
    return path


def test_the_words_that_are_wanted(vector_file: Path) -> None:
    found = read_word_vectors(vector_file, ["ankle", "boot", "é", "unheard", "the"])
    assert {word: vector.tolist() for word, vector in found.items()} == {
        "the": [0.5, -1, 2],
        "ankle": [1, 0, 0],  # the first of two
        "boot": [0, 2, 0],
        "é": [0, 0, 1],
    }
    assert all(vector.dtype == torch.float64 for vector in found.values())
    assert read_word_vectors(vector_file, []) == {}
    assert read_word_vectors(vector_file, ["unheard"]) == {}


def test_a_word_with_blanks_is_not_its_first_part(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("the 0 0 1\nboot camp 4 4 4\nboot 0 2 0\n", "utf-8")
    found = read_word_vectors(path, ["boot"])
    assert {word: vector.tolist() for word, vector in found.items()} == {"boot": [0, 2, 0]}


def test_forms_of_a_name() -> None:
    assert name_forms("T-shirt") == (["T-shirt", "t-shirt", "t_shirt"], ["t", "shirt"])
    assert name_forms("aquatic_mammals") == (["aquatic_mammals", "aquatic-mammals"], ["aquatic", "mammals"])
    assert name_forms("dog") == (["dog"], ["dog"])
    assert name_forms("??")[1] == []


def test_the_vector_of_a_name() -> None:
    one = torch.eye(4, dtype=torch.float64)
    vectors = {"t-shirt": 5 * one[0], "shirt": one[1], "ankle": 3 * one[2], "boot": 4 * one[3], "Big": one[0]}
    assert name_vector("T-Shirt", vectors).tolist() == [1, 0, 0, 0]  # the whole name goes first, at length 1
    assert name_vector("ankle boot", vectors).tolist() == pytest.approx([0, 0, 0.6, 0.8])
    assert name_vector("left ankle", vectors).tolist() == [
        0,
        0,
        1,
        0,
    ]  # a word that is not known does not count
    assert name_vector("Big", vectors).tolist() == [1, 0, 0, 0]
    assert name_vector("unheard", vectors) is None
    assert name_vector("--", vectors) is None
    assert name_vector("a b", {"a": one[0], "b": -one[0]}) is None  # they cancel
    assert name_vector("a", {"a": torch.zeros(4, dtype=torch.float64)}) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("dog 1 2", r"line 2 of '.*' is not a word and 3 numbers: 'dog 1 2"),
        ("dog one two three", r"line 2 of '.*' is not a word and 3 numbers"),
        ("dog 1 nan 3", "has values that are not finite for the word 'dog'"),
    ],
)
def test_lines_that_cannot_be_right(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(f"cat 1 2 3\n{line}\n")
    assert set(read_word_vectors(path, ["cat"])) == {"cat"}  # what is not wanted does not matter
    with pytest.raises(ValueError, match=message):
        read_word_vectors(path, ["cat", "dog"])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no file of word vectors '.*none.txt'"):
        read_word_vectors(tmp_path / "none.txt", ["dog"])
    path = tmp_path / "vectors.npz"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=r"cannot be read as word vectors: .* expected arrays 'words'"):
        read_word_vectors(path, ["dog"])
    np.savez(path, words=np.array(["a"]))
    with pytest.raises(ValueError, match="cannot be read as word vectors"):
        read_word_vectors(path, ["dog"])
    np.savez(path, words=np.array(["a", "b"]), vectors=np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"words of shape \(2,\) .* vectors of shape \(3, 2\)"):
        read_word_vectors(path, ["dog"])
    np.savez(path, words=np.array([object()]), vectors=np.zeros((1, 2)), allow_pickle=True)
    with pytest.raises(ValueError, match="cannot be read"):  # nothing in it is run
        read_word_vectors(path, ["dog"])
