"""The nodes of one taxonomy in another."""

import unicodedata

from labeltree.taxonomy import Taxonomy, TaxonomyDAG, match_nodes


def test_by_path_then_by_name() -> None:
    source = Taxonomy.from_paths(["a/b/c", "a/d", "e"])
    target = Taxonomy.from_paths(["a/d", "z/b/c", "z/e", "y/q"])
    nodes = match_nodes(source, target).nodes
    expected = {"a": "a", "a/d": "a/d", "a/b": "z/b", "a/b/c": "z/b/c", "e": "z/e"}
    for here, there in expected.items():
        assert int(nodes[source.find(here)]) == target.find(there)


def test_accents_composed_and_decomposed_are_the_same() -> None:
    composed, decomposed = (unicodedata.normalize(form, "Bär/Möwe") for form in ("NFC", "NFD"))
    old, new = Taxonomy.from_paths([composed]), Taxonomy.from_paths([decomposed])
    assert match_nodes(old, new).nodes.tolist() == [0, 1, 2]


def test_namesakes_are_not_guessed() -> None:
    """Two nodes are called so here or there: which one is meant cannot be told, unless the path says."""
    two = Taxonomy.from_paths(["pet/other", "farm/other"])
    one = Taxonomy.from_paths(["mammal/other"])
    assert match_nodes(two, one).nodes.tolist() == [0, -1, -1, -1, -1]
    assert match_nodes(two, one).ambiguous == [two.find("pet/other"), two.find("farm/other")]
    assert match_nodes(one, two).nodes.tolist() == [0, -1, -1]
    assert match_nodes(one, two).ambiguous == [one.find("other")]
    assert match_nodes(two, two).nodes.tolist() == [0, 1, 2, 3, 4]
    assert match_nodes(two, two).ambiguous == []


def test_into_a_dag() -> None:
    dag = TaxonomyDAG.from_edges([("pet", "thing"), ("wild", "thing"), ("dog", "pet"), ("dog", "wild")])
    tree = Taxonomy.from_paths(["animal/dog"])
    assert match_nodes(tree, dag).nodes.tolist() == [0, -1, dag.find("dog")]
