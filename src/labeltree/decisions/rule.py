"""A fitted decision rule from class scores to answers, with thresholds for any requested coverage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, get_args

import torch
from torch import Tensor

from labeltree.decisions.answers import Answers, Descent, Paths, find_paths
from labeltree.decisions.calibration_check import (
    CalibrationCheck,
    check_calibration,
    soften_few,
)
from labeltree.decisions.calibrators import CALIBRATIONS, Calibration, Calibrator, fit_calibrator
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.conformal import (
    Promise,
    bars_of,
    categories_of,
    check_enough,
    conformal_scores,
    count_groups,
    samples_needed,
    share_of_groups,
    threshold,
    thresholds_by_category,
)
from labeltree.decisions.costs import TreeCost, cheapest
from labeltree.errors import DataError, RunError
from labeltree.taxonomy import AnyTaxonomy

__all__ = [
    "VERSION",
    "DecisionRule",
    "Fitted",
    "fit_rule",
    "rule_from_dict",
    "rule_to_dict",
]


@dataclass(frozen=True)
class Fitted:
    """The calibration samples that thresholds are computed from; nothing else was fitted to them.

    Attributes:
        scores: (m,) float64, see `conformal_scores`.
        labels: (m,) labels of the samples.
        groups: (m,) group ids, or None.
    """

    scores: Tensor
    labels: Tensor
    groups: Tensor | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @cached_property
    def num_groups(self) -> int:
        """Number of groups; a sample without a group is a group of its own."""
        return count_groups(self.groups, len(self))

    @cached_property
    def threshold(self) -> Callable[[Promise], float]:
        """The smallest threshold that keeps a promise; see `labeltree.decisions.conformal.threshold`."""
        return lru_cache(maxsize=64)(lambda promise: threshold(self.scores, promise, self.groups))


@dataclass(frozen=True)
class DecisionRule:
    """A calibrator and stored calibration scores, from which thresholds for any promise can be computed.

    Attributes:
        classes: Classes of the input scores.
        calibrator: The fitted calibrator.
        descent: Kind of path that answers lie on, see `find_paths`.
        fitted: The samples that thresholds are computed from.
        counts: Number of samples by use, and of those left out.
        check: Result of the held-out check of the calibration; None if unknown.
    """

    classes: ClassNodes
    calibrator: Calibrator
    descent: Descent
    fitted: Fitted
    counts: dict[str, int]
    check: CalibrationCheck | None = None

    def probabilities(self, scores: Tensor) -> Tensor:
        """Calibrated class probabilities (n, C) float64 from class scores (n, C)."""
        return self.calibrator(scores, self.classes).exp()

    def bars(
        self, promise: Promise, by_depth: int | None = None, cases: str = "calibration samples"
    ) -> Tensor:
        """Threshold of each node that its probability must exceed, (N,) float64; see `Paths.cut`.

        Args:
            promise: The required coverage.
            by_depth: Keep the promise within every category of labels: the nodes at this depth (on a tree).
            cases: What one answer was calibrated for, in an error's words.

        Raises:
            DataError: If there are too few calibration samples; the message says how many are needed.
        """
        what = cases if self.fitted.groups is None else f"groups of {cases}"
        check_enough(self.fitted.num_groups, promise, what)
        taxonomy = self.classes.taxonomy
        if by_depth is None:
            value = self.fitted.threshold(promise)
            return torch.full((taxonomy.num_nodes,), value, dtype=torch.float64)
        if not 1 <= by_depth <= taxonomy.max_depth:
            raise ValueError(
                f"by_depth is {by_depth}; expected a depth of the taxonomy, 1 to {taxonomy.max_depth}"
            )
        categories = categories_of(self.fitted.labels, by_depth, taxonomy)
        thresholds, rest, _ = thresholds_by_category(
            self.fitted.scores, categories, promise, self.fitted.groups
        )
        return bars_of(thresholds, rest, by_depth, taxonomy)

    def answer(
        self, scores: Tensor, promise: Promise | None = None, *, by_depth: int | None = None, top: int = 3
    ) -> Answers:
        """Answer each sample at the depth where the promise holds.

        Args:
            scores: Class scores of shape (n, C).
            promise: The required coverage; by default 90 % of the answers hold the truth.
            by_depth: See `bars`.
            top: Number of most probable classes to list beside each answer.
        """
        return self.answer_on_paths(scores, promise, by_depth=by_depth, top=top)[0]

    def answer_on_paths(
        self, scores: Tensor, promise: Promise | None = None, *, by_depth: int | None = None, top: int = 3
    ) -> tuple[Answers, Paths]:
        """As `answer`, with the paths that the answers lie on."""
        probabilities = self.probabilities(scores)
        paths = self._paths(probabilities)
        nodes, certain = paths.cut(self.bars(promise or Promise(), by_depth))
        return self._answers(probabilities, nodes, certain, nodes != paths.ends, top), paths

    def paths(self, scores: Tensor) -> Paths:
        """The path of each sample, of which its answer is a node, from class scores (n, C)."""
        return self._paths(self.probabilities(scores))

    def _paths(self, probabilities: Tensor) -> Paths:
        return find_paths(probabilities, self.classes, self.descent)

    def cheapest(self, scores: Tensor, cost: TreeCost | Tensor, top: int = 3) -> Answers:
        """Answer each sample with the node of least expected cost; see `labeltree.decisions.costs`."""
        probabilities = self.probabilities(scores)
        nodes, costs = cheapest(probabilities, self.classes, cost)
        parts = zip(self.classes.parts(probabilities), self.classes.parts(nodes[:, None]), strict=True)
        certain = torch.cat([self.classes.node_probabilities(p).gather(1, at)[:, 0] for p, at in parts])
        finer = (self.classes.counts - (self.classes.place >= 0).long())[nodes] > 0
        return self._answers(probabilities, nodes, certain, finer, top, costs)

    def _answers(
        self,
        probabilities: Tensor,
        nodes: Tensor,
        certain: Tensor,
        cut: Tensor,
        top: int,
        costs: Tensor | None = None,
    ) -> Answers:
        order = torch.argsort(probabilities, dim=1, descending=True, stable=True)[:, : max(top, 0)]
        guesses, likely = self.classes.nodes[order], probabilities.gather(1, order)
        return Answers(nodes, certain, cut, guesses, likely, costs)


def fit_rule(
    scores: Tensor,
    labels: Tensor,
    classes: ClassNodes,
    *,
    groups: Tensor | None = None,
    calibration: Calibration = "temperature",
    descent: Descent = "child",
    share: float = 0.3,
    seed: int = 0,
    for_probabilities: Tensor | None = None,
) -> DecisionRule:
    """Fit a decision rule to samples that the classifier was not trained on.

    The calibrator is fitted to a part of the samples (whole groups); thresholds are computed from the others
    alone, so that these and new samples are exchangeable. The calibrator is not applied if cross-validation
    on its part shows a larger calibration error (`check_calibration`). Where the others would be too few
    groups to promise a coverage of 0.9, one temperature is fitted to all samples, and all serve for
    thresholds. If a part has too few samples for the check, all samples serve for thresholds as well, unless
    the part was given, and one temperature at most softens the probabilities (`soften_few`). The same input
    gives the same rule.

    Args:
        scores: Class scores of shape (n, C).
        labels: (n,) nodes, -1 where missing.
        classes: Classes of the scores.
        groups: (n,) group ids of samples that belong together, such as those of a patient; -1 for a sample
            that is a group of its own. None: every sample is.
        calibration: Calibration of the probabilities.
        descent: Kind of path that answers lie on, see `find_paths`.
        share: Share of the groups that the calibrator is fitted to, from 0 to below 1; not used for the
            calibration `none`.
        seed: Random seed of the choice of these groups.
        for_probabilities: (n,) bool, the samples that the calibrator is fitted to, instead of a share;
            thresholds never come from them, so that they may have been used before, to choose a classifier.
            No group may be on both sides.

    Raises:
        DataError: If no label is fine enough to decide whether an answer is right.
    """
    if not 0 <= share < 1:
        raise ValueError(f"share is {share!r}; expected a number from 0 to below 1")
    apart = torch.zeros(len(labels), dtype=torch.bool) if for_probabilities is None else for_probabilities
    usable = classes.judges(labels) & ~apart
    if not bool(usable.any()):
        raise DataError(
            "no calibration sample has a label that decides about answers: each is missing, or coarser than "
            "the classes"
        )
    known = labels >= 0
    fits, shared = torch.zeros(len(labels), dtype=torch.bool), False
    check, softer = CalibrationCheck(calibration, False, 0), Calibrator()
    if calibration != "none":
        fits = share_of_groups(known, groups, share, seed) if for_probabilities is None else apart
        if for_probabilities is None and calibration == "temperature":
            left = count_groups(
                None if groups is None else groups[usable & ~fits], int((usable & ~fits).sum())
            )
            shared = left < samples_needed(Promise())
            fits = known if shared else fits
        check = check_calibration(
            scores[fits],
            labels[fits],
            classes,
            calibration,
            groups=None if groups is None else groups[fits],
            seed=seed,
        )
        if not check.before:
            few = apart if for_probabilities is not None else torch.ones_like(apart)
            softer, check = soften_few(
                scores[few],
                labels[few],
                classes,
                calibration,
                groups=None if groups is None else groups[few],
            )
            fits = torch.zeros_like(fits)
        if not shared and not bool((usable & ~fits).any()):
            raise DataError(
                f"of {int(known.sum())} calibration samples none would be left for thresholds once a part "
                "fits the probabilities; calibrate on more, or with calibration 'none'"
            )
    calibrator = softer
    if check.before:
        asked = fit_calibrator(scores[fits], labels[fits], classes, calibration)
        check = replace(check, uninformative=asked.uninformative)
        calibrator = asked if check.applied else Calibrator()
    rest = usable if shared else usable & ~fits
    paths = find_paths(calibrator(scores[rest], classes).exp(), classes, descent)
    counts = {
        "calibration samples": len(labels),
        "for the probabilities": int((fits & known).sum()) or (check.samples if check.applied else 0),
        "for the thresholds": int(rest.sum()),
        "left out: no label": int((~known).sum()),
        "left out of the thresholds: label too coarse": int((known & ~usable & ~fits & ~apart).sum()),
    }
    fitted = Fitted(
        conformal_scores(paths, labels[rest], classes.taxonomy),
        labels[rest],
        None if groups is None else groups[rest],
    )
    return DecisionRule(classes, calibrator, descent, fitted, counts, check)


VERSION = 1


def rule_to_dict(rule: DecisionRule) -> dict[str, Any]:
    """The rule as a JSON-serialisable dictionary; every number is restored exactly.

    Calibration samples are sorted by score and label, so that their order says nothing
    of where they are from.
    """
    fitted = _sort(rule.fitted)
    return {
        "version": VERSION,
        "taxonomy": rule.classes.taxonomy.digest,
        "classes": rule.classes.nodes.tolist(),
        "calibrator": {
            "kind": rule.calibrator.kind,
            "temperatures": list(rule.calibrator.temperatures),
            "slopes": list(rule.calibrator.slopes),
            "offsets": list(rule.calibrator.offsets),
        },
        "descent": rule.descent,
        "counts": rule.counts,
        "fitted": {
            "scores": fitted.scores.tolist(),
            "labels": fitted.labels.tolist(),
            "groups": None if fitted.groups is None else fitted.groups.tolist(),
        },
    }


def _sort(fitted: Fitted) -> Fitted:
    """The samples by score and label, with groups numbered anew by what they hold: the order says no more."""
    rows = list(zip(fitted.scores.tolist(), fitted.labels.tolist(), strict=True))
    groups = fitted.groups
    codes = [-1] * len(rows) if groups is None else groups.tolist()
    members: dict[int, list[tuple[float, int]]] = {}
    for code, row in zip(codes, rows, strict=True):
        if code >= 0:
            members.setdefault(code, []).append(row)
    by_content = sorted(members, key=lambda code: sorted(members[code]))
    number = {-1: -1} | {code: place for place, code in enumerate(by_content)}
    order = sorted(range(len(rows)), key=lambda place: (*rows[place], number[max(codes[place], -1)]))
    index = torch.tensor(order, dtype=torch.int64)
    renumbered = torch.tensor([number[max(codes[place], -1)] for place in order], dtype=torch.int64)
    return Fitted(fitted.scores[index], fitted.labels[index], None if groups is None else renumbered)


def rule_from_dict(content: Mapping[str, Any], taxonomy: AnyTaxonomy) -> DecisionRule:
    """Restore a rule from the output of `rule_to_dict`.

    Raises:
        RunError: If the content is of another version or taxonomy, or is incomplete.
    """
    version = content.get("version")
    if version != VERSION:
        raise RunError(
            f"the decisions have version {version}, this labeltree reads {VERSION}; calibrate again"
        )
    if content.get("taxonomy") != taxonomy.digest:
        raise RunError("the decisions were fitted to another taxonomy; calibrate again")
    try:
        calibrator, fitted = content["calibrator"], content["fitted"]
        groups = fitted["groups"]
        rule = DecisionRule(
            ClassNodes(torch.tensor(content["classes"], dtype=torch.int64), taxonomy),
            Calibrator(
                calibrator["kind"],
                tuple(calibrator["temperatures"]),
                tuple(calibrator["slopes"]),
                tuple(calibrator["offsets"]),
            ),
            content["descent"],
            Fitted(
                torch.tensor(fitted["scores"], dtype=torch.float64),
                torch.tensor(fitted["labels"], dtype=torch.int64),
                None if groups is None else torch.tensor(groups, dtype=torch.int64),
            ),
            dict(content["counts"]),
        )
        if not _is_whole(rule):
            raise ValueError("parts do not go together")
        return rule
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise RunError(
            "the decisions cannot be read: parts are missing or damaged; calibrate again"
        ) from error


def _is_whole(rule: DecisionRule) -> bool:
    """Check that the parts of a restored rule are consistent."""
    classes, calibrator, fitted = rule.classes, rule.calibrator, rule.fitted
    numbers = torch.tensor(
        [*calibrator.temperatures, *calibrator.slopes, *calibrator.offsets], dtype=torch.float64
    )
    temperatures = {"temperature": 1, "depth": classes.taxonomy.max_depth + 1}.get(calibrator.kind, 0)
    slopes = len(classes) if calibrator.kind == "vector" else 0
    labels = fitted.labels
    return (
        rule.descent in get_args(Descent)
        and calibrator.kind in CALIBRATIONS
        and len(calibrator.temperatures) == temperatures
        and len(calibrator.slopes) == len(calibrator.offsets) == slopes
        and bool(numbers.isfinite().all())
        and all(temperature > 0 for temperature in calibrator.temperatures)
        and fitted.scores.ndim == 1
        and bool(fitted.scores.isfinite().all())
        and labels.shape == fitted.scores.shape
        and bool(((labels >= 0) & (labels < classes.taxonomy.num_nodes)).all())
        and (fitted.groups is None or fitted.groups.shape == labels.shape)
        and all(isinstance(count, int) for count in rule.counts.values())
    )
