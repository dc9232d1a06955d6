"""How far methods are behind the best: margins, intervals, what is undefined, and the Pareto set."""

import math
from typing import Any

import pytest
import scipy.stats

from labeltree.report.pages.document import to_markdown
from labeltree.studies.shortfall import pareto_set, shortfall_blocks, shortfalls
from labeltree.studies.study_file import read_study
from labeltree.studies.study_plan import StudyError
from labeltree.studies.study_statistics import Summary

MARGINS = {"features/top1": 0.01, "embeddings/pair_violations": 0.02}


def results(values: dict[str, dict[str, list[float | None]]]) -> list[dict[str, Any]]:
    """One entry a run; values by method and column, in the order of the seeds."""
    return [
        {"method": method, "seed": seed, "scores": {name: column[seed] for name, column in columns.items()}}
        for method, columns in values.items()
        for seed in range(len(next(iter(columns.values()))))
    ]


def summary_of(**values: dict[str, list[float | None]]) -> Summary:
    return Summary(results(values))


A = {"features/top1": [0.80, 0.82, 0.81], "embeddings/pair_violations": [0.10, 0.11, 0.12]}
B = {"features/top1": [0.795, 0.812, 0.806], "embeddings/pair_violations": [0.05, 0.06, 0.08]}


def test_shortfalls_are_paired_by_seed_and_have_the_sign_of_the_column() -> None:
    found = shortfalls(summary_of(a=A, b=B), ["a", "b"], MARGINS)
    top, violations = found["b"]
    assert (top.best, violations.best) == ("a", "a"), "the best of the others"
    assert violations.mean == pytest.approx(-(0.05 + 0.05 + 0.04) / 3)
    assert violations.upper < 0
    assert violations.within
    behind = [0.005, 0.008, 0.004]
    test = scipy.stats.ttest_1samp(behind, 0)
    assert top.mean == pytest.approx(sum(behind) / 3)
    assert top.upper == pytest.approx(test.confidence_interval(0.90).high)  # two-sided 90 % = one-sided 95 %
    assert top.within == (top.upper < 0.01)
    other = found["a"][1]
    assert other.mean == pytest.approx((0.05 + 0.05 + 0.04) / 3)
    assert not other.within
    assert other.in_margins > 1


def test_the_order_of_the_runs_does_not_matter() -> None:
    rows = results({"a": A, "b": B})
    first = shortfalls(Summary(rows), ["a", "b"], MARGINS)
    again = shortfalls(Summary(rows[::-1]), ["a", "b"], MARGINS)
    for name in first:
        for one, two in zip(first[name], again[name], strict=True):
            assert one.mean == pytest.approx(two.mean)
            assert one.upper == pytest.approx(two.upper)


def test_one_seed_is_no_interval_and_never_within() -> None:
    one = {"features/top1": [0.8]}
    other = {"features/top1": [0.7999]}
    (found,) = shortfalls(summary_of(a=one, b=other), ["a", "b"], MARGINS)["b"]
    assert math.isnan(found.upper)
    assert not found.within
    text = to_markdown(shortfall_blocks(summary_of(a=one, b=other), ["a", "b"], MARGINS))
    assert "| b | 0 of 1 |" in text.replace("**", "")
    assert "Not of all methods" not in text


def test_a_method_with_easy_seeds_alone_is_not_the_best() -> None:
    rows = results({"a": A, "b": B})
    rows.append({"method": "lucky", "seed": 1, "scores": {"features/top1": 0.9}})
    found = shortfalls(Summary(rows), ["a", "b", "lucky"], {"features/top1": 0.01})
    assert [found[name][0].best for name in ("a", "b", "lucky")] == ["b", "a", "a"]
    assert found["lucky"][0].mean == pytest.approx(0.82 - 0.9)
    assert not found["lucky"][0].within
    far = [{"method": "far", "seed": seed, "scores": {"features/top1": 0.1}} for seed in (7, 8, 9)]
    for order in (far + rows, rows + far):
        text = to_markdown(shortfall_blocks(Summary(order), ["far", "a", "b"], {"features/top1": 0.01}))
        assert "nan" not in text
        assert text.index("| far |") > text.index("| b |")


def test_equal_means_are_treated_alike() -> None:
    first, second = {"features/top1": [0.8, 0.9]}, {"features/top1": [0.9, 0.8]}
    found = shortfalls(summary_of(a=first, b=second), ["a", "b"], MARGINS)
    assert found["a"][0].upper == pytest.approx(found["b"][0].upper)


def test_a_column_that_nobody_has_is_said() -> None:
    text = to_markdown(shortfall_blocks(summary_of(a=A, b=B), ["a", "b"], {**MARGINS, "features/tpo1": 1}))
    assert "Not measured: features/tpo1." in text


def test_a_method_is_compared_in_the_columns_that_it_has() -> None:
    broken = {**B, "features/top1": [None, None, None]}
    summary = summary_of(a=A, b=broken)
    for name in "ab":
        alone = shortfalls(summary, ["a", "b"], MARGINS)[name]
        assert [shortfall.column for shortfall in alone] == ["embeddings/pair_violations"]
    found = shortfalls(summary_of(a=A, b=broken, c=A), ["a", "b", "c"], MARGINS)
    assert [shortfall.column for shortfall in found["a"]] == list(MARGINS)
    assert [shortfall.column for shortfall in found["b"]] == ["embeddings/pair_violations"]
    text = to_markdown(shortfall_blocks(summary, ["a", "b", "not run yet"], MARGINS))
    assert "Not of all methods, so not in the Pareto set: features top-1 accuracy" in text
    assert "1 of 1" in text
    assert "not run yet" not in text
    assert shortfall_blocks(summary_of(a={"x/y": [1.0]}), ["a"], MARGINS) == []


def test_the_pareto_set() -> None:
    worse = {"features/top1": [0.79, 0.81, 0.80], "embeddings/pair_violations": [0.2, 0.2, 0.2]}
    summary = summary_of(a=A, b=B, c=worse, twin=A)
    assert pareto_set(summary, ["a", "b", "c", "twin"], list(MARGINS)) == ["a", "b", "twin"]


def test_the_least_worst_shortfall_comes_first() -> None:
    middle = {"features/top1": [0.799, 0.818, 0.809], "embeddings/pair_violations": [0.055, 0.065, 0.085]}
    text = to_markdown(shortfall_blocks(summary_of(a=A, b=B, middle=middle), ["a", "b", "middle"], MARGINS))
    rows = [line.split("|")[1].strip(" *") for line in text.splitlines() if line.startswith("| ")]
    assert rows == ["method", "middle", "b", "a"]


@pytest.mark.parametrize(
    ("margins", "what"),
    [
        ("{features/top1: 0}", "it must be a number above 0"),
        ("{features/top1: x}", "it must be a number above 0"),
        ("{top1: 0.1}", "columns are role/metric"),
        ("[1]", "margins by column"),
        ("{a/b: 1}, grid: {epochs: [1, 2]}", "margins compare methods"),
    ],
)
def test_margins_that_are_none(margins: str, what: str, tmp_path: Any) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(
        "{title: x, shared: {data: fashion-mnist}, methods: {a: }, seeds: [0], trial_seed: 0, "
        f"select: val_map_at_r, margins: {margins}}}"
    )
    with pytest.raises(StudyError, match=what):
        read_study(file)
