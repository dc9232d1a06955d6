"""Tables that are read for a run: what was said of the run's own table, and which setting names a column."""

import logging
from pathlib import Path

import numpy as np
import pytest

import labeltree as lt
from labeltree.errors import DataError
from labeltree.inference.load_run import load_run
from labeltree.inference.named_samples import open_other
from labeltree.runs import RunFolder

pytestmark = pytest.mark.slow
KINDS = ["Vögel/Eule", "Vögel/Ente", "Bäume/Eiche", "Bäume/Ulme"]


def write(path: Path, seed: int, encoding: str = "cp1252", *, label: str = "label") -> Path:
    rng = np.random.default_rng(seed)
    rows = [f"{label},{','.join(f'x{at}' for at in range(6))}"]
    for kind in range(4):
        points = 2 * np.eye(6)[kind] + 0.3 * rng.normal(size=(20, 6))
        rows += [f"{KINDS[kind]},{','.join(f'{number:.4f}' for number in point)}" for point in points]
    path.write_bytes("\n".join(rows).encode(encoding))
    return path


def train(folder: Path, encoding: str) -> Path:
    data = write(folder / "own.csv", 1, encoding)
    lt.train(
        data,
        "tree-ridge",
        out=folder / "run",
        accelerator="cpu",
        progress_bar=False,
        table={"vector_column": "x*"},
    )
    return folder / "run"


@pytest.mark.parametrize(("own", "said"), [("cp1252", False), ("utf-8", True)])
def test_a_guess_that_training_made_too_is_not_said_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, own: str, *, said: bool
) -> None:
    run = train(tmp_path, own)
    assert said != any("cp1252" in note for note in RunFolder(run).read_summary()["notes"])
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        lt.load(run).predict(data=str(write(tmp_path / "new.csv", 2)), labelled=True, coverage=0.8)
    assert ("which is a guess" in caplog.text) == said


def test_a_column_that_another_table_lacks_is_told_with_its_setting(tmp_path: Path) -> None:
    run = load_run(train(tmp_path, "utf-8"), own_data=False)
    other = write(tmp_path / "other.csv", 2, "utf-8", label="kind_of_thing")
    with pytest.raises(DataError, match=r"has no column 'label'; .*--table.label_columns names another"):
        open_other(run, str(other), table={"label_columns": "label"})
