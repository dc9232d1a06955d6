"""Labels that are not one per row: several labels a sample, votes of annotators, doubtful labels."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.counted_nouns import say_count
from labeltree.data.biology.rank_gaps import Gaps
from labeltree.data.names.label_names import LabelNames
from labeltree.data.table_columns import DataTable
from labeltree.data.tables.label_columns import flag_columns
from labeltree.data.tables.row_labels import TableLabels, label_nodes
from labeltree.data.tables.sample_rows import SampleRows
from labeltree.data.tables.votes import agreed_nodes, check_agreement, vote_note
from labeltree.data.unused_rows import UnusedRows
from labeltree.errors import DataError
from labeltree.lazy import torch
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import common_ancestors, distinct_labels, labels_by_row
from labeltree.taxonomy.naming import join_path
from labeltree.taxonomy.placeholders import MissingNames

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LabelEvidence", "check_columns", "read_labels"]

Array = np.ndarray[Any, Any]
_SEVERAL = ("labels", "tags", "categories", "classes", "annotations")
_NO_LABEL = "it has no label"  # as `label_nodes` says of single labels


@dataclass(frozen=True)
class LabelEvidence:
    """How the labels of the samples follow from a table that does not have one certain label a row.

    Attributes:
        label_separator: Text between the labels of a cell with several labels, such as `;`. Columns of
            lists (Parquet) need none.
        sample_column: Column whose equal values mean one sample: the labels of its rows are the labels of
            this sample, or votes on its label if there is an `annotator_column`. The first of its rows
            gives all other columns, which must not differ in columns that are read.
        annotator_column: Column that names the annotator of each row; each row is a vote.
        vote_columns: Columns of votes on the label, one per annotator; an empty cell is no vote.
        agreement: The label is the finest node that more than this share of the votes lie at or below, from
            0.5 to 1; 1 asks for all of them. None = 0.5.
        confidence_column: Column of the confidence in each label, from 0 to 1.
        min_confidence: A label with less confidence becomes its parent; a label at depth 1 becomes missing.

    Raises:
        DataError: If a setting is out of range, or lacks or excludes another one.
    """

    label_separator: str | None = None
    sample_column: str | None = None
    annotator_column: str | None = None
    vote_columns: Sequence[str] = ()
    agreement: float | None = None
    confidence_column: str | None = None
    min_confidence: float | None = None

    def __post_init__(self) -> None:
        if self.label_separator is not None and (
            not self.label_separator.strip() or "/" in self.label_separator
        ):
            raise DataError(
                f"label_separator is {self.label_separator!r}; it must be the text between two labels, such "
                "as ';', without '/', which separates the names of a path"
            )
        if len(self.vote_columns) == 1:
            raise DataError(
                f"vote_columns names a single column, '{self.vote_columns[0]}'; name one per annotator, or "
                "make it the label: label_columns"
            )
        repeated = [column for column in self.vote_columns if list(self.vote_columns).count(column) > 1]
        if repeated:
            raise DataError(f"vote_columns names '{repeated[0]}' twice; each annotator votes once")
        self._check_pairs()
        if self.agreement is not None:
            check_agreement(self.agreement)
        if self.min_confidence is not None and not 0 < self.min_confidence <= 1:
            raise DataError(f"min_confidence is {self.min_confidence}; it must be above 0 and at most 1")

    def _check_pairs(self) -> None:
        """Refuse settings that lack or exclude one another."""
        if self.annotator_column is not None and self.sample_column is None:
            raise DataError(
                "annotator_column needs sample_column: the column whose equal values mean one sample, such "
                "as that of the images"
            )
        if self.votes and self.label_separator is not None:
            raise DataError("label_separator does not go with votes: an annotator gives one label a sample")
        if self.vote_columns and (self.sample_column is not None or self.confidence_column is not None):
            other = "sample_column" if self.sample_column is not None else "confidence_column"
            raise DataError(
                f"vote_columns and {other} exclude each other; write a row per vote, with sample_column and "
                "annotator_column, or leave one of the two out"
            )
        if self.agreement is not None and not self.votes:
            raise DataError("agreement is about votes; name vote_columns, or an annotator_column")
        if (self.confidence_column is None) != (self.min_confidence is None):
            raise DataError(
                "confidence_column and min_confidence belong together: where the confidence is below "
                "min_confidence, the label becomes its parent"
            )

    @property
    def votes(self) -> bool:
        """Whether labels are decided by votes."""
        return bool(self.vote_columns) or self.annotator_column is not None

    @property
    def given(self) -> dict[str, Any]:
        """The settings that are given, by name."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in fields.items() if value is not None and value != ()}

    @property
    def named(self) -> set[str]:
        """The names of all columns that have a part in this."""
        columns = (self.sample_column, self.annotator_column, self.confidence_column, *self.vote_columns)
        return {column for column in columns if column is not None}

    def columns(self, table: DataTable) -> dict[str, tuple[str, ...]]:
        """The columns of the table that have a part in this, by purpose.

        Raises:
            DataError: If one does not exist.
        """
        named = {
            "samples": (self.sample_column,),
            "annotators": (self.annotator_column,),
            "votes": tuple(self.vote_columns),
            "confidence": (self.confidence_column,),
        }
        by_purpose = {
            kind: tuple(table.find(column) for column in columns if column is not None)
            for kind, columns in named.items()
        }
        return {kind: columns for kind, columns in by_purpose.items() if columns}


