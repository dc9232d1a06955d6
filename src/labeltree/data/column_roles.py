"""Which column of a table is what: those that are named for something, and those with a usual name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from labeltree.data.table_columns import DataTable
from labeltree.taxonomy.ranks import term_of

__all__ = [
    "NO_COLUMN",
    "TO_DECIDE",
    "UNNAMED_ROLES",
    "find_role",
    "list_columns",
    "named_columns",
    "note_usual_columns",
]

NO_COLUMN = "none"
"""As `group_column`, `split_column` or `id_column`: no column, not even that of the usual name."""

TO_DECIDE = "to decide"
"""The column in which `labeltree taxonomy apply --data` writes what a person has to decide."""

UNNAMED_ROLES = ("group", "split", TO_DECIDE)
"""The names of columns that are taken for groups, for splits and for no sample where none is named for it."""

_SAID = {
    "group_column": "rows with equal '{}' are one group, which no split divides",
    "split_column": "'{}' says the split of each row",
    "id_column": "'{}' names the samples",
}


def list_columns(columns: Sequence[str] | str | None) -> list[str]:
    """The columns that a setting names: one, several or none."""
    return [columns] if isinstance(columns, str) else list(columns or ())


def named_columns(
    table: DataTable, *columns: Sequence[str | None] | str | None, absent: str | None = None
) -> frozenset[str]:
    """The columns of a table that are named for something, and so are taken for nothing else by default.

    Args:
        table: The table.
        *columns: Names that are given one by one or together; terms may lack their prefix.
        absent: A word that stands for no column.
    """
    given = [[one] if isinstance(one, str) else one or () for one in columns]
    names = {name for names in given for name in names if name not in (None, absent)}
    terms = names - set(table.columns)
    return frozenset(name for name in table.columns if name in names or term_of(name) in terms)


def find_role(table: DataTable, given: str | None, usual: str, named: Collection[str]) -> tuple[str, ...]:
    """The column of groups or of splits: the given one, or that with the usual name; () if there is none.

    Args:
        table: The table.
        given: The name that the user gives; `none` = no column.
        usual: The usual name.
        named: Columns that are named for something else.

    Raises:
        DataError: If there is no column of the given name.
    """
    if given == NO_COLUMN:
        return ()
    if given is not None:
        return (table.find(given),)
    return (usual,) if usual in table.columns and usual not in named else ()


def note_usual_columns(columns: Mapping[str, str | None]) -> list[str]:
    """A sentence on the columns that say more than what a sample is, and were taken because of their names.

    Args:
        columns: The columns that were taken so, by the setting that names another: `group_column`,
            `split_column` and `id_column`.
    """
    taken = {setting: name for setting, name in columns.items() if name is not None}
    if not taken:
        return []
    said = ", and ".join(_SAID[setting].format(name) for setting, name in taken.items())
    settings = " and ".join(f"--table.{setting}" for setting in taken)
    verb = "names" if len(taken) == 1 else "name"
    judging = "its name" if len(taken) == 1 else "their names"
    return [f"{said}, judging by {judging}; {settings} {verb} another, or '{NO_COLUMN}'"]
