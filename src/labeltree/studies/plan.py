"""A study as its file describes it: methods, a grid, trials, seeds, and what they share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from labeltree.errors import LabeltreeError
from labeltree.evaluation import EvaluationSettings
from labeltree.evaluation.registry import wanted_protocols
from labeltree.safe_files import Reader, read_yaml
from labeltree.studies.grid import Axis, Point, grid_points, read_axes
from labeltree.studies.paper import PaperTable, read_paper
from labeltree.training.module import VALIDATION_METRICS
from labeltree.training.reading import RecipeParser, recipe_settings
from labeltree.training.recipe import Recipe
from labeltree.training.registry import list_objectives, objective_terms

__all__ = ["Method", "Study", "StudyError", "changed_defaults", "read_study", "slug"]

_TRANSFER = {"data", "data_path", "taxonomy", "limit", "train_limit", "test_limit", "val", "test"}


class StudyError(LabeltreeError, ValueError):
    """A study file is not understood."""


_STUDY = Reader("a study", "docs/studies.md has an example", StudyError)
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "title": ((str,), "text"),
    "shared": ((dict,), "settings by name"),
    "methods": ((dict,), "methods by name"),
    "seeds": ((list,), "a list of whole numbers"),
    "trial_seed": ((int,), "a whole number"),
    "select": ((str,), "a column of the history"),
    "evaluation": ((dict,), "settings by name"),
    "baselines": ((list,), "a list"),
    "grid": ((dict, type(None)), "axes by name"),
    "columns": ((list,), "a list such as [features/top1]"),
    "transfer": ((dict,), "settings by name"),
    "claim": ((str,), "text"),
    "paper": ((list, type(None)), "a list of tables"),
}
_MOST_POINTS = 10_000


@dataclass(frozen=True)
class Method:
    """One row of a study's table.

    Attributes:
        name: as the table shows it.
        settings: what this method changes in the shared recipe; keys may be dotted (``hwc.alpha``). In the
            file they may come from a ``recipe``, a path from the study's folder, and be changed further.
        trials: further settings, one dictionary a trial; the best on validation is used for all seeds.
        family: the method of the file that this is a point of; without a grid, its name.
        point: where in the grid: (axis, label) pairs; empty where the method is in none.
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
        title: of the table.
        shared: the settings that all runs have in common.
        methods: the rows, each point of the grid one of them.
        seeds: of the runs that are reported.
        trial_seed: of the trials. Where it is one of the seeds, the chosen trial is that seed's run.
        select: the validation metric, a column of the history, that chooses a method's trial.
        evaluation: fields of `EvaluationSettings` that differ from their defaults.
        baselines: what stands beside the methods: ``raw`` samples, the encoder at the ``start`` of training.
        grid: the axes that methods vary along.
        columns: the scores that figures and the tables of a grid show, as ``role/metric``; without a grid,
            those of a table before the others.
        transfer: another data set that every encoder is measured on as well, frozen: ``data`` and what of
            the recipe says which of its samples are taken.
        claim: what is tested, in a sentence, with its source.
        paper: figures of a paper that stand beside ours.
    """

    title: str
    shared: dict[str, Any]
    methods: list[Method]
    seeds: list[int]
    trial_seed: int
    select: str
    evaluation: dict[str, Any] = field(default_factory=dict)
    baselines: tuple[str, ...] = ("raw", "start")
    grid: tuple[Axis, ...] = ()
    columns: tuple[str, ...] = ()
    transfer: dict[str, Any] = field(default_factory=dict)
    claim: str = ""
    paper: tuple[PaperTable, ...] = ()

    @property
    def evaluation_settings(self) -> EvaluationSettings:
        """How every method is measured."""
        return EvaluationSettings(**self.evaluation)

    def settings(self, method: Method, trial: dict[str, Any], seed: int) -> dict[str, Any]:
        """The settings of one run, dotted, without options of objectives that this method does not use."""
        settings = {**self.shared, **method.settings, **trial, "seed": seed}
        objective = str(settings.get("objective", Recipe.objective))
        unused = {entry.name for entry in list_objectives()} - {e.name for e in objective_terms(objective)}
        return {key: value for key, value in settings.items() if key.split(".")[0] not in unused}

    def recipe(self, method: Method, trial: dict[str, Any], seed: int) -> Recipe:
        """The recipe of one run."""
        settings = self.settings(method, trial, seed)
        objective = str(settings.get("objective", Recipe.objective))
        return _parser(objective).recipe(settings=_nested(settings))

    def digest(self, method: Method, trial: dict[str, Any], seed: int, *, measured: bool = True) -> str:
        """Names all that a run depends on and, where it is measured, how; stored results are found by it."""
        content: list[Any] = [self.settings(method, trial, seed)]
        if measured:
            content += [self.evaluation, self.transfer]
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def defaults(
        self, method: Method, trial: dict[str, Any], seed: int, *, measured: bool = True
    ) -> dict[str, Any]:
        """What a run depends on beside its digest: the defaults that stand for what the study leaves out.

        Settings of recipes are dotted; those of the evaluation begin with ``evaluation.``. What `auto` stands
        for is not among them.
        """
        given = {_written(key) for key in _dotted(self.settings(method, trial, seed))}
        found = self.recipe(method, trial, seed).computed_by()
        if measured:
            found |= {f"evaluation.{k}": v for k, v in asdict(self.evaluation_settings).items()}
            given |= {f"evaluation.{key}" for key in self.evaluation}
        left = {key: value for key, value in found.items() if _written(key) not in given}
        plain: dict[str, Any] = json.loads(json.dumps(left, default=str))
        return plain

    def run_name(self, method: Method, suffix: str) -> str:
        """The folder name of one of a method's runs."""
        return f"{slug(method.name)}-{suffix}"

    def only(self, patterns: Sequence[str]) -> list[Method]:
        """The methods whose name or family is one of these, ``*`` and ``?`` standing for anything; () = all.

        Raises:
            StudyError: if a pattern fits none.
        """
        found: list[Method] = []
        for pattern in patterns or ("*",):
            fits = [m for m in self.methods if any(fnmatchcase(n, pattern) for n in (m.name, m.family))]
            if not fits:
                families = dict.fromkeys(method.family for method in self.methods)
                raise StudyError(f"no method is called '{pattern}'; there are {', '.join(families)}")
            found += [method for method in fits if method not in found]
        return [method for method in self.methods if method in found]


