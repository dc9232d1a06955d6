"""Evaluate a run, or a file of any embeddings, and write ``metrics.json`` and ``report.html``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.data.correction_rounds import CorrectionFiles, CorrectionRounds
from labeltree.decisions.classifiers import (
    ChosenClassifier,
    Classifiers,
    classifiers_of_features,
)
from labeltree.errors import DataError, RunError
from labeltree.evaluation import (
    EvaluationResult,
    EvaluationSettings,
    JudgingTaxonomy,
    carry_over,
    evaluate,
    save_outcomes,
    translate,
)
from labeltree.evaluation.chosen_samples import with_usual_splits
from labeltree.evaluation.equal_rows import group_equal_rows
from labeltree.index.index_sources import rows_of_embeddings
from labeltree.inference.calibrate_run import open_decider
from labeltree.inference.facts import model_sentence
from labeltree.inference.load_run import TrainedRun
from labeltree.inference.other_version import run_on
from labeltree.inference.run_classifiers import own_scores, run_classifiers
from labeltree.inference.run_embeddings import RAW_NAMES, run_tables, start_name
from labeltree.options.evaluation import EvaluateOptions
from labeltree.progress import Progress, silent
from labeltree.report.before_and_after import before_and_after
from labeltree.report.corrected_labels import CorrectedLabels, already_corrected, correct_run
from labeltree.report.pages.report_page import write_report
from labeltree.report.tables.main_numbers import main_numbers_table
from labeltree.runs import EmbeddingTable, PartFolder, RunFolder
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, TaxonomyMapping, load_taxonomy
from labeltree.taxonomy.versions.between_versions import VersionChange, check_version, mapping_digest

__all__ = ["Evaluated", "data_notes", "evaluate_embeddings", "evaluate_run", "write_evaluation"]

Shown = TypeVar("Shown")


@dataclass(frozen=True)
class Evaluated:
    """Where an evaluation was written, and its main numbers as text."""

    result: EvaluationResult
    headline: str
    metrics: Path
    report: Path


def evaluate_run(options: EvaluateOptions) -> Evaluated:
    """Evaluate a trained run beside the raw samples, the encoder before training and, if asked, other runs.

    The files go to the run folder; for another taxonomy to the folder ``on-NAME`` in it, or
    ``on-NAME-DIGEST`` if that holds a result on another taxonomy or by another mapping; with corrections to
    ``corrected-NAME``, with the names of all tables. Corrections come after those that the run was trained
    with, which may be named before them.

    Raises:
        RunError: if a run is not finished, its samples have changed since it was trained, or another run
            has other samples or another taxonomy.
        DataError: if no label, or for a DAG one of them, is not in the other taxonomy.
        TaxonomyError: if the mapping cannot be read, or is between other taxonomies.
        ValueError: if there is a mapping without a taxonomy, or to a DAG.
        FolderInUseError: if another process writes where the files go.
    """
    path, taxonomy, mapping, corrections = (
        options.place,
        options.taxonomy,
        options.mapping,
        options.corrections,
    )
    split, out, progress, verify = options.split, options.out, options.progress, options.verify
    folder = RunFolder(path).require()
    check_version(taxonomy, mapping)
    if not folder.encoder.is_file():
        folder.load_weights()  # raises: the training has not finished
    own = folder.load_taxonomy()
    judge = own if taxonomy is None else load_taxonomy(taxonomy)
    change = None if taxonomy is None else _change(own, judge, mapping, taxonomy)
    measured_on = _fingerprint(judge, change)
    if out is None and corrections is not None:
        out = folder.path / f"corrected-{_stems(corrections)}"
        out = out if taxonomy is None else Path(f"{out}-on-{Path(taxonomy).stem}")
    if out is None:
        out = folder.path if taxonomy is None else _folder_in(folder, Path(taxonomy).stem, measured_on)
    with RunFolder(out).locked():
        run, tables = run_tables(path, progress=progress, verify=verify)
        own, recipe = run.taxonomy, run.recipe
        if taxonomy is None:
            judge = own
        name, table = recipe.objective, tables["trained"]
        runs = {name: run}
        classifiers = {
            name: run_classifiers(run, options.classifier, own_samples=partial(tables.__getitem__, "trained"))
        }
        baselines: dict[str, EmbeddingTable] = {}
        for other in options.beside:
            theirs, their_tables = run_tables(other, ["trained"], progress, verify=verify)
            if not _same_samples(run.source, theirs.source, table, their_tables["trained"]):
                raise RunError(f"'{other}' cannot stand beside '{path}': its samples or its taxonomy differ")
            label = theirs.recipe.objective
            label = label if label not in {name, *baselines} else f"{label} ({Path(other).name})"
            baselines[label] = their_tables["trained"]
            runs[label] = theirs
            classifiers[label] = run_classifiers(
                theirs, own_samples=partial(their_tables.__getitem__, "trained")
            )
        corrected = plain = None
        if corrections is not None:
            done = correct_run(folder, corrections, run.source)
            corrected = CorrectedLabels.of(done, table, split)
            plain = corrected.table(table, test=False)
            tables = {key: corrected.table(entry) for key, entry in tables.items()}
            baselines = {key: corrected.table(entry) for key, entry in baselines.items()}
            table = tables["trained"]
        if "untrained" in tables:
            baselines[start_name(recipe)] = tables["untrained"]
        if "raw" in tables:
            baselines[RAW_NAMES[run.network.modality]] = tables["raw"]
        named = f"{Path(recipe.data).stem}: {recipe.objective}"
        if taxonomy is not None:
            before = table
            moved = {
                key: _carried(entry, own, judge, change, taxonomy, runs.get(key))
                for key, entry in {name: table, **baselines}.items()
            }
            table = moved.pop(name)
            if plain is not None:
                plain = _carried(plain, own, judge, change, taxonomy, run)
            baselines = moved
            named += f", measured on {Path(taxonomy).stem}"
        if taxonomy is not None and change is not None:
            chosen = _chosen_on(run, taxonomy, mapping, classifiers[name].chosen)
            classifiers[name] = replace(classifiers[name], chosen=chosen)
        settings = replace(options.settings, classifier=classifiers[name].chosen.asked)
        # on another taxonomy, or with other settings of the probe, all learn anew: only the choice is kept
        as_trained = taxonomy is None and _are_usual(settings)
        given: dict[str, Classifiers | ChosenClassifier]
        given = {**classifiers} if as_trained else {key: c.chosen for key, c in classifiers.items()}
        kept = "feature-means" in classifiers[name].fitted  # not in runs of earlier versions
        if as_trained and corrected is None and kept and _same_features(tables):
            given[start_name(recipe)] = classifiers_of_features(classifiers[name])
        result = evaluate(
            table,
            judge,
            name=name,
            baselines=baselines,
            split=split,
            settings=settings,
            classifiers=given,
            progress=progress,
        )
        result = replace(result, notes=[model_sentence(run), *result.notes, *data_notes(run.source)])
        if change is not None:
            result = _tell_changes(result, change, before, Path(str(taxonomy)).name)
            both = before_and_after(folder, result) if corrections is None else None
            if both is not None:
                result = replace(result, notes=[*result.notes, both], cautions=[*result.cautions, both])
        if (before_training := already_corrected(folder, run.source, split)) is not None:
            result = replace(
                result,
                notes=[before_training, *result.notes],
                cautions=[*result.cautions, before_training],
            )
        if corrected is not None:
            without = _without(plain, corrected, judge, name, split, settings, {name: given[name]})
            result = corrected.said(result, without)
        if taxonomy is not None:
            RunFolder(out).write_json(RunFolder(out).measured_on, {"digest": measured_on})
        return write_evaluation(
            result,
            table,
            judge,
            RunFolder(out),
            progress,
            run.source,
            title=options.title or named,
            history=folder.read_history(),
            recipe=recipe.to_dict(),
            trained=folder.read_versions(),
        )


def _same_features(tables: Mapping[str, EmbeddingTable]) -> bool:
    """Whether training has left the features as they were, so that their classifiers are known."""
    before = tables["untrained"].features if "untrained" in tables else None
    now = tables["trained"].features
    return before is not None and now is not None and torch.equal(before, now)


def data_notes(source: Source) -> list[str]:
    """What was decided when the data were read, and what was left out, as notes of a result."""
    return [f"Of the data: {note}." for note in source.notes]


def _without(
    table: EmbeddingTable | None,
    corrected: CorrectedLabels,
    judge: AnyTaxonomy,
    name: str,
    split: str,
    settings: EvaluationSettings,
    classifiers: Mapping[str, Classifiers | ChosenClassifier] | None = None,
) -> EvaluationResult | None:
    """The main numbers of a table in which no label of the measured split is corrected; None if none was."""
    if table is None or not corrected.in_test:
        return None
    short = replace(settings, protocols=(), options={}, resamples=0)
    return evaluate(table, judge, name=name, split=split, settings=short, classifiers=classifiers)


def _stems(corrections: CorrectionFiles) -> str:
    files = [corrections] if isinstance(corrections, str | Path) else corrections
    return "+".join(Path(file).stem for file in files)


def _fingerprint(judge: AnyTaxonomy, change: VersionChange | None) -> str:
    """A fingerprint of a taxonomy and of the mapping to it."""
    mapped = "" if change is None else mapping_digest(change.mapping)
    return hashlib.sha256(f"{judge.digest} {mapped}".encode()).hexdigest()


def _folder_in(run: RunFolder, name: str, digest: str) -> Path:
    """The folder in a run for its evaluation on another taxonomy, which holds no other one.

    Args:
        run: the run.
        name: name of the taxonomy.
        digest: see `_fingerprint`.
    """
    usual = RunFolder(run.path / f"on-{name}")
    if not usual.metrics.is_file():
        return usual.path
    try:
        known = json.loads(usual.measured_on.read_text("utf-8"))["digest"]
    except (OSError, ValueError, KeyError, TypeError):
        known = None  # damaged, or of an earlier version
    return usual.path if known == digest else run.path / f"on-{name}-{digest[:8]}"


def _change(
    own: Taxonomy | None, judge: AnyTaxonomy, mapping: str | Path | None, where: str | Path
) -> VersionChange | None:
    """The step from a taxonomy to another version of it; None to a DAG, in which labels are found by name.

    Where a taxonomy is not known, there is a mapping, from which it follows.
    """
    if isinstance(judge, Taxonomy):
        if own is not None:
            return VersionChange.of(own, judge, mapping)
        assert mapping is not None
        return VersionChange(TaxonomyMapping.load(mapping, new=judge), Path(mapping))
    if mapping is not None:
        raise ValueError(f"a mapping leads to a tree, and '{where}' is a DAG; leave the mapping out")
    return None


def _carried(
    table: EmbeddingTable,
    own: AnyTaxonomy,
    judge: AnyTaxonomy,
    change: VersionChange | None,
    where: str | Path,
    run: TrainedRun | None = None,
) -> EmbeddingTable:
    """A table on another taxonomy."""
    if change is None:
        return translate(table, own, judge, f"'{where}'")
    return carry_over(table, change, f"'{where}'", None if run is None else own_scores(run.network))


def _tell_changes(
    result: EvaluationResult, change: VersionChange, table: EmbeddingTable, name: str
) -> EvaluationResult:
    """A result that says what the change of the taxonomy did to the samples of the evaluated split.

    Args:
        result: the result.
        change: the step to the taxonomy of the result.
        table: the table as it was, with labels of the old taxonomy.
        name: name of the new taxonomy.
    """
    labels = table.nodes
    if table.split is not None and result.split != "half":
        labels = labels[torch.from_numpy(np.asarray(table.split) == result.split)]
    said = change.sentence(labels, name, f"{result.split} samples" if table.split is not None else "samples")
    said = f"{said} {change.split_advice(labels)}".rstrip()
    counts = {kind: asdict(count) for kind, count in change.counts(labels).items()}
    return replace(
        result,
        notes=[said, *result.notes],
        cautions=[*result.cautions, *([said] if counts or change.guesses else [])],
        taxonomy_changes=counts,
    )


def _chosen_on(
    run: TrainedRun, taxonomy: str | Path, mapping: str | Path | None, before: ChosenClassifier
) -> ChosenClassifier:
    """The classifier with which the run answers on another version, as `predict` chooses it.

    Where it cannot answer there, the one with which it answers on its own taxonomy.
    """
    there = run_on(run, taxonomy, mapping)
    if there.base is None:
        return before
    try:
        return open_decider(there).chosen
    except (DataError, RunError):
        return before


def _are_usual(settings: EvaluationSettings) -> bool:
    """Whether the settings of the classifiers are those that a run uses."""
    usual = EvaluationSettings()
    return all(
        getattr(settings, k) == getattr(usual, k) for k in ("standardize", "max_probe_samples", "seed")
    )


def _same_samples(first: Source, second: Source, ours: EmbeddingTable, theirs: EmbeddingTable) -> bool:
    """Whether two sources and their tables hold the same samples, one by one, with the same taxonomy."""
    return (
        first.taxonomy == second.taxonomy
        and torch.equal(ours.instances, theirs.instances)  # type: ignore[arg-type]
        and bool(np.array_equal(first.sample_digests(), second.sample_digests()))
    )


def evaluate_embeddings(options: EvaluateOptions) -> Evaluated:
    """Evaluate a table of embeddings of any model, or a folder of parts.

    The files go to a folder beside it. Without a mapping what is certain is used, where the taxonomy of the
    labels is known: a folder of parts holds it, and for a file it lies beside it, as ``FILE.taxonomy.json``.

    Raises:
        OptionError: if there is no taxonomy.
        LabeltreeError: if the table or the taxonomy is missing, unreadable or invalid.
    """
    embeddings, mapping, corrections = options.place, options.mapping, options.corrections
    split, progress = options.split, options.progress
    parts = PartFolder(embeddings)
    taxonomy = options.taxonomy or (parts.taxonomy if parts.exists() else None)
    if taxonomy is None:
        raise options.refusal(
            f"'{embeddings}' holds embeddings: name the taxonomy file of their labels, `taxonomy` FILE; "
            "'labeltree taxonomy convert LABELS.txt FILE.json' makes one of a text file with a path a/b/c or "
            "A > B > C on each line"
        )
    out = options.out or _folder_beside(embeddings, parts.exists(), corrections is not None)
    judge = load_taxonomy(taxonomy)
    own, change = _taxonomy_of(embeddings), None
    if mapping is not None or (own is not None and own != judge):
        change = _change(own, judge, mapping, taxonomy)
    labelled_in = own or (judge if change is None else change.mapping.old)
    table = EmbeddingTable.load(
        embeddings, labelled_in, by_name=change is not None and own is None, group_column=options.group_column
    )
    table, copies = group_equal_rows(with_usual_splits(table, split), split)
    corrected = plain = None
    if corrections is not None:
        rows, _ = rows_of_embeddings(embeddings, labelled_in)
        done = CorrectionRounds.load(corrections).resolve(rows.ids, table.nodes, labelled_in)
        corrected = CorrectedLabels.of(done, table, split)
        plain = corrected.table(table, test=False)
        table = corrected.table(table)
    before, name = table, Path(embeddings).stem
    if change is not None or labelled_in != judge:
        table = _carried(table, labelled_in, judge, change, taxonomy)
        plain = None if plain is None else _carried(plain, labelled_in, judge, change, taxonomy)
    with RunFolder(out).locked():
        result = evaluate(table, judge, name=name, split=split, settings=options.settings, progress=progress)
        if copies:
            result = replace(result, notes=[*result.notes, copies], cautions=[*result.cautions, copies])
        if change is not None:
            result = _tell_changes(result, change, before, Path(taxonomy).name)
        if corrected is not None:
            result = corrected.said(result, _without(plain, corrected, judge, name, split, result.settings))
        folder = RunFolder(out)
        return write_evaluation(
            result,
            table,
            judge,
            folder,
            progress,
            title=options.title or name,
            group_column=options.group_column,
        )


def _folder_beside(embeddings: Path, of_parts: bool, corrected: bool) -> Path:
    """Where the evaluation of a table goes, unless a folder is named."""
    if of_parts:
        return embeddings.with_name(f"{embeddings.name}-evaluation")
    return embeddings.with_name(f"{embeddings.stem}-corrected") if corrected else embeddings.with_suffix("")


def _taxonomy_of(embeddings: str | Path) -> Taxonomy | None:
    """The taxonomy that a table's numbers of nodes belong to, where it is known."""
    parts, beside = PartFolder(embeddings), Path(embeddings).with_suffix(".taxonomy.json")
    if parts.exists():
        return Taxonomy.from_file(parts.taxonomy)
    return Taxonomy.from_file(beside) if beside.is_file() else None


