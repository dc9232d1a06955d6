"""A run that several processes answer with: one calibrates it if it must be, the others wait."""

from __future__ import annotations

import time

from labeltree.errors import FolderInUseError, typed
from labeltree.inference.calibrate_run import open_decider
from labeltree.inference.decider import Decider
from labeltree.inference.load_run import TrainedRun
from labeltree.options.choices import ClassifierChoice

__all__ = ["open_shared_decider"]

_PATIENCE_S, _PAUSE_S = 3600, 1.0


def open_shared_decider(run: TrainedRun, classifier: ClassifierChoice | None) -> Decider:
    """The run with its decision rule; if another process is calibrating it, this one waits for that.

    Raises:
        FolderInUseError: If it has waited for an hour.
        LabeltreeError: See `open_decider`.
    """
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return open_decider(run, classifier)
        except FolderInUseError as error:
            if time.monotonic() >= until:
                raise FolderInUseError(
                    f"{error}; this process has waited {_PATIENCE_S / 60:.0f} minutes for the run to be "
                    f"calibrated: run 'labeltree calibrate {typed(run.folder.path)}' before"
                ) from error
            time.sleep(_PAUSE_S)
