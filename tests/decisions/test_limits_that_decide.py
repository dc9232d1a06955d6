"""Limits at which another decision is taken: one below, and one at the limit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from labeltree.decisions import ClassNodes, calibration_check
from labeltree.decisions.answers import Paths
from labeltree.decisions.calibration_check import check_calibration
from labeltree.decisions.calibration_error import DepthCalibration, Reliability
from labeltree.decisions.choose_classifier import choose_classifier
from labeltree.decisions.conformal import conformal_scores
from labeltree.decisions.drift import DriftRule, Seen, fit_drift
from labeltree.decisions.drift_evidence import DriftEvidence
from labeltree.decisions.novelty import Distances, NoveltyRule, Reference
from labeltree.geometry import Euclidean
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])
TWO = ClassNodes(torch.tensor([int(TREE.find("a/x")), int(TREE.find("b"))]), TREE)
A, X, Y, B = (int(TREE.find(name)) for name in ("a", "a/x", "a/y", "b"))


def depth(error: float) -> list[DepthCalibration]:
    curve = Reliability(torch.tensor([0.5]), torch.tensor([0.5]), torch.tensor([2]))
    return [DepthCalibration(2, 0.5, 0.5, error, 0.3, 0.7, curve)]


@pytest.mark.parametrize(
    ("count", "losses", "after", "applied"),
    [
        (99, (0.9, 0.5, 0.7), 0.3, True),  # from above guessing to below it
        (100, (0.9, 0.5, 0.7), 0.3, False),  # so many tell the error itself
        (99, (0.9, 0.8, 0.7), 0.3, False),  # no better than guessing
        (99, (0.6, 0.5, 0.7), 0.3, False),  # it was below guessing
        (100, (0.9, 0.5, 0.7), 0.1, True),  # an equal error does no harm
    ],
)
def test_what_few_samples_apply_although_the_error_rises(
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    losses: tuple[float, float, float],
    after: float,
    applied: bool,
) -> None:
    """And bins hold twenty of the samples that tell something: of 99 there are four, of 100 five."""
    bins: list[int] = []
    errors = iter((0.1, after))

    def depths(p: Tensor, labels: Tensor, classes: ClassNodes, number: int) -> list[DepthCalibration]:
        bins.append(number)
        return depth(next(errors))

    monkeypatch.setattr(calibration_check, "_losses", lambda *given: losses)
    monkeypatch.setattr(calibration_check, "_calibrate_depths", depths)
    labels = torch.cat([TWO.nodes[torch.arange(count) % 2], torch.full((60,), -1)])
    scores = torch.randn(len(labels), 2, generator=torch.Generator().manual_seed(0))
    check = check_calibration(scores, labels, TWO, "temperature")
    assert check.applied is applied
    assert bins == [count // 20] * 2


def test_the_score_is_that_of_the_first_wrong_node() -> None:
    paths = Paths(torch.tensor([[0, A, X]] * 3), torch.tensor([[1.0, 0.8, 0.6]] * 3).double())
    assert conformal_scores(paths, torch.tensor([Y, B, X]), TREE).tolist() == pytest.approx([0.6, 0.8, 0.0])


def known(count: int, groups: int) -> Distances:
    return Distances.of(torch.arange(float(count)), torch.arange(count) % groups)


def test_nodes_with_nineteen_groups_are_judged_by_themselves() -> None:
    reference = Reference(torch.zeros(1, 2).double(), torch.tensor([X]), Euclidean())
    within, depths = {A: known(19, 19), B: known(30, 18), 0: known(18, 18)}, {1: known(50, 50)}
    rule = NoveltyRule(reference, TREE, known(19, 19), within, depths)
    assert rule._usual(A) is within[A]
    assert rule._usual(B) is depths[1], "thirty samples of eighteen groups"
    assert rule._usual(0) is within[0], "there is nothing else at its depth"
    assert rule._usual(X) is None


def test_the_finest_node_lies_above_the_end_of_its_path_and_fits_well() -> None:
    """Nearest at distance 0, all p-values are 1; at one of 19 distances that half are beyond, ½."""
    reference = Reference(torch.zeros(1, 2).double(), torch.tensor([X]), Euclidean())
    every = dict.fromkeys((0, A, X), known(19, 19))
    rule = NoveltyRule(reference, TREE, known(19, 19), every, {})
    path = torch.tensor([[0, A, X], [0, A, -1], [0, -1, -1]])
    below = torch.zeros(3, TREE.num_nodes).double()
    assert rule._finest(below, path, 0.5).tolist() == [A, 0, 0]
    half = below + 10.0  # (1 + 9) / 20
    assert rule._finest(half, path, 0.5).tolist() == [0, 0, 0]
    assert rule._finest(half, path, 0.49).tolist() == [A, 0, 0]


def test_an_empty_validation_is_of_no_class_and_each_classifier_has_its_score() -> None:
    truth = torch.tensor([X, Y, B, B])
    found = choose_classifier({"probe": truth, "own": torch.tensor([Y, Y, A, -1])}, truth, TREE)
    assert found.accuracies == {"probe": 1.0, "own": 0.25}
    assert found.hierarchical_f1 == pytest.approx({"probe": 1.0, "own": (0.5 + 1 + 0 + 0) / 4})
    assert not found.one_class
    nothing = truth[:0]
    assert not choose_classifier({"probe": nothing, "own": nothing}, nothing, TREE).one_class
    assert choose_classifier({"probe": truth[2:], "own": truth[2:]}, truth[2:], TREE).one_class


def seen(points: Tensor) -> Seen:
    values = torch.arange(len(points)).double() / len(points)
    return Seen(values, values, points)


def test_points_are_compared_with_the_held_out_ones() -> None:
    """The least p-value of 499 permutations is 1 in 500; points of the same kind differ by chance alone."""
    draw = torch.Generator().manual_seed(0)
    held, same = (torch.randn(40, 2, generator=draw).double() for _ in range(2))
    rule = DriftRule(seen(held), Reference(held, torch.full((40,), X), Euclidean()))
    other, alike = rule.test(seen(held + 50)), rule.test(seen(same))
    assert other is not None
    assert alike is not None
    assert other.p_values["embeddings"] == pytest.approx(1 / 500)
    assert other.p_values["distance"] == pytest.approx(1.0)
    assert alike.p_values["embeddings"] > 0.05


def table_of(groups: list[int] | None, names: list[str] | None = None) -> EmbeddingTable:
    import numpy as np

    count = 24 if groups is None else len(groups)
    return EmbeddingTable(
        torch.arange(2.0 * count).reshape(count, 2),
        torch.full((count,), X),
        groups=None if groups is None else torch.tensor(groups),
        group_names=None if names is None else np.array(names),
        geometry="euclidean",
    )


def test_which_groups_are_patients() -> None:
    """Groups of different samples, of training or held out, or of a column; not those of single samples."""
    single, pairs = table_of(list(range(24))), table_of([row // 2 for row in range(24)])
    p = torch.full((24, 3), 1 / 3)

    def has_groups(reference: EmbeddingTable, held: EmbeddingTable, **named: Any) -> bool:
        return fit_drift(reference, held, p, **named).held.groups is not None

    assert not has_groups(single, single)
    assert has_groups(single, pairs)
    assert has_groups(pairs, single)
    assert has_groups(single, single, named_groups=True)
    assert fit_drift(single, single, p, seed=5).seed == 5
    rule = fit_drift(single, pairs, p)
    for table in (single, pairs, table_of(None), table_of(list(range(24)), ["p"] * 24)):
        assert rule.seen(table, p).only_copies is not table.tells_groups


def test_what_has_been_found_stays_found() -> None:
    held = Seen(torch.arange(30.0).double(), torch.full((30,), 0.5).double(), None)
    rule = DriftRule(held, Reference(torch.eye(3).double(), TREE.leaves, Euclidean()))
    evidence = DriftEvidence(rule)
    assert evidence.value == 1.0
    evidence._highest = 25.0
    evidence.add(Seen(torch.arange(9.0).double(), torch.full((9,), 0.5).double(), None))
    assert (evidence.value, evidence.count) == (25.0, 9)
