"""What holds for every sampler: pure batches, disjoint ranks, exact sizes, clear errors."""

import hashlib
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling_trees import even_tree

from labeltree.sampling import (
    BalancedBatchSampler,
    BatchSampler,
    HierarchicalBatchSampler,
    RandomBatchSampler,
)

pytestmark = pytest.mark.slow

TREE = even_tree(2, 3)
NAMES = ("random", "hierarchical", "balanced")


def labels(n: int) -> np.ndarray:
    return np.resize(TREE.leaves.numpy(), n)


def build(name: str, nodes: np.ndarray, batch_size: int, **options) -> BatchSampler:
    if name == "random":
        return RandomBatchSampler(nodes, batch_size, **options)
    kind = HierarchicalBatchSampler if name == "hierarchical" else BalancedBatchSampler
    return kind(TREE, nodes, batch_size, **options)


def digest(sampler: BatchSampler, epoch: int) -> str:
    return hashlib.sha256(sampler.epoch_order(epoch).astype("<i8").tobytes()).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_starting_late_is_a_slice(name):
    sampler = build(name, labels(100), 12, seed=3)
    assert len(sampler) == 8
    whole = [batch.tolist() for batch in sampler.batches(2)]
    assert np.array(whole).tolist() == sampler.epoch_order(2).tolist()
    for start in range(9):
        fresh = build(name, labels(100), 12, seed=3)
        assert [batch.tolist() for batch in fresh.batches(2, start)] == whole[start:]
    with pytest.raises(ValueError, match="start is 9, expected at most the 8 batches"):
        sampler.batches(2, 9)


@pytest.mark.parametrize("name", NAMES)
def test_no_hidden_state(name):
    """Other epochs, half an epoch, or a change to a batch that was handed out: nothing of it matters."""
    sampler = build(name, labels(60), 12)
    expected = digest(sampler, 5)
    for batch in sampler.batches(5):
        batch[:] = 0
    sampler.epoch_order(5)[:] = 0
    next(sampler.batches(4))
    halfway = sampler.batches(5)
    first = next(halfway)
    next(sampler.batches(6))
    rest = [batch.tolist() for batch in halfway]
    assert [first.tolist(), *rest] == sampler.epoch_order(5).tolist()
    assert digest(sampler, 5) == expected
    assert digest(pickle.loads(pickle.dumps(sampler)), 5) == expected


@pytest.mark.parametrize("name", NAMES)
def test_seeds_and_epochs_differ(name):
    digests = {
        digest(build(name, labels(60), 12, seed=seed), epoch) for seed in range(3) for epoch in range(3)
    }
    assert len(digests) == 9


def test_another_process_draws_the_same():
    code = (
        "import numpy as np, hashlib; from labeltree.taxonomy import Taxonomy; "
        "from labeltree.sampling import HierarchicalBatchSampler; "
        "tree = Taxonomy.from_edges([(str(v), str(v // 3)) for v in range(1, 50)], root='0'); "
        "sampler = HierarchicalBatchSampler(tree, np.arange(-1, 499) % 50, 16, seed=7); "
        "order = sampler.epoch_order(11).astype('<i8'); "
        "found = hashlib.sha256(order.tobytes()).hexdigest()"
    )
    here: dict[str, str] = {}
    exec(code, here)
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", f"{code}; print(found)"]
    there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert there.stdout.split() == [here["found"]]


@settings(max_examples=80)
@given(
    name=st.sampled_from(["random", "hierarchical"]),
    n=st.integers(1, 200),
    batch_size=st.integers(1, 30),
    world_size=st.integers(1, 5),
    drop_last=st.booleans(),
    epoch=st.integers(0, 3),
)
def test_ranks_are_disjoint_and_equally_long(name, n, batch_size, world_size, drop_last, epoch):
    full, short = divmod(n // world_size, batch_size)
    short *= not drop_last
    if full + short == 0:
        with pytest.raises(ValueError, match="do not fill one batch"):
            build(name, labels(n), batch_size, world_size=world_size, drop_last=drop_last)
        return
    used = []
    for rank in range(world_size):
        sampler = build(name, labels(n), batch_size, rank=rank, world_size=world_size, drop_last=drop_last)
        batches = list(sampler.batches(epoch))
        assert [len(batch) for batch in batches] == [batch_size] * full + [short] * (short > 0)
        assert len(sampler) == len(batches)
        assert all(batch.dtype == np.int64 for batch in batches)
        rows = sampler.epoch_order(epoch)
        assert rows.shape == (len(batches), batch_size)
        assert [row[row >= 0].tolist() for row in rows] == [batch.tolist() for batch in batches]
        used += np.concatenate(batches).tolist()
    assert len(set(used)) == len(used) == world_size * (full * batch_size + short)
    assert set(used) <= set(range(n))


def test_ranks_share_one_epoch():
    """At each step, the ranks' batches are consecutive batches of one process."""
    one = HierarchicalBatchSampler(TREE, labels(96), 8)
    two = [HierarchicalBatchSampler(TREE, labels(96), 8, rank=rank, world_size=2) for rank in (0, 1)]
    both = np.stack([sampler.epoch_order(0) for sampler in two], axis=1).reshape(-1, 8)
    assert (both == one.epoch_order(0)).all()
    assert two[0].coverage(0) == two[1].coverage(0) == one.coverage(0)


def test_too_few_samples():
    with pytest.raises(
        ValueError, match=r"5 samples on 1 rank\(s\) do not fill one batch of batch_size=6: .*drop_last"
    ):
        RandomBatchSampler(labels(5), 6)
    (batch,) = RandomBatchSampler(labels(5), 6, drop_last=False).batches(0)
    assert sorted(batch) == list(range(5))
    with pytest.raises(ValueError, match="give fewer ranks"):
        RandomBatchSampler(labels(2), 1, world_size=3)
    with pytest.raises(ValueError, match="0 samples"):
        RandomBatchSampler([], 1, drop_last=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0, expected at least 1"),
        ({"batch_size": 2.5}, "batch_size is 2.5, expected an integer"),
        ({"seed": -1}, "seed is -1, expected at least 0"),
        ({"rank": 2, "world_size": 2}, "rank is 2, expected less than world_size, which is 2"),
        ({"nodes": [[1, 2]]}, r"nodes has shape \(1, 2\), expected \(n,\)"),
        ({"nodes": [0.5, 1.0]}, "nodes has dtype float64, expected integers"),
        ({"nodes": [1, -2]}, "nodes holds -2, expected node numbers, or -1"),
    ],
)
def test_arguments_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        RandomBatchSampler(**{"nodes": [1, 1, 2], "batch_size": 2, **options})


def test_negative_epochs_are_errors():
    sampler = RandomBatchSampler(labels(10), 2)
    for call in (sampler.batches, sampler.epoch_order):
        with pytest.raises(ValueError, match="epoch is -1, expected at least 0"):
            call(-1)
