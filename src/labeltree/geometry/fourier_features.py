"""Random Fourier features: vectors whose inner products are about those of a Gaussian kernel."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from labeltree.geometry.unit_vectors import unit_vectors

__all__ = ["draw_frequencies", "fourier_features", "unit_points"]


def draw_frequencies(dim: int, count: int) -> Tensor:
    """Frequencies `(dim, count / 2)` float64, the same ones at each call, for the bandwidth 1.

    Blocks of `dim` frequencies are orthogonal, which lowers the error of the products (Yu et al. 2016,
    *Orthogonal Random Features*). The generator is one whose numbers no version of numpy changes.

    Args:
        dim: Of the vectors.
        count: Of the features, even.
    """
    rng = np.random.RandomState(0)
    blocks = []
    for start in range(0, count // 2, dim):
        size = min(dim, count // 2 - start)
        axes, triangle = np.linalg.qr(rng.standard_normal((dim, size)))
        lengths = np.linalg.norm(rng.standard_normal((dim, size)), axis=0)
        blocks.append(axes * np.sign(triangle.diagonal()) * lengths)
    return torch.from_numpy(np.concatenate(blocks, 1))


def fourier_features(points: Tensor, frequencies: Tensor) -> Tensor:
    """Vectors of unit length `(n, 2k)` whose products are about exp(−‖x − y‖²/2) (Rahimi & Recht 2007).

    Args:
        points: `(n, d)`.
        frequencies: `(d, k)`, see `draw_frequencies`.
    """
    angles = points @ frequencies
    return torch.cat([angles.cos(), angles.sin()], 1) / math.sqrt(frequencies.shape[1])


def unit_points(vectors: Tensor, frequencies: Tensor | None = None) -> Tensor:
    """Vectors `(n, d)` at unit length as float64, or the Fourier features of these.

    Raises:
        DataError: If a vector holds NaN or infinity.
    """
    points = unit_vectors(vectors)
    return points if frequencies is None else fourier_features(points, frequencies)
