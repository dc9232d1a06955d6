"""One run of a study by itself: ``python -m labeltree.studies.alone FILE run|trial NAME TRIAL``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from labeltree.processes import end_with_parent, stop_signals
from labeltree.studies.jobs import PARENT
from labeltree.studies.perform import perform
from labeltree.studies.plan import read_study
from labeltree.studies.task import find_task
from labeltree.training.checkpoints import TrainingInterrupted


def main(arguments: list[str]) -> int:
    """Do the run; returns the exit code: 0 done, 1 an error, 130 interrupted, 143 ended by SIGTERM.

    If the study's process dies, the run stops as by SIGTERM: its training state is saved.
    """
    file, kind, name, trial = arguments
    with stop_signals() as stop:
        try:
            if PARENT in os.environ:
                end_with_parent(int(os.environ[PARENT]), signal.SIGTERM)
            study = read_study(file)
            task = find_task(study, name, int(trial), measured=kind == "run")
            perform(study, task, Path(file).parent / "runs")
        except (KeyboardInterrupt, TrainingInterrupted) as error:
            print(str(error) or "stopped", file=sys.stderr)
            return 128 + (getattr(error, "signal", stop.signal) or signal.SIGINT)
        except Exception as error:
            print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
