"""The end of a training: what makes the run folder a model that answers without its data."""

from __future__ import annotations

import logging

from labeltree.errors import DataError
from labeltree.inference.calibrate_run import calibrate_run
from labeltree.progress import progress_line
from labeltree.runs import RunFolder

__all__ = ["finish_run"]

_log = logging.getLogger("labeltree.inference")


def finish_run(folder: RunFolder, *, progress_bar: bool = True) -> None:
    """Learn the classifiers of a trained run and calibrate its answers, unless that has been done.

    The samples of the run are embedded for this, see `OwnSamples`; `labeltree evaluate` reads them from the
    folder then. If there is nothing to learn or to calibrate, such as no labelled validation sample, a
    warning says so, and the run can still embed.

    Args:
        folder: The folder of a run whose training has ended.
        progress_bar: Show progress.
    """
    from labeltree.training.records.record import is_first_rank

    if not is_first_rank() or folder.decisions.is_file():
        return
    try:
        with progress_line(progress_bar) as progress:
            decider = calibrate_run(folder.path, progress=progress)
    except DataError as error:
        _log.warning("the run in '%s' does not answer yet: %s", folder.path, error)
    else:
        if decider.doubt:
            _log.warning("%s", decider.doubt)
