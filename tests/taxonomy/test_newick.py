"""Newick files: what is read, what is written, what is wrong."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from slow_trees import Rows, trees

from labeltree.taxonomy import Taxonomy, TaxonomyError
from labeltree.taxonomy.files.newick import entries_from_newick, newick_from_tree

pytestmark = pytest.mark.slow


def read(text: str, root_name: str | None = "root") -> Taxonomy:
    entries = entries_from_newick(text, root_name)
    return Taxonomy(entries.names, entries.parent())


def test_support_values_are_no_names() -> None:
    entries = entries_from_newick("((a:1,b:1)95:2,(c:1,d:1)0.8/100:2);")
    assert sorted(entries.names) == ["a", "a … b", "b", "c", "c … d", "d", "root"]
    assert entries.notes == ("the numbers of inner nodes are support values, and no names",)
    assert "95" in entries_from_newick("((a,b)95,(c,d)80);").names  # no lengths: names as we write them
    assert "95" in entries_from_newick("((1:1,2:1)95:2,(3:1,4:1)80:2);").names


def test_names_lengths_quotes_and_comments() -> None:
    tree = read(
        """[a tree] ((dog:0.1,'Felis [catus]':1e-3)mammal[95]:2 ,
        (sea_trout , 'O''Hara''s cod') fish:0.5)animal:0;
        """
    )
    assert tree.names[0] == "animal"
    expected = ["mammal/dog", "mammal/Felis [catus]", "fish/sea_trout", "fish/O'Hara's cod"]
    assert tree == Taxonomy.from_paths(expected, root_name="animal")


def test_the_outermost_node_is_the_root() -> None:
    assert read("((a,b)x,c);").names == ["root", "x", "a", "b", "c"]
    assert read("((a,b)x,c);", root_name="life").names[0] == "life"
    assert read("((a,b)x,c)", root_name=None).names[0] == "root", "the last semicolon may be missing"
    assert read("((a,b)x,c)y;", root_name="life").names[0] == "y"


def test_inner_nodes_without_names_are_called_by_their_leaves() -> None:
    tree = read("(((a,b),(c)),((d,e)x,f));")
    assert tree.names == ["root", "a … c", "a … b", "a", "b", "c", "c", "d … f", "x", "d", "e", "f"]
    assert read(newick_from_tree(tree.names, tree.parent.tolist())) == tree


@given(trees())
@settings(max_examples=80)
def test_what_is_written_is_read(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    text = newick_from_tree(tree.names, tree.parent.tolist())
    assert text.count("\n") == 1
    assert read(text) == tree


def test_the_text() -> None:
    tree = Taxonomy.from_paths(["a/x-1.b", "a/it's", "sea_trout", "T-shirt/top (old)"], root_name="all")
    assert (
        newick_from_tree(tree.names, tree.parent.tolist())
        == "((x-1.b,'it''s')a,'sea_trout',('top (old)')T-shirt)all;\n"
    )


@pytest.mark.parametrize("suffix", [".nwk", ".newick", ".tree"])
def test_files(suffix: str, tmp_path: Path) -> None:
    tree = Taxonomy.from_paths(["a/b/c", "a/d", "e"], root_name="life")
    tree.save(tmp_path / f"tree{suffix}")
    assert Taxonomy.from_file(tmp_path / f"tree{suffix}") == tree


def test_deep_trees_do_not_recurse() -> None:
    depth = 5_000
    chain = Taxonomy.from_edges([(f"n{i + 1}", f"n{i}") for i in range(depth)])
    assert read(newick_from_tree(chain.names, chain.parent.tolist())) == chain


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("((a,b)x,\n(c,d);", "the tree ends with 1 brackets open|line 2: ';' cannot stand here"),
        ("(a,b))x;", r"line 1: '\)' cannot stand here"),
        ("(a\n,);", "line 2: a leaf has no name"),
        ("(a,b);(c,d);", "line 1: a second tree begins"),
        ("(a b,c);", "line 1: 'b' cannot stand here"),
        ("(a:x,b);", "line 1: 'x' stands where a branch length must"),
        ("(a:", "'the end' stands where a branch length must"),
        ("(a,\n[b);", r"line 2: a comment begins with \[ and does not end"),
        ("(a,'b);", 'line 1: "\'" cannot stand here'),
        ("a,b;", "line 1: ',' cannot stand here"),
        ("a(b);", r"line 1: '\(' cannot stand here"),
        ("((a,b)95,(c,d)95);", "the root has two children named '95'"),
        ("(a,\x07b);", "control character"),
        ("a;", "no node below the root"),
        (";", "a leaf has no name"),
    ],
)
def test_broken_files_say_where(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "tree.nwk").write_text(text)
    with pytest.raises(TaxonomyError, match=message) as error:
        Taxonomy.from_file(tmp_path / "tree.nwk")
    assert str(error.value).startswith(str(tmp_path / "tree.nwk"))
