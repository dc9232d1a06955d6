"""A study as its file describes it: methods, trials, seeds, and what they share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labeltree.errors import LabeltreeError
from labeltree.evaluation import EvaluationSettings
from labeltree.training.module import VALIDATION_METRICS
from labeltree.training.reading import RecipeParser
from labeltree.training.recipe import Recipe
from labeltree.training.registry import list_objectives, objective_terms

__all__ = ["Method", "Study", "StudyError", "read_study", "slug"]


class StudyError(LabeltreeError, ValueError):
    """A study file is not understood."""


@dataclass(frozen=True)
class Method:
    """One row of a study's table.

    Attributes:
        name: as the table shows it.
        settings: what this method changes in the shared recipe; keys may be dotted (``hwc.alpha``).
        trials: further settings, one dictionary a trial; the best on validation is used for all seeds.
    """

    name: str
    settings: dict[str, Any]
    trials: list[dict[str, Any]]


@dataclass(frozen=True)
class Study:
    """Methods × seeds on one data set under one budget.

    Attributes:
        title: of the table.
        shared: the settings that all runs have in common.
        methods: the rows.
        seeds: of the runs that are reported.
        trial_seed: of the trials. Where it is one of the seeds, the chosen trial is that seed's run.
        select: the validation metric, a column of the history, that chooses a method's trial.
        evaluation: fields of `EvaluationSettings` that differ from their defaults.
        baselines: what stands beside the methods: ``raw`` samples, the encoder at the ``start`` of training.
    """

    title: str
    shared: dict[str, Any]
    methods: list[Method]
    seeds: list[int]
    trial_seed: int
    select: str
    evaluation: dict[str, Any] = field(default_factory=dict)
    baselines: tuple[str, ...] = ("raw", "start")

    @property
    def evaluation_settings(self) -> EvaluationSettings:
        """How every method is measured."""
        return EvaluationSettings(**self.evaluation)

    def recipe(self, method: Method, trial: dict[str, Any], seed: int) -> Recipe:
        """The recipe of one run."""
        settings = {**self.shared, **method.settings, **trial, "seed": seed}
        objective = str(settings.get("objective", Recipe.objective))
        # Options of objectives that this method does not use may stand in what all share.
        unused = {entry.name for entry in list_objectives()} - {e.name for e in objective_terms(objective)}
        kept = {key: value for key, value in settings.items() if key.split(".")[0] not in unused}
        return RecipeParser(objective).recipe(settings=_nested(kept))

    def run_name(self, method: Method, suffix: str) -> str:
        """The folder name of one of a method's runs."""
        return f"{slug(method.name)}-{suffix}"


def slug(name: str) -> str:
    """A name as a folder name."""
    return "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return nested


def read_study(path: str | Path) -> Study:
    """Read a study file (YAML).

    Raises:
        StudyError: if a key is missing or unknown, or the methods do not have equally many trials.
    """
    import yaml

    content = yaml.safe_load(Path(path).read_text("utf-8"))
    try:
        methods = [
            Method(name, dict(entry.get("settings") or {}), list(entry.get("trials") or [{}]))
            for name, entry in content.pop("methods").items()
        ]
        study = Study(methods=methods, **content)
        _ = study.evaluation_settings
        if unknown := set(study.baselines) - {"raw", "start"}:
            raise ValueError(f"baselines are raw and start; there is no '{min(unknown)}'")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StudyError(f"study '{path}' is not understood: {error}") from error
    columns = [f"val_{prefix}{name}" for prefix in ("", "embeddings_") for name in VALIDATION_METRICS]
    if study.select not in columns:
        raise StudyError(
            f"study '{path}': select is '{study.select}'; it must be one of {', '.join(columns)}"
        )
    if len({slug(method.name) for method in methods}) < len(methods):
        raise StudyError(f"study '{path}': two methods would share a folder; tell their names further apart")
    counts = {method.name: len(method.trials) for method in methods}
    if len(set(counts.values())) > 1:
        raise StudyError(f"study '{path}': methods must have equally many trials, got {counts}")
    return study
