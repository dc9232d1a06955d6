"""Questions about sets of nodes: their operating points, by attribute, and over folds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from labeltree.evaluation import EvaluationResult, EvaluationSettings, attribute_rows, evaluate, pool_folds
from labeltree.report.pages.first_screen import question_panels
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("bad", "a"), ("bad", "b"), ("good", "c"), ("good", "d")])
PATIENTS, EACH = 90, 2


def clinic(fold: int | None = None, wien: Sequence[int] = (24, 27, 54, 57, 84, 87)) -> EmbeddingTable:
    """Patients with two images each, some with two diagnoses; split in thirds, in turn by fold."""
    generator = torch.Generator().manual_seed(4)
    patient = torch.arange(PATIENTS).repeat_interleave(EACH)
    kind = torch.randint(4, (PATIENTS,), generator=generator)[patient]
    second = (torch.arange(len(patient)) % EACH == 1) & (patient % 9 == 0)
    kind = torch.where(second, (kind + 2) % 4, kind)
    points = torch.eye(4)[kind] + 0.7 * torch.randn(len(kind), 4, generator=generator)
    turn = (patient + (fold or 0)) % 3
    return EmbeddingTable(
        points,
        TREE.leaves[kind],
        np.array(["test", "val", "train"])[turn],
        instances=torch.arange(len(patient)),
        groups=patient,
        attributes={"site": np.where(np.isin(patient, wien), "Wien", "Graz")},
    )


def measure(
    fold: int | None = None, wien: Sequence[int] = (24, 27, 54, 57, 84, 87), **options: Any
) -> EvaluationResult:
    settings = EvaluationSettings(
        resamples=50,
        protocols=("node-scores",),
        options={"node-scores": {"questions": ("ill=bad",), **options}},
        by=("site",),
    )
    return evaluate(clinic(fold, wien), TREE, settings=settings)


@pytest.mark.parametrize("per", ["sample", "group"])
def test_the_chosen_threshold_is_kept_and_shown(per: str) -> None:
    result = measure(operating_point=0.95, per=per)
    found = result.main.protocols["node-scores"]
    cutoff = found.scores["ill.point_threshold"]
    assert 0 < cutoff < 1
    stored = result.to_dict()["methods"][result.name]["protocols"]["node-scores"]
    assert stored["scores"]["ill.point_threshold"] == cutoff
    (note,) = (note for note in found.notes if "the operating point, by" in note)
    assert note.startswith("ill: the operating point, by a sensitivity of 0.95 on validation samples")
    assert f"{cutoff:.4g}" in note
    (panel,) = question_panels(result, "image")
    hit, of = found.counts["ill: positive and found at the operating point"], found.counts["ill: positive"]
    assert found.scores["ill.point_sensitivity"] == pytest.approx(hit / of)
    assert f"sensitivity {100 * hit / of:.1f}" in panel.point
    assert f"({hit} of {of}, " in panel.point
    fewer = measure(operating_point=0.6, per=per).main.protocols["node-scores"]
    assert fewer.scores["ill.point_threshold"] > cutoff


@pytest.mark.parametrize("per", ["sample", "group"])
def test_folds_judge_every_case_at_the_threshold_of_its_fold(per: str) -> None:
    folds = [measure(fold, operating_point=0.9, per=per) for fold in range(3)]
    pooled = pool_folds(folds, [each.outcomes[each.name] for each in folds])
    found, parts = (
        pooled.main.protocols["node-scores"],
        [each.main.protocols["node-scores"] for each in folds],
    )
    for rate, hits, cases in (
        ("sensitivity", "positive and found at the operating point", "positive"),
        ("specificity", "negative and cleared at the operating point", "negative"),
    ):
        right, of = (sum(each.counts[f"ill: {name}"] for each in parts) for name in (hits, cases))
        assert found.scores[f"ill.point_{rate}"] == pytest.approx(right / of)
        assert found.counts[f"ill: {hits}"] == right
        low, high = found.intervals[f"ill.point_{rate}"]
        assert low < right / of < high
    thresholds = [each.scores["ill.point_threshold"] for each in parts]
    assert found.curves["ill.point_threshold"] == thresholds
    assert len(set(thresholds)) == 3
    (note,) = (note for note in found.notes if note.startswith("ill: the operating points, by"))
    assert all(f"{each:.4g}" in note for each in thresholds)
    assert note.removeprefix("ill: the") in question_panels(pooled, "image")[0].point
    assert any(
        "Rates of single nodes at operating points are given for every fold" in each for each in found.notes
    )
    if per == "group":
        positive, negative = found.counts["ill: positive"], found.counts["ill: negative"]
        assert positive + negative == PATIENTS, "patients with two diagnoses count in a question"
        assert found.counts["test groups left out of single nodes: labels contradict each other"] == 10
        assert any(each.startswith("10 test groups have labels that contradict") for each in found.notes)
        first = next(iter(found.by_node["positives"]))
        assert found.by_node["positives"][first] + found.by_node["negatives"][first] == PATIENTS - 10


def test_thresholds_do_not_see_the_samples_that_are_judged() -> None:
    table = clinic()
    other = table.nodes.clone()
    tested = torch.from_numpy(table.split == "test")
    other[tested] = TREE.leaves[torch.randint(4, (int(tested.sum()),))]
    settings = EvaluationSettings(
        resamples=0, protocols=("node-scores",), options={"node-scores": {"questions": ("ill=bad",)}}
    )
    found = [
        evaluate(
            EmbeddingTable(table.embeddings, nodes, table.split, groups=table.groups), TREE, settings=settings
        )
        for nodes in (table.nodes, other)
    ]
    first, second = (each.main.protocols["node-scores"].scores["ill.point_threshold"] for each in found)
    assert first == second


def test_a_question_has_its_rates_at_every_site() -> None:
    result = measure(operating_point=0.9, per="group")
    (graz, wien), found = result.main.by_attribute, result.main.protocols["node-scores"]
    for rate, of in (("sensitivity", "positive"), ("specificity", "negative")):
        key = f"node-scores.ill.decision_{rate}"
        counted = [part.counted[key] for part in (graz, wien)]
        assert sum(counted) == found.counts[f"ill: {of}"]
        right = [round(part.scores[key] * count) for part, count in zip((graz, wien), counted, strict=True)]
        assert sum(right) == found.counts[f"ill: {of} and answered right"]
        for part, hits, count in zip((graz, wien), right, counted, strict=True):
            exact = binomtest(hits, count).proportion_ci(method="exact")
            assert part.intervals[key] == pytest.approx((exact.low, exact.high)), "as over all samples"
        assert counted[1] < 6
    heads, rows = attribute_rows(result)
    assert {"ill: sensitivity", "ill: specificity", "ill: sensitivity at the operating point"} <= set(heads)
    assert len(rows["site = Wien"]) == len(heads)
    plain = attribute_rows(measure(per="group"))[0]
    assert "ill: sensitivity" in plain
    assert not any("operating point" in head for head in plain)


def test_few_patients_of_several_images_are_too_few_to_tell() -> None:
    table = clinic()
    assert table.groups is not None
    good = torch.isin(table.nodes, torch.as_tensor(TREE.descendants(TREE.find("good"))))
    ill, tested = set(table.groups[~good].tolist()), table.groups[torch.from_numpy(table.split == "test")]
    few = [patient for patient in torch.unique(tested).tolist() if patient not in ill][:4]
    result = measure(wien=few)
    key, wien = "node-scores.ill.decision_specificity", result.main.by_attribute[1]
    assert (wien.value, wien.counted[key], wien.counted_groups[key]) == ("Wien", 8, 4)
    assert np.isnan(wien.intervals[key]).all()
    heads, rows = attribute_rows(result)
    assert "[too few to tell]" in rows["site = Wien"][heads.index("ill: specificity")]
    pooled = pool_folds([result], [result.outcomes[result.name]])
    assert key in pooled.main.by_attribute[0].scores
