"""The model card and the information on one screen, from facts: also where numbers are missing."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from labeltree.inference.export.card import model_card
from labeltree.inference.info_text import info_text, size_text

FACTS: dict[str, Any] = {
    "model": {
        "objective": "hwc+lam",
        "encoder": "small-conv",
        "reads": "image",
        "image_shape": [3, 28, 28],
        "cut": None,
        "trained": "the encoder, from scratch, and the head",
        "parameters": 158936,
        "encoder_parameters": 137112,
        "features": 96,
        "embeddings": 128,
        "geometry": "sphere",
    },
    "data": {
        "name": "exported",
        "place": None,
        "splits": {
            "train": {"samples": 1200, "classes": 5, "groups": 300},
            "test": {"samples": 40, "classes": 5, "groups": 10},
        },
    },
    "training": {
        "epochs": 1,
        "best_epoch": 0,
        "seconds": 12.4,
        "began": "2026-01-01 10:00 UTC",
        "device": "CPU",
        "devices": 1,
        "precision": "32-true",
        "versions": {"python": "3.11", "torch": "2.14"},
    },
    "metrics": {
        "split": "test",
        "samples": 40,
        "classifier": "probe",
        "confidence": 0.95,
        "numbers": [
            {"name": "top-1", "value": 0.9, "low": 0.8, "high": 0.95},
            {"name": "recall@1", "value": None, "low": None, "high": None},
        ],
        "by_depth": [0.95, None],
    },
    "classifier": {"name": "probe", "sentence": "Answers come from a linear probe on the features."},
    "calibration": {
        "kind": "temperature",
        "descent": "child",
        "on": "validation samples",
        "samples": 70,
        "groups": 20,
        "sentence": None,
        "thresholds": {"0.5": 0.0, "0.8": 0.5, "0.99": None},
    },
    "taxonomy": {"nodes": 10, "leaves": 5, "depth": 3},
    "digests": {"weights": "ab" * 32, "taxonomy": "cd" * 32, "model": "ef" * 32},
    "labeltree": "0.1.0",
}
CONFIG = {"id2label": {str(number): f"animal/kind {number}" for number in range(70)}}
FORMATS = ["onnx", "safetensors", "torch"]


def facts(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(FACTS), **changes}


def test_a_card() -> None:
    card = model_card(facts(), CONFIG, "Zoo", FORMATS)
    _, front, text = card.split("---\n", 2)
    head = yaml.safe_load(front)
    assert head["library_name"] == "labeltree"
    assert head["pipeline_tag"] == "image-classification"
    assert "onnx" in head["tags"]
    assert "license" not in head, "the user names it"
    assert "# Zoo" in text
    assert "| top-1 | 0.900 [0.800, 0.950] |" in text
    assert "| recall@1 | not defined for these samples |" in text
    assert "| accuracy at depth 2 | not defined for these samples |" in text
    assert "| 99% | not possible: too few calibration samples |" in text
    assert "| 80% | 0.500000 |" in text
    assert "| 50% | 0 (no answer is coarser than a class) |" in text
    assert "| train | 1,200 | 5 | 300 |" in text
    assert "never in two splits" in text
    assert "and 20 more" in text
    assert "Own data, not named here" in text
    for snippet in ("python predict.py", "lt.load", "torch.export.load"):
        assert snippet in text


@pytest.mark.parametrize("form", FORMATS)
def test_a_card_names_the_files_of_its_format(form: str) -> None:
    card = model_card(facts(), CONFIG, "Zoo", [form])
    named = {"onnx": "`model.onnx`", "safetensors": "`encoder.safetensors`", "torch": "`model.pt2`"}
    assert [other for other, file in named.items() if file in card] == [form]


def test_what_is_missing_is_said() -> None:
    bare = facts(metrics=None, training=None, data=None)
    card = model_card(bare, CONFIG, "Zoo", FORMATS)
    assert "has not been evaluated: there are no numbers" in card
    assert card.count("Not recorded.") == 2
    said = info_text(bare, Path("runs/x"))
    assert "not evaluated: 'labeltree evaluate runs/x'" in " ".join(said.split())
    silent = info_text(facts(classifier=None, calibration=None), Path("runs/x"))
    assert "none yet: 'labeltree calibrate runs/x'" in silent


def test_numbers_of_another_version_of_the_taxonomy_are_said_to_be_of_it() -> None:
    seen = facts(metrics=None, metrics_before=FACTS["metrics"])
    evaluation = model_card(seen, CONFIG, "Zoo", FORMATS).split("## Evaluation")[1].split("\n## ")[0]
    said, numbers = evaluation.split("\n\nOn 40 samples")
    assert "On this version of the taxonomy the model has not been evaluated" in said
    assert "those of the version that it was trained on" in said
    assert "| top-1 | 0.900 [0.800, 0.950] |" in numbers
    words = " ".join(info_text(seen, Path("runs/x")).split())
    assert "not evaluated on this version of the taxonomy: " in words


def test_texts_have_a_card_of_their_own() -> None:
    model = {**FACTS["model"], "reads": "text", "image_shape": None}
    card = model_card(facts(model=model), CONFIG, "Notes", FORMATS)
    assert "pipeline_tag: text-classification" in card
    assert "pip install onnxruntime numpy tokenizers" in card
    assert "reads texts" in info_text(facts(model=model), Path("x"))


def test_a_screen_is_a_screen(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"{'a long name ' * 6}{number}.bin").write_bytes(b"x" * number)
    long = facts(digests=dict.fromkeys("abcdef", "ab" * 32))
    long["classifier"]["sentence"] = "words " * 300
    long["data"]["splits"] |= {f"site {n}": {"samples": 1, "classes": 1, "groups": None} for n in range(50)}
    lines = info_text(long, tmp_path).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100


def test_sizes() -> None:
    assert [size_text(size) for size in (0, 999, 1000, 640_000, 2_500_000, 3 * 10**9)] == [
        "0 B", "999 B", "1 kB", "640 kB", "2.5 MB", "3 GB",
    ]  # fmt: skip
