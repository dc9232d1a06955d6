"""How often answers are wrong against how much they say, as a threshold of confidence moves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.metrics.metric_checks import check_nodes, check_same_length
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["ThresholdedAnswers", "h_aurc", "information", "risk_coverage_curve", "thresholded"]

Floats = NDArray[np.float64]

_AT_ONCE = 2**22  # numbers of samples × answers × counts held in memory


def risk_coverage_curve(
    nodes: Tensor, probabilities: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy
) -> dict[str, Tensor]:
    """The hierarchical risk–coverage curve of a rule (Goren et al. 2024, Section 2).

    A rule gives each sample the last of its answers whose probability reaches the threshold. An answer is
    right if it is the label or an ancestor of it; its coverage is its `information`.

    Args:
        nodes: (n, D) the possible answers to each sample, coarse to fine, such as the `nodes` of
            `labeltree.decisions.find_paths`: the first is given if no other is sure enough; -1 after the
            last.
        probabilities: (n, D) their probabilities, not rising along a row.
        target_nodes: (n,) nodes, -1 for a missing label, fine enough to decide about answers.
        taxonomy: a tree or a DAG.

    Returns:
        (t,) float64 each, a point for each distinct probability: "threshold", falling; "coverage", the mean
        information of the answers; "risk", the share of them that is wrong. Empty without samples.

    Raises:
        ValueError: For wrong shapes, nodes outside the taxonomy, or probabilities that rise along a row.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "eel")])
        >>> mammal, dog, cat = taxonomy.encode(["mammal", "dog", "cat"])
        >>> nodes = torch.tensor([[0, mammal, dog], [0, mammal, dog]])
        >>> probabilities = torch.tensor([[1.0, 0.875, 0.75], [1.0, 0.875, 0.5]])
        >>> curve = risk_coverage_curve(nodes, probabilities, torch.tensor([dog, cat]), taxonomy)
        >>> curve["risk"].tolist()  # at 1, .875, .75 and .5
        [0.0, 0.0, 0.0, 0.5]
        >>> round(curve["coverage"][1].item(), 3)
        0.369

    """
    answers = ThresholdedAnswers(**thresholded(nodes, probabilities, target_nodes, taxonomy))
    coverage, risk = answers.curve()
    named = {"threshold": answers.thresholds, "coverage": coverage[:, 0], "risk": risk[:, 0]}
    return {name: torch.from_numpy(points) for name, points in named.items()}


def h_aurc(nodes: Tensor, probabilities: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """hAURC: the area under the hierarchical risk–coverage curve of a rule (Goren et al. 2024); less is
    better.

    The area is that of trapezoids between the coverages that are attained; it is not extended to 0. The
    authors' code rounds probabilities to four digits first.

    Args:
        nodes: (n, D) the possible answers to each sample, see `risk_coverage_curve`.
        probabilities: (n, D) their probabilities, not rising along a row.
        target_nodes: (n,) nodes, -1 for a missing label, fine enough to decide about answers.
        taxonomy: a tree or a DAG.

    Returns:
        float64 scalar in [0, 1], NaN if no sample counts.

    Raises:
        ValueError: As `risk_coverage_curve`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "eel")])
        >>> dog, cat = taxonomy.encode(["dog", "cat"])
        >>> nodes, probabilities = torch.tensor([[0, dog], [0, dog]]), torch.tensor([[1, 0.75], [1, 0.5]])
        >>> h_aurc(nodes, probabilities, torch.tensor([dog, cat]), taxonomy).item()
        0.125

    """
    return torch.tensor(
        ThresholdedAnswers(**thresholded(nodes, probabilities, target_nodes, taxonomy)).area()[0]
    )


def information(answers: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """Information of each answer: 0 for the root, 1 for a leaf, (n,) float64.

    1 − log(leaves at or below the answer) / log(all leaves): the share of the uncertainty about the leaf that
    the answer removes if all leaves are equally likely (the hierarchical coverage of Section 2 of Goren et
    al. 2024).
    """
    if taxonomy.num_leaves == 1:
        return (answers > 0).double()
    unique, inverse = torch.unique(answers, return_inverse=True)
    leaves = torch.tensor([len(taxonomy.descendant_leaves(node)) for node in unique.tolist()])
    return (1 - leaves.double().log() / math.log(taxonomy.num_leaves))[inverse]


def thresholded(
    nodes: Tensor, probabilities: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy
) -> dict[str, NDArray[Any]]:
    """The arguments of `ThresholdedAnswers`, from the answers (n, D) of samples; those with a label count."""
    if nodes.ndim != 2 or nodes.shape != probabilities.shape or not nodes.shape[1]:
        raise ValueError(
            f"nodes has shape {tuple(nodes.shape)} and probabilities {tuple(probabilities.shape)}; "
            "expected (n, D) of both, D at least 1"
        )
    check_nodes("predicted nodes", nodes.reshape(-1), taxonomy)
    check_nodes("target_nodes", target_nodes, taxonomy)
    check_same_length("nodes", nodes, "target_nodes", target_nodes)
    counted = target_nodes > 0
    nodes, target = nodes[counted].long().cpu(), target_nodes[counted].long().cpu()
    there = nodes >= 0
    given = probabilities.detach().double()[counted].cpu().clamp(max=1).masked_fill(~there, -1.0)
    if bool((given[:, 1:] > given[:, :-1]).any()) or not bool(there[:, 0].all()):
        raise ValueError("probabilities must not rise along a row, and each row must begin with an answer")
    answers = nodes.clamp(min=0)
    said = information(answers.reshape(-1), taxonomy).reshape(answers.shape)
    wrong = taxonomy.lca(answers, target[:, None]) != answers
    return {"probabilities": given.numpy(), "information": said.numpy(), "wrong": wrong.numpy()}


class ThresholdedAnswers:
    """What the answers of a rule say, and whether they are wrong, at all thresholds.

    Args:
        probabilities: (n, D) of the answers, not rising along a row; below 0 after the last.
        information: (n, D) what each answer says.
        wrong: (n, D) bool, whether it is wrong.

    Attributes:
        thresholds: (t,) the distinct probabilities, falling.
    """

    def __init__(self, probabilities: Floats, information: Floats, wrong: NDArray[np.bool_]) -> None:
        there = probabilities >= 0
        sample, column = np.nonzero(there)
        at = -probabilities[there]
        order = np.argsort(at, kind="stable")
        self._sample = sample[order]
        gains = np.diff(information, axis=1, prepend=0.0)[there][order]
        errors = np.diff(wrong.astype(np.float64), axis=1, prepend=0.0)[there][order]
        first = (column == 0)[order]
        # the first answer needs no confidence
        self._start = information[:, 0].copy(), wrong[:, 0].astype(np.float64)
        self._gains, self._errors = np.where(first, 0.0, gains), np.where(first, 0.0, errors)
        levels = at[order]
        last = np.append(levels[1:] != levels[:-1], True) if len(levels) else np.zeros(0, dtype=bool)
        self._last = np.flatnonzero(last)
        self.thresholds = -levels[self._last]
        self._count = len(probabilities)

    def curve(self, counts: Floats | None = None) -> tuple[Floats, Floats]:
        """Mean coverage and risk (t, b) at each threshold for counts (n, b) of samples; None = 1 each."""
        counts = np.ones((self._count, 1)) if counts is None else counts
        with np.errstate(invalid="ignore", divide="ignore"):
            coverage, risk = (
                (start @ counts + np.cumsum(steps[:, None] * counts[self._sample], axis=0)[self._last])
                / counts.sum(axis=0)
                for start, steps in zip(self._start, (self._gains, self._errors), strict=True)
            )
        return coverage, risk

    def area(self, counts: Floats | None = None) -> Floats:
        """The area under the curve (b,) for counts (n, b) of the samples; NaN where none counts."""
        most = max(1, _AT_ONCE // max(len(self._gains), 1))
        if counts is not None and counts.shape[1] > most:
            parts = np.split(counts, range(most, counts.shape[1], most), axis=1)
            return np.concatenate([self.area(part) for part in parts])
        coverage, risk = self.curve(counts)
        if not len(coverage):
            return np.full(coverage.shape[1], np.nan)
        if bool((np.diff(coverage, axis=0) < 0).any()):
            order = np.argsort(coverage, axis=0, kind="stable")
            coverage, risk = (np.take_along_axis(part, order, axis=0) for part in (coverage, risk))
        area: Floats = (np.diff(coverage, axis=0) * (risk[1:] + risk[:-1]) / 2).sum(axis=0)
        return np.where(np.isnan(coverage).any(axis=0), np.nan, area)
