"""A user's own costs: a table of answers and truths."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import torch
from torch import Tensor

from labeltree.decisions.class_nodes import ClassNodes
from labeltree.errors import DataError, TaxonomyError
from labeltree.safe_files import Reader, read_text
from labeltree.taxonomy.naming import some

__all__ = ["read_costs"]

_COSTS = Reader(
    "a table of costs", "write a first row of truths, then a row for each answer: its name and what it costs"
)


def read_costs(path: str | Path, classes: ClassNodes) -> Tensor:
    """Read what answers cost from a CSV file: (N, C) float64, infinite where a node is no answer.

    The first row names the truths, the first column the answers, by name or by path (`/` is the root); an
    answer without a row is never given.

    Raises:
        DataError: if the file cannot be read, a number is missing, negative or none, or a class has no
            column.
        TaxonomyError: if a name is not in the taxonomy.
    """
    path, taxonomy = Path(path), classes.taxonomy
    with _COSTS.reading(path, "it is no table (.csv)"):
        lines = io.StringIO(read_text(path, _COSTS), newline="")
        rows = [row for row in csv.reader(lines) if any(cell.strip() for cell in row)]
    if len(rows) < 2 or len(rows[0]) < 2:
        raise DataError(f"'{path}' is no table of costs: a first row of truths, then a row for each answer")
    try:
        truths = taxonomy.encode(rows[0][1:]).tolist()
        answers = taxonomy.encode([row[0] for row in rows[1:]]).tolist()
    except TaxonomyError as error:
        raise TaxonomyError(f"'{path}': {error}") from error
    for what, nodes in (("a column", truths), ("a row", answers)):
        if min(nodes) < 0 or len(set(nodes)) < len(nodes):
            raise DataError(f"'{path}' has {what} without a name, or two of the same node")
    column = {node: place for place, node in enumerate(truths, start=1)}
    missing = [taxonomy.path_name(node) for node in classes.nodes.tolist() if node not in column]
    if missing:
        raise DataError(f"'{path}' has no column for {len(missing)} of the classes: {some(missing)}")
    table = torch.full((taxonomy.num_nodes, len(classes)), math.inf, dtype=torch.float64)
    for number, (answer, row) in enumerate(zip(answers, rows[1:], strict=True), start=2):
        for place, node in enumerate(classes.nodes.tolist()):
            table[answer, place] = _number(path, number, row, column[node])
    return table


def _number(path: Path, line: int, row: list[str], column: int) -> float:
    text = row[column].strip() if column < len(row) else ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise DataError(
            f"'{path}', row {line}, column {column + 1}: the cost is '{text}', not a number of at least 0"
        )
    return value
