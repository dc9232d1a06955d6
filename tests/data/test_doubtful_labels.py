"""What a few wrong cells do: a level is lost, names lie below two parents, copies have two labels."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from labeltree.data import open_source, summarize
from labeltree.data.doubtful_labels import warn_of_copies
from labeltree.data.splits import make_splits
from labeltree.taxonomy import Taxonomy

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
    assert "because of 1 row: line 6 has 'Pans' in 'Garden', line 2 and 58 others in 'Kitchen'. Cor" in note
    setting = ["department", "category", "product"]
    assert '--table.label_columns \'["department", "category", "product"]\'' in note
    said = warnings_of(path, label_columns=setting)
    assert "'Pans' lies below 'Kitchen' in 59 samples, and below 'Garden' in 1 ('line 6')" in said
    assert said.count("lies below") == 1  # not its product, too
    assert "lies below" not in warnings_of(write(path, list_products()))


def test_rows_of_a_name_that_is_as_often_in_two_values_are_counted(tmp_path: Path) -> None:
    """The second of them is as wrong as one in between that is rarer."""
    rows = list_products()
    for row, department in ((0, "Garden"), (1, "Kitchen"), (2, "Toys")):
        rows[row][1:] = ["odd", "Oddities", department]
    rows += [[f"odd {n}", "odd", "Oddities", ("Garden", "Toys")[n]] for n in range(2)]
    source = open_source(write(tmp_path / "shop.csv", rows))
    (note,) = [note for note in source.notes if "'department' is not a level" in note]
    assert "because of 3 rows: line 3 has 'Oddities' in 'Kitchen', line 2 and 1 other in 'Garden'" in note


def test_what_a_terminal_would_obey_is_escaped(tmp_path: Path) -> None:
    rows = list_products()
    rows[4][3] = "Gar\x1b[2Jden"
    source = open_source(write(tmp_path / "shop.csv", rows))
    (note,) = [note for note in source.notes if "'department' is not a level" in note]
    assert "line 6 has 'Pans' in 'Gar\\x1b[2Jden'" in note


def test_many_rows_that_do_not_nest_are_another_classification(tmp_path: Path) -> None:
    rows = list_products()
    for row in rows[::3]:
        row[3] = "Toys"
    source = open_source(write(tmp_path / "shop.csv", rows))
    assert not any("is not a level" in note for note in source.notes)
    (note,) = [note for note in source.notes if "'department' is another classification than" in note]
    assert "4 of 6 values lie in several of its values: line 2 has 'Pans' in 'Toys', line 3 and 39" in note
    assert '--table.label_columns \'["department", "category", "product"]\'' in note


def test_one_reason_for_a_column_and_the_whole_chain(tmp_path: Path) -> None:
    """Categories of one name in two departments, and types that nest in both but for a row."""
    places = [("Kitchen", "Storage"), ("Office", "Storage"), ("Office", "Pens"), ("Garden", "Tools")]
    places.append(("Garden", "Seeds"))
    rows = [["text", "department", "category", "product_type"]]
    for n in range(120):
        department, category = places[n % 5]
        rows.append([f"a thing {n}", department, category, f"{department} {category} {n % 3}"])
    rows[4][1:] = ["Garden", "Tools", "Kitchen Storage 0"]
    file = tmp_path / "shop.csv"
    file.write_text("\n".join(",".join(row) for row in rows))
    source = open_source(file)
    notes = [note for note in source.notes if "'product_type'" in note or "'department'" in note]
    chain = '--table.label_columns \'["department", "category", "product_type"]\''
    above, below = notes
    assert "'department' is another classification than 'category'" in above
    assert "'product_type' is not a level of the labels, because of 1 row: line 5 has" in below
    assert above.endswith(chain)
    assert below.endswith(chain)


def test_a_name_that_is_often_below_both_parents_is_no_mistake(tmp_path: Path) -> None:
    rows = list_products()
    for row in rows[:20]:
        row[3] = "Garden"
    assert "lies below" not in warnings_of(
        write(tmp_path / "shop.csv", rows), label_columns=["department", "category", "product"]
    )


def test_a_name_below_many_small_parents_is_no_mistake(tmp_path: Path) -> None:
    """Such as `Accessories` in each department, of which one is far larger than the others."""
    lines = [f"large {n},Large,{('Accessories', 'Spare parts')[n % 2]}" for n in range(1200)]
    lines += [f"small {n},Small {n % 20},{('Accessories', 'Spare parts')[n // 20 % 2]}" for n in range(160)]
    path = tmp_path / "shop.csv"
    path.write_text("\n".join(["text,depth1,depth2", *lines]), encoding="utf-8")
    assert "lies below" not in warnings_of(path)


def test_texts_that_stand_for_missing_ones_are_counted_and_no_copies(tmp_path: Path) -> None:
    rows = [f"a warm red coat of wool {number},{'ab'[number % 2]}" for number in range(20)]
    (tmp_path / "t.csv").write_text("text,label\n" + "\n".join([*rows, "n/a,a", "N/A,b", "n/a,b", "-,a"]))
    source = open_source(tmp_path / "t.csv")
    (said,) = warn_of_copies(source)
    assert said.startswith("4 texts stand for missing ones ('n/a', 'N/A' and '-'), and teach nothing: empty ")


def test_texts_are_copies_but_for_case_and_blanks(tmp_path: Path) -> None:
    rows = [f"a warm red coat of wool {number},{'ab'[number % 2]}" for number in range(20)]
    (tmp_path / "t.csv").write_text("text,label\n" + "\n".join([*rows, "A WARM  red coat of wool 0,b"]))
    (said,) = warn_of_copies(open_source(tmp_path / "t.csv"))
    assert said.startswith("2 samples are copies (equal texts) with different labels: 'line 2' (a) and ")


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


def test_copies_are_named_where_the_first_has_a_coarser_label_than_all_others(tmp_path: Path) -> None:
    rows = list_products()
    for row, label in ((0, 0), (40, 40), (130, 40)):
        rows[row] = ["the same words", *rows[label][1:]]
    rows[0][1] = ""  # a category, of which the others are products
    rows[130][1] = "wok"
    said = warnings_of(
        write(tmp_path / "shop.csv", rows), label_columns=["department", "category", "product"]
    )
    assert (
        "3 samples are copies (equal texts) with different labels: 'line 42' (Kitchen/Pans/skillet)" in said
    )
    assert "and 'line 132' (Kitchen/Pans/wok)" in said


def test_the_tree_is_read_once_however_many_samples_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source(write(tmp_path / "shop.csv", list_products()))
    ends, asked = source.taxonomy.subtree_end, []
    monkeypatch.setattr(Taxonomy, "subtree_end", property(lambda tree: asked.append(tree) or ends))
    assert warn_of_copies(source) == []
    assert len(asked) == 1


def test_a_name_below_one_of_the_same_name_is_no_mistake(tmp_path: Path) -> None:
    lines = [f"bird {n},Parus,{('major', 'ater')[n % 2]}" for n in range(60)] + ["bird x,Parus,Parus"]
    lines += [f"cat {n},Panthera,leo" for n in range(60)]
    path = tmp_path / "birds.csv"
    path.write_text("\n".join(["text,depth1,depth2", *lines]), encoding="utf-8")
    assert "lies below" not in warnings_of(path)


def test_a_name_at_the_top_is_said_to_lie_below_the_root(tmp_path: Path) -> None:
    lines = [f"text {n},pans,{('wok', 'skillet')[n % 2]}" for n in range(60)] + ["text x,kitchen,pans"]
    path = tmp_path / "shop.csv"
    path.write_text("\n".join(["text,depth1,depth2", *lines]), encoding="utf-8")
    said = warnings_of(path)
    assert "'pans' lies below the root in 60 samples, and below 'kitchen' in 1 ('line 62')" in said
