"""The labels of a table on the next version of their taxonomy; what a person has to decide stays as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labeltree.counted_nouns import say_count
from labeltree.data.biology.rank_gaps import LabelFinder
from labeltree.data.column_roles import TO_DECIDE, list_columns
from labeltree.data.table_columns import Cells, DataTable
from labeltree.data.tables.changed_cells import write_changed
from labeltree.data.tables.fill_down import fill_columns
from labeltree.data.tables.label_columns import find_label_columns
from labeltree.data.tables.table_samples import list_sample_columns
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy, TaxonomyMapping
from labeltree.taxonomy.name_texts import is_code
from labeltree.taxonomy.naming import join_path, some, split_path
from labeltree.taxonomy.placeholders import PLACEHOLDERS, plain_name

__all__ = ["RelabelledTable", "relabel_table"]

_CRUMBS = re.compile(r"\s+>\s+|\s*[›»]\s*")
_SHOWN = 5  # parts of a split that a cell names


@dataclass(frozen=True)
class RelabelledTable:
    """What became of the labels of a table.

    Attributes:
        columns: The columns of its labels.
        changed: Number of rows with another label than before.
        kept: Number of rows whose label is the same in the new version.
        unlabelled: Number of rows without a label.
        undecided: Number of rows to decide, by reason: `split`, `removed`, `ambiguous`, `unknown` or `no
            column`.
        unknown: Labels that neither version has.
        notes: Sentences on how the table was read.
    """

    columns: tuple[str, ...]
    changed: int
    kept: int
    unlabelled: int
    undecided: dict[str, int]
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = [f"{say_count(self.changed, 'label')} changed", f"{self.kept:,} as before"]
        if self.unlabelled:
            said.append(f"{say_count(self.unlabelled, 'row')} without one")
        if self.undecided:
            many = sum(self.undecided.values())
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.undecided.items())
            said.append(f"{many:,} left as before, see the column '{TO_DECIDE}' ({kinds})")
        return "; ".join(said) + (f"; neither version has {some(self.unknown, 3)}" if self.unknown else "")


@dataclass(frozen=True)
class _Outcome:
    """The new cells of a label, or what there is to decide; neither if it stays."""

    cells: tuple[str, ...] | None = None
    kind: str = ""
    why: str = ""


_STAYS = _Outcome()


class _Labels:
    """Labels of the old version, read in the new one."""

    def __init__(self, mapping: TaxonomyMapping) -> None:
        self.mapping, self.old, self.new = mapping, mapping.old, mapping.new
        self._exact: list[bool] = mapping.exact.tolist()
        self._gone: list[bool] = mapping.removed.tolist()
        self._finders = {id(tree): LabelFinder(tree) for tree in (self.old, self.new)}

    def move_cell(self, text: str, separator: str | None, between: str | None) -> _Outcome:
        """What became of a cell, which holds a name or a path, or several labels with `between` them."""
        if between is None or between not in text:
            return self._move_label(text, separator)
        parts = text.split(between)
        outcomes = [self._move_label(part.strip(), separator) for part in parts]
        waiting = next((one for one in outcomes if one.kind), None)
        if waiting is not None:
            return waiting
        names = [
            part if one.cells is None else part.replace(part.strip(), one.cells[0])
            for part, one in zip(parts, outcomes, strict=True)
        ]
        once = dict.fromkeys(name.strip() for name in names)  # two that were merged are one label
        if all(one is _STAYS for one in outcomes):
            return _STAYS
        if len(once) == len(names):
            return _Outcome((between.join(names),))
        return _Outcome((f"{between}{' ' * (between + ' ' in text)}".join(once),))

    def _move_label(self, text: str, separator: str | None) -> _Outcome:
        if plain_name(text) in PLACEHOLDERS:
            return _STAYS
        mark, nodes = self._read(text, separator, self.old)
        if not nodes:
            return _STAYS if self._read(text, separator, self.new)[1] else _unknown(text)
        if len(nodes) > 1:
            return _Outcome(None, "ambiguous", f"'{text}' is {_either(self.old, nodes)}")
        if (waiting := self._to_decide(nodes[0])) is not None:
            return waiting
        node = self.mapping.targets[nodes[0]][0]
        if self._read(text, separator, self.new)[1] == [node]:
            kept = self._id_that_stays(text, nodes[0], node)
            return _STAYS if kept is None else _Outcome((kept,))
        path, name = self.new.path(node), self.new.names[node]
        if mark == "" and self.new.candidates(name) == [node]:
            return _Outcome((name,))
        return _Outcome((mark.join(path) if mark.strip(" /") else join_path(path),))

    def _id_that_stays(self, text: str, node: int, place: int) -> str | None:
        """The id of the class that another one, labelled by its id, was merged into; None to keep the label.

        The new version knows both, but that of others may call the former obsolete.
        """
        kept = self.old.follow(self.new.path(place)) if is_code(text) else None
        if kept is None or kept == node or text not in self.old.aliases_of(node):
            return None
        if self.mapping.targets[kept] != (place,) or text in self.old.aliases_of(kept):
            return None
        return next((each for each in self.old.aliases_of(kept) if is_code(each)), None)

    def _read(self, text: str, separator: str | None, tree: Taxonomy) -> tuple[str, list[int]]:
        """What separates the names of a label, empty if it is one name, and the nodes that it may mean."""
        if separator not in (None, "none", "/") and separator in text:
            names = [name.strip() for name in text.split(separator)]
            spaced = re.search(rf"\s*{re.escape(separator)}\s*", text)
            return spaced[0] if spaced else separator, tree.candidates(join_path(names))
        if known := tree.candidates(text):
            return ("/" if len(split_path(text)) > 1 and separator != "none" else ""), known
        crumbs = _CRUMBS.search(text)
        if crumbs is None or separator is not None:
            return "", []
        return crumbs[0], tree.candidates(join_path(_CRUMBS.split(text)))

    def move_levels(self, cells: Sequence[str]) -> _Outcome:
        """What became of a label whose names stand in a column each, coarse to fine."""
        filled = [place for place, text in enumerate(cells) if text]
        names = [cells[place] for place in filled]
        if not names:
            return _STAYS
        node, path = self._follow(self.old, names)
        if node is None:
            return _STAYS if self._follow(self.new, names)[0] is not None else _unknown(" > ".join(names))
        if (waiting := self._to_decide(node)) is not None:
            return waiting
        there = self.new.path(self.mapping.targets[node][0])
        if there == path:
            return _STAYS
        depths = {place - _place_names(names, path)[number] for number, place in enumerate(filled)}
        above = -depths.pop() if len(depths) == 1 else None
        if above is None or not above < len(there) <= above + len(cells):
            return _Outcome(None, "no column", f"it is {join_path(there)}, for which there is no place here")
        shown = there[above:]
        new = (*shown, *[""] * (len(cells) - len(shown)))
        return _STAYS if new == tuple(cells) else _Outcome(new)

    def _follow(self, tree: Taxonomy, names: Sequence[str]) -> tuple[int | None, tuple[str, ...]]:
        path = names if tree.follow(names) is not None else self._finders[id(tree)].find(names)
        return (None, ()) if path is None else (tree.follow(path), tuple(path))

    def _to_decide(self, node: int) -> _Outcome | None:
        if self._exact[node]:
            return None
        if self._gone[node]:
            higher = int(self.old.numbering.main_parent[node])
            while self._gone[higher]:
                higher = int(self.old.numbering.main_parent[higher])
            parts = self.mapping.targets[higher]
            if len(parts) > 1:
                what = f"{self.old.path_name(higher)} was split into {_either(self.new, parts)}"
                return _Outcome(None, "removed", f"removed: {what}")
            above = self.new.path_name(int(self.mapping.nodes[node])) or "/"
            return _Outcome(None, "removed", f"removed: the class above it is {above}")
        return _Outcome(None, "split", f"split: {_either(self.new, self.mapping.targets[node])}")


def _place_names(names: Sequence[str], path: Sequence[str]) -> list[int]:
    """The place of each name, which stand there in this order, on a path."""
    places: list[int] = []
    for name in names:
        places.append(path.index(name, places[-1] + 1 if places else 0))
    return places


def _unknown(text: str) -> _Outcome:
    return _Outcome(None, "unknown", f"neither version has '{text}'")


def _either(tree: Taxonomy, nodes: Sequence[int]) -> str:
    paths = [tree.path_name(node) for node in nodes]
    return " or ".join(paths[:_SHOWN]) + (f" or {len(paths) - _SHOWN} others" if len(paths) > _SHOWN else "")


def relabel_table(
    path: Path,
    out: Path,
    mapping: TaxonomyMapping,
    *,
    label_columns: Sequence[str] | str | None = None,
    fill_down: Sequence[str] | str | None = None,
    separator: str | None = None,
    label_separator: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> RelabelledTable:
    """Write a table whose labels are of the old version with those of the new one; all else stays.

    A label is written as before: a name as a name, unless another node has it, a path as a path, the levels
    of a path in their columns. One that names the same node in the new version is not touched. A label
    without a node in the new version (split, removed, in neither version, ambiguous) stays, too, and the
    column `to decide` says why.

    Args:
        path: The table.
        out: Where the new one goes; a file of the same kind.
        mapping: What became of the nodes.
        label_columns: As for `open_table`, as are the further ones.
        fill_down: Columns in which an empty cell means the value above it; those of labels are written full,
            as a label that moves would else be that of the cells below it.
        separator: What separates the names of paths.
        label_separator: What stands between the labels of a cell.
        encoding: Of text.
        sheet: Of a workbook.

    Raises:
        DataError: If it cannot be read, no label is of the old version, or a label stands in a list.
    """
    as_is = DataTable.read(path, encoding, sheet)
    table, filled = fill_columns(as_is, list_columns(fill_down))
    if TO_DECIDE in table.columns:
        raise DataError(
            f"{table} has a column '{TO_DECIDE}' already: decide about its rows, and remove the column"
        )
    chosen = find_label_columns(table, label_columns, list_sample_columns(table), taxonomy=mapping.old)
    if lists := [name for name in chosen.columns if table.holds_lists(name)]:
        raise DataError(
            f"{table}: '{lists[0]}' holds lists; write one text a cell (--table.label_separator ';')"
        )
    labels, cells = _Labels(mapping), [table.cells(name) for name in chosen.columns]
    outcomes: dict[tuple[int, ...], _Outcome] = {}
    of_rows = list(zip(*(column.codes.tolist() for column in cells), strict=True))
    for codes in dict.fromkeys(of_rows):
        texts = [column.texts[code] if code >= 0 else "" for code, column in zip(codes, cells, strict=True)]
        if len(cells) > 1:
            outcomes[codes] = labels.move_levels(texts)
        elif texts[0]:
            outcomes[codes] = labels.move_cell(texts[0], separator, label_separator)
        else:
            outcomes[codes] = _STAYS
    done = [outcomes[codes] for codes in of_rows]
    empty = sum(max(codes) < 0 for codes in of_rows)
    strange = {codes: one for codes, one in outcomes.items() if one.kind == "unknown"}
    if len(done) > empty and sum(one.kind == "unknown" for one in done) == len(done) - empty:
        raise DataError(
            f"{table}: no label in {' > '.join(chosen.columns)} is in either version, such as "
            f"{some([_join_texts(codes, cells) for codes in strange], 3)}; name the columns of the labels, "
            "--table.label_columns NAME"
        )
    new: dict[str, dict[int, str]] = {}
    for place, (name, column) in enumerate(zip(chosen.columns, cells, strict=True)):
        was_empty = np.flatnonzero((as_is.cells(name).codes < 0) & (column.codes >= 0)).tolist()
        new[name] = {row: column.texts[column.codes[row]] for row in was_empty}
        new[name] |= {row: one.cells[place] for row, one in enumerate(done) if one.cells is not None}
    undecided = [one.why for one in done]
    write_changed(as_is, out, new, {TO_DECIDE: undecided} if any(undecided) else {}, encoding, sheet)
    changed = sum(one.cells is not None for one in done)
    kinds = [one.kind for one in done if one.kind]
    return RelabelledTable(
        columns=tuple(chosen.columns),
        changed=changed,
        kept=len(done) - changed - len(kinds) - empty,
        unlabelled=empty,
        undecided={kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
        unknown=tuple(_join_texts(codes, cells) for codes in strange),
        notes=(*table.notes, *filled, *chosen.notes),
    )


def _join_texts(codes: Sequence[int], cells: Sequence[Cells]) -> str:
    """A label as one text, such as an error names."""
    return " > ".join(column.texts[code] for code, column in zip(codes, cells, strict=True) if code >= 0)
