"""Approximate search: tuned until it finds 95 % of the nearest, stored, filtered exactly, tuned again."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from labeltree.errors import DataError
from labeltree.index import Filter, Index, IndexRows, approximate, upkeep
from labeltree.index.approximate import Tuning, approximate_pays
from labeltree.index.exact_or_approximate import NearestRows
from labeltree.taxonomy import Taxonomy, TaxonomyMapping
from sweeps import some_now

pytestmark = pytest.mark.skipif(find_spec("lancedb") is None, reason="lancedb is not installed")

TREE = Taxonomy.from_paths([f"branch {i}/leaf {j}" for i in range(4) for j in range(5)])
LEAVES = [node for node in range(TREE.num_nodes) if TREE.subtree_end[node] == node + 1]


def clustered(n: int, dim: int, geometry: str = "cosine", seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of clusters, and for each cluster a leaf: leaves of one branch lie in one region."""
    rng = np.random.default_rng(seed)
    clusters = rng.integers(100, size=n)
    centres = rng.standard_normal((100, dim))
    centres = centres[np.argsort(centres[:, 0])]
    vectors = centres[clusters] + 0.5 * rng.standard_normal((n, dim))
    if geometry == "poincare":
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / lengths * np.tanh(lengths / 2)
    return vectors.astype(np.float32), np.asarray(LEAVES)[clusters * len(LEAVES) // 100]


def make(folder: Path, n: int = 2000, dim: int = 8, geometry: str = "cosine") -> Index:
    vectors, nodes = clustered(n, dim, geometry)
    rows = IndexRows([f"s{i}" for i in range(n)], vectors, nodes, splits=["train", "test"] * (n // 2))
    return Index.create(folder / "index", rows, taxonomy=TREE, geometry=geometry)


def recall(index: Index, queries: np.ndarray, **options: object) -> float:
    exact = index.search(queries, k=10, exact=True, columns=[], **options)
    found = index.search(queries, k=10, exact=False, columns=[], **options)
    return float(np.mean([len(set(a.ids) & set(b.ids)) / 10 for a, b in zip(exact, found, strict=True)]))


@pytest.mark.slow
@pytest.mark.long
def test_of_100000_samples_the_defaults_find_95_percent(tmp_path: Path) -> None:
    index = make(tmp_path, 100_000, 16)
    found = index.tune()
    assert found["reached"]
    assert found["recall_low"] >= 0.95
    assert found["rows"] == 100_000
    queries, _ = clustered(300, 16, seed=1)
    held_out = np.random.default_rng(2).choice(100_000, 300)
    assert recall(index, index.vectors()[held_out] + 0.1 * queries) >= 0.95


@pytest.mark.parametrize(("geometry", "dim"), some_now([("poincare", 4), ("cosine", 8), ("euclidean", 5)]))
def test_every_geometry_is_tuned_and_ranks_exactly(tmp_path: Path, geometry: str, dim: int) -> None:
    index = make(tmp_path, dim=dim, geometry=geometry)
    found = Tuning(**index.tune())
    assert found.kind == ("IVF_RQ" if geometry == "cosine" else "IVF_FLAT")
    assert found.recall_low >= 0.95
    queries = index.vectors()[:20].copy()
    assert recall(index, queries) >= 0.9
    exact, hits = (index.search(queries[:1], k=5, exact=flag)[0] for flag in (True, False))
    assert hits.ids[0] == "s0"
    assert (np.diff(hits.distances) >= 0).all()
    known = dict(zip(exact.ids, exact.distances, strict=True))
    assert all(
        known[one] == value for one, value in zip(hits.ids, hits.distances, strict=True) if one in known
    )


def test_parameters_survive_reopening_and_say_what_was_measured(tmp_path: Path) -> None:
    index = make(tmp_path)
    found = index.tune()
    again = Index.open(tmp_path / "index")
    assert again.info().approximate == found == index.info().approximate
    assert found["rows"] == 2000
    assert found["queries"] == 300
    assert found["recall"] >= found["recall_low"]
    assert len(again.search(index.vectors()[0], k=7, exact=False)[0]) == 7


def test_it_is_tuned_again_after_a_tenth_more_and_not_before(tmp_path: Path) -> None:
    index = make(tmp_path)
    index.tune()
    vectors, nodes = clustered(400, 8, seed=3)
    new = [
        IndexRows([f"{name}{i}" for i in range(len(v))], v, n)
        for name, v, n in (("a", vectors[:100], nodes[:100]), ("b", vectors[100:], nodes[100:]))
    ]
    index.add(new[0])
    assert index.info().approximate["rows"] == 2000
    assert index.search(vectors[:1], k=1, exact=False)[0].ids == [
        "a0"
    ]  # found before the index is tuned again
    index.add(new[1])
    assert index.info().approximate["rows"] == 2400
    index.delete([f"s{i}" for i in range(500)])
    assert index.info().approximate["rows"] == 1900
    assert not set(index.search(vectors[:5], k=50, exact=False)[0].ids) & {f"s{i}" for i in range(500)}


def test_filters_are_exact_under_approximate_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = make(tmp_path)
    index.tune()
    queries = index.vectors()[:10].copy()
    for limit in (10**9, 0):  # also where more passes than is compared by default
        monkeypatch.setattr(approximate, "EXACT_UP_TO", limit)
        for options in (
            {"within": "branch 1"},
            {"not_within": ["branch 1", "branch 2"]},
            {"within": "branch 3", "where": {"split": "test"}},
            {"diverse": 2, "k": 5},
        ):
            hits = index.search(queries, **{"k": 30, **options}, exact=False)
            for one in hits:
                branches = [TREE.path_name(int(node)).split("/")[0] for node in one.nodes]
                assert len(one) == options.get("k", 30)
                if "within" in options:
                    assert set(branches) == {options["within"]}
                if "not_within" in options:
                    assert not set(branches) & set(options["not_within"])
                if "where" in options:
                    assert set(one.rows["split"]) == {"test"}
        assert recall(index, queries, within="branch 1") == recall(index, queries, diverse=2) == 1.0


def test_where_few_are_near_all_are_compared(tmp_path: Path) -> None:
    index = make(tmp_path)
    few = Tuning(**index.tune())
    with index._store.writer() as store:
        effort = replace(few, probes=1, candidates=10).to_dict()
        store.write_settings(replace(store.settings, approximate=effort))
    queries = index.vectors()[:3].copy()
    for k in (1000, 5000):
        wanted = index.search(queries, k=k, exact=True, columns=[])
        found = index.search(queries, k=k, exact=False, columns=[])
        assert [one.ids for one in found] == [one.ids for one in wanted]


def test_large_indexes_are_tuned_when_they_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "EXACT_UP_TO", 8 * 1500)
    index = make(tmp_path)
    assert index.info().approximate["reached"]
    asked: list[int] = []
    nearest = type(index._store).nearest
    monkeypatch.setattr(type(index._store), "nearest", lambda *given: asked.append(1) or nearest(*given))
    index.search(index.vectors()[0])
    assert asked == [1]
    index.search(index.vectors()[0], exact=True)
    assert asked == [1]


def test_the_matrix_of_exact_search_is_kept_when_the_rows_stay(tmp_path: Path) -> None:
    index = make(tmp_path)
    index.vectors()
    (before,) = (tmp_path / "index" / "exact").iterdir()
    file = (before / "vectors.npy").stat().st_ino
    index.tune()
    index.compact()
    index.vectors()
    (after,) = (tmp_path / "index" / "exact").iterdir()
    assert before.name != after.name
    assert (after / "vectors.npy").stat().st_ino == file


def test_equal_vectors_count_as_found(tmp_path: Path) -> None:
    vectors = np.repeat(clustered(40, 8)[0], 50, axis=0)
    rows = IndexRows([str(i) for i in range(len(vectors))], vectors)
    index = Index.create(tmp_path / "index", rows, taxonomy=TREE)
    assert index.tune()["recall"] >= 0.99


def test_an_index_that_is_not_found_good_enough_stays_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approximate, "TARGET", 2.0)
    index = make(tmp_path)
    assert not index.tune()["reached"]
    monkeypatch.setattr(approximate, "EXACT_UP_TO", 0)
    assert NearestRows(index._current, index._store, Filter()).is_exact_by_default()


def test_small_indexes_say_that_there_is_nothing_to_tune(tmp_path: Path) -> None:
    index = make(tmp_path, 100)
    with pytest.raises(DataError, match="has 100 samples; below 1,000 search is exact"):
        index.tune()
    assert len(index.search(index.vectors()[0], exact=False)[0]) == 20


def test_effort_grows_with_k() -> None:
    tuning = Tuning("IVF_RQ", 1000, 30, 200, 0.97, 0.96, 300, 10**6)
    assert tuning.effort(10) == (200, 30)
    assert tuning.effort(50) == (1000, 30)
    assert not tuning.outgrown(1_090_000)
    assert tuning.outgrown(1_110_000)
    assert tuning.outgrown(900_000)
    assert approximate_pays(200_000, 256)
    assert not approximate_pays(100_000, 256)


def test_a_few_queries_without_a_miss_do_not_suffice() -> None:
    assert approximate._interval(np.ones(20))[1] < 0.95 < approximate._interval(np.ones(200))[1]


def test_other_stores_are_tuned_where_they_are() -> None:
    class Server:
        name = "postgresql://here"

    with pytest.raises(DataError, match="keeps an approximate index of its own"):
        upkeep.tune(Server())  # type: ignore[arg-type]
    assert replace(Tuning("IVF_RQ", 1, 1, 1, 1, 1, 1, 1), rows=5).to_dict()["rows"] == 5


def test_the_command_tunes_and_says_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from labeltree.cli.commands.index_command import run

    make(tmp_path)
    run([str(tmp_path / "index"), "--tune", "--quiet"])
    shown = capsys.readouterr().out
    assert "approximate above 6250000 samples: recall@10 0.9" in shown
    assert "measured on 300 of 2000 samples (IVF_RQ, " in shown
    monkeypatch.setattr(approximate, "TARGET", 2.0)
    run([str(tmp_path / "index"), "--tune"])
    assert "exact; approximate only with exact=False: recall@10" in capsys.readouterr().out


def test_after_a_move_of_the_taxonomy_it_is_tuned_anew_and_filters_by_the_new_nodes(tmp_path: Path) -> None:
    index = make(tmp_path)
    index.tune()
    new = Taxonomy.from_paths(
        ["a new branch/leaf", *(f"branch {i}/leaf {j}" for i in range(4) for j in range(5))]
    )
    mapping, _ = TaxonomyMapping.between(TREE, new)
    index.move(new, mapping)
    assert index._store.approximate_rows() == (2000, 0)
    hits = index.search(index.vectors()[:5].copy(), k=20, exact=False, within="branch 1")
    assert all(new.path_name(int(node)).startswith("branch 1/") for one in hits for node in one.nodes)
