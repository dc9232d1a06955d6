"""Numbers of all samples at once that are no means: agreement of clusters, AUROC, calibration error.

What such a number is computed from is kept, a row a sample, so that it can be computed again of any resample:
for its interval, and for comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from labeltree.errors import DataError
from labeltree.evaluation.statistics.bootstrap import Resampling
from labeltree.evaluation.statistics.cluster_agreement import Partition
from labeltree.evaluation.statistics.group_sums import Floats, divided
from labeltree.evaluation.statistics.interval_ends import Interval, centred_ends
from labeltree.metrics.functional.node_resampling import ranked_nodes
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["JointBootstrap", "Statistic", "StatisticKind", "mean_of_parts"]

StatisticKind = Literal["agreement", "node_ranking", "calibration"]
Integers = NDArray[np.int64]
Part = Callable[[Floats], Floats]
"""How often each group counts in each draw ``(G, b)`` → numbers ``(k, q, b)``, to be averaged over q."""


@dataclass(frozen=True)
class Statistic:
    """One or several numbers of some samples, and what they are computed from.

    ====================  ===============================  ==========================  ====================
    kind                  numbers                          ``samples``                 ``fixed``
    ====================  ===============================  ==========================  ====================
    ``agreement``         NMI, AMI                         ``labels``, ``clusters``
    ``node_ranking``      mean AUROC, mean AP of nodes     ``target``,                 ``classes`` ``(c,)``
                                                           ``probabilities (m, c)``
    ``calibration``       expected calibration error       ``confidence``, ``right``   ``bins`` ``(1,)``
    ====================  ===============================  ==========================  ====================

    Statistics of the same names are parts of one number (the folds of a cross-validation): it is their mean.

    Attributes:
        kind: see the table.
        names: of the numbers, in the order of the table; later ones may be missing.
        rows: ``(m,)`` the samples' rows in the table.
        samples: name → ``(m, …)`` what is known of each sample.
        fixed: name → what belongs to no sample.
        larger_is_better: which direction is good.
    """

    kind: StatisticKind
    names: tuple[str, ...]
    rows: Integers
    samples: dict[str, NDArray[Any]] = field(repr=False)
    fixed: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    larger_is_better: bool = True

    def __post_init__(self) -> None:
        wanted = {
            "agreement": {"labels", "clusters"},
            "node_ranking": {"target", "probabilities"},
            "calibration": {"confidence", "right"},
        }
        if self.kind not in wanted or set(self.samples) != wanted[self.kind] or self.rows.ndim != 1:
            raise DataError(f"a statistic of kind '{self.kind}' is made of {', '.join(sorted(self.samples))}")
        for name, column in self.samples.items():
            if len(column) != len(self.rows):
                raise DataError(f"a statistic of {len(self.rows)} samples has {len(column)} '{name}'")

    def moved(self, place: Integers) -> Statistic:
        """The same with the rows ``place[row]``, without samples for which that is −1."""
        rows = place[self.rows]
        kept = rows >= 0
        samples = {name: column[kept] for name, column in self.samples.items()}
        return replace(self, rows=rows[kept], samples=samples)

    def _parts(self, groups: Integers, count: int, taxonomy: AnyTaxonomy) -> Iterator[Part]:
        samples = self.samples
        if self.kind == "agreement":
            partition = Partition.of(samples["labels"], samples["clusters"], groups, count)
            yield lambda counts: partition.agreement(counts)[:, None]
        elif self.kind == "node_ranking":
            given = [torch.from_numpy(samples[name]) for name in ("probabilities", "target")]
            classes = torch.from_numpy(self.fixed["classes"])
            for block in ranked_nodes(given[0], given[1], taxonomy, groups, count, classes=classes):
                yield lambda counts, block=block: np.stack(block.weighted(counts.astype(block.dtype)))  # type: ignore[misc]
        else:
            error = _CalibrationError(samples["confidence"], samples["right"], int(self.fixed["bins"][0]))
            yield lambda counts: error(counts[groups])[None, None]

    def drawn(
        self, groups: Integers, count: int, taxonomy: AnyTaxonomy, resampling: Resampling
    ) -> tuple[Floats, Floats]:
        """The numbers ``(k,)`` of all samples, and in each draw ``(k, resamples)``; NaN where not defined.

        Args:
            groups: ``(m,)`` the number of each sample's group.
            count: how many groups there are.
            taxonomy: of the nodes.
            resampling: the draws.
        """
        k = len(self.names)
        sums, known = np.zeros((2, k, 1 + resampling.resamples))
        for part in self._parts(groups, count, taxonomy) if len(self.rows) else ():
            once = part(np.ones((count, 1)))[:k]
            there = ~np.isnan(once[..., 0])
            sums[:, :1] += np.nansum(once, axis=1)
            known[:, :1] += there.sum(axis=1, keepdims=True)
            for where, counts in resampling.batches(count):
                found = np.where(there[..., None], part(counts)[:k], np.nan)
                at = slice(1 + where.start, 1 + where.stop)
                sums[:, at] += np.nansum(found, axis=1)
                known[:, at] += (~np.isnan(found)).sum(axis=1)
        numbers = divided(sums, known)
        return numbers[:, 0], numbers[:, 1:]


class _CalibrationError:
    """The expected calibration error, where samples count several times; see `expected_calibration_error`."""

    def __init__(self, confidence: Floats, right: NDArray[Any], bins: int) -> None:
        self.order = np.argsort(confidence, kind="stable")
        self.confidence = confidence[self.order]
        self.gap = right[self.order].astype(np.float64) - self.confidence
        self.first = np.searchsorted(self.confidence, self.confidence)  # of those of the same confidence
        self.bins = bins

    def __call__(self, counts: Floats) -> Floats:
        """``(b,)`` for samples that count ``(m, b)`` times."""
        counts = counts[self.order]
        before = np.concatenate([np.zeros((1, counts.shape[1])), np.cumsum(counts, axis=0)])
        total = before[-1]
        place = before[self.first] * np.minimum(self.bins, total) // np.maximum(total, 1)
        width = counts.shape[1]
        flat = (np.minimum(place, self.bins - 1).astype(np.int64) * width + np.arange(width)).reshape(-1)
        weighted = (counts * self.gap[:, None]).reshape(-1)
        gaps = np.bincount(flat, weighted, minlength=self.bins * width).reshape(self.bins, width)
        return divided(np.abs(gaps).sum(axis=0), total)


class JointBootstrap:
    """What `Bootstrap` is for means, for the statistics of several runs.

    Draws are moved to have the value as their mean: such a number is not the same on average for samples
    drawn with replacement, which agree with themselves.

    Args:
        value: ``(r, m)`` the numbers of each run.
        draws: ``(resamples, r, m)`` in each draw.
        groups: how many groups were drawn from.

    Attributes:
        ratios: the value.
        draws: as given.
    """

    def __init__(self, value: Floats, draws: Floats, groups: int) -> None:
        self.ratios, self.draws, self._groups = value, draws, groups

    def __len__(self) -> int:
        return self._groups

    def interval(self, contrast: Floats, *, confidence: float = 0.95, method: str = "") -> Interval:
        """Intervals of a weighted sum of the runs, for every number; there is but one ``method``."""
        used = np.flatnonzero(contrast)
        weights = contrast[used, None]
        value = (self.ratios[used] * weights).sum(axis=0)
        draws = (self.draws[:, used] * weights).sum(axis=1)
        groups = np.full(value.shape, float(self._groups))
        return centred_ends(draws, value, groups, confidence=confidence)


def mean_of_parts(parts: Sequence[tuple[Any, Any]]) -> tuple[Floats, Floats]:
    """The mean of some numbers, and of their draws ``(resamples,)``, over those that are defined."""

    def mean(values: Sequence[Any]) -> Floats:
        stacked = np.stack(values)
        return divided(np.nansum(stacked, axis=0), (~np.isnan(stacked)).sum(axis=0).astype(float))

    return mean([value for value, _ in parts]), mean([draws for _, draws in parts])
