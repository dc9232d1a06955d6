"""Comparisons: the same samples, the right numbers, honest tests, and where on the tree methods differ."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from labeltree.errors import DataError
from labeltree.evaluation import Comparison, Outcomes, compare
from labeltree.evaluation.comparing.result_text import comparison_csv, comparison_text
from labeltree.evaluation.statistics import Bootstrap, GroupSums, holm, mcnemar, sign_flip_test
from labeltree.evaluation.statistics.means_over_nodes import largest_unseen
from labeltree.report.comparison_words import comparison_verdict
from labeltree.report.comparison_words import tested as say_tested
from labeltree.report.pages.comparison_page import comparison_page
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

TOP1, SEVERITY, AHP = ("features", "top1"), ("features", "mistake_severity"), ("embeddings", "ahp")


@pytest.fixture(scope="module")
def tree() -> Taxonomy:
    return Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak"), ("moss",)])


def _run(tree: Taxonomy, seed: int, share: float, *, n: int = 160, worse_at: int = -1) -> Outcomes:
    """Right with some probability, and less so for one node's samples."""
    rng = np.random.default_rng(seed)
    nodes = tree.leaves.numpy()[np.arange(n) % 4]
    right = (rng.random(n) < np.where(nodes == worse_at, 0.1, share)).astype(float)
    severity = np.where(right > 0, np.nan, rng.integers(1, 3, size=n))
    values = {TOP1: right, ("features", "accuracy_at_depth_2"): right, SEVERITY: severity}
    return Outcomes(np.arange(n) + 50, nodes, tree, {**values, AHP: rng.random(n)})


def test_only_shares_have_an_interval_where_all_samples_agree(tree: Taxonomy) -> None:
    run = _run(tree, 1, 0.5)
    ones = np.ones(len(run))
    same = replace(
        run, values={TOP1: ones, ("features", "cost"): ones}, no_share=frozenset({("features", "cost")})
    )
    found = compare({"a": same}, resamples=50)
    top1, cost = (found.metric(name).estimates["a"] for name in ("top1", "cost"))
    assert top1.low < 1
    assert cost.value == 1
    assert np.isnan([cost.low, cost.high]).all()


