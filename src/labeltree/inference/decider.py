"""A run with its classifier and decision rule, which answers for samples."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.decisions import (
    CALIBRATIONS,
    Answers,
    DecisionRule,
    NoveltyRule,
    TreeCost,
    fit_novelty,
    mark_unknown,
)
from labeltree.decisions.answers import Descent, Paths
from labeltree.decisions.answers_of_groups import GroupRule, fit_group_rule
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import ClassScores, FittedScores, MergedScores
from labeltree.decisions.drift import DriftRule, fit_drift
from labeltree.decisions.promise_samples import (
    CLASSIFIER,
    EPOCH,
    PromiseSamples,
    for_promises,
    kept_for_probabilities,
)
from labeltree.decisions.rule import rule_to_dict
from labeltree.errors import DataError, RunError, typed
from labeltree.inference.calibration_text import calibration_text
from labeltree.inference.load_run import TrainedRun
from labeltree.inference.public_settings import EXPORTED
from labeltree.inference.reference import is_merged, load_calibration, load_reference
from labeltree.inference.run_embeddings import embed_source
from labeltree.options.answer_options import AnswerOptions
from labeltree.options.model_options import CalibrateOptions
from labeltree.runs import EmbeddingTable

__all__ = [
    "USUAL_ANSWERS",
    "USUAL_CHOICES",
    "VALIDATION",
    "Decider",
    "about_run",
    "answer_scores_by",
    "read_choices",
]

VALIDATION = "validation samples"
"""What a calibration says that rests on the validation samples of the run itself."""
USUAL_CHOICES: dict[str, Any] = {
    name: getattr(CalibrateOptions, name) for name in ("calibration", "descent", "share", "seed")
}
"""How a run is calibrated unless its owner says otherwise."""
USUAL_ANSWERS = AnswerOptions()
_NONE_HELD = "there are no labelled validation samples that tell how far known samples lie"


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

    def __repr__(self) -> str:
        """What 'labeltree calibrate' prints: its samples, the calibration error by depth, and thresholds."""
        return calibration_text(self.rule, self.record, self.promise_samples.sentence).rstrip()

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

    @cached_property
    def later_classes(self) -> Tensor:
        """Nodes `(k,)` of the classes that were added after the training."""
        return torch.tensor(self.record.get("later_classes", []), dtype=torch.int64)

    @cached_property
    def unpromised(self) -> Tensor:
        """Nodes `(k,)` of the `later_classes` without a calibration sample: nothing is promised for them."""
        return self.later_classes[~torch.isin(self.later_classes, self.rule.fitted.labels)]

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
        held = self._held
        if isinstance(held, str):
            raise DataError(f"groups cannot be answered: {held}")
        groups = 0 if held.groups is None else len(torch.unique(held.groups[held.groups >= 0]))
        if per == "group" and groups < 2:
            where = "in no groups" if not groups else "all of one group"
            remedy = "train with --table.group_column" if not groups else "train with a larger --val"
            raise DataError(
                f"groups cannot be answered: the validation samples of the run are {where}; {remedy}, or "
                "calibrate on a table that has several"
            )
        units = held.units(per)
        within = None if per == "group" else held.groups
        probabilities = self.rule.probabilities(self.scores(held))
        choices = {**USUAL_CHOICES, **read_choices(self.record)}
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
    def doubt(self) -> str:
        """A sentence if the probabilities are hardly better than guessing; else empty."""
        check = self.record.get("calibration_check")
        return str(check.get("warning", "")) if isinstance(check, dict) else ""

    @property
    def promise_samples(self) -> PromiseSamples:
        """The samples that promises rest on, and what else they were used for."""
        on = str(self.record.get("calibrated_on", VALIDATION))
        names = tuple(self.run.taxonomy.path_name(node) for node in self.unpromised.tolist())
        if on != VALIDATION:
            source = "" if on == EXPORTED else on
            return PromiseSamples.of(self.rule, "other", source=source, unpromised=names)
        kind: Literal["calib", "val"] = "calib" if self.record.get("set_aside") is True else "val"
        epochs = (self.run.base or self.run).network.objective.solver is None
        chose = (*([EPOCH] if epochs else []), *([CLASSIFIER] if self.chosen.asked == "auto" else []))
        return PromiseSamples.of(self.rule, kind, chose=chose, unpromised=names)

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
        return fit_drift(reference, held, probabilities, named_groups=named)

    @cached_property
    def _novelty(self) -> NoveltyRule | str:
        """What tells samples of unknown classes, or why there is nothing."""
        if isinstance(self._compared, str):
            return self._compared
        return fit_novelty(*self._compared, self.run.taxonomy)

    @cached_property
    def _compared(self) -> tuple[EmbeddingTable, EmbeddingTable] | str:
        """Training samples of the folder, and those that promises rest on, or why there are none."""
        known, held = self._reference, self._held
        if isinstance(known, str):
            return known
        if isinstance(held, str):
            return held
        training = known.rows(torch.from_numpy(np.asarray(known.split) == "train"))
        if not bool((training.nodes > 0).any()) and not self._calibrated_elsewhere:
            return _NONE_HELD
        return training, held.rows(for_promises(held))

    @property
    def _calibrated_elsewhere(self) -> bool:
        """Whether the samples that promises rest on are not the run's own."""
        return bool(self.record.get("calibrated_on", VALIDATION) != VALIDATION)

    @cached_property
    def _held(self) -> EmbeddingTable | str:
        """All samples of the folder that training has not seen, or why there are none."""
        if not self._calibrated_elsewhere:
            known = self._reference
            if isinstance(known, str):
                return known
            held = known.rows(torch.from_numpy(np.asarray(known.split) != "train"))
            return held if bool((held.nodes > 0).any()) else _NONE_HELD
        theirs = load_calibration(self.run)
        if theirs is not None and bool((theirs.nodes > 0).any()):
            return theirs
        on = self.record["calibrated_on"]
        if is_merged(self.run.folder):
            return (
                f"the run was calibrated on '{on}', of which a merged model keeps scores alone: calibrate it "
                f"on labelled samples of yours, 'labeltree calibrate {typed(self.run.folder.path)} --data "
                "DATA'"
            )
        return (
            f"the run was calibrated on '{on}', whose samples are not in its folder: calibrate again, or "
            "export it with --with-reference"
        )

    @property
    def labelled_samples(self) -> list[EmbeddingTable]:
        """The samples of training and validation that the folder keeps, without names; empty without any."""
        return [] if isinstance(self._reference, str) else [self._reference]

    @cached_property
    def _reference(self) -> EmbeddingTable | str:
        """The reference samples of the folder, or why there are none."""
        try:
            known = load_reference(self.run.base or self.run)
        except RunError as error:
            return str(error)
        if known is None and is_merged(self.run.folder):
            return (
                "a merged model keeps sums and no training samples to compare them with; the runs that it "
                "was made from tell them"
            )
        if known is None:
            return (
                "the folder has no reference samples to compare them with (of a run, 'labeltree calibrate "
                "RUN' makes them; an exported model keeps them with --with-reference)"
            )
        if self.run.change is not None:
            known = replace(known, nodes=self.run.change.to_new(known.nodes))
        return known

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
        answers, paths = answer_scores_by(self.rule, scores, options, price)
        answers = self.marked(answers)
        if self.novelty is None:
            return answers
        paths = self.rule.paths(scores) if paths is None else paths
        return mark_unknown(answers, paths, self.novelty.fit(table, paths.nodes), options.unknown)

    def called_unknown(self, table: EmbeddingTable) -> Tensor | None:
        """Which samples (n,) bool are called unknown, whatever coverage is asked for; None if none can be."""
        if self.novelty is None:
            return None
        fit = self.novelty.fit(table, self.rule.paths(self.scores(table)).nodes)
        return fit.unknown(USUAL_ANSWERS.unknown)

    def embed(self, source: Source) -> EmbeddingTable:
        """The embeddings of samples."""
        return embed_source(self.run.network, source, keep=False)


def answer_scores_by(
    rule: DecisionRule, scores: Tensor, options: AnswerOptions, price: TreeCost | Tensor | None
) -> tuple[Answers, Paths | None]:
    """Answers of a rule for class scores: by coverage, with their paths, or with a price by cost."""
    if price is not None:
        return rule.cheapest(scores, price, options.top), None
    return rule.answer_on_paths(scores, options.promise, by_depth=options.by_depth, top=options.top)


def about_run(run: TrainedRun, asked: str) -> dict[str, str]:
    """What a file of embeddings says of its origin: as `Decider.about`, with the weights as the model."""
    return {
        "model": run.weights_digest,
        "labeltree": version("labeltree"),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": asked,
        "taxonomy": run.taxonomy.digest,
    }


def read_choices(record: dict[str, Any]) -> dict[str, Any]:
    """The options of an earlier calibration, as far as they are valid."""
    choices = record.get("choices")
    if not isinstance(choices, dict):
        return {}
    kinds = {"calibration": CALIBRATIONS, "descent": get_args(Descent)}
    return {key: choices[key] for key, known in kinds.items() if choices.get(key) in known}
