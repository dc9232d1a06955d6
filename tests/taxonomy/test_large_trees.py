"""Nothing recurses: chains of 10,000 nodes go through every constructor, file and query."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from labeltree.taxonomy import Taxonomy, TaxonomyDAG, TaxonomyError, load_taxonomy

pytestmark = pytest.mark.slow

DEPTH = 10_000


@pytest.fixture(scope="module")
def chain() -> Taxonomy:
    return Taxonomy.from_edges([(f"n{i + 1}", f"n{i}") for i in range(DEPTH)])


def test_a_chain_is_numbered(chain: Taxonomy) -> None:
    assert chain.max_depth == chain.max_height == DEPTH
    assert chain.leaves.tolist() == [DEPTH]
    assert torch.equal(chain.height, DEPTH - chain.depth)
    assert len(chain.path(DEPTH)) == len(chain.ancestors_of(DEPTH)) == DEPTH
    assert chain.find(chain.path_name(DEPTH)) == DEPTH
    assert chain.encode([None, f"n{DEPTH}"]).tolist() == [-1, DEPTH]


def test_a_chain_is_built_in_other_ways(chain: Taxonomy) -> None:
    names = [f"n{i}" for i in range(1, DEPTH + 1)]
    assert Taxonomy.from_paths([names], root_name="n0") == chain
    nested: Any = None
    for name in reversed(names):
        nested = {name: nested}
    assert Taxonomy.from_nested(nested, root_name="n0") == chain
    while nested:  # taken apart by hand: Python frees nested data recursively
        nested = nested.popitem()[1]
    edges = [(f"n{i + 1}", f"n{i}") for i in range(DEPTH)]
    with pytest.raises(TaxonomyError, match=r"cycle, 'n1' -> 'n0' -> 'n10000' -> .* \(9994 more\)"):
        Taxonomy.from_edges([*edges, ("n0", f"n{DEPTH}")])


@pytest.mark.parametrize("suffix", [".json", ".csv", ".txt"])
def test_a_chain_is_saved_and_read(chain: Taxonomy, suffix: str, tmp_path: Path) -> None:
    chain.save(tmp_path / f"chain{suffix}")
    assert Taxonomy.from_file(tmp_path / f"chain{suffix}", root_name="n0") == chain


def test_yaml_deeper_than_python_recurses(tmp_path: Path) -> None:
    depth = 3000
    (tmp_path / "deep.yaml").write_text("".join(" " * i + f"n{i}:\n" for i in range(depth)))
    assert Taxonomy.from_file(tmp_path / "deep.yaml").max_depth == depth


def test_a_chain_is_copied_cut_shown_and_checked(chain: Taxonomy) -> None:
    assert pickle.loads(pickle.dumps(chain)) == chain == copy.deepcopy(chain)
    coarse, mapping = chain.cut(2)
    assert coarse.names == ["n0", "n1", "n2"]
    assert mapping[-1] == 2
    assert chain.render().splitlines()[-1].endswith(f"n200  ({DEPTH - 200} below)")
    assert any("9999 nodes have a single child" in sentence for sentence in chain.check())


def test_twenty_thousand_leaves(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths([(f"g{i // 300}", f"f{i // 20}", f"s{i}") for i in range(20_000)])
    assert len(tree) == 1 + 67 + 1000 + 20_000
    tree.save(tmp_path / "large.json")
    assert Taxonomy.from_file(tmp_path / "large.json") == tree
    generator = torch.Generator().manual_seed(0)
    u, v = tree.leaves[torch.randint(len(tree.leaves), (2, 100_000), generator=generator)]
    agree = (tree.paths[u] == tree.paths[v]).sum(1)
    assert torch.equal(tree.lca_depth(u, v), agree)


def test_many_nodes_with_several_parents(tmp_path: Path) -> None:
    edges = [(f"s{i}", f"f{i // 20}") for i in range(4_000)] + [(f"f{i}", f"g{i // 15}") for i in range(200)]
    edges += [(f"g{i}", "all") for i in range(14)] + [
        (f"s{i}", f"f{i // 20 + 1}") for i in range(0, 3_900, 7)
    ]
    dag = TaxonomyDAG.from_edges(edges)
    dag.save(tmp_path / "large.csv")
    assert load_taxonomy(tmp_path / "large.csv") == dag
    for rule in ("odir", "yolo9000"):
        tree, nodes = dag.project(rule)  # type: ignore[arg-type]
        assert tree.num_leaves == dag.num_leaves == 4_000
        u, v = dag.leaves[torch.randint(4_000, (2, 50_000), generator=torch.Generator().manual_seed(0))]
        lower = dag.lca_height(u, v) <= tree.lca_height(nodes[u], nodes[v])
        assert lower.all(), "a tree of the DAG's paths keeps no more than what classes share"
