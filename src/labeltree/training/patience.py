"""Stopping early, in a way that resuming does not undo."""

from __future__ import annotations

import lightning as L
from lightning.pytorch.callbacks import EarlyStopping

from labeltree.training.recipe import Recipe

__all__ = ["Patience"]


class Patience(EarlyStopping):
    """Early stopping that remembers, when a finished run is continued, that it was finished."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(
            monitor=f"val_{recipe.monitor}",
            mode="max",
            patience=recipe.patience or 1,
            check_on_train_epoch_end=True,
            check_finite=False,  # an undefined value is an epoch without progress, not a failure
        )

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Stop at once where patience had run out already."""
        super().on_train_start(trainer, pl_module)
        if self.wait_count >= self.patience:
            trainer.should_stop = True
