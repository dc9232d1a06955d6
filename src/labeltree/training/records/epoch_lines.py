"""The progress of training in a file or a pipe: one line for each epoch."""

from __future__ import annotations

import lightning as L
from lightning.pytorch.callbacks import Callback

__all__ = ["EpochLines"]


class EpochLines(Callback):
    """Prints a line after each epoch, with the metrics that the progress bar shows on a terminal.

    A bar that is drawn over fills a file with a line for every redrawing.
    """

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Print the number of the epoch, the loss of its last step and the validation metric."""
        if trainer.is_global_zero:
            shown = "".join(f", {name} {value:.4g}" for name, value in _numbers(trainer).items())
            print(f"epoch {trainer.current_epoch + 1} of {trainer.max_epochs}{shown}", flush=True)


def _numbers(trainer: L.Trainer) -> dict[str, float]:
    metrics = trainer.progress_bar_metrics
    return {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}
