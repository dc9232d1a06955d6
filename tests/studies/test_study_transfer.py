"""A study's frozen encoders on other data: other leaves, sizes and tree."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from PIL import Image

from labeltree.studies.execute import execute

pytestmark = pytest.mark.slow


@pytest.fixture
def other_folder(image_folder: Path, tmp_path: Path) -> Path:
    """Three leaves in two groups, larger and grey."""
    leaves = {"animal/dog/poodle": "a/x", "plant/rose": "a/y", "plant/fern": "b/z"}
    for old, new in leaves.items():
        (tmp_path / "other" / new).mkdir(parents=True)
        for file in sorted((image_folder / old).iterdir()):
            image = Image.open(file).convert("L").resize((40, 44))
            image.save(tmp_path / "other" / new / file.name)
    return tmp_path / "other"


@pytest.mark.long
def test_every_encoder_is_measured_on_the_other_data_too(
    image_folder: Path, other_folder: Path, tmp_path: Path
) -> None:
    shared = {"data": str(image_folder), "epochs": 1, "batch_size": 9, "val": 0.2, "image_size": 28}
    plan = {
        "title": "x",
        "shared": {**shared, "accelerator": "cpu"},
        "seeds": [0],
        "trial_seed": 0,
        "select": "val_embeddings_ahp",
        "baselines": ["raw", "start"],
        "transfer": {"data": str(other_folder)},
        "methods": {"SupCon": {"settings": {"objective": "supcon"}}, "CE": {"settings": {"objective": "ce"}}},
    }
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(plan), "utf-8")
    assert execute(file, jobs=1).failures == []
    rows = {
        (r["method"], r["seed"]): r for r in json.loads((tmp_path / "results.json").read_text())["results"]
    }
    moved = {name: [c for c in row["scores"] if c.startswith("transfer ")] for name, row in rows.items()}
    assert all(moved[name, 0] for name in ("SupCon", "CE", "untrained encoder"))
    # A tree of depth 2, not 3, and features as they come out of this run's encoder.
    scores = rows["SupCon", 0]["scores"]
    assert "probe/accuracy at depth 3" in scores
    assert "transfer probe/accuracy at depth 2" in scores
    assert "transfer probe/accuracy at depth 3" not in scores
    assert scores["transfer embeddings/ahp"] != scores["embeddings/ahp"]
    assert not moved["raw pixels", 0], "pixels are no encoder"
    page = (tmp_path / "README.md").read_text("utf-8")
    assert "transfer" in page.lower()
    shutil.rmtree(tmp_path / "runs")
    assert execute(file, jobs=1).failures == [], "results.json is enough: nothing is done again"
    assert not list((tmp_path / "runs").glob("*"))
