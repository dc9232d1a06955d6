"""The front page of the site: its lines run, and its numbers stand where it says that they were measured."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean, stdev

import pytest

import labeltree
from labeltree.training.registry import list_objectives, list_sums

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "index.md").read_text("utf-8")


def test_the_five_lines_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    make_image_folder: Callable[..., Path],
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert sum(bool(line) for line in code.splitlines()) == 5
    make_image_folder(tmp_path / "photos")
    shutil.copy(next((tmp_path / "photos").rglob("*.png")), tmp_path / "new.png")
    monkeypatch.chdir(tmp_path)
    quickly = partial(labeltree.train, epochs=1, val=0.4, accelerator="cpu", progress_bar=False)
    monkeypatch.setattr(labeltree, "train", quickly)
    exec(compile(code, "index.md", "exec"), {"__name__": "index"})
    assert (tmp_path / "runs" / "photos" / "report.html").is_file()
    assert "new.png" in capsys.readouterr().out


def test_pair_violations_are_those_of_the_study() -> None:
    results = json.loads((ROOT / "studies/wordnet-animals-objectives/results.json").read_text("utf-8"))[
        "results"
    ]
    values: dict[str, list[float]] = {}
    for row in results:
        values.setdefault(row["method"], []).append(100 * row["scores"]["embeddings/pair_violations"])
    shown = {f"{mean(found):.1f} ± {stdev(found):.1f} %": name for name, found in values.items()}
    happier, supcon = re.findall(r"\d+\.\d ± \d\.\d %", PAGE)
    assert (shown[happier], shown[supcon]) == ("HAPPIER", "SupCon")


def test_speed_is_that_of_the_table_of_goals() -> None:
    (times,) = re.findall(r"\| (\d+\.\d) × \|", PAGE)
    performance = (ROOT / "docs" / "performance.md").read_text("utf-8")
    assert f"pytorch-metric-learning's SupConLoss over ours | ≥ 8 × | {times} × |" in performance


def test_suspects_are_ahead_as_often_as_it_says() -> None:
    ((ahead, cells),) = re.findall(r"\| (\d+) of (\d+) \|", PAGE)
    findings = (ROOT / "docs" / "findings.md").read_text("utf-8").partition("## Planted label errors")[2]
    rows = re.findall(r"^\| (?:fashion-mnist|emoji), \d.*$", findings, re.MULTILINE)
    means = [[float(value) for value in re.findall(r"(\d\.\d+) ±", row)] for row in rows]
    wins = [ours > max(others) for ours, _, *others in means]  # the second column is ours, too
    assert (sum(wins), len(wins)) == (int(ahead), int(cells))


def test_objectives_are_counted() -> None:
    table = (ROOT / "docs" / "objectives" / "index.md").read_text("utf-8")
    uses = re.findall(r"^\| \[`[\w-]+`\].*\| ([^|]+) \|$", table, re.MULTILINE)
    page = (ROOT / "docs" / "other-libraries.md").read_text("utf-8")
    assert f"{sum(text.startswith('yes') for text in uses)} of [{len(uses)} objectives]" in page
    assert len(uses) == len(list_objectives()) + len(list_sums())  # as --list-objectives lists them
    for page in ("README.md", "docs/what-is-in-it.md"):
        assert re.findall(r"\[(\d+) objectives", (ROOT / page).read_text("utf-8")) == [str(len(uses))]
