"""``labeltree compare``: tables and evaluated folders in, a comparison out."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.cli.main import main
from labeltree.decisions.classifiers import ClassifierChoice
from labeltree.evaluation import Comparison, EvaluationSettings, evaluate, save_outcomes
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy
from sweeps import some_now

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A taxonomy and four tables of the same samples, of which ``good`` is the best by far."""
    place = tmp_path_factory.mktemp("compare")
    tree = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak"), ("plant", "elm")])
    tree.save(place / "tree.json")
    nodes = tree.leaves.repeat(50)
    split = np.where(np.arange(len(nodes)) % 5 < 3, "train", "test")
    for seed, (name, noise) in enumerate((("plain", 1.6), ("good", 0.2), ("good-2", 0.25), ("good-3", 0.3))):
        generator = torch.Generator().manual_seed(seed)
        points = torch.eye(tree.num_nodes)[nodes] + noise * torch.randn(
            len(nodes), tree.num_nodes, generator=generator
        )
        EmbeddingTable(points, nodes, split).save(place / f"{name}.npz")
    return place


def _call(*words: str | Path) -> int:
    return main(["compare", "--resamples", "99", "--permutations", "999", *map(str, words)])


def test_tables_are_evaluated_and_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "tables"
    assert (
        _call(
            folder / "plain.npz",
            folder / "good.npz",
            "--taxonomy",
            folder / "tree.json",
            "--out",
            out,
            "--full",
        )
        == 0
    )
    result = Comparison.from_dict(json.loads((out / "comparison.json").read_text()))
    assert result.baseline == "plain"
    assert result.samples == 80
    part = result.metric("top1").differences["good"]
    assert part.value > 0.3
    assert part.corrected < 0.05
    said = capsys.readouterr()
    printed = said.out
    assert said.err == ""  # no line of progress where nobody would see it
    assert (out / "comparison.md").read_text().strip() in printed
    assert str(out / "comparison.html") in printed
    with (out / "comparison.csv").open(encoding="utf-8") as file:
        rows = {(row["role"], row["metric"]): row for row in csv.DictReader(file)}
    row = rows["embeddings", "top1"]
    assert (row["samples"], row["groups"]) == ("80", "")
    assert float(row["good"]) - float(row["plain"]) == pytest.approx(part.value)
    assert float(row["good minus plain p corrected"]) == part.corrected
    page = (out / "comparison.html").read_text("utf-8")
    assert 'id="curve"' in page  # tables were evaluated for it
    assert 'id="depth"' in page
    assert "Where on the tree they differ most" in printed


def test_evaluated_folders_are_compared_as_they_are(folder: Path) -> None:
    tree = Taxonomy.from_file(folder / "tree.json")
    for name in ("plain", "good"):
        done = evaluate(EmbeddingTable.load(folder / f"{name}.npz", tree), tree, name=name)
        save_outcomes(RunFolder(folder / name).outcomes, done.outcomes)
        RunFolder(folder / name).write_json(RunFolder(folder / name).metrics, done.to_dict())
    out, page = folder / "folders", folder / "elsewhere" / "ours.html"
    names = ["--name", f"ours={folder / 'good'}", "--baseline", "ours", "--metrics", "top1", "ahp"]
    asked = ["--report", page, "--title", "Ours <and> plain"]
    assert _call(folder / "plain", *names, "--out", out, *asked) == 0
    html = page.read_text("utf-8")
    assert "Ours &lt;and&gt; plain" in html
    assert 'id="curve"' in html
    assert not (out / "comparison.html").exists()
    result = Comparison.from_dict(json.loads((out / "comparison.json").read_text()))
    scores = json.loads((folder / "plain" / "metrics.json").read_text())["methods"]["plain"]
    assert {entry.metric for entry in result.metrics} == {"answer_top1", "top1", "ahp"}
    found = result.metric("top1").estimates["plain"]
    assert found.value == pytest.approx(scores["scores"]["embeddings"]["top1"], rel=1e-12)
    assert list(result.metric("top1").differences) == ["plain"]


def _evaluated(folder: Path, out: Path, **classifiers: ClassifierChoice) -> None:
    """Run folders in `out`, each answering with the classifier that is named."""
    tree = Taxonomy.from_file(folder / "tree.json")
    for name, classifier in classifiers.items():
        settings = EvaluationSettings(resamples=0, classifier=classifier)
        done = evaluate(EmbeddingTable.load(folder / f"{name}.npz", tree), tree, name=name, settings=settings)
        run = RunFolder(out / name)
        save_outcomes(run.outcomes, done.outcomes)
        run.write_json(run.metrics, done.to_dict())


