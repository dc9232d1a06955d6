"""Agreement of a clustering with labels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.metrics.metric_checks import check_labels, check_same_length

__all__ = ["adjusted_mutual_information", "normalized_mutual_information"]

_AVERAGES = ("arithmetic", "geometric", "min", "max")


def normalized_mutual_information(labels: Tensor, clusters: Tensor, *, average: str = "arithmetic") -> Tensor:
    """NMI: mutual information of labels and clusters over an average of their entropies, as scikit-learn has
    it.

    Args:
        labels: (n,) integers, -1 for a missing label; those rows are left out.
        clusters: (n,) integers.
        average: The mean of the two entropies: "arithmetic", "geometric", "min" or "max".

    Returns:
        float64 scalar in [0, 1]; NaN if all rows have one label, or each has its own.

    Raises:
        ValueError: For wrong shapes or dtypes, or an unknown average.

    Example:
        >>> import torch
        >>> normalized_mutual_information(torch.tensor([5, 5, 9, -1]), torch.tensor([1, 1, 0, 0])).item()
        1.0

    """
    from sklearn.metrics import normalized_mutual_info_score

    return _agreement(normalized_mutual_info_score, labels, clusters, average)


def adjusted_mutual_information(labels: Tensor, clusters: Tensor, *, average: str = "arithmetic") -> Tensor:
    """AMI: the mutual information beyond what clusters of these sizes have by chance, as scikit-learn has it.

    NMI grows with the number of clusters, whatever they hold; AMI of random clusters is 0 on average (Vinh et
    al. 2010). Prefer it if there are many small classes.

    Args:
        labels: (n,) integers, -1 for a missing label; those rows are left out.
        clusters: (n,) integers.
        average: The mean of the two entropies: "arithmetic", "geometric", "min" or "max".

    Returns:
        float64 scalar of at most 1; NaN if all rows have one label, or each has its own.

    Raises:
        ValueError: For wrong shapes or dtypes, or an unknown average.

    Example:
        >>> import torch
        >>> labels = torch.tensor([0, 0, 1, 1])
        >>> adjusted_mutual_information(labels, torch.tensor([3, 3, 1, 1])).item()
        1.0

    """
    from sklearn.metrics import adjusted_mutual_info_score

    return _agreement(adjusted_mutual_info_score, labels, clusters, average)


def _agreement(score: Callable[..., float], labels: Tensor, clusters: Tensor, average: str) -> Tensor:
    check_labels("labels", labels)
    check_labels("clusters", clusters)
    check_same_length("labels", labels, "clusters", clusters)
    check_choice("average", average, _AVERAGES)
    known = labels >= 0
    kinds = len(torch.unique(labels[known]))
    if kinds < 2 or kinds == int(known.sum()):
        return torch.tensor(torch.nan, dtype=torch.float64, device=labels.device)
    value = score(labels[known].cpu(), clusters[known].cpu(), average_method=average)
    return torch.tensor(float(value), dtype=torch.float64, device=labels.device)
