"""`frequency`: the standard scores of classes with many, some and few training samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from labeltree.errors import DataError
from labeltree.evaluation.chosen_samples import GROUPS
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.sample_columns import Column, class_means

__all__ = ["FrequencyOptions", "frequency"]

_OF = ("probe", "prototypes", "own", "retrieval")


@dataclass(frozen=True)
class FrequencyOptions:
    """Options of `frequency`; the bounds of head and tail are the evaluation setting `frequency_bounds`.

    Attributes:
        of: Scores to break down: `probe` (features), `prototypes` (embeddings), `own` (the model's own
            answers, if any), `retrieval` (features and embeddings, leave-one-out).
    """

    of: tuple[str, ...] = _OF

    def __post_init__(self) -> None:
        if not self.of or not set(self.of) <= set(_OF):
            raise ValueError(f"of is {self.of}, expected some of {', '.join(_OF)}")


@register(
    "frequency",
    summary="per-class scores by head, middle and tail classes of the training split",
    source="the usual report on long-tailed data, Liu et al. 2019; classes count alike in each group",
    options=FrequencyOptions,
)
def frequency(inputs: Inputs, options: FrequencyOptions) -> ProtocolResult:
    """Means of every per-class score over head, middle and tail classes."""
    groups = inputs.frequency
    if not groups.uneven:
        raise DataError(
            "the classes do not fall into head, middle and tail by their training samples; the setting "
            "frequency_bounds can say where they do"
        )
    columns_by_role: dict[str, list[Column]] = {}
    for name in ("probe", "prototypes"):
        if name in options.of:
            columns_by_role[name] = inputs.answers(inputs.predicted[name])
    if "own" in options.of and inputs.own_answers is not None:
        columns_by_role["own"] = inputs.answers(inputs.own_answers.clamp(min=0), inputs.judging.tree.leaves)
    if "retrieval" in options.of:
        plan = inputs.samples.plan
        for role, reading in inputs.readings().items():
            progress = inputs.titled(f"retrieval by {role}")
            columns_by_role[f"retrieval.{role}"], _ = inputs.rankings(
                reading, plan.queries, plan.gallery, by_depth=False, graded=False, progress=progress
            )
    parts = {}
    for name, columns in columns_by_role.items():
        columns = [replace(column, kind=None, balanced="") for column in columns if column.by_frequency]
        means = [mean for column in columns for mean in class_means(column, inputs.nodes, groups)]
        parts[name] = replace(inputs.summarise(columns), columns=means)
    tested = groups.group(torch.unique(inputs.nodes[inputs.tested]))
    counts = {f"{name} classes tested": int((tested == place).sum()) for place, name in enumerate(GROUPS)}
    note = (
        f"Head: classes with more than {groups.many} training samples; tail: with at most {groups.few}; "
        "middle: those between. Every class counts once in the mean of its group."
    )
    return ProtocolResult.joined("Scores by class frequency", parts, counts=counts, notes=[note])
