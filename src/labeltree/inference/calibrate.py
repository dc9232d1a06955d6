"""`labeltree calibrate`: a decision rule fitted on validation samples, kept in the run, opened to predict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.decisions import (
    CALIBRATIONS,
    Calibration,
    ClassNodes,
    DecisionRule,
    calibration_by_depth,
    fit_rule,
)
from labeltree.decisions.answers import Descent
from labeltree.decisions.classifiers import ChosenClassifier, ClassifierChoice, ClassScores
from labeltree.decisions.rule import rule_from_dict, rule_to_dict
from labeltree.errors import DataError, RunError
from labeltree.inference.classifiers import run_classifiers, weights_digest
from labeltree.inference.embeddings import embed_source, run_tables
from labeltree.inference.loading import load_run
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.safe_files import Reader, read_json
from labeltree.training.experiment import Experiment

__all__ = ["Decider", "calibrate_run", "open_decider"]

_VALIDATION = "validation samples"


@dataclass(frozen=True)
class Decider:
    """A run that answers.

    Attributes:
        experiment: the run.
        scores: from an embeddings table to the scores of the classes.
        rule: from those to answers.
        record: what the run folder says about them.
        chosen: which classifier the scores are of, and why.
    """

    experiment: Experiment
    scores: ClassScores
    rule: DecisionRule
    record: dict[str, Any]
    chosen: ChosenClassifier

    def embed(self, source: Source) -> tuple[EmbeddingTable, Tensor]:
        """The embeddings of samples, and the scores of the classes (n, C)."""
        table = embed_source(self.experiment.module, source)
        return table, self.scores(table)


def open_decider(
    path: str | Path,
    classifier: ClassifierChoice | None = None,
    *,
    own_data: bool = False,
    verify: bool = False,
) -> Decider:
    """The run with the decisions in its folder; fitted first where none fit its weights and classifier.

    Args:
        path: the run folder.
        classifier: to answer with from now on; None: the one that was decided on, see `run_classifiers`.
        own_data: open the run's own samples, to answer for them. Otherwise they need not be there, unless
            the classifiers or the decisions have to be fitted on them first.
        verify: read all files of the run's own samples again, whatever the cache holds of them.

    Raises:
        RunError: if it is no finished run, or the decisions cannot be read, or were calibrated on samples of
            somebody's and do not fit any more.
        DataError: if decisions have to be fitted, and cannot be.
    """
    folder = RunFolder(path).require()
    experiment = load_run(path, own_data=own_data, verify=verify)
    classifiers = run_classifiers(path, experiment, classifier)
    record = _read(folder)
    if record is None:
        return calibrate_run(path)
    name = classifiers.chosen.name
    if record.get("encoder") != weights_digest(folder) or record.get("classifier") != name:
        given = record.get("calibrated_on", _VALIDATION)
        if given != _VALIDATION:
            raise RunError(
                f"the decisions of '{path}' were calibrated on '{given}' for other weights or another "
                f"classifier than '{name}'; calibrate again: 'labeltree calibrate {path} --data DATA'"
            )
        return calibrate_run(path, **_choices(record))
    rule = rule_from_dict(record, experiment.source.taxonomy)
    scores = classifiers.scores()
    if not torch.equal(scores.classes, rule.classes.nodes):
        raise RunError(f"the decisions of '{path}' fit another classifier than the run's; calibrate again")
    return Decider(experiment, scores, rule, record, classifiers.chosen)


def _choices(record: dict[str, Any]) -> dict[str, Any]:
    """The choices of an earlier calibration, where they are ones."""
    found = record.get("choices")
    if not isinstance(found, dict):
        return {}
    kinds = {"calibration": CALIBRATIONS, "descent": get_args(Descent)}
    return {key: found[key] for key, known in kinds.items() if found.get(key) in known}


def calibrate_run(
    path: str | Path,
    *,
    classifier: ClassifierChoice | None = None,
    calibration: Calibration = "temperature",
    descent: Descent = "child",
    source: Source | None = None,
    share: float = 0.3,
    seed: int = 0,
    verify: bool = False,
) -> Decider:
    """Fit how a run answers, and write it to its folder. The same run and choices give the same file.

    Args:
        path: the run folder.
        classifier: `own`, the one that was trained with the encoder; `probe`, a linear one learned on the
            features of the training samples; `prototypes`, the nearest class mean of the embeddings. `auto`:
            the one that names most validation samples' classes. None: what was decided before, or what the
            recipe says; see `run_classifiers`.
        calibration: kind of calibration; it is applied unless it makes them worse, see `fit_rule`.
        descent: which path answers lie on.
        source: labelled samples to calibrate on, in the shape that the run takes; None: the run's validation
            samples.
        share: share of the samples that fit the probabilities; see `fit_rule`.
        seed: random seed of the choice of those.
        verify: without `source`, read all files of the run's samples again, whatever the cache holds of them.

    Raises:
        RunError: if it is no finished run.
        DataError: if there are no samples to learn or to calibrate on.
        FolderInUseError: if another process writes in the folder.
    """
    folder = RunFolder(path).require()
    with folder.locked():
        if source is None:
            experiment, tables = run_tables(path, ["trained"], verify=verify)
            samples, groups = _validation(path, tables["trained"]), experiment.source.groups
            held, held_groups = tables["trained"].rows(samples), None if groups is None else groups[samples]
        else:
            experiment = load_run(path, own_data=False)
            held, held_groups = embed_source(experiment.module, source), source.groups
        try:
            classifiers = run_classifiers(path, experiment, classifier)
        except RunError:  # what is damaged is made again
            classifiers = run_classifiers(path, experiment, classifier, anew=True)
        scorer = classifiers.scores()
        classes = ClassNodes(scorer.classes, experiment.source.taxonomy)
        scores = scorer(held)
        rule = fit_rule(
            scores,
            held.nodes,
            classes,
            groups=held_groups,
            calibration=calibration,
            descent=descent,
            share=share,
            seed=seed,
        )
        assert rule.check is not None
        record: dict[str, Any] = {
            **rule_to_dict(rule),
            "encoder": weights_digest(folder),
            "classifier": classifiers.chosen.name,
            "classifier_choice": classifiers.chosen.to_dict(),
            "calibrated_on": _VALIDATION if source is None else source.name,
            "choices": {"calibration": calibration, "descent": descent, "share": share, "seed": seed},
            "calibration_check": rule.check.to_dict(),
            "calibration_by_depth": _before_and_after(rule, scores, held.nodes),
        }
        folder.write_json(folder.decisions, record)
        return Decider(experiment, scorer, rule, record, classifiers.chosen)


def _validation(path: str | Path, table: EmbeddingTable) -> Tensor:
    rows = torch.zeros(len(table), dtype=torch.bool)
    if table.split is not None:
        rows = torch.from_numpy(table.split == "val")
    rows &= table.nodes >= 0
    if not bool(rows.any()):
        raise DataError(
            f"run '{path}' has no labelled validation samples to calibrate on; name some that it was not "
            f"trained on: 'labeltree calibrate {path} --data DATA'"
        )
    return rows.nonzero()[:, 0]


def _before_and_after(
    rule: DecisionRule, scores: Tensor, labels: Tensor
) -> dict[str, dict[str, list[float]]]:
    """Calibration by depth of the classifier as it is, and calibrated, on samples held out of it.

    Where no calibration was tried the two are the same, on all calibration samples.
    """
    found = {}
    check = rule.check
    for name in ("before", "after"):
        if check is not None and check.before:
            depths = check.before if name == "before" else check.after
        else:
            p = rule.classes.node_probabilities(rule.probabilities(scores))
            depths = calibration_by_depth(p, labels, rule.classes.taxonomy, classes=rule.classes.nodes)
        found[name] = {
            key: [float(getattr(here, key)) for here in depths]
            for key in ("accuracy", "confidence", "error", "brier", "nll")
        }
    return found


def _read(folder: RunFolder) -> dict[str, Any] | None:
    if not folder.decisions.is_file():
        return None
    again = f"'labeltree calibrate {folder.path}' makes it again"
    return read_json(folder.decisions, Reader("the decisions of a run", again, RunError))
