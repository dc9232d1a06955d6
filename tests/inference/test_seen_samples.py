"""Samples that a run was trained, calibrated or extended with say nothing of how well it answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError
from labeltree.inference.extend import extension_text, extensions_of
from labeltree.inference.named_samples import seen_in_training, seen_since_training
from labeltree.runs import RunFolder
from labeltree.runs.sample_record import SampleRecord

LABELS = ("benign/naevus", "benign/keratosis", "malignant/melanoma", "malignant/carcinoma")
CENTRES = np.random.default_rng(0).normal(size=(4, 8))


def patients(name: str, count: int, seed: int, labels: tuple[str, ...] = LABELS) -> pd.DataFrame:
    """Three vectors of every patient, with an id each."""
    rng, rows = np.random.default_rng(seed), []
    for patient in range(count):
        kind = int(rng.integers(len(labels)))
        for number in range(3):
            vector = {f"v{at}": value for at, value in enumerate(CENTRES[kind] + rng.normal(size=8))}
            who = f"{name}{patient}"
            rows.append({"id": f"{who}-{number}", "patient": who, "label": labels[kind], **vector})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on own samples, and tables of others."""
    home = tmp_path_factory.mktemp("home")
    for name, count, seed in (("own", 100, 1), ("new", 40, 2), ("third", 40, 3)):
        patients(name, count, seed).to_csv(home / f"{name}.csv", index=False)
    own, new = pd.read_csv(home / "own.csv"), pd.read_csv(home / "new.csv")
    pd.concat([own[:60], new]).to_csv(home / "mixed.csv", index=False)
    lt.train(
        home / "own.csv", out=home / "run", progress_bar=False, val=0.3, table={"group_column": "patient"}
    )
    return home


@pytest.fixture
def copied(home: Path, tmp_path: Path) -> Callable[..., Path]:
    """Copy the run of `home`."""
    return lambda: Path(shutil.copytree(home / "run", tmp_path / "run"))


def taught(run: Path, rows: slice) -> int:
    """How many of some of the run's own samples are not of its test split."""
    record = RunFolder(run).load_samples()
    split = dict(zip(record.ids, record.split, strict=True))
    return sum(split[name] != "test" for name in pd.read_csv(run.parent / "own.csv")["id"][rows])


def test_answers_to_own_samples_certify_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = lt.load(home / "run")
    known = model.predict(data=home / "new.csv", labelled=True)
    assert known.seen is not None
    assert not known.seen.any()
    mixed, count = model.predict(data=home / "mixed.csv", labelled=True), taught(home / "run", slice(60))
    assert mixed.seen is not None
    assert mixed.judged is not None
    assert int(mixed.seen.sum()) == count
    assert int(mixed.judged.sum()) == 180 - count
    assert mixed.coverage is not None
    assert mixed.coverage.whole.samples == 180 - count
    said = f"{count} of all 180 are of samples of training or calibration: left out of what"
    assert said in mixed.sentence()
    assert f"of the {180 - count} others whose label is known" in mixed.sentence()
    told = [row["holds"] for row in mixed]
    assert [holds is None for holds in told] == mixed.seen.tolist()
    share = sum(holds is True for holds in told) / (180 - count)
    assert share == pytest.approx(mixed.coverage.whole.share), "the file says what is printed"
    assert len(mixed) == 180, "they are answered all the same"
    assert main(["predict", str(home / "run"), "--split", "val", "--out", str(home / "val.csv")]) == 0
    said = capsys.readouterr().err
    assert "of training or calibration, so nothing can be measured on them" in said
    assert "promised" not in said
    assert "hold the truth" not in said
    assert main(["predict", str(home / "run"), "--split", "test", "--out", str(home / "test.csv")]) == 0
    assert "of training or calibration" not in (said := capsys.readouterr().err)
    assert "answers that hold the truth; promised 90%: " in said


def test_a_group_with_one_sample_of_training_is_known(home: Path) -> None:
    answered = lt.load(home / "run").predict(
        data=home / "mixed.csv", labelled=True, per="group", coverage=0.5
    )
    assert answered.seen is not None
    groups = [name for name, seen in zip(answered.samples, answered.seen.tolist(), strict=True) if seen]
    record = RunFolder(home / "run").load_samples()
    split = {name.partition("-")[0]: split for name, split in zip(record.ids, record.split, strict=True)}
    assert groups == [name for name in answered.samples if split.get(name, "test") != "test"] != []
    assert answered.judged is not None
    assert int(answered.judged.sum()) == len(answered) - len(groups)


