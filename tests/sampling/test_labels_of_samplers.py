"""A sampler keeps the labels that it was given."""

import numpy as np

from labeltree.sampling import RandomBatchSampler


def test_labels_that_change_later_do_not_reach_a_sampler() -> None:
    nodes = np.array([1, 1, 2, 2, 1, 2])
    sampler = RandomBatchSampler(nodes, 2)
    nodes[:] = -1
    assert (np.asarray(sampler.nodes) >= 1).all()
