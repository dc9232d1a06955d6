"""One answer for all samples of a group, such as the images of a patient, with a calibration of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from labeltree.counted_nouns import plural
from labeltree.decisions.answers import Descent
from labeltree.decisions.calibrators import Calibration
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.conformal import share_of_groups
from labeltree.decisions.rule import DecisionRule, fit_rule
from labeltree.errors import DataError
from labeltree.metrics.functional import group_labels, group_probabilities
from labeltree.metrics.functional.pool_groups import Aggregation, in_conflict

__all__ = ["GroupRule", "fit_group_rule"]

_OFFERED = tuple(how for how in get_args(Aggregation) if how != "vote")  # whose shares are no probabilities
_FEWEST = 30  # groups that choose an aggregation
_WORDS = {
    "mean": "the mean of their probabilities",
    "logits": "the mean of their log-probabilities",
    "max": "the largest probability of each class",
    "noisy-or": "the probability that any of them shows the class (noisy-or)",
}


@dataclass(frozen=True)
class GroupRule:
    """How the samples of a group are combined, and the decision rule for groups.

    Attributes:
        how: The aggregation; see `group_probabilities`.
        rule: Decision rule from log-probabilities of groups to answers.
        accuracies: Share of held-out groups whose most probable class is right, by aggregation; empty if they
            are too few to choose by.
        count: Number of held-out groups that chose it.
        conflicts: Number of those that were left out because their labels contradict each other.
    """

    how: Aggregation
    rule: DecisionRule
    accuracies: Mapping[str, float]
    count: int
    conflicts: int

    def combine(self, probabilities: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Combine samples to groups.

        Args:
            probabilities: (n, C) calibrated class probabilities.
            groups: (n,) group of each sample, -1 for a sample that is a group of its own.

        Returns:
            The groups (g,), ascending, then the samples without a group, as -1; and their scores (g, C), for
            `rule`.
        """
        pooled = group_probabilities(probabilities, groups, self.how)
        return pooled.groups, _scores(pooled.probabilities)

    def sentence(self, unit: str = "group") -> str:
        """How the samples of a `unit` are combined, and why so."""
        if not self.accuracies:
            return (
                f"The samples of a {unit} are combined by {_WORDS[self.how]}: {self.count} held-out "
                f"{plural(unit)} are too few to choose by."
            )
        shares = ", ".join(f"{name} {share:.1%}" for name, share in self.accuracies.items())
        return (
            f"The samples of a {unit} are combined by {_WORDS[self.how]}, the best on {self.count} held-out "
            f"{plural(unit)} ({shares})."
        )


def fit_group_rule(
    probabilities: Tensor,
    labels: Tensor,
    groups: Tensor,
    classes: ClassNodes,
    *,
    within: Tensor | None = None,
    calibration: Calibration = "temperature",
    descent: Descent = "child",
    share: float = 0.3,
    seed: int = 0,
    for_probabilities: Tensor | None = None,
) -> GroupRule:
    """Choose how to combine samples and fit a decision rule to groups that training has not seen.

    The aggregation with the most right groups is chosen; of several, the one with the largest mean
    log-probability of the labels. A part of the groups chooses it, and fits the calibrator; the thresholds
    come from the others alone. If that part has fewer than 30 groups, it is `logits`. A group has the
    finest of its samples' labels; groups whose labels contradict each other are left out.

    Args:
        probabilities: (n, C) calibrated class probabilities of held-out samples.
        labels: (n,) nodes, -1 where missing.
        groups: (n,) group of each sample, -1 for a sample that is a group of its own.
        classes: Classes of the probabilities.
        within: (n,) the larger unit of each sample, such as the patient of a lesion, -1 for none; those of
            one unit are not independent. None: groups are.
        calibration: See `fit_rule`.
        descent: See `fit_rule`.
        share: Share of the groups that choose the aggregation and fit the calibrator.
        seed: Of the choice of these groups.
        for_probabilities: (n,) bool, the samples whose groups choose and fit instead of a share, see
            `fit_rule`.

    Raises:
        DataError: If no group has a label that decides about answers.
    """
    known = labels >= 0
    conflicted = torch.zeros_like(known)
    conflicted[known] = in_conflict(labels[known], groups[known], classes.taxonomy)
    left_out = torch.unique(groups[conflicted])  # a sample without a group contradicts nothing
    kept = ~torch.isin(groups, left_out)
    probabilities, groups = probabilities[kept], groups[kept]
    outer = None if within is None else _unit_of_group(within[kept], groups)
    if not len(groups):
        raise DataError("no group of held-out samples has labels that agree with each other")
    of_groups = group_labels(labels[kept], groups, classes.taxonomy)
    judged = classes.judges(of_groups)
    if not bool(judged.any()):
        raise DataError("no group of held-out samples has a label that decides about answers")
    apart = None if for_probabilities is None else _unit_of_group(for_probabilities[kept].long(), groups) > 0
    chooses = (share_of_groups(of_groups >= 0, outer, share, seed) if apart is None else apart) & judged
    accuracies, qualities = {}, {}
    for how in _OFFERED if int(chooses.sum()) >= _FEWEST else ():
        pooled = group_probabilities(probabilities, groups, how).probabilities[chooses]
        answered = classes.nodes[pooled.argmax(1)]
        right = classes.taxonomy.lca(answered, of_groups[chooses]) == of_groups[chooses]
        of_nodes = classes.node_probabilities(pooled).gather(1, of_groups[chooses][:, None])
        accuracies[how] = float(right.double().mean())
        qualities[how] = (accuracies[how], float(of_nodes.clamp_min(1e-12).log().mean()))
    best: Aggregation = max(accuracies, key=lambda how: qualities[how]) if accuracies else "logits"
    scores = _scores(group_probabilities(probabilities, groups, best).probabilities)
    rule = fit_rule(
        scores,
        of_groups,
        classes,
        groups=outer,
        calibration=calibration,
        descent=descent,
        share=share,
        seed=seed,
        for_probabilities=apart,
    )
    return GroupRule(best, rule, accuracies, int(chooses.sum()), len(left_out))


def _unit_of_group(within: Tensor, groups: Tensor) -> Tensor:
    """The larger unit (g,) of each group, in the order of `group_probabilities`."""
    alone = (groups < 0).nonzero()[:, 0]
    named, place = torch.unique(groups[groups >= 0], return_inverse=True)
    units = within.new_empty(len(named)).index_put_((place,), within[groups >= 0])
    return torch.cat([units, within[alone]])


def _scores(probabilities: Tensor) -> Tensor:
    return probabilities.clamp_min(torch.finfo(torch.float64).tiny).log()
