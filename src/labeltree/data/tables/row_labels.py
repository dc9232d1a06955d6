"""The labels of a table: their taxonomy, gaps in them, and the taxonomies of aspects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.counted_nouns import say_count
from labeltree.data.biology.rank_gaps import Bridged, Gaps, LabelFinder, bridge
from labeltree.data.names.label_names import LabelNames
from labeltree.data.table_columns import Cells, DataTable
from labeltree.data.tables.fill_down import fill_setting, find_outlined, outlined_words
from labeltree.data.unused_rows import UnusedRows
from labeltree.errors import DataError, TaxonomyError, UnknownLabelError
from labeltree.lazy import torch
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.files.breadcrumbs import (
    BETWEEN_SPACES,
    breadcrumbs_of,
    has_signs,
    sure_breadcrumbs,
    written_paths,
)
from labeltree.taxonomy.naming import compose, compose_twins, join_path, some, split_path, twins_sentence
from labeltree.taxonomy.placeholders import PLACEHOLDERS, MissingNames, plain_name
from labeltree.taxonomy.ranks import Ranks

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "TableAspects",
    "TableLabels",
    "cut_label",
    "label_nodes",
    "split_label",
    "table_aspects",
]

Array = np.ndarray[Any, Any]
_BYTES = re.compile(r"b'[\x20-\x26\x28-\x5b\x5d-\x7e]+'|b\"[\x20\x21\x23-\x5b\x5d-\x7e]+\"")
_WHOLE = re.compile(r"[0-9]{1,9}(\.0+)?")  # tables with empty cells are often written with 4.0 for 4


@dataclass(frozen=True)
class TableAspects:
    """Aspects of the samples of a table, as `Source` holds them.

    Attributes:
        taxonomies: One taxonomy per column.
        nodes: Labels `(n, A)`; None if there are no aspects.
        ratings: Ordinal ratings `(n, A)`; None if no column holds ratings.
        notes: Sentences on how the labels were read.
    """

    taxonomies: tuple[Taxonomy, ...] = ()
    nodes: Tensor | None = None
    ratings: Tensor | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableLabels:
    """The labels of the rows of a table.

    Attributes:
        taxonomy: Their taxonomy.
        nodes: Label of every row `(n,)` int64, -1 where it is missing.
        notes: Sentences on gaps and how they were bridged.
        unused: Rows without a label.
        sets: All labels `(n, k)` of every row, −1 where there is no further one, if some have several; then
            `nodes` holds their common ancestors. None = each row has one.
    """

    taxonomy: Taxonomy
    nodes: Tensor
    notes: tuple[str, ...] = ()
    unused: UnusedRows = field(default_factory=UnusedRows.none)
    sets: Tensor | None = None


def label_nodes(
    table: DataTable,
    columns: Sequence[str],
    taxonomy: Taxonomy | None,
    missing: MissingNames | None = None,
    gaps: Gaps | None = None,
    names: LabelNames | None = None,
    separator: str | None = None,
) -> TableLabels:
    """The taxonomy, built from the columns unless given, and the node of every row.

    A label ends before a name that stands for a missing label; `missing` counts the rows of each such name.
    For `gaps`, the rule for a missing name above a given one, see `bridge`; None is `placeholder` if all
    columns are ranks, and else an error for gaps that other rows do not fill. `names` says how names are
    cleaned, and which are synonyms. `separator` separates the names of paths in one column, see
    `open_table`.

    Raises:
        DataError: If a gap is not bridged, there are no labels, or the separator is empty.
        TaxonomyError: If a label is not in the taxonomy.
    """
    labels: list[Any]
    notes: tuple[str, ...] = ()
    unused = UnusedRows.none()
    if len(columns) > 1:
        labels, codes, notes, unused = _paths(table, columns, gaps, taxonomy, names)
    else:
        cells = table.cells(columns[0])
        codes = cells.codes
        texts, crumbs = _without_breadcrumbs(cells, taxonomy, separator)
        if names is not None and names.changes:
            rows = np.bincount(codes[codes >= 0], minlength=len(cells.texts)).tolist()
            named = names.read([split_label(text) for text in texts], rows, taxonomy=taxonomy)
            labels = [label or None for label in named.labels]
            if taxonomy is not None:  # a name is sought anywhere
                labels = [join_path(label) if label else None for label in labels]
            notes, unused = tuple(named.notes), _coarser(named.reasons, columns, codes)
        else:
            labels = texts if taxonomy is not None else [split_label(text) for text in texts]
        notes = (*notes, *crumbs)
    if len(columns) == 1 and (plain := _strip_bytes(labels)) is not None:
        labels = plain
        notes = (*notes, "labels written as b'…' are read without it")
    if taxonomy is None:
        labels, twins = _compose_names(labels)
        notes = (*notes, *twins)
    if missing is not None and missing.names:
        rows = np.bincount(codes[codes >= 0], minlength=len(labels)).tolist()
        labels = [
            label and cut_label(label, missing, count) for label, count in zip(labels, rows, strict=True)
        ]
    try:
        if taxonomy is None:
            if not any(labels):
                what = "empty or among missing_labels" if missing is not None and missing.names else "empty"
                raise DataError(f"{table} has no labels: every {' and '.join(columns)} is {what}")
            taxonomy = Taxonomy.from_paths(dict.fromkeys(label for label in labels if label))
        nodes = taxonomy.encode(labels)
    except TaxonomyError as error:
        simply = ""
        if taxonomy is not None and isinstance(error, UnknownLabelError):
            simply = _say_plain(error, taxonomy, columns, names)
        raise TaxonomyError(f"{table}, {' and '.join(columns)}: {error}{simply}") from error
    notes = (*notes, *note_other_form(labels, nodes.tolist(), taxonomy))
    reasons = {
        place: why for place, label in enumerate(labels) if label and (why := taxonomy.why_coarser(label))
    }
    unused += _coarser(reasons, columns, codes)
    nodes = torch.cat([nodes, nodes.new_full((1,), -1)])[torch.from_numpy(codes)]
    unlabelled = np.flatnonzero(nodes.numpy() < 0)
    unlabelled = unlabelled[~np.isin(unlabelled, unused.rows)]
    unused += UnusedRows.because(unlabelled, columns, "it has no label")
    return TableLabels(taxonomy, nodes, notes, unused)


def _say_plain(
    error: UnknownLabelError, taxonomy: Taxonomy, columns: Sequence[str], names: LabelNames | None
) -> str:
    """What an error on unknown labels says of `--table.names plain`, if it reads all of them."""
    if names is not None and names.names != "exact":
        return ""
    ranks = columns if len(columns) > 1 else None
    read = LabelNames("plain").read(error.paths, [1] * len(error.paths), ranks, taxonomy, whole=False).labels
    paths = [join_path([name for name in label if name is not None]) for label in read]
    if not all(path and len(taxonomy.candidates(path)) == 1 for path in paths):
        return ""
    which = "it differs from a name" if len(read) == 1 else "they differ from names"
    return f". {which[0].upper()}{which[1:]} of the taxonomy only in case or blanks: set --table.names plain"


def _strip_bytes(labels: list[Any]) -> list[Any] | None:
    """Labels that are all written as bytes, `b'dog'`, without that; None if some are not."""
    there = [label if isinstance(label, str) else join_path(label) for label in labels if label]
    if not there or not all(map(_BYTES.fullmatch, there)):
        return None
    texts = [label and (label if isinstance(label, str) else join_path(label))[2:-1] for label in labels]
    as_paths = any(isinstance(label, tuple) for label in labels)
    return [text and split_label(text) for text in texts] if as_paths else texts


def _compose_names(labels: list[Any]) -> tuple[list[Any], tuple[str, ...]]:
    """Labels of which none differ in the composition of accented letters alone, and a note if some did."""
    composed = compose_twins(name for label in labels for name in label or () if name)
    if not composed:
        return labels, ()
    labels = [label and tuple(composed.get(name, name) for name in label) for label in labels]
    return labels, (twins_sentence(composed),)


def note_other_form(labels: Iterable[Any], nodes: Iterable[int], taxonomy: Taxonomy) -> tuple[str, ...]:
    """A note on labels whose accented letters the taxonomy composes otherwise."""
    others = []
    for label, node in zip(labels, nodes, strict=True):
        if not label or node < 0 or (text := label if isinstance(label, str) else label[-1]).isascii():
            continue
        name = taxonomy.names[node]
        if not text.strip().endswith(name) and compose(text.strip()).endswith(compose(name)):
            others.append(name)
    if not others:
        return ()
    return (
        f"labels such as {some(others, 3)} are written with accents composed otherwise than in the taxonomy "
        "(NFC and NFD), and are its nodes",
    )


def _coarser(reasons: Mapping[int, str], columns: Sequence[str], codes: Array) -> UnusedRows:
    """The rows whose label, by the index in `codes`, is coarser than they say, with the reason of each."""
    if not reasons:
        return UnusedRows.none()
    why = np.full(max(int(codes.max()), *reasons) + 2, -1)
    for number, label in enumerate(reasons):
        why[label] = number
    rows = np.flatnonzero(why[codes] >= 0)
    places = tuple((", ".join(columns), reason) for reason in reasons.values())
    return UnusedRows(rows, why[codes[rows]], places)


def _without_breadcrumbs(
    cells: Cells, taxonomy: Taxonomy | None, separator: str | None
) -> tuple[list[str], tuple[str, ...]]:
    """Labels as paths `a/b` where they are breadcrumbs `a > b`, and notes that say so.

    Without a `separator`, labels that the taxonomy has as they are stay so, and those whose path it has
    are paths.
    """
    texts = cells.texts
    if separator is not None and not separator.strip():
        raise DataError("the separator of labels is empty; give the text between names, or none")
    if separator in ("none", "/"):
        return texts, ()
    breadcrumbs = sure_breadcrumbs(texts) if separator is None else breadcrumbs_of(texts, separator)
    split = list(texts)
    examples: list[str] = []
    for number, text in enumerate(texts):
        path = None if breadcrumbs is None else breadcrumbs.paths[number]
        if taxonomy is not None and separator is None and (path is None or not taxonomy.candidates(path)):
            path = next(filter(taxonomy.candidates, written_paths(text)), path)
        if path is None or (
            taxonomy is not None and (separator is None or len(path) == 1) and taxonomy.candidates(text)
        ):
            continue
        split[number] = join_path(path)
        examples += [text] if len(path) > 1 else []
    notes = [_say_paths(examples, separator)] if examples else []
    if separator is not None:
        notes += _say_other_signs(texts, separator)
        return split, tuple(notes)
    if breadcrumbs is None and taxonomy is None:
        rows = np.bincount(cells.codes[cells.codes >= 0], minlength=len(texts)).tolist()
        notes += _say_unread_signs(has_signs(texts, rows) if texts else None)
    return split, tuple(notes)


def _say_paths(labels: Sequence[str], separator: str | None) -> str:
    """A note that labels were read as paths."""
    signs = [separator] if separator else [mark for mark in BETWEEN_SPACES if mark in labels[0]]
    more = [] if separator else [mark for mark in BETWEEN_SPACES if any(mark in text for text in labels)]
    signs = list(dict.fromkeys([*signs, *more]))
    what = f"'{signs[0]}' separates" if len(signs) == 1 else f"{' and '.join(map(repr, signs))} separate"
    return (
        f"labels such as '{labels[0]}' were read as paths: {what} the names "
        "(--table.separator TEXT says what does; with none they are names)"
    )


def _say_unread_signs(label: str | None) -> list[str]:
    """A note on a label of many that may be breadcrumbs, and are not read so."""
    if label is None:
        return []
    mark = next(mark for mark in BETWEEN_SPACES if mark in label)
    return [
        f"labels such as '{label}' are read as names, since they are not surely breadcrumbs: if '{mark}' "
        f"separates names of paths, set --table.separator '{mark}', or else none"
    ]


def _say_other_signs(texts: Sequence[str], separator: str) -> list[str]:
    """A note on labels that a given separator leaves whole, and that have another sign between spaces."""
    for mark, pattern in BETWEEN_SPACES.items():
        if mark in separator:
            continue
        whole = [text for text in texts if separator.strip() not in text and pattern.search(text)]
        if whole:
            return [
                f"labels such as '{whole[0]}' have '{mark}', and are read as names: --table.separator says "
                f"that '{separator}' alone separates the names of paths"
            ]
    return []


def split_label(text: str) -> tuple[str, ...]:
    """The names of a path; `n/a` is one name."""
    return (text,) if plain_name(text) in PLACEHOLDERS else split_path(text)


def cut_label(label: Any, missing: MissingNames, rows: int = 1) -> Any:
    """Cut a label, a name or a path of names, before a missing name; None if nothing is left."""
    path = split_label(label) if isinstance(label, str) else label
    left = missing.cut(path, rows)
    return label if len(left) == len(path) else left or None


def table_aspects(
    table: DataTable,
    columns: Sequence[str],
    missing: MissingNames,
    separator: str | None = None,
) -> TableAspects:
    """Read a taxonomy and labels from each column, and ratings if they are numbers.

    A cell is a name or a path `a/b`, or empty. If all finest names of a column are whole numbers, as in
    `4` or `positive/4`, they are also ratings. `separator` is as for `label_nodes`.

    Raises:
        DataError: If a column is empty.
        TaxonomyError: If a cell holds no label.
    """
    if not columns:
        return TableAspects()
    labelled = [label_nodes(table, [column], None, missing, separator=separator) for column in columns]
    taxonomies = tuple(labels.taxonomy for labels in labelled)
    nodes = torch.stack([labels.nodes for labels in labelled], dim=1)
    numbers = [_ratings(labels.taxonomy, labels.nodes) for labels in labelled]
    absent = torch.full((table.num_rows,), -1)
    ratings = [absent if column is None else column for column in numbers]
    some = any(column is not None for column in numbers)
    notes = tuple(
        f"{column}: {note}" for column, aspect in zip(columns, labelled, strict=True) for note in aspect.notes
    )
    return TableAspects(taxonomies, nodes, torch.stack(ratings, dim=1) if some else None, notes)


def _ratings(taxonomy: Taxonomy, nodes: Tensor) -> Tensor | None:
    """The leaves' names as numbers, -1 where a label is not a leaf; None if they are not all numbers."""
    names = [taxonomy.names[leaf] for leaf in taxonomy.leaves.tolist()]
    if not all(_WHOLE.fullmatch(name) for name in names):
        return None
    numbers = torch.full((taxonomy.num_nodes + 1,), -1)  # the last entry stands for a missing label
    numbers[taxonomy.leaves] = torch.tensor([int(float(name)) for name in names])
    return numbers[nodes]


