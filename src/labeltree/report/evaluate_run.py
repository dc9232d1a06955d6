"""Evaluation of a trained run: its tables and references, on another taxonomy if asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labeltree.data import Source
from labeltree.data.correction_rounds import CorrectionFiles
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers, classifiers_of_features
from labeltree.decisions.conformal import count_groups
from labeltree.decisions.promise_samples import for_promises
from labeltree.errors import DataError, RunError, typed
from labeltree.evaluation import EvaluationResult, EvaluationSettings
from labeltree.evaluation.evaluate_table import have_same_features
from labeltree.inference.calibrate_run import open_decider, with_stored_rule
from labeltree.inference.load_run import TrainedRun
from labeltree.inference.model_facts import model_sentence
from labeltree.inference.named_samples import seen_since_training
from labeltree.inference.other_version import run_by
from labeltree.inference.run_classifiers import own_scores, run_classifiers
from labeltree.inference.run_embeddings import RAW_NAMES, run_tables, start_name
from labeltree.options.evaluation import EvaluateOptions
from labeltree.report.corrected_labels import already_corrected, correct_run
from labeltree.report.evaluation_case import Evaluated, EvaluationCase, Remark, data_notes, evaluate_case
from labeltree.report.next_steps import steps_after_run
from labeltree.report.other_taxonomy import OtherTaxonomy, compare_with_before, name_version
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.split_names import UNSEEN
from labeltree.taxonomy import Taxonomy, load_taxonomy
from labeltree.taxonomy.versions.between_versions import check_version

__all__ = ["evaluate_run", "say_seen_since", "with_ridge_options"]


def evaluate_run(options: EvaluateOptions) -> Evaluated:
    """Evaluate a trained run beside the raw samples, the encoder before training and, if asked, other runs.

    The files go to the run folder; for another taxonomy to the folder `on-NAME` in it, or
    `on-NAME-DIGEST` if that holds a result on another taxonomy or by another mapping; with corrections to
    `corrected-NAME`, with the names of all tables. Corrections come after those that the run was trained
    with, which may be named before them.

    Raises:
        RunError: If a run is not finished, its samples have changed since it was trained, or another run
            has other samples or another taxonomy.
        DataError: If no label, or for a DAG one of them, is not in the other taxonomy.
        TaxonomyError: If the mapping cannot be read, or is between other taxonomies.
        ValueError: If there is a mapping without a taxonomy.
        FolderInUseError: If another process writes where the files go.
    """
    folder = RunFolder(options.place).require()
    check_version(options.taxonomy, options.mapping)
    if not folder.encoder.is_file():
        folder.load_weights()  # raises: the training has not finished
    own, other = folder.load_taxonomy(), None
    if options.taxonomy is not None:
        judge = load_taxonomy(options.taxonomy)
        other = OtherTaxonomy.between(own, judge, options.mapping, options.taxonomy)
    out = RunFolder(options.out or _folder_in(folder, other, options.corrections))
    return evaluate_case(partial(_open_case, folder, options, other), out, options.progress)


def _folder_in(run: RunFolder, other: OtherTaxonomy | None, corrections: CorrectionFiles | None) -> Path:
    """The folder in a run for its evaluation; one on another taxonomy holds no other one."""
    name = "" if other is None else Path(other.file).stem
    if corrections is not None:
        files = [corrections] if isinstance(corrections, str | Path) else corrections
        return run.corrected(files, name)
    if other is None:
        return run.path
    usual = RunFolder(run.path / f"on-{name}")
    if not usual.metrics.is_file():
        return usual.path
    try:
        known = json.loads(usual.measured_on.read_text("utf-8"))["digest"]
    except (OSError, ValueError, KeyError, TypeError):
        known = None  # damaged, or of an earlier version
    return usual.path if known == other.digest else run.path / f"on-{name}-{other.digest[:8]}"


def _open_case(folder: RunFolder, options: EvaluateOptions, other: OtherTaxonomy | None) -> EvaluationCase:
    run, tables = run_tables(options.place, progress=options.progress, verify=options.verify)
    recipe, name = run.recipe, run.recipe.objective
    runs, methods = _load_beside(run, tables["trained"], options)
    classifiers = {
        key: with_stored_rule(
            each,
            run_classifiers(
                each,
                options.classifier if key == name else None,
                own_samples=partial(methods.__getitem__, key),
            ),
        )
        for key, each in runs.items()
    }
    references = {key: table for key, table in methods.items() if key != name}
    if "untrained" in tables:
        references[start_name(recipe)] = tables["untrained"]
    if "raw" in tables:
        references[RAW_NAMES[run.network.modality]] = tables["raw"]
    if other is not None:
        other = replace(other, labels=run.taxonomy)
        if other.change is not None:
            chosen = classifiers[name].chosen
            if other.change.file is not None or other.change.mapping.new != run.taxonomy:
                chosen = _choose_for_version(run_by(run, other.change), chosen)
            classifiers[name] = replace(classifiers[name], chosen=chosen)
    corrections = None
    if options.corrections is not None:
        corrections = correct_run(folder, options.corrections, run.source)
    settings = replace(options.settings, classifier=classifiers[name].chosen.asked)
    settings = with_ridge_options(settings, run, _splits_for_folds(folder, run))
    given: dict[str, Classifiers | ChosenClassifier]
    given = {key: known.chosen for key, known in classifiers.items()}
    # on another taxonomy, or with other settings of the probe, all learn anew: only the choice is kept
    if other is None and _are_usual(settings):
        given = {**classifiers}
        kept = "feature-means" in classifiers[name].fitted  # not in runs of earlier versions
        before = tables.get("untrained")  # where training left the features as they were, theirs are known
        if kept and before is not None and have_same_features(before, tables["trained"]):
            given[start_name(recipe)] = classifiers_of_features(classifiers[name])
    title = f"{Path(recipe.data).stem}: {name}"
    if other is not None:
        title += f", measured on {Path(other.file).stem}"
    by_epochs = [key for key, each in runs.items() if each.network.objective.solver is None]
    return EvaluationCase(
        name=name,
        table=tables["trained"],
        taxonomy=run.taxonomy if other is None else other.judge,
        settings=settings,
        title=options.title or title,
        split=options.split,
        references=references,
        classifiers=given,
        answers_searched=by_epochs,
        trained_by_epochs=by_epochs,
        corrections=corrections,
        other=other,
        own_scores={key: own_scores(each.network) for key, each in runs.items()} if other is not None else {},
        remarks=[lambda result: _remark(result, run, options.split)],
        label_remarks=_label_remarks(folder, run, options, other),
        measured_on=None if other is None else {"digest": other.digest, **name_version(options)},
        source=run.source,
        steps=steps_after_run(run, options, _promise_units(tables["trained"], classifiers[name], other)),
        shown={
            "history": folder.read_history(),
            "validated_among": folder.read_summary().get("searched"),
            "recipe": recipe.to_dict(),
            "trained": folder.read_versions(),
            "solver": run.network.objective.solver if other is None else None,
        },
    )


def _promise_units(
    table: EmbeddingTable, classifiers: Classifiers, other: OtherTaxonomy | None
) -> int | None:
    """Number of samples, or groups, that the promises of a run rest on, or can rest on at most.

    None if the run cannot answer on the other taxonomy: a DAG, or one that its calibration is not about.
    """
    if other is not None and not isinstance(other.judge, Taxonomy):
        return None
    if classifiers.calibrated is not None:
        return classifiers.calibrated.rule.fitted.num_groups if other is None else None
    rows = for_promises(table) & (table.nodes > 0)
    return count_groups(None if table.groups is None else table.groups[rows], int(rows.sum()))


def _remark(result: EvaluationResult, run: TrainedRun, split: str) -> EvaluationResult:
    """The result with notes on the model, the data, and on tested samples that it was calibrated on."""
    tested = run.source.of_split(split) if bool((np.asarray(run.source.split) == split).any()) else run.source
    said = say_seen_since(int(seen_since_training(run, tested).sum()))
    if run.folder.home.extensions:
        here = typed(run.folder.home.path)
        said.append(
            "The run was extended, and these numbers are of the run as it was trained, without the "
            f"extension: 'labeltree evaluate {here} --data DATA' measures what answers now."
        )
    result = result.with_notes([model_sentence(run), *said], data_notes(run.source))
    return replace(result, cautions=[*said, *result.cautions])


def say_seen_since(count: int) -> list[str]:
    """A note if samples that are measured are among those of `seen_since_training`, by their number."""
    if not count:
        return []
    return [
        f"{count} of these samples {'is' if count == 1 else 'are'} among those that the run was calibrated "
        "or extended with: promises hold on them because of that, and after an extension all numbers are too "
        "good. Leave them out."
    ]


def with_ridge_options(
    settings: EvaluationSettings, run: TrainedRun, splits: Sequence[str]
) -> EvaluationSettings:
    """Let the protocol `folds`, if it is asked for, judge these splits with the settings of the run's head.

    Options that were given stay.
    """
    if not {"folds", "all"} & set(settings.protocols):
        return settings
    usual: dict[str, Any] = {"splits": tuple(splits)}
    if (solver := run.network.objective.solver) is not None:
        usual |= {**solver.space, "penalty": solver.penalty or 0.0, "folds": solver.folds}
        usual |= {"nonlinear": solver.num_fourier_features}
    given = settings.options.get("folds", {})
    return replace(settings, options={**settings.options, "folds": {**usual, **given}})


def _splits_for_folds(folder: RunFolder, run: TrainedRun) -> list[str]:
    """The splits that folds judge: all, unless the data came with a test split; see `FoldsOptions`."""
    record = folder.load_samples() if folder.samples.is_file() else None
    given = None if record is None else record.given_split
    if given is None or bool((np.asarray(given) == "test").any()):
        return []
    return sorted(set(np.asarray(run.source.split).tolist()) - {UNSEEN, ""})


def _load_beside(
    run: TrainedRun, table: EmbeddingTable, options: EvaluateOptions
) -> tuple[dict[str, TrainedRun], dict[str, EmbeddingTable]]:
    """The run and those that stand beside it, by name, and the table of each."""
    name = run.recipe.objective
    runs, tables = {name: run}, {name: table}
    for place in options.beside:
        other, others = run_tables(place, ["trained"], options.progress, verify=options.verify)
        if not _same_samples(run.source, other.source, table, others["trained"]):
            raise RunError(
                f"'{place}' cannot stand beside '{options.place}': its samples or its taxonomy differ"
            )
        label = other.recipe.objective
        label = label if label not in runs else f"{label} ({Path(place).name})"
        runs[label], tables[label] = other, others["trained"]
    return runs, tables


def _label_remarks(
    folder: RunFolder, run: TrainedRun, options: EvaluateOptions, other: OtherTaxonomy | None
) -> list[Remark]:
    """What is said of labels that changed with the taxonomy, or were corrected before the training."""

    def say_before_and_after(result: EvaluationResult) -> EvaluationResult:
        both = compare_with_before(folder, result)
        return result if both is None else result.with_notes(last=[both], cautions=[both])

    def say_corrected(result: EvaluationResult) -> EvaluationResult:
        corrected = already_corrected(folder, run.source, options.split)
        return result if corrected is None else result.with_notes([corrected], cautions=[corrected])

    changed = other is not None and other.change is not None and options.corrections is None
    return [*([say_before_and_after] if changed else []), say_corrected]


def _choose_for_version(there: TrainedRun, before: ChosenClassifier) -> ChosenClassifier:
    """The classifier with which a run answers on another version, as `predict` chooses it.

    Args:
        there: The run, seen on that version.
        before: The classifier with which it answers on its own taxonomy, as it does where it cannot choose.
    """
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
    if first.taxonomy != second.taxonomy or not torch.equal(
        ours.instances,  # type: ignore[arg-type]
        theirs.instances,  # type: ignore[arg-type]
    ):
        return False
    if bool(np.array_equal(first.sample_digests(), second.sample_digests())):
        return True
    of_vectors = "vector" in (*first.modalities, *second.modalities)
    named = first.names is not None and first.sample_names() == second.sample_names()
    alike = torch.equal(first.nodes, second.nodes) and np.array_equal(
        np.asarray(ours.split), np.asarray(theirs.split)
    )
    return of_vectors and named and alike
