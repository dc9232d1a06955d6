"""The explorer of a real index, and of one that a run has made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from explorer_inputs import make_collection, square

pytest.importorskip("fastapi")
pytest.importorskip("lancedb")
from fastapi.testclient import TestClient

import labeltree as lt
from labeltree.errors import DataError
from labeltree.index import Index, IndexRows
from labeltree.serving import ServiceSettings
from labeltree.serving.explorer.app import create_explorer
from labeltree.serving.explorer.opening import open_collection, open_show


@pytest.fixture
def index(tmp_path: Path) -> Index:
    squares = make_collection(tmp_path / "data")
    assert squares.predictions is not None
    assert squares.splits is not None
    assert squares.paths is not None
    names = [squares.taxonomy.path_name(node) for node in squares.predictions.tolist()]
    rows = IndexRows(
        squares.ids.tolist(),
        squares.vectors,
        squares.nodes,
        paths=squares.paths.tolist(),
        splits=squares.splits.tolist(),
        columns={"prediction": names},
    )
    return Index.create(tmp_path / "squares", rows, taxonomy=squares.taxonomy)


def test_its_rows_are_those_of_the_index(index: Index, tmp_path: Path) -> None:
    wanted, found = make_collection(tmp_path / "data"), open_collection(index)
    assert found.name == "squares"
    assert found.ids.tolist() == wanted.ids.tolist()
    for name in ("nodes", "vectors", "splits", "predictions", "paths"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name
    assert found.texts is None
    assert found.geometry == "sphere"
    assert found.taxonomy == wanted.taxonomy
    queries = np.asarray(wanted.vectors[:3])
    for ours, theirs in zip(found.nearest(queries, 5, 1), wanted.nearest(queries, 5, 1), strict=True):
        assert ours.rows.tolist() == theirs.rows.tolist()
        assert np.allclose(ours.similarities, theirs.similarities, atol=1e-5)


def test_a_change_of_the_index_is_told(index: Index, tmp_path: Path) -> None:
    show, engine = open_show(index.where, images=[tmp_path / "data"], settings=ServiceSettings())
    assert engine is None
    assert not show.info(None).changed
    assert show.info(None).pictures
    index.delete([str(show.collection.ids[0])])
    assert show.info(None).changed
    assert 0 not in show.collection.nearest(np.asarray(show.collection.vectors[:1]), 5, None)[0].rows


def test_without_an_index_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=str(tmp_path)):
        open_show(tmp_path, settings=ServiceSettings())


def test_a_run_that_is_gone_leaves_the_rest(index: Index, tmp_path: Path) -> None:
    it = open_collection(index)
    rows = IndexRows(it.ids.tolist(), np.asarray(it.vectors), it.nodes)
    Index.create(tmp_path / "other", rows, taxonomy=it.taxonomy, model=tmp_path / "gone")
    warned: list[str] = []
    show, engine = open_show(tmp_path / "other", settings=ServiceSettings(), warn=warned.append)
    assert engine is None
    assert "cannot be opened" in warned[0]
    assert show.why_no_model == warned[0]
    assert not show.info(None).pictures


@pytest.mark.slow
def test_an_image_is_searched_by_the_run_of_the_index(image_run: Path, photos: Path, tmp_path: Path) -> None:
    model = lt.load(image_run)
    files = sorted(photos.rglob("*.png"))
    table = model.embed(files)
    paths = [str(file) for file in files]
    rows = IndexRows(paths, table.embeddings.numpy(), paths=paths)
    Index.create(tmp_path / "index", rows, taxonomy=model.taxonomy, model=image_run)
    show, engine = open_show(tmp_path / "index", settings=ServiceSettings(), devices=["cpu"], images=[photos])
    assert engine is not None
    with TestClient(create_explorer(show, engine), base_url="http://localhost") as client:
        assert client.get("/api/info").json()["reads"] == ["image"]
        reply = client.post(
            "/api/search?k=3", content=files[3].read_bytes(), headers={"Content-Type": "image/png"}
        )
        assert reply.json()["hits"][0]["sample"]["id"] == paths[3]
        assert client.get("/api/pictures/3").status_code == 200
        broken = client.post(
            "/api/search", content=square((1, 2, 3))[:40], headers={"Content-Type": "image/png"}
        )
        assert broken.status_code == 400


def test_decisions_do_not_go_into_the_record_of_a_run(index: Index, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("data: photos\n")
    record = tmp_path / "corrections.csv"
    record.write_text("sample,label,suggested,decision\n")
    with pytest.raises(DataError, match="record of the corrections"):
        open_show(index.where, settings=ServiceSettings(), corrections=record)
    assert record.read_text() == "sample,label,suggested,decision\n"
