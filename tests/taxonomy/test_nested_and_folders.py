import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from slow_trees import Rows, trees

from labeltree.taxonomy import Taxonomy, TaxonomyError


@given(trees())
@settings(max_examples=60)
def test_nested_mappings_give_back_the_tree(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    nested: list[dict[str, object]] = [{} for _ in range(len(tree))]
    for node in range(1, len(tree)):
        nested[int(tree.parent[node])][tree.names[node]] = nested[node]
    assert Taxonomy.from_nested(nested[0], root_name=tree.names[0]) == tree
    assert Taxonomy.from_nested({tree.names[0]: nested[0]}, root_name=None) == tree


def test_every_way_to_write_the_same_tree() -> None:
    expected = Taxonomy.from_paths(["a/b/c", "a/b/d", "a/e", "f", "g/h"])
    for nested in (
        {"a": {"b": ["c", "d"], "e": None}, "f": None, "g": "h"},
        {"a": [{"b": ["c", "d"]}, "e"], "f": {}, "g": ["h"]},
        [{"a": [{"b": {"c": None, "d": []}}, {"e": None}], "f": ""}, {"g": ("h",)}],
    ):
        assert Taxonomy.from_nested(nested) == expected
    assert Taxonomy.from_nested({1: [2, 3]}).names == ["root", "1", "2", "3"]


def broken_nestings() -> dict[str, tuple[object, str]]:
    loop: dict[str, object] = {}
    loop["a"] = [loop]
    return {
        "a name": ("a", "expected nested names, a mapping or a list, found only 'a'"),
        "nothing": (None, "expected nested names, a mapping or a list, found only None"),
        "empty": ({}, "there are no names; give at least one"),
        "repeated item": (
            {"a": ["b", "b"]},
            "'a' has two children named 'b'; names may repeat, but not under one parent",
        ),
        "repeated over two mappings": (
            [{"a": "b"}, {"a": "c"}],
            "the root has two children named 'a'; names may repeat, but not under one parent",
        ),
        "list in a list": ({"a": [["b"]]}, "a list stands within a list (below 'a'): its node has no name"),
        "empty name": ({"a": {"": "b"}}, "a node below 'a' has an empty name; every node needs one"),
        "missing item": (["a", None], "a node below the root has an empty name; every node needs one"),
        "a truth value": ({"a": [True]}, "True is of type bool, expected a name; put it in quotes"),
        "a number": ({1.5: None}, "1.5 is of type float, expected a name; put it in quotes"),
        "within itself": (loop, "the nested data contain themselves: a mapping or list stands within itself"),
    }


@pytest.mark.parametrize("case", broken_nestings())
def test_broken_nestings(case: str) -> None:
    nested, sentence = broken_nestings()[case]
    with pytest.raises(TaxonomyError) as caught:
        Taxonomy.from_nested(nested)
    assert str(caught.value) == sentence


def test_data_used_twice_side_by_side_do_not_contain_themselves() -> None:
    sizes = ["small", "large"]
    assert Taxonomy.from_nested({"dog": sizes, "cat": sizes}).num_leaves == 4


def test_several_outermost_names_are_no_root() -> None:
    with pytest.raises(TaxonomyError, match=r"root_name=None makes .* but there are 2: 'a' and 'b'"):
        Taxonomy.from_nested({"a": None, "b": None}, root_name=None)


def make(folder: Path, *paths: str) -> Path:
    for path in paths:
        (folder / path).mkdir(parents=True)
    return folder


def test_folders_are_nodes(tmp_path: Path) -> None:
    make(
        tmp_path,
        "plant/oak",
        "animal/dog",
        "animal/cat",
        ".git/hooks",
        "animal/.cache",
        "animal/fish & chips",
    )
    for file in ("plant/oak/1.png", "animal/2.png", "readme.txt", ".hidden"):
        (tmp_path / file).write_text("")
    expected = Taxonomy.from_paths(["animal/cat", "animal/dog", "animal/fish & chips", "plant/oak"])
    assert Taxonomy.from_folders(tmp_path) == expected
    assert Taxonomy.from_folders(str(tmp_path), root_name="life").names[0] == "life"


def test_folders_that_are_no_taxonomy(tmp_path: Path) -> None:
    with pytest.raises(TaxonomyError, match=r"the folder '.*nowhere' does not exist"):
        Taxonomy.from_folders(tmp_path / "nowhere")
    with pytest.raises(
        TaxonomyError, match=r"the folder '.*' has no subfolders; their names are the taxonomy's nodes"
    ):
        Taxonomy.from_folders(tmp_path)
    (tmp_path / "file.yaml").write_text("")
    with pytest.raises(TaxonomyError, match=r"'.*file.yaml' is a file, not a folder; Taxonomy.from_file"):
        Taxonomy.from_folders(tmp_path / "file.yaml")
    make(tmp_path, "dog", "dog ")
    with pytest.raises(TaxonomyError, match="the root has two children named 'dog'"):
        Taxonomy.from_folders(tmp_path)


def test_links_between_folders(tmp_path: Path) -> None:
    data = make(tmp_path / "data", "a/b", "c")
    make(tmp_path, "elsewhere/x")
    (data / "linked").symlink_to(tmp_path / "elsewhere")
    (data / "c" / "again").symlink_to(data / "a")
    (data / "broken").symlink_to(tmp_path / "nowhere")
    assert Taxonomy.from_folders(data) == Taxonomy.from_paths(["a/b", "c/again/b", "linked/x"])

    (data / "a" / "b" / "up").symlink_to(data)
    with pytest.raises(
        TaxonomyError, match=r"the link '.*up' leads back to '.*data', which it lies in; remove the link"
    ):
        Taxonomy.from_folders(data)
    (data / "a" / "b" / "up").unlink()

    # Two links that lead into each other's folders: neither leads straight back.
    (data / "a" / "to_c").symlink_to(data / "c")
    with pytest.raises(TaxonomyError, match="leads back to"):
        Taxonomy.from_folders(data)
    (data / "a" / "to_c").unlink()

    (data / "itself").symlink_to(data / "itself")
    with pytest.raises(
        TaxonomyError, match=r"the folder '.*itself' cannot be read: Too many levels of symbolic links"
    ):
        Taxonomy.from_folders(data)


@pytest.mark.skipif(os.name != "posix" or not hasattr(os, "geteuid"), reason="needs POSIX file names")
def test_folder_names_that_are_no_text(tmp_path: Path) -> None:
    try:
        os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")
    except OSError:
        pytest.skip("this file system takes only Unicode names")
    with pytest.raises(
        TaxonomyError, match=r"the name 'caf\\udce9', which is not valid Unicode text; rename it"
    ):
        Taxonomy.from_folders(tmp_path)


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 0)() == 0, reason="the administrator may read everything")
def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    make(tmp_path, "a/b")
    (tmp_path / "a").chmod(0)
    try:
        with pytest.raises(TaxonomyError, match=r"the folder '.*a' cannot be read: Permission denied"):
            Taxonomy.from_folders(tmp_path)
    finally:
        (tmp_path / "a").chmod(0o755)
