"""What retrieval searches: without the query's group, or in the training split; and what is not defined."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from column_means import column_means
from labelled_vectors import tree_vectors
from torch import Tensor

from labeltree.errors import DataError
from labeltree.evaluation import (
    EvaluationResult,
    EvaluationSettings,
    Inputs,
    JudgingTaxonomy,
    choose_samples,
    compare,
    evaluate,
    save_outcomes,
)
from labeltree.evaluation.outcomes import load_outcomes
from labeltree.evaluation.protocol_registry import get_protocol, run_protocol
from labeltree.metrics import functional
from labeltree.metrics.catalogue import METRICS
from labeltree.metrics.search.results_left_out import have_partner, leaves_group_out
from labeltree.report.charts.bar_charts import DotRow, dot_chart
from labeltree.report.pages.number_tiles import tiles
from labeltree.report.tables.main_numbers import main_numbers_table
from labeltree.report.tables.metric_table import metric_table, table_cells
from labeltree.report.verdict import evaluation_verdict
from labeltree.report.wording import percent
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

QUICK = EvaluationSettings(resamples=50)
NEVER = replace(QUICK, leave_group_out="never")


@pytest.fixture(scope="module")
def patients(taxonomy: Taxonomy) -> EmbeddingTable:
    """Three samples of each patient, who are more alike than the samples of a class are."""
    person = torch.arange(240) // 3
    nodes = taxonomy.leaves[person % 8]
    looks = torch.randn(80, 6, generator=torch.Generator().manual_seed(4))[person]
    split = np.array(["train", "train", "test"])[(person.numpy() // 8) % 3]
    points = tree_vectors(taxonomy, nodes, 6, 0.1, 3) + 1.5 * looks
    return EmbeddingTable(points, nodes, split=split, instances=torch.arange(240), groups=person)


def test_the_same_patient_does_not_count(patients: EmbeddingTable, taxonomy: Taxonomy) -> None:
    found, never = (evaluate(patients, taxonomy, settings=how) for how in (QUICK, NEVER))
    test = torch.from_numpy(patients.split == "test")
    points, nodes, groups = patients.embeddings[test], patients.nodes[test], patients.groups[test]  # type: ignore[index]
    expected = functional.retrieval_metrics(points, nodes, taxonomy, query_groups=groups)
    names = {
        "recall_at_1": "recall@1",
        "map_at_r": "map@r",
        "mean_average_precision": "map",
        "ahp": "ahp@250",
    }
    for name, key in names.items():
        assert found.main.score(name) == pytest.approx(expected[key].item(), abs=1e-12)
        low, high = found.main.interval(name)
        assert low <= found.main.score(name) <= high
    assert found.main.score("recall_at_1") < never.main.score("recall_at_1") - 0.2
    assert found.main.score("pair_violations") == never.main.score("pair_violations")
    assert found.search == {"searched": "queries", "own_group": "left out"}
    assert never.search == {"searched": "queries", "own_group": "counted"}
    assert any("own group do not count" in note for note in found.cautions)
    assert any("own group count" in note for note in never.cautions)
    back = EvaluationResult.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
    assert (back.search, back.cautions, back.settings) == (found.search, found.cautions, found.settings)
    assert "own group do not count" in main_numbers_table(found)
    answers = [group.answer for group in metric_table(found, "image", "images")]
    assert any("all other images except those of its own group are sorted" in answer for answer in answers)


def test_nothing_is_said_of_groups_of_one_sample_each(patients: EmbeddingTable, taxonomy: Taxonomy) -> None:
    """As those of pictures of which some in training are copies."""
    assert patients.split is not None
    groups = torch.where(torch.from_numpy(patients.split == "test"), torch.arange(240), 999)
    found = evaluate(replace(patients, groups=groups), taxonomy, settings=QUICK)
    assert [note for note in found.cautions if "own group" in note] == []


def test_where_every_group_is_a_class_of_its_own_all_count(taxonomy: Taxonomy) -> None:
    nodes = taxonomy.leaves.repeat(6)
    table = EmbeddingTable(tree_vectors(taxonomy, nodes, 5, 0.5, 0), nodes)
    items = replace(table, groups=nodes * 7)
    found, plain = (evaluate(each, taxonomy, settings=QUICK) for each in (items, table))
    assert found.search["own_group"] == "counted"
    for name in ("recall_at_1", "map_at_r", "ahp"):
        assert found.main.score(name) == plain.main.score(name)
    always = evaluate(items, taxonomy, settings=replace(QUICK, leave_group_out="always"))
    assert math.isnan(always.main.score("recall_at_1"))
    assert any("retrieval is not defined" in note for note in always.cautions)


def test_queries_with_nothing_to_find_are_counted(patients: EmbeddingTable, taxonomy: Taxonomy) -> None:
    """All test samples of one class are of one patient."""
    dog = (patients.nodes == taxonomy.find("dog")).numpy() & (patients.split == "test")
    alone = replace(patients, groups=torch.where(torch.from_numpy(dog), 999, patients.groups))
    found = evaluate(alone, taxonomy, settings=QUICK)
    assert found.counts["queries without a sample of their class to find"] == dog.sum() == 9
    assert any(f"9 of {found.counts['queries']} queries have no sample" in note for note in found.notes)
    outcomes = found.outcomes[found.name]
    assert int(np.isnan(outcomes.values["embeddings", "recall_at_1"]).sum()) == 9
    expected = column_means(outcomes)["embeddings", "recall_at_1"]
    assert found.main.score("recall_at_1") == pytest.approx(expected)


def one_test_sample_a_class(taxonomy: Taxonomy) -> EmbeddingTable:
    nodes = taxonomy.leaves.repeat(6)
    split = np.repeat(["train"] * 5 + ["test"], 8)
    return EmbeddingTable(tree_vectors(taxonomy, nodes, 5, 0.3, 1), nodes, split=split)


def test_one_test_sample_a_class_is_searched_for_in_the_training_split(taxonomy: Taxonomy) -> None:
    table = one_test_sample_a_class(taxonomy)
    found = evaluate(table, taxonomy, settings=QUICK)
    test = torch.from_numpy(table.split == "test")
    queries, keys = (table.embeddings[test], table.nodes[test]), (table.embeddings[~test], table.nodes[~test])
    expected = functional.retrieval_metrics(*queries, taxonomy, *keys)
    assert found.main.score("recall_at_1") == expected["recall@1"].item() > 0.5
    assert found.main.score("map_at_r") == pytest.approx(expected["map@r"].item())
    assert found.search["searched"] == "train"
    assert (found.counts["queries"], found.counts["gallery samples"]) == (8, 40)
    text = " ".join(found.cautions)
    assert "None of 8 samples of split 'test' have another of their class among them" in text
    assert "Accuracy is computed from only 8 samples" in text
    assert "Retrieval is computed from only 8 samples" in text
    inputs = Inputs(
        table, JudgingTaxonomy.of(taxonomy), choose_samples(table, taxonomy, "test", QUICK), QUICK
    )
    bounds = run_protocol(
        get_protocol("frequency"), replace(inputs, settings=replace(QUICK, frequency_bounds=())), strict=False
    )
    assert bounds.refusal or not any(value == 0 for value in bounds.scores.values())


def test_without_a_training_split_it_is_not_defined(taxonomy: Taxonomy) -> None:
    nodes = taxonomy.leaves
    found = evaluate(
        EmbeddingTable(tree_vectors(taxonomy, nodes, 5, 0.3, 1), nodes), taxonomy, settings=QUICK
    )
    for name in ("recall_at_1", "recall_at_5", "map_at_r", "mean_average_precision"):
        assert math.isnan(found.main.score(name))
        assert math.isnan(found.main.interval(name)[0])
    assert any(
        "No sample of the test samples has another of its class to find" in note for note in found.cautions
    )
    text = main_numbers_table(found)
    assert not re.search(r"\bnan\b", text)
    assert "–" in text
    json.dumps(found.to_dict(), allow_nan=False)


def test_nothing_undefined_is_best() -> None:
    nan = math.nan
    assert [cell.best for cell in table_cells([nan, 0.0, nan])] == [False] * 3
    assert [cell.best for cell in table_cells([0.0, 0.0, 0.0])] == [False] * 3
    assert [cell.best for cell in table_cells([nan, 0.2, 0.4])] == [False, False, True]
    assert [cell.best for cell in table_cells([nan, 0.2, 0.4], metric=METRICS["parent_violations"])] == [
        False,
        True,
        False,
    ]


def test_different_searches_are_not_compared(
    patients: EmbeddingTable, taxonomy: Taxonomy, tmp_path: object
) -> None:
    runs = {
        name: evaluate(patients, taxonomy, name=name, settings=how).outcomes[name]
        for name, how in (("without", QUICK), ("with", NEVER))
    }
    save_outcomes(tmp_path / "outcomes.npz", runs)  # type: ignore[operator]
    kept = load_outcomes(tmp_path / "outcomes.npz")  # type: ignore[operator]
    assert kept["without"].search == runs["without"].search
    found = compare(kept, resamples=50, permutations=50)
    assert {entry.metric for entry in found.metrics} >= {"top1", "pair_violations"}
    assert not {"recall_at_1", "ahp"} & {entry.metric for entry in found.metrics}
    assert any("Retrieval is not compared" in note for note in found.notes)
    same = compare({"a": kept["without"], "b": runs["without"]}, resamples=50, permutations=50)
    assert same.metric("recall_at_1")


OF_PROTOCOLS = {
    "knn": ("embeddings.top1_at_1", "own group had no vote"),
    "query-gallery": ("embeddings.recall_at_1", "own group do not count"),
    "seen-unseen": ("seen.embeddings.recall_at_1", "own group do not count"),
    "frequency": ("retrieval.embeddings.recall_at_1_head", None),
}


@pytest.mark.parametrize("protocol", OF_PROTOCOLS)
def test_protocols_leave_the_own_group_out(taxonomy: Taxonomy, protocol: str) -> None:
    """Eight samples of each patient, all of one class and more alike than the samples of a class are."""
    person = torch.arange(384) // 8
    nodes = taxonomy.leaves[person % 8]
    looks = torch.randn(48, 6, generator=torch.Generator().manual_seed(4))[person]
    row, leaf = torch.arange(384), person % 8  # 24 training samples a class, then 12, then 6
    kept = (leaf < 3) | ((row % 4 != 1) & ((leaf < 6) | (row % 8 != 0)))
    table = EmbeddingTable(
        tree_vectors(taxonomy, nodes, 6, 0.1, 3) + 3 * looks,
        nodes,
        split=np.array(["train", "train", "test", "test"] * 96),
        groups=person,
    ).rows(kept.nonzero().squeeze(1))
    options = {"seen-unseen": {"unseen": ("plant",)}}.get(protocol, {})
    key, words = OF_PROTOCOLS[protocol]
    found = {}
    for how in (QUICK, NEVER):
        settings = replace(how, frequency_bounds=(8, 20), options={protocol: options})
        samples = choose_samples(table, taxonomy, "test", settings)
        inputs = Inputs(table, JudgingTaxonomy.of(taxonomy), samples, settings)
        found[how.leave_group_out] = run_protocol(get_protocol(protocol), inputs)
    without, counted = found["auto"], found["never"]
    assert counted.scores[key] > 0.9  # a patient's own samples are found
    assert without.scores[key] < counted.scores[key] - 0.3
    if words is not None:
        assert any(words in note for note in without.notes)
        assert not any(words in note for note in counted.notes)


def test_which_groups_are_left_out() -> None:
    def choice(nodes: list[int], groups: list[int] | None, how: str = "auto") -> bool:
        given = None if groups is None else torch.tensor(groups)
        return leaves_group_out(how, torch.tensor(nodes), given)  # type: ignore[arg-type]

    assert not choice([1, 1, 2, 2], None)
    assert not choice([1, 1, 2, 2], [5, 5, 6, 6])  # an item each
    assert not choice([1, 1, 2, -1], [5, 5, 6, 6])
    assert choice([1, 1, 1, 2], [5, 5, 6, 6])  # a label in two groups
    assert choice([1, 2, 3, 3], [5, 5, 6, 6])  # a group of two labels
    assert choice([1, 1, 1], [5, 5, -1])  # a sample that stands alone is a group too
    assert not choice([1, 1, 2, 2], [5, 6, 7, 8])  # there is nothing to leave out
    assert not choice([1, 1, 1, 2], [5, 5, 6, 6], "never")
    assert choice([1, 1, 2, 2], [5, 5, 6, 6], "always")
    assert not choice([], [], "always")
    with pytest.raises(
        ValueError, match="leave_group_out is 'no'; expected one of 'auto', 'always', 'never'"
    ):
        choice([1], [1], "no")


def test_partners_equal_a_loop() -> None:
    generator = torch.Generator().manual_seed(0)

    def draw(count: int) -> tuple[Tensor, Tensor]:
        return (
            torch.randint(-1, 6, (count,), generator=generator),
            torch.randint(-1, 4, (count,), generator=generator),
        )

    for _ in range(30):
        nodes, groups = draw(9)
        keys, key_groups = draw(5)
        for grouped in (True, False):
            mine = groups if grouped else torch.full_like(groups, -1)
            theirs = key_groups if grouped else torch.full_like(key_groups, -1)

            def other(i: int, j: int, of: Tensor, mine: Tensor = mine) -> bool:
                return bool(mine[i] < 0) or bool(of[j] != mine[i])

            among = [
                bool(nodes[i] >= 0)
                and any(i != j and nodes[j] == nodes[i] and other(i, j, mine) for j in range(9))
                for i in range(9)
            ]
            within = [
                bool(nodes[i] >= 0) and any(keys[j] == nodes[i] and other(i, j, theirs) for j in range(5))
                for i in range(9)
            ]
            pair = (groups, keys, key_groups) if grouped else (None, keys, None)
            assert have_partner(nodes, groups if grouped else None).tolist() == among
            assert have_partner(nodes, *pair).tolist() == within
    assert have_partner(torch.empty(0, dtype=torch.int64)).tolist() == []


def test_classes_that_nothing_was_learned_of_have_no_top1() -> None:
    """No classifier can name an unseen product, so that is no zero; the rest is measured."""
    tree = Taxonomy.from_paths([(f"d{i % 2}", f"p{i}") for i in range(12)])
    nodes = tree.leaves.repeat_interleave(6)
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.one_hot(nodes % 12, 12) + 0.1 * torch.randn(72, 12, generator=generator)
    tested = nodes % 3 == 0
    split = np.where(tested.numpy(), "test", "train")
    result = evaluate(EmbeddingTable(vectors, nodes, split=split), tree)
    assert math.isnan(result.main.score("top1"))
    assert math.isnan(result.main.score("prototype_top1"))
    coarse, fine = result.main.by_depth["probe"]
    assert 0 <= coarse <= 1
    assert math.isnan(fine)
    assert result.main.score("recall_at_1") > 0.9
    assert any("No class of the" in caution and "depth 2" in caution for caution in result.cautions)
    # With one class that was learned, the others are errors.
    split[np.flatnonzero(tested)[0]] = "train"
    result = evaluate(EmbeddingTable(vectors, nodes, split=split), tree)
    assert 0 < result.main.score("top1") < 1
    assert any("they count as errors" in note for note in result.notes)


@pytest.mark.parametrize("protocol", ["per-group", "clustering", "k-fold"])
def test_no_finest_label_among_the_tested_is_no_crash(taxonomy: Taxonomy, protocol: str) -> None:
    nodes = taxonomy.encode(["dog", "cat", "animal"] * 6)
    split = np.array(["train", "train", "test"] * 6)
    table = EmbeddingTable(tree_vectors(taxonomy, nodes, 4, 0.5, 2), nodes, split=split)
    judging = JudgingTaxonomy.of(taxonomy)
    inputs = Inputs(table, judging, choose_samples(table, taxonomy, "test", QUICK), QUICK)
    with pytest.raises(DataError, match=f"protocol '{protocol}': .*no"):
        run_protocol(get_protocol(protocol), inputs)
    found = evaluate(table, taxonomy, settings=QUICK, protocols=[protocol])
    assert math.isnan(found.main.score("recall_at_1"))
    assert found.main.protocols[protocol].refusal


def test_finest_labels_in_one_fold_alone_leave_nothing_to_learn(taxonomy: Taxonomy) -> None:
    """The finest labels of the test are all of one patient, who is in one fold."""
    nodes = taxonomy.encode(["dog", "cat"] * 6 + ["animal"] * 20 + ["dog", "cat"])
    split = np.array(["train"] * 12 + ["test"] * 22)
    groups = torch.cat([torch.arange(32), torch.tensor([40, 40])])
    table = EmbeddingTable(tree_vectors(taxonomy, nodes, 4, 0.5, 2), nodes, split=split, groups=groups)
    found = evaluate(table, taxonomy, settings=QUICK, protocols=["k-fold"]).main.protocols["k-fold"]
    assert "has a finest label, so that there is nothing to learn" in str(found.refusal)


@pytest.fixture(scope="module")
def under_one() -> tuple[EmbeddingTable, Taxonomy]:
    """A tree of which the coarsest depth has one node, with the model's own answers, some of them missing."""
    tree = Taxonomy.from_paths([("life", f"g{i // 3}", f"s{i}") for i in range(9)])
    nodes = tree.leaves.repeat(20)
    answers = torch.where(torch.arange(180) % 7 == 0, -1, nodes.roll(1))
    split = np.where(np.arange(180) // 9 % 2, "train", "test")
    points = tree_vectors(tree, nodes, 5, 0.5, 2)
    return EmbeddingTable(
        points, nodes, split=split, predictions=answers, groups=torch.arange(180) // 2
    ), tree


def test_a_depth_of_a_single_node_has_no_number(under_one: tuple[EmbeddingTable, Taxonomy]) -> None:
    """There nothing can be wrong; the metrics themselves give 1.0."""
    table, tree = under_one
    names = ["knn", "sgd-probe", "k-fold", "query-gallery", "decisions", "clustering", "class-embeddings"]
    found = evaluate(table, tree, settings=QUICK, protocols=names)
    assert set(found.main.by_depth) == {"probe", "prototypes", "lda", "own"}
    for name, depths in found.main.by_depth.items():
        assert math.isnan(depths[0])
        assert not any(map(math.isnan, depths[1:]))
        assert math.isnan(found.main.depth_intervals[name][0][0])
        assert not math.isnan(found.main.depth_intervals[name][1][0])
    assert {
        np.isnan(v).all() for (_, m), v in found.outcomes[found.name].values.items() if "depth_1" in m
    } == {True}
    reason = "All classes lie at or below 'life': accuracy and recall at depth 1 are not defined"
    assert sum(caution.startswith(reason) for caution in found.cautions) == 1
    for name in names:
        result = found.main.protocols[name]
        assert result.refusal is None
        assert result.by_depth
        for column, depths in result.by_depth.items():
            if not column.startswith("answered"):  # says how many, not how good
                assert math.isnan(depths[0]), (name, column)
        assert not any(math.isnan(result.by_depth[column][1]) for column in result.by_depth)
    shown = {tile.title: tile.number for tile in tiles(found)}
    assert shown["get the right main branch"] == percent(found.main.answer_by_depth[1])
    assert "100\u202f% of all mistakes stay" not in " ".join(evaluation_verdict(found, "images"))


def test_a_branch_of_a_tree_has_no_number_at_the_depth_of_its_top(
    under_one: tuple[EmbeddingTable, Taxonomy],
) -> None:
    """A classifier that learned one branch cannot leave it; the model's own answers can."""
    table, _ = under_one
    tree = Taxonomy.from_paths(
        [("life", f"g{i // 3}", f"s{i}") for i in range(9)] + [("things", "tools", "saw")]
    )
    answers = torch.where(table.predictions < 0, tree.find("things"), table.predictions)  # type: ignore[operator]
    found = evaluate(replace(table, predictions=answers), tree, settings=QUICK).main.by_depth
    assert math.isnan(found["probe"][0])
    assert math.isnan(found["prototypes"][0])
    assert 0 < found["own"][0] < 1


def test_a_chart_says_where_nothing_is_defined() -> None:
    rows = [DotRow("Depth 1", "", [math.nan, math.nan]), DotRow("Depth 2", "", [0.5, math.nan])]
    drawn = str(dot_chart(rows, ["a", "b"], title="depths"))
    assert drawn.count("not defined here") == 1
    assert not re.search(r"\bnan\b", drawn)
