"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), their trees, and CIFARtoy."""

from labeltree.datasets.cifar.datasets import fetch_cifar_10, fetch_cifar_100
from labeltree.datasets.cifar.trees import (
    cifar_10_taxonomy,
    cifar_100_deep_taxonomy,
    cifar_100_taxonomy,
    cifar_toy_taxonomy,
)

__all__ = [
    "cifar_10_taxonomy",
    "cifar_100_deep_taxonomy",
    "cifar_100_taxonomy",
    "cifar_toy_taxonomy",
    "fetch_cifar_10",
    "fetch_cifar_100",
]
