"""Shorter vectors and vectors of int8: what a byte of an index buys in AHP.

    python benchmarks/shorter_vectors.py --embeddings TABLE.npz --taxonomy TREE.json [--short]

Samples of the test split, or a tenth of all if there is none, search among those of training. Vectors are
kept whole; cut to their first dimensions; or turned by PCA (the right singular vectors of the training
samples, not centred, so that inner products are kept best) and cut. Numbers are float32; int8, each vector
divided by its largest number; or one bit, the sign. Without a table, vectors of clusters show that the script
runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness import Results, Size, Table, choose, main
from labeltree.metrics.functional import average_hierarchical_precision
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

Array = np.ndarray[Any, Any]
K = 250


def samples(
    size: Size, embeddings: str | None, taxonomy: str | None
) -> tuple[Array, Array, Array, Array, Taxonomy]:
    """Queries and keys, each with nodes, and the tree."""
    if embeddings is None or taxonomy is None:
        tree = Taxonomy.from_paths([f"branch {i}/leaf {j}" for i in range(5) for j in range(4)])
        rng = np.random.default_rng(0)
        nodes = tree.leaves.numpy()[rng.integers(len(tree.leaves), size=600)]
        vectors = rng.standard_normal((tree.num_nodes, 32))[nodes] + rng.standard_normal((600, 32))
        split = np.where(rng.random(600) < 0.2, "test", "train")
    else:
        tree = Taxonomy.from_file(taxonomy)
        table = EmbeddingTable.load(Path(embeddings))
        known = (table.nodes >= 0).numpy()
        vectors, nodes = table.embeddings.numpy()[known], table.nodes.numpy()[known]
        if table.split is None:
            split = np.where(np.random.default_rng(0).random(len(nodes)) < 0.1, "test", "train")
        else:
            split = np.asarray([str(one) for one in table.split])[known]
    most = choose(size, full=10**6, short=300, tiny=50)
    test, train = np.flatnonzero(split == "test")[:most], np.flatnonzero(split == "train")
    unit = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit[test], nodes[test], unit[train], nodes[train], tree


def kept(vectors: Array, kind: str) -> Array:
    """What is left of vectors that are kept as numbers of a kind."""
    if kind == "int8":
        scale = np.abs(vectors).max(1, keepdims=True) / 127
        return np.asarray(np.round(vectors / np.where(scale > 0, scale, 1)), np.float32)
    return np.where(vectors > 0, 1, -1).astype(np.float32) if kind == "1 bit" else vectors


def measure(size: Size, embeddings: str | None = None, taxonomy: str | None = None) -> Results:
    """AHP of each way to keep vectors."""
    queries, asked, keys, known, tree = samples(size, embeddings, taxonomy)
    _, _, turned = np.linalg.svd(keys.astype(np.float64), full_matrices=False)
    pca = turned.T.astype(np.float32)
    dim = keys.shape[1]
    rows: list[list[Any]] = []
    for how, matrix in (("whole", None), ("PCA", pca), ("first dimensions", np.eye(dim, dtype=np.float32))):
        lengths = [dim] if matrix is None else [dim // 2, dim // 4, dim // 8]
        for length in lengths:
            for kind, bits in (("float32", 32), ("int8", 8), ("1 bit", 1)):
                sides = [side if matrix is None else side @ matrix[:, :length] for side in (queries, keys)]
                asking, among = (torch.from_numpy(kept(side, kind)) for side in sides)
                values = average_hierarchical_precision(
                    asking,
                    torch.from_numpy(asked),
                    tree,
                    among,
                    torch.from_numpy(known),
                    k=K,
                    reduction="none",
                )
                values = values[~values.isnan()]
                ahp, number = float(values.mean()), length * bits / 8
                rows.append([how, length, kind, number, ahp, float(values.std() / len(values) ** 0.5)])
    whole = rows[0][4]
    for row in rows:
        row += [row[4] - whole, 100 * row[4] / row[3]]
    columns = (
        "vectors",
        "dimensions",
        "numbers",
        "bytes",
        f"AHP@{K}",
        "standard error",
        "− whole",
        "% a byte",
    )
    note = f"{len(queries)} test samples search among {len(keys)} of training, by cosine; one run, so the "
    note += "standard error is over queries and says nothing about other seeds."
    return Results([Table("AHP of shorter vectors", columns, rows)], {}, [note])


if __name__ == "__main__":
    main(__doc__, measure, {"embeddings": "an embeddings table", "taxonomy": "the tree of its labels"})
