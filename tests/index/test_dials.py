"""Dials of a posterior space: an index is searched as if its run had been solved with others."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

import labeltree as lt
from labeltree.errors import DataError
from labeltree.index import Index
from labeltree.inference.load_run import load_run
from labeltree.ridge.ridge_file import load_ridge

pytestmark = pytest.mark.slow

PATHS = np.array(["animal/dog", "animal/cat", "plant/oak", "plant/fern"])
DIALS = [(0.0, None), (1.0, 0.0), (0.2, 3.0), (None, 0.0), (None, None)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dials")
    rng = np.random.default_rng(0)
    classes = np.arange(160) % 4
    vectors = rng.normal(size=(4, 6))[classes] + rng.normal(size=(160, 6))
    np.savez(folder / "features.npz", vectors=vectors, labels=PATHS[classes])
    lt.train(folder / "features.npz", out=folder / "run", objective="tree-ridge", progress_bar=False)
    return folder / "run"


@pytest.fixture(scope="module")
def index(run: Path) -> Index:
    return lt.make_index(run, out=run.parent / "index")


def expected_order(run: Path, query: int, tree: float | None, instance: float | None) -> list[str]:
    """Ids by the cosine of embeddings that the head gives at these dials, without the query."""
    loaded = load_run(run)
    head = load_ridge(loaded.folder.ridge, loaded.taxonomy)
    features = loaded.network.encoder(loaded.source.vectors.load(loaded.source.rows))
    points = normalize(head.posterior_embeddings(features, tree=tree, instance=instance), dim=1)
    order = (points @ points[query]).argsort(descending=True, stable=True)
    names = loaded.source.sample_names()
    return [names[at] for at in order.tolist() if at != query]


@pytest.mark.parametrize(("tree", "instance"), DIALS)
def test_results_are_those_of_a_head_with_these_dials(
    run: Path, index: Index, tree: float | None, instance: float | None
) -> None:
    names = index.rows(["id"])["id"].to_pylist()
    loaded = load_run(run)
    query = 7
    name = loaded.source.sample_names()[query]
    assert name in names
    turned = index.with_dials(tree=tree, instance=instance)
    hits = turned.search_id(name, k=20)
    points = {other: at for at, other in enumerate(expected_order(run, query, tree, instance))}
    assert np.abs(np.diff([points[one] for one in hits.ids])).max() <= 3  # but for ties in float32
    assert {points[one] for one in hits.ids[:15]} <= set(range(20))
    own = torch.from_numpy(index.vectors()[names.index(name)].copy())
    by_vector = turned.search(own, k=21)[0]
    assert set(by_vector.ids) == {name, *hits.ids}


def test_its_dials_as_they_are_change_nothing(index: Index) -> None:
    name = index.rows(["id"])["id"].to_pylist()[3]
    plain, turned = index.search_id(name, k=10), index.with_dials().search_id(name, k=10)
    np.testing.assert_allclose(turned.distances, plain.distances, atol=1e-5)


def test_means_of_nodes_and_filters(index: Index) -> None:
    turned = index.with_dials(tree=1.0)
    hits = turned.search_node("animal", k=12)
    assert set(hits.nodes.tolist()) <= set(range(*_range(index, "animal")))
    within = turned.search_node("animal", k=5, within="plant")
    assert set(within.nodes.tolist()) <= set(range(*_range(index, "plant")))


def _range(index: Index, name: str) -> tuple[int, int]:
    node = index.taxonomy.find(name)
    return node, int(index.taxonomy.subtree_end[node])


def test_a_change_of_the_index_is_seen(run: Path, tmp_path: Path) -> None:
    index = lt.make_index(run, out=tmp_path / "index")
    turned = index.with_dials(tree=0.0)
    names = index.rows(["id"])["id"].to_pylist()
    first = turned.search_id(names[0], k=1)
    index.delete(first.ids)
    assert turned.search_id(names[0], k=1).ids != first.ids


def test_on_the_command_line_and_refusals(run: Path, index: Index, tmp_path: Path) -> None:
    name = index.rows(["id"])["id"].to_pylist()[0]
    searched = lt.search(run.parent / "index", ids=[name], tree=1.0, instance=0.0, k=3)
    expected = index.with_dials(tree=1.0, instance=0.0).search_id(name, k=3)
    assert searched.answers[0].hits.ids == expected.ids
    with pytest.raises(ValueError, match="tree is 2"):
        index.with_dials(tree=2.0)
    other = lt.train(
        run.parent / "features.npz", out=tmp_path / "other", objective="ce", epochs=1, progress_bar=False
    )
    plain = lt.make_index(other, out=tmp_path / "plain")
    with pytest.raises(DataError, match="has no dials: they are those of the posterior space"):
        plain.with_dials(tree=0.5)
    classes = lt.train(
        run.parent / "features.npz",
        out=tmp_path / "classes",
        objective="tree-ridge",
        **{"tree-ridge.instance": 0.0},
        progress_bar=False,
    )
    alone = lt.make_index(classes, out=tmp_path / "alone")
    with pytest.raises(ValueError, match="hold classes alone, so instance must stay at 0"):
        alone.with_dials(instance=1.0)
    assert len(alone.with_dials(tree=0.0).search_id(name, k=3).ids) == 3
