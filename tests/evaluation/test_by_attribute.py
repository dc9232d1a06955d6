"""Results by the values of an attribute, and folds pooled, against loops over the samples."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from labelled_vectors import tree_vectors

from labeltree.errors import DataError
from labeltree.evaluation import (
    EvaluationResult,
    EvaluationSettings,
    attribute_rows,
    attribute_table,
    compare,
    evaluate,
    load_outcomes,
    pool_folds,
    pool_outcomes,
    save_outcomes,
)
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy


def make_table(taxonomy: Taxonomy, seed: int = 0, noise: float = 0.9) -> EmbeddingTable:
    """Patients with two samples each, in one split and one of two sites, one of them missing for some."""
    draw = np.random.default_rng(seed)
    nodes = taxonomy.leaves.repeat_interleave(48)
    patients = torch.arange(len(nodes)) // 2
    sites = np.array(["Graz", "Wien", ""])[draw.choice(3, len(nodes) // 2, p=[0.5, 0.4, 0.1])].repeat(2)
    split = np.array(["train", "val", "test"])[np.arange(len(nodes)) // 2 % 3]
    order = torch.from_numpy(draw.permutation(len(nodes)))
    table = EmbeddingTable(
        embeddings=tree_vectors(taxonomy, nodes, 5, noise, seed),
        nodes=nodes,
        split=split,
        groups=patients,
        instances=torch.arange(len(nodes)),
        attributes={"site": sites},
    )
    return table.rows(order)


def test_values_are_means_over_their_samples(taxonomy: Taxonomy, tmp_path: Path) -> None:
    table = make_table(taxonomy)
    settings = EvaluationSettings(by=("site",), resamples=100, protocols=("decisions",))
    result = evaluate(table, taxonomy, settings=settings)
    parts = {part.value: part for part in result.main.by_attribute}
    assert list(parts) == ["Graz", "Wien", ""]
    outcomes = result.outcomes[result.name]
    values = outcomes.values["embeddings", "top1"]
    for value, part in parts.items():
        mine = (outcomes.attributes["site"] == value) & ~np.isnan(values)
        assert part.samples == mine.sum()
        assert part.groups == len(np.unique(outcomes.groups[mine]))  # type: ignore[index]
        assert part.scores["embeddings.top1"] == pytest.approx(values[mine].mean())
        low, high = part.intervals["embeddings.top1"]
        assert low <= part.scores["embeddings.top1"] <= high
        assert "decisions.coverage_at_0.9" in part.scores
    again = EvaluationResult.from_dict(result.to_dict()).main.by_attribute
    assert str(again) == str(result.main.by_attribute)  # NaN: the posterior space has no intervals
    assert "site = (missing)" in attribute_table(result)
    save_outcomes(tmp_path / "outcomes.npz", result.outcomes)
    again = load_outcomes(tmp_path / "outcomes.npz")[result.name]
    assert again.attributes["site"].tolist() == outcomes.attributes["site"].tolist()
    strata = {each.name for each in compare({"a": again, "b": outcomes}, resamples=20).strata}
    assert {"site = Graz", "site = Wien"} <= strata


def test_retrieval_of_a_part_counts_samples_as_results_too(taxonomy: Taxonomy) -> None:
    """Where all samples have one value, its intervals are those of all samples."""
    table = make_table(taxonomy)
    table = replace(table, attributes={"site": np.full(len(table.nodes), "Graz")})
    main = evaluate(table, taxonomy, settings=EvaluationSettings(by=("site",), resamples=100)).main
    (part,) = main.by_attribute
    for name in ("recall_at_1", "map_at_r", "ahp"):
        assert part.intervals[f"embeddings.{name}"] == pytest.approx(main.interval(name))


def _column(result: EvaluationResult, value: str) -> dict[str, str]:
    """What the text says of one value, by the head of the row."""
    lines = attribute_table(result).splitlines()
    name = f"site = {value or '(missing)'}"
    ends = [match.start() for match in re.finditer("site = ", lines[0])] + [None]  # type: ignore[list-item]
    place = lines[0].index(name)
    end = ends[ends.index(place) + 1]
    return {line[: ends[0]].strip(): line[place:end].strip() for line in lines[1:]}


def test_values_that_do_not_fit_beside_one_another_stand_below(taxonomy: Taxonomy) -> None:
    table = make_table(taxonomy)
    sites = np.array([f"clinic of the district {row % 9}" for row in range(len(table))])
    settings = EvaluationSettings(by=("site",), resamples=50)
    text = attribute_table(evaluate(replace(table, attributes={"site": sites}), taxonomy, settings=settings))
    assert max(map(len, text.splitlines())) < 130
    assert text.count("top-1 accuracy") == text.count("\n\n") + 1 >= 3
    assert all(f"district {site}" in text for site in range(9))


def test_every_number_says_what_it_rests_on(taxonomy: Taxonomy) -> None:
    """Without a split, retrieval searches all samples, and classifiers are tested on half of them."""
    table = make_table(taxonomy)
    table = replace(table, split=None)
    result = evaluate(table, taxonomy, settings=EvaluationSettings(by=("site",), resamples=0))
    values = result.outcomes[result.name].values["embeddings", "recall_at_1"]
    sites, groups = table.attributes["site"], table.groups.numpy()  # type: ignore[union-attr]
    for part in result.main.by_attribute:
        mine = sites == part.value
        recall = "embeddings.recall_at_1"
        assert part.counted[recall] == mine.sum() > part.samples == part.counted["embeddings.top1"]
        assert part.counted_groups[recall] == len(np.unique(groups[mine])) > (part.groups or 0)
        assert part.scores[recall] == pytest.approx(values[mine].mean())
        cell = _column(result, part.value)["recall@1"]
        assert cell.endswith(f" of {mine.sum()} ({part.counted_groups[recall]} groups)")


def test_a_site_of_few_patients_has_no_interval_and_says_so(taxonomy: Taxonomy) -> None:
    table = make_table(taxonomy)
    assert table.groups is not None
    assert table.split is not None
    tested = table.groups[torch.from_numpy(table.split == "test")].unique()
    site = np.where(torch.isin(table.groups, tested[:3]).numpy(), "small", "large")
    settings = EvaluationSettings(by=("site",), resamples=50)
    result = evaluate(replace(table, attributes={"site": site}), taxonomy, settings=settings)
    large, small = result.main.by_attribute
    assert (large.value, small.value, small.groups) == ("large", "small", 3)
    for key in ("embeddings.top1", "embeddings.recall_at_1"):
        assert not np.isnan(large.intervals[key]).any()
        assert np.isnan(small.intervals[key]).all()
    columns = {name: list(_column(result, name).values()) for name in ("small", "large")}
    assert [cell.endswith("(few)") for cell in columns["small"]] == [False, True, True, True]
    assert not any("[" in cell for cell in columns["small"])
    assert not any("(few)" in cell for cell in columns["large"])


def test_a_column_of_patients_that_is_no_group_is_named(taxonomy: Taxonomy) -> None:
    table = make_table(taxonomy)
    assert table.groups is not None
    patients = np.array([f"p{group}" for group in table.groups.tolist()])
    settings = EvaluationSettings(resamples=20)

    def said(groups: torch.Tensor | None, **attributes: np.ndarray) -> bool:  # type: ignore[type-arg]
        given = replace(table, groups=groups, attributes=attributes)
        return any(
            "are not groups here" in one for one in evaluate(given, taxonomy, settings=settings).cautions
        )

    assert said(None, **{"Patient ID": patients})
    assert not said(table.groups, patient=patients)
    assert not said(None, patient=np.arange(len(table)).astype(str), dispatient=patients)


def test_what_cannot_be_broken_down_is_refused(taxonomy: Taxonomy) -> None:
    table = make_table(taxonomy)
    with pytest.raises(DataError, match=r"no attribute 'camera'; it has site"):
        evaluate(table, taxonomy, settings=EvaluationSettings(by=("camera",)))
    single = EmbeddingTable(
        table.embeddings, table.nodes, table.split, attributes={"id": np.arange(len(table)).astype(str)}
    )
    with pytest.raises(DataError, match="too many to report on each"):
        evaluate(single, taxonomy, settings=EvaluationSettings(by=("id",)))


@pytest.fixture(scope="module")
def folds(taxonomy: Taxonomy) -> list[EvaluationResult]:
    """The results of three folds; another encoder in each."""
    found = []
    settings = EvaluationSettings(
        by=("site",), resamples=100, protocols=("node-scores", "decisions", "per-group")
    )
    for number in range(3):
        table = make_table(taxonomy, noise=0.6 + 0.3 * number)
        third = table.instances // 2 % 3  # type: ignore[operator]
        split = np.where(third == number, "test", np.where(third == (number + 1) % 3, "val", "train"))
        table = EmbeddingTable(
            table.embeddings,
            table.nodes,
            split,
            instances=table.instances,
            groups=table.groups,
            attributes=table.attributes,
        )
        found.append(evaluate(table, taxonomy, settings=settings))
    return found


def answers(fold: EvaluationResult) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """What the classifier that a fold chose says of its test samples, and what they are."""
    outcomes = fold.outcomes[fold.name]
    return outcomes.predicted[fold.main.classifier.name], outcomes.nodes


def said_right(fold: EvaluationResult) -> np.ndarray[Any, Any]:
    said, true = answers(fold)
    return said == true


def test_every_sample_counts_once_in_pooled_folds(folds: list[EvaluationResult]) -> None:
    outcomes = [each.outcomes[each.name] for each in folds]
    pooled = pool_folds(folds, outcomes)
    whole = pooled.outcomes[pooled.name]
    assert len(whole) == sum(map(len, outcomes)) == len(np.unique(whole.instances))
    for key in (("embeddings", "top1"), ("embeddings", "recall_at_1"), ("embeddings", "hierarchical_f1")):
        every = np.concatenate([each.values[key] for each in outcomes])
        assert pooled.main.score(key[1], key[0]) == pytest.approx(np.nanmean(every))
        low, high = pooled.main.interval(key[1], key[0])
        assert low < np.nanmean(every) < high
    right = np.concatenate([said_right(each) for each in folds])
    assert pooled.main.errors.samples == len(right)
    assert pooled.main.errors.errors == (~right).sum()
    assert pooled.counts["test samples"] == sum(each.counts["test samples"] for each in folds)
    assert [part.samples for part in pooled.main.by_attribute] == [
        sum(p.samples for each in folds for p in each.main.by_attribute if p.value == value)
        for value in ("Graz", "Wien", "")
    ]
    assert EvaluationResult.from_dict(pooled.to_dict()).main.scores == pooled.main.scores


@pytest.mark.parametrize("asked", [("lda", "prototypes", "lda"), ("lda", "lda", "lda")])
def test_each_fold_answers_with_what_it_chose(taxonomy: Taxonomy, asked: tuple[Any, ...]) -> None:
    """A classifier chosen by the validation samples of all folds would have seen every test sample."""
    folds = []
    for number, name in enumerate(asked):
        table = make_table(taxonomy, noise=1.2)
        third = table.instances // 2 % 3  # type: ignore[operator]
        split = np.where(third == number, "test", np.where(third == (number + 1) % 3, "val", "train"))
        settings = EvaluationSettings(by=("site",), resamples=100, classifier=name)
        folds.append(evaluate(replace(table, split=split), taxonomy, settings=settings))
    outcomes = [each.outcomes[each.name] for each in folds]
    pooled = pool_folds(folds, outcomes)
    right = np.concatenate([said_right(each) for each in folds])
    main = pooled.main
    assert main.answer_score("top1") == pytest.approx(right.mean())
    low, high = main.answer_interval("top1")
    assert low < right.mean() < high
    assert (main.errors.samples, main.errors.errors) == (len(right), (~right).sum())
    assert main.answer_by_depth[-1] == pytest.approx(right.mean())
    heads, rows = attribute_rows(pooled)
    site = np.concatenate([each.attributes["site"] for each in outcomes])
    assert rows["site = Graz"][heads.index("top-1 accuracy")].startswith(
        f"{right[site == 'Graz'].mean():.3f}"
    )
    one = len(set(asked)) == 1
    assert main.classifier.name == ("lda" if one else "each-fold")
    if not one:
        assert "on the embeddings in folds 1 and 3; the nearest class mean" in main.classifier.sentence
    again = EvaluationResult.from_dict(pooled.to_dict()).main
    assert again.answer_score("top1") == main.answer_score("top1")
    assert again.classifier.sentence == main.classifier.sentence

    compared = compare(
        {"folds": pooled.outcomes[pooled.name], "fold by fold": pooled.outcomes[pooled.name]},
        classifiers={"folds": [main.classifier.name], "fold by fold": ["lda"]},
        resamples=100,
        permutations=100,
    )
    shares = compared.metric("answer_top1").estimates
    assert shares["folds"].value == pytest.approx(right.mean())
    assert one or shares["fold by fold"].value != pytest.approx(right.mean())


def test_class_means_of_folds_have_the_interval_that_comparisons_have(taxonomy: Taxonomy) -> None:
    """Means over classes, of which some have few samples that are all right."""
    folds = []
    for number in range(3):
        table = make_table(taxonomy, noise=0.4)
        third = table.instances // 2 % 3  # type: ignore[operator]
        split = np.where(third == number, "test", np.where(third == (number + 1) % 3, "val", "train"))
        rare = taxonomy.leaves[: taxonomy.num_leaves // 3]
        kept = ~(torch.isin(table.nodes, rare) & (table.instances // 2 % 12 > 2))  # type: ignore[operator]
        table = replace(table, split=split).rows(kept)
        settings = EvaluationSettings(resamples=100, classifier="probe", protocols=("knn",))
        folds.append(evaluate(table, taxonomy, settings=settings))
    pooled = pool_folds(folds, [each.outcomes[each.name] for each in folds])
    outcomes = pooled.outcomes[pooled.name]
    names = [name for role, name in outcomes.classes if role == "knn"]
    assert names
    found = compare({"a": outcomes}, metrics=["knn.*"], resamples=20)
    shown = pooled.main.protocols["knn"]
    for name in names:
        estimate = found.metric(name).estimates["a"]
        assert shown.scores[name] == pytest.approx(estimate.value)
        assert shown.intervals[name] == pytest.approx((estimate.low, estimate.high))


def test_protocols_of_folds(folds: list[EvaluationResult], taxonomy: Taxonomy) -> None:
    outcomes = [each.outcomes[each.name] for each in folds]
    protocols = pool_folds(folds, outcomes).main.protocols
    aurocs = [each.main.protocols["node-scores"].scores["answers.auroc"] for each in folds]
    scores = protocols["node-scores"]
    assert scores.scores["answers.auroc"] == pytest.approx(np.mean(aurocs))
    held = np.concatenate([each.values["decisions", "coverage_at_0.9"] for each in outcomes])
    assert protocols["decisions"].scores["coverage_at_0.9"] == pytest.approx(np.nanmean(held))
    predicted, target = np.concatenate([np.stack(answers(each)) for each in folds], axis=1)
    for leaf in taxonomy.leaves.tolist():
        positive = target == leaf
        name = taxonomy.path_name(leaf)
        assert scores.by_node["answer_sensitivity"][name] == pytest.approx(
            (predicted[positive] == leaf).mean()
        )
        assert scores.by_node["positives"][name] == positive.sum()
    assert "mean.top1" in protocols["per-group"].scores


def test_folds_that_share_samples_are_refused(folds: list[EvaluationResult]) -> None:
    outcomes = [each.outcomes[each.name] for each in folds]
    with pytest.raises(DataError, match="two folds tested the same sample"):
        pool_outcomes([outcomes[0], outcomes[1], outcomes[0]])
