"""Labels of tables that are written as breadcrumbs."""

from pathlib import Path

import pytest

from labeltree.data import open_source
from labeltree.data.table_columns import DataTable
from labeltree.data.tables.row_labels import label_nodes
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy


def table_of(labels: list[str], folder: Path) -> DataTable:
    file = folder / "table.csv"
    file.write_text("text,label\n" + "".join(f"t{i},{label}\n" for i, label in enumerate(labels)))
    return DataTable.read(file)


def test_breadcrumbs_are_paths_and_a_note_says_so(tmp_path: Path) -> None:
    cells = [
        "Apparel > Shoes > Boots",
        "Apparel > Hats",
        "Apparel > Shoes/Socks",
        "Apparel > Hats",
        "Apparel",
        "",
    ]
    found = label_nodes(table_of(cells, tmp_path), ["label"], None)
    tree = found.taxonomy
    assert tree.path(int(found.nodes[0])) == ("Apparel", "Shoes", "Boots")
    assert tree.path(int(found.nodes[2])) == ("Apparel", "Shoes/Socks")
    assert tree.path(int(found.nodes[4])) == ("Apparel",)
    assert int(found.nodes[1]) == int(found.nodes[3])
    assert len(found.unused) == 1
    assert found.notes == (
        "labels such as 'Apparel > Shoes > Boots' were read as paths: '>' separates the names "
        "(--table.separator TEXT says what does; with none they are names)",
    )
    again = label_nodes(table_of(cells, tmp_path), ["label"], tree)
    assert again.nodes.tolist() == found.nodes.tolist()


SHOP = [f"{a} > {b} > {c}" for a in ("Garden", "House") for b in ("Red", "Blue") for c in ("One", "Two")]


@pytest.mark.parametrize(
    "others",
    [
        [path.replace(" > ", ">") for path in SHOP],
        [path.replace(" > ", " >") for path in SHOP[:3]],
        [path.replace(" > ", " › ") for path in SHOP],
        [path.replace(" > ", "»") for path in SHOP[:3]],
        ["Garden > Red>One", "Garden > Red › Two", "Garden>Red", "Garden"],
    ],
)
def test_other_blanks_and_signs_are_read_alike(others: list[str], tmp_path: Path) -> None:
    found = label_nodes(table_of([*SHOP, *others], tmp_path), ["label"], None)
    assert found.taxonomy == Taxonomy.from_paths([path.split(" > ") for path in SHOP])
    assert len(found.notes) == 1
    again = label_nodes(table_of(others, tmp_path), ["label"], found.taxonomy)
    assert again.nodes.tolist() == found.nodes.tolist()[len(SHOP) :]


def test_a_path_without_blanks_need_not_be_known(tmp_path: Path) -> None:
    found = label_nodes(table_of([*SHOP, "Garden>Green>One", "Car>Tyre>Rim"], tmp_path), ["label"], None)
    paths = [found.taxonomy.path(node) for node in found.nodes.tolist()[-2:]]
    assert paths == [("Garden", "Green", "One"), ("Car", "Tyre", "Rim")]
    assert "'>' separates the names" in found.notes[0]


def test_a_few_names_with_a_sign_stay_whole_beside_breadcrumbs(tmp_path: Path) -> None:
    cells = [*SHOP, "House > Red", "House > Blue", "House > C>A > One", "p>0.05"]
    found = label_nodes(table_of(cells, tmp_path), ["label"], None)
    paths = [found.taxonomy.path(node) for node in found.nodes.tolist()[-2:]]
    assert paths == [("House", "C>A", "One"), ("p>0.05",)]


def test_signs_that_are_not_read_are_told(tmp_path: Path) -> None:
    names = [f"name {number}" for number in range(8)]
    few = label_nodes(table_of([*names, "Garden > Red > One"], tmp_path), ["label"], None)
    assert not few.notes
    for cells in ([*names, *SHOP], [*names, *SHOP[:2]], [*names, *names, *SHOP[:1] * 9]):
        found = label_nodes(table_of(cells, tmp_path), ["label"], None)
        assert "Garden > Red > One" in found.taxonomy.names
        (note,) = found.notes
        assert "labels such as 'Garden > Red > One' are read as names" in note
        assert "if '>' separates names of paths, set --table.separator '>'" in note
        whole = label_nodes(table_of(cells, tmp_path), ["label"], None, separator="none")
        assert not whole.notes


