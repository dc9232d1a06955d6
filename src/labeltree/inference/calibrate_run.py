"""`labeltree calibrate`: fit a decision rule to validation samples, store it in the run, and load it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.decisions import (
    CALIBRATIONS,
    Answers,
    ClassNodes,
    DecisionRule,
    NoveltyRule,
    TreeCost,
    calibration_by_depth,
    fit_novelty,
    fit_rule,
    mark_unknown,
)
from labeltree.decisions.answers import Descent
from labeltree.decisions.answers_of_groups import GroupRule, fit_group_rule
from labeltree.decisions.choose_classifier import (
    CLASSIFIER_WORDS,
    ChosenClassifier,
    ClassifierKind,
    choose_by_accuracy,
)
from labeltree.decisions.classifiers import (
    ClassifierChoice,
    Classifiers,
    ClassScores,
    FittedScores,
    MergedScores,
    classify,
    merging_temperature,
    remap_classes,
)
from labeltree.decisions.drift import DriftRule, fit_drift
from labeltree.decisions.promise_samples import PromiseSamples, for_promises, kept_for_probabilities
from labeltree.decisions.rule import rule_from_dict, rule_to_dict
from labeltree.errors import DataError, RunError, typed
from labeltree.inference.load_run import TrainedRun, keep_description, load_run
from labeltree.inference.named_samples import open_other
from labeltree.inference.public_settings import EXPORTED
from labeltree.inference.reference import (
    keep_calibration,
    load_calibration,
    load_reference,
    validation_table,
)
from labeltree.inference.run_classifiers import run_classifiers
from labeltree.inference.run_embeddings import OwnSamples, embed_source
from labeltree.metrics.functional import hierarchical_f1
from labeltree.options.answer_options import AnswerOptions
from labeltree.options.model_options import CalibrateOptions
from labeltree.options.schema import describes, takes
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.safe_files import Reader, read_json
from labeltree.taxonomy.label_sets import finest_labels
from labeltree.taxonomy.versions.between_versions import mapping_digest

__all__ = ["Decider", "about_run", "calibrate_run", "open_decider"]

_VALIDATION = "validation samples"
USUAL_ANSWERS = AnswerOptions()
_USUAL: dict[str, Any] = {
    name: getattr(CalibrateOptions, name) for name in ("calibration", "descent", "share", "seed")
}


@dataclass(frozen=True)
class Decider:
    """A run with its classifier and decision rule.

    Attributes:
        run: The run.
        scores: Computes class scores from an embeddings table.
        rule: Decision rule from class scores to answers.
        record: Content of the decisions file in the run folder.
        chosen: The classifier that computes the scores, and the reason for the choice.
    """

    run: TrainedRun
    scores: ClassScores
    rule: DecisionRule
    record: dict[str, Any]
    chosen: ChosenClassifier

    @cached_property
    def digest(self) -> str:
        """A fingerprint of everything that answers depend on: weights, classifier, calibration, taxonomy."""
        digest = hashlib.sha256(self.run.weights_digest.encode())
        digest.update(json.dumps([self.chosen.name, rule_to_dict(self.rule)]).encode())
        scores, left_out = self.scores, ""
        if isinstance(scores, MergedScores):
            digest.update(b"columns" + scores.columns.numpy().tobytes())
            digest.update(f"temperature {scores.temperature!r}".encode())
            scores, left_out = scores.scores, "classes"  # may be those before they were merged
        if isinstance(scores, FittedScores):
            for name, tensor in sorted(scores.tensors().items()):
                if name == left_out:
                    continue
                digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()

    def about(self, asked: str) -> dict[str, str]:
        """What an answer file says of its origin: model, version of labeltree, date, promise and taxonomy.

        Args:
            asked: Description of the required coverage or cost.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return {**self._origin, "date": now, "asked": asked}

    @cached_property
    def coarse_classes(self) -> Tensor:
        """Nodes `(k,)` that answer as a class, and have finer ones below on this version."""
        return torch.tensor(self.record.get("coarse_classes", []), dtype=torch.int64)

    def marked(self, answers: Answers) -> Answers:
        """Answers in which those at `coarse_classes` count as cut, too."""
        return replace(answers, cut=answers.cut | torch.isin(answers.nodes, self.coarse_classes))

    @cached_property
    def _origin(self) -> dict[str, str]:
        taxonomy = self.run.taxonomy.digest
        origin = {"model": self.digest, "taxonomy": taxonomy, "labeltree": version("labeltree")}
        mapping = self.record.get("mapping")  # of a run that answers on another version of its taxonomy
        return origin | ({"mapping": mapping} if isinstance(mapping, str) else {})

    def group_rule(self, per: str = "group") -> GroupRule:
        """How samples are combined to one answer, by the run's validation samples.

        Args:
            per: What is answered for: `group`, or an attribute of the samples, such as `lesion`; see
                `EmbeddingTable.units`.

        Raises:
            DataError: If there are none with groups, or too few labels.
        """
        if per not in self._group_rules:
            self._group_rules[per] = self._fit_group_rule(per)
        return self._group_rules[per]

    @cached_property
    def _group_rules(self) -> dict[str, GroupRule]:
        return {}

    def _fit_group_rule(self, per: str) -> GroupRule:
        if isinstance(self._compared, str):
            raise DataError(f"groups cannot be answered: {self._compared}")
        held = self._held
        if per == "group" and (held.groups is None or len(torch.unique(held.groups[held.groups >= 0])) < 2):
            raise DataError(
                "groups cannot be answered: the validation samples of the run are in no groups; train with "
                "--table.group_column, or calibrate on a table that has them"
            )
        units = held.units(per)
        within = None if per == "group" else held.groups
        probabilities = self.rule.probabilities(self.scores(held))
        choices = {**_USUAL, **_choices(self.record)}
        return fit_group_rule(
            probabilities,
            held.nodes,
            units,
            self.rule.classes,
            within=within,
            for_probabilities=kept_for_probabilities(held),
            **choices,
        )

    @property
    def promise_samples(self) -> PromiseSamples:
        """The samples that promises rest on, and what else they were used for."""
        on = str(self.record.get("calibrated_on", _VALIDATION))
        if on != _VALIDATION:
            return PromiseSamples.of(self.rule, "other", source="" if on == EXPORTED else on)
        kind: Literal["calib", "val"] = "calib" if self.record.get("set_aside") is True else "val"
        return PromiseSamples.of(self.rule, kind, chose=self.chosen.asked == "auto")

    @property
    def novelty(self) -> NoveltyRule | None:
        """What tells samples of unknown classes; None if the folder has no reference samples for that.

        New samples are compared with training samples, by distances at which the samples lie that promises
        rest on.
        """
        return self._novelty if isinstance(self._novelty, NoveltyRule) else None

    def cannot_tell(self, unknown: float) -> str:
        """Why samples of unknown classes are named like known ones; empty if they are told.

        Args:
            unknown: The share of samples of known classes that may be called unknown.
        """
        named = "samples of unknown classes are named like known ones: "
        if unknown == 0:
            return ""
        if not isinstance(self._novelty, NoveltyRule):
            return named + self._novelty
        known, smallest = self._novelty.known, self._novelty.smallest()
        if smallest <= unknown:
            return ""
        what = "samples" if len(known.values) == known.count else "groups of samples"
        return (
            f"{named}{known.count} held-out {what} are too few to keep false alarms to {unknown:g}; they "
            f"suffice for {math.ceil(1000 * smallest) / 1000:g}"
        )

    @cached_property
    def drift(self) -> DriftRule | None:
        """What tells whether a batch is like the samples of calibration; None without reference samples."""
        if isinstance(self._compared, str):
            return None
        reference, held = self._compared
        probabilities = self.rule.probabilities(self.scores(held))
        named = "groups" in self.run.columns
        return fit_drift(reference, held, probabilities, self.run.taxonomy, named_groups=named)

    @cached_property
    def _novelty(self) -> NoveltyRule | str:
        """What tells samples of unknown classes, or why there is nothing."""
        if isinstance(self._compared, str):
            return self._compared
        return fit_novelty(*self._compared, self.run.taxonomy)

    @cached_property
    def _compared(self) -> tuple[EmbeddingTable, EmbeddingTable] | str:
        """Training samples of the folder, and those that promises rest on, or why there are none."""
        compared = self._reference_and_held
        if isinstance(compared, str):
            return compared
        reference, held = compared
        return reference, held.rows(for_promises(held))

    @property
    def _held(self) -> EmbeddingTable:
        """All samples of the folder that training has not seen; only where `_compared` is no reason."""
        assert not isinstance(self._reference_and_held, str)
        return self._reference_and_held[1]

    @cached_property
    def _reference_and_held(self) -> tuple[EmbeddingTable, EmbeddingTable] | str:
        """Training samples of the folder, and those that training has not seen, or why there are none."""
        try:
            known = load_reference(self.run.base or self.run)
        except RunError as error:
            return str(error)
        if known is None:
            return (
                "the folder has no reference samples to compare them with ('labeltree calibrate RUN' "
                "makes them; an exported model keeps them with --with-reference)"
            )
        if self.run.change is not None:
            known = replace(known, nodes=self.run.change.to_new(known.nodes))
        held = torch.from_numpy(np.asarray(known.split) != "train")
        if (on := self.record.get("calibrated_on", _VALIDATION)) != _VALIDATION:
            theirs = load_calibration(self.run)
            if theirs is None or not bool((theirs.nodes > 0).any()):
                return (
                    f"the run was calibrated on '{on}', whose samples are not in its folder: calibrate "
                    "again, or export it with --with-reference"
                )
            return known.rows(~held), theirs
        if not bool((known.nodes[held] > 0).any()) or not bool((known.nodes[~held] > 0).any()):
            return "there are no labelled validation samples that tell how far known samples lie"
        return known.rows(~held), known.rows(held)

    def answer(
        self,
        table: EmbeddingTable,
        options: AnswerOptions = USUAL_ANSWERS,
        price: TreeCost | Tensor | None = None,
    ) -> Answers:
        """Answers for the samples of a table.

        Args:
            table: n samples of the run's encoder.
            options: What is asked of each; `per` and `explained` are about more than one answer, and not
                read.
            price: Costs of answers, if the one of least expected cost is chosen: what the `cost` of the
                options says.
        """
        scores = self.scores(table) if len(table) else torch.empty(0, len(self.rule.classes)).double()
        answers = self.marked(answer_scores_by(self.rule, scores, options, price))
        if self.novelty is None:
            return answers
        paths = self.rule.paths(scores)
        return mark_unknown(answers, paths, self.novelty.fit(table, paths.nodes), options.unknown)

    def embed(self, source: Source) -> EmbeddingTable:
        """The embeddings of samples."""
        return embed_source(self.run.network, source, keep=False)


