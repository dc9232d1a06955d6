"""Gathering across ranks, with real processes."""

import torch
from torch import distributed, multiprocessing

from labeltree.pairs import gather_rows, num_ranks, sum_over_ranks


def _rank(rank: int, store: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    rows = torch.arange(6.0).reshape(3, 2) if rank == 0 else torch.empty(0, 2)
    everywhere = gather_rows(rows.requires_grad_())
    assert torch.equal(everywhere, torch.arange(6.0).reshape(3, 2))
    assert not everywhere.requires_grad
    assert gather_rows(torch.full((rank + 1,), rank)).tolist() == [0, 1, 1]
    assert sum_over_ranks(torch.tensor(rank + 1.0)) == 3
    assert num_ranks() == 2
    distributed.destroy_process_group()


def test_ranks_may_hold_different_numbers_of_rows(tmp_path):
    multiprocessing.spawn(_rank, (str(tmp_path / "store"),), nprocs=2)


def test_a_single_process_needs_no_group():
    rows = torch.randn(3, 2, requires_grad=True)
    assert torch.equal(gather_rows(rows), rows.detach())
    assert sum_over_ranks(rows).shape == rows.shape
    assert num_ranks() == 1
