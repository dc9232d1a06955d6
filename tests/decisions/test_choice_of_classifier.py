"""One rule decides which classifier answers, and a calibration that does harm is not applied."""

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.cli.main import main
from labeltree.decisions import ClassNodes, Promise, fit_rule, holds_truth
from labeltree.decisions.choose_classifier import ChosenClassifier, ClassifierKind, choose_classifier
from labeltree.decisions.classifiers import ClassifierChoice, FittedScores, LinearScores
from labeltree.decisions.extending import _choose
from labeltree.decisions.promise_samples import PromiseSamples
from labeltree.errors import DataError
from labeltree.evaluation import EvaluationResult, EvaluationSettings, evaluate, load_outcomes
from labeltree.evaluation.answer_columns import PREFIX
from labeltree.report.tables.main_numbers import main_numbers_table
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

TREE = Taxonomy.from_paths([("a", "w"), ("a", "x"), ("b", "y"), ("b", "z")])


def run(*words: object) -> int:
    return main([str(word) for word in words])


def test_few_samples_of_new_classes_weigh_as_many_of_known_ones() -> None:
    """With added classes the better mean of the two accuracies answers, not that of all samples."""
    classes = TREE.leaves
    new, truth = classes[3:], classes[torch.tensor([0] * 30 + [1] * 30 + [2] * 30 + [3] * 10)]
    blind = torch.where(truth == new, classes[0], truth)  # knows all but the new class
    fair = torch.where(torch.arange(100) < 20, classes[1], truth)
    said = {"probe": fair, "prototypes": blind}
    points = torch.cat([(each[:, None] == classes).float() for each in said.values()], 1)
    held = EmbeddingTable(points, truth, geometry="euclidean")
    sides = torch.eye(8, dtype=torch.float64).split(4, dim=1)
    offered: dict[ClassifierKind, FittedScores] = {
        name: LinearScores(classes, side, torch.zeros(4, dtype=torch.float64))
        for name, side in zip(said, sides, strict=True)
    }
    found = _choose(offered, held, classes, new, "auto")
    assert found.accuracies == {"probe": pytest.approx((70 / 90 + 1) / 2), "prototypes": 0.5}
    assert (found.name, found.samples, found.new_class_samples) == ("probe", 100, 10)
    assert _choose(offered, held, classes, new, "prototypes").name == "prototypes"
    alone = _choose(offered, held.rows(truth != new), classes, new, "auto")
    assert (alone.name, alone.new_class_samples) == ("prototypes", 0), "of known classes alone"


def test_the_rule() -> None:
    truth = torch.tensor([1, 2, 3, 4])
    right, half, wrong = truth, torch.tensor([1, 2, 0, -1]), torch.zeros(4, dtype=torch.int64)

    def choose(
        answers: dict[ClassifierKind, torch.Tensor], asked: ClassifierChoice = "auto"
    ) -> ChosenClassifier:
        return choose_classifier(answers, truth[: len(next(iter(answers.values())))], TREE, asked)

    assert choose({"own": half, "probe": right, "prototypes": wrong}).name == "probe"
    assert choose({"own": wrong, "probe": half, "prototypes": right}).name == "prototypes"
    simplest: list[ClassifierKind] = ["feature-means", "prototypes", "lda", "probe", "own"]
    for tied in (simplest, simplest[1:], simplest[3:], ["prototypes", "own"]):
        for answers in (half, wrong):  # nor is it a reason to take another that all are wrong
            found = choose(dict.fromkeys(reversed(tied), answers))
            assert found.name == tied[0], "of equals the simplest"
            assert "one of the best on validation by hierarchical F1" in found.sentence
    nearer = torch.where(torch.arange(4) == 0, 1, torch.tensor([0, 1, 4, 3]))  # in the right branch, but once
    assert choose({"probe": nearer, "lda": torch.tensor([1, 2, 1, 1])}).name == "lda"
    asked = choose({"own": half, "probe": right, "prototypes": wrong}, "own")
    assert asked.sentence == (
        "Answers come from the run's own classifier, as was asked for: right for "
        "50.0% of 4 validation samples (the nearest class mean of the embeddings 0.0%, a linear probe on the "
        "features 100.0%)."
    )
    once = right[:1].repeat(3)
    same = choose_classifier({"own": once, "probe": once}, once, TREE)
    assert same.name == "probe"
    assert "right for" not in same.sentence
    assert "all 3 validation samples are of one class" in same.sentence
    assert ChosenClassifier.from_dict(same.to_dict()) == same
    none = choose({"own": right[:0], "probe": right[:0]})
    assert none.name == "probe"
    assert none.sentence == (
        "Answers come from a linear probe on the features: there is no validation sample to choose by."
    )
    assert ChosenClassifier.from_dict(json.loads(json.dumps(asked.to_dict()))) == asked
    with pytest.raises(DataError, match="no classifier 'own' here; there are prototypes, probe"):
        choose({"probe": right, "prototypes": right}, "own")
    with pytest.raises(ValueError, match="expected one of 'auto', 'feature-means', 'prototypes'"):
        choose({"probe": right}, "svm")  # type: ignore[arg-type]


