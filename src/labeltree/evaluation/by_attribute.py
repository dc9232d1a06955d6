"""Results broken down by an attribute of the samples: by hospital, camera, age group."""

from __future__ import annotations

import re

import numpy as np
import torch

from labeltree.errors import DataError
from labeltree.evaluation.answer_columns import PREFIX
from labeltree.evaluation.outcomes import Key, Outcomes
from labeltree.evaluation.result import AttributeResult
from labeltree.evaluation.sample_columns import FEWEST_GROUPS, Column, ResamplingUnits, estimate
from labeltree.evaluation.statistics import Resampling

__all__ = ["MOST_VALUES", "QUESTION_RATE", "by_attribute", "check_attribute"]

MOST_VALUES = 50
"""An attribute with more values than this names single things, such as patients, and is refused."""
QUESTION_RATE = re.compile(r"^node-scores\.(.+)\.(decision|point)_(sensitivity|specificity|ppv|npv)$")
"""The key of a rate of a named set of nodes: the name, which threshold decides, and the rate."""
_MAIN = ("top1", "hierarchical_f1", "recall_at_1", "map_at_r", "ahp")


def check_attribute(name: str, values: np.ndarray[tuple[int], np.dtype[np.str_]]) -> None:
    """Raise a `DataError` if results cannot be broken down by an attribute.

    Args:
        name: Its name.
        values: `(t,)` its values of the test samples.
    """
    count = len(np.unique(values))
    if count > MOST_VALUES:
        raise DataError(
            f"'{name}' has {count} values among the test samples, too many to report on each: name "
            f"attributes of at most {MOST_VALUES} values, such as the site or the camera"
        )


def by_attribute(outcomes: Outcomes, resampling: Resampling | None) -> list[AttributeResult]:
    """The main numbers over the samples with each value of the attributes of the outcomes.

    They are top-1 and hierarchical F1 of every classifier, recall@1, MAP@R and AHP, of the protocol
    `decisions` the share of answers that hold the truth and, of `node-scores`, sensitivity, specificity and
    predictive values of named sets of nodes. Each has an interval of its own, computed as over all samples;
    fewer than `FEWEST_GROUPS` groups have none. The rates of a set of nodes, of cases of different groups,
    have the exact one, however few they are. Classifiers are those of all samples; a group that is one case
    counts where its first sample does.

    Args:
        outcomes: Outcomes of one method.
        resampling: The draws; None = no intervals.
    """
    rows, nodes = torch.arange(len(outcomes)), torch.from_numpy(outcomes.nodes)
    units = ResamplingUnits(resampling, rows.numpy() if outcomes.units is None else outcomes.units)
    tested = np.any([~np.isnan(outcomes.values[key]) for key in outcomes.values if _is_answer(key)], axis=0)
    results = []
    for name, values in outcomes.attributes.items():
        kinds = sorted(set(values[tested].tolist()), key=lambda value: (not value, value))
        columns = [
            Column(
                f"{place}/{role}.{metric}",
                torch.from_numpy(np.where(values == kind, outcomes.values[role, metric], np.nan)),
                rows,
                share=(role, metric) not in outcomes.no_share,
                among=(role, metric) in outcomes.among,
                without=outcomes.without.get((role, metric)),
            )
            for place, kind in enumerate(kinds)
            for role, metric in outcomes.values
            if _is_main(role, metric, outcomes)
        ]
        numbers = estimate(columns, rows, units, nodes, outcomes.taxonomy)
        for place, kind in enumerate(kinds):
            mine = tested & (values == kind)
            own = {
                at.name.partition("/")[2]: number
                for at, number in numbers.items()
                if at.name.startswith(f"{place}/")
            }
            counted = {
                f"{role}.{metric}": (values == kind) & outcomes.counted((role, metric))
                for role, metric in outcomes.values
                if f"{role}.{metric}" in own
            }
            grouped = outcomes.groups is not None
            counted_groups = {key: outcomes.count_groups(rows) for key, rows in counted.items()}
            few = {
                key
                for key, count in counted_groups.items()
                if grouped and count < FEWEST_GROUPS and not (_is_rate(key) and count == counted[key].sum())
            }
            results.append(
                AttributeResult(
                    attribute=name,
                    value=kind,
                    samples=int(mine.sum()),
                    groups=outcomes.count_groups(mine) if grouped else None,
                    scores={key: number.value for key, number in own.items()},
                    intervals={
                        key: (np.nan, np.nan) if key in few else (number.low, number.high)
                        for key, number in own.items()
                    },
                    counted={key: int(rows.sum()) for key, rows in counted.items()},
                    counted_groups=counted_groups if grouped else {},
                )
            )
    return results


def _is_answer(key: Key) -> bool:
    return "accuracy_at_depth" in key[1] or key[1].endswith("top1")


def _is_rate(key: str) -> bool:
    return QUESTION_RATE.match(key) is not None


def _is_main(role: str, metric: str, outcomes: Outcomes) -> bool:
    if _is_rate(f"{role}.{metric}"):
        return True
    if role in outcomes.protocols:
        return role == "decisions" and metric.startswith(("coverage_at_", "coverage_of_promised_at_"))
    for prefix in PREFIX.values():
        metric = metric.removeprefix(prefix)
    return metric in _MAIN
