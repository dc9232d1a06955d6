import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_trees import Rows, trees

from labeltree.taxonomy import Taxonomy, TaxonomyDAG

pytestmark = pytest.mark.slow

RAGGED = ["animal/mammal/dog", "animal/mammal/cat", "animal/fish", "plant"]


def test_a_notebook_shows_a_tree_that_unfolds() -> None:
    tree = Taxonomy.from_paths([("animal", "<b>mammal", "dog"), ("animal", "<b>mammal", "cat"), ("plant",)])
    shown = tree._repr_html_()
    assert "<b>" not in shown
    assert "<summary>&lt;b&gt;mammal <small>(2)</small></summary>" in shown
    assert shown.count("<details") == shown.count("</details>") == 3
    assert all(shown.count(f"<div>{leaf}</div>") == 1 for leaf in ("dog", "cat", "plant"))
    large = Taxonomy.from_paths([f"a{i}/b{j}/c{k}" for i in range(60) for j in range(9) for k in range(9)])
    shown = large._repr_html_()
    assert "… 10 more" in shown
    assert 100 < shown.count("<div>") < 1000
    deep = Taxonomy.from_paths(["/".join(f"n{i}" for i in range(1500))])
    assert "… 1 more" in deep._repr_html_()
    dag = TaxonomyDAG.from_edges([("pet", "root"), ("mammal", "root"), ("dog", "pet"), ("dog", "mammal")])
    assert dag._repr_html_().count("(see ") == 1


@given(trees(), st.integers(1, 6))
@settings(max_examples=60)
def test_cut_against_walks(rows: Rows, depth: int) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    coarse, mapping = tree.cut(depth)
    assert mapping.dtype == torch.int64
    assert coarse.max_depth == min(depth, tree.max_depth)
    assert [coarse.path(int(node)) for node in mapping] == [tree.path(v)[:depth] for v in range(len(tree))]
    assert set(mapping.tolist()) == set(range(len(coarse)))
    kept = torch.nonzero(tree.depth <= depth).flatten()
    assert [coarse.path(v) for v in range(len(coarse))] == [tree.path(int(v)) for v in kept]  # order is kept


def test_cut_below_the_finest_depth_changes_nothing() -> None:
    tree = Taxonomy.from_paths(RAGGED)
    coarse, mapping = tree.cut(3)
    assert coarse == tree
    assert mapping.tolist() == list(range(len(tree)))
    with pytest.raises(ValueError, match="depth=0, expected at least 1"):
        tree.cut(0)


def test_collapse() -> None:
    tree = Taxonomy(["a", "b", "c", "d", "e"], [-1, 0, 1, 2, 2])
    assert tree.collapse() == Taxonomy(["c", "d", "e"], [-1, 0, 0])
    assert tree.collapse(keep={"b"}) == Taxonomy(["b", "c", "d", "e"], [-1, 0, 1, 1])
    whole = Taxonomy.from_paths(["a/b", "a/c", "d"])
    assert whole.collapse() == whole


def test_render() -> None:
    tree = Taxonomy.from_paths(RAGGED, root_name="life")
    assert tree.render().splitlines() == [
        "life",
        "├── animal",
        "│   ├── mammal",
        "│   │   ├── dog",
        "│   │   └── cat",
        "│   └── fish",
        "└── plant",
    ]
    assert tree.render(max_depth=1).splitlines() == ["life", "├── animal  (4 below)", "└── plant"]
    assert tree.render(max_children=1).splitlines() == [
        "life",
        "├── animal",
        "│   ├── mammal",
        "│   │   ├── dog",
        "│   │   └── … 1 more",
        "│   └── … 1 more",
        "└── … 1 more",
    ]
    for argument in ("max_depth", "max_children"):
        with pytest.raises(ValueError, match=f"{argument}=0, expected at least 1, or None"):
            tree.render(**{argument: 0})


@given(trees())
@settings(max_examples=40)
def test_render_shows_every_node_once_at_its_depth(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    lines = tree.render().split("\n")
    assert len(lines) == len(tree)
    for node, line in enumerate(lines):
        assert line.endswith(tree.names[node])
        assert len(line) - len(tree.names[node]) == 4 * int(tree.depth[node])


def test_a_tree_without_findings() -> None:
    assert Taxonomy.from_paths(["a/b", "a/c", "d/e", "d/f"]).check() == []


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        (["a/b/c"], "there is only one leaf: no two labels can differ"),
        (["a", "b", "c"], "the tree is flat: all 3 leaves are children of the root"),
        (
            ["animal/dog", "animal/cat"],
            "the root 'root' has the single child 'animal': all labels agree at depth 1; "
            "root_name=None makes the outermost name the root",
        ),
        (["a/b", "c/d"], "2 nodes have a single child: 'a', 'c'"),
        (["a/b", "c/d", "c/e"], "1 node has a single child: 'a'"),
        ([f"{i}/x" for i in range(9)], "9 nodes have a single child: '0', '1', '2', '3', '4' and 4 more"),
        (["a/b", "a/c", "d"], "the leaves lie at different depths: 1 at depth 1, 2 at depth 2"),
        (
            ["/".join("abcdefghij"[:k]) + f"/{k}" for k in range(1, 11)],
            "the leaves lie at different depths: 1 at depth 2, 1 at depth 3, 1 at depth 4, 1 at depth 5, "
            "1 at depth 6, 1 at depth 7, 1 at depth 8, 1 at depth 9, and so on down to depth 11",
        ),
        (
            ["a/other", "b/other", "a/x", "b/y"],
            "1 name occurs more than once, 'other'; such labels must be given by path, 'a/other', 'b/other'",
        ),
        (
            ["a/Polar bear", "a/polar_bear", "b/c", "b/d"],
            "siblings differ only in case, spaces or hyphens: 'a/Polar bear' and 'a/polar_bear'",
        ),
    ],
)
def test_findings(paths: list[str], sentence: str) -> None:
    assert sentence in Taxonomy.from_paths(paths).check()


def test_findings_are_few_and_short_for_a_large_tree() -> None:
    tree = Taxonomy.from_paths([f"{i}/same/x{j}" for i in range(300) for j in range(2)] + ["y"])
    findings = tree.check()
    assert 0 < len(findings) < 8
    assert all(len(sentence) < 300 for sentence in findings)
