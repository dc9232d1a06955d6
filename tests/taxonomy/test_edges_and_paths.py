from collections.abc import Hashable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_trees import Rows, trees

from labeltree.taxonomy import Taxonomy, TaxonomyError

pytestmark = pytest.mark.slow


@given(trees(), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_edges_in_any_order_give_the_same_tree_of_names(rows: Rows, random: object) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    pairs = [(child, parent) for child, parent in enumerate(rows.parents) if parent >= 0]
    names = dict(enumerate(rows.names))
    assert Taxonomy.from_edges(pairs, names=names) == tree
    root = rows.parents.index(-1)
    assert Taxonomy.from_edges([(root, None), *pairs], names=names) == tree
    assert Taxonomy.from_edges(pairs, root=root, names=names) == tree
    random.shuffle(pairs)  # type: ignore[attr-defined]
    shuffled = Taxonomy.from_edges(pairs, names=names)
    assert {shuffled.path(v) for v in range(len(tree))} == {tree.path(v) for v in range(len(tree))}


@given(trees())
@settings(max_examples=60)
def test_paths_give_back_the_tree(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    name = tree.names[0]
    every_path = [tree.path(v) for v in range(1, len(tree))]
    leaf_paths = [tree.path(v) for v in tree.leaves.tolist()]
    padded = [(*path, None, float("nan")) for path in leaf_paths]
    for paths in (every_path, leaf_paths, padded, [*leaf_paths, *leaf_paths]):
        assert Taxonomy.from_paths(paths, root_name=name) == tree
    assert Taxonomy.from_paths([(name, *path) for path in leaf_paths], root_name=None) == tree


def test_children_keep_the_order_in_which_they_were_given() -> None:
    assert Taxonomy.from_edges([("b", "r"), ("a", "r"), ("c", "b")]).names == ["r", "b", "c", "a"]
    assert Taxonomy.from_paths(["b", "a", "b/c"]).names == ["root", "b", "c", "a"]


def test_ids_of_any_kind_are_named_by_their_text() -> None:
    assert Taxonomy.from_edges([(2, 1), (("x", 3), 1)]).names == ["1", "2", "('x', 3)"]
    assert Taxonomy.from_edges([(" b ", "a"), ("c", "b ")]).names == ["a", "b", "c"]
    assert Taxonomy.from_edges([(1, 0), (2, 0)], names={0: "all", 1: "one", 2: "two"}).names == [
        "all",
        "one",
        "two",
    ]


Pairs = list[Sequence[Hashable]]
BROKEN_EDGES: dict[str, tuple[Pairs, str]] = {
    "cycle": (
        [("a", "b"), ("b", "c"), ("c", "a")],
        "the parents form a cycle, 'a' -> 'b' -> 'c' -> 'a'; remove one of these edges",
    ),
    "cycle beside the tree": (
        [("x", "r"), ("a", "b"), ("b", "a")],
        "the parents form a cycle, 'a' -> 'b' -> 'a'; remove one of these edges",
    ),
    "cycle below a tail": (
        [("x", "r"), ("t", "a"), ("a", "b"), ("b", "a")],
        "the parents form a cycle, 'a' -> 'b' -> 'a'; remove one of these edges",
    ),
    "own parent": ([("a", "a")], "node 'a' is its own parent; remove that edge"),
    "long cycle": (
        [(i, (i + 1) % 100) for i in range(100)],
        "the parents form a cycle, '0' -> '1' -> '2' -> '3' -> ... (93 more) -> '97' -> '98' -> '99' -> '0'; "
        "remove one of these edges",
    ),
    "two roots": (
        [("a", "b"), ("c", "d")],
        "the taxonomy has 2 roots, 'b' and 'd'; a taxonomy has one: give all but one of them a "
        "parent, or add a common parent",
    ),
    "seven roots": (
        [(i, f"r{i}") for i in range(7)],
        "the taxonomy has 7 roots, 'r0', 'r1', 'r2', 'r3', 'r4' and 2 more; a taxonomy has one: give all "
        "but one of them a parent, or add a common parent",
    ),
    "two marked roots": (
        [("a", None), ("b", None)],
        "the taxonomy has 2 roots, 'a' and 'b'; a taxonomy has one: give all but one of them a "
        "parent, or add a common parent",
    ),
    "two parents": (
        [("poodle", "dog"), ("dog", "r"), ("pet", "r"), ("poodle", "pet")],
        "node 'poodle' has two parents, 'dog' (pair 1) and 'pet' (pair 4); a tree has one path to each node: "
        "remove one of the edges, or let 'labeltree taxonomy project' (TaxonomyDAG.project) choose",
    ),
    "duplicate edge": (
        [("a", "b"), ("c", "b"), ("a", "b")],
        "the edge from 'a' to its parent 'b' is given twice, by pair 1 and pair 3; remove one",
    ),
    "duplicate root": (
        [("a", None), ("a", None)],
        "the root 'a' is given twice, by pair 1 and pair 2; remove one",
    ),
    "root with a parent": (
        [("a", None), ("b", "a"), ("a", "b")],
        "node 'a' is the root by pair 1, below 'b' by pair 3",
    ),
    "unknown parent": (
        [("animal", None), ("dog", "anmal")],
        "pair 2 has the unknown parent 'anmal': nothing says what is above it (nearest: 'animal')",
    ),
    "empty child": ([("a", "b"), ("", "b")], "pair 2, ('', 'b'), has an empty name; every node needs one"),
    "empty parent": ([("a", " ")], "pair 1, ('a', ' '), has an empty name; every node needs one"),
    "no child": ([(None, "b")], "pair 1, (None, 'b'), has an empty name; every node needs one"),
    "line break": (
        [("a\nb", "r")],
        r"pair 1 has the name 'a\nb' with the control character '\n'; a name is one line",
    ),
    "surrogate": (
        [("caf\udce9", "r")],
        r"pair 1 has the name 'caf\udce9', which is not valid Unicode text; rename it",
    ),
    "not a pair": ([("a", "b", "c")], "pair 1 is ('a', 'b', 'c'), expected (child, parent)"),
    "a string": (["ab"], "pair 1 is 'ab', expected (child, parent)"),
    "no edges": ([], "there are no edges; give at least one pair (child, parent)"),
    "only a root": ([("a", None)], "the taxonomy has no node below the root; give it at least one"),
    "one name, two ids": (
        [(1, "r"), ("1", "r")],
        "the root has two children named '1'; names may repeat, but not under one parent",
    ),
    "siblings of one name further down": (
        [("x", "r"), (1, "x"), ("1", "x")],
        "'x' has two children named '1'; names may repeat, but not under one parent",
    ),
}


@pytest.mark.parametrize("case", BROKEN_EDGES)
def test_broken_edges(case: str) -> None:
    pairs, sentence = BROKEN_EDGES[case]
    with pytest.raises(TaxonomyError) as caught:
        Taxonomy.from_edges(pairs)
    assert str(caught.value) == sentence


def test_every_broken_input_has_its_own_sentence() -> None:
    openings = {sentence.replace("'", "")[:60] for _, sentence in BROKEN_EDGES.values()}
    assert len(openings) > len(BROKEN_EDGES) * 0.8


def test_a_given_root_must_be_the_root() -> None:
    pairs = [("a", "r"), ("b", "a")]
    with pytest.raises(TaxonomyError, match=r"root='R' occurs in no edge \(nearest: 'r'\)"):
        Taxonomy.from_edges(pairs, root="R")
    with pytest.raises(TaxonomyError, match="root='a' has a parent itself, 'r'"):
        Taxonomy.from_edges(pairs, root="a")
    with pytest.raises(TaxonomyError, match="pair 3 has the unknown parent 's'"):
        Taxonomy.from_edges([*pairs, ("c", "s")], root="r")


def test_names_for_every_id() -> None:
    with pytest.raises(TaxonomyError, match="the node 1 has no name: names has no entry for it"):
        Taxonomy.from_edges([(1, 0)], names={0: "all"})
    with pytest.raises(TaxonomyError, match="pair 1 has an empty name"):
        Taxonomy.from_edges([(1, 0)], names={0: "all", 1: ""})


BROKEN_PATHS: dict[str, tuple[list[str | Sequence[object]], str]] = {
    "empty path": ([("a",), ()], "path 2 is empty; a path holds the names from depth 1 down to a node"),
    "empty string": ([""], "path 1 is empty; a path holds the names from depth 1 down to a node"),
    "only missing": ([(None, None)], "path 1 is empty; a path holds the names from depth 1 down to a node"),
    "gap": (
        [("a", None, "c")],
        "path 1, ('a', None, 'c'), has a gap at depth 2; only the finest names may be missing",
    ),
    "empty name": ([("a", "")], "path 1, ('a', ''), has an empty name; every node needs one"),
    "empty name in a string": (["a//b"], "path 1, 'a//b', has an empty name; every node needs one"),
    "no paths": ([], "there are no paths; give at least one, a sequence of names from coarse to fine"),
}


@pytest.mark.parametrize("case", BROKEN_PATHS)
def test_broken_paths(case: str) -> None:
    paths, sentence = BROKEN_PATHS[case]
    with pytest.raises(TaxonomyError) as caught:
        Taxonomy.from_paths(paths)
    assert str(caught.value) == sentence


def test_paths_with_several_outermost_names_have_no_root_among_them() -> None:
    with pytest.raises(TaxonomyError, match=r"root_name=None makes .* but there are 2: 'a' and 'b'"):
        Taxonomy.from_paths(["a/x", "b/y"], root_name=None)
    with pytest.raises(TaxonomyError, match="the root has an empty name"):
        Taxonomy.from_paths(["a"], root_name="")


def test_names_and_parents_that_do_not_fit() -> None:
    with pytest.raises(TaxonomyError, match="there are 2 names for 1 parents"):
        Taxonomy(["a", "b"], [-1])
    with pytest.raises(TaxonomyError, match="node 'b' has the unknown parent 2: there are 2 nodes"):
        Taxonomy(["a", "b"], [-1, 2])
    with pytest.raises(TaxonomyError, match="no node below the root"):
        Taxonomy(["a"], [-1])
    with pytest.raises(TaxonomyError, match="node 1 has an empty name"):
        Taxonomy(["a", ""], [-1, 0])


@pytest.mark.parametrize("code", [*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
def test_characters_that_reorder_text_are_no_part_of_a_name(code: int) -> None:
    with pytest.raises(TaxonomyError, match=r"path 1, .* makes other text appear in another order"):
        Taxonomy.from_paths([f"animal/cat{chr(code)}gnp", "plant"])
    assert Taxonomy.from_paths(["חיות/חתול", "a\u200fb"]).num_leaves == 2
