"""RandAugment on batches (Cubuk et al. 2020): every sample has its own operations."""

from __future__ import annotations

from torch import Tensor

__all__ = ["RandAugment"]


class RandAugment:
    """Placeholder."""

    def __init__(self, operations: int, magnitude: float) -> None:
        self.operations = operations
        self.magnitude = magnitude

    def __call__(self, images: Tensor, keys: Tensor, first: int) -> Tensor:
        """Apply."""
        raise NotImplementedError
