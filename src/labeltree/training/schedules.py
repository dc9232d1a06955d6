"""Settings of an objective that change while it trains: weights of its losses, and temperatures."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable

from labeltree.training.objective import Objective

__all__ = ["Schedules"]


class Schedules:
    """Piecewise linear functions of the epoch, each for one number of an objective.

    Args:
        points: by name, ``weights.NAME`` or ``NAME.OPTION``, a list of ``[epoch, value]``; before the first
            and after the last the value is constant. What can change of a loss is its ``temperature`` and
            whatever its attribute ``schedulable`` names. Of an option that is a list, ``NAME.OPTION.2`` is
            the second number.
        objective: whose numbers change.

    Raises:
        ValueError: if a name is unknown or cannot change, points are not pairs in order of the epoch, or the
            loss does not take a value.
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
            setter(_interpolate(epoch, epochs, values))


def _parts(name: str) -> tuple[str, str, int | None]:
    """Group, option, and the place in a list, counted from 0."""
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
    """What the loss itself would refuse as an option, it cannot be set to later."""
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


def _interpolate(x: float, xs: list[float], ys: list[float]) -> float:
    right = bisect.bisect_right(xs, x)
    if right == 0 or right == len(xs):
        return ys[min(right, len(xs) - 1)]
    share = (x - xs[right - 1]) / (xs[right] - xs[right - 1])
    return ys[right - 1] + share * (ys[right] - ys[right - 1])
