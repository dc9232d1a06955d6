"""The single runs of a study: which there are, in which folders, and how far they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeltree.errors import RunError
from labeltree.runs import RunFolder
from labeltree.safe_files import Reader, read_json
from labeltree.studies.plan import Method, Study, changed_defaults

__all__ = [
    "METRICS",
    "Task",
    "find_task",
    "is_measured",
    "measured_as",
    "run_tasks_of",
    "state_of",
    "trial_tasks_of",
]

METRICS = Reader("the metrics of a run", "delete it and the same command measures the run again", RunError)


@dataclass(frozen=True)
class Task:
    """One run to train and, unless it is a mere trial, to measure on the test split.

    Attributes:
        method: of the study.
        trial: number of the trial whose settings it has.
        seed: of the run.
        name: of its folder.
        measured: whether it is one of the reported runs; trials never see the test split.
    """

    method: Method
    trial: int
    seed: int
    name: str
    measured: bool

    @property
    def settings(self) -> dict[str, Any]:
        """Of the trial."""
        return self.method.trials[self.trial]

    def digest(self, study: Study) -> str:
        """See `Study.digest`."""
        return study.digest(self.method, self.settings, self.seed, measured=self.measured)

    def defaults(self, study: Study) -> dict[str, Any]:
        """See `Study.defaults`."""
        return study.defaults(self.method, self.settings, self.seed, measured=self.measured)


def trial_tasks_of(study: Study, methods: Sequence[Method]) -> list[Task]:
    """The trials of these methods; none where there is nothing to choose."""
    return [
        Task(method, number, study.trial_seed, study.run_name(method, f"trial{number}"), measured=False)
        for method in methods
        for number in range(len(method.trials))
        if len(method.trials) > 1
    ]


def run_tasks_of(study: Study, method: Method, best: int) -> list[Task]:
    """The reported runs of a method with the settings of its best trial.

    The trial that was chosen is the run of its seed; nothing is trained twice.
    """
    tasks = []
    for seed in study.seeds:
        tried = len(method.trials) > 1 and seed == study.trial_seed
        name = study.run_name(method, f"trial{best}" if tried else f"seed{seed}")
        tasks.append(Task(method, best, seed, name, measured=True))
    return tasks


def find_task(study: Study, name: str, trial: int, measured: bool) -> Task:
    """The task with this folder name, as another process is told of it."""
    for method in study.methods:
        tasks = run_tasks_of(study, method, trial) if measured else trial_tasks_of(study, [method])
        for task in tasks:
            if (task.name, task.trial) == (name, trial):
                return task
    raise ValueError(f"the study has no run '{name}'")


def is_measured(folder: RunFolder, digest: str, defaults: Mapping[str, Any]) -> bool:
    """Whether the metrics of a run folder are of these settings and defaults, if it says which they were."""
    if measured_as(folder) != digest:
        return False
    return not changed_defaults(read_json(folder.metrics, METRICS).get("defaults"), defaults)


def measured_as(folder: RunFolder) -> str | None:
    """Of which digest the metrics of a run folder are; None where there are none, or they do not say."""
    if not folder.metrics.is_file():
        return None
    try:
        content = read_json(folder.metrics, METRICS)
    except RunError:
        return None
    digest = content.get("digest", content.get("settings"))  # where the digest once stood
    return digest if isinstance(digest, str) else None


def state_of(study: Study, task: Task, runs: Path) -> str:
    """How far a run is on disk: ``measured``, ``trained``, ``begun`` or ``to do``."""
    folder = RunFolder(runs / task.name)
    if folder.encoder.is_file():
        known = is_measured(folder, task.digest(study), task.defaults(study))
        return "measured" if known else "trained"
    return "begun" if folder.last_checkpoint.is_file() else "to do"
