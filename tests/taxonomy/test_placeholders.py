"""Names that stand for missing labels are pointed out, and taken out of a tree where that is asked for."""

import pytest
import torch

from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy, TaxonomyDAG
from labeltree.taxonomy.placeholders import MissingNames, placeholder_nodes

TREE = Taxonomy.from_paths(
    ["mammal/dog", "mammal/Unknown", "fish/trout", "fish/other", "UNKNOWN", "?", "n/a", "bird/none/owl"]
)


def test_they_are_found_in_any_writing() -> None:
    found = {TREE.path_name(node) for node in placeholder_nodes(TREE)}
    assert found == {"mammal/Unknown", "UNKNOWN", "?", "n", "bird/none"}


@pytest.mark.parametrize(
    "name",
    [
        *("unknown", "N/A", "other", "None", "NULL", "?", "misc", "not_available", "-"),
        *("unsorted", "New folder", "New folder (2)", "untitled folder 3", "To_sort"),
        *("unsortiert", "Noch zu sortieren", "Neuer Ordner (2)", "à trier", "Non triés", "sin ordenar"),
        *("da ordinare", "por ordenar", "Ongesorteerd", "osorterat", "usorteret", "nieposortowane"),
        *("unbekannt", "inconnu", "desconocido", "sconosciuto", "desconhecido", "onbekend", "sonstiges"),
    ],
)
def test_check_names_them_and_the_setting(name: str) -> None:
    tree = Taxonomy.from_paths([("animal", "dog"), ("animal", name)])
    nodes = torch.tensor([2, 2, 3, 3, 3])
    for said in (tree.check(), tree.check(nodes), TaxonomyDAG.from_tree(tree).check()):
        sentence = next(line for line in said if "missing_labels" in line)
        assert f"'animal/{name}'" in sentence
        assert f"--missing_labels '[\"{name.lower().replace('_', ' ')}\"]'" in sentence
    for taxonomy in (tree, TaxonomyDAG.from_tree(tree)):
        assert "(3 samples)" in next(line for line in taxonomy.check(nodes) if "missing_labels" in line)
    assert not any("missing_labels" in line for line in tree.check(nodes[:2]))  # no sample has it
    assert not any("missing_labels" in line for line in Taxonomy.from_paths(["animal/dog"]).check())


def test_accents_of_folders_count_however_they_are_stored() -> None:
    tree = Taxonomy.from_paths([("fruit", "a\u0300 trier"), ("fruit", "apple")])
    assert any("'fruit/a\u0300 trier'" in line for line in tree.check())


def test_a_label_ends_before_a_missing_name() -> None:
    missing = MissingNames(["unknown", "n/a", "fish/other"])
    assert missing.cut(("mammal", "UNKNOWN"), 3) == ("mammal",)
    assert missing.cut(("unknown", "dog")) == ()
    assert missing.cut(("animal", "n", "a")) == ("animal",)
    assert missing.cut(("N/A",)) == ()
    assert missing.cut(("fish", "Other")) == ("fish",)
    assert missing.cut(("mammal", "other")) == ("mammal", "other")  # a path is one place
    assert missing.found == {"unknown": 4, "n/a": 2, "fish/other": 1}
    with pytest.raises(TaxonomyError, match="'  ', which is not a name"):
        MissingNames(["  "])


def test_a_tree_without_them() -> None:
    tree, mapping, why = MissingNames(["unknown", "none"]).without(TREE)
    assert [tree.path_name(n) for n in range(1, tree.num_nodes)] == [
        "mammal", "mammal/dog", "fish", "fish/trout", "fish/other", "?", "n", "n/a", "bird",
    ]  # fmt: skip
    for node in range(1, TREE.num_nodes):
        name, to = TREE.path_name(node), int(mapping[node])
        if why[node] is None:
            assert tree.path_name(to) == name
        else:
            above = {"mammal/Unknown": "mammal", "bird/none": "bird", "bird/none/owl": "bird"}.get(name)
            assert (None if to < 0 else tree.path_name(to)) == above
    same, identity, _ = MissingNames(["elsewhere"]).without(TREE)
    assert same is TREE
    assert identity.tolist() == list(range(TREE.num_nodes))
    with pytest.raises(TaxonomyError, match="no other class is left"):
        MissingNames(["a", "b"]).without(Taxonomy.from_paths(["a", "b"]))