def answer_scores_by(
    rule: DecisionRule, scores: Tensor, options: AnswerOptions, price: TreeCost | Tensor | None
) -> Answers:
    """Answers of a rule for class scores, by the required coverage or, with a price, by cost."""
    if price is not None:
        return rule.cheapest(scores, price, options.top)
    return rule.answer(scores, options.promise, by_depth=options.by_depth, top=options.top)


def about_run(run: TrainedRun, asked: str) -> dict[str, str]:
    """What a file of embeddings says of its origin: as `Decider.about`, with the weights as the model."""
    return {
        "model": run.weights_digest,
        "labeltree": version("labeltree"),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": asked,
        "taxonomy": run.taxonomy.digest,
    }


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
        return replace(calibrate_run(path, **_choices(record)), run=run)
    rule = rule_from_dict(record, run.taxonomy)
    scores = classifiers.scores()
    if not torch.equal(scores.classes, rule.classes.nodes):
        raise RunError(f"the decisions of '{path}' fit another classifier than the run's; calibrate again")
    return Decider(run, scores, rule, record, classifiers.chosen)


def _decider_on(run: TrainedRun, base: TrainedRun, asked: ClassifierChoice | None) -> Decider:
    """Calibrate a run on another version of its taxonomy, in memory: its folder stays as it is.

    The classifier is chosen anew by the accuracy on the classes of that version, unless one was asked for.
    """
    change, path = run.change, run.folder.path
    assert change is not None
    before = _read(run.folder) or {}
    if before.get("calibrated_on", _VALIDATION) != _VALIDATION:
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
        # classes that were merged before keep the temperature of then
        merged = isinstance(single, MergedScores)
        temperature = 1.0 if merged else merging_temperature(single, validation, base.taxonomy)
        scorers[name] = remap_classes(single, change.places[single.classes], temperature)
    held = replace(held, nodes=change.to_new(held.nodes))
    validation = held.rows(torch.from_numpy(np.asarray(held.split) == "val"))
    finest = validation.rows(
        finest_labels(validation.nodes, run.taxonomy)[validation.nodes.clamp(min=0)] & (validation.nodes > 0)
    )
    accuracies: dict[str, float] = {}
    if len(finest):
        accuracies = {
            name: float((classify(each, finest) == finest.nodes).double().mean())
            for name, each in scorers.items()
        }
    f1: dict[str, float] = {
        name: float(hierarchical_f1(classify(each, finest), finest.nodes, run.taxonomy))
        for name, each in (scorers.items() if len(finest) else ())
    }
    chosen = choose_by_accuracy(offered, accuracies, len(finest), asked or known.chosen.asked, f1)
    chosen = replace(chosen, one_class=len(torch.unique(finest.nodes)) == 1, space=known.chosen.space)
    scorer, choices = scorers[chosen.name], {**_USUAL, **_choices(before)}
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
        **_record_of(rule, run, chosen, _VALIDATION, choices, held),
        "calibration_by_depth": _before_and_after(rule, scores, held.nodes),
        "mapping": mapping_digest(change.mapping),
        "coarse_classes": sorted(
            {int(change.places[node]) for node in change.divided(known.scores(chosen.name).classes)}
        ),
        "merging_temperatures": {
            name: each.temperature for name, each in scorers.items() if isinstance(each, MergedScores)
        },
    }
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
        **({"set_aside": True} if on == _VALIDATION and kept_for_probabilities(held) is not None else {}),
        "choices": dict(choices),
        "calibration_check": rule.check.to_dict(),
    }


