"""``train --folds``: a run a fold, one result of all, and its page."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError, RunError
from labeltree.evaluation import load_outcomes
from labeltree.evaluation.pool_folds import _cautions

pytestmark = pytest.mark.slow
SETTINGS = {"epochs": 1, "batch_size": 16, "image_size": 28, "encoder": "small-conv", "accelerator": "cpu"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    """A table of patients with three images each, and a cross-validation of two folds."""
    home = tmp_path_factory.mktemp("home")
    photos = make_image_folder(home / "photos", per_leaf=24)
    rows = ["image,label,patient,site"]
    for place, file in enumerate(sorted(photos.rglob("*.png"))):
        label = "/".join(file.relative_to(photos).parts[:-1])
        rows.append(f"{file},{label},p{place // 3},{('Graz', 'Wien')[place // 3 % 2]}")
    (home / "photos.csv").write_text("\n".join(rows))
    train(home)
    return home


def train(home: Path, folds: int = 2) -> lt.RunFolder:  # type: ignore[name-defined]
    table = {"group_column": "patient", "keep_columns": ["site"]}
    where = {"out": home / "cv", "progress_bar": False, "folds": folds, "table": table}
    return lt.train(home / "photos.csv", "hwc", **where, **SETTINGS)


def test_every_sample_is_judged_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = home / "cv"
    options = ["--protocols", "node-scores", "decisions", "--by", "site", "--quiet"]
    assert main(["evaluate", str(run), *options]) == 0
    said = capsys.readouterr().out
    assert "site = Graz" in said
    assert f"  labeltree compare {run} OTHER" in said
    (whole,) = load_outcomes(run / "outcomes.npz").values()
    parts = [next(iter(load_outcomes(run / f"fold-{k}" / "outcomes.npz").values())) for k in (1, 2)]
    assert sorted(whole.instances.tolist()) == sorted(i for each in parts for i in each.instances.tolist())
    assert len(whole) == 120
    page = (run / "report.html").read_text()
    for words in ("hwc, 2 folds", "site = Wien", "sensitivity", "fold-2/report.html"):
        assert words in page
    same = shutil.copytree(run, run.parent / "same")
    compared = lt.compare({"one": run, "same": same}, out=home / "comparison")
    assert compared.result.samples == 120
    assert all(part.value == 0 for part in compared.result.metric("answer_top1").differences.values())


def test_a_warning_of_one_fold_names_the_fold() -> None:
    folds: Any = [SimpleNamespace(cautions=said) for said in (["all", "few"], ["all"], ["none", "all"])]
    assert _cautions(folds) == ["all", "Fold 1: few", "Fold 3: none"]


def test_folds_go_on_where_they_stopped(home: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (home / "cv").rglob("encoder*")}
    train(home)
    assert before == {path: path.stat().st_mtime_ns for path in (home / "cv").rglob("encoder*")}
    with pytest.raises(RunError, match="holds the runs of 2 folds, not 3"):
        train(home, folds=3)
    with pytest.raises(RunError, match="holds a run; give the folds another --out"):
        lt.train(home / "photos.csv", "hwc", out=home / "cv" / "fold-1", folds=2, **SETTINGS)


def test_what_does_not_go_with_folds_says_so(home: Path) -> None:
    with pytest.raises(ValueError, match="folds is 1; a cross-validation has at least 2"):
        lt.train(home / "photos.csv", "hwc", out=home / "one", folds=1, **SETTINGS)
    with pytest.raises(ValueError, match="the recipe names the fold 1/2"):
        lt.train(home / "photos.csv", "hwc", out=home / "one", folds=2, fold="1/2", **SETTINGS)
    with pytest.raises(RunError, match="holds the runs of a cross-validation"):
        lt.load(home / "cv")
    with pytest.raises(ValueError, match="'split' does not go with the folds"):
        lt.evaluate(home / "cv", split="val")
    few, table = home / "few.csv", {"group_column": "patient"}
    few.write_text("\n".join((home / "photos.csv").read_text().splitlines()[:10]))
    with pytest.raises(DataError, match="cannot make 5 folds; ask for at most 3"):
        lt.train(few, "hwc", out=home / "few", folds=5, table=table, **SETTINGS)
