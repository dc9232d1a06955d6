"""Vectors that follow a tree."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.taxonomy import Taxonomy


def tree_vectors(taxonomy: Taxonomy, nodes: Tensor, dim: int, noise: float, seed: int) -> Tensor:
    """Vectors that lie near those of their ancestors."""
    generator = torch.Generator().manual_seed(seed)
    steps = torch.randn(taxonomy.num_nodes, dim, generator=generator)
    centres = torch.zeros(taxonomy.num_nodes, dim)
    for node in range(1, taxonomy.num_nodes):
        centres[node] = centres[int(taxonomy.parent[node])] + steps[node] * 0.6 ** int(taxonomy.depth[node])
    return centres[nodes.clamp_min(0)] + noise * torch.randn(len(nodes), dim, generator=generator)