def test_ids_tell_samples_whose_content_has_changed(home: Path, tmp_path: Path) -> None:
    run, own = lt.load(home / "run").run, pd.read_csv(home / "own.csv")

    def seen(table: pd.DataFrame) -> list[bool]:
        table.to_csv(tmp_path / "table.csv", index=False)
        found: list[bool] = seen_in_training(run, lt.open_data(tmp_path / "table.csv")).tolist()
        return found

    plain, rounded = seen(own), own.copy()
    rounded.loc[::5, "v0"] += 0.01
    assert seen(rounded) == plain
    assert 200 < sum(plain) < 300
    assert seen(rounded.drop(columns="id")) == [each and row % 5 > 0 for row, each in enumerate(plain)]
    others = pd.read_csv(home / "new.csv")
    others["id"] = own["id"][: len(others)]
    assert not any(seen(others)), "other samples of the same names"


def test_samples_that_were_set_aside_for_coverage_are_known(home: Path, tmp_path: Path) -> None:
    run = lt.train(
        home / "own.csv", "tree-ridge", out=tmp_path / "run", progress_bar=False, val=0.2, calib=0.3,
        table={"group_column": "patient"},
    )  # fmt: skip
    split = np.asarray(run.load_samples().split)
    assert set(split.tolist()) == {"train", "val", "calib", "test"}
    seen = seen_in_training(lt.load(run.path).run, lt.open_data(home / "own.csv"))
    assert seen.tolist() == (split != "test").tolist()


def test_samples_of_calibration_certify_nothing(home: Path, copied: Callable[..., Path]) -> None:
    run = copied()
    lt.calibrate(run, data=home / "new.csv")
    answered = lt.load(run).predict(data=home / "mixed.csv", labelled=True)
    assert answered.seen is not None
    assert int(answered.seen.sum()) == 120 + taught(home / "run", slice(60))
    alone = lt.load(run).predict(data=home / "new.csv", labelled=True)
    assert alone.coverage is None
    assert "nothing can be measured" in alone.sentence()
    assert alone.drift is None
    lt.calibrate(run)
    again = lt.load(run).predict(data=home / "new.csv", labelled=True)
    assert again.coverage is not None
    assert again.seen is not None
    assert not again.seen.any()


def test_an_exported_model_has_no_digests(home: Path, copied: Callable[..., Path], tmp_path: Path) -> None:
    run = copied()
    lt.calibrate(run, data=home / "new.csv")
    lt.export(run, tmp_path / "model", with_reference=True)
    source = lt.open_data(home / "new.csv")
    assert seen_since_training(lt.load(run).run, source).all()
    assert not seen_since_training(lt.load(tmp_path / "model").run, source).any()


def test_samples_of_an_extension_certify_nothing(
    home: Path, copied: Callable[..., Path], tmp_path: Path
) -> None:
    run, table = copied(), tmp_path / "more.csv"
    patients("more", 30, 9, ("benign/wart",)).to_csv(table, index=False)
    lt.extend(run, table)
    answered = lt.load(run).predict(data=table, labelled=True)
    assert answered.seen is not None
    assert answered.seen.all()
    assert answered.coverage is None


def test_an_extension_leaves_out_the_samples_of_earlier_ones(
    home: Path, copied: Callable[..., Path], tmp_path: Path
) -> None:
    run, table, more = copied(), tmp_path / "more.csv", patients("more", 30, 9, ("benign/wart",))
    more.to_csv(table, index=False)
    first = lt.extend(run, table)
    with pytest.raises(DataError, match=r"90 samples of earlier extensions; name samples .*--undo"):
        lt.extend(run, table)
    assert len(extensions_of(run)) == 1
    later = patients("later", 20, 10, ("benign/wart",))
    pd.concat([more, later]).to_csv(table, index=False)
    second = lt.extend(run, table)
    assert sum(each["samples"] + each["held"] for each in second.added) == 60
    text = extension_text(second)
    assert "90 samples of earlier extensions were left out." in text
    assert "If their labels were corrected, undo those extensions first" in text
    known = [each.record["accuracies"] for each in (first, second)]
    assert known[1]["known"] == known[0]["known"] + known[0]["new"] + second.added[0]["held"]
    more.assign(label="benign/wart/common").to_csv(table, index=False)
    third = lt.extend(run, table)
    assert "90 samples of earlier extensions have a new class here" in extension_text(third)
    assert [each["held"] for each in third.added] == [0]


def test_samples_of_a_retired_class_come_back(
    home: Path, copied: Callable[..., Path], tmp_path: Path
) -> None:
    run, table = copied(), tmp_path / "more.csv"
    patients("more", 30, 9, ("benign/wart",)).to_csv(table, index=False)
    lt.extend(run, table)
    lt.extend(run, retire=["benign/wart"])
    again = lt.extend(run, table)
    assert [(each["samples"], each["held"]) for each in again.added] == [(90, 0)]


