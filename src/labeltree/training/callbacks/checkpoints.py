"""Callbacks of a run: its newest and best checkpoint, its history, and stopping early."""

from __future__ import annotations

import io
import math
import time
import warnings
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import Checkpoint, EarlyStopping
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.errors import RunError
from labeltree.runs import RunFolder
from labeltree.safe_files import fits
from labeltree.training.callbacks.divergence import DivergenceWatch
from labeltree.training.callbacks.stop_after_step import StopSignals
from labeltree.training.module import RepresentationModule

__all__ = [
    "AtomicCheckpointIO",
    "Checkpoints",
    "ResumedEarlyStopping",
    "best_row",
]

_TOGETHER = 50  # steps


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint beside its target and renames it.

    Lightning itself writes through the system's temporary folder, which may be on another disk, or full.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write the state to `path`: whole or not at all."""
        buffer = io.BytesIO()  # torch would replace disk errors by its own
        torch.save(checkpoint, buffer)
        with atomic_write(path) as temporary:
            temporary.write_bytes(buffer.getbuffer())


class Checkpoints(Checkpoint):
    """Saves the training state within and after each epoch and at the best epoch, and writes the history.

    After the last step of an epoch, the state is saved only when validation is done, so that resuming never
    skips or repeats part of the end of an epoch.

    The best epoch is the one with the largest monitored value; among ties, the earliest, unless the value has
    been the same since the first epoch and so says nothing: then the latest of these. Where the value is
    undefined (no two validation samples share a label), it is the latest epoch.

    Args:
        folder: The run folder.
        watch: The check that everything is finite, made before each save.
        monitor: History column to maximise.
        minutes: Time between two saves within an epoch.
        every_n_steps: Also save after this many steps; None = by time only.
    """

    def __init__(
        self,
        folder: RunFolder,
        watch: DivergenceWatch,
        monitor: str,
        minutes: float,
        every_n_steps: int | None = None,
    ) -> None:
        self.folder = folder
        self.monitor = monitor
        self.minutes = minutes
        self.every_n_steps = every_n_steps
        self.rows: list[dict[str, float | int]] = []
        self.seconds = 0.0
        self.sums: dict[str, float] = {}
        self._watch = watch
        self._waiting: list[dict[str, Tensor]] = []
        self._clock = time.monotonic()
        self._saved = time.monotonic()
        self._stop = StopSignals()

    def state_dict(self) -> dict[str, Any]:
        """The history so far, and the summed losses and elapsed seconds of the current epoch."""
        self._add_up()
        seconds = self.seconds + time.monotonic() - self._clock
        return {"rows": self.rows, "seconds": seconds, "sums": self.sums}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved state."""
        if not fits(state_dict, dict[str, list[dict[str, float]] | dict[str, float] | float]):
            raise RunError(
                f"the training state '{self.folder.last_checkpoint}' is damaged; delete it and the same "
                "command starts again"
            )
        self.rows = list(state_dict["rows"])
        self.seconds = float(state_dict["seconds"])
        self.sums = dict(state_dict["sums"])

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start the clock; from here on, Ctrl-C and SIGTERM end the run after the current step."""
        self._clock = self._saved = time.monotonic()
        self._stop.listen()

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, *_: Any) -> None:
        """Add up the losses; save if a save is due or the user has asked to stop."""
        assert isinstance(pl_module, RepresentationModule)
        self._waiting.append(pl_module.step_losses)
        self._watch.see_step(trainer, pl_module.step_losses["loss"])
        if len(self._waiting) >= _TOGETHER:
            self._watch.check(trainer, pl_module)
            self._add_up()
        if trainer.global_step % _steps_per_epoch(trainer) == 0:
            self._watch.check(trainer, pl_module, weights=True)  # before the epoch's validation
            return
        late = time.monotonic() - self._saved >= 60 * self.minutes
        due = self.every_n_steps is not None and trainer.global_step % self.every_n_steps == 0
        if trainer.world_size > 1:  # all ranks save together, so the first decides by its own clock
            late, self._stop.number = trainer.strategy.broadcast((late, self._stop.number))
        if late or due or self._stop.number:
            self._watch.check(trainer, pl_module, weights=True)
            self._save(trainer, self.folder.last_checkpoint)
        self._stop.end_training(self.folder.path)

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Record the gradient norm."""
        self._watch.see_gradient(trainer, optimizer)

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Check the embeddings of validation samples: huge but finite weights can make them overflow."""
        assert isinstance(pl_module, RepresentationModule)
        self._watch.check_validation(trainer, pl_module.validation_is_finite())

    def _add_up(self) -> None:
        """Add up the losses of several steps at once: each reading from a GPU waits for all its work."""
        for losses in self._waiting:
            for name, value in losses.items():
                self.sums[name] = self.sums.get(name, 0.0) + float(value)
        self._waiting.clear()

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Add the epoch to the history and save."""
        self._add_up()
        now = time.monotonic()
        if not self.rows and self.sums.get("loss") == 0 and trainer.is_global_zero:
            warnings.warn(
                "the loss was exactly 0 in the whole first epoch, so nothing is learned: are there labels, "
                "do they meet in batches, has each sample the views that its loss compares (num_views)?",
                stacklevel=1,
            )
        row: dict[str, float | int] = {"epoch": trainer.current_epoch, "step": trainer.global_step}
        metrics = trainer.callback_metrics
        row |= {f"train_{name}": total / _steps_per_epoch(trainer) for name, total in self.sums.items()}
        row |= {k: float(metrics[k]) for k in sorted(metrics) if k.startswith("val_")}
        row["lr"] = float(trainer.optimizers[0].param_groups[0]["lr"])
        row["seconds"] = round(self.seconds + now - self._clock, 2)
        if trainer.world_size > 1:  # ranks normalise by their own batches: rank 0 decides which epoch is best
            row = trainer.strategy.broadcast(row)
        self.rows.append(row)
        for logger in trainer.loggers:  # the rest is logged as it is computed
            told = {k: v for k, v in row.items() if k.startswith("train_") or k in ("lr", "seconds")}
            logger.log_metrics(told, step=trainer.global_step)
        self.seconds, self._clock, self.sums = 0.0, now, {}
        if trainer.is_global_zero:
            self.folder.write_history(self.rows)
        if best_row(self.rows, self.monitor) is row:
            self._save(trainer, self.folder.best_checkpoint)
        self._save(trainer, self.folder.last_checkpoint)
        self._stop.end_training(self.folder.path)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Restore Lightning's signal handlers; Lightning then restores the original ones."""
        self._stop.give_back()

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        """Restore the signal handlers, as in `on_train_end`."""
        self._stop.give_back()

    def _save(self, trainer: L.Trainer, path: Path) -> None:
        trainer.save_checkpoint(path)  # all ranks take part, the first writes
        self._saved = time.monotonic()


