"""Files of every released version are read by the present one, and mean the same numbers; see `make.py`."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_encoder import register

import labeltree as lt
from exported_script import load_exported_script
from labeltree.cli.main import main
from labeltree.evaluation.outcomes import load_outcomes
from labeltree.evaluation.result import EvaluationResult
from labeltree.inference.model import Model
from labeltree.inference.reference import load_reference
from labeltree.metrics.metric_checks import check_nodes
from labeltree.models import encoder_registry as encoders
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy

VERSIONS = sorted(path for path in Path(__file__).parent.iterdir() if (path / "expected.json").is_file())
CLOSE = {"rtol": 1e-5, "atol": 1e-5}

pytestmark = pytest.mark.parametrize("frozen", VERSIONS, ids=lambda path: path.name)


@pytest.fixture(autouse=True)
def _encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "_ENTRIES", dict(encoders.registered_encoders()))
    register()


def expected(frozen: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((frozen / "expected.json").read_text("utf-8"))
    return content


def images(frozen: Path) -> list[np.ndarray]:
    with np.load(frozen / "images.npz") as file:
        return list(file["images"])


@pytest.mark.parametrize("folder", ["run", "exported"])
def test_models_answer_as_they_did(frozen: Path, folder: str) -> None:
    known, model = expected(frozen), Model(frozen / folder, device="cpu")
    features, embeddings = model.embed_batch(images(frozen))
    torch.testing.assert_close(features, torch.tensor(known["features"]), **CLOSE)
    torch.testing.assert_close(embeddings, torch.tensor(known["embeddings"]), **CLOSE)
    found = model.answer_batch(images(frozen), coverage=0.8)
    assert found.nodes.tolist() == known["answers"]
    probabilities = torch.tensor(known["probabilities"], dtype=torch.float64)
    torch.testing.assert_close(found.probabilities, probabilities, **CLOSE)
    assert model.digest == known["digest"]


def test_what_a_run_knows_is_read(frozen: Path) -> None:
    folder = RunFolder(frozen / "run")
    model = Model(folder, device="cpu")
    assert load_reference(model.run) is not None
    samples = folder.load_samples()
    assert {"train", "val", "test"} == set(samples.split.tolist())
    assert len(samples.nodes) == 96
    assert len(folder.read_history()) == 3
    assert folder.read_versions()[0]["labeltree"] == frozen.name
    assert "state_dict" in folder.load_checkpoint(folder.last_checkpoint)
    assert Taxonomy.from_file(folder.taxonomy).num_leaves == 4


def test_evaluations_are_read(frozen: Path) -> None:
    folder = RunFolder(frozen / "run")
    result = EvaluationResult.from_dict(json.loads(folder.metrics.read_text("utf-8")))
    assert result.main.answer_score("top1") == expected(frozen)["top1"]
    outcomes = next(iter(load_outcomes(folder.outcomes).values()))
    assert outcomes is not None


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_tables_are_read(frozen: Path, suffix: str) -> None:
    table = EmbeddingTable.load(
        frozen / f"table{suffix}", Taxonomy.from_file(frozen / "run" / "taxonomy.json")
    )
    torch.testing.assert_close(table.embeddings, torch.tensor(expected(frozen)["embeddings"]), **CLOSE)
    assert table.features is not None
    torch.testing.assert_close(table.features, torch.tensor(expected(frozen)["features"]), **CLOSE)


@pytest.mark.parametrize("folder", ["run", "exported"])
def test_information(frozen: Path, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(frozen / folder)]) == 0
    said = capsys.readouterr().out
    assert expected(frozen)["digest"][:16] in said
    assert "train" in said
    assert "top-1" in said


def test_exported_graphs_are_computed(frozen: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    script = load_exported_script(frozen / "exported")
    taxonomy = lt.Taxonomy.from_file(frozen / "exported" / "taxonomy.json")
    known = expected(frozen)
    rows = script.predict([Image.fromarray(pixels) for pixels in images(frozen)], 0.8)
    assert [row["answer"] for row in rows] == [taxonomy.path_name(node) for node in known["answers"]]
    assert [row["probability"] for row in rows] == pytest.approx(known["probabilities"], abs=1e-4)


def test_labels_at_the_root_of_a_run_are_no_class_numbers(frozen: Path) -> None:
    run = Model(frozen / "run", device="cpu").run
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_nodes("labels", torch.tensor([0, 1]), run.taxonomy)
