"""The optimizer, and the schedule of its learning rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from labeltree.training.recipe import OptimizerRecipe

__all__ = ["build_optimizer", "learning_rate_factor"]


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
