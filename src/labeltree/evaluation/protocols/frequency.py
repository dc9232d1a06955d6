"""``frequency``: the standard scores of classes with many, some and few training samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from labeltree.errors import DataError
from labeltree.evaluation.class_frequency import GROUPS
from labeltree.evaluation.registry import Inputs, ProtocolResult, register

__all__ = ["FrequencyOptions", "frequency"]

Number = TypeVar("Number")

_OF = ("probe", "prototypes", "own", "retrieval")


@dataclass(frozen=True)
class FrequencyOptions:
    """What can be chosen. Where head and tail begin is a setting, ``frequency_bounds``, that all share.

    Attributes:
        of: what is broken down: ``probe`` (features), ``prototypes`` (embeddings), ``own`` (the model's own
            answers, where it has some), ``retrieval`` (features and embeddings, leave-one-out).
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
    """Break down every per-class score: means over the classes of each group."""
    groups = inputs.frequency
    if not groups.uneven:
        raise DataError(
            "the classes do not fall into head, middle and tail by their training samples; the setting "
            "frequency_bounds can say where they do"
        )
    parts: dict[str, ProtocolResult] = {}
    readings = inputs.readings()
    if "probe" in options.of:
        parts["probe"] = inputs.judge(inputs.predicted["probe"])
    if "prototypes" in options.of:
        parts["prototypes"] = inputs.judge(inputs.predicted["prototypes"])
    if "own" in options.of and inputs.own_answers is not None:
        answers = inputs.own_answers.clamp(min=0)
        parts["own"] = inputs.judge(answers, classes=inputs.judging.tree.leaves)
    if "retrieval" in options.of:
        for role, reading in readings.items():
            progress = inputs.titled(f"retrieval by {role}")
            parts[f"retrieval.{role}"] = inputs.judge_retrieval(
                reading, inputs.samples.plan.queries, inputs.samples.plan.gallery, progress=progress
            )
    kept = {
        name: replace(
            part,
            scores=_grouped(part.scores),
            by_depth={},
            intervals=_grouped(part.intervals),
            depth_intervals={},
            columns=[],  # a comparison has these classes as parts of the samples
        )
        for name, part in parts.items()
    }
    tested = groups.group(torch.unique(inputs.nodes[inputs.tested]))
    counts = {f"{name} classes tested": int((tested == place).sum()) for place, name in enumerate(GROUPS)}
    note = (
        f"Head: classes with more than {groups.many} training samples; tail: with at most {groups.few}; "
        "middle: those between. Every class counts once in the mean of its group."
    )
    return ProtocolResult.joined("Scores by class frequency", kept, counts=counts, notes=[note])


def _grouped(scores: dict[str, Number]) -> dict[str, Number]:
    return {name: value for name, value in scores.items() if name.endswith(GROUPS)}
