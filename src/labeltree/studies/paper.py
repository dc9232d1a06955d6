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
        ValueError: if an entry has too few or unknown keys, or a row is none of the study's methods, or no
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
                    f"paper '{table.source}' has a row '{name}', which is no method of the study"
                )
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"paper '{table.source}' has {value!r} for '{name}'; it must be a number")
        tables.append(table)
    return tables
