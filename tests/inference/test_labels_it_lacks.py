"""Labels of new samples that the run's taxonomy lacks, a few among many: named, and left out."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import TaxonomyError

LABELS = ("animal/mammal/dog", "animal/mammal/cat", "animal/fish/trout", "plant/tree/oak")
CENTRES = np.random.default_rng(0).normal(size=(4, 8)) * 2


def _draw(count: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kinds = np.arange(count) % 4
    table = pd.DataFrame(CENTRES[kinds] + rng.normal(size=(count, 8)), columns=[f"v{k}" for k in range(8)])
    return table.assign(label=[LABELS[kind] for kind in kinds])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("run")
    _draw(200, 1).to_csv(home / "own.csv", index=False)
    return lt.train(home / "own.csv", out=home / "run", progress_bar=False).path


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_they_count_with_the_class_above_or_not_at_all(
    run: Path, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = _draw(40, 2)
    rows.loc[[3, 7], "label"] = "animal/mammal/dgo"
    rows.loc[9, "label"] = "animal/bird/owl"
    rows.loc[11, "label"] = "mineral"
    file = tmp_path / f"new.{kind}"
    if kind == "csv":
        rows.to_csv(file, index=False)
    else:
        np.savez(file, vectors=rows.filter(like="v").to_numpy(), label=rows["label"].to_numpy(str))
    with caplog.at_level(logging.WARNING):
        found = lt.predict(run, data=file, labelled=True)
    assert found.labels is not None
    named = [found.taxonomy.path_name(node) if node >= 0 else "" for node in found.labels.tolist()]
    expected = rows["label"].tolist()
    expected[3] = expected[7] = "animal/mammal"
    expected[9], expected[11] = "animal", ""
    assert named == expected
    said = (
        "the taxonomy lacks the label of 4 samples: 'dgo' of 2 (did you mean 'dog'?), 'bird' and 'mineral'."
    )
    assert said in caplog.text


@pytest.mark.parametrize(
    ("label", "rows"), [("plant/tree/dog", [0]), ("plant/tree/Dog", [0]), ("other/thing", list(range(30)))]
)
def test_refused_where_the_class_is_elsewhere_or_most_are_lacking(
    run: Path, tmp_path: Path, label: str, rows: list[int]
) -> None:
    """A missing label is found by its name, which may be no class's; another tree is no slip of the pen."""
    table = _draw(40, 2)
    table.loc[rows, "label"] = label
    table.to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(TaxonomyError, match=r"not in the taxonomy.*without --labelled"):
        lt.predict(run, data=tmp_path / "new.csv", labelled=True)


@pytest.mark.parametrize("label", ["Dog", "animal/Mammal/dog", "animal/mammal/DOG "])
def test_case_is_no_other_class(
    run: Path, tmp_path: Path, label: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = _draw(40, 2)
    rows.loc[[0, 4], "label"] = label
    rows.loc[9, "label"] = "animal/bird/owl"
    rows.to_csv(tmp_path / "new.csv", index=False)
    with caplog.at_level(logging.WARNING):
        found = lt.predict(run, data=tmp_path / "new.csv", labelled=True)
    assert found.labels is not None
    named = [found.taxonomy.path_name(node) for node in found.labels.tolist()]
    assert named[:9] == [*LABELS, *LABELS, LABELS[0]]
    assert named[9] == "animal"
    assert "labels are read without regard to case and blanks" in caplog.text


def test_folders_name_all_that_are_lacking(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(0)
    for name in ("animal/dog", "animal/cat", "plant/oak"):
        (tmp_path / "own" / name).mkdir(parents=True)
        for number in range(12):
            pixels = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "own" / name / f"{number}.png")
    settings = {"encoder": "small-conv", "epochs": 1, "batch_size": 8, "image_size": 8, "accelerator": "cpu"}
    trained = lt.train(tmp_path / "own", out=tmp_path / "run", progress_bar=False, **settings).path
    for name in ("animal/dog", "animal/gnu", "plant/elm", "plant/oak"):
        (tmp_path / "new" / name).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "new" / name / f"{number}.png")
    with caplog.at_level(logging.WARNING):
        found = lt.predict(trained, data=tmp_path / "new", labelled=True, coverage=0.5)
    assert found.labels is not None
    names = [found.taxonomy.path_name(node) for node in found.labels.tolist()]
    assert names == ["animal/dog"] * 3 + ["animal"] * 3 + ["plant"] * 3 + ["plant/oak"] * 3
    assert "the label of 6 samples: 'gnu' of 3 and 'elm' of 3" in caplog.text


def test_the_command_that_lists_all_of_them_is_named(
    run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the note of an evaluation, and by the error of training, which show a few."""
    rows = _draw(80, 2)
    rows.loc[:8, "label"] = [f"mineral {n}" for n in range(9)]
    rows.to_csv(tmp_path / "new.csv", index=False)
    with caplog.at_level(logging.WARNING):
        lt.predict(run, data=tmp_path / "new.csv", labelled=True)
    command = "labeltree taxonomy review {} --data " + str(tmp_path / "new.csv")
    assert "and 4 more. They count" in caplog.text
    assert f"; '{command.format(run)}' lists all of these labels" in caplog.text
    lt.load(run).taxonomy.save(tmp_path / "tree.txt")
    with pytest.raises(TaxonomyError, match="and 6 more; 'labeltree taxonomy review") as told:
        lt.train(
            tmp_path / "new.csv", taxonomy=tmp_path / "tree.txt", out=tmp_path / "run", progress_bar=False
        )
    assert command.format(tmp_path / "tree.txt") in str(told.value)
    for place in (run, tmp_path / "tree.txt"):
        capsys.readouterr()
        assert main(["taxonomy", "review", str(place), "--data", str(tmp_path / "new.csv")]) == 0
        said = capsys.readouterr().out
        assert "that the taxonomy lacks: 9, of 9 samples" in said
        assert all(f"  mineral {n} (1)" in said for n in range(9))
