"""A study as its file describes it: methods, trials, seeds, and what they share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeltree.errors import LabeltreeError
from labeltree.training.reading import RecipeParser
from labeltree.training.recipe import Recipe
from labeltree.training.registry import objective_terms

__all__ = ["Method", "Study", "StudyError", "read_study"]


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
        trial_seed: of the trials, apart from those seeds.
        select: the validation metric, a column of the history, that chooses a method's trial.
    """

    title: str
    shared: dict[str, Any]
    methods: list[Method]
    seeds: list[int]
    trial_seed: int
    select: str

    def recipe(self, method: Method, trial: dict[str, Any], seed: int) -> Recipe:
        """The recipe of one run."""
        settings = {**self.shared, **method.settings, **trial, "seed": seed}
        objective = str(settings.get("objective", Recipe.objective))
        terms = {entry.name for entry in objective_terms(objective)}
        # Options of terms that this method does not use may stand in what all share.
        kept = {
            k: v
            for k, v in settings.items()
            if "." not in k or k.split(".")[0] in {"head", "optimizer"} | terms
        }
        return RecipeParser(objective).recipe(settings=_nested(kept))


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
    except (AttributeError, KeyError, TypeError) as error:
        raise StudyError(f"study '{path}' is not understood: {error}") from error
    counts = {method.name: len(method.trials) for method in methods}
    if len(set(counts.values())) > 1:
        raise StudyError(f"study '{path}': methods must have equally many trials, got {counts}")
    return study
