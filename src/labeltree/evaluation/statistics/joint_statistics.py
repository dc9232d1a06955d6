"""Numbers that are not means over samples: agreement of clusters, AUROC, calibration error, hAURC.

A `Statistic` keeps the data of such a number, one row per sample, so that it can be recomputed without blocks
of the samples, for confidence intervals and comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.special import xlogy

from labeltree.errors import DataError
from labeltree.evaluation.statistics.interval_ends import SAME, Floats, Interval, divided
from labeltree.evaluation.statistics.jackknife import block_counts, jackknife, only_where_present
from labeltree.metrics.catalogue import is_larger_better
from labeltree.metrics.functional.node_resampling import ranked_nodes
from labeltree.metrics.functional.risk_coverage import ThresholdedAnswers
from labeltree.taxonomy import AnyTaxonomy

__all__ = [
    "JointJackknife",
    "Partition",
    "Statistic",
    "StatisticKind",
    "agreement_intervals",
    "mean_of_parts",
]

StatisticKind = Literal["agreement", "node_ranking", "calibration", "risk_coverage"]
Integers = NDArray[np.int64]
Part = Callable[[Floats], Floats]
"""Counts `(G, b)` of each group, 0 where it is left out → numbers `(k, q, b)`, to be averaged over q."""

_COLUMNS = {
    "rows": ("iu", 1),
    "labels": ("iub", 1),
    "clusters": ("iub", 1),
    "target": ("iu", 1),
    "classes": ("iu", 1),
    "told": ("b", 1),
    "bins": ("iu", 1),
    "probabilities": ("f", 2),
    "confidence": ("f", 1),
    "right": ("fiub", 1),
    "information": ("f", 2),
    "wrong": ("b", 2),
}
"""Name → kinds of its dtype, and number of its dimensions."""


@dataclass(frozen=True)
class Statistic:
    """One or several numbers and the per-sample data that they are computed from.

    ====================  ===============================  ==========================  ====================
    kind                  numbers                          `samples`                 `fixed`
    ====================  ===============================  ==========================  ====================
    `agreement`         NMI, AMI                         `labels`, `clusters`
    `node_ranking`      mean AUROC, mean AP of nodes     `target`,                 `classes` `(c,)`
                                                           `probabilities (m, c)`    and, optionally,
                                                                                       `told` `(N,)`
    `calibration`       expected calibration error       `confidence`, `right`   `bins` `(1,)`
    `risk_coverage`     hAURC                            `probabilities`,
                                                           `information` and
                                                           `wrong`, all `(m, D)`
    ====================  ===============================  ==========================  ====================

    `target` is `(m, k)` if samples have several labels, −1 where there is no further one.

    `told` is a bool mask of the nodes that count in the means; without it, all nodes with an AUROC do. NMI,
    AUROC and average precision have intervals from 0 to 1, AMI may be negative, and a calibration error has
    no interval: it is larger on few samples by an unknown amount.

    Statistics with the same names are parts of one number (the folds of a cross-validation), which is the
    mean of the parts.

    Attributes:
        kind: Kind of statistic, see the table.
        names: Names of the numbers, in the order of the table; later ones may be missing.
        rows: `(m,)` the samples' rows in the table.
        samples: Name → `(m, …)` array with one entry for each sample.
        fixed: Name → array that does not depend on the samples.
        larger_is_better: Whether a larger number is better; None = as the first name has it, see
            `is_larger_better`.
    """

    kind: StatisticKind
    names: tuple[str, ...]
    rows: Integers
    samples: dict[str, NDArray[Any]] = field(repr=False)
    fixed: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    larger_is_better: bool | None = None

    def __post_init__(self) -> None:
        if self.larger_is_better is None:
            object.__setattr__(self, "larger_is_better", is_larger_better(self.names[0]))
        wanted = {
            "agreement": {"labels", "clusters"},
            "node_ranking": {"target", "probabilities"},
            "calibration": {"confidence", "right"},
            "risk_coverage": {"probabilities", "information", "wrong"},
        }
        if self.kind not in wanted or set(self.samples) != wanted[self.kind] or self.rows.ndim != 1:
            given = ", ".join(sorted(self.samples)) or "nothing"
            known = "; ".join(f"{kind} of {', '.join(sorted(parts))}" for kind, parts in wanted.items())
            raise DataError(
                f"a statistic of kind '{self.kind}' is made of {given}, "
                f"with rows of shape {self.rows.shape}; expected {known}, and one row for each sample"
            )
        fixed = {"node_ranking": {"classes"}, "calibration": {"bins"}}.get(self.kind, set())
        if set(self.fixed) - {"told"} != fixed:
            raise DataError(f"a statistic of kind '{self.kind}' needs {', '.join(fixed) or 'nothing'} fixed")
        for name, column in self.samples.items():
            if len(column) != len(self.rows):
                raise DataError(f"a statistic of {len(self.rows)} samples has {len(column)} '{name}'")
        for name, column in {"rows": self.rows, **self.samples, **self.fixed}.items():
            kinds, dimensions = _COLUMNS[name]
            sets = name == "target" and column.ndim == 2
            if column.dtype.kind not in kinds or (column.ndim != dimensions and not sets):
                raise DataError(f"the '{name}' of a statistic are {column.dtype} of shape {column.shape}")

    def moved(self, place: Integers) -> Statistic:
        """The statistic with rows `place[row]`, without the samples for which this is −1."""
        rows = place[self.rows]
        kept = rows >= 0
        samples = {name: column[kept] for name, column in self.samples.items()}
        return replace(self, rows=rows[kept], samples=samples)

    def renumber(self, places: Integers) -> Statistic:
        """The statistic with node `places[node]` for each node of its taxonomy; −1 stays."""
        samples, fixed = dict(self.samples), dict(self.fixed)
        for columns, name in ((samples, "target"), (fixed, "classes")):
            if self.kind == "node_ranking":
                columns[name] = np.append(places, -1)[columns[name]]
        if "told" in fixed:
            told = np.zeros_like(fixed["told"])
            told[places] = fixed["told"]
            fixed["told"] = told
        return replace(self, samples=samples, fixed=fixed)

    @property
    def lowest(self) -> Floats:
        """`(k,)` smallest possible value of each number; NaN for numbers without a confidence interval."""
        known = {"agreement": [0.0, -np.inf], "node_ranking": [0.0, 0.0], "calibration": [np.nan]}
        known |= {"risk_coverage": [0.0]}
        return np.array(known[self.kind][: len(self.names)])

    def _parts(self, groups: Integers, count: int, taxonomy: AnyTaxonomy) -> Iterator[Part]:
        samples = self.samples
        if self.kind == "agreement":
            partition = Partition.of(samples["labels"], samples["clusters"], groups, count)
            yield lambda counts: partition.agreement(counts)[:, None]
        elif self.kind == "node_ranking":
            given = [torch.from_numpy(samples[name]) for name in ("probabilities", "target")]
            classes = torch.from_numpy(self.fixed["classes"])
            told = self.fixed.get("told")
            for block in ranked_nodes(given[0], given[1], taxonomy, groups, count, classes=classes):
                kept = slice(None) if told is None else told[block.nodes]
                yield lambda counts, block=block, kept=kept: np.stack(  # type: ignore[misc]
                    block.weighted(counts.astype(block.dtype))
                )[:, kept]
        elif self.kind == "risk_coverage":
            answers = ThresholdedAnswers(**samples)
            yield lambda counts: answers.area(counts[groups])[None, None]
        else:
            error = _CalibrationError(samples["confidence"], samples["right"], int(self.fixed["bins"][0]))
            yield lambda counts: error(counts[groups])[None, None]

    def without_blocks(self, groups: Integers, count: int, taxonomy: AnyTaxonomy) -> tuple[Floats, Floats]:
        """The numbers `(k,)` of all samples and `(k, B)` without each block; NaN where not defined.

        Args:
            groups: `(m,)` index of each sample's group.
            count: Number of groups, in the blocks of `block_counts`.
            taxonomy: Taxonomy of the nodes.
        """
        k, left = len(self.names), block_counts(count)
        counts = np.concatenate([np.ones((count, 1)), left], axis=1)
        sums, known = np.zeros((2, k, counts.shape[1]))
        for part in self._parts(groups, count, taxonomy) if len(self.rows) else ():
            parts_left = part(counts)[:k]
            sums += np.nansum(parts_left, axis=1)
            known += (~np.isnan(parts_left)).sum(axis=1)
        numbers = divided(sums, known)
        return numbers[:, 0], numbers[:, 1:]


class _CalibrationError:
    """The expected calibration error of samples with counts; see `expected_calibration_error`."""

    def __init__(self, confidence: Floats, right: NDArray[Any], bins: int) -> None:
        self.order = np.argsort(confidence, kind="stable")
        self.confidence = confidence[self.order]
        self.gap = right[self.order].astype(np.float64) - self.confidence
        self.first = np.searchsorted(self.confidence, self.confidence)  # first sample of equal confidence
        self.bins = bins

    def __call__(self, counts: Floats) -> Floats:
        """The error `(b,)` for sample counts `(m, b)`."""
        counts = counts[self.order]
        before = np.concatenate([np.zeros((1, counts.shape[1])), np.cumsum(counts, axis=0)])
        total = before[-1]
        place = before[self.first] * np.minimum(self.bins, total) // np.maximum(total, 1)
        width = counts.shape[1]
        flat = (np.minimum(place, self.bins - 1).astype(np.int64) * width + np.arange(width)).reshape(-1)
        weighted = (counts * self.gap[:, None]).reshape(-1)
        gaps = np.bincount(flat, weighted, minlength=self.bins * width).reshape(self.bins, width)
        return divided(np.abs(gaps).sum(axis=0), total)


class JointJackknife:
    """The counterpart of `Bootstrap` for the statistics of several runs, see `jackknife`.

    Args:
        value: `(r, m)` the numbers of each run.
        left: `(B, r, m)` the numbers of each run without each block.
        present: `(G, r, m)` bool, whether a group counts in a number of a run; None = all do, in every block.
        lowest: `(m,)` smallest possible value of each number; NaN = it has no interval, but differences do.

    Attributes:
        ratios: The argument `value`.
    """

    def __init__(
        self, value: Floats, left: Floats, present: NDArray[np.bool_] | None, lowest: Floats
    ) -> None:
        self.ratios, self._left, self._present, self._lowest = value, left, present, lowest

    def groups(self, contrast: Floats) -> Floats:
        """Number `(m,)` of groups that count in each number, in any run of a `contrast`; at most B."""
        if self._present is None:
            return np.full(len(self._lowest), float(len(self._left)))
        used = np.flatnonzero(contrast)
        counts: Floats = self._present[:, used].any(axis=1).sum(axis=0).astype(np.float64)
        return np.minimum(counts, len(self._left))

    def limited(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Ends of intervals of the numbers, within their range; NaN for numbers without an interval."""
        low, high = (np.maximum(part, self._lowest) for part in (low, high))
        return low, high

    def interval(
        self, contrast: Floats, *, confidence: float = 0.95, method: str = "", share: Any = False
    ) -> Interval:
        """Intervals of a weighted sum of the runs, for every number; `method` and `share` are ignored."""
        used = np.flatnonzero(contrast)
        weights = contrast[used, None]
        value = (self.ratios[used] * weights).sum(axis=0)
        left = (self._left[:, used] * weights).sum(axis=1)
        if self._present is not None:
            left = only_where_present(left, np.asarray(self._present[:, used].any(axis=1)))
        lowest = self._lowest if (weights > 0).all() else -np.inf
        return jackknife(value, left, self.groups(contrast), confidence=confidence, lowest=lowest)


