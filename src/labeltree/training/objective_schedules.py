"""Schedules of loss weights, temperatures and other options of an objective over the epochs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from labeltree.training.objective import Objective

__all__ = ["Schedules"]


class Schedules:
    """Piecewise linear schedules of an objective's weights and options, as functions of the epoch.

    Args:
        points: a list of `[epoch, value]` for each name, `weights.NAME` or `NAME.OPTION`; before the
            first point and after the last, the value is constant. The options that can change are a loss's
            `temperature` and those in its attribute `schedulable`. If an option is a list,
            `NAME.OPTION.2` is its second number.
        objective: The objective to change.

    Raises:
        ValueError: If a name is unknown or cannot change, points are not pairs in order of the epoch, or the
            loss does not accept a value.
    """

    def __init__(self, points: dict[str, list[list[float]]], objective: Objective) -> None:
        self._schedules: list[tuple[Callable[[float], None], list[float], list[float]]] = []
        for name, line in points.items():
            if not line or any(len(point) != 2 for point in line):
                raise ValueError(f"schedules.{name} is {line}; it must be a list of [epoch, value]")
            epochs, values = [p[0] for p in line], [p[1] for p in line]
            if sorted(set(epochs)) != epochs:
                raise ValueError(f"the epochs of schedules.{name} are {epochs}; they must ascend")
            setter = _setter(name, objective)
            _check_values(name, values, objective)
            self._schedules.append((setter, epochs, values))

    def __call__(self, epoch: float) -> None:
        """Set everything to its value at an epoch, which may be a fraction."""
        for setter, epochs, values in self._schedules:
            setter(float(np.interp(epoch, epochs, values)))


def _parts(name: str) -> tuple[str, str, int | None]:
    """Group, option, and index in a list, from 0, of a schedule's name."""
    name, _, place = name.rpartition(".")
    if not place.isdecimal():
        return name, place, None
    group, _, option = name.rpartition(".")
    return group, option, int(place) - 1


def _setter(name: str, objective: Objective) -> Callable[[float], None]:
    group, option, place = _parts(name)
    if group == "weights" and option in objective.terms:
        return lambda value: setattr(objective.terms[option], "weight", value)
    if group not in objective.terms:
        raise ValueError(
            f"schedules has '{name}'; expected weights.NAME or NAME.temperature, NAME one of "
            f"{', '.join(objective.terms)}"
        )
    loss = objective.terms[group].loss
    able: list[str] = []
    for known in ("temperature", *getattr(loss, "schedulable", ())):
        value = getattr(loss, known, None)
        if isinstance(value, float):
            able.append(known)
        elif isinstance(value, list):
            able += [f"{known}.{number}" for number in range(1, len(value) + 1)]
    if (option if place is None else f"{option}.{place + 1}") not in able:
        can = (
            f"of '{group}' only {', '.join(able)} can change" if able else f"nothing of '{group}' can change"
        )
        raise ValueError(f"schedules has '{name}'; {can}")
    if place is not None:
        return lambda value: getattr(loss, option).__setitem__(place, value)
    return lambda value: setattr(loss, option, value)


def _check_values(name: str, values: list[float], objective: Objective) -> None:
    """Check that the loss would accept every value as an option."""
    group, option, place = _parts(name)
    for value in values:
        given: float | list[float] = value
        if place is not None:
            given = list(getattr(objective.terms[group].loss, option))
            given[place] = value
        try:
            if not math.isfinite(value):
                raise ValueError("expected a finite number")
            if group != "weights":
                objective.check_option(group, option, given)
            elif value < 0:
                raise ValueError("a weight must be 0 or more")
        except ValueError as error:
            raise ValueError(f"schedules.{name} goes to {value}: {error}") from error
