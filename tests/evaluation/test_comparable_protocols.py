"""All that protocols find can be compared: means over classes, AUROC, NMI, ECE, numbers of another table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from labelled_vectors import tree_vectors
from sklearn.metrics import normalized_mutual_info_score

from labeltree.decisions import expected_calibration_error
from labeltree.errors import DataError
from labeltree.evaluation import (
    Column,
    EvaluationResult,
    EvaluationSettings,
    Inputs,
    Outcomes,
    Second,
    compare,
    evaluate,
    load_outcomes,
    register,
    reported_nodes,
    save_outcomes,
)
from labeltree.evaluation import protocol_registry as registry
from labeltree.evaluation.protocols import k_fold
from labeltree.evaluation.statistics import Statistic
from labeltree.evaluation.statistics.jackknife import block_counts
from labeltree.metrics.functional import node_auroc
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy, TaxonomyDAG
from sweeps import some_now

pytestmark = pytest.mark.slow

Evaluated = tuple[EvaluationResult, Outcomes]
PROTOCOLS = ["node-scores", "per-group", "k-fold", "clustering", "decisions", "frequency", "transfer", "knn"]
OPTIONS: dict[str, dict[str, Any]] = {
    "per-group": {"conflicts": "all"},
    "knn": {"ks": (1,)},
    "transfer": {"ks": (1,)},
}


@pytest.fixture(scope="module")
def evaluated(
    table: EmbeddingTable, taxonomy: Taxonomy, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Evaluated]:
    """A table of uneven classes, and the same with noise, with their outcomes as a file gave them back."""
    kept = (
        (torch.arange(len(table)) % 3 > 0) | (table.nodes % 3 == 0) | torch.from_numpy(table.split != "train")
    )
    kept &= (
        (torch.arange(len(table)) % 5 > 0) | (table.nodes % 3 != 1) | torch.from_numpy(table.split != "train")
    )
    table = table.rows(kept.nonzero()[:, 0])
    second_tree = Taxonomy.from_paths(
        [("red", "rose"), ("red", "tulip"), ("blue", "iris"), ("blue", "violet")]
    )
    nodes = second_tree.leaves.repeat(20)
    folder, found = tmp_path_factory.mktemp("outcomes"), {}
    for name, noise in (("bad", 1.5), ("good", 0.0)):
        generator = torch.Generator().manual_seed(0)
        assert table.features is not None
        assert table.instances is not None
        vectors = table.embeddings + noise * torch.randn(table.embeddings.shape, generator=generator)
        features = table.features + noise * torch.randn(table.features.shape, generator=generator)
        mine = replace(table, embeddings=vectors, features=features, groups=table.instances // 10)
        far = tree_vectors(second_tree, nodes, 6, 0.35, 3)
        far = far + noise * torch.randn(far.shape, generator=generator)
        split = np.where(np.arange(len(nodes)) % 8 < 4, "train", "test")
        other = EmbeddingTable(far, nodes, split=split, instances=torch.arange(len(nodes)))
        settings = EvaluationSettings(
            resamples=0, leave_group_out="never", options=OPTIONS, frequency_bounds=(8, 12)
        )
        second = Second(other, second_tree, "flowers")
        result = evaluate(mine, taxonomy, name=name, protocols=PROTOCOLS, settings=settings, second=second)
        save_outcomes(folder / "outcomes.npz", result.outcomes)
        found[name] = result, load_outcomes(folder / "outcomes.npz")[name]
    return found


@pytest.mark.parametrize(
    ("protocol", "metric", "larger", "test"),
    [
        ("node-scores", "answers.auroc", True, "jackknife"),
        ("node-scores", "answers.average_precision", True, "jackknife"),
        ("per-group", "sample.auroc", True, "jackknife"),
        ("per-group", "mean.auroc", True, "jackknife"),
        ("per-group", "mean.balanced_top1", True, "sign flips"),
        ("k-fold", "features.auroc", True, "jackknife"),
        ("k-fold", "features.balanced_top1", True, "sign flips"),
        ("clustering", "features.nmi", True, "jackknife"),
        ("clustering", "embeddings.ami_within", True, "jackknife"),
        ("decisions", "ece_before", False, "jackknife"),
        ("decisions", "ece_after", False, "jackknife"),
        ("decisions", "nll_after", False, "sign flips"),
        ("frequency", "probe.top1_head", True, "sign flips"),
        ("frequency", "prototypes.hierarchical_f1_tail", True, "sign flips"),
        ("frequency", "retrieval.embeddings.map_at_r_middle", True, "jackknife"),
        ("knn", "features.balanced_top1", True, "sign flips"),
        ("knn", "features.top1_tail", True, "sign flips"),
        ("transfer", "probe.embeddings.top1", True, "sign flips"),
        ("transfer", "knn.embeddings.balanced_top1", True, "sign flips"),
    ],
)
def test_a_comparison_has_the_numbers_of_the_protocol(
    evaluated: dict[str, Evaluated], protocol: str, metric: str, larger: bool, test: str
) -> None:
    methods = {name: outcomes for name, (_, outcomes) in evaluated.items()}
    found = compare(methods, metrics=[f"{protocol}.{metric}"], resamples=200, permutations=200)
    entry = found.metric(metric, protocol)
    for name, (result, _) in evaluated.items():
        score = result.main.score(f"{protocol}.{metric}")
        assert entry.estimates[name].value == pytest.approx(score, abs=1e-9)
        assert math.isnan(entry.estimates[name].low) or entry.estimates[name].low <= score + 1e-9
    assert entry.larger_is_better == larger
    part = entry.differences["good"]
    assert part.low <= part.value <= part.high
    assert part.test == test
    assert 0 <= part.p <= part.corrected <= 1
    assert entry.samples > 0
    assert found.tests == 1


def test_what_a_protocol_does_not_report_is_not_compared(evaluated: dict[str, Evaluated]) -> None:
    result, outcomes = evaluated["good"]
    reported = result.main.protocols["k-fold"].scores
    assert {metric for role, metric in outcomes.values if role == "k-fold"} <= set(reported)
    assert any(metric.endswith("_tail") for role, metric in outcomes.values if role == "knn")


def test_fewer_samples_have_the_means_over_their_classes(evaluated: dict[str, Evaluated]) -> None:
    good = evaluated["good"][1]
    some = np.arange(0, len(good), 2)
    values, nodes = good.values["knn", "features.balanced_top1"][some], good.nodes[some]
    there = ~np.isnan(values)
    expected = np.mean([values[there & (nodes == node)].mean() for node in np.unique(nodes[there])])
    found = compare({"few": good.rows(some), "all": good}, metrics=["knn.features.balanced_top1"])
    assert found.metrics[0].estimates["all"].value == pytest.approx(expected)
    key = ("k-fold", "features.balanced_top1")
    fold, values = good.folds[key][some], good.values[key][some]
    parts = []
    for number in range(fold.max() + 1):
        here = (fold == number) & ~np.isnan(values)
        parts.append(np.mean([values[here & (nodes == node)].mean() for node in np.unique(nodes[here])]))
    found = compare({"few": good.rows(some), "all": good}, metrics=["k-fold.features.balanced_top1"])
    assert found.metrics[0].estimates["all"].value == pytest.approx(np.mean(parts))


@pytest.mark.parametrize("of", some_now(["classes", "probabilities", "bins", "target", "rows"], 2))
def test_damaged_statistics_are_a_data_error(
    evaluated: dict[str, Evaluated], tmp_path: Path, of: str
) -> None:
    save_outcomes(tmp_path / "outcomes.npz", {"good": evaluated["good"][1]})
    with np.load(tmp_path / "outcomes.npz") as file:
        columns = dict(file)
    name = next(name for name in columns if "/statistics/" in name and name.endswith(f"/{of}"))
    columns[name] = np.array(["x"] * len(columns[name]))
    np.savez(tmp_path / "bad.npz", **columns)
    with pytest.raises(DataError, match=r"bad\.npz"):
        load_outcomes(tmp_path / "bad.npz")


def test_what_is_better_is_found_better(evaluated: dict[str, Evaluated]) -> None:
    methods = {name: outcomes for name, (_, outcomes) in evaluated.items()}
    found = compare(methods, metrics=["*.answers.auroc", "*.features.nmi", "transfer.*.top1"], resamples=200)
    for role, metric in (("node-scores", "answers.auroc"), ("clustering", "features.nmi")):
        part = found.metric(metric, role).differences["good"]
        assert part.value > 0.05
        assert part.corrected < 0.05
    assert found.metric("probe.embeddings.top1", "transfer").samples == 40
    assert found.samples != 40


def test_by_default_nothing_of_protocols_is_compared(evaluated: dict[str, Evaluated]) -> None:
    methods = {name: outcomes for name, (_, outcomes) in evaluated.items()}
    found = compare(methods, resamples=50, permutations=50)
    assert {entry.role for entry in found.metrics} == {"features", "embeddings", "posterior"}
    assert "transfer" in methods["good"].protocols


def test_runs_without_the_other_table_and_on_fewer_samples(evaluated: dict[str, Evaluated]) -> None:
    good, bad = evaluated["good"][1], evaluated["bad"][1]
    alone = compare(
        {"bad": replace(bad, elsewhere={}), "good": good}, metrics=["transfer.*", "*.ece_after"], resamples=50
    )
    assert [entry.metric for entry in alone.metrics] == ["ece_after"]
    assert any("'transfer' is not compared" in note for note in alone.notes)
    some = np.arange(0, len(good), 2)
    fewer = compare({"bad": bad.rows(some), "good": good}, metrics=["node-scores.*.auroc"], resamples=50)
    mine = good.rows(some).joint(("node-scores", "answers.auroc"))[0]
    probabilities, target = (torch.from_numpy(mine.samples[name]) for name in ("probabilities", "target"))
    classes = torch.from_numpy(mine.fixed["classes"])
    expected = node_auroc(probabilities, target, good.taxonomy, classes=classes)
    value = fewer.metric("answers.auroc").estimates["good"].value
    assert value == pytest.approx(float(torch.nanmean(expected)))


def test_several_runs_bring_their_variance(evaluated: dict[str, Evaluated]) -> None:
    good, bad = evaluated["good"][1], evaluated["bad"][1]
    found = compare(
        {"bad": [bad, bad], "both": [good, bad]}, metrics=["clustering.features.nmi"], resamples=60
    )
    part = found.metric("features.nmi")
    assert part.differences["both"].test == "runs and samples"
    assert part.estimates["bad"].sd == 0
    assert part.estimates["both"].sd > 0


def test_a_dag_judges_in_comparisons_too(tmp_path: Path) -> None:
    dag = TaxonomyDAG.from_edges(
        [("x", "a"), ("y", "a"), ("y", "b"), ("z", "b"), ("a", "root"), ("b", "root")]
    )
    nodes = dag.encode(["x", "y", "z"]).repeat(20)
    vectors = torch.eye(3).repeat(20, 1) + torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    table = EmbeddingTable(vectors, nodes, split=np.where(np.arange(60) % 6 < 3, "train", "test"))
    result = evaluate(
        table, dag, name="mine", protocols=["node-scores"], settings=EvaluationSettings(resamples=0)
    )
    save_outcomes(tmp_path / "outcomes.npz", result.outcomes)
    mine = load_outcomes(tmp_path / "outcomes.npz")
    found = compare(mine, metrics=["node-scores.*"], resamples=20).metric("answers.auroc")
    assert found.estimates["mine"].value == pytest.approx(result.main.score("node-scores.answers.auroc"))


def test_a_protocol_of_ones_own_may_return_a_statistic(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    @register("test-halves", summary="clusters by the sign of a feature", source="here")
    def halves(inputs: Inputs, options: object) -> list[Column | Statistic]:
        rows = inputs.tested
        found = (inputs.reading("features").vectors[rows, 0] > 0).long()
        samples = {"labels": inputs.nodes[rows].numpy(), "clusters": found.numpy()}
        return [Column("size", found, rows), Statistic("agreement", ("nmi",), rows.numpy(), samples)]

    try:
        runs = {}
        for name, given in (("a", table), ("b", replace(table, features=table.embeddings))):
            result = evaluate(given, taxonomy, name=name, protocols=["test-halves"])
            runs[name] = result.outcomes[name]
            numbers = result.main.protocols["test-halves"]
            low, high = numbers.intervals["nmi"]
            assert low < numbers.scores["nmi"] < high
        part = compare(runs, metrics=["test-halves.nmi"], resamples=2000).metric("nmi")
        assert (part.estimates["b"].low, part.estimates["b"].high) == pytest.approx((low, high), abs=1e-9)
    finally:
        del registry._entries["test-halves"]


def _nmi(labels: np.ndarray, clusters: np.ndarray) -> float:
    return float(normalized_mutual_info_score(labels, clusters))


def _ece(confidence: np.ndarray, right: np.ndarray) -> float:
    return expected_calibration_error(torch.from_numpy(confidence), torch.from_numpy(right), 4).error


@pytest.mark.parametrize(
    ("kind", "fixed", "reference"),
    [("agreement", {}, _nmi), ("calibration", {"bins": np.array([4])}, _ece)],
)
def test_without_a_block_it_is_that_of_the_other_samples(
    kind: str, fixed: dict[str, np.ndarray], reference: Callable[..., float]
) -> None:
    rng = np.random.default_rng(1)
    samples: dict[str, Any]
    if kind == "agreement":
        samples = {"labels": rng.integers(0, 4, 40), "clusters": rng.integers(0, 3, 40)}
    else:
        samples = {"confidence": np.round(rng.random(40), 1), "right": rng.random(40) < 0.6}
    groups = rng.integers(0, 12, 40)
    groups = np.unique(groups, return_inverse=True)[1]
    count = int(groups.max()) + 1
    statistic = Statistic(kind, ("x",), np.arange(40), samples, fixed)  # type: ignore[arg-type]
    tree = Taxonomy.from_paths(["a", "b"])
    value, left = statistic.without_blocks(groups, count, tree)
    assert value[0] == pytest.approx(reference(*samples.values()))
    for number, kept in enumerate(block_counts(count).T):
        rows = np.flatnonzero(kept[groups])
        expected = reference(*(column[rows] for column in samples.values()))
        assert left[0, number] == pytest.approx(expected, abs=1e-12)


def test_a_statistic_that_cannot_be_computed_is_named() -> None:
    with pytest.raises(
        DataError, match=r"kind 'agreement' is made of labels, .*agreement of clusters, labels"
    ):
        Statistic("agreement", ("nmi",), np.arange(3), {"labels": np.zeros(3)})
    with pytest.raises(DataError, match="3 samples has 2 'clusters'"):
        Statistic("agreement", ("nmi",), np.arange(3), {"labels": np.zeros(3), "clusters": np.zeros(2)})


def test_statistics_and_class_means_of_a_standard_protocol_are_compared(
    table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    @register("test-standard", summary="clusters by the sign of a feature", source="here", standard=True)
    def standard(inputs: Inputs, options: object) -> list[Column | Statistic]:
        rows = inputs.tested
        found = (inputs.reading("features").vectors[rows, 0] > 0).long()
        samples = {"labels": inputs.nodes[rows].numpy(), "clusters": found.numpy()}
        names = "features.sign_nmi", "features.sign_ami"
        return [
            Column("features.sign", found, rows, balanced="features.balanced_sign"),
            Statistic("agreement", names, rows.numpy(), samples),
        ]

    try:
        result = evaluate(table, taxonomy, name="a", settings=EvaluationSettings(resamples=0))
        found = compare(result.outcomes, resamples=20, permutations=20)
        for name in ("sign", "balanced_sign", "sign_nmi", "sign_ami"):
            score = result.main.scores["features"][name]
            assert found.metric(name, "features").estimates["a"].value == pytest.approx(score)
    finally:
        del registry._entries["test-standard"]


def test_auroc_of_too_many_probabilities_is_compared_in_no_fold_and_the_reason_is_given(
    table: EmbeddingTable, taxonomy: Taxonomy, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocols = ["k-fold", "node-scores", "per-group"]
    sizes: list[int] = []
    ranked = reported_nodes.ranking_statistic

    def noted(names: Any, rows: torch.Tensor, probabilities: torch.Tensor, *rest: Any) -> list[Statistic]:
        sizes.append(probabilities.numel())
        return ranked(names, rows, probabilities, *rest)

    monkeypatch.setattr(k_fold, "ranking_statistic", noted)
    grouped = replace(table, groups=torch.arange(len(table)) // 7)
    settings = EvaluationSettings(resamples=0)
    evaluate(grouped, taxonomy, protocols=["k-fold"], settings=settings)
    assert min(sizes) < max(sizes)
    monkeypatch.setattr(reported_nodes, "MOST_PROBABILITIES", max(sizes) - 1)  # the largest fold exceeds it
    result = evaluate(grouped, taxonomy, name="a", protocols=protocols, settings=settings)
    for protocol in protocols:
        notes = result.main.protocols[protocol].notes
        assert sum("too many to keep" in note for note in notes) == 1, protocol
        with pytest.raises(ValueError, match="are not kept of more than"):
            compare(result.outcomes, metrics=[f"{protocol}.features.auroc"], resamples=20)
