"""Find the columns of a table that hold its labels: by their names, as ranks, or because they nest."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from labeltree.data.biology.rank_gaps import Gaps
from labeltree.data.table_columns import DataTable
from labeltree.data.tables.fill_down import find_outlined
from labeltree.data.tables.label_candidates import (
    MEASURED,
    LabelColumns,
    columns_setting,
    label_candidates,
    longest_chain,
)
from labeltree.data.tables.nested_columns import find_nested, note_outlined, propose_levels
from labeltree.data.tables.path_columns import find_path_columns
from labeltree.data.tables.rank_columns import find_ranks
from labeltree.errors import DataError
from labeltree.file_kinds import names_image
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.column_names import LABELS, PER_DEPTH, letters, usual_labels
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.placeholders import PLACEHOLDERS, plain_name
from labeltree.taxonomy.ranks import is_scientific_name, is_vernacular, rank_of

__all__ = ["ZERO_OR_ONE", "find_label_columns", "flag_columns", "usual_label_columns"]

ZERO_OR_ONE = frozenset(("0", "1", "0.0", "1.0"))
"""The cells of columns of which each is a class."""


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
            of which every value is called so there are the labels. Where one column does not tell the nodes,
            columns that hold the names of their paths, a depth each, are the labels.

    Raises:
        DataError: If there is no label column.
    """
    if isinstance(chosen, str):
        chosen = [chosen]
    if chosen is not None:
        if not chosen:
            raise DataError("label_columns is empty; it must name one column, or one per depth")
        names = [table.find(column, "label_columns") for column in chosen]
        return LabelColumns(names, note_outlined(find_outlined(table, names)))
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
        ranks = find_ranks(table, taken, nest)
        if ranks is not None:
            return ranks
    if base is None:
        names = [c for c in table.columns if (is_scientific_name(c) or rank_of(c) == "species")]
        base = next((column for column in names if column not in taken), None)
    if base is None:
        base = table.usual(usual_labels(table.columns), taken)
        base = None if base is not None and _is_measure(table, base) else base
    chain = [] if taxonomy is None or base is not None else _named_in(table, taken, taxonomy)
    if taxonomy is not None:
        levels = find_path_columns(table, chain[-1] if chain else base, taken, taxonomy)
        if levels:
            note = f"the columns {' > '.join(levels)} are read as labels: "
            return LabelColumns(levels, (f"{note}their values are the names of paths in the taxonomy",))
    if chain:
        said = "the column" if len(chain) == 1 else "the columns"
        note = f"{said} {' > '.join(chain)} {'is' if len(chain) == 1 else 'are'} read as labels"
        return LabelColumns(chain, (f"{note}: all values are names in the taxonomy",))
    if base is None:
        raise _no_label(table, taken, groups)
    if not nest:
        return LabelColumns([base], note_outlined(find_outlined(table, [base])))
    return find_nested(table, base, taken, groups, gaps)


def _named_in(table: DataTable, taken: Collection[str], taxonomy: Taxonomy) -> list[str]:
    """The longest chain of columns whose values are names in a taxonomy; its finest, if that is enough."""
    columns = [
        column
        for column in label_candidates(table, taken)
        if all(taxonomy.candidates(text) for text in column.texts if plain_name(text) not in PLACEHOLDERS)
        and any(map(taxonomy.candidates, column.texts))
    ]
    chain = longest_chain(columns)
    if chain and all(len(taxonomy.candidates(text)) == 1 for text in chain[-1].texts):
        chain = chain[-1:]
    return [column.name for column in chain]


def _says_less_than_names(table: DataTable, base: str, taken: Collection[str]) -> bool:
    """Whether a column with a usual name has one value, in a table of species: the kind of its records."""
    named = any(is_scientific_name(name) or rank_of(name) for name in table.columns if name not in taken)
    return named and not table.holds_lists(base) and table.num_rows > 1 and len(table.cells(base).texts) == 1


def _is_measure(table: DataTable, column: str) -> bool:
    """Whether a column holds numbers with decimals, as the target of a regression does."""
    texts = [] if table.holds_lists(column) else table.cells(column).texts
    numbers = all(map(MEASURED.fullmatch, texts))
    return numbers and any("." in text and not text.endswith(".0") for text in texts)


def _foldered_column(table: DataTable) -> str | None:
    """A column of the paths of images, of which each lies in a folder."""
    for name in table.columns:
        texts = [] if table.holds_lists(name) or table.holds_numbers(name) else table.head(name)[:20]
        if texts and all("/" in text and names_image(text) for text in texts):
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


def _no_label(table: DataTable, taken: Collection[str], groups: Collection[str]) -> DataError:
    able = [
        column
        for column in label_candidates(table, taken)
        if column.is_label and not column.is_origin and not is_vernacular(column.name)
    ]
    levels, nearly = propose_levels(table, able)
    flags = flag_columns(table, [name for name in table.columns if name not in taken])
    usual = usual_labels(table.columns)
    advice = (
        f"name one as label_columns, or several, coarse to fine: {columns_setting(['family', 'species'])}"
    )
    if (spoken_for := table.usual(usual)) is not None and spoken_for in taken:
        advice = f"'{spoken_for}' is named for something else: if it is the label, too, set "
        advice += columns_setting([spoken_for])
    elif levels is not None:
        advice = "; ".join([levels, *nearly])
    elif len(flags) > 1:
        advice = f"{some(flags, 3)} are 0 or 1: if each is a class, set {columns_setting(flags)}"
    elif not able and (folders := _foldered_column(table)) is not None:
        advice = f"if the folders in '{folders}' are the labels, give that folder itself instead of the table"
    elif able:
        advice = f"name one as label_columns: if '{able[0].name}' is the label, set "
        advice += columns_setting([able[0].name])
        advice += f" ({some([column.name for column in able[1:]])} could be, too)" if able[1:] else ""
        advice = "; ".join([advice, *nearly])
    elif of_groups := [c.name for c in label_candidates(table, {*table.columns} - {*groups}) if c.is_label]:
        advice = (
            f"if '{of_groups[0]}', taken as the groups, is the label, set {columns_setting(of_groups[:1])}"
        )
    if (measured := table.usual(usual, taken)) is not None and _is_measure(table, measured):
        advice = f"'{measured}' holds numbers with decimals, which are no classes; {advice}"
        usual = tuple(name for name in usual if name != letters(measured))
    return DataError(
        f"{table} has no column for labels that is known by its name ({', '.join(usual)}); "
        f"it has {', '.join(table.columns)}: {advice}{table.label_hint}"
    )
