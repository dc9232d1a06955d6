"""Where a run searches the encoder's features, so do its index, its explorer and its report."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

import labeltree as lt
from labeltree.cli.main import main
from labeltree.evaluation import EvaluationResult
from labeltree.index import Index
from labeltree.inference.model import Model
from labeltree.runs import RunFolder
from labeltree.serving import ServiceSettings
from labeltree.serving.explorer.explorer_app import create_explorer
from labeltree.serving.explorer.open_explorer import open_show

pytestmark = pytest.mark.slow


def test_index_search_and_report_use_the_features(
    tmp_path: Path, make_image_folder: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    photos = make_image_folder(tmp_path / "photos")
    settings = {"epochs": 1, "batch_size": 16, "image_size": 16, "val": 0.2, "test": 0.2}
    trained = lt.train(
        photos,
        "hwc",
        out=tmp_path / "run",
        encoder="small-conv",
        accelerator="cpu",
        progress_bar=False,
        **settings,
    )
    folder = RunFolder(trained.path)
    assert main(["calibrate", str(folder.path)]) == 0
    content = json.loads(folder.chosen_classifier.read_text())
    content["classifier"]["space"] = {
        "name": "features", "hierarchical_f1": {"embeddings": 0.5, "features": 0.75}, "samples": 20
    }  # fmt: skip
    folder.chosen_classifier.write_text(json.dumps(content))

    index = lt.make_index(folder.path)
    model = Model(folder.path)
    picture = next(photos.rglob("*.png"))
    table = model.embed([picture])
    assert table.features is not None
    assert index.info().vectors == "features"
    assert index.settings.dim == table.features.shape[1] != table.embeddings.shape[1]
    hit = index.search_images([picture], k=1)[0]
    assert Path(hit.ids[0]).name == picture.name
    assert hit.distances[0] == pytest.approx(0, abs=1e-5)
    capsys.readouterr()
    assert main(["search", str(folder.path), str(picture)]) == 0
    assert picture.name in capsys.readouterr().out
    assert main(["index", str(index.where)]) == 0
    assert "features of the encoder" in capsys.readouterr().out

    show, engine = open_show(index.where, settings=ServiceSettings(), devices=["cpu"])
    with TestClient(create_explorer(show, engine), base_url="http://localhost") as client:
        body, kind = picture.read_bytes(), {"Content-Type": "image/png"}
        reply = client.post("/api/search?k=1", content=body, headers=kind)
    assert reply.status_code == 200, reply.text
    assert reply.json()["hits"][0]["sample"]["id"] == hit.ids[0]

    model.embed([picture]).save(tmp_path / "more.npz", index.taxonomy)
    alone = {"embeddings": np.ones((1, 4), np.float32), "ids": np.array(["alone"]), "labels": np.array([""])}
    np.savez(tmp_path / "alone.npz", **alone)
    assert main(["index", str(index.where), "--add", str(tmp_path / "more.npz")]) == 0
    assert main(["index", str(index.where), "--add", str(tmp_path / "alone.npz")]) == 2
    assert "has only embeddings" in capsys.readouterr().err
    assert Index.open(index.where).info().size == index.info().size

    assert main(["evaluate", str(folder.path), "--full"]) == 0
    assert "Search uses the encoder's features" in capsys.readouterr().out
    result = EvaluationResult.from_dict(json.loads(folder.metrics.read_text()))
    assert result.main.classifier.space.name == "features"
    page = folder.report.read_text("utf-8")
    assert "Search uses the encoder" in page
