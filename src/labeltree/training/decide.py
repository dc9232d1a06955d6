"""From a trained run to its answers: a classifier, and a decision rule fitted on validation samples."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.data import Source
from labeltree.decisions import Calibration, ClassNodes, DecisionRule, calibration_by_depth, fit_rule
from labeltree.decisions.classifier import classifier_from
from labeltree.decisions.paths import Descent
from labeltree.decisions.saving import rule_from_dict, rule_to_dict
from labeltree.errors import DataError, RunError
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.safe_files import Reader, read_json, read_tensors
from labeltree.training.embed import embed_source, load_run, run_tables
from labeltree.training.scores import ClassifierChoice, OwnScores, Scores, choose_classifier, own_scores
from labeltree.training.trainee import Trainee

__all__ = ["Decider", "calibrate_run", "open_decider"]


@dataclass(frozen=True)
class Decider:
    """A run that answers.

    Attributes:
        trainee: the run.
        scores: from an embeddings table to the scores of the classes.
        rule: from those to answers.
        record: what the run folder says about them.
    """

    trainee: Trainee
    scores: Scores
    rule: DecisionRule
    record: dict[str, Any]

    def embed(self, source: Source) -> tuple[EmbeddingTable, Tensor]:
        """The embeddings of samples, and the scores of the classes (n, C)."""
        table = embed_source(self.trainee.module, source)
        return table, self.scores(table)


def open_decider(path: str | Path) -> Decider:
    """The run with the decisions in its folder; fitted first where there are none for its present weights.

    Raises:
        RunError: if it is no finished run, or the decisions cannot be read.
        DataError: if decisions have to be fitted, and cannot be.
    """
    folder = RunFolder(path).require()
    record = _read(folder)
    if record is None or record.get("encoder") != _digest(folder):
        return calibrate_run(path)
    trainee = load_run(path)
    rule = rule_from_dict(record, trainee.source.taxonomy)
    kind = str(record.get("classifier"))
    if kind == "own":
        own = own_scores(trainee)
        if own is None or not torch.equal(own.classes, rule.classes.nodes):
            raise RunError(
                f"the decisions of '{path}' fit another classifier than the run's; calibrate again"
            )
        return Decider(trainee, own, rule, record)
    if not folder.classifier.is_file():
        raise RunError(
            f"'{path}' has lost its {folder.classifier.name}; 'labeltree calibrate {path}' makes it"
        )
    tensors = read_tensors(folder.classifier, _again(folder, "the classifier of a run"))
    expected = record.get("classifier_sha256")  # a calibration that was killed left one without the other
    if expected is not None and hashlib.sha256(folder.classifier.read_bytes()).hexdigest() != expected:
        raise RunError(
            f"'{folder.classifier}' is not the classifier that '{folder.decisions.name}' beside it was "
            f"calibrated with; 'labeltree calibrate {path}' makes both"
        )
    geometry = trainee.module.objective.geometry.name
    scores = classifier_from(tensors, geometry, trainee.module.recipe.curvature)
    if not torch.equal(scores.classes, rule.classes.nodes):
        raise RunError(f"the decisions of '{path}' fit another classifier than the run's; calibrate again")
    return Decider(trainee, scores, rule, record)


def calibrate_run(
    path: str | Path,
    *,
    classifier: ClassifierChoice = "auto",
    calibration: Calibration = "temperature",
    descent: Descent = "child",
    source: Source | None = None,
    share: float = 0.3,
    seed: int = 0,
) -> Decider:
    """Fit how a run answers, and write it to its folder. The same run and choices give the same file.

    Args:
        path: the run folder.
        classifier: `own`, the one that was trained with the encoder; `probe`, a linear one learned on the
            features of the training samples; `prototypes`, the nearest class mean of the embeddings. `auto`:
            its own, if it has one whose answers are a softmax, else the probe.
        calibration: of the probabilities.
        descent: which path answers lie on.
        source: labelled samples to calibrate on, in the shape that the run takes; None: the run's validation
            samples.
        share: of the samples that fit the probabilities; see `fit_rule`.
        seed: of the choice of those.

    Raises:
        RunError: if it is no finished run.
        DataError: if there are no samples to learn or to calibrate on.
        FolderInUseError: if another process writes in the folder.
    """
    folder = RunFolder(path).require()
    with folder.locked():
        return _calibrate(folder, classifier, calibration, descent, source, share, seed)


def _calibrate(
    folder: RunFolder,
    classifier: ClassifierChoice,
    calibration: Calibration,
    descent: Descent,
    source: Source | None,
    share: float,
    seed: int,
) -> Decider:
    path = folder.path
    if source is None:
        trainee, tables = run_tables(path, ["trained"])
        samples, groups = _validation(path, tables["trained"]), trainee.source.groups
        held, held_groups = tables["trained"].rows(samples), None if groups is None else groups[samples]
    else:
        trainee = load_run(path)
        held, held_groups = embed_source(trainee.module, source), source.groups
    scorer, kind = choose_classifier(path, trainee, classifier)
    classes = ClassNodes(scorer.classes, trainee.source.taxonomy)
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
    record: dict[str, Any] = {
        **rule_to_dict(rule),
        "encoder": _digest(folder),
        "classifier": kind,
        "calibrated_on": "validation samples" if source is None else source.name,
        "choices": {"calibration": calibration, "descent": descent, "share": share, "seed": seed},
        "calibration_by_depth": _before_and_after(rule, scores, held.nodes),
    }
    if not isinstance(scorer, OwnScores):
        from safetensors.torch import save

        content = save({name: value.contiguous() for name, value in scorer.tensors().items()})
        record["classifier_sha256"] = hashlib.sha256(content).hexdigest()
        with atomic_write(folder.classifier) as temporary:
            temporary.write_bytes(content)
    folder.write_json(folder.decisions, record)
    return Decider(trainee, scorer, rule, record)


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
    """Calibration by depth of the classifier as it is, and calibrated, on all calibration samples."""
    found = {}
    for name, p in (("before", torch.softmax(scores.double(), 1)), ("after", rule.probabilities(scores))):
        depths = calibration_by_depth(rule.classes.node_probabilities(p), labels, rule.classes.taxonomy)
        found[name] = {
            key: [float(getattr(here, key)) for here in depths]
            for key in ("accuracy", "confidence", "error", "brier", "nll")
        }
    return found


def _digest(folder: RunFolder) -> str | None:
    """A fingerprint of the weights; None where there are none."""
    if not folder.encoder.is_file():
        return None
    with folder.encoder.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(folder: RunFolder) -> dict[str, Any] | None:
    if not folder.decisions.is_file():
        return None
    return read_json(folder.decisions, _again(folder, "the decisions of a run"))


def _again(folder: RunFolder, what: str) -> Reader:
    return Reader(what, f"'labeltree calibrate {folder.path}' makes it again", RunError)
