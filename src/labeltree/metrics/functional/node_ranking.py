"""How well the scores of a node rank its samples above all others: AUROC and average precision."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from labeltree.metrics.functional.node_labels import one_against_rest
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["node_auroc", "node_average_precision", "node_ranking_metrics"]


def node_auroc(
    probabilities: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy, *, classes: Tensor | None = None
) -> Tensor:
    """AUROC of every node against the rest: how often a sample at or below it scores higher than one that is
    not.

    It is the Mann-Whitney statistic U / (P·N), a tie counting one half (Hanley & McNeil 1982).
    `labeltree.metrics.functional.node_labels` says which samples are positive, negative or left out; scores
    are those of `node_scores`.

    Args:
        probabilities: (n, c) of the classes, each 0 or more.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        classes: (c,) distinct nodes that the columns stand for; default the leaves, ascending.

    Returns:
        (N,) float64; NaN where a node has no positive or no negative sample (as the root), or no class at or
        below it.

    Raises:
        ValueError: For wrong shapes or dtypes, nodes outside the taxonomy, or negative probabilities.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> probabilities = torch.tensor([[0.6, 0.2, 0.2], [0.3, 0.1, 0.6], [0.3, 0.2, 0.5]])
        >>> target = taxonomy.encode(["dog", "cat", "trout"])
        >>> auroc = node_auroc(probabilities, target, taxonomy)
        >>> auroc[taxonomy.encode(["mammal", "dog", "cat"])].tolist()
        [0.5, 1.0, 0.0]

    """
    return node_ranking_metrics(probabilities, target_nodes, taxonomy, classes=classes)["auroc"]


def node_average_precision(
    probabilities: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy, *, classes: Tensor | None = None
) -> Tensor:
    """Average precision of every node against the rest: the mean, over the node's samples, of the precision
    among all that score at least as high (scikit-learn's `average_precision_score`).

    Unlike AUROC it depends on how frequent the node is: for random scores it is about the share of its
    samples.

    Args:
        probabilities: (n, c) of the classes, each 0 or more.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        classes: (c,) distinct nodes that the columns stand for; default the leaves, ascending.

    Returns:
        (N,) float64; NaN as for `node_auroc`.

    Raises:
        ValueError: For wrong shapes or dtypes, nodes outside the taxonomy, or negative probabilities.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> probabilities = torch.tensor([[0.6, 0.2, 0.2], [0.1, 0.1, 0.8], [0.3, 0.2, 0.5]])
        >>> target = taxonomy.encode(["dog", "cat", "trout"])
        >>> precision = node_average_precision(probabilities, target, taxonomy)
        >>> round(precision[taxonomy.find("mammal")].item(), 3)
        0.833

    """
    return node_ranking_metrics(probabilities, target_nodes, taxonomy, classes=classes)["average_precision"]


def node_ranking_metrics(
    probabilities: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy, *, classes: Tensor | None = None
) -> dict[str, Tensor]:
    """`node_auroc` and `node_average_precision` in one pass.

    Each node's negative scores are sorted once, and its positive ones looked up among them: O(n log n) a
    node, and memory for a block of nodes.

    Args:
        probabilities: (n, c) of the classes, each 0 or more.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        classes: (c,) distinct nodes that the columns stand for; default the leaves, ascending.

    Returns:
        (N,) float64 "auroc" and "average_precision".

    Raises:
        ValueError: For wrong shapes or dtypes, nodes outside the taxonomy, or negative probabilities.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> target = taxonomy.encode(["dog", "cat", "trout"])
        >>> found = node_ranking_metrics(torch.full((3, 3), 1 / 3), target, taxonomy)
        >>> found["auroc"][taxonomy.find("dog")].item()
        0.5

    """
    auroc, precision = np.full((2, taxonomy.num_nodes), np.nan)
    for node, positive, negative in one_against_rest(probabilities, target_nodes, taxonomy, classes):
        positive.sort()
        negative.sort()
        true = len(positive) - np.searchsorted(positive, positive, "left")  # positives that score as high
        above = len(negative) - np.searchsorted(negative, positive, "right")
        false = len(negative) - np.searchsorted(negative, positive, "left")
        pairs = len(positive) * len(negative)
        auroc[node] = (2 * pairs - int(above.sum()) - int(false.sum())) / (2 * pairs)
        precision[node] = (true / (true + false)).mean()
    device = target_nodes.device
    return {
        "auroc": torch.from_numpy(auroc).to(device),
        "average_precision": torch.from_numpy(precision).to(device),
    }
