"""The report: one HTML page that works offline, from one result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labeltree.atomic import write_text
from labeltree.decisions.evidence_for_answers import DISTANCES
from labeltree.errors import DataError
from labeltree.evaluation import EvaluationResult, choose_samples, read
from labeltree.evaluation.chosen_samples import stratified_subsample
from labeltree.evaluation.comparing.result_text import BEFORE_UNKNOWN
from labeltree.evaluation.fewest_samples import FEW_CASES
from labeltree.options.search import HOW_FAR_OFF
from labeltree.report.charts.bar_charts import method_mark
from labeltree.report.charts.dial_curve import dial_figure, dial_points
from labeltree.report.charts.disk import draw_disk, lay_out
from labeltree.report.charts.figures import curve_figure, depth_figure
from labeltree.report.charts.map_projection import draw_plane, project
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.charts.svg import legend_mark
from labeltree.report.charts.training_curves import history_groups, trained_with
from labeltree.report.charts.tree_colours import TreeColours
from labeltree.report.compare_answers import Differences, answer_differences, raw_is_better
from labeltree.report.next_steps import NextStep
from labeltree.report.pages.first_screen import (
    group_word,
    promise_panel,
    promise_sentence,
    question_panels,
    tested_sentence,
)
from labeltree.report.pages.number_tiles import tiles
from labeltree.report.pages.opening_sentences import further_sentences, opening
from labeltree.report.pages.template import read_script, render_page
from labeltree.report.shown_samples.encode_pictures import ShownSamples
from labeltree.report.shown_samples.explanations import explain_samples, explanation_rows
from labeltree.report.shown_samples.searches import choose_searches, search_legend, search_rows
from labeltree.report.tables.confusions import confusion_rows, example_pictures, taken_for, wrong_pairs
from labeltree.report.tables.error_tree_rows import ErrorTree, json_in_page, tree_data
from labeltree.report.tables.metric_table import aspect_table, metric_table
from labeltree.report.tables.protocol_tables import attribute_tables, protocol_blocks, tells_coverage
from labeltree.report.verdict import evaluation_verdict
from labeltree.ridge import TreeRidgeLoss
from labeltree.runs import EmbeddingTable
from labeltree.runs.versions import versions
from labeltree.taxonomy import Taxonomy

__all__ = ["render_report", "write_report"]

_DISK_POINTS = 600


def write_report(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy, path: str | Path, **options: Any
) -> Path:
    """Write the report as one HTML file, atomically.

    Args:
        result: As for `render_report`.
        table: As for `render_report`.
        taxonomy: As for `render_report`.
        path: Of the file.
        **options: Those of `render_report`.

    Returns:
        The path of the file.
    """
    write_text(path, render_report(result, table, taxonomy, **options))
    return Path(path)


def render_report(
    result: EvaluationResult,
    table: EmbeddingTable,
    taxonomy: Taxonomy,
    *,
    images: Callable[[Tensor], Tensor] | None = None,
    texts: Callable[[Tensor], list[str]] | None = None,
    visible: Tensor | None = None,
    title: str = "How well the embeddings follow the tree",
    history: Sequence[Mapping[str, float]] | None = None,
    validated_among: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    group_column: str | None = None,
    trained: Sequence[Mapping[str, Any]] | None = None,
    projection: str = "t-SNE",
    max_points: int = 1200,
    differences: Differences | None = None,
    solver: TreeRidgeLoss | None = None,
    steps: Sequence[NextStep] = (),
) -> str:
    """The report as a string of HTML: the same for the same input.

    Args:
        result: Of `labeltree.evaluation.evaluate`. If it has outcomes, what every branch and class is taken
            for and the samples that show a confusion come from them; otherwise from the most frequent
            confusions in the result.
        table: The table that was evaluated.
        taxonomy: The one it was evaluated with.
        images: From `(m,)` instances to `(m, c, h, w)` uint8 images; without, searches show names.
        texts: From `(m,)` instances to their texts, likewise.
        visible: `(n,)` bool, the rows of the table whose images and texts can be had; None = all.
        title: Of the page.
        history: a row for each epoch, from `RunFolder.read_history`.
        validated_among: What validation samples were searched for among, see
            `DataSummary`; None = the others of them.
        recipe: The settings of the run, nested or flat.
        group_column: The column of a table that its groups come from; None: that of the recipe.
        trained: The versions and devices of each part of the training, from `RunFolder.read_versions`.
        projection: `t-SNE` or `PCA`.
        max_points: The largest number of samples to project.
        differences: The `answer_differences` of the result; None = they are computed.
        solver: What made the embeddings, if they are a posterior space with dials.
        steps: Commands that may follow.

    Raises:
        DataError: If the table is not the one that the result comes from.
    """
    sample = "image" if images is not None else "text" if texts is not None else "sample"
    samples, group = f"{sample}s", group_word(recipe, group_column)
    split = "test" if result.split == "half" else result.split
    chosen = result.samples or choose_samples(table, taxonomy, split, result.settings)
    if (
        len(table) != result.counts["samples"]
        or chosen.counts["test samples"] != result.counts["test samples"]
    ):
        raise DataError("this table is not the one that was evaluated: its number of samples differs")
    names = NodeNames(taxonomy)
    colours = TreeColours(taxonomy, table.nodes[chosen.search])
    embeddings = read(table, "embeddings")
    searched = read(table, result.main.classifier.space.name)
    plan = chosen.plan
    searches = choose_searches(
        searched, table.nodes, plan.queries, taxonomy, gallery=plan.gallery, groups=plan.groups
    )
    mapped = chosen.search if len(chosen.search) else chosen.test
    shown = stratified_subsample(mapped, table.nodes[mapped], max_points, result.settings.seed)
    plane = project(embeddings, shown, table.nodes[shown], method=projection, seed=result.settings.seed)
    errors, outcomes = result.main.errors, result.outcomes.get(result.name)
    answering = result.main.classifier.name
    taken = taken_for(wrong_pairs(errors, outcomes, answering), taxonomy)
    examples = {}
    if images is not None:
        ids = torch.arange(len(table)) if table.instances is None else table.instances
        examples = example_pictures(
            errors, embeddings, chosen.test, table.nodes, ids, images, outcomes, classifier=answering
        )
    differences = answer_differences(result) if differences is None else differences
    questions = question_panels(result, sample, group)
    groups = metric_table(result, sample, samples)
    explained = explain_samples(result, table, chosen, taxonomy)
    shown_samples = ShownSamples(table, images, texts, visible)
    dial = None
    if solver is not None and not plan.undefined:
        hp_k, seed = result.settings.hp_k, result.settings.seed
        dial = dial_points(table, plan, taxonomy, solver, hp_k=hp_k, seed=seed)
    disk = None
    if embeddings.representation.geometry == "poincare":
        some = stratified_subsample(shown, table.nodes[shown], _DISK_POINTS, result.settings.seed)
        disk = lay_out(embeddings, chosen.search, some, table.nodes, taxonomy)
    attributes = attribute_tables(result) if result.main.by_attribute else []
    return render_page(
        "report",
        title,
        script=read_script(),
        sample=sample,
        samples=samples,
        opening=opening(result, taxonomy, samples, trained=recipe is not None),
        tested=tested_sentence(
            result,
            table,
            chosen.test,
            taxonomy,
            sample,
            group,
            alone=bool(questions),
            searched=chosen.plan.queries,
        ),
        questions=questions,
        promise=promise_panel(result, samples),
        verdict=evaluation_verdict(result, samples, differences),
        advice=raw_is_better(result, differences) if recipe is not None else "",
        sentences=further_sentences(result, samples, differences),
        steps=steps,
        tiles=tiles(result),
        methods=list(result.methods),
        has_intervals=any(m.intervals for m in result.methods.values()),
        confidence=result.settings.confidence,
        groups=groups,
        count_rows=sum(len(group.rows) for group in groups),
        aspects=aspect_table(result, sample, samples),
        depth=depth_figure(result, taxonomy, table.nodes[chosen.test]),
        errors=errors,
        error_rows=ErrorTree(errors, taxonomy, colours, names, taken).rows(),
        tree_data=json_in_page(tree_data(errors, taxonomy, colours, names, taken, samples)),
        guide_width=min(34, 300 // (taxonomy.max_depth + 1)),
        whole_tree=len(errors.nodes),
        few_cases=FEW_CASES if any(entry.samples < FEW_CASES for entry in errors.nodes) else 0,
        confusions=confusion_rows(errors, taxonomy, names, examples),
        confused=outcomes is not None and answering in outcomes.predicted,
        attributes=attributes,
        before_unknown=BEFORE_UNKNOWN if any(map(tells_coverage, attributes)) else "",
        protocols=protocol_blocks(result),
        curve=curve_figure(result),
        dial=None if solver is None or not dial else dial_figure(dial, float(solver.space["tree"])),
        plane=draw_plane(
            plane, taxonomy, colours, names, title=f"Map of {len(shown)} {samples} by {plane.method}"
        ),
        plane_method=plane.method,
        disk=disk,
        disk_chart=None
        if disk is None
        else draw_disk(disk, taxonomy, colours, names, title="The tree in the Poincaré disk"),
        plane_count=len(shown),
        plane_reads=embeddings.representation,
        branches=colours.branches,
        branch_marks=[legend_mark(b.shape, colour=b.colour) for b in colours.branches],
        method_marks=[method_mark(style) for style in range(len(result.methods))],
        other_branches=colours.others,
        searches=search_rows(searches, shown_samples, taxonomy, names),
        cautions=[said for said in result.cautions if said != promise_sentence(result)],
        explained=explanation_rows(explained, shown_samples, taxonomy, names),
        promised=explained is not None and explained.promised,
        searched=len(plan.queries if plan.gallery is None else plan.gallery),
        searched_words=("" if plan.gallery is None else "training ")
        + samples
        + ("" if plan.groups is None else ", without those of its own group"),
        search_reads=embeddings.representation,
        legend=search_legend(taxonomy),
        how_far_off=HOW_FAR_OFF,
        search_style="pictures" if images is not None else "words texts" if texts is not None else "words",
        history=history_groups(history) if history else [],
        epochs=len(history or []),
        validated_among=validated_among,
        evidence_measure=DISTANCES[embeddings.representation.geometry],
        notes=result.notes,
        counts=result.counts,
        settings=list(_flat(result.to_dict()["settings"])),
        recipe=list(_flat(recipe or {})),
        trained=trained_with(trained) if trained else [],
        versions=versions(),
        split="half of each class, the table has no splits" if result.split == "half" else result.split,
    )


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as `a.b` and value, without open or empty ones."""
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None and value not in ({}, [], ()):
            shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            yield f"{prefix}{key}", shown