def changed_defaults(then: Mapping[str, Any] | None, now: Mapping[str, Any]) -> list[str]:
    """Sentences like ``hwc.alpha was 0.5 and is 0.0``, of the settings that both have.

    A setting that there was not has a default that changes nothing; ``then`` is None where it was not kept.
    """
    if then is None:
        return []
    return [
        f"{key} was {then[key]} and is {now[key]}" for key in now if key in then and then[key] != now[key]
    ]


def _dotted(settings: Mapping[str, Any], prefix: str = "") -> list[str]:
    found: list[str] = []
    for key, value in settings.items():
        found += _dotted(value, f"{prefix}{key}.") if isinstance(value, dict) else [f"{prefix}{key}"]
    return found


def _written(key: str) -> str:
    """A setting in one spelling: names of objectives are written with ``-`` or ``_``."""
    return key.replace("-", "_")


@cache
def _parser(objective: str) -> RecipeParser:
    """Building one takes longer than reading many recipes with it."""
    return RecipeParser(objective)


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
            if not isinstance(place, dict):
                raise ValueError(f"'{key}' is set beside '{parent}' itself; leave out one of them")
        place[last] = value
    return nested


def read_study(path: str | Path) -> Study:
    """Read a study file (YAML).

    Raises:
        StudyError: if a key is missing or unknown, or the methods do not have equally many trials.
    """
    content = read_yaml(path, _STUDY)
    try:
        _check_kinds(content)
        axes = tuple(read_axes(content.pop("grid", None) or {}))
        methods = [
            method
            for name, entry in content.pop("methods").items()
            for method in _methods(str(name), entry or {}, axes, Path(path).parent)
        ]
        paper = tuple(read_paper(content.pop("paper", None) or [], [method.name for method in methods]))
        content["baselines"] = tuple(content.get("baselines", Study.baselines))
        content["columns"] = tuple(content.get("columns", ()))
        study = Study(methods=methods, grid=axes, paper=paper, **content)
        _check(study)
    except LabeltreeError as error:
        raise StudyError(f"study '{path}': {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise StudyError(f"study '{path}' is not understood: {error}") from error
    return study


def _methods(name: str, entry: dict[str, Any], axes: tuple[Axis, ...], folder: Path) -> list[Method]:
    """One method of the file, at every point of the axes that it varies along."""
    if unknown := set(entry) - {"recipe", "settings", "trials", "grid"}:
        raise ValueError(
            f"method '{name}' has '{min(unknown)}'; it may have recipe, settings, trials and grid"
        )
    settings = _of_recipe(folder / entry["recipe"]) if "recipe" in entry else {}
    settings |= entry.get("settings") or {}
    trials = list(entry.get("trials") or [{}])
    chosen = entry.get("grid", True)
    wanted = [axis.name for axis in axes] if chosen is True else list(chosen or ())
    if strange := set(wanted) - {axis.name for axis in axes}:
        raise ValueError(f"method '{name}' varies along '{min(strange)}', which is no axis of the grid")
    own = [axis for axis in axes if axis.name in wanted]
    if (points := prod(len(axis.points) for axis in own)) > _MOST_POINTS:
        raise ValueError(f"the grid of method '{name}' has {points:,} points; {_MOST_POINTS:,} are the most")
    if not own:
        return [Method(name, settings, trials, family=name)]
    return [
        Method(
            ", ".join([name, *(f"{axis} = {label}" for axis, label in point)]),
            {**settings, **more},
            trials,
            family=name,
            point=point,
        )
        for point, more in grid_points(own)
    ]


def _check_kinds(content: Mapping[str, Any]) -> None:
    """Every section is of the kind that it must be; raises ValueError."""
    for name, value in content.items():
        if name not in _KINDS:
            near = get_close_matches(name, _KINDS, 1)
            raise ValueError(f"it has '{name}'; " + (f"did you mean '{near[0]}'?" if near else _sections()))
        kinds, words = _KINDS[name]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise ValueError(f"{name} is {_shown(value)}; it must be {words}")
    if missing := [field.name for field in fields(Study) if _needed(field) and field.name not in content]:
        raise ValueError(f"it has no '{missing[0]}', which must be {_KINDS[missing[0]][1]}")
    known = [field.name for field in fields(EvaluationSettings)]
    for key in content.get("evaluation", {}):
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"it may have {', '.join(known)}"
            raise ValueError(f"evaluation has '{key}', which is no setting of an evaluation; {hint}")
    for name, entry in content["methods"].items():
        _check_method(str(name), entry)
    for name in ("baselines", "columns"):
        if not all(isinstance(item, str) for item in content.get(name, ())):
            raise ValueError(f"{name} is {_shown(content[name])}; it must be a list of texts")
    for seed in [*content["seeds"], content["trial_seed"]]:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
            raise ValueError(f"a seed is {_shown(seed)}; seeds are whole numbers from 0 to 2^32 - 1")
    _check_names("shared", content["shared"])


def _check_method(name: str, entry: Any) -> None:
    if entry is not None and not isinstance(entry, dict):
        raise ValueError(f"method '{name}' is {_shown(entry)}; it must be recipe, settings, trials and grid")
    entry = entry or {}
    if not isinstance(entry.get("recipe", ""), str):
        raise ValueError(f"method '{name}' has the recipe {_shown(entry['recipe'])}; it must be a path")
    trials = entry.get("trials")
    if not isinstance(trials, list | None):
        raise ValueError(f"method '{name}' has the trials {_shown(trials)}; they must be a list of settings")
    for settings in [entry.get("settings"), *(trials or [])]:
        _check_names(f"a part of method '{name}'", {} if settings is None else settings)
    if not isinstance(entry.get("grid"), list | bool | None):
        raise ValueError(f"method '{name}' has the grid {_shown(entry['grid'])}; it must be a list of axes")


def _check_names(what: str, settings: Any) -> None:
    if not isinstance(settings, dict) or not all(isinstance(name, str) for name in settings):
        raise ValueError(f"{what} is {_shown(settings)}; it must be settings by name")


def _needed(entry: Field[Any]) -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING


def _sections() -> str:
    return f"it may have {', '.join(_KINDS)}"


def _shown(value: Any) -> str:
    """A value as an error quotes it."""
    text = repr(value)
    return "empty" if value is None else text if len(text) <= 60 else f"{text[:60]}…"


def _of_recipe(path: Path) -> dict[str, Any]:
    """The settings of a recipe file, dotted."""
    flat: dict[str, Any] = {}
    for key, value in recipe_settings(path).items():
        flat |= {f"{key}.{name}": v for name, v in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def _check(study: Study) -> None:
    """What the fields of a study must be to each other; raises ValueError."""
    settings = study.evaluation_settings
    for protocol in wanted_protocols(settings.protocols) if settings.protocols else []:
        protocol.choose(settings.options.get(protocol.name, {}))
    if unknown := set(study.baselines) - {"raw", "start"}:
        raise ValueError(f"baselines are raw and start; there is no '{min(unknown)}'")
    columns = [f"val_{prefix}{name}" for prefix in ("", "embeddings_") for name in VALIDATION_METRICS]
    if study.select not in columns:
        raise ValueError(f"select is '{study.select}'; it must be one of {', '.join(columns)}")
    if not study.methods or not study.seeds:
        raise ValueError("it needs one method and one seed or more")
    if len(set(study.seeds)) < len(study.seeds):
        raise ValueError(f"seeds are {study.seeds}; one stands there twice")
    if len({slug(method.name) for method in study.methods}) < len(study.methods):
        raise ValueError("two methods would share a folder; tell their names further apart")
    counts = {method.name: len(method.trials) for method in study.methods}
    if len(set(counts.values())) > 1:
        raise ValueError(f"methods must have equally many trials, got {counts}")
    if any("/" not in column for column in study.columns):
        raise ValueError(f"columns are role/metric, such as features/top1; got {', '.join(study.columns)}")
    if study.transfer and ("data" not in study.transfer or set(study.transfer) - _TRANSFER):
        raise ValueError(
            f"transfer has {sorted(study.transfer)}; it needs data, and may have {sorted(_TRANSFER)}"
        )
