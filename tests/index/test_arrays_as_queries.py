"""`lt.search` with an array: vectors, one or several, and errors that say what an array holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import labeltree as lt


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("arrays")
    np.savez(
        place / "theirs.npz",
        vectors=VECTORS,
        label=np.array(["a/x", "a/y", "b/z", "b/z"] * 5),
        id=np.array([f"img{number}" for number in range(20)]),
    )
    lt.make_index(embeddings=place / "theirs.npz", out=place / "index")
    return place / "index"


VECTORS = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("queries", "ids"),
    [
        (VECTORS[3], ["img3"]),
        (VECTORS[3:5], ["img3", "img4"]),
        (torch.from_numpy(VECTORS[3:5]), ["img3", "img4"]),
        (VECTORS[3:5].astype(np.float64).tolist(), ["img3", "img4"]),
        ([VECTORS[3], VECTORS[4]], ["img3", "img4"]),
    ],
)
def test_vectors_are_searched_for(index: Path, queries: object, ids: list[str]) -> None:
    found = lt.search(index, queries, k=1)
    assert [answer.hits.ids[0] for answer in found.answers] == ids
    assert [answer.query for answer in found.answers] == [f"vector {row}" for row in range(len(ids))], (
        "as predict does"
    )


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (VECTORS[:2, :5], r"the array holds vectors of 5 numbers, and the index '.*' vectors of 6; give"),
        (np.zeros((2, 3, 6)), r"queries are float64 \(2, 3, 6\); an array holds vectors"),
        (np.array(["img3"]), "Name images by their paths"),
    ],
)
def test_what_an_array_holds_is_said(index: Path, queries: object, message: str) -> None:
    with pytest.raises(lt.DataError, match=message):
        lt.search(index, queries)


def test_nothing_is_asked_for(index: Path) -> None:
    with pytest.raises(ValueError, match="name what to search for"):
        lt.search(index, [])


def test_an_open_index_is_a_place(index: Path) -> None:
    opened = lt.Index.open(index)
    assert lt.search(opened, VECTORS[3], k=1).answers[0].hits.ids == ["img3"]
    assert Path(opened) == index