def check_columns(purposes: dict[str, tuple[str, ...]], labels: Sequence[str] | str | None) -> None:
    """Refuse columns of votes, confidence or annotators that have another purpose, too.

    Raises:
        DataError: If there is one.
    """
    labels = [labels] if isinstance(labels, str) else labels
    for kind in ("votes", "annotators", "confidence"):
        for column in purposes.get(kind, ()):
            others = [other for other, columns in purposes.items() if other != kind and column in columns]
            if labels is not None and column in labels:
                others.append("labels")
            if others:
                raise DataError(
                    f"the column '{column}' is named for {kind} and for {others[0]}; it can be one of the two"
                )


def read_labels(
    table: DataTable,
    columns: Sequence[str],
    taxonomy: Taxonomy | None,
    missing: MissingNames,
    gaps: Gaps | None,
    names: LabelNames,
    separator: str | None,
    evidence: LabelEvidence,
    rows: SampleRows | None = None,
) -> TableLabels:
    """The taxonomy and the labels of every sample of a table.

    Args:
        table: The table, one row per label, vote or sample.
        columns: The label columns; with `vote_columns` these.
        taxonomy: Taxonomy of the labels; None = built from them.
        missing: Names that stand for missing labels.
        gaps: See `label_nodes`, as for `names` and `separator`.
        names: How names are cleaned.
        separator: What separates the names of a path.
        evidence: How labels follow from the cells.
        rows: The rows of each sample, if a sample may have several; None = each row is a sample.

    Returns:
        Labels of the samples. `nodes` holds the common ancestor of several labels, `sets` all of them.

    Raises:
        DataError: If the cells cannot be read so, or nothing has a label.
        TaxonomyError: If a label is not in the taxonomy.
    """
    if evidence.vote_columns:
        parts = [_single(table, column) for column in columns]
        entries = [text for part, _ in parts for text in part]
        owner = np.concatenate([places for _, places in parts])
    elif (
        len(columns) == 1 and evidence.label_separator is None and (paths := _listed_paths(table, columns[0]))
    ):
        labels = label_nodes(paths, columns, taxonomy, missing, gaps, names, "/")
        told = (
            f"lists such as {paths.example} in '{columns[0]}' are read as paths, coarse to fine, since each "
            "name has one place; if they are several labels, set --table.label_separator ','"
        )
        labels = dataclasses.replace(labels, notes=(*labels.notes, told))
        return _label_samples(table, labels, np.arange(table.num_rows), columns, evidence, rows)
    elif len(columns) == 1 and (evidence.label_separator is not None or table.holds_lists(columns[0])):
        entries, owner = _several(table, columns[0], evidence.label_separator)
    elif len(columns) > 1 and flag_columns(table, columns) == list(columns):
        entries, owner = _flagged(table, columns)
    elif evidence.label_separator is not None:
        raise DataError(
            f"label_separator asks for one label column, of names or paths; there are {', '.join(columns)}: "
            "name one of them by label_columns"
        )
    else:
        labels = label_nodes(table, columns, taxonomy, missing, gaps, names, separator)
        labels = dataclasses.replace(labels, notes=(*labels.notes, *_looks_like_several(table, columns)))
        return _label_samples(table, labels, np.arange(table.num_rows), columns, evidence, rows)
    if not entries:
        raise DataError(f"{table} has no labels: every {' and '.join(columns)} is empty")
    one_each = _OneLabelARow(table, ", ".join(columns), entries)
    labels = label_nodes(one_each, one_each.columns, taxonomy, missing, None, names, separator)
    unused = labels.unused
    labels = dataclasses.replace(labels, unused=UnusedRows(owner[unused.rows], unused.why, unused.reasons))
    return _label_samples(table, labels, owner, columns, evidence, rows)


