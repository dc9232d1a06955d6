"""Find the columns of a table that hold its labels: by their names, as ranks, or because they nest."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.data.biology.rank_gaps import Gaps
from labeltree.data.images.decode import EXTENSIONS
from labeltree.data.table_columns import Cells, DataTable
from labeltree.data.tables.fill_down import fill_setting, find_outlined, outlined_words, repeat_codes
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.column_names import LABELS, PER_DEPTH, letters, usual_labels
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.placeholders import PLACEHOLDERS, REMAINDERS, plain_name
from labeltree.taxonomy.ranks import (
    RANKS,
    SURE,
    USUAL_RANKS,
    is_epithet,
    is_scientific_name,
    is_vernacular,
    rank_of,
)

__all__ = ["ZERO_OR_ONE", "LabelColumns", "find_label_columns", "flag_columns", "usual_label_columns"]

_MEASURED = re.compile(r"[-+]?\d[\d.,:/ eETZ%+-]*")  # numbers, dates, times
ZERO_OR_ONE = frozenset(("0", "1", "0.0", "1.0"))
"""The cells of columns of which each is a class."""
_FLAGS = {"yes", "no", "true", "false", "y", "n", "t", "f"}
# Columns with one of these words in their name give the origin of a sample, not its class.
_ORIGIN = re.compile(
    "id|ids|uid|uuid|guid|taxid|taxonid|tsn|aphiaid|key|index|number|patient|subject|person|lesion|user|author|customer|session|visit|"
    "encounter|slide|scan|study|series|camera|photographer|device|site|hospital|cent(re|er)|source|url|link|"
    "file|filename|path|date|time|year|month|day|sku|ean|barcode|lot|batch|fold|split|set|subset|partition|"
    "sex|gender|age|group"
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W_a-zA-Z]+")
# The last word of the name of a column whose values may be kinds of those of another.
_KINDS = {"type", "subtype", "kind", "category", "subcategory", "class", "subclass", "family", "variety"}
_LONG = 60  # characters; longer cells are texts
_NEARLY = 0.9
_SHOWN = 3  # rows that a note names
_EXCEPTIONS = 0.02  # share of the values that may lie in several values of a column with which they nest
_GAPS = 0.1  # share of the rows in which a column may be empty, if gaps are bridged
_HOMONYMS = 0.2  # share of the names of a rank that may lie in several taxa of a coarser one
_MANY_RANKS = 4  # with as many, a class or an order is one of organisms although some names stray
_FILLED = 0.5  # share of the rows in which a rank that is often left out must be given to be taken


@dataclass(frozen=True)
class LabelColumns:
    """The columns of the labels, coarse to fine, and sentences about possible alternatives."""

    columns: list[str]
    notes: tuple[str, ...] = ()


def usual_label_columns(table: DataTable) -> list[str]:
    """The columns whose names are those of labels, if no others are named."""
    usual = usual_labels(table.columns)
    return [name for name in table.columns if letters(name) in usual or PER_DEPTH.fullmatch(name) is not None]


def find_label_columns(
    table: DataTable,
    chosen: Sequence[str] | str | None,
    taken: Collection[str] = (),
    groups: Collection[str] = (),
    nest: bool = True,
    gaps: Gaps | None = None,
    spare: Collection[str] = (),
    taxonomy: Taxonomy | None = None,
) -> LabelColumns:
    """Find the columns of the labels: the chosen ones, or columns with a usual name.

    Numbered columns (`depth1`, `depth2`) form a label together, and so do the ranks of biological names
    (`kingdom` to `species`, as in Darwin Core). Otherwise the label is the first column with a usual
    name, and the columns that nest with it are further depths: each value of the finer column, but for a few
    exceptions, occurs with one value of the coarser one, which is empty only where other rows tell it.
    Numbers, dates, yes/no values, long texts, values that hardly ever repeat, columns named after an origin
    (`patient_id`), and columns finer than a column `label` are not labels unless they are chosen.

    Args:
        table: The table.
        chosen: Columns chosen by the user, coarse to fine; None = find them.
        taken: Columns with another purpose.
        groups: Columns in `taken` that hold groups; they may also be labels, if chosen.
        nest: Whether to look for columns that nest with the one that has the usual name.
        gaps: How gaps are bridged. If they are, a column with a few gaps may be a depth.
        spare: Columns in `taken` that may be labels, too, such as those that are kept with the samples: one
            with a usual name is the label if no other column is.
        taxonomy: The taxonomy of the labels, if it is known: without a column with a usual name, the columns
            of which every value is called so there are the labels.

    Raises:
        DataError: If there is no label column.
    """
    if isinstance(chosen, str):
        chosen = [chosen]
    if chosen is not None:
        if not chosen:
            raise DataError("label_columns is empty; it must name one column, or one per depth")
        names = [table.find(column) for column in chosen]
        return LabelColumns(names, _note_outlined(find_outlined(table, names)))
    numbered = {
        int(match[1]): column
        for column in table.columns
        if (match := PER_DEPTH.fullmatch(column)) is not None and column not in taken
    }
    if numbered:
        return LabelColumns([numbered[depth] for depth in sorted(numbered)])
    base = table.usual(LABELS, taken) or table.usual(LABELS, {*taken} - {*spare})
    if base is not None and rank_of(base) is None and _says_less_than_names(table, base, taken):
        base = None
    if base is None or rank_of(base) is not None or base.lower() == "cls":
        ranks = _ranks(table, taken, nest)
        if ranks is not None:
            return ranks
    if base is None:
        names = [c for c in table.columns if (is_scientific_name(c) or rank_of(c) == "species")]
        base = next((column for column in names if column not in taken), None)
    if base is None:
        base = table.usual(usual_labels(table.columns), taken)
        base = None if base is not None and _is_measure(table, base) else base
    if base is None and taxonomy is not None and (chain := _named_in(table, taken, taxonomy)):
        said = "the column" if len(chain) == 1 else "the columns"
        note = f"{said} {' > '.join(chain)} {'is' if len(chain) == 1 else 'are'} read as labels"
        return LabelColumns(chain, (f"{note}: all values are names in the taxonomy",))
    if base is None:
        raise _no_label(table, taken, groups)
    if not nest:
        return LabelColumns([base], _note_outlined(find_outlined(table, [base])))
    return _find_nested(table, base, taken, groups, gaps)


def _named_in(table: DataTable, taken: Collection[str], taxonomy: Taxonomy) -> list[str]:
    """The longest chain of columns whose values are names in a taxonomy; its finest, if that is enough."""
    columns = [
        column
        for column in _candidates(table, taken)
        if all(taxonomy.candidates(text) for text in column.texts if plain_name(text) not in PLACEHOLDERS)
        and any(map(taxonomy.candidates, column.texts))
    ]
    chain = _longest(columns)
    if chain and all(len(taxonomy.candidates(text)) == 1 for text in chain[-1].texts):
        chain = chain[-1:]
    return [column.name for column in chain]


def _are_of_organisms(by_rank: Mapping[str, _Column]) -> bool:
    """Whether columns are surely ranks; `class`, `order`, `family` or `species` alone may not be."""
    names = [column.name for column in by_rank.values()]
    if SURE & set(by_rank) or any(is_scientific_name(name) or is_epithet(name) for name in names):
        return True
    return {"family", "species"} <= set(by_rank) and ("order" in by_rank or "class" not in by_rank)


def _is_needed(column: _Column, chain: Sequence[_Column]) -> bool:
    """Whether a rank is the finest one, or the name that an epithet follows."""
    finer = chain[chain.index(column) + 1 :]
    return not finer or is_epithet(finer[0].name)


def _says_less_than_names(table: DataTable, base: str, taken: Collection[str]) -> bool:
    """Whether a column with a usual name has one value, in a table of species: the kind of its records."""
    named = any(is_scientific_name(name) or rank_of(name) for name in table.columns if name not in taken)
    return named and not table.holds_lists(base) and table.num_rows > 1 and len(table.cells(base).texts) == 1


def _is_measure(table: DataTable, column: str) -> bool:
    """Whether a column holds numbers with decimals, as the target of a regression does."""
    texts = [] if table.holds_lists(column) else table.cells(column).texts
    numbers = all(map(_MEASURED.fullmatch, texts))
    return numbers and any("." in text and not text.endswith(".0") for text in texts)


def _ranks(table: DataTable, taken: Collection[str], nest: bool) -> LabelColumns | None:
    """The columns that are ranks, coarse to fine; None if there are not two, or they mean something else.

    A column `class` that holds names of species, beside a column `cls` of classes, is the finest label.
    """
    column_of: dict[str, _Column] = {}
    label: _Column | None = None
    for name in table.columns:
        rank = rank_of(name) or ("species" if is_scientific_name(name) else None)
        rank = "class" if name.lower() == "cls" else rank
        if rank is None or name in taken:
            continue
        try:
            column = _Column(name, table.cells(name))
        except DataError:
            continue
        known = column_of.get(rank)
        if known is not None and rank == "class" and "cls" in (name.lower(), known.name.lower()):
            column_of[rank], label = (column, known) if name.lower() == "cls" else (known, column)
            continue
        better = known is None or _preference(name) < _preference(known.name)
        if (column.texts or not table.num_rows) and better:
            column_of[rank] = column
    notes: list[str] = []
    if label is not None:
        notes += _place_label(column_of, label)
    elif "class" in column_of and column_of["class"].name.lower() == "cls" and not _is_class(column_of):
        return None
    if len(column_of) < 2 or not _are_of_organisms(column_of):
        return None
    by_rank = {rank: column_of[rank] for rank in RANKS if rank in column_of}
    chain = list(by_rank.values())
    if not table.num_rows:
        return LabelColumns([column.name for column in chain])
    for coarser, finer in itertools.combinations(chain, 2):
        values, strays = _strays(finer, coarser)
        doubtful = rank_of(coarser.name) in ("class", "order") and len(chain) < _MANY_RANKS
        most = _EXCEPTIONS * values if doubtful else 1 + _HOMONYMS * values
        if len(strays) > most and not is_epithet(finer.name):
            return None
    kept: list[_Column] = []
    total = np.count_nonzero(np.any([column.codes >= 0 for column in chain], axis=0))
    for rank, column in by_rank.items():
        given = np.count_nonzero(column.codes >= 0)
        if rank not in USUAL_RANKS and given < _FILLED * total:
            notes.append(
                f"the rank '{column.name}' is given in {given:,} of {total:,} rows and was not taken"
            )
        elif nest and not kept and len(column.texts) == 1 and not _is_needed(column, chain):
            notes.append(f"the rank '{column.name}' is always '{column.texts[0]}' and was not taken")
        else:
            kept.append(column)
    kept = kept or [next((by_rank[rank] for rank in reversed(by_rank) if rank in USUAL_RANKS), chain[-1])]
    names = [column.name for column in kept]
    notes.insert(
        0,
        f"the columns {' > '.join(names)} are ranks, so they are the depths of the labels; for others, set "
        f"{_setting([names[-1]])}",
    )
    notes += _note_vernacular(table, {*taken, *names})
    return LabelColumns(names, (*notes, *_note_individuals(table, taken)))


def _is_class(column_of: Mapping[str, _Column]) -> bool:
    """Whether the column taken for the class is one: each finer name lies in one of its fewer values."""
    coarser = column_of["class"]
    if all(_MEASURED.fullmatch(text) for text in coarser.texts):
        return False
    finer = [column_of[rank] for rank in RANKS[RANKS.index("class") + 1 :] if rank in column_of]
    for column in finer:
        values, strays = _strays(column, coarser)
        rows = column.known & coarser.known
        if not is_epithet(column.name) and (
            len(strays) > 1 + _HOMONYMS * values or len(np.unique(coarser.codes[rows])) > values
        ):
            return False
    return bool(finer)


def _place_label(column_of: dict[str, _Column], label: _Column) -> list[str]:
    """Put `cls` and `class`, of which one is the class, into the columns by rank; sentences on the other."""
    cls = column_of["class"]
    if not _is_class(column_of):  # `cls` may be a number
        column_of["class"] = label
        return [f"the column '{cls.name}' was not taken: its values are not classes of organisms"]
    fits = _is_class({**column_of, "class": label})
    above = next((column_of[rank] for rank in RANKS[::-1] if rank in column_of and rank != "species"), cls)
    values, strays = _strays(label, above)
    if fits or len(strays) > _EXCEPTIONS * values:
        return [f"the column '{label.name}' was not taken: '{cls.name}' is the class"]
    other = column_of.pop("species", None)
    column_of.pop("subspecies", None)
    column_of["species"] = label
    told = f"'{cls.name}' is the class of organisms, and '{label.name}' the finest label"
    return [told if other is None else f"{told}, in place of '{other.name}'"]


def _note_vernacular(table: DataTable, taken: Collection[str]) -> list[str]:
    """A note on columns of everyday names, which are no levels."""
    left = [name for name in table.columns if name not in taken and is_vernacular(name)]
    verb = "holds" if len(left) == 1 else "hold"
    return [f"{some(left)} {verb} everyday names, and no level"] if left else []


def _preference(column: str) -> int:
    """Of several columns of one rank, the first is taken that is not empty: names, epithets, others."""
    return 2 if is_scientific_name(column) else int(is_epithet(column))


def _note_individuals(table: DataTable, taken: Collection[str]) -> list[str]:
    """Notes on Darwin Core's columns whose rows may show one individual or one visit."""
    notes = []
    for column in table.columns:
        kind = column.lower()
        if column in taken or kind not in ("individualid", "organismid", "occurrenceid", "recordedby"):
            continue
        codes = table.cells(column).codes
        if not np.any(np.bincount(codes[codes >= 0], minlength=1) > 1):
            continue
        what = "come from one person, often from one visit" if kind == "recordedby" else "show one individual"
        notes.append(
            f"if rows with equal '{column}' {what}, keep them together with --table.group_column {column}"
        )
    return notes


