"""Batch samplers over the tree: exact sizes, exactly once an epoch, seeded, rank-aware, resumable."""

from labeltree.sampling.batch_sampler import BatchSampler, RandomBatchSampler
from labeltree.sampling.class_balanced import ClassBalancedBatchSampler
from labeltree.sampling.hierarchical import EpochPlan, HierarchicalBatchSampler
from labeltree.sampling.samples_per_class import BalancedBatchSampler

__all__ = [
    "BalancedBatchSampler",
    "BatchSampler",
    "ClassBalancedBatchSampler",
    "EpochPlan",
    "HierarchicalBatchSampler",
    "RandomBatchSampler",
]
