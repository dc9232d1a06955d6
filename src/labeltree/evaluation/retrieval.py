"""Retrieval: every sample in turn looks for its like among all others, or in a gallery."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.evaluation.ground import Ground
from labeltree.evaluation.reading import Reading
from labeltree.evaluation.samples import Samples
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.metrics.functional import retrieval_metrics
from labeltree.metrics.ranking import Progress

__all__ = ["RetrievalResult", "retrieval_scores", "titled", "without_numbers"]


@dataclass(frozen=True)
class RetrievalResult:
    """Scores of the rankings, and HP@1 … HP@K.

    Attributes:
        scores: by name.
        hp_curve: the mean of every HP@k.
        values: by name, ``(m,)`` float64 what each query got, NaN where it does not count; of HP@k besides,
            as ``hp_at_k``.
    """

    scores: dict[str, float]
    hp_curve: list[float]
    values: dict[str, Tensor]


def retrieval_scores(
    reading: Reading,
    nodes: Tensor,
    samples: Samples,
    ground: Ground,
    settings: EvaluationSettings,
    progress: Progress | None = None,
) -> RetrievalResult:
    """Rank what is searched for each of the queries by the similarity of the geometry; see `SearchPlan`."""
    plan = samples.plan
    rows, among = plan.queries, plan.gallery
    found = retrieval_metrics(
        reading.points[rows],
        ground.in_judge(nodes[rows]),
        ground.judge,
        None if among is None else reading.points[among],
        None if among is None else ground.in_judge(nodes[among]),
        query_groups=None if plan.groups is None else plan.groups[rows],
        key_groups=None if plan.groups is None or among is None else plan.groups[among],
        ks=settings.recall_ks,
        ahp_k=settings.hp_k,
        geometry=reading.geometry,
        reduction="none",
        progress=progress,
    )
    if plan.one_class:
        found = without_numbers(found)
    values = {f"recall_at_{k}": found[f"recall@{k}"] for k in settings.recall_ks}
    values["map_at_r"] = found["map@r"]
    values["mean_average_precision"] = found["map"]
    values["ahp"] = found[f"ahp@{settings.hp_k}"]
    scores = {name: float(torch.nanmean(value)) for name, value in values.items()}
    values |= {f"hp_at_{k}": found[f"hp@{k}"] for k in settings.recall_ks}
    return RetrievalResult(scores, found["hp_curve"].tolist(), values)


def without_numbers(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same with NaN for every number that is no count."""
    return {
        name: torch.full_like(value, torch.nan) if value.is_floating_point() else value
        for name, value in found.items()
    }


def titled(progress: Progress | None, title: str) -> Progress | None:
    """Tell the same news under another title."""
    if progress is None:
        return None
    return lambda _, done, total: progress(title, done, total)
