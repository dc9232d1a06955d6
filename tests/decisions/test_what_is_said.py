"""Sentences of decisions, whole and with numbers that all differ: a count in the wrong place is seen."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from labeltree.decisions import ClassNodes, DecisionRule
from labeltree.decisions.answers_of_groups import GroupRule
from labeltree.decisions.calibration_check import CalibrationCheck
from labeltree.decisions.calibration_error import DepthCalibration, Reliability
from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.choose_classifier import ChosenClassifier, choose_by_accuracy
from labeltree.decisions.drift import NO_GROUPS, Drift, DriftRule, Seen
from labeltree.decisions.drift_evidence import DriftEvidence
from labeltree.decisions.novelty import Reference
from labeltree.decisions.promise_samples import PromiseSamples
from labeltree.decisions.rule import Fitted
from labeltree.decisions.searched_space import SearchedSpace
from labeltree.geometry import Euclidean
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])
CLASSES = ClassNodes(TREE.leaves, TREE)


def depth(error: float, confidence: float, count: int) -> DepthCalibration:
    """One bin, of which the error by chance is known."""
    curve = Reliability(torch.tensor([confidence]), torch.tensor([0.5]), torch.tensor([count]))
    return DepthCalibration(count, 0.5, confidence, error, 0.3, 0.7, curve)


# by chance 2·3·0.3·P(X = 3 of 4 at 0.7) / 4 = 1.8·0.4116 / 4 = 0.1852, and of two at ½ 2·2·½·¼ / 2 = 0.25
BEFORE, AFTER = [depth(0.3, 0.5, 2), depth(0.2, 0.5, 2)], [depth(0.1, 0.7, 4), depth(0.02, 0.7, 4)]
CHECK = CalibrationCheck("temperature", True, 70, BEFORE, AFTER, 0.9, 0.6, 1.0)
PERFECT = "Perfectly calibrated probabilities have 0.1852 on so many samples."


def test_a_calibration_that_is_applied() -> None:
    assert CHECK.sentence == (
        "The calibration by a temperature is applied: on 70 held-out calibration samples it brings the mean "
        f"calibration error over depths from 0.2500 to 0.0600. {PERFECT}"
    )
    told = CHECK.to_dict()
    assert told.pop("sentence") == CHECK.sentence
    assert told.pop("error_by_chance") == pytest.approx(0.45 * 0.4116)
    assert {name: round(value, 9) if isinstance(value, float) else value for name, value in told.items()} == {
        "asked": "temperature",
        "applied": True,
        "held_out_samples": 70,
        "error_before": 0.25,
        "error_after": 0.06,
        "log_loss_before": 0.9,
        "log_loss_after": 0.6,
        "log_loss_of_guessing": 1.0,
    }


def test_a_calibration_that_raises_the_error() -> None:
    worse = [depth(0.4, 0.7, 4)]
    mended = replace(CHECK, after=worse, loss_before=1.25, guessing=0.8)
    assert mended.sentence == (
        "The calibration by a temperature is applied: on 70 held-out calibration samples the log loss falls "
        "from 1.25 to 0.6, below that of guessing by how often each class occurs (0.8), though it moves the "
        f"mean calibration error over depths from 0.2500 to 0.4000. {PERFECT}"
    )
    assert replace(CHECK, applied=False, after=worse).sentence == (
        "The calibration by a temperature is not applied: on 70 held-out calibration samples it would raise "
        f"the mean calibration error over depths from 0.2500 to 0.4000. {PERFECT}"
    )


def test_probabilities_hardly_better_than_guessing() -> None:
    """The loss is that of what answers: with the calibration if it is applied, else without it."""
    says = "The classifier's probabilities are {} than guessing by how often each class occurs (log loss {}, "
    says += "guessing 1): most answers will be coarse; try another one (--classifier), or label more samples."
    assert CHECK.warning == ""
    assert replace(CHECK, loss_after=0.95).warning == "", "a twentieth less is better"
    assert replace(CHECK, loss_after=0.96).warning == says.format("hardly better", "0.96")
    assert replace(CHECK, loss_after=1.2).warning == says.format("worse", "1.2")
    assert replace(CHECK, loss_after=1.2).sentence.endswith(f"{PERFECT} {says.format('worse', '1.2')}")
    assert replace(CHECK, loss_after=1.2).to_dict()["warning"] == says.format("worse", "1.2")
    plain = replace(CHECK, applied=False, loss_after=1.2)
    assert plain.warning == "", "it answers with 0.9"
    assert replace(plain, loss_before=0.97).warning == says.format("hardly better", "0.97")
    assert replace(CHECK, loss_after=1.2, samples=10).warning
    assert replace(CHECK, loss_after=1.2, samples=9).warning == "", "too few to tell"
    assert replace(CHECK, loss_after=math.nan).warning == ""


def test_a_calibration_of_few_samples() -> None:
    few = CalibrationCheck("vector", False, 29)
    assert few.sentence == (
        "The calibration by a slope and an offset a class is not applied: 29 labelled samples cannot tell "
        "whether it helps."
    )
    alone = replace(few, samples=30)
    assert alone.sentence.endswith("it cannot be tried where all samples are of one class or group.")
    assert replace(few, loss_before=0.3, loss_after=0.3, guessing=1.0).sentence.endswith(
        "29 labelled samples are too few for it, and support the certainty of the classifier."
    )
    softened = CalibrationCheck("depth", True, 12, [], [], 2.0, 0.7, 1.0, 3.14159)
    assert softened.sentence == (
        "The probabilities are softened by one temperature, 3.14: the classifier is surer than 12 labelled "
        "samples can support, and these are too few to fit more."
    )


def rule_of(fitted: Fitted, **counts: int) -> DecisionRule:
    return DecisionRule(CLASSES, Calibrator(), "child", fitted, counts)


def test_how_samples_of_a_group_are_combined() -> None:
    rule = rule_of(Fitted(torch.zeros(2), torch.ones(2, dtype=torch.int64)))
    chosen = GroupRule("max", rule, {"mean": 0.875, "max": 0.9}, 40, 3)
    assert chosen.sentence("patient") == (
        "The samples of a patient are combined by the largest probability of each class, the best on 40 "
        "held-out patients (mean 87.5%, max 90.0%)."
    )
    assert replace(chosen, accuracies={}, how="logits", count=29).sentence() == (
        "The samples of a group are combined by the mean of their log-probabilities: 29 held-out groups are "
        "too few to choose by."
    )


def test_samples_that_promises_rest_on_are_counted_from_the_rule() -> None:
    """Softened is what the same samples have fitted: more uses than labelled samples."""
    scores, labels = torch.zeros(5), torch.ones(5, dtype=torch.int64)
    counts = {"calibration samples": 9, "left out: no label": 2, "for the thresholds": 5}
    fitted = Fitted(scores, labels, torch.tensor([4, 4, 7, -1, -1]))
    apart = PromiseSamples.of(rule_of(fitted, **counts, **{"for the probabilities": 2}), "other")
    assert (apart.samples, apart.groups, apart.softened) == (5, 4, False)
    assert apart.sentence == "Coverage is calibrated on 5 samples of 4 groups of other data."
    shared = PromiseSamples.of(
        rule_of(fitted, **counts, **{"for the probabilities": 3}), "other", source="x.csv"
    )
    assert shared.sentence == (
        "Coverage is calibrated on 5 samples of 4 groups of 'x.csv', which have also fitted a "
        "temperature: it "
        "can fall a little short."
    )
    both = PromiseSamples("val", 31, 8, chose=("the epoch",), softened=True, unpromised=("a", "b"))
    assert both.sentence == (
        "Coverage can fall a little short: it is calibrated on 31 validation samples of 8 groups, which have "
        "also chosen the epoch and fitted a temperature ('labeltree train --calib 0.1' sets samples "
        "aside for "
        "coverage alone). Nothing is promised for 'a' and 'b', which were added later and have no "
        "calibration "
        "sample."
    )


ALONE: dict[str, Any] = {"asked": "auto", "offered": ("prototypes", "probe", "own")}


def test_folds_that_chose_different_classifiers() -> None:
    names = ("probe", "own", "probe", "probe", "own", "prototypes")
    choices = [ChosenClassifier(name, samples=10 + at, **ALONE) for at, name in enumerate(names)]  # type: ignore[arg-type]
    found = ChosenClassifier.of_folds(choices)
    assert (found.name, found.samples, found.by_fold) == ("each-fold", 75, names)
    assert found.sentence == (
        "Answers come from the classifier that each fold chose for itself: a linear probe on the features in "
        "folds 1, 3 and 4; the run's own classifier in folds 2 and 5; the nearest class mean of the "
        "embeddings "
        "in fold 6."
    )
    plain = ChosenClassifier.of_folds([replace(each, features=False) for each in choices])
    assert "a linear probe on the embeddings in folds 1, 3 and 4" in plain.sentence


def test_folds_that_chose_one_classifier_count_their_samples() -> None:
    """Means over samples: (30·0.9 + 10·0.5) / 40 = 0.8, of the folds that have validation samples."""
    first = ChosenClassifier("probe", "auto", {"probe": 0.9, "own": 0.5}, 30, one_class=True)
    first = replace(first, hierarchical_f1={"probe": 0.95, "own": 0.6}, losses={"probe": 0.2, "own": 2.0})
    second = replace(first, accuracies={"probe": 0.5, "own": 0.1}, samples=10, one_class=False)
    second = replace(second, hierarchical_f1={"probe": 0.75, "own": 0.2}, losses={"probe": 0.6})
    none = replace(first, samples=0, accuracies={}, hierarchical_f1={}, losses={})
    found = ChosenClassifier.of_folds([first, none, second])
    assert found.accuracies == pytest.approx({"probe": 0.8, "own": 0.4})
    assert found.hierarchical_f1 == pytest.approx({"probe": 0.9, "own": 0.5})
    assert found.losses == pytest.approx({"probe": 0.3})
    assert (found.samples, found.one_class) == (40, False)
    assert ChosenClassifier.of_folds([first, none]).one_class


def test_why_a_classifier_answers() -> None:
    right = {"prototypes": 0.75, "probe": 0.8125, "own": 0.5}
    f1 = {"prototypes": 0.9, "probe": 0.9, "own": 0.625}
    chosen = ChosenClassifier("probe", "auto", right, 1234, hierarchical_f1=f1)
    others = "(the nearest class mean of the embeddings 75.0%, the run's own classifier 50.0%)"
    assert chosen.sentence == (
        "Answers come from a linear probe on the features, one of the best on validation by hierarchical F1 "
        f"(0.900): right for 81.2% of 1,234 validation samples {others}."
    )
    assert replace(chosen, hierarchical_f1=f1 | {"probe": 0.95}).sentence == (
        "Answers come from a linear probe on the features, the best on validation by hierarchical F1 "
        "(0.950): "
        f"right for 81.2% of 1,234 validation samples {others}."
    )
    new = replace(chosen, hierarchical_f1={}, new_class_samples=56)
    assert new.sentence == (
        "Answers come from a linear probe on the features, the best on validation: right for 81.2%, the mean "
        f"of known and new classes, of 1,234 held-out samples (56 of new classes) {others}."
    )
    few = replace(new, name="prototypes", few_samples=3)
    assert few.sentence == (
        "Answers come from the nearest class mean of the embeddings: the new classes have 3 samples each "
        "(median), none held out, and a probe learned from so few seldom names them."
    )
    assert (new.equals, few.equals) == (["probe"], []), "few samples chose it, and no score"
    assert chosen.equals == ["prototypes", "probe"]
    assert replace(chosen, one_class=True).equals == []
    one = replace(chosen, one_class=True)
    assert one.sentence == (
        "Answers come from a linear probe on the features: all 1,234 validation samples are of one class, so "
        "they cannot tell which classifier is better."
    )
    assert "features, as was asked for: all 1,234" in replace(one, asked="probe").sentence
    bare = ChosenClassifier("own", "own", offered=("own",))
    assert bare.sentence == "Answers come from the run's own classifier: as was asked for."


def test_a_choice_is_read_as_it_was_written() -> None:
    space = SearchedSpace("features", {"embeddings": 0.5, "features": 0.75}, 90)
    chosen = ChosenClassifier("probe", "auto", {"probe": 0.75}, 20, new_class_samples=7, few_samples=4)
    chosen = replace(chosen, space=space, features=False, hierarchical_f1={"probe": 0.875})
    assert ChosenClassifier.from_dict(chosen.to_dict()) == chosen


def test_ties_go_to_the_smallest_loss_and_then_to_the_simplest() -> None:
    offered = ["prototypes", "probe", "own"]
    same = dict.fromkeys(offered, 0.5)

    def name(losses: dict[str, float], **f1: float) -> str:
        return choose_by_accuracy(offered, same, 9, "auto", f1, losses).name  # type: ignore[arg-type]

    assert name({}) == "prototypes"
    assert name({"prototypes": 0.7, "probe": 0.2, "own": 0.3}) == "probe"
    assert name({"own": 0.9}) == "own", "one without a loss comes after"
    assert name({"probe": 0.1}, prototypes=0.6, probe=0.5, own=0.7) == "own", "hierarchical F1 comes first"


def test_the_space_of_a_search() -> None:
    scores, ranked = {"embeddings": 0.5, "features": 0.75}, {"embeddings": 0.25, "features": 0.375}
    space = SearchedSpace("features", scores, 1234)
    assert space.sentence == (
        "Search uses the encoder's features, which were better on 1,234 validation samples than the "
        "embeddings: the nearest training sample has a hierarchical F1 of 0.750 by features and 0.500 by "
        "embeddings."
    )
    assert replace(space, map_at_r=ranked).sentence.endswith(
        "0.500 by embeddings, and MAP@R is 0.375 and 0.250."
    )


WORDS = {"distance": "they lie farther", "certainty": "the model is surer of its answers"}


def drift(distance: float, certainty: float) -> Drift:
    return Drift({"distance": distance, "certainty": certainty}, WORDS, 50, "groups", 70)


def test_a_batch_that_differs_and_one_that_does_not() -> None:
    assert drift(0.3, 0.026).sentence() == (
        "no difference is found between these 50 groups and the 70 held-out groups that coverage was "
        "calibrated on (p = 0.052)"
    )
    other = drift(0.3, 0.004)
    assert other.p_value == pytest.approx(0.008)
    assert other.sentence() == (
        "these 50 groups are not like the held-out samples that coverage was calibrated on (p = 0.008; the "
        "model is surer of its answers), so coverage may fall short: check some answers, and calibrate on "
        "labelled samples of this source with 'labeltree calibrate RUN --data DATA'"
    )
    assert "(p < 0.001; they lie farther)" in drift(0.0004, 0.3).sentence()
    assert "(p = 0.001; they lie farther)" in drift(0.0006, 0.3).sentence()
    assert drift(0.9, 0.8).p_value == 1.0
    assert drift(0.3, 0.026).differences == dict.fromkeys(WORDS, "no difference is found")
    assert other.differences == {**WORDS, "distance": "no difference is found"}
    assert (other.alarms(), other.alarms(0.005)) == (True, False)
    assert drift(0.3, 0.025).alarms()


def seen(count: int, groups: torch.Tensor | None = None, start: float = 0.0, **more: Any) -> Seen:
    values = start + torch.arange(count).double() / count
    return Seen(values, 1 - values / 9, None, groups, **more)


def drift_rule(held: Seen) -> DriftRule:
    return DriftRule(held, Reference(torch.eye(3).double(), TREE.leaves, Euclidean()))


def test_what_cannot_be_compared_and_why() -> None:
    """Twenty are enough; of groups each counts once, and copies of one sample tell no patient."""
    enough = drift_rule(seen(20))
    assert enough.cannot_test(seen(20)) == ""
    assert enough.cannot_test(seen(19)) == "19 samples (or groups of them) are too few; a test takes 20"
    assert drift_rule(seen(18)).cannot_test(seen(40)) == (
        "18 held-out samples (or groups of them) are too few; a test takes 20"
    )
    patients = torch.arange(40) // 2
    grouped = drift_rule(seen(40, patients))
    assert grouped.cannot_test(seen(40)) == NO_GROUPS
    assert grouped.cannot_test(seen(40, patients, only_copies=True)) == NO_GROUPS
    assert grouped.cannot_test(seen(40, patients)) == ""
    assert grouped.cannot_test(seen(38, patients[:38])).startswith("19 samples (or")
    copies = enough.test(seen(60, torch.arange(60) // 3))
    assert copies is not None
    assert (copies.count, copies.held, copies.unit) == (20, 20, "samples")
    found = grouped.test(seen(60, torch.arange(60) // 2))
    assert found is not None
    assert (found.count, found.held, found.unit) == (30, 20, "groups")


@pytest.mark.parametrize("away", [2.0, -2.0])
def test_which_way_a_batch_differs(away: float) -> None:
    found = drift_rule(seen(30)).test(seen(40, start=away))
    assert found is not None
    assert (found.count, found.held) == (40, 30)
    assert dict(found.directions) == (
        {
            "distance": "they lie farther from the training samples",
            "certainty": "the model is less sure of its answers",
        }
        if away > 0
        else {
            "distance": "they lie nearer to the training samples",
            "certainty": "the model is surer of its answers",
        }
    )


def test_evidence_is_told_of_all_samples_since_the_start() -> None:
    points = torch.randn(9, 3, generator=torch.Generator().manual_seed(0)).double()
    held = Seen(torch.zeros(30).double(), torch.ones(30).double(), torch.zeros(30, 3).double())
    rule = DriftRule(held, Reference(points, TREE.leaves[[0] * 9], Euclidean()))
    evidence = DriftEvidence(rule)
    evidence._highest, evidence.count = 20.0, 1234
    assert evidence.alarms(), "the probability that it ever is 20 is 1 in 20"
    assert not evidence.alarms(0.04)
    assert evidence.sentence() == (
        "the 1,234 samples since the start are not all like the held-out samples that coverage was "
        "calibrated "
        "on: of services whose samples are, at most 5 in 100 ever say this"
    )
    evidence._highest = 19.9
    assert evidence.sentence() == (
        "the 1,234 samples since the start are like the held-out samples that coverage was calibrated on, as "
        "far as can be told"
    )


def test_evidence_reads_what_varies_most_and_certainties_near_one() -> None:
    """Of ten directions the two of the smallest spread are left out; 1 − p tells 0.99999 from 0.999999."""
    spread = torch.arange(1.0, 11.0).double()
    points = torch.randn(400, 10, generator=torch.Generator().manual_seed(0)).double() * spread**2
    sure = Seen(torch.zeros(2).double(), 1 - torch.tensor([1e-5, 1e-6]).double(), points[:2])
    rule = DriftRule(sure, Reference(points, TREE.leaves[[0] * 400], Euclidean()), 1)
    evidence = DriftEvidence(rule)
    assert evidence._directions.shape == (10, 8)
    assert float(evidence._directions[:2].norm()) < 0.2
    certainty = evidence._cells(sure)[1]
    assert certainty[0] > certainty[1], "less sure, and farther"

    def bet(seed: int) -> float:
        again = DriftEvidence(DriftRule(sure, rule.reference, seed))
        again.add(Seen(torch.zeros(200).double(), torch.ones(200).double(), torch.zeros(200, 10).double()))
        return float(again._capital.sum())

    assert bet(1) == bet(1) != bet(2), "ties are broken by the seed"
