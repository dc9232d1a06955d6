"""Batch samplers over the tree: exact sizes, exactly once an epoch, seeded, rank-aware, resumable."""

from labeltree.sampling.balanced import BalancedBatchSampler
from labeltree.sampling.base import BatchSampler
from labeltree.sampling.hierarchical import EpochPlan, HierarchicalBatchSampler
from labeltree.sampling.shuffled import RandomBatchSampler

__all__ = [
    "BalancedBatchSampler",
    "BatchSampler",
    "EpochPlan",
    "HierarchicalBatchSampler",
    "RandomBatchSampler",
]
