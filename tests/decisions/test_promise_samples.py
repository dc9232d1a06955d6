"""Promises rest on samples that nothing else has used: their coverage, and that nothing else reads them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import labeltree as lt
from labeltree.cli.main import main
from labeltree.decisions import ClassNodes, DecisionRule, Promise, fit_rule, holds_truth
from labeltree.decisions.answers_of_groups import fit_group_rule
from labeltree.decisions.promise_samples import (
    CLASSIFIER,
    EPOCH,
    PromiseSamples,
    for_promises,
    kept_for_probabilities,
)
from labeltree.errors import DataError
from labeltree.inference.calibrate_run import calibrate_run, open_decider
from labeltree.inference.load_run import load_run
from labeltree.inference.reference import load_reference
from labeltree.options.answer_options import AnswerOptions
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([(f"branch {a}", f"class {a}{b}") for a in range(3) for b in range(2)])
CLASSES = ClassNodes(TREE.leaves, TREE)


def test_one_sample_has_chosen() -> None:
    assert (
        "on 1 validation sample, which has also chosen the epoch" in PromiseSamples("val", 1, None).sentence
    )
    assert (
        "on 2 validation samples, which have also chosen the epoch" in PromiseSamples("val", 2, None).sentence
    )


def noisy(labels: Tensor, draw: torch.Generator, noise: float = 1.0) -> Tensor:
    """Scores (n, C) of samples with class numbers (n,)."""
    return 2.0 * torch.nn.functional.one_hot(labels, len(CLASSES)) + noise * torch.randn(
        len(labels), len(CLASSES), generator=draw
    )


def coverage_of(rule: DecisionRule, scores: Tensor, labels: Tensor) -> Tensor:
    answers = rule.answer(scores, Promise(0.8), top=0).nodes
    return holds_truth(answers, TREE.leaves[labels], TREE).double()


def chosen_and_fresh(draw: torch.Generator, fresh: bool) -> tuple[float, float]:
    """The best of 30 equal classifiers on 30 validation samples: expected coverage, and that of new ones."""
    held, promised, new = (torch.randint(len(CLASSES), (n,), generator=draw) for n in (30, 29, 500))
    scores = [noisy(held, draw, 2.5) for _ in range(30)]  # independent of each other, none better
    best = max(scores, key=lambda each: int((each.argmax(1) == held).sum()))
    if fresh:
        both = torch.cat([best, noisy(promised, draw, 2.5)])
        labels = TREE.leaves[torch.cat([held, promised])]
        of_val = torch.arange(59) < 30
        rule = fit_rule(both, labels, CLASSES, calibration="none", for_probabilities=of_val)
    else:
        rule = fit_rule(best, TREE.leaves[held], CLASSES, calibration="none")
    n = len(rule.fitted)
    return np.ceil((n + 1) * 0.8) / (n + 1), float(coverage_of(rule, noisy(new, draw, 2.5), new).mean())


def test_coverage_of_a_chosen_classifier_is_kept_only_by_fresh_samples() -> None:
    for fresh in (True, False):
        draw = torch.Generator().manual_seed(0)
        expected, found = zip(*(chosen_and_fresh(draw, fresh) for _ in range(100)), strict=True)
        error = float(np.std(found)) / 100**0.5
        gap = float(np.mean(found) - np.mean(expected))
        if fresh:
            assert abs(gap) < 4 * error
        else:
            assert gap < -6 * error, "reused samples promise too much"


def test_coverage_with_groups_of_very_different_sizes() -> None:
    """The truth of a sample of a new group is held as often as promised, however large groups are."""
    draw = torch.Generator().manual_seed(1)
    found = []
    for _ in range(150):
        sizes = torch.tensor([1] * 15 + [60] * 5 + [1] * 15 + [60] * 4)
        groups = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        hard = torch.rand(len(sizes), generator=draw)  # groups differ
        labels = torch.randint(len(CLASSES), (len(groups),), generator=draw)
        scores = noisy(labels, draw) * (0.2 + hard[groups])[:, None]
        of_val = groups < 20
        rule = fit_rule(
            scores,
            TREE.leaves[labels],
            CLASSES,
            groups=groups,
            calibration="none",
            for_probabilities=of_val,
        )
        assert rule.fitted.num_groups == 19
        new = torch.randint(len(CLASSES), (400,), generator=draw)  # one sample of each of 400 new groups
        ease = 0.2 + torch.rand(400, generator=draw)
        found.append(float(coverage_of(rule, noisy(new, draw) * ease[:, None], new).mean()))
    error = float(np.std(found)) / 150**0.5
    assert 0.8 - 3 * error < np.mean(found) < 0.8 + 1 / 20 + 3 * error + 0.02


def test_what_fits_probabilities_gives_no_threshold_and_the_other_way_round() -> None:
    draw = torch.Generator().manual_seed(2)
    numbers = torch.randint(len(CLASSES), (120,), generator=draw)
    scores, labels = noisy(numbers, draw), TREE.leaves[numbers]
    first = torch.arange(120) < 70
    rule = fit_rule(scores, labels, CLASSES, for_probabilities=first)
    assert rule.counts["for the probabilities"] == 70
    assert rule.counts["for the thresholds"] == len(rule.fitted) == 50
    wrong = torch.where(first, labels, labels.roll(1))
    other = fit_rule(scores, wrong, CLASSES, for_probabilities=first)
    assert other.calibrator == rule.calibrator
    assert not torch.equal(other.fitted.scores, rule.fitted.scores)
    wrong = torch.where(first, labels.roll(1), labels)
    plain = [
        fit_rule(scores, each, CLASSES, for_probabilities=first, calibration="none").fitted.scores
        for each in (labels, wrong)
    ]
    assert torch.equal(*plain)
    few = fit_rule(scores, labels, CLASSES, for_probabilities=torch.arange(120) < 10)
    assert few.calibrator.kind == "none"
    assert len(few.fitted) == 110, "those that have been used before give no threshold, however few"
    with pytest.raises(DataError, match="no calibration sample has a label that decides"):
        fit_rule(scores, labels, CLASSES, for_probabilities=torch.ones(120).bool())


def test_groups_are_combined_by_validation_and_promised_by_the_others() -> None:
    draw = torch.Generator().manual_seed(3)
    groups = torch.arange(240) // 3
    numbers = torch.randint(len(CLASSES), (80,), generator=draw)
    scores, labels = noisy(numbers[groups], draw), TREE.leaves[numbers[groups]]
    of_val = groups < 40
    probabilities = torch.softmax(scores.double(), 1)
    rule = fit_group_rule(probabilities, labels, groups, CLASSES, for_probabilities=of_val)
    assert rule.count == 40
    assert len(rule.rule.fitted) == 40
    wrong = torch.where(of_val, labels, TREE.leaves[(numbers[groups] + 1) % 6])
    other = fit_group_rule(probabilities, wrong, groups, CLASSES, for_probabilities=of_val)
    assert (other.how, other.accuracies) == (rule.how, rule.accuracies)
    assert other.rule.calibrator == rule.rule.calibrator
    assert not torch.equal(other.rule.fitted.scores, rule.rule.fitted.scores)


def test_the_sentence_says_what_else_the_samples_were_used_for() -> None:
    assert "nothing else has used" in PromiseSamples("calib", 40, 12).sentence
    assert "40 samples of 12 groups" in PromiseSamples("calib", 40, 12).sentence
    assert "chosen the epoch and the classifier" in PromiseSamples("val", 40, None).sentence
    assert "also chosen the epoch (" in PromiseSamples("val", 40, None, chose=(EPOCH,)).sentence
    softened = PromiseSamples("val", 20, None, chose=(CLASSIFIER,), softened=True)
    assert "also chosen the classifier and fitted a temperature (" in softened.sentence
    assert "which have chosen nothing else." in PromiseSamples("val", 40, None, chose=()).sentence
    assert "1 sample of 'their.csv'" in PromiseSamples("other", 1, None, source="their.csv").sentence
    assert "30 validation patients," in PromiseSamples("val", 30, None, unit="patient").sentence


def test_rows_for_promises() -> None:
    split = np.array(["train", "val", "calib", "calib", "test"])
    table = EmbeddingTable(torch.eye(5), torch.tensor([1, 2, 3, -1, 4]), split=split)
    assert for_promises(table).tolist() == [False, False, True, False, False]
    kept = kept_for_probabilities(table.rows(torch.tensor([1, 2, 3])))
    assert kept is not None
    assert kept.tolist() == [True, False, False]
    unlabelled = table.rows(torch.tensor([0, 1, 3]))
    assert for_promises(unlabelled).tolist() == [False, True, False], "without labels they promise nothing"
    assert kept_for_probabilities(unlabelled) is None
    unlabelled.nodes[2] = 0  # several labels that share the root alone
    assert for_promises(unlabelled).tolist() == [False, True, False], "nor with the root as label"
    assert kept_for_probabilities(unlabelled) is None
    whole = EmbeddingTable(torch.eye(2), torch.tensor([1, 2]))
    assert kept_for_probabilities(whole) is None, "without splits a part of all samples fits them"


def trained(folder: Path, photos: Path, name: str, *, wrong: bool) -> Path:
    """A run on a table with all splits; ``wrong``: labels of the split calib are of other samples."""
    files = sorted(photos.rglob("*.png"))
    splits = ["train", "train", "val", "calib", "train", "test"]
    rows = [
        (str(file), file.parent.parent.name, file.parent.name, splits[at % 6])
        for at, file in enumerate(files)
    ]
    mine = [at for at, row in enumerate(rows) if row[-1] == "calib"]
    labels = {at: rows[mine[(place + 5) % len(mine)] if wrong else at][1:-1] for place, at in enumerate(mine)}
    table = folder / f"{name}.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "coarse", "fine", "split"])
        writer.writerows([row[0], *labels.get(at, row[1:-1]), row[-1]] for at, row in enumerate(rows))
    columns = {"table.label_columns": ["coarse", "fine"], "table.split_column": "split"}
    small = {"epochs": 2, "batch_size": 16, "image_size": 12, "encoder": "small-conv", "accelerator": "cpu"}
    return lt.train(table, "ce", out=folder / name, progress_bar=False, **columns, **small).path


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]
) -> tuple[Path, Path]:
    home = tmp_path_factory.mktemp("promises")
    photos = make_image_folder(home / "photos", per_leaf=24, size=12)
    return trained(home, photos, "right", wrong=False), trained(home, photos, "wrong", wrong=True)


@pytest.mark.slow
def test_nothing_but_thresholds_reads_the_samples_set_aside(runs: tuple[Path, Path]) -> None:
    right, wrong = (RunFolder(each) for each in runs)
    columns = [
        [{key: value for key, value in row.items() if "second" not in key} for row in each.read_history()]
        for each in (right, wrong)
    ]
    assert columns[0] == columns[1], "training and validation, epoch by epoch"
    for name in ("encoder", "classifier"):
        weights = [load_file(getattr(each, name)) for each in (right, wrong)]
        assert weights[0].keys() == weights[1].keys()
        assert all(torch.equal(tensor, weights[1][key]) for key, tensor in weights[0].items()), name
    choices = [json.loads(each.chosen_classifier.read_text())["classifier"] for each in (right, wrong)]
    assert choices[0] == choices[1]
    records = [json.loads(each.decisions.read_text()) for each in (right, wrong)]
    assert records[0]["calibrator"] == records[1]["calibrator"]
    assert records[0]["calibration_check"] == records[1]["calibration_check"]
    assert records[0]["fitted"] != records[1]["fitted"]
    deciders = [open_decider(each) for each in runs]
    for decider in deciders:
        known = load_reference(decider.run)
        assert known is not None
        assert len(decider.rule.fitted) == int((known.split == "calib").sum()) > 10
        assert decider.novelty is not None
        assert decider.novelty.known.count == len(decider.rule.fitted), "p-values, too"
        assert decider.drift is not None
        assert len(decider.drift.held) == len(decider.rule.fitted)


@pytest.mark.slow
def test_every_output_says_what_promises_rest_on(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(runs[0])
    said = "of the split calib, which nothing else has used"
    capsys.readouterr()
    for command in (["predict", run, "--split", "test"], ["calibrate", run], ["info", run]):
        assert main(command) == 0
        shown = capsys.readouterr()
        assert said in " ".join((shown.out + shown.err).split()), command
    result = lt.evaluate(run, protocols=["decisions"], resamples=0)
    notes = result.result.main.protocols["decisions"].notes
    assert any(said in note for note in notes)


@pytest.mark.slow
def test_decisions_of_before_answer_as_they_did(runs: tuple[Path, Path]) -> None:
    folder = RunFolder(runs[1])
    decider = open_decider(folder.path)
    table = decider.embed(load_run(folder.path).source.of_split("test"))
    before = decider.answer(table, AnswerOptions(coverage=0.8, unknown=0))
    record = json.loads(folder.decisions.read_text())
    del record["set_aside"]  # as written by versions without the split
    folder.decisions.write_text(json.dumps(record))
    old = open_decider(folder.path)
    assert torch.equal(old.answer(table, AnswerOptions(coverage=0.8, unknown=0)).nodes, before.nodes)
    assert "validation samples" in old.promise_samples.sentence
    calibrate_run(folder.path)
    assert json.loads(folder.decisions.read_text())["set_aside"] is True
