"""The optimizer, and the schedules of learning rates, loss weights and temperatures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from labeltree.training.objective import Objective
from labeltree.training.recipe import OptimizerRecipe

__all__ = ["Schedules", "build_optimizer", "learning_rate_factor"]


def build_optimizer(
    recipe: OptimizerRecipe, encoder: nn.Module, rest: nn.Module, rates: tuple[float, float]
) -> torch.optim.Optimizer:
    """AdamW or SGD over all trainable parameters, with separate learning rates for the encoder and the rest.

    Biases and normalisation parameters (fewer than two dimensions) have no weight decay unless `decay_all`.
    A loss with an attribute `lr_factors`, pairs of a parameter and a number, has the learning rates of these
    parameters multiplied.
    """
    groups: list[dict[str, Any]] = []
    for module, rate in zip((encoder, rest), rates, strict=True):
        factors = {id(p): x for part in module.modules() for p, x in getattr(part, "lr_factors", ())}
        for factor in sorted({1.0, *factors.values()}):
            trainable = [p for p in module.parameters() if p.requires_grad]
            trainable = [p for p in trainable if factors.get(id(p), 1.0) == factor]
            for parameters, decay in (
                ([p for p in trainable if p.ndim >= 2], recipe.weight_decay),
                ([p for p in trainable if p.ndim < 2], recipe.weight_decay if recipe.decay_all else 0.0),
            ):
                if parameters:
                    groups.append({"params": parameters, "lr": rate * factor, "weight_decay": decay})
    if not groups:
        raise ValueError("nothing is trainable: the encoder is frozen and the objective has no parameters")
    if recipe.name == "adamw":
        return torch.optim.AdamW(groups)
    return torch.optim.SGD(groups, momentum=recipe.momentum, nesterov=recipe.nesterov)


def learning_rate_factor(
    recipe: OptimizerRecipe, epochs: int, steps_per_epoch: int, rate: float | None = None
) -> Callable[[int], float]:
    """The factor of the learning rate as a function of the number of completed steps only.

    `sgdr` is Eq. 5 of Loshchilov & Hutter 2017, per step: within a cycle of T steps that began t steps ago

        factor = floor + (1 − floor)·(1 + cos(π·t/T))/2,   floor = min_lr / rate

    and T is `cycle_factor` times as large in the next cycle. Cycles are counted from the end of the warm-up.

    Args:
        recipe: Settings of the optimizer.
        epochs: Total number of epochs.
        steps_per_epoch: Optimizer steps per epoch.
        rate: Peak learning rate of the encoder, by which `min_lr` is divided; None = `recipe.lr`.

    Raises:
        ValueError: If `sgdr` is used without a learning rate.
    """
    rate = recipe.lr if rate is None else rate
    if recipe.schedule == "sgdr" and rate is None:
        raise ValueError("schedule 'sgdr' needs the learning rate that min_lr is compared with: give lr")
    floor = min(1.0, recipe.min_lr / rate) if rate else 0.0
    total = epochs * steps_per_epoch
    warmup = min(round(recipe.warmup_epochs * steps_per_epoch), total - 1)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        if recipe.schedule == "cosine":
            return _half_cosine(min(1.0, (step - warmup) / (total - warmup)))
        if recipe.schedule == "sgdr":
            done, length = step - warmup, recipe.cycle_epochs * steps_per_epoch
            while done >= length:
                done, length = done - length, length * recipe.cycle_factor
            return floor + (1 - floor) * _half_cosine(done / length)
        if recipe.schedule == "step":
            return recipe.decay ** sum(step >= milestone * steps_per_epoch for milestone in recipe.milestones)
        return 1.0

    return factor


def _half_cosine(share: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * share))


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
