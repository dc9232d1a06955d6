"""Sets of nodes of the best expected hierarchical F against all subsets of small taxonomies."""

from functools import cache

import numpy as np
import pytest
import torch
from decision_cases import diamond, inner_too, ragged, random_probabilities, random_tree
from torch import Tensor

from labeltree.decisions import ClassNodes, best_node_sets
from labeltree.decisions.node_sets import _best_sets
from labeltree.metrics.functional import hierarchical_f1
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, TaxonomyDAG


def random_dag(nodes: int, seed: int) -> TaxonomyDAG:
    draw = torch.Generator().manual_seed(seed)
    edges = set()
    for node in range(1, nodes):
        parents = torch.randint(0, node, (2,), generator=draw).tolist()
        edges |= {(f"n{node}", f"n{parent}") for parent in parents}
    return TaxonomyDAG.from_edges(sorted(edges))


def best_of_all_subsets(p: Tensor, classes: ClassNodes, beta: float, root: bool) -> tuple[Tensor, Tensor]:
    """The greatest expected F (n,) over all subsets of nodes, and over those that hold all ancestors."""
    taxonomy, weight = classes.taxonomy, beta**2
    nodes = range(1, taxonomy.num_nodes)
    above = np.array(
        [[v in (*taxonomy.ancestors_of(c), c) for c in classes.nodes.tolist()] for v in nodes], dtype=float
    )
    subsets = (np.arange(2 ** len(nodes))[:, None] >> np.arange(len(nodes)) & 1).astype(float)
    common, size = subsets @ above + root, subsets.sum(1, keepdims=True) + root
    f = (1 + weight) * common / np.maximum(size + weight * (above.sum(0) + root), 1)
    expected = p.numpy() @ f.T
    closed = np.ones(len(subsets), dtype=bool)
    for v in nodes:
        for parent in taxonomy.parents(v):
            if parent:
                closed &= subsets[:, v - 1] <= subsets[:, parent - 1]
    return torch.from_numpy(expected.max(1)), torch.from_numpy(expected[:, closed].max(1))


@cache
def taxonomies() -> list[AnyTaxonomy]:
    trees: list[AnyTaxonomy] = [random_tree(3 + seed % 5, seed) for seed in range(200)]
    return [*trees, ragged(), *(random_dag(4 + seed % 5, seed) for seed in range(20))]


@pytest.mark.parametrize(("beta", "root"), [(1.0, False), (0.5, True), (2.0, True)])
def test_no_subset_is_better_open_or_closed(beta: float, root: bool) -> None:
    for seed, taxonomy in enumerate(taxonomies()):
        leaves = taxonomy.leaves
        classes = ClassNodes(leaves, taxonomy)
        p = random_probabilities(4, len(classes), seed, 1 + seed % 3)
        sets = best_node_sets(p, classes, beta=beta, include_root=root)
        every, closed = best_of_all_subsets(p, classes, beta, root)
        torch.testing.assert_close(sets.values, every, rtol=0, atol=1e-10)
        torch.testing.assert_close(closed, every, rtol=0, atol=1e-12)
        unpruned = _best_sets(p, classes, beta, int(root), prune=False)
        torch.testing.assert_close(sets.values, unpruned[1], rtol=0, atol=1e-12)
        for row in sets.nodes.tolist():
            held = {node for node in row if node >= 0}
            assert all(set(taxonomy.ancestors_of(node)) - {0} <= held for node in held)


@pytest.mark.parametrize("taxonomy", [ragged(), random_tree(30, 4), diamond()])
def test_the_expected_f_is_that_of_the_scores(taxonomy: AnyTaxonomy) -> None:
    for nodes in (taxonomy.leaves, inner_too(taxonomy)):
        classes = ClassNodes(nodes, taxonomy)
        p = random_probabilities(9, len(classes), 1)
        for root in (False, True):
            sets = best_node_sets(p, classes, beta=1.5, include_root=root)
            f = torch.stack([sets.f_scores(label.expand(9)) for label in classes.nodes], dim=1)
            torch.testing.assert_close((p * f).sum(1), sets.values)


def test_a_set_is_at_least_as_good_as_any_node() -> None:
    taxonomy = random_tree(60, 3)
    classes = ClassNodes(taxonomy.leaves, taxonomy)
    p = random_probabilities(20, len(classes), 2, 0.5)
    sets = best_node_sets(p, classes)
    every = torch.arange(taxonomy.num_nodes)
    f = torch.stack(
        [
            hierarchical_f1(every, label.expand(len(every)), taxonomy, reduction="none")
            for label in classes.nodes
        ]
    )
    nodes = (p @ f).max(1).values
    assert bool((sets.values >= nodes - 1e-12).all())
    assert bool((sets.values > nodes + 1e-3).any()), "some samples need two branches"


def test_the_candidates_of_the_paper_are_too_few_on_a_tree_of_uneven_depths() -> None:
    """With the root, β = 0.5: p(v) ≥ 1/(1 + β²·D(v)) leaves out a node of the best set."""
    taxonomy = random_tree(4 + 25 % 7, 25)
    classes = ClassNodes(taxonomy.leaves, taxonomy)
    p = random_probabilities(3, len(classes), 25, 1.5)
    sets = best_node_sets(p, classes, beta=0.5, include_root=True)
    of_nodes = classes.node_probabilities(p)
    deepest = [
        max(int(taxonomy.depth[c]) for c in classes.nodes if v in (*taxonomy.ancestors_of(int(c)), int(c)))
        for v in range(taxonomy.num_nodes)
    ]
    bound = 1 / (1 + 0.25 * (torch.tensor(deepest) + 1))
    left_out = [
        node
        for row, nodes in enumerate(sets.nodes.tolist())
        for node in nodes
        if node >= 0 and of_nodes[row, node] < bound[node] - 1e-9
    ]
    assert left_out


def test_many_classes_and_few() -> None:
    taxonomy = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e")])
    classes = ClassNodes(taxonomy.leaves, taxonomy)
    assert best_node_sets(torch.empty(0, 3), classes).nodes.shape == (0, 0)
    sure = best_node_sets(torch.eye(3), classes)
    assert sure.values.tolist() == [1, 1, 1]
    assert (sure.nodes >= 0).sum(1).tolist() == [2, 2, 2]
    for beta in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="beta is"):
            best_node_sets(torch.eye(3), classes, beta=beta)
