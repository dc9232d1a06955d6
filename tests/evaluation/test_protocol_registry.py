"""Protocols by name: how they are found, chosen, run and written."""

from __future__ import annotations

import doctest
import importlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.errors import DataError
from labeltree.evaluation import (
    Column,
    EvaluationResult,
    EvaluationSettings,
    Inputs,
    ProtocolResult,
    compare,
    describe_protocols,
    evaluate,
    get_protocol,
    list_protocols,
    load_outcomes,
    parse_options,
    protocol_table,
    register,
    save_outcomes,
)
from labeltree.evaluation import protocol_registry as registry
from labeltree.metrics.probe import LinearProbe
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Choices:
    factor: float = 2.0
    ks: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if self.factor < 0:
            raise ValueError(f"factor must be at least 0, got {self.factor}")


@pytest.fixture
def counting() -> object:
    """A protocol of somebody else's, for one test."""

    @register("test-counting", summary="counts", source="here", options=Choices)
    def count(inputs: Inputs, options: Choices) -> ProtocolResult:
        if not inputs.evaluated:
            raise DataError("no baseline has this")
        return ProtocolResult(
            "Counts",
            scores={"value": options.factor * len(inputs.tested), "value_sd": 0.5, "nothing": math.nan},
            curves={"c": [1.0, math.nan]},
            axes={"c": [1.0, 2.0]},
        )

    yield count
    del registry._entries["test-counting"]


@pytest.fixture
def near() -> object:
    """A protocol of somebody else's that returns columns, one for each representation."""

    @register("test-near", summary="is the nearest training sample of the same class?", source="here")
    def nearest(inputs: Inputs, options: object) -> list[Column]:
        columns = []
        for role, reading in inputs.chosen(["features", "embeddings"]).items():
            apart = torch.cdist(reading.vectors[inputs.tested], reading.vectors[inputs.learned])
            least, found = apart.min(1)
            same = inputs.nodes[inputs.learned][found] == inputs.nodes[inputs.tested]
            columns.append(Column(f"{role}.right", same, inputs.tested, by_node=True))
            far = Column(f"{role}.far", least, inputs.tested, share=False, larger_is_better=False)
            columns.append(far)
        return columns

    yield nearest
    del registry._entries["test-near"]


@pytest.mark.usefixtures("near")
def test_a_protocol_that_returns_columns_has_intervals_and_can_be_compared(
    taxonomy: Taxonomy, table: EmbeddingTable, tmp_path: Path
) -> None:
    noise = torch.randn(table.embeddings.shape, generator=torch.Generator().manual_seed(0))
    worse = replace(table, embeddings=table.embeddings + 3 * noise, features=None)
    settings = EvaluationSettings(resamples=300)
    found = []
    for name, measured in (("good", table), ("bad", worse)):
        result = evaluate(measured, taxonomy, name=name, protocols=["test-near"], settings=settings)
        save_outcomes(tmp_path / "outcomes.npz", result.outcomes)
        found.append((result, load_outcomes(tmp_path / "outcomes.npz")[name]))
    (good, of_good), (_, of_bad) = found
    numbers = good.main.protocols["test-near"]
    right = of_good.values["test-near", "embeddings.right"]
    assert numbers.scores["embeddings.right"] == pytest.approx(np.nanmean(right))
    assert set(numbers.intervals) == {"features.right", "features.far", "embeddings.right", "embeddings.far"}
    low, high = numbers.intervals["embeddings.right"]
    assert low <= numbers.scores["embeddings.right"] <= high
    assert numbers.by_node["embeddings.right"]["/"] == pytest.approx(numbers.scores["embeddings.right"])
    assert set(numbers.node_intervals["embeddings.right"]) <= set(numbers.by_node["embeddings.right"])
    standard = compare({"good": of_good, "bad": of_bad}, resamples=50, permutations=50)
    assert all(entry.role != "test-near" for entry in standard.metrics), "Holm corrects over what is asked"
    assert "test-near.*" in standard.notes[-1]
    pair = {"bad": of_bad, "good": of_good}
    both = compare(pair, metrics=["test-near.embeddings.*", "prototype_top1"], strata_metrics=["test-near.*"])
    assert [entry.metric for entry in both.metrics] == [
        "prototype_top1",
        "embeddings.right",
        "embeddings.far",
    ]
    entry = both.metric("embeddings.right", "test-near")
    bad_right = of_bad.values["test-near", "embeddings.right"]
    gain = np.nanmean(right) - np.nanmean(bad_right)
    assert entry.differences["good"].value == pytest.approx(gain)
    assert gain > 0.05
    assert entry.differences["good"].corrected < 0.05
    assert both.tests == 3
    assert not both.metric("embeddings.far", "test-near").larger_is_better
    assert {part.metric for part in both.strata} == {"embeddings.right", "embeddings.far"}
    with pytest.raises(ValueError, match=r"metrics names 'test-near.right'.*test-near.embeddings.right"):
        compare(pair, metrics=["test-near.right"])


