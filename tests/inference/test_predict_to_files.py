"""Answers never replace what they are read from, nor what a run has learned from."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import labeltree as lt
from labeltree.cli.main import main

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a table of vectors, and new rows."""
    home = tmp_path_factory.mktemp("home")
    labels = np.arange(200) % 4
    vectors = np.eye(4)[labels] + 0.1 * np.random.default_rng(0).normal(size=(200, 4))
    for name, rows in (("known.csv", slice(None)), ("new.csv", slice(8))):
        lines = [",".join(f"{x:.4f}" for x in row) for row in vectors[rows]]
        names = [f"ab/{'wxyz'[k]}" for k in labels[rows]]
        text = "\n".join(["f0,f1,f2,f3,label", *(f"{a},{b}" for a, b in zip(lines, names, strict=True))])
        (home / name).write_text(text)
    lt.train(home / "known.csv", out=home / "run", progress_bar=False)
    return home


@pytest.mark.parametrize("name", ["new.csv", "known.csv"])
def test_a_table_that_is_read_is_not_replaced(
    name: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (home / name).read_bytes()
    monkeypatch.chdir(home)
    words = ["predict", "run", "new.csv", "--out", f"../{home.name}/{name}"]
    assert main(words) == 2
    assert "is what is read; name another file" in capsys.readouterr().err
    with pytest.raises(lt.DataError, match="is what is read"):
        lt.predict("run", data="new.csv", out=name)
    assert (home / name).read_bytes() == before
    assert main(["predict", "run", "new.csv", "--out", str(tmp_path / "answers.csv")]) == 0
    assert main(["predict", "run", "new.csv", "--out", str(tmp_path / "answers.csv")]) == 0, "answers are"


def test_embeddings_do_not_replace_vectors(home: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(home, tmp_path / "copy")
    np.savez(folder / "v.npz", vectors=np.eye(4), label=np.array(["ab/w", "ab/x", "ab/y", "ab/z"]))
    before = (folder / "v.npz").read_bytes()
    with pytest.raises(lt.DataError, match="is what is read"):
        lt.embed(folder / "run", data=folder / "v.npz", out=folder / "v.npz")
    assert (folder / "v.npz").read_bytes() == before


def test_what_holds_averages_to_the_coverage_that_is_printed(tmp_path: Path) -> None:
    """A label too coarse to decide says nothing of any answer, also of one that is as coarse."""
    draw = np.random.default_rng(0)
    labels = np.array(["fruit/lemon", "fruit/lime", "bread/rye", "bread/rolls"])
    centres = 2 * draw.normal(size=(4, 6))
    for name, each in (("own", 60), ("new", 40)):
        vectors = np.repeat(centres, each, axis=0) + 1.5 * draw.normal(size=(4 * each, 6))
        given = np.repeat(labels, each)
        if name == "new":
            given[::4] = [label.partition("/")[0] for label in given[::4]]
        np.savez(tmp_path / f"{name}.npz", vectors=vectors, label=given)
    run = lt.train(tmp_path / "own.npz", "tree-ridge", out=tmp_path / "run", val=0.4, progress_bar=False)
    answers = lt.predict(run, data=tmp_path / "new.npz", labelled=True, unknown=0.0)
    assert answers.coverage is not None
    told = [row["holds"] for row in answers]
    assert all((holds is None) == (place % 4 == 0) for place, holds in enumerate(told))
    share = np.mean([holds for holds in told if holds is not None])
    assert share == pytest.approx(answers.coverage.whole.share)
