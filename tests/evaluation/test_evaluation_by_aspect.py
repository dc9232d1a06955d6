"""Every aspect of the samples is measured like the labels are, and the means are over the aspects."""

from __future__ import annotations

import doctest
import importlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from labelled_vectors import tree_vectors

from labeltree.decisions.classifiers import PrototypeScores
from labeltree.errors import DataError
from labeltree.evaluation import AspectResult, EvaluationResult, aspect_means, evaluate, evaluate_aspects
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

MOOD = Taxonomy.from_paths(["bad/1", "bad/2", "fair/3", "good/4", "good/5"], root_name="service")
REGION = Taxonomy.from_paths(["eu", "us"], root_name="region")


@pytest.fixture(scope="module")
def rated(taxonomy: Taxonomy, table: EmbeddingTable) -> EmbeddingTable:
    """Samples with two aspects: ratings that a seventh of them lack, and a region; answers for both."""
    generator = torch.Generator().manual_seed(3)
    n = len(table)
    mood = MOOD.leaves[torch.randint(5, (n,), generator=generator)]
    region = REGION.leaves[torch.randint(2, (n,), generator=generator)]
    features = torch.cat([tree_vectors(MOOD, mood, 6, 0.4, 4), tree_vectors(REGION, region, 3, 0.3, 5)], 1)
    mood[torch.arange(n) % 7 == 1] = -1
    answers = torch.stack([mood.clamp_min(1).roll(1), region], dim=1)
    return replace(
        table,
        features=features,
        aspects=torch.stack([mood, region], dim=1),
        aspect_taxonomies=(MOOD, REGION),
        aspect_predictions=answers,
    )


def test_an_aspect_is_measured_like_a_table_of_its_labelled_samples(rated: EmbeddingTable) -> None:
    results, notes = evaluate_aspects(rated)
    assert list(results) == ["service", "region"]
    assert notes == []
    for number, tree in enumerate((MOOD, REGION)):
        alone = rated.aspect(number)
        expected = evaluate(alone.rows(alone.nodes > 0), tree).main
        got = results[rated.aspect_names[number]]
        scores = expected.scores["features"].items()
        for name, value in scores:
            if name.startswith(("lda_", "feature_mean_")):  # not of aspects
                continue
            assert got.scores[name] == pytest.approx(value, nan_ok=True), name
        for name, value in expected.scores["predictions"].items():
            assert got.scores[name] == pytest.approx(value, nan_ok=True), name
        assert got.by_depth == {key: expected.by_depth[key] for key in ("probe", "own")}
    assert results["service"].counts["left out: no label"] > 0
    assert results["region"].scores["own_top1"] == 1.0


def test_the_means_count_every_aspect_once(rated: EmbeddingTable, taxonomy: Taxonomy) -> None:
    result = evaluate(rated, taxonomy, baselines={"other": replace(rated, aspect_predictions=None)})
    service, region = result.main.aspects.values()
    means = result.main.scores["aspects"]
    assert means["aspect_top1"] == pytest.approx((service.scores["top1"] + region.scores["top1"]) / 2)
    assert service.scores["top1"] != region.scores["top1"]
    for name, protocol in (("", "probe"), ("own_", "own")):
        depths = [aspect.by_depth[protocol][0] for aspect in (service, region)]
        assert means[f"aspect_{name}accuracy_at_depth_1"] == pytest.approx(sum(depths) / 2)
    assert service.by_depth["probe"][0] > service.by_depth["probe"][1]
    assert "aspect_own_top1" not in result.methods["other"].scores["aspects"]
    written = json.loads(json.dumps(result.to_dict()))
    assert EvaluationResult.from_dict(written).to_dict() == written
    assert EvaluationResult.from_dict(written).main.aspects["service"] == service


