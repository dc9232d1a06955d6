"""Samplers in a `DataLoader`, on two ranks that meet later, and in Lightning on two devices."""

import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from sampling_trees import even_tree
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from forked import run_two_ranks, start_ranks
from labeltree.sampling import (
    BalancedBatchSampler,
    BatchSampler,
    ClassBalancedBatchSampler,
    HierarchicalBatchSampler,
    RandomBatchSampler,
)
from sweeps import some_now

pytestmark = pytest.mark.slow

TREE = even_tree(2, 3)
NODES = np.resize(TREE.leaves.numpy(), 72)
MAKERS = {
    "random": lambda: RandomBatchSampler(NODES, 12),
    "hierarchical": lambda: HierarchicalBatchSampler(TREE, NODES, 12),
    "balanced": lambda: BalancedBatchSampler(TREE, NODES, 12),
    "class-balanced": lambda: ClassBalancedBatchSampler(TREE, NODES, 12),
}


@pytest.fixture(params=MAKERS)
def sampler(request: pytest.FixtureRequest) -> BatchSampler:
    return MAKERS[request.param]()


def drawn(sampler: BatchSampler, epoch: int, start: int = 0) -> list[list[int]]:
    return [batch.tolist() for batch in sampler.batches(epoch, start)]


def test_a_pass_is_an_epoch(sampler: BatchSampler) -> None:
    assert isinstance(sampler, torch.utils.data.Sampler)
    passes = [list(sampler) for _ in range(2)]
    assert passes == [drawn(sampler, 0), drawn(sampler, 1)]
    assert all(isinstance(i, int) for batch in passes[0] for i in batch)
    next(iter(sampler))  # left after one batch: the next pass is the next epoch all the same
    assert list(sampler) == drawn(sampler, 3)
    sampler.set_epoch(1)
    assert list(sampler) == passes[1]
    sampler.set_epoch(7, start=2)
    assert [list(sampler), list(sampler)] == [drawn(sampler, 7, 2), drawn(sampler, 8)]
    with pytest.raises(ValueError, match="epoch is -1, expected at least 0"):
        sampler.set_epoch(-1)


def test_a_state_goes_on_where_a_pass_was(sampler: BatchSampler) -> None:
    assert sampler.state_dict() == {"epoch": 0, "done": 0}
    list(sampler)
    assert sampler.state_dict() == {"epoch": 1, "done": 0}
    batches = iter(sampler)
    seen = [next(batches) for _ in range(2)]
    state = sampler.state_dict()
    assert state == {"epoch": 1, "done": 2}
    for sets_epoch in (False, True):
        again = MAKERS[next(name for name in MAKERS if type(MAKERS[name]()) is type(sampler))]()
        again.load_state_dict(state)
        assert again.state_dict() == state
        if sets_epoch:
            again.set_epoch(1)
        assert seen + list(again) == drawn(sampler, 1)
        assert list(again) == drawn(sampler, 2)
        again.set_epoch(1)
        assert list(again) == drawn(sampler, 1)
    again.load_state_dict(state)
    again.set_epoch(0)
    assert list(again) == drawn(sampler, 0)


@pytest.mark.parametrize("workers", [0, 1])
def test_in_a_data_loader(sampler: BatchSampler, workers: int) -> None:
    if workers and not isinstance(sampler, HierarchicalBatchSampler):
        pytest.skip("one sampler in another process is enough")
    loader = DataLoader(TensorDataset(torch.arange(72)), batch_sampler=sampler, num_workers=workers)
    assert len(loader) == len(sampler)
    for epoch in range(2):
        assert [rows.tolist() for (rows,) in loader] == drawn(sampler, epoch)


