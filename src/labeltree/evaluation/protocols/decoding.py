"""`decoding`: rules that make answers of probabilities, by what they reach in each metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.decisions import (
    CALIBRATIONS,
    METRIC_COSTS,
    Calibration,
    ClassNodes,
    DecisionRule,
    Paths,
    Promise,
    best_node_sets,
    cheapest,
    find_paths,
    holds_truth,
    information,
)
from labeltree.decisions.choose_classifier import CLASSIFIERS
from labeltree.decisions.classifiers import ClassifierChoice
from labeltree.decisions.heuristics import (
    jumping_paths,
    most_informative_paths,
    plurality,
    rewarded,
    selective_paths,
)
from labeltree.errors import DataError
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.sample_columns import Column
from labeltree.evaluation.scored_samples import (
    class_scores,
    fit_rule_to_rows,
    split_for_calibration,
    stored_rule,
)
from labeltree.evaluation.statistics import Statistic
from labeltree.metrics.catalogue import metric_name
from labeltree.metrics.functional import hierarchical_f1
from labeltree.metrics.functional.risk_coverage import ThresholdedAnswers, thresholded
from labeltree.options.choices import Optimised
from labeltree.taxonomy import Taxonomy

__all__ = ["DecodingOptions", "decoding"]

Aim = Literal["coverage", Optimised]

_CHAINS: dict[str, Callable[[Tensor, ClassNodes], Paths]] = {
    "selective": selective_paths,
    "climbing": lambda p, classes: find_paths(p, classes, "leaf"),
    "jumping": jumping_paths,
    "threshold": most_informative_paths,
}
"""Rules with a threshold; `predict` descends by child instead, and takes its threshold from the promise."""

_REWARDS = np.concatenate([[0.0], np.logspace(-3, 3, 121)])
_THRESHOLDS = 100  # that are tried
_COVERAGES = tuple(round(0.1 * step, 1) for step in range(11))
"""Hierarchical coverages (mean information) at which the risk of a rule is reported."""


@dataclass(frozen=True)
class DecodingOptions:
    """Options of `decoding`.

    Attributes:
        aim: What thresholds and rewards are chosen for on validation samples: `coverage`, the finest answers
            of which the share `coverage` holds the truth; or the best `top1`, `hierarchical_f1`,
            `tree_distance` or `wu_palmer`.
        coverage: The share of answers that must hold the truth, also of `predict`.
        classifier: As of `decisions`; `auto` uses that of the headline numbers.
        calibration: As of `decisions`.
    """

    aim: Aim = "coverage"
    coverage: float = 0.9
    classifier: ClassifierChoice = "auto"
    calibration: Calibration = "temperature"

    def __post_init__(self) -> None:
        check_choice("aim", self.aim, ("coverage", *get_args(Optimised)))
        Promise(self.coverage)
        check_choice("classifier", self.classifier, CLASSIFIERS)
        check_choice("calibration", self.calibration, CALIBRATIONS)


@register(
    "decoding",
    summary="which node to answer: rules that others use, and the best answers for each metric",
    source="Plaud et al. 2025; Goren et al. 2024; Valmadre 2022; Deng et al. 2012",
    options=DecodingOptions,
)
def decoding(inputs: Inputs, options: DecodingOptions) -> ProtocolResult:
    """Metrics of the answers of each rule to the test samples, named `RULE.METRIC`, and hAURC of those with a
    threshold.

    Probabilities are calibrated, and thresholds chosen, on validation samples alone.
    """
    tree, table = inputs.judging.tree, inputs.standard_table
    held, tested, notes = split_for_calibration(inputs)
    scorer, said = class_scores(inputs, options.classifier)
    classes = ClassNodes(scorer.classes, tree)
    usual = options.calibration == DecodingOptions.calibration
    stored = stored_rule(inputs, options.classifier) if usual else None
    if stored is None:
        rule = fit_rule_to_rows(inputs, scorer, held, calibration=options.calibration)
    else:
        rule = stored.rule
        notes.append(stored.rests_on.sentence)
    held, tested = (rows[classes.judges(inputs.nodes[rows])] for rows in (held, tested))
    if not len(tested):
        raise DataError("no test sample has a label that decides about answers")
    scores, truth = scorer(table.rows(tested)), inputs.nodes[tested]
    known = _Known(rule.probabilities(scorer(table.rows(held))), inputs.nodes[held], classes, options)
    p = rule.probabilities(scores)
    answers, chosen = _answers(known, p)
    promised = _promised(rule, scores, options)
    if promised is not None:
        answers["predict"] = promised
    columns: list[Column | Statistic] = [
        Column(f"{name}.{metric}", values, tested)
        for name, nodes in answers.items()
        for metric, values in _measure(nodes, truth, tree).items()
    ]
    sets = best_node_sets(p, classes)
    columns.append(Column("best-sets.hierarchical_f1", sets.f_scores(truth), tested))
    curves = {}
    chains = {name: chain(p, classes) for name, chain in _CHAINS.items()}
    for name, paths in {**chains, "predict": rule.paths(scores)}.items():
        samples = thresholded(paths.nodes, paths.probabilities, truth, tree)
        columns.append(Statistic("risk_coverage", (f"{name}.h_aurc",), tested.numpy(), samples))
        curves[name] = ThresholdedAnswers(**samples).curve()
    result = inputs.summarise(columns, "Which node to answer, by rule", by_frequency=False)
    for name, (coverage, risk) in curves.items():
        order = np.argsort(coverage[:, 0], kind="stable")
        points = np.interp(_COVERAGES, coverage[order, 0], risk[order, 0], left=np.nan, right=np.nan)
        result.curves[f"{name}.risk"], result.axes[f"{name}.risk"] = points.tolist(), list(_COVERAGES)
    result.counts.update({"validation samples": len(held), "test samples": len(tested)})
    result.notes.extend([*notes, said, _chosen_note(chosen, options)])
    if promised is None:
        result.notes.append(f"There are too few calibration samples to promise {options.coverage:g}.")
    return result


@dataclass(frozen=True)
class _Known:
    """Validation samples, which settings of rules are chosen on."""

    probabilities: Tensor
    truth: Tensor
    classes: ClassNodes
    options: DecodingOptions

    def choose(self, settings: Sequence[float], answer: Callable[[float], Tensor]) -> float:
        """The setting of the best answers, from those that say most to those that say least."""
        aim, tree = self.options.aim, self.classes.taxonomy
        assert isinstance(tree, Taxonomy)
        best, most = settings[-1], -np.inf
        for setting in settings:
            value = float(_measure(answer(setting), self.truth, tree)[aim].mean())
            if aim == "coverage":
                if value >= self.options.coverage:
                    return setting
            elif (value := -value if aim == "tree_distance" else value) > most:
                best, most = setting, value
        return best


def _answers(known: _Known, p: Tensor) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Rule → its answers to samples with class probabilities (n, C); and the settings that were chosen."""
    classes = known.classes
    answers = {
        "argmax": classes.nodes[torch.from_numpy(p.numpy().argmax(1))],
        "top-down": find_paths(p, classes, "child").ends,
        "plurality": plurality(p, classes),
        "expected-information": rewarded(p, classes),
    }
    chosen = {}
    for name, chain in _CHAINS.items():
        paths = chain(known.probabilities, classes)
        every = np.unique(paths.probabilities[paths.nodes >= 0].numpy())
        bars = np.unique([0.0, *np.quantile(every, np.linspace(0, 1, _THRESHOLDS))]).tolist()
        chosen[name] = known.choose(bars, partial(_cut, paths, classes))
        answers[name] = _cut(chain(p, classes), classes, chosen[name])
    chosen["darts"] = known.choose(
        _REWARDS.tolist(), lambda extra: rewarded(known.probabilities, classes, extra)
    )
    answers["darts"] = rewarded(p, classes, chosen["darts"])
    for metric, cost in METRIC_COSTS.items():
        if metric != "top1":  # whose best answer is argmax
            answers[f"best-{metric.replace('_', '-')}"] = cheapest(p, classes, cost)[0]
    return answers, chosen


