"""The release gate: a regression that was planted in one subtree stops it, and noise does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.cli.main import main
from labeltree.errors import DataError
from labeltree.evaluation.comparing.compare_outcomes import compare
from labeltree.evaluation.comparing.gate import by_chance, check_gate, read_gate
from labeltree.evaluation.outcomes import Outcomes
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b", "u"), ("b", "v")])
RULES = """
rules:
  - {metric: top1, at_most: 0.02}
  - {metric: top1, where: nodes, at_most: 0.05, fewest: 30}
"""


def outcomes(wrong: dict[str, float], seed: int = 0, patients: int = 100) -> Outcomes:
    """800 images of patients; a share of each class is wrong, and half of these the same in every model."""
    nodes = TREE.leaves.repeat(200).numpy()
    draw, own = np.random.default_rng(7), np.random.default_rng(seed)
    shares = np.array([wrong.get(str(TREE.names[node]), 0.1) for node in nodes])
    hard = draw.random(800) < shares / 2
    right = ~(hard | (own.random(800) < shares / 2))
    groups = (np.arange(800) // 4) % patients
    return Outcomes(np.arange(800), nodes, TREE, {("features", "top1"): right.astype(float)}, groups=groups)


def gate_of(folder: Path, text: str) -> Path:
    path = folder / "gate.yaml"
    path.write_text(text)
    return path


def test_a_regression_in_one_subtree_is_found(tmp_path: Path) -> None:
    gate = read_gate(gate_of(tmp_path, RULES))
    old = outcomes({}, 1)
    for new, failing in (
        (outcomes({}, 2), set()),
        (outcomes({"v": 0.5}, 2), {"b", "b/v", "all samples"}),
    ):
        result = compare({"new": new, "old": old}, baseline="old", resamples=200, permutations=99)
        found = check_gate(gate, result, "new")
        assert {verdict.place for verdict in found if not verdict.passed} == failing
        assert {verdict.units for verdict in found if verdict.place == "all samples"} == {100}
        if failing:
            assert found[0].sentence().startswith("FAILS: top1, all samples (100): -0.")


def test_groups_are_those_that_count_in_the_metric(tmp_path: Path) -> None:
    """Samples that are labelled only coarsely have no top-1."""
    gate = read_gate(gate_of(tmp_path, "rules: [{metric: features.top1}]"))
    runs = {}
    for seed, name in enumerate(("new", "old")):
        run = outcomes({}, seed)
        top1 = run.values["features", "top1"]
        fine = np.where(run.groups < 90, top1, np.nan)  # type: ignore[operator]
        runs[name] = replace(
            run, values={("features", "top1"): fine, ("features", "accuracy_at_depth_1"): top1}
        )
    result = compare(runs, baseline="old", resamples=99, permutations=99)
    assert result.groups == 100
    assert [verdict.units for verdict in check_gate(gate, result, "new")] == [90]


def test_the_rate_of_many_nodes_is_said(tmp_path: Path) -> None:
    text = "rules: [{metric: top1, where: nodes, fewest: 1}, {metric: top1}]"
    gate = read_gate(gate_of(tmp_path, text))
    result = compare(
        {"new": outcomes({}, 2), "old": outcomes({}, 1)}, baseline="old", resamples=99, permutations=99
    )
    verdicts = check_gate(gate, result, "new")
    assert by_chance(gate, verdicts) == [
        "top1 is checked at 6 nodes: a model that is as good as the old one fails at one of them or more in "
        "about 14% of all cases (in 2.5% at each); 'confidence: 0.9917' makes it 2.5% in all"
    ]
    excluded = read_gate(gate_of(tmp_path, "rules: [{metric: top1, where: nodes, fails_if: not excluded}]"))
    assert by_chance(excluded, check_gate(excluded, result, "new")) == []
    many = verdicts[:1] * 45
    assert "about 68% of all cases" in by_chance(gate, many)[0]


def test_what_is_not_excluded_fails_if_asked_for(tmp_path: Path) -> None:
    old, new = outcomes({}, 1), outcomes({}, 2)
    result = compare({"new": new, "old": old}, baseline="old", resamples=200, permutations=99)
    for at_most, passes in ((0.001, False), (0.2, True)):
        text = f"rules: [{{metric: features/top1, at_most: {at_most}, fails_if: not excluded}}]"
        (verdict,) = check_gate(read_gate(gate_of(tmp_path, text)), result, "new")
        assert verdict.passed is passes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("confidence: 0.9", "has no list of rules"),
        ("rules: [{metric: top1}]\nrule: 1", "has the key 'rule'"),
        ("rules: [top1]", "rule 1: it is not a rule"),
        ("rules: [{metric: top1, most: 1}]", "rule 1: it has the key 'most'"),
        ("rules: [{metric: top1, at_most: -1}]", "rule 1: at_most is -1"),
        ("rules: [{metric: top1, where: node}]", "where is 'node'; expected 'all' or 'nodes'"),
        ("rules: [{metric: top1, only: [a]}]", "it goes with where: nodes"),
        ("rules: [{metric: top1, where: nodes, only: a}]", "only is 'a'"),
        ("rules: [{metric: top1}]\nconfidence: 2", "confidence is 2"),
    ],
)
def test_rules_that_say_nothing_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_gate(gate_of(tmp_path, text))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{metric: topp1}", "has no metric 'topp1'"),
        ("{metric: top1, where: nodes, only: [w]}", "has no node 'w'"),
        ("{metric: top1, where: nodes, fewest: 3000}", "finds no node with 3000"),
    ],
)
def test_what_was_not_checked_has_not_passed(tmp_path: Path, rule: str, message: str) -> None:
    result = compare(
        {"new": outcomes({}, 2), "old": outcomes({}, 1)}, baseline="old", resamples=50, permutations=99
    )
    with pytest.raises(DataError, match=message):
        check_gate(read_gate(gate_of(tmp_path, f"rules: [{rule}]")), result, "new")


@pytest.mark.slow
def test_the_command_ends_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TREE.save(tmp_path / "tree.json")
    nodes = TREE.leaves.repeat(100)
    split = np.where(np.arange(400) % 5 < 3, "train", "test")
    for name, broken in (("old", False), ("new", True)):
        noise = torch.randn(400, TREE.num_nodes, generator=torch.Generator().manual_seed(3))
        points = torch.eye(TREE.num_nodes)[nodes] + 0.2 * noise
        if broken:  # what tells u and v apart is gone
            points[:, TREE.find("u")] = points[:, TREE.find("v")] = 0.5
        EmbeddingTable(points, nodes, split).save(tmp_path / f"{name}.npz")
    words = ["compare", "--taxonomy", str(tmp_path / "tree.json"), "--resamples", "99", "--quiet"]
    words += ["--permutations", "99", "--out", str(tmp_path / "out")]
    gate = ["--gate", str(gate_of(tmp_path, "rules: [{metric: top1, where: nodes, at_most: 0.1}]"))]
    new, old = str(tmp_path / "new.npz"), str(tmp_path / "old.npz")
    assert main([*words, new, old, *gate]) == 1
    said = capsys.readouterr().out
    assert "gate: new against old" in said
    assert "FAILS: top1, b/u" in said
    assert "FAILS: top1, a" not in said
    assert "top1 is checked at 6 nodes: a model that loses exactly 0.1 fails at one of them or more" in said
    assert main([*words, old, new, *gate]) == 0
    assert "0 failed" in capsys.readouterr().out
    assert main([*words, old, "--name", f"both={new}", "--name", f"third={new}", *gate]) == 2


def test_small_nodes_are_checked_if_a_rule_asks_for_them(tmp_path: Path) -> None:
    """A class of 15 samples falls from right to wrong: a rule with fewer than 20 must see it."""
    nodes = np.concatenate([TREE.leaves[:3].repeat(100).numpy(), np.full(15, int(TREE.leaves[3]))])
    right = np.ones(315)
    broken = np.where(nodes == int(TREE.leaves[3]), 0.0, 1.0)
    old, new = (
        Outcomes(np.arange(315), nodes, TREE, {("features", "top1"): each}) for each in (right, broken)
    )
    gate = read_gate(gate_of(tmp_path, "rules: [{metric: top1, where: nodes, at_most: 0.05, fewest: 10}]"))
    assert gate.fewest == 10
    result = compare(
        {"new": new, "old": old}, baseline="old", min_samples=gate.fewest, resamples=50, permutations=99
    )
    failed = {verdict.place for verdict in check_gate(gate, result, "new") if not verdict.passed}
    assert "b/v" in failed


def test_metrics_are_named_without_doubt(tmp_path: Path) -> None:
    def both(seed: int) -> Outcomes:
        one, other = outcomes({}, seed), outcomes({}, seed + 10)
        of_embeddings = {("embeddings", "top1"): other.values["features", "top1"]}
        return Outcomes(one.instances, one.nodes, TREE, one.values | of_embeddings, groups=one.groups)

    result = compare({"new": both(2), "old": both(1)}, baseline="old", resamples=50, permutations=99)
    with pytest.raises(DataError, match=r"names 2 metrics, embeddings.top1 and features.top1"):
        check_gate(read_gate(gate_of(tmp_path, "rules: [{metric: top1}]")), result, "new")
    for name in ("embeddings.top1", "embeddings/top1"):
        (verdict,) = check_gate(read_gate(gate_of(tmp_path, f"rules: [{{metric: {name}}}]")), result, "new")
        assert verdict.difference == result.metric("top1", "embeddings").differences["new"]


def test_a_metric_that_equals_another_is_still_found(tmp_path: Path) -> None:
    """Where the probe answers, ``answer_top1`` is its ``top1``, and strata have only one of them."""
    runs = {"new": outcomes({"v": 0.5}, 2), "old": outcomes({}, 1)}
    classifiers = {"new": ["probe"], "old": ["probe"]}
    gate = read_gate(
        gate_of(tmp_path, "rules: [{metric: answer_top1, where: nodes}, {metric: top1, where: nodes}]")
    )
    result = compare(
        runs,
        classifiers=classifiers,  # type: ignore[arg-type]
        baseline="old",
        strata_metrics=gate.node_metrics,
        resamples=50,
        permutations=99,
    )
    found = check_gate(gate, result, "new")
    assert {verdict.rule.metric for verdict in found} == {"answer_top1", "top1"}


def test_samples_that_one_run_lacks_are_not_passed_over(tmp_path: Path) -> None:
    old = outcomes({}, 1)
    result = compare(
        {"new": outcomes({}, 2).rows(np.arange(500)), "old": old},
        baseline="old",
        resamples=50,
        permutations=99,
    )
    text = "rules: [{metric: top1, at_most: 0.5}]"
    with pytest.raises(DataError, match="300 samples of 'old' are missing in the other run"):
        check_gate(read_gate(gate_of(tmp_path, text)), result, "new")
    allowed = read_gate(gate_of(tmp_path, f"{text}\nallow_missing: true"))
    assert check_gate(allowed, result, "new")[0].passed
    with pytest.raises(DataError, match="allow_missing is 'yes'"):
        read_gate(gate_of(tmp_path, f"{text}\nallow_missing: 'yes'"))
    with pytest.raises(DataError, match="numbers, not true or false"):
        read_gate(gate_of(tmp_path, "rules: [{metric: top1, fewest: true}]"))
