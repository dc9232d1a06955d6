"""Batches that a sampler has divided among processes are not divided again."""

import pytest

from labeltree.sampling import RandomBatchSampler


class BatchSamplerShard:
    """As that of Accelerate: every process takes every other batch."""

    def __init__(self, batch_sampler, num_processes, process_index):
        self.batch_sampler, self.num_processes, self.process_index = (
            batch_sampler,
            num_processes,
            process_index,
        )

    def __iter__(self):
        for number, batch in enumerate(self.batch_sampler):
            if number % self.num_processes == self.process_index:
                yield batch


def test_batches_are_divided_once():
    """Half of every epoch was left out without a word."""
    nodes = [1, 2] * 24
    for rank in range(2):
        sampler = RandomBatchSampler(nodes, 4, rank=rank, world_size=2)
        with pytest.raises(RuntimeError, match=r"Make the sampler with rank=0, world_size=1"):
            list(BatchSamplerShard(sampler, 2, rank))
        assert len(list(sampler)) == 6
    shards = [
        list(BatchSamplerShard(RandomBatchSampler(nodes, 4, rank=0, world_size=1), 2, r)) for r in range(2)
    ]
    assert sorted(i for shard in shards for batch in shard for i in batch) == list(range(48))
