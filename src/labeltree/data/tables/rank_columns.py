"""The columns of a table that are ranks of organisms, as in Darwin Core."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from labeltree.data.table_columns import DataTable
from labeltree.data.tables.label_candidates import (
    MEASURED,
    MOST_EXCEPTIONS,
    LabelCandidate,
    LabelColumns,
    columns_setting,
    note_vernacular,
    stray_values,
)
from labeltree.errors import DataError
from labeltree.taxonomy.ranks import RANKS, SURE, USUAL_RANKS, is_epithet, is_scientific_name, rank_of

__all__ = ["find_ranks"]

_HOMONYMS = 0.2  # share of the names of a rank that may lie in several taxa of a coarser one
_MANY_RANKS = 4  # with as many, a class or an order is one of organisms although some names stray
_FILLED = 0.5  # share of the rows in which a rank that is often left out must be given to be taken


def find_ranks(table: DataTable, taken: Collection[str], nest: bool) -> LabelColumns | None:
    """The columns that are ranks, coarse to fine; None if there are not two, or they mean something else.

    A column `class` that holds names of species, beside a column `cls` of classes, is the finest label.
    """
    column_of: dict[str, LabelCandidate] = {}
    label: LabelCandidate | None = None
    for name in table.columns:
        rank = rank_of(name) or ("species" if is_scientific_name(name) else None)
        rank = "class" if name.lower() == "cls" else rank
        if rank is None or name in taken:
            continue
        try:
            column = LabelCandidate(name, table.cells(name))
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
        values, strays = stray_values(finer, coarser)
        doubtful = rank_of(coarser.name) in ("class", "order") and len(chain) < _MANY_RANKS
        most = MOST_EXCEPTIONS * values if doubtful else 1 + _HOMONYMS * values
        if len(strays) > most and not is_epithet(finer.name):
            return None
    kept: list[LabelCandidate] = []
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
        f"{columns_setting([names[-1]])}",
    )
    notes += note_vernacular(table, {*taken, *names})
    return LabelColumns(names, (*notes, *_note_individuals(table, taken)))


def _are_of_organisms(by_rank: Mapping[str, LabelCandidate]) -> bool:
    """Whether columns are surely ranks; `class`, `order`, `family` or `species` alone may not be."""
    names = [column.name for column in by_rank.values()]
    if SURE & set(by_rank) or any(is_scientific_name(name) or is_epithet(name) for name in names):
        return True
    return {"family", "species"} <= set(by_rank) and ("order" in by_rank or "class" not in by_rank)


def _is_needed(column: LabelCandidate, chain: Sequence[LabelCandidate]) -> bool:
    """Whether a rank is the finest one, or the name that an epithet follows."""
    finer = chain[chain.index(column) + 1 :]
    return not finer or is_epithet(finer[0].name)


def _is_class(column_of: Mapping[str, LabelCandidate]) -> bool:
    """Whether the column taken for the class is one: each finer name lies in one of its fewer values."""
    coarser = column_of["class"]
    if all(MEASURED.fullmatch(text) for text in coarser.texts):
        return False
    finer = [column_of[rank] for rank in RANKS[RANKS.index("class") + 1 :] if rank in column_of]
    for column in finer:
        values, strays = stray_values(column, coarser)
        rows = column.known & coarser.known
        if not is_epithet(column.name) and (
            len(strays) > 1 + _HOMONYMS * values or len(np.unique(coarser.codes[rows])) > values
        ):
            return False
    return bool(finer)


def _place_label(column_of: dict[str, LabelCandidate], label: LabelCandidate) -> list[str]:
    """Put `cls` and `class`, of which one is the class, into the columns by rank; sentences on the other."""
    cls = column_of["class"]
    if not _is_class(column_of):  # `cls` may be a number
        column_of["class"] = label
        return [f"the column '{cls.name}' was not taken: its values are not classes of organisms"]
    fits = _is_class({**column_of, "class": label})
    above = next((column_of[rank] for rank in RANKS[::-1] if rank in column_of and rank != "species"), cls)
    values, strays = stray_values(label, above)
    if fits or len(strays) > MOST_EXCEPTIONS * values:
        return [f"the column '{label.name}' was not taken: '{cls.name}' is the class"]
    other = column_of.pop("species", None)
    column_of.pop("subspecies", None)
    column_of["species"] = label
    told = f"'{cls.name}' is the class of organisms, and '{label.name}' the finest label"
    return [told if other is None else f"{told}, in place of '{other.name}'"]


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
