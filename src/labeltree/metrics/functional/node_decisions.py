"""Binary decisions for every node, from predictions or thresholds: sensitivity, specificity, PPV, NPV."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from labeltree.metrics.functional.node_labels import NodeLabels, lines, one_against_rest
from labeltree.metrics.metric_checks import check_nodes, check_same_length
from labeltree.taxonomy import AnyTaxonomy

__all__ = [
    "node_decision_counts",
    "node_decision_metrics",
    "node_metrics_at",
    "node_rates",
    "node_thresholds",
]


def node_rates(
    true_positives: Tensor, false_positives: Tensor, positives: Tensor, negatives: Tensor
) -> dict[str, Tensor]:
    """The rates that describe a binary test, elementwise.

    - sensitivity (recall) = TP / P, specificity = TN / N;
    - PPV, the positive predictive value (precision) = TP / (TP + FP), NPV = TN / (TN + FN). They depend
      on the share of positives among the samples: where a disease is rarer, the PPV is lower;
    - balanced accuracy = (sensitivity + specificity) / 2.

    Args:
        true_positives: Number of positive samples that are predicted positive, of any shape.
        false_positives: Number of negative samples that are predicted positive.
        positives: P, number of positive samples.
        negatives: N, number of negative samples.

    Returns:
        float64 "sensitivity", "specificity", "ppv", "npv", "balanced_accuracy", NaN where the denominator is
        0; and the int64 counts "true_positives", "false_positives", "false_negatives", "true_negatives".

    Example:
        >>> import torch
        >>> rates = node_rates(torch.tensor(8), torch.tensor(5), torch.tensor(10), torch.tensor(90))
        >>> rates["sensitivity"].item(), round(rates["ppv"].item(), 4)
        (0.8, 0.6154)

    """
    false_negatives, true_negatives = positives - true_positives, negatives - false_positives
    sensitivity = true_positives.double() / positives
    specificity = true_negatives.double() / negatives
    return {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "ppv": true_positives.double() / (true_positives + false_positives),
        "npv": true_negatives.double() / (true_negatives + false_negatives),
        "balanced_accuracy": (sensitivity + specificity) / 2,
        "true_positives": true_positives,
        "false_positives": false_positives,
        "false_negatives": false_negatives,
        "true_negatives": true_negatives,
    }


def node_decision_metrics(
    predicted_nodes: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy
) -> dict[str, Tensor]:
    """Sensitivity, specificity, PPV, NPV and balanced accuracy of every node at a classifier's decision.

    A prediction is positive for its node and all ancestors, and negative for every other node: an inner node
    is negative for the nodes below it, the root for all nodes. `labeltree.metrics.functional.node_labels`
    says which samples are positive, negative or left out.

    Args:
        predicted_nodes: (n,) nodes.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.

    Returns:
        (N,) rates and counts by name, as in `labeltree.metrics.functional.node_rates`. The numbers of
        positives and negatives differ between nodes if labels leave some nodes open.

    Raises:
        ValueError: For wrong shapes or dtypes, entries outside the taxonomy, a labelled sample without
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
    """(N,) int64 each: true positives, false positives, positives, negatives; they add up over batches."""
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
    # every pair of a prediction and a label, repeated for each node that is predicted positive
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
    tensors = (torch.from_numpy(x).to(target_nodes.device) for x in (true, false, *labels.totals()))
    true_positives, false_positives, positives, negatives = tensors
    return true_positives, false_positives, positives, negatives


