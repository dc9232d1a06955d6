"""The relation of a batch, against walks up the tree."""

import pytest
import torch
from pair_batches import line, random_batch, random_tree, walked_code

from labeltree.pairs import PairRelation, relation_codes
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.relations import APART, INSTANCE, SAME, relation_code

SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_codes_of_a_batch(seed):
    tree = random_tree(seed)
    nodes, instances = random_batch(tree, seed)
    relation = PairRelation.of_batch(tree.paths, nodes, instances)
    codes = relation.codes()
    assert codes.shape == (len(nodes), len(nodes))
    for i in range(len(nodes)):
        for k in range(len(nodes)):
            expected = walked_code(tree, int(nodes[i]), int(nodes[k]), bool(instances[i] == instances[k]))
            assert codes[i, k] == (relation.num_relations if i == k else expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_refined_codes_tell_the_shallower_depth_and_nothing_else_changes(seed):
    tree = random_tree(seed)
    nodes, instances = random_batch(tree, seed)
    plain = PairRelation.of_batch(tree.paths, nodes, instances)
    refined = PairRelation.of_batch(tree.paths, nodes, instances, taxonomy_depth=tree.depth)
    space, codes = refined.space, refined.codes()
    off = ~torch.eye(len(nodes), dtype=torch.bool)
    assert torch.equal(space.base[codes[off]], plain.codes()[off])
    assert (codes.diagonal() == refined.num_relations).all()
    apart = off & (space.relations.kind[space.base[codes.clamp(max=space.size - 1)]] == APART)
    for i, k in apart.nonzero().tolist():
        u, v = line(tree, int(nodes[i])), line(tree, int(nodes[k]))
        assert space.shallower[codes[i, k]] == min(len(u), len(v)) - 1


def test_a_tile_is_a_part_of_the_whole():
    tree = random_tree(3)
    nodes, instances = random_batch(tree, 3)
    for depth in (None, tree.depth):
        relation = PairRelation.of_batch(tree.paths, nodes, instances, taxonomy_depth=depth)
        whole = relation.codes()
        assert torch.equal(relation.codes(slice(2, 7), slice(5, 13)), whole[2:7, 5:13])
        rows, cols = torch.tensor([4, 0, 9]), torch.tensor([9, 4])
        assert torch.equal(relation.codes(rows, cols), whole[rows][:, cols])


def test_a_ranks_rows_against_the_gathered_batch():
    tree = random_tree(4)
    nodes, instances = random_batch(tree, 4)
    whole = PairRelation.of_batch(tree.paths, nodes, instances)
    rank = PairRelation(whole.queries[slice(5, 9)], whole.keys, offset=5)
    assert torch.equal(rank.codes(), whole.codes()[5:9])
    queue = PairRelation(whole.queries, whole.keys, offset=None)
    assert (queue.codes().diagonal() != whole.num_relations).all()


def test_without_instances_every_row_is_its_own():
    tree = random_tree(5)
    nodes, _ = random_batch(tree, 5)
    codes = PairRelation.of_batch(tree.paths, nodes).codes()
    kinds = relation_codes(tree.max_depth).relations.kind
    assert not (kinds[codes[codes < len(kinds)]] == INSTANCE).any()


def test_without_a_taxonomy_there_are_only_instances():
    relation = PairRelation.of_instances(torch.tensor([5, -1, 5]), 3)
    assert relation.codes().tolist() == [[5, 4, 3], [4, 5, 4], [3, 4, 5]]
    assert PairRelation.of_instances(None, 2).codes().tolist() == [[5, 4], [4, 5]]
    assert PairRelation.of_instances(None, 0).codes().shape == (0, 0)


def test_rho_by_its_three_definitions():
    tree = Taxonomy.from_paths([("a", "b", "c"), ("a", "d"), ("e",)])  # leaves of depth 3, 2 and 1
    b, c, d, e = (tree.find(name) for name in "bcde")
    nodes = torch.tensor([c, d, e, b, c, d, -1, e])
    instances = torch.tensor([0, 1, 2, 3, 4, 5, 6, 2])
    relation = PairRelation.of_batch(tree.paths, nodes, instances, taxonomy_depth=tree.depth)
    codes = relation.codes()
    expected = {  # pair of rows: max_depth, same_one, own_depth
        (0, 1): (1 / 3, 1 / 3, 1 / 2),  # c and d share a; the shallower has depth 2
        (0, 2): (0, 0, 0),
        (0, 4): (1, 1, 1),
        (1, 5): (2 / 3, 1, 1),  # the same leaf of depth 2
        (2, 7): (1 / 3, 1, 1),  # the same instance, a leaf of depth 1
        (0, 3): (2 / 3, 2 / 3, 1),  # b is an ancestor of c
        (0, 6): (0, 0, 0),
    }
    for (i, k), values in expected.items():
        for kind, value in zip(("max_depth", "same_one", "own_depth"), values, strict=True):
            for a, b in ((i, k), (k, i)):
                assert relation.space.rho(kind)[codes[a, b]] == pytest.approx(value, abs=1e-15), (a, b, kind)


def test_rho_asks_for_the_space_it_needs():
    with pytest.raises(ValueError, match=r"own_depth.*refined"):
        relation_codes(2).rho("own_depth")
    with pytest.raises(
        ValueError, match="rho is 'depth'; expected one of 'max_depth', 'own_depth', 'same_one'"
    ):
        relation_codes(2).rho("depth")


def test_a_table_spreads_over_the_refined_codes():
    space = relation_codes(3, refined=True)
    table = torch.arange(len(space.relations)).double()
    spread = space.spread(table)
    assert spread.shape == (space.size,)
    assert spread[relation_code(SAME, 2, 3)] == relation_code(SAME, 2, 3)
    assert spread[len(table) + 1 * 3 + 2] == relation_code(
        APART, 1, 3
    )  # APART(1), shallower label at depth 3


def test_repr_names_the_sizes():
    assert repr(PairRelation.of_instances(None, 4)) == "PairRelation(4 queries × 4 keys, 5 codes)"
