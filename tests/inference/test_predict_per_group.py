"""``predict --per``: a row for each patient, from Python and the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    """A run on a table of images of patients, three each, and a table of new ones."""
    home = tmp_path_factory.mktemp("home")
    for name, per_leaf, seed in (("old", 24, 0), ("new", 6, 1)):
        photos = make_image_folder(home / name, per_leaf=per_leaf, seed=seed)
        rows = ["image,label,patient"]
        for place, file in enumerate(sorted(photos.rglob("*.png"))):
            label = "/".join(file.relative_to(photos).parts[:-1])
            rows.append(f"{file},{label},{name}{place // 3}")
        (home / f"{name}.csv").write_text("\n".join(rows))
    settings = {"epochs": 1, "batch_size": 16, "image_size": 28, "encoder": "small-conv", "val": 0.3}
    lt.train(
        home / "old.csv", "hwc", out=home / "run", progress_bar=False, accelerator="cpu",
        table={"group_column": "patient"}, **settings,
    )  # fmt: skip
    return home


def test_a_row_for_each_patient(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, new = str(home / "run"), str(home / "new.csv")
    words = ["predict", run, "--data", new, "--labelled", "--per", "group", "--coverage", "0.7"]
    assert main([*words, "--format", "json"]) == 0
    said = capsys.readouterr()
    rows = json.loads(said.out)["answers"]
    assert [row["sample"] for row in rows] == [f"new{number}" for number in range(10)]
    assert all("unknown" not in row and row["label"] for row in rows)
    assert "one answer for each group" in said.err
    assert "The samples of a group are combined by" in said.err
    found = lt.load(run).predict(data=new, labelled=True, per="group", coverage=0.7)
    assert found.samples == [row["sample"] for row in rows]
    assert [row["answer"] for row in rows] == [
        lt.load(run).taxonomy.path_name(node) for node in found.answers.nodes.tolist()
    ]
    assert main([*words, "--explain"]) == 2
    assert "an explanation is of a sample" in capsys.readouterr().err


def test_without_groups_it_says_so(
    home: Path, tmp_path: Path, make_image_folder: Callable[..., Path]
) -> None:
    photos = make_image_folder(tmp_path / "photos")
    settings = {"epochs": 1, "batch_size": 16, "image_size": 28, "encoder": "small-conv", "val": 0.3}
    out = tmp_path / "run"
    lt.train(photos, "hwc", out=out, progress_bar=False, accelerator="cpu", **settings)
    with pytest.raises(DataError, match="validation samples of the run are in no groups"):
        lt.load(out).predict(data=photos, per="group")
    with pytest.raises(DataError, match="has no groups to answer for"):
        lt.load(home / "run").predict(data=photos, per="group", coverage=0.7)
