"""``predict --per``: a row for each patient, from Python and the command line."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import labeltree as lt
from labeltree.cli.main import main
from labeltree.decisions import Promise
from labeltree.decisions.conformal import advised_coverage, largest_coverage
from labeltree.errors import DataError
from labeltree.inference import coverage
from labeltree.inference.predict import near_limit
from labeltree.inference.reference import load_reference

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    """A run on a table of images of patients, three each, and a table of new ones."""
    home = tmp_path_factory.mktemp("home")
    for name, per_leaf, seed in (("old", 24, 0), ("new", 6, 1)):
        photos = make_image_folder(home / name, per_leaf=per_leaf, seed=seed)
        rows = ["image,label,patient,eye"]
        for place, file in enumerate(sorted(photos.rglob("*.png"))):
            label = "/".join(file.relative_to(photos).parts[:-1])
            rows.append(f"{file},{label},{name}{place // 3},{place % 3 // 2}")
        (home / f"{name}.csv").write_text("\n".join(rows))
    settings = {"epochs": 1, "batch_size": 16, "image_size": 28, "encoder": "small-conv", "val": 0.3}
    lt.train(
        home / "old.csv", "hwc", out=home / "run", progress_bar=False, accelerator="cpu",
        table={"group_column": "patient", "keep_columns": ["eye"]}, **settings,
    )  # fmt: skip
    return home


def test_a_row_for_each_patient(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, new = str(home / "run"), str(home / "new.csv")
    words = ["predict", run, "--data", new, "--labelled", "--per", "group", "--coverage", "0.7", "--full"]
    assert main([*words, "--format", "json"]) == 0
    said = capsys.readouterr()
    rows = json.loads(said.out)["answers"]
    assert [row["sample"] for row in rows] == [f"new{number}" for number in range(10)]
    assert all("unknown" not in row and row["label"] for row in rows)
    assert "one answer for each patient" in said.err
    assert "The samples of a patient are combined by" in said.err
    found = lt.load(run).predict(data=new, labelled=True, per="group", coverage=0.7)
    assert found.samples == [row["sample"] for row in rows]
    assert [row["answer"] for row in rows] == [
        lt.load(run).taxonomy.path_name(node) for node in found.answers.nodes.tolist()
    ]
    assert main(["predict", run, "--data", new, "--labelled", "--coverage", "0.7"]) == 0
    said = capsys.readouterr()
    assert "have answers that hold the truth; promised 70%: " in said.err
    assert "of 10 groups, " in said.err
    assert "eye = 0  " in said.err
    assert main([*words, "--explain"]) == 2
    assert "an explanation is of a sample" in capsys.readouterr().err


def test_the_verdict_allows_for_the_groups_that_calibrated(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few patients' thresholds it forgives more; a number ten times too large would condemn them."""
    given = []
    plain = coverage.measure_coverage

    def measured(*arguments: Any, **more: Any) -> Any:
        given.append(arguments[5])
        return plain(*arguments, **more)

    monkeypatch.setattr(coverage, "measure_coverage", measured)
    model = lt.load(home / "run")
    assert model.predict(data=home / "new.csv", labelled=True, coverage=0.7).coverage is not None
    reference = load_reference(model.run)
    assert reference is not None
    assert reference.groups is not None
    held = reference.groups[torch.from_numpy(reference.split == "val")]
    assert given == [len(held.unique())]


def test_at_the_most_that_groups_can_promise_a_lower_coverage_is_proposed(home: Path) -> None:
    """There the least sure sample of all groups decides."""
    rule = lt.load(home / "run").decider.rule
    held = rule.fitted.num_groups
    most, advised = largest_coverage(held), advised_coverage(held)
    for asked, near in ((most, True), (0.97 * most + 1e-3, True), (advised, False)):
        said = near_limit(rule, Promise(asked))
        assert (f"close to the most that {held} groups can promise" in said) == near
        assert (f"with --coverage {advised:g} they are finer" in said) == near
    for other in (Promise(most, counted="group"), Promise(most, confidence=0.1, counted="group")):
        assert not near_limit(rule, other)
    alone = dataclasses.replace(rule, fitted=dataclasses.replace(rule.fitted, groups=None))
    assert not near_limit(alone, Promise(largest_coverage(len(alone.fitted))))


