"""Columns of a table that may hold labels, and how the values of one lie in those of another."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from labeltree.data.biology.rank_gaps import Gaps
from labeltree.data.table_columns import Cells, DataTable
from labeltree.errors import DataError
from labeltree.file_kinds import names_image
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.placeholders import PLACEHOLDERS, REMAINDERS, plain_name
from labeltree.taxonomy.ranks import is_vernacular

__all__ = [
    "MEASURED",
    "MOST_EXCEPTIONS",
    "LabelCandidate",
    "LabelColumns",
    "columns_setting",
    "is_below",
    "label_candidates",
    "lies_in",
    "longest_chain",
    "note_vernacular",
    "number_pairs",
    "repeats_below",
    "stray_values",
]

MEASURED = re.compile(r"[-+]?\d[\d.,:/ eETZ%+-]*")  # numbers, dates, times
_FLAGS = {"yes", "no", "true", "false", "y", "n", "t", "f"}
# Columns with one of these words in their name give the origin of a sample, not its class.
_ORIGIN = re.compile(
    "id|ids|uid|uuid|guid|taxid|taxonid|tsn|aphiaid|key|index|number|patient|subject|person|lesion|user|author|customer|session|visit|"
    "encounter|slide|scan|study|series|camera|photographer|device|site|hospital|cent(re|er)|source|url|link|"
    "file|filename|path|date|time|year|month|day|sku|ean|barcode|lot|batch|fold|split|set|subset|partition|"
    "sex|gender|age|group"
)
# Of these, what many samples have in common that show different things.
_PROPERTY = re.compile("date|time|year|month|day|sex|gender|age|fold|split|set|subset|partition")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W_a-zA-Z]+")
# The last word of the name of a column whose values may be kinds of those of another.
_KINDS = {"type", "subtype", "kind", "category", "subcategory", "class", "subclass", "family", "variety"}
# That of a column whose values may be above those of another.
_LEVELS = {*_KINDS, "department", "division", "section", "supercategory", "superclass", "genus", "order"}
_LONG = 60  # characters; longer cells are texts
MOST_EXCEPTIONS = 0.02  # share of the values that may lie in several values of a column with which they nest
_GAPS = 0.1  # share of the rows in which a column may be empty, if gaps are bridged


@dataclass(frozen=True)
class LabelColumns:
    """The columns of the labels, coarse to fine, and sentences about possible alternatives."""

    columns: list[str]
    notes: tuple[str, ...] = ()


class LabelCandidate:
    """A column as a candidate for labels."""

    def __init__(self, name: str, cells: Cells) -> None:
        self.name = name
        self.texts = cells.texts
        self.codes = cells.codes
        plain = [plain_name(text) for text in cells.texts]
        vague = np.array([text in PLACEHOLDERS or text in REMAINDERS for text in plain] + [True])
        self.known = ~vague[cells.codes]
        """Rows whose name can have a single parent, unlike `other`, which may occur below every parent."""

    @cached_property
    def is_label(self) -> bool:
        """Whether the values of the column may be classes."""
        texts = self.texts
        counts = np.bincount(self.codes[self.codes >= 0], minlength=1)
        return (
            len(texts) > 1
            and 2 * counts[counts > 1].sum() >= counts.sum()
            and not all(MEASURED.fullmatch(text) for text in texts)
            and not {text.lower() for text in texts} <= _FLAGS
            and sum(map(len, texts)) <= _LONG * len(texts)
            and not any(map(names_image, texts[:20]))
        )

    @property
    def is_level(self) -> bool:
        """Whether the name of the column stands for a level of a taxonomy."""
        words = _WORD.findall(self.name)
        return bool(words) and words[-1].lower() in _LEVELS

    @property
    def is_origin(self) -> bool:
        """Whether the name of the column stands for the origin of a sample."""
        return any(_ORIGIN.fullmatch(word.lower()) for word in _WORD.findall(self.name))

    @property
    def is_property(self) -> bool:
        """Whether the name stands for an age, a date or a part of the data, which different things share."""
        return any(_PROPERTY.fullmatch(word.lower()) for word in _WORD.findall(self.name))


def number_pairs(
    finer: LabelCandidate, coarser: LabelCandidate, rows: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """A number for each pair of values in some rows, in their order; one number is sorted faster than two."""
    pairs: np.ndarray[Any, Any] = (
        finer.codes[rows].astype(np.int64) * len(coarser.texts) + coarser.codes[rows]
    )
    return pairs


def stray_values(finer: LabelCandidate, coarser: LabelCandidate) -> tuple[int, list[str]]:
    """Number of finer values in rows where both have a value, and the ones with several coarser values."""
    pairs = np.unique(number_pairs(finer, coarser, finer.known & coarser.known))
    values, counts = np.unique(pairs // len(coarser.texts), return_counts=True)
    return len(values), [finer.texts[code] for code in values[counts > 1].tolist()]


def lies_in(finer: LabelCandidate, coarser: LabelCandidate, gaps: Gaps | None = None) -> bool:
    """Whether each finer value, but for a few exceptions, occurs with one of the fewer coarser values.

    The coarser value may be missing where other rows with the finer one have it, and, if gaps are bridged, in
    a few further rows.
    """
    values, strays = stray_values(finer, coarser)
    rows = finer.known & coarser.known
    fewer = len(np.unique(coarser.codes[rows]))
    empty = (finer.codes >= 0) & (coarser.codes < 0)
    codes = dict(zip(finer.texts, range(len(finer.texts)), strict=True)) if strays else {}
    several = [codes[text] for text in strays]
    untold = empty & (~np.isin(finer.codes, finer.codes[rows]) | np.isin(finer.codes, several))
    most = _GAPS * len(empty) if gaps in ("placeholder", "skip") else 0
    if gaps == "error":
        untold = empty
    nests = len(strays) <= MOST_EXCEPTIONS * values and 1 < fewer < values < rows.sum()
    return nests and untold.sum() <= most and empty.sum() <= _GAPS * len(empty)


def is_below(column: LabelCandidate, base: LabelCandidate) -> bool:
    """Whether a column is called the finer one, `subcategory` beside `category`, and its values say so, too.

    Other columns need to have values that repeat.
    """
    letters = re.sub(r"[^a-z]", "", column.name.lower())
    values, strays = stray_values(column, base)
    known = (column.codes >= 0) & (base.codes < 0)
    return letters == f"sub{base.name.lower()}" and values > 1 and not strays and not known.any()


def repeats_below(column: LabelCandidate, base: LabelCandidate) -> bool:
    """Whether a column is called a kind of things, and divides most values of another by repeated names."""
    words = [word.lower() for word in _WORD.findall(column.name)]
    if not words or words[-1].removesuffix("s") not in _KINDS:
        return False
    pairs = np.unique(number_pairs(column, base, column.known & base.known))
    _, kinds = np.unique(pairs % len(base.texts), return_counts=True)
    return len(pairs) > len(column.texts) and 2 * (kinds > 1).sum() >= len(kinds) > 1


def label_candidates(table: DataTable, taken: Collection[str]) -> list[LabelCandidate]:
    columns = []
    for name in table.columns:
        if name in taken:
            continue
        try:
            columns.append(LabelCandidate(name, table.cells(name)))
        except DataError:  # lists and bytes are not labels
            continue
    return columns


def longest_chain(columns: list[LabelCandidate], gaps: Gaps | None = None) -> list[LabelCandidate]:
    """The longest chain of nested columns, coarse to fine; ties go to the one with the most values."""
    best: dict[str, list[LabelCandidate]] = {}
    ordered = sorted(columns, key=lambda column: len(column.texts))
    for column in ordered:
        above = [best[c.name] for c in ordered if c.name in best and lies_in(column, c, gaps)]
        best[column.name] = [*max(above, key=_size, default=[]), column]
    return max(best.values(), key=_size, default=[])


def _size(chain: list[LabelCandidate]) -> tuple[int, int]:
    return len(chain), sum(len(column.texts) for column in chain)


def note_vernacular(table: DataTable, taken: Collection[str]) -> list[str]:
    """A note on columns of everyday names, which are no levels."""
    left = [name for name in table.columns if name not in taken and is_vernacular(name)]
    verb = "holds" if len(left) == 1 else "hold"
    return [f"{some(left)} {verb} everyday names, and no level"] if left else []


def columns_setting(columns: list[str]) -> str:
    return f"--table.label_columns {shlex.quote(json.dumps(columns, ensure_ascii=False))}"