def test_the_standard_evaluation_is_made_of_protocols(taxonomy: Taxonomy, table: EmbeddingTable) -> None:
    names = [entry.name for entry in registry.wanted_protocols([])]
    answers = ["probe", "prototypes", "lda", "feature-means", "own"]
    assert names == [*answers, "violations", "retrieval", "posterior"]
    assert [entry.name for entry in registry.wanted_protocols(["knn", "probe"])] == [*names, "knn"]
    assert describe_protocols("probe").startswith("probe: linear probe")
    plain = evaluate(table, taxonomy)
    asked = evaluate(table, taxonomy, protocols=["retrieval"])  # it runs anyway
    assert asked.main == plain.main
    assert set(plain.main.by_depth) == {"probe", "prototypes", "lda", "feature-means"}


def test_a_probe_is_fitted_once(
    taxonomy: Taxonomy, table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits: list[int] = []
    fit = LinearProbe.fit

    def counted(self: LinearProbe, vectors: torch.Tensor, classes: torch.Tensor) -> LinearProbe:
        fits.append(len(vectors))
        return fit(self, vectors, classes)

    monkeypatch.setattr(LinearProbe, "fit", counted)
    groups, apart = (
        torch.arange(len(table)) // 16,
        {"per-group": {"conflicts": "all", "roles": ("features",)}},
    )
    settings = EvaluationSettings(leave_group_out="never", resamples=0, options=apart)
    protocols = ["per-group", "frequency", "decisions"]
    found = evaluate(replace(table, groups=groups), taxonomy, protocols=protocols, settings=settings).main
    assert found.protocols["per-group"].refusal is None
    assert len(fits) == 2  # of the standard evaluation, and of probabilities


@pytest.mark.parametrize(
    ("values", "match"), [(torch.zeros(3), "shape"), (torch.zeros(2, 2), "one for each sample")]
)
def test_a_column_has_a_value_for_each_row(values: torch.Tensor, match: str) -> None:
    with pytest.raises(DataError, match=match):
        Column("x", values, torch.arange(2))


@pytest.mark.usefixtures("counting")
def test_a_protocol_of_ones_own(taxonomy: Taxonomy, table: EmbeddingTable) -> None:
    settings = EvaluationSettings(options={"test-counting": {"factor": 3.0, "ks": [2, 4]}})
    result = evaluate(
        table, taxonomy, protocols=["test-counting"], baselines={"raw": table}, settings=settings
    )
    tested = result.counts["test samples"]
    assert result.main.score("test-counting.value") == 3.0 * tested
    assert math.isnan(result.main.score("test-counting.other"))
    assert math.isnan(result.main.score("knn.top1"))
    raw = result.methods["raw"].protocols["test-counting"]
    assert raw.scores == {}
    assert raw.notes == ["Not measured: no baseline has this."]
    again = EvaluationResult.from_dict(json.loads(json.dumps(result.to_dict())))
    assert again.settings.protocols == ("test-counting",)
    assert str(again.main.protocols) == str(result.main.protocols)
    text = protocol_table(again)
    assert text.startswith("test-counting: Counts")
    assert f"{3.0 * tested:.4f} ± 0.5000" in text
    assert "nothing" not in text
    assert "value_sd" not in text


def test_names_and_options_are_checked_before_anything_is_measured(
    taxonomy: Taxonomy, table: EmbeddingTable
) -> None:
    with pytest.raises(ValueError, match="no protocol 'knm'; did you mean 'knn'"):
        evaluate(table, taxonomy, protocols=["knm"])
    wrong = EvaluationSettings(options={"knn": {"kss": 1}})
    with pytest.raises(ValueError, match="protocol 'knn' has no option 'kss'; did you mean 'ks'"):
        evaluate(table, taxonomy, protocols=["knn"], settings=wrong)
    with pytest.raises(ValueError, match="options of protocol 'knn': ks and main_k"):
        get_protocol("knn").choose({"ks": (0,)})
    wrong = EvaluationSettings(options={"knn": {"roles": ("pixels",)}})
    with pytest.raises(ValueError, match="options of protocol 'knn': roles are"):
        evaluate(table, taxonomy, protocols=["knn"], settings=wrong)
    with pytest.raises(ValueError, match="frequency_bounds must be"):
        EvaluationSettings(frequency_bounds=(9, 3))
    for name in ("all", "Big", "knn"):
        with pytest.raises(ValueError, match="cannot register"):
            register(name, summary="", source="")


def test_an_undefined_protocol_costs_no_other(taxonomy: Taxonomy, table: EmbeddingTable) -> None:
    found = evaluate(table, taxonomy, protocols=["seen-unseen", "knn"]).main.protocols
    assert "no test sample is of an unseen class" in str(found["seen-unseen"].refusal)
    assert found["knn"].refusal is None
    assert found["knn"].scores
    assert "Not measured" in describe_skipped(taxonomy, table)


def test_a_protocol_that_fails_costs_no_other(
    taxonomy: Taxonomy, table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(inputs: Inputs, options: object) -> ProtocolResult:
        raise ValueError("classes holds no class")

    broken.__module__ = "labeltree.evaluation.protocols.clusters"
    monkeypatch.setitem(registry._entries, "clustering", replace(get_protocol("clustering"), run=broken))
    found = evaluate(table, taxonomy, protocols=["clustering", "knn"]).main.protocols
    assert "failed: ValueError: classes holds no class" in str(found["clustering"].refusal)
    assert found["knn"].scores


def describe_skipped(taxonomy: Taxonomy, table: EmbeddingTable) -> str:
    """The notes of a protocol that is not defined, among all."""
    few = EvaluationSettings(
        options={"few-samples": {"per_class": 1, "seeds": 1}, "sgd-probe": {"epochs": 1}}
    )
    small = table.rows((table.nodes >= 0).nonzero().squeeze(1)[::3])
    result = evaluate(small, taxonomy, protocols=["all"], settings=few)
    assert {entry.name for entry in list_protocols() if not entry.standard} == set(result.main.protocols)
    return result.main.protocols["seen-unseen"].notes[0]


def test_options_from_a_command_line() -> None:
    found = parse_options(["knn.ks=1,5", "sgd-probe.balanced=true", "few-samples.shares=0.1,1.0"])
    assert found == {
        "knn": {"ks": (1, 5)},
        "sgd-probe": {"balanced": True},
        "few-samples": {"shares": (0.1, 1.0)},
    }
    assert parse_options(["seen-unseen.unseen=mammal/dog, fish"]) == {
        "seen-unseen": {"unseen": ("mammal/dog", "fish")}
    }
    for word, message in (
        ("knn", "must have the form"),
        ("knn.ks", "must have the form"),
        ("knn.kss=1", "did you mean 'ks'"),
        ("knn.main_k=many", "must be a whole number"),
        ("knn.main_k=0", "above 0"),
        ("sgd-probe.balanced=1", "true or false"),
        ("sgd-probe.learning_rate=x", "must be a number"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_options([word])
    text = describe_protocols("kn*")
    assert text.startswith("knn: ")
    assert "ks=1,5,20,200" in text


@pytest.mark.parametrize("name", ["protocol_registry", "json_numbers", "protocols.few_samples"])
def test_examples_run(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"labeltree.evaluation.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