def two_ranks(rank: int, folder: str) -> None:
    made_before = [make() for make in MAKERS.values()]
    lengths = [len(sampler) for sampler in made_before]
    for sampler in made_before:
        sampler.epoch_order(0)  # drawn for one rank, which must not be taken for that of two
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    found = {name: list(make()) for name, make in MAKERS.items()}
    late = {name: list(sampler) for name, sampler in zip(MAKERS, made_before, strict=True)}
    torch.save((lengths, [len(s) for s in made_before], found, late), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_ranks_find_their_place_themselves(tmp_path: Path) -> None:
    start_ranks(two_ranks, (str(tmp_path),), nprocs=2)
    results = [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(2)]
    for lengths, now, found, late in results:
        assert lengths == [6] * 4
        assert now == [3] * 4
        assert late == found
    explicit = [HierarchicalBatchSampler(TREE, NODES, 12, rank=rank, world_size=2) for rank in range(2)]
    assert [found["hierarchical"] for _, _, found, _ in results] == [drawn(s, 0) for s in explicit]
    for name in ("random", "hierarchical", "balanced"):
        both = [[i for batch in found[name] for i in batch] for _, _, found, _ in results]
        assert len(both[0]) == len(both[1]) == 36
        assert not set(both[0]) & set(both[1])


def test_what_lightning_would_make_of_one_is_refused(sampler: BatchSampler) -> None:
    other = DistributedSampler(range(72), num_replicas=2, rank=0)
    with pytest.raises(TypeError, match=r"Trainer\(use_distributed_sampler=False\)"):
        type(sampler)(other, batch_size=sampler.batch_size, drop_last=sampler.drop_last)


LIGHTNING = textwrap.dedent(
    """
    import sys, warnings, logging, torch, lightning as L
    from torch.utils.data import DataLoader, TensorDataset
    import numpy as np
    from labeltree.sampling import HierarchicalBatchSampler
    from labeltree.taxonomy import Taxonomy
    warnings.simplefilter("ignore"); logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    folder = sys.argv[1]
    tree = Taxonomy.from_nested({"a": ["b", "c"], "d": ["e", "f"]})
    nodes = np.resize(tree.leaves.numpy(), 48)
    loader = DataLoader(
        TensorDataset(torch.arange(48)), batch_sampler=HierarchicalBatchSampler(tree, nodes, 8)
    )

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.seen = torch.nn.Linear(1, 1), []
        def training_step(self, batch, index):
            self.seen.append((self.current_epoch, batch[0].tolist()))
            return self.layer(batch[0][:, None].float()).square().mean()
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-9)
        def on_train_end(self):
            torch.save(self.seen, f"{folder}/seen{self.global_rank}.pt")

    L.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False,
              enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
              use_distributed_sampler=False, default_root_dir=folder).fit(Module(), loader)
    """
)


def test_lightning_on_two_devices(tmp_path: Path) -> None:
    run_two_ranks(LIGHTNING, [str(tmp_path)], tmp_path)
    seen = [torch.load(tmp_path / f"seen{rank}.pt") for rank in range(2)]
    tree_nodes = np.resize(TREE_OF_LIGHTNING.leaves.numpy(), 48)
    for rank in range(2):
        sampler = HierarchicalBatchSampler(TREE_OF_LIGHTNING, tree_nodes, 8, rank=rank, world_size=2)
        assert seen[rank] == [(epoch, batch) for epoch in range(2) for batch in drawn(sampler, epoch)]


@pytest.mark.parametrize("workers", some_now([0, 1]))
def test_lightning_goes_on_within_an_epoch(workers: int, tmp_path: Path) -> None:
    """With the loader of torchdata, which keeps its place in the checkpoint."""
    import lightning as L
    from lightning.pytorch.callbacks import ModelCheckpoint
    from torchdata.stateful_dataloader import StatefulDataLoader

    class Module(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.seen = torch.nn.Linear(1, 1), list[list[int]]()

        def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
            self.seen.append(batch[0].tolist())
            return self.layer(batch[0][:, None].float()).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 1e-9)

    def fitted(name: str, checkpoint: Path | None = None, **settings: int) -> list[list[int]]:
        sampler = HierarchicalBatchSampler(TREE, NODES, 12)  # six batches
        loader = StatefulDataLoader(
            TensorDataset(torch.arange(72)), batch_sampler=sampler, num_workers=workers,
            multiprocessing_context="fork" if workers else None,
        )  # fmt: skip
        saving = ModelCheckpoint(tmp_path / name, every_n_train_steps=1, save_top_k=-1)
        trainer = L.Trainer(
            accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
            use_distributed_sampler=False, callbacks=[saving], max_epochs=3, **settings,
        )  # fmt: skip
        module = Module()
        trainer.fit(module, loader, ckpt_path=checkpoint)
        return module.seen

    whole, start = fitted("whole"), fitted("cut", max_steps=9)
    (checkpoint,) = (tmp_path / "cut").glob("*step=9*")
    assert whole[:9] == start
    assert whole[9:] == fitted("on", checkpoint)
    sampler = HierarchicalBatchSampler(TREE, NODES, 12)
    assert whole == [batch for epoch in range(3) for batch in drawn(sampler, epoch)]


TREE_OF_LIGHTNING = type(TREE).from_nested({"a": ["b", "c"], "d": ["e", "f"]})
