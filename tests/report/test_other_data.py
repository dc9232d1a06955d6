"""``evaluate RUN --data``: external validation on other labelled samples."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from html_page import Page
from PIL import Image

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError, RunError, TaxonomyError
from labeltree.evaluation import attribute_table
from labeltree.evaluation.comparing.result_text import BEFORE_UNKNOWN
from labeltree.inference.load_run import load_run
from labeltree.report.evaluate_other_data import _drifted
from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy, TaxonomyMapping

pytestmark = pytest.mark.slow


def write_table(home: Path, name: str, photos: Path, change: Callable[[np.ndarray], np.ndarray]) -> Path:
    """A table of the images, two a patient, after a change of their pixels."""
    rows = ["image,label,patient,site"]
    for place, file in enumerate(sorted(photos.rglob("*.png"))):
        with Image.open(file) as image:
            pixels = change(np.asarray(image).astype(float)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(file)
        label = "/".join(file.relative_to(photos).parts[:-1])
        rows.append(f"{file},{label},{name}{place // 2},{name}")
    table = home / f"{name}.csv"
    table.write_text("\n".join(rows))
    return table


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    """A run on one site, new samples of that site, and dark ones of another."""
    home = tmp_path_factory.mktemp("home")
    sites = {
        "own": (48, 0, lambda p: p),
        "new": (12, 1, lambda p: p),
        "dark": (12, 2, lambda p: p * 0.25 + 9),
    }
    for name, (per_leaf, seed, change) in sites.items():
        write_table(home, name, make_image_folder(home / name, per_leaf=per_leaf, seed=seed), change)
    with (home / "new.csv").open("a") as table:
        table.write(f"\n{home / 'lost.png'},,new0,new")
    settings = {"epochs": 2, "batch_size": 16, "image_size": 28, "encoder": "small-conv", "val": 0.3}
    lt.train(
        home / "own.csv", "hwc", out=home / "run", progress_bar=False, accelerator="cpu",
        table={"group_column": "patient"}, **settings,
    )  # fmt: skip
    lt.evaluate(home / "run", resamples=50)
    return home


def test_another_site_is_measured_beside_the_own(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(home / "run")
    words = ["evaluate", run, "--data", str(home / "dark.csv"), "--by", "site", "--quiet"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert " on these samples, " in said
    assert " on the run's own test samples." in said
    assert "are not like the held-out samples that coverage was calibrated on" in said
    assert "site = dark" in said
    folder = home / "run" / "elsewhere-dark"
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["counts"]["test samples"] == 60
    assert "decisions" in metrics["methods"]["hwc"]["protocols"]
    assert (folder / "report.html").is_file()
    new = lt.evaluate(run, data=home / "new.csv", resamples=50)
    left_out = [note for note in new.result.notes if note.startswith("Of the data: 1 of 61 images")]
    assert "lost.png' (there is no such file); they are left out." in left_out[0]
    assert any("finds no difference" in note for note in new.result.cautions)
    assert (
        new.result.main.answer_score("top1") > metrics["methods"]["hwc"]["scores"]["features"]["top1"] - 1e-9
    )
    copy = shutil.copytree(folder, folder.parent / "copy")
    compared = lt.compare({"a": folder, "b": copy}, out=home / "comparison")
    assert compared.result.samples == 60


def test_two_coverages_of_the_same_samples_are_told_apart(tmp_path: Path) -> None:
    """Evaluation measures before samples are called unknown, when answers are finer; prediction after."""
    draw = np.random.default_rng(0)
    labels = np.array(
        ["fruit/citrus/lemon", "fruit/citrus/lime", "fruit/apple/gala", "bread/rye", "bread/rolls"]
    )
    centres = draw.normal(size=(5, 8)) + np.repeat(draw.normal(size=(3, 8)), [2, 1, 2], axis=0) * 2
    for name, count, noise in (("own", 60, 1.1), ("new", 30, 2.0)):
        points = np.repeat(centres, count, axis=0) + noise * draw.normal(size=(5 * count, 8))
        site = np.resize(["north", "south"], 5 * count)
        np.savez(tmp_path / f"{name}.npz", vectors=points, label=np.repeat(labels, count), site=site)
    run = lt.train(tmp_path / "own.npz", "tree-ridge", out=tmp_path / "run", val=0.4, progress_bar=False)
    measured = lt.evaluate(run, data=tmp_path / "new.npz", resamples=50, by=["site"])
    answers = lt.predict(run, data=tmp_path / "new.npz", labelled=True)
    assert answers.coverage is not None
    assert answers.answers.unknown is not None
    before = measured.result.main.protocols["decisions"].scores["coverage_at_0.9"]
    assert answers.coverage.plain == pytest.approx(before)
    assert answers.coverage.whole.share > before
    assert f"makes their answers coarser: {before:.1%} (this is what" in answers.coverage.text()
    called = int(answers.answers.unknown.sum())
    told = f"say another share: it gives coarser answers to the {called} samples that it calls unknown."
    assert told in measured.result.cautions[-1]
    report = Page((tmp_path / "run" / "elsewhere-new" / "report.html").read_text("utf-8")).text
    assert f"Few samples make wide intervals. {BEFORE_UNKNOWN.capitalize()}." in report
    assert attribute_table(measured.result).endswith(BEFORE_UNKNOWN)
    own = lt.predict(run, split="test", labelled=True, unknown=0.0)
    assert own.coverage is not None
    assert math.isnan(own.coverage.plain)
    assert "before samples were" not in own.coverage.text()
    again = lt.evaluate(run, data=tmp_path / "own.npz", resamples=50)
    assert "leaves out the 2" in again.result.cautions[-1]


def test_what_few_groups_cannot_promise_is_left_out(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    labels = np.array(["fruit/lemon", "fruit/lime", "bread/rye", "bread/rolls"])
    centres = 4 * draw.normal(size=(4, 8))
    for name, donors in (("own", 12), ("new", 6)):
        label = np.tile(np.arange(4), 10 * donors)
        vectors = centres[label] + draw.normal(size=(len(label), 8))
        donor = np.repeat([f"{name} {donor}" for donor in range(donors)], 40)
        np.savez(tmp_path / f"{name}.npz", vectors=vectors, label=labels[label], donor=donor)
    lt.train(
        tmp_path / "own.npz", "tree-ridge", out=tmp_path / "run", progress_bar=False, val=0.25,
        table={"group_column": "donor"},
    )  # fmt: skip
    measured = lt.evaluate(tmp_path / "run", data=tmp_path / "new.npz", resamples=50).result
    assert measured.main.answer_score("top1") > 0.9
    decided = measured.main.protocols["decisions"]
    assert not any(name.startswith("coverage_at") for name in decided.scores)
    said = (
        "There are too few calibration samples to promise a coverage of 0.8, 0.9 or 0.95: 3 groups can "
        "promise at most 0.75."
    )
    assert said in decided.notes
    assert said in measured.cautions
    asked = {"options": {"decisions": {"coverages": [0.7]}}}
    fewer = lt.evaluate(tmp_path / "run", data=tmp_path / "new.npz", resamples=50, **asked).result
    assert "coverage_at_0.7" in fewer.main.protocols["decisions"].scores
    assert any("70\u202f% were promised" in each for each in fewer.cautions)


def test_samples_of_training_are_told(home: Path) -> None:
    done = lt.evaluate(home / "run", data=home / "own.csv", resamples=0)
    found = done.result
    assert done.verdict[1] == found.reservations[0]
    page = Page((home / "run" / "elsewhere-own" / "report.html").read_text("utf-8")).text
    assert found.reservations[0] in page
    assert lt.evaluate(home / "run", data=home / "new.csv", resamples=0).result.reservations == []
    assert any(
        "are also among the training or validation samples of the run" in each for each in found.cautions
    )
    source = load_run(home / "run").source
    assert source.groups is not None
    known = sum(split != "test" for split in np.asarray(source.split).tolist())
    (said,) = found.reservations
    assert said.startswith(f"The model knows {known} of these samples from its training or validation: the n")
    assert lt.evaluation.EvaluationResult.from_dict(found.to_dict()).reservations == [said]
    new = len(source.groups[torch.from_numpy(np.asarray(source.split) == "test")].unique())
    tested = [re.findall(r"these (\d+) groups", each) for each in found.cautions]
    assert [str(new)] in tested, "the known ones are like the known ones"
    assert not any("named like groups of the run's own" in each for each in found.cautions), "they are known"


def test_samples_without_patients_are_told(home: Path, tmp_path: Path) -> None:
    rows = [line.split(",") for line in (home / "new.csv").read_text().splitlines()]
    at = rows[0].index("patient")
    (tmp_path / "new.csv").write_text("\n".join(",".join(row[:at] + row[at + 1 :]) for row in rows))
    result = lt.evaluate(home / "run", data=tmp_path / "new.csv", out=tmp_path / "out", resamples=0).result
    assert any(said.startswith("The samples have no column 'patient'") for said in result.cautions)
    again = lt.evaluate(home / "run", data=home / "new.csv", out=tmp_path / "out", resamples=0).result
    assert not any("no column 'patient'" in said for said in again.cautions)


def test_reference_samples_stand_in_for_lost_data(home: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(home / "run", alone)
    for file in (alone / "embeddings").glob("*") if (alone / "embeddings").is_dir() else []:
        file.unlink()
    with_data = lt.evaluate(home / "run", data=home / "dark.csv", resamples=0).result
    moved = tmp_path / "moved"
    shutil.move(home / "own", moved)
    try:
        found = lt.evaluate(alone, data=home / "dark.csv", resamples=0).result
    finally:
        shutil.move(moved, home / "own")
    assert found.main.answer_score("top1") == pytest.approx(with_data.main.answer_score("top1"))


def test_a_run_is_measured_on_a_version_as_it_answers_there(tmp_path: Path) -> None:
    """A split class answers with the node above its parts, in `evaluate` as in `predict`."""
    draw = np.random.default_rng(0)
    labels = np.array(["fruit/lemon", "fruit/lime", "fruit/gala", "bread/rye", "bread/rolls"])
    centres = draw.normal(size=(5, 8)) * 2
    old = Taxonomy.from_paths(sorted(labels.tolist()))
    new = Taxonomy.from_paths(
        ["fruit/lemon", "fruit/lime", "fruit/red gala", "fruit/royal gala", "bread/rye", "bread/rolls"]
    )
    parts = [new.find("fruit/red gala"), new.find("fruit/royal gala")]
    targets = [
        parts if old.path_name(node) == "fruit/gala" else [new.find(old.path_name(node))]
        for node in range(1, old.num_nodes)
    ]
    new.save(tmp_path / "new.json")
    TaxonomyMapping(old, new, [[0], *targets]).save(tmp_path / "changes.yaml")
    for name, count, gala in (("own", 60, "fruit/gala"), ("new", 30, "fruit/red gala")):
        points = np.repeat(centres, count, axis=0) + 1.5 * draw.normal(size=(5 * count, 8))
        named = np.repeat(np.where(labels == "fruit/gala", gala, labels), count)
        np.savez(tmp_path / f"{name}.npz", vectors=points, label=named)
    run = lt.train(tmp_path / "own.npz", "tree-ridge", out=tmp_path / "run", val=0.4, progress_bar=False)
    there = {"taxonomy": tmp_path / "new.json", "mapping": tmp_path / "changes.yaml"}
    measured = lt.evaluate(run, data=tmp_path / "new.npz", resamples=50, **there).result
    answers = lt.predict(run, data=tmp_path / "new.npz", labelled=True, unknown=0.0, **there)
    assert answers.coverage is not None
    decided = measured.main.protocols["decisions"]
    assert decided.scores["coverage_at_0.9"] == pytest.approx(answers.coverage.whole.share)
    assert "test samples of classes that were not learned" not in decided.counts
    assert any("30 test samples belong to 1 class without any training" in said for said in measured.cautions)
    finer = lt.predict(run, data=tmp_path / "new.npz", labelled=True, unknown=0.3, **there)
    assert finer.coverage is not None
    assert "this is what 'labeltree evaluate' measures" in finer.coverage.text()
    other = lt.predict(run, data=tmp_path / "new.npz", labelled=True, unknown=0.3, coverage=0.7, **there)
    assert other.coverage is not None
    assert "coarser: " in other.coverage.text()
    assert "this is what" not in other.coverage.text(), "evaluate does not print the coverage of 70 %"


def test_other_data_are_measured_where_siblings_stand_in_another_order(home: Path, tmp_path: Path) -> None:
    old = RunFolder(home / "run").load_taxonomy()
    tree = tmp_path / "reversed.txt"
    tree.write_text("\n".join(old.path_name(node) for node in reversed(old.leaves.tolist())))
    plain = lt.evaluate(home / "run", data=home / "new.csv", out=tmp_path / "plain", resamples=0).result
    done = lt.evaluate(home / "run", tree, data=home / "new.csv", resamples=0)
    assert done.metrics.parent.name == "elsewhere-new-on-reversed"
    assert done.result.counts["test samples"] == plain.counts["test samples"]
    assert done.result.main.answer_score("top1") == pytest.approx(plain.main.answer_score("top1"), abs=0.05)


def test_other_data_may_have_labels_of_either_version(home: Path, tmp_path: Path) -> None:
    old = RunFolder(home / "run").load_taxonomy()
    became = {"animal/dog/poodle": "animal/dog/hound", "animal/dog/beagle": "animal/dog/hound"}
    paths = {old.path_name(node): old.path_name(node) for node in range(1, old.num_nodes)} | became
    new = Taxonomy.from_paths(sorted({*paths.values(), "plant/moss"}))
    targets = [[0], *([new.find(paths[old.path_name(node)])] for node in range(1, old.num_nodes))]
    new.save(tmp_path / "new.json")
    TaxonomyMapping(old, new, targets).save(tmp_path / "changes.yaml")
    samples = tmp_path / "theirs.csv"
    lines = (home / "new.csv").read_text().splitlines()[:-1]
    samples.write_text("\n".join(line.replace("dog/poodle,", "dog/hound,") for line in lines))
    changed = {"mapping": tmp_path / "changes.yaml", "resamples": 0, "protocols": ["decisions"]}
    result = lt.evaluate(home / "run", tmp_path / "new.json", data=samples, **changed).result
    assert result.counts["test samples"] == 60
    assert result.counts["classes tested"] == 4
    assert any("merged" in said for said in result.cautions)
    tree = result.main.by_depth
    assert len(next(iter(tree.values()))) == new.max_depth
    with pytest.raises(ValueError, match="taxonomy"):
        lt.evaluate(home / "run", data=samples, mapping=tmp_path / "changes.yaml")


def test_what_cannot_be_measured_is_refused(home: Path) -> None:
    other = home / "other.csv"
    text = (home / "dark.csv").read_text()
    other.write_text(text.replace(",plant/", ",herb/").replace(",animal/", ",beast/"))
    with pytest.raises(TaxonomyError, match="beast"):
        lt.evaluate(home / "run", data=other)
    lines = [line.split(",") for line in (home / "dark.csv").read_text().splitlines()[1:]]
    unlabelled = [f"{file},,{patient},{site}" for file, _, patient, site in lines]
    other.write_text("\n".join(["image,label,patient,site", *unlabelled]))
    with pytest.raises(DataError, match="has a label; 'labeltree predict' answers"):
        lt.evaluate(home / "run", data=other)
    with pytest.raises(ValueError, match="'corrections' does not go with 'data'"):
        lt.evaluate(home / "run", corrections=home / "own.csv", data=home / "dark.csv")
    with pytest.raises(DataError, match="no column 'camera'"):
        lt.evaluate(home / "run", data=home / "dark.csv", by=["camera"])
    with pytest.raises(RunError):
        lt.evaluate(home / "nothing", data=home / "dark.csv")


def test_without_held_out_samples_it_is_said_that_nothing_can_be_compared() -> None:
    (note,) = _drifted(SimpleNamespace(drift=None), None)  # type: ignore[arg-type]
    assert note.endswith("cannot be tested: the run lacks a reference.")
