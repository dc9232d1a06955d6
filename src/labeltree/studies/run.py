"""The runs of a study: list them, find their state, train and measure them."""

from __future__ import annotations

import dataclasses
import gc
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeltree.data import DataSummary, Source
from labeltree.errors import OtherSettingsError, RunError
from labeltree.evaluation import evaluate
from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import embed_source
from labeltree.lock import LOCK, lock_folder
from labeltree.models import encoder_modality
from labeltree.runs import EmbeddingTable, ModelDescription, RunFolder
from labeltree.safe_files import Reader, read_json
from labeltree.studies.study_plan import Method, Study, changed_defaults
from labeltree.training.callbacks.checkpoints import best_row
from labeltree.training.fit import train
from labeltree.training.network import Network
from labeltree.training.recipe import Recipe, TableRecipe
from labeltree.training.recipe_data import open_recipe_source
from labeltree.training.records.record import changed_sources
from labeltree.training.registry import AUTO_OBJECTIVE

__all__ = [
    "METRICS",
    "Task",
    "collect",
    "find_task",
    "is_measured",
    "measure",
    "measured_as",
    "perform",
    "run_tasks_of",
    "scores_of",
    "state_of",
    "trial_tasks_of",
]

METRICS = Reader("the metrics of a run", "delete it and the same command measures the run again", RunError)


@dataclass(frozen=True)
class Task:
    """One run to train and, unless it is only a trial, to measure on the test split.

    Attributes:
        method: Method of the study.
        trial: Index of the trial whose settings the run uses.
        seed: Random seed of the run.
        name: Name of the run folder.
        measured: True for reported runs; trials never use the test split.
    """

    method: Method
    trial: int
    seed: int
    name: str
    measured: bool

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the trial."""
        return self.method.trials[self.trial]

    def digest(self, study: Study) -> str:
        """Digest of the run's settings, see `Study.digest`."""
        return study.digest(self.method, self.settings, self.seed, measured=self.measured)

    def defaults(self, study: Study) -> dict[str, Any]:
        """Defaults that the run depends on, see `Study.defaults`."""
        return study.defaults(self.method, self.settings, self.seed, measured=self.measured)


def trial_tasks_of(study: Study, methods: Sequence[Method]) -> list[Task]:
    """The trials of the methods; empty if each method has a single setting."""
    return [
        Task(method, number, study.trial_seed, study.run_name(method, f"trial{number}"), measured=False)
        for method in methods
        for number in range(len(method.trials))
        if len(method.trials) > 1
    ]


def run_tasks_of(study: Study, method: Method, best: int) -> list[Task]:
    """The reported runs of a method with the settings of its best trial.

    The chosen trial serves as the run of its seed, so nothing is trained twice.
    """
    tasks = []
    for seed in study.seeds:
        tried = len(method.trials) > 1 and seed == study.trial_seed
        name = study.run_name(method, f"trial{best}" if tried else f"seed{seed}")
        tasks.append(Task(method, best, seed, name, measured=True))
    return tasks


def find_task(study: Study, name: str, trial: int, measured: bool) -> Task:
    """The task with this folder name, for a worker process."""
    for method in study.methods:
        tasks = run_tasks_of(study, method, trial) if measured else trial_tasks_of(study, [method])
        for task in tasks:
            if (task.name, task.trial) == (name, trial):
                return task
    raise ValueError(f"the study has no run '{name}'")


def is_measured(folder: RunFolder, digest: str, defaults: Mapping[str, Any]) -> bool:
    """Whether the metrics of a run folder were computed with these settings and defaults."""
    if measured_as(folder) != digest:
        return False
    return not changed_defaults(read_json(folder.metrics, METRICS).get("defaults"), defaults)


def measured_as(folder: RunFolder) -> str | None:
    """The digest of the metrics of a run folder; None if there are no metrics or no digest."""
    if not folder.metrics.is_file():
        return None
    try:
        content = read_json(folder.metrics, METRICS)
    except RunError:
        return None
    digest = content.get("digest", content.get("settings"))  # its name in older versions
    return digest if isinstance(digest, str) else None


def state_of(study: Study, task: Task, runs: Path) -> str:
    """The state of a run on disk: `measured`, `trained`, `begun` or `to do`."""
    folder = RunFolder(runs / task.name)
    if changed_sources(folder):
        return "to do"
    if folder.encoder.is_file():
        known = is_measured(folder, task.digest(study), task.defaults(study))
        return "measured" if known else "trained"
    return "begun" if folder.last_checkpoint.is_file() else "to do"


def perform(study: Study, task: Task, runs: Path, *, progress_bar: bool = False) -> None:
    """Train or continue a run, and measure it on the test split if it is a reported run.

    A run of an earlier version of the study file, or of an objective whose source has changed, moves to
    `runs/replaced/`.
    """
    recipe = study.recipe(task.method, task.settings, task.seed)
    if changed_sources(RunFolder(runs / task.name)):
        _set_aside(runs / task.name)
    try:
        folder = train(recipe, runs / task.name, progress_bar=progress_bar, on_data=_keep)
    except OtherSettingsError:
        _set_aside(runs / task.name)
        folder = train(recipe, runs / task.name, progress_bar=progress_bar, on_data=_keep)
    with folder.locked():
        if task.measured:
            _measure_run(study, folder, task)
        _let_go(folder)


