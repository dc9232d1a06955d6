"""How a table of text is written: what separates and encloses its cells, by its first megabytes."""

from __future__ import annotations

import csv
import io
import re
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions

__all__ = ["text_options"]

_START = 4 << 20  # bytes
_QUOTED = re.compile(r'(?<![^\t\n])"[^"]*+(?:""[^"]*+)*+"(?=[\t\r\n]|\Z)')
_UNFINISHED = re.compile(r'(?<![^\t\n])"(?:[^"]|""){0,65536}+\Z')


def text_options(
    file: IO[bytes], name: str, reading: ReadOptions
) -> tuple[ReadOptions, ParseOptions, ConvertOptions]:
    """How Arrow reads a table of text: by the line that names its columns, the first that is not blank.

    Args:
        file: The open file, of which the beginning is read.
        name: Its name; `.tsv` says that tabs separate its cells.
        reading: Further options, which are handed on.

    Raises:
        ValueError: If the file is empty, or its first line names no columns.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    start = file.read(_START)
    lines = io.TextIOWrapper(io.BytesIO(start), encoding="utf-8-sig", newline="")
    first = lines.readline()
    while first and not first.strip():
        first = lines.readline()
    from_gbif = "gbifID" in first.strip().split("\t")
    tabs = from_gbif or name.lower().endswith(".tsv")
    delimiter = "\t" if tabs else next((mark for mark in ",;\t" if mark in first), ",")
    literal = from_gbif and not _has_quoted_cells(start, first.count("\t"))
    try:
        header = next(
            csv.reader(
                [first],
                delimiter=delimiter,
                quoting=csv.QUOTE_NONE if literal else csv.QUOTE_MINIMAL,
            ),
            [],
        )
    except csv.Error as error:
        raise ValueError("it has a column whose name is too long, or is not closed") from error
    if not header:
        raise ValueError("it is empty; the first line names the columns")
    return (
        reading,
        arrow_csv.ParseOptions(
            delimiter=delimiter, quote_char=False if literal else '"', newlines_in_values=not literal
        ),
        # Only an empty cell is missing: "NA" and "null" may be names, and 01 is another name than 1.
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()), null_values=[""], strings_can_be_null=True
        ),
    )


def _has_quoted_cells(start: bytes, tabs: int) -> bool:
    """Whether quotes enclose cells in a download of GBIF, in which they are characters like others.

    They do once another program has saved the table again: then each quote stands at the border of a cell or
    is doubled, and some cell has a doubled quote, a tab or a line break, which is why it is enclosed.
    """
    text = start.decode("utf-8", "replace")
    cells = _QUOTED.findall(text)
    rest = _QUOTED.sub("", text)
    lines = text.splitlines()
    if len(start) == _START:  # the end is cut off
        rest, lines = _UNFINISHED.sub("", rest), lines[:-1]
    if not cells or '"' in rest:
        return False
    if any(line.count("\t") != tabs for line in lines if line):
        return True
    return any('""' in cell[1:-1] for cell in cells) and not any("\t" in cell for cell in cells)
