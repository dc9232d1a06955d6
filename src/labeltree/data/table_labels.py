"""The labels of a table: find their columns, build their taxonomy, and the taxonomies of aspects."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data.images.decode import EXTENSIONS
from labeltree.data.table_columns import Cells, DataTable
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import some, split_path
from labeltree.taxonomy.placeholders import PLACEHOLDERS, REMAINDERS, MissingNames, plain_name

__all__ = ["LabelColumns", "TableAspects", "cut_label", "find_label_columns", "label_nodes", "table_aspects"]

Array = np.ndarray[Any, Any]
_USUAL = ("label", "class", "category", "node", "cls")
_PER_DEPTH = re.compile(r"(?:depth|label|level)[ _-]?(\d+)", re.IGNORECASE)
_MEASURED = re.compile(r"[-+]?\d[\d.,:/ eETZ%+-]*")  # numbers, dates, times
_FLAGS = {"yes", "no", "true", "false", "y", "n", "t", "f"}
# Columns with one of these words in their name give the origin of a sample, not its class.
_ORIGIN = re.compile(
    "id|ids|uid|uuid|guid|key|index|number|patient|subject|person|lesion|user|author|customer|session|visit|"
    "encounter|slide|scan|study|series|camera|photographer|device|site|hospital|cent(re|er)|source|url|link|"
    "file|filename|path|date|time|year|month|day|sku|ean|barcode|lot|batch|fold|split|set|subset|partition|"
    "sex|gender|age|group"
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W_a-zA-Z]+")
_LONG = 60  # characters; longer cells are texts
_NEARLY = 0.9
_WHOLE = re.compile(r"[0-9]{1,9}(\.0+)?")  # tables with empty cells are often written with 4.0 for 4


@dataclass(frozen=True)
class LabelColumns:
    """The columns of the labels, coarse to fine, and sentences about possible alternatives."""

    columns: list[str]
    notes: tuple[str, ...] = ()


def find_label_columns(
    table: DataTable,
    chosen: Sequence[str] | str | None,
    taken: Collection[str] = (),
    groups: Collection[str] = (),
    nest: bool = True,
) -> LabelColumns:
    """Find the columns of the labels: the chosen ones, or columns with a usual name.

    Numbered columns (``depth1``, ``depth2``) form a label together. Otherwise the label is the first column
    with a usual name, and the columns that nest with it are further depths: each value of the finer column
    occurs with one value of the coarser one. Numbers, dates, yes/no values, long texts, values that hardly
    ever repeat, columns named after an origin (``patient_id``), and columns finer than a column ``label`` are
    not labels unless they are chosen.

    Args:
        table: The table.
        chosen: Columns chosen by the user, coarse to fine; None = find them.
        taken: Columns with another purpose.
        groups: Columns in ``taken`` that hold groups; they may also be labels, if chosen.
        nest: Whether to look for columns that nest with the one that has the usual name.

    Raises:
        DataError: If there is no label column.
    """
    if isinstance(chosen, str):
        chosen = [chosen]
    if chosen is not None:
        if not chosen:
            raise DataError("label_columns is empty; it must name one column, or one per depth")
        return LabelColumns([table.find(column) for column in chosen])
    numbered = {
        int(match[1]): column
        for column in table.columns
        if (match := _PER_DEPTH.fullmatch(column)) is not None and column not in taken
    }
    if numbered:
        return LabelColumns([numbered[depth] for depth in sorted(numbered)])
    base = table.usual(_USUAL)
    if base is None:
        raise _no_label(table, taken)
    return _nested(table, base, taken, groups) if nest else LabelColumns([base])


class _Column:
    """A column as a candidate for labels."""

    def __init__(self, name: str, cells: Cells) -> None:
        self.name = name
        self.texts = cells.texts
        self.codes = cells.codes
        plain = [plain_name(text) for text in cells.texts]
        vague = np.array([text in PLACEHOLDERS or text in REMAINDERS for text in plain] + [True])
        self.known = ~vague[cells.codes]
        """Rows whose name can have a single parent, unlike ``other``, which may occur below every parent."""

    @cached_property
    def is_label(self) -> bool:
        """Whether the values of the column may be classes."""
        texts = self.texts
        counts = np.bincount(self.codes[self.codes >= 0], minlength=1)
        return (
            len(texts) > 1
            and 2 * counts[counts > 1].sum() >= counts.sum()
            and not all(_MEASURED.fullmatch(text) for text in texts)
            and not {text.lower() for text in texts} <= _FLAGS
            and sum(map(len, texts)) <= _LONG * len(texts)
            and not any(Path(text).suffix.lower() in EXTENSIONS for text in texts[:20])
        )

    @property
    def is_origin(self) -> bool:
        """Whether the name of the column stands for the origin of a sample."""
        return any(_ORIGIN.fullmatch(word.lower()) for word in _WORD.findall(self.name))


def _strays(finer: _Column, coarser: _Column) -> tuple[int, list[str]]:
    """Number of finer values in rows where both have a value, and the ones with several coarser values."""
    rows = finer.known & coarser.known
    pairs = np.unique(np.stack([finer.codes[rows], coarser.codes[rows]]), axis=1)
    values, counts = np.unique(pairs[0], return_counts=True)
    return len(values), [finer.texts[code] for code in values[counts > 1].tolist()]


def _lies_in(finer: _Column, coarser: _Column) -> bool:
    """Whether each finer value occurs with one of the fewer coarser values, without gaps."""
    values, strays = _strays(finer, coarser)
    rows = finer.known & coarser.known
    fewer = len(np.unique(coarser.codes[rows]))
    gaps = (finer.codes >= 0) & (coarser.codes < 0)
    return not strays and 1 < fewer < values < rows.sum() and not gaps.any()


def _candidates(table: DataTable, taken: Collection[str]) -> list[_Column]:
    found = []
    for name in table.columns:
        if name in taken:
            continue
        try:
            found.append(_Column(name, table.cells(name)))
        except DataError:  # lists and bytes are not labels
            continue
    return found


def _nested(
    table: DataTable, base_name: str, taken: Collection[str], groups: Collection[str]
) -> LabelColumns:
    columns = _candidates(table, {*taken} - {base_name})
    base = next((column for column in columns if column.name == base_name), None)
    if base is None:  # unreadable: the error is raised when its labels are read
        return LabelColumns([base_name])
    able = [column for column in columns if column is not base and column.is_label and not column.is_origin]
    coarser = [column for column in able if _lies_in(base, column)]
    finer = [column for column in able if _lies_in(column, base)]
    may_be_finer = [] if base_name.lower() == "label" else finer
    chain = [*_longest(coarser), base, *_longest(may_be_finer)]
    names = [column.name for column in chain]
    notes = []
    if len(chain) > 1:
        notes.append(
            f"the columns {' > '.join(names)} nest: each value of one lies in one value of the column before "
            f"it, so they are the depths of the labels; for others, set {_setting([base_name])}"
        )
    left = [column for column in [*coarser, *finer] if column not in chain]
    for column in left:
        other = [*_longest([c for c in coarser if c is column or _lies_in(c, column) or _lies_in(column, c)])]
        other += [
            base,
            *_longest([c for c in finer if c is column or _lies_in(c, column) or _lies_in(column, c)]),
        ]
        notes.append(
            f"the column '{column.name}' nests with '{base_name}', too, but was not taken; to take it, set "
            f"{_setting([c.name for c in other])}"
        )
    for column in _candidates(table, set(table.columns) - set(groups)):
        if _lies_in(column, chain[-1]) and not column.is_origin:
            notes.append(
                f"each value of '{column.name}', the column of groups, has one label; if its values are "
                f"classes, too, set {_setting([*names, column.name])}"
            )
    notes += _nearly_nested(base, [c for c in able if c not in coarser and c not in finer])
    notes += _like_groups(base, columns)
    return LabelColumns(names, tuple(notes))


def _longest(columns: list[_Column]) -> list[_Column]:
    """The longest chain of nested columns, coarse to fine; ties go to the one with the most values."""
    best: dict[str, list[_Column]] = {}
    ordered = sorted(columns, key=lambda column: len(column.texts))
    for column in ordered:
        above = [best[c.name] for c in ordered if c.name in best and _lies_in(column, c)]
        best[column.name] = [*max(above, key=_size, default=[]), column]
    return max(best.values(), key=_size, default=[])


def _size(chain: list[_Column]) -> tuple[int, int]:
    return len(chain), sum(len(column.texts) for column in chain)


def _nearly_nested(base: _Column, columns: list[_Column]) -> list[str]:
    """Notes on columns that would nest except for a few values or empty cells."""
    notes = []
    for column in columns:
        for finer, coarser in ((base, column), (column, base)):
            values, strays = _strays(finer, coarser)
            fewer = len(np.unique(coarser.codes[finer.known & coarser.known]))
            if not 1 < fewer < values or len(strays) > (1 - _NEARLY) * values:
                continue
            gaps = int(((finer.codes >= 0) & (coarser.codes < 0)).sum())
            why = (
                f"{some(strays, 3)} lie{'s' * (len(strays) == 1)} in several of its values" if strays else ""
            )
            if gaps:
                why = f"'{coarser.name}' is empty in {gaps:,} rows where '{finer.name}' is not"
            if why:
                notes.append(
                    f"the column '{column.name}' was not taken as labels: '{finer.name}' nearly nests in "
                    f"'{coarser.name}', but {why}; to take it, set {_setting([coarser.name, finer.name])}"
                )
    return notes


def _like_groups(base: _Column, columns: list[_Column]) -> list[str]:
    """Notes on columns such as ``patient_id``, of which each value has one label and may be a group."""
    notes = []
    for column in columns:
        counts = np.bincount(column.codes[column.codes >= 0], minlength=1)
        repeated = 2 * counts[counts > 1].sum() >= counts.sum() and len(column.texts) > len(base.texts)
        if column is not base and column.is_origin and repeated:
            notes.append(
                f"if rows with equal '{column.name}' show one thing, keep them together with "
                f"--table.group_column {shlex.quote(column.name)}"
            )
    return notes


def _setting(columns: list[str]) -> str:
    return f"--table.label_columns {shlex.quote(json.dumps(columns, ensure_ascii=False))}"


def _no_label(table: DataTable, taken: Collection[str]) -> DataError:
    able = [c for c in _candidates(table, taken) if c.is_label and not c.is_origin]
    chain = [column.name for column in _longest(able)]
    advice = f"name one as label_columns, or several, coarse to fine: {_setting(['family', 'species'])}"
    if len(chain) > 1:
        advice = f"{' > '.join(chain)} nest: if they are the labels, set {_setting(chain)}"
    return DataError(
        f"{table} has no column for labels that is known by its name ({', '.join(_USUAL)}); "
        f"it has {', '.join(table.columns)}: {advice}"
    )


@dataclass(frozen=True)
class TableAspects:
    """Aspects of the samples of a table, as `Source` holds them.

    Attributes:
        taxonomies: One taxonomy per column.
        nodes: Labels ``(n, A)``; None if there are no aspects.
        ratings: Ordinal ratings ``(n, A)``; None if no column holds ratings.
    """

    taxonomies: tuple[Taxonomy, ...] = ()
    nodes: Tensor | None = None
    ratings: Tensor | None = None


def label_nodes(
    table: DataTable,
    columns: Sequence[str],
    taxonomy: Taxonomy | None,
    missing: MissingNames | None = None,
) -> tuple[Taxonomy, Tensor]:
    """The taxonomy, built from the columns unless given, and the node of every row ``(n,)``.

    A label ends before a name that stands for a missing label; ``missing`` counts the rows of each such name.

    Raises:
        DataError: If a row has a gap, or there are no labels.
        TaxonomyError: If a label is not in the taxonomy.
    """
    labels: list[Any]
    if len(columns) > 1:
        labels, codes = _paths(table, columns)
    else:
        cells = table.cells(columns[0])
        codes = cells.codes
        labels = cells.texts if taxonomy is not None else [_path(text) for text in cells.texts]
    if missing is not None and missing.names:
        rows = np.bincount(codes[codes >= 0], minlength=len(labels)).tolist()
        labels = [cut_label(label, missing, count) for label, count in zip(labels, rows, strict=True)]
    try:
        if taxonomy is None:
            if not any(labels):
                what = "empty or among missing_labels" if missing is not None and missing.names else "empty"
                raise DataError(f"{table} has no labels: every {' and '.join(columns)} is {what}")
            taxonomy = Taxonomy.from_paths(dict.fromkeys(label for label in labels if label))
        nodes = taxonomy.encode(labels)
    except TaxonomyError as error:
        raise TaxonomyError(f"{table}, {' and '.join(columns)}: {error}") from error
    return taxonomy, torch.cat([nodes, nodes.new_full((1,), -1)])[torch.from_numpy(codes)]


def _path(text: str) -> tuple[str, ...]:
    """The names of a path; ``n/a`` is one name."""
    return (text,) if plain_name(text) in PLACEHOLDERS else split_path(text)


def cut_label(label: Any, missing: MissingNames, rows: int = 1) -> Any:
    """Cut a label, a name or a path of names, before a missing name; None if nothing is left."""
    path = _path(label) if isinstance(label, str) else label
    left = missing.cut(path, rows)
    return label if len(left) == len(path) else left or None


def table_aspects(
    table: DataTable,
    columns: Sequence[str],
    missing: MissingNames,
) -> TableAspects:
    """Read a taxonomy and labels from each column, and ratings if they are numbers.

    A cell is a name or a path ``a/b``, or empty. If all finest names of a column are whole numbers, as in
    ``4`` or ``positive/4``, they are also ratings.

    Raises:
        DataError: If a column is empty.
        TaxonomyError: If a cell holds no label.
    """
    if not columns:
        return TableAspects()
    labelled = [label_nodes(table, [column], None, missing) for column in columns]
    taxonomies = tuple(taxonomy for taxonomy, _ in labelled)
    nodes = torch.stack([column for _, column in labelled], dim=1)
    numbers = [_ratings(taxonomy, column) for taxonomy, column in labelled]
    absent = torch.full((table.num_rows,), -1)
    ratings = [absent if column is None else column for column in numbers]
    some = any(column is not None for column in numbers)
    return TableAspects(taxonomies, nodes, torch.stack(ratings, dim=1) if some else None)


def _ratings(taxonomy: Taxonomy, nodes: Tensor) -> Tensor | None:
    """The leaves' names as numbers, -1 where a label is not a leaf; None if they are not all numbers."""
    names = [taxonomy.names[leaf] for leaf in taxonomy.leaves.tolist()]
    if not all(_WHOLE.fullmatch(name) for name in names):
        return None
    numbers = torch.full((taxonomy.num_nodes + 1,), -1)  # the last entry stands for a missing label
    numbers[taxonomy.leaves] = torch.tensor([int(float(name)) for name in names])
    return numbers[nodes]


def _paths(table: DataTable, columns: Sequence[str]) -> tuple[list[tuple[str, ...]], np.ndarray[Any, Any]]:
    """The distinct labels as paths, coarse to fine, and the index of each row's label, -1 without one."""
    import pandas as pd

    cells = [table.cells(column) for column in columns]
    for coarser, finer, column in zip(cells, cells[1:], columns, strict=False):
        gaps = np.flatnonzero((coarser.codes < 0) & (finer.codes >= 0))
        if gaps.size:
            raise DataError(
                f"{table}, row {gaps[0] + 1}: '{column}' is empty but a finer label is given; "
                "only the finest labels of a row may be missing"
            )
    codes = cells[0].codes
    for column_cells in cells[1:]:
        width = len(column_cells.texts) + 1
        codes = pd.factorize(codes * width + column_cells.codes + 1)[0]  # below n · width: never too large
    first = np.unique(codes, return_index=True)[1]
    labels = [
        tuple(c.texts[code] for c in cells if (code := int(c.codes[row])) >= 0) for row in first.tolist()
    ]
    return labels, np.where(cells[0].codes < 0, -1, codes)
