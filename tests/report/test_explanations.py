"""Why single answers, and every node in one table."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from html_page import Page
from report_inputs import SMALL, clinic_table

from labeltree.errors import DataError
from labeltree.evaluation import EvaluationResult, EvaluationSettings, evaluate
from labeltree.report import render_report
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.shown_samples import explanations
from labeltree.report.shown_samples.encode_pictures import ShownSamples
from labeltree.report.shown_samples.explanations import (
    Explained,
    choose_explained,
    explain_samples,
    explanation_rows,
)
from labeltree.report.tables.node_table import node_table
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy


@pytest.fixture(scope="module")
def taxonomy() -> Taxonomy:
    return Taxonomy.from_paths(SMALL)


@pytest.fixture(scope="module")
def table(taxonomy: Taxonomy) -> EmbeddingTable:
    return clinic_table(taxonomy)


@pytest.fixture(scope="module")
def result(table: EmbeddingTable, taxonomy: Taxonomy) -> EvaluationResult:
    settings = EvaluationSettings(resamples=20, protocols=("node-scores",))
    return evaluate(table, taxonomy, settings=settings)


def test_samples_are_explained_by_the_nearest_on_either_side(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    assert result.samples is not None
    found = explain_samples(result, table, result.samples, taxonomy)
    assert found is not None
    assert found.promised
    assert {each.kind for each in found.samples} == {"wrong", "coarse", "right"}
    assert set(table.split[found.training.numpy()]) == {"train"}
    for each in found.samples:
        label, likely = int(table.nodes[each.row]), each.likely
        assert table.split[each.row] == "test"
        assert (each.kind == "wrong") == (label != likely) or each.kind == "coarse"
        distances = table.space.pairwise_distance(
            table.embeddings[[each.row]].double(), table.embeddings[found.training].double()
        )[0]
        labels = table.nodes[found.training]
        for step in each.steps:
            inside = (labels >= step.node) & (labels < int(taxonomy.subtree_end[step.node]))
            assert step.speaks_for is not None
            assert step.speaks_for.distance == pytest.approx(float(distances[inside].min()))
            assert int(labels[step.speaks_for.row]) == step.speaks_for.node
            if step.speaks_against is not None:
                assert not inside[step.speaks_against.row]
        assert [step.taken for step in each.steps].count(False) <= 1


def test_the_first_are_the_most_severe_mistakes(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    found = explain_samples(result, table, result.samples, taxonomy)  # type: ignore[arg-type]
    assert found is not None
    wrong = [each for each in found.samples if each.kind == "wrong"]
    off = [int(taxonomy.lca_height(torch.tensor(e.likely), table.nodes[e.row])) for e in wrong]
    assert off == sorted(off, reverse=True)
    assert off[0] == taxonomy.max_height


def test_an_answer_is_coarse_only_if_it_holds_the_label(taxonomy: Taxonomy) -> None:
    shirt, sandal, boot, tops, footwear = (
        taxonomy.find(path)
        for path in (
            ("apparel", "tops", "shirt"),
            ("footwear", "sandal"),
            ("footwear", "closed", "boot"),
            ("apparel", "tops"),
            ("footwear",),
        )
    )
    cases = [
        (shirt, shirt, sandal, "wrong"),  # a class nearer to the root, of another branch
        (boot, boot, sandal, "wrong"),
        (shirt, shirt, footwear, "wrong"),
        (shirt, shirt, tops, "coarse"),
        (shirt, shirt, shirt, "right"),
        (boot, shirt, footwear, "wrong"),  # the answer holds the label, the most probable class does not
    ]
    for label, likely, answer, kind in cases:
        chosen = choose_explained(*map(torch.tensor, ([label], [likely], [answer], [0.4])), taxonomy)
        assert chosen == [(0, kind)]


def test_a_wrong_answer_is_called_wrong_and_unknown_is_left_to_predict(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    found = explain_samples(result, table, result.samples, taxonomy)  # type: ignore[arg-type]
    assert found is not None
    row = int((table.nodes == taxonomy.find(("apparel", "tops", "shirt"))).nonzero()[0])
    shirt, sandal = int(table.nodes[row]), taxonomy.find(("footwear", "sandal"))
    wrong = replace(found, samples=[Explained(row, "wrong", sandal, shirt, 0.4, [])])
    (said,) = explanation_rows(wrong, ShownSamples(table, None, None, None), taxonomy, NodeNames(taxonomy))
    assert said.heading == "shirt, answered sandal, most probable shirt (40\u202f%)"
    assert said.verdict == "answer wrong, 3 steps off"
    page = Page(render_report(result, table, taxonomy, projection="PCA")).text
    assert "the answers before any sample is called unknown" in page


def test_without_validation_samples_nothing_is_promised(taxonomy: Taxonomy, table: EmbeddingTable) -> None:
    plain = replace(table, split=np.where(table.split == "val", "train", table.split))
    result = evaluate(plain, taxonomy, settings=EvaluationSettings(resamples=0))
    found = explain_samples(result, plain, result.samples, taxonomy)  # type: ignore[arg-type]
    assert found is not None
    assert not found.promised
    assert all(each.answer == each.likely for each in found.samples)
    assert (
        "90"
        not in Page(render_report(result, plain, taxonomy, projection="PCA"))
        .text.partition("Why these answers")[2]
        .partition("Distances are")[0]
    )


def test_explanations_calibrate_on_groups_and_never_on_what_is_measured(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, object]] = []

    def fit_rule(scores: torch.Tensor, nodes: torch.Tensor, classes: object, **options: object) -> object:
        asked.append({"nodes": nodes, **options})
        raise DataError("too few")

    monkeypatch.setattr(explanations, "fit_rule", fit_rule)
    samples = result.samples
    assert samples is not None
    found = explain_samples(
        replace(result, settings=replace(result.settings, seed=7)), table, samples, taxonomy
    )
    assert found is not None
    assert not found.promised
    held = torch.from_numpy(table.split == "val")
    assert table.groups is not None
    (given,) = asked
    assert torch.equal(given["groups"], table.groups[held])  # type: ignore[arg-type]
    assert torch.equal(given["nodes"], table.nodes[held])  # type: ignore[arg-type]
    assert given["seed"] == 7
    explain_samples(result, table, replace(samples, split="val"), taxonomy)
    assert len(asked) == 1, "validation samples judge nothing that is fitted to them"
    nodes = table.nodes.clone()
    nodes[samples.test[1:]] = taxonomy.find("apparel")
    nodes[samples.train[:5]] = -1
    few = explain_samples(result, replace(table, nodes=nodes), samples, taxonomy)
    assert few is not None
    assert [each.row for each in few.samples] == [int(samples.test[0])], "the others are labelled coarsely"
    assert torch.equal(few.training, samples.train[5:]), "the first have no label"


def test_names_stand_for_what_cannot_be_shown(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    paths = np.array([f"/home/me/photos/{i}.png" for i in range(len(table))])
    named = replace(table, paths=paths)
    found = explain_samples(result, named, result.samples, taxonomy)  # type: ignore[arg-type]
    visible = torch.from_numpy(table.split == "test")
    asked: list[int] = []

    def images(instances: torch.Tensor) -> torch.Tensor:
        asked.extend(instances.tolist())
        return torch.zeros(len(instances), 3, 4, 4, dtype=torch.uint8)

    rows = explanation_rows(found, ShownSamples(named, images, None, visible), taxonomy, NodeNames(taxonomy))
    assert set(asked) <= set(table.instances[visible].tolist())
    assert all(row.source for row in rows)
    step = rows[0].steps[0]
    assert step.speaks_for is not None
    assert step.speaks_for.source is None
    assert step.speaks_for.name.startswith("photos/")
    assert "/home" not in str(rows)


def test_a_result_from_a_file_has_no_explanations(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    back = EvaluationResult.from_dict(result.to_dict())
    assert "why" not in Page(render_report(back, table, taxonomy, projection="PCA")).ids()


def test_every_node_is_a_row_of_one_table(result: EvaluationResult, taxonomy: Taxonomy) -> None:
    found = result.main.protocols["node-scores"]
    table = node_table(found)
    assert table is not None
    assert [row.path for row in table.rows] == [
        taxonomy.path_name(node) for node in range(1, taxonomy.num_nodes)
    ]
    assert table.hidden == 0
    for row in table.rows:
        value = found.by_node["answers.decision_sensitivity"][row.path]
        assert row.decided[0].text == f"{100 * value:.1f}"
        assert row.few == (found.by_node["answers.positives"][row.path] < 20)
    assert "† Fewer than 20" in table.note


def test_few_cases_of_either_kind_are_marked() -> None:
    counts = {"a": (500, 500), "b": (500, 5), "c": (5, 500), "d": (500, 20)}
    by_node = {
        f"answers.{name}": {path: float(pair[at]) for path, pair in counts.items()}
        for at, name in enumerate(("positives", "negatives"))
    }
    by_node["answers.decision_sensitivity"] = dict.fromkeys(counts, 0.5)
    table = node_table(SimpleNamespace(by_node=by_node, node_intervals={}))  # type: ignore[arg-type]
    assert table is not None
    assert {row.path: row.few for row in table.rows} == {"a": False, "b": True, "c": True, "d": False}
