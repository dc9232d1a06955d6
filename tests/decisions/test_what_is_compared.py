"""What classifiers, novelty, drift and names are judged by: small tables, worked out by hand."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from labeltree.decisions import ClassNodes, answers_of_groups, calibration_check, classifiers
from labeltree.decisions.answers_of_groups import fit_group_rule
from labeltree.decisions.classifiers import LinearScores, answer_held_out, fit_classifiers, fit_linear
from labeltree.decisions.drift import fit_drift
from labeltree.decisions.evidence_for_answers import Neighbour, find_evidence
from labeltree.decisions.novelty import fit_novelty
from labeltree.decisions.promise_samples import are_unpromised
from labeltree.decisions.prototypes_from_names import weigh_names
from labeltree.metrics.functional.pool_groups import GroupPredictions
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy, TaxonomyDAG

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])
A, X, Y, B = (int(TREE.find(name)) for name in ("a", "a/x", "a/y", "b"))
CLASSES = ClassNodes(torch.tensor([X, Y, B]), TREE)


def table_of(points: Tensor, nodes: list[int], groups: list[int] | None = None) -> EmbeddingTable:
    given = None if groups is None else torch.tensor(groups)
    return EmbeddingTable(points, torch.tensor(nodes), groups=given, geometry="euclidean")


def test_on_a_dag_samples_without_a_class_are_not_judged() -> None:
    """Of five labels three are classes: two of these are answered rightly."""
    dag = TaxonomyDAG.from_edges([("a", "r"), ("b", "r"), ("x", "a"), ("y", "a"), ("y", "b")])
    a, x, y = (int(dag.find(name)) for name in ("a", "x", "y"))
    p = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4], [0.6, 0.4]]).double()
    labels = torch.tensor([x, y, y, a, a])
    (found,) = calibration_check._calibrate_depths(p, labels, ClassNodes(torch.tensor([x, y]), dag), 1)
    assert (found.samples, found.accuracy) == (3, pytest.approx(2 / 3))
    assert found.confidence == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("right", "chosen"),
    [
        ({"mean": (20, 0.9), "logits": (21, 0.4), "max": (19, 0.9), "noisy-or": (20, 0.9)}, "logits"),
        ({"mean": (20, 0.5), "logits": (20, 0.6), "max": (20, 0.9), "noisy-or": (20, 0.8)}, "max"),
    ],
)
def test_most_right_groups_choose_and_then_the_probability_of_the_label(
    monkeypatch: pytest.MonkeyPatch, right: dict[str, tuple[int, float]], chosen: str
) -> None:
    """Of thirty groups so many are right, and the label of those has this probability."""

    def pool(probabilities: Tensor, groups: Tensor, how: str) -> GroupPredictions:
        count, sure = right[how]
        p = torch.full((30, 3), (1 - sure) / 2).double()
        p[:, 0] = sure
        p[count:] = torch.tensor([0.3, 0.1, 0.6]).double()
        return GroupPredictions(torch.arange(30), p, p.argmax(1))

    monkeypatch.setattr(answers_of_groups, "group_probabilities", pool)
    p, labels = torch.full((30, 3), 1 / 3).double(), torch.full((30,), X)
    options: dict[str, Any] = {"calibration": "none", "for_probabilities": torch.ones(30, dtype=torch.bool)}
    monkeypatch.setattr(answers_of_groups, "fit_rule", lambda *given, **named: None)
    found = fit_group_rule(p, labels, torch.arange(30), CLASSES, **options)
    assert found.how == chosen
    assert found.accuracies["logits"] == pytest.approx(right["logits"][0] / 30)


def test_units_stand_in_the_order_of_groups_and_samples_by_themselves_last() -> None:
    within, groups = torch.tensor([7, 8, 9, 7, 6]), torch.tensor([5, -1, 2, 5, -1])
    assert answers_of_groups._unit_of_group(within, groups).tolist() == [9, 7, 8, 6]
    pooled = answers_of_groups.group_probabilities(torch.full((5, 2), 0.5), groups)
    assert pooled.groups.tolist() == [2, 5, -1, -1]


def test_no_distance_is_known_where_nothing_lies_beside() -> None:
    """The only samples of training are of x: one of b has nothing of a node to lie apart from."""
    train, held = table_of(torch.zeros(2, 1), [X, X]), table_of(torch.tensor([[3.0], [4.0]]), [X, B])
    rule = fit_novelty(train, held, TREE)
    assert rule.known.values.tolist() == [3.0, 4.0]
    assert {node: known.values.tolist() for node, known in rule.within.items()} == {0: [4.0]}


def test_of_many_samples_the_seed_draws() -> None:
    train, held = table_of(torch.zeros(1, 1), [X]), table_of(torch.arange(2001.0)[:, None], [X] * 2001)
    first, again, other = (fit_novelty(train, held, TREE, seed=seed).known.values for seed in (1, 1, 2))
    assert len(first) == 2000
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    pairs = table_of(torch.arange(3000.0)[:, None], [X] * 3000, [row // 2 for row in range(3000)])
    assert len(fit_novelty(train, pairs, TREE).known.values) == 1500, "one of each, as 2 · 1,500 are too many"


def test_the_gap_of_a_probe_is_none_if_it_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([X, Y, B, B] * 10)
    assert fit_linear(table_of(points, labels.tolist()), labels)[1] == 0.0
    monkeypatch.setattr(classifiers, "LinearProbe", partial(classifiers.LinearProbe, max_iterations=1))
    with pytest.warns(UserWarning, match="LinearProbe stopped"):
        assert fit_linear(table_of(points, labels.tolist()), labels)[1] > 0


def test_a_probe_is_fitted_as_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 9.0, 0.1])
    table = table_of(points, [X, Y, B, B] * 10)
    rows = torch.arange(40)
    for standardize in (True, False):
        found = fit_classifiers(table, TREE, learned=rows, held=rows[:0], standardize=standardize)
        probe, _ = fit_linear(table, table.nodes, standardize=standardize)
        assert isinstance(found.fitted["probe"], LinearScores)
        assert torch.equal(found.fitted["probe"].weight, probe.weight)
    plain, _ = fit_linear(table, table.nodes, standardize=False)
    assert not torch.allclose(probe.weight, fit_linear(table, table.nodes)[0].weight)
    assert torch.equal(plain.weight, probe.weight)
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        classifiers, "LinearProbe", lambda C, **named: given.update(C=C, **named) or _Fitted()
    )
    fit_linear(table, table.nodes, balanced=False, C=0.5)
    assert given == {"C": 0.5, "balanced": False}


class _Fitted:
    classes, weight, bias, converged = torch.tensor([X]), torch.zeros(3, 1).double(), torch.zeros(1), True

    def fit(self, *given: object) -> _Fitted:
        return self


def test_the_loss_is_that_of_samples_with_a_class() -> None:
    """The label a is no class; the answers are those of all samples."""
    scores = LinearScores(torch.tensor([X, B]), torch.eye(2).double(), torch.zeros(2).double())
    points = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 2.0], [9.0, 0.0]])
    held = table_of(points, [X, B, X, A])
    answers, losses = answer_held_out({"probe": scores}, held, TREE)
    assert answers["probe"].tolist() == [X, B, B, X]
    assert losses == answer_held_out({"probe": scores}, held.rows(torch.arange(3)), TREE)[1]


def test_three_classes_tell_what_names_are_worth() -> None:
    """Samples lie one or two right of their names: σ² is 1/2 of two classes, the shift 4/3."""
    names = torch.tensor([[0.0], [10.0], [20.0], [30.0]])
    points = torch.tensor([[0.5], [1.5], [11.0], [22.0]])
    found = weigh_names(names, points, torch.tensor([0, 0, 1, 2]))
    assert (found.classes, found.shift.tolist()) == (3, [pytest.approx(4 / 3)])
    # gaps 1, 1 and 2 are -1/3, -1/3 and 2/3 off: squares 1/9, 1/9, 4/9 times 3/2, less 1/2 over 2, 1 and 1
    assert found.weight == 4.0, "names lie as near as can be told, and there are four samples"


def test_groups_and_certainties_of_drift() -> None:
    """Of group 0 two samples differ, which no other group has; of three classes the likeliest counts."""
    points = torch.arange(48.0).reshape(24, 2)
    p = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]] * 12)
    single, first = (table_of(points, [X] * 24, groups) for groups in ([*range(24)], [0, 0, *range(1, 23)]))
    assert fit_drift(single, single, p).held.groups is None
    rule = fit_drift(single, first, p)
    assert rule.held.groups is not None
    assert rule.held.certainty.tolist() == pytest.approx([0.5, 0.7] * 12)
    none = table_of(points, [X] * 24, [-1] * 24)
    assert fit_drift(none, none, p).held.groups is None


def test_points_that_are_all_one_do_not_differ() -> None:
    same = table_of(torch.ones(30, 2), [X] * 30)
    p = torch.full((30, 3), 1 / 3)
    rule = fit_drift(same, same, p)
    found = rule.test(rule.seen(same, p))
    assert found is not None
    assert found.p_values["embeddings"] == 1.0


def test_labels_at_or_below_a_class_without_a_promise() -> None:
    labels = torch.tensor([X, A, B, 0, -1])
    assert are_unpromised(labels, torch.tensor([A]), TREE).tolist() == [True, True, False, False, False]
    assert are_unpromised(labels, torch.tensor([X]), TREE).tolist() == [True, False, False, False, False]


def test_an_answer_beside_the_likely_path_is_explained_by_its_own() -> None:
    """The sample is likely of x, and b is answered as it costs less: one step leads there, from the root."""
    training = table_of(torch.tensor([[0.0], [1.0], [5.0]]), [X, Y, B])
    ((step,),) = find_evidence(
        table_of(torch.tensor([[2.0]]), [-1]),
        training,
        torch.tensor([[0, A, X]]),
        torch.tensor([B]),
        torch.tensor([[0.5, 0.25, 0.25]]).double(),
        CLASSES,
        TREE,
        ["one.png", "two.png", None],
    )
    assert (step.node, step.probability, step.taken) == (B, 0.25, True)
    assert step.speaks_for == Neighbour(B, 3.0, None, 2)
    assert step.speaks_against == Neighbour(Y, 1.0, "two.png", 1)
