"""Agreement of a clustering with labels."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.metrics.checks import check_labels, check_same_length

__all__ = ["normalized_mutual_information"]

_AVERAGES = ("arithmetic", "geometric", "min", "max")


def normalized_mutual_information(labels: Tensor, clusters: Tensor, *, average: str = "arithmetic") -> Tensor:
    """NMI: mutual information of labels and clusters over an average of their entropies, as scikit-learn has
    it.

    Args:
        labels: (n,) integers, -1 for a missing label; those rows are left out.
        clusters: (n,) integers.
        average: of the two entropies: "arithmetic", "geometric", "min" or "max".

    Returns:
        float64 scalar in [0, 1]; NaN if no row has a label.

    Raises:
        ValueError: for wrong shapes or dtypes, or an unknown average.

    Example:
        >>> import torch
        >>> normalized_mutual_information(torch.tensor([5, 5, 9, -1]), torch.tensor([1, 1, 0, 0])).item()
        1.0

    """
    check_labels("labels", labels)
    check_labels("clusters", clusters)
    check_same_length("labels", labels, "clusters", clusters)
    if average not in _AVERAGES:
        raise ValueError(f"average is {average!r}; expected one of {', '.join(map(repr, _AVERAGES))}")
    known = labels >= 0
    if not bool(known.any()):
        return torch.tensor(torch.nan, dtype=torch.float64, device=labels.device)
    from sklearn.metrics import normalized_mutual_info_score

    value = normalized_mutual_info_score(labels[known].cpu(), clusters[known].cpu(), average_method=average)
    return torch.tensor(float(value), dtype=torch.float64, device=labels.device)
