"""``predict --question``: the scores and the threshold are those of ``evaluate --question``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError

pytestmark = pytest.mark.slow

PATHS = np.array(["skin/melanoma", "skin/naevus", "lung/carcinoma", "lung/scar"])
MALIGNANT = (0, 2)
QUESTION = "malignant=melanoma,carcinoma"


def write(folder: Path, *, lesions_differ: bool) -> Path:
    """Vectors of 120 patients, three each: of one lesion, or of lesions that differ."""
    rng = np.random.default_rng(4)
    patients = np.arange(120).repeat(3)
    kinds = rng.integers(0, 4, 360) if lesions_differ else (patients % 4)
    vectors = rng.normal(size=(4, 6))[kinds] + rng.normal(size=(360, 6))
    split = np.array(["train", "val", "test"])[patients // 4 % 3]
    columns = {"label": PATHS[kinds], "group": np.array([f"P{patient}" for patient in patients])}
    np.savez(folder / "v.npz", vectors=vectors.astype(np.float32), split=split, **columns)
    return folder / "v.npz"


@pytest.fixture(scope="module", params=[False, True])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    data = write(folder, lesions_differ=request.param)
    return lt.train(data, "ce", out=folder / "run", epochs=2, accelerator="cpu", progress_bar=False).path


@pytest.mark.parametrize("per", [None, "group"])
def test_the_threshold_of_an_evaluation_applies(run: Path, per: str | None) -> None:
    options = {} if per is None else {"per": per}
    done = lt.evaluate(run, questions=[QUESTION], options={"node-scores": options}, resamples=0)
    scores = done.result.main.protocols["node-scores"].scores
    threshold = next(value for key, value in scores.items() if key.endswith("malignant.point_threshold"))
    answered = lt.predict(run, split="test", questions=[QUESTION], per=per, coverage=0.5)
    asked = answered.questions["malignant"]
    data = np.load(run.parent / "v.npz")
    test = data["split"] == "test"
    positive = np.isin(data["label"][test], PATHS[list(MALIGNANT)])
    if per == "group":
        names, place = np.unique(data["group"][test], return_inverse=True)
        truth = dict(zip(names.tolist(), (np.bincount(place, positive) > 0).tolist(), strict=True))
        positive = np.array([truth[name] for name in answered.samples])
    above = asked.numpy() >= threshold - 1e-9
    found = {key.rpartition(".")[2]: value for key, value in scores.items() if "malignant.point" in key}
    assert above[positive].mean() == pytest.approx(found["point_sensitivity"])
    assert (~above)[~positive].mean() == pytest.approx(found["point_specificity"])


def test_scores_stand_in_every_form(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", str(run), "--split", "test", "--question", QUESTION, "--top", "4", "--unknown", "0"]
    assert main([*words, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["answers"]
    for row in rows:
        of_classes = [g["probability"] for g in row["guesses"] if g["class"] in PATHS[list(MALIGNANT)]]
        assert row["malignant"] == pytest.approx(sum(of_classes), abs=1e-5)
    assert main([*words, "--out", str(tmp_path / "a.csv")]) == 0
    with (tmp_path / "a.csv").open() as file:
        assert [float(row["malignant"]) for row in csv.DictReader(file)] == [row["malignant"] for row in rows]
    capsys.readouterr()
    assert main(words) == 0
    assert f"malignant {rows[0]['malignant']:.3f}; " in capsys.readouterr().out
    model = lt.load(run)
    again = model.predict(np.load(run.parent / "v.npz")["vectors"][:3], questions=[QUESTION])
    assert [0 <= row["malignant"] <= 1 for row in again] == [True] * 3
    torch.testing.assert_close(
        again.questions["malignant"],
        torch.tensor([r["malignant"] for r in again]).double(),
        atol=1e-6,
        rtol=0,
    )


def test_questions_that_cannot_be_asked(run: Path) -> None:
    with pytest.raises(ValueError, match="expected NAME=NODE"):
        lt.predict(run, split="test", questions=["malignant"])
    with pytest.raises(DataError, match="question 'malignant': label 'sarcoma' is not in the taxonomy"):
        lt.predict(run, split="test", questions=["malignant=sarcoma"])
    with pytest.raises(ValueError, match="as a column of answers is; rename it"):
        lt.predict(run, split="test", questions=["holds=melanoma"])
    for names in (["guess_1=melanoma"], ["m=melanoma", "m=naevus"]):
        with pytest.raises(ValueError, match=r"rename it|name them apart"):
            lt.predict(run, split="test", questions=names)
