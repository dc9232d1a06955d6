"""How much there is to read: fewer than 6,000 words without a click, whatever was asked for."""

from __future__ import annotations

import pytest
from html_page import Page
from report_inputs import SMALL, clinic_table, large_ragged_tree, large_result

from labeltree.evaluation import EvaluationSettings, evaluate
from labeltree.report import render_report
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow
MOST = 6000


def test_folded_words_are_not_counted() -> None:
    page = Page(
        "<p>one two</p><details><summary>three</summary><p>four</p></details>"
        "<details open><summary>five</summary>six<details><p>seven</p></details></details>"
        "<table><tr data-folded><td>eight</td></tr><tr><td>nine</td></tr></table><div hidden>ten</div>"
    )
    assert " ".join(page.seen).split() == ["one", "two", "three", "five", "six", "nine"]
    assert page.words_seen == 6


@pytest.mark.long
def test_a_clinic_with_all_protocols() -> None:
    taxonomy = Taxonomy.from_paths(SMALL)
    table = clinic_table(taxonomy)
    settings = EvaluationSettings(
        resamples=20,
        protocols=("all",),
        options={"node-scores": {"questions": ("open=apparel/dress+footwear/sandal",)}},
        by=("site",),
    )
    result = evaluate(table, taxonomy, baselines={"other": table}, settings=settings)
    html = render_report(result, table, taxonomy, projection="PCA")
    assert len([found for found in result.main.protocols.values() if found.refusal is None]) > 8
    assert 1000 < Page(html).words_seen < MOST


def test_many_nodes_are_one_table() -> None:
    taxonomy = large_ragged_tree()
    table = clinic_table(taxonomy, copies=6, noise=0.6)
    settings = EvaluationSettings(resamples=0, protocols=("node-scores", "decisions"))
    page = Page(
        render_report(evaluate(table, taxonomy, settings=settings), table, taxonomy, projection="PCA")
    )
    assert page.words_seen < MOST
    rows = [attributes for tag, attributes in page.tags if tag == "tr" and attributes.get("class") == "rest"]
    assert len(rows) > 200
    assert sum("sortable" in (attributes.get("class") or "") for _, attributes in page.tags) == 1


@pytest.mark.long
def test_ten_thousand_classes() -> None:
    result, table, taxonomy = large_result()
    assert Page(render_report(result, table, taxonomy, projection="PCA")).words_seen < MOST