class _Column:
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
            and not all(_MEASURED.fullmatch(text) for text in texts)
            and not {text.lower() for text in texts} <= _FLAGS
            and sum(map(len, texts)) <= _LONG * len(texts)
            and not any(Path(text).suffix.lower() in EXTENSIONS for text in texts[:20])
        )

    @property
    def is_origin(self) -> bool:
        """Whether the name of the column stands for the origin of a sample."""
        return any(_ORIGIN.fullmatch(word.lower()) for word in _WORD.findall(self.name))


def _number_pairs(finer: _Column, coarser: _Column, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A number for each pair of values in some rows, in their order; one number is sorted faster than two."""
    pairs: np.ndarray[Any, Any] = (
        finer.codes[rows].astype(np.int64) * len(coarser.texts) + coarser.codes[rows]
    )
    return pairs


def _strays(finer: _Column, coarser: _Column) -> tuple[int, list[str]]:
    """Number of finer values in rows where both have a value, and the ones with several coarser values."""
    pairs = np.unique(_number_pairs(finer, coarser, finer.known & coarser.known))
    values, counts = np.unique(pairs // len(coarser.texts), return_counts=True)
    return len(values), [finer.texts[code] for code in values[counts > 1].tolist()]


def _lies_in(finer: _Column, coarser: _Column, gaps: Gaps | None = None) -> bool:
    """Whether each finer value, but for a few exceptions, occurs with one of the fewer coarser values.

    The coarser value may be missing where other rows with the finer one have it, and, if gaps are bridged, in
    a few further rows.
    """
    values, strays = _strays(finer, coarser)
    rows = finer.known & coarser.known
    fewer = len(np.unique(coarser.codes[rows]))
    empty = (finer.codes >= 0) & (coarser.codes < 0)
    codes = dict(zip(finer.texts, range(len(finer.texts)), strict=True)) if strays else {}
    several = [codes[text] for text in strays]
    untold = empty & (~np.isin(finer.codes, finer.codes[rows]) | np.isin(finer.codes, several))
    most = _GAPS * len(empty) if gaps in ("placeholder", "skip") else 0
    if gaps == "error":
        untold = empty
    nests = len(strays) <= _EXCEPTIONS * values and 1 < fewer < values < rows.sum()
    return nests and untold.sum() <= most and empty.sum() <= _GAPS * len(empty)


def _is_below(column: _Column, base: _Column) -> bool:
    """Whether a column is called the finer one, `subcategory` beside `category`, and its values say so, too.

    Other columns need to have values that repeat.
    """
    letters = re.sub(r"[^a-z]", "", column.name.lower())
    values, strays = _strays(column, base)
    known = (column.codes >= 0) & (base.codes < 0)
    return letters == f"sub{base.name.lower()}" and values > 1 and not strays and not known.any()


def _repeats_below(column: _Column, base: _Column) -> bool:
    """Whether a column is called a kind of things, and divides most values of another by repeated names."""
    words = [word.lower() for word in _WORD.findall(column.name)]
    if not words or words[-1].removesuffix("s") not in _KINDS:
        return False
    pairs = np.unique(_number_pairs(column, base, column.known & base.known))
    _, kinds = np.unique(pairs % len(base.texts), return_counts=True)
    return len(pairs) > len(column.texts) and 2 * (kinds > 1).sum() >= len(kinds) > 1


def _candidates(table: DataTable, taken: Collection[str]) -> list[_Column]:
    columns = []
    for name in table.columns:
        if name in taken:
            continue
        try:
            columns.append(_Column(name, table.cells(name)))
        except DataError:  # lists and bytes are not labels
            continue
    return columns


def _find_nested(
    table: DataTable, base_name: str, taken: Collection[str], groups: Collection[str], gaps: Gaps | None
) -> LabelColumns:
    columns = _candidates(table, {*taken} - {base_name})
    base = next((column for column in columns if column.name == base_name), None)
    if base is None:  # unreadable: the error is raised when its labels are read
        return LabelColumns([base_name])
    below = [column for column in columns if _is_below(column, base)]
    able = [
        column
        for column in columns
        if column is not base
        and (column.is_label or column in below)
        and not column.is_origin
        and not is_vernacular(column.name)
    ]
    coarser = [column for column in able if _lies_in(base, column, gaps)]
    finer = [column for column in able if column in below or _lies_in(column, base, gaps)]
    may_be_finer = [] if base_name.lower() == "label" else finer
    chain = [*_longest(coarser, gaps), base, *_longest(may_be_finer, gaps)]
    names = [column.name for column in chain]
    notes = []
    if len(chain) > 1:
        notes.append(
            f"the columns {' > '.join(names)} nest: each value of one lies in one value of the column before "
            f"it, so they are the depths of the labels; for others, set {_setting([base_name])}"
        )
        notes += [_exceptions(c, f) for c, f in itertools.pairwise(chain) if _strays(f, c)[1]]
    notes += [
        f"the column '{column.name}' was not taken, as values of it occur below several of '{names[-1]}'; if "
        f"they are kinds of these, set {_setting([*names, column.name])}"
        for column in able
        if column not in [*coarser, *finer, *chain] and _repeats_below(column, chain[-1])
    ]
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
    notes += _nearly_nested(table, base, [c for c in able if c not in coarser and c not in finer], chain)
    notes += _outlined_beside(table, base, columns, chain)
    notes += _like_groups(base, columns)
    notes += _note_vernacular(table, {*taken, *names})
    return LabelColumns(names, tuple(notes))


def _exceptions(coarser: _Column, finer: _Column) -> str:
    strays = _strays(finer, coarser)[1]
    return (
        f"{some(strays, 3)} of '{finer.name}' lie{'s' * (len(strays) == 1)} in several values of "
        f"'{coarser.name}', and stay apart there as different classes"
    )


def _longest(columns: list[_Column], gaps: Gaps | None = None) -> list[_Column]:
    """The longest chain of nested columns, coarse to fine; ties go to the one with the most values."""
    best: dict[str, list[_Column]] = {}
    ordered = sorted(columns, key=lambda column: len(column.texts))
    for column in ordered:
        above = [best[c.name] for c in ordered if c.name in best and _lies_in(column, c, gaps)]
        best[column.name] = [*max(above, key=_size, default=[]), column]
    return max(best.values(), key=_size, default=[])


def _size(chain: list[_Column]) -> tuple[int, int]:
    return len(chain), sum(len(column.texts) for column in chain)


def _outlined_beside(
    table: DataTable, base: _Column, columns: list[_Column], chain: list[_Column]
) -> list[str]:
    """A note on columns that nest if their empty cells mean the value above."""
    outlined = {*find_outlined(table, [column.name for column in columns if not column.is_origin])}
    filled = {
        column.name: _Column(column.name, Cells(column.texts, repeat_codes(column.codes)))
        if column.name in outlined
        else column
        for column in columns
    }
    whole = filled[base.name]
    others = [column for name, column in filled.items() if name != base.name and len(column.texts) > 1]
    coarser = [column for column in others if _lies_in(whole, column)]
    finer = [column for column in others if _lies_in(column, whole) and column.is_label]
    below = [] if base.name.lower() == "label" else _longest(finer)
    names = [column.name for column in (*_longest(coarser), whole, *below)]
    empty = [name for name in names if name in outlined]
    labels = [] if names == [column.name for column in chain] else names
    return list(_note_outlined(empty, labels))


def _note_outlined(columns: Sequence[str], labels: Sequence[str] = ()) -> tuple[str, ...]:
    """A note on columns whose empty cells may mean the value above, and on the labels that they then make."""
    if not columns:
        return ()
    settings = fill_setting(columns) + (f" {_setting(list(labels))}" if labels else "")
    return (f"{outlined_words(columns)}; if an empty cell means the value above it, set {settings}",)


def _stray_rows(finer: _Column, coarser: _Column) -> np.ndarray[Any, Any]:
    """The rows in which a finer value is not below the coarser one that it is below in most rows."""
    rows = np.flatnonzero(finer.known & coarser.known)
    pairs, index, counts = np.unique(
        _number_pairs(finer, coarser, rows), return_inverse=True, return_counts=True
    )
    values = pairs // len(coarser.texts)
    order = np.lexsort((pairs, -counts, values))  # of several that are as frequent, the first
    usual = np.zeros(len(counts), bool)
    usual[order[np.unique(values[order], return_index=True)[1]]] = True
    strays: np.ndarray[Any, Any] = rows[~usual[index.reshape(-1)]]
    return strays


def _tell_strays(table: DataTable, finer: _Column, coarser: _Column, strays: np.ndarray[Any, Any]) -> str:
    """Which rows keep two columns from nesting, and how the values lie in all others."""
    told = []
    for row in strays[:_SHOWN].tolist():
        name = finer.texts[finer.codes[row]]
        with_name = (finer.codes == finer.codes[row]) & coarser.known
        most = int(np.bincount(coarser.codes[with_name]).argmax())
        others = int((with_name & (coarser.codes == most)).sum())
        told.append(
            f"{table.place(row)} has {name!r} in {coarser.texts[coarser.codes[row]]!r}, {others:,} "
            f"other{'s have' if others > 1 else ' has'} it in {coarser.texts[most]!r}"
        )
    more = f", and {len(strays) - _SHOWN:,} more such rows" if len(strays) > _SHOWN else ""
    return f"{'; '.join(told)}{more}"


def _nearly_nested(
    table: DataTable, base: _Column, columns: list[_Column], chain: list[_Column]
) -> list[str]:
    """Notes on columns that would nest except for a few values, rows or empty cells."""
    notes = []
    for column in columns:
        for finer, coarser in ((base, column), (column, base)):
            values, strays = _strays(finer, coarser)
            fewer = len(np.unique(coarser.codes[finer.known & coarser.known]))
            if not 1 < fewer < values:
                continue
            rows = _stray_rows(finer, coarser)
            few = len(rows) <= max(1, _EXCEPTIONS * np.count_nonzero(finer.known & coarser.known))
            if len(strays) > (1 - _NEARLY) * values and not few:
                continue
            gaps = int(((finer.codes >= 0) & (coarser.codes < 0)).sum())
            if _lies_in(finer, coarser):
                continue
            why = (
                f"{some(strays, 3)} lie{'s' * (len(strays) == 1)} in several of its values" if strays else ""
            )
            if gaps:
                why = f"'{coarser.name}' is empty in {gaps:,} rows where '{finer.name}' is not"
            setting = _setting(_insert_column(chain, column))
            if strays and few and not gaps:
                notes.append(
                    f"the column '{column.name}' is not a level of the labels, because of {len(rows):,} "
                    f"row{'s' * (len(rows) != 1)}: {_tell_strays(table, finer, coarser, rows)}. Correct "
                    f"{'it' if len(rows) == 1 else 'them'}, or take the column as it is with {setting}"
                )
            elif why:
                notes.append(
                    f"the column '{column.name}' was not taken as labels: '{finer.name}' nearly nests in "
                    f"'{coarser.name}', but {why}; to take it, set {setting}"
                )
    return notes


def _insert_column(chain: list[_Column], column: _Column) -> list[str]:
    """The names of the depths that are taken, and of a further one among them, coarse to fine."""
    return [each.name for each in sorted([*chain, column], key=lambda each: len(each.texts))]


def _like_groups(base: _Column, columns: list[_Column]) -> list[str]:
    """Notes on columns such as `patient_id`, of which each value has one label and may be a group."""
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


def _foldered_column(table: DataTable) -> str | None:
    """A column of the paths of images, of which each lies in a folder."""
    for name in table.columns:
        texts = [] if table.holds_lists(name) or table.holds_numbers(name) else table.head(name)[:20]
        if texts and all("/" in text and Path(text).suffix.lower() in EXTENSIONS for text in texts):
            return name
    return None


def flag_columns(table: DataTable, columns: Sequence[str]) -> list[str]:
    """Those columns of which all cells are 0 or 1, each of which may be a class."""
    flags = []
    for name in columns:
        try:
            texts = table.cells(name).texts
        except DataError:  # lists and bytes
            continue
        if texts and {*texts} <= ZERO_OR_ONE and PER_DEPTH.fullmatch(name) is None:
            flags.append(name)
    return flags


def _setting(columns: list[str]) -> str:
    return f"--table.label_columns {shlex.quote(json.dumps(columns, ensure_ascii=False))}"


def _no_label(table: DataTable, taken: Collection[str], groups: Collection[str]) -> DataError:
    able = [
        column
        for column in _candidates(table, taken)
        if column.is_label and not column.is_origin and not is_vernacular(column.name)
    ]
    chain = [column.name for column in _longest(able)]
    flags = flag_columns(table, [name for name in table.columns if name not in taken])
    usual = usual_labels(table.columns)
    advice = f"name one as label_columns, or several, coarse to fine: {_setting(['family', 'species'])}"
    if (spoken_for := table.usual(usual)) is not None and spoken_for in taken:
        advice = f"'{spoken_for}' is named for something else: if it is the label, too, set "
        advice += _setting([spoken_for])
    elif len(chain) > 1:
        advice = f"{' > '.join(chain)} nest: if they are the labels, set {_setting(chain)}"
    elif len(flags) > 1:
        advice = f"{some(flags, 3)} are 0 or 1: if each is a class, set {_setting(flags)}"
    elif not able and (folders := _foldered_column(table)) is not None:
        advice = f"if the folders in '{folders}' are the labels, give that folder itself instead of the table"
    elif able:
        advice = (
            f"name one as label_columns: if '{able[0].name}' is the label, set {_setting([able[0].name])}"
        )
        advice += f" ({some([column.name for column in able[1:]])} could be, too)" if able[1:] else ""
    elif of_groups := [c.name for c in _candidates(table, {*table.columns} - {*groups}) if c.is_label]:
        advice = f"if '{of_groups[0]}', taken as the groups, is the label, set {_setting(of_groups[:1])}"
    if (measured := table.usual(usual, taken)) is not None and _is_measure(table, measured):
        advice = f"'{measured}' holds numbers with decimals, which are no classes; {advice}"
        usual = tuple(name for name in usual if name != letters(measured))
    return DataError(
        f"{table} has no column for labels that is known by its name ({', '.join(usual)}); "
        f"it has {', '.join(table.columns)}: {advice}{table.label_hint}"
    )
