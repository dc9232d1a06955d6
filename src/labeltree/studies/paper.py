"""Figures of a paper that a study's table is modelled on, to stand beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["PaperTable", "read_paper"]


@dataclass(frozen=True)
class PaperTable:
    """One column of a paper's table.

    Attributes:
        source: paper, table and measure, as a heading.
        data: on which data, at which scale, the paper has these figures.
        column: our score that comes nearest, as ``role/metric``.
        rows: our method → the paper's figure, as printed there.
        lower: whether less is better.
    """

    source: str
    data: str
    column: str
    rows: dict[str, float]
    lower: bool = False


def read_paper(content: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> list[PaperTable]:
    """The ``paper`` section of a study file.

    Raises:
        ValueError: if a row is none of the study's methods, or no number.
        TypeError: if an entry has too few or unknown keys.
    """
    tables = []
    for entry in content:
        table = PaperTable(**entry)
        for name, value in table.rows.items():
            if name not in methods:
                raise ValueError(
                    f"paper '{table.source}' has a row '{name}', which is no method of the study"
                )
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"paper '{table.source}' has {value!r} for '{name}'; it must be a number")
        tables.append(table)
    return tables
