"""What a run says of samples unlike its own: in predict, in Parquet files, from Python and in a service."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import labeltree as lt
from labeltree.cli.main import main
from labeltree.inference.bulk import BulkJob, likeness, run_bulk
from labeltree.inference.bulk.likeness import PartDraw
from labeltree.inference.calibrate_run import open_decider
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.serving import ServiceSettings
from labeltree.serving.app import create_app
from labeltree.serving.drift_watch import WINDOW
from labeltree.serving.engine import Engine

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    home = tmp_path_factory.mktemp("home")
    photos = make_image_folder(home / "photos", per_leaf=40)
    settings = {"epochs": 1, "batch_size": 32, "image_size": 28, "encoder": "small-conv", "val": 0.3}
    return lt.train(photos, "hwc", out=home / "run", progress_bar=False, accelerator="cpu", **settings).path


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    """New images of the kinds that the run knows."""
    return make_image_folder(tmp_path_factory.mktemp("new") / "photos", per_leaf=12, seed=1)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of a kind that the run does not know: fine stripes."""
    folder = tmp_path_factory.mktemp("other")
    draw = np.random.default_rng(0)
    for number in range(60):
        rows = (np.indices((28, 28)).sum(0) * draw.integers(1, 4) % 2) * 255
        pixels = np.stack([rows, 255 - rows, rows], axis=2).astype(np.uint8)
        noisy = pixels.astype(int) + draw.integers(-20, 20, pixels.shape)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(folder / f"{number:02}.png")
    return folder


def test_predict_says_what_it_does_not_know(
    run: Path, same: Path, other: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [str(file) for file in sorted(other.glob("*.png"))]
    capsys.readouterr()
    assert main(["predict", str(run), *files, "--format", "json"]) == 0
    said = capsys.readouterr()
    rows = json.loads(said.out)["answers"]
    assert sum(row["unknown"] for row in rows) > 50
    assert all(0 < row["p_known"] <= 1 for row in rows)
    assert "fit no known class" in said.err
    assert "these 60 samples are not like the held-out samples" in said.err
    assert main(["predict", str(run), *files[:3]]) == 0
    said = capsys.readouterr()
    assert "?" in said.out
    assert "not like the held-out" not in said.err, "three samples are not tested"
    assert main(["predict", str(run), *files, "--unknown", "0", "--format", "json"]) == 0
    plain = json.loads(capsys.readouterr().out)["answers"]
    assert not any(row["unknown"] for row in plain)
    assert main(["predict", str(run), *files[:2], "--unknown", "2"]) == 2
    assert "unknown is 2.0; expected a share of false alarms" in capsys.readouterr().err

    assert main(["predict", str(run), "--data", str(same), "--labelled"]) == 0
    said = capsys.readouterr().err
    told = re.search(r"^\d+ of 60 known samples are called unknown, .*; promised at most 5%: .*$", said, re.M)
    assert told is not None
    labelled = lt.predict(run, data=same, labelled=True)
    assert told[0] in repr(labelled)
    assert told[0] in unescape(labelled._repr_html_())
    assert " have answers that hold the truth; promised 90%: " in repr(labelled)
    known = lt.load(run).predict(data=same)
    assert known.drift is not None
    assert known.answers.unknown is not None
    assert float(known.answers.unknown.double().mean()) < 0.3
    done = lt.load(run).predict_to(str(same), str(tmp_path / "answers"))
    assert done.complete
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "answers")
    assert table["unknown"].to_pylist() == known.answers.unknown.tolist()
    assert table["p_known"].to_pylist() == pytest.approx(known.answers.p_known.tolist())
    assert "not like the held-out" not in (done.warning or "")


def test_a_folder_of_parts_is_compared_as_a_whole(run: Path, other: Path, tmp_path: Path) -> None:
    job = BulkJob(str(run), str(other), str(tmp_path / "out"), "predict", part_size=25)
    done = run_bulk(job)
    assert done.parts == 3
    assert "these 60 samples are not like the held-out samples" in str(done.warning)
    (tmp_path / "out" / "part-00001.parquet").unlink()
    again = run_bulk(job)
    assert (again.written, again.warning) == (25, done.warning)
    assert run_bulk(job).warning == done.warning, "of a folder that was complete already"


def test_a_draw_does_not_depend_on_batches(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likeness, "DRAWN", 7)
    decider = open_decider(run)
    assert decider.novelty is not None
    table = EmbeddingTable.load(RunFolder(run).embeddings()).select("val")
    notes = []
    for size in (1, 5, len(table)):
        draw = PartDraw(decider, 3)
        for rows in torch.arange(len(table)).split(size):
            draw.add(table.rows(rows))
        notes.append(draw.note())
    assert len(notes[0]["distance"]) == len(notes[0]["certainty"]) == 7
    for note in notes[1:]:
        for name in note:
            assert note[name] == pytest.approx(notes[0][name], abs=1e-5)
    other = PartDraw(decider, 4)
    other.add(table)
    assert other.note() != notes[-1]


def test_a_service_watches_what_it_is_asked(run: Path, other: Path) -> None:
    from fastapi.testclient import TestClient

    engine = Engine(run, ServiceSettings(), devices=["cpu"])
    contents = [file.read_bytes() for file in sorted(other.glob("*.png"))]
    with TestClient(create_app(engine)) as client:
        assert client.get("/health").json()["drift"] is None

        def ask(**params: float) -> list[dict[str, object]]:
            parts = [("files", (f"{n}.png", BytesIO(one), "image/png")) for n, one in enumerate(contents)]
            reply = client.post("/predict", files=parts[:50], params=params)
            assert reply.status_code == 200, reply.text
            return reply.json()["answers"]

        assert sum(bool(row["unknown"]) for row in ask()) > 40
        for _ in range(WINDOW // 50):
            assert not any(row["unknown"] for row in ask(unknown=0))
        assert engine.drift is not None
        engine.drift.close()  # waits for the test
        found = client.get("/health").json()["drift"]
    assert found["alarm"]
    assert found["samples"] >= WINDOW
    assert found["evidence"] >= 20
    assert "calibrate RUN --data" in found["says"]
