import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from slow_trees import Rows, trees

from labeltree.taxonomy import Taxonomy, TaxonomyError

ORACLE = json.loads((Path(__file__).parent / "oracles" / "taxonomy_relations.json").read_text())
RAGGED = ["animal/mammal/dog", "animal/mammal/cat", "animal/fish", "plant"]


def all_pairs(tree: Taxonomy) -> tuple[torch.Tensor, torch.Tensor]:
    nodes = torch.arange(-1, len(tree))
    return nodes[:, None], nodes


@given(trees())
@settings(max_examples=80)
def test_pairs_against_walks(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    # The tree's own preorder rows, so that node ids are row numbers.
    slow = Rows(tree.names, tree.parent.tolist())
    u, v = all_pairs(tree)
    lca, length = tree.lca(u, v), tree.path_length(u, v)
    depth, height = tree.lca_depth(u, v), tree.lca_height(u, v)
    far_by_height, far_by_depth = tree.lca_height_dissimilarity(u, v), tree.lca_depth_dissimilarity(u, v)
    assert lca.dtype == length.dtype == depth.dtype == height.dtype == torch.int64
    assert far_by_height.dtype == far_by_depth.dtype == torch.float64
    lca, length, depth, height, far_by_height, far_by_depth = (
        answers.numpy() for answers in (lca, length, depth, height, far_by_height, far_by_depth)
    )
    for i in range(len(tree) + 1):
        for j in range(len(tree) + 1):
            if i == 0 or j == 0:
                assert lca[i, j] == length[i, j] == depth[i, j] == height[i, j] == -1
                assert np.isnan(far_by_height[i, j])
                assert np.isnan(far_by_depth[i, j])
                continue
            a, b = i - 1, j - 1
            common = slow.lca(a, b)
            assert lca[i, j] == common
            assert depth[i, j] == slow.depth(common)
            assert height[i, j] == slow.height(common)
            assert length[i, j] == slow.walk(a).index(common) + slow.walk(b).index(common)
            assert far_by_height[i, j] == slow.height(common) / slow.height(0)
            assert far_by_depth[i, j] == pytest.approx(1 - slow.depth(common) / slow.height(0), abs=1e-15)


@pytest.mark.parametrize("case", ORACLE["cases"], ids=lambda case: case["name"])
def test_published_figures(case: dict[str, Any]) -> None:
    edges = [(child, parent) for child, parent in case["parent"].items()]
    tree = Taxonomy.from_edges(edges)
    assert tree.names[0] == case["root"]
    assert (tree.max_depth, tree.max_height) == (case["L"], case["H"])
    assert sorted(tree.names[v] for v in tree.leaves) == case["leaves"]
    assert {name: int(tree.depth[tree.find(name)]) for name in tree.names} == case["depth"]
    assert {name: int(tree.height[tree.find(name)]) for name in tree.names} == case["height"]
    first, second, lca, depth, height, length, rho, s_g = zip(*case["pairs"], strict=True)
    u, v = tree.encode(first), tree.encode(second)
    assert [tree.names[a] for a in tree.lca(u, v)] == list(lca)
    assert tree.lca_depth(u, v).tolist() == list(depth)
    assert tree.lca_height(u, v).tolist() == list(height)
    assert tree.path_length(u, v).tolist() == list(length)
    np.testing.assert_allclose(1 - tree.lca_depth_dissimilarity(u, v), rho, rtol=0, atol=1e-15)
    np.testing.assert_allclose(1 - tree.lca_height_dissimilarity(u, v), s_g, rtol=0, atol=1e-15)
    np.testing.assert_allclose(tree.relations.rho[tree.relation(u, v)], rho, rtol=0, atol=1e-15)


def test_shapes_and_kinds_of_arguments() -> None:
    tree = Taxonomy.from_paths(RAGGED)
    assert tree.lca(3, 4).shape == ()
    assert tree.lca([3, 5], 4).tolist() == [2, 1]
    assert tree.lca([[3], [6]], np.array([4, 5, -1])).tolist() == [[2, 1, -1], [0, 0, -1]]
    assert tree.lca(
        torch.tensor([3, 5], dtype=torch.int32), torch.tensor([4, 4], dtype=torch.uint8)
    ).tolist() == [2, 1]
    assert tree.lca([], []).shape == (0,)
    assert tree.path_length(torch.empty(0, 3, dtype=torch.int64), 2).shape == (0, 3)
    assert tree.relation([], 2).dtype == torch.int64


@pytest.mark.parametrize("method", ["lca", "lca_depth", "lca_height", "path_length", "relation"])
def test_arguments_that_are_no_nodes(method: str) -> None:
    query = getattr(Taxonomy.from_paths(RAGGED), method)
    with pytest.raises(TaxonomyError, match="u holds 7, which is not a node; expected 0 to 6, or -1"):
        query([0, 7], 0)
    with pytest.raises(TaxonomyError, match="v holds -2"):
        query(0, [-2])
    with pytest.raises(TaxonomyError, match=r"u has dtype torch.float32, expected integers"):
        query([1.0], 0)
    with pytest.raises(TaxonomyError, match=r"u has dtype torch.bool"):
        query([True], 0)
    with pytest.raises(ValueError, match=r"u of shape \(2,\) and v of shape \(3,\) do not broadcast"):
        query([1, 2], [1, 2, 3])


def test_arguments_are_not_written_to() -> None:
    tree = Taxonomy.from_paths(RAGGED)
    u, v = torch.tensor([-1, 3, 4]), torch.tensor([2, -1, 3])
    tree.lca(u, v), tree.path_length(u, v), tree.relation(u, v), tree.lca_height_dissimilarity(u, v)
    assert u.tolist() == [-1, 3, 4]
    assert v.tolist() == [2, -1, 3]
    assert tree.height.tolist() == [3, 2, 1, 0, 0, 0, 0]


def test_a_wide_and_a_deep_tree() -> None:
    star = Taxonomy([str(i) for i in range(1001)], [-1] + [0] * 1000)
    u, v = torch.randint(1, 1001, (2, 500), generator=torch.Generator().manual_seed(0))
    assert torch.equal(star.lca(u, v), torch.where(u == v, u, 0))
    chain = Taxonomy([str(i) for i in range(10_001)], range(-1, 10_000))
    u, v = torch.randint(0, 10_001, (2, 500), generator=torch.Generator().manual_seed(1))
    assert torch.equal(chain.lca(u, v), torch.minimum(u, v))
    assert torch.equal(chain.path_length(u, v), (u - v).abs())
    kinds = chain.relations.kind[chain.relation([10_000, 10_000, 7], [10_000, 3, 7])]
    assert kinds.tolist() == [2, 1, 1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_results_lie_on_the_device_of_the_arguments() -> None:
    tree = Taxonomy.from_paths(RAGGED)
    u, v = all_pairs(tree)
    for query in (tree.lca, tree.lca_depth, tree.path_length, tree.relation, tree.lca_height_dissimilarity):
        for result in (query(u.cuda(), v.cuda()), query(u.cuda(), v), query(u, v.cuda())):
            assert result.device.type == "cuda"
            assert torch.equal(result.cpu().nan_to_num(-1), query(u, v).nan_to_num(-1))


def test_one_missing_node_leaves_the_taxonomy_as_it_is() -> None:
    tree = Taxonomy.from_paths(["a/b/c", "d"])
    depth, height = tree.depth.tolist(), tree.height.tolist()
    for query in ("lca", "lca_depth", "lca_height", "lca_depth_dissimilarity", "lca_height_dissimilarity"):
        for pair in ((-1, -1), (-1, 1), (3, -1)):
            getattr(tree, query)(*pair)
    assert (tree.depth.tolist(), tree.height.tolist()) == (depth, height)
    assert (tree.numbering.depth.tolist(), tree.numbering.height.tolist()) == (depth, height)
