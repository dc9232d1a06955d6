import pytest
import torch
from hypothesis import given, settings
from slow_trees import Rows, trees

from labeltree.taxonomy import RelationTable, Taxonomy, num_relations, relation_code, relation_from_paths
from labeltree.taxonomy.relations import ANCESTOR, APART, INSTANCE, SAME, UNKNOWN


def naive_relation(tree: Taxonomy, u: int, v: int) -> tuple[int, int]:
    """Kind and depth of a pair by comparing the two paths of nodes step by step."""
    if u < 0 or v < 0:
        return UNKNOWN, 0
    first, second = [*tree.ancestors_of(u), u], [*tree.ancestors_of(v), v]
    shared = 0
    while shared < min(len(first), len(second)) and first[shared] == second[shared]:
        shared += 1
    if shared < len(first) and shared < len(second):
        return APART, shared - 1
    return (SAME if u == v and tree.is_leaf[u] else ANCESTOR), shared - 1


@given(trees())
@settings(max_examples=80)
def test_relations_against_naive_path_comparison(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    nodes = torch.arange(-1, len(tree))
    codes = tree.relation(nodes[:, None], nodes)
    expected = [
        [relation_code(*naive_relation(tree, u, v), tree.max_depth) for v in nodes.tolist()]
        for u in nodes.tolist()
    ]
    assert codes.tolist() == expected
    assert torch.equal(codes, codes.T)
    paths = tree.paths[nodes]  # the row of -1 is that of some other node, which must not matter
    assert torch.equal(relation_from_paths(paths[:, None], nodes[:, None], paths, nodes), codes)


@given(trees())
@settings(max_examples=80)
def test_the_table_says_what_the_paths_say(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    nodes = torch.arange(len(tree))
    codes, table = tree.relation(nodes[:, None], nodes), tree.relations
    differ = torch.zeros_like(codes, dtype=torch.bool)
    for depth in range(1, tree.max_depth + 1):
        u, v = tree.paths[:, None, depth - 1], tree.paths[None, :, depth - 1]
        agree = (u == v) & (u != -1)
        differ |= (u != v) & (u != -1) & (v != -1)  # what differs at one depth differs at all finer ones
        assert torch.equal(table.agrees(depth)[codes], agree)
        assert torch.equal(table.differs(depth)[codes], differ)
        assert torch.equal(table.undecided(depth)[codes], ~agree & ~differ)
    assert torch.equal(table.depth[codes], tree.lca_depth(nodes[:, None], nodes))


def test_codes_of_a_ragged_tree() -> None:
    tree = Taxonomy.from_paths(["animal/mammal/dog", "animal/mammal/cat", "animal/fish", "plant"])
    label = {name: tree.find(name) for name in tree.names}
    expected = {
        ("dog", "cat"): (APART, 2),
        ("dog", "fish"): (APART, 1),
        ("dog", "plant"): (APART, 0),
        ("dog", "dog"): (SAME, 3),
        ("fish", "fish"): (SAME, 2),  # a shallow leaf keeps its own depth
        ("dog", "mammal"): (ANCESTOR, 2),
        ("mammal", "mammal"): (ANCESTOR, 2),
        ("mammal", "fish"): (APART, 1),
        ("mammal", "animal"): (ANCESTOR, 1),
        ("root", "dog"): (ANCESTOR, 0),
        ("root", "root"): (ANCESTOR, 0),
    }
    for (u, v), (kind, depth) in expected.items():
        assert tree.relation(label[u], label[v]) == relation_code(kind, depth, 3), (u, v)
    assert tree.relation([-1, 0, -1], [0, -1, -1]).tolist() == [16] * 3


def test_relation_from_paths_without_a_taxonomy() -> None:
    rows, nodes = torch.empty(3, 0, dtype=torch.int64), torch.full((3,), -1)
    codes = relation_from_paths(rows[:, None], nodes[:, None], rows, nodes)
    assert codes.tolist() == [[4] * 3] * 3
    assert num_relations(0) == 5


@pytest.mark.parametrize("max_depth", [0, 1, 3])
def test_every_code_once(max_depth: int) -> None:
    table = RelationTable(max_depth)
    assert len(table) == num_relations(max_depth) == len(table.kind) == len(table.depth) == len(table.rho)
    pairs = list(zip(table.kind.tolist(), table.depth.tolist(), strict=True))
    assert len(set(pairs)) == len(table)
    assert [relation_code(kind, depth, max_depth) for kind, depth in pairs] == list(range(len(table)))
    assert table.rho.dtype == torch.float64


def test_instances_agree_and_unknown_labels_decide_nothing() -> None:
    table = RelationTable(3)
    shallow = relation_code(INSTANCE, 0, 3)
    unknown = relation_code(UNKNOWN, 0, 3)
    for depth in (1, 2, 3):
        total = table.agrees(depth).int() + table.differs(depth).int() + table.undecided(depth).int()
        assert total.tolist() == [1] * len(table)
        assert table.agrees(depth)[shallow]
        assert table.undecided(depth)[unknown]
    assert table.rho[unknown] == 0
    assert table.rho[relation_code(APART, 2, 3)] == 2 / 3


def test_tables_compare_by_their_depth() -> None:
    assert RelationTable(2) == RelationTable(2)
    assert RelationTable(2) != RelationTable(3)
    assert hash(RelationTable(2)) == hash(RelationTable(2))


def test_arguments_without_a_meaning() -> None:
    table = RelationTable(2)
    for query in (table.agrees, table.differs, table.undecided):
        for depth in (0, 3):
            with pytest.raises(ValueError, match=rf"depth={depth}, expected 1 \(coarsest\) to 2 \(finest\)"):
                query(depth)
    with pytest.raises(ValueError, match="max_depth=-1"):
        RelationTable(-1)
    for kind, depth in ((APART, 3), (UNKNOWN, 1), (5, 0), (ANCESTOR, -1)):
        with pytest.raises(ValueError, match=f"no relation has kind={kind} and depth={depth}"):
            relation_code(kind, depth, max_depth=2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_relation_from_paths_on_a_gpu() -> None:
    tree = Taxonomy.from_paths(["a/b/c", "a/b/d", "a/e", "f"])
    nodes = torch.arange(-1, len(tree))
    paths = tree.paths[nodes]
    codes = relation_from_paths(paths[:, None].cuda(), nodes[:, None].cuda(), paths.cuda(), nodes.cuda())
    assert codes.device.type == "cuda"
    assert torch.equal(codes.cpu(), tree.relation(nodes[:, None], nodes))