def test_labels_with_another_sign_than_the_setting_are_told(tmp_path: Path) -> None:
    table = table_of([*SHOP, "Garden › Red › One", "House|Blue", "AC/DC"], tmp_path)
    found = label_nodes(table, ["label"], None, separator=">")
    assert ("Garden › Red › One",) in [found.taxonomy.path(node) for node in found.nodes.tolist()]
    assert found.notes[1] == (
        "labels such as 'Garden › Red › One' have '›', and are read as names: --table.separator says that "
        "'>' alone separates the names of paths"
    )
    assert len(label_nodes(table_of(SHOP, tmp_path), ["label"], None, separator=">").notes) == 1


@pytest.mark.parametrize(
    "cells",
    [
        ["5 > 3", *"abcdefgh"],
        ["a>b", "c>d"],
        ["EWSR1::FLI1", "EWSR1::ERG", "EWSR1"],
        ["cat | dog", "cat | bird", "cat"],
    ],
)
def test_other_names_stay_names(cells: list[str], tmp_path: Path) -> None:
    found = label_nodes(table_of(cells, tmp_path), ["label"], None)
    assert sorted(found.taxonomy.names[1:]) == sorted(cells)
    assert not found.notes


@pytest.mark.parametrize("cells", [["5 > 3", "dog", "cat"], ["a > b", "c > d"], ["C > A", "C > G", "G > A"]])
def test_other_names_with_spaced_signs_stay_names_with_a_note(cells: list[str], tmp_path: Path) -> None:
    found = label_nodes(table_of(cells, tmp_path), ["label"], None)
    assert sorted(found.taxonomy.names[1:]) == sorted(cells)
    assert "set --table.separator '>'" in found.notes[0]


def test_names_of_the_taxonomy_stay_names(tmp_path: Path) -> None:
    cells = ["a > b", "a > c > d"]
    found = label_nodes(
        table_of(cells, tmp_path), ["label"], Taxonomy.from_paths([(cell,) for cell in cells])
    )
    assert not found.notes
    assert (found.nodes > 0).all()


def test_a_path_of_the_taxonomy_is_found_in_a_single_row(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths(["Apparel/Shoes", "C > A", "C/A"])
    found = label_nodes(table_of(["Apparel > Shoes", "C > A"], tmp_path), ["label"], tree)
    assert [tree.path(node) for node in found.nodes.tolist()] == [("Apparel", "Shoes"), ("C > A",)]
    assert "'Apparel > Shoes' were read as paths: '>'" in found.notes[0]


def test_a_slash_is_part_of_a_name_beside_breadcrumbs(tmp_path: Path) -> None:
    cells = ["Health/Beauty", "Health/Beauty > Soap", "Health/Beauty > Soap > Bar"]
    tree = label_nodes(table_of(cells, tmp_path), ["label"], None).taxonomy
    assert tree.names == ["root", "Health/Beauty", "Soap", "Bar"]
    again = label_nodes(table_of(cells, tmp_path), ["label"], tree)
    assert again.nodes.tolist() == [1, 2, 3]


def test_the_separator_is_a_setting(tmp_path: Path) -> None:
    cells = ["std::vector", "std::map", "a > b > c", "a > d"]
    table = table_of(cells, tmp_path)
    split = label_nodes(table, ["label"], None, separator="::").taxonomy
    assert [split.path(leaf) for leaf in split.leaves.tolist()] == [
        *(("std", "vector"), ("std", "map"), ("a > b > c",), ("a > d",))
    ]
    whole = label_nodes(table_of(["a > b > c", "a > d"], tmp_path), ["label"], None, separator="none")
    assert whole.taxonomy.names == ["root", "a > b > c", "a > d"]
    assert not whole.notes
    with pytest.raises(DataError, match="the separator of labels is empty"):
        label_nodes(table, ["label"], None, separator="")


def test_aspects_are_split_with_a_note(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("text,label,kind\nt0,x,a > b > c\nt1,y,a > d\n")
    source = open_source(file, aspect_columns=["kind"])
    assert source.aspect_taxonomies[0].names == ["root", "a", "b", "c", "d"]
    assert any(note.startswith("kind: labels such as 'a > b > c'") for note in source.notes)
    source = open_source(file, aspect_columns=["kind"], separator="none")
    assert source.aspect_taxonomies[0].names == ["root", "a > b > c", "a > d"]
