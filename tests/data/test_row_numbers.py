"""Rows are named as their table shows them: the line of a text, the row of a sheet."""

import csv
import gzip
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeltree.data import open_source
from labeltree.data.correction_rounds import CorrectionRounds
from labeltree.data.corrections import Correction, Corrections
from labeltree.data.former_names import former_names, name_as_before
from labeltree.data.streaming import stream_samples
from labeltree.data.table_columns import DataTable
from labeltree.errors import DataError
from labeltree.workbooks import write_workbook

ROWS = [("a saw", "tool"), ("a kite", ""), ("", "toy"), ("a drill\nwith bits", "tool"), ("a doll", "")]


def numbers(path: Path, **settings: str) -> dict[int, str]:
    """The unused rows of a table by their number."""
    source = open_source(path, on_error="skip", **settings)
    assert source.unused is not None
    return {row: reason for row, _, reason in source.unused.lines()}


def write_text(path: Path, lines: str, *rows: tuple[str, str], end: str = "\n") -> Path:
    """A table of text below some lines, with a blank line after each row."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(lines)
        writer = csv.writer(file, lineterminator=end + end)
        writer.writerows([("text", "label"), *rows])
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("lines", "above"), [("", 0), ("Our products of 2024\n\n# a comment\n", 3)])
def test_rows_of_a_text_have_its_lines(tmp_path: Path, lines: str, above: int, end: str) -> None:
    path = write_text(tmp_path / "notes.csv", lines.replace("\n", end), *ROWS, end=end)
    shown = path.read_text("utf-8").split("\n")
    first = {
        row: next(n for n, line in enumerate(shown, 1) if row in line) for row in ("kite", ",toy", "doll")
    }
    assert first == {"kite": above + 5, ",toy": above + 7, "doll": above + 12}  # a cell has a line break
    assert numbers(path) == {
        first["kite"]: "it has no label",
        first[",toy"]: "it has no text",
        first["doll"]: "it has no label",
    }
    with pytest.raises(DataError, match=f"have no text in 'text': line {above + 7}\\."):
        open_source(path)


def test_samples_are_named_by_what_a_person_sees(tmp_path: Path) -> None:
    """Whole tables and streamed ones alike: the line of a text, the row of a sheet, else the number."""
    pytest.importorskip("openpyxl")
    rows = [*ROWS[:2], *ROWS[3:]]
    write_text(tmp_path / "notes.csv", "All our products\n\n", *rows)
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress((tmp_path / "notes.csv").read_bytes()))
    records = [{"text": text, "label": label or None} for text, label in rows]
    (tmp_path / "notes.jsonl").write_text("\n\n".join(map(json.dumps, records)))
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "notes.parquet")
    write_workbook(tmp_path / "notes.xlsx", {"products": ((), [("text", "label"), *rows])})
    for name, wanted in {
        "notes.csv": ["line 5", "line 7", "line 9", "line 12"],
        "packed.csv.gz": ["line 5", "line 7", "line 9", "line 12"],
        "notes.jsonl": ["line 1", "line 3", "line 5", "line 7"],
        "notes.xlsx": [f"row {row} of the sheet" for row in (3, 4, 5, 6)],
        "notes.parquet": ["row 1", "row 2", "row 3", "row 4"],
    }.items():
        assert open_source(tmp_path / name).sample_names() == wanted, name
        assert [sample.name for sample in stream_samples(tmp_path / name)] == wanted, name
        assert [sample.name for sample in stream_samples(tmp_path / name, skip=3)] == wanted[3:], name


def test_samples_keep_the_names_of_earlier_versions_where_these_are_recorded(tmp_path: Path) -> None:
    source = open_source(write_text(tmp_path / "notes.csv", "", ROWS[0], ("a kite", "toy"), ROWS[3]))
    assert former_names(source) == ["row 1", "row 2", "row 3"]
    assert name_as_before(source, ["row 1", "row 2"]).sample_names() == ["row 1", "row 2", "row 3"]
    assert name_as_before(source, source.sample_names()) is source
    old = Corrections((Correction("row 3", "tool", "accept", "toy"),), "old.csv")
    (corrected,) = CorrectionRounds((old,)).apply(source)
    assert corrected.taxonomy.names[int(corrected.nodes[2])] == "toy"


def test_packed_tables_and_archives_have_the_lines_of_what_they_hold(tmp_path: Path) -> None:
    path = write_text(tmp_path / "notes.csv", "", *ROWS)
    wanted = numbers(path)
    (tmp_path / "notes.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert numbers(tmp_path / "notes.csv.gz") == wanted
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as archive:
        archive.write(path, "notes.csv")
    assert numbers(tmp_path / "notes.zip") == wanted
    (tmp_path / "utf16.csv").write_text(path.read_text("utf-8"), "utf-16")
    assert numbers(tmp_path / "utf16.csv") == wanted


def test_rows_of_a_sheet_have_its_numbers(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    blank: tuple[str, ...] = ()
    sheet = (("Our products of 2024",), [blank, ("text", "label"), ROWS[0], blank, *ROWS[1:]])
    write_workbook(tmp_path / "notes.xlsx", {"products": sheet})
    assert numbers(tmp_path / "notes.xlsx") == {
        6: "it has no label",
        7: "it has no text",
        9: "it has no label",
    }
    with pytest.raises(DataError, match=r"have no text in 'text': row 7 of the sheet\."):
        open_source(tmp_path / "notes.xlsx")


def test_rows_of_records_have_their_lines_and_others_their_place(tmp_path: Path) -> None:
    records = [{"text": text or None, "label": label or None} for text, label in ROWS]
    (tmp_path / "notes.jsonl").write_text("\n\n".join(map(json.dumps, records)))
    assert list(numbers(tmp_path / "notes.jsonl")) == [3, 5, 9]
    (tmp_path / "notes.json").write_text(json.dumps(records))
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "notes.parquet")
    for name in ("notes.json", "notes.parquet"):
        assert list(numbers(tmp_path / name)) == [2, 3, 5]
        assert DataTable.read(tmp_path / name).place(4) == "row 5"


def test_a_quote_within_a_cell_holds_no_line_break(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text('text,label\na 5" pipe,tool\na kite,toy\na 7" saw,\n"a ""big""\nsaw",tool\na doll,\n')
    assert list(numbers(path)) == [4, 7]
