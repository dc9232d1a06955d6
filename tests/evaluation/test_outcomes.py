"""Outcomes of samples: their means are the scores, and their file gives back what was written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from column_means import column_means
from labelled_vectors import tree_vectors

from labeltree.errors import DataError
from labeltree.evaluation import (
    EvaluationResult,
    EvaluationSettings,
    Outcomes,
    evaluate,
    load_outcomes,
    save_outcomes,
)
from labeltree.runs import EmbeddingTable
from labeltree.runs.table_file_columns import number_groups
from labeltree.taxonomy import Taxonomy, TaxonomyDAG

pytestmark = pytest.mark.slow

_QUICK = EvaluationSettings(resamples=60, hp_k=20)


@pytest.fixture(scope="module")
def mixed(table: EmbeddingTable, taxonomy: Taxonomy) -> EmbeddingTable:
    """Inner-node labels, missing labels and missing answers among the others, and groups."""
    generator = torch.Generator().manual_seed(5)
    nodes = table.nodes.clone()
    draw = torch.rand(len(nodes), generator=generator)
    nodes[draw < 0.1] = -1
    coarse = (draw > 0.9) & (nodes > 0)
    nodes[coarse] = taxonomy.parent[nodes[coarse]]
    answers = torch.randint(-1, taxonomy.num_nodes, (len(nodes),), generator=generator)
    return replace(table, nodes=nodes, predictions=answers, groups=torch.arange(len(nodes)) // 3)


@pytest.mark.parametrize("which", ["leaves", "mixed", "no splits"])
def test_the_means_of_outcomes_are_the_scores(
    which: str, table: EmbeddingTable, mixed: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    chosen = {"leaves": table, "mixed": mixed, "no splits": replace(mixed, split=None)}[which]
    result = evaluate(chosen, taxonomy, name="mine", settings=_QUICK)
    _check_scores(result)
    assert set(result.main.depth_intervals) == set(result.main.by_depth)


def _check_scores(result: EvaluationResult) -> None:
    found = column_means(result.outcomes["mine"])
    left_out = set()
    for role, scores in result.main.scores.items():
        for metric, value in scores.items():
            if (role, metric) not in found:
                left_out.add(metric)
                continue
            assert found[role, metric] == pytest.approx(value, abs=1e-12, nan_ok=True), metric
            low, high = result.main.interval(metric, role)
            assert low <= value <= high or np.isnan(value) or role == "posterior", metric
    assert not left_out
    assert ("embeddings", "pair_violations") in result.outcomes["mine"].whole
    for name, prefix, role in (("probe", "", "features"), ("prototypes", "prototype_", "embeddings")):
        for depth, value in enumerate(result.main.by_depth[name], start=1):
            assert found[role, f"{prefix}accuracy_at_depth_{depth}"] == pytest.approx(value, abs=1e-12)
            low, high = result.main.depth_intervals[name][depth - 1]
            assert low <= value <= high
    for k in (1, 2, 5, 10):
        assert found["features", f"hp_at_{k}"] == pytest.approx(result.main.hp_curve["features"][k - 1])


def test_on_a_dag_they_are_the_scores_as_well(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    names = ["everything", *(taxonomy.path_name(v).replace("/", " ") for v in range(1, taxonomy.num_nodes))]
    edges = [(names[v], names[int(taxonomy.parent[v])]) for v in range(1, len(names))]
    dag = TaxonomyDAG.from_edges([*edges, ("animal fish trout", "plant")])
    again = replace(table, nodes=dag.encode([names[v] for v in table.nodes.tolist()]))
    _check_scores(evaluate(again, dag, name="mine", settings=_QUICK))


def test_micro_f1_is_the_ratio_of_the_sums(mixed: EmbeddingTable, taxonomy: Taxonomy) -> None:
    outcomes = evaluate(mixed, taxonomy, name="mine", settings=_QUICK).outcomes["mine"]
    common = sizes = 0
    for truth, guess, counts in zip(
        outcomes.nodes.tolist(),
        outcomes.predicted["probe"].tolist(),
        ~np.isnan(outcomes.values["features", "top1"]),
        strict=True,
    ):
        if counts:
            sets = [set(taxonomy.ancestors[node].tolist()) - {-1, 0} for node in (truth, guess)]
            common += 2 * len(sets[0] & sets[1])
            sizes += len(sets[0]) + len(sets[1])
    means = column_means(outcomes)
    assert means["features", "hierarchical_f1_micro"] == pytest.approx(common / sizes, rel=1e-12)
    assert means["features", "hierarchical_f1"] != pytest.approx(common / sizes, rel=1e-6)


def test_rows_name_samples_groups_and_answers(mixed: EmbeddingTable, taxonomy: Taxonomy) -> None:
    outcomes = evaluate(mixed, taxonomy, name="mine", settings=_QUICK).outcomes["mine"]
    assert mixed.instances is not None
    assert mixed.groups is not None
    assert mixed.predictions is not None
    assert outcomes.groups is not None
    where = {instance: row for row, instance in enumerate(mixed.instances.tolist())}
    rows = [where[instance] for instance in outcomes.instances.tolist()]
    assert outcomes.nodes.tolist() == mixed.nodes[rows].tolist()
    assert outcomes.groups.tolist() == mixed.groups[rows].tolist()
    assert outcomes.predicted["own"].tolist() == mixed.predictions[rows].tolist()
    assert outcomes.units is outcomes.groups


def test_rows_of_one_sample_are_drawn_together() -> None:
    tree = Taxonomy.from_paths(["a", "b"])
    values = {("features", "top1"): np.array([1.0, 0.0, 1.0])}
    twice = Outcomes(np.array([4, 4, 7]), np.array([1, 1, 2]), tree, values)
    assert twice.units is not None
    assert len(np.unique(number_groups(twice.units))) == 2
    assert Outcomes(np.array([4, 5, 7]), np.array([1, 1, 2]), tree, values).units is None


def test_what_is_written_is_read_back(mixed: EmbeddingTable, taxonomy: Taxonomy, tmp_path: Path) -> None:
    long_tail = replace(mixed, nodes=torch.where(torch.arange(len(mixed)) % 7 > 0, mixed.nodes, 3))
    result = evaluate(long_tail, taxonomy, name="mine", baselines={"other/one": mixed}, settings=_QUICK)
    save_outcomes(tmp_path / "outcomes.npz", result.outcomes)
    again = load_outcomes(tmp_path / "outcomes.npz")
    assert list(again) == ["mine", "other/one"]
    for name, outcomes in result.outcomes.items():
        read = again[name]
        assert read.taxonomy == taxonomy
        assert (read.whole, read.smaller_is_better) == (outcomes.whole, outcomes.smaller_is_better)
        for column in ("instances", "nodes", "groups", "bands"):
            np.testing.assert_array_equal(getattr(read, column), getattr(outcomes, column))
        for entries in ("values", "weights", "predicted"):
            mine, theirs = getattr(outcomes, entries), getattr(read, entries)
            assert list(mine) == list(theirs)
            for key in mine:
                np.testing.assert_array_equal(mine[key], theirs[key])
    assert again["mine"].bands is not None
    assert set(again["mine"].bands.tolist()) >= {0, 2}


def test_outcomes_of_the_format_before_are_read(
    mixed: EmbeddingTable, taxonomy: Taxonomy, tmp_path: Path
) -> None:
    outcomes = evaluate(mixed, taxonomy, name="mine", settings=_QUICK).outcomes
    save_outcomes(tmp_path / "outcomes.npz", outcomes)
    with np.load(tmp_path / "outcomes.npz") as file:
        columns = dict(file)
    head = json.loads(str(columns["head"]))
    assert head["format"] == 4
    for entry in head["methods"]:
        del entry["protocols"], entry["smaller_is_better"], entry["among"]
    columns = {name: column for name, column in columns.items() if "/without/" not in name}
    columns["head"] = np.array(json.dumps({**head, "format": 1}))
    np.savez(tmp_path / "old.npz", **columns)
    old, new = load_outcomes(tmp_path / "old.npz")["mine"], outcomes["mine"]
    assert old.protocols == ()
    assert list(old.values) == list(new.values)
    assert [old.larger_is_better(key) for key in old.values] == [
        new.larger_is_better(key) for key in new.values
    ]
    assert column_means(old) == pytest.approx(column_means(new), nan_ok=True)
    cpcc = {("embeddings", "cpcc")}  # its values were other ones
    assert old.among == {key for key in new.among - cpcc if key[0] != "posterior" or key in old.among}
    assert new.without
    assert not old.without


def test_files_that_are_no_outcomes_are_named(tmp_path: Path) -> None:
    (tmp_path / "outcomes.npz").write_text("nothing")
    with pytest.raises(DataError, match="cannot be read as the outcomes"):
        load_outcomes(tmp_path / "outcomes.npz")
    np.savez(tmp_path / "outcomes.npz", head=np.array(json.dumps({"format": 9, "methods": []})))
    with pytest.raises(DataError, match="has format 9"):
        load_outcomes(tmp_path / "outcomes.npz")


def test_columns_that_do_not_fit_are_named() -> None:
    tree = Taxonomy.from_paths(["a", "b"])
    with pytest.raises(DataError, match="top1"):
        Outcomes(np.arange(3), np.ones(3, int), tree, {("features", "top1"): np.zeros(2)})
    with pytest.raises(DataError, match="nodes from 1 to 9"):
        Outcomes(np.arange(2), np.array([1, 9]), tree, {})


def test_results_with_intervals_are_valid_json_and_old_ones_are_readable(
    table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    result = evaluate(table, taxonomy, settings=_QUICK)
    content = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    again = EvaluationResult.from_dict(content)
    assert again.main.intervals == result.main.intervals
    assert again.main.depth_intervals == result.main.depth_intervals
    assert again.outcomes == {}
    for method in content["methods"].values():
        del method["intervals"], method["depth_intervals"]
    del content["settings"]["resamples"], content["settings"]["confidence"]
    old = EvaluationResult.from_dict(content)
    assert old.main.scores == result.main.scores
    assert old.main.intervals == {}
    assert np.isnan(old.main.interval("top1")).all()


def test_intervals_can_be_left_out_and_follow_the_groups(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    assert evaluate(table, taxonomy, settings=replace(_QUICK, resamples=0)).main.intervals == {
        "features": {},
        "embeddings": {},
    }
    nodes = taxonomy.leaves.repeat(12)
    vectors = tree_vectors(taxonomy, nodes, 6, 0.35, 1)
    copies = EmbeddingTable(
        vectors.repeat_interleave(4, 0),
        nodes.repeat_interleave(4),
        np.repeat(np.where(np.arange(len(nodes)) % 3 > 0, "train", "test"), 4),
        instances=torch.arange(4 * len(nodes)),
        groups=torch.arange(len(nodes)).repeat_interleave(4),
    )
    settings = replace(_QUICK, resamples=400)
    grouped = evaluate(copies, taxonomy, settings=settings).main.interval("top1")
    ignored = evaluate(replace(copies, groups=None), taxonomy, settings=settings).main.interval("top1")
    assert grouped[1] - grouped[0] > 1.5 * (ignored[1] - ignored[0]), "four copies are no four samples"
