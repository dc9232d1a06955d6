"""Grids: values of settings that every method is run with, as points of a curve or cells of a map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

__all__ = ["Axis", "Point", "grid_points", "read_axes"]

Point = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Axis:
    """One axis of a grid.

    Attributes:
        name: as figures and tables show it.
        points: label → the settings that a method has at this point.
    """

    name: str
    points: dict[str, dict[str, Any]]


def read_axes(content: Mapping[str, Any]) -> list[Axis]:
    """The axes of a study file's ``grid``.

    An axis is a list of values of the setting that it is named after; ``{of: [settings], values: [...]}``,
    where each method reads those of the settings that are its own; or ``{points: {label: settings}}``.

    Raises:
        ValueError: if an axis is none of these, or has no two different points.
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
        points = {label_of(value): dict.fromkeys(entry["of"], value) for value in entry["values"]}
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


def label_of(value: Any) -> str:
    """A value as tables show it."""
    if isinstance(value, float) and value == float("inf"):
        return "inf"
    return f"{value:g}" if isinstance(value, float) else str(value)


def grid_points(axes: Sequence[Axis]) -> Iterator[tuple[Point, dict[str, Any]]]:
    """Every point of the grid, with its settings; the last axis moves fastest."""
    for chosen in product(*(axis.points.items() for axis in axes)):
        point = tuple((axis.name, label) for axis, (label, _) in zip(axes, chosen, strict=True))
        settings: dict[str, Any] = {}
        for _, some in chosen:
            settings |= some
        yield point, settings
