"""Operating points: a threshold on the score of every node, chosen on some samples and used on others."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from labeltree.metrics.functional.node_rates import node_rates
from labeltree.metrics.functional.node_scores import one_against_rest
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["node_metrics_at", "node_thresholds"]


def node_thresholds(
    probabilities: Tensor,
    target_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    *,
    classes: Tensor | None = None,
    sensitivity: float | None = None,
) -> Tensor:
    """Choose the operating point of every node; a sample is called positive if its score is at least that.

    Choose on validation samples and report on others (`node_metrics_at`): on the samples that it was chosen
    on, an operating point looks better than it is.

    Args:
        probabilities: (n, c) of the classes, each 0 or more.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        classes: (c,) distinct nodes that the columns stand for; default the leaves, ascending.
        sensitivity: the sensitivity to reach on these samples, above 0 and at most 1: of all thresholds that
            do, the greatest, which has the best specificity. None for Youden's index: the threshold with the
            greatest sensitivity + specificity - 1 (Youden 1950), of several the greatest.

    Returns:
        (N,) float64, each the score of one of the samples; NaN where a node has no positive or no negative
        sample, or no class at or below it.

    Raises:
        ValueError: for wrong shapes or dtypes, entries outside the taxonomy, probabilities that are none, or
            a sensitivity that is no share.

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
        # Both lie at the score of a positive sample: between two of them, only specificity is lost.
        candidates = np.sort(positive)[::-1]
        reached = np.searchsorted(-candidates, -candidates, "right")  # true positives at each
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

    Each node is asked by itself: a sample may be called a dog and no mammal.

    Args:
        thresholds: (N,) the score from which a sample is called positive; NaN where there is none.
        probabilities: (n, c) of the classes, each 0 or more.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        classes: (c,) distinct nodes that the columns stand for; default the leaves, ascending.

    Returns:
        (N,) rates and counts by name, as `labeltree.metrics.functional.node_rates` has them; NaN, and counts
        of 0, for nodes without a threshold, or without positive or negative samples.

    Raises:
        ValueError: for wrong shapes or dtypes, entries outside the taxonomy, probabilities that are none.

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
