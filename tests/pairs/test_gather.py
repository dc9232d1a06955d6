"""Gathering across ranks, with real processes."""

from math import inf

import pytest
import torch
from pair_batches import random_batch, random_tree
from torch import distributed

from forked import start_ranks
from labeltree.geometry import Sphere
from labeltree.pairs import (
    PairRelation,
    gather_embeddings,
    gather_rows,
    implementation,
    num_ranks,
    own_rows,
    pair_counts,
    pair_statistics,
    relation_codes,
    sum_over_ranks,
    union_batch,
)
from labeltree.pairs.gather_ranks import rows_of_all_ranks

pytestmark = pytest.mark.slow

SIZES = (3, 0, 8)
WANT = ("count", "sum", "lse", "least", "least_index", "weighted")


def _rank(rank: int, store: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=3)
    _rows(rank)
    _embeddings(rank)
    _union(rank)
    for tile in (2, 4):
        with implementation("streaming", tile=tile):
            _statistics(rank)
    distributed.destroy_process_group()


def _rows(rank: int) -> None:
    rows = torch.arange(6.0).reshape(3, 2) if rank == 0 else torch.empty(0, 2)
    everywhere = gather_rows(rows.requires_grad_())
    assert torch.equal(everywhere, torch.arange(6.0).reshape(3, 2))
    assert not everywhere.requires_grad
    assert gather_rows(torch.full((rank,), rank)).tolist() == [1, 2, 2]
    assert gather_rows(torch.full((rank,), rank), [0, 1, 2]).tolist() == [1, 2, 2]
    assert sum_over_ranks(torch.tensor(rank + 1.0)) == 6
    own = torch.tensor([[0.0, inf], [-inf, 5.0]])[rank : rank + 1]
    shard = slice(min(rank, 2), min(rank + 1, 2))
    assert torch.equal(rows_of_all_ranks(own, shard, 2), torch.tensor([[0.0, inf], [-inf, 5.0]]))
    assert num_ranks() == 3


def _embeddings(rank: int) -> None:
    """The gradient of a value that all ranks share, and of one that each makes of its own rows."""
    z = torch.arange(22.0).reshape(11, 2)
    start = sum(SIZES[:rank])
    own = z[start : start + SIZES[rank]].clone().requires_grad_()
    union, shard = gather_embeddings(own)
    assert torch.equal(union, z)
    assert shard == slice(start, start + SIZES[rank])
    union.square().sum().backward()
    assert torch.equal(own.grad, 3 * 2 * own.detach())  # DDP divides by 3

    own.grad = None
    union, shard = gather_embeddings(own)
    rows = (union @ union.T).sum(1)
    mine = own_rows(rows, shard)
    assert torch.equal(mine, rows[shard])
    (mine * (rank + 1)).sum().backward()
    weight = torch.repeat_interleave(torch.arange(1.0, 4.0), torch.tensor(SIZES))
    whole = z.clone().requires_grad_()
    ((whole @ whole.T).sum(1) * weight).sum().backward()
    torch.testing.assert_close(own.grad, whole.grad[shard])  # over 3 by DDP: the mean of three ranks' sums


def _union(rank: int) -> None:
    z, nodes = torch.randn(SIZES[rank], 2), torch.arange(SIZES[rank])
    batch = union_batch(z, {"nodes": nodes, "instances": None, "ratings": nodes[:, None].expand(-1, 2)})
    assert batch.columns["nodes"].tolist() == [0, 1, 2, *range(8)]
    assert batch.columns["instances"] is None
    assert batch.columns["ratings"].shape == (11, 2)
    assert union_batch(z, {"nodes": nodes}, over_ranks=False).embeddings is z


def _statistics(rank: int) -> None:
    """Those of a shard's rows, completed by the other ranks', against those of all rows."""
    tree = random_tree(2)
    nodes, instances = random_batch(tree, 2, 11)
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(11, 4, generator=generator, dtype=torch.float64)
    weights = torch.rand(11, 11, generator=generator, dtype=torch.float64)
    size = relation_codes(tree.max_depth).size
    slopes = torch.randn(4, 11, size, generator=generator, dtype=torch.float64)

    def evaluate(shard: slice | None) -> list[torch.Tensor]:
        relation = PairRelation.of_batch(tree.paths, nodes, instances)
        relation.shard = shard
        x, tau = z.clone().requires_grad_(), torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
        scale = torch.linspace(0.5, 2, size, dtype=torch.float64).requires_grad_()
        found = pair_statistics(
            x, x, relation, Sphere(), tau, scale=scale, want=WANT,
            pair_weight=lambda rows, cols: weights[rows][:, cols],
        )  # fmt: skip
        values = [found.sum, found.lse, found.least, found.weighted_sum[:, None]]
        for value, slope in zip(values, slopes, strict=True):
            torch.where(value.isfinite(), value * slope, 0.0).sum().backward(retain_graph=True)
        discrete = [found.count, found.least_index, found.weight, pair_counts(relation)]
        return [*values, *discrete, x.grad, tau.grad, scale.grad]

    *whole, of_x, of_tau, of_scale = evaluate(None)
    start = sum(SIZES[:rank])
    shard = slice(start, start + SIZES[rank])
    *ours, own_x, own_tau, own_scale = evaluate(shard)
    close = {"rtol": 1e-12, "atol": 1e-13}
    torch.testing.assert_close(ours, whole, **close)
    torch.testing.assert_close(own_x[shard], of_x[shard], **close)
    torch.testing.assert_close(sum_over_ranks(own_tau) / 3, of_tau, **close)
    torch.testing.assert_close(sum_over_ranks(own_scale) / 3, of_scale, **close)
    assert not torch.allclose(own_x, of_x)  # the other rows are the other ranks' work


def test_three_ranks_with_different_numbers_of_rows(tmp_path):
    start_ranks(_rank, (str(tmp_path / "store"),), nprocs=3)


def test_a_single_process_needs_no_group():
    rows = torch.randn(3, 2, requires_grad=True)
    assert torch.equal(gather_rows(rows), rows.detach())
    assert sum_over_ranks(rows).shape == rows.shape
    assert num_ranks() == 1
    assert gather_embeddings(rows) == (rows, None)
    assert own_rows(rows, None) is rows
    assert union_batch(rows, {"nodes": None}).embeddings is rows
