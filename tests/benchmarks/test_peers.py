"""What ours are compared with computes the same: values and gradients, in float64."""

import importlib

import pytest
import torch

pytestmark = pytest.mark.slow

SHAPES = ["balanced, 8/64/512", "skewed (Zipf), 8/64/512", "2 leaves"]


@pytest.mark.parametrize("name", ["supcon", "hwc", "himulcon", "hicone", "maskcon"])
@pytest.mark.parametrize("shape", SHAPES)
def test_dense_peers(name: str, shape: str) -> None:
    inputs, objectives = importlib.import_module("inputs"), importlib.import_module("objectives")
    peers = importlib.import_module("peers")
    assert set(peers.PEERS) == {"supcon", "hwc", "himulcon", "hicone", "maskcon"}
    batch = inputs.batch(128, 8, shape, noise=0.1, seed=3).to(dtype=torch.float64)
    ours, theirs = objectives.objective(name, batch), peers.PEERS[name](batch)
    torch.testing.assert_close(ours(batch.z), theirs(batch.z), rtol=1e-7, atol=0)
    of_ours, of_theirs = (objectives.both_ways(f, batch.z)() for f in (ours, theirs))
    assert of_ours.norm() > 0
    torch.testing.assert_close(of_ours, of_theirs, rtol=1e-6, atol=1e-9)


def test_package() -> None:
    inputs, peers = importlib.import_module("inputs"), importlib.import_module("peers")
    if not peers.has_package():
        pytest.skip("pytorch-metric-learning is not installed")
    batch = inputs.batch(96, 8).to(dtype=torch.float64)
    ours = importlib.import_module("objectives").objective("supcon", batch)
    torch.testing.assert_close(peers.package_supcon(batch)(batch.z), ours(batch.z))


def test_a_part_of_a_batch_keeps_the_queue() -> None:
    batch = importlib.import_module("inputs").batch(32, 8)
    part = batch.rows(slice(0, 5))
    assert len(part) == 5
    assert len(part.keys) == 5
    assert len(part.stored.vectors) == 32
    assert not set(batch.instances.tolist()) & set(batch.stored.instances.tolist())
    assert batch.instances[0] == batch.instances[16]


def test_what_is_no_number_is_the_greatest_error() -> None:
    error = importlib.import_module("objectives").relative_error
    assert error(torch.tensor([3.0, 0.0]), torch.tensor([2.0, 0.0])) == 0.5
    assert max(0.1, error(torch.tensor([torch.nan, 0.0]), torch.tensor([2.0, 0.0]))) == float("inf")
