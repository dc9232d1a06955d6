"""The settings of each method, and of the points of a grid, for the page of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labeltree.report.pages.document import Block, Cell, Fold, Table, Text
from labeltree.studies.study_plan import Axis, Method, Study
from labeltree.training.recipe import Recipe
from labeltree.training.registry import AUTO_OBJECTIVE

__all__ = ["listed", "settings_blocks"]


def settings_blocks(
    study: Study, results: Sequence[Mapping[str, Any]], choices: Mapping[str, Any]
) -> list[Block]:
    """A table of the methods' settings, and sentences about the axes of the grid.

    Args:
        study: Plan of the study.
        results: The rows of the results; `objective` is there if the samples chose it.
        choices: For each method with trials, these and the index of the chosen one.
    """
    rows = []
    for family in study.families:
        methods = [method for method in study.methods if method.family == family]
        settings = _common(methods, choices)
        names = {method.name for method in methods}
        chosen = {str(row["objective"]) for row in results if row["method"] in names and "objective" in row}
        if str({**study.shared, **settings}.get("objective", Recipe.objective)) == AUTO_OBJECTIVE and chosen:
            settings["objective"] = f"{AUTO_OBJECTIVE} → {', '.join(sorted(chosen))}"
        rows.append([Cell(family), Cell(listed(settings) or "the shared settings alone")])
    blocks: list[Block] = [
        Text("In addition to the shared settings; what is not named has its default:"),
        Fold("Settings of the methods", [Table(["method", "settings"], rows, words=True)]),
    ]
    return [*blocks, *(Text(_along(axis)) for axis in study.grid)]


def listed(settings: Mapping[str, Any]) -> str:
    """Settings as code, separated by commas."""
    return ", ".join(f"`{key}={value}`" for key, value in settings.items())


def _common(methods: Sequence[Method], choices: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the methods have in common, with those of the only trial or the chosen one."""
    every = []
    for method in methods:
        trial = method.trials[0] if len(method.trials) == 1 else {}
        if (choice := choices.get(method.name)) is not None:
            trial = choice["trials"][choice["chosen"]]["settings"]
        every.append({**method.settings, **trial})
    return {key: value for key, value in every[0].items() if all(one.get(key) == value for one in every)}


def _along(axis: Axis) -> str:
    """What the points of an axis set."""
    points = list(axis.points.items())
    same = all(list(settings) == list(points[0][1]) for _, settings in points)
    if same and all(len({str(value) for value in settings.values()}) == 1 for _, settings in points):
        values = ", ".join(str(next(iter(settings.values()))) for _, settings in points)
        names = " and ".join(f"`{name}`" for name in points[0][1])
        return f"Along {axis.name}, the values of {names}, where a method has that setting, are {values}."
    said = "; ".join(f"{label}: {listed(settings) or 'nothing'}" for label, settings in points)
    return f"Along {axis.name}, the points set {said}."
