"""The one way of every evaluation: measure the tables, say what limits the numbers, write the files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from markupsafe import Markup
from torch import Tensor, searchsorted

from labeltree.data import Source
from labeltree.data.corrections import Applied
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers, ClassScores
from labeltree.evaluation import (
    EvaluationResult,
    EvaluationSettings,
    JudgingTaxonomy,
    evaluate,
    save_outcomes,
)
from labeltree.evaluation.evaluate_table import fit_to_table
from labeltree.notebooks import html_sentences
from labeltree.progress import Progress, silent
from labeltree.report.compare_answers import Differences, answer_differences, raw_is_better
from labeltree.report.corrected_labels import CorrectedLabels
from labeltree.report.next_steps import NextStep, compare_step
from labeltree.report.other_taxonomy import OtherTaxonomy
from labeltree.report.pages.number_tiles import tiles
from labeltree.report.pages.report_page import write_report
from labeltree.report.tables.main_numbers import main_numbers_table, short_table
from labeltree.report.verdict import evaluation_verdict
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import AnyTaxonomy

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Evaluated", "EvaluationCase", "Remark", "data_notes", "evaluate_case", "write_evaluation"]

Remark = Callable[[EvaluationResult], EvaluationResult]
"""Adds to the notes and cautions of a result."""

Shown = TypeVar("Shown")


@dataclass(frozen=True)
class Evaluated:
    """Where an evaluation was written, what it says, and its main numbers as text.

    Attributes:
        result: The result.
        headline: The main numbers of every method, and what there is to say of them.
        metrics: The file of the numbers.
        report: The page.
        verdict: How good, what training added, and where the mistakes lie, a sentence each.
        short: The numbers to remember, and the cautions.
        steps: Commands that may follow.
        advice: What to try if the raw samples alone answer as well; empty if they do not.
    """

    result: EvaluationResult
    headline: str
    metrics: Path
    report: Path
    verdict: tuple[str, ...] = ()
    short: str = ""
    steps: tuple[NextStep, ...] = ()
    advice: str = ""

    def to_pandas(self) -> pd.DataFrame:
        """The numbers, see `labeltree.evaluation.EvaluationResult.to_pandas`."""
        return self.result.to_pandas()

    def __repr__(self) -> str:
        """What `labeltree evaluate` prints: the verdict, the numbers to remember, and the report."""
        return "\n".join([*self.verdict, "", self.short, "", f"report: {self.report}"])

    def _repr_html_(self) -> str:
        level = f"{self.result.settings.confidence:.0%}"
        cards = Markup("").join(
            Markup(
                '<div style="border:1px solid;border-radius:6px;padding:8px 12px;max-width:15em">'
                '<div style="font-size:1.8em">{}</div><div>{}</div>{}</div>'
            ).format(
                tile.number,
                tile.title,
                html_sentences(
                    [
                        f"{level} interval {tile.interval}" if tile.interval else None,
                        "; ".join(f"{name} {number}" for name, number in tile.others),
                    ]
                ),
            )
            for tile in tiles(self.result)
        )
        written = html_sentences([f"report: {self.report}", f"metrics: {self.metrics}"])
        return (
            str(html_sentences([" ".join(self.verdict)]))
            + str(
                Markup('<div style="display:flex;flex-wrap:wrap;gap:12px">{}</div>{}').format(cards, written)
            )
            + self.result._repr_html_()
        )


@dataclass(frozen=True, kw_only=True)
class EvaluationCase:
    """What a subject hands to the evaluation: its tables, and what is said and shown of them.

    Attributes:
        name: Name of the evaluated method.
        table: Its table.
        taxonomy: Taxonomy that judges.
        settings: What is measured, and how.
        title: Title of the report.
        split: The split that is measured.
        references: Name → tables to stand beside it: raw samples, the encoder before training, other runs.
        classifiers: As for `labeltree.evaluation.evaluate`.
        answers_searched: As for `labeltree.evaluation.evaluate`.
        trained_by_epochs: As for `labeltree.evaluation.evaluate`.
        corrections: Corrected labels of the samples, which are those of all tables; None = labels are as
            they are.
        other: The step to `taxonomy` from that of the labels; None if it is the same.
        own_scores: Name → the classifier that gave the answers of the table, for `other`.
        remarks: On the model and the data.
        label_remarks: On the labels; they come after what is said of the step to another taxonomy.
        measured_on: The files of the other version that is measured on, and its digest, which are written
            beside the result, see `name_version`; None = it is measured on its own taxonomy.
        source: The samples, by the ids of the table; None = the report does not show them.
        steps: Commands that may follow, besides a comparison.
        shown: Further arguments of `write_report`.
    """

    name: str
    table: EmbeddingTable
    taxonomy: AnyTaxonomy
    settings: EvaluationSettings
    title: str
    split: str = "test"
    references: Mapping[str, EmbeddingTable] = field(default_factory=dict)
    classifiers: Mapping[str, Classifiers | ChosenClassifier] = field(default_factory=dict)
    answers_searched: Collection[str] | None = None
    trained_by_epochs: Collection[str] = ()
    corrections: Applied | None = None
    other: OtherTaxonomy | None = None
    own_scores: Mapping[str, ClassScores | None] = field(default_factory=dict)
    remarks: Sequence[Remark] = ()
    label_remarks: Sequence[Remark] = ()
    measured_on: Mapping[str, str] | None = None
    source: Source | None = None
    steps: Sequence[NextStep] = ()
    shown: Mapping[str, Any] = field(default_factory=dict)


def evaluate_case(
    open_case: Callable[[], EvaluationCase], folder: RunFolder, progress: Progress | None
) -> Evaluated:
    """Open a case, measure it and write the files into a folder, which is locked from the beginning.

    Raises:
        FolderInUseError: If another process writes there.
    """
    with folder.locked():
        case = open_case()
        result, table = _measure(case, progress)
        if case.measured_on is not None:
            folder.write_json(folder.measured_on, dict(case.measured_on))

        differences = answer_differences(result)
        of_samples = _samples_shown(case.source)

        def draw(page: Path, steps: Sequence[NextStep]) -> None:
            (progress or silent)("drawing the report", 0, 0)
            judging = JudgingTaxonomy.of(case.taxonomy)
            shown = {"title": case.title, **case.shown, **of_samples}
            shown |= {"differences": differences, "steps": steps}
            write_report(result, judging.table(table), judging.tree, page, **shown)

        samples = next(iter(of_samples), "samples")
        return write_evaluation(
            result, folder, draw, differences=differences, samples=samples, steps=case.steps
        )


def _measure(case: EvaluationCase, progress: Progress | None) -> tuple[EvaluationResult, EmbeddingTable]:
    """The result of a case, and its table as it was measured."""
    tables, corrected, plain = {case.name: case.table, **case.references}, None, None
    classifiers = dict(case.classifiers)
    as_before = case.corrections is not None and isinstance(classifiers.get(case.name), Classifiers)
    if as_before:  # the model learned from the labels as they were, and so does all beside it
        for name, table in case.references.items():
            if not isinstance(classifiers.get(name), Classifiers):
                classifiers[name] = fit_to_table(
                    table, case.taxonomy, split=case.split, settings=case.settings
                )
    if case.corrections is not None:
        corrected = CorrectedLabels.of(case.corrections, case.table, case.split)
        plain = corrected.table(case.table, test=False) if corrected.in_test else None
        tables = {name: corrected.table(table) for name, table in tables.items()}
    before = tables[case.name]
    if case.other is not None:
        scores = case.own_scores
        tables = {name: case.other.table(table, scores.get(name)) for name, table in tables.items()}
        plain = None if plain is None else case.other.table(plain, scores.get(case.name))
    table = tables.pop(case.name)
    asked: dict[str, Any] = {"name": case.name, "split": case.split}
    asked["answers_searched"] = case.answers_searched
    asked["trained_by_epochs"] = case.trained_by_epochs
    result = evaluate(
        table,
        case.taxonomy,
        baselines=tables,
        settings=case.settings,
        classifiers=classifiers,
        progress=progress,
        **asked,
    )
    for remark in case.remarks:
        result = remark(result)
    if case.other is not None:
        result = case.other.remark(result, before)
    for remark in case.label_remarks:
        result = remark(result)
    if corrected is not None:
        short = replace(case.settings, protocols=(), options={}, resamples=0)
        own = {name: given for name, given in case.classifiers.items() if name == case.name}
        without = None
        if plain is not None:
            without = evaluate(plain, case.taxonomy, settings=short, classifiers=own, **asked)
        result = corrected.remark(result, without, as_before=as_before)
    return result, table


def write_evaluation(
    result: EvaluationResult,
    folder: RunFolder,
    draw: Callable[[Path, Sequence[NextStep]], object],
    *,
    differences: Differences,
    samples: str = "samples",
    steps: Sequence[NextStep] = (),
) -> Evaluated:
    """Write the result, the outcomes of its samples, and the page that `draw(path, steps)` draws.

    Args:
        result: The result.
        folder: Where the files go.
        draw: Writes the page.
        differences: The `answer_differences` of the result.
        samples: What samples are called.
        steps: Commands that may follow, besides a comparison.
    """
    folder.write_json(folder.metrics, result.to_dict())
    save_outcomes(folder.outcomes, result.outcomes)
    steps = (*steps, compare_step(folder.path))
    draw(folder.report, steps)
    return Evaluated(
        result,
        main_numbers_table(result, differences),
        folder.metrics,
        folder.report,
        verdict=tuple(evaluation_verdict(result, samples, differences)),
        short=short_table(result),
        steps=steps,
        advice=raw_is_better(result, differences),
    )


def data_notes(source: Source) -> list[str]:
    """What was decided when the data were read, and what was left out, as notes of a result."""
    return [f"Of the data: {note}." for note in source.notes]


def _samples_shown(source: Source | None) -> dict[str, Callable[[Tensor], Any]]:
    """The arguments of `write_report` that give the images and the texts of instances."""
    if source is None:
        return {}
    order = source.instances.argsort()
    ids = source.instances[order]

    def by_instance(get: Callable[[Tensor], Shown]) -> Callable[[Tensor], Shown]:
        return lambda instances: get(order[searchsorted(ids, instances)])

    shown: dict[str, Callable[[Tensor], Any]] = {}
    if source.store is not None:
        shown["images"] = by_instance(source.load)
    if source.texts is not None:
        shown["texts"] = by_instance(source.read)
    return shown
