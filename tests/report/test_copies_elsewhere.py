"""Copies in data that a run is judged on are one group, as in training, and it is said once."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError

pytestmark = pytest.mark.slow
LABELS = np.array(["fruit/lemon", "fruit/lime", "bread/rye", "bread/rolls"])


def write(file: Path, seed: int, donors: int, *, twice: bool = False, grouped: bool = True) -> Path:
    """Vectors of donors, four each; `twice` with every vector again, of another donor."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(size=(4, 8))
    label = np.repeat(np.arange(donors) % 4, 4)
    vectors = centres[label] + 1.2 * draw.normal(size=(len(label), 8))
    donor = np.repeat([f"{file.stem} {number}" for number in range(donors)], 4)
    columns = {"vectors": vectors, "label": LABELS[label], "donor": donor}
    if twice:
        again = {**columns, "donor": np.char.add("again ", donor)}
        columns = {name: np.concatenate([columns[name], again[name]]) for name in columns}
    if not grouped:
        del columns["donor"]
    np.savez(file, **columns)
    return file


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    write(home / "own.npz", 0, 60)
    write(home / "once.npz", 1, 20)
    write(home / "twice.npz", 1, 20, twice=True)
    lt.train(
        home / "own.npz", "tree-ridge", out=home / "run", val=0.4, progress_bar=False,
        table={"group_column": "donor"},
    )  # fmt: skip
    return home


TOLD = "80 samples are copies of others (equal vectors): copies are one group"
JOINED = "opies lie in 40 different groups ('twice 0', 'twice 1', 'twice 2' and 37 more) and join them to 20"


def test_copies_of_other_patients_are_no_results_of_each_other(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once, twice = (lt.evaluate(home / "run", data=home / f"{n}.npz", resamples=50) for n in ("once", "twice"))
    recall = [each.result.main.score("recall_at_1") for each in (once, twice)]
    assert recall[0] < 0.95
    assert recall[1] == pytest.approx(recall[0])
    ends = [each.result.main.answer_interval("top1") for each in (once, twice)]
    assert ends[1] == pytest.approx(ends[0], abs=0.02)
    assert all("over 20 groups" in each.headline for each in (once, twice))
    assert main(["evaluate", str(home / "run"), "--data", str(home / "twice.npz"), "--quiet"]) == 0
    said = "".join(capsys.readouterr())
    assert said.count(TOLD) == said.count(JOINED) == 1


def test_patients_with_copies_have_an_answer_each_and_count_together(home: Path) -> None:
    asked = {"data": home / "twice.npz", "coverage": 0.8}
    for per, samples in ((None, 160), ("group", 40)):
        answers = lt.predict(home / "run", **asked, labelled=True, per=per)
        assert len(answers) == samples
        assert answers.warning.splitlines() == [TOLD, f"c{JOINED}"]
        assert answers.coverage.whole.samples == samples
        assert answers.coverage.whole.groups == 20
    once = lt.predict(home / "run", data=home / "once.npz", coverage=0.8, labelled=True, per="group")
    assert once.coverage.groups is None
    plain = lt.predict(home / "run", **asked, per="group")
    assert plain.samples == answers.samples
    assert plain.warning is None


def test_copies_without_patients_are_groups_and_no_patients(home: Path, tmp_path: Path) -> None:
    alone = write(tmp_path / "alone.npz", 1, 20, twice=True, grouped=False)
    measured = lt.evaluate(home / "run", data=alone, resamples=50)
    assert "over 80 groups" in measured.headline
    assert measured.result.main.score("recall_at_1") < 1
    said = "\n".join(measured.result.cautions)
    assert TOLD in said
    assert "The samples have no column 'donor'" in said
    assert "these samples do not say of which they are" in said
    with pytest.raises(DataError, match="has no groups to answer for"):
        lt.predict(home / "run", data=alone, coverage=0.8, labelled=True, per="group")


def test_copies_that_would_join_most_samples_stay_apart(home: Path, tmp_path: Path) -> None:
    with np.load(home / "once.npz") as file:
        columns = dict(file)
    columns["vectors"][::4] = columns["vectors"][0]
    np.savez(tmp_path / "filled.npz", **columns)
    measured = lt.evaluate(home / "run", data=tmp_path / "filled.npz", resamples=50)
    assert "over 20 groups" in measured.headline
    told = "they are not, so such copies count as different samples."
    assert sum(told in each for each in measured.result.cautions) == 1


def test_texts_are_copies_whatever_the_splits_of_their_table(tmp_path: Path) -> None:
    """Splits of the other table divide nothing that is judged."""
    draw, words = np.random.default_rng(0), {"fruit/lemon": "sour yellow", "bread/rye": "dark crust"}
    rows = [
        f"{words[label]} {draw.integers(9999)} {draw.integers(9999)},{label}"
        for label in words
        for _ in range(40)
    ]
    (tmp_path / "own.csv").write_text("text,label\n" + "\n".join(rows[10:]))
    settings = {"encoder": "small-text", "epochs": 1, "accelerator": "cpu", "progress_bar": False}
    run = lt.train(tmp_path / "own.csv", "ce", out=tmp_path / "run", **settings)
    new = [*rows[:10], *(row.replace("sour", "SOUR ") for row in rows[:10])]
    lines = [f"{row},{'train' if place < 10 else 'test'}" for place, row in enumerate(new)]
    (tmp_path / "new.csv").write_text("text,label,split\n" + "\n".join(lines))
    answers = lt.predict(run, data=tmp_path / "new.csv", labelled=True, coverage=0.5)
    assert answers.coverage.groups == 10
    assert "10 samples are copies of others (texts that are equal but for case and blanks)" in answers.warning


def test_a_run_is_calibrated_and_extended_with_copies_in_one_group(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counts = []
    for name in ("once", "twice"):
        run = shutil.copytree(home / "run", tmp_path / name)
        counts.append(lt.calibrate(run, data=home / f"{name}.npz").rule.fitted.num_groups)
    assert counts[1] <= counts[0] == 20
    assert caplog.text.count(TOLD) == caplog.text.count(JOINED) == 1
    with np.load(home / "twice.npz") as file:
        columns = {**file, "label": np.full(160, "bread/toast"), "vectors": file["vectors"] + 3}
    np.savez(tmp_path / "new.npz", **columns)
    run = shutil.copytree(home / "run", tmp_path / "extended")
    extension = lt.extend(run, data=tmp_path / "new.npz")
    assert f"{TOLD}." in extension.record["notes"]
    assert f"C{JOINED}." in extension.record["notes"]