def test_differences_that_few_groups_make_are_named(tree: Taxonomy) -> None:
    one = replace(_run(tree, 1, 0.9), groups=np.arange(160) // 8)
    for differing in (4, 9):
        right = one.values[TOP1].copy()
        right[: 8 * differing : 8] = 1 - right[: 8 * differing : 8]
        other = replace(one, values={TOP1: right})
        found = compare({"a": replace(one, values={TOP1: one.values[TOP1]}), "b": other}, resamples=50)
        (part,) = found.metric("top1").differences.values()
        assert np.isnan(part.low) == (differing < 6)
        assert not np.isnan(part.p)
        said = "Fewer than 6 groups differ between methods in 'features top-1 accuracy': such" in " ".join(
            found.notes
        )
        assert said == (differing < 6)


def test_answers_count_where_all_runs_were_tested(tree: Taxonomy) -> None:
    """Tables without a split set different halves aside, of which each run was tested on the other."""
    halves = np.arange(160) < 80, (np.arange(160) >= 40) & (np.arange(160) < 120)
    runs = [_run(tree, seed, 0.6) for seed in (1, 2)]
    for run, half in zip(runs, halves, strict=True):
        for key in (TOP1, ("features", "accuracy_at_depth_2"), SEVERITY):
            run.values[key][~half] = np.nan
        run.predicted["probe"] = np.where(half, run.nodes, -1)
    found = compare({"a": runs[0], "b": runs[1]}, resamples=50, permutations=50)
    top1 = found.metric("top1")
    assert (top1.samples, found.metric("ahp").samples) == (40, 160)
    means = [run.values[TOP1][40:80].mean() for run in runs]
    assert [top1.estimates[name].value for name in "ab"] == pytest.approx(means)
    assert top1.differences["b"].value == pytest.approx(means[1] - means[0])
    assert "40 were tested in all of them" in " ".join(found.notes)
    runs[1].predicted["probe"][:80] = -1
    with pytest.raises(DataError, match="no sample was tested in all runs"):
        compare({"a": runs[0], "b": runs[1]}, resamples=50)


def test_numbers_are_those_of_the_statistics(tree: Taxonomy) -> None:
    a, b = _run(tree, 1, 0.6), _run(tree, 2, 0.8)
    result = compare({"a": a, "b": b}, resamples=200, permutations=300, seed=4)
    keys = list(a.values)
    stacked = np.stack([np.stack([run.values[key] for key in keys], axis=1) for run in (a, b)], axis=1)
    sums = GroupSums.of(stacked)
    bootstrap = Bootstrap(sums, resamples=200, seed=4)
    alone = bootstrap.interval([0, 1])
    differences = bootstrap.interval([-1, 1], method="percentile")
    p = sign_flip_test(sums.runs([1, 0]), permutations=300, seed=4)
    for k, entry in enumerate(result.metrics):
        assert (entry.role, entry.metric) == keys[k]
        mine, part = entry.estimates["b"], entry.differences["b"]
        assert mine.value == pytest.approx(np.nanmean(b.values[keys[k]]), rel=1e-12)
        assert (mine.low, mine.high) == pytest.approx((alone.low[k], alone.high[k]), rel=1e-12)
        assert part.value == pytest.approx(mine.value - entry.estimates["a"].value, rel=1e-9)
        assert (part.low, part.high) == pytest.approx((differences.low[k], differences.high[k]), rel=1e-9)
        assert part.p == p[k]
        counts = [int((~np.isnan(run.values[keys[k]])).sum()) for run in (a, b)]
        severity = keys[k] == SEVERITY
        assert part.test == ("studentised sign flips" if severity else "sign flips")
        assert entry.samples == counts[0]
        assert entry.counted == ({"a": (counts[0],) * 2, "b": (counts[1],) * 2} if severity else {})
    assert result.metric("top1").differences["b"].mcnemar == mcnemar(b.values[TOP1], a.values[TOP1])
    assert math.isnan(result.metric("ahp").differences["b"].mcnemar)
    assert not result.metric("mistake_severity").larger_is_better
    made, fewer = (int((~np.isnan(run.values[SEVERITY])).sum()) for run in (a, b))
    line = next(each for each in comparison_text(result).splitlines() if "severity" in each)
    assert f"| {made} / {fewer} " in line
    rows = list(csv.DictReader(comparison_csv(result).splitlines()))
    row = next(each for each in rows if each["metric"] == "mistake_severity")
    assert (row["samples"], row["a samples"], row["b samples"]) == (str(made), str(made), str(fewer))
    assert f"{made} / {fewer}" in comparison_page(result)
    assert result.metric("ahp", "embeddings").larger_is_better


def test_metrics_that_are_the_same_are_corrected_for_once(tree: Taxonomy) -> None:
    result = compare({"a": _run(tree, 1, 0.6), "b": _run(tree, 2, 0.8)}, resamples=20, permutations=99)
    parts = {entry.metric: entry.differences["b"] for entry in result.metrics}
    assert result.tests == 3
    expected = holm([parts[name].p for name in ("top1", "mistake_severity", "ahp")])
    found = [parts[name].corrected for name in ("top1", "mistake_severity", "ahp")]
    assert found == expected.tolist()
    assert parts["accuracy_at_depth_2"].corrected == parts["top1"].corrected


def test_only_common_samples_are_compared_in_one_order(tree: Taxonomy) -> None:
    a, b = _run(tree, 1, 0.6), _run(tree, 2, 0.8)
    shuffled = b.rows(np.random.default_rng(0).permutation(160)[:140])
    result = compare({"a": a, "b": shuffled}, resamples=20, permutations=20)
    assert result.samples == 140
    assert result.left_out == {"a": 20, "b": 0}
    common = np.isin(a.instances, shuffled.instances)
    expected = b.values[TOP1][common].mean() - a.values[TOP1][common].mean()
    assert result.metric("top1").differences["b"].value == pytest.approx(expected)
    assert result.metric("top1").differences["b"].mcnemar == mcnemar(
        b.values[TOP1][common], a.values[TOP1][common]
    )
    assert any("20 samples of 'a'" in note for note in result.notes)


def test_rows_of_one_sample_are_matched_by_their_order(tree: Taxonomy) -> None:
    a = _run(tree, 1, 0.6)
    twice = a.rows(np.repeat(np.arange(40), 2))
    twice.values[TOP1][:] = np.arange(80) % 2
    result = compare({"a": twice, "b": twice.rows(np.arange(80))}, resamples=20, permutations=20)
    assert result.samples == 80
    assert result.groups == 40
    assert result.grouped
    assert result.metric("top1").differences["b"].value == 0


def test_what_cannot_be_compared_is_refused(tree: Taxonomy) -> None:
    a = _run(tree, 1, 0.6)
    with pytest.raises(DataError, match="no test sample in common"):
        compare({"a": a, "b": replace(a, instances=a.instances + 1000)})
    with pytest.raises(
        DataError, match=r"160 samples have other labels in 'b' .* number 50, which is 'moss'"
    ):
        compare({"a": a, "b": replace(a, nodes=np.roll(a.nodes, 1))})
    with pytest.raises(DataError, match=r"different taxonomies \('animal'.* in 'a' alone, 'u'.* 'b' al"):
        compare({"a": a, "b": replace(a, taxonomy=Taxonomy.from_paths(list("uvwxyz")))})
    with pytest.raises(ValueError, match="baseline is 'c'"):
        compare({"a": a, "b": a}, baseline="c")
    with pytest.raises(ValueError, match="metrics names 'top2'; did you mean top1"):
        compare({"a": a, "b": a}, metrics=["top2"])
    with pytest.raises(ValueError, match="at least one"):
        compare({})


def test_groups_of_one_run_hold_for_all(tree: Taxonomy) -> None:
    a, b = _run(tree, 1, 0.6), _run(tree, 2, 0.8)
    groups = np.arange(160) // 5
    result = compare({"a": a, "b": replace(b, groups=groups)}, resamples=200, permutations=200)
    assert (result.groups, result.grouped) == (32, True)
    part = result.metric("top1").differences["b"]
    assert math.isnan(part.mcnemar), "it takes samples as independent"
    sums = GroupSums.of(np.stack([a.values[TOP1], b.values[TOP1]], axis=1)[:, :, None], groups)
    expected = Bootstrap(sums, resamples=200).interval([-1, 1], method="percentile")
    assert part.low == pytest.approx(expected.low[0], rel=1e-9)


def test_a_metric_that_one_method_lacks_has_no_difference(tree: Taxonomy) -> None:
    a, b = _run(tree, 1, 0.6), _run(tree, 2, 0.8)
    own = replace(b, values={**b.values, ("predictions", "own_top1"): b.values[TOP1]})
    result = compare({"a": a, "b": own}, resamples=20, permutations=20)
    entry = result.metric("own_top1")
    assert list(entry.estimates) == ["b"]
    assert entry.differences == {}
    assert "top-1 accuracy, own answers" in comparison_text(result)


def test_strata_are_the_metrics_of_their_samples(tree: Taxonomy) -> None:
    cat = int(tree.encode(["animal/cat"])[0])
    a, b = _run(tree, 1, 0.8), _run(tree, 2, 0.8, worse_at=cat)
    bands = np.where(a.nodes == cat, 2, np.where(a.nodes == int(tree.encode(["moss"])[0]), 0, 1))
    result = compare({"a": replace(a, bands=bands), "b": b}, resamples=100, permutations=400)
    rows = {
        ("subtree", "animal"): tree.ancestors.numpy()[a.nodes][:, 1] == int(tree.encode(["animal"])[0]),
        ("subtree", "animal/cat"): a.nodes == cat,
        ("subtree", "moss"): a.nodes == int(tree.encode(["moss"])[0]),
        ("depth", "depth 1"): a.nodes == int(tree.encode(["moss"])[0]),
        ("depth", "depth 2"): a.nodes != int(tree.encode(["moss"])[0]),
        ("frequency", "tail"): a.nodes == cat,
    }
    found = {(entry.kind, entry.name): entry for entry in result.strata if entry.metric == "top1"}
    assert set(found) > set(rows)
    for place, mask in rows.items():
        entry = found[place]
        assert entry.samples == mask.sum()
        for name, run in (("a", a), ("b", b)):
            assert entry.estimates[name].value == pytest.approx(run.values[TOP1][mask].mean())
        expected = b.values[TOP1][mask].mean() - a.values[TOP1][mask].mean()
        assert entry.differences["b"].value == pytest.approx(expected)
    surest = min(result.strata, key=lambda entry: entry.differences["b"].p)
    assert found["subtree", "animal/cat"].differences["b"].corrected < 0.05
    assert surest.differences["b"].value < 0
    assert found["subtree", "moss"].differences["b"].corrected > 0.05


def test_small_parts_and_metrics_of_the_whole_are_left_out(tree: Taxonomy) -> None:
    a = replace(_run(tree, 1, 0.8), whole=frozenset([TOP1]))
    assert compare({"a": a, "b": a}, resamples=9, permutations=9).strata == []
    b = _run(tree, 1, 0.8)
    kept = compare({"a": b, "b": b}, resamples=9, permutations=9, min_samples=41).strata
    assert {entry.name for entry in kept} == {"animal", "depth 2"}


def test_several_runs_add_the_variance_of_runs(tree: Taxonomy) -> None:
    runs = {name: [_run(tree, 10 * place + seed, share) for seed in range(4)]
            for place, (name, share) in enumerate((("a", 0.5), ("b", 0.9)))}  # fmt: skip
    result = compare(runs, run_names={"a": list("wxyz")}, resamples=200, permutations=50)
    assert result.methods == {"a": ["w", "x", "y", "z"], "b": ["1", "2", "3", "4"]}
    entry = result.metric("top1")
    values = [float(run.values[TOP1].mean()) for run in runs["b"]]
    assert entry.estimates["b"].runs == pytest.approx(values)
    assert entry.estimates["b"].value == pytest.approx(np.mean(values))
    assert entry.estimates["b"].sd == pytest.approx(np.std(values, ddof=1))
    assert entry.differences["b"].test == "runs and samples"
    assert entry.differences["b"].p < 0.001
    single = compare({name: run[0] for name, run in runs.items()}, resamples=200, permutations=50)
    assert math.isnan(single.metric("top1").estimates["b"].sd)
    assert any("independent runs" in note for note in result.notes)
    assert any("one run" in note for note in single.notes)


def test_comparisons_are_written_and_read(tree: Taxonomy) -> None:
    a, b, c = _run(tree, 1, 0.6), _run(tree, 2, 0.8), _run(tree, 3, 0.8)
    result = compare({"a": a, "b": [b, c]}, baseline="b", resamples=30, permutations=30)
    content = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    again = Comparison.from_dict(content)
    assert again.to_dict() == result.to_dict()
    assert math.isnan(again.metric("top1").estimates["a"].sd)
    with pytest.raises(DataError, match="format is 7"):
        Comparison.from_dict({**content, "format": 7})
    del content["metrics"][0]["estimates"]
    with pytest.raises(DataError, match="incomplete"):
        Comparison.from_dict(content)


def test_the_text_has_all_tables(tree: Taxonomy) -> None:
    cat = int(tree.encode(["animal/cat"])[0])
    a, b = _run(tree, 1, 0.8), _run(tree, 2, 0.8, worse_at=cat)
    text = comparison_text(compare({"first": a, "second": b}, resamples=100, permutations=400))
    assert "**first** (baseline)" in text
    assert "## Where on the tree they differ most" in text
    assert "## By the depth of the label" in text
    assert next(line for line in text.splitlines() if "animal/cat" in line).count("−*") == 1
    widths = {len(line) for line in text.splitlines() if line.startswith("| features")}
    assert len(widths) == 2, "columns of a table are equally wide"


def test_mcnemar_tests_no_mean_over_classes(tree: Taxonomy) -> None:
    a, b = _run(tree, 1, 0.6), _run(tree, 2, 0.8)
    balanced = ("knn", "features.balanced_top1")
    weights = np.where(a.nodes == a.nodes[0], 3.0, 1.0)
    runs = {
        name: replace(run, values={balanced: run.values[TOP1], TOP1: run.values[TOP1]}, weights=given)
        for name, run, given in (("a", a, {balanced: weights}), ("b", b, {balanced: weights}))
    }
    found = compare(runs, resamples=20, permutations=20)
    assert math.isnan(found.metric(balanced[1]).differences["b"].mcnemar)
    assert not math.isnan(found.metric("top1").differences["b"].mcnemar)
    equal = {name: replace(run, weights={balanced: weights * 0 + 0.3}) for name, run in runs.items()}
    found = compare(equal, resamples=20, permutations=20)
    assert not math.isnan(found.metric(balanced[1]).differences["b"].mcnemar)


def test_the_answers_are_what_the_classifier_is(tree: Taxonomy) -> None:
    run = _run(tree, 1, 0.5)
    ones = np.where(np.isnan(run.values[SEVERITY]), np.nan, 1.0)
    known = frozenset({SEVERITY})
    run = replace(run, values={SEVERITY: ones}, no_share=known, whole=known, smaller_is_better=known | {TOP1})
    found = compare({"a": run}, classifiers={"a": ["probe"]}, resamples=50)
    answer = found.metric("answer_mistake_severity", "answers")
    same = found.metric("mistake_severity", "features").estimates["a"]
    assert answer.estimates["a"].value == same.value == 1
    assert math.isnan(answer.estimates["a"].low)
    assert math.isnan(same.low)
    assert not answer.share
    assert not answer.larger_is_better


def _of_classes(tree: Taxonomy, right: np.ndarray, folds: np.ndarray | None = None) -> Outcomes:
    """Six samples of two classes, four and two, and their mean over classes, of each fold if there are."""
    key, nodes = ("knn", "balanced_top1"), tree.leaves.numpy()[[0, 0, 0, 0, 1, 1]]
    weights = np.array([0.25] * 4 + [0.5] * 2)
    return Outcomes(
        np.arange(6), nodes, tree, {key: right}, {key: weights}, classes={key: nodes},
        folds={} if folds is None else {key: folds}, protocols=("knn",), whole=frozenset({key}),
    )  # fmt: skip


def test_class_means_are_those_of_the_common_samples(tree: Taxonomy) -> None:
    right = np.array([1.0, 0, 0, 0, 1, 1])
    run, few = _of_classes(tree, right), _of_classes(tree, 1 - right).rows(np.array([0, 1, 4]))
    found = compare({"a": run, "b": few}, metrics=["knn.*"], resamples=20).metric("balanced_top1")
    assert found.estimates["a"].value == pytest.approx((1 / 2 + 1) / 2)
    assert found.estimates["b"].value == pytest.approx((1 / 2 + 0) / 2)
    folds = _of_classes(tree, right, np.array([0, 0, 1, 1, 0, 1]))
    kept = folds.rows(np.array([0, 1, 2, 4]))  # fold 0: half of the first, all of the second; fold 1: none
    weights = kept.weights["knn", "balanced_top1"]
    assert weights == pytest.approx([0.25, 0.25, 1, 0.5])
    assert weights @ kept.values["knn", "balanced_top1"] / weights.sum() == pytest.approx((0.75 + 0) / 2)


def test_intervals_of_class_means_say_what_classes_that_agree_may_hide(tree: Taxonomy) -> None:
    """Twelve samples of one class, three of each of the others: all right, or all wrong, in one run."""
    sizes, key = [12, 3, 3, 3], ("knn", "balanced_top1")
    of = np.repeat(np.arange(4), sizes)
    nodes, weights = tree.leaves.numpy()[of], 1 / np.array(sizes, dtype=float)[of]

    def run(right: np.ndarray) -> Outcomes:
        values = {key: right.astype(float)}
        return Outcomes(
            np.arange(21), nodes, tree, values, {key: weights}, classes={key: nodes}, protocols=("knn",)
        )

    half = np.arange(21) % 2 == 0
    first, second = run(np.where(of == 0, half, of < 3)), run(np.where(of == 0, ~half, of < 2))
    found = compare({"a": first, "b": second}, metrics=["knn.*"], resamples=20).metric("balanced_top1")
    a, difference = found.estimates["a"], found.differences["b"]
    # two classes of three right samples, one of three wrong ones, each sample 1/12 of the mean
    right, wrong = np.full(6, 1 / 12), np.full(3, 1 / 12)
    assert a.value - a.low > largest_unseen(right, 0.025)
    assert a.high - a.value > largest_unseen(wrong, 0.025)
    # b − a is lower if b errs in its right class, or a is right in its wrong one
    lower = largest_unseen(np.full(3 + 3, 1 / 12), 0.025)
    assert difference.value - difference.low > lower
    seen = compare({"a": first}, metrics=["knn.*"], resamples=20).metric("balanced_top1").estimates["a"]
    assert (seen.low, seen.high) == (a.low, a.high)
    assert difference.test == "sign flips"
    # three seeds that answer alike know no more of what the classes hide, and their test says so
    several = compare({"a": [first] * 3, "b": [second] * 3}, metrics=["knn.*"], resamples=20)
    of_seeds = several.metric("balanced_top1")
    assert of_seeds.estimates["a"].high - of_seeds.estimates["a"].low > 0.9 * (a.high - a.low)
    assert of_seeds.differences["b"].low < difference.value - lower
    assert of_seeds.differences["b"].p > 0.05


def test_classes_of_different_bands_are_in_no_mean_over_bands(tree: Taxonomy) -> None:
    a, b = _run(tree, 1, 0.6), _run(tree, 2, 0.8)
    key, leaves = ("knn", "top1_tail"), tree.leaves.numpy()
    runs = {}
    for name, run, tail in (("few", a, leaves[:3]), ("many", b, leaves[:1])):
        values = {key: np.where(np.isin(run.nodes, tail), run.values[TOP1], np.nan), TOP1: run.values[TOP1]}
        bands = np.where(np.isin(run.nodes, tail), 2, 0)
        given = {"weights": {key: np.ones(160)}, "whole": frozenset({key}), "bands": bands}
        runs[name] = replace(run, values=values, protocols=("knn",), **given)  # type: ignore[arg-type]
    found = compare(runs, metrics=["knn.*"], resamples=20)
    here = a.nodes == leaves[0]
    entry = found.metric("top1_tail")
    assert entry.samples == here.sum()
    assert entry.estimates["few"].value == pytest.approx(a.values[TOP1][here].mean())
    assert any("2 classes are not in the same band" in note for note in found.notes)
    alike = compare({"a": runs["few"], "b": runs["few"]}, metrics=["knn.*"], resamples=20)
    assert alike.metric("top1_tail").samples == np.isin(a.nodes, leaves[:3]).sum()
    assert not any("band" in note for note in compare(runs, resamples=20).notes)


def test_another_table_has_its_own_samples(tree: Taxonomy) -> None:
    a, b = _run(tree, 1, 0.6), _run(tree, 2, 0.8)
    key = ("transfer", "top1")
    other = {
        name: Outcomes(run.instances[:n], run.nodes[:n], tree, {key: run.values[TOP1][:n]})
        for name, run, n in (("a", a, 30), ("b", b, 24))
    }
    runs = {
        name: replace(run, elsewhere={"transfer": other[name]}, protocols=("transfer",))
        for name, run in (("a", a), ("b", b))
    }
    alone = compare(runs, metrics=["transfer.*"], resamples=20)
    assert (alone.samples, alone.groups, alone.left_out) == (24, 24, {"a": 6, "b": 0})
    assert any("6 samples of 'a'" in note for note in alone.notes)
    both = compare(runs, metrics=["transfer.*", "features.top1"], resamples=20)
    assert (both.samples, both.left_out) == (160, {"a": 0, "b": 0})
    assert any("'transfer' measures another table: 24 samples" in note for note in both.notes)
    assert any("6 samples of 'a' in the table of 'transfer'" in note for note in both.notes)
    wrong = replace(other["b"], nodes=np.roll(other["b"].nodes, 1))
    runs["b"] = replace(runs["b"], elsewhere={"transfer": wrong})
    found = compare(runs, metrics=["transfer.*", "features.top1"], resamples=20)
    assert [entry.metric for entry in found.metrics] == ["top1"]
    assert any("'transfer' is not compared" in note and "other labels" in note for note in found.notes)
    nothing = compare(runs, metrics=["transfer.*"], resamples=20)
    assert not nothing.metrics
    assert comparison_text(nothing)


def _without_split(tree: Taxonomy, seed: int) -> Outcomes:
    """Half of the samples, and of their groups, is tested; all are searched."""
    run, rng = _run(tree, seed, 0.7), np.random.default_rng(seed)
    tested = np.arange(len(run)) % 8 < 4  # of every other group of four
    values = {key: np.where(tested, run.values[key], np.nan) for key in (TOP1, SEVERITY)}
    recall = (rng.random(len(run)) < 0.6).astype(float)
    values |= {("embeddings", "recall_at_1"): recall, AHP: run.values[AHP]}
    values["embeddings", "parent_order_accuracy"] = 1 - values[TOP1]
    return replace(run, values=values, groups=np.arange(len(run)) // 4)


def test_samples_of_coarse_labels_are_counted_where_they_count(tree: Taxonomy) -> None:
    """They have an accuracy at the depths of their labels alone: no top-1, no violation, no search."""
    options = {"resamples": 50, "permutations": 50}
    depth = "features", "accuracy_at_depth_1"

    def coarse(seed: int) -> Outcomes:
        run = _run(tree, seed, 0.7)
        fine = np.arange(len(run)) % 40 >= 4  # the first of every ten groups is labelled coarsely
        values = {key: np.where(fine, column, np.nan) for key, column in run.values.items()}
        values[depth] = run.values[TOP1]
        values["features", "contradictions"] = 1 - run.values[TOP1]
        values["embeddings", "parent_violations"] = 1 - values[TOP1]
        values["embeddings", "cpcc"] = values[AHP]
        return replace(run, values=values, groups=np.arange(len(run)) // 4)

    runs = {name: coarse(seed) for seed, name in enumerate("ab")}
    every = compare(runs, **options)  # type: ignore[arg-type]
    said = (
        "160 samples that all runs have in common were compared, but not every number rests on all of them: "
        "answers, violations and retrieval on 144 of 36 groups, accuracy at depth 1 and contradictions on "
        "160 of 40 groups. Intervals (95%) and tests draw these groups"
    )
    assert every.notes[0].startswith(said)
    assert say_tested(every) == (
        "160 samples in 40 groups that all runs share: answers, violations and retrieval on 144 samples in "
        "36 groups, accuracy at depth 1 and contradictions on 160 samples in 40 groups"
    )
    few = "Only 36 groups were compared: small differences cannot be seen."
    assert comparison_verdict(every)[-1] == few
    of_top1 = compare(runs, metrics=["top1"], **options)  # type: ignore[arg-type]
    assert of_top1.blocks == {"answers": (144, 36)}
    assert of_top1.notes[0].startswith(
        "160 samples that all runs have in common were compared; 144 of 36 groups count in answers. "
    )
    assert comparison_verdict(of_top1)[-1] == few
    of_mistakes = compare(runs, metrics=["mistake_severity"], **options)  # type: ignore[arg-type]
    assert list(of_mistakes.blocks) == ["mistakes"]
    of_depth = compare(runs, metrics=[".".join(depth)], **options)  # type: ignore[arg-type]
    assert "were compared; intervals (95%) and tests draw from 40 groups" in of_depth.notes[0]


def test_numbers_say_what_they_rest_on_and_do_not_depend_on_others(tree: Taxonomy) -> None:
    runs = {name: _without_split(tree, seed) for seed, name in enumerate("ab")}
    options = {"resamples": 50, "permutations": 50, "min_samples": 10}
    every = compare(runs, **options)  # type: ignore[arg-type]
    for entry in every.metrics:
        alone = compare(runs, metrics=[f"{entry.role}.{entry.metric}"], **options)  # type: ignore[arg-type]
        (other,) = alone.metrics
        pairs = [(entry.differences["b"], other.differences["b"])]
        for part, apart in [*pairs, (entry.estimates["a"], other.estimates["a"])]:
            assert (part.value, part.low, part.high) == pytest.approx((apart.value, apart.low, apart.high))
        assert pairs[0][0].p == pytest.approx(pairs[0][1].p)
    assert every.blocks == {"answers": (80, 20), "violations": (80, 20), "retrieval": (160, 40)}
    assert [(every.metric(name).samples, every.metric(name).units) for name in ("top1", "ahp")] == [
        (80, 20),
        (160, 40),
    ]
    assert "answers and violations on 80 of 20 groups, retrieval on 160 of 40 groups" in every.notes[0]
    for name in ("embeddings recall at 1", "recall at 1", "embeddings.recall_at_1"):
        assert [entry.metric for entry in compare(runs, metrics=[name], **options).metrics] == ["recall_at_1"]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="did you mean recall_at_1"):
        compare(runs, metrics=["recall"])
    text = comparison_text(every)
    assert "= 1 − features top-1 accuracy" in text
    assert sum(line.startswith("| embeddings parent order accuracy") for line in text.splitlines()) == 0
    assert len(every.distinct) == len(every.metrics) - 1 == every.tests
    assert Comparison.from_dict(json.loads(json.dumps(every.to_dict()))).blocks == every.blocks
    (row,) = [
        line for line in text.splitlines() if line.startswith("| features top-1 accuracy") and "[0" in line
    ]
    assert row.split("|")[2].split() == ["80"]
