"""The entry of a run's versions.json that is written whenever its training begins or continues."""

from __future__ import annotations

from datetime import UTC, datetime

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback

from labeltree.runs import RunFolder
from labeltree.runs.run_digests import samples_digest
from labeltree.runs.versions import versions

__all__ = [
    "VersionRecord",
]


class VersionRecord(Callback):
    """Appends an entry to the run's `versions.json` when training begins or continues.

    Args:
        folder: The run folder.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write the entry, on the first rank."""
        if not trainer.is_global_zero:
            return
        self.folder.add_versions(
            {
                "began": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
                "epoch": trainer.current_epoch,
                "step": trainer.global_step,
                **dict(versions()),
                "device": _device(trainer.strategy.root_device),
                "devices": trainer.world_size,
                "threads": torch.get_num_threads(),
                "precision": str(trainer.precision),
                "samples": samples_digest(self.folder),
            }
        )


def _device(device: torch.device) -> str:
    """Device type and model, without the name of the machine."""
    if device.type == "cuda":
        libraries = f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"  # type: ignore[no-untyped-call]
        return f"{torch.cuda.get_device_name(device)} ({libraries})"
    if device.type == "cpu":
        return f"CPU ({torch.backends.cpu.get_cpu_capability()})"
    return device.type
