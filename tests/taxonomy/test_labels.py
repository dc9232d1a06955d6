import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from slow_trees import Rows, trees

from labeltree.taxonomy import Taxonomy, TaxonomyError
from labeltree.taxonomy.naming import join_path, split_path

pytestmark = pytest.mark.slow

PATHS = ["animal/mammal/dog", "animal/mammal/cat", "animal/other", "plant/oak", "plant/other"]


@given(trees())
@settings(max_examples=150)
def test_labels_read_back_as_their_nodes(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    nodes = torch.arange(-1, len(tree))
    texts = tree.decode(nodes)
    assert texts[0] is None
    assert torch.equal(tree.encode(texts), nodes)
    assert [tree.find(text) for text in texts[1:]] == list(range(len(tree)))
    assert torch.equal(tree.encode([tree.path(node) for node in range(len(tree))]), nodes[1:])


@given(trees())
@settings(max_examples=100)
def test_a_name_is_found_where_one_node_has_it(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    for node in range(1, len(tree)):
        name = tree.names[node]
        by_path = [v for v in range(len(tree)) if tree.path(v) == split_path(name)]
        by_name = [v for v in range(1, len(tree)) if tree.names[v] == name]
        meant = by_path if by_path and name.startswith("/") else sorted({*by_path, *by_name})
        if len(meant) == 1:
            assert tree.find(name) == meant[0]
        else:
            with pytest.raises(TaxonomyError, match="is ambiguous"):
                tree.find(name)


@given(trees())
@settings(max_examples=60)
def test_paths_as_strings_round_trip(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    for node in range(len(tree)):
        assert split_path(join_path(tree.path(node))) == tree.path(node)


def test_encode_takes_names_paths_and_missing_labels() -> None:
    tree = Taxonomy.from_paths(PATHS)
    labels = ["dog", "animal/other", ("plant", "other"), ["plant"], " oak ", "/plant/oak", "root", "/", ()]
    assert tree.decode(tree.encode(labels)) == [
        *(
            "animal/mammal/dog",
            "animal/other",
            "plant/other",
            "plant",
            "plant/oak",
            "plant/oak",
            "/",
            "/",
            "/",
        )
    ]
    assert tree.encode([None, "", " ", float("nan"), np.float32("nan")]).tolist() == [-1] * 5
    assert tree.encode([]).shape == (0,)
    assert tree.encode(np.array(["dog", None], dtype=object)).tolist() == [3, -1]
    assert tree.encode(np.array(["dog", "oak"])).dtype == torch.int64


def test_encode_takes_missing_values_of_pandas() -> None:
    pd = pytest.importorskip("pandas")
    tree = Taxonomy.from_paths(PATHS)
    assert tree.encode(pd.Series(["dog", None, pd.NA, pd.NaT])).tolist() == [3, -1, -1, -1]
    assert tree.encode(pd.Series(["dog", None], dtype="string")).tolist() == [3, -1]


def test_awkward_names() -> None:
    tree = Taxonomy.from_paths([("T-shirt/top",), ("a", "b"), ("a/b",), ("b\\", "c"), ("root", "x")])
    assert tree.path(tree.find("T-shirt/top")) == ("T-shirt/top",)
    assert tree.path_name(tree.find("T-shirt/top")) == r"T-shirt\/top"
    with pytest.raises(
        TaxonomyError, match=r"'a/b' is ambiguous, it may be '/a/b' and 'a\\\\/b'; give the path"
    ):
        tree.find("a/b")
    assert tree.path(tree.find("/a/b")) == ("a", "b")
    assert tree.path(tree.find(r"a\/b")) == ("a/b",)
    assert tree.path(tree.find(r"b\\/c")) == ("b\\", "c")
    assert tree.path(tree.find("root")) == ("root",)  # a class comes before the root of that name
    assert tree.find("/") == 0


def test_labels_that_are_not_there() -> None:
    tree = Taxonomy.from_paths(PATHS)
    expected = {
        "Dgo": "label 'Dgo' is not in the taxonomy (nearest: 'dog')",
        "zzz": "label 'zzz' is not in the taxonomy (there are 'animal', 'mammal', 'dog' and 5 more)",
        "animal/mamal/dog": "label 'animal/mamal/dog' is not in the taxonomy ('animal' has no child 'mamal'; "
        "nearest: 'mammal')",
        "plant/oak/leaf": "label 'plant/oak/leaf' is not in the taxonomy ('plant/oak' is a leaf)",
        "animal > mammal > dgo": "label 'animal > mammal > dgo' is not in the taxonomy "
        "('animal/mammal' has no child 'dgo'; nearest: 'dog')",
        "beast/dog": "label 'beast/dog' is not in the taxonomy (the root has no child 'beast'; "
        "there are 'animal' and 'plant')",
    }
    for label, sentence in expected.items():
        for query in (tree.find, lambda label: tree.encode(["dog", label, label])):
            with pytest.raises(TaxonomyError) as caught:
                query(label)
            assert str(caught.value) == sentence
    tree = Taxonomy.from_paths([("melanocytic", "naevus"), ("melanocytic", "melanoma"), ("T-shirt/top",)])
    above = "'melanocytic' has no child"
    hints = {
        "melanocytic/nevus": f"{above} 'nevus'; nearest: 'naevus'",
        "melanocytic/xyz": f"{above} 'xyz'; there are 'naevus' and 'melanoma'",
        "melanocytic/naevus/a": "'melanocytic/naevus' is a leaf",
        "melanocytik/naevus": "the root has no child 'melanocytik'; nearest: 'melanocytic'",
        "melanocytic > nevus": f"{above} 'nevus'; nearest: 'naevus'",
        "T-shirt/tpo": "nearest: 'T-shirt/top'",
    }
    for label, hint in hints.items():
        with pytest.raises(TaxonomyError, match=rf"is not in the taxonomy \({re.escape(hint)}\)$"):
            tree.find(label)


def test_several_labels_that_are_not_there() -> None:
    tree = Taxonomy.from_paths(PATHS)
    with pytest.raises(TaxonomyError, match=r"5 labels are not .*: 'v' \(.*\); 'w' .*'x' .* and 2 more$"):
        tree.encode(["v", "w", "x", "y", "z", "dog"])
    with pytest.raises(TaxonomyError, match=r"label \('animal', 'oak'\) is not in the taxonomy"):
        tree.find(("animal", "oak"))


def test_near_names_come_from_the_same_first_letter_in_a_large_tree() -> None:
    tree = Taxonomy.from_paths([f"species {i:05d}" for i in range(20_001)] + ["oak", "dog"])
    with pytest.raises(TaxonomyError, match=r"\(nearest: 'oak'\)"):
        tree.find("oakk")


def test_ambiguous_names_list_their_paths() -> None:
    tree = Taxonomy.from_paths(PATHS)
    for query in (tree.find, lambda label: tree.encode([label])):
        with pytest.raises(TaxonomyError, match=r"'other' is ambiguous, .* 'animal/other' and 'plant/other'"):
            query("other")


@pytest.mark.parametrize("label", [3, 1.5, True, ("plant", 3), np.int64(3), b"dog"])
def test_labels_of_another_type(label: object) -> None:
    with pytest.raises(TaxonomyError, match="expected a name, a path or None; nodes need no encoding"):
        Taxonomy.from_paths(PATHS).encode([label])


def test_one_label_in_place_of_many() -> None:
    with pytest.raises(TaxonomyError, match="labels is the string 'dog', expected a sequence; use find"):
        Taxonomy.from_paths(PATHS).encode("dog")


def test_decode_takes_one_dimension() -> None:
    with pytest.raises(ValueError, match=r"nodes has shape \(1, 2\), expected \(n,\)"):
        Taxonomy.from_paths(PATHS).decode([[1, 2]])
    assert Taxonomy.from_paths(PATHS).decode([]) == []
