from collections import Counter

import numpy as np
import pytest

from labeltree.sampling import grouping
from labeltree.sampling.grouping import key_dtype, shuffle_within, stable_order


@pytest.mark.parametrize("num_keys", [1, 7, 2**16, 2**16 + 1, 300_000])
def test_stable_order(num_keys):
    keys = np.random.default_rng(0).integers(0, num_keys, 2000).astype(key_dtype(num_keys))
    keys[-1] = num_keys - 1
    assert stable_order(keys).tolist() == sorted(range(2000), key=lambda i: keys[i])
    assert len(stable_order(keys[:0])) == 0


@pytest.mark.parametrize("large", [0, 10**9])  # every group is large, none is
def test_shuffle_within_shuffles_each_range_uniformly(large, monkeypatch):
    monkeypatch.setattr(grouping, "LARGE_GROUP", large)
    values, first, size = np.arange(10, 20), np.array([6, 0, 1, 6]), np.array([3, 1, 0, 3])
    seen: list[Counter] = [Counter(), Counter()]
    rng = np.random.default_rng(0)
    for _ in range(1200):
        found = shuffle_within(values, first, size, rng).tolist()
        assert found[3] == 10
        seen[0][tuple(found[:3])] += 1
        seen[1][tuple(found[4:])] += 1
    assert values.tolist() == list(range(10, 20))
    for counts in seen:
        assert set(map(frozenset, counts)) == {frozenset({16, 17, 18})}
        assert len(counts) == 6
        assert 140 < min(counts.values()) <= max(counts.values()) < 260  # 200 each expected
    assert len(shuffle_within(values, first[:0], size[:0], rng)) == 0