def test_the_labels_are_measured_as_without_aspects(
    rated: EmbeddingTable, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    plain = evaluate(
        replace(rated, aspects=None, aspect_taxonomies=(), aspect_names=(), aspect_predictions=None), taxonomy
    )
    full = evaluate(rated, taxonomy)
    assert plain.main.aspects == {}
    assert "aspects" not in plain.main.scores
    assert {key: value for key, value in full.main.scores.items() if key != "aspects"} == plain.main.scores
    content = plain.to_dict()
    del content["methods"]["trained"]["aspects"]  # as results were before there were aspects
    assert EvaluationResult.from_dict(content) == plain


def test_an_aspect_that_cannot_be_measured_is_named(rated: EmbeddingTable, taxonomy: Taxonomy) -> None:
    assert rated.aspects is not None
    aspects = rated.aspects.clone()
    aspects[torch.from_numpy(rated.split == "train"), 0] = -1
    result = evaluate(replace(rated, aspects=aspects), taxonomy)
    assert list(result.main.aspects) == ["region"]
    (note,) = [note for note in result.notes if "'service'" in note]
    assert "no training sample has a label in it" in note
    aspects[:, 1] = torch.where(torch.from_numpy(rated.split == "test"), -1, aspects[:, 1])
    results, notes = evaluate_aspects(replace(rated, aspects=aspects))
    assert results == {}
    assert len(notes) == 2
    with pytest.raises(DataError, match="no rows of split 'dev'"):
        evaluate_aspects(rated, split="dev")


def test_one_class_to_learn_from_is_named_throughout(rated: EmbeddingTable) -> None:
    """With few training samples an aspect may have but one label among them."""
    assert rated.aspects is not None
    aspects = rated.aspects.clone()
    train = torch.from_numpy(rated.split == "train")
    aspects[train, 1] = torch.where(aspects[train, 1] == 1, 1, -1)
    results, _ = evaluate_aspects(replace(rated, aspects=aspects))
    tested = aspects[torch.from_numpy(rated.split == "test"), 1]
    assert results["region"].scores["top1"] == pytest.approx(float((tested == 1).double().mean()))


def test_a_score_that_is_not_defined_is_left_out_of_its_mean() -> None:
    results = {
        "a": AspectResult({"top1": 0.5, "map_at_r": math.nan}, {"probe": [0.75, 0.5]}, {}),
        "b": AspectResult({"top1": 1.0, "map_at_r": math.nan}, {"probe": [math.nan]}, {}),
    }
    means = aspect_means(results)
    assert math.isnan(means.pop("aspect_map_at_r"))
    assert means == {"aspect_top1": 0.75, "aspect_accuracy_at_depth_1": 0.75}


def test_samples_need_no_label_of_the_tree() -> None:
    """A data set may have aspects alone; `evaluate_aspects` asks for nothing else."""
    region = REGION.leaves.repeat(10)
    table = EmbeddingTable(
        tree_vectors(REGION, region, 4, 0.1, 0),
        torch.full_like(region, -1),
        np.where(np.arange(20) < 10, "train", "test"),
        aspects=region[:, None],
        aspect_taxonomies=(REGION,),
    )
    results, _ = evaluate_aspects(table)
    assert results["region"].scores["top1"] == 1.0


def test_the_example_runs() -> None:
    found = doctest.testmod(importlib.import_module("labeltree.evaluation.measure_method"))
    assert found.attempted > 0
    assert found.failed == 0


def test_where_no_test_class_was_learned_the_probe_has_no_top1(rated: EmbeddingTable) -> None:
    """As in the evaluation of the labels themselves, with a note."""
    assert rated.aspects is not None
    aspects = rated.aspects.clone()
    train = torch.from_numpy(rated.split == "train")
    bad, good = (MOOD.encode(paths) for paths in (["bad/1", "bad/2"], ["good/4", "good/5"]))
    place = torch.arange(len(aspects)) % 2
    aspects[:, 0] = torch.where(train, bad[place], good[place])
    table = replace(rated, aspects=aspects)
    results, notes = evaluate_aspects(table)
    assert math.isnan(evaluate(table.aspect(0), MOOD).main.scores["features"]["top1"])
    assert math.isnan(results["service"].scores["top1"])
    assert not math.isnan(results["service"].scores["own_top1"])
    assert not math.isnan(results["region"].scores["top1"])
    assert ["'service' has training samples" in note for note in notes] == [True]


def test_an_aspect_classifies_nothing_by_class_means(
    rated: EmbeddingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: PrototypeScores, table: EmbeddingTable) -> torch.Tensor:
        raise AssertionError(f"{len(table)} rows were classified")

    monkeypatch.setattr(PrototypeScores, "__call__", refuse)
    results, _ = evaluate_aspects(rated)
    assert list(results) == ["service", "region"]
