"""From a run, or anybody's embeddings, to ``metrics.json`` and ``report.html``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.data.progress import Progress, silent
from labeltree.decisions.classifiers import ChosenClassifier, ClassifierChoice, Classifiers
from labeltree.errors import RunError
from labeltree.evaluation import (
    EvaluationResult,
    EvaluationSettings,
    JudgingTaxonomy,
    evaluate,
    save_outcomes,
    translate,
)
from labeltree.inference.classifiers import run_classifiers
from labeltree.inference.embeddings import RAW_NAMES, run_tables, start_name
from labeltree.report.page import write_report
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import AnyTaxonomy, load_taxonomy

__all__ = ["Evaluated", "evaluate_embeddings", "evaluate_run"]

Shown = TypeVar("Shown")

# What a terminal shows: the metric, the role it is read from, and whether less is better.
ANSWERS = ("top1", "hierarchical_f1", "tree_accuracy")  # of the classifier that answers
HEADLINE = (
    ("recall_at_1", "features"),
    ("map_at_r", "features"),
    ("ahp", "embeddings"),
    ("parent_violations", "embeddings"),
    ("top1", None),
    ("prototype_top1", "embeddings"),
    ("own_top1", "predictions"),
    ("aspect_accuracy_at_depth_1", "aspects"),
    ("aspect_own_accuracy_at_depth_1", "aspects"),
    ("aspect_recall_at_1", "aspects"),
)
_NOT_ALWAYS = ("predictions", "aspects")


@dataclass(frozen=True)
class Evaluated:
    """Where an evaluation was written, and its main numbers as text."""

    result: EvaluationResult
    headline: str
    metrics: Path
    report: Path


def evaluate_run(
    path: str | Path,
    *,
    taxonomy: str | Path | None = None,
    classifier: ClassifierChoice | None = None,
    beside: Sequence[str | Path] = (),
    split: str = "test",
    out: str | Path | None = None,
    settings: EvaluationSettings | None = None,
    title: str | None = None,
    progress: Progress | None = None,
    verify: bool = False,
) -> Evaluated:
    """Evaluate a trained run beside the raw samples, the encoder before training and, if asked, other runs.

    Args:
        path: the run folder.
        taxonomy: a file with another taxonomy to evaluate on, a tree or a DAG, in which the labels are found
            by path or by name; None = the run's own.
        classifier: that answers from now on, and that the main numbers are of; None: the one that was decided
            on, see `run_classifiers`. Other runs have their own.
        beside: folders of other runs on the same samples, further rows of every table.
        split: that is measured.
        out: where the files go; None = the run folder, and for another taxonomy a folder in it.
        settings: default `EvaluationSettings()`.
        title: of the report; None = the data and the objective.
        progress: called as ``progress(message, done, total)``.
        verify: read all files of the runs' samples again; see `read_again`.

    Raises:
        RunError: if a run is not finished, its samples have changed since it was trained, or another run
            has other samples or another taxonomy.
        DataError: if a label is not in the other taxonomy.
        FolderInUseError: if another process writes where the files go.
    """
    folder = RunFolder(path).require()
    if out is None:
        out = folder.path if taxonomy is None else folder.path / f"on-{Path(taxonomy).stem}"
    with RunFolder(out).locked():
        return _evaluate_run(
            path, taxonomy, classifier, beside, split, out, settings, title, progress, verify
        )


def _evaluate_run(
    path: str | Path,
    taxonomy: str | Path | None,
    classifier: ClassifierChoice | None,
    beside: Sequence[str | Path],
    split: str,
    out: str | Path,
    settings: EvaluationSettings | None,
    title: str | None,
    progress: Progress | None,
    verify: bool,
) -> Evaluated:
    experiment, tables = run_tables(path, progress=progress, verify=verify)
    own, recipe = experiment.source.taxonomy, experiment.module.recipe
    name = recipe.objective
    classifiers = {name: run_classifiers(path, experiment, classifier, table=tables["trained"])}
    others: dict[str, EmbeddingTable] = {}
    for other in beside:
        theirs, their_tables = run_tables(other, ["trained"], progress, verify=verify)
        mine, yours = tables["trained"], their_tables["trained"]
        same = torch.equal(mine.instances, yours.instances)  # type: ignore[arg-type]
        if theirs.source.taxonomy != own or not (same and _same_contents(experiment.source, theirs.source)):
            raise RunError(
                f"'{other}' cannot stand beside '{path}': it has other samples or another taxonomy"
            )
        label = theirs.module.recipe.objective
        label = label if label not in {name, *others} else f"{label} ({Path(other).name})"
        others[label] = yours
        classifiers[label] = run_classifiers(other, theirs, table=yours)
    raw = RAW_NAMES[experiment.module.encoder.modality]
    baselines = {**others, start_name(recipe): tables["untrained"], raw: tables["raw"]}
    table, named = tables["trained"], f"{Path(recipe.data).stem}: {recipe.objective}"
    judge: AnyTaxonomy = own
    folder = RunFolder(path)
    if taxonomy is not None:
        judge, where = load_taxonomy(taxonomy), f"'{taxonomy}'"
        table = translate(table, own, judge, where)
        baselines = {key: translate(entry, own, judge, where) for key, entry in baselines.items()}
        named += f", measured on {Path(taxonomy).stem}"
    settings = replace(settings or EvaluationSettings(), classifier=classifiers[name].chosen.asked)
    result = evaluate(
        table,
        judge,
        name=name,
        baselines=baselines,
        split=split,
        settings=settings,
        # on another taxonomy, or learned otherwise, they are others: what was chosen stays
        classifiers=classifiers if taxonomy is None and _as_usual(settings) else _chosen(classifiers),
        progress=progress,
    )
    return _write(
        result,
        table,
        judge,
        RunFolder(out),
        shown=experiment.source,
        title=title or named,
        history=folder.read_history(),
        recipe=recipe.to_dict(),
        trained=folder.read_versions(),
        progress=progress,
    )


def _as_usual(settings: EvaluationSettings) -> bool:
    """Whether classifiers are learned as those of a run are."""
    usual = EvaluationSettings()
    return all(
        getattr(settings, k) == getattr(usual, k) for k in ("standardize", "max_probe_samples", "seed")
    )


def _chosen(classifiers: Mapping[str, Classifiers]) -> dict[str, ChosenClassifier]:
    return {name: entry.chosen for name, entry in classifiers.items()}


def _same_contents(first: Source, second: Source) -> bool:
    """Whether the samples of two sources hold the same, one by one."""
    return bool(np.array_equal(first.sample_digests(), second.sample_digests()))


def evaluate_embeddings(
    embeddings: str | Path,
    taxonomy: str | Path,
    *,
    out: str | Path,
    split: str = "test",
    settings: EvaluationSettings | None = None,
    title: str | None = None,
    progress: Progress | None = None,
) -> Evaluated:
    """Evaluate a table of embeddings that anybody made.

    Args:
        embeddings: ``.npz`` or ``.parquet``; see `EmbeddingTable.load`.
        taxonomy: a taxonomy file, a tree or a DAG.
        out: the folder that the files go to.
        split: that is measured, where the table has splits.
        settings: default `EvaluationSettings()`.
        title: of the report; None = the name of the table's file.
        progress: called as ``progress(message, done, total)``.
    """
    judge = load_taxonomy(taxonomy)
    table = EmbeddingTable.load(embeddings, judge)
    name = Path(embeddings).stem
    with RunFolder(out).locked():
        result = evaluate(table, judge, name=name, split=split, settings=settings, progress=progress)
        return _write(result, table, judge, RunFolder(out), title=title or name, progress=progress)


def _write(
    result: EvaluationResult,
    table: EmbeddingTable,
    taxonomy: AnyTaxonomy,
    folder: RunFolder,
    *,
    title: str,
    progress: Progress | None,
    shown: Source | None = None,
    history: list[dict[str, float]] | None = None,
    recipe: dict[str, object] | None = None,
    trained: list[dict[str, object]] | None = None,
) -> Evaluated:
    folder.write_json(folder.metrics, result.to_dict())
    save_outcomes(folder.outcomes, result.outcomes)
    judging = JudgingTaxonomy.of(taxonomy)
    (progress or silent)("drawing the report", 0, 0)
    write_report(
        result,
        judging.table(table),
        judging.tree,
        folder.report,
        images=None if shown is None or shown.store is None else _by_instance(shown, shown.load),
        texts=None if shown is None or shown.texts is None else _by_instance(shown, shown.read),
        title=title,
        history=history,
        recipe=recipe,
        trained=trained,
    )
    return Evaluated(result, headline(result), folder.metrics, folder.report)


def headline(result: EvaluationResult) -> str:
    """The main numbers of every method with their confidence intervals, as a plain-text table.

    First come those of the classifier that answers, then what embeddings are worth without one, then every
    classifier by itself.
    """
    shown = [
        (metric, role)
        for metric, role in HEADLINE
        if role not in _NOT_ALWAYS or any(metric in m.scores.get(role, {}) for m in result.methods.values())
    ]
    answers = [f"its {metric.replace('_', ' ')}" for metric in ANSWERS]
    columns = [["", "classifier", *answers, *(_title(metric) for metric, _ in shown)]]
    for name, method in result.methods.items():
        found = [_shown(method.answer_score(metric), method.answer_interval(metric)) for metric in ANSWERS]
        others = [_shown(method.score(metric, role), method.interval(metric, role)) for metric, role in shown]
        columns.append([name, method.classifier.name, *found, *others])
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
    if any(method.intervals for method in result.methods.values()):
        lines.append(
            f"in brackets: {result.settings.confidence:.0%} confidence intervals over the test samples"
        )
    return "\n".join([*lines, result.main.classifier.sentence, *result.cautions])


def _title(metric: str) -> str:
    return "probe top1" if metric == "top1" else metric.replace("_", " ")


def _shown(value: float, bounds: tuple[float, float]) -> str:
    if math.isnan(value):
        return "–"
    low, high = bounds
    ends = "" if math.isnan(low) else f" [{low:.3f}, {high:.3f}]"
    return f"{value:.4f}{ends}"


def _by_instance(source: Source, get: Callable[[Tensor], Shown]) -> Callable[[Tensor], Shown]:
    """Images or texts by instance id."""
    order = source.instances.argsort()
    ids = source.instances[order]

    def samples(instances: Tensor) -> Shown:
        return get(order[torch.searchsorted(ids, instances)])

    return samples
