"""Read and check a study file: its methods, its grid, and a paper's numbers to compare with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from labeltree.errors import LabeltreeError
from labeltree.evaluation import EvaluationSettings
from labeltree.evaluation.protocol_registry import wanted_protocols
from labeltree.studies.score_names import check_score
from labeltree.studies.study_plan import Axis, Method, PaperTable, Point, Study, slug
from labeltree.studies.study_sections import StudyError, read_sections, shown
from labeltree.training.module import VALIDATION_METRICS
from labeltree.training.read_recipes import recipe_settings

__all__ = ["read_study"]

_TRANSFER = {"data", "data_path", "taxonomy", "limit", "train_limit", "test_limit", "val", "test", "calib"}
_MOST_POINTS = 10_000


def read_study(path: str | Path) -> Study:
    """Read a study file (YAML).

    Raises:
        StudyError: If a key is missing or unknown, or the methods do not have equally many trials.
    """
    content = read_sections(path)
    try:
        _check_evaluation(content.get("evaluation", {}))
        axes = tuple(_axes(content.pop("grid", None) or {}))
        methods = [
            method
            for name, entry in content.pop("methods").items()
            for method in _methods(str(name), entry or {}, axes, Path(path).parent)
        ]
        paper = tuple(_paper_tables(content.pop("paper", None) or [], [method.name for method in methods]))
        content["baselines"] = tuple(content.get("baselines", Study.baselines))
        content["columns"] = tuple(content.get("columns", ()))
        study = Study(methods=methods, grid=axes, paper=paper, **content)
        _check(study)
        study = _fill_score_names(study)
    except LabeltreeError as error:
        raise StudyError(f"study '{path}': {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise StudyError(f"study '{path}' is not understood: {error}") from error
    return study


def _methods(name: str, entry: dict[str, Any], axes: tuple[Axis, ...], folder: Path) -> list[Method]:
    """A method of the study file at every point of the axes along which it varies."""
    if unknown := set(entry) - {"recipe", "settings", "trials", "grid"}:
        raise ValueError(
            f"method '{name}' has '{min(unknown)}'; it may have recipe, settings, trials and grid"
        )
    settings = _read_recipe(folder / entry["recipe"]) if "recipe" in entry else {}
    settings |= entry.get("settings") or {}
    trials = list(entry.get("trials") or [{}])
    chosen = entry.get("grid", True)
    wanted = [axis.name for axis in axes] if chosen is True else list(chosen or ())
    if strange := set(wanted) - {axis.name for axis in axes}:
        raise ValueError(f"method '{name}' varies along '{min(strange)}', which is not an axis of the grid")
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
        for point, more in _points(own)
    ]


def _check_evaluation(settings: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(EvaluationSettings)]
    for key in settings:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"it may have {', '.join(known)}"
            raise ValueError(f"evaluation has '{key}', which is not a setting of an evaluation; {hint}")


def _read_recipe(path: Path) -> dict[str, Any]:
    """The settings of a recipe file, dotted."""
    flat: dict[str, Any] = {}
    for key, value in recipe_settings(path).items():
        flat |= {f"{key}.{name}": v for name, v in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def _check(study: Study) -> None:
    """Check the fields of a study against each other; raises ValueError."""
    settings = study.evaluation_settings
    for protocol in wanted_protocols(settings.protocols) if settings.protocols else []:
        protocol.choose(settings.options.get(protocol.name, {}))
    if unknown := set(study.baselines) - {"raw", "start"}:
        raise ValueError(f"baselines are raw and start; there is no '{min(unknown)}'")
    columns = [f"val_{prefix}{name}" for prefix in ("", "embeddings_") for name in VALIDATION_METRICS]
    if study.select and study.select not in columns:
        raise ValueError(f"select is '{study.select}'; it must be one of {', '.join(columns)}")
    if not study.methods or not study.seeds:
        raise ValueError("it needs one method and one seed or more")
    if len(set(study.seeds)) < len(study.seeds):
        raise ValueError(f"seeds are {study.seeds}; one occurs twice")
    if len({slug(method.name) for method in study.methods}) < len(study.methods):
        raise ValueError("two methods would share a folder; make their names more different")
    counts = {method.name: len(method.trials) for method in study.methods}
    if len(set(counts.values())) > 1:
        raise ValueError(f"methods must have equally many trials, got {counts}")
    if any("/" not in column for column in study.columns):
        raise ValueError(f"columns are role/metric, such as features/top1; got {', '.join(study.columns)}")
    if study.margins and study.grid:
        raise ValueError("margins compare methods, and a grid has many points of each; leave one out")
    for column, margin in study.margins.items():
        if not (isinstance(column, str) and "/" in column):
            raise ValueError(f"margins has '{column}'; columns are role/metric, such as features/top1")
        if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 < margin < math.inf:
            raise ValueError(f"the margin of {column} is {shown(margin)}; it must be a number above 0")
    if study.transfer and ("data" not in study.transfer or set(study.transfer) - _TRANSFER):
        raise ValueError(
            f"transfer has {sorted(study.transfer)}; it needs data, and may have {sorted(_TRANSFER)}"
        )


def _fill_score_names(study: Study) -> Study:
    """The study with the scores' names of its results; raises ValueError for one that no run can have."""

    def named(what: str, column: str) -> str:
        return check_score(what, column, study.evaluation_settings, study.transfer)

    return replace(
        study,
        columns=tuple(named("columns", column) for column in study.columns),
        margins={named("margins", column): margin for column, margin in study.margins.items()},
        paper=tuple(replace(table, column=named("paper", table.column)) for table in study.paper),
    )


