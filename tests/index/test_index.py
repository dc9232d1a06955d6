"""An index equals brute force, whatever is added, replaced, deleted or filtered."""

import errno
import multiprocessing
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import labeltree as lt
from labeltree.errors import DataError, TaxonomyError, WriteError
from labeltree.geometry import get_geometry
from labeltree.index import Filter, Index, IndexRows, exact
from labeltree.index.distances import distances, lorentz, lorentz_queries
from labeltree.index.exact_or_approximate import NearestRows
from labeltree.index.filters import parse_where
from labeltree.index.lance_store import lance_store as lance
from labeltree.taxonomy import Taxonomy, TaxonomyDAG, TaxonomyMapping

TREE = Taxonomy.from_paths(["a/x/1", "a/x/2", "a/y", "b/z", "b/w"])
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


def labels(n: int, seed: int = 0) -> np.ndarray:
    """Missing ones, leaves, inner nodes and the root."""
    return np.random.default_rng(seed).integers(-1, TREE.num_nodes, n)


def rows(geometry: str = "cosine", n: int = 60, **columns: object) -> IndexRows:
    split = ["train" if i % 3 else "test" for i in range(n)]
    more = {"year": list(range(2000, 2000 + n)), "sharp": [i % 2 == 0 for i in range(n)], **columns}
    names = [f"s{i}" for i in range(n)]
    return IndexRows(names, points(geometry, n), labels(n), splits=split, columns=more)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index.create(tmp_path / "index", rows(), taxonomy=TREE)


