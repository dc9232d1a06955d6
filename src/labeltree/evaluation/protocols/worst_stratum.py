"""`worst-stratum`: the accuracy of the site, camera or class frequency that has the lowest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from labeltree.errors import DataError
from labeltree.evaluation.by_attribute import check_attribute
from labeltree.evaluation.chosen_samples import GROUPS
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.sample_columns import Column, Number, Place, ResamplingUnits, estimate
from labeltree.evaluation.statistics import FEWEST_GROUPS, Resampling, worst_ends

__all__ = ["WorstStratumOptions", "worst_stratum"]

FREQUENCY = "class-frequency"


@dataclass(frozen=True)
class WorstStratumOptions:
    """Options of `worst-stratum`.

    Attributes:
        by: Attributes whose values are strata, such as `site`; without any, those of the evaluation (`--by`).
            Head, middle and tail classes are strata, too, if there are classes in each.
    """

    by: tuple[str, ...] = ()


@register(
    "worst-stratum",
    summary="top-1 of the stratum (site, camera, class frequency) where it is lowest",
    source="worst-group accuracy: Sagawa et al. 2020; WILDS, Koh et al. 2021",
    options=WorstStratumOptions,
)
def worst_stratum(inputs: Inputs, options: WorstStratumOptions) -> ProtocolResult:
    """The lowest top-1 accuracy over strata, `STRATA.worst_top1`, of the classifier of the main numbers.

    The interval is of the lowest true accuracy, whichever stratum has it, see `worst_ends`.
    """
    chosen = inputs.classifiers.chosen.name
    answers = inputs.predicted[chosen].clamp(min=0)
    (top1,) = (column for column in inputs.answers(answers) if column.name == "top1")
    assert top1.rows is not None
    counted = ~top1.values.isnan()
    rows, values = top1.rows[counted], top1.values[counted]
    if not len(rows):
        raise DataError("no test sample has a finest label")
    strata = _strata(inputs, options, rows)
    if not strata:
        raise DataError(
            "there is nothing to divide the samples by: name attributes by --by or the option by=, such as "
            "site; the classes do not fall into head, middle and tail"
        )
    result = ProtocolResult("Where top-1 is lowest")
    for name, of in strata.items():
        kinds = sorted(set(of.tolist()))
        members = [torch.from_numpy(of == kind) for kind in kinds]
        columns = [Column("top1", values[mine], rows[mine]) for mine in members]
        numbers = _numbers(inputs, columns, inputs.resampling)
        worst = min(range(len(kinds)), key=lambda place: numbers[place].value)
        low, high = np.nan, np.nan
        if (resampling := inputs.resampling) is not None:
            stricter = Resampling(
                resampling.resamples,
                confidence=1 - (1 - resampling.confidence) / len(kinds),
                seed=resampling.seed,
            )
            together = _numbers(inputs, columns, stricter)
            lows, highs = np.array([n.low for n in numbers]), np.array([n.high for n in together])
            low, high = map(float, worst_ends(lows, highs))
        result.put(Place("scores", f"{name}.worst_top1"), Number(numbers[worst].value, low, high))
        result.notes.append(
            f"{name}: the lowest of {len(kinds)} is {kinds[worst] or '(missing)'}, "
            f"{numbers[worst].value:.3f} of {int((of == kinds[worst]).sum())} samples."
        )
        few = [kind for kind, number in zip(kinds, numbers, strict=True) if np.isnan(number.low)]
        if few and inputs.resampling is not None:
            result.notes.append(
                f"{name}: no interval, as {few[0] or '(missing)'} has fewer than {FEWEST_GROUPS} groups."
            )
    result.counts["test samples"] = len(rows)
    return result


def _strata(inputs: Inputs, options: WorstStratumOptions, rows: torch.Tensor) -> dict[str, NDArray[np.str_]]:
    """Name → the stratum (m,) of each sample."""
    strata = {}
    for name in options.by or inputs.settings.by:
        of = inputs.table.attribute(name)[rows.numpy()]
        check_attribute(name, of)
        strata[name] = of
    if inputs.frequency.uneven:
        band = inputs.frequency.group(inputs.nodes[rows]).numpy()
        strata[FREQUENCY] = np.array([*GROUPS, "not in training"])[band]
    return {name: of for name, of in strata.items() if len(set(of.tolist())) > 1}


def _numbers(inputs: Inputs, columns: list[Column], resampling: Resampling | None) -> list[Number]:
    """The mean of each column, with its interval."""
    numbers = []
    for column in columns:
        assert column.rows is not None
        ids = column.rows if inputs.units is None else inputs.units[column.rows]
        units = ResamplingUnits(resampling, ids.numpy())
        (number,) = estimate([column], column.rows, units, inputs.nodes, inputs.judging.tree).values()
        numbers.append(number)
    return numbers