def _keep(_: DataSummary) -> None:
    """Print nothing: all runs of a study have the same data, and each run saves its summary."""


def collect(study: Study, task: Task, runs: Path) -> dict[str, Any]:
    """Read from a run folder its row of the results or, for a trial, the best validation `value`."""
    folder = RunFolder(runs / task.name)
    history = folder.read_history()
    if not task.measured:
        return {"value": best_row(history, study.select)[study.select], "defaults": task.defaults(study)}
    metrics = read_json(folder.metrics, METRICS)
    chosen = {}
    if (
        study.settings(task.method, task.settings, task.seed).get("objective", AUTO_OBJECTIVE)
        == AUTO_OBJECTIVE
    ):
        chosen = {"objective": ModelDescription.load(folder.description).settings["objective"]}
    return {
        **chosen,
        "settings": task.digest(study),
        "defaults": metrics.get("defaults"),
        "scores": scores_of(metrics),
        "train_seconds": round(sum(row["seconds"] for row in history), 1),
        "measure_seconds": metrics.get("seconds"),
        "train_loss": [row["train_loss"] for row in history],
    }


def _measure_run(study: Study, folder: RunFolder, task: Task) -> None:
    """Compute the test metrics of a finished run, unless they are up to date."""
    digest, defaults = task.digest(study), task.defaults(study)
    if is_measured(folder, digest, defaults):
        return
    begun = time.monotonic()
    run = load_run(folder.path)
    table = embed_source(run.network, run.source, answers=True)
    metrics = measure(study, table, run.source, run.network)
    seconds = round(time.monotonic() - begun, 1)
    folder.write_json(folder.metrics, {**metrics, "digest": digest, "defaults": defaults, "seconds": seconds})
    print(f"{folder.path.name}: measured", flush=True)


def measure(
    study: Study, table: EmbeddingTable, source: Source, network: Network | None = None
) -> dict[str, Any]:
    """Evaluate a table, and under `transfer` the study's other data set, as plain values.

    Args:
        study: Study with the evaluation settings.
        table: Embeddings table of the samples.
        source: The samples.
        network: Network whose encoder is transferred; None if there is no encoder.
    """
    solved = network is not None and network.objective.solver is not None
    metrics = evaluate(
        table,
        source.taxonomy,
        settings=study.evaluation_settings,
        answers_searched=[] if solved else None,
    ).to_dict()
    if not study.transfer or network is None:
        return metrics
    other = _other_source(network.recipe, study.transfer, source)
    moved = embed_source(network, other)
    result = evaluate(moved, other.taxonomy, settings=study.evaluation_settings)
    return {**metrics, "transfer": result.to_dict()}


def _other_source(recipe: Recipe, transfer: dict[str, Any], source: Source) -> Source:
    """The samples of the other data set, in the encoder's input shape, split by the run's seed."""
    shape: dict[str, Any] = {}
    if encoder_modality(recipe.encoder) == "image":
        channels, height, _ = source.image_shape
        shape = {"image_size": height, "channels": channels}
    own = {"data_path": None, "taxonomy": None, "table": TableRecipe()}
    limits = {"limit": None, "train_limit": None, "test_limit": None}
    hidden = {"unseen_classes": None, "unseen_depth": None}
    return open_recipe_source(dataclasses.replace(recipe, **{**own, **limits, **hidden, **shape, **transfer}))


def scores_of(metrics: dict[str, Any]) -> dict[str, float | None]:
    """Metric values by `role/metric`; values by depth have keys `protocol/accuracy at depth d`."""
    (method,) = metrics["methods"].values()
    scores = {f"{role}/{name}": v for role, part in method["scores"].items() for name, v in part.items()}
    for protocol, values in method["by_depth"].items():
        scores |= {f"{protocol}/accuracy at depth {d}": v for d, v in enumerate(values, 1)}
    for protocol, protocol_result in method.get("protocols", {}).items():
        scores |= {f"{protocol}/{name}": value for name, value in protocol_result["scores"].items()}
        for name, values in protocol_result["by_depth"].items():
            scores |= {f"{protocol}/{name} at depth {d}": v for d, v in enumerate(values, 1)}
    if "transfer" in metrics:
        scores |= {f"transfer {name}": value for name, value in scores_of(metrics["transfer"]).items()}
    return scores


def _set_aside(run: Path) -> None:
    """Move a run with outdated settings to `replaced/`, replacing an earlier run of the same name there."""
    aside = run.parent / "replaced" / run.name
    with lock_folder(run):
        shutil.rmtree(aside, ignore_errors=True)
        aside.parent.mkdir(exist_ok=True)
        run.rename(aside)
        (aside / LOCK).unlink(missing_ok=True)


def _let_go(folder: RunFolder) -> None:
    """Free the disk space and memory of a finished run: hundreds of training states would fill a disk.

    A trainer and its module refer to each other. Python collects such cycles among old objects only after
    many runs, and until then each keeps its weights and a mapping of all images.
    """
    folder.drop_checkpoints()
    gc.collect()
