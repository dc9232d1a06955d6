"""The report and the terminal show aspects where there are some."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from report_inputs import SMALL, random_table

from labeltree.evaluation import EvaluationResult, evaluate
from labeltree.report.pages.report_page import render_report
from labeltree.report.tables.main_numbers import main_numbers_table
from labeltree.report.tables.metric_table import aspect_table
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

TREE = Taxonomy.from_paths(SMALL)
MOOD = Taxonomy.from_paths(["bad/1", "bad/2", "good/5"], root_name="<service>")
PLACE = Taxonomy.from_paths(["eu", "us"], root_name="place")


@pytest.fixture(scope="module")
def table() -> EmbeddingTable:
    table = random_table(TREE, 10)
    generator = torch.Generator().manual_seed(0)
    columns = [
        tree.leaves[torch.randint(len(tree.leaves), (len(table),), generator=generator)]
        for tree in (MOOD, PLACE)
    ]
    aspects = torch.stack(columns, dim=1)
    return replace(
        table, aspects=aspects, aspect_taxonomies=(MOOD, PLACE), aspect_predictions=aspects.roll(1, 0)
    )


@pytest.fixture(scope="module")
def result(table: EmbeddingTable) -> EvaluationResult:
    return evaluate(table, TREE, baselines={"other": replace(table, aspect_predictions=None)})


def test_a_row_an_aspect_and_the_mean(result: EvaluationResult) -> None:
    own, coarsest, exact, _ = groups = aspect_table(result, "image", "images")
    for group in groups:
        assert [row.metric.title for row in group.rows] == ["<service>", "place", "Mean over the aspects"]
    service = result.main.aspects["<service>"]
    assert own.rows[0].cells[0].text == f"{100 * service.by_depth['own'][0]:.1f}"
    assert own.rows[0].cells[1].text == "–"
    assert own.reads == ""
    assert coarsest.rows[0].cells[0].text == f"{100 * service.by_depth['probe'][0]:.1f}"
    assert exact.rows[0].cells[0].text == f"{100 * service.scores['top1']:.1f}"
    assert exact.rows[2].cells[0].text == f"{100 * result.main.score('aspect_top1'):.1f}"
    assert exact.rows[0].metric.name == f"3 classes, {service.counts['test samples']} images"
    assert exact.reads == "features"


def test_without_a_tree_the_exact_label_is_not_shown_twice(table: EmbeddingTable) -> None:
    assert table.aspects is not None
    flat = replace(
        table,
        aspects=table.aspects[:, 1:],
        aspect_taxonomies=(PLACE,),
        aspect_names=(),
        aspect_predictions=None,
    )
    groups = aspect_table(evaluate(flat, TREE), "image", "images")
    assert [group.question for group in groups] == [
        "Does a simple classifier get it right?",
        "Is the most similar image alike?",
    ]


def test_the_page_and_the_terminal(table: EmbeddingTable, result: EvaluationResult) -> None:
    page = render_report(result, table, TREE, projection="PCA", max_points=20)
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("&lt;service&gt;") == 4
    assert "<service>" not in page
    assert 'href="#aspects"' in page
    assert "accuracy at depth 1, own answers, mean over aspects" in main_numbers_table(result)


def test_nothing_of_it_where_there_are_none(table: EmbeddingTable) -> None:
    plain = replace(table, aspects=None, aspect_taxonomies=(), aspect_names=(), aspect_predictions=None)
    result = evaluate(plain, TREE)
    assert aspect_table(result, "image", "images") == []
    page = render_report(result, plain, TREE, projection="PCA", max_points=20)
    assert "aspect" not in page.split("</style>")[1].lower()
    assert "aspect" not in main_numbers_table(result)
