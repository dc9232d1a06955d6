"""The page: offline, escaped, deterministic, and true to its result."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from html_page import Page
from report_inputs import SMALL, large_ragged_tree, random_table
from torch import Tensor

from labeltree.errors import DataError
from labeltree.evaluation import EvaluationResult, EvaluationSettings, evaluate
from labeltree.report import render_report, write_report
from labeltree.report.pages import report_page
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def taxonomy() -> Taxonomy:
    return Taxonomy.from_paths(SMALL)


@pytest.fixture(scope="module")
def table(taxonomy: Taxonomy) -> EmbeddingTable:
    return random_table(taxonomy, 20)


@pytest.fixture(scope="module")
def result(table: EmbeddingTable, taxonomy: Taxonomy) -> EvaluationResult:
    pixels = replace(random_table(taxonomy, 20, noise=1.5, seed=1, features=False), geometry="euclidean")
    return evaluate(table, taxonomy, name="hwc", baselines={"raw pixels": pixels})


def grey(instances: Tensor) -> Tensor:
    return (instances % 251)[:, None, None, None].expand(-1, 3, 8, 8).to(torch.uint8)


def test_it_is_one_offline_file(
    tmp_path: Path, result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    path = write_report(result, table, taxonomy, tmp_path / "report.html", images=grey, projection="PCA")

    html = path.read_text("utf-8")
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    assert "http://" not in html
    assert "https://" not in html
    assert not re.search(r"url\(|@import|<link|\bon\w+=|eval\(|innerHTML|fetch\(", html)
    page = Page(html)
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "base")
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/"))
    policy = [
        a["content"] for t, a in page.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    ]
    data, script = page.scripts
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == [
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{known}'"
    ]
    assert len(json.loads(data)["names"]) == len(result.main.errors.nodes)


def test_it_says_what_the_result_says(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    page = Page(render_report(result, table, taxonomy, title="Clothes", projection="PCA"))

    text = page.text
    assert "Clothes" in text
    for name, method in result.methods.items():
        assert name in text
        for role in ("features", "embeddings"):
            assert f"{100 * method.scores[role]['recall_at_1']:.1f}" in text
    for note in result.notes:
        assert note in text
    assert "6 of 6 classes have fewer than 20 test samples" in text
    assert re.search(r" 10 \d+\.\d.%† ", text), "a class and its ten samples"
    assert "† Fewer than 20 samples: the shares of this row are uncertain." in text
    answering = result.methods["raw pixels"].classifier.name
    by = {"probe": "a simple classifier", "prototypes": "the nearest class mean"}[answering]
    assert re.search(rf"For comparison: raw pixels [\d.]+.% by {by}, ", text)
    assert f"raw pixels, {by.removeprefix('a ').replace('the nearest class mean', 'class means')}" in text
    assert f"{result.main.errors.errors} mistakes" in text
    worst = result.main.errors.confusions[0]
    assert taxonomy.names[worst.true_node] in text
    links = {(a.get("href") or "")[1:] for t, a in page.tags if t == "a"}
    assert links <= page.ids()
    assert {"numbers", "depth", "errors", "search", "why", "curve", "map", "notes"} == links


def test_names_are_escaped_everywhere() -> None:
    evil = "<script>alert('x')</script> & \"co\""
    taxonomy = Taxonomy.from_paths([(evil, "a<b"), (evil, "a>b"), ("plain", "c&d"), ("plain", evil)])
    table = random_table(taxonomy, 12, noise=2.0)
    result = evaluate(table, taxonomy, name=evil, baselines={f"other {evil}": table})
    assert result.main.errors.errors, "without mistakes the tree and the confusions would not be drawn"
    html = render_report(
        result,
        table,
        taxonomy,
        images=grey,
        title=evil,
        projection="PCA",
        history=[{"epoch": 1, evil: 1.0}, {"epoch": 2, evil: 2.0}],
        recipe={evil: {evil: evil}},
    )

    page = Page(html)
    assert html.count("<script") == html.count("</script>") == 2
    data, _ = page.scripts
    assert "<" not in data
    assert evil in json.loads(data)["names"]
    assert evil in page.text
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_pictures_are_those_of_the_instances(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    asked: list[Tensor] = []

    def images(instances: Tensor) -> Tensor:
        asked.append(instances)
        return grey(instances)

    page = Page(render_report(result, table, taxonomy, images=images, projection="PCA"))
    test = set(table.select("test").instances.tolist())
    assert len(asked) == 3
    searched, confused, explained = sorted(asked, key=lambda instances: not set(instances.tolist()) <= test)
    assert set(searched.tolist()) | set(confused.tolist()) <= test
    assert set(explained.tolist()) & set(table.select("train").instances.tolist())
    pictures = [image for image in page.images() if (image["alt"] or "").startswith(("query: ", "result "))]
    assert len(pictures) == 10 * 9
    assert len(page.images()) > len(pictures), "confusions have pictures"
    with pytest.raises(ValueError, match="images gave 1 images"):
        render_report(result, table, taxonomy, images=lambda i: grey(i)[:1], projection="PCA")


def test_without_images_the_searches_show_names(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    page = Page(render_report(result, table, taxonomy, projection="PCA"))
    assert page.images() == []
    assert sum(a.get("class") == "search" for _, a in page.tags) == 10
    assert "image" not in page.text


@pytest.mark.parametrize("grouped", [False, True])
def test_it_says_what_is_searched(taxonomy: Taxonomy, grouped: bool) -> None:
    """The other queries, or training samples where the queries have none of their class beside them."""
    leaves = len(taxonomy.leaves)
    for alone in (False, True):
        table = random_table(taxonomy, 12)
        row = torch.arange(len(table))
        split = np.where(row < leaves * (1 if alone else 4), "test", "train")
        table = replace(table, split=split, groups=row // 2 if grouped else None)
        page = Page(render_report(evaluate(table, taxonomy), table, taxonomy, projection="PCA"))
        searched = f"{11 * leaves} training samples" if alone else f"{4 * leaves} samples"
        own = ", without those of its own group" if grouped else ""
        assert f"the most similar of {searched}{own}, best first" in page.text


def test_the_same_input_gives_the_same_page(taxonomy: Taxonomy) -> None:
    table = random_table(taxonomy, 12)
    result = evaluate(table, taxonomy)
    first = render_report(result, table, taxonomy, images=grey, projection="t-SNE")
    torch.manual_seed(5)
    back = EvaluationResult.from_dict(result.to_dict())
    back = replace(back, outcomes=result.outcomes, classifiers=result.classifiers)
    assert render_report(back, table, taxonomy, images=grey, projection="t-SNE") == first
    assert "t-SNE" in first


def test_a_large_ragged_tree_is_cut_to_the_branches_that_err() -> None:
    taxonomy = large_ragged_tree()
    nodes = random_table(taxonomy, 4).nodes
    nodes[::17] = taxonomy.parent[nodes[::17]]
    nodes[::23] = -1
    table = replace(random_table(taxonomy, 4, noise=0.6, features=False), nodes=nodes, split=None)
    result = evaluate(table, taxonomy, settings=EvaluationSettings(hp_k=20))
    html = render_report(result, table, taxonomy, projection="PCA")

    page = Page(html)
    rows = sum((a.get("class") or "").split(" ")[0] == "row" for _, a in page.tags) - 2
    assert len(json.loads(page.scripts[0])["names"]) == len(result.main.errors.nodes)
    assert 10 < rows <= 46
    assert len(result.main.errors.nodes) > 200
    assert "and 4 more" in page.text or "and 3 more" in page.text
    assert len(html) < 1_000_000
    assert "half of each class" in page.text


@pytest.mark.parametrize("geometry", ["sphere", "euclidean", "poincare"])
def test_the_map_says_what_it_shows(taxonomy: Taxonomy, geometry: str) -> None:
    table = random_table(taxonomy, 12)
    points = 0.1 * table.embeddings if geometry == "poincare" else table.embeddings
    table = replace(table, geometry=geometry, embeddings=points)
    html = render_report(evaluate(table, taxonomy), table, taxonomy, projection="PCA", max_points=30)
    assert ("PCA of the tangent space" in html) == (geometry == "poincare")
    assert "one of 30 samples" in html


def test_one_class_without_mistakes(taxonomy: Taxonomy) -> None:
    nodes = taxonomy.encode(["shirt"] * 6)
    table = EmbeddingTable(torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), nodes)
    page = Page(render_report(evaluate(table, taxonomy), table, taxonomy))
    assert "no mistakes" in page.text
    assert "nan" not in page.text


def test_history_and_recipe_are_shown_when_given(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    history = [{"epoch": e, "train_loss": 1 / e, "constant": 2.0, "seconds": e / 3} for e in range(1, 6)]
    recipe = {"objective": "hwc+lam", "optimizer": {"lr": 0.003, "milestones": []}, "schedules": {}}
    page = Page(render_report(result, table, taxonomy, projection="PCA", history=history, recipe=recipe))
    assert "What training minimises Loss all terms together 1 → 0.2" in page.text
    assert "constant" not in page.text
    assert "seconds" not in page.text
    assert "optimizer.lr" in page.text
    assert "milestones" not in page.text
    assert "schedules" not in page.text
    assert "was trained" in page.text
    bare = Page(render_report(result, table, taxonomy, projection="PCA"))
    assert "training" not in bare.ids()
    assert "was trained" not in bare.text


def test_the_best_of_a_row_is_marked_in_the_right_direction(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    page = Page(render_report(result, table, taxonomy, projection="PCA"))
    main, pixels = (method.score("parent_violations") for method in result.methods.values())
    assert main < pixels, "the test needs different values"
    assert f"{100 * main:.1f} % (best)" in page.text
    assert f"{100 * pixels:.1f} % (best)" not in page.text


def test_another_table_is_refused(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    with pytest.raises(DataError, match="not the one that was evaluated"):
        render_report(result, table.rows(torch.arange(100)), taxonomy)
    with pytest.raises(ValueError, match="'UMAP'; expected 't-SNE' or 'PCA'"):
        render_report(result, table, taxonomy, projection="UMAP")


def test_searches_among_texts_show_them():
    taxonomy = Taxonomy.from_paths(SMALL)
    table = random_table(taxonomy, 12)
    result = evaluate(table, taxonomy)

    def texts(instances):
        return [f"the <b>text</b> of sample {i}, " + "which goes on and on " * 20 for i in instances.tolist()]

    html = render_report(result, table, taxonomy, texts=texts, projection="PCA")
    assert "the &lt;b&gt;text&lt;/b&gt; of sample 5" in html
    assert "<b>text</b>" not in html
    assert "on and on …" in html
    assert "texts" in html
    with pytest.raises(ValueError, match="texts gave 1 texts for"):
        render_report(result, table, taxonomy, texts=lambda i: texts(i)[:1], projection="PCA")


def test_every_part_of_the_page_is_given_its_own_numbers(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: dict[str, Any] = {}
    drawn: list[tuple[int, int]] = []

    def render(kind: str, title: str, **content: Any) -> str:
        shown.update(content)
        return f"{kind} {title}"

    def some(rows: Tensor, nodes: Tensor, most: int, seed: int) -> Tensor:
        drawn.append((most, seed))
        return rows[:most]

    monkeypatch.setattr(report_page, "render_page", render)
    monkeypatch.setattr(report_page, "stratified_subsample", some)
    monkeypatch.setattr(report_page, "promise_sentence", lambda result: "a promise")
    settings = replace(result.settings, seed=7)
    given = replace(result, settings=settings, cautions=["a caution", "a promise"])
    assert (
        render_report(given, table, taxonomy, title="Mine", projection="PCA", max_points=30) == "report Mine"
    )
    assert drawn == [(30, 7)]
    assert shown["plane_count"] == 30
    assert shown["cautions"] == ["a caution"], "the promise stands above them"
    assert shown["count_rows"] == sum(len(group.rows) for group in shown["groups"]) > len(shown["groups"])
    assert shown["other_branches"] == 0
    assert shown["whole_tree"] == len(shown["error_rows"]) == taxonomy.num_nodes
    assert (shown["few_cases"], shown["history"], shown["epochs"]) == (20, [], 0)
    assert shown["settings"][:1] != shown["recipe"] == []