def _axes(content: Mapping[str, Any]) -> list[Axis]:
    """The axes of a study file's `grid`.

    An axis has one of three forms: a list of values of the setting that the axis is named after;
    `{of: [settings], values: [...]}`, where each method uses the settings that apply to it; or
    `{points: {label: settings}}`.

    Raises:
        ValueError: If an axis has none of these forms, or fewer than two different points.
    """
    return [_axis(str(name), entry) for name, entry in content.items()]


def _axis(name: str, entry: Any) -> Axis:
    if isinstance(entry, Sequence) and not isinstance(entry, str):
        entry = {"of": [name], "values": entry}
    if not isinstance(entry, Mapping):
        raise ValueError(f"axis '{name}' of the grid is {entry!r}; give a list of values")
    if set(entry) == {"points"}:
        if not isinstance(entry["points"], Mapping) or not all(map(_is_named, entry["points"].values())):
            raise ValueError(f"the points of axis '{name}' must be settings by name, under a label each")
        points = {str(label): dict(settings) for label, settings in entry["points"].items()}
    elif set(entry) == {"of", "values"}:
        if not all(isinstance(entry[key], list) for key in entry) or not all(map(_is_text, entry["of"])):
            raise ValueError(f"axis '{name}' of the grid must have a list of settings and a list of values")
        points = {_label_of(value): dict.fromkeys(entry["of"], value) for value in entry["values"]}
        if len(points) < len(entry["values"]):
            raise ValueError(f"axis '{name}' of the grid has a value twice: {entry['values']}")
    else:
        raise ValueError(
            f"axis '{name}' of the grid has {', '.join(map(str, entry))}; it must have of and values, "
            "or points"
        )
    if len(points) < 2:
        raise ValueError(f"axis '{name}' of the grid has {len(points)} points; it needs two or more")
    return Axis(name, points)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_named(settings: Any) -> bool:
    return isinstance(settings, Mapping) and all(map(_is_text, settings))


def _label_of(value: Any) -> str:
    """Format a value for tables."""
    if isinstance(value, float) and value == float("inf"):
        return "inf"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _points(axes: Sequence[Axis]) -> Iterator[tuple[Point, dict[str, Any]]]:
    """Every point of the grid with its settings; the last axis varies fastest."""
    for chosen in product(*(axis.points.items() for axis in axes)):
        point = tuple((axis.name, label) for axis, (label, _) in zip(axes, chosen, strict=True))
        settings: dict[str, Any] = {}
        for _, some in chosen:
            settings |= some
        yield point, settings


def _paper_tables(content: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> list[PaperTable]:
    """The `paper` section of a study file.

    Raises:
        ValueError: If an entry has missing or unknown keys, or a row is not a method of the study or not a
            number.
    """
    tables = []
    for number, entry in enumerate(content, start=1):
        kinds = entry if isinstance(entry, Mapping) else {}
        texts = [kinds.get(name) for name in ("source", "data", "column")]
        known = set(kinds) <= {"source", "data", "column", "rows", "lower"}
        if not (
            known and all(isinstance(text, str) for text in texts) and isinstance(kinds.get("rows"), dict)
        ):
            raise ValueError(
                f"table {number} of paper must have source, data and column, which are text, and rows, a "
                "number for each method; lower says whether less is better"
            )
        table = PaperTable(**kinds)
        for name, value in table.rows.items():
            if name not in methods:
                raise ValueError(
                    f"paper '{table.source}' has a row '{name}', which is not a method of the study"
                )
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"paper '{table.source}' has {value!r} for '{name}'; it must be a number")
        tables.append(table)
    return tables
