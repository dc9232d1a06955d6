"""All retrieval metrics by plain Python loops over the results of one query after the other.

As published code has it: NumPy sorts, dictionaries hold what was computed before, and Python walks along the
ranking. Leave-one-out on the sphere.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from labeltree.taxonomy import Taxonomy

__all__ = ["loop_metrics"]


def loop_metrics(
    embeddings: Tensor, nodes: Tensor, taxonomy: Taxonomy, queries: int, length: int
) -> dict[str, float]:
    """Recall@1, MAP@R, mAP and AHP@length, means over the first `queries` rows."""
    points = torch.nn.functional.normalize(embeddings).numpy()
    labels = nodes.tolist()
    heights = taxonomy.lca_height(taxonomy.leaves[:, None], taxonomy.leaves)
    leaves = taxonomy.leaves.tolist()
    similarity = {
        leaf: dict(zip(leaves, row, strict=True))
        for leaf, row in zip(leaves, (1 - heights / taxonomy.max_height).tolist(), strict=True)
    }
    ideal: dict[int, list[float]] = {}
    sums = dict.fromkeys(("recall@1", "map@r", "map", "ahp"), 0.0)
    for query in range(queries):
        label = labels[query]
        ranking = np.argsort(-(points @ points[query]), kind="stable").tolist()
        ranking.remove(query)
        relevant = sum(labels[item] == label for item in ranking)
        hits, precision, within, gained, ahp = 0, 0.0, 0.0, 0.0, 0.0
        gains = []
        for rank, item in enumerate(ranking, 1):
            other = labels[item]
            if other == label:
                hits += 1
                precision += hits / rank
                if rank <= relevant:
                    within += hits / rank
            gains.append(similarity[label][other])
        if label not in ideal:
            ideal[label] = np.cumsum(sorted(gains, reverse=True)).tolist()
        for gain, best in zip(gains[:length], ideal[label], strict=False):
            gained += gain
            ahp += gained / best
        sums["recall@1"] += labels[ranking[0]] == label
        sums["map@r"] += within / relevant
        sums["map"] += precision / relevant
        sums["ahp"] += ahp / min(length, len(ranking))
    return {name: total / queries for name, total in sums.items()}
