"""`labeltree calibrate`: fit a decision rule to validation samples, store it in the run, and load it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data.copies import join_copies
from labeltree.decisions import ClassNodes, DecisionRule, calibration_by_depth, fit_rule
from labeltree.decisions.choose_classifier import (
    CLASSIFIER_WORDS,
    ChosenClassifier,
    ClassifierKind,
    choose_classifier,
)
from labeltree.decisions.classifiers import (
    ClassifierChoice,
    Classifiers,
    ClassScores,
    MergedScores,
    answer_held_out,
    merging_temperature,
    remap_classes,
)
from labeltree.decisions.promise_samples import StoredRule, kept_for_probabilities
from labeltree.decisions.rule import rule_from_dict, rule_to_dict
from labeltree.errors import DataError, RunError, typed
from labeltree.inference.decider import USUAL_CHOICES, VALIDATION, Decider, read_choices
from labeltree.inference.load_run import TrainedRun, keep_description, load_run
from labeltree.inference.named_samples import lacks_groups, open_other
from labeltree.inference.reference import keep_calibration, validation_table
from labeltree.inference.run_classifiers import run_classifiers
from labeltree.inference.run_embeddings import OwnSamples, embed_source
from labeltree.options.model_options import CalibrateOptions
from labeltree.options.schema import describes, takes
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.safe_files import Reader, read_json
from labeltree.taxonomy.label_sets import finest_labels
from labeltree.taxonomy.versions.between_versions import mapping_digest

__all__ = ["calibrate_run", "open_decider", "with_stored_rule"]

_log = logging.getLogger("labeltree.inference")


@describes(CalibrateOptions)
def open_decider(
    path: str | Path | TrainedRun,
    classifier: ClassifierChoice | None = None,
    *,
    own_data: bool = False,
    verify: bool = False,
) -> Decider:
    """Open a run with its stored decision rule; fit one first if none matches the weights and classifier.

    Args:
        path: The run folder, or the run if it is loaded already. A run that is seen on another version of its
            taxonomy is calibrated anew in memory, on the reference samples in its folder.
        own_data: Open the run's own samples, to answer for them. Otherwise they may be absent, unless the
            classifiers must be learned from them first.

    Raises:
        RunError: If the folder is not a finished run, the decision rule cannot be read, or it was calibrated
            on samples from outside the run and no longer matches the run.
        DataError: If a decision rule must be fitted and cannot be.
    """
    run = path if isinstance(path, TrainedRun) else load_run(path, own_data=own_data, verify=verify)
    if run.base is not None:
        return _decider_on(run, run.base, classifier)
    folder, path = run.folder, run.folder.path
    record = _read(folder)
    if record is not None and classifier not in (None, "auto", record.get("classifier")):
        _check_replaceable(record, path, str(classifier))  # before the choice is stored
    classifiers = run_classifiers(run, classifier)
    if record is None:
        return replace(calibrate_run(path), run=run)
    name = classifiers.chosen.name
    if record.get("encoder") != run.weights_digest or record.get("classifier") != name:
        _check_replaceable(record, path, name)
        return replace(calibrate_run(path, **read_choices(record)), run=run)
    rule = rule_from_dict(record, run.taxonomy)
    scores = classifiers.scores()
    if not torch.equal(scores.classes, rule.classes.nodes):
        raise RunError(f"the decisions of '{path}' fit another classifier than the run's; calibrate again")
    return Decider(run, scores, rule, record, classifiers.chosen)


def with_stored_rule(run: TrainedRun, classifiers: Classifiers) -> Classifiers:
    """The classifiers of a run, with the rule by which it answers if that rests on samples from elsewhere.

    Raises:
        RunError: If the decision rule cannot be read.
    """
    record = _read(run.folder)
    if record is None or record.get("calibrated_on", VALIDATION) == VALIDATION:
        return classifiers
    name = classifiers.chosen.name
    if record.get("encoder") != run.weights_digest or record.get("classifier") != name:
        return classifiers
    decider = Decider(
        run, classifiers.scores(), rule_from_dict(record, run.taxonomy), record, classifiers.chosen
    )
    return replace(classifiers, calibrated=StoredRule(decider.rule, decider.promise_samples.source))


def _decider_on(run: TrainedRun, base: TrainedRun, asked: ClassifierChoice | None) -> Decider:
    """Calibrate a run on another version of its taxonomy, in memory: its folder stays as it is.

    The classifier is chosen anew by the accuracy on the classes of that version, unless one was asked for.
    """
    change, path = run.change, run.folder.path
    assert change is not None
    before = _read(run.folder) or {}
    if before.get("calibrated_on", VALIDATION) != VALIDATION:
        raise RunError(
            f"the decisions of '{path}' were calibrated on '{before['calibrated_on']}', whose labels are not "
            "in its folder, so they cannot be calibrated anew on another taxonomy; 'labeltree calibrate "
            f"{path}' calibrates on its own validation samples, then export it on that taxonomy, and "
            "'labeltree calibrate MODEL --data DATA --mapping FILE' calibrates the export on your samples"
        )
    known = run_classifiers(base)
    try:
        held = validation_table(base, OwnSamples(path))
    except (DataError, RunError) as error:
        raise RunError(
            f"to answer on another taxonomy, the run in '{path}' is calibrated anew on its reference samples "
            f"({run.folder.reference.name}), which it lacks: {error}. 'labeltree calibrate {typed(path)}' "
            "makes them where its data are; of an exported model, 'labeltree export --with-reference' keeps "
            "them"
        ) from error
    held = replace(held, predictions=None)
    validation = held.rows(torch.from_numpy(np.asarray(held.split) == "val"))
    offered = [name for name in CLASSIFIER_WORDS if name == "own" or name in known.fitted]
    offered = [name for name in offered if name in known.chosen.offered]
    scorers: dict[ClassifierKind, ClassScores] = {}
    for name in offered:
        single = known.scores(name)
        temperature = merging_temperature(single, validation, base.taxonomy)
        scorers[name] = remap_classes(single, change.places[single.classes], temperature)
    held = replace(held, nodes=change.to_new(held.nodes))
    validation = held.rows(torch.from_numpy(np.asarray(held.split) == "val"))
    finest = validation.rows(finest_labels(validation.nodes, run.taxonomy)[validation.nodes.clamp(min=0)])
    answers, losses = answer_held_out(scorers, finest, run.taxonomy)
    chosen = choose_classifier(answers, finest.nodes, run.taxonomy, asked or known.chosen.asked, losses)
    chosen = replace(chosen, space=known.chosen.space)
    scorer, choices = scorers[chosen.name], {**USUAL_CHOICES, **read_choices(before)}
    scores = scorer(held)
    rule = fit_rule(
        scores,
        held.nodes,
        ClassNodes(scorer.classes, run.taxonomy),
        groups=held.groups,
        for_probabilities=kept_for_probabilities(held),
        **choices,
    )
    record = {
        **_record_of(rule, run, chosen, VALIDATION, choices, held),
        "calibration_by_depth": _before_and_after(rule, scores, held.nodes),
        "mapping": mapping_digest(change.mapping),
        "coarse_classes": sorted(
            {int(change.places[node]) for node in change.divided(known.scores(chosen.name).classes)}
        ),
        "merging_temperatures": {
            name: each.temperature for name, each in scorers.items() if isinstance(each, MergedScores)
        },
    }
    # of a class that this version lacks, the place is that of a node above it, most of which was promised
    later = [node for node in before.get("later_classes", ()) if bool(change.mapping.exact[node])]
    if later:
        record["later_classes"] = torch.unique(change.places[torch.tensor(later)]).tolist()
    return Decider(run, scorer, rule, record, chosen)


def _record_of(
    rule: DecisionRule,
    run: TrainedRun,
    chosen: ChosenClassifier,
    on: str,
    choices: Mapping[str, Any],
    held: EmbeddingTable,
) -> dict[str, Any]:
    """The content of the decisions file, but for the calibration by depth."""
    assert rule.check is not None
    return {
        **rule_to_dict(rule),
        "encoder": run.weights_digest,
        "classifier": chosen.name,
        "classifier_choice": chosen.to_dict(),
        "calibrated_on": on,
        **({"set_aside": True} if on == VALIDATION and kept_for_probabilities(held) is not None else {}),
        "choices": dict(choices),
        "calibration_check": rule.check.to_dict(),
    }


def _check_replaceable(record: dict[str, Any], path: Path, name: str) -> None:
    """Raise a `RunError` if decisions were calibrated on samples from outside the run, and would be lost."""
    given = record.get("calibrated_on", VALIDATION)
    if given != VALIDATION:
        raise RunError(
            f"the decisions of '{path}' were calibrated on '{given}' for other weights or another "
            f"classifier than '{name}'; calibrate again: 'labeltree calibrate {typed(path)} --data DATA'"
        )


@takes(CalibrateOptions)
def calibrate_run(options: CalibrateOptions) -> Decider:
    """Fit the decision rule of a run and write it to the run folder; deterministic for the same options.

    Raises:
        RunError: If the folder is not a finished run.
        DataError: If there are no samples to learn from or to calibrate on.
        FolderInUseError: If another process is writing to the folder.
    """
    progress, verify = options.progress, options.verify
    source = None
    if options.data is not None:
        reading = load_run(RunFolder(options.run).path, own_data=False)
        source = open_other(
            reading,
            options.data,
            data_path=options.data_path,
            mapping=options.mapping,
            table=options.table,
        )
        promised = "promises hold for samples, not for these together"
        if alone := lacks_groups(source, reading, promised):
            _log.warning("%s", alone)
        source, copied = join_copies(source)
        for note in copied:
            _log.warning("%s", note)
    folder = RunFolder(options.run).require().answering()
    path = folder.path
    with folder.locked():
        run = load_run(path, own_data=False)
        own_samples = OwnSamples(path, progress, verify=verify)
        if source is not None:
            held = replace(
                embed_source(run.network, source, progress=progress), split=None
            )  # all serve alike
        else:
            held = validation_table(run, own_samples, anew=verify)
        try:
            classifiers = run_classifiers(run, options.classifier, own_samples=own_samples)
        except RunError:  # what is damaged is made again
            classifiers = run_classifiers(run, options.classifier, own_samples=own_samples, anew=True)
        decider = fit_decider(
            run,
            classifiers,
            held,
            on=VALIDATION if source is None else source.name,
            choices={name: getattr(options, name) for name in USUAL_CHOICES},
        )
        record = decider.record
        try:
            earlier = _read(folder) or {}
        except RunError:  # damaged, and made again here
            earlier = {}
        if isinstance(earlier.get("mapping"), str):
            record["mapping"] = earlier["mapping"]  # an exported model on another version of its taxonomy
            record["coarse_classes"] = earlier.get("coarse_classes", [])
        if "later_classes" in earlier:
            record["later_classes"] = earlier["later_classes"]
        if source is None:
            keep_calibration(run, None)
        else:
            keep_calibration(run, held, source.copy_digests())
        folder.write_json(folder.decisions, record)
        keep_description(run)
        return decider


def fit_decider(
    run: TrainedRun,
    classifiers: Classifiers,
    held: EmbeddingTable,
    *,
    on: str = VALIDATION,
    choices: Mapping[str, Any] = USUAL_CHOICES,
) -> Decider:
    """Fit the decision rule of a run on held-out samples; nothing is written.

    Args:
        run: The run.
        classifiers: Its classifiers, one of which was chosen to answer.
        held: Labelled samples that the classifier has not learned from.
        on: What these samples are, for the record.
        choices: `calibration`, `descent`, `share` and `seed`, see `CalibrateOptions`.

    Raises:
        DataError: If there are no samples to calibrate on.
    """
    scorer = classifiers.scores()
    scores = scorer(held)
    rule = fit_rule(
        scores,
        held.nodes,
        ClassNodes(scorer.classes, run.taxonomy),
        groups=held.groups,
        for_probabilities=kept_for_probabilities(held),
        **choices,
    )
    record = {
        **_record_of(rule, run, classifiers.chosen, on, choices, held),
        "calibration_by_depth": _before_and_after(rule, scores, held.nodes),
    }
    return Decider(run, scorer, rule, record, classifiers.chosen)


def _before_and_after(
    rule: DecisionRule, scores: Tensor, labels: Tensor
) -> dict[str, dict[str, list[float]]]:
    """Calibration by depth without and with the calibrator, on samples that it was not fitted to.

    If no calibration was checked, both are on all calibration samples, to which a temperature that softens
    few was fitted; without one the two are the same.
    """
    checks = {}
    check = rule.check
    for name in ("before", "after"):
        if check is not None and check.before:
            depths = check.before if name == "before" else check.after
        else:
            raw = name == "before"
            p = torch.softmax(scores.double(), 1) if raw else rule.probabilities(scores)
            of_nodes = rule.classes.node_probabilities(p)
            depths = calibration_by_depth(of_nodes, labels, rule.classes.taxonomy, classes=rule.classes.nodes)
        checks[name] = {
            key: [float(getattr(here, key)) for here in depths]
            for key in ("accuracy", "confidence", "error", "by_chance", "brier", "nll")
        }
    return checks


def _read(folder: RunFolder) -> dict[str, Any] | None:
    if not folder.decisions.is_file():
        return None
    again = f"'labeltree calibrate {typed(folder.path)}' makes it again"
    return read_json(folder.decisions, Reader("the decisions of a run", again, RunError))
