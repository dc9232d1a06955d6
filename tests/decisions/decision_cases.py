"""Trees, DAGs and classifiers on them, and slow loops to hold against."""

import torch
from torch import Tensor

from labeltree.decisions import ClassNodes
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, TaxonomyDAG


def ragged() -> Taxonomy:
    """Leaves at depths 1, 2 and 3, an only child, a name that occurs twice."""
    return Taxonomy.from_paths(
        [("a", "b", "x"), ("a", "b", "y"), ("a", "c"), ("d", "e", "x"), ("d", "f"), ("d", "h", "i"), ("g",)]
    )


def diamond() -> TaxonomyDAG:
    """A DAG in which two leaves lie below two nodes each."""
    edges = [("a", "r"), ("b", "r"), ("c", "a"), ("d", "a"), ("d", "b"), ("e", "b"), ("f", "c"), ("f", "d")]
    return TaxonomyDAG.from_edges([*edges, ("g", "d"), ("h", "e"), ("h", "a"), ("i", "e")])


def random_tree(nodes: int, seed: int) -> Taxonomy:
    generator = torch.Generator().manual_seed(seed)
    parents = [-1] + [int(torch.randint(0, i, (1,), generator=generator)) for i in range(1, nodes)]
    return Taxonomy([f"n{i}" for i in range(nodes)], parents)


def inner_too(taxonomy: AnyTaxonomy) -> Tensor:
    """Classes: all leaves but the last, and every second inner node below the root."""
    inner = torch.nonzero(~taxonomy.is_leaf)[1::2, 0]
    return torch.cat([taxonomy.leaves[:-1], inner])


def random_probabilities(n: int, count: int, seed: int, sharpness: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    logits = sharpness * torch.randn(n, count, generator=generator, dtype=torch.float64)
    return torch.softmax(logits, 1)


def is_above(taxonomy: AnyTaxonomy, node: int, other: int) -> bool:
    return node == other or node in taxonomy.ancestors_of(other)


def cases() -> list[ClassNodes]:
    trees: list[AnyTaxonomy] = [ragged(), random_tree(40, 1), random_tree(25, 2), diamond()]
    found = [ClassNodes(taxonomy.leaves, taxonomy) for taxonomy in trees]
    return found + [ClassNodes(inner_too(taxonomy), taxonomy) for taxonomy in trees]
