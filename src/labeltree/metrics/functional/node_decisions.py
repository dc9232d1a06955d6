"""Predicted nodes as a yes or no for every node, against the labels."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from labeltree.metrics.checks import check_nodes, check_same_length
from labeltree.metrics.functional.node_labels import NodeLabels, lines
from labeltree.metrics.functional.node_rates import node_rates
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["node_decision_counts", "node_decision_metrics"]


def node_decision_metrics(
    predicted_nodes: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy
) -> dict[str, Tensor]:
    """Sensitivity, specificity, PPV, NPV and balanced accuracy of every node at a classifier's decision.

    A prediction says yes to itself and to all its ancestors, and no to every other node; an inner node as a
    prediction says no to what is below it, and the root to everything. What counts as positive and as
    negative, and who is left out, is that of `labeltree.metrics.functional.node_labels`.

    Args:
        predicted_nodes: (n,) nodes.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.

    Returns:
        (N,) rates and counts by name, as `labeltree.metrics.functional.node_rates` has them. The numbers of
        positives and negatives differ between nodes where labels leave some open.

    Raises:
        ValueError: for wrong shapes or dtypes, entries outside the taxonomy, a labelled sample without
            prediction.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> target = taxonomy.encode(["dog", "dog", "cat", "trout"])
        >>> predicted = taxonomy.encode(["dog", "cat", "cat", "cat"])
        >>> found = node_decision_metrics(predicted, target, taxonomy)
        >>> mammal, cat = taxonomy.encode(["mammal", "cat"])
        >>> found["sensitivity"][mammal].item(), found["specificity"][mammal].item()
        (1.0, 0.0)
        >>> round(found["ppv"][cat].item(), 3)
        0.333

    """
    return node_rates(*node_decision_counts(predicted_nodes, target_nodes, taxonomy))


def node_decision_counts(
    predicted_nodes: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(N,) int64 each: true positives, false positives, positives, negatives; sums over batches."""
    check_nodes("predicted_nodes", predicted_nodes, taxonomy)
    labels = NodeLabels.of("target_nodes", target_nodes, taxonomy)
    check_same_length("predicted_nodes", predicted_nodes, "target_nodes", target_nodes)
    predicted = predicted_nodes.detach().cpu().numpy().astype(np.int64)[labels.known]
    if (predicted < 0).any():
        raise ValueError(
            f"predicted_nodes holds -1 in row {labels.known[predicted < 0][0]}, whose label is known; "
            "expected a node: predict the root (0) to say nothing"
        )
    n, m = taxonomy.num_nodes, max(len(labels.labels), 1)
    pairs, count = np.unique(predicted * m + labels.label, return_counts=True)
    answers, answer = np.unique(pairs // m, return_inverse=True)
    # every pair of a prediction and a label, repeated for each node that the prediction says yes to
    place, node = lines(answers, taxonomy)
    first = np.searchsorted(place, np.arange(len(answers) + 1))
    size = np.diff(first)[answer.reshape(-1)]
    offset = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    said = node[np.repeat(first[:-1][answer.reshape(-1)], size) + offset]
    keys, counts = said * m + np.repeat(pairs % m, size), np.repeat(count, size)
    right = np.isin(keys, labels.positive)
    wrong = ~right & ~np.isin(keys, labels.open)
    true, false = np.zeros((2, n), dtype=np.int64)
    np.add.at(true, said[right], counts[right])
    np.add.at(false, said[wrong], counts[wrong])
    found = (torch.from_numpy(x).to(target_nodes.device) for x in (true, false, *labels.totals()))
    true_positives, false_positives, positives, negatives = found
    return true_positives, false_positives, positives, negatives
