"""Tables of a grid: a row a method, a column a point; of two axes, a table a method."""

from __future__ import annotations

from collections.abc import Sequence

from labeltree.studies.blocks import Block, Cell, Heading, Table, cell_of
from labeltree.studies.plan import Method, Study
from labeltree.studies.summary import Summary, metric_title

__all__ = ["at_point", "families", "pivot_blocks"]


def families(study: Study) -> list[str]:
    """The methods of the file, in order."""
    return list(dict.fromkeys(method.family for method in study.methods))


def at_point(study: Study, family: str, point: dict[str, str]) -> Method | None:
    """A method of the family at this point; one that does not vary along an axis is the same all along it."""
    for method in study.methods:
        own = dict(method.point)
        if method.family == family and all(own[axis] == point.get(axis) for axis in own):
            return method
    return None


def pivot_blocks(study: Study, summary: Summary, columns: Sequence[str]) -> list[Block]:
    """For every column a heading and its tables; at each point, methods are compared with its best."""
    outer, last = study.grid[:-1], study.grid[-1]
    beside = [name for name in summary.methods if name not in {method.name for method in study.methods}]
    blocks: list[Block] = []
    for column in columns:
        blocks.append(Heading(f"{column.split('/')[0].capitalize()}: {metric_title(column)}"))
        for before in _points(outer):
            rows: dict[str, list[Cell]] = {name: [Cell(name)] for name in [*families(study), *beside]}
            for label in last.points:
                point = {**before, last.name: label}
                names = {family: at_point(study, family, point) for family in families(study)}
                here = {family: method.name for family, method in names.items() if method}
                entries = summary.entries(column, [*here.values(), *beside])
                for name, row in rows.items():
                    row.append(cell_of(entries.get(here.get(name, name))))
            if before:
                blocks.append(Heading(", ".join(f"{axis} = {label}" for axis, label in before.items()), 3))
            header = ["method", *(f"{last.name} = {label}" for label in last.points)]
            blocks.append(Table(header, list(rows.values())))
    return blocks


def _points(axes: Sequence) -> list[dict[str, str]]:  # type: ignore[type-arg]
    points: list[dict[str, str]] = [{}]
    for axis in axes:
        points = [{**point, axis.name: label} for point in points for label in axis.points]
    return points
