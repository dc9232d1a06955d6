"""All stores do the same: one set of tests, for a folder, PostgreSQL and Qdrant."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeltree.errors import DataError
from labeltree.index import Filter, Index, IndexRows, approximate
from labeltree.index.distances import distances
from labeltree.index.exact_or_approximate import NearestRows
from labeltree.index.postgres import PostgresStore, postgres_store
from labeltree.index.postgres.postgres_tables import PostgresTables
from labeltree.index.qdrant import QdrantStore
from labeltree.index.qdrant.qdrant_head import HeadPoint
from labeltree.index.store import ServerStore
from labeltree.taxonomy import Taxonomy, TaxonomyMapping
from sweeps import some_now

TREE = Taxonomy.from_paths(["a/x/1", "a/x/2", "a/y", "b/z", "b/w"])
NEW = Taxonomy.from_paths(["b/w", "a/x", "c/z", "a/y", "d"]).with_release("2")
GEOMETRIES = ("cosine", "euclidean", "poincare")


def points(geometry: str, n: int, dim: int = 6, seed: int = 0) -> np.ndarray:
    """Points with ties: every fifth equals another one; in the ball, half lie at radius .999."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dim))
    if geometry == "poincare":
        radius = np.where(rng.random(n) < 0.5, 0.999, rng.random(n))
        x *= (radius / np.linalg.norm(x, axis=1))[:, None]
    x[::5] = x[rng.integers(0, min(n, 4), len(x[::5]))]
    return x.astype(np.float32)


def labels(n: int) -> np.ndarray:
    """Missing ones, leaves, inner nodes and the root."""
    return np.random.default_rng(0).integers(-1, TREE.num_nodes, n)


def rows(geometry: str = "cosine", n: int = 60) -> IndexRows:
    split = ["train" if i % 3 else "test" for i in range(n)]
    weight = [None if i % 7 == 0 else i / 8 for i in range(n)]
    more = {"year": list(range(2000, 2000 + n)), "sharp": [i % 2 == 0 for i in range(n)], "weight": weight}
    return IndexRows([f"s{i}" for i in range(n)], points(geometry, n), labels(n), splits=split, columns=more)


@pytest.fixture
def index(place: str) -> Index:
    return Index.create(place, rows(), taxonomy=TREE)


def reopened(place: str) -> Index:
    return Index.open(place)


