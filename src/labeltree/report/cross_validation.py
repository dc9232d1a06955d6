"""Cross-validation: a run for each fold, and one result in which every sample counts once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from labeltree.atomic import write_text
from labeltree.counted_nouns import say_count
from labeltree.data import DataSummary
from labeltree.errors import RunError
from labeltree.evaluation import (
    EvaluationResult,
    ProtocolResult,
    attribute_rows,
    pool_folds,
    protocol_table,
)
from labeltree.evaluation.fewest_samples import ends_text
from labeltree.inference.finish import finish_run
from labeltree.metrics.catalogue import metric_name
from labeltree.models import as_pinned
from labeltree.options.evaluation import EvaluateOptions
from labeltree.progress import add_prefix
from labeltree.report.compare_answers import Differences, answer_differences
from labeltree.report.evaluate_run import evaluate_run
from labeltree.report.evaluation_case import Evaluated, write_evaluation
from labeltree.report.pages.document import Block, Cell, Heading, Notes, Table, Text, to_html
from labeltree.report.pages.first_screen import group_word, question_panels
from labeltree.report.verdict import evaluation_verdict
from labeltree.runs import ModelDescription, RunFolder
from labeltree.safe_files import Reader, read_json
from labeltree.training.fit import train
from labeltree.training.read_recipes import default_folder
from labeltree.training.recipe import Recipe
from labeltree.training.registry import AUTO_OBJECTIVE

__all__ = ["evaluate_folds", "fold_runs", "train_folds"]

_FOLDS = Reader("the folds of a cross-validation", "train them again into another folder", RunError)
_NUMBERS = (
    ("features", "recall_at_1"),
    ("features", "map_at_r"),
    ("embeddings", "recall_at_1"),
    ("embeddings", "ahp"),
    ("embeddings", "parent_violations"),
    ("embeddings", "pair_violations"),
)


def train_folds(
    recipe: Recipe,
    folds: int,
    path: str | Path | None,
    *,
    progress_bar: bool = True,
    on_data: Callable[[DataSummary], object] | None = None,
    verify: bool = False,
) -> RunFolder:
    """Train a run for each fold, or continue where this was interrupted.

    Fold k is the test split of the run in `fold-k`; its validation samples are drawn from the other folds.
    A group lies in one fold. The data set's own test samples are in no fold. An objective, epochs and a batch
    size that are left open are chosen with the first fold, for all; so is the commit of an encoder of the
    Hugging Face hub.

    Args:
        recipe: All settings, without a fold.
        folds: Number of folds.
        path: Folder of the runs; None = that of a run, and the number of folds.
        progress_bar: See `labeltree.training.fit.train`.
        on_data: See there.
        verify: See there.

    Raises:
        ValueError: If there are fewer than two folds, or the recipe names a fold.
        RunError: If the folder holds a run, or another number of folds.
        DataError: If there are fewer groups than folds.
    """
    if folds < 2:
        raise ValueError(f"folds is {folds}; a cross-validation has at least 2")
    if recipe.fold is not None:
        raise ValueError(f"the recipe names the fold {recipe.fold}; leave it out, or leave folds out")
    folder = RunFolder(path or f"{default_folder(recipe)}-{folds}-folds")
    if folder.recipe.is_file() or folder.encoder.is_file():
        raise RunError(f"'{folder.path}' holds a run; give the folds another --out")
    if folder.folds.is_file() and (known := len(fold_runs(folder.path))) != folds:
        raise RunError(f"'{folder.path}' holds the runs of {known} folds, not {folds}; give another --out")
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.write_json(folder.folds, {"format": 1, "folds": folds})
    for number, place in enumerate(fold_runs(folder.path), start=1):
        of_fold = replace(recipe, fold=f"{number}/{folds}")
        run = train(of_fold, place, progress_bar=progress_bar, on_data=on_data, verify=verify)
        finish_run(run, progress_bar=progress_bar)
        settings = ModelDescription.load(run.description).settings
        recipe = replace(
            recipe,
            epochs=settings["epochs"],
            batch_size=settings["batch_size"],
            encoder=as_pinned(recipe.encoder, settings["encoder"], pretrained=recipe.pretrained),
        )
        if recipe.objective == AUTO_OBJECTIVE:
            recipe = replace(recipe, objective=settings["objective"])
        on_data = None  # once is enough
    return folder


def fold_runs(path: str | Path) -> list[Path]:
    """The folders of the runs of a cross-validation; empty if the folder holds none.

    Raises:
        RunError: If the file that says how many there are is damaged.
    """
    folder = RunFolder(path)
    if not folder.folds.is_file():
        return []
    count = read_json(folder.folds, _FOLDS).get("folds")
    if not isinstance(count, int) or count < 2:
        raise _FOLDS.failure(folder.folds, "it does not say how many folds there are")
    return [folder.path / f"fold-{number}" for number in range(1, count + 1)]


def evaluate_folds(options: EvaluateOptions) -> Evaluated:
    """Evaluate the run of every fold, and write one result of all into their folder.

    Each run has its own report. The folder gets `metrics.json`, `report.html` and the outcomes of all
    samples, so that `labeltree compare` compares two cross-validations sample by sample.

    Raises:
        RunError: If a run is not finished.
        DataError: If two runs tested the same sample.
    """
    runs = fold_runs(options.place)
    results: list[EvaluationResult] = []
    for number, run in enumerate(runs, start=1):
        shown = add_prefix(options.progress, f"fold {number} of {len(runs)}")
        results.append(evaluate_run(replace(options, what=run, title=None, progress=shown)).result)
    pooled = pool_folds(results, [each.outcomes[each.name] for each in results])

    differences = answer_differences(pooled)

    def draw(file: Path, _: object) -> None:
        recipe = ModelDescription.load(RunFolder(runs[0]).description).settings
        title = options.title or f"{Path(str(recipe['data'])).stem}: {pooled.name}, {len(runs)} folds"
        write_text(file, to_html(_page(pooled, results, runs, title, group_word(recipe), differences)))

    folder = RunFolder(options.place)
    with folder.locked():
        return write_evaluation(pooled, folder, draw, differences=differences)


def _page(
    pooled: EvaluationResult,
    results: Sequence[EvaluationResult],
    runs: Sequence[Path],
    title: str,
    group: str,
    differences: Differences,
) -> list[Block]:
    main = pooled.main
    tested = say_count(pooled.counts.get("test samples", 0), "sample")
    if "groups tested" in pooled.counts:
        tested += f" of {say_count(pooled.counts['groups tested'], group)}"
    blocks: list[Block] = [
        Heading(title, 1),
        Text(" ".join(evaluation_verdict(pooled, differences=differences))),
        Text(
            f"Tested on {tested}, each judged by the model of the fold that tested it. "
            f"{main.classifier.sentence}"
        ),
        *_questions(pooled, group),
        *(Text(caution) for caution in pooled.cautions),
        Heading("All folds together, and each"),
        _numbers(pooled, results),
    ]
    if main.by_attribute:
        heads, rows = attribute_rows(pooled)
        cells = [[Cell(name), *map(Cell, row)] for name, row in rows.items()]
        blocks += [Heading("By attribute"), Table(["", *heads], cells)]
    blocks += [Heading("By node"), _nodes(pooled)]
    if main.protocols:
        blocks += [Heading("Further protocols"), Notes(f"```\n{protocol_table(pooled)}\n```")]
    links = ", ".join(f"[fold {k}]({run.name}/report.html)" for k, run in enumerate(runs, start=1))
    return [
        *blocks,
        Heading("The reports of the folds"),
        Text(links),
        Heading("Notes"),
        Notes("\n".join(f"- {note}" for note in pooled.notes)),
    ]


def _questions(pooled: EvaluationResult, group: str) -> list[Block]:
    """The named sets of nodes that were asked about, each judged as one test over all folds."""
    blocks: list[Block] = []
    for panel in question_panels(pooled, "sample", group):
        table = Table(["", "all folds", "interval", "cases"])
        for rate in panel.rates:
            mean = "mean of the folds" if rate.title == "AUROC" else rate.counts
            cells = rate.title, rate.value, rate.interval or "–", f"{mean}{' †' if rate.few else ''}"
            table.rows.append([Cell(cell) for cell in cells])
        warnings = [Text(each) for each in filter(None, [panel.point])]
        warnings += [
            Text(warning if warning.startswith("No interval") else f"† {warning}")
            for warning in panel.warnings
        ]
        cases = Text(f"{panel.cases.removesuffix('.')}.")
        blocks += [Heading(f"{panel.name}: {panel.nodes}"), cases, table, *warnings]
    return blocks


def _numbers(pooled: EvaluationResult, results: Sequence[EvaluationResult]) -> Table:
    """Pooled numbers with their intervals, the mean ± sd of the folds, and each fold."""
    folds = [f"fold {number}" for number in range(1, len(results) + 1)]
    table = Table(["", "all samples", "mean ± sd of the folds", *folds])
    of_answers = [each.main for each in results]

    def add(name: str, value: float, ends: tuple[float, float], single: Sequence[float]) -> None:
        known = [each for each in single if not math.isnan(each)]
        mean = sum(known) / len(known) if known else math.nan
        spread = (
            math.sqrt(sum((each - mean) ** 2 for each in known) / (len(known) - 1))
            if len(known) > 1
            else math.nan
        )
        cells = [name, "–" if math.isnan(value) else f"{value:.3f}{ends_text(*ends)}"]
        cells.append("–" if math.isnan(spread) else f"{mean:.3f} ± {spread:.3f}")
        cells += ["–" if math.isnan(each) else f"{each:.3f}" for each in single]
        table.rows.append([Cell(cell) for cell in cells])

    for metric in ("top1", "hierarchical_f1"):
        single = [method.answer_score(metric) for method in of_answers]
        add(
            metric_name(metric), pooled.main.answer_score(metric), pooled.main.answer_interval(metric), single
        )
    for at, value in enumerate(pooled.main.answer_by_depth):
        depths = [method.answer_by_depth for method in of_answers]
        ends = pooled.main.depth_intervals.get(pooled.main.classifier.name, [])
        single = [each[at] if at < len(each) else math.nan for each in depths]
        interval = ends[at] if at < len(ends) else (math.nan, math.nan)
        add(metric_name(f"accuracy_at_depth_{at + 1}"), value, interval, single)
    for role, metric in _NUMBERS:
        name = metric_name(metric if role == "embeddings" else f"{role}.{metric}")
        single = [each.main.score(metric, role) for each in results]
        if metric in pooled.main.scores.get(role, {}):
            add(name, pooled.main.score(metric, role), pooled.main.interval(metric, role), single)
    return table


def _nodes(pooled: EvaluationResult) -> Table:
    """Every node with test samples: how many, and how many stay at or below it."""
    scores = pooled.main.protocols.get("node-scores")
    if scores is not None and "answer_sensitivity" in scores.by_node:
        return _node_rates(scores)
    table = Table(["node", "samples", "answered within it", "answered right"])
    for node in pooled.main.errors.nodes:
        if node.samples:
            cells = [node.path, f"{node.samples:,}", f"{node.stayed / node.samples:.1%}"]
            cells.append(f"{1 - node.wrong / node.samples:.1%}")
            table.rows.append([Cell(cell) for cell in cells])
    return table


def _node_rates(scores: ProtocolResult) -> Table:
    """Every node as a binary test, with intervals."""
    names = {key: metric_name(key) for key in ("sensitivity", "specificity", "ppv", "npv")}
    aurocs = scores.by_node.get("auroc", {})
    table = Table(["node", "positive", "negative", *names.values(), "AUROC, mean of the folds"])
    for path, positives in scores.by_node["positives"].items():
        cells = [path, f"{positives:.0f}", f"{scores.by_node['negatives'][path]:.0f}"]
        for name in names:
            value = scores.by_node[f"answer_{name}"].get(path, math.nan)
            ends = scores.node_intervals.get(f"answer_{name}", {}).get(path)
            interval = "" if ends is None else ends_text(*ends)
            cells.append("–" if math.isnan(value) else f"{value:.3f}{interval}")
        auroc = aurocs.get(path, math.nan)
        cells.append("–" if math.isnan(auroc) else f"{auroc:.3f}")
        table.rows.append([Cell(cell) for cell in cells])
    return table
