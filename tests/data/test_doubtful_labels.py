"""What a few wrong cells do: a level is lost, names lie below two parents, copies have two labels."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from labeltree.data import open_source, summarize
from labeltree.data.splits import make_splits

SHOP = {
    "Kitchen": {"Pans": ("wok", "skillet"), "Knives": ("bread knife", "paring knife")},
    "Garden": {"Tools": ("rake", "spade"), "Pots": ("clay pot", "hanging pot")},
    "Toys": {"Games": ("chess", "dice"), "Dolls": ("rag doll", "baby doll")},
}
HEAD = ("text", "product", "category", "department")


def list_products() -> list[list[str]]:
    return [
        [f"{product} number {n}", product, category, department]
        for department, categories in SHOP.items()
        for category, products in categories.items()
        for product in products
        for n in range(30)
    ]


def write(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEAD, *rows])
    return path


def warnings_of(path: Path, **settings: list[str]) -> str:
    return "\n".join(summarize(make_splits(open_source(path, **settings), seed=0)).warnings)


def test_a_wrong_cell_that_costs_a_level_is_named_with_its_line(tmp_path: Path) -> None:
    rows = list_products()
    path = write(tmp_path / "shop.csv", rows)
    assert open_source(path).taxonomy.max_depth == 3
    rows[4][3] = "Garden"
    source = open_source(write(path, rows))
    assert source.taxonomy.max_depth == 2
    (note,) = [note for note in source.notes if "'department' is not a level" in note]
    assert "because of 1 row: line 6 has 'Pans' in 'Garden', 59 others have it in 'Kitchen'. Cor" in note
    setting = ["department", "category", "product"]
    assert '--table.label_columns \'["department", "category", "product"]\'' in note
    said = warnings_of(path, label_columns=setting)
    assert "'Pans' lies below 'Kitchen' in 59 samples, and below 'Garden' in 1 ('line 6')" in said
    assert said.count("lies below") == 1  # not its product, too
    assert "lies below" not in warnings_of(write(path, list_products()))


def test_many_rows_that_do_not_nest_are_another_classification(tmp_path: Path) -> None:
    rows = list_products()
    for row in rows[::3]:
        row[3] = "Toys"
    source = open_source(write(tmp_path / "shop.csv", rows))
    assert not any("is not a level" in note for note in source.notes)


def test_a_name_that_is_often_below_both_parents_is_no_mistake(tmp_path: Path) -> None:
    rows = list_products()
    for row in rows[:20]:
        row[3] = "Garden"
    assert "lies below" not in warnings_of(
        write(tmp_path / "shop.csv", rows), label_columns=["department", "category", "product"]
    )


def test_copies_with_different_labels_are_named(tmp_path: Path) -> None:
    rows = list_products()
    rows[40][0] = rows[130][0]
    said = warnings_of(write(tmp_path / "shop.csv", rows))
    wanted = "'line 42' (Kitchen/Pans/skillet) and 'line 132' (Garden/Tools/rake)"
    assert f"2 samples are copies (equal texts) with different labels: {wanted}; correct those" in said
    rows[40][1:] = rows[130][1:]
    assert "copies" not in warnings_of(write(tmp_path / "shop.csv", rows))


@pytest.mark.parametrize("label", ["animal/cat", "animal"])
def test_equal_vectors_with_a_coarser_label_agree(label: str, tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(40, 3))
    labels = np.array(["animal/dog", "animal/cat"] * 20, dtype=object)
    vectors[5] = vectors[0]
    labels[5] = label
    np.savez(tmp_path / "v.npz", vectors=vectors, labels=labels.astype(str))
    said = warnings_of(tmp_path / "v.npz")
    copies = "copies (equal vectors) with different labels: 'row 1' (animal/dog)"
    assert (copies in said) == (label != "animal")