def mean_of_parts(parts: Sequence[tuple[Any, Any]]) -> tuple[Floats, Floats]:
    """The mean of the parts' values, and of those without each block `(B,)`, ignoring NaN."""

    def mean(values: Sequence[Any]) -> Floats:
        stacked = np.stack(values)
        return divided(np.nansum(stacked, axis=0), (~np.isnan(stacked)).sum(axis=0).astype(float))

    return mean([value for value, _ in parts]), mean([left for _, left in parts])


@dataclass(frozen=True)
class Partition:
    """The contingency table of labels and clusters, by group of samples.

    Attributes:
        cells: `(p, G)` number of samples of each occurring (label, cluster) pair in each group.
        labels: `(c, p)` indicator of the label of each pair.
        clusters: `(k, p)` indicator of the cluster of each pair.
        expected: Expected mutual information of random clusters of the same sizes.
    """

    cells: csr_array
    labels: csr_array
    clusters: csr_array
    expected: float

    @classmethod
    def of(cls, labels: Integers, clusters: Integers, groups: Integers, count: int) -> Partition:
        """From labels, clusters and groups `(n,)` of samples, none missing; `count` groups in all."""
        from sklearn.metrics.cluster import contingency_matrix, expected_mutual_information

        label, cluster = (np.unique(column, return_inverse=True)[1] for column in (labels, clusters))
        pairs, cell = np.unique(np.stack([label, cluster]), axis=1, return_inverse=True)
        cell = cell.reshape(-1)
        p = pairs.shape[1]
        ones = np.ones(p)
        table = contingency_matrix(labels, clusters, sparse=True).astype(np.int64)
        return cls(
            coo_array((np.ones(len(cell)), (cell, groups)), shape=(p, count)).tocsr(),
            coo_array((ones, (pairs[0], np.arange(p)))).tocsr(),
            coo_array((ones, (pairs[1], np.arange(p)))).tocsr(),
            float(expected_mutual_information(table, len(labels))),
        )

    def agreement(self, counts: Floats) -> Floats:
        """NMI and AMI `(2, b)` for group counts `(G, b)`; NaN where no sample counts.

        NMI is that of the samples counted. AMI uses the chance agreement of all samples throughout; it is
        NaN where this is not below the maximum, as when nearly every sample has a label of its own.
        """
        cells = self.cells @ counts
        sums = [_information(part) for part in (cells, self.labels @ cells, self.clusters @ cells)]
        total = cells.sum(axis=0)
        size = np.log(np.maximum(total, 1))
        entropy = size - divided(sums[1] + sums[2], 2 * total)
        mutual = np.maximum(size + divided(sums[0] - sums[1] - sums[2], total), 0.0)
        one = entropy <= 1e-15  # one label and one cluster
        safe = np.where(one, 1.0, entropy)
        rest = np.where(safe - self.expected > SAME, safe - self.expected, np.nan)
        agreement = np.stack([mutual / safe, (mutual - self.expected) / rest])
        return np.where(total > 0, np.where(one, 1.0, agreement), np.nan)


