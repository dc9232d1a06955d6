"""Running a study: choose trials on validation, then run every seed; finished runs are not repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labeltree.lock import lock_folder
from labeltree.options.schema import takes
from labeltree.options.studies import StudyOptions
from labeltree.studies.baselines import baseline_digests, measure_baselines
from labeltree.studies.output import write_tables
from labeltree.studies.run import Task, collect, run_tasks_of, trial_tasks_of
from labeltree.studies.study_file import read_study
from labeltree.studies.study_plan import Method, Study
from labeltree.studies.study_processes import do_tasks, jobs_for
from labeltree.studies.study_results import Book

__all__ = ["Executed", "execute", "rewrite"]


@dataclass(frozen=True)
class Executed:
    """A study that was run.

    Attributes:
        tables: The path of the Markdown page.
        failures: Dictionaries with `run` and `error` for each failed run.
    """

    tables: Path
    failures: list[dict[str, str]]


@takes(StudyOptions)
def execute(options: StudyOptions) -> Executed:
    """Do all runs of a study that are not done yet, and write its tables beside its file.

    Each run has a folder in `runs/` beside the study file; test results are in `results.json`, tables in
    `README.md`, `table.csv`, `table.html` and `figures/`. Test samples are used once per run, after
    all choices are made. A run that fails is listed in the tables and tried again by the next call; a method
    with a failed trial has no runs, since it would have been chosen from fewer trials.

    Raises:
        TrainingInterrupted: On Ctrl-C or SIGTERM; calling again continues the study.
        FolderInUseError: If another process is running a study in this folder.
    """
    jobs, only, progress_bar = options.jobs, options.only, options.progress_bar
    path = Path(options.file)
    study = read_study(path)
    methods = study.only(only)
    jobs, note = jobs_for(study, methods, jobs)
    if note is not None:
        print(note, flush=True)
    with lock_folder(path.parent):
        return _execute(path, study, methods, jobs, progress_bar)


def _execute(path: Path, study: Study, methods: Sequence[Method], jobs: int, progress_bar: bool) -> Executed:
    book = Book(path, study)
    runs = path.parent / "runs"
    for note in book.notes(
        [task for m in methods for task in (*trial_tasks_of(study, [m]), *_all_runs(study, m))]
    ):
        print(note, flush=True)

    def do(tasks: list[Task]) -> None:
        left = [task for task in tasks if not book.known(task)]
        for task, error in do_tasks(path, study, left, jobs, progress_bar=progress_bar):
            if error is None:
                _keep(book, study, task, runs)
            else:
                book.failures.append({"run": task.name, "error": error})
                print(f"{task.name} failed: {error}", flush=True)
            book.write()

    trials = trial_tasks_of(study, methods)
    do(trials)
    tasks: list[Task] = []
    for method in methods:
        own = [task for task in trials if task.method is method]
        best = book.choose(own) if own else 0
        if best is not None:
            tasks += run_tasks_of(study, method, best)
    do(tasks)
    for row in measure_baselines(study, runs, book):
        book.add(
            row["method"], row["seed"], {k: row[k] for k in ("settings", "scores", "defaults") if k in row}
        )
    book.keep_baselines({d for seed in study.seeds for d in baseline_digests(study, seed).values()})
    book.write()
    return Executed(write_tables(path, study, book), book.failures)


def _all_runs(study: Study, method: Method) -> list[Task]:
    """The runs of a method with the settings of any trial."""
    return [task for number in range(len(method.trials)) for task in run_tasks_of(study, method, number)]


def rewrite(path: str | Path) -> Path:
    """Rewrite a study's tables from `results.json` without running anything. Returns the page's path."""
    path = Path(path)
    study = read_study(path)
    with lock_folder(path.parent):
        book = Book(path, study)
        if not book.path.is_file():
            raise FileNotFoundError(f"there is no '{book.path}': the study '{path}' has no results yet")
        return write_tables(path, study, book)


def _keep(book: Book, study: Study, task: Task, runs: Path) -> None:
    row = collect(study, task, runs)
    if task.measured:
        book.add(task.method.name, task.seed, row)
        return
    book.add_trial(task, row["value"], row.get("defaults"))
    print(
        f"{task.method.name}, trial {task.trial} {task.settings}: {study.select} {row['value']:.4f}",
        flush=True,
    )
