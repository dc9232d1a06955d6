"""Trees and embeddings that the tests of the evaluation share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from labelled_vectors import tree_vectors

from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

PATHS = [
    ("animal", "mammal", "dog"),
    ("animal", "mammal", "cat"),
    ("animal", "fish", "trout"),
    ("animal", "fish", "other"),
    ("animal", "worm"),
    ("plant", "tree", "oak"),
    ("plant", "tree", "other"),
    ("plant", "moss"),
]


@pytest.fixture(scope="session")
def taxonomy() -> Taxonomy:
    return Taxonomy.from_paths(PATHS)


@pytest.fixture(scope="session")
def table(taxonomy: Taxonomy) -> EmbeddingTable:
    """Splits, features, embeddings and instances; every label is a leaf."""
    nodes = taxonomy.leaves.repeat(30)
    n = len(nodes)
    return EmbeddingTable(
        embeddings=tree_vectors(taxonomy, nodes, 6, 0.35, 1),
        nodes=nodes,
        split=np.where(np.arange(n) % 5 < 3, "train", np.where(np.arange(n) % 5 == 3, "val", "test")),
        features=tree_vectors(taxonomy, nodes, 10, 0.5, 2),
        instances=torch.arange(n) + 1000,
    )