def agreement_intervals(
    partitions: Sequence[Partition],
    means: Sequence[Sequence[int]],
    confidence: float,
) -> tuple[Floats, Interval]:
    """NMI and AMI of partitions and of means over partitions, with intervals by the jackknife.

    An AMI that is not defined without some block is NaN, and so is any mean over it. There is no interval
    that would be wider than 1, as where nearly every sample has a label of its own.

    Args:
        partitions: Partitions of samples in the same groups.
        means: For each mean, the indices of its partitions.
        confidence: Confidence level of the intervals.

    Returns:
        The values `(2, len(partitions) + len(means))`, NMI first, and their intervals, flattened.
    """
    groups = partitions[0].cells.shape[1]
    once, counts = np.ones((groups, 1)), block_counts(groups)
    value = np.stack([partition.agreement(once)[:, 0] for partition in partitions], axis=1)
    left = np.stack([partition.agreement(counts) for partition in partitions], axis=1)
    undefined = (np.isnan(left[1]) & ~np.isnan(left[0])).any(axis=1)
    value[1, undefined] = np.nan
    present = np.zeros((groups, len(partitions)), dtype=bool)
    for number, partition in enumerate(partitions):
        present[np.unique(partition.cells.indices), number] = True
    for chosen in means:
        kept = left[:, list(chosen)]
        whole = divided(np.nansum(kept, axis=1), (~np.isnan(kept)).sum(axis=1).astype(float))
        left = np.concatenate([left, whole[:, None]], axis=1)
        value = np.concatenate([value, value[:, list(chosen)].mean(axis=1, keepdims=True)], axis=1)
        present = np.concatenate([present, present[:, list(chosen)].any(axis=1, keepdims=True)], axis=1)
    present = np.tile(present, (1, 2))
    interval = jackknife(
        value.reshape(-1),
        only_where_present(left.reshape(-1, left.shape[2]).T, present),
        present.sum(axis=0).astype(np.float64),
        confidence=confidence,
        lowest=np.repeat([0.0, -np.inf], value.shape[1]),  # AMI may be negative
    )
    told = interval.high - interval.low <= 1
    low, high = (np.where(told, end, np.nan) for end in (interval.low, interval.high))
    return value, replace(interval, low=low, high=high)


def _information(counts: Floats) -> Floats:
    """Σ x log x `(b,)` over the columns of integer counts `(p, b)`."""
    table = xlogy(np.arange(counts.max(initial=0) + 1), np.arange(counts.max(initial=0) + 1))
    total: Floats = table[counts.astype(np.int64)].sum(axis=0)
    return total
