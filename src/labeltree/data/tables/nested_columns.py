"""Columns that nest with the one that has the labels, and notes on those that nearly do."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from labeltree.counted_nouns import say_count
from labeltree.data.biology.rank_gaps import Gaps
from labeltree.data.names.cleaning import folded
from labeltree.data.table_columns import Cells, DataTable
from labeltree.data.tables.fill_down import fill_setting, find_outlined, outlined_words, repeat_codes
from labeltree.data.tables.label_candidates import (
    MOST_EXCEPTIONS,
    LabelCandidate,
    LabelColumns,
    columns_setting,
    is_below,
    label_candidates,
    lies_in,
    longest_chain,
    note_vernacular,
    number_pairs,
    repeats_below,
    stray_values,
)
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.ranks import is_vernacular

__all__ = ["find_nested", "note_outlined", "propose_levels"]

_NEARLY = 0.9
_SHOWN = 3  # rows that a note names
_MISTAKES = 0.05  # share of the rows that may keep a column from being proposed as a level, and is told


def find_nested(
    table: DataTable, base_name: str, taken: Collection[str], groups: Collection[str], gaps: Gaps | None
) -> LabelColumns:
    columns = label_candidates(table, {*taken} - {base_name})
    base = next((column for column in columns if column.name == base_name), None)
    if base is None:  # unreadable: the error is raised when its labels are read
        return LabelColumns([base_name])
    below = [column for column in columns if is_below(column, base)]
    able = [
        column
        for column in columns
        if column is not base
        and (column.is_label or column in below)
        and not column.is_origin
        and not is_vernacular(column.name)
    ]
    coarser = [column for column in able if lies_in(base, column, gaps)]
    finer = [column for column in able if column in below or lies_in(column, base, gaps)]
    may_be_finer = [] if base_name.lower() == "label" else finer
    chain = [*longest_chain(coarser, gaps), base, *longest_chain(may_be_finer, gaps)]
    names = [column.name for column in chain]
    nearly = _nearly_nested(table, base, [c for c in able if c not in coarser and c not in finer], chain)
    told = {column.name for column, _ in nearly}
    notes = []
    if len(chain) > 1:
        notes.append(
            f"the columns {' > '.join(names)} nest: each value of one lies in one value of the column before "
            f"it, so they are the depths of the labels; for others, set {columns_setting([base_name])}"
        )
        notes += [_exceptions(c, f) for c, f in itertools.pairwise(chain) if stray_values(f, c)[1]]
    notes += [
        f"the column '{column.name}' was not taken, as values of it occur below several of '{names[-1]}'; if "
        f"they are kinds of these, set {columns_setting([*names, column.name])}"
        for column in able
        if column.name not in told
        and column not in [*coarser, *finer, *chain]
        and repeats_below(column, chain[-1])
    ]
    left = [column for column in [*coarser, *finer] if column not in chain]
    for column in left:
        other = [
            *longest_chain([c for c in coarser if c is column or lies_in(c, column) or lies_in(column, c)])
        ]
        other += [
            base,
            *longest_chain([c for c in finer if c is column or lies_in(c, column) or lies_in(column, c)]),
        ]
        notes.append(
            f"the column '{column.name}' nests with '{base_name}', too, but was not taken; to take it, set "
            f"{columns_setting([c.name for c in other])}"
        )
    for column in label_candidates(table, set(table.columns) - set(groups)):
        if lies_in(column, chain[-1]) and not column.is_origin:
            notes.append(
                f"each value of '{column.name}', the column of groups, has one label; if its values are "
                f"classes, too, set {columns_setting([*names, column.name])}"
            )
    notes += [note for _, note in nearly]
    notes += _outlined_beside(table, base, columns, chain)
    notes += _like_groups(base, columns)
    notes += note_vernacular(table, {*taken, *names})
    return LabelColumns(names, tuple(notes))


def propose_levels(table: DataTable, columns: list[LabelCandidate]) -> tuple[str | None, list[str]]:
    """What to set if the columns that nest are the labels, None if none nest, and what nests nearly.

    Where more of them nest if case and blanks make no difference, these are proposed, with the setting that
    reads names so. Columns that nest but for a few rows are named, with the first of these rows.
    """
    chain = longest_chain(columns)
    alike = {column.name: _without_case(column) for column in columns}
    plain = [alike[column.name] for column in longest_chain(list(alike.values()))]
    nest, setting = "nest", ""
    if len(plain) > len(chain):
        chain, nest, setting = plain, "nest, but for case and blanks", " --table.names plain"
    names = [column.name for column in chain]
    said = f"{' > '.join(names)} {nest}: if they are the labels, set {columns_setting(names)}{setting}"
    nearly = _levels_but_for_rows(table, [*alike.values()], chain, setting)
    return said if len(chain) > 1 else None, nearly


def _without_case(column: LabelCandidate) -> LabelCandidate:
    """A column whose spellings of a name that differ in case or blanks are the first of them."""
    first: dict[str, int] = {}
    texts: list[str] = []
    codes = []
    for text in column.texts:
        key = folded(text)
        if key not in first:
            first[key] = len(texts)
            texts.append(text)
        codes.append(first[key])
    return LabelCandidate(column.name, Cells(texts, np.array([*codes, -1])[column.codes]))


def _levels_but_for_rows(
    table: DataTable, columns: list[LabelCandidate], chain: list[LabelCandidate], setting: str
) -> list[str]:
    """Sentences on columns that would be further levels of a chain but for a few rows."""
    told = []
    names = [column.name for column in chain]
    for column in columns:
        if column.name in names:
            continue
        levels = sorted([*chain, column], key=lambda each: len(each.texts))
        place = levels.index(column)
        pairs = itertools.pairwise(levels[max(0, place - 1) : place + 2])
        rows = [(c, f, _stray_rows(f, c)) for c, f in pairs]
        if any(len(c.texts) == len(f.texts) for c, f, _ in rows):
            continue
        if any(len(strays) > _MISTAKES * np.count_nonzero(f.known & c.known) for c, f, strays in rows):
            continue
        coarser, finer, strays = max(rows, key=lambda pair: len(pair[2]))
        if len(strays):
            told.append(
                f"'{column.name}' would be a level with {some(names)} but for "
                f"{say_count(len(strays), 'row')}: {_tell_strays(table, finer, coarser, strays, 1)}; correct "
                f"{'it' if len(strays) == 1 else 'them'}, or take the column as it is with "
                f"{columns_setting([each.name for each in levels])}{setting}"
            )
    return told


def _exceptions(coarser: LabelCandidate, finer: LabelCandidate) -> str:
    strays = stray_values(finer, coarser)[1]
    return (
        f"{some(strays, 3)} of '{finer.name}' lie{'s' * (len(strays) == 1)} in several values of "
        f"'{coarser.name}', and stay apart there as different classes"
    )


def _outlined_beside(
    table: DataTable, base: LabelCandidate, columns: list[LabelCandidate], chain: list[LabelCandidate]
) -> list[str]:
    """A note on columns that nest if their empty cells mean the value above."""
    outlined = {*find_outlined(table, [column.name for column in columns if not column.is_origin])}
    filled = {
        column.name: LabelCandidate(column.name, Cells(column.texts, repeat_codes(column.codes)))
        if column.name in outlined
        else column
        for column in columns
    }
    whole = filled[base.name]
    others = [column for name, column in filled.items() if name != base.name and len(column.texts) > 1]
    coarser = [column for column in others if lies_in(whole, column)]
    finer = [column for column in others if lies_in(column, whole) and column.is_label]
    below = [] if base.name.lower() == "label" else longest_chain(finer)
    names = [column.name for column in (*longest_chain(coarser), whole, *below)]
    empty = [name for name in names if name in outlined]
    labels = [] if names == [column.name for column in chain] else names
    return list(note_outlined(empty, labels))


def note_outlined(columns: Sequence[str], labels: Sequence[str] = ()) -> tuple[str, ...]:
    """A note on columns whose empty cells may mean the value above, and on the labels that they then make."""
    if not columns:
        return ()
    settings = fill_setting(columns) + (f" {columns_setting(list(labels))}" if labels else "")
    return (f"{outlined_words(columns)}; if an empty cell means the value above it, set {settings}",)


def _stray_rows(finer: LabelCandidate, coarser: LabelCandidate) -> np.ndarray[Any, Any]:
    """The rows in which a finer value is not below the coarser one that it is below in most rows."""
    rows = np.flatnonzero(finer.known & coarser.known)
    pairs, index, counts = np.unique(
        number_pairs(finer, coarser, rows), return_inverse=True, return_counts=True
    )
    values = pairs // len(coarser.texts)
    order = np.lexsort((pairs, -counts, values))  # of several that are as frequent, the first
    usual = np.zeros(len(counts), bool)
    usual[order[np.unique(values[order], return_index=True)[1]]] = True
    strays: np.ndarray[Any, Any] = rows[~usual[index.reshape(-1)]]
    return strays


def _tell_strays(
    table: DataTable,
    finer: LabelCandidate,
    coarser: LabelCandidate,
    strays: np.ndarray[Any, Any],
    shown: int = _SHOWN,
) -> str:
    """Which rows keep two columns from nesting, and the first of those in which the values lie as usual."""
    told = []
    for row in strays[:shown].tolist():
        name = finer.texts[finer.codes[row]]
        with_name = (finer.codes == finer.codes[row]) & coarser.known
        most = int(np.bincount(coarser.codes[with_name]).argmax())
        usual = np.flatnonzero(with_name & (coarser.codes == most))
        others = f" and {say_count(len(usual) - 1, 'other')}" if len(usual) > 1 else ""
        told.append(
            f"{table.place(row)} has {name!r} in {coarser.texts[coarser.codes[row]]!r}, "
            f"{table.place(int(usual[0]))}{others} in {coarser.texts[most]!r}"
        )
    more = f", and {say_count(len(strays) - shown, 'more such row')}" if len(strays) > shown else ""
    return f"{'; '.join(told)}{more}"


def _few_rows(rows: np.ndarray[Any, Any], finer: LabelCandidate, coarser: LabelCandidate) -> bool:
    """Whether so few of the rows of two columns keep them from nesting that these may be mistakes."""
    return len(rows) <= max(1, MOST_EXCEPTIONS * np.count_nonzero(finer.known & coarser.known))


def _nearly_nested(
    table: DataTable, base: LabelCandidate, columns: list[LabelCandidate], chain: list[LabelCandidate]
) -> list[tuple[LabelCandidate, str]]:
    """Columns that would nest except for a few values, rows or empty cells, and a note on each.

    Where one above the labels and one below them would nest but for a few rows, both notes take both.
    """
    notes = []
    above = [c for c in columns if len(c.texts) < len(base.texts)]
    below = [c for c in columns if len(c.texts) > len(base.texts)]

    def few(finer: LabelCandidate, coarser: LabelCandidate) -> bool:
        return _few_rows(_stray_rows(finer, coarser), finer, coarser)

    def take(column: LabelCandidate) -> str:
        finer = [c for c in ([column] if column in below else below) if few(c, base)]
        coarser = [c for c in ([column] if column in above else above) if c.is_level or few(base, c)]
        pairs = [(c, f) for c in coarser for f in finer if column in (c, f) and few(f, c)]
        return columns_setting(_insert_columns(chain, pairs[0] if len(pairs) == 1 else (column,)))

    for column in columns:
        for finer, coarser in ((base, column), (column, base)):
            values, strays = stray_values(finer, coarser)
            fewer = len(np.unique(coarser.codes[finer.known & coarser.known]))
            if not 1 < fewer < values:
                continue
            rows = _stray_rows(finer, coarser)
            is_few = _few_rows(rows, finer, coarser)
            if len(strays) > (1 - _NEARLY) * values and not is_few:
                if finer is base and column.is_level and not repeats_below(column, chain[-1]):
                    said = (
                        f"the column '{column.name}' is another classification than '{base.name}', of which "
                        f"{len(strays):,} of {values:,} values lie in several of its values: "
                        f"{_tell_strays(table, finer, coarser, rows, 1)}. If they are other classes there, "
                        f"take it as a level with {take(column)}"
                    )
                    notes.append((column, said))
                continue
            gaps = int(((finer.codes >= 0) & (coarser.codes < 0)).sum())
            if lies_in(finer, coarser):
                continue
            why = (
                f"{some(strays, 3)} lie{'s' * (len(strays) == 1)} in several of its values "
                f"({_tell_strays(table, finer, coarser, rows, 1)})"
                if strays
                else ""
            )
            if gaps:
                why = f"'{coarser.name}' is empty in {gaps:,} rows where '{finer.name}' is not"
            if strays and is_few and not gaps:
                said = (
                    f"the column '{column.name}' is not a level of the labels, because of {len(rows):,} "
                    f"row{'s' * (len(rows) != 1)}: {_tell_strays(table, finer, coarser, rows)}. Correct "
                    f"{'it' if len(rows) == 1 else 'them'}, or take the column as it is with {take(column)}"
                )
                notes.append((column, said))
            elif why:
                said = (
                    f"the column '{column.name}' was not taken as labels: '{finer.name}' nearly nests in "
                    f"'{coarser.name}', but {why}; to take it, set "
                    f"{columns_setting(_insert_columns(chain, [column]))}"
                )
                notes.append((column, said))
    return notes


def _insert_columns(chain: list[LabelCandidate], columns: Sequence[LabelCandidate]) -> list[str]:
    """The names of the depths that are taken, and of further ones among them, coarse to fine."""
    return [each.name for each in sorted([*chain, *columns], key=lambda each: len(each.texts))]


def _like_groups(base: LabelCandidate, columns: list[LabelCandidate]) -> list[str]:
    """Notes on columns such as `patient_id`, of which each value has one label and may be a group."""
    notes = []
    for column in columns:
        counts = np.bincount(column.codes[column.codes >= 0], minlength=1)
        repeated = 2 * counts[counts > 1].sum() >= counts.sum() and len(column.texts) > len(base.texts)
        if column is not base and column.is_origin and not column.is_property and repeated:
            notes.append(
                f"if rows with equal '{column.name}' show one thing, keep them together with "
                f"--table.group_column {shlex.quote(column.name)}"
            )
    return notes
