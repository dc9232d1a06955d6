"""Linear discriminant analysis with shrinkage, for more dimensions than samples as well as fewer."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["fit_discriminants", "shrinkage"]


def shrinkage(centred: Tensor) -> float:
    """The share of Ledoit & Wolf (2004) by which a covariance is drawn towards a multiple of the identity.

    Args:
        centred: `(n, d)` float64 rows with mean 0.

    Returns:
        A share in [0, 1], as `sklearn.covariance.ledoit_wolf_shrinkage` has it; 0 for constant rows.

    Example:
        >>> shrinkage(torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64))
        0.0
    """
    n, d = centred.shape
    squares = centred.square().sum(1)
    smaller = centred.T @ centred if d <= n else centred @ centred.T  # both have the same Frobenius norm
    norm, mean = float(smaller.square().sum()) / n**2, float(squares.sum()) / (n * d)
    spread = float(norm - d * mean**2) / d
    noise = min((float(squares.square().sum()) / n - norm) / (d * n), spread)
    return noise / spread if noise > 0 else 0.0  # it is at most the spread


def fit_discriminants(vectors: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scores log p(class) + log N(x; class mean, Σ), up to a constant, as linear functions of x.

    Σ is the covariance within the classes, (1 − s)·S + s·tr(S)/d·I with the `shrinkage` s. Of more dimensions
    than samples, only their products are formed.

    Args:
        vectors: `(n, d)`.
        labels: `(n,)` class of each.

    Returns:
        Classes `(C,)`, weight `(d, C)` and bias `(C,)`, float64.
    """
    classes, places, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    points = vectors.double()
    n, d = points.shape
    means = torch.zeros(len(classes), d, dtype=torch.float64).index_add(0, places, points) / counts[:, None]
    within = points - means[places]
    share = shrinkage(within)
    mean = float(within.square().sum()) / (n * d)
    ridge = max(share * mean, 1e-9 * mean) or 1.0  # samples that are all their class's mean
    scale = (1 - share) / n
    if d <= n:
        covariance = scale * (within.T @ within) + ridge * torch.eye(d, dtype=torch.float64)
        weight = torch.linalg.solve(covariance, means.T)
    else:  # the inverse by Woodbury's identity
        products = scale * (within @ within.T) + ridge * torch.eye(n, dtype=torch.float64)
        weight = (means.T - scale * within.T @ torch.linalg.solve(products, within @ means.T)) / ridge
    bias = (counts / n).log() - 0.5 * (means.T * weight).sum(0)
    return classes, weight, bias