def _find_unbridged(
    columns: Sequence[str], labels: Sequence[tuple[str | None, ...]], bridged: Sequence[Bridged], codes: Array
) -> UnusedRows:
    """The rows in whose labels `codes` a gap remains."""
    why = np.full(len(labels), -1)
    reasons: list[tuple[str, str]] = []
    for number, (label, bridging) in enumerate(zip(labels, bridged, strict=True)):
        if bridging.path is None:
            empty = [columns[place] for place in bridging.bridged]
            finer = next(name for name in label[max(bridging.bridged) :] if name is not None)
            why[number] = len(reasons)
            reasons.append((", ".join(empty), f"it is empty, but the finer label '{finer}' is given"))
    rows = np.flatnonzero(why[codes] >= 0)
    return UnusedRows(rows, why[codes[rows]], tuple(reasons))


def _paths(
    table: DataTable,
    columns: Sequence[str],
    gaps: Gaps | None,
    taxonomy: Taxonomy | None,
    names: LabelNames | None,
) -> tuple[list[tuple[str, ...]], Array, tuple[str, ...], UnusedRows]:
    """The distinct labels as paths, coarse to fine, the index of each row's label, notes, and uncertain rows.

    The index is -1 for a row without a label.
    """
    import pandas as pd

    ranks = Ranks(columns, table.columns)
    cells = [table.cells(column) for column in columns]
    if ranks.depth_column is not None:
        cells.append(table.cells(ranks.depth_column))
    codes = cells[0].codes
    for column_cells in cells[1:]:
        width = len(column_cells.texts) + 1
        codes = pd.factorize(codes * width + column_cells.codes + 1)[0]  # below n · width: never too large
    codes = pd.factorize(codes)[0]
    first = np.unique(codes, return_index=True)[1]
    labels: list[tuple[str | None, ...]] = []
    for row in first.tolist():
        texts = [c.texts[code] if (code := int(c.codes[row])) >= 0 else None for c in cells]
        depth = texts.pop() if ranks.depth_column is not None else None
        labels.append(ranks.label(texts, depth))
    known = dict.fromkeys(labels)  # rows that differ only in what a label leaves out have one label
    place = {label: number for number, label in enumerate(known)}
    codes = np.array([place[label] for label in labels], np.int64)[codes]
    rows = np.bincount(codes, minlength=len(known))
    read = (names or LabelNames()).read(list(known), rows.tolist(), ranks.names, taxonomy)
    bridged = bridge(read.labels, ranks.names, gaps or ("placeholder" if ranks.are_known else None), taxonomy)
    bad = _find_unbridged(columns, read.labels, bridged, codes)
    if len(bad):
        outlined = find_outlined(table, columns)
        fill = "Fill them"
        if outlined:
            setting = fill_setting(outlined)
            fill = (
                f"{outlined_words(outlined)}: if an empty cell means the value above it, set {setting}. Else "
                "fill them"
            )
        raise DataError(
            f"{table}: in {len(bad):,} of {table.num_rows:,} rows a coarser label is missing between given "
            f"ones: {bad.numbered(table.numbers_of).in_words(table.path, table.unit)}. "
            f"{fill}, or choose --table.gaps skip (the finer label hangs on the next coarser given one) or "
            "--table.gaps placeholder (a node of its own takes the missing place)"
        )
    filled = int(sum(rows[number] for number, bridging in enumerate(bridged) if bridging.filled))
    by_rule = {number: bridging for number, bridging in enumerate(bridged) if bridging.bridged}
    notes = read.notes
    if filled:
        notes.append(
            f"in {say_count(filled, 'row')} a missing name above a given one was taken from "
            f"{'the taxonomy' if taxonomy is not None else 'other rows, which agree on it'}"
        )
    if by_rule:
        count = int(sum(rows[number] for number in by_rule))
        number, example = next(iter(by_rule.items()))
        path = example.path or ()
        if gaps == "skip":
            name = read.labels[number][max(example.bridged) + 1]
            how = f"skipped: '{name}' hangs on the next coarser name; also: placeholder"
        else:
            how = f"given a node of its own, such as '{path[max(example.bridged)]}'; also: skip"
        notes.append(
            f"in {say_count(count, 'row')} a rank is missing between given ones, and was {how}, "
            "error (--table.gaps)"
        )
    paths = [bridging.path or () for bridging in bridged]
    if taxonomy is not None and ranks.are_known:  # it may have more ranks than the table
        finder = LabelFinder(taxonomy)
        paths = [
            path if not path or taxonomy.candidates(path) else finder.find(path) or path for path in paths
        ]
    empty = np.array([not path for path in paths])
    uncertain = _coarser(read.reasons, columns, codes)
    return paths, np.where(empty[codes], -1, codes), tuple(notes), uncertain
