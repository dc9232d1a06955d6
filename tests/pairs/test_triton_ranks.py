"""Kernels on the rows of a shard, the others' statistics coming from other ranks: real gloo processes."""

import pytest
import torch
from interpreted import inside, relation_of, vectors
from pair_batches import random_batch, random_tree
from torch import distributed, multiprocessing

from labeltree import losses
from labeltree.geometry import Sphere
from labeltree.pairs import implementation, pair_counts, pair_statistics

pytest.importorskip("triton")
SIZES = (13, 0, 8)
N = sum(SIZES)
WANT = ("count", "sum", "lse", "least", "least_index")


def evaluate(shard, by):
    """All statistics of a union batch, and the gradient."""
    relation = relation_of(N)
    relation.shard = shard
    z = vectors(N, 6).requires_grad_()
    generator = torch.Generator().manual_seed(1)
    with implementation(by, tile=16):
        found = pair_statistics(z, z, relation, Sphere(), 0.2, want=WANT)
        counts = pair_counts(relation)
        values = [found.sum, found.lse, found.least]
        total = sum(
            (torch.rand(x.shape, generator=generator) * torch.where(x.isfinite(), x, 0.0)).sum()
            for x in values
        )
        total.backward()
    return [*(x.detach() for x in values), found.count, found.least_index, counts], z.grad


def constrained(rows, by):
    """The loss of a union batch of which these rows are here, and their gradient."""
    tree = random_tree(2)
    nodes, instances = random_batch(tree, 2, N)
    z = vectors(N, 6)[rows].clone().requires_grad_()
    with implementation(by, tile=16):
        value = losses.HiConELoss(tree, variant="paper")(z, nodes[rows], instances[rows])
        value.backward()
    return value.detach(), z.grad


def _rank(rank, store, whole, whole_gradient, loss, loss_gradient):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=len(SIZES))
    start = sum(SIZES[:rank])
    shard = slice(start, start + SIZES[rank])
    found, gradient = evaluate(shard, "triton")
    close = {"rtol": 3e-6, "atol": 3e-6}
    for mine, expected in zip(found, whole, strict=True):
        torch.testing.assert_close(mine, expected, **close)
    torch.testing.assert_close(gradient[shard], whole_gradient[shard], rtol=3e-5, atol=3e-5)
    assert not torch.allclose(gradient, whole_gradient)  # the other rows are the other ranks' work
    value, gradient = constrained(shard, "triton")
    torch.testing.assert_close(value, loss, **close)
    torch.testing.assert_close(gradient / len(SIZES), loss_gradient[shard], rtol=3e-5, atol=3e-6)
    distributed.destroy_process_group()


@inside
@pytest.mark.long
def test_three_ranks_with_different_numbers_of_rows(tmp_path):
    given = (str(tmp_path / "store"), *evaluate(None, "dense"), *constrained(slice(None), "dense"))
    multiprocessing.start_processes(_rank, given, nprocs=len(SIZES), start_method="fork")
