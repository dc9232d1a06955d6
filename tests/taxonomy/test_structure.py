import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from slow_trees import Rows, trees

from labeltree.taxonomy import Taxonomy, TaxonomyError

RAGGED = ["animal/mammal/dog", "animal/mammal/cat", "animal/fish", "plant"]


@given(trees())
@settings(max_examples=60)
def test_numbering_against_walks(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    n = len(rows.names)
    assert len(tree) == tree.num_nodes == n
    # Find each node's row by walking: the k-th child here is the k-th child there.
    row_of = {0: rows.parents.index(-1)}
    for node in range(n):
        children = tree.children(node)
        assert children == sorted(children)
        row_of.update(zip(children, rows.children(row_of[node]), strict=True))
    assert sorted(row_of.values()) == list(range(n))
    for node in range(n):
        row = row_of[node]
        assert tree.names[node] == rows.names[row]
        assert tree.path(node) == rows.path(row)
        assert tree.depth[node] == rows.depth(row)
        assert tree.height[node] == rows.height(row)
        assert tree.is_leaf[node] == (not rows.children(row))
        assert tree.ancestors_of(node) == [v for v in range(n) if row_of[v] in rows.walk(row)[1:]]
        subtree = [v for v in range(n) if row in rows.walk(row_of[v])]
        assert subtree == list(range(node, int(tree.subtree_end[node])))
        assert tree.descendant_leaves(node).tolist() == [v for v in subtree if not rows.children(row_of[v])]
    assert tree.parent.tolist() == [-1] + [tree.ancestors_of(v)[-1] for v in range(1, n)]
    assert tree.leaves.tolist() == [v for v in range(n) if tree.is_leaf[v]]
    assert tree.num_leaves == len(tree.leaves)
    assert tree.max_depth == tree.max_height == max(rows.depth(r) for r in range(n))


@given(trees())
@settings(max_examples=60)
def test_path_tables_against_walks(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    assert tree.ancestors.shape == (len(tree), tree.max_depth + 1)
    assert tree.paths.shape == (len(tree), tree.max_depth)
    for node in range(len(tree)):
        own = [*tree.ancestors_of(node), node]
        missing = tree.max_depth + 1 - len(own)
        assert tree.ancestors[node].tolist() == own + [-1] * missing
        assert tree.paths[node].tolist() == own[1:] + [node if tree.is_leaf[node] else -1] * missing


def test_values_of_a_ragged_tree() -> None:
    tree = Taxonomy.from_paths(RAGGED)
    assert tree.names == ["root", "animal", "mammal", "dog", "cat", "fish", "plant"]
    assert tree.parent.tolist() == [-1, 0, 1, 2, 2, 1, 0]
    assert tree.subtree_end.tolist() == [7, 6, 5, 4, 5, 6, 7]
    assert tree.height.tolist() == [3, 2, 1, 0, 0, 0, 0]
    assert tree.leaves.tolist() == [3, 4, 5, 6]
    assert tree.paths.tolist() == [
        [-1, -1, -1],
        [1, -1, -1],
        [1, 2, -1],
        [1, 2, 3],
        [1, 2, 4],
        [1, 5, 5],
        [6, 6, 6],
    ]
    for tensor in (
        tree.parent,
        tree.depth,
        tree.height,
        tree.subtree_end,
        tree.leaves,
        tree.paths,
        tree.ancestors,
    ):
        assert tensor.dtype == torch.int64
        assert tensor.device.type == "cpu"
    assert tree.is_leaf.dtype == torch.bool
    assert repr(tree) == "Taxonomy(7 nodes, 4 leaves, depth 3)"


def test_taxonomy_is_immutable() -> None:
    tree = Taxonomy.from_paths(RAGGED)
    with pytest.raises(AttributeError, match="immutable; 'names' cannot be set"):
        tree.names = []
    with pytest.raises(AttributeError, match="immutable; 'extra' cannot be set"):
        tree.extra = 1
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del tree.parent


def test_equality_hash_copies_and_pickles() -> None:
    tree = Taxonomy.from_paths(RAGGED)
    _ = tree.paths, tree.lca(3, 4), tree.find("dog")  # caches take no part in what follows
    same = Taxonomy.from_paths(RAGGED)
    assert tree == same
    assert hash(tree) == hash(same)
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert copy.deepcopy(tree) == tree
    assert Taxonomy.from_dict(tree.to_dict()) == tree
    others = [
        Taxonomy.from_paths(RAGGED[::-1]),
        Taxonomy.from_paths(RAGGED, root_name="life"),
        Taxonomy(["root", "animal", "mammal", "dog", "cat", "fish", "plant"], [-1, 0, 1, 1, 2, 1, 0]),
    ]
    assert all(tree != other for other in others)
    assert tree != "Taxonomy"


@pytest.mark.parametrize("node", [-1, 7, 1.0, True])
def test_a_node_that_does_not_exist(node: int) -> None:
    tree = Taxonomy.from_paths(RAGGED)
    for query in (tree.path, tree.path_name, tree.children, tree.ancestors_of, tree.descendant_leaves):
        with pytest.raises(TaxonomyError, match=r"node (is|holds|has)"):
            query(node)


def test_a_path_table_that_would_not_fit_is_refused() -> None:
    chain = Taxonomy([str(i) for i in range(50_001)], range(-1, 50_000))
    with pytest.raises(TaxonomyError, match=r"50001 nodes down to depth 50000 would take 19 GiB; .*cut"):
        _ = chain.paths
