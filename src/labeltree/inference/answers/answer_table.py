"""Answers as a table, a column for each thing said, beside the columns of the table that they are about."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from labeltree.data.given_columns import GivenColumns, cell_of_text
from labeltree.workbooks import write_workbook

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["NO_ANSWER", "AnswerTable", "list_free_names"]

NO_ANSWER = "/"
"""The path of the root, which as an answer says nothing."""
_FIRST = ("sample", "answer", "probability")
_COLUMNS = (*_FIRST, "cut", "problem")
_TRUTHS = ("cut", "unknown", "holds")
_NUMBERS = ("probability", "p_known", "expected_cost")
_DIGEST = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")


class AnswerTable:
    """Answers by column, and the columns that were given.

    Where nothing is certain enough, `answer` and `probability` are empty, and the first guess stands beside
    them. A column of answers whose name is taken by a given one ends in a number, `_2`.

    Args:
        rows: Rows of `answer_rows`, also those without an answer.
        given: The columns of the table that the rows are about.
        named: Whether the rows need the names of their samples.

    Attributes:
        columns: By name, the values of each column of answers.
        given: The columns of the table.
    """

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], given: GivenColumns | None = None, *, named: bool = True
    ) -> None:
        columns = _columns(rows)
        if not named:
            del columns["sample"]
        self.given = GivenColumns((), ()) if given is None else given
        self._given_names = list_free_names(self.given.names, ())
        names = list_free_names(columns, self._given_names)
        self.columns = dict(zip(names, columns.values(), strict=True))

    def text(self, about: Mapping[str, Any]) -> str:
        """The table as CSV; `about` are values that hold for all rows, the last columns.

        Beside given columns, digests in `about` are cut to twelve characters.
        """
        names = [*self.given.names, *self.columns]
        shown = {name: "" if value is None else str(value) for name, value in about.items()}
        if self.given.names:
            shown = {name: _DIGEST.sub(r"\1", value) for name, value in shown.items()}
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*names, *list_free_names(shown, names)])
        given = [[cell_of_text(value) for value in column] for column in self.given.values()]
        said = [["" if value is None else value for value in column] for column in self.columns.values()]
        for cells in zip(*given, *said, strict=True):
            writer.writerow([*cells, *shown.values()])
        return out.getvalue()

    def frame(self) -> pd.DataFrame:
        """The table as a data frame."""
        import pandas as pd

        answers = pd.DataFrame(self.columns)
        if not self.given.names:
            return answers
        columns = [array.to_pandas() for array in self.given.arrays()]
        frame = pd.concat([pd.Series(column).reset_index(drop=True) for column in columns], axis=1)
        frame.columns = pd.Index(self._given_names)
        return pd.concat([frame, answers], axis=1)

    def write(self, path: Path, form: Literal["xlsx", "parquet"], about: Mapping[str, Any]) -> None:
        """Write the table as a workbook, with `about` on a sheet of its own, or as Parquet, with metadata.

        Raises:
            ImportError: If a package that writes it is not installed.
            ValueError: If a workbook cannot hold it.
        """
        if form == "parquet":
            self._write_parquet(path, about)
            return
        columns = [*self.given.values(), *self.columns.values()]
        header = [*self.given.names, *self.columns]
        about_rows = [(name, str(value)) for name, value in about.items()]
        rows = list(zip(*columns, strict=True))
        write_workbook(path, {"answers": (header, rows), "about": (("name", "value"), about_rows)})

    def _write_parquet(self, path: Path, about: Mapping[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        said = [pa.array(values, _type(name, values)) for name, values in self.columns.items()]
        table = pa.Table.from_arrays([*self.given.arrays(), *said], names=[*self._given_names, *self.columns])
        noted = {b"about": json.dumps(dict(about), ensure_ascii=False).encode()}
        pq.write_table(table.replace_schema_metadata(noted), path)


def list_free_names(names: Iterable[str], taken: Collection[str]) -> list[str]:
    """Names of which none is taken: one that is ends in `_2`, or in the next number that is free."""
    free: list[str] = []
    for name in names:
        number, other = 2, name
        while other in taken or other in free:
            number, other = number + 1, f"{name}_{number}"
        free.append(other)
    return free


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The values of each column, with one for each guess and its probability after the answer's."""
    most = max((len(row["guesses"]) for row in rows), default=0)
    guesses = [name for n in range(1, most + 1) for name in (f"guess_{n}", f"guess_{n}_probability")]
    others = [name for row in rows[:1] for name in row if name not in (*_FIRST, "guesses", "problem")]
    names = [*_FIRST, *guesses, *others, "problem"] if rows else list(_COLUMNS)
    flat = [_flat(row) for row in rows]
    return {name: [row.get(name) for row in flat] for name in names}


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    flat = {name: value for name, value in row.items() if name != "guesses"}
    if row["answer"] == NO_ANSWER:
        flat["answer"] = flat["probability"] = None
    for number, guess in enumerate(row["guesses"], 1):
        flat[f"guess_{number}"] = guess["class"]
        flat[f"guess_{number}_probability"] = guess["probability"]
    return flat


def _type(name: str, values: Sequence[object]) -> pa.DataType:
    """The type of a column of answers, whose name may end in the number of a free one."""
    import pyarrow as pa

    name = re.sub(r"(?<!guess)_\d+$", "", name)
    if name in _TRUTHS:
        return pa.bool_()
    number = name in _NUMBERS or name.endswith("_probability") or any(isinstance(v, float) for v in values)
    return pa.float64() if number else pa.string()
