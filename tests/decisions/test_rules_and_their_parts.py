"""Parts of rules that decide an answer, each beside what a slip of a line would make of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.decisions import ClassNodes, searched_space
from labeltree.decisions.answers import answer_scores
from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.conformal import Promise, bars_of, share_of_groups, threshold, thresholds_by_category
from labeltree.decisions.costs import read_costs
from labeltree.decisions.rule import DecisionRule, Fitted, fit_rule, rule_from_dict, rule_to_dict
from labeltree.decisions.searched_space import choose_space
from labeltree.errors import DataError, RunError
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b/z"])
A, X, Y, B, Z = (int(TREE.find(name)) for name in ("a", "a/x", "a/y", "b", "b/z"))
LEAVES = ClassNodes(torch.tensor([X, Y, Z]), TREE)


def rule_of(scores: list[float], labels: list[int], groups: list[int] | None = None) -> DecisionRule:
    fitted = Fitted(
        torch.tensor(scores, dtype=torch.float64),
        torch.tensor(labels),
        None if groups is None else torch.tensor(groups),
    )
    return DecisionRule(LEAVES, Calibrator(), "child", fitted, {})


def test_scores_of_answers() -> None:
    """One is the label, one above it, one wrong, and two at the root."""
    scores = answer_scores(torch.tensor([X, A, Z, 0, 0]), torch.tensor([X, X, Y, Y, Z]), TREE)
    assert scores["right_leaf"] == pytest.approx(1 / 5)
    assert scores["coverage"] == pytest.approx(4 / 5)
    assert scores["root"] == pytest.approx(2 / 5)
    assert scores["accuracy_below_root"] == pytest.approx(2 / 3)


def test_bars_take_groups_of_samples() -> None:
    """A group of many small scores is one of ten, not twenty of 29."""
    groups = [0] * 20 + list(range(1, 10))
    values = [0.01] * 20 + [0.1 * place for place in range(1, 10)]
    promise = Promise(coverage=0.8)
    grouped, alone = rule_of(values, [X] * 29, groups), rule_of(values, [X] * 29)
    bar = float(grouped.bars(promise)[X])
    assert bar == threshold(grouped.fitted.scores, promise, grouped.fitted.groups)
    assert bar > float(alone.bars(promise)[X])


def test_answers_by_category_are_cut_by_its_bars() -> None:
    """Samples of b are told with less than those of a are; the root is no category."""
    rule = rule_of([0.9] * 30 + [0.1] * 30, [X] * 30 + [Z] * 30)
    scores = torch.log(torch.tensor([[0.1, 0.1, 0.8], [0.8, 0.1, 0.1]]).double())
    by_depth = rule.answer(scores, Promise(), by_depth=1)
    assert by_depth.nodes.tolist() == [0, A]
    bars = rule.bars(Promise(), 1)
    assert bars[A] < bars[B]  # a step to a leaves out b, of which little is known to be missed
    with pytest.raises(ValueError, match="by_depth is 0; expected a depth of the taxonomy, 1 to 2"):
        rule.bars(Promise(), 0)


def test_few_categories_are_pooled_until_they_suffice() -> None:
    """Nine of a category are needed for 0.9; five and four are nine, and a third of nine stays alone."""
    sizes = {1: 4, 2: 5, 3: 9}
    categories = torch.cat([torch.full((size,), node) for node, size in sizes.items()])
    scores = torch.rand(18, generator=torch.Generator().manual_seed(0)).double()
    assert thresholds_by_category(scores, categories, Promise(coverage=0.9))[2] == [1, 2]


def test_a_leaf_is_not_cut_for_its_cost() -> None:
    rule = rule_of([0.1] * 20, [X] * 20)
    costs = torch.full((TREE.num_nodes, 3), torch.inf, dtype=torch.float64)
    costs[X], costs[A] = torch.tensor([0.0, 1.0, 1.0]), torch.tensor([0.2, 0.2, 1.0])
    scores = torch.log(torch.tensor([[0.98, 0.01, 0.01], [0.5, 0.4, 0.1]]).double())
    answers = rule.cheapest(scores, costs)
    assert answers.nodes.tolist() == [X, A]
    assert answers.cut.tolist() == [False, True]


def test_samples_for_the_probabilities_set_no_threshold() -> None:
    """A third has coarse labels: those for the probabilities are not counted as left out of thresholds."""
    labels = torch.tensor([X, Z, A] * 20)
    scores = torch.randn(60, 3, generator=torch.Generator().manual_seed(1)).double()
    apart = torch.arange(60) < 30
    rule = fit_rule(scores, labels, LEAVES, for_probabilities=apart)
    assert rule.counts["calibration samples"] == 60
    assert rule.counts["for the thresholds"] == 20
    assert rule.counts["left out of the thresholds: label too coarse"] == 10
    assert rule.counts["left out: no label"] == 0


@pytest.mark.parametrize(("calibration", "soften"), [("none", 0), ("vector", 9)])
def test_few_samples_for_the_probabilities_set_no_threshold_either(calibration: Any, soften: int) -> None:
    """Nine of 39 are too few to fit by, or need not: all others set thresholds."""
    labels = torch.tensor([X, Z, A] * 13)
    scores = torch.randn(39, 3, generator=torch.Generator().manual_seed(1)).double()
    rule = fit_rule(scores, labels, LEAVES, calibration=calibration, for_probabilities=torch.arange(39) < 9)
    assert rule.counts == {
        "calibration samples": 39,
        "for the probabilities": soften,
        "for the thresholds": 20,
        "left out: no label": 0,
        "left out of the thresholds: label too coarse": 10,
    }
    assert rule.fitted.labels.tolist() == [X, Z] * 10


def test_how_many_samples_would_all_fit_the_probabilities() -> None:
    """Of 200 three have no label, and one of the others decides about answers: it is drawn to fit."""
    known = torch.arange(200) >= 3
    fits = share_of_groups(known, None, 0.3, 0)
    labels = torch.full((200,), A).masked_fill(~known, -1).index_fill(0, fits.nonzero()[0], X)
    scores = torch.randn(200, 3, generator=torch.Generator().manual_seed(1)).double()
    with pytest.raises(DataError, match=r"^of 197 calibration samples none would be left for thresholds"):
        fit_rule(scores, labels, LEAVES, calibration="vector")


def test_the_bar_of_a_step_is_that_of_all_that_it_leaves_out() -> None:
    """A label a is left out by a step to x or y; b holds z alone, and nothing else of its own."""
    bars = bars_of({A: 0.7, X: 0.2, Y: 0.3, Z: 0.4}, 0.9, 2, TREE)
    assert bars[[0, A, X, Y, B, Z]].tolist() == [math.inf, 0.4, 0.7, 0.7, 0.7, -math.inf]
    coarse = bars_of({A: 0.7}, 0.9, 1, TREE)  # b has no sample, and the threshold of the rest
    assert coarse[[A, X, Y, B, Z]].tolist() == [0.9, 0.7, 0.7, 0.7, 0.9]


def test_a_rule_on_paper_tells_neither_the_order_nor_the_numbers_of_groups() -> None:
    first = rule_to_dict(rule_of([0.3, 0.1, 0.2, 0.1], [X, X, Z, X], [8, 5, 5, -1]))["fitted"]
    assert first == {"scores": [0.1, 0.1, 0.2, 0.3], "labels": [X, X, Z, X], "groups": [-1, 0, 0, 1]}
    again = rule_of([0.1, 0.2, 0.1, 0.3], [X, Z, X, X], [-1, 9, 9, 2])
    assert rule_to_dict(again)["fitted"] == first


def test_a_damaged_rule_is_refused() -> None:
    kept = rule_to_dict(rule_of([0.1, 0.2], [X, Z]))
    kept["calibrator"] = {"kind": "temperature", "temperatures": [1.5], "slopes": [], "offsets": []}
    assert rule_from_dict(kept, TREE).calibrator.temperatures == (1.5,)
    for change in (
        {"calibrator": kept["calibrator"] | {"temperatures": [0.0]}},
        {"fitted": kept["fitted"] | {"labels": [X, TREE.num_nodes]}},
    ):
        with pytest.raises(RunError, match="the decisions cannot be read"):
            rule_from_dict(kept | change, TREE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (",a/x,a/x\na/x,0,1\n", "has a column without a name, or two of the same node"),
        (",a/x\na/x,0\na/x,1\n", "has a row without a name, or two of the same node"),
        (",a/x\na/x,inf\n", "row 2, column 2: the cost is 'inf', not a number of at least 0"),
        (",a/x\na/x,-1\n", "row 2, column 2: the cost is '-1', not a number of at least 0"),
        ("a/x\na/x\n", "is not a table of costs"),
    ],
)
def test_what_is_wrong_with_costs(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_text(text)
    with pytest.raises(DataError, match=said):
        read_costs(tmp_path / "costs.csv", ClassNodes(torch.tensor([X]), TREE))


def test_costs_of_a_single_class(tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_text(",a/x\na/x,0\n/,0.5\n")
    costs = read_costs(tmp_path / "costs.csv", ClassNodes(torch.tensor([X]), TREE))
    assert costs[:, 0].isfinite().nonzero()[:, 0].tolist() == [0, X]
    assert costs[[0, X], 0].tolist() == [0.5, 0.0]


def space(
    monkeypatch: pytest.MonkeyPatch, gains: list[float], ranked: tuple[float, float] = (0.2, 0.4)
) -> Any:
    """The choice where features gain so much by the nearest sample; MAP@R of embeddings and features."""
    scores = iter((torch.zeros(len(gains)), torch.tensor(gains, dtype=torch.float64)))
    values = iter(ranked)
    monkeypatch.setattr(searched_space, "hierarchical_f1", lambda *given, **named: next(scores))
    monkeypatch.setattr(searched_space, "map_at_r", lambda *given, **named: torch.tensor(next(values)))
    rng = np.random.default_rng(0)

    def points(count: int) -> Tensor:
        return torch.from_numpy(rng.normal(size=(count, 3))).float()

    count = len(gains) + 4
    table = EmbeddingTable(points(count), torch.full((count,), X), features=points(count))
    held = torch.arange(len(gains))
    return choose_space(table, TREE, learned=torch.arange(len(gains), count), held=held)


def test_features_gain_more_than_a_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eleven samples: √(10 · 11/10)/11 = 0.3015; with n in place of n − 1 it would be 0.2875."""
    off = [1.0, -1.0] * 5 + [0.0]
    assert space(monkeypatch, [each + 0.294 for each in off]).name == "embeddings"
    assert space(monkeypatch, [each + 0.310 for each in off]).name == "features"
    assert space(monkeypatch, [each + 0.05 for each in off]).name == "embeddings"


def test_features_rank_better_or_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    gains = [0.5, 0.6] * 6
    assert space(monkeypatch, gains, (0.2, 0.4)).name == "features"
    assert space(monkeypatch, gains, (0.4, 0.4)).name == "embeddings"
    assert space(monkeypatch, gains, (float("nan"), 0.4)).map_at_r == {}
    assert space(monkeypatch, gains, (0.2, float("nan"))).map_at_r == {}


def test_two_validation_samples_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """One tells nothing, and two are too few to change the choice."""
    assert space(monkeypatch, [1.0, 1.0]).samples == 2
    assert space(monkeypatch, [1.0]).hierarchical_f1 == {}
