"""The protocol `decisions` on a table with and without validation samples, with groups, on hard cases."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from labeltree.evaluation import EvaluationSettings, JudgingTaxonomy, choose_samples
from labeltree.evaluation.protocol_registry import get_protocol, run_protocol
from labeltree.evaluation.result import ProtocolResult
from labeltree.evaluation.search_and_answer_columns import Inputs
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

TREE = Taxonomy.from_paths([(a, b, c) for a in "ab" for b in "cd" for c in "ef"])


def blurred(n: int, noise: float, seed: int = 0, splits: bool = True) -> EmbeddingTable:
    """Features in which depth 1 is clear, depth 2 less and leaves hardly."""
    draw = torch.Generator().manual_seed(seed)
    nodes = TREE.leaves[torch.randint(0, 8, (n,), generator=draw)]
    hot = torch.nn.functional.one_hot(TREE.ancestors[nodes, 1:], len(TREE)).float()
    clear = (hot * torch.tensor([4.0, 2.0, 1.0])[:, None]).sum(1)
    features = clear + noise * torch.randn(n, len(TREE), generator=draw)
    split = np.array(["train", "val", "test", "test"])[np.arange(n) % 4]
    return EmbeddingTable(features, nodes, split=split if splits else None, geometry="euclidean")


def measure(table: EmbeddingTable, **options: object) -> ProtocolResult:
    settings = EvaluationSettings(options={"decisions": options})
    judging = JudgingTaxonomy.of(TREE)
    samples = choose_samples(table, TREE, "test", settings)
    return run_protocol(get_protocol("decisions"), Inputs(table, judging, samples, settings))


@pytest.mark.parametrize("classifier", ["probe", "prototypes"])
def test_coverage_is_near_what_was_asked_for(classifier: str) -> None:
    found = measure(blurred(4000, 1.0), classifier=classifier, coverages=(0.8, 0.95))
    # calibrated on 700, tested on 2000: the standard deviation of the coverage is below 0.018
    assert found.scores["coverage_at_0.8"] == pytest.approx(0.8, abs=0.07)
    assert found.scores["coverage_at_0.95"] == pytest.approx(0.95, abs=0.035)
    assert found.scores["depth_at_0.8"] > found.scores["depth_at_0.95"]
    depth = found.by_depth["answered_at_0.8"]
    assert sum(depth) == pytest.approx(found.scores["depth_at_0.8"])
    assert depth == sorted(depth, reverse=True)
    assert found.by_node["coverage_at_0.8"]["/"] == pytest.approx(found.scores["coverage_at_0.8"])
    assert set(found.by_node["coverage_at_0.8"]) == {TREE.path_name(v) for v in range(len(TREE))}
    coverage = found.curves["coverage_by_coverage"]
    assert coverage == sorted(coverage)
    assert found.scores["cost_height"] <= found.scores["cost_height_of_classes"] + 0.01
    assert len(found.curves["reliability_after_depth_3"]) == len(found.axes["reliability_after_depth_3"])
    assert [note[:18] for note in found.notes] == [
        "Answers come from ",
        "Coverage can fall ",
        "The calibration by",
        "Even perfectly cal",
        "The intervals hold",
    ]


def test_classes_that_were_not_learned_break_the_promise_and_a_note_says_so() -> None:
    table = blurred(2000, 1.0)
    hidden = torch.isin(table.nodes, TREE.leaves[:2]).numpy()
    tested = np.asarray(table.split == "test")
    found = measure(replace(table, split=np.where(hidden & ~tested, "unseen", np.asarray(table.split))))
    assert f"{(hidden & tested).sum()} of {tested.sum()} test samples are of" in " ".join(found.notes)
    assert found.scores["coverage_at_0.9"] < 0.85


def test_class_means_have_a_temperature_of_their_own() -> None:
    """Distances alone would say that all classes are about equally probable."""
    found = measure(blurred(4000, 2.0), classifier="prototypes")
    for depth in (1, 2):
        assert found.by_depth["ece_before"][depth] < 0.05
        assert found.by_depth["nll_after"][depth] < found.by_depth["nll_before"][depth] + 1e-3


def test_without_validation_samples_half_of_the_test_is_held_out() -> None:
    table = blurred(2000, 1.0, splits=False)
    found = measure(table)
    held, tried = found.counts["calibration samples"], found.counts["test samples answered"]
    assert 0 <= tried - held <= 1
    assert 990 <= held + tried <= 1010
    assert f"half of the test samples ({held})" in found.notes[0]
    assert found == measure(table), "and the same half each time"


def test_groups_and_too_few_samples() -> None:
    table = blurred(800, 1.0)
    groups = torch.arange(800) // 40 * 4 + torch.arange(800) % 4
    grouped = EmbeddingTable(
        table.embeddings, table.nodes, split=table.split, groups=groups, geometry="euclidean"
    )
    found = measure(grouped, coverages=(0.8, 0.99), counted="group")
    assert found.scores["groups_held_at_0.8"] <= found.scores["coverage_at_0.8"]
    assert found.scores["groups_held_at_0.8"] <= found.scores["coverage_of_groups_at_0.8"] <= 1
    assert found.counts["groups of test samples answered"] == len(groups[table.split == "test"].unique())
    assert found.counts["groups for the thresholds"] < found.counts["for the thresholds"]
    assert "too few calibration samples to promise a coverage of 0.99" in " ".join(found.notes)
    assert "coverage_at_0.99" not in found.scores
    assert math.isnan(found.curves["coverage_by_coverage"][-1])


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"coverages": (1.2,)}, "coverage is 1.2"),
        ({"classifier": "svm"}, "classifier is 'svm'; expected one of"),
        ({"calibration": "platt"}, "calibration is 'platt'; expected one of"),
        ({"descent": "up"}, "descent is 'up'; expected 'child' or 'leaf'"),
        ({"bins": 0}, "bins must be"),
        ({"counted": "patient"}, "counted is .patient.; expected"),
    ],
)
def test_options(options: dict[str, object], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        measure(blurred(80, 1.0), **options)