def by_definition(geometry: str, q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Distances of all pairs as the geometry defines them, in float64, with numpy alone."""
    q, x = q.astype(np.float64), x.astype(np.float64)
    if geometry == "cosine":
        return 1 - q @ x.T / np.linalg.norm(q, axis=1)[:, None] / np.linalg.norm(x, axis=1)
    squares = ((q[:, None] - x[None]) ** 2).sum(-1)
    if geometry == "euclidean":
        return np.sqrt(squares)
    room = (1 - (q * q).sum(1))[:, None] * (1 - (x * x).sum(1))
    return np.arccosh(1 + 2 * squares / room)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_distances_are_those_of_the_definition(geometry: str) -> None:
    x = points(geometry, 40)
    found = np.stack([distances(geometry, q, x) for q in x])
    np.testing.assert_allclose(found, by_definition(geometry, x, x), rtol=1e-6, atol=3e-7)
    if geometry == "poincare":
        inner = lorentz_queries(x, -1.0).astype(np.float64) @ lorentz(x, -1.0).astype(np.float64).T
        far = found > 2
        np.testing.assert_allclose(np.arccosh(-inner[far]), found[far], atol=0.05)


@pytest.mark.parametrize("curvature", [-0.25, -4.0])
def test_the_ball_may_have_any_curvature(tmp_path: Path, curvature: float) -> None:
    x = (points("poincare", 30) / np.sqrt(-curvature)).astype(np.float32)
    index = Index.create(
        tmp_path / "i", IndexRows([str(i) for i in range(30)], x), taxonomy=TREE, geometry="poincare",
        curvature=curvature,
    )  # fmt: skip
    import torch

    space = get_geometry("poincare", curvature)
    wanted = space.distance(torch.from_numpy(x[:1].astype(float)), torch.from_numpy(x.astype(float)))
    hits = index.search(x[:1], k=30)[0]
    np.testing.assert_allclose(hits.distances, np.sort(wanted.numpy()), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("exact", [True, False])
def test_search_equals_brute_force(tmp_path: Path, geometry: str, exact: bool) -> None:
    x = points(geometry, 60)
    index = Index.create(tmp_path / "index", rows(geometry), taxonomy=TREE, geometry=geometry)
    queries = np.concatenate([x[:3], points(geometry, 3, seed=9)])
    inside = TREE.find("a/x")
    nodes = labels(60)
    below = (nodes >= inside) & (nodes < int(TREE.subtree_end[inside]))
    cases = (
        ({}, np.ones(60, bool)),
        ({"within": "a/x"}, below),
        ({"not_within": "a/x"}, ~below),
        ({"within": ["a/y", "b"], "not_within": [TREE.find("z")]}, np.isin(nodes, [5, 6, 8])),
        (
            {"where": {"split": "test", "year": (">=", 2010)}},
            (np.arange(60) % 3 == 0) & (np.arange(60) >= 10),
        ),
        ({"where": {"year": [2001, 2002, 1]}, "within": "/"}, np.isin(np.arange(60), [1, 2]) & (nodes >= 0)),
        (
            {"where": {"sharp": True, "split": ("!=", "test")}},
            (np.arange(60) % 2 == 0) & (np.arange(60) % 3 > 0),
        ),
        ({"where": {"split": []}}, np.zeros(60, bool)),
    )
    for words, passes in cases:
        for query, hits in zip(queries, index.search(queries, k=25, exact=exact, **words), strict=True):
            values = distances(geometry, query, x)
            wanted = sorted(np.flatnonzero(passes), key=lambda i, v=values: (v[i], i))[:25]
            assert hits.ids == [f"s{i}" for i in wanted], words
            np.testing.assert_array_equal(hits.distances, values[wanted])
            assert hits.nodes.tolist() == nodes[wanted].tolist()
            assert hits.rows["year"] == [2000 + i for i in wanted]


def test_float32_alone_would_be_wrong(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = (1000 + rng.normal(size=(3000, 24)) * 1e-3).astype(np.float32)
    index = Index.create(
        tmp_path / "i", IndexRows([str(i) for i in range(3000)], x), taxonomy=TREE, geometry="euclidean"
    )
    values = distances("euclidean", x[7], x)
    product = (x * x).sum(1) - 2 * (x @ x[7])
    wanted = np.lexsort((np.arange(3000), values))[:10]
    assert np.argsort(product)[:10].tolist() != wanted.tolist()
    assert index.search(x[7], k=10)[0].ids == [str(i) for i in wanted]


@pytest.mark.parametrize("scale", [1e-25, 1e-38, 1e30])
def test_tiny_and_huge_vectors(tmp_path: Path, scale: float) -> None:
    x = np.random.default_rng(0).normal(size=(50, 5)).clip(-3, 3).astype(np.float32) * np.float32(scale)
    x[3] = 0
    for geometry in ("cosine", "euclidean"):
        index = Index.create(
            tmp_path / geometry, IndexRows([str(i) for i in range(50)], x), taxonomy=TREE, geometry=geometry
        )
        values = distances(geometry, x[7], x)
        hits = index.search(x[7], k=20)[0]
        assert hits.ids == [str(i) for i in np.lexsort((np.arange(50), values))[:20]]
        assert np.isfinite(hits.distances).all()


def test_a_vector_of_length_0_has_the_cosine_0(tmp_path: Path) -> None:
    index = Index.create(
        tmp_path / "i", IndexRows(["zero", "one"], np.eye(2)[[0, 1]] * [[0], [1]]), taxonomy=TREE
    )
    assert index.search([0.0, 2.0])[0].similarities.tolist() == [1.0, 0.0]
    assert index.search([0.0, 0.0])[0].similarities.tolist() == [0.0, 0.0]


def test_search_by_id_and_by_node(index: Index) -> None:
    x, nodes = points("cosine", 60), labels(60)
    hits = index.search_id("s7", k=60)
    assert len(hits) == 59
    assert "s7" not in hits.ids
    label = int(nodes[7])
    wanted = [-1 if n < 0 else int(TREE.lca_depth(label, int(n))) for n in hits.nodes]
    assert (hits.lca_depths.tolist() if hits.lca_depths is not None else None) == (
        wanted if label >= 0 else None
    )
    inside = TREE.find("a/x")
    below = (nodes >= inside) & (nodes < int(TREE.subtree_end[inside]))
    unit = x[below] / np.linalg.norm(x[below], axis=1, keepdims=True)
    hits = index.search_node("a/x", k=60)
    values = distances("cosine", unit.mean(0), x)
    np.testing.assert_allclose(hits.distances, np.sort(values), atol=1e-6)
    assert index.search_id("s0", k=3, within="b", columns=["split"]).rows.keys() == {"split"}
    with pytest.raises(DataError, match="no sample 'nobody'"):
        index.search_id("nobody")
    with pytest.raises(TaxonomyError, match="mammal"):
        index.search_node("mammal")


@pytest.mark.parametrize("options", [{}, {"within": "a"}, {"diverse": 2}, {"exact": False}])
def test_many_ids_at_once_are_each_alone(
    index: Index, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["s7", "nobody", "s0", "s7", *(f"s{number}" for number in range(59, 0, -7))]
    alone = {name: index.search_id(name, k=5, **options) for name in {*names} - {"nobody"}}
    monkeypatch.setattr("labeltree.index.searching.FEW_IDS", 3)  # looked up in parts
    found = index.search_ids(names, k=5, **options)
    assert [hits is None for hits in found] == [name == "nobody" for name in names]
    for name, hits in zip(names, found, strict=True):
        if hits is not None:
            assert hits.ids == alone[name].ids
            assert name not in hits.ids
            np.testing.assert_allclose(hits.distances, alone[name].distances, atol=1e-12)
            expected = alone[name].lca_depths
            assert (hits.lca_depths is None) == (expected is None)
            assert expected is None or hits.lca_depths.tolist() == expected.tolist()
    assert index.search_ids(["nobody"]) == [None]
    assert index.search_ids([]) == []


def test_arguments_of_many_ids_are_checked_also_if_none_is_there(index: Index) -> None:
    for wrong in ({"k": 0}, {"diverse": 99}, {"columns": ["nope"]}, {"labels": [0, 0]}, {"labels": [999]}):
        for name in ("s0", "nobody"):
            with pytest.raises(DataError):
                index.search_ids([name], **wrong)
    with pytest.raises(DataError, match="search_id"):
        index.search_ids("s0")
    hits = index.search_ids(["nobody", "s0", "s1"], k=3, labels=[0, -1, TREE.find("a/x")])
    assert hits[0] is None
    assert hits[1] is not None
    assert hits[1].lca_depths is None
    assert hits[2] is not None
    assert hits[2].lca_depths is not None


def test_branches_are_counted_once_for_many_diverse_queries(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"s{number}" for number in range(60)]
    alone = [index.search_id(name, k=10, diverse=1) for name in names]
    times: list[int] = []
    counted = NearestRows.rows_and_nodes
    monkeypatch.setattr(NearestRows, "rows_and_nodes", lambda *given: times.append(1) or counted(*given))
    found = index.search_ids(names, k=10, diverse=1)
    assert [hits.ids for hits in found if hits is not None] == [hits.ids for hits in alone]
    assert len(times) == 1


def test_diverse_takes_one_of_each_branch(index: Index) -> None:
    nodes, x = labels(60), points("cosine", 60)
    hits = index.search(x[1], k=9, diverse=2)[0]
    ancestors = TREE.ancestors[:, 2].numpy()
    branch = np.where(ancestors < 0, np.arange(TREE.num_nodes), ancestors)
    order = np.lexsort((np.arange(60), distances("cosine", x[1], x)))
    wanted, seen = [], set()
    for i in order[nodes[order] >= 0]:
        if branch[nodes[i]] not in seen:
            seen.add(branch[nodes[i]])
            wanted.append(f"s{i}")
    assert hits.ids == wanted[:9]
    assert len(index.search(x[1], k=2, diverse=1, within=[])[0]) == 0
    with pytest.raises(DataError, match="a depth from 1 to 3"):
        index.search(x[1], diverse=4)


def test_add_replace_delete(index: Index) -> None:
    x = points("cosine", 60)
    other = Index.open(index.where)
    before = index.version
    index.add(IndexRows(["new"], x[:1], [3], columns={"sharp": [False]}))
    assert index.version > before
    assert len(other.search(x[:1], k=61)[0]) == 61  # another object sees it at its next search
    table = index.rows().to_pylist()
    assert table[-1] == {
        "id": "new", "node": 3, "path": None, "text": None, "split": None, "group": None, "year": None,
        "sharp": False,
    }  # fmt: skip
    assert index.replace(IndexRows(["s5", "newer"], x[:2], [1, -1], splits=["val", None])) == (1, 1)
    names = [f"s{i}" for i in range(60)] + ["new", "newer"]
    assert index.rows(["id"])["id"].to_pylist() == names  # what is replaced keeps its place
    assert index.labels()[5] == 1
    np.testing.assert_array_equal(index.vectors()[5], x[0])
    index.delete(["s0", "s59", "s0"])
    assert len(index) == 60
    assert index.labels().shape == (60,)
    index.compact()
    assert index.rows(["id"])["id"].to_pylist() == [n for n in names if n not in ("s0", "s59")]
    assert Index.open(index.where).info().splits == {"test": 19, "train": 38, "val": 1}
    index.vectors()
    assert len(list((Path(index.where) / "exact").iterdir())) == 1  # those of older versions are deleted


def test_ids_are_any_text(tmp_path: Path) -> None:
    names = ["it's", 'a "b"', "x; DROP TABLE rows", "ä/ö\n\t", "%", "名前", "\\", "1"]
    index = Index.create(tmp_path / "i", IndexRows(names, np.eye(8), paths=names), taxonomy=TREE)
    for name in names:
        assert index.search_id(name, k=9).ids == [other for other in names if other != name]
        assert index.search(np.eye(8)[0], where={"path": name})[0].ids == [name]
    index.delete(names[:3])
    assert index.rows(["id"])["id"].to_pylist() == names[3:]


@pytest.mark.parametrize("n", [0, 1])
def test_an_index_of_hardly_anything(tmp_path: Path, n: int) -> None:
    index = Index.create(tmp_path / "i", IndexRows(["s0"][:n], np.ones((n, 4)), [2] * n), taxonomy=TREE)
    assert [len(hits) for hits in index.search(np.ones((2, 4)), labels=[1, -1])] == [n, n]
    assert index.search(np.zeros((0, 4))) == []
    assert index.info().size == n
    assert index.vectors().shape == (n, 4)
    assert len(index.search([1, 1, 1, 1], exact=False, diverse=1)[0]) == n
    index.delete([])
    index.delete(["s0"][:n])
    assert len(Index.open(tmp_path / "i")) == 0
    index.add(IndexRows(["late"], np.ones((1, 4))))
    assert index.search([1, 1, 1, 1])[0].ids == ["late"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IndexRows(["a", "a"], np.ones((2, 6))), "the id 'a' is given 2 times"),
        (lambda: IndexRows(["a", ""], np.ones((2, 6))), "the id of row 1 is ''"),
        (lambda: IndexRows([1], np.ones((1, 6))), "the id of row 0 is 1"),
        (lambda: IndexRows(["a"], np.full((1, 6), np.nan)), "the vector of 'a' holds NaN"),
        (lambda: IndexRows(["a"], np.full((1, 6), 1e300)), "the vector of 'a' holds NaN or infinity"),
        (lambda: IndexRows(["a"], np.ones(6)), "vectors must be numbers"),
        (lambda: IndexRows(["a"], np.ones((2, 6))), "1 ids but 2 vectors"),
        (lambda: IndexRows(["a"], np.ones((1, 6)), [0.5]), "nodes must be whole numbers"),
        (lambda: IndexRows(["a"], np.ones((1, 6)), splits=["x", "y"]), "1 ids but 2 splits"),
        (lambda: IndexRows(["a"], np.ones((1, 6)), columns={"node": [1]}), "column name 'node'"),
        (lambda: IndexRows(["a"], np.ones((1, 6)), columns={"a b": [1]}), "column name 'a b' is unsuitable"),
        (lambda: IndexRows(["a"], np.ones((1, 6)), [99]), "sample 'a' has node 99"),
        (lambda: IndexRows(["a"], np.ones((1, 6)), [-2]), "sample 'a' has node -2"),
        (lambda: IndexRows(["a"], np.ones((1, 5))), "the vectors have 5 dimensions, those of the index 6"),
        (lambda: IndexRows(["s3", "b"], np.ones((2, 6))), "'s3' is in the index already"),
        (lambda: IndexRows(["a"], np.ones((1, 6)), columns={"price": [1]}), "no column 'price'"),
        (
            lambda: IndexRows(["a"], np.ones((1, 6)), columns={"year": ["x"]}),
            "column 'year' of the index holds",
        ),
        (lambda: IndexRows(["a", "b"], np.ones((2, 6)), columns={"year": ["x", 1]}), "mixes kinds"),
    ],
)
def test_rows_that_do_not_suit_change_nothing(index: Index, make: object, message: str) -> None:
    before = index.version
    with pytest.raises(DataError, match=message):
        index.add(make())  # type: ignore[operator]
    assert Index.open(index.where).version == before


def test_other_arguments_that_do_not_suit(index: Index, tmp_path: Path) -> None:
    for words, message in (
        ({"query": np.ones(5)}, "shape .5,.; the index has vectors of 6"),
        ({"query": np.full(6, np.nan)}, "query 0 holds NaN"),
        ({"query": "rabbit"}, "a vector of numbers"),
        ({"k": 0}, "k is 0"),
        ({"within": "nowhere"}, "nowhere"),
        ({"within": 99}, "no node 99"),
        ({"where": {"price": 3}}, "no column 'price'; it has id, path"),
        ({"where": {"year": "2000"}}, "column 'year' holds int64"),
        ({"where": {"year": None}}, "give a text or a number"),
        ({"columns": ["vector"]}, "no column 'vector'"),
        ({"labels": [1, 2]}, "1 queries but 2 labels"),
        ({"labels": [99]}, "labels of queries are nodes 0 to"),
    ):
        with pytest.raises((DataError, TaxonomyError), match=message):
            index.search(**{"query": np.ones(6), **words})  # type: ignore[arg-type]
    with pytest.raises(DataError, match="'a', 'b', 'c' and 1 more are not in the index"):
        index.delete(["s1", "a", "b", "c", "d"])
    assert len(index) == 60
    with pytest.raises(DataError, match="already; overwrite it"):
        Index.create(index.where, rows(), taxonomy=TREE)
    with pytest.raises(DataError, match="there is no index at"):
        Index.open(tmp_path / "nothing")
    with pytest.raises(DataError, match="exists and is not an index"):
        Index.create(tmp_path, rows(), taxonomy=TREE)
    outside = IndexRows(["far"], np.ones((1, 6)))
    with pytest.raises(DataError, match=r"'far' has length 2.449.*outside the Poincaré ball of radius 1"):
        Index.create(tmp_path / "p", outside, taxonomy=TREE, geometry="poincare")
    assert not (tmp_path / "p").exists()
    dag = TaxonomyDAG.from_edges([("a", "r"), ("b", "r"), ("c", "a"), ("c", "b")])
    with pytest.raises(TaxonomyError, match="an index needs a tree"):
        Index.create(tmp_path / "d", rows(), taxonomy=dag)
    with pytest.raises(DataError, match="geometry is 'dot'"):
        Index.create(tmp_path / "g", rows(), taxonomy=TREE, geometry="dot")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="made from vectors alone"):
        index.embed(["x"])


def test_overwriting_replaces_all(index: Index) -> None:
    index.vectors()
    tree = Taxonomy.from_paths(["p/q"])
    new = Index.create(
        index.where,
        IndexRows(["only"], np.ones((1, 3)), [1]),
        taxonomy=tree,
        geometry="euclidean",
        overwrite=True,
    )
    assert new.search([1.0, 1, 1])[0].ids == ["only"]
    assert (new.taxonomy, new.geometry, len(new)) == (tree, "euclidean", 1)
    assert index.search([1.0, 1, 1])[0].ids == ["only"]  # the older object follows


def test_conditions_as_text(index: Index) -> None:
    wheres = parse_where(["split=test", "year>=2010", "sharp=true"], index.schema)
    assert wheres == {"split": ["test"], "year": (">=", 2010), "sharp": [True]}
    assert len(index.search(np.ones(6), k=60, where=wheres)[0]) == sum(
        i % 6 == 0 and i >= 10 for i in range(60)
    )
    for text, message in (
        ("split", "is not a condition"),
        ("price=3", "no column 'price'"),
        ("year=old", "'old' is not a value of column 'year'"),
    ):
        with pytest.raises(DataError, match=message):
            parse_where([text], index.schema)


def test_labels_move_to_another_taxonomy(index: Index) -> None:
    new = Taxonomy.from_paths(["b/w", "a/x", "c/z", "a/y"]).with_release("2")
    mapping, _ = TaxonomyMapping.between(TREE, new)
    before = index.labels().copy()
    with pytest.raises(TaxonomyError, match="does not end with"):
        index.move(TREE, mapping)
    index.move(new, mapping)
    moved = np.append(mapping.nodes.numpy(), -1)[before]
    index = Index.open(index.where)
    assert index.taxonomy == new
    assert index.taxonomy.release == "2"
    np.testing.assert_array_equal(index.labels(), moved)
    for name in ("a", "a/x", "b", "c"):
        node = new.find(name)
        wanted = (moved >= node) & (moved < int(new.subtree_end[node]))
        hits = index.search(np.ones(6), k=60, within=name)[0]
        assert sorted(hits.ids) == sorted(f"s{i}" for i in np.flatnonzero(wanted))
        assert index.rows(["id"], Filter.of(new, within=name)).num_rows == wanted.sum()
    with pytest.raises(TaxonomyError, match="does not begin with"):
        index.move(new, mapping)


def test_a_move_that_fails_in_between_changes_nothing(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    new = Taxonomy.from_paths(["b/w", "a/x"])
    mapping, _ = TaxonomyMapping.between(TREE, new)
    store = type(index._store)

    def broken(self: object, columns: list[str], filter: object = None) -> object:
        yield from list(scan(self, columns, filter))[:1]
        raise OSError("no")

    scan = store.scan
    version, before = index.version, index.labels().copy()
    monkeypatch.setattr(store, "scan", broken)
    with pytest.raises(Exception, match="no"):
        index.move(new, mapping)
    monkeypatch.undo()
    index = Index.open(index.where)
    assert (index.version, index.taxonomy) == (version, TREE)
    np.testing.assert_array_equal(index.labels(), before)


def test_damaged_matrices_are_made_anew(index: Index) -> None:
    wanted = index.vectors().copy()
    (folder,) = (Path(index.where) / "exact").iterdir()
    os.truncate(folder / "vectors.npy", 200)
    np.testing.assert_array_equal(Index.open(index.where).vectors(), wanted)
    (folder / "nodes.npy").unlink()
    np.testing.assert_array_equal(Index.open(index.where).labels(), labels(60))


def test_changes_by_others_are_seen_at_once(index: Index, tmp_path: Path) -> None:
    """Also by an index that has not looked into its table for long, because no file came to it."""
    versions = tmp_path / "index" / "rows.lance" / "_versions"
    other = Index.open(tmp_path / "index")
    for seconds in (0, 60, 3600):
        earlier = versions.stat().st_mtime - seconds
        os.utime(versions, (earlier, earlier))
        assert index.search(points("cosine", 1), k=1)[0].ids
        number = index.version
        other.add(
            IndexRows([f"new {seconds}"], points("cosine", 1) + seconds + 1, columns={"year": [seconds]})
        )
        found = index.search(points("cosine", 1) + seconds + 1, k=100)[0]
        assert f"new {seconds}" in found.ids
        assert index.version > number
        assert found.rows["year"][found.ids.index(f"new {seconds}")] == seconds
    other.delete(["new 0"])
    assert "new 0" not in index.search(points("cosine", 1), k=100)[0].ids


def test_what_is_read_at_once_is_of_one_version(index: Index, tmp_path: Path) -> None:
    new = Taxonomy.from_paths(["b/w", "a/x", "c/z", "a/y"])
    other, before = Index.open(tmp_path / "index"), index.labels().copy()

    def read(seen: Index) -> tuple[int, Taxonomy, object, list[str]]:
        ids = seen.rows(["id"])["id"].to_pylist()
        if other.taxonomy != new:
            other.move(new, TaxonomyMapping.between(TREE, new)[0])
            other.delete(ids[:7])
        assert len(seen) == len(seen.vectors()) == len(seen.rows()) == len(ids)
        return len(ids), seen.taxonomy, seen.labels().copy(), seen.search(np.ones(6), k=99)[0].ids

    size, taxonomy, nodes, found = index.at_once(read)
    assert (size, taxonomy, len(found)) == (60, TREE, 60)
    np.testing.assert_array_equal(nodes, before)
    assert index.at_once(read)[:2] == (53, new)


def test_a_name_is_read_on_the_taxonomy_that_is_searched(index: Index, tmp_path: Path) -> None:
    other = Index.open(tmp_path / "index")
    wanted = index.search_node("b/z", k=3).ids
    new = Taxonomy.from_paths(["_first/one", "_first/two", *map(TREE.path_name, TREE.leaves.tolist())])
    other.move(new, TaxonomyMapping.between(TREE, new)[0])
    assert index.search_node("b/z", k=3).ids == wanted
    assert index.taxonomy == new


def test_a_search_keeps_its_rows_while_others_change_them(index: Index) -> None:
    held = index._current.latest()
    index.delete(["s1", "s2"])
    assert held.count() == 60
    assert index.size == 58


def test_an_index_on_a_read_only_disk_is_searched(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = index.search(points("cosine", 1), k=5)[0].ids
    shutil.rmtree(tmp_path / "index" / "exact")
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "home"))
    made = exact.new_folder_in

    def refusing(folder: Path, *options: object) -> object:
        if folder == tmp_path / "index" / "exact":
            raise OSError(errno.EROFS, "Read-only file system", str(folder))
        return made(folder, *options)

    monkeypatch.setattr(exact, "new_folder_in", refusing)
    assert Index.open(tmp_path / "index").search(points("cosine", 1), k=5)[0].ids == wanted
    assert len(list((tmp_path / "home").rglob("vectors.npy"))) == 1


def test_a_table_of_another_program_is_not_overwritten(tmp_path: Path) -> None:
    import lancedb
    import pyarrow as pa

    lancedb.connect(str(tmp_path / "index")).create_table("rows", data=pa.table({"theirs": [1]}))
    with pytest.raises(DataError, match="not an index of labeltree"):
        Index.create(tmp_path / "index", rows(), taxonomy=TREE, overwrite=True)
    assert lancedb.connect(str(tmp_path / "index")).open_table("rows").count_rows() == 1


def test_a_change_is_done_although_tuning_fails(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("labeltree.index.index_changes.keep_tuned", full)
    with pytest.warns(UserWarning, match="was changed, but .* --tune"):
        index.delete(["s1"])
    assert index.size == 59


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system cannot allocate a file's place")
def test_a_disk_that_gets_full_is_told_before_its_file_is_mapped(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing to a mapped file for which there is no place kills the process (SIGBUS)."""
    sizes = []

    def full(_: int, start: int, size: int) -> None:
        sizes.append((start, size))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(WriteError, match=r"exact': no space left .*free some space"):
        index.search(points("cosine", 1), k=1)
    ((start, size),) = sizes
    assert start == 0
    assert size > 60 * 6 * 4
    monkeypatch.undo()
    assert len(index.search(points("cosine", 1), k=1)) == 1


def test_damaged_settings_and_tables_are_named(index: Index, tmp_path: Path) -> None:
    table = index._store._table  # type: ignore[attr-defined]
    table.update_field_metadata({"path": "id", "metadata": {"labeltree": "AAAA"}})
    with pytest.raises(DataError, match=r"settings of the index .* are damaged"):
        Index.open(index.where)
    for manifest in (Path(index.where) / "rows.lance" / "_versions").iterdir():
        manifest.write_bytes(b"nonsense")
    with pytest.raises(DataError, match="cannot be opened"):
        Index.open(index.where)
    with pytest.raises(DataError, match=r"cannot be opened .* delete the folder"):
        Index.create(index.where, IndexRows(["a"], np.ones((1, 6))), taxonomy=TREE, overwrite=True)


def test_an_index_is_part_of_the_front_door(index: Index) -> None:
    assert lt.Index is Index
    assert "60 samples, 6-d cosine" in repr(index)
    assert "6-d" not in str(lt.index.__doc__)


def _add(where: str, number: int) -> None:
    lance._PATIENCE_S = 600  # on a busy machine, others may take longer than users should wait
    index = Index.open(where)
    for step in range(3):
        index.add(IndexRows([f"p{number}-{step}"], np.ones((1, 6))))
        index.vectors()


@pytest.mark.slow
def test_processes_wait_for_each_other(index: Index) -> None:
    context = multiprocessing.get_context("forkserver")
    processes = [context.Process(target=_add, args=(index.where, number)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(Index.open(index.where)) == 66
    assert index.rows(["row"])["row"].to_pylist() == list(range(66))
    assert len(index.search(np.ones(6), k=100)[0]) == 66


def test_a_frame_has_the_paths_beside_a_column_that_is_called_label(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths(["a/b", "a/c"])
    vectors, nodes = np.eye(3, dtype=np.float32), np.array([2, 3, -1])
    rows = IndexRows(ids=list("xyz"), vectors=vectors, nodes=nodes, columns={"label": list("uvw")})
    frame = Index.create(tmp_path / "index", rows, taxonomy=tree).to_pandas()
    assert frame["label"].tolist() == ["u", "v", "w"]
    assert frame["node"].tolist()[:2] == ["a/b", "a/c"]
