"""How sure is sure enough: thresholds with a finite-sample guarantee, from samples with known labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from torch import Tensor

from labeltree.decisions.grouping import group_codes
from labeltree.decisions.paths import Paths
from labeltree.errors import DataError
from labeltree.metrics.checks import check_nodes, check_same_length
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["Promise", "check_enough", "conformal_scores", "samples_needed", "threshold"]

Counted = Literal["sample", "group"]
Method = Literal["conformal", "threshold"]


@dataclass(frozen=True)
class Promise:
    """What is asked of the answers: how many of them must hold the truth.

    An answer holds the truth if it is the true node or an ancestor of it.

    Attributes:
        coverage: the share, above 0 and below 1.
        method: `conformal`: the answer of a new sample holds the truth with at least this probability, over
            the draw of the calibration samples and the new one, whatever the classifier (split conformal
            prediction). `threshold`: the share is reached on the calibration samples themselves, without a
            guarantee for others.
        confidence: with it, the coverage of new samples is at least the one asked for in this share of all
            draws of calibration samples, not only on average over them (Vovk 2012; the target accuracy of
            Section 4 of Goren et al. 2024).
        counted: with groups (the slides of a patient), what is promised: `sample`, of one sample drawn from a
            new group; or `group`, that *all* answers of a new group hold the truth.
    """

    coverage: float = 0.9
    method: Method = "conformal"
    confidence: float | None = None
    counted: Counted = "sample"

    def __post_init__(self) -> None:
        if not 0 < self.coverage < 1:
            raise ValueError(f"coverage is {self.coverage!r}; expected a number above 0 and below 1")
        if self.confidence is not None and not 0 < self.confidence < 1:
            raise ValueError(f"confidence is {self.confidence!r}; expected a number above 0 and below 1")
        for name, value, choices in (
            ("method", self.method, get_args(Method)),
            ("counted", self.counted, get_args(Counted)),
        ):
            if value not in choices:
                raise ValueError(f"{name} is {value!r}; expected {' or '.join(map(repr, choices))}")
        if self.confidence is not None and self.method != "conformal":
            raise ValueError("confidence is given, which only the method 'conformal' has; leave it out")


def conformal_scores(paths: Paths, labels: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """How improbable a node must at least be called for the answer to hold the truth: (n,) float64.

    The score of a sample is the probability of the first node on its path that is no ancestor of the label:
    the answer holds the truth exactly if the path is cut before it. 0 where the whole path holds the truth.
    Answers at rising thresholds are nested sets of leaves, so this is the score of nested conformal
    prediction (Gupta et al. 2022) for the node-valued sets of Mortier et al. (2025, Section 3).

    Args:
        paths: of n samples.
        labels: (n,) nodes, none missing, that decide about every answer (`ClassNodes.judges`).
        taxonomy: of the nodes, a tree or a DAG.
    """
    check_nodes("labels", labels, taxonomy)
    check_same_length("paths", paths.nodes, "labels", labels)
    if len(labels) and int(labels.min()) < 0:
        raise ValueError("labels holds -1 (missing); leave those samples out")
    # an ancestor of both is an ancestor of the path's node, and of those that node itself is least in height
    holds = (taxonomy.lca(paths.nodes, labels[:, None]) == paths.nodes) & (paths.nodes >= 0)
    leaves = (~holds & (paths.nodes >= 0)).long()
    first = leaves.argmax(1, keepdim=True)
    found = paths.probabilities.gather(1, first)[:, 0]
    return found.masked_fill(leaves.sum(1) == 0, 0.0)


def threshold(scores: Tensor, promise: Promise, groups: Tensor | None = None) -> float:
    """The smallest threshold t that keeps the promise if nodes are answered whose probability exceeds t.

    Without groups it is the ⌈(n+1)·coverage⌉-th smallest score: the scores of n calibration samples and of a
    new one are exchangeable, so the new one is at most that large with at least this probability. With groups
    that are exchangeable as wholes, a sample counts 1/(size of its group), which promises the same of a
    random sample of a new group (Lee, Barber & Willett 2023, Section 3); or a group counts by its largest
    score, which promises it of all of them at once.

    Args:
        scores: (n,) `conformal_scores`.
        promise: what is asked.
        groups: (n,) int64, -1 for a sample that is a group by itself.

    Returns:
        t, infinite if there are too few samples (see `samples_needed`): nothing but the root is sure then.

    Raises:
        ValueError: if `confidence` is asked for of single samples of larger groups: there is no such bound.
    """
    if not len(scores):
        return math.inf
    ordered, weights, count = _by_group(scores, promise, groups)
    share = Fraction(str(promise.coverage))
    if promise.confidence is not None and len(ordered) != count:
        raise ValueError(
            "confidence is given, but promises of single samples of groups have no such bound; leave it out, "
            "or let counted be 'group'"
        )
    if len(ordered) == count:  # exact, as all count alike
        rank = _rank(count, share, promise)
        return float(ordered[rank - 1]) if rank <= count else math.inf
    wanted = float(share * (count + 1 if promise.method == "conformal" else count))
    reached = np.cumsum(weights) >= wanted - 1e-9 * count
    return float(ordered[int(reached.argmax())]) if bool(reached.any()) else math.inf


def samples_needed(promise: Promise) -> int:
    """How many calibration samples (with groups: groups) the promise needs to allow more than the root."""
    share = Fraction(str(promise.coverage))
    if promise.confidence is not None:
        risk = 1 - promise.confidence
        return math.ceil(math.log(risk) / math.log(promise.coverage) - 1e-12)
    return math.ceil(share / (1 - share)) if promise.method == "conformal" else 1


def check_enough(count: int, promise: Promise, what: str = "calibration samples") -> None:
    """Raise a `DataError` that says how many are needed, if there are fewer."""
    needed = samples_needed(promise)
    if count < needed:
        within = math.floor(1e4 * count / (count + 1)) / 1e4 if count else 0.0
        sure = "" if promise.confidence is None else f" with confidence {promise.confidence:g}"
        raise DataError(
            f"coverage {promise.coverage:g}{sure} needs at least {needed} {what}, and there are {count}: "
            + (
                f"ask for a coverage of at most {within:g}, or calibrate on more"
                if count and not sure
                else "calibrate on more"
            )
        )


def _by_group(
    scores: Tensor, promise: Promise, groups: Tensor | None
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]], int]:
    """Scores, ascending, what each counts, and the number of groups."""
    values = scores.detach().double().numpy()
    codes = group_codes(groups, len(values)).numpy()
    count = int(codes.max()) + 1
    if promise.counted == "group":
        largest = np.full(count, -np.inf)
        np.maximum.at(largest, codes, values)
        values, codes = largest, np.arange(count)
    order = np.argsort(values, kind="stable")
    return values[order], (1.0 / np.bincount(codes))[codes[order]], count


def _rank(count: int, share: Fraction, promise: Promise) -> int:
    """Which of `count` ordered scores is the threshold, from 1."""
    if promise.method == "threshold":
        return max(1, math.ceil(share * count))
    if promise.confidence is None:
        return math.ceil(share * (count + 1))
    from scipy.stats import binom

    ranks = np.arange(1, count + 2)
    # the coverage given the calibration samples is at least that of Beta(rank, count + 1 - rank)
    missed = binom.sf(ranks - 1, count, float(share))
    return int(ranks[(missed <= 1 - promise.confidence + 1e-15) | (ranks > count)][0])