def test_each_run_is_compared_by_the_classifier_that_it_answers_with(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _evaluated(folder, tmp_path, plain="prototypes", good="probe")
    assert _call(tmp_path / "plain", tmp_path / "good", "--out", tmp_path / "out") == 0
    result = Comparison.from_dict(json.loads((tmp_path / "out" / "comparison.json").read_text()))
    assert result.classifiers == {"plain": ["prototypes"], "good": ["probe"]}
    entry = result.metric("answer_top1")
    assert result.metrics[0] is entry
    for name, prefix in (("plain", "prototype_"), ("good", "")):
        for metric in ("top1", "hierarchical_f1", "mistake_severity"):
            ours = result.metric(f"answer_{metric}", "answers").estimates[name].value
            scores = json.loads((tmp_path / name / "metrics.json").read_text())["methods"][name]["scores"]
            assert ours == pytest.approx(scores["embeddings"][f"{prefix}{metric}"], rel=1e-12)
    part = entry.differences["good"]
    assert part.value == pytest.approx(entry.estimates["good"].value - entry.estimates["plain"].value)
    assert part.test == "sign flips"
    assert part.p <= part.corrected <= 0.05
    assert part.mcnemar < 0.05
    said = capsys.readouterr().out
    assert "'plain' with the nearest class mean of the embeddings; 'good' with a linear probe" in said
    assert said.startswith("good is better than plain in top-1 accuracy: ")
    assert any(re.match(r"top-1 accuracy .* better$", line) for line in said.splitlines())
    assert any(
        e.metric == "answer_top1" and e.kind == "subtree" and "good" in e.differences for e in result.strata
    )
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert "by the chosen classifier of each run" in page
    assert "the nearest class mean of the embeddings" in page


def test_answers_of_one_kind_are_tested_once(folder: Path, tmp_path: Path) -> None:
    _evaluated(folder, tmp_path, plain="probe", good="probe")
    assert _call(tmp_path / "plain", tmp_path / "good", "--out", tmp_path / "out") == 0
    result = Comparison.from_dict(json.loads((tmp_path / "out" / "comparison.json").read_text()))
    ours, probe = result.metric("answer_top1"), result.metric("top1")
    assert ours.differences["good"] == probe.differences["good"]
    without = tmp_path / "without"
    for name in ("plain", "good"):
        (tmp_path / name / "metrics.json").unlink()
    assert _call(tmp_path / "plain", tmp_path / "good", "--out", without) == 0
    plain = Comparison.from_dict(json.loads((without / "comparison.json").read_text()))
    assert result.tests == plain.tests  # the same tests, whether or not they are shown as answers as well
    assert plain.classifiers == {"plain": [""], "good": [""]}
    assert not [entry for entry in plain.metrics if entry.role == "answers"]
    assert not [note for note in plain.notes if "answers" in note]


def test_seeds_that_answer_differently_are_told_apart(folder: Path, tmp_path: Path) -> None:
    kinds: dict[str, ClassifierChoice] = {
        "plain": "probe",
        "good": "probe",
        "good-2": "prototypes",
        "good-3": "prototypes",
    }
    _evaluated(folder, tmp_path, **kinds)
    runs = ",".join(str(tmp_path / name) for name in ("good", "good-2", "good-3"))
    assert _call(tmp_path / "plain", "--name", f"ours={runs}", "--out", tmp_path / "out") == 0
    result = Comparison.from_dict(json.loads((tmp_path / "out" / "comparison.json").read_text()))
    assert result.classifiers["ours"] == ["probe", "prototypes", "prototypes"]
    assert result.metric("answer_top1").differences["ours"].test == "runs and samples"
    said = " ".join(result.notes)
    assert "a linear probe (1 run) and the nearest class mean of the embeddings (2 runs)" in said


@pytest.mark.parametrize("damage", some_now(["missing", "of another version", "no JSON"]))
def test_without_metrics_the_page_has_no_curves(folder: Path, tmp_path: Path, damage: str) -> None:
    tree = Taxonomy.from_file(folder / "tree.json")
    for name in ("plain", "good"):
        run = RunFolder(tmp_path / name)
        run.path.mkdir()
        done = evaluate(EmbeddingTable.load(folder / f"{name}.npz", tree), tree, name=name)
        save_outcomes(run.outcomes, done.outcomes)
        if damage == "of another version":
            run.write_json(run.metrics, {"format": 0})
        elif damage == "no JSON":
            run.metrics.write_text("{")
    assert _call(tmp_path / "plain", tmp_path / "good", "--out", tmp_path / "out") == 0
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert 'id="differences"' in page
    assert 'id="curve"' not in page
    assert 'id="depth"' not in page


def test_several_seeds_are_one_method(folder: Path) -> None:
    out = folder / "seeds"
    runs = ",".join(str(folder / f"{name}.npz") for name in ("good", "good-2", "good-3"))
    words = [folder / "plain.npz", "--name", f"ours={runs}", "--taxonomy", folder / "tree.json", "--out", out]
    assert _call(*words) == 0
    result = Comparison.from_dict(json.loads((out / "comparison.json").read_text()))
    assert len(result.methods["ours"]) == 3
    assert len(result.metric("top1").estimates["ours"].runs) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{0}/plain.npz"], "at least two runs"),
        (["{0}/plain.npz", "{0}/good.npz"], "--taxonomy FILE says what its numbers of nodes mean"),
        (["{0}/plain.npz", "{0}/nothing", "--taxonomy", "{0}/tree.json"], "the folder does not exist"),
        (["{0}/plain.npz", "{0}", "--taxonomy", "{0}/tree.json"], "run 'labeltree evaluate"),
        (["{0}/plain.npz", "{0}/plain.npz"], "named twice"),
        (["a", "--name", "b"], "expected NAME=RUN"),
        (["--name", "b=x,x", "--name", "c=y"], "has a run twice"),
    ],
)
def test_what_is_wrong_is_said(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _call(*(word.format(folder) for word in words), "--out", folder / "never") == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (folder / "never").exists()


def test_help_loads_nothing_heavy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--help"]) == 0
    assert "--baseline" in capsys.readouterr().out
    assert "labeltree.cli.commands.compare_command" in sys.modules


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seed=-1",), "--seed is -1; it must be from 0 to 4,294,967,295"),
        (("--resamples=-1",), "--resamples is -1; it must be at least 0"),
        (("--permutations=0",), "--permutations is 0; it must be at least 1"),
    ],
)
def test_numbers_that_cannot_be_drawn_with_are_refused(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "one", "other", *words]) != 0
    assert said in capsys.readouterr().err
