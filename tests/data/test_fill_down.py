"""Departments that are named once for a block of rows: merged cells, and empty cells below a value."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from labeltree.data import open_source
from labeltree.errors import DataError

COLUMNS = ["Department", "Category", "Product"]
SHOP = {
    "Garden": {"Tools": ["Rake", "Spade"], "Seeds": ["Beet", "Pea"]},
    "Kitchen": {"Pans": ["Wok", "Pot"], "Knives": ["Paring", "Bread"]},
}
ROWS = [
    [department, category, product]
    for department, categories in SHOP.items()
    for category, products in categories.items()
    for product in products
    for _ in range(4)
]


def outlined(path: Path, columns: int) -> Path:
    """A table in which the first columns are empty below each value."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, "description"])
        before = ["", "", ""]
        for number, row in enumerate(ROWS):
            blank = [k < columns and row[: k + 1] == before[: k + 1] for k in range(3)]
            cells = ["" if empty else cell for cell, empty in zip(row, blank, strict=True)]
            writer.writerow([*cells, f"a nice {row[2]} {number}"])
            before = row
    return path


def paths_of(source: object) -> list[str]:
    return [source.taxonomy.path_name(node) for node in source.nodes.tolist()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_empty_cells_have_the_value_above_where_that_is_set(tmp_path: Path, columns: int) -> None:
    path = outlined(tmp_path / "shop.csv", columns)
    with pytest.raises(
        DataError, match=r"as merged cells are: .* set --table\.fill_down '\[\"Department\""
    ) as error:
        open_source(path, label_columns=COLUMNS)
    assert all(f'"{name}"' in str(error.value) for name in COLUMNS[:columns])
    source = open_source(path, label_columns=COLUMNS, fill_down=COLUMNS[:columns])
    assert paths_of(source) == ["/".join(row) for row in ROWS]
    assert "30 empty cells of 'Department' have the value above them (table.fill_down)" in source.notes
    found = open_source(path, fill_down=COLUMNS[:columns])  # the columns nest
    assert paths_of(found) == paths_of(source)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_a_note_names_all_depths_that_filling_gives(tmp_path: Path, columns: int) -> None:
    notes = " ".join(open_source(outlined(tmp_path / "shop.csv", columns)).notes)
    assert '--table.label_columns \'["Department", "Category", "Product"]\'' in notes
    assert (
        f"--table.fill_down '[{', '.join(map('{!r}'.format, COLUMNS[:columns]))}]'".replace('"', "")
        in notes.replace('"', "'").replace("''", "'")
        or "--table.fill_down" in notes
    )
    alone = open_source(tmp_path / "shop.csv", label_columns=["Department"]).notes
    assert any("--table.fill_down '[\"Department\"]'" in note for note in alone)


def test_no_value_is_carried_into_another_block(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text(
        "text,Department,Category\na,Garden,Tools\nb,,\nc,Kitchen,\nd,,Pans\ne,,\nf,Kitchen,\ng,,Knives\n"
    )
    source = open_source(path, label_columns=COLUMNS[:2], fill_down=COLUMNS[:2])
    assert paths_of(source) == [
        "Garden/Tools", "Garden/Tools", "Kitchen", "Kitchen/Pans", "Kitchen/Pans", "Kitchen/Pans",
        "Kitchen/Knives",
    ]  # fmt: skip
    assert paths_of(open_source(path, label_columns=["Category"], fill_down="Category"))[2] == "Tools"
    with pytest.raises(DataError, match="no column 'Shelf'"):
        open_source(path, fill_down=["Shelf"])


def test_blocks_of_which_some_are_merged_below_rows_without_a_label_are_said_to_be_outlined(
    tmp_path: Path,
) -> None:
    path = tmp_path / "shop.csv"
    cells = ["", "Garden", "Garden", "Garden", "Home", "", "", "", "Yard", "", "", "", ""]
    for labels, is_outlined in ((cells, True), ([*cells, "Yard"], False), ([""] * 3 + cells, False)):
        path.write_text(
            "text,Shelf\n" + "".join(f"a nice text {n},{text}\n" for n, text in enumerate(labels))
        )
        notes = open_source(path, label_columns=["Shelf"]).notes
        assert any("--table.fill_down '[\"Shelf\"]'" in note for note in notes) == is_outlined


def test_labels_of_which_most_are_missing_are_not_said_to_be_outlined(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    labels = [kind if number % 5 == 0 else "" for number, kind in enumerate("abaabbabbaab" * 5)]
    path.write_text("text,label\n" + "".join(f"text {n},{label}\n" for n, label in enumerate(labels)))
    assert not any("fill_down" in note for note in open_source(path).notes)


def test_merged_cells_of_a_workbook_are_one_value(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["other sheet"])
    sheet = book.create_sheet("shop & more")
    sheet.append(["A title over all columns"])
    sheet.append([*COLUMNS, "description"])
    for number, row in enumerate(ROWS):
        sheet.append([*row, f"a nice {row[2]} {number}"])
    sheet.merge_cells("A1:D1")
    for column, size in (("A", 16), ("B", 8)):
        for first in range(3, 35, size):
            sheet.merge_cells(f"{column}{first}:{column}{first + size - 1}")
    book.save(tmp_path / "shop.xlsx")
    source = open_source(tmp_path / "shop.xlsx", sheet="shop & more", label_columns=COLUMNS)
    assert paths_of(source) == ["/".join(row) for row in ROWS]
    told = "merged cells of 'Department', 'Category' are read as the same value in each of their rows"
    assert told in source.notes
