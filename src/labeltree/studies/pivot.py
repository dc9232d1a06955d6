"""Tables of a grid: a row a method, a column a point; one method along two axes is a map."""

from __future__ import annotations

from collections.abc import Sequence

from labeltree.studies.blocks import Block, Cell, Heading, Table, cell_of
from labeltree.studies.grid import Axis
from labeltree.studies.plan import Method, Study
from labeltree.studies.summary import Summary, metric_title

__all__ = ["at_point", "families", "is_map", "pivot_blocks"]


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


def is_map(study: Study) -> bool:
    """Whether one method alone varies along both of two axes, so that its own points are to be compared."""
    whole = {method.family for method in study.methods if len(method.point) == 2}
    return len(study.grid) == 2 and len(whole) == 1


def pivot_blocks(study: Study, summary: Summary, columns: Sequence[str]) -> list[Block]:
    """For every column a heading and its tables.

    At each point methods are compared with its best; in a map, all cells with the best of them.
    """
    blocks: list[Block] = []
    for column in columns:
        blocks.append(Heading(f"{column.split('/')[0].capitalize()}: {metric_title(column)}"))
        blocks += [_map(study, summary, column)] if is_map(study) else _tables(study, summary, column)
    return blocks


def _tables(study: Study, summary: Summary, column: str) -> list[Block]:
    """A table a point of all axes but the last."""
    outer, last = study.grid[:-1], study.grid[-1]
    beside = _beside(study, summary)
    blocks: list[Block] = []
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
        blocks.append(Table(_header(last), list(rows.values())))
    return blocks


def _map(study: Study, summary: Summary, column: str) -> Table:
    """A row a point of the first axis, for methods that vary along it; a column a point of the other."""
    first, last = study.grid
    entries = summary.entries(column, summary.methods)
    rows: list[list[Cell]] = []
    for family in families(study):
        varies = any(first.name in dict(m.point) for m in study.methods if m.family == family)
        for label in first.points if varies else list(first.points)[:1]:
            row = [Cell(f"{family}, {first.name} = {label}" if varies else family)]
            for other in last.points:
                method = at_point(study, family, {first.name: label, last.name: other})
                row.append(cell_of(entries.get(method.name) if method else None))
            rows.append(row)
    for name in _beside(study, summary):
        rows.append([Cell(name), *[cell_of(entries.get(name))] * len(last.points)])
    return Table(_header(last), rows)


def _header(axis: Axis) -> list[str]:
    return ["method", *(f"{axis.name} = {label}" for label in axis.points)]


def _beside(study: Study, summary: Summary) -> list[str]:
    """The baselines that were measured."""
    own = {method.name for method in study.methods}
    return [name for name in summary.methods if name not in own]


def _points(axes: Sequence[Axis]) -> list[dict[str, str]]:
    points: list[dict[str, str]] = [{}]
    for axis in axes:
        points = [{**point, axis.name: label} for point in points for label in axis.points]
    return points
