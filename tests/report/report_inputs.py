"""Tables and trees to write reports of."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

SMALL = [
    ("apparel", "tops", "shirt"),
    ("apparel", "tops", "pullover"),
    ("apparel", "dress"),
    ("footwear", "sandal"),
    ("footwear", "closed", "boot"),
    ("footwear", "closed", "sneaker"),
]


def random_table(
    taxonomy: Taxonomy, copies: int, *, noise: float = 0.5, seed: int = 0, features: bool = True
) -> EmbeddingTable:
    """Vectors near those of their ancestors, for every leaf as many, half of them to learn from."""
    generator = torch.Generator().manual_seed(seed)
    nodes = taxonomy.leaves.repeat(copies)

    def vectors(dim: int) -> Tensor:
        steps = torch.randn(taxonomy.num_nodes, dim, generator=generator)
        centres = torch.zeros(taxonomy.num_nodes, dim)
        for node in range(1, taxonomy.num_nodes):
            centres[node] = centres[int(taxonomy.parent[node])] + steps[node] / int(taxonomy.depth[node])
        return centres[nodes] + noise * torch.randn(len(nodes), dim, generator=generator)

    return EmbeddingTable(
        vectors(5),
        nodes,
        np.where(np.arange(len(nodes)) // len(taxonomy.leaves) % 2, "test", "train"),
        vectors(8) if features else None,
        torch.arange(len(nodes)) + 50,
    )


def large_ragged_tree(branches: int = 14, leaves: int = 300) -> Taxonomy:
    """Leaves at depths 2 to 6 with long names, some of them the same under different parents."""
    paths = []
    for i in range(leaves):
        middle = [f"a family of middling size {(i * 7 + d) % 3}" for d in range(i % 5)]
        name = "other" if i % 10 == 0 else f"a class with a rather long and winding name, number {i}"
        paths.append((f"main branch {i % branches}", *middle, name))
    return Taxonomy.from_paths(dict.fromkeys(paths))