def write_evaluation(
    result: EvaluationResult,
    table: EmbeddingTable,
    taxonomy: AnyTaxonomy,
    folder: RunFolder,
    progress: Progress | None,
    source: Source | None = None,
    **report: Any,
) -> Evaluated:
    """Write the result, the outcomes and the report, which shows the samples of a source.

    Args:
        result: the result.
        table: the table that was measured.
        taxonomy: the taxonomy of its labels.
        folder: where the files go.
        progress: called while the report is drawn.
        source: the samples, by the ids of the table; None = they are not shown.
        **report: further arguments of `write_report`.
    """
    folder.write_json(folder.metrics, result.to_dict())
    save_outcomes(folder.outcomes, result.outcomes)
    judging = JudgingTaxonomy.of(taxonomy)
    (progress or silent)("drawing the report", 0, 0)
    if source is not None and source.store is not None:
        report["images"] = _look_up_instances(source, source.load)
    if source is not None and source.texts is not None:
        report["texts"] = _look_up_instances(source, source.read)
    write_report(result, judging.table(table), judging.tree, folder.report, **report)
    return Evaluated(result, main_numbers_table(result), folder.metrics, folder.report)


def _look_up_instances(source: Source, get: Callable[[Tensor], Shown]) -> Callable[[Tensor], Shown]:
    """A function from instance ids to images or texts."""
    order = source.instances.argsort()
    ids = source.instances[order]

    def samples(instances: Tensor) -> Shown:
        return get(order[torch.searchsorted(ids, instances)])

    return samples