def test_too_few_are_named_by_what_is_answered_for(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = lt.load(home / "run")
    with pytest.raises(DataError, match="needs at least 99 calibration patients, and there are"):
        model.predict(data=home / "new.csv", per="patient", coverage=0.99)
    with pytest.raises(DataError, match="needs at least 99 groups of calibration samples, and there are"):
        model.predict(data=home / "new.csv", coverage=0.99)
    copy = home / "copy"
    shutil.copytree(home / "run", copy)
    assert main(["calibrate", str(copy)]) == 0
    assert "needs 99 groups for a coverage of 0.99" in capsys.readouterr().out


def test_samples_without_the_column_of_groups_are_said_to_count_alone(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whose promises are then no longer those of patients."""
    rows = [line.split(",") for line in (home / "new.csv").read_text().splitlines()]
    known = home / "known.csv"
    known.write_text("\n".join(f"{row[0]},{row[1]},{row[3]}" for row in rows))
    lacking = "The samples have no column 'patient', by which the run's are grouped"
    run = home / "alone"
    shutil.copytree(home / "run", run)
    settings = {"image_column": "image", "label_columns": ["label"]}
    said = lt.predict(run, data=known, labelled=True, coverage=0.7, table=settings)
    assert lacking in said.warning
    assert lacking not in lt.predict(run, data=home / "new.csv", labelled=True, coverage=0.7).warning
    assert lacking not in lt.predict(run, data=known, coverage=0.7).warning, "nothing is measured"
    lt.calibrate(run, data=home / "new.csv")
    assert not caplog.records
    lt.calibrate(run, data=known, table=settings)
    assert lacking in caplog.text
    assert "promises hold for samples" in caplog.text


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


def test_a_row_for_each_eye_of_a_patient(home: Path) -> None:
    model = lt.load(home / "run")
    found = model.predict(data=home / "new.csv", labelled=True, per="eye", coverage=0.7)
    assert found.samples[:4] == ["new0/0", "new0/1", "new1/0", "new1/1"]
    assert len(found.samples) == 20
    assert "one answer for each eye" in found.about["asked"]
    by_name = model.predict(data=home / "new.csv", per="patient", coverage=0.7)  # the column of the groups
    assert by_name.samples == [f"new{number}" for number in range(10)]
    with pytest.raises(DataError, match="no attribute 'hand'; it has eye"):
        model.predict(data=home / "new.csv", per="hand", coverage=0.7)
    with pytest.raises(ValueError, match="unknown classes are told of samples"):
        model.predict(data=home / "new.csv", per="eye", unknown=0.01)


@pytest.mark.parametrize("per", ["group", "eye"])
def test_the_answers_of_groups_are_held_against_the_promise(home: Path, per: str) -> None:
    table = pd.read_csv(home / "new.csv")
    model = lt.load(home / "run")
    done = model.predict(data=home / "new.csv", labelled=True, per=per, coverage=0.7)
    assert done.coverage is not None
    assert done.labels is not None
    holds = [
        model.taxonomy.lca(answer, label) == answer
        for answer, label in zip(done.answers.nodes.tolist(), done.labels.tolist(), strict=True)
    ]
    whole = done.coverage.whole
    assert whole.share == pytest.approx(np.mean(holds))
    assert whole.samples == len(holds) == {"group": 10, "eye": 20}[per]
    assert whole.groups == (None if per == "group" else table["patient"].nunique())
    assert f" of {whole.samples} {'patient' if per == 'group' else per}s" in done.promises()[0]
    assert done.coverage.parts == (), "eyes of one patient differ"


def test_an_extended_run_answers_for_eyes(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "run", tmp_path / "run")
    table = pd.read_csv(home / "new.csv")
    later = table[:12].assign(label="animal/newt", patient=[f"later{row // 3}" for row in range(12)])
    later.to_csv(tmp_path / "later.csv", index=False)
    said = lt.extend(tmp_path / "run", data=tmp_path / "later.csv").record["notes"]
    names = {lt.load(run).decider.chosen.name for run in (home / "run", tmp_path / "run")}
    assert any(note.startswith("Answers come from") for note in said) == (len(names) > 1)
    done = lt.load(tmp_path / "run").predict(data=home / "new.csv", per="eye", coverage=0.7)
    assert (
        done.samples == lt.load(home / "run").predict(data=home / "new.csv", per="eye", coverage=0.7).samples
    )
    lt.evaluate(
        tmp_path / "run", data=home / "new.csv", resamples=0, out=tmp_path / "measured",
        options={"node-scores": {"per": "eye"}}, protocols=("node-scores",),
    )  # fmt: skip


def test_patients_with_one_image_are_patients(home: Path, tmp_path: Path) -> None:
    lines = (home / "new.csv").read_text().splitlines()
    table = tmp_path / "one.csv"
    table.write_text("\n".join([lines[0], *lines[1::3]]))
    found = lt.load(home / "run").predict(data=table, per="group", coverage=0.7)
    assert found.samples == [f"new{number}" for number in range(10)]


def test_an_export_finds_the_groups_as_the_run_does(home: Path, tmp_path: Path) -> None:
    model = lt.load(home / "run")
    model.export(tmp_path / "model", ["safetensors"], with_reference=True)
    exported = lt.load(tmp_path / "model")
    for per in ("group", "patient"):
        mine = model.predict(data=home / "new.csv", per=per, coverage=0.7)
        theirs = exported.predict(data=home / "new.csv", per=per, coverage=0.7)
        assert theirs.samples == mine.samples == [f"new{number}" for number in range(10)]
        assert [row["answer"] for row in theirs] == [row["answer"] for row in mine]


def test_a_run_calibrated_elsewhere_answers_groups_as_there(home: Path, tmp_path: Path) -> None:
    import shutil

    run = tmp_path / "run"
    shutil.copytree(home / "run", run)
    assert main(["calibrate", str(run), "--data", str(home / "new.csv")]) == 0
    model = lt.load(run)
    held = 10  # patients of the new table, on which it was calibrated
    assert model.decider.group_rule("group").rule.counts["calibration samples"] == held
    assert model.decider.novelty is not None
    assert model.decider.novelty.known.count == held
    (run / "calibration.safetensors").unlink()
    with pytest.raises(DataError, match="was calibrated on 'new', whose samples are not in its folder"):
        lt.load(run).predict(data=home / "new.csv", per="group", coverage=0.7)
    assert main(["calibrate", str(run)]) == 0
    assert lt.load(run).decider.novelty is not None


def test_groups_that_contradict_themselves_are_named_where_the_others_are_too_few(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels, centres = np.array(["benign/naevus", "malignant/melanoma"]), rng.normal(size=(2, 6)) * 2
    rows = []
    for patient in range(60):
        for lesion in range(2):
            kind = lesion if patient % 12 else 0  # both kinds, but for a few
            vector = centres[kind] + rng.normal(size=6)
            rows.append(
                {
                    "patient": f"p{patient}",
                    "label": labels[kind],
                    **{f"v{k}": x for k, x in enumerate(vector)},
                }
            )
    pd.DataFrame(rows).to_csv(tmp_path / "own.csv", index=False)
    table = {"group_column": "patient"}
    run = lt.train(
        tmp_path / "own.csv", out=tmp_path / "run", progress_bar=False, val=0.4, test=0.2, table=table
    )
    with pytest.raises(
        DataError, match=r"calibration patients.*held-out patients have labels that contradict .* --per"
    ):
        lt.predict(run.path, data=tmp_path / "own.csv", per="group", coverage=0.9)


def test_eyes_of_a_patient_are_not_independent(home: Path) -> None:
    """What is promised of an eye rests on patients."""
    decider = lt.load(home / "run").decider
    reference = load_reference(decider.run)
    assert reference is not None
    assert reference.groups is not None
    patients = len(reference.groups[torch.from_numpy(reference.split == "val")].unique())
    eyes = decider.group_rule("eye").rule.fitted
    assert (eyes.num_groups, len(eyes)) == (patients, 2 * patients)
    alone = decider.group_rule("group").rule.fitted
    assert (alone.groups, len(alone)) == (None, patients)


def test_what_does_not_count_is_said_by_reason_and_by_the_name_of_the_column(tmp_path: Path) -> None:
    """Lesions that contradict themselves are lesions, and no smaller units are advised for them."""
    rng = np.random.default_rng(0)
    labels, centres = np.array(["benign/naevus", "malignant/melanoma"]), rng.normal(size=(2, 6)) * 3
    rows = []
    for patient in range(80):
        for place in range(4):
            kind = patient % 2
            row = {"Fall": f"p{patient}", "Herd": place // 2 + 1, "age": 20 + patient, "label": labels[kind]}
            vector = centres[kind] + rng.normal(size=6)
            rows.append(row | {f"v{k}": x for k, x in enumerate(vector)})
    own = pd.DataFrame(rows)
    own.loc[3::8, "label"] = "benign/naevus"  # half of the lesions 1 of melanoma, and of naevus nothing
    own.loc[7::8, "label"] = "benign/naevus"
    own.to_csv(tmp_path / "own.csv", index=False)
    table = {"group_column": "Fall", "keep_columns": ["Herd", "age"]}
    run = lt.train(
        tmp_path / "own.csv", "tree-ridge", out=tmp_path / "run", progress_bar=False, val=0.4, table=table
    )
    with pytest.raises(DataError, match="held-out Herds have labels that contradict") as told:
        lt.predict(run, data=tmp_path / "own.csv", per="Herd", coverage=0.99)
    assert "--per" not in str(told.value)
    with pytest.raises(DataError, match=r"Falls have labels .* --per a column that the run keeps \('Herd'"):
        lt.predict(run, data=tmp_path / "own.csv", per="group", coverage=0.99)
    new = pd.DataFrame(rows[:40]).assign(Fall=lambda table: "new " + table["Fall"])
    new[[f"v{k}" for k in range(6)]] += 0.01
    new.loc[0:3, "label"] = ["malignant/melanoma", "benign/naevus", *["benign/naevus"] * 2]
    new.loc[4:7, "label"] = None
    new.loc[8:11, "label"] = "benign"
    new.loc[36:39, "Herd"] = 1
    new.to_csv(tmp_path / "new.csv", index=False)
    answers = lt.predict(run, data=tmp_path / "new.csv", labelled=True, per="group", coverage=0.5)
    said = "of the 7 whose label is known (of 1 it is missing, of 1 too coarse, of 1 contradictory)"
    assert said in answers.sentence()
    assert "1 Fall with labels that contradict each other: answered" in answers.warning
    assert answers.coverage is not None
    assert answers.coverage.parts == ()
    assert "of 7 Falls have answers" in answers.coverage.text()
    assert "Herd: numbers within Falls, not shown" in answers.coverage.text()
    assert "age: each value is of one Fall alone, not shown" in answers.coverage.text()


@pytest.mark.parametrize("per", ["eye", "group"])
def test_unreadable_pictures_belong_to_their_group(
    home: Path, tmp_path: Path, per: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which the table names; a group without any readable picture has one row, which says so."""
    lines = (home / "new.csv").read_text().splitlines()[:10]  # three patients, 0, 0, 1 each
    for place in (2, 5, 6, 7, 8, 9):
        broken = tmp_path / f"broken{place}.png"
        broken.write_bytes(b"no picture")
        lines[place] = ",".join([str(broken), *lines[place].split(",")[1:]])
    lines[9] = "," + lines[9].split(",", 1)[1]  # names no file
    (tmp_path / "new.csv").write_text("\n".join(lines))
    done = lt.load(home / "run").predict(data=tmp_path / "new.csv", per=per, coverage=0.7)
    rows = {row["sample"]: (row["unreadable"], row["problem"]) for row in done}
    if per == "group":
        assert list(rows) == ["new0", "new1", "new2"]
        assert rows["new0"] == ("1 of 3 pictures unreadable", None)
        assert rows["new1"] == ("2 of 3 pictures unreadable", None)
        assert rows["new2"][1].startswith("3 of 3 pictures unreadable, such as '")
        assert "broken7.png': " in rows["new2"][1]
    else:
        assert list(rows) == [f"new{patient}/{eye}" for patient in range(3) for eye in (0, 1)]
        assert rows["new0/0"] == ("1 of 2 pictures unreadable", None)
        assert rows["new0/1"] == (None, None)
        assert rows["new2/1"][1].startswith("1 of 1 picture unreadable, such as ")
    counted = [count for count, _ in rows.values()]
    assert done.to_pandas()["unreadable"].notna().tolist() == [count is not None for count in counted]
    words = ["predict", str(home / "run"), "--data", str(tmp_path / "new.csv"), "--per", per]
    (tmp_path / "some.csv").write_text("\n".join(lines[:4]))
    assert main([*words[:3], str(tmp_path / "some.csv"), *words[4:], "--coverage", "0.7"]) == 1
    said = capsys.readouterr()
    assert f"; 1 of {3 if per == 'group' else 2} pictures unreadable" in said.out
    assert "answered without what cannot be read" in said.err
