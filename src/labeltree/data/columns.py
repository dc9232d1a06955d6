"""Columns of a table: reading it, finding a column by its name, cells as text."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["cell_texts", "find_column", "read_table"]


def read_table(path: Path) -> pd.DataFrame:
    """The table of a ``.csv``, ``.tsv`` or ``.parquet`` file; cells of text files are text or missing."""
    import pandas as pd

    if not path.is_file():
        raise DataError(f"there is no table '{path}'")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            table = pd.read_parquet(path)
        else:
            # Only an empty cell is missing: "NA" and "null" may be names.
            table = pd.read_csv(
                path,
                sep="\t" if path.suffix.lower() == ".tsv" else ",",
                dtype=str,
                keep_default_na=False,
                na_values=[""],
                encoding="utf-8-sig",
            )
    except UnicodeDecodeError as error:
        raise DataError(f"the table '{path}' is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except Exception as error:  # pandas and pyarrow have many kinds of errors for malformed files
        raise DataError(f"the table '{path}' cannot be read: {str(error).strip().splitlines()[0]}") from error
    table.columns = [str(column).strip() for column in table.columns]
    return table


def find_column(
    table: pd.DataFrame, path: Path, chosen: str | None, usual: Sequence[str], what: str, option: str
) -> str:
    """The name of a column: the chosen one, or the first of the usual names that the table has.

    Args:
        table: The table.
        path: Of the table, for errors.
        chosen: By the user; None = find it.
        usual: Names to look for, in lower case.
        what: The column holds, for errors.
        option: That chooses it, for errors.

    Raises:
        DataError: If there is none.
    """
    columns = list(table.columns)
    if chosen is not None:
        if chosen in columns:
            return chosen
        near = difflib.get_close_matches(chosen, columns, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(columns)}"
        raise DataError(f"the table '{path}' has no column '{chosen}'; {hint}")
    by_name = {column.lower(): column for column in reversed(columns)}
    for name in usual:
        if name in by_name:
            return by_name[name]
    raise DataError(
        f"the table '{path}' has no column for {what} that is known by its name ({', '.join(usual)}); "
        f"it has {', '.join(columns)}: name one as {option}"
    )


def cell_texts(table: pd.DataFrame, column: str) -> list[str | None]:
    """Cells as text, None where they are missing; whole numbers without a decimal point."""
    cells: list[Any] = table[column].tolist()
    missing = table[column].isna().tolist()
    texts = [
        str(int(c)) if isinstance(c, float) and not m and c.is_integer() else str(c)
        for c, m in zip(cells, missing, strict=True)
    ]
    return [None if m or not t.strip() else t.strip() for t, m in zip(texts, missing, strict=True)]
