"""A comparison in words, of numbers that are given: each sentence names the right method, number and unit."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from typing import Any

import pytest

from labeltree.evaluation.comparing.comparison import (
    Comparison,
    Difference,
    Estimate,
    MetricComparison,
    StratumComparison,
)
from labeltree.metrics.catalogue import metric_name
from labeltree.report import comparison_words
from labeltree.report.comparison_words import (
    comparison_verdict,
    difference_text,
    p_text,
    sentences,
    short_rows,
    summary,
    verdict,
)
from labeltree.report.pages import comparison_page
from labeltree.report.pages.comparison_page import (
    _differences,
    _node,
    _own_samples,
    _row,
    difference_tree,
)


def difference(value: float, p: float, corrected: float | None = None) -> Difference:
    ends = (nan, nan) if p != p else (value - 0.02, value + 0.03)
    return Difference(value, *ends, p=p, corrected=p if corrected is None else corrected)


def entry(
    metric: str, values: dict[str, float], differences: dict[str, Difference], **given: Any
) -> MetricComparison:
    estimates = {name: Estimate(value, value - 0.1, value + 0.05) for name, value in values.items()}
    role, larger, samples = given.pop("role", "answers"), given.pop("larger", True), given.pop("samples", 400)
    kind = StratumComparison if "kind" in given else MetricComparison
    return kind(role, metric, larger, samples, estimates, differences, **{"units": 300} | given)


def branch(name: str, node: int, differences: dict[str, Difference], **given: Any) -> StratumComparison:
    place = {"kind": "subtree", "name": name, "node": node}
    made = entry("answer_top1", {"a": 0.5, "b": 0.6, "c": 0.7}, differences, **(place | given))
    assert isinstance(made, StratumComparison)
    return made


def comparison(
    metrics: list[MetricComparison], strata: list[StratumComparison] | None = None, **given: Any
) -> Comparison:
    names = {"a": ["one"], "b": ["two"], "c": ["three"]}
    fields: dict[str, Any] = {"methods": names, "samples": 400, "groups": 300, "grouped": True}
    fields |= {"left_out": {}, "confidence": 0.9, "tests": 4, "notes": ["A note."]}
    return Comparison(baseline="a", metrics=metrics, strata=strata or [], **(fields | given))


VALUES = {"a": 0.7, "b": 0.75, "c": 0.6}
TOP1 = entry("answer_top1", VALUES, {"b": difference(0.05, 0.01, 0.06), "c": difference(-0.1, 0.001, 0.004)})
VIOLATIONS = entry(
    "parent_violations",
    {"a": 0.3, "b": 0.25, "c": 0.2},
    {"b": difference(-0.05, 0.01, 0.02), "c": difference(-0.1, 0.2)},
    role="embeddings",
    larger=False,
)


def test_a_verdict_names_method_direction_numbers_and_units() -> None:
    said = [each.replace("\u202f", " ") for each in comparison_verdict(comparison([TOP1, VIOLATIONS]))]
    assert said == [
        "b and a do not differ significantly in top-1 accuracy: 75.0 % against 70.0 % (+5.0 points, interval "
        "+3.0 to +8.0). Tested alone, the difference would be significant (p = 0.010); corrected for the "
        "number of tests, it is not (p = 0.060).",
        "c is worse than a in top-1 accuracy: 60.0 % against 70.0 % (−10.0 points, interval −12.0 to −7.0).",
        "b is significantly better than a in 1 of 2 metrics and significantly worse in none; c is "
        "significantly better than a in none of 2 metrics and significantly worse in 1.",
    ]
    few = comparison_verdict(comparison([entry("answer_top1", VALUES, TOP1.differences, units=99)]))
    assert few[-1] == "Only 99 groups were compared: small differences cannot be seen."
    enough = comparison_verdict(comparison([entry("answer_top1", VALUES, TOP1.differences, units=100)]))
    assert not any("Only" in each for each in enough)
    assert summary(comparison([TOP1])) == (
        "b is not significantly different from a in the one metric that is compared; c is significantly "
        "worse than a in the one metric that is compared."
    )


def test_examples_are_the_surest_after_correction() -> None:
    """Of two further metrics the second is surer once p-values are corrected; of equals the larger."""
    none = entry("answer_top1", VALUES, {"b": difference(0.05, 0.5), "c": difference(0.0, 0.9)})
    first = entry("ndcg", VALUES, {"b": difference(0.1, 0.001, 0.04)}, role="embeddings")
    second = entry("asi", VALUES, {"b": difference(0.2, 0.002, 0.03)}, role="embeddings")
    larger = entry("h_ap", VALUES, {"b": difference(0.3, 0.002, 0.03)}, role="embeddings")
    for metrics, name in (([none, first, second], "asi"), ([none, second, larger], "h_ap")):
        said = [each for each in comparison_verdict(comparison(metrics)) if "for example" in each]
        assert said == [said[0]]
        assert said[0].startswith(f"b is better, for example, in {metric_name(name)} (+")


def test_branches_are_told_the_largest_difference_first() -> None:
    strata = [
        branch("x/one", 2, {"b": difference(0.1, 0.01), "c": difference(0.3, 0.2)}),
        branch("x/two", 3, {"b": difference(-0.2, 0.01), "c": difference(0.12, 0.04)}),
        branch("y", 5, {"b": difference(0.05, 0.01), "c": difference(0.02, 0.03)}),
        branch("z", 6, {"b": difference(0.9, 0.01)}, kind="depth"),
    ]
    said = comparison_verdict(comparison([TOP1], strata))[-1]
    assert said == (
        "By branch, top-1 accuracy differs significantly in x/two (b worse, −20.0 points, interval −22.0 to "
        "−17.0), x/two (c better, +12.0 points, interval +10.0 to +15.0), x/one (b better, +10.0 points, "
        "interval +8.0 to +13.0) and 2 more."
    )


def test_the_sentences_say_how_much_better_or_worse() -> None:
    said = [each.replace("\u202f", " ") for each in sentences(comparison([TOP1, VIOLATIONS]))]
    assert said[0].endswith(
        "(top-1 accuracy): a 70.0 %; b 75.0 %, not significantly different (+3.0 to +8.0); c 60.0 %, worse "
        "by 10.0 points (−12.0 to −7.0)."
    )
    assert said[1].endswith(
        ": a 30.0 %; b 25.0 %, better by 5.0 points (−7.0 to −2.0); c 20.0 %, not significantly different "
        "(−12.0 to −7.0)."
    )
    depth = entry(
        "answer_depth", {"a": 2.5, "b": 2.75}, {"b": difference(0.25, nan)}, larger=None, share=False
    )
    assert [each.partition(": ")[2] for each in sentences(comparison([TOP1, depth]))][:1] == [
        sentences(comparison([TOP1]))[0].partition(": ")[2]
    ]


def test_the_short_table_says_better_and_worse_where_it_is_significant() -> None:
    rows = short_rows(comparison([TOP1, VIOLATIONS]))
    assert rows[0] == ["", "a", "b", "difference", "c", "difference"]
    assert rows[1] == [
        "top-1 accuracy", "0.7000 [0.600, 0.750]",
        "0.7500 [0.650, 0.800]", "+0.0500 [+0.030, +0.080]",
        "0.6000 [0.500, 0.650]", "-0.1000 [-0.120, -0.070] worse",
    ]  # fmt: skip
    assert rows[2][3].endswith("] better")
    assert rows[2][5].endswith("]")


@pytest.mark.parametrize(
    ("value", "corrected", "larger", "said"),
    [
        (0.1, 0.0499, True, "better"),
        (0.1, 0.05, True, "not sure"),
        (-0.1, 0.01, True, "worse"),
        (-0.1, 0.01, False, "better"),
        (0.1, 0.01, False, "worse"),
        (0.1, 0.01, None, "neither"),
        (0.0, 0.01, True, "not sure"),
        (0.1, nan, True, "not sure"),
    ],
)
def test_significance_is_that_of_the_corrected_test(
    value: float, corrected: float, larger: bool | None, said: str
) -> None:
    part = Difference(value, 0.01, 0.2, p=0.0001, corrected=corrected)
    assert verdict(entry("answer_top1", VALUES, {}, larger=larger), part) == said


def test_p_values_and_signs_are_written_out() -> None:
    assert [p_text(p) for p in (nan, 0.00099, 0.001, 0.0444, 0.9949, 0.995)] == [
        "", "p < 0.001", "p = 0.001", "p = 0.044", "p = 0.995", "p = 1",
    ]  # fmt: skip
    number = entry("answer_top1", VALUES, {}, share=False)
    assert difference_text(number, Difference(-1.234, -2.0, 0.5)) == ("−1.23", "−2.00 to +0.50")
    assert difference_text(TOP1, Difference(0.1)) == ("+10.0", "")


def test_what_was_tested_is_counted_by_blocks() -> None:
    assert comparison_words.tested(comparison([TOP1])) == "400 samples in 300 groups that all runs share"
    blocks = {"answers": (60, 50), "violations": (60, 50), "retrieval": (400, 300)}
    assert comparison_words.tested(comparison([TOP1], blocks=blocks)) == (
        "400 samples in 300 groups that all runs share: answers and violations on 60 samples in 50 groups, "
        "retrieval on 400 samples in 300 groups"
    )
    assert comparison_words.tested(comparison([TOP1], grouped=False)) == "400 samples that all runs share"


def test_the_page_has_a_cell_for_each_method(monkeypatch: pytest.MonkeyPatch) -> None:
    row = _row(VIOLATIONS, ["a", "b", "c"])
    assert [cell["value"] for cell in row["cells"]] == ["30.0", "25.0", "20.0"]
    assert [cell["verdict"] for cell in row["cells"]] == ["", "better", "not sure"]
    assert [cell["difference"] for cell in row["cells"]] == ["", "−5.0", "−10.0"]
    assert [cell["p"] for cell in row["cells"]] == ["", "p = 0.020", "p = 0.200"]
    assert (row["counted"], row["units"]) == ("400", "300")
    counted = {"a": (11, 5), "b": (1200, 0), "c": (13, 7)}
    row = _row(entry("answer_top1", VALUES, {}, counted=counted), ["a", "b", "c"])
    assert (row["counted"], row["units"]) == ("11 / 1,200 / 13", "5 / – / 7")
    drawn = str(_differences([VIOLATIONS], "a", ["b", "c"]))
    assert "; + is fewer" in drawn
    assert "b: +5.0 (significant)" in drawn
    assert "c: +10.0 (not significant)" in drawn
    rows: list[Any] = []
    monkeypatch.setattr(comparison_page, "difference_chart", lambda given, *_, **named: rows.extend(given))
    monkeypatch.setattr(comparison_page, "for_screens", lambda draw: draw(narrow=False))
    _differences([TOP1, VIOLATIONS], "a", ["b", "c"])
    assert [row.values for row in rows] == [[0.05, -0.1], [0.05, 0.1]]
    assert [ends for row in rows for end in row.bounds for ends in end] == pytest.approx(
        [0.03, 0.08, -0.12, -0.07, 0.02, 0.07, 0.07, 0.12]
    )


def test_a_tree_of_differences_is_unfolded_to_what_is_significant() -> None:
    one, none = {"b": difference(-0.2, 0.01)}, {"b": difference(0.1, 0.5)}
    strata = [branch("", 0, none), branch("x", 1, none), branch("x/one", 2, one), branch("y", 5, none)]
    found = comparison([TOP1], strata[::-1])
    (top,) = difference_tree(found, "answer_top1", "answers", most_open=3)
    x, y = top.children
    assert [node.name for node in (top, x, x.children[0], y)] == ["All classes", "x", "one", "y"]
    assert [node.open for node in (top, x, x.children[0], y)] == [True, True, False, False]
    cell = x.children[0].cells[0]
    assert (cell.text, cell.ends, cell.verdict) == ("−20.0", "−22.0 to −17.0", "worse")
    assert (cell.share, cell.right) == (1.0, False)
    assert (y.cells[0].share, y.cells[0].right, y.samples, y.base) == (0.5, True, 400, "50.0")
    (small,) = difference_tree(found, "answer_top1", "answers", most_open=4)
    assert small.children[1].open
    assert _own_samples(found) == ""
    several = comparison([TOP1], left_out={"a": 0, "b": 3}, methods={"a": ["1", "2"], "b": ["3"], "c": []})
    assert _own_samples(several) == (
        "Every method on all its own test samples, including those that others do not have. For several "
        "runs, the mean."
    )


def test_where_less_is_better_a_lower_number_points_to_the_right() -> None:
    less = replace(branch("x", 1, {"b": difference(-0.2, 0.01)}), larger_is_better=False)
    cell = _node(less, ("x",), "a", 0.4).cells[0]
    assert (cell.right, cell.verdict, cell.share) == (True, "better", pytest.approx(0.5))
    more = replace(less, larger_is_better=True)
    assert not _node(more, ("x",), "a", 0.4).cells[0].right
