"""Batches drawn at random, whatever the labels."""

import numpy as np

from labeltree.sampling.base import BatchSampler, IntArray

__all__ = ["RandomBatchSampler"]


class RandomBatchSampler(BatchSampler):
    """Uniformly random batches; every sample at most once an epoch.

    The arguments are those of `BatchSampler`; the labels are not looked at.

    Example:
        >>> sampler = RandomBatchSampler(nodes=[1, 1, 2, 2, -1, 2], batch_size=2)
        >>> len(sampler), sorted(int(i) for batch in sampler.batches(epoch=0) for i in batch)
        (3, [0, 1, 2, 3, 4, 5])
    """

    def _draw(self, rng: np.random.Generator) -> IntArray:
        return rng.permutation(self.num_samples)[: int(self._global_sizes().sum())]
