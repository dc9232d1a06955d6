"""The explorer of a real index, and of one that a run has made."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from explorer_inputs import COLOURS, make_collection, square
from PIL import Image

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

import labeltree as lt
from labeltree.errors import DataError
from labeltree.index import Index, IndexRows
from labeltree.serving import ServiceSettings
from labeltree.serving.explorer.explorer_app import create_explorer
from labeltree.serving.explorer.open_explorer import open_collection, open_show
from labeltree.training.recipe_data import open_recipe_data

pytestmark = pytest.mark.skipif(find_spec("lancedb") is None, reason="lancedb is not installed")


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


def test_suspects_are_found_in_the_index(index: Index, tmp_path: Path) -> None:
    show, _ = open_show(index.where, images=[tmp_path / "data"], settings=ServiceSettings())
    assert show.info(None).changed_at.endswith(" UTC")
    assert show.suspect_search is not None
    assert (show.info(None).suspects, show.info(None).corrections) == (0, None)
    with TestClient(create_explorer(show, None), base_url="http://localhost") as client:
        assert client.get("/api/suspects").json()["state"] == "absent"
        assert client.post("/api/suspects").json()["possible"]
        for thread in threading.enumerate():
            if thread.name == "suspects":
                thread.join(60)
        assert client.get("/api/suspects").json()["problem"] == ""
        first = client.get("/api/review").json()["items"][0]
    assert first["sample"]["id"] == "sample 000"
    assert first["suggested_path"] == ["warm", "red"]
    assert show.info(None).corrections == "reviewed.csv"


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


@pytest.mark.slow
def test_samples_without_files_are_drawn_from_the_data_of_the_run(image_run: Path, tmp_path: Path) -> None:
    model = lt.load(image_run)
    source = open_recipe_data(model.recipe)
    vectors = np.eye(len(source), model.network.objective.dim, dtype=np.float32) + 0.1
    numbers = [*source.instances.tolist()[1:], 10**6]
    rows = IndexRows(list(map(str, numbers)), vectors, columns={"instance": numbers})
    Index.create(tmp_path / "index", rows, taxonomy=model.taxonomy, model=image_run)
    show, engine = open_show(tmp_path / "index", settings=ServiceSettings(), devices=["cpu"])
    assert engine is not None
    with TestClient(create_explorer(show, engine), base_url="http://localhost") as client:
        assert client.get("/api/info").json()["pictures"]
        drawn = Image.open(BytesIO(client.get("/api/pictures/0?size=64").content)).convert("RGB")
        gone = client.get(f"/api/pictures/{len(numbers) - 1}")
        assert (gone.status_code, gone.json()["detail"]) == (
            404,
            "the sample is no longer in the data of the run",
        )
    pixels = source.load(torch.tensor([1]))[0].numpy().transpose(1, 2, 0)
    sides = np.asarray(drawn.size) // pixels.shape[1]
    assert np.abs(np.asarray(drawn)[:: sides[1], :: sides[0]].mean((0, 1)) - pixels.mean((0, 1))).max() < 4


@pytest.mark.slow
@pytest.mark.usefixtures("few_words")
def test_a_run_on_images_and_texts_is_searched_by_either(tmp_path: Path) -> None:
    lines = ["image,text,depth1,depth2"]
    for number, path in enumerate(4 * list(COLOURS)[:3]):
        (tmp_path / f"{number}.png").write_bytes(square(COLOURS[path]))
        photo, text = f"{number}.png", f"a {path[1]} square"
        lines.append(f"{photo if number else ''},{text if number != 1 else ''},{path[0]},{path[1]}")
    (tmp_path / "table.csv").write_text("\n".join(lines))
    settings = {"epochs": 1, "batch_size": 8, "image_size": 16, "val": 0.3, "monitor": "map_at_r"}
    trained = lt.train(
        tmp_path / "table.csv",
        "hwc",
        out=tmp_path / "run",
        encoder="small-conv+small-text",
        accelerator="cpu",
        progress_bar=False,
        **settings,
    )
    index = lt.make_index(trained.path)
    show, engine = open_show(index.where, settings=ServiceSettings(), devices=["cpu"])
    assert engine is not None
    model = engine.model
    with TestClient(create_explorer(show, engine), base_url="http://localhost") as client:
        assert client.get("/api/info").json()["reads"] == ["image", "text"]
        by_text = client.post("/api/search?k=3", json={"texts": ["a blue square"]})
        image, kind = (tmp_path / "2.png").read_bytes(), {"Content-Type": "image/png"}
        by_image = client.post("/api/search?k=3", content=image, headers=kind)
        wanted = (model.embed(texts=["a blue square"]), model.embed(tmp_path / "2.png"))
        for reply, table in zip((by_text, by_image), wanted, strict=True):
            found = index.search(table.embeddings.numpy(), k=3)[0]
            assert [hit["sample"]["id"] for hit in reply.json()["hits"]] == list(found.ids)
            assert [hit["distance"] for hit in reply.json()["hits"]] == pytest.approx(
                found.distances, abs=1e-4
            )
        rows = {row: client.get(f"/api/pictures/{row}").status_code for row in range(len(show.collection))}
        paths = show.collection.paths
        assert paths is not None
        assert sorted(rows.values()) == [*[200] * 11, 404]
        both = [client.post("/api/search", json={"texts": [text]}).status_code for text in ("", "x" * 10**6)]
        assert both == [400, 413]


def test_decisions_do_not_go_into_the_record_of_a_run(index: Index, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("data: photos\n")
    record = tmp_path / "corrections.csv"
    record.write_text("sample,label,suggested,decision\n")
    with pytest.raises(DataError, match="a run was trained with"):
        open_show(index.where, settings=ServiceSettings(), corrections=record)
    assert record.read_text() == "sample,label,suggested,decision\n"


def test_a_file_of_decisions_need_not_be_there_yet(index: Index, tmp_path: Path) -> None:
    show, _ = open_show(index.where, settings=ServiceSettings(), corrections=tmp_path / "new.csv")
    assert show.review.kept is not None
    assert not (tmp_path / "new.csv").exists()


def test_decisions_lie_beside_the_suspects_unless_another_file_is_named(index: Index, tmp_path: Path) -> None:
    folder = tmp_path / "found"
    folder.mkdir()
    suspects = folder / "suspects.csv"
    suspects.write_text("sample,suggested,reason,score\nsample 000,warm/red,its neighbours,0.9\n")
    for corrections, expected in (
        (None, folder / "reviewed.csv"),
        (tmp_path / "own.csv", tmp_path / "own.csv"),
    ):
        show, _ = open_show(
            index.where, settings=ServiceSettings(), suspects=suspects, corrections=corrections
        )
        assert len(show.review.suspects) == 1
        assert show.review.kept is not None
        assert show.review.kept.path == expected
    assert open_show(index.where, settings=ServiceSettings())[0].review.kept is None


def test_decisions_go_on_where_nothing_is_known_of_a_run(index: Index, tmp_path: Path) -> None:
    """An index of embeddings has no run that may have been trained with them."""
    begun = tmp_path / "begun.csv"
    begun.write_text("sample,label,suggested,decision\n")
    assert index.model is None
    show, _ = open_show(index.where, settings=ServiceSettings(), corrections=begun)
    assert show.review.kept is not None
    assert show.review.kept.path == begun
