"""Tables and trees to write reports of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from labeltree.evaluation import EvaluationResult, MethodResult, Representation, tree_errors
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


def clinic_table(taxonomy: Taxonomy, copies: int = 36, noise: float = 1.2) -> EmbeddingTable:
    """Two samples a patient of one class, taken at two sites; a third of them for validation."""
    plain = random_table(taxonomy, copies, noise=noise)
    leaves = len(taxonomy.leaves)
    copy = np.arange(len(plain)) // leaves
    return replace(
        plain,
        split=np.array(["train", "val", "test"])[copy // 2 % 3],
        groups=torch.from_numpy(np.arange(len(plain)) % leaves + leaves * (copy // 2)),
        attributes={"site": np.where(copy % 2 == 0, "Graz", "Wien")},
    )


def large_ragged_tree(branches: int = 14, leaves: int = 300) -> Taxonomy:
    """Leaves at depths 2 to 6 with long names, some of them the same under different parents."""
    paths = []
    for i in range(leaves):
        middle = [f"a family of middling size {(i * 7 + d) % 3}" for d in range(i % 5)]
        name = "other" if i % 10 == 0 else f"a class with a rather long and winding name, number {i}"
        paths.append((f"main branch {i % branches}", *middle, name))
    return Taxonomy.from_paths(dict.fromkeys(paths))


def large_result(classes: int = 10_000) -> tuple[EvaluationResult, EmbeddingTable, Taxonomy]:
    """Ten branches of twenty groups of classes, two samples a class, a third of them mistaken at random."""
    paths = [(f"branch {i % 10}", f"group {i % 200}", f"class {i}") for i in range(classes)]
    taxonomy = Taxonomy.from_paths(paths)
    nodes = taxonomy.leaves.repeat(2)
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(taxonomy.num_nodes, 4, generator=generator)[taxonomy.ancestors[nodes]].sum(1)
    table = EmbeddingTable(vectors, nodes, np.full(len(nodes), "test"))
    other = taxonomy.leaves[torch.randint(len(taxonomy.leaves), (len(nodes),), generator=generator)]
    wrong = torch.rand(len(nodes), generator=generator) < 1 / 3
    method = MethodResult(
        "random",
        {"embeddings": Representation("embeddings", 4, "sphere")},
        {"embeddings": {"top1": 2 / 3, "recall_at_1": 0.1}},
        {"probe": [0.7, 0.68, 2 / 3]},
        {"embeddings": [0.3, 0.2, 0.1]},
        tree_errors(torch.where(wrong, other, nodes), nodes, taxonomy),
    )
    counts = {"samples": len(table), "test samples": len(nodes) // 2, "classes tested": classes}
    return EvaluationResult("random", "test", {"random": method}, counts, []), table, taxonomy