def _check_replaceable(record: dict[str, Any], path: Path, name: str) -> None:
    """Raise a `RunError` if decisions were calibrated on samples from outside the run, and would be lost."""
    given = record.get("calibrated_on", _VALIDATION)
    if given != _VALIDATION:
        raise RunError(
            f"the decisions of '{path}' were calibrated on '{given}' for other weights or another "
            f"classifier than '{name}'; calibrate again: 'labeltree calibrate {typed(path)} --data DATA'"
        )


def _choices(record: dict[str, Any]) -> dict[str, Any]:
    """The options of an earlier calibration, as far as they are valid."""
    choices = record.get("choices")
    if not isinstance(choices, dict):
        return {}
    kinds = {"calibration": CALIBRATIONS, "descent": get_args(Descent)}
    return {key: choices[key] for key, known in kinds.items() if choices.get(key) in known}


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
        source = open_other(
            load_run(RunFolder(options.run).path, own_data=False),
            options.data,
            data_path=options.data_path,
            mapping=options.mapping,
        )
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
            on=_VALIDATION if source is None else source.name,
            choices={name: getattr(options, name) for name in _USUAL},
        )
        record = decider.record
        try:
            earlier = _read(folder) or {}
        except RunError:  # damaged, and made again here
            earlier = {}
        if isinstance(earlier.get("mapping"), str):
            record["mapping"] = earlier["mapping"]  # an exported model on another version of its taxonomy
            record["coarse_classes"] = earlier.get("coarse_classes", [])
        keep_calibration(run, None if source is None else held)
        folder.write_json(folder.decisions, record)
        keep_description(run)
        return decider


def fit_decider(
    run: TrainedRun,
    classifiers: Classifiers,
    held: EmbeddingTable,
    *,
    on: str = _VALIDATION,
    choices: Mapping[str, Any] = _USUAL,
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

    If no calibration was checked, the two are the same, on all calibration samples.
    """
    checks = {}
    check = rule.check
    for name in ("before", "after"):
        if check is not None and check.before:
            depths = check.before if name == "before" else check.after
        else:
            p = rule.classes.node_probabilities(rule.probabilities(scores))
            depths = calibration_by_depth(p, labels, rule.classes.taxonomy, classes=rule.classes.nodes)
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
