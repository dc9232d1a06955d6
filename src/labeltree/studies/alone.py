"""One run of a study by itself: ``python -m labeltree.studies.alone FILE run|trial NAME TRIAL``."""

from __future__ import annotations

import sys
from pathlib import Path

from labeltree.studies.perform import perform
from labeltree.studies.plan import read_study
from labeltree.studies.task import find_task
from labeltree.training.checkpoints import TrainingInterrupted


def main(arguments: list[str]) -> int:
    """Do the run; returns the exit code: 0 done, 1 an error, 130 interrupted."""
    file, kind, name, trial = arguments
    study = read_study(file)
    task = find_task(study, name, int(trial), measured=kind == "run")
    try:
        perform(study, task, Path(file).parent / "runs")
    except (KeyboardInterrupt, TrainingInterrupted):
        return 130
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
