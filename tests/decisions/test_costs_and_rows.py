"""Costs that a user writes down, rules as JSON, and answers as text."""

import csv
import io
import json
from pathlib import Path

import pytest
import torch
from decision_cases import ragged, random_probabilities

from labeltree.decisions import ClassNodes, Promise, cheapest, fit_rule, read_costs
from labeltree.decisions.conformal import share_of_groups
from labeltree.decisions.rule import rule_from_dict, rule_to_dict
from labeltree.errors import DataError, RunError
from labeltree.inference.answers.format_answers import answer_rows, show_rows
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

TREE = Taxonomy.from_paths([("dark", "black"), ("dark", "coal"), ("light", "white"), ("light", "snow")])
SHADES = ClassNodes(TREE.leaves, TREE)


def test_costs_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "costs.csv"
    file.write_text(
        "answer,snow,coal,white,light,black\ndark,9,0,9,9,0\n\nlight/snow,0,5,1,0,5\n/,2,2,2,2,2\n"
    )
    costs = read_costs(file, SHADES)
    black, coal, white, snow = range(4)
    assert costs[TREE.find("dark"), [black, coal, white, snow]].tolist() == [0, 0, 9, 9]
    assert costs[TREE.find("snow"), [black, coal, white, snow]].tolist() == [5, 5, 1, 0]
    assert bool(torch.isinf(costs[TREE.find("white")]).all()), "what has no row is never answered"
    p = torch.tensor([[0.5, 0.4, 0.1, 0.0], [0.0, 0.0, 0.6, 0.4], [0.25, 0.25, 0.25, 0.25]])
    nodes, least = cheapest(p, SHADES, costs)
    assert TREE.decode(nodes) == ["dark", "light/snow", "/"]
    assert least.tolist() == pytest.approx([0.9, 0.6, 2.0])


def test_a_table_of_one_answer_is_one(tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_text("answer,black,coal,white,snow\n/,1,1,2,2\n")
    costs = read_costs(tmp_path / "costs.csv", SHADES)
    assert costs[0].tolist() == [1, 1, 2, 2]
    assert costs[1:].isinf().all()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("answer,black,coal,white\ndark,0,0,9\n", "no column for 1 of the classes: 'light/snow'"),
        ("answer,black,coal,white,snow\ndark,0,0,9,\n", "row 2, column 5: the cost is ''"),
        ("answer,black,coal,white,snow\ndark,0,0,9\n", "row 2, column 5: the cost is ''"),
        ("answer,black,coal,white,snow\ndark,0,0,9,-1\n", "not a number of at least 0"),
        ("answer,black,coal,white,snow\ndark,0,0,9,nan\n", "not a number of at least 0"),
        ("answer,black,coal,white,snow\ndusk,0,0,9,1\n", "'dusk' is not in the taxonomy"),
        ("answer,black,coal,white,black\ndark,0,0,9,1\n", "two of the same node"),
        ("answer,black,coal,white,snow\n,0,0,9,1\n", "without a name"),
        ("answer\n", "not a table of costs"),
    ],
)
def test_wrong_tables_of_costs(text: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_text(text)
    with pytest.raises(DataError if "dusk" not in text else ValueError, match=what):
        read_costs(tmp_path / "costs.csv", SHADES)


def test_a_rule_is_read_back_as_it_was() -> None:
    tree = ragged()
    classes = ClassNodes(tree.leaves, tree)
    scores = random_probabilities(200, len(classes), 1).log()
    labels = classes.nodes[torch.randint(0, len(classes), (200,), generator=torch.Generator().manual_seed(2))]
    groups = torch.arange(200) // 3
    for calibration in ("none", "temperature", "vector", "depth"):
        rule = fit_rule(scores, labels, classes, groups=groups, calibration=calibration)  # type: ignore[arg-type]
        again = rule_from_dict(json.loads(json.dumps(rule_to_dict(rule))), tree)
        first, second = rule.answer(scores, Promise(0.5)), again.answer(scores, Promise(0.5))
        assert torch.equal(first.nodes, second.nodes)
        assert torch.equal(first.guess_probabilities, second.guess_probabilities)
        assert again.calibrator == rule.calibrator
        assert again.counts == rule.counts
    with pytest.raises(RunError, match="another taxonomy"):
        rule_from_dict(rule_to_dict(rule), TREE)


def test_groups_are_never_divided_and_coarse_labels_promise_nothing() -> None:
    tree = ragged()
    classes = ClassNodes(tree.leaves, tree)
    scores = random_probabilities(120, len(classes), 3).log()
    labels = classes.nodes[torch.arange(120) % len(classes)]
    labels[::10], labels[5::10] = -1, tree.find("a")
    groups = torch.arange(120) // 4
    rule = fit_rule(scores, labels, classes, groups=groups, share=0.5, seed=3)
    assert rule.fitted.groups is not None
    assert rule.counts["left out: no label"] == 12
    kept = set(rule.fitted.groups.tolist())
    assert len(kept) == 15
    assert rule.counts["for the thresholds"] == int(
        (torch.isin(groups, torch.tensor(sorted(kept))) & classes.judges(labels)).sum()
    )
    assert not bool((rule.fitted.labels == tree.find("a")).any())
    with pytest.raises(DataError, match="needs at least 19 groups of calibration samples, and there are 15"):
        rule.answer(scores, Promise(0.95))
    with pytest.raises(DataError, match="no calibration sample has a label"):
        fit_rule(scores, torch.full_like(labels, -1), classes)
    fits = share_of_groups(torch.ones(200, dtype=torch.bool), None, 0.3, 0)  # the only leaf is one of them
    coarse = torch.full((200,), tree.find("a")).index_fill(0, fits.nonzero()[0], int(tree.leaves[0]))
    with pytest.raises(DataError, match="none would be left"):
        fit_rule(scores.repeat(2, 1)[:200], coarse, classes, calibration="vector")


def test_answers_as_text() -> None:
    scores = torch.tensor([[3.0, 2.9, -5, -5], [0.0, 0.1, 0.0, 0.1], [9.0, 0, 0, 0]])
    labels = torch.tensor([TREE.find("black"), -1, TREE.find("snow")])
    rule = fit_rule(scores.repeat(20, 1), SHADES.nodes.repeat(15), SHADES, calibration="none")
    answers = rule.answer(scores, Promise(0.5), top=2)
    rows = answer_rows(answers, ["one, two", "b", "c" * 90], TREE, labels)
    assert [row["holds"] for row in rows][1] is None
    assert json.loads(show_rows(rows, "json")) == rows
    read = list(csv.DictReader(io.StringIO(show_rows(rows, "csv"))))
    assert [row["sample"] for row in read] == ["one, two", "b", "c" * 90]
    assert read[0]["guess_1"] == "dark/black"
    lines = show_rows(rows, "table").splitlines()
    assert len(lines) == 4
    for line, row in zip(lines[1:], rows, strict=True):
        nothing = row["answer"] == "/"
        assert ("…" in line.split("  ", 1)[1]) == (row["cut"] and not nothing)
        assert ("no answer" if nothing else row["answer"]) in line
    assert [row["answer"] for row in read] == ["" if r["answer"] == "/" else r["answer"] for r in rows]
    assert [bool(row["probability"]) for row in read] == [row["answer"] != "" for row in read]
    assert show_rows([], "csv") == "sample,answer,probability,cut,problem\n"
