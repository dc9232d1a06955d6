"""The progress of training in a file or a pipe: a line for each epoch, and in a long one now and then."""

from __future__ import annotations

import time
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback

from labeltree.progress import MINUTE_S, duration

__all__ = ["EpochLines"]


class EpochLines(Callback):
    """Prints a line after each epoch: the metrics that the progress bar shows, and the time gone and left.

    A bar that is drawn over fills a file with a line for every redrawing. Within an epoch there is a line a
    minute, so that a long one is not silent.
    """

    def __init__(self) -> None:
        self._start = self._printed = time.monotonic()
        self._first = 0

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start the clock; a continued training has epochs behind it that took none of this time."""
        self._start = self._printed = time.monotonic()
        self._first = trainer.current_epoch

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Within an epoch, print how much of it is done, at most once a minute."""
        share = (batch_idx + 1) / trainer.num_training_batches
        if share >= 1 or time.monotonic() - self._printed < MINUTE_S:
            return
        self._print(trainer, f"{share:.0%} of it", trainer.current_epoch - self._first + share)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Print the number of the epoch, the loss of its last step and the validation metric."""
        shown = ", ".join(f"{name} {value:.4g}" for name, value in _numbers(trainer).items())
        self._print(trainer, shown, trainer.current_epoch + 1 - self._first)

    def _print(self, trainer: L.Trainer, shown: str, done: float) -> None:
        if not trainer.is_global_zero:
            return
        self._printed = time.monotonic()
        gone, epochs = self._printed - self._start, trainer.max_epochs or 0
        left = gone * (epochs - self._first - done) / done
        times = f"{duration(gone)} gone" + (f", {duration(left)} left" if left > 0 else "")
        parts = [f"epoch {trainer.current_epoch + 1} of {epochs}", *filter(None, [shown]), times]
        print(", ".join(parts), flush=True)


def _numbers(trainer: L.Trainer) -> dict[str, float]:
    metrics = trainer.progress_bar_metrics
    return {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}
