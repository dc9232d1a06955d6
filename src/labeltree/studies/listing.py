"""What a study has done and what is left, without doing any of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labeltree.studies.book import Book
from labeltree.studies.plan import Method, Study, read_study
from labeltree.studies.task import Task, run_tasks_of, state_of, trial_tasks_of
from labeltree.training.recipe import Recipe

__all__ = ["Listing", "list_study"]


@dataclass(frozen=True)
class Listing:
    """The runs of a study.

    Attributes:
        states: folder name → ``done``, ``measured`` or ``trained`` (not in the results yet), ``begun`` or
            ``to do``.
        seconds: that are left with one job, as the finished runs took; None where none has finished.
        notes: sentences on results that were, or may have been, made with other defaults.
    """

    states: dict[str, str]
    seconds: float | None
    notes: tuple[str, ...] = ()

    def lines(self, jobs: int = 1) -> list[str]:
        """A line a run, and a sentence that sums them up."""
        width = max(map(len, self.states.values()), default=0)
        counts = {
            state: list(self.states.values()).count(state) for state in dict.fromkeys(self.states.values())
        }
        some = ", ".join(f"{count} {state}" for state, count in counts.items())
        left = (
            "how long the rest takes is known once a run is done"
            if self.seconds is None
            else f"about {_duration(self.seconds / jobs)} left with {jobs} at a time"
        )
        return [
            *(f"{state:<{width}}  {name}" for name, state in self.states.items()),
            *self.notes,
            f"{len(self.states)} runs: {some}; {left}",
        ]


def list_study(path: str | Path, only: Sequence[str] = ()) -> Listing:
    """Check every recipe of a study, and say what is done and what is left. No data are needed.

    Where methods are yet to be chosen by their trials, runs are listed with the first trial's settings.

    Raises:
        StudyError: if the file is not understood.
        RecipeError: if a recipe is not.
    """
    path = Path(path)
    study = read_study(path)
    book = Book(path, study)
    runs = path.parent / "runs"
    costs: dict[str, float] = {}
    states: dict[str, str] = {}
    spent = done_cost = 0.0
    tasks: list[Task] = []
    for method in study.only(only):
        for task in _tasks(study, book, method):
            tasks.append(task)
            cost = _cost(study.recipe(method, task.settings, task.seed))
            state = "done" if book.known(task) else state_of(study, task, runs)
            # A trial that is chosen is measured as well: the same folder, and the later state counts.
            states[task.name] = state
            costs[task.name] = 0.0 if state in ("done", "measured") else cost
            row = book.row(method.name, task.seed) if state == "done" and task.measured else None
            if row is not None:
                spent += row["train_seconds"] + (row.get("measure_seconds") or 0.0)
                done_cost += cost
    seconds = sum(costs.values()) * spent / done_cost if done_cost else None
    return Listing(states, seconds, tuple(book.notes(tasks)))


def _tasks(study: Study, book: Book, method: Method) -> list[Task]:
    trials = trial_tasks_of(study, [method])
    chosen = book.choose(trials) if trials else 0
    return [*trials, *run_tasks_of(study, method, chosen or 0)]


def _cost(recipe: Recipe) -> float:
    """Roughly how much work a run is beside the others of its study."""
    return float(recipe.epochs * (recipe.train_limit or recipe.limit or 1))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"