def _cut(paths: Paths, classes: ClassNodes, bar: float) -> Tensor:
    return paths.cut(torch.full((classes.taxonomy.num_nodes,), bar, dtype=torch.float64))[0]


def _promised(rule: DecisionRule, scores: Tensor, options: DecodingOptions) -> Tensor | None:
    """The answers of `labeltree predict`; None if there are too few samples for the promise."""
    try:
        return rule.answer(scores, Promise(options.coverage), top=1).nodes
    except DataError:
        return None


def _measure(answers: Tensor, truth: Tensor, tree: Taxonomy) -> dict[str, Tensor]:
    """Metric → its value (n,) for each answer."""
    return {
        "top1": (answers == truth).double(),
        "hierarchical_f1": hierarchical_f1(answers, truth, tree, reduction="none"),
        "tree_distance": tree.path_length(answers, truth).double(),
        "wu_palmer": hierarchical_f1(answers, truth, tree, include_root=True, reduction="none"),
        "coverage": holds_truth(answers, truth, tree).double(),
        "depth": tree.depth[answers].double(),
        "information": information(answers, tree),
    }


def _chosen_note(chosen: dict[str, float], options: DecodingOptions) -> str:
    """What was chosen on the validation samples, in words."""
    aim = f"the best {metric_name(options.aim)}"
    if options.aim == "coverage":
        aim = f"the finest answers of which {options.coverage:.0%} hold the truth"
    settings = ", ".join(f"{name} {value:.3g}" for name, value in chosen.items())
    return f"Chosen on validation samples for {aim}: {settings} (thresholds; of darts, its λ)."
