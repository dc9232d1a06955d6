"""Which columns of a table become its labels, and what is said about the others."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from labeltree.api.taxonomies import open_labels
from labeltree.cli.main import main
from labeltree.data import Source, open_source
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy


def write(path: Path, columns: dict[str, list[Any]]) -> Path:
    file = path / "table.csv"
    rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    file.write_text("\n".join([",".join(columns), *rows]), "utf-8")
    return file


def shop() -> dict[str, list[Any]]:
    """48 products, three texts of each, below 12 subcategories, 6 categories and 2 departments."""
    draw = random.Random(0)
    product = [n // 3 for n in range(144)]
    return {
        "text": [f"a thing, the {n}th"[:12].replace(",", "") + str(n) for n in range(144)],
        "colour": [draw.choice(["red", "blue"]) for _ in product],
        "product": [f"p{p}" for p in product],
        "category": [f"c{p % 6}" for p in product],
        "department": [f"d{p % 2}" for p in product],
        "subcategory": [f"s{p % 12}" if p % 12 else "other" for p in product],
        "price": [p * 1.5 for p in product],
        "sku": [f"x{n:05d}" for n in range(144)],
        "seller_id": [f"seller{p // 2}" for p in product],
        "offer": ["yes" if p % 6 == 0 else "no" for p in product],
        "since": [f"2024-01-{1 + p % 6:02d}" for p in product],
        "currency": ["EUR" for _ in product],
    }


def labels(source: Source) -> tuple[str, ...]:
    return source.columns["labels"]


def test_columns_that_nest_are_the_taxonomy(tmp_path: Path) -> None:
    """Whatever their order. Numbers, flags, dates, ids and colours are no labels."""
    source = open_source(write(tmp_path, shop()))
    assert labels(source) == ("department", "category", "subcategory", "product")
    tree = source.taxonomy
    assert tree.depth.bincount().tolist() == [1, 2, 6, 12, 48]
    assert source.columns["texts"] == ("text",)
    assert set(source.columns) == {"texts", "labels"}
    said = " ".join(source.notes)
    assert "department > category > subcategory > product nest" in said
    assert "--table.label_columns '[\"category\"]'" in said
    assert "--table.group_column seller_id" in said


def test_explicit_columns_override(tmp_path: Path) -> None:
    file = write(tmp_path, shop())
    assert open_source(file, label_columns="category").taxonomy.num_leaves == 6
    assert open_source(file, label_columns=["category", "product"]).taxonomy.max_depth == 2
    source = open_source(file, taxonomy=Taxonomy.from_paths([("all", f"c{i}") for i in range(6)]))
    assert labels(source) == ("category",)


def test_a_group_is_no_label_but_may_be(tmp_path: Path) -> None:
    file = write(tmp_path, shop())
    source = open_source(file, group_column="product")
    assert labels(source) == ("department", "category", "subcategory")
    assert source.columns["groups"] == ("product",)
    assert any("'product', the column of groups" in note for note in source.notes)
    both = [*labels(source), "product"]
    assert labels(open_source(file, group_column="product", label_columns=both)) == tuple(both)


def test_an_age_is_no_individual(tmp_path: Path) -> None:
    """Rows of one patient may show one thing; rows of people of one age do not."""
    rows = range(48)
    columns = {"text": [f"finding {n}" for n in rows], "label": [f"{'cd'[n % 2]}{n % 4}" for n in rows]}
    columns |= {"patient_id": [f"p{n // 2}" for n in rows], "age": [f"{n // 4}" for n in rows]}
    notes = " ".join(open_source(write(tmp_path, columns)).notes)
    assert "--table.group_column patient_id" in notes
    assert "--table.group_column age" not in notes


def test_what_is_finer_than_a_label_is_only_mentioned(tmp_path: Path) -> None:
    columns = shop()
    columns["label"] = columns.pop("category")
    source = open_source(write(tmp_path, columns))
    assert labels(source) == ("department", "label")
    note = next(note for note in source.notes if "'product'" in note)
    assert '--table.label_columns \'["department", "label", "subcategory", "product"]\'' in note


def test_of_two_coarser_aspects_one_is_taken_and_the_other_named(tmp_path: Path) -> None:
    """Edible or not does not lie above or below the family."""
    species = [n // 4 for n in range(48)]
    file = write(
        tmp_path,
        {
            "text": [f"cap {n}" for n in range(48)],
            "use": ["food" if s % 2 else "poison" for s in species],
            "family": [f"f{s % 5}" for s in species],
            "class": [f"s{s}" for s in species],
        },
    )
    source = open_source(file)
    assert labels(source) == ("family", "class")
    note = next(note for note in source.notes if "'use'" in note)
    assert '--table.label_columns \'["use", "class"]\'' in note


def test_columns_that_nearly_nest_are_named(tmp_path: Path) -> None:
    columns = shop()
    columns["department"][0] = "d1"  # one row of category c0, whose others are of d0
    columns["text"] = columns["text"]
    columns["category"] = [
        f"{c}{p[1:]}" if c != "c0" else c
        for c, p in zip(columns["category"], columns["product"], strict=True)
    ]
    source = open_source(write(tmp_path, columns))
    assert "department" not in labels(source)
    assert any(
        "'department' is not a level of the labels, because of 1 row: line 2 has 'c0' in 'd1'" in note
        for note in source.notes
    )


def test_a_few_gaps_that_other_rows_fill_hide_no_column(tmp_path: Path) -> None:
    columns = shop()
    columns["department"][:3] = [""] * 3
    columns["product"][-3:] = [""] * 3  # finer labels may be missing
    source = open_source(write(tmp_path, columns))
    assert labels(source) == ("department", "category", "subcategory", "product")
    assert (source.taxonomy.depth[source.nodes[-3:]] == 3).all()
    assert source.taxonomy.path(int(source.nodes[0]))[:2] == ("d0", "c0")
    assert any("in 3 rows a missing name" in note and "from other rows" in note for note in source.notes)


def test_columns_with_gaps_are_named(tmp_path: Path) -> None:
    """Category c0 never says its department."""
    columns = shop()
    columns["category"] = [f"c{int(p[1:]) % 24}" for p in columns["product"]]
    columns["subcategory"] = columns["product"]
    del columns["product"]
    lost = [row for row, name in enumerate(columns["category"]) if name == "c0"]
    for row in lost:
        columns["department"][row] = ""
    source = open_source(write(tmp_path, columns))
    assert "department" not in labels(source)
    assert any(f"'department' is empty in {len(lost)} rows" in note for note in source.notes)
    bridged = open_source(write(tmp_path, columns), gaps="skip")
    assert labels(bridged)[0] == "department"
    assert bridged.taxonomy.path(int(bridged.nodes[lost[0]]))[0] == "c0"


def test_a_few_exceptions_hide_no_column(tmp_path: Path) -> None:
    """One of 60 products lies in two categories, and stays two classes."""
    product = [n // 4 for n in range(240)]
    columns: dict[str, list[Any]] = {
        "text": [f"text {n}" for n in range(240)],
        "category": [f"p{p}" for p in product],
        "department": [f"d{p % 5}" for p in product],
    }
    columns["department"][3] = "d4"  # of p0, whose others are of d0
    source = open_source(write(tmp_path, columns))
    assert labels(source) == ("department", "category")
    assert source.taxonomy.names.count("p0") == 2
    assert any("'p0' of 'category' lies in several values of 'department'" in n for n in source.notes)


def test_placeholders_lie_anywhere(tmp_path: Path) -> None:
    columns = shop()
    for row in (0, 50, 100):
        columns["category"][row] = "Unknown"
        columns["subcategory"][row] = "n/a"
    source = open_source(write(tmp_path, columns))
    assert labels(source)[:3] == ("department", "category", "subcategory")


def test_one_sample_a_class_proves_no_nesting(tmp_path: Path) -> None:
    columns = {k: v[:12] for k, v in shop().items() if k in ("text", "department")}
    columns["class"] = [f"k{n}" for n in range(12)]
    assert labels(open_source(write(tmp_path, columns))) == ("class",)


def test_without_a_usual_name_the_columns_that_nest_are_proposed(tmp_path: Path) -> None:
    columns = {k: v for k, v in shop().items() if k not in ("category", "product")}
    with pytest.raises(
        DataError, match=r"department > subcategory nest: if they are the labels, set --table"
    ):
        open_source(write(tmp_path, columns))


def test_a_level_with_other_spellings_is_proposed(tmp_path: Path) -> None:
    """One row in 20 of the middle level is in capitals: it is proposed, with the setting that reads it."""
    columns = {k: v for k, v in shop().items() if k in ("text", "department", "subcategory")}
    columns["shelf"] = [f"c{n // 3 % 6}".upper() if n % 20 == 0 else f"c{n // 3 % 6}" for n in range(144)]
    file = write(tmp_path, columns)
    setting = '--table.label_columns \'["department", "shelf", "subcategory"]\' --table.names plain'
    with pytest.raises(DataError) as refused:
        open_source(file)
    assert f"nest, but for case and blanks: if they are the labels, set {setting}" in str(refused.value)
    source = open_source(file, label_columns=["department", "shelf", "subcategory"], names="plain")
    assert source.taxonomy.depth.bincount().tolist() == [1, 2, 6, 12]


def test_a_level_with_a_few_wrong_rows_is_named(tmp_path: Path) -> None:
    columns = {k: v for k, v in shop().items() if k in ("text", "department", "subcategory")}
    columns["shelf"] = [f"c{n // 3 % 6}" for n in range(144)]
    columns["shelf"][4] = "c3"  # of s1, whose others are in c1
    setting = '--table.label_columns \'["department", "shelf", "subcategory"]\''
    with pytest.raises(DataError) as refused:
        open_source(write(tmp_path, columns))
    assert "'shelf' would be a level with 'department' and 'subcategory' but for 1 row: line 6" in str(
        refused.value
    )
    assert setting in str(refused.value)


def test_of_two_levels_one_with_a_few_wrong_rows_is_named(tmp_path: Path) -> None:
    columns = {k: v for k, v in shop().items() if k in ("text", "department", "subcategory")}
    columns["department"][4] = "d0"
    with pytest.raises(DataError) as refused:
        open_source(write(tmp_path, columns))
    assert " would be a level with " in str(refused.value)
    assert '--table.label_columns \'["department", "subcategory"]\'' in str(refused.value)


def test_other_texts_are_mentioned(tmp_path: Path) -> None:
    columns = shop() | {"Description": ["x"] * 144}
    source = open_source(write(tmp_path, columns))
    assert any(
        "'Description' is not read; to read both as one text, set --table.text_column '[text, Desc" in n
        for n in source.notes
    )


def test_taxonomy_commands_read_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, shop())
    assert main(["taxonomy", "show", str(file), "--depth", "1"]) == 0
    assert "d0" in capsys.readouterr().out
    assert main(["taxonomy", "check", str(file)]) == 0
    assert "'d0/c0/other' (12 samples)" in capsys.readouterr().out


def test_subcategories_need_not_repeat(tmp_path: Path) -> None:
    text = (
        "Category,Subcategory,Description\nAnimals,Cat,it purrs\nAnimals,Dog,it barks\nPlants,Oak,it stands\n"
    )
    (tmp_path / "table.csv").write_text(text, encoding="utf-8")
    source = open_source(tmp_path / "table.csv")
    assert [source.taxonomy.path_name(node) for node in source.nodes.tolist()] == [
        "Animals/Cat",
        "Animals/Dog",
        "Plants/Oak",
    ]
    several = text.replace("Plants,Oak", "Plants,Cat")  # one name in two categories nests in neither
    (tmp_path / "table.csv").write_text(several, encoding="utf-8")
    assert open_source(tmp_path / "table.csv").taxonomy.numbering.depth.max() == 1


def test_codes_of_classes_are_no_vectors(tmp_path: Path) -> None:
    text = "name,id,trainId,category,catId\nroad,7,0,flat,1\nwalk,8,1,flat,1\nwall,12,3,built,2\n"
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    tree = open_labels(str(tmp_path / "labels.csv"))[0]
    assert sorted(tree.names) == ["built", "flat", "road", "root", "walk", "wall"]


def test_columns_of_names_in_the_taxonomy_are_the_labels(tmp_path: Path) -> None:
    """Whatever they are called; without the taxonomy an error asks for them."""
    tree = Taxonomy.from_paths([("animal", "bird"), ("animal", "fish"), ("vehicle", "truck")])
    rows = "robin,animal,bird,red\nscales,animal,fish,red\nlorry,vehicle,truck,blue\n"
    (tmp_path / "s.csv").write_text(f"text,kind,thing,colour\n{rows * 2}")
    with pytest.raises(DataError, match="no column for labels that is known by its name"):
        open_source(tmp_path / "s.csv")
    source = open_source(tmp_path / "s.csv", taxonomy=tree)
    assert source.nodes.tolist()[:3] == tree.encode(["bird", "fish", "truck"]).tolist()
    assert any(
        "the column thing is read as labels: all values are names in the taxonomy" in n for n in source.notes
    )
    with pytest.raises(DataError, match="no column for labels that is known by its name"):
        open_source(tmp_path / "s.csv", taxonomy=Taxonomy.from_paths([("plant", "oak"), ("plant", "elm")]))


def test_a_column_without_any_name_of_the_taxonomy_is_no_label(tmp_path: Path) -> None:
    """Though each of its values may stand for a missing name."""
    tree = Taxonomy.from_paths([("animal", "bird"), ("animal", "fish")])
    (tmp_path / "s.csv").write_text("text,remark\n" + "robin,unknown\nperch,n/a\n" * 2)
    with pytest.raises(DataError, match="no column for labels that is known by its name"):
        open_source(tmp_path / "s.csv", taxonomy=tree)


def test_a_target_that_is_a_measure_is_said_to_be_none_of_the_labels(tmp_path: Path) -> None:
    rows = "".join(f"text {n},{n / 3:.2f}\n" for n in range(12))
    (tmp_path / "s.csv").write_text(f"text,target\n{rows}")
    with pytest.raises(DataError, match="'target' holds numbers with decimals, which are no classes") as told:
        open_source(tmp_path / "s.csv")
    assert "(label, class, category, node, cls, labels, classes, targets)" in str(told.value)


def test_kinds_whose_names_repeat_below_categories_are_offered(tmp_path: Path) -> None:
    """Every category has a kind called other; they are named together, and colours are none of them."""
    rows = range(144)
    table = {
        "text": [f"thing {n}" for n in rows],
        "Colour": [("red", "blue", "green")[n // 6 % 3] for n in rows],
        "Product type": [("knife", "fork", "other")[n // 6 % 3] for n in rows],
        "Category": [f"c{n % 6}" for n in rows],
        "Department": [f"d{n % 2}" for n in rows],
    }
    source = open_source(write(tmp_path, table))
    assert labels(source) == ("Department", "Category")
    (note,) = [note for note in source.notes if "'Product type'" in note]
    asked = ["Department", "Category", "Product type"]
    assert f"--table.label_columns '{json.dumps(asked)}'" in note
    assert any("not read: 'Colour'" in note for note in source.notes)
    both = open_source(tmp_path / "table.csv", label_columns=asked)
    assert both.taxonomy.depth.bincount().tolist() == [1, 2, 6, 18]


def test_columns_that_hold_the_names_of_paths_in_a_taxonomy_are_its_depths(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths(["garden/tools", "garden/chairs", "home/tools", "home/chairs"])
    rows = [("garden", "tools"), ("garden", "n/a"), ("garden", ""), ("home", "tools"), ("home", "chairs")] * 2
    lines = [f"thing {row},red,{','.join(names)}" for row, names in enumerate(rows)]
    table = tmp_path / "table.csv"
    for usual in ("category", "things"):
        table.write_text("\n".join([f"text,colour,area,{usual}", *lines]))
        source = open_source(table, taxonomy=tree, missing_labels=["n/a"])
        said = f"the columns area > {usual} are read as labels: their values are the names of paths"
        assert any(said in note for note in source.notes)
        nodes = ["garden/tools", "garden", "garden", "home/tools", "home/chairs"]
        assert tree.decode(source.nodes[:5]) == nodes
    table.write_text("text,area,category\na,home,tools\nb,garden,chairs\n")
    source = open_source(table, taxonomy=Taxonomy.from_paths(["garden/tools", "home/chairs"]))
    assert source.columns["labels"] == ("category",)
