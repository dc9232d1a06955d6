"""The results of a study so far (`results.json`), and the state of its runs."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeltree.atomic import write_text
from labeltree.evaluation.json_numbers import from_json
from labeltree.links import refuse_links
from labeltree.runs.run_folder import plain_json
from labeltree.safe_files import Reader, read_json
from labeltree.studies.run import Task, run_tasks_of, state_of, trial_tasks_of
from labeltree.studies.score_names import missing_scores
from labeltree.studies.study_file import read_study
from labeltree.studies.study_plan import Method, Study, StudyError, changed_defaults
from labeltree.training.recipe import Recipe
from labeltree.training.training_length import with_length

__all__ = ["Book", "Listing", "list_study"]

_OURS = {"README.md", "figures", "results.json", "runs", "table.csv", "table.html"}
_MANY = 10**6  # training samples, where a study does not say how many: as many as change no epochs
_RESULTS = Reader("the results of a study", "move it away to begin anew", StudyError)


class Book:
    """Results, trials and failures of a study.

    A result is identified by its method, its seed, the digest of its settings, and labeltree's defaults at
    the time. Results with other settings or defaults, or without a digest (older versions), stay in the
    tables until their run is repeated. Results without recorded defaults count as made with today's; `notes`
    says so.

    Args:
        path: Path of the study file; the results file is in the same folder.
        study: Plan of the study.
    """

    def __init__(self, path: Path, study: Study) -> None:
        refuse_links(path.parent, _OURS)
        self.path = path.parent / "results.json"
        self._study = study
        content: dict[str, Any] = {}
        if self.path.is_file():
            content = read_json(self.path, _RESULTS)
            with _RESULTS.reading(self.path, "parts of it are missing, or of another kind"):
                self._rows = {(row["method"], row["seed"]): _check_row(row) for row in content["results"]}
                choices, trials = content.get("choices", {}), content.get("trials", {})
                for choice in choices.values():
                    _ = choice["trials"][choice["chosen"]]["settings"].items()
                    for trial in choice["trials"]:
                        trial |= {key: from_json(float, trial[key]) for key in trial if key != "settings"}
                trials = from_json(dict[str, float], trials)
                if not all(isinstance(value, int | float) for value in trials.values()):
                    raise TypeError("a trial without a value")
        else:
            self._rows, choices, trials = {}, {}, {}
        self._trials: dict[str, Any] = choices
        self._digests: dict[str, float] = trials
        with _RESULTS.reading(self.path, "the defaults of its results are missing, or of another kind"):
            kinds = [dict(entry) for entry in content.get("defaults", [])]
            self._defaults = {str(k): kinds[place] for k, place in content.get("made_with", {}).items()}
        self.failures: list[dict[str, str]] = []

    def known(self, task: Task) -> bool:
        """Whether there is a result of the run with the present settings and defaults."""
        if task.measured:
            row = self._rows.get((task.method.name, task.seed), {})
            there = bool(row.get("settings") == task.digest(self._study))
        else:
            there = task.digest(self._study) in self._digests
        return there and not self.changes(task)

    def changes(self, task: Task) -> list[str]:
        """The defaults that have changed since a run's result was made; none if they were not recorded."""
        then = self._defaults.get(task.digest(self._study))
        return [] if then is None else changed_defaults(then, task.defaults(self._study))

    def has_result(self, digest: str, defaults: Mapping[str, Any]) -> bool:
        """Whether there is a result with exactly these settings and defaults."""
        there = any(row.get("settings") == digest for row in self._rows.values())
        return there and not changed_defaults(self._defaults.get(digest), defaults)

    def notes(self, tasks: Iterable[Task]) -> list[str]:
        """Sentences about results of these runs that were, or may have been, made with other defaults."""
        listed = list(tasks)
        changes = list(dict.fromkeys(change for task in listed for change in self.changes(task)))
        places = dict.fromkeys((task.method.name, task.seed) for task in listed if task.measured)
        rows = [self._rows[place] for place in places if place in self._rows]
        older = sum(row.get("settings") not in self._defaults for row in rows)
        sentences = []
        if changes:
            shown = "; ".join([*changes[:5], *(["…"] if len(changes) > 5 else [])])
            sentences.append(
                f"defaults of labeltree have changed since results were made ({shown}): the study repeats "
                "those runs"
            )
        if older:
            sentences.append(
                f"{older} of {len(rows)} results have no recorded defaults (older versions kept none): they "
                "count as made with today's"
            )
        methods = list({task.method.name: task.method for task in listed}.values())
        for entry in self._study.own_objectives(methods):
            if entry.origin.digest is None:
                sentences.append(
                    f"the source of objective '{entry.name}' cannot be read: if you change it, its results "
                    "count as done all the same, so move results.json and runs/ away then"
                )
        return sentences

    def missing_scores(self) -> list[str]:
        """Sentences about columns of the study that none of its results has."""
        known = list(dict.fromkeys(name for row in self.results for name in row["scores"]))
        return missing_scores(self._study.columns, known)

    def keep_baselines(self, digests: Collection[str]) -> None:
        """Drop baselines with other digests, whose settings the study no longer has."""
        names = {method.name for method in self._study.methods}
        self._rows = {
            key: row
            for key, row in self._rows.items()
            if key[0] in names or "train_loss" in row or row.get("settings") in digests
        }

    def row(self, name: str, seed: int) -> dict[str, Any] | None:
        """The result of a method or baseline."""
        return self._rows.get((name, seed))

    def add(self, name: str, seed: int, result: dict[str, Any]) -> None:
        """Store the result of a run."""
        row = {key: value for key, value in result.items() if key != "defaults"}
        self._rows[name, seed] = {"method": name, "seed": seed, **row}
        self._remember(row.get("settings"), result.get("defaults"))

    def add_trial(self, task: Task, value: float, defaults: Mapping[str, Any] | None = None) -> None:
        """Store the validation value of a trial, and the defaults that it was made with."""
        self._digests[task.digest(self._study)] = value
        self._remember(task.digest(self._study), defaults)

    def _remember(self, digest: str | None, defaults: Mapping[str, Any] | None) -> None:
        if digest is not None:
            self._defaults.pop(digest, None)
            if defaults is not None:
                self._defaults[digest] = dict(defaults)

    def choose(self, tasks: list[Task]) -> int | None:
        """The number of the best trial on validation; None if a trial of the method has no value.

        Choosing among the remaining trials would give the method fewer chances than the others.
        """
        values = [self._digests.get(task.digest(self._study)) for task in tasks]
        if any(value is None for value in values):
            return None
        known = [value for value in values if value is not None]
        worth = [-math.inf if math.isnan(value) else value for value in known]  # NaN is never best
        best = max(range(len(known)), key=worth.__getitem__)
        pairs = zip(tasks, known, strict=True)
        self._trials[tasks[0].method.name] = {
            "trials": [{"settings": task.settings, self._study.select: value} for task, value in pairs],
            "chosen": best,
        }
        return best

    @property
    def results(self) -> list[dict[str, Any]]:
        """The rows of the study's methods in its order, baselines last."""
        names = [method.name for method in self._study.methods]
        order = {name: place for place, name in enumerate(names)}
        rows = [
            row
            for (name, seed), row in self._rows.items()
            if seed in self._study.seeds
            and (name in order or (bool(self._study.baselines) and "train_loss" not in row))
        ]
        return sorted(rows, key=lambda row: order.get(row["method"], len(order)))

    @property
    def choices(self) -> dict[str, Any]:
        """The trials of each method, and the index of the chosen one."""
        names = [method.name for method in self._study.methods]
        return {name: self._trials[name] for name in names if name in self._trials}

    def write(self) -> None:
        """Write the file atomically; numbers that are not finite become null."""
        content: dict[str, Any] = {"results": self.results, "choices": self.choices}
        if self._digests:
            content["trials"] = self._digests
        known: set[str] = {*self._digests, *(row["settings"] for row in self.results if "settings" in row)}
        if kept := sorted(known & self._defaults.keys()):
            kinds: list[dict[str, Any]] = []
            for digest in kept:
                if self._defaults[digest] not in kinds:
                    kinds.append(self._defaults[digest])
            content["defaults"] = kinds
            content["made_with"] = {digest: kinds.index(self._defaults[digest]) for digest in kept}
        if self.failures:
            content["failures"] = self.failures
        write_text(self.path, json.dumps(plain_json(content), indent=1, allow_nan=False) + "\n")