def _label_samples(
    table: DataTable,
    labels: TableLabels,
    owner: Array,
    columns: Sequence[str],
    evidence: LabelEvidence,
    rows: SampleRows | None,
) -> TableLabels:
    """The labels of samples from labels `(m,)` of rows `owner (m,)` of the table."""
    tree, nodes, notes = labels.taxonomy, labels.nodes, list(labels.notes)
    if evidence.confidence_column is not None:
        nodes, said = _coarsen_doubtful(table, nodes, owner, tree, evidence)
        notes.append(said)
    sample = owner if rows is None else rows.sample[owner]
    count = table.num_rows if rows is None else rows.count
    if rows is not None and evidence.annotator_column is not None:
        rows.check_votes(table, evidence.annotator_column, nodes[nodes >= 0], owner[(nodes >= 0).numpy()])
    listed = labels_by_row(nodes, torch.from_numpy(sample), count)
    sets: Tensor | None
    if evidence.votes:
        agreement = 0.5 if evidence.agreement is None else evidence.agreement
        sample_nodes = agreed_nodes(listed, tree, agreement)
        notes.append(vote_note(listed, sample_nodes, agreement, columns if evidence.vote_columns else None))
        sets = None
    else:
        sets = distinct_labels(listed, tree)
        sample_nodes = common_ancestors(sets, tree)
        several = (sets >= 0).sum(1) > 1
        if bool(several.any()):
            most = int((sets >= 0).sum(1).max())
            notes.append(
                f"{int(several.sum()):,} of {count:,} samples have several labels, up to {most}; what reads "
                "one label a sample reads their common ancestor"
            )
        else:
            sets = None
    first = torch.arange(table.num_rows) if rows is None else torch.from_numpy(rows.first)
    given = (listed >= 0).any(1)
    unused = _without(labels.unused, _NO_LABEL)
    unlabelled = first[~given].numpy()
    unlabelled = unlabelled[~np.isin(unlabelled, unused.rows)]  # they have a reason
    unused += UnusedRows.because(unlabelled, columns, _NO_LABEL)
    if evidence.votes:
        divided = first[given & (sample_nodes < 0)].numpy()
        unused += UnusedRows.because(divided, columns, "its annotators agree on nothing below the root")
    return TableLabels(tree, sample_nodes, tuple(notes), unused, sets)


def _without(unused: UnusedRows, reason: str) -> UnusedRows:
    """The rows that have another reason."""
    kept = np.array([unused.reasons[why][1] != reason for why in unused.why.tolist()], bool)
    return UnusedRows(unused.rows[kept], unused.why[kept], unused.reasons)


class _OneLabelARow(DataTable):
    """The labels of a table, one a row, in a column of the same name."""

    def __init__(self, table: DataTable, column: str, labels: list[str]) -> None:
        import pyarrow as pa

        arrow = pa.table({column: pa.array(labels, pa.large_string())})
        super().__init__(table.path, arrow, sheet_words=table.sheet_words)


class _Paths(DataTable):
    """The lists of a column as paths, one a row."""

    def __init__(self, table: DataTable, column: str, paths: Sequence[Sequence[str]], example: str) -> None:
        import pyarrow as pa

        joined = [join_path(path) or None for path in paths]
        arrow = pa.table({column: pa.array(joined, pa.large_string())})
        super().__init__(table.path, arrow, sheet_words=table.sheet_words)
        self.example = example


