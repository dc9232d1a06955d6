"""The curve over the dial `tree` in the report of a posterior space."""

from __future__ import annotations

import pytest
import torch
from html_page import Page
from report_inputs import SMALL, random_table

from labeltree.evaluation import evaluate
from labeltree.report import render_report
from labeltree.report.charts.dial_curve import dial_points
from labeltree.ridge import TreeRidgeLoss
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy


def test_the_curve_has_the_numbers_of_the_search_and_marks_the_chosen_point() -> None:
    taxonomy = Taxonomy.from_paths(SMALL)
    table = random_table(taxonomy, 16, noise=1.0)
    assert table.features is not None
    solver = TreeRidgeLoss(taxonomy, table.features.shape[1], tree=0.35)
    solver.solve(table.features, table.nodes)
    embeddings = torch.nn.functional.normalize(solver.embed(table.features.float()), dim=1)
    table = EmbeddingTable(embeddings, table.nodes, table.split, table.features)
    result = evaluate(table, taxonomy, answers_searched=())
    assert result.samples is not None
    points = dial_points(table, result.samples.plan, taxonomy, solver)
    assert [point.tree for point in points] == [0, 0.1, 0.2, 0.3, 0.35, *(k / 10 for k in range(4, 11))]
    chosen = points[4]
    assert chosen.map_at_r == pytest.approx(result.main.score("map_at_r", "embeddings"), abs=1e-6)
    assert chosen.ahp == pytest.approx(result.main.score("ahp", "embeddings"), abs=1e-6)
    html = render_report(result, table, taxonomy, projection="PCA", solver=solver)
    drawn = [a for tag, a in Page(html).tags if tag == "svg" and "dial tree" in (a.get("aria-label") or "")]
    assert len(drawn) == 2, "for wide and for narrow screens"
    assert "at 0.35" in str(drawn[0]["aria-label"])
    assert 'id="dial"' not in render_report(result, table, taxonomy, projection="PCA")
