"""The plan of a study: methods at the points of a grid, trials, seeds, and what identifies a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from labeltree.evaluation import EvaluationSettings
from labeltree.studies.study_sections import StudyError
from labeltree.training.read_recipes import nested_settings, parser_of
from labeltree.training.recipe import Recipe
from labeltree.training.registry import (
    AUTO_OBJECTIVE,
    ObjectiveEntry,
    head_layers,
    list_objectives,
    objective_terms,
)

__all__ = ["Axis", "Method", "PaperTable", "Point", "Study", "StudyError", "changed_defaults", "slug"]

Point = tuple[tuple[str, str], ...]
"""A point of a grid: (axis, label) pairs."""


@dataclass(frozen=True)
class Axis:
    """One axis of a grid.

    Attributes:
        name: Name of the axis in figures and tables.
        points: Settings of a method at each point, by label.
    """

    name: str
    points: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class PaperTable:
    """One column of a paper's table.

    Attributes:
        source: Paper, table and measure, as a heading.
        data: The data and scale of the paper's numbers.
        column: The most similar score of this study, as `role/metric`.
        rows: The paper's numbers as printed, by name of this study's method.
        lower: True if smaller values are better.
    """

    source: str
    data: str
    column: str
    rows: dict[str, float]
    lower: bool = False


@dataclass(frozen=True)
class Method:
    """One row of a study's table.

    Attributes:
        name: Name in the table.
        settings: Settings that differ from the shared recipe; keys may be dotted (`hwc.alpha`). In the file
            they may start from a `recipe`, a path relative to the study's folder.
        trials: Further settings, one dictionary per trial; the best on validation is used for all seeds.
        family: The method of the study file that this point of the grid belongs to; without a grid, `name`.
        point: (axis, label) pairs; empty if the method does not vary along the grid.
    """

    name: str
    settings: dict[str, Any]
    trials: list[dict[str, Any]]
    family: str = ""
    point: Point = ()


@dataclass(frozen=True)
class Study:
    """Methods × grid × seeds on one data set under one budget.

    Attributes:
        title: Title of the table.
        shared: The settings that all runs have in common.
        methods: The rows of the table, one for each method and point of the grid.
        seeds: Seeds of the reported runs.
        trial_seed: Seed of the trials. If it is one of `seeds`, the chosen trial serves as that seed's run.
        select: The validation metric (a column of the history) by which a method's trial is chosen; empty if
            methods have no trials.
        evaluation: Fields of `EvaluationSettings` that differ from their defaults.
        baselines: `raw` (the raw samples) and `start` (the encoder at the start of training).
        grid: The axes that methods vary along.
        columns: The scores in the figures and tables of a grid, as `role/metric`; without a grid, the
            scores in the first table.
        transfer: Another data set on which every frozen encoder is measured as well: `data` and the
            settings that select its samples.
        claim: The claim under test, in one sentence with its source.
        paper: Numbers of a paper, shown beside this study's.
        margins: For columns (`role/metric`), how far a method may be behind the best one and still count as
            not behind; see `labeltree.studies.shortfall`.
    """

    title: str
    shared: dict[str, Any]
    methods: list[Method]
    seeds: list[int]
    trial_seed: int = 0
    select: str = ""
    evaluation: dict[str, Any] = field(default_factory=dict)
    baselines: tuple[str, ...] = ("raw", "start")
    grid: tuple[Axis, ...] = ()
    columns: tuple[str, ...] = ()
    transfer: dict[str, Any] = field(default_factory=dict)
    claim: str = ""
    paper: tuple[PaperTable, ...] = ()
    margins: dict[str, float] = field(default_factory=dict)

    @property
    def evaluation_settings(self) -> EvaluationSettings:
        """The evaluation settings of all methods."""
        return EvaluationSettings(**self.evaluation)

    @property
    def families(self) -> list[str]:
        """The methods of the file, in order."""
        return list(dict.fromkeys(method.family for method in self.methods))

    @property
    def is_map(self) -> bool:
        """Whether the grid has two axes and a single method varies along both: its points are compared."""
        return len(self.grid) == 2 and len({m.family for m in self.methods if len(m.point) == 2}) == 1

    def method_at(self, family: str, point: Mapping[str, str]) -> Method | None:
        """The method of a family at this point; axes along which the family does not vary are ignored."""
        for method in self.methods:
            own = dict(method.point)
            if method.family == family and all(own[axis] == point.get(axis) for axis in own):
                return method
        return None

    def settings(self, method: Method, trial: dict[str, Any], seed: int) -> dict[str, Any]:
        """The dotted settings of one run, without options of objectives that the method does not use."""
        settings = {**self.shared, **method.settings, **trial, "seed": seed}
        objective = str(settings.get("objective", Recipe.objective))
        if objective == AUTO_OBJECTIVE:  # it has no settings: who gives some is told so
            return settings
        unused = {entry.name for entry in list_objectives()} - {e.name for e in objective_terms(objective)}
        return {key: value for key, value in settings.items() if key.split(".")[0] not in unused}

    def recipe(self, method: Method, trial: dict[str, Any], seed: int) -> Recipe:
        """The recipe of one run."""
        settings = self.settings(method, trial, seed)
        objective = str(settings.get("objective", Recipe.objective))
        return parser_of(objective).recipe(settings=nested_settings(settings))

    def digest(self, method: Method, trial: dict[str, Any], seed: int, *, measured: bool = True) -> str:
        """A hash of all that a run and its measurement depend on; it identifies stored results.

        These are settings and, of objectives that are not labeltree's, the source.
        """
        content: list[Any] = [self.settings(method, trial, seed)]
        if measured:
            content += [self.evaluation, self.transfer]
        if sources := {e.name: e.origin.digest for e in self.own_objectives([method])}:
            content.append({"sources": sources})
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def defaults(
        self, method: Method, trial: dict[str, Any], seed: int, *, measured: bool = True
    ) -> dict[str, Any]:
        """The defaults of all settings that the study does not set, on which a run also depends.

        Recipe settings have dotted names; evaluation settings begin with `evaluation.`. Values `auto` are
        not resolved.
        """
        given = {_spell(key) for key in _dot(self.settings(method, trial, seed))}
        defaults = self.recipe(method, trial, seed).computed_by()
        if measured:
            defaults |= {f"evaluation.{k}": v for k, v in asdict(self.evaluation_settings).items()}
            given |= {f"evaluation.{key}" for key in self.evaluation}
        defaults["head.layers"] = head_layers(self.recipe(method, trial, seed))
        left = {key: value for key, value in defaults.items() if _spell(key) not in given}
        plain: dict[str, Any] = json.loads(json.dumps(left, default=str))
        return plain

    def run_name(self, method: Method, suffix: str) -> str:
        """The folder name of one of a method's runs."""
        return f"{slug(method.name)}-{suffix}"

    def own_objectives(self, methods: Sequence[Method]) -> list[ObjectiveEntry]:
        """The objectives of these methods that are not labeltree's own."""
        names = {
            str({**self.shared, **method.settings, **trial}.get("objective", Recipe.objective))
            for method in methods
            for trial in method.trials
        }
        terms = {entry.name: entry for name in sorted(names) for entry in objective_terms(name)}
        return [entry for entry in terms.values() if not entry.origin.is_ours]

    def only(self, patterns: Sequence[str]) -> list[Method]:
        """The methods whose name or family matches a pattern (with `*` and `?`); () = all.

        Raises:
            StudyError: If a pattern matches no method.
        """
        kept: list[Method] = []
        for pattern in patterns or ("*",):
            fits = [m for m in self.methods if any(fnmatchcase(n, pattern) for n in (m.name, m.family))]
            if not fits:
                raise StudyError(f"no method is called '{pattern}'; there are {', '.join(self.families)}")
            kept += [method for method in fits if method not in kept]
        return [method for method in self.methods if method in kept]


def changed_defaults(then: Mapping[str, Any] | None, now: Mapping[str, Any]) -> list[str]:
    """Phrases like `hwc.alpha was 0.5 and is 0.0`, for settings in both `then` and `now`.

    New settings are ignored, since their defaults change nothing; `then` is None if it was not recorded.
    """
    if then is None:
        return []
    return [
        f"{key} was {then[key]} and is {now[key]}" for key in now if key in then and then[key] != now[key]
    ]


def _dot(settings: Mapping[str, Any], prefix: str = "") -> list[str]:
    keys: list[str] = []
    for key, value in settings.items():
        keys += _dot(value, f"{prefix}{key}.") if isinstance(value, dict) else [f"{prefix}{key}"]
    return keys


def _spell(key: str) -> str:
    """The canonical spelling of a setting, since objective names may be written with `-` or `_`."""
    return key.replace("-", "_")


def slug(name: str) -> str:
    """Convert a name to a folder name."""
    return "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")