class ResumedEarlyStopping(EarlyStopping):
    """Early stopping that stops a resumed run at once if it had already stopped early.

    Args:
        monitor: Metric to maximise.
        patience: Number of epochs without improvement before training stops.
    """

    def __init__(self, monitor: str, patience: int) -> None:
        super().__init__(
            monitor=monitor,
            mode="max",
            patience=patience,
            check_on_train_epoch_end=True,
            check_finite=False,  # an undefined value is an epoch without progress, not a failure
        )

    @property
    def state_key(self) -> str:
        """Key of its state in checkpoints: the first name of this class, which old runs still have."""
        return f"Patience{{'monitor': {self.monitor!r}, 'mode': {self.mode!r}}}"

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Stop at once if training had already stopped early."""
        super().on_train_start(trainer, pl_module)
        if self.wait_count >= self.patience:
            trainer.should_stop = True


def best_row(rows: Sequence[dict[str, float | int]], monitor: str) -> dict[str, float | int]:
    """The row of the best epoch; see `Checkpoints`."""
    defined = [row for row in rows if math.isfinite(row.get(monitor, math.nan))]
    if not defined:
        return rows[-1]
    same = list(takewhile(lambda row: row[monitor] == defined[0][monitor], defined))
    return max([same[-1], *defined[len(same) :]], key=lambda row: row[monitor])


def _steps_per_epoch(trainer: L.Trainer) -> int:
    return int(trainer.num_training_batches)
