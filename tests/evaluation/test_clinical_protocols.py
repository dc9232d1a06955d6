"""Protocols `node-scores`, `per-group` and `k-fold`, against their parts put together by hand."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from labelled_vectors import tree_vectors
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from labeltree.decisions.choose_classifier import classifier_words
from labeltree.decisions.classifiers import classify
from labeltree.errors import DataError
from labeltree.evaluation import (
    EvaluationResult,
    EvaluationSettings,
    JudgingTaxonomy,
    choose_samples,
    evaluate,
)
from labeltree.evaluation.fitted_probe import fit_probe
from labeltree.evaluation.pool_folds import pool_folds
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, get_protocol, run_protocol
from labeltree.evaluation.protocols.nodes_as_tests import QUESTION_COUNTS, _Question
from labeltree.evaluation.subsampling import row_groups, table_folds
from labeltree.metrics.functional import group_labels, group_probabilities, node_decision_metrics
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, TaxonomyDAG
from sweeps import long_unless

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clinic(taxonomy: Taxonomy) -> EmbeddingTable:
    """Patients with four images each, of one leaf and in one split; vectors that overlap."""
    patients = torch.arange(120)
    leaf = taxonomy.leaves[patients % taxonomy.num_leaves]
    side = np.array(["train", "val", "test"])[(patients.numpy() // taxonomy.num_leaves) % 3]
    nodes, groups = leaf.repeat_interleave(4), patients.repeat_interleave(4)
    return EmbeddingTable(
        embeddings=tree_vectors(taxonomy, nodes, 5, 0.7, 3),
        nodes=nodes,
        split=np.repeat(side, 4),
        groups=groups * 10,
    )


def run(name: str, table: EmbeddingTable, taxonomy: AnyTaxonomy, **options: Any) -> ProtocolResult:
    """A protocol on a table; by the linear probe, unless options say otherwise."""
    if name != "k-fold":
        options = {"roles": ("embeddings",), **options}
    chosen: Mapping[str, Any] = {name: options}
    settings = EvaluationSettings(options=chosen)
    judging = JudgingTaxonomy.of(taxonomy)
    table = judging.table(table)
    samples = choose_samples(table, judging.tree, "test", settings)
    return run_protocol(get_protocol(name), Inputs(table, judging, samples, settings))


def of_split(table: EmbeddingTable, split: str) -> torch.Tensor:
    return torch.from_numpy(np.flatnonzero(table.split == split))


def below(taxonomy: Taxonomy, name: str) -> list[int]:
    node = taxonomy.find(name)
    return [leaf for leaf in taxonomy.leaves.tolist() if node in [*taxonomy.ancestors_of(leaf), leaf]]


@pytest.mark.parametrize("name", ["animal", "animal/mammal", "animal/mammal/dog", "plant/moss"])
def test_node_scores_are_those_of_the_probe(clinic: EmbeddingTable, taxonomy: Taxonomy, name: str) -> None:
    result = run("node-scores", clinic, taxonomy)
    train, test, val = (of_split(clinic, split) for split in ("train", "test", "val"))
    rows = torch.cat([val, test])
    fitted = fit_probe(clinic.embeddings[train], clinic.nodes[train], EvaluationSettings())
    probe = fitted.probabilities(clinic.embeddings[rows])
    leaves = torch.tensor(below(taxonomy, name))
    score = probe.values[:, torch.isin(probe.classes, leaves)].sum(1)
    truth = torch.isin(clinic.nodes[rows], leaves)
    of_val, of_test = slice(0, len(val)), slice(len(val), None)

    found = {key.removeprefix("embeddings."): column[name] for key, column in result.by_node.items()}
    assert found["auroc"] == pytest.approx(roc_auc_score(truth[of_test], score[of_test]), abs=1e-9)
    said = torch.isin(probe.predicted[of_test], leaves)
    assert found["decision_sensitivity"] == pytest.approx(float(said[truth[of_test]].double().mean()))
    threshold = found["point_threshold"]
    best = max(
        float((score[of_val] >= t)[truth[of_val]].double().mean())
        - float((score[of_val] >= t)[~truth[of_val]].double().mean())
        for t in score[of_val].tolist()
    )
    at = score[of_val] >= threshold - 1e-12
    assert float(at[truth[of_val]].double().mean() - at[~truth[of_val]].double().mean()) == pytest.approx(
        best
    )
    at = score[of_test] >= threshold - 1e-12
    assert found["point_specificity"] == pytest.approx(float((~at)[~truth[of_test]].double().mean()))
    assert (found["positives"], found["negatives"]) == (
        int(truth[of_test].sum()),
        int((~truth[of_test]).sum()),
    )


@pytest.mark.parametrize("asked", ["lda", "feature-means", "probe"])
@pytest.mark.parametrize("per", ["sample", "group"])
def test_the_classifier_that_answers_is_judged(
    clinic: EmbeddingTable, taxonomy: Taxonomy, asked: Any, per: str
) -> None:
    """Questions, nodes and groups are those of the same classifier as the headline, and it is named."""
    generator = torch.Generator().manual_seed(0)
    features = clinic.embeddings + 0.5 * torch.randn(clinic.embeddings.shape, generator=generator)
    table = replace(clinic, features=features)
    question = {"questions": ("animals=animal",), "per": per}
    settings = EvaluationSettings(
        resamples=0,
        classifier=asked,
        protocols=("node-scores", "per-group"),
        options={"node-scores": question, "per-group": {"aggregations": ("logits",)}},
    )
    result = evaluate(table, taxonomy, settings=settings)
    found, groups = (result.main.protocols[name] for name in settings.protocols)
    words = classifier_words(asked)
    assert found.title == f"Every node against the rest, by {words}"
    assert groups.title == f"One answer for every group, by {words}"
    told = f"The answers that are judged come from {words}, the classifier that answers."
    assert told in found.notes
    assert told in groups.notes
    assert any(f"are answered right by {words} (" in note for note in found.notes)
    assert groups.scores["sample.top1"] == pytest.approx(result.main.answer_score("top1"))
    hits = found.counts["animals: positive and answered right"]
    target = clinic.nodes[of_split(clinic, "test")]
    animals = torch.tensor(below(taxonomy, "animal"))
    assert result.classifiers is not None
    scores = result.classifiers.scores(asked)
    test = table.rows(of_split(clinic, "test"))
    said = classify(scores, test)
    if per == "sample":
        expected = int((torch.isin(target, animals) & torch.isin(said, animals)).sum())
        mean = node_decision_metrics(said, target, taxonomy)["sensitivity"][1:].mean()
        assert found.scores["answers.decision_sensitivity"] == pytest.approx(float(mean))
    else:
        p = torch.softmax(scores(test), 1)
        pooled = group_probabilities(p, test.groups, "logits")
        truth = group_labels(target, test.groups, taxonomy)
        right = scores.classes[pooled.columns]
        expected = int((torch.isin(truth, animals) & torch.isin(right, animals)).sum())
    assert hits == expected


def test_answers_without_probabilities_decide_and_another_ranks(
    clinic: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    """Of a table with its own answers alone, sensitivities are theirs, and notes say what the rest is."""
    settings = EvaluationSettings(
        resamples=0,
        classifier="own",
        protocols=("node-scores",),
        options={"node-scores": {"questions": ("animals=animal",)}},
    )
    table = replace(clinic, predictions=clinic.nodes)
    found = evaluate(table, taxonomy, settings=settings).main.protocols["node-scores"]
    assert found.scores["animals.decision_sensitivity"] == 1.0
    assert found.scores["answers.decision_sensitivity"] == 1.0
    assert found.scores["answers.auroc"] < 1.0
    assert any("there are no probabilities: AUROC, average precision and" in note for note in found.notes)
    assert any("answered right by the answers that came with the table" in note for note in found.notes)
    assert "by the classifier whose answers came with the table; AUROC, average precision" in found.title


@pytest.mark.parametrize("dim", long_unless([5, 3], [3]))
def test_classifiers_of_a_baseline_read_what_they_learned_from(
    clinic: EmbeddingTable, taxonomy: Taxonomy, dim: int
) -> None:
    """Beside a table without features, those of a baseline are not read: not even of as many dimensions."""
    noise = torch.randn(len(clinic), dim, generator=torch.Generator().manual_seed(1))
    names = ("node-scores", "per-group", "decisions", "decoding", "class-order")
    found = evaluate(
        clinic,
        taxonomy,
        baselines={"other": replace(clinic, features=noise)},
        protocols=names,
        settings=EvaluationSettings(resamples=0, classifier="probe"),
    )
    for name in names:
        main, other = (found.methods[method].protocols[name] for method in (found.name, "other"))
        assert other.refusal is None
        assert other.scores == pytest.approx(main.scores, nan_ok=True)


def test_folds_that_chose_other_classifiers_are_named_with_them(
    clinic: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    asked: tuple[Any, Any] = ("lda", "probe")
    results = [
        evaluate(
            replace(clinic, instances=torch.arange(len(clinic)) + 1000 * fold),
            taxonomy,
            name="model",
            settings=EvaluationSettings(resamples=0, classifier=name, protocols=("node-scores",)),
        )
        for fold, name in enumerate(asked)
    ]
    pooled = pool_folds(results, [each.outcomes["model"] for each in results])
    words = " or ".join(classifier_words(name, features=False) for name in asked)
    title = pooled.main.protocols["node-scores"].title
    assert title == f"Every node against the rest, by {words}, as each fold chose"
    again = pool_folds(results[:1], [results[0].outcomes["model"]])
    assert again.main.protocols["node-scores"].title == results[0].main.protocols["node-scores"].title


def test_patients_who_share_a_file_are_asked_about_apart(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    """Copies join them for splits and for what is drawn; still they are two cases."""
    assert clinic.groups is not None
    names = np.array([f"P{patient:03}" for patient in clinic.groups.tolist()])
    test = of_split(clinic, "test")
    first, second = clinic.groups[test].unique()[:2].tolist()
    joined = clinic.groups.masked_fill(clinic.groups == second, first)
    question: dict[str, Any] = {"questions": ("animals=animal",), "per": "group", "roles": ("embeddings",)}
    settings = EvaluationSettings(
        resamples=0,
        protocols=("node-scores", "per-group"),
        options={"node-scores": question, "per-group": {"roles": ("embeddings",)}},
    )
    apart, shared = (
        evaluate(replace(clinic, groups=groups, group_names=names), taxonomy, settings=settings)
        for groups in (clinic.groups, joined)
    )
    for name in settings.protocols:
        mine, theirs = (each.main.protocols[name] for each in (shared, apart))
        assert mine.counts == theirs.counts
        assert mine.scores == pytest.approx(theirs.scores, nan_ok=True)
    units = shared.outcomes[shared.name].groups
    assert units is not None
    assert len(np.unique(units)) == len(clinic.groups[test].unique()) - 1


def rates_of(right: int, of: int, groups: torch.Tensor | None = None) -> ProtocolResult:
    """A question of which some positive test samples are answered right, and all negative ones."""
    tree = Taxonomy.from_paths(["yes", "no"])
    count = of + 12
    learn = torch.tensor([1, 2]).repeat(10)
    nodes = torch.cat([learn, torch.tensor([1] * of + [2] * 12)])
    place = torch.where(nodes == 1, 1.0, -1.0)
    place[20 + right : 20 + of] = -1.0
    points = torch.stack([place, torch.ones(len(place))], 1)
    split = np.array(["train"] * 20 + ["test"] * count)
    ids = None if groups is None else torch.cat([100 + torch.arange(20), groups])
    table = EmbeddingTable(points, nodes, split, groups=ids)
    return run("node-scores", table, tree, questions=("yes=yes",))


@pytest.mark.parametrize(("right", "of"), [(5, 7), (3, 4), (2, 2), (0, 3)])
def test_a_rate_of_independent_cases_has_its_exact_interval(right: int, of: int) -> None:
    """Of any number of cases, as a share of samples has it; not the draws of so few."""
    exact = binomtest(right, of).proportion_ci(method="exact")
    for groups in (None, torch.arange(of + 12)):
        found = rates_of(right, of, groups)
        low, high = found.intervals["yes.decision_sensitivity"]
        assert (low, high) == pytest.approx((exact.low, exact.high))
        assert found.node_intervals["embeddings.decision_sensitivity"]["yes"] == pytest.approx((low, high))


def test_a_rate_of_few_groups_of_several_cases_has_no_interval_and_that_is_said() -> None:
    found = rates_of(5, 7, torch.cat([torch.arange(7) // 2, 50 + torch.arange(12)]))
    assert "yes.decision_sensitivity" not in found.intervals
    assert "yes.decision_specificity" in found.intervals
    (note,) = (note for note in found.notes if "no interval" in note)
    assert note.startswith("yes: no interval of sensitivity, ")
    assert "it takes 6 groups" in note
    enough = rates_of(9, 12, torch.cat([torch.arange(12) // 2, 50 + torch.arange(12)]))
    low, high = enough.intervals["yes.decision_sensitivity"]
    assert 0.1 < low < 0.75 < high < 1


def test_means_of_node_scores_count_every_node_once(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    result = run("node-scores", clinic, taxonomy)
    by_node = result.by_node["embeddings.auroc"]
    assert set(by_node) == {taxonomy.path_name(node) for node in range(1, taxonomy.num_nodes)}
    assert result.scores["embeddings.auroc"] == pytest.approx(statistics.fmean(by_node.values()))
    coarsest = [by_node["animal"], by_node["plant"]]
    assert result.by_depth["embeddings.auroc"][0] == pytest.approx(statistics.fmean(coarsest))
    assert "embeddings.point_threshold" not in result.scores


def test_operating_points_do_not_see_the_test_samples(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    plain = run("node-scores", clinic, taxonomy, operating_point=0.9)
    nodes = clinic.nodes.clone()
    test = of_split(clinic, "test")
    nodes[test] = nodes[test].flip(0)
    other = run("node-scores", replace(clinic, nodes=nodes), taxonomy, operating_point=0.9)
    assert run("node-scores", clinic, taxonomy, operating_point="0.9") == plain, "as it is typed"
    assert run("node-scores", clinic, taxonomy).by_node != plain.by_node
    column = "embeddings.point_threshold"
    assert plain.by_node[column] == other.by_node[column]
    assert plain.by_node["embeddings.auroc"] != other.by_node["embeddings.auroc"]


def test_without_validation_samples_whole_training_groups_are_held_out(
    clinic: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    assert clinic.split is not None
    table = replace(clinic, split=np.where(clinic.split == "val", "train", clinic.split))
    result = run("node-scores", table, taxonomy)
    assert any("no validation samples" in note for note in result.notes)
    held_out = result.counts["validation samples"]
    assert held_out % 4 == 0
    assert held_out == pytest.approx(64, abs=8)
    assert not any("groups that the probe learned from" in note for note in result.notes)


def test_nodes_that_nothing_can_be_said_of_are_nan_and_named(
    clinic: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    nodes, animal = clinic.nodes.clone(), torch.tensor(below(taxonomy, "animal"))
    nodes[~torch.isin(nodes, animal)] = -1  # nobody is a plant
    worm = taxonomy.find("animal/worm")
    nodes[(nodes == worm) & torch.from_numpy(clinic.split == "test")] = -1
    result = run("node-scores", replace(clinic, nodes=nodes), taxonomy)
    auroc = result.by_node["embeddings.auroc"]
    assert math.isnan(auroc["animal"])
    assert math.isnan(auroc["animal/worm"])
    assert "plant" not in auroc
    assert not math.isnan(result.scores["embeddings.auroc"])
    notes = " ".join(result.notes)
    assert "Nodes that have all test samples at or below them have no AUROC (NaN): 'animal'" in notes
    assert "Nodes that have no test sample at or below them have no AUROC (NaN): 'animal/worm'" in notes


def test_own_answers_are_judged_at_every_node(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    predictions = clinic.nodes.clone()
    test = of_split(clinic, "test")
    dog = taxonomy.find("animal/mammal/dog")
    dogs = test[clinic.nodes[test] == dog]
    predictions[dogs[0]] = taxonomy.find("animal/mammal")
    predictions[dogs[1]] = -1
    result = run("node-scores", replace(clinic, predictions=predictions), taxonomy)
    sensitivity = result.by_node["predictions.own_sensitivity"]
    assert sensitivity["animal/mammal/dog"] == pytest.approx(1 - 2 / len(dogs))
    assert sensitivity["animal/mammal"] == pytest.approx(1 - 1 / (2 * len(dogs)))
    assert result.scores["predictions.own_specificity"] == 1.0


@pytest.mark.parametrize("name", ["node-scores", "per-group", "k-fold"])
def test_on_a_dag_and_back_from_json(name: str) -> None:
    dag = TaxonomyDAG.from_edges(
        [
            ("vehicle", "thing"),
            ("golf", "thing"),
            ("car", "vehicle"),
            ("van", "vehicle"),
            ("cart", "vehicle"),
            ("cart", "golf"),
            ("ball", "golf"),
        ]
    )
    nodes = dag.leaves.repeat(30).sort().values
    vectors = torch.randn(len(nodes), 4, generator=torch.Generator().manual_seed(0)) + nodes[:, None] % 3
    table = EmbeddingTable(
        vectors,
        nodes,
        np.resize(np.repeat(["train", "val", "test"], 2), len(nodes)),
        groups=torch.arange(len(nodes)) // 2,
    )
    found = evaluate(table, dag, protocols=[name])
    result = found.main.protocols[name]
    again = EvaluationResult.from_dict(json.loads(json.dumps(found.to_dict()))).main.protocols[name]
    assert again.scores == pytest.approx(result.scores, nan_ok=True)
    if name == "node-scores":
        positives = result.by_node["answers.positives"]
        assert positives["golf"] == positives["vehicle/cart"] + positives["golf/ball"]
        assert positives["vehicle"] == sum(positives[f"vehicle/{leaf}"] for leaf in ("cart", "car", "van"))


def test_per_group_against_a_loop(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    result = run("per-group", clinic, taxonomy)
    train, test = of_split(clinic, "train"), of_split(clinic, "test")
    fitted = fit_probe(clinic.embeddings[train], clinic.nodes[train], EvaluationSettings())
    probe = fitted.probabilities(clinic.embeddings[test])
    assert clinic.groups is not None
    right: dict[str, list[bool]] = {"mean": [], "vote": [], "max": []}
    for patient in clinic.groups[test].unique():
        mine = clinic.groups[test] == patient
        label = int(clinic.nodes[test][mine][0])
        rows = probe.values[mine]
        right["mean"].append(int(probe.classes[rows.mean(0).argmax()]) == label)
        right["max"].append(int(probe.classes[rows.max(0).values.argmax()]) == label)
        votes = torch.bincount(rows.argmax(1), minlength=len(probe.classes)).double()
        right["vote"].append(int(probe.classes[(votes + 0.1 * rows.mean(0)).argmax()]) == label)
    for name, answers in right.items():
        assert result.scores[f"{name}.top1"] == pytest.approx(statistics.fmean(answers))
    sample = (probe.predicted == clinic.nodes[test]).double().mean()
    assert result.scores["sample.top1"] == pytest.approx(float(sample))
    assert result.scores["mean.top1"] > result.scores["sample.top1"]
    assert result.counts == {"test samples": len(test), "groups": 40}


@pytest.mark.parametrize("conflicts", ["drop", "all", "majority"])
def test_a_patient_with_two_diagnoses(clinic: EmbeddingTable, taxonomy: Taxonomy, conflicts: str) -> None:
    """One patient has one sample of another label, a second one as many of either."""
    assert clinic.groups is not None
    nodes, test = clinic.nodes.clone(), of_split(clinic, "test")
    patients = clinic.groups[test]
    larger = [int(p) for p in patients.unique() if int((patients == p).sum()) >= 3]
    odd, even = larger[0], larger[1]
    moss = taxonomy.find("plant/moss")
    for patient in (odd, even):
        assert int(nodes[test[patients == patient][0]]) != moss
    own = test[patients == odd]
    nodes[own[0]] = moss
    own = test[patients == even]
    nodes[own[: len(own) // 2]] = moss
    nodes[own[2 * (len(own) // 2) :]] = -1  # an odd one out says nothing
    names = np.array([f"P{patient:03}" for patient in clinic.groups.tolist()])
    table = replace(clinic, nodes=nodes, group_names=names)
    result = run("per-group", table, taxonomy, conflicts=conflicts)
    assert result.counts["groups"] == {"drop": 38, "all": 42, "majority": 39}[conflicts]
    assert result.counts["groups with labels that contradict each other"] == 2
    note = next(note for note in result.notes if "contradict" in note)
    assert f"2 groups have samples whose labels contradict each other, such as 'P{odd:03}' with" in note
    assert "'plant/moss'" in note
    assert f"(conflicts={conflicts})" in note
    plain = run("per-group", replace(table, group_names=None), taxonomy, conflicts=conflicts)
    assert any(f"such as '{odd}' with" in note for note in plain.notes)
    # what each group is answered with, and judged by
    rows = of_split(table, "test")
    rows = rows[nodes[rows] > 0]
    train = of_split(table, "train")
    fitted = fit_probe(table.embeddings[train], nodes[train], EvaluationSettings())
    probe = fitted.probabilities(table.embeddings[rows])
    right = []
    for patient in clinic.groups[rows].unique().tolist():
        mine = clinic.groups[rows] == patient
        labels = nodes[rows][mine].tolist()
        ranked = [label for label, _ in Counter(labels).most_common()]
        parts = [(mine, ranked[0])]
        if len(ranked) > 1 and conflicts == "all":
            parts = [(mine & (nodes[rows] == label), label) for label in ranked]
        elif len(ranked) > 1 and (conflicts == "drop" or patient == even):
            parts = []
        for part, label in parts:
            right.append(int(probe.classes[probe.values[part].mean(0).argmax()]) == label)
    assert result.scores["mean.top1"] == pytest.approx(statistics.fmean(right))
    low, high = result.intervals["mean.top1"]
    assert low <= result.scores["mean.top1"] <= high


def test_where_no_group_has_one_label_none_is_judged(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    one = replace(clinic, groups=torch.zeros(len(clinic), dtype=torch.int64))
    with pytest.raises(DataError, match=r"no group has one label: 1 group has samples .* such as '0'"):
        run("per-group", one, taxonomy)
    with pytest.raises(ValueError, match="conflicts is 'both'; expected one of 'drop', 'all', 'majority'"):
        run("per-group", one, taxonomy, conflicts="both")


def test_coarser_labels_are_no_contradiction(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    test = of_split(clinic, "test")
    coarse = clinic.nodes.clone()
    coarse[test[0]] = taxonomy.parent[coarse[test[0]]]  # coarser than the others is no contradiction
    assert run("per-group", replace(clinic, nodes=coarse), taxonomy).counts["groups"] == 40


def test_per_group_needs_groups(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    with pytest.raises(DataError, match=r"no two test samples are in one group: give .* 'groups'"):
        run("per-group", replace(clinic, groups=None), taxonomy)
    views = replace(clinic, groups=None, instances=clinic.groups)
    assert run("per-group", views, taxonomy).counts["groups"] == 40


def test_patients_on_both_sides_are_noted(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    torn = replace(clinic, split=np.resize(["train", "val", "test", "test"], len(clinic)))
    notes = " ".join(run("per-group", torn, taxonomy).notes)
    assert "240 of 240 test samples are of groups that the probe learned from" in notes
    assert "learned from too" not in " ".join(run("per-group", clinic, taxonomy).notes)


def test_k_fold_against_a_loop(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    result = run("k-fold", clinic, taxonomy, folds=4)
    rows = of_split(clinic, "test")
    fold = table_folds(clinic, rows, JudgingTaxonomy.of(taxonomy), 4)
    tops = []
    for number in range(4):
        learn, test = rows[fold != number], rows[fold == number]
        vectors = clinic.embeddings
        predicted = fit_probe(vectors[learn], clinic.nodes[learn], EvaluationSettings()).predict(
            vectors[test]
        )
        tops.append(float((predicted == clinic.nodes[test]).double().mean()))
    assert result.curves["embeddings.top1"] == pytest.approx(tops)
    assert result.scores["embeddings.top1"] == pytest.approx(statistics.fmean(tops))
    assert result.scores["embeddings.top1_sd"] == pytest.approx(statistics.stdev(tops))
    assert result.by_depth["embeddings.accuracy"][-1] == pytest.approx(statistics.fmean(tops))
    assert clinic.groups is not None
    for patient in clinic.groups[rows].unique():
        assert len(fold[clinic.groups[rows] == patient].unique()) == 1


def test_k_fold_stays_within_the_evaluated_split(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    other = clinic.embeddings.clone()
    other[of_split(clinic, "train")] = 0.5
    assert (
        run("k-fold", clinic, taxonomy).scores
        == run("k-fold", replace(clinic, embeddings=other), taxonomy).scores
    )


def test_a_class_that_lies_in_one_fold_is_noted(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    moss, test = taxonomy.find("plant/moss"), of_split(clinic, "test")
    nodes = clinic.nodes.clone()
    mosses = test[nodes[test] == moss]
    nodes[mosses[4:]] = taxonomy.find("plant/tree/oak")
    notes = " ".join(run("k-fold", replace(clinic, nodes=nodes), taxonomy).notes)
    assert "4 samples belong to classes that lie in one fold as a whole" in notes


def test_too_few_groups_for_the_folds(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    with pytest.raises(DataError, match=r"40 group\(s\) of 160 samples cannot make 50 folds"):
        run("k-fold", clinic, taxonomy, folds=50)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("k-fold", {"folds": 1}, "folds is 1, expected at least 2"),
        ("node-scores", {"operating_point": 1.5}, "operating_point is 1.5, expected 'youden' or a share"),
        (
            "node-scores",
            {"operating_point": "high"},
            "operating_point is 'high', expected 'youden' or a sens",
        ),
        ("per-group", {"aggregations": ["median"]}, "expected some of mean, logits, max, noisy-or, vote"),
        ("per-group", {"groups": "x"}, "has no option 'groups'"),
    ],
)
def test_bad_options_are_named(
    clinic: EmbeddingTable, taxonomy: Taxonomy, name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run(name, clinic, taxonomy, **options)


def test_rows_of_a_group_or_of_an_instance_share_a_number() -> None:
    table = EmbeddingTable(
        torch.zeros(6, 2),
        torch.ones(6, dtype=torch.int64),
        instances=torch.tensor([5, 5, 6, 7, 7, 5]),
        groups=torch.tensor([-1, -1, 5, 5, -1, 5]),
    )
    groups = row_groups(table, torch.arange(6)).tolist()
    assert groups[0] == groups[1]
    assert groups[2] == groups[3] == groups[5]
    assert len(set(groups)) == 3


@pytest.mark.parametrize("how", ["logits", "max"])
def test_patients_as_cases(clinic: EmbeddingTable, taxonomy: Taxonomy, how: str) -> None:
    """The numbers per patient are those of a table that has one row for each patient."""
    from labeltree.metrics.functional import group_labels, group_probabilities, node_auroc

    found = run("node-scores", clinic, taxonomy, per="group", aggregation=how)
    test, train = of_split(clinic, "test"), of_split(clinic, "train")
    fitted = fit_probe(clinic.embeddings[train], clinic.nodes[train], EvaluationSettings())
    probe = fitted.probabilities(clinic.embeddings[test])
    groups = clinic.groups[test]
    combined = group_probabilities(probe.values, groups, how)  # type: ignore[arg-type]
    target = group_labels(clinic.nodes[test], groups, taxonomy)
    assert len(target) == 40
    auroc = node_auroc(combined.probabilities, target, taxonomy, classes=probe.classes)
    for node in range(1, taxonomy.num_nodes):
        value = found.by_node["embeddings.auroc"][taxonomy.path_name(node)]
        assert value == pytest.approx(float(auroc[node]), abs=1e-6, nan_ok=True)
        low, high = found.node_intervals["embeddings.auroc"].get(taxonomy.path_name(node), (value, value))
        assert math.isnan(value) or low <= value <= high
    assert f"40 test groups, each answered once ({how}), are the cases." in found.notes
    assert sum(found.by_node["embeddings.positives"].values()) <= 40 * taxonomy.max_depth
    with pytest.raises(DataError, match="has no groups to judge by"):
        run("node-scores", replace(clinic, groups=None), taxonomy, per="group")


def test_patients_with_two_diagnoses_are_no_cases(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    nodes = clinic.nodes.clone()
    first = int(of_split(clinic, "test")[0])
    nodes[first] = next(leaf for leaf in taxonomy.leaves.tolist() if leaf != int(nodes[first]))
    found = run("node-scores", replace(clinic, nodes=nodes), taxonomy, per="group")
    assert any(
        note.startswith("1 test group has labels that contradict each other: left out (")
        for note in found.notes
    )
    assert "39 test groups, each answered once (logits), are the cases." in found.notes


def test_a_patient_with_two_diagnoses_is_positive_if_one_of_them_is(
    clinic: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    nodes, test = clinic.nodes.clone(), of_split(clinic, "test")
    asked, other = taxonomy.leaves.tolist()[:2]
    first = next(int(row) for row in test if int(nodes[row]) not in (asked, other))
    of_patient = (clinic.groups == clinic.groups[first]).nonzero()[:, 0]
    assert len(of_patient) > 1
    question = (f"it={taxonomy.path_name(asked)}",)

    def positives(label: int) -> tuple[int, int, list[str]]:
        changed = nodes.clone()
        changed[first] = label
        table = replace(clinic, nodes=changed)
        result = run("node-scores", table, taxonomy, per="group", questions=question)
        return result.counts["it: positive"], result.counts["it: negative"], result.notes

    before, after, else_where = (positives(label) for label in (int(nodes[first]), asked, other))
    assert (after[0], after[1]) == (before[0] + 1, before[1] - 1)
    assert (else_where[0], else_where[1]) == (before[0], before[1]), "no diagnosis is the one asked for"
    assert "To a question a group is positive if the label of any of its samples is." in after[2]
    assert "1 test group has labels that contradict each other: left out ('180')." in after[2], (
        "of the nodes' scores"
    )


def test_what_decides_of_many_samples_does_whatever_their_order() -> None:
    """So many that writing them to their groups is divided among threads."""
    tree = Taxonomy.from_paths([("skin", "asked"), ("skin", "other"), ("lung",)])
    inside = torch.zeros(tree.num_nodes, dtype=torch.float64)
    inside[tree.find("skin")], inside[tree.find("skin/asked")] = 0.5, 1.0
    question = _Question("it", inside, inside[tree.leaves] == 1)
    groups = torch.arange(200_000) % 7
    target = torch.full((200_000,), tree.find("lung"))
    target[:7] = tree.find("skin/asked")
    target[7:100_000] = tree.find("skin")
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        assert (
            question.label_groups(target, groups, tree, apart=False).tolist() == [tree.find("skin/asked")] * 7
        )
    finally:
        torch.set_num_threads(before)


def test_a_question_is_a_loop_over_its_leaves(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    """A set of nodes in two branches, against the same numbers put together by hand."""
    inner = next(n for n in range(1, taxonomy.num_nodes) if not taxonomy.is_leaf[n])
    far = next(n for n in taxonomy.leaves.tolist() if taxonomy.lca(inner, n) == 0)
    names = taxonomy.path_name(inner), taxonomy.path_name(far)
    coarse = clinic.nodes.clone()
    test = of_split(clinic, "test")
    coarse[test[::9]] = taxonomy.parent[coarse[test[::9]]]  # some labels are too coarse to tell
    table = replace(clinic, nodes=coarse)
    result = run("node-scores", table, taxonomy, questions=(f"asked={names[0]}+{names[1]}",))
    inside = torch.zeros(taxonomy.num_nodes, dtype=torch.bool)
    inside[inner : int(taxonomy.subtree_end[inner])] = True
    inside[far] = True
    inside &= taxonomy.is_leaf

    def said(node: int) -> float:
        below = [n for n in taxonomy.leaves.tolist() if taxonomy.lca(n, node) == node]
        return sum(bool(inside[n]) for n in below) / len(below)

    truth = np.array([said(node) for node in coarse[test].tolist()])
    learned = (table.split == "train") & taxonomy.is_leaf[coarse].numpy()
    rows = torch.from_numpy(np.flatnonzero(learned))
    probe = fit_probe(table.embeddings[rows], coarse[rows], EvaluationSettings())
    found = probe.probabilities(table.embeddings[test])
    score = found.values[:, inside[found.classes]].sum(1).numpy()
    decided = inside[found.predicted].numpy()
    known = (truth == 0) | (truth == 1)
    assert 0 < (~known).sum() < 20
    assert result.scores["asked.auroc"] == pytest.approx(roc_auc_score(truth[known], score[known]), abs=1e-6)
    positive, negative = known & (truth == 1), known & (truth == 0)
    assert result.scores["asked.decision_sensitivity"] == pytest.approx(decided[positive].mean())
    assert result.scores["asked.decision_specificity"] == pytest.approx((~decided[negative]).mean())
    assert result.scores["asked.decision_ppv"] == pytest.approx(truth[known & decided].mean())
    low, high = result.intervals["asked.decision_sensitivity"]
    assert low <= result.scores["asked.decision_sensitivity"] <= high
    assert next(iter(result.scores)).startswith("asked."), "what was asked comes first"
    (note,) = [note for note in result.notes if note.startswith("asked: of")]
    assert f"of {positive.sum()} positive and {negative.sum()} negative test samples" in note
    assert f"of {(~known).sum()} more the truth is unknown" in note
    hit, cleared = int(decided[positive].sum()), int((~decided[negative]).sum())
    counts = [result.counts[f"asked: {name}"] for name in QUESTION_COUNTS]
    assert counts == [positive.sum(), hit, negative.sum(), cleared, (~known).sum()]
    columns = {column.name: column.values for column in result.columns}
    for name in ("sensitivity", "specificity", "ppv", "npv"):
        mean = float(torch.nanmean(columns[f"asked.decision_{name}"]))
        assert mean == pytest.approx(result.scores[f"asked.decision_{name}"])


def test_a_patient_with_an_unlabelled_lesion_is_no_negative(taxonomy: Taxonomy) -> None:
    """Its truth is unknown, unless another lesion is positive; the unlabelled one counts in its score."""
    dog, moss, oak = taxonomy.encode(["dog", "moss", "oak"]).tolist()
    kinds = [(moss, oak, oak), (dog, moss, oak), (moss, moss, -1), (dog, oak, -1)]
    true = torch.tensor([kinds[patient % 4] for patient in range(120)]).reshape(-1)
    lesions = torch.where(true < 0, dog, true)  # what the unlabelled ones are
    table = EmbeddingTable(
        tree_vectors(taxonomy, lesions, 5, 0.9, 3),
        true,
        split=np.repeat(np.array(["train", "val", "test"])[np.arange(120) // 4 % 3], 3),
        groups=torch.arange(120).repeat_interleave(3),
    )
    result = run("node-scores", table, taxonomy, per="group", questions=("animals=animal",))
    train, test = of_split(table, "train"), torch.from_numpy(np.flatnonzero(table.split == "test"))
    learned = train[true[train] >= 0]
    given = fit_probe(table.embeddings[learned], true[learned], EvaluationSettings()).probabilities(
        table.embeddings[test]
    )
    animals = torch.tensor(below(taxonomy, "animal"))
    score = given.values[:, torch.isin(given.classes, animals)].sum(1).reshape(-1, 3).amax(1)
    said = torch.isin(given.predicted, animals).reshape(-1, 3).any(1)
    positive = torch.isin(true[test], animals).reshape(-1, 3).any(1)
    known = positive | (true[test].reshape(-1, 3) >= 0).all(1)
    found = {key.removeprefix("embeddings."): value for key, value in result.scores.items()}
    assert found["animals.auroc"] == pytest.approx(roc_auc_score(positive[known], score[known]), abs=1e-9)
    assert found["animals.decision_sensitivity"] == pytest.approx(float(said[positive].double().mean()))
    cleared = ~said[known & ~positive]
    assert found["animals.decision_specificity"] == pytest.approx(float(cleared.double().mean()))
    counts = [result.counts[f"animals: {name}"] for name in QUESTION_COUNTS]
    assert (counts[0], counts[2], counts[4]) == (20, 10, 10)
    assert any("of 10 more the truth is unknown" in note for note in result.notes)


def test_questions_that_cannot_be_asked(clinic: EmbeddingTable, taxonomy: Taxonomy) -> None:
    with pytest.raises(DataError, match=r"question 'asked': label 'nobody' is not in the taxonomy"):
        run("node-scores", clinic, taxonomy, questions=("asked=nobody",))
    with pytest.raises(ValueError, match="expected NAME=NODE"):
        run("node-scores", clinic, taxonomy, questions=("nobody",))


def test_one_wrong_test_label_changes_neither_scores_nor_threshold(taxonomy: Taxonomy) -> None:
    """Three pictures of each of 120 lesions; of one test lesion one picture has another label."""
    kinds = torch.tensor(taxonomy.encode(["dog", "cat", "moss", "oak"]))
    nodes = kinds[torch.arange(120) % 4].repeat_interleave(3)
    table = EmbeddingTable(
        tree_vectors(taxonomy, nodes, 5, 2.5, 3),
        nodes,
        split=np.repeat(np.array(["train", "val", "test"])[np.arange(120) // 4 % 3], 3),
        groups=torch.arange(120).repeat_interleave(3),
        group_names=np.array([f"L{lesion}" for lesion in range(120)]).repeat(3),
    )
    changed = nodes.clone()
    row = int(of_split(table, "test")[0])  # of a dog
    changed[row] = kinds[2]
    found, wrong = (
        run("node-scores", replace(table, nodes=labels), taxonomy, per="group", questions=("animals=animal",))
        for labels in (nodes, changed)
    )
    asked = [key for key in found.scores if "animals." in key]
    assert len(asked) > 5
    for key in asked:
        assert wrong.scores[key] == pytest.approx(found.scores[key], abs=1e-9), key
    name = f"L{row // 3}"
    assert any(
        f"1 test group with positive and negative labels counts as positive ('{name}')" in note
        for note in wrong.notes
    )
    assert not any("most suspicious" in note for note in wrong.notes)


@pytest.mark.parametrize("agree", [True, False])
def test_a_patient_with_several_lesions_is_as_suspicious_as_the_worst(
    taxonomy: Taxonomy, agree: bool
) -> None:
    """Truth and answer of a question are those of any sample, also where no patient has one diagnosis."""
    dog, cat, moss, oak = taxonomy.encode(["dog", "cat", "moss", "oak"]).tolist()
    kinds = [(moss, oak, oak), (dog, moss, oak), (moss, moss, oak), (cat, dog, moss)]
    kinds += [(moss, moss, moss), (dog, dog, dog)] if agree else []
    nodes = torch.tensor([kinds[patient % len(kinds)] for patient in range(120)]).reshape(-1)
    side = np.array(["train", "val", "test"])[np.arange(120) // len(kinds) % 3]
    table = EmbeddingTable(
        tree_vectors(taxonomy, nodes, 5, 0.9, 3),
        nodes,
        split=np.repeat(side, 3),
        groups=torch.arange(120).repeat_interleave(3),
    )
    result = run("node-scores", table, taxonomy, per="group", questions=("animals=animal",))
    train, test = of_split(table, "train"), of_split(table, "test")
    probe = fit_probe(table.embeddings[train], nodes[train], EvaluationSettings())
    given = probe.probabilities(table.embeddings[test])
    animals = torch.tensor(below(taxonomy, "animal"))
    score = given.values[:, torch.isin(given.classes, animals)].sum(1).reshape(-1, 3).amax(1)
    said = torch.isin(given.predicted, animals).reshape(-1, 3).any(1)
    truth = torch.isin(nodes[test], animals).reshape(-1, 3).any(1)
    found = {key.removeprefix("embeddings."): value for key, value in result.scores.items()}
    assert found["animals.auroc"] == pytest.approx(roc_auc_score(truth, score), abs=1e-9)
    assert found["animals.decision_sensitivity"] == pytest.approx(float(said[truth].double().mean()))
    assert found["animals.decision_specificity"] == pytest.approx(float((~said)[~truth].double().mean()))
    assert any("has the score of its most suspicious sample" in note for note in result.notes)
    assert ("auroc" in found) == agree
    assert (
        any("Single nodes are not measured: no group of validation" in note for note in result.notes) != agree
    )
    if agree:
        assert "embeddings.auroc" in run("node-scores", table, taxonomy, per="group").scores
    else:
        with pytest.raises(DataError, match="no group of validation samples has labels that agree"):
            run("node-scores", table, taxonomy, per="group")