def _check_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the results, after checking the types of everything that the tables read."""
    if "train_loss" in row:
        row = {**row, "train_loss": from_json(list[float], row["train_loss"])}
    known = [value for value in row["scores"].values() if value is not None]
    if not all(isinstance(value, int | float) for value in [*known, *row.get("train_loss", [])]):
        raise TypeError("a score that is not a number")
    return row


@dataclass(frozen=True)
class Listing:
    """The runs of a study.

    Attributes:
        states: State of each run by folder name: `done`, `measured` or `trained` (not in the results
            yet), `begun` or `to do`.
        seconds: Estimated remaining time with one job, from the finished runs; None if none has finished.
        notes: Sentences about results that were, or may have been, made with other defaults.
    """

    states: dict[str, str]
    seconds: float | None
    notes: tuple[str, ...] = ()

    def lines(self, jobs: int = 1) -> list[str]:
        """One line per run, and a summary sentence."""
        width = max(map(len, self.states.values()), default=0)
        counts = {
            state: list(self.states.values()).count(state) for state in dict.fromkeys(self.states.values())
        }
        some = ", ".join(f"{count} {state}" for state, count in counts.items())
        left = (
            "the remaining time is known once a run is done"
            if self.seconds is None
            else f"about {_duration(self.seconds / jobs)} left with {jobs} at a time"
        )
        return [
            *(f"{state:<{width}}  {name}" for name, state in self.states.items()),
            *self.notes,
            f"{len(self.states)} runs: {some}; {left}",
        ]


def list_study(path: str | Path, only: Sequence[str] = ()) -> Listing:
    """Check every recipe of a study, and list the states of its runs; no data are needed.

    Runs of a method whose trial has not been chosen yet are listed with the first trial's settings.

    Raises:
        StudyError: If the study file is not valid.
        RecipeError: If a recipe is not valid.
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
            # A chosen trial shares its folder with a reported run, whose state overrides the trial's.
            states[task.name] = state
            costs[task.name] = 0.0 if state in ("done", "measured") else cost
            row = book.row(method.name, task.seed) if state == "done" and task.measured else None
            if row is not None:
                spent += row["train_seconds"] + (row.get("measure_seconds") or 0.0)
                done_cost += cost
    seconds = sum(costs.values()) * spent / done_cost if done_cost else None
    return Listing(states, seconds, (*book.notes(tasks), *book.missing_scores()))


def _tasks(study: Study, book: Book, method: Method) -> list[Task]:
    trials = trial_tasks_of(study, [method])
    chosen = book.choose(trials) if trials else 0
    return [*trials, *run_tasks_of(study, method, chosen or 0)]


def _cost(recipe: Recipe) -> float:
    """A rough measure of a run's work relative to the others of its study."""
    samples = recipe.train_limit or recipe.limit
    epochs = with_length(recipe, samples or _MANY).epochs or 1
    return float(epochs * (samples or 1))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"
