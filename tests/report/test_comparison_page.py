"""The comparison of several runs as a page: what it says, and that it works in a browser."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from html_page import Page
from report_inputs import SMALL, random_table

from labeltree.evaluation import EvaluationResult, EvaluationSettings, Outcomes, compare, evaluate
from labeltree.evaluation.comparing.comparison import Comparison, Difference
from labeltree.evaluation.comparing.result_text import comparison_text
from labeltree.report import comparison_page
from labeltree.report.comparison_words import (
    difference_text,
    estimate_text,
    metric_of_entry,
    verdict,
)
from labeltree.report.pages.comparison_page import DifferenceNode, _charted, _row_label, difference_tree
from labeltree.report.wording import metric_words
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import short_name

pytestmark = pytest.mark.slow

EVIL = "<b>ours</b> & co"


@pytest.fixture(scope="module")
def results() -> dict[str, EvaluationResult]:
    taxonomy = Taxonomy.from_paths([(*path[:-1], path[-1].replace("shirt", "a/<i>")) for path in SMALL])
    plain = random_table(taxonomy, 40, noise=1.3)
    assert plain.features is not None
    better = replace(plain, features=torch.nn.functional.normalize(plain.features, dim=1))
    nearer = replace(better, features=better.features + 1.2 * taxonomy_signal(taxonomy)[plain.nodes])
    settings = EvaluationSettings(resamples=0)
    return {
        name: evaluate(table, taxonomy, name=name, settings=settings)
        for name, table in (("plain", plain), (EVIL, nearer))
    }


def taxonomy_signal(taxonomy: Taxonomy) -> torch.Tensor:
    return torch.eye(8)[torch.arange(taxonomy.num_nodes) % 8]


@pytest.fixture(scope="module")
def comparison(results: dict[str, EvaluationResult]) -> Comparison:
    outcomes = {name: result.outcomes[name] for name, result in results.items()}
    return compare(outcomes, resamples=200, permutations=5000, min_samples=10)


def test_it_says_what_was_found(comparison: Comparison, results: dict[str, EvaluationResult]) -> None:
    html = comparison_page(comparison, results, title="Two & more")
    page = Page(html)

    assert html == comparison_page(comparison, results, title="Two & more")
    assert "<b>ours</b>" not in html
    assert "http" not in html.replace("http-equiv", "")
    entry = comparison.metric("top1")
    part = entry.differences[EVIL]
    assert part.corrected < 0.05
    assert f"better by {100 * part.value:.1f} points" in page.text
    assert f"{100 * part.value:+.1f} ▲ better" in page.text
    assert f"{EVIL} is significantly better than plain in" in page.text
    for note in comparison.notes:
        assert note in page.text
    assert {"differences", "values", "tree", "curve", "numbers", "notes"} <= page.ids()
    links = {(a.get("href") or "")[1:] for tag, a in page.tags if tag == "a"}
    assert links <= page.ids()
    bare = Page(comparison_page(comparison))
    assert "curve" not in bare.ids()


def test_metrics_have_words_and_nothing_is_minus_zero(comparison: Comparison) -> None:
    titles = {metric_words(e.metric).title for e in comparison.metrics}
    assert not [title for title in titles if "_" in title or "prototype" in title.lower()]
    assert {"Right at depth 2", "Shared path, by the nearest class mean"} <= titles
    entry = comparison.metric("top1")
    assert difference_text(entry, Difference(-0.0003, -0.002, 0.0001)) == ("0.0", "−0.2 to 0.0")
    shown = [metric_words(name).name for name in ("hp_at_1", "h_ap_map", "ap_at_depth_1")]
    assert shown == ["HP@1", "H-AP (relevance map)", "AP at depth 1"]
    severity = metric_words("prototype_mistake_severity")
    assert not severity.share
    assert not severity.larger_is_better


def test_less_is_better_points_the_same_way(comparison: Comparison) -> None:
    entry = comparison.metric("mistake_severity")
    assert not entry.larger_is_better
    less = Difference(-0.5, -0.7, -0.3, p=0.001, corrected=0.001)
    page = Page(comparison_page(replace(comparison, metrics=[replace(entry, differences={EVIL: less})])))
    assert "−0.50 ▲ better" in page.text
    expected = f"{EVIL} is significantly better than plain in the one metric that is compared"
    assert expected in page.text


def test_branches_hold_what_lies_inside_them(comparison: Comparison) -> None:
    tree = difference_tree(comparison, "top1", "features")

    def walk(nodes: list[DifferenceNode], above: str = "") -> list[str]:
        found = []
        for node in nodes:
            assert node.path.startswith(above)
            found += [node.path, *walk(node.children, node.path)]
        return found

    paths = walk(tree)
    entries = [e for e in comparison.strata if (e.kind, e.metric, e.role) == ("subtree", "top1", "features")]
    assert len(paths) == len(entries) > 5
    assert "apparel › tops › a/<i>" in paths
    assert max(cell.share for node in tree for cell in node.cells) <= 1


def test_rows_are_called_by_what_they_are_about(comparison: Comparison) -> None:
    """The metric where it is of all samples, else the branch; the detail names the metric then."""
    assert comparison.distinct
    assert comparison.strata
    for entry in comparison.distinct:
        assert _row_label(entry) == metric_of_entry(entry).title != ""
    for part in comparison.strata:
        assert _row_label(part) == f"In {short_name(part.name)}"


def test_one_method_has_no_differences(comparison: Comparison, results: dict[str, EvaluationResult]) -> None:
    alone = compare({"plain": results["plain"].outcomes["plain"]}, resamples=50)
    page = Page(comparison_page(alone, {"plain": results["plain"]}))
    assert "differences" not in page.ids()
    assert "tree" not in page.ids()
    assert re.search(r"\bnan\b", page.text) is None


def test_what_is_not_defined_is_a_dash(comparison: Comparison) -> None:
    entry = comparison.metric("top1")
    part = replace(entry.differences[EVIL], value=math.nan, low=math.nan, high=math.nan, corrected=math.nan)
    empty = replace(entry, differences={EVIL: part})
    page = Page(comparison_page(replace(comparison, metrics=[empty], strata=[])))
    assert re.search(r"\bnan\b", page.text) is None
    assert "do not differ significantly in top-1 accuracy" in page.text


def test_nothing_undefined_is_better_or_worse(
    comparison: Comparison, results: dict[str, EvaluationResult]
) -> None:
    entry = comparison.metric("top1")
    nothing = Difference(math.nan, p=0.001, corrected=0.001)
    assert verdict(entry, nothing) == "not sure"
    assert difference_text(entry, nothing)[0] == "–"
    # undefined for one method: no difference and no mark; for all: not drawn
    outcomes = {name: result.outcomes[name] for name, result in results.items()}
    key = next(key for key in outcomes["plain"].values if key[1] == "top1")
    gone = next(key for key in outcomes["plain"].values if key[1] == "recall_at_1")
    for name, run in outcomes.items():
        values = {k: np.full_like(v, np.nan) if k == gone else v for k, v in run.values.items()}
        if name == EVIL:
            values[key] = np.full_like(values[key], np.nan)
        outcomes[name] = replace(run, values=values)
    found = compare(outcomes, resamples=50, permutations=50, min_samples=10, metrics=["top1", "recall_at_1"])
    assert set(found.metric("top1").estimates) == {"plain"}
    assert not found.metric("top1").differences
    html = comparison_page(found)
    assert "nan" not in Page(html).text.lower()
    assert {row.metric for row in _charted(found) if row.role == gone[0]} == {"top1"}
    assert "better by" not in Page(html).text
    table = comparison_text(found)
    assert " nan" not in table
    assert "+*" not in table


def test_only_shares_are_shown_in_percent() -> None:
    taxonomy = Taxonomy.from_paths(["cat", "dog"])
    cost, length = ("decisions", "nll_after"), ("norms", "top1")
    rng = np.random.default_rng(0)
    runs = {
        name: Outcomes(
            np.arange(40), taxonomy.leaves.numpy()[np.arange(40) % 2], taxonomy,
            {cost: rng.random(40) + 1, ("decisions", "sure"): rng.random(40), length: rng.random(40) + 2},
            no_share=frozenset({cost, length}),
        )
        for name in "ab"
    }  # fmt: skip
    comparison = compare(runs, resamples=20, permutations=20, metrics=["decisions.*"])
    entry = comparison.metric("nll_after")
    assert [each.metric for each in _charted(comparison)] == ["sure"]
    assert estimate_text(entry, "a")[0] == f"{entry.estimates['a'].value:.2f}"
    assert difference_text(entry, replace(entry.differences["b"], value=1.5))[0] == "+1.50"
    assert not metric_of_entry(compare(runs, resamples=20, permutations=20).metric("top1")).share
    only = compare(runs, resamples=20, permutations=20, metrics=["decisions.nll_after"])
    assert "Log loss, after calibration" in comparison_page(only)
    content = comparison.to_dict()
    for each in content["metrics"]:
        del each["share"]
    assert Comparison.from_dict(content).metric("nll_after").share is None
    assert Comparison.from_dict(comparison.to_dict()).metric("nll_after").share is False
