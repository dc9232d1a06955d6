"""How a run is calibrated on another version of its taxonomy: on which samples, and what it records."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.decisions import ClassNodes, DecisionRule
from labeltree.decisions.calibration_check import CalibrationCheck
from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import MergedScores
from labeltree.decisions.rule import Fitted
from labeltree.decisions.searched_space import SearchedSpace
from labeltree.errors import RunError
from labeltree.inference import calibrate_run
from labeltree.inference.calibrate_run import _decider_on
from labeltree.inference.decider import Decider
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

OLD = Taxonomy.from_paths(["a/x", "a/y", "b/z", "b/w"])
NEW = Taxonomy.from_paths(["a", "b/z", "b/w"])
AX, AY, BZ, BW = (int(OLD.find(name)) for name in ("a/x", "a/y", "b/z", "b/w"))
OLD_B = int(OLD.find("b"))
A, B, Z, W = (int(NEW.find(name)) for name in ("a", "b", "b/z", "b/w"))
PLACES = torch.zeros(OLD.num_nodes, dtype=torch.int64)
PLACES[[int(OLD.find("a")), AX, AY, int(OLD.find("b")), BZ, BW]] = torch.tensor([A, A, A, B, Z, W])


class Scores:
    """Scores of the classes of the old taxonomy, always the same."""

    classes = torch.tensor([AX, AY, BZ, BW])

    def __call__(self, table: EmbeddingTable) -> Tensor:
        return table.embeddings


class Calls:
    """What the parts of a calibration were given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, record: dict[str, Any]) -> None:
        self.temperatures: list[EmbeddingTable] = []
        self.given: dict[str, Any] = {}
        rule = DecisionRule(
            ClassNodes(torch.tensor([A, Z, W]), NEW), Calibrator(), "child",
            Fitted(torch.zeros(2), torch.tensor([A, Z])), {}, CalibrationCheck("none", False, 3),
        )  # fmt: skip

        def temperature(scores: object, held: EmbeddingTable, taxonomy: Taxonomy) -> float:
            assert taxonomy == OLD
            self.temperatures.append(held)
            return 2.5

        def held_out(scored: Any, held: EmbeddingTable, taxonomy: Taxonomy) -> Any:
            self.given |= {"offered": list(scored), "chose": held.nodes.tolist()}
            return dict.fromkeys(scored, held.nodes), {"probe": 0.5}

        def choose(answers: Any, labels: Tensor, tree: Taxonomy, asked: str, losses: Any) -> ChosenClassifier:
            self.given |= {"asked": asked, "losses": losses}
            return ChosenClassifier("probe", "auto")

        def fit(scores: Tensor, labels: Tensor, classes: ClassNodes, **named: Any) -> DecisionRule:
            self.given |= {**named, "labels": labels.tolist(), "classes": classes.nodes.tolist()}
            return rule

        known = SimpleNamespace(
            fitted={"probe": 1, "lda": 2, "prototypes": 3},
            chosen=ChosenClassifier(
                "lda", "lda", offered=("probe", "lda", "own"), space=SearchedSpace("features", {}, 7)
            ),
            scores=lambda name: Scores(),
        )
        split = np.array(["val", "val", "val", "calib", "val", "val"])
        labels = torch.tensor([AX, AY, BZ, BW, OLD_B, -1])
        groups = torch.tensor([1, 1, 2, 3, 4, 5])
        self.held = EmbeddingTable(torch.rand(6, 4), labels, split=split, groups=groups)
        for name, stub in {
            "_read": lambda folder: record,
            "run_classifiers": lambda base: known,
            "validation_table": lambda base, own: self.held,
            "merging_temperature": temperature,
            "answer_held_out": held_out,
            "choose_classifier": choose,
            "fit_rule": fit,
            "_before_and_after": lambda *parts: {},
            "mapping_digest": lambda mapping: "the mapping",
        }.items():
            monkeypatch.setattr(calibrate_run, name, stub)

    def decider(self, asked: Any = None) -> Decider:
        exact = torch.ones(OLD.num_nodes, dtype=torch.bool)
        exact[AY] = False
        change = SimpleNamespace(
            places=PLACES,
            to_new=lambda nodes: torch.where(nodes >= 0, PLACES[nodes.clamp(min=0)], -1),
            mapping=SimpleNamespace(exact=exact),
            divided=lambda nodes: [int(nodes[-1]), int(nodes[0])],
        )
        folder = SimpleNamespace(path=Path("run"), reference=Path("reference"))
        base: Any = SimpleNamespace(taxonomy=OLD, folder=folder)
        run: Any = SimpleNamespace(
            taxonomy=NEW, folder=folder, change=change, weights_digest="00ff", base=base
        )
        return _decider_on(run, base, asked)


def test_what_chooses_and_calibrates_on_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validation samples with a label that has none below it choose; those set aside give thresholds, too."""
    earlier = {"choices": {"calibration": "vector"}, "later_classes": [AX, AY]}
    calls = Calls(monkeypatch, earlier)
    decider = calls.decider()
    given = calls.given
    assert (
        given["offered"] == ["prototypes", "lda", "probe", "own"] or given["offered"].count("prototypes") == 0
    )
    assert sorted(given["offered"]) == ["lda", "own", "probe"], "prototypes were not offered"
    assert [table.nodes.tolist() for table in calls.temperatures] == [
        [AX, AY, BZ, int(OLD.find("b")), -1]
    ] * 3
    assert given["chose"] == [A, A, Z], "b has another label below it"
    assert (given["asked"], given["losses"]) == ("lda", {"probe": 0.5})
    assert given["labels"] == [A, A, Z, W, B, -1]
    assert given["groups"].tolist() == [1, 1, 2, 3, 4, 5]
    assert given["for_probabilities"].tolist() == [True, True, True, False, True, True]
    assert (given["calibration"], given["descent"], given["classes"]) == ("vector", "child", [A, Z, W])
    record = decider.record
    told = ("classifier", "calibrated_on", "set_aside", "mapping", "coarse_classes", "later_classes")
    assert {name: record[name] for name in told} == {
        "classifier": "probe",
        "calibrated_on": "validation samples",
        "set_aside": True,
        "mapping": "the mapping",
        "coarse_classes": [A, W],
        "later_classes": [A],
    }
    assert record["merging_temperatures"] == dict.fromkeys(given["offered"], 2.5)
    assert isinstance(decider.scores, MergedScores)
    assert decider.chosen.space.name == "features"
    calls.decider("own")
    assert given["asked"] == "own"


def test_what_was_calibrated_elsewhere_cannot_be_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch, {"calibrated_on": "their.csv"})
    with pytest.raises(RunError, match=r"^the decisions of 'run' were calibrated on 'their.csv', whose"):
        calls.decider()
