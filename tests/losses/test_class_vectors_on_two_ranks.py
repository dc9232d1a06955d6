"""Losses towards vectors of classes: two ranks, one of them without a label at times, equal one process."""

from pathlib import Path

import pytest
import torch
from slow_losses import random_batch, random_tree
from torch import Tensor, distributed, nn

from forked import start_ranks
from labeltree.losses import CorrelationLoss, DeViSELoss
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

TREE = random_tree(2)
LOSSES = ("correlation", "devise")


def make(name: str, folder: Path) -> nn.Module:
    if name == "correlation":
        return CorrelationLoss(TREE)
    tree = Taxonomy([f"node{number}" for number in range(len(TREE))], TREE.parent.tolist())
    return DeViSELoss(tree, str(folder / "vectors.txt"))


def batch(name: str, number: int) -> tuple[Tensor, Tensor]:
    z, nodes, _ = random_batch(TREE, number, n=10, d=TREE.num_leaves)
    nodes[:3] = -1 if number else nodes[:3]
    return z, nodes


def _rank(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    results = {}
    for name in LOSSES:
        loss = make(name, folder)
        for number in range(2):
            z, nodes = batch(name, number)
            mine = slice(0, 3) if rank == 0 else slice(3, None)
            x = z[mine].clone().requires_grad_()
            value = loss(x, nodes[mine])
            value.backward()
            results[name, number] = (value.detach(), x.grad)
    torch.save(results, folder / f"{rank}.pt")
    distributed.destroy_process_group()


def test_two_ranks_equal_one_process_over_the_union(tmp_path: Path) -> None:
    rows = torch.randn(len(TREE), TREE.num_leaves).tolist()
    lines = [f"node{number} {' '.join(map(str, row))}" for number, row in enumerate(rows)]
    (tmp_path / "vectors.txt").write_text("\n".join(lines))
    start_ranks(_rank, (tmp_path,), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    for name in LOSSES:
        loss = make(name, tmp_path)
        for number in range(2):
            z, nodes = batch(name, number)
            value = loss(z.requires_grad_(), nodes)
            assert value > 0
            value.backward()
            one, two = first[name, number], second[name, number]
            for rank in (one, two):
                torch.testing.assert_close(rank[0], value.detach(), rtol=1e-12, atol=0)
            torch.testing.assert_close(torch.cat([one[1], two[1]]) / 2, z.grad, rtol=1e-11, atol=1e-14)
