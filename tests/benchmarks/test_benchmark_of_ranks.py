"""The benchmark of ranks: parts that make up the batch, real processes, collectives counted."""

import importlib

import pytest
import torch
from torch import distributed

from forked import start_ranks

pytestmark = pytest.mark.slow


def test_parts_make_up_the_batch() -> None:
    parts = importlib.import_module("ranks").parts
    for n, ranks in ((256, 1), (256, 2), (255, 4)):
        rows = [row for part in parts(n, ranks) for row in range(n)[part]]
        assert rows == list(range(n))
    sizes = [part.stop - part.start for part in parts(255, 4)]
    assert sizes == sorted(set(sizes))  # no two alike


def test_collectives_are_counted(tmp_path) -> None:
    counted = importlib.import_module("ranks").counted
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        x = torch.ones(2)
        _, collectives = counted(lambda: [distributed.all_reduce(x) for _ in range(3)])
    finally:
        distributed.destroy_process_group()
    assert collectives == 3
    assert counted(lambda: x + 1)[1] == 0


def test_two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ranks.spawn", start_ranks)
    found = importlib.import_module("ranks").on_ranks(2, 24, ["hwc"])
    assert [len(rank["hwc"][1]) for rank in found] == [8, 16]
    assert all(rank["hwc"][0].dtype == torch.float64 for rank in found)
