"""A run that answers: what is in its folder, what the commands print, and what they say when it cannot be."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from labeltree.cli.main import main
from labeltree.decisions import METRIC_COSTS, Promise
from labeltree.inference.calibrate_run import calibrate_run, open_decider
from labeltree.inference.load_run import load_run
from labeltree.metrics.catalogue import metric_name
from labeltree.runs import RunFolder

pytestmark = pytest.mark.slow


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Grey squares, a shade a class and the shades of a coarse class alike, in nested folders."""
    root = tmp_path_factory.mktemp("photos")
    draw = np.random.default_rng(0)
    for shade, name in ((10, "dark/black"), (40, "dark/coal"), (200, "light/white"), (240, "light/snow")):
        folder = root / name
        folder.mkdir(parents=True)
        for number in range(60):
            grey = np.clip(draw.normal(shade, 20, (12, 12)), 0, 255).astype(np.uint8)
            Image.fromarray(grey, "L").save(folder / f"{number:02d}.png")
    return root


def train(photos: Path, out: Path, *words: object) -> Path:
    code = run(
        "train", "--data", photos, "--out", out, "--epochs=1", "--batch-size=16", "--image-size=12",
        "--quiet", "--encoder=small-conv", "--accelerator=cpu", "--val=0.4", "--test=0.2", *words,
    )  # fmt: skip
    assert code == 0
    return out


