"""CPCC against loops, its pseudo-values against weighted samples, and where it is not defined."""

from __future__ import annotations

import math
import statistics
from itertools import combinations

import pytest
import torch
from metric_loops import Tree, ragged_tree

from labeltree.geometry import Geometry, get_geometry
from labeltree.metrics import functional
from labeltree.taxonomy import Taxonomy, TaxonomyDAG

TAXONOMY = ragged_tree()
TREE = Tree(TAXONOMY)
GENERATOR = torch.Generator().manual_seed(0)
NODES = torch.randint(-1, TAXONOMY.num_nodes, (60,), generator=GENERATOR)
POINTS = 0.2 * torch.randn(60, 4, generator=GENERATOR, dtype=torch.float64)


def slow(points: torch.Tensor, nodes: torch.Tensor, geometry: Geometry) -> float:
    classes = sorted(set(nodes.tolist()) - {-1})
    means = {c: geometry.mean(points[nodes == c]) for c in classes}
    near, far = [], []
    for u, v in combinations(classes, 2):
        near.append(float(geometry.distance(means[u], means[v])))
        far.append(float(TREE.depth(u) + TREE.depth(v) - 2 * TREE.depth(TREE.lca(u, v))))
    return statistics.correlation(near, far)


@pytest.mark.parametrize("name", ["sphere", "euclidean", "poincare"])
def test_the_correlation_and_its_pseudo_values(name: str) -> None:
    geometry = get_geometry(name)
    found = functional.cophenetic_correlation(POINTS, NODES, TAXONOMY, geometry)
    assert found.item() == pytest.approx(slow(POINTS, NODES, geometry), abs=1e-12)
    values = functional.cophenetic_correlation(POINTS, NODES, TAXONOMY, name, reduction="none")
    assert torch.equal(values.isnan(), NODES < 0)
    assert values.nanmean().item() == pytest.approx(found.item(), abs=1e-6)
    # a sample that occurs k times more often in a sample repeated m times: the finite difference
    row, times = int((NODES >= 0).nonzero()[7]), 400
    points, nodes = (torch.cat([x.repeat_interleave(times, 0), x[row : row + 1]]) for x in (POINTS, NODES))
    moved = functional.cophenetic_correlation(points, nodes, TAXONOMY, geometry)
    count = int((NODES >= 0).sum())
    expected = found + count * times * (moved - found)
    assert values[row].item() == pytest.approx(expected.item(), abs=0.02)


def test_distances_of_the_tree_have_one() -> None:
    taxonomy = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e"), ("d", "f"), ("d", "g")])
    # a coordinate for every edge: squared distances are path lengths, of which there are but two
    edges = torch.eye(taxonomy.num_nodes)[taxonomy.ancestors[taxonomy.leaves]].sum(1)
    found = functional.cophenetic_correlation(edges, taxonomy.leaves, taxonomy, "euclidean")
    assert found.item() == pytest.approx(1.0)
    shuffled = taxonomy.leaves[torch.tensor([0, 2, 1, 3, 4])]
    assert functional.cophenetic_correlation(edges, shuffled, taxonomy, "euclidean") < 0.5


def test_pairs_are_drawn_where_there_are_many() -> None:
    taxonomy = Taxonomy.from_paths([(f"{i // 10}", f"{i}") for i in range(100)])
    generator = torch.Generator().manual_seed(1)
    centres = 2 * torch.randn(10, 3, generator=generator).repeat_interleave(10, 0)
    points = centres + torch.randn(100, 3, generator=generator)
    arguments = (points, taxonomy.leaves, taxonomy)
    whole = functional.cophenetic_correlation(*arguments)
    drawn = [functional.cophenetic_correlation(*arguments, max_pairs=2000, seed=s) for s in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0].item() == pytest.approx(whole.item(), abs=0.1)


def test_a_dag_has_path_lengths_too() -> None:
    dag = TaxonomyDAG.from_edges([("a", "r"), ("b", "r"), ("x", "a"), ("x", "b"), ("y", "a"), ("z", "b")])
    nodes = dag.encode(["x", "y", "z"])
    found = functional.cophenetic_correlation(torch.tensor([[0.0], [1], [-1]]), nodes, dag, "euclidean")
    assert found.item() == pytest.approx(1.0)  # 1, 1 and 2 against 2, 2 and 4


@pytest.mark.parametrize(
    ("points", "names"),
    [
        ([[0.0], [1.0]], ["poodle", "stone"]),  # two classes
        ([[0.0], [0.0], [0.0]], ["poodle", "tabby", "stone"]),  # the means are equal
        ([[0.0], [1.0], [3.0]], ["animal", "plant", "stone"]),  # the distances in the tree are
        ([], []),
    ],
)
def test_where_it_is_not_defined(points: list[list[float]], names: list[str]) -> None:
    nodes = TAXONOMY.encode(names) if names else torch.empty(0, dtype=torch.int64)
    arguments = (torch.tensor(points).reshape(-1, 1), nodes, TAXONOMY, "euclidean")
    assert math.isnan(functional.cophenetic_correlation(*arguments).item())
    assert functional.cophenetic_correlation(*arguments, reduction="none").isnan().all()