def node_thresholds(
    probabilities: Tensor,
    target_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    *,
    classes: Tensor | None = None,
    sensitivity: float | None = None,
) -> Tensor:
    """Choose the operating point of every node: samples with this score or a higher one are positive.

    Choose on validation samples and report on other samples (`node_metrics_at`): results on the samples that
    an operating point was chosen on are too optimistic.

    Args:
        probabilities: (n, c) class probabilities, each 0 or more.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        classes: (c,) distinct nodes that the columns stand for; default the leaves, ascending.
        sensitivity: The sensitivity to reach on these samples, above 0 and at most 1: the greatest threshold
            that reaches it is chosen, which has the best specificity. None for Youden's index: the threshold
            with the greatest sensitivity + specificity - 1 (Youden 1950), ties go to the greatest.

    Returns:
        (N,) float64, each the score of one of the samples; NaN where a node has no positive or no negative
        sample, or no class at or below it.

    Raises:
        ValueError: For wrong shapes or dtypes, entries outside the taxonomy or that are not probabilities, or
            a sensitivity out of range.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths(["benign", "malignant"])
        >>> risk = torch.tensor([0.9, 0.75, 0.25, 0.5, 0.125, 0.0])
        >>> target = taxonomy.encode(["malignant"] * 3 + ["benign"] * 3)
        >>> probabilities, malignant = torch.stack([1 - risk, risk], dim=1), taxonomy.find("malignant")
        >>> node_thresholds(probabilities, target, taxonomy)[malignant].item()
        0.75
        >>> node_thresholds(probabilities, target, taxonomy, sensitivity=0.95)[malignant].item()
        0.25

    """
    if sensitivity is not None and not 0 < sensitivity <= 1:
        raise ValueError(f"sensitivity is {sensitivity!r}; expected a share above 0 and at most 1, or None")
    chosen = np.full(taxonomy.num_nodes, np.nan)
    for node, positive, negative in one_against_rest(probabilities, target_nodes, taxonomy, classes):
        # Both optima lie at the score of a positive sample: any lower threshold down to the next only loses
        candidates = np.sort(positive)[::-1]
        reached = np.searchsorted(-candidates, -candidates, "right")  # number of true positives at each
        if sensitivity is None:
            false = len(negative) - np.searchsorted(np.sort(negative), candidates, "left")
            best = int((reached * len(negative) - false * len(positive)).argmax())  # whole numbers: exact
        else:
            best = int((reached / len(positive) >= sensitivity).argmax())
        chosen[node] = candidates[best]
    return torch.from_numpy(chosen).to(target_nodes.device)


def node_metrics_at(
    thresholds: Tensor,
    probabilities: Tensor,
    target_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    *,
    classes: Tensor | None = None,
) -> dict[str, Tensor]:
    """Sensitivity, specificity, PPV, NPV and balanced accuracy of every node at its operating point.

    Each node is decided independently: a sample can be positive for dog and negative for mammal.

    Args:
        thresholds: (N,) the lowest score at which a sample is positive; NaN for a node without a threshold.
        probabilities: (n, c) class probabilities, each 0 or more.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        classes: (c,) distinct nodes that the columns stand for; default the leaves, ascending.

    Returns:
        (N,) rates and counts by name, as in `labeltree.metrics.functional.node_rates`; NaN, and counts of 0,
        for nodes without a threshold, or without positive or negative samples.

    Raises:
        ValueError: For wrong shapes or dtypes, nodes outside the taxonomy, or negative probabilities.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths(["benign", "malignant"])
        >>> risk = torch.tensor([0.9, 0.75, 0.25, 0.5, 0.125, 0.0])
        >>> target = taxonomy.encode(["malignant"] * 3 + ["benign"] * 3)
        >>> probabilities, malignant = torch.stack([1 - risk, risk], dim=1), taxonomy.find("malignant")
        >>> found = node_metrics_at(torch.full((3,), 0.25), probabilities, target, taxonomy)
        >>> found["sensitivity"][malignant].item(), found["ppv"][malignant].item()
        (1.0, 0.75)

    """
    if thresholds.shape != (taxonomy.num_nodes,) or not thresholds.is_floating_point():
        raise ValueError(
            f"thresholds has shape {tuple(thresholds.shape)} and dtype {thresholds.dtype}; expected a "
            f"floating-point number for each of the {taxonomy.num_nodes} nodes"
        )
    limits = thresholds.detach().cpu().double().numpy()
    counts = np.zeros((4, taxonomy.num_nodes), dtype=np.int64)
    for node, positive, negative in one_against_rest(probabilities, target_nodes, taxonomy, classes):
        if not np.isnan(limits[node]):
            said = (positive >= limits[node]).sum(), (negative >= limits[node]).sum()
            counts[:, node] = (*said, len(positive), len(negative))
    true, false, positives, negatives = (torch.from_numpy(x).to(target_nodes.device) for x in counts)
    return node_rates(true, false, positives, negatives)