def _listed_paths(table: DataTable, column: str) -> _Paths | None:
    """The lists of a column of JSON as paths; None unless each name stands below one other name alone."""
    is_path = table.lists_may_be_paths and column.casefold() not in _SEVERAL
    if not is_path or not table.holds_lists(column):
        return None
    texts, rows = table.list_cells(column)
    paths: list[list[str]] = [[] for _ in range(table.num_rows)]
    for text, row in zip(texts, rows.tolist(), strict=True):
        paths[row].append(text)
    above: dict[str, tuple[str, ...]] = {}
    for path in map(tuple, paths):
        for depth, name in enumerate(path):
            if above.setdefault(name, path[:depth]) != path[:depth]:
                return None
    children = Counter(path[-1] for path in above.values() if path)
    longest = max(paths, key=len, default=[])
    if not children or max(children.values()) < 2:
        return None
    return _Paths(table, column, paths, json.dumps(longest, ensure_ascii=False))


def _single(table: DataTable, column: str) -> tuple[list[str], Array]:
    """The texts of a column that are not empty, and their rows."""
    cells = table.cells(column)
    places = np.flatnonzero(cells.codes >= 0)
    return [cells.texts[code] for code in cells.codes[places].tolist()], places


def _several(table: DataTable, column: str, separator: str | None) -> tuple[list[str], Array]:
    """The labels of a column of lists, or of texts with a separator, and the row of each."""
    if table.holds_lists(column):
        if separator is not None and not table.lists_may_be_paths:
            raise DataError(f"{table}: '{column}' holds lists; leave label_separator out")
        return table.list_cells(column)
    texts, places = _single(table, column)
    parts = [[part.strip() for part in text.split(separator)] for text in texts]
    lists = [[part for part in cell if part] for cell in parts]
    return [part for cell in lists for part in cell], np.repeat(places, [len(cell) for cell in lists])


def _flagged(table: DataTable, columns: Sequence[str]) -> tuple[list[str], Array]:
    """The names of the columns that are 1, and the row of each."""
    rows: list[Array] = []
    for column in columns:
        cells = table.cells(column)
        is_one = np.array([float(text) == 1 for text in cells.texts] + [False])
        rows.append(np.flatnonzero(is_one[cells.codes]))
    owner = np.concatenate(rows)
    entries = np.repeat(np.array(columns, dtype=object), [len(each) for each in rows])
    order = np.argsort(owner, kind="stable")
    return entries[order].tolist(), owner[order]


def _looks_like_several(table: DataTable, columns: Sequence[str]) -> list[str]:
    """A note if labels of one column are joined labels of other rows."""
    texts = table.cells(columns[0]).texts if len(columns) == 1 else []
    for mark in (";", "|"):
        single = {text for text in texts if mark not in text}
        joined = [text for text in texts if mark in text and {p.strip() for p in text.split(mark)} <= single]
        if joined:
            return [
                f"labels such as '{joined[0]}' are read as one label each; if they are several labels, set "
                f"--table.label_separator '{mark}'"
            ]
    return []


def _coarsen_doubtful(
    table: DataTable, nodes: Tensor, owner: Array, tree: Taxonomy, evidence: LabelEvidence
) -> tuple[Tensor, str]:
    """Labels `(m,)` of rows `owner (m,)`, the parent's where confidence is too low; and a note."""
    column, least = str(evidence.confidence_column), evidence.min_confidence
    assert least is not None
    cells = table.cells(column)
    values = [_number(text) for text in cells.texts]
    for text, value in zip(cells.texts, values, strict=True):
        if value is None or not 0 <= value <= 1:
            raise DataError(
                f"{table}, {table.place(cells.rows_of(text)[0])}: the confidence '{text}' in column "
                f"'{column}' is not a number from 0 to 1"
            )
    of_rows = np.array([*values, np.nan], float)[cells.codes][owner]
    doubted = torch.from_numpy(of_rows < least) & (nodes > 0)
    parents = tree.parent[nodes.clamp_min(0)]
    parents = torch.where(parents > 0, parents, -1)
    lost = int((doubted & (parents < 0)).sum())
    empty = int((np.isnan(of_rows) & (nodes >= 0).numpy()).sum())
    said = (
        f"{int(doubted.sum()):,} of {int((nodes >= 0).sum()):,} labels have a confidence below {least:g} "
        f"({column}) and became their parent"
    )
    if lost:
        said += f"; {lost:,} of these lay at depth 1 and are missing now"
    if empty:
        said += f"; {say_count(empty, 'label')} without a confidence: as before"
    return torch.where(doubted, parents, nodes), said


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
