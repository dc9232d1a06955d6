"""Results broken down by an attribute of the samples: by hospital, camera, age group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeltree.errors import DataError
from labeltree.evaluation.columns import Column, Number, drawn_groups, estimate
from labeltree.evaluation.inputs import Inputs
from labeltree.evaluation.result import PREFIX, AttributeResult, ProtocolResult
from labeltree.evaluation.statistics import number_groups

__all__ = ["MOST_VALUES", "by_attribute"]

MOST_VALUES = 50
"""An attribute with more values than this names single things, such as patients, and is refused."""

_MAIN = ("top1", "hierarchical_f1", "recall_at_1", "map_at_r", "ahp")

Texts = NDArray[Any]


def by_attribute(inputs: Inputs, measured: Mapping[str, ProtocolResult]) -> list[AttributeResult]:
    """The main numbers of every protocol over the samples with each value of the attributes in the settings.

    They are top-1 and hierarchical F1 of every classifier, recall@1, MAP@R and AHP, and what else a protocol
    reports by node, such as the coverage of the answers of ``decisions``. Each has an interval of its own,
    from the bootstrap over groups; classifiers are those of all samples.

    Args:
        inputs: inputs of the table.
        measured: protocol → its result with columns; an empty name for the standard protocols.

    Raises:
        DataError: if the table has no such attribute, or one has more than 50 values among the test samples.
    """
    found = list[AttributeResult]()
    for name in inputs.settings.by:
        values = inputs.table.attribute(name)
        kinds = sorted(
            set(values[inputs.samples.test.numpy()].tolist()), key=lambda value: (not value, value)
        )
        if len(kinds) > MOST_VALUES:
            raise DataError(
                f"'{name}' has {len(kinds)} values among the test samples, too many to report on each: "
                f"name attributes of at most {MOST_VALUES} values, such as the site or the camera"
            )
        found += _of_values(inputs, measured, name, values, kinds)
    return found


def _of_values(
    inputs: Inputs, measured: Mapping[str, ProtocolResult], name: str, values: Texts, kinds: list[str]
) -> list[AttributeResult]:
    test, columns = inputs.samples.test, list[Column]()
    for protocol, result in measured.items():
        for column in result.columns:
            if column.kind == "scores" and (column.by_node or (not protocol and _is_main(column.name))):
                columns += _restricted(column, f"{protocol}.{column.name}".strip("."), test, values, kinds)
    rows = torch.unique(torch.cat([test, *(column.rows for column in columns if column.rows is not None)]))
    numbers = estimate(columns, rows, inputs.units_of(rows), inputs.nodes, inputs.judging.tree)
    groups = drawn_groups(inputs.table, test)
    of_value = []
    for place, kind in enumerate(kinds):
        mine = test[torch.from_numpy(np.asarray(values[test.numpy()] == kind))]
        scores: dict[str, Number] = {
            at.name.partition("/")[2]: number
            for at, number in numbers.items()
            if at.name.startswith(f"{place}/")
        }
        of_value.append(
            AttributeResult(
                attribute=name,
                value=kind,
                samples=len(mine),
                groups=None if groups is None else int(number_groups(groups[mine].numpy()).max()) + 1,
                scores={key: number.value for key, number in scores.items()},
                intervals={key: (number.low, number.high) for key, number in scores.items()},
            )
        )
    return of_value


def _is_main(name: str) -> bool:
    """Whether a score of a standard protocol, ``ROLE.METRIC``, is a main one, of any classifier."""
    metric = name.partition(".")[2]
    for prefix in PREFIX.values():
        metric = metric.removeprefix(prefix)
    return metric in _MAIN


def _restricted(
    column: Column, name: str, test: torch.Tensor, values: Texts, kinds: list[str]
) -> list[Column]:
    """A column for each value, in which only its samples count."""
    rows = test if column.rows is None else column.rows
    found = []
    for place, kind in enumerate(kinds):
        others = torch.from_numpy(np.asarray(values[rows.numpy()] != kind))
        masked = column.values.masked_fill(others, torch.nan)
        found.append(column.alone(f"{place}/{name}", values=masked, rows=rows))
    return found
