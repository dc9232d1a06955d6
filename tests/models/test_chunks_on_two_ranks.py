"""Chunks under DistributedDataParallel: two ranks, each with its chunks, learn what one process does."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from forked import start_ranks
from labeltree.models import encode_in_chunks
from labeltree.pairs import gather_rows

pytestmark = pytest.mark.slow

SIZES = (5, 7)


class Model(nn.Module):
    """An encoder under a loss over the pairs of a rank."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 4)).double()

    def forward(self, samples: Tensor, chunk: int | None) -> Tensor:
        features = encode_in_chunks(self.encoder, samples, chunk)
        return (features @ features.detach().T).logsumexp(1).sum()


def batch(rank: int) -> Tensor:
    return torch.randn(SIZES[rank], 6, generator=torch.Generator().manual_seed(rank), dtype=torch.float64)


def _rank(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    model = DistributedDataParallel(Model())
    for _ in range(2):  # a second step, after the gradients of the first
        model.zero_grad()
        model(batch(rank), 2).backward()
    assert len(gather_rows(batch(rank))) == sum(SIZES)  # nobody is left waiting for the other
    torch.save([p.grad for p in model.parameters()], folder / f"{rank}.pt")
    distributed.destroy_process_group()


def test_two_ranks_in_chunks_learn_what_one_process_does(tmp_path: Path) -> None:
    start_ranks(_rank, (tmp_path,), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    alone = Model()
    (sum(alone(batch(rank), None) for rank in (0, 1)) / 2).backward()
    for one, two, parameter in zip(first, second, alone.parameters(), strict=True):
        assert torch.equal(one, two)
        torch.testing.assert_close(one, parameter.grad, rtol=1e-12, atol=1e-12)
