"""Tables in which no column has a usual name of texts: numbers beside them are not the samples."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import labeltree as lt
from labeltree.errors import DataError

openpyxl = pytest.importorskip("openpyxl")

WORDS = {
    ("Clothing", "Shoes"): ["running", "leather", "trail"],
    ("Clothing", "Shirts"): ["cotton", "linen", "polo"],
    ("Kitchen", "Pots"): ["copper", "steel", "iron"],
}


def _rows(n: int = 30) -> list[dict[str, object]]:
    draw = random.Random(0)
    rows = []
    for number in range(n):
        (department, category), words = list(WORDS.items())[number % 3]
        rows.append(
            {
                "SKU": 10_000 + number,
                "Product text": f"{draw.choice(words)} {category.lower()} for every day, number {number}",
                "Title": f"{draw.choice(words)} {category} {number}",
                "Department": department,
                "Category": category,
                "Price": round(3 + 1.37 * number, 2),
                "Weight kg": number % 7 + 0.5,
            }
        )
    return rows


def _write(path: Path, columns: list[str], n: int = 30) -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(columns)
    for row in _rows(n):
        sheet.append([row.get(name, 0.25) for name in columns])
    book.save(path)
    return path


NUMBERS = ["Department", "Category", "Price", "Weight kg"]


@pytest.mark.parametrize("name", ["Product text", "Title"])
def test_a_column_of_texts_is_read_rather_than_prices(tmp_path: Path, name: str) -> None:
    source = lt.open_data(_write(tmp_path / "products.xlsx", ["SKU", name, *NUMBERS]))
    assert source.modalities == ("text",)
    assert source.columns["texts"] == (name,)
    assert source.columns["labels"] == ("Department", "Category")
    assert any(f"the texts are those of '{name}'" in note for note in source.notes)
    assert any("not read: 'SKU', 'Price' and 'Weight kg'" in note for note in source.notes)


def test_of_two_a_person_says_which(tmp_path: Path) -> None:
    file = _write(tmp_path / "products.xlsx", ["Title", "Product text", *NUMBERS])
    with pytest.raises(DataError, match=r"'Title' and 'Product text' hold texts; .*text_column Title"):
        lt.open_data(file)


def test_many_numbers_are_a_vector_with_a_remark_beside_it(tmp_path: Path) -> None:
    columns = ["Title", "Department", "Category", *(f"f_{number}" for number in range(20))]
    source = lt.open_data(_write(tmp_path / "measured.xlsx", columns))
    assert source.modalities == ("vector",)


def test_numbers_without_texts_are_vectors_but_article_numbers_are_not(tmp_path: Path) -> None:
    source = lt.open_data(_write(tmp_path / "measured.xlsx", ["SKU", *NUMBERS]))
    assert source.columns["vectors"] == ("Price", "Weight kg")


def test_names_of_classes_and_few_remarks_are_no_texts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["a,b,c,species,comment"]
    for number in range(40):
        numbers = ",".join(f"{value:.3f}" for value in rng.normal(size=3))
        remark = "seen in the rain" if number % 10 == 0 else ""
        lines.append(f"{numbers},{['Parus major', 'Pica pica'][number % 2]},{remark}")
    (tmp_path / "birds.csv").write_text("\n".join(lines))
    source = lt.open_data(tmp_path / "birds.csv")
    assert source.modalities == ("vector",)


def test_a_remark_beside_some_numbers_may_be_the_text_or_not(tmp_path: Path) -> None:
    lines = ["a,b,c,d,remark,label"]
    for number in range(12):
        text = f"seen number {number} in the rain"
        lines.append(f"{number}.5,1.25,{number % 3}.75,2.5,{text},{'cat' if number % 2 else 'dog'}")
    (tmp_path / "m.csv").write_text("\n".join(lines))
    with pytest.raises(
        DataError, match=r"4 columns of numbers and texts in 'remark'; say which are the samples"
    ):
        lt.open_data(tmp_path / "m.csv")
    assert lt.open_data(tmp_path / "m.csv", table={"text_column": "remark"}).modalities == ("text",)
    vectors = lt.open_data(tmp_path / "m.csv", table={"vector_column": ["a", "b", "c", "d"]})
    assert vectors.modalities == ("vector",)
