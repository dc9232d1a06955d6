"""The DAG: numbering, arrays, pairs of nodes, names; each against walks over all its paths."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slow_graphs import Graph, graphs
from slow_trees import Rows, trees

from labeltree.taxonomy import Taxonomy, TaxonomyDAG, TaxonomyError, load_taxonomy

pytestmark = pytest.mark.slow

CART = [
    ("vehicle", "thing"), ("golf", "thing"), ("car", "vehicle"), ("ball", "golf"), ("cart", "vehicle"),
    ("cart", "golf"),
]  # fmt: skip


def numbered(dag: TaxonomyDAG) -> Graph:
    """The DAG with its own numbers, so that node ids are rows."""
    return Graph(tuple(dag.names), tuple(tuple(dag.parents(node)) for node in range(len(dag))))


@given(graphs())
@settings(max_examples=60)
def test_arrays_against_walks(graph: Graph) -> None:
    dag = TaxonomyDAG(*graph.lists)
    slow = numbered(dag)
    assert sorted((graph.names[c], graph.names[p]) for c, p in graph.edges()) == sorted(
        (slow.names[c], slow.names[p]) for c, p in slow.edges()
    )
    assert all(parent < child for child, parent in slow.edges())
    assert (len(dag), dag.num_edges) == (len(graph.names), sum(1 for _ in graph.edges()))
    for node in range(len(dag)):
        assert dag.depth[node] == slow.depth(node)
        assert dag.height[node] == slow.height(node)
        assert dag.is_leaf[node] == (not slow.children(node))
        assert dag.children(node) == slow.children(node)
        assert dag.ancestors_of(node) == sorted(slow.ancestors(node) - {node})
        assert dag.ancestor_count[node] == len(slow.ancestors(node))
        assert dag.descendants(node).tolist() == sorted(slow.descendants(node))
        nearest = min(slow.parents[node], key=lambda p: (slow.depth(p), p)) if node else -1
        assert dag.main_parent[node] == nearest
    assert dag.leaves.tolist() == [node for node in range(len(dag)) if not slow.children(node)]
    assert dag.max_depth == max(map(slow.depth, range(len(dag))))
    assert dag.max_height == slow.height(0)


@given(graphs(max_nodes=8))
@settings(max_examples=60)
def test_pairs_against_walks(graph: Graph) -> None:
    dag = TaxonomyDAG(*graph.lists)
    slow = numbered(dag)
    nodes = torch.arange(-1, len(dag))
    u, v = nodes[:, None], nodes
    lca, length, common = dag.lca(u, v), dag.path_length(u, v), dag.common_ancestor_count(u, v)
    depth, height = dag.lca_depth(u, v), dag.lca_height(u, v)
    by_height, by_depth = dag.lca_height_dissimilarity(u, v), dag.lca_depth_dissimilarity(u, v)
    assert (lca[0] == -1).all()
    assert (length[:, 0] == -1).all()
    assert (common[0] == -1).all()
    assert by_height[0].isnan().all()
    lca, length, common, depth, height, by_height, by_depth = (
        answers.numpy() for answers in (lca, length, common, depth, height, by_height, by_depth)
    )
    for i in range(len(dag)):
        for j in range(len(dag)):
            meet = slow.lca(i, j)
            assert lca[i + 1, j + 1] == meet
            assert length[i + 1, j + 1] == slow.path_length(i, j)
            assert common[i + 1, j + 1] == len(slow.ancestors(i) & slow.ancestors(j))
            assert depth[i + 1, j + 1] == slow.depth(meet)
            assert height[i + 1, j + 1] == slow.height(meet)
            assert by_height[i + 1, j + 1] == slow.height(meet) / dag.max_height
            assert by_depth[i + 1, j + 1] == 1 - slow.depth(meet) / dag.max_depth
    assert 0 <= float(by_height[1:, 1:].min()) <= float(by_height[1:, 1:].max()) <= 1
    assert int(length.max()) <= 2 * dag.max_depth


@given(trees())
@settings(max_examples=60)
def test_a_tree_is_a_dag_with_the_same_answers(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    dag = TaxonomyDAG(rows.names, [[parent] if parent >= 0 else [] for parent in rows.parents])
    assert dag == TaxonomyDAG.from_tree(tree)
    assert dag.is_tree
    assert dag.to_tree() == tree
    assert dag.names == tree.names
    for name in ("depth", "height", "is_leaf", "leaves", "ancestor_count"):
        assert torch.equal(getattr(dag, name), getattr(tree, name)), name
    assert torch.equal(dag.main_parent, tree.parent)
    nodes = torch.arange(-1, len(tree))
    u, v = nodes[:, None], nodes
    for query in ("lca", "lca_depth", "lca_height", "path_length", "common_ancestor_count"):
        assert torch.equal(getattr(dag, query)(u, v), getattr(tree, query)(u, v)), query
    every = nodes[1:]
    pairs = torch.cartesian_prod(every, every)
    assert torch.equal(dag.cut_to_labels(*pairs.T), tree.cut_to_labels(*pairs.T))
    assert [dag.path_name(n) for n in every] == [tree.path_name(n) for n in every]
    assert dag.render() == tree.render()


@given(graphs())
@settings(max_examples=60)
def test_every_path_is_a_label(graph: Graph) -> None:
    dag = TaxonomyDAG(*graph.lists)
    slow = numbered(dag)
    for node in range(len(dag)):
        paths = [tuple(slow.names[step] for step in path[1:]) for path in slow.root_paths(node)]
        assert dag.path(node) in paths
        assert len(dag.path(node)) == dag.depth[node]
        for path in paths:
            assert dag.find(path) == node
        assert dag.find(dag.path_name(node)) == node
    assert dag.encode(dag.decode(torch.arange(-1, len(dag)))).tolist() == list(range(-1, len(dag)))


@given(graphs(), st.integers(1, 2**10))
@settings(max_examples=40)
def test_subgraph(graph: Graph, mask: int) -> None:
    dag = TaxonomyDAG(*graph.lists)
    kept = {0}
    for node in range(1, len(dag)):  # a node stays only if a parent does
        if mask >> node & 1 and kept & set(dag.parents(node)):
            kept.add(node)
    if len(kept) == 1:
        return
    part, place = dag.subgraph(torch.tensor(sorted(kept)))
    assert {node for node in range(len(dag)) if place[node] >= 0} == kept
    for node in kept:
        assert part.names[place[node]] == dag.names[node]
        above = {int(place[parent]) for parent in dag.parents(node) if parent in kept}
        assert set(part.parents(int(place[node]))) == above


@given(graphs())
@settings(max_examples=40)
def test_below(graph: Graph) -> None:
    dag = TaxonomyDAG(*graph.lists)
    slow = numbered(dag)
    for node in range(len(dag)):
        if dag.is_leaf[node]:
            continue
        part, place = dag.below(node)
        inside = slow.descendants(node)
        assert {n for n in range(len(dag)) if place[n] >= 0} == inside
        assert place[node] == 0
        for n in inside:
            assert part.names[place[n]] == dag.names[n]
            above = {int(place[p]) for p in slow.parents[n] if p in inside} if n != node else set()
            assert set(part.parents(int(place[n]))) == above


@given(graphs())
@settings(max_examples=40)
def test_cut_to_labels(graph: Graph) -> None:
    dag = TaxonomyDAG(*graph.lists)
    slow = numbered(dag)
    every = torch.arange(len(dag))
    pairs = torch.cartesian_prod(every, every)
    for node, label, cut in zip(*pairs.T.tolist(), dag.cut_to_labels(*pairs.T).tolist(), strict=True):
        if label in slow.ancestors(node):
            assert cut == (label if slow.children(label) else node)
        elif node in slow.ancestors(label) or not slow.children(label):
            assert cut == node
        else:
            assert cut in slow.ancestors(node)
            assert slow.depth(cut) == min(slow.depth(node), slow.depth(label))


@given(graph=graphs(max_nodes=7))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_files(graph: Graph, tmp_path: Path) -> None:
    dag = TaxonomyDAG(*graph.lists)
    for suffix in (".json", ".csv", ".tsv"):
        dag.save(tmp_path / f"dag{suffix}")
        assert TaxonomyDAG.from_file(tmp_path / f"dag{suffix}") == dag
        loaded = load_taxonomy(tmp_path / f"dag{suffix}")
        assert loaded == (dag.to_tree() if dag.is_tree else dag)


def test_copies() -> None:
    dag = TaxonomyDAG.from_edges(CART)
    assert pickle.loads(pickle.dumps(dag)) == copy.deepcopy(dag) == dag
    assert hash(copy.deepcopy(dag)) == hash(dag)
    assert TaxonomyDAG.from_dict(json.loads(json.dumps(dag.to_dict()))) == dag
    assert dag != TaxonomyDAG.from_edges(CART[:-1])
    assert dag != 1
    assert repr(dag) == "TaxonomyDAG(6 nodes, 6 edges, 3 leaves, depth 2)"
    with pytest.raises(AttributeError, match="TaxonomyDAG is immutable"):
        dag.names = []


def test_edges_with_ids_and_names() -> None:
    names = {1: "all", 2: "a", 3: "b", 4: "x", 5: "x"}
    dag = TaxonomyDAG.from_edges([(2, 1), (3, 1), (4, 2), (5, 3), (5, 4)], names=names)
    assert dag.find("a/x/x") == dag.find("b/x")
    assert dag.find("a/x") != dag.find("b/x")
    with pytest.raises(TaxonomyError, match="'x' is ambiguous, it may be 'a/x' and 'b/x'"):
        dag.find("x")


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([], "there are no edges"),
        (
            [("a", "r"), ("b", "a"), ("a", "r")],
            "the edge from 'a' to its parent 'r' is given twice, by pair 1 and",
        ),
        ([("r", None), ("r", None)], "the root 'r' is given twice"),
        ([("a", "r"), ("a", None)], "node 'a' is the root by pair 2, below 'r' by pair 1"),
        ([("r", None), ("a", "r"), ("b", "q")], "pair 3 has the unknown parent 'q'"),
        ([("a", "r"), ("b", "q")], "has 2 roots, 'r' and 'q'"),
        ([("a", "r"), ("a", "c"), ("b", "a"), ("c", "b")], "cycle, 'a' -> 'c' -> 'b' -> 'a'"),
        ([("a", "b"), ("b", "a")], "the parents form a cycle"),
        ([("a", "r"), ("a", "a")], "node 'a' is its own parent"),
        ([("a",)], "expected \\(child, parent\\)"),
        ([("", "a")], "empty name"),
    ],
)
def test_broken_edges(edges: list[tuple[Any, Any]], message: str) -> None:
    with pytest.raises(TaxonomyError, match=message):
        TaxonomyDAG.from_edges(edges)


def test_broken_entries() -> None:
    with pytest.raises(TaxonomyError, match="no node below the root"):
        TaxonomyDAG(["r"], [[]])
    with pytest.raises(TaxonomyError, match="2 names for 1 parents"):
        TaxonomyDAG(["r", "a"], [[]])
    with pytest.raises(TaxonomyError, match="'a' has the unknown parent 7"):
        TaxonomyDAG(["r", "a"], [[], [7]])
    with pytest.raises(TaxonomyError, match="'a' has the same parent twice"):
        TaxonomyDAG(["r", "a"], [[], [0, 0]])
    with pytest.raises(TaxonomyError, match="'a' has two children named 'x'"):
        TaxonomyDAG(["r", "a", "b", "x", "x"], [[], [0], [0], [1], [2, 1]])
    with pytest.raises(TaxonomyError, match="root='q' occurs in no edge"):
        TaxonomyDAG.from_edges(CART, root="q")
    with pytest.raises(TaxonomyError, match="root='cart' has a parent itself"):
        TaxonomyDAG.from_edges(CART, root="cart")


def test_a_dag_is_no_tree(tmp_path: Path) -> None:
    dag = TaxonomyDAG.from_edges(CART)
    assert not dag.is_tree
    with pytest.raises(TaxonomyError, match=r"'cart' has several parents, 'vehicle' and 'golf'; project"):
        dag.to_tree()
    dag.save(tmp_path / "dag.json")
    with pytest.raises(TaxonomyError, match="this is a DAG, not a tree"):
        Taxonomy.from_file(tmp_path / "dag.json")
    dag.save(tmp_path / "dag.csv")
    with pytest.raises(TaxonomyError, match=r"two parents.*TaxonomyDAG"):
        Taxonomy.from_file(tmp_path / "dag.csv")
    with pytest.raises(TaxonomyError, match=r"cannot save a DAG as 'dag.yaml'"):
        dag.save(tmp_path / "dag.yaml")
    (tmp_path / "bad.json").write_text(
        '{"format": "labeltree DAG", "version": 1, "names": ["a"], "parents": [0]}'
    )
    with pytest.raises(TaxonomyError, match=r"bad.json: the saved DAG is damaged: 'parents'"):
        TaxonomyDAG.from_file(tmp_path / "bad.json")
    (tmp_path / "new.json").write_text('{"format": "labeltree DAG", "version": 9}')
    with pytest.raises(TaxonomyError, match="saved in version 9"):
        TaxonomyDAG.from_file(tmp_path / "new.json")
    (tmp_path / "cycle.csv").write_text("child,parent\na,r\na,b\nb,a\n")
    with pytest.raises(TaxonomyError, match=r"cycle.csv: the parents form a cycle"):
        TaxonomyDAG.from_file(tmp_path / "cycle.csv")


def test_render_and_check() -> None:
    dag = TaxonomyDAG.from_edges([*CART, ("electric", "cart"), ("electric", "golf")])
    assert dag.render().splitlines() == [
        "thing",
        "├── vehicle",
        "│   ├── car",
        "│   └── cart",
        "│       └── electric  (see golf/electric)",
        "└── golf",
        "    ├── ball",
        "    ├── cart  (see vehicle/cart)",
        "    └── electric",
    ]
    assert dag.render(max_depth=1).splitlines()[1:] == ["├── vehicle  (3 below)", "└── golf  (3 below)"]
    sentences = dag.check()
    assert any("2 nodes have several parents: 'vehicle/cart', 'golf/electric'" in s for s in sentences)
    assert any(
        "1 edge repeats a longer path, such as the edge from 'golf/electric' to 'golf'" in s
        for s in sentences
    )
    assert any("this is a tree" in s for s in TaxonomyDAG.from_edges(CART[:-1]).check())
    alike = TaxonomyDAG.from_edges([*CART, ("go cart", "golf"), ("Go-Cart", "vehicle"), ("Go-Cart", "golf")])
    assert any("only in case, spaces or hyphens: 'golf/go cart' and" in s for s in alike.check())


def test_class_embeddings() -> None:
    tree = TaxonomyDAG.from_edges(CART[:-1])
    assert torch.equal(tree.class_embeddings(), tree.to_tree().class_embeddings())
    dag = TaxonomyDAG.from_edges(CART)
    vectors = dag.class_embeddings(dag.encode(["cart", "car"]))
    assert (vectors @ vectors.T).mul(2).round().tolist() == [[2.0, 1.0], [1.0, 2.0]]
    deep = [("r1", "r"), ("r2", "r"), ("a", "r1"), ("b", "r2"), ("k", "a"), ("x", "a"), ("y", "b")]
    deep += [("x", "b"), ("w", "a"), ("v", "b")]
    dag = TaxonomyDAG.from_edges(deep)
    with pytest.raises(
        TaxonomyError, match=r"'x' is like 'k' \(0.667\) and 'y' \(0.667\), which .* \(0\)"
    ) as error:
        dag.class_embeddings(dag.encode(["k", "y", "w", "v", "x"]))
    assert "project('odir')" in str(error.value)
    with pytest.raises(TaxonomyError, match="'r1/a' is not a leaf"):
        dag.class_embeddings(dag.encode(["a"]))
    with pytest.raises(TaxonomyError, match="given twice"):
        dag.class_embeddings(dag.leaves[[0, 0]])


def test_long_chains_do_not_recurse() -> None:
    dag = TaxonomyDAG.from_edges([(i + 1, i) for i in range(20_000)])
    assert dag.max_height == dag.max_depth == 20_000
    assert dag.below(10_000)[0].max_depth == 10_000
    with pytest.raises(TaxonomyError, match="too many to list"):
        dag.lca(1, 2)
