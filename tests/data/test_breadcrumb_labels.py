"""Labels of tables that are written as breadcrumbs."""

from pathlib import Path

import pytest

from labeltree.data.table_columns import DataTable
from labeltree.data.table_labels import label_nodes
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
        "labels such as 'Apparel > Shoes > Boots' were read as paths: '>' separates the names",
    )
    again = label_nodes(table_of(cells, tmp_path), ["label"], tree)
    assert again.nodes.tolist() == found.nodes.tolist()


@pytest.mark.parametrize("cells", [["5 > 3", "dog", "cat"], ["a > b", "c > d"]])
def test_other_names_stay_names(cells: list[str], tmp_path: Path) -> None:
    found = label_nodes(table_of(cells, tmp_path), ["label"], None)
    assert sorted(found.taxonomy.names[1:]) == sorted(cells)
    assert not found.notes


def test_names_of_the_taxonomy_stay_names(tmp_path: Path) -> None:
    cells = ["a > b", "a > c"]
    found = label_nodes(
        table_of(cells, tmp_path), ["label"], Taxonomy.from_paths([(cell,) for cell in cells])
    )
    assert not found.notes
    assert (found.nodes > 0).all()