@pytest.fixture(scope="module")
def probed(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(photos, tmp_path_factory.mktemp("runs") / "probed", "--objective=supcon")


@pytest.fixture(scope="module")
def classified(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(photos, tmp_path_factory.mktemp("runs") / "classified", "--objective=ce")


def test_the_first_prediction_calibrates_the_run(
    probed: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [photos / "dark/black/00.png", photos / "light/snow/01.png"]
    assert run("predict", probed, *files, "--coverage", 0.8, "--format", "json", "--top", 2) == 0
    rows = json.loads(capsys.readouterr().out)["answers"]
    assert [row["sample"] for row in rows] == [str(file) for file in files]
    assert all(len(row["guesses"]) == 2 and 0 <= row["probability"] <= 1 + 1e-6 for row in rows)
    folder = RunFolder(probed)
    written = folder.decisions.read_bytes()
    assert json.loads(written)["version"] == 1
    chosen = open_decider(probed).chosen
    assert len(chosen.equals) > 1  # all are right: the one with the least loss
    assert json.loads(written)["classifier"] == min(chosen.equals, key=lambda kind: chosen.losses[kind])
    assert folder.classifier.is_file()
    calibrate_run(probed)
    assert folder.decisions.read_bytes() == written, "the same run gives the same file"


def test_read_again_it_answers_the_same(probed: Path) -> None:
    fresh, again = calibrate_run(probed), open_decider(probed)
    source = load_run(probed).source.of_split("test")
    for decider in (fresh, again):
        scores = decider.scores(decider.embed(source))
        answers = decider.rule.answer(scores, Promise(0.8))
        if decider is fresh:
            expected = answers
    assert torch.equal(answers.nodes, expected.nodes)
    assert torch.equal(answers.probabilities, expected.probabilities)
    assert torch.equal(again.rule.fitted.scores, fresh.rule.fitted.scores)


def test_a_classifier_of_its_own_can_be_asked_for(classified: Path) -> None:
    decider = calibrate_run(classified, classifier="own", calibration="none")
    assert decider.record["classifier"] == "own"
    source = load_run(classified).source.of_split("test")
    table = decider.embed(source)
    scores = decider.scores(table)
    assert table.features is not None
    answers = decider.run.network.objective.predict(table.features)
    assert answers is not None
    assert torch.equal(decider.rule.classes.nodes[scores.argmax(1)], answers)
    prototypes = calibrate_run(classified, classifier="prototypes")
    assert prototypes.record["classifier"] == "prototypes"
    again = open_decider(classified)
    assert torch.equal(again.scores(again.embed(source)), prototypes.scores(prototypes.embed(source)))


def test_other_weights_are_calibrated_again(classified: Path) -> None:
    calibrate_run(classified, classifier="own", descent="leaf")
    folder = RunFolder(classified)
    for file in (folder.decisions, folder.chosen_classifier):
        stale = json.loads(file.read_text()) | {"encoder": "0" * 64}
        file.write_text(json.dumps(stale))
    classifiers = folder.classifier.stat().st_mtime_ns
    again = open_decider(classified)
    assert again.record["classifier"] == again.chosen.name
    assert again.chosen.asked == "auto"  # what was chosen for other weights does not count
    assert again.rule.descent == "leaf"  # how answers are made does
    assert folder.classifier.stat().st_mtime_ns > classifiers
    for file in (folder.decisions, folder.chosen_classifier):
        assert json.loads(file.read_text())["encoder"] != "0" * 64


def test_tables_and_labels(probed: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert (
        run(
            "predict",
            probed,
            "--split",
            "test",
            "--coverage",
            0.5,
            "--out",
            tmp_path / "t.csv",
            "--format",
            "csv",
        )
        == 0
    )
    said = capsys.readouterr()
    assert said.out == ""
    assert "hold the truth" in said.err
    rows = list(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert len(rows) == 48
    held = [row["holds"] == "True" for row in rows]
    assert f"{np.mean(held):.2%} hold the truth" in said.err
    for row in rows:
        assert (row["holds"] == "True") == (
            row["answer"] == "/" or (row["label"] + "/").startswith(row["answer"] + "/")
        )
        assert float(row["guess_1_probability"]) >= float(row["guess_2_probability"])
    assert run("predict", probed, "--split", "test", "--coverage", 0.5) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["sample", "answer", "p", "guesses"]
    assert len(table) == 49


def test_costs(probed: Path, photos: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = photos / "dark/coal/03.png"
    answers = []
    for words in (("tree", "--coarse-cost", 0), ("tree", "--coarse-cost", 1), ("edges",)):
        assert run("predict", probed, file, "--format", "json", "--cost", *words) == 0
        answers.append(json.loads(capsys.readouterr().out)["answers"][0])
    assert answers[0]["answer"] == "/"
    assert answers[1]["answer"].count("/") == 1
    assert all(row["expected_cost"] >= 0 for row in answers)
    for metric in METRIC_COSTS:
        assert run("predict", probed, file, "--format", "json", "--optimise", metric) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["answers"][0]["expected_cost"] >= 0
        assert said["about"]["asked"].startswith(f"best expected {metric_name(metric)}")
        if metric == "tree_distance":
            assert said["answers"][0] == answers[2], "one mechanism for costs and metrics"
    costs = tmp_path / "costs.csv"
    costs.write_text("answer,black,coal,white,snow\ndark,0,0,9,9\nlight/snow,5,5,1,0\n")
    assert run("predict", probed, file, "--format", "json", "--cost", costs) == 0
    assert json.loads(capsys.readouterr().out)["answers"][0]["answer"] == "dark"


def test_errors_say_what_to_do(
    probed: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = photos / "dark/black/00.png"
    for words, what in (
        ((probed,), "name what to answer for"),
        ((probed, image, "--split", "test"), "one of them only"),
        ((probed, "--text", "a dog"), "reads images: instead of texts, give image files"),
        ((probed, image, "--coverage", 0.99), "needs at least 99 calibration samples, and there are 77"),
        (
            (probed, image, "--coverage", 0.9, "--confidence", 0.9999),
            "with confidence 0.9999 needs at least 88",
        ),
        ((probed, image, "--coverage", 90), "above 0 and below 1"),
        ((probed, image, "--optimise", "f1"), "hierarchical_f1"),
        ((probed, image, "--optimise", "top1", "--cost", "tree"), "--optimise and --cost each say"),
        ((probed, image, "--optimise", "top1", "--coverage", 0.8), "--optimise and --coverage each say"),
        ((probed, image, "--by-depth", 7), "a depth of the taxonomy, 1 to 2"),
        ((probed, image, "--cost", tmp_path / "gone.csv"), "to be read as a table of costs"),
        ((probed, image, "--coarse-cost", 0.3), "goes with --cost"),
        ((tmp_path, image), "is not a run folder"),
    ):
        assert run("predict", *words) == 2, words
        assert what in capsys.readouterr().err, words
    assert run("calibrate", probed, "--classifier", "own") == 2
    assert (
        "there is no classifier 'own' here; there are feature-means, prototypes, lda, probe"
        in capsys.readouterr().err
    )


def test_a_bad_file_does_not_keep_the_others_from_an_answer(
    probed: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = tmp_path / "note.png"
    note.write_text("no image")
    good = [photos / "dark/black/00.png", photos / "light/snow/01.png"]
    files = [note, good[0], tmp_path / "gone.png", good[1]]
    reasons = {0: "not an image", 2: "no such file"}
    assert run("predict", probed, *good, "--format", "json", "--coverage", 0.8) == 0
    alone = json.loads(capsys.readouterr().out)["answers"]
    assert all(row["problem"] is None for row in alone)

    assert run("predict", probed, *files, "--format", "json", "--coverage", 0.8) == 1
    said = capsys.readouterr()
    rows = json.loads(said.out)["answers"]
    assert [row["sample"] for row in rows] == [str(file) for file in files]
    assert [rows[1], rows[3]] == alone
    for place, reason in reasons.items():
        assert reason in rows[place]["problem"]
        assert rows[place]["answer"] is None
        assert rows[place]["probability"] is None
        assert rows[place].keys() == alone[0].keys()
    assert "2 answers" in said.err
    assert "no answer for 2 of 4 samples; their rows say why, the others are answered" in said.err
    assert "on_error" not in said.err

    out = tmp_path / "answers.csv"
    assert run("predict", probed, *files, "--format", "csv", "--out", out, "--coverage", 0.8) == 1
    written = list(csv.DictReader(out.open(encoding="utf-8")))
    assert [bool(row["problem"]) for row in written] == [True, False, True, False]
    assert [row["answer"] for row in written if not row["problem"]] == [row["answer"] for row in alone]
    assert run("predict", probed, *files) == 1
    table = capsys.readouterr().out.splitlines()
    assert [("no answer: " in line) for line in table[1:]] == [True, False, True, False]

    assert run("predict", probed, note, "--format", "json") == 2  # nothing to answer for at all
    (row,) = json.loads(capsys.readouterr().out)["answers"]
    assert row["answer"] is None
    assert row.keys() == alone[0].keys()


def test_bad_images_of_other_data_have_rows(
    probed: Path, photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "more" / "dark" / "black"
    folder.mkdir(parents=True)
    good = (photos / "dark/black/00.png").read_bytes()
    for name in ("1.png", "3.png"):
        (folder / name).write_bytes(good)
    for name in ("0.png", "2.png", "4.png"):
        (folder / name).write_text("no image")
    every = [str(folder / f"{number}.png") for number in range(5)]
    form, labelled = tmp_path / "a.csv", tmp_path / "b.json"
    assert run("predict", probed, tmp_path / "more", "--out", form) == 1
    assert run("predict", probed, "--data", tmp_path / "more", "--labelled", "--out", labelled) == 1
    assert "cannot be read" not in caplog.text  # their rows say it, and the last sentence
    rows = list(csv.DictReader(form.open(encoding="utf-8")))
    assert [row["sample"] for row in rows] == every
    assert ["not an image" in row["problem"] for row in rows] == [True, False, True, False, True]
    assert [bool(row["answer"]) for row in rows] == [False, True, False, True, False]
    answers = json.loads(labelled.read_text())["answers"]
    assert [row["sample"] for row in answers] == every
    assert [row["label"] for row in answers] == [None, "dark/black", None, "dark/black", None]

    table = tmp_path / "table.csv"
    table.write_text("image\nmore/dark/black/1.png\ngone.png\nmore/dark/black/2.png\n")
    assert run("predict", probed, "--data", table, "--out", form) == 1
    rows = list(csv.DictReader(form.open(encoding="utf-8")))
    assert [row["image"] for row in rows] == ["more/dark/black/1.png", "gone.png", "more/dark/black/2.png"]
    assert [bool(row["problem"]) for row in rows] == [False, True, True]


def test_calibrating_on_other_samples_by_other_means(
    probed: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("calibrate", probed, "--data", photos, "--calibration", "depth", "--descent", "leaf") == 0
    printed = capsys.readouterr().out
    assert "240 calibration samples, 72 for the probabilities, 168 for the thresholds" in printed
    assert "for a coverage of 0.9" in printed
    decider = open_decider(probed)
    assert re.search("temperature a depth (is not|is) applied", printed)
    assert decider.rule.descent == "leaf"
    assert run("predict", probed, photos / "dark/coal/03.png", "--by-depth", 1, "--method", "threshold") == 0
    calibrate_run(probed)


def test_damaged_decisions(probed: Path, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calibrate_run(probed)
    file = RunFolder(probed).decisions
    good = json.loads(file.read_text())
    for change, what in (
        ({"version": 99}, "version 99"),
        ({"taxonomy": "other"}, "another taxonomy"),
        ({"fitted": {}}, "cannot be read"),
    ):
        file.write_text(json.dumps(good | change))
        assert run("predict", probed, photos / "dark/coal/03.png") == 2
        assert what in capsys.readouterr().err
    file.write_text("{")
    assert run("predict", probed, photos / "dark/coal/03.png") == 2
    assert f"'labeltree calibrate {probed}' makes it again" in capsys.readouterr().err
    calibrate_run(probed)
    folder = RunFolder(probed)
    for damaged in (folder.classifier, folder.chosen_classifier):
        damaged.write_bytes(b"{")
        assert run("predict", probed, photos / "dark/coal/03.png") == 2
        assert f"'labeltree calibrate {probed}' makes them again" in capsys.readouterr().err
        assert run("calibrate", probed) == 0
        assert run("predict", probed, photos / "dark/coal/03.png") == 0
        damaged.unlink()  # what is lost is made again
        assert run("predict", probed, photos / "dark/coal/03.png") == 0
        assert damaged.is_file()
