"""Divergence of training: detected before anything is saved, recorded, and recovered with other settings."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from labeltree.errors import RunError
from labeltree.runs import ModelDescription, RunFolder
from labeltree.runs.model_description import with_settings
from labeltree.training.read_recipes import read_recipe
from labeltree.training.recipe import Recipe

if TYPE_CHECKING:
    import lightning as L

__all__ = [
    "RECOVERY_SETTINGS",
    "DivergenceWatch",
    "TrainingDiverged",
    "change_recipe",
    "continue_after_divergence",
    "has_diverged",
    "record_divergence",
]

RECOVERY_SETTINGS = ("optimizer.lr", "optimizer.head_lr_factor", "optimizer.clip_norm")
"""Settings that may change when a run that has diverged is continued."""


class TrainingDiverged(RunError):
    """A loss, a gradient or a weight is not finite.

    Args:
        message: The error message.
        step: The first step with a non-finite value, counted from 1.
        epoch: The epoch of that step, counted from 1.
    """

    def __init__(self, message: str, step: int, epoch: int) -> None:
        super().__init__(message)
        self.step = step
        self.epoch = epoch


class DivergenceWatch:
    """Checks that losses, gradients and weights are finite, many steps at a time.

    Reading a number from a GPU waits until all work there is done, so `check` is called only where losses are
    read anyway, and before anything is saved.

    Args:
        folder: The run folder.
        recipe: The recipe.
    """

    def __init__(self, folder: RunFolder, recipe: Recipe) -> None:
        self.folder = folder
        self.recipe = recipe
        self._norm: Tensor | None = None
        self._steps: list[tuple[int, int, Tensor, Tensor | None]] = []

    def see_gradient(self, trainer: L.Trainer, optimizer: torch.optim.Optimizer) -> None:
        """Record the gradient norm before clipping.

        With scaled gradients an infinite norm is normal: the step is skipped and the scale is halved.
        """
        if getattr(trainer.precision_plugin, "scaler", None) is not None:
            return
        gradients = [
            p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None
        ]
        self._norm = torch.nn.utils.get_total_norm(gradients)

    def see_step(self, trainer: L.Trainer, loss: Tensor) -> None:
        """Record a completed step."""
        self._steps.append((trainer.global_step, trainer.current_epoch + 1, loss, self._norm))
        self._norm = None

    def check(self, trainer: L.Trainer, module: torch.nn.Module, *, weights: bool = False) -> None:
        """Raise if a step since the last check was not finite, on all ranks together.

        Args:
            trainer: The trainer.
            module: The module that is trained.
            weights: Whether to check its weights as well.

        Raises:
            TrainingDiverged: If one was not finite; the message names the step and a remedy.
        """
        steps, self._steps = self._steps, []
        trouble = next((bad for step in steps if (bad := _not_finite(*step)) is not None), None)
        if trouble is None and weights and not all(bool(p.isfinite().all()) for p in module.parameters()):
            trouble = (trainer.global_step, trainer.current_epoch + 1, "a weight")
        self._stop(trainer, trouble)

    def check_validation(self, trainer: L.Trainer, finite: bool) -> None:
        """Raise if features or embeddings of validation samples are not finite, on all ranks together.

        Args:
            trainer: The trainer.
            finite: Whether all features and embeddings of this rank's validation samples are finite.

        Raises:
            TrainingDiverged: If any are not; the message names the step and a remedy.
        """
        place = (trainer.global_step, trainer.current_epoch + 1, "the embedding of a validation sample")
        self._stop(trainer, None if finite else place)

    def _stop(self, trainer: L.Trainer, trouble: tuple[int, int, str] | None) -> None:
        if trainer.world_size > 1:
            everywhere = trainer.strategy.reduce_boolean_decision(trouble is None)
            if trouble is None and not everywhere:
                trouble = (trainer.global_step, trainer.current_epoch + 1, "the loss of another device")
        if trouble is not None:
            raise self._error(*trouble)

    def _error(self, step: int, epoch: int, what: str) -> TrainingDiverged:
        rate = self.recipe.learning_rates[0]
        tries = [f"--optimizer.lr {rate / 10:g} (it was {rate:g})"]
        if self.recipe.optimizer.clip_norm is None:
            tries.append("--optimizer.clip_norm 1")
        kept = "nothing was saved before it"
        if self.folder.last_checkpoint.is_file():
            kept = f"the last finite state is kept, and '{self.folder.path}' continues from it"
        if self.recipe.precision == "16":
            kept += "; in another folder, --precision bf16 or 32 has a wider range"
        return TrainingDiverged(
            f"diverged at step {step}, epoch {epoch}: {what} is not finite; {kept}; try "
            f"{' or '.join(tries)} in the same command",
            step,
            epoch,
        )


def _not_finite(step: int, epoch: int, loss: Tensor, norm: Tensor | None) -> tuple[int, int, str] | None:
    if not math.isfinite(float(loss)):
        return step, epoch, "the loss"
    if norm is not None and not math.isfinite(float(norm)):
        return step, epoch, "the gradient"
    return None


def record_divergence(folder: RunFolder, error: TrainingDiverged) -> None:
    """Record that the run has diverged, so that it may continue with other `RECOVERY_SETTINGS`."""
    entry = {"step": error.step, "epoch": error.epoch, "went_on_with": None}
    folder.write_json(folder.diverged, {"diverged": [*_entries(folder), entry]})


def has_diverged(folder: RunFolder) -> bool:
    """Whether the run has diverged and has not been continued with other settings since."""
    entries = _entries(folder)
    return bool(entries) and not entries[-1].get("went_on_with")


def continue_after_divergence(folder: RunFolder, known: Recipe, recipe: Recipe) -> str | None:
    """Save a recipe that differs from the run's only in `RECOVERY_SETTINGS` as its new recipe.

    Returns:
        A sentence about the changes; None if there are none.
    """
    changes = [change for change in recipe.differences(known) if change.startswith(RECOVERY_SETTINGS)]
    if not changes:
        return None
    entries = _entries(folder)
    entries[-1]["went_on_with"] = changes
    change_recipe(folder, recipe, [name for name in RECOVERY_SETTINGS if f"{name} is " in "; ".join(changes)])
    folder.write_json(folder.diverged, {"diverged": entries})
    return (
        f"the run in '{folder.path}' diverged at step {entries[-1]['step']} and continues from its last "
        f"finite state with other settings: {'; '.join(changes)}"
    )


def change_recipe(folder: RunFolder, recipe: Recipe, names: Sequence[str]) -> None:
    """Save some settings of a recipe in that of a run, and in the description of the run's model.

    Args:
        folder: The run folder.
        recipe: The new recipe.
        names: The settings that have changed, dotted as `optimizer.lr`. Of the others, the run's recipe keeps
            what was asked for, and the description what was chosen where that leaves it open.
    """
    if folder.description.is_file():  # runs of early versions have none until they are calibrated
        ModelDescription.load(folder.description).with_settings(recipe.to_dict(), names).save(
            folder.description
        )
    asked = read_recipe(folder.recipe).to_dict()
    Recipe.from_dict(with_settings(asked, recipe.to_dict(), names)).save(folder.recipe)


def _entries(folder: RunFolder) -> list[dict[str, Any]]:
    if not folder.diverged.is_file():
        return []
    try:
        return [dict(entry) for entry in json.loads(folder.diverged.read_text("utf-8"))["diverged"]]
    except (ValueError, KeyError, TypeError):
        return []
