"""Near duplicates: all pairs within a distance, their sets, leaks between splits, labels and contents."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.curation import close_pairs as module
from labeltree.curation.close_pairs import close_pairs, nearest_distances
from labeltree.curation.duplicates import find_duplicates, usual_threshold
from labeltree.curation.duplicates_text import DuplicateNames, duplicates_text
from labeltree.errors import DataError
from labeltree.geometry import get_geometry
from labeltree.taxonomy import Taxonomy

GEOMETRIES = ("sphere", "euclidean", "poincare")
TREE = Taxonomy.from_paths(["animal/dog", "animal/cat", "plant/oak"])
DOG, CAT, OAK = (int(TREE.find(name)) for name in ("dog", "cat", "oak"))
ANIMAL = int(TREE.find("animal"))


def points(name: str, n: int = 120, d: int = 6, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(n, d, generator=torch.Generator().manual_seed(seed))
    if name == "poincare":
        radius = torch.linspace(0.0, 0.999, n)[:, None]
        drawn = radius * drawn / drawn.norm(dim=1, keepdim=True)
    drawn[-20:-10] = drawn[:10]
    drawn[-10:] = drawn[:10] * (1 - 1e-4)
    return drawn


def found_pairs(vectors: torch.Tensor, name: str, within: float) -> dict[tuple[int, int], float]:
    return {
        (i, j): d
        for part in close_pairs(vectors, name, within=within)
        for i, j, d in zip(part.first.tolist(), part.second.tolist(), part.distances.tolist(), strict=True)
    }


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("share", [0.0, 0.002, 0.1, 2.0])
def test_pairs_are_those_of_brute_force(name: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS", 32)
    monkeypatch.setattr(module, "_COLUMNS", 48)
    vectors, space = points(name), get_geometry(name)
    distance = space.distance(vectors.double()[:, None], vectors.double()[None])
    within = share * float(distance.max())
    wanted = {(i, j) for i, j in (distance <= within).nonzero().tolist() if i < j}
    found = found_pairs(vectors, name, within)
    assert set(found) == wanted
    assert len(wanted) >= 10
    assert all(abs(d - float(distance[pair])) <= 1e-12 for pair, d in found.items())


@pytest.mark.parametrize(("offset", "scale"), [(1e6, 1.0), (0.0, 1e-18), (0.0, 1e18), (3.0, 0.0)])
def test_euclidean_pairs_far_from_the_origin_or_of_odd_sizes(offset: float, scale: float) -> None:
    vectors = points("euclidean").double() * scale + offset
    space = get_geometry("euclidean")
    distance = space.distance(vectors[:, None], vectors[None])
    within = 0.05 * float(distance.max())
    wanted = {(i, j) for i, j in (distance <= within).nonzero().tolist() if i < j}
    assert set(found_pairs(vectors, "euclidean", within)) == wanted


def test_zero_vectors_and_one_row() -> None:
    assert found_pairs(torch.zeros(3, 2), "sphere", 0.0) == {(0, 1): 0.0, (0, 2): 0.0, (1, 2): 0.0}
    assert found_pairs(torch.zeros(1, 2), "poincare", 9.0) == {}
    assert found_pairs(torch.zeros(0, 2), "euclidean", 9.0) == {}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_nearest_distances_leave_out_the_row_itself(name: str) -> None:
    vectors, rows = points(name), torch.tensor([0, 7, 50, 119])
    distance = get_geometry(name).distance(vectors.double()[:, None], vectors.double()[None])
    wanted = distance.fill_diagonal_(torch.inf).amin(1)[rows]
    torch.testing.assert_close(nearest_distances(vectors, rows, name, columns=50), wanted)
    assert nearest_distances(vectors[:1], torch.tensor([0]), name).tolist() == [torch.inf]


def test_bad_input_is_named() -> None:
    with pytest.raises(DataError, match="vector 1 holds NaN or infinity"):
        list(close_pairs(torch.tensor([[0.0], [torch.nan]]), within=1.0))
    with pytest.raises(ValueError, match="within is -1"):
        list(close_pairs(torch.zeros(2, 1), within=-1))
    with pytest.raises(ValueError, match="within is nan"):
        find_duplicates(torch.zeros(2, 1), threshold=float("nan"))
    with pytest.raises(DataError, match="2 vectors but 1 splits"):
        find_duplicates(torch.zeros(2, 1), splits=["train"])
    with pytest.raises(ValueError, match="without a taxonomy"):
        find_duplicates(torch.zeros(2, 1), nodes=np.zeros(2, int))


def test_the_usual_threshold_scales_with_the_vectors_and_says_where_it_comes_from() -> None:
    vectors = points("euclidean", 400)
    threshold, how = usual_threshold(vectors, "euclidean")
    larger, _ = usual_threshold(1000 * vectors, "euclidean")
    assert larger == pytest.approx(1000 * threshold, rel=1e-5)
    assert how.startswith("0.13 times ")
    rows = torch.arange(400)
    near = nearest_distances(vectors, rows, "euclidean")
    assert threshold == pytest.approx(0.13 * float(near[near > 1e-4].median()), rel=1e-6)


def test_of_few_samples_or_where_all_are_equal_only_equal_ones_count() -> None:
    for vectors in (points("sphere", 49), torch.ones(200, 3), torch.zeros(0, 3)):
        threshold, how = usual_threshold(vectors)
        assert threshold == 1e-5
        assert "only equal embeddings count" in how


def planted() -> dict[str, object]:
    """Rows 0 to 5 in two sets and alone: 0-1-2 in a chain, 3-4 with other labels, 5 alone."""
    return {
        "vectors": np.array([[0.0, 0], [0.9, 0], [1.8, 0], [50, 0], [50, 0], [99, 0]]),
        "geometry": "euclidean",
        "threshold": 1.0,
        "nodes": np.array([DOG, ANIMAL, -1, CAT, OAK, OAK]),
        "taxonomy": TREE,
        "splits": ["train", "test", "test", "train", "train", "test"],
        "groups": ["a", "a", None, "b", "c", "a"],
    }


def test_sets_leaks_labels_and_groups() -> None:
    found = find_duplicates(**planted())
    assert [(p.first, p.second, p.labels_differ) for p in found.pairs] == [
        (0, 1, False), (3, 4, True), (1, 2, False)]  # fmt: skip
    assert found.sets.tolist() == [0, 0, 0, 1, 1, -1]
    assert (found.num_sets, found.largest_set, found.superfluous, found.num_pairs) == (2, 3, 3, 3)
    leak, other = found.leaks
    assert (leak.split, leak.other, leak.samples, leak.of, leak.pairs) == ("test", "train", 1, 3, 1)
    assert (other.split, other.other, other.samples) == ("train", "test", 1)
    assert (found.different_labels, found.across_groups) == (1, 1)
    assert all(pair.identical is None for pair in found.pairs)


def test_pairs_beyond_those_listed_are_counted() -> None:
    found = find_duplicates(**planted(), most_pairs=1)
    assert (len(found.pairs), found.num_pairs, found.num_sets, found.different_labels) == (1, 3, 2, 1)
    many = find_duplicates(np.ones((60, 2)), threshold=0.0, most_pairs=5)
    assert [(p.first, p.second) for p in many.pairs] == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]
    assert (many.num_pairs, many.largest_set) == (60 * 59 // 2, 60)


def test_pairs_across_splits_are_listed_whatever_is_closer() -> None:
    vectors = np.array([[0.0, 0], [0.9, 0], *[[50.0, 0]] * 20, [50.1, 0]])
    splits = ["train", "test", *["train"] * 20, ""]
    found = find_duplicates(vectors, "euclidean", threshold=1.0, splits=splits, most_pairs=2)
    assert [(pair.first, pair.second) for pair in found.pairs] == [(0, 1), (2, 3)]
    assert [leak.pairs for leak in found.leaks] == [1, 1]
    text = duplicates_text(found, DuplicateNames([f"s{row}" for row in range(23)], splits=splits))
    assert "2 of the 211 pairs are listed, those across splits first; --pairs N lists more" in text
    assert text.splitlines()[-2].split()[1:5] == ["s0", "train", "–", "s1"]
    whole = find_duplicates(vectors, "euclidean", threshold=1.0, splits=splits)
    text = duplicates_text(whole, DuplicateNames([f"s{row}" for row in range(23)], splits=splits))
    assert "--pairs" not in text
    assert "… and 201 more; --format csv or json lists them" in text
    assert "s22" not in text  # without a split, so no leak


def test_contents_are_compared_by_files_or_by_digests(tmp_path: Path) -> None:
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).write_bytes(content)
    paths = [str(tmp_path / name) for name in "abc"] + ["", str(tmp_path / "gone")]
    found = find_duplicates(np.ones((5, 2)), threshold=0.0, paths=paths)
    same = {(p.first, p.second): p.identical for p in found.pairs}
    assert same[0, 1] is True
    assert same[0, 2] is False
    assert same[0, 3] is None
    assert same[0, 4] is None
    digests = np.array([[1], [1], [2], [2], [2]], np.uint8)
    found = find_duplicates(np.ones((5, 2)), threshold=0.0, digests=digests)
    assert sum(p.identical is True for p in found.pairs) == 1 + 3


def names() -> DuplicateNames:
    given = planted()
    ids = ["0.jpg", "ü,b.jpg", "c", "d", "e", "f"]
    return DuplicateNames(ids, given["nodes"], TREE, given["splits"], given["groups"])  # type: ignore[arg-type]


def test_the_text_names_leakage_first() -> None:
    text = duplicates_text(find_duplicates(**planted()), names())
    lines = text.splitlines()
    assert lines[0] == (
        "leakage: 1 of the 3 samples of test (33.3 %) have a near duplicate in train (1 pair)"
    )
    assert "3 pairs in 2 sets, the largest of 3 samples; if one of each set stays, 3 of 6 samples go" in text
    assert "1 of the pairs have labels that exclude each other" in text
    assert "a distance of at most 1 (Euclidean), as asked for" in text
    table = lines[lines.index("") + 1 :]
    assert "0.jpg" in table[1]
    assert "ü,b.jpg" in table[1]


def test_csv_and_json_hold_every_listed_pair() -> None:
    found = find_duplicates(**planted())
    rows = list(csv.DictReader(io.StringIO(duplicates_text(found, names(), "csv"))))
    assert [row["first"] for row in rows] == ["0.jpg", "d", "ü,b.jpg"]
    assert rows[1]["first_label"] == "animal/cat"
    assert rows[1]["labels_differ"] == "True"
    document = json.loads(duplicates_text(found, names(), "json"))
    assert document["sets"] == [["0.jpg", "ü,b.jpg", "c"], ["d", "e"]]
    assert document["leaks"][0]["samples"] == 1
    assert document["pairs"][0]["second_group"] == "a"


def test_nothing_found() -> None:
    found = find_duplicates(np.eye(3), threshold=0.1)
    assert (found.num_pairs, found.num_sets, found.largest_set, found.superfluous) == (0, 0, 0, 0)
    text = duplicates_text(found, DuplicateNames(["a", "b", "c"]))
    assert text.startswith("no near duplicates among 3 samples within the distance below\n")
    assert "not found" not in text, "what a distance that was asked for finds, its user knows"


def test_what_the_usual_distance_does_not_exclude_is_said() -> None:
    vectors = torch.randn(100, 8, generator=torch.Generator().manual_seed(0))
    vectors[1] = vectors[0]
    splits = ["train", "train", *["train", "test"] * 49]
    found = find_duplicates(vectors, splits=splits)
    text = duplicates_text(found, DuplicateNames([f"s{row}" for row in range(100)], splits=splits))
    assert text.startswith("no near duplicates across splits within the distance below\n")
    near = next(line for line in text.splitlines() if line.startswith("near: "))
    said = text.splitlines()[text.splitlines().index(near) + 1]
    assert said.startswith(
        "found are samples of almost equal embeddings, such as a picture saved again as JPEG of quality 90"
    )
    assert "; copies of lower quality or other sizes, and crops, are mostly not found (--threshold" in said