@pytest.mark.parametrize("few", [1000, 1])
def test_replaced_samples_keep_what_is_not_given(
    index: Index, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("stored_columns", "index_changes"):
        monkeypatch.setattr(f"labeltree.index.{module}.FEW_IDS", few)
    old = index.rows().to_pylist()
    x = points("cosine", 3, seed=5)
    assert index.replace(IndexRows(["s9", "new", "s4"], x, columns={"year": [1, 2, None]})) == (2, 1)
    rows = {row["id"]: row for row in index.rows().to_pylist()}
    assert rows["s9"] == {**old[9], "year": 1}
    assert rows["s4"] == {**old[4], "year": None}
    assert rows["new"] == {**dict.fromkeys(old[0]), "id": "new", "node": -1, "year": 2}
    assert rows["s5"] == old[5]
    np.testing.assert_allclose(index.rows(["id", "vector"]).to_pylist()[4]["vector"], x[2], rtol=1e-6)
    index.replace(IndexRows(["s4"], x[:1], [-1], splits=[None]))
    row = index.rows(filter=Filter(ids=("s4",))).to_pylist()[0]
    assert row == {**old[4], "year": None, "node": -1, "split": None}


def test_numbers_of_conditions_are_of_the_type_of_the_column(index: Index) -> None:
    at, query = np.arange(60), points("cosine", 1)
    year = 2000 + at
    weight = np.where(at % 7 == 0, -1, at / 8)
    cases = (
        ({"year": 2003.0}, year == 2003),
        ({"year": 2003.5}, year < 0),
        ({"year": [2003.5, 2004.0, 2005]}, (year == 2004) | (year == 2005)),
        ({"year": ("!=", 2003.5)}, year > 0),
        ({"year": ("!=", 2003.0)}, year != 2003),
        ({"year": (">=", 2010.5)}, year >= 2011),
        ({"year": (">", 2010.5)}, year >= 2011),
        ({"year": ("<=", 2010.5)}, year <= 2010),
        ({"year": ("<", 2010.5)}, year <= 2010),
        ({"year": ("<", 2010.0)}, year < 2010),
        ({"year": (">", -2.5)}, year > 0),
        ({"year": (">=", 1 - 2**63)}, year > 0),
        ({"weight": 3}, weight == 3),
        ({"weight": ("<", 2**70)}, weight >= 0),
    )
    for where, passes in cases:
        found = index.search(query, k=60, where=where)[0].ids
        assert sorted(found) == sorted(f"s{i}" for i in np.flatnonzero(passes)), where
    for where in (
        {"year": ("<", float("inf"))},
        {"year": 2**63},
        {"year": 10**400},
        {"year": [1, -1e300]},
        {"weight": (">", float("-inf"))},
        {"weight": 10**400},
    ):
        with pytest.raises(DataError, match=f"column '{next(iter(where))}' is compared with"):
            index.search(query, where=where)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_search_equals_brute_force(place: str, geometry: str) -> None:
    x, nodes, at = points(geometry, 60), labels(60), np.arange(60)
    index = Index.create(place, rows(geometry), taxonomy=TREE, geometry=geometry)
    queries = np.concatenate([x[:3], points(geometry, 3, seed=9)])
    inside = TREE.find("a/x")
    below = (nodes >= inside) & (nodes < int(TREE.subtree_end[inside]))
    weight = np.where(at % 7 == 0, -1, at / 8)
    cases = (
        ({}, np.ones(60, bool)),
        ({"within": "a/x"}, below),
        ({"not_within": "a/x"}, ~below),
        ({"within": ["a/y", "b"], "not_within": [TREE.find("z")]}, np.isin(nodes, [5, 6, 8])),
        ({"where": {"split": "test", "year": (">=", 2010)}}, (at % 3 == 0) & (at >= 10)),
        ({"where": {"year": [2001, 2002, 1]}, "within": "/"}, np.isin(at, [1, 2]) & (nodes >= 0)),
        ({"where": {"sharp": True, "split": ("!=", "test")}}, (at % 2 == 0) & (at % 3 > 0)),
        ({"where": {"split": []}}, np.zeros(60, bool)),
        ({"where": {"weight": ("<", 2)}}, (weight >= 0) & (weight < 2)),
        ({"where": {"weight": 0.5}}, weight == 0.5),
        ({"where": {"weight": ("!=", 0.5)}}, (weight >= 0) & (weight != 0.5)),
        ({"where": {"id": ["s4", "s5"]}}, np.isin(at, [4, 5])),
    )
    for words, passes in cases:
        for query, hits in zip(queries, index.search(queries, k=25, exact=True, **words), strict=True):
            values = distances(geometry, query, x)
            wanted = sorted(np.flatnonzero(passes), key=lambda i, v=values: (v[i], i))[:25]
            assert hits.ids == [f"s{i}" for i in wanted], words
            np.testing.assert_array_equal(hits.distances, values[wanted])
            assert hits.nodes.tolist() == nodes[wanted].tolist()
            assert hits.rows["year"] == [2000 + i for i in wanted]
            assert hits.rows["weight"] == [None if i % 7 == 0 else i / 8 for i in wanted]


@pytest.mark.parametrize("geometry", some_now(reversed(GEOMETRIES)))
@pytest.mark.long
def test_exact_search_of_many_rows_equals_brute_force(place: str, geometry: str) -> None:
    """Of so many that a server gives some of them, where float32 alone would be wrong."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1500, 12))
    x = x / np.linalg.norm(x, axis=1, keepdims=True) * 0.999 if geometry == "poincare" else 30 + x * 1e-4
    x = x.astype(np.float32)
    index = Index.create(place, IndexRows([str(i) for i in range(1500)], x), taxonomy=TREE, geometry=geometry)
    for query, hits in zip(x[:4], index.search(x[:4], k=10, exact=True), strict=True):
        values = distances(geometry, query, x)
        assert hits.ids == [str(i) for i in np.lexsort((np.arange(1500), values))[:10]]


@pytest.mark.parametrize("geometry", some_now(reversed(GEOMETRIES)))
def test_approximate_search_finds_nearly_all(place: str, geometry: str) -> None:
    index = Index.create(place, rows(geometry), taxonomy=TREE, geometry=geometry)
    if isinstance(index._store, ServerStore):
        with index._store.writer() as store:
            store.build_approximate(m=12, ef_search=80)
        assert index.info().approximate["m"] == 12
    x = points(geometry, 60)
    for words in ({}, {"within": "a"}, {"not_within": "a/x", "where": {"sharp": False}}):
        wanted = index.search(x[:20], k=10, exact=True, **words)
        found = index.search(x[:20], k=10, exact=False, **words)
        shared = [len(set(a.ids) & set(b.ids)) / len(a.ids) for a, b in zip(wanted, found, strict=True)]
        assert np.mean(shared) > 0.9


def tuned(index: Index, **parameters: int) -> Index:
    if isinstance(index._store, ServerStore):
        with index._store.writer() as store:
            store.build_approximate(**parameters)
    return index


def far_rows(place: str) -> Index:
    """Twelve hundred samples around one point, and three, of another branch, on the far side."""
    x = np.random.default_rng(5).normal(size=(1203, 4)) * 0.1 + [1, 0, 0, 0]
    x[::600] *= -1
    nodes = np.where(np.arange(1203) % 600, TREE.find("a/y"), TREE.find("b/w"))
    return Index.create(place, IndexRows([str(i) for i in range(1203)], x, nodes), taxonomy=TREE)


@pytest.mark.parametrize("exact", some_now([None, False]))
def test_rare_rows_on_the_far_side_are_found(
    place: str, exact: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tuned(far_rows(place), ef_search=10)
    monkeypatch.setattr(approximate, "EXACT_UP_TO", 0)
    monkeypatch.setattr(postgres_store, "scans_iteratively", lambda _: False)  # as before pgvector 0.8
    query = [1.0, 0, 0, 0]
    wanted = index.search(query, k=5, within="b", exact=True)[0].ids
    assert sorted(wanted) == ["0", "1200", "600"]
    assert index.search(query, k=5, within="b", exact=exact)[0].ids == wanted
    assert len(index.search(query, k=1100, exact=exact)[0]) == 1100


def exact_by_default(index: Index) -> bool:
    return NearestRows(index._current, index._current.latest(), Filter()).is_exact_by_default()


def test_a_tuned_index_is_searched_exactly_up_to_a_size(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tuned(Index.create(place, rows(), taxonomy=TREE))
    if isinstance(index._store, ServerStore):
        assert exact_by_default(index)
        monkeypatch.setattr(approximate, "EXACT_UP_TO", 0)
        assert not exact_by_default(index)
    else:
        monkeypatch.setattr(approximate, "EXACT_UP_TO", 0)
        assert exact_by_default(index)


def test_hyperbolic_neighbours_near_the_edge_of_the_ball_are_found(place: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4, 8))[rng.integers(4, size=200)] + 0.0002 * rng.normal(size=(200, 8))
    x = (0.999 * x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    made = IndexRows([str(i) for i in range(200)], x)
    index = tuned(Index.create(place, made, taxonomy=TREE, geometry="poincare"))
    wanted, found = (index.search(x[:20], k=10, exact=exact, columns=[]) for exact in (True, False))
    shared = [len(set(a.ids) & set(b.ids)) / 10 for a, b in zip(wanted, found, strict=True)]
    assert np.mean(shared) > 0.9


def test_diverse_search_ends_when_every_branch_is_found(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index.create(place, rows(), taxonomy=TREE)
    asked: list[int] = []
    near = NearestRows.exact
    monkeypatch.setattr(NearestRows, "exact", lambda self, q, k: asked.append(k) or near(self, q, k))
    hits = index.search(points("cosine", 2), k=8, diverse=1)
    wide = index.search(points("cosine", 2), k=60, diverse=1)
    assert asked[-1] == 60
    assert [one.ids for one in hits] == [one.ids for one in wide]
    assert [len(one) for one in hits] == [3, 3]  # a, b and the root
    assert max(asked[:-1]) <= 32
    asked.clear()
    assert len(index.search_id("s1", k=20, diverse=1)) == 3
    assert asked == [21]


def test_add_replace_delete(index: Index, place: str) -> None:
    more = IndexRows(["n1", "n2"], points("cosine", 2, seed=5), np.array([3, -1]), splits=["val", None])
    version = index.version
    index.add(more)
    assert len(index) == 62
    assert index.version > version
    with pytest.raises(DataError, match="'n1' is in the index already"):
        index.add(IndexRows(["n0", "n1"], points("cosine", 2)))
    assert len(reopened(place)) == 62
    assert index.replace(IndexRows(["s3", "n3"], -points("cosine", 2, seed=5), np.array([0, 1]))) == (1, 1)
    read = reopened(place).rows()
    assert read["id"].to_pylist() == [*(f"s{i}" for i in range(60)), "n1", "n2", "n3"]
    assert read["split"].to_pylist()[3] == "test"  # of old: the new rows give no splits
    assert read["node"].to_pylist()[60:] == [3, -1, 1]
    with pytest.raises(DataError, match="'other' is not in the index"):
        index.delete(["s0", "other"])
    index.delete(["s0", "n2"])
    index = reopened(place)
    assert len(index) == 61
    info = index.info()
    read = index.rows(["split"])["split"].to_pylist()
    assert info.splits == {name: read.count(name) for name in ("test", "train", "val") if name in read}
    assert (info.size, info.labelled) == (61, int((np.delete(labels(60), [0, 3]) >= 0).sum()) + 3)
    x = np.concatenate(
        [points("cosine", 60)[1:], points("cosine", 1, seed=5), -points("cosine", 2, seed=5)[1:]]
    )
    x[2] = -points("cosine", 2, seed=5)[0]
    np.testing.assert_array_equal(index.vectors(), x)
    values = distances("cosine", x[2], x)
    ids = np.array(index.rows(["id"])["id"].to_pylist())
    assert index.search(x[2], k=61, exact=True)[0].ids == ids[np.lexsort((np.arange(61), values))].tolist()


def test_what_fails_changes_nothing(index: Index, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the midst of a change, and after it in the same transaction."""
    if not isinstance(index._store, ServerStore):
        pytest.skip("tested for folders by killing processes")
    on_postgres = isinstance(index._store, PostgresStore)
    kind, name = (PostgresTables, "copy") if on_postgres else (type(index._store), "_insert")
    whole = getattr(kind, name)

    def broken(self: object, *given: object) -> None:
        whole(self, *given)
        raise KeyboardInterrupt

    before = index.rows().to_pylist()
    with monkeypatch.context() as patch:
        patch.setattr(kind, name, broken)
        with pytest.raises(KeyboardInterrupt):
            index.add(IndexRows(["n1"], points("cosine", 1)))
        with pytest.raises(KeyboardInterrupt):
            index.replace(IndexRows(["s1", "n2"], points("cosine", 2)))
    assert reopened(place).rows().to_pylist() == before
    index.add(IndexRows(["n1"], points("cosine", 1)))
    assert len(reopened(place)) == 61


@pytest.mark.parametrize("interrupted", some_now([True, False]))
def test_labels_move_in_one_transaction(
    index: Index, place: str, interrupted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapping, _ = TaxonomyMapping.between(TREE, NEW)
    reader, nodes = reopened(place), labels(60)
    if interrupted:
        kind = type(index._store)
        last = {"PostgresStore": "_write_settings", "QdrantStore": "_commit", "LanceStore": "_overwrite"}

        def broken(self: object, *given: object, **named: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(kind, last[kind.__name__], broken)
            with pytest.raises(KeyboardInterrupt):
                index.move(NEW, mapping)
        equals_brute_force(reopened(place), TREE, nodes)
        equals_brute_force(reader, TREE, nodes)
    index.move(NEW, mapping)
    moved = np.append(mapping.nodes.numpy(), -1)[nodes]
    for one in (index, reader, reopened(place)):
        equals_brute_force(one, NEW, moved)
    index.replace(IndexRows(["s0"], points("cosine", 1), np.array([NEW.find("d")])))
    moved[0] = NEW.find("d")
    equals_brute_force(reader, NEW, moved)


def equals_brute_force(index: Index, tree: Taxonomy, nodes: np.ndarray) -> None:
    assert index.search(np.ones(6), k=1, exact=True)[0].nodes[0] in nodes
    assert index.taxonomy == tree
    assert index.taxonomy.release == tree.release
    np.testing.assert_array_equal(index.rows(["node"])["node"].to_numpy(), nodes)
    for node in range(tree.num_nodes):
        inside = (nodes >= node) & (nodes < int(tree.subtree_end[node]))
        for words, wanted in (({"within": node}, inside), ({"not_within": node}, ~inside)):
            hits = index.search(np.ones(6), k=60, exact=True, **words)[0]
            assert sorted(hits.ids) == sorted(f"s{i}" for i in np.flatnonzero(wanted))
            assert hits.nodes.tolist() == [nodes[int(one[1:])] for one in hits.ids]
            assert index.rows(["id"], Filter.of(tree, **words)).num_rows == wanted.sum()


def test_writers_wait_for_each_other_while_others_read(index: Index, place: str) -> None:
    problems: list[BaseException] = []

    def add(number: int) -> None:
        try:
            own = reopened(place)
            for at in range(3):
                own.add(IndexRows([f"{number}-{at}-{i}" for i in range(5)], points("cosine", 5)))
        except BaseException as error:
            problems.append(error)

    def read() -> None:
        try:
            own = reopened(place)
            for _ in range(5):
                assert (len(own.rows(["id"])) - 60) % 5 == 0
                assert len(own.search(np.ones(6), k=3, exact=True)[0]) == 3
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(3)]
    threads.append(threading.Thread(target=read))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    read_rows = index.rows(["id", "row"])
    assert len(set(read_rows["id"].to_pylist())) == len(set(read_rows["row"].to_pylist())) == 60 + 45


def test_a_writer_that_is_followed_at_once_has_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next writer takes the lock of Qdrant the moment that it is free."""
    place = "qdrant::memory:#followed"
    index = Index.create(place, rows(), taxonomy=TREE)
    store = index._store
    assert isinstance(store, QdrantStore)
    write, others = HeadPoint.write_over, []

    def followed(self: HeadPoint, **changes: Any) -> Any:
        written = write(self, **changes)
        if "writer" in changes and changes["writer"] is None and not others:
            others.append(store.writer())
            others[0].__enter__()
        return written

    monkeypatch.setattr(HeadPoint, "write_over", followed)
    with store.writer() as mine:
        mine.append(rows(n=61).to_arrow(0).slice(60).cast(store.schema))
    others[0].__exit__(None, None, None)
    assert len(reopened(place)) == 61


ODD = [
    "'; DROP TABLE rows; --",
    '"',
    "%s %(a)s {rows}",
    "a\\b",
    "né/☃\n\t",
    "\U0001f430",
    " ",
    "NULL",
    "x" * 3000,
]


def test_ids_are_any_text(place: str) -> None:
    x = points("cosine", len(ODD))
    index = Index.create(place, IndexRows(ODD, x, texts=ODD[::-1]), taxonomy=TREE)
    assert reopened(place).rows(["id", "text"]).to_pydict() == {"id": ODD, "text": ODD[::-1]}
    for one in ODD:
        assert index.search_id(one, k=1).ids != [one]
        assert index.search(x[:1], where={"text": one}, exact=True)[0].rows["text"] == [one]
    index.delete(ODD[:4])
    assert index.rows(["id"])["id"].to_pylist() == ODD[4:]


def test_nodes_have_any_name(place: str) -> None:
    tree = Taxonomy.from_paths(["o'b\"/%s", "{x}/\\"])
    index = Index.create(place, IndexRows(["1", "2"], np.eye(2), np.array([2, 4])), taxonomy=tree)
    assert index.search([1.0, 1.0], within="{x}", exact=True)[0].ids == ["2"]
    assert reopened(place).taxonomy == tree


def test_no_rows_and_one(place: str) -> None:
    index = Index.create(place, IndexRows([], np.zeros((0, 3))), taxonomy=TREE)
    assert len(index) == len(index.rows()) == len(index.search([1, 0, 0])[0]) == len(index.vectors()) == 0
    assert len(index.search([1, 0, 0], exact=False)[0]) == 0
    index.add(IndexRows([], np.zeros((0, 3))))
    index.add(IndexRows(["one"], np.zeros((1, 3)), [3]))
    assert reopened(place).search([[1, 0, 0], [0, 0, 0]], k=5, exact=True)[1].similarities.tolist() == [0.0]
    index.delete(["one"])
    assert len(reopened(place)) == 0


def test_an_index_is_not_overwritten_unless_asked(index: Index, place: str) -> None:
    reader = reopened(place)
    with pytest.raises(DataError, match="already"):
        Index.create(place, rows("euclidean", 5), taxonomy=TREE, geometry="euclidean")
    assert len(reader) == 60
    made = Index.create(place, rows("euclidean", 5), taxonomy=NEW, geometry="euclidean", overwrite=True)
    for one in (made, reader, reopened(place)):
        assert (len(one.rows()), one.geometry, one.taxonomy) == (5, "euclidean", NEW)


def test_there_is_none(place: str) -> None:
    with pytest.raises(DataError, match="there is no index at"):
        Index.open(place)


def test_a_folder_of_qdrant_keeps_an_index(tmp_path: Path) -> None:
    place = f"qdrant:{tmp_path / 'quad rant'}#birds"
    Index.create(place, rows(), taxonomy=TREE)
    from labeltree.index.qdrant import qdrant_clients

    client = qdrant_clients._clients.pop(str(tmp_path / "quad rant"))
    client.close()
    assert len(reopened(place)) == 60
