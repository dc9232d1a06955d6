"""The numbers of one aspect, and their means over all aspects."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["AspectResult", "aspect_means"]


@dataclass(frozen=True)
class AspectResult:
    """What was measured of one aspect of the samples; those without a label in it are left out.

    Attributes:
        scores: metric → value: of the linear probe (``top1`` …), of the model's own answers (``own_top1`` …)
            where there are some, and of retrieval by the first representation (``recall_at_1`` …). NaN where
            one is not defined for these samples.
        by_depth: protocol (``probe``, ``own``) → accuracy at depth 1 … L of the aspect's taxonomy.
        counts: how many samples and classes were used for what.
    """

    scores: dict[str, float]
    by_depth: dict[str, list[float]]
    counts: dict[str, int]

    def named(self) -> dict[str, float]:
        """The scores, and the accuracies at depth 1: ``accuracy_at_depth_1``, ``own_accuracy_at_depth_1``."""
        prefixes = {"probe": "", "own": "own_"}
        coarsest = {
            f"{prefixes[name]}accuracy_at_depth_1": depths[0]
            for name, depths in self.by_depth.items()
            if depths
        }
        return self.scores | coarsest


def aspect_means(results: Mapping[str, AspectResult]) -> dict[str, float]:
    """The mean of every score over the aspects, each counting once, whatever its number of samples.

    ``aspect_top1`` is the accuracy by the finest labels and ``aspect_accuracy_at_depth_1`` by the coarsest;
    ``aspect_own_…`` are the same of the model's own answers. Of aspects whose labels are sentiments (depth 1)
    over ratings (depth 2), the accuracy at depth 1 is what Ghanooni et al. report (Tables 4 and 5). Aspects
    for which a score is not defined are left out of its mean.
    """
    values: dict[str, list[float]] = {}
    for result in results.values():
        for name, value in result.named().items():
            values.setdefault(f"aspect_{name}", [])
            if not math.isnan(value):
                values[f"aspect_{name}"].append(value)
    return {name: sum(known) / len(known) if known else math.nan for name, known in values.items()}