def test_an_extension_leaves_out_what_the_run_was_calibrated_on(
    home: Path, copied: Callable[..., Path], tmp_path: Path
) -> None:
    run, table = copied(), tmp_path / "more.csv"
    lt.calibrate(run, data=home / "new.csv")
    more = patients("more", 30, 9, ("benign/wart",))
    pd.concat([pd.read_csv(home / "new.csv"), more]).to_csv(table, index=False)
    extension = lt.extend(run, table)
    assert "120 samples that the run was calibrated on were left out." in extension_text(extension)
    assert sum(each["samples"] + each["held"] for each in extension.added) == 90
    answered = lt.load(run).predict(data=home / "new.csv", labelled=True)
    assert answered.seen is not None
    assert answered.seen.all(), "they are among those that its promises rest on"


def test_evaluation_speaks_of_the_calibration_that_answers(home: Path, copied: Callable[..., Path]) -> None:
    run = copied()
    settings: dict[str, Any] = {"resamples": 0, "protocols": ["decisions", "decoding"]}

    def notes(**options: Any) -> tuple[str, dict[str, Any], list[str]]:
        result = lt.evaluate(run, **settings, **options).result
        decisions = result.main.protocols["decisions"]
        return " ".join(decisions.notes), decisions.scores, result.cautions

    before = notes(data=home / "third.csv")[0]
    assert "validation samples" in before
    assert "'new'" not in before
    lt.calibrate(run, data=home / "new.csv")
    answered = lt.load(run).predict(data=home / "third.csv", labelled=True)
    assert answered.coverage is not None
    for where in ({"data": home / "third.csv"}, {}):
        said, scores, cautions = notes(**where)
        if where:
            assert scores["coverage_at_0.9"] == pytest.approx(answered.coverage.whole.share)
        assert "of 'new'." in said
        assert "Coverage is calibrated on" in said
        assert "are 30 labelled" not in said
        assert not any("calibrated or extended" in each for each in cautions)
    said, scores, cautions = notes(data=home / "new.csv")
    assert any(
        each.startswith("120 of these samples are among those that the run was cal") for each in cautions
    )
    assert not any("from which nothing was learned" in each for each in cautions)
    assert not any("two-sample test" in each or "are made so that" in each for each in cautions)


def test_own_test_samples_of_a_calibration_are_told(home: Path, copied: Callable[..., Path]) -> None:
    run = copied()
    lt.calibrate(run, data=home / "own.csv")
    cautions = lt.evaluate(run, resamples=0).result.cautions
    tested = int((np.asarray(RunFolder(run).load_samples().split) == "test").sum())
    said = f"{tested} of these samples are among those that the run was calibrated or extended with"
    assert any(each.startswith(said) for each in cautions), "not those of other splits"


WORDS = {
    "animal/dog": "barks at the door",
    "animal/cat": "purrs on the sofa",
    "plant/oak": "drops its acorns",
}


def titles(name: str) -> pd.DataFrame:
    """Twelve texts of each label."""
    rows = [(f"{name} {number} {words}", label) for label, words in WORDS.items() for number in range(12)]
    return pd.DataFrame(rows, columns=["text", "label"])


def test_texts_are_copies_but_for_case_and_blanks(tmp_path: Path) -> None:
    own, table = tmp_path / "own.csv", tmp_path / "table.csv"
    titles("Old").to_csv(own, index=False)
    settings: dict[str, Any] = {"encoder": "small-text", "epochs": 1, "val": 0.3, "progress_bar": False}
    path = lt.train(own, out=tmp_path / "run", **settings).path
    run = lt.load(path).run

    def write(texts: pd.DataFrame) -> lt.Source:
        texts.assign(text=texts["text"].str.upper().str.replace(" ", "  ")).to_csv(table, index=False)
        return lt.open_data(table)

    assert np.array_equal(
        seen_in_training(run, write(titles("Old"))), seen_in_training(run, lt.open_data(own))
    )
    assert not seen_in_training(run, write(titles("New"))).any()
    assert not seen_in_training(run, write(titles("Ol d"))).any(), "blanks between words tell them apart"
    titles("New").to_csv(own, index=False)
    lt.calibrate(path, data=own)
    run = lt.load(path).run
    assert seen_since_training(run, write(titles("New"))).all()
    assert not seen_since_training(run, write(titles("Old"))).any()


def test_texts_of_a_run_without_plain_digests_are_known_by_content(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    titles("Old").to_csv(own, index=False)
    source = lt.open_data(own)
    copies, splits = source.copy_digests(), np.full(len(source), "train")
    zeros = np.zeros(len(source), np.int64)
    record = SampleRecord(zeros, zeros, splits, digests=copies[:, 0])
    names = [""] * len(source)
    assert (record.splits_in(names, copies) == "train").all()
    titles("OLD").to_csv(own, index=False)
    changed = lt.open_data(own).copy_digests()
    assert not (record.splits_in(names, changed) == "train").any()
    record = SampleRecord(zeros, zeros, splits, digests=copies[:, 0], plain_digests=copies[:, 1])
    assert (record.splits_in(names, changed) == "train").all()
    record.save(tmp_path / "samples.npz")
    assert (SampleRecord.load(tmp_path / "samples.npz").splits_in(names, changed) == "train").all()
