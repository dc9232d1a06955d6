"""Perform many runs, one after the other in this process or each in a process of its own.

Such a process is `python -m labeltree.studies.study_processes FILE run|trial NAME TRIAL`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from labeltree.atomic import writing
from labeltree.processes import available_cores, end_with_parent, stop_signals
from labeltree.studies.only_here import only_here
from labeltree.studies.run import Task, find_task, perform
from labeltree.studies.study_file import read_study
from labeltree.studies.study_plan import Method, Study
from labeltree.training.callbacks.stop_after_step import TrainingInterrupted

__all__ = ["default_jobs", "do_tasks", "jobs_for"]

_PARENT = "_LABELTREE_STUDY"
"""The environment variable that tells a worker process the id of the study's process."""

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_INTERRUPTED = 130
_SAVING_TIME = 120.0  # seconds that a run has to save its training state


def default_jobs() -> int:
    """Default number of jobs, one per four cores: more threads hardly speed up a small encoder."""
    return max(1, available_cores() // 4)


def jobs_for(study: Study, methods: Sequence[Method], jobs: int | None) -> tuple[int, str | None]:
    """The number of jobs for these methods, and a sentence if it is not the one that was asked for.

    Processes of their own know what labeltree and installed packages register, and nothing else.

    Args:
        study: The study.
        methods: The methods to run.
        jobs: The number asked for; None = the default.
    """
    wanted = default_jobs() if jobs is None else jobs
    if wanted < 1:
        raise ValueError(f"--jobs is {wanted}; it must be 1 or more")
    alone = None if wanted == 1 else only_here(study, methods)
    if alone is None:
        return wanted, None
    return 1, (
        f"runs follow one another, not {wanted} at a time: {alone}, which other processes do not import; "
        "in an installed package they find it"
    )


def do_tasks(
    path: Path, study: Study, tasks: Sequence[Task], jobs: int, *, progress_bar: bool = False
) -> Iterator[tuple[Task, str | None]]:
    """Perform all tasks, and yield each when it is finished.

    With one job they run in this process. With more, each has a process of its own, so that killing one (for
    lack of memory, say) does not affect the others; together they have as many threads as cores.

    Yields:
        Each task with None, or with its error. An interruption is raised.
    """
    runs = path.parent / "runs"
    if jobs > 1:
        yield from _run_in_processes(path, tasks, runs, jobs)
        return
    for task in tasks:
        try:
            perform(study, task, runs, progress_bar=progress_bar)
        except TrainingInterrupted:
            raise
        except Exception as error:  # a failed run must not stop the others
            yield task, f"{type(error).__name__}: {' '.join(str(error).split())}"
        else:
            yield task, None


def _run_in_processes(
    path: Path, tasks: Sequence[Task], runs: Path, jobs: int
) -> Iterator[tuple[Task, str | None]]:
    waiting = list(tasks)
    threads = str(max(1, available_cores() // jobs))
    environment = {**os.environ, **dict.fromkeys(_THREADS, threads), _PARENT: str(os.getpid())}
    running: dict[subprocess.Popen[bytes], tuple[Task, Path]] = {}
    runs.mkdir(exist_ok=True)
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                task = waiting.pop(0)
                log = runs / f"{task.name}.log"
                with writing(log), log.open("wb") as errors:
                    process = subprocess.Popen(
                        _command(path, task), env=environment, stderr=errors, stdin=subprocess.DEVNULL
                    )
                running[process] = task, log
            ended = [process for process in running if process.poll() is not None]
            if not ended:
                time.sleep(0.1)
            for process in ended:
                task, log = running.pop(process)
                if process.returncode == _INTERRUPTED:
                    raise TrainingInterrupted("a run was interrupted; the same command continues the study")
                yield task, _why(process.returncode, log.read_text("utf-8", "replace"))
    finally:
        for process in running:
            process.terminate()  # it saves the training state
        for process in running:
            try:
                process.wait(_SAVING_TIME)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _command(path: Path, task: Task) -> list[str]:
    kind = "run" if task.measured else "trial"
    return [
        sys.executable,
        "-m",
        "labeltree.studies.study_processes",
        str(path),
        kind,
        task.name,
        str(task.trial),
    ]


def _why(code: int, errors: str) -> str | None:
    if code == 0:
        return None
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    last = lines[-1] if lines else "it wrote no error message"
    return f"killed by signal {-code}: {last}" if code < 0 else last


def main(arguments: list[str]) -> int:
    """Perform one run; returns the exit code: 0 done, 1 an error, 130 interrupted, 143 ended by SIGTERM.

    If the study's process dies, the run stops as after SIGTERM, and saves its training state.
    """
    file, kind, name, trial = arguments
    with stop_signals() as stop:
        try:
            if _PARENT in os.environ:
                end_with_parent(int(os.environ[_PARENT]), signal.SIGTERM)
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