def table(own_right_on: str | None, splits: tuple[str, ...] = ("train", "val", "test")) -> EmbeddingTable:
    """Features that tell the classes of half of the samples, and own answers right on one split alone."""
    n = 240
    draw = torch.Generator().manual_seed(0)
    nodes = TREE.leaves[torch.arange(n) % 4]
    split = np.array(splits)[np.arange(n) // 4 % len(splits)]
    features = 2.0 * torch.nn.functional.one_hot(nodes, len(TREE)).float()
    features += 1.5 * torch.randn(features.shape, generator=draw)
    answers = None
    if own_right_on is not None:
        wrong = TREE.leaves[(torch.arange(n) + 1) % 4]
        answers = torch.where(torch.from_numpy(split == own_right_on), nodes, wrong)
    return EmbeddingTable(features, nodes, split=split, predictions=answers, geometry="euclidean")


def test_validation_decides_and_never_the_test() -> None:
    on_validation = evaluate(table("val"), TREE).main
    assert on_validation.classifier.name == "own"
    assert on_validation.answer_score("top1") == on_validation.score("own_top1") == 0.0
    assert on_validation.errors.errors == on_validation.errors.samples
    on_test = evaluate(table("test"), TREE).main
    name = on_test.classifier.name
    assert name != "own"
    assert on_test.score("own_top1") == 1.0
    top1 = on_test.score(f"{PREFIX[name]}top1")
    assert on_test.answer_score("top1") == top1 < 1
    assert on_test.errors.errors == round((1 - top1) * on_test.errors.samples)
    assert on_test.answer_by_depth == on_test.by_depth[name]
    assert on_test.classifier.samples == 80


def test_the_result_says_which_and_why() -> None:
    result = evaluate(table("val"), TREE, baselines={"raw": table(None)})
    sentence = result.main.classifier.sentence
    assert sentence in result.notes
    assert sentence in main_numbers_table(result)
    rows = {line.split("  ")[0]: line.split() for line in main_numbers_table(result).splitlines()}
    assert rows["classifier"][1:] == ["own", result.methods["raw"].classifier.name]
    assert float(rows["top-1 accuracy"][2]) == 0.0
    content = json.loads(json.dumps(result.to_dict()))
    assert content["methods"]["trained"]["classifier"]["sentence"] == sentence
    assert EvaluationResult.from_dict(content).main.classifier == result.main.classifier
    del content["methods"]["trained"][
        "classifier"
    ]  # as older versions wrote it: the headline was the probe's
    assert EvaluationResult.from_dict(content).main.classifier.name == "probe"


def test_without_validation_samples_it_is_the_probe() -> None:
    result = evaluate(table("test", ("train", "test")), TREE)
    assert result.main.classifier == ChosenClassifier(
        "probe", offered=("prototypes", "lda", "probe", "own"), features=False
    )
    assert "a linear probe on the embeddings" in result.notes[0]
    assert "there is no validation sample to choose by" in result.main.classifier.sentence
    asked = evaluate(table("test", ("train", "test")), TREE, settings=EvaluationSettings(classifier="own"))
    assert asked.main.answer_score("top1") == 1.0


def test_the_protocol_decisions_has_the_same() -> None:
    found = evaluate(table(None), TREE, protocols=["decisions"])
    assert found.main.classifier.sentence in found.main.protocols["decisions"].notes
    name = "probe" if found.main.classifier.name == "prototypes" else "prototypes"
    settings = EvaluationSettings(classifier=name)
    other = evaluate(table(None), TREE, protocols=["decisions"], settings=settings)
    assert other.main.classifier.name == name
    assert "as was asked for" in " ".join(other.main.protocols["decisions"].notes)
    assert other.main.protocols["decisions"].scores != found.main.protocols["decisions"].scores
    alone = evaluate(table("val"), TREE, protocols=["decisions"])  # answers without probabilities
    assert "it has no probabilities of them" in " ".join(alone.main.protocols["decisions"].notes)


@pytest.fixture(scope="module")
def weak(tmp_path_factory: pytest.TempPathFactory, image_folder: Path) -> Path:
    """A run whose own classifier hardly learned anything, on features that tell the classes."""
    out = tmp_path_factory.mktemp("runs") / "weak"
    code = run(
        "train", "--data", image_folder, "--out", out, "--objective=ce", "--epochs=1", "--batch-size=12",
        "--quiet", "--accelerator=cpu", "--val=0.3", "--test=0.3", "--optimizer.lr=1e-7",
        "--encoder=small-conv",
    )  # fmt: skip
    assert code == 0
    return out


def first_guesses(weak: Path, capsys: pytest.CaptureFixture[str], *words: object) -> tuple[float, str]:
    """The share of right first guesses on the test split, and what was said beside."""
    capsys.readouterr()
    options = ["--full", "--split", "test", "--format", "json", "--coverage", 0.5]
    assert run("predict", weak, *options, *words) == 0
    said = capsys.readouterr()
    rows = json.loads(said.out)["answers"]
    return float(np.mean([row["guesses"][0]["class"] == row["label"] for row in rows])), said.err


def test_headline_decisions_calibrate_and_predict_agree(
    weak: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(weak)
    capsys.readouterr()
    assert run("evaluate", weak, "--protocols", "decisions", "--full") == 0
    printed = capsys.readouterr().out
    result = EvaluationResult.from_dict(json.loads(folder.metrics.read_text()))
    chosen = result.main.classifier
    assert result.main.score("own_top1") < result.main.answer_score("top1")
    assert chosen.name != "own"
    assert chosen.accuracies[chosen.name] == max(chosen.accuracies.values())
    assert {*chosen.accuracies, "each-fold"} == set(PREFIX)
    assert chosen.sentence in printed
    assert chosen.sentence.split(":")[0] in folder.report.read_text("utf-8")
    assert chosen.sentence in " ".join(result.main.protocols["decisions"].notes)
    assert json.loads(folder.chosen_classifier.read_text())["classifier"]["name"] == chosen.name

    monkeypatch.setattr(
        "labeltree.inference.run_classifiers.fit_classifiers", None
    )  # kept in the run: nothing is learned
    assert run("calibrate", weak) == 0
    assert chosen.sentence in capsys.readouterr().out
    share, said = first_guesses(weak, capsys)
    assert chosen.sentence in said
    assert "brings them in line" not in said
    assert share == pytest.approx(result.main.answer_score("top1"))
    answers = load_outcomes(folder.outcomes)[result.name].predicted[chosen.name]
    assert share == pytest.approx(
        float((answers == load_outcomes(folder.outcomes)[result.name].nodes).mean())
    )


def test_an_option_decides_for_all_commands_until_another_is_asked_for(
    weak: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("evaluate", weak, "--classifier", "own") == 0
    result = EvaluationResult.from_dict(json.loads(RunFolder(weak).metrics.read_text()))
    assert result.main.classifier.name == "own"
    assert result.methods["raw pixels"].classifier.name != "own"
    share, said = first_guesses(weak, capsys)
    assert share == pytest.approx(result.main.score("own_top1"))
    assert "as was asked for" in said
    share, said = first_guesses(weak, capsys, "--classifier", "prototypes")
    assert share == pytest.approx(result.main.score("prototype_top1"))
    assert "the report show classifier 'own', these answers are of 'prototypes'" in said
    assert run("calibrate", weak, "--classifier", "auto") == 0
    assert json.loads(RunFolder(weak).decisions.read_text())["classifier"] != "own"


def test_the_recipe_can_name_one(weak: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", "--config", weak / "recipe.yaml", "--classifier", "prototypes", "--out", out, "--quiet"]
    assert run(*words) == 0
    assert run("calibrate", out) == 0
    assert json.loads(RunFolder(out).decisions.read_text())["classifier"] == "prototypes"
    assert run("train", "--data", "x", "--classifier", "svm") == 2


def test_decisions_on_samples_of_ones_own_are_not_replaced_unasked(
    weak: Path, image_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("calibrate", weak, "--data", image_folder, "--classifier", "probe") == 0
    written = RunFolder(weak).decisions.read_bytes()
    assert run("predict", weak, "--split", "test", "--classifier", "own") == 2
    assert "calibrate again: 'labeltree calibrate" in capsys.readouterr().err
    assert RunFolder(weak).decisions.read_bytes() == written
    assert run("predict", weak, "--split", "test", "--classifier", "probe") == 0
    assert run("calibrate", weak, "--classifier", "auto") == 0


def overshot(n: int) -> tuple[torch.Tensor, torch.Tensor, ClassNodes]:
    """Nine tenths of the samples have probabilities that are right, the others are sure and mostly wrong.

    The likelihood cares for the sure ones alone: a temperature that mends them spoils all others.
    """
    tree = Taxonomy.from_paths(["x", "y"])
    classes = ClassNodes(tree.leaves, tree)
    place = torch.arange(n)
    sure = place % 10 == 9
    logit = torch.where(sure, 12.0, math.log(9.0))
    wrong = torch.where(sure, place // 10 % 3 > 0, place // 10 % 10 == 0)
    labels = classes.nodes[torch.where(wrong, 1, 0)]
    return torch.stack([logit, torch.zeros(n)], 1), labels, classes


def test_a_calibration_that_does_harm_is_not_applied() -> None:
    scores, labels, classes = overshot(3000)
    rule = fit_rule(scores, labels, classes)
    check = rule.check
    assert check is not None
    assert not check.applied
    before, after = check.errors
    assert after > before
    assert "is not applied: on 900 held-out calibration samples it would raise" in check.sentence
    assert rule.calibrator.kind == "none"
    torch.testing.assert_close(rule.probabilities(scores), torch.softmax(scores.double(), 1))
    assert rule.counts["for the thresholds"] == 2100, "promises rest on samples that chose nothing"


def test_a_calibration_that_helps_is_applied() -> None:
    scores, labels, classes = overshot(3000)
    honest = labels.clone()
    draw = torch.Generator().manual_seed(1)
    honest[:] = classes.nodes[(torch.rand(3000, generator=draw) > 0.7).long()]
    check = fit_rule(scores, honest, classes).check
    assert check is not None
    assert check.applied
    assert check.errors[1] < check.errors[0]
    again = fit_rule(scores, honest, classes).check
    assert again is not None
    assert again.to_dict() == check.to_dict()
    groups = torch.arange(3000) // 100  # and with groups, which folds do not part
    grouped = fit_rule(scores, honest, classes, groups=groups).check
    assert grouped is not None
    assert grouped.samples == 900


def well_separated(
    n: int, seed: int = 0, distance: float = 2.0
) -> tuple[torch.Tensor, torch.Tensor, ClassNodes]:
    """Scores of a calibrated classifier of four classes, right for about nine tenths of the samples."""
    tree = Taxonomy.from_paths(["x/1", "x/2", "y/1", "y/2"])
    classes = ClassNodes(tree.leaves, tree)
    draw = torch.Generator().manual_seed(seed)
    place = torch.randint(4, (n,), generator=draw)
    # of two Gaussians the log-ratio is linear, with their distance as its slope
    points = distance * torch.nn.functional.one_hot(place, 4) + torch.randn(n, 4, generator=draw)
    return distance * points, classes.nodes[place], classes


def test_few_samples_leave_a_calibrated_classifier_alone() -> None:
    scores, labels, classes = well_separated(60, 2)
    rule = fit_rule(scores, labels, classes)
    assert rule.check is not None
    assert "60 labelled samples are too few for it, and support the certainty" in rule.check.sentence
    assert rule.calibrator.kind == "none"
    assert rule.counts["for the probabilities"] == 0
    assert rule.counts["for the thresholds"] == 60
    assert not rule.check.warning
    one_group = fit_rule(*overshot(3000), groups=torch.zeros(3000, dtype=torch.int64), calibration="none")
    assert one_group.check is not None
    assert "no calibration was asked for" in one_group.check.sentence
    alone = fit_rule(*overshot(3000), groups=torch.zeros(3000, dtype=torch.int64)).check
    assert alone is not None
    assert "cannot be tried where all samples are of one class or group" in alone.sentence


@pytest.mark.parametrize("grouped", [False, True])
def test_few_samples_soften_a_classifier_that_is_sure_of_everything(grouped: bool) -> None:
    """Probabilities of 1 for what is wrong, as discriminants of few samples have, withhold every answer."""
    scores, labels, classes = well_separated(24, 1)
    new, truth, _ = well_separated(2000, 99)
    groups = torch.arange(24) // 2 if grouped else None
    plain = fit_rule(40 * scores, labels, classes, groups=groups, calibration="none")
    rule = fit_rule(40 * scores, labels, classes, groups=groups)
    check = rule.check
    assert check is not None
    assert check.applied
    assert check.loss_after < 1 < check.loss_before
    assert f"{check.softened:.3g}: the classifier is surer than 24 labelled samples can" in check.sentence
    assert rule.counts["for the probabilities"] == rule.counts["for the thresholds"] == 24
    of_promise = PromiseSamples.of(rule, "val", chose=())
    assert of_promise.sentence.startswith(
        "Coverage can fall a little short: it is calibrated on 24 validation "
    )
    assert "which have also fitted a temperature ('labeltree train" in of_promise.sentence
    withheld, answered = (
        float((each.answer(40 * new, Promise(0.9)).nodes == 0).double().mean()) for each in (plain, rule)
    )
    assert withheld > 0.9
    assert answered < 0.5
    answers = rule.answer(40 * new, Promise(0.9)).nodes
    assert float(holds_truth(answers, truth, classes.taxonomy).double().mean()) > 0.9


def test_samples_set_aside_soften_nothing() -> None:
    scores, labels, classes = well_separated(80, 1)
    of_val = torch.arange(80) < 20
    rule = fit_rule(40 * scores, labels, classes, for_probabilities=of_val)
    assert rule.check is not None
    assert rule.check.applied
    wrong = torch.where(of_val, labels, labels.roll(1))
    assert fit_rule(40 * scores, wrong, classes, for_probabilities=of_val).calibrator == rule.calibrator
    assert len(rule.fitted) == 60
    assert not PromiseSamples.of(rule, "calib").softened


def test_probabilities_no_better_than_guessing_are_named() -> None:
    scores, labels, classes = well_separated(24)
    wrong = labels.roll(1)
    check = fit_rule(40 * scores, wrong, classes, calibration="none").check
    assert check is not None
    assert not check.warning, "nobody asked"
    of_few = fit_rule(40 * scores[:6], wrong[:6], classes).check
    assert of_few is not None
    assert not of_few.warning, "six samples say nothing"
    check = fit_rule(40 * scores, wrong, classes).check
    assert check is not None
    assert "worse than guessing by how often each class occurs (log loss" in check.warning
    assert "(--classifier)" in check.warning
    assert check.sentence.endswith(check.warning)
    assert check.to_dict()["warning"] == check.warning


def test_a_classifier_that_loses_more_than_guessing_is_calibrated() -> None:
    """What is sure of everything has a small calibration error, where that is mostly chance."""
    scores, labels, classes = well_separated(120, 7, distance=2.6)
    check = fit_rule(20 * scores, labels, classes).check
    assert check is not None
    assert check.samples == 36
    assert check.errors[1] > check.errors[0]
    assert check.loss_after < check.guessing < check.loss_before
    assert check.applied
    assert "is applied: on 36 held-out calibration samples the log loss falls from" in check.sentence
    assert "below that of guessing by how often each class occurs" in check.sentence
    assert "though it moves the mean calibration error over depths from" in check.sentence


def test_a_run_that_knows_nothing_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Training and `predict` warn; a head that was solved at once has no epoch that validation chose."""
    draw = np.random.default_rng(0)
    vectors, labels = draw.normal(size=(90, 80)), draw.integers(3, size=90)
    lines = ["label," + ",".join(f"v{column}" for column in range(80))]
    lines += [
        f"{'xyz'[label]}," + ",".join(map(str, row)) for label, row in zip(labels, vectors, strict=True)
    ]
    data, folder = tmp_path / "noise.csv", tmp_path / "run"
    data.write_text("\n".join(lines) + "\n")
    assert (
        run("train", "--data", data, "--val", "0.3", "--classifier", "lda", "--out", folder, "--quiet") == 0
    )
    said = "than guessing by how often each class occurs (log loss"
    assert said in caplog.text
    assert run("predict", folder, data) == 0
    error = capsys.readouterr().err
    assert said in error
    assert "which have also fitted a temperature (" in error
    assert "epoch" not in error
    by_depth = json.loads((folder / "decisions.json").read_text())["calibration_by_depth"]
    assert by_depth["before"]["nll"][-1] > 2 * by_depth["after"]["nll"][-1]
    assert run("calibrate", folder, "--classifier", "auto") == 0
    assert "also chosen the classifier and fitted a temperature" in capsys.readouterr().out


def test_folds_of_one_choice_are_one_whose_scores_are_those_of_all_validation_samples() -> None:
    """A fold with more validation samples counts more, one without any does not; nor what a fold lacks."""
    probe = partial(ChosenClassifier, "probe", "auto")
    folds = [
        probe({"probe": 0.5, "own": 0.4}, 30, ("own", "probe"), hierarchical_f1={"probe": 0.6}),
        probe({"probe": 0.9}, 10, ("own", "probe"), hierarchical_f1={"probe": 0.8}),
        probe({}, 0, ("own", "probe")),
    ]
    found = ChosenClassifier.of_folds(folds)
    assert (found.name, found.samples, found.by_fold) == ("probe", 40, ())
    assert found.accuracies == {"probe": pytest.approx(0.6)}
    assert found.hierarchical_f1 == {"probe": pytest.approx(0.65)}
    assert ChosenClassifier.of_folds(folds[2:]).accuracies == {}
    mixed = ChosenClassifier.of_folds([folds[0], replace(folds[1], name="lda")])
    assert (mixed.name, mixed.accuracies, mixed.by_fold) == ("each-fold", {}, ("probe", "lda"))
    assert (mixed.asked, mixed.samples) == ("auto", 40)
    assert mixed.offered == ("own", "probe", "each-fold")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "svm"},
        {"asked": "svm"},
        {"accuracies": [0.5]},
        {"accuracies": {"probe": "half"}},
        {"accuracies": {"own": 0.5}},
        {"samples": "4"},
        {"offered": "probe"},
    ],
)
def test_what_is_no_choice_is_refused(wrong: dict[str, object]) -> None:
    good = ChosenClassifier("probe", "auto", {"probe": 0.5}, 4, ("own", "probe")).to_dict()
    assert ChosenClassifier.from_dict(good).name == "probe"
    with pytest.raises(ValueError, match="no choice of a classifier"):
        ChosenClassifier.from_dict(good | wrong)


def test_of_equals_the_least_log_loss_answers() -> None:
    """All classifiers are right on few validation samples; class means of noisy features are so by chance."""
    tree = Taxonomy.from_paths(["a/x", "a/y", "b/z"])
    truth = tree.leaves.repeat(4)
    right, wrong = truth.clone(), truth.roll(1)
    losses = {"feature-means": 0.5, "lda": 0.2, "probe": 0.3, "prototypes": 0.1}
    answers = {"feature-means": right, "lda": right, "probe": right, "prototypes": wrong, "own": right}
    chosen = choose_classifier(answers, truth, tree, losses=losses)
    assert (chosen.name, chosen.losses) == ("lda", losses)
    assert chosen.equals == ["feature-means", "lda", "probe", "own"]
    assert "one of the best on validation" in chosen.sentence
    assert ChosenClassifier.from_dict(json.loads(json.dumps(chosen.to_dict()))) == chosen
    assert choose_classifier(answers, truth, tree).name == "feature-means"  # the simplest
    assert choose_classifier(answers, truth, tree, "probe", losses).equals == []
    assert replace(chosen, few_samples=3).equals == []  # another reason than validation
    assert replace(chosen, one_class=True).equals == []
    assert replace(chosen, name="prototypes").equals == ["prototypes"]
