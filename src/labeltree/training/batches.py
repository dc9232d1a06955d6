"""From a source to training batches that are a pure function of (seed, epoch, start)."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from labeltree.data import Source
from labeltree.errors import LabeltreeError
from labeltree.processes import end_with_parent
from labeltree.sampling import BatchSampler
from labeltree.training.inputs import InputStore
from labeltree.training.recipe import Recipe

if TYPE_CHECKING:
    from labeltree.training.objective import Objective

__all__ = ["Batch", "SourceDataModule"]

# Tensors by name, and the number of the epoch: from a GPU it could be had only once all work there is done.
Batch = dict[str, Any]
Array = np.ndarray[Any, Any]
_Key = tuple[int, Array, "Array | None"]
_FAILED = "failed"


class _Samples(Dataset[Batch]):
    """A source, read a whole batch at a time: the key of an item is ``(epoch, sample positions, turns)``.

    A turn is how often the sample has come before in the epoch; None where none comes twice.

    In a loader process, what the user has to know of (an image that has become unreadable, say) is the batch
    instead of an error: the loader would make it one of its own, with the traceback for a message.
    """

    def __init__(self, source: Source, inputs: InputStore) -> None:
        self._rows = source.rows
        self._inputs = inputs
        columns = {name: getattr(source, name) for name in ("nodes", "instances", "aspects", "ratings")}
        self._columns = {name: column for name, column in columns.items() if column is not None}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key: _Key) -> Batch:
        try:
            return self._read(*key)
        except (LabeltreeError, OSError) as error:
            if get_worker_info() is None:
                raise
            return {_FAILED: error}

    def _read(self, epoch: int, positions: Array, turns: Array | None) -> Batch:
        index = torch.from_numpy(np.ascontiguousarray(positions))
        batch: Batch = {name: column[index] for name, column in self._columns.items()}
        batch |= {"samples": self._inputs.load(self._rows[index]), "epoch": epoch}
        if turns is not None:
            batch["turns"] = torch.from_numpy(turns)
        return batch


class _Training(Sampler[_Key]):
    """The batches that are still to come, counted from the trainer's own number of completed steps.

    Nothing is remembered here. The epoch and the place in it follow from the steps that the optimizer has
    taken, which is in every checkpoint; so batches that loader processes had fetched ahead, but that were
    never trained on, are not lost, and resuming never falls back to epoch 0.
    """

    def __init__(self, sampler: BatchSampler, module: L.LightningDataModule) -> None:
        self.sampler = sampler
        self.module = module

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[_Key]:
        steps = 0 if self.module.trainer is None else self.module.trainer.global_step
        epoch, start = divmod(steps, len(self.sampler))
        if not self.sampler.repeats:
            return ((epoch, batch, None) for batch in self.sampler.batches(epoch, start))
        return islice(self._with_turns(epoch), start, None)

    def _with_turns(self, epoch: int) -> Iterator[_Key]:
        seen = np.zeros(len(self.sampler.nodes), dtype=np.int64)
        for batch in self.sampler.batches(epoch, 0):
            order = np.argsort(batch, kind="stable")
            first = np.r_[True, batch[order][1:] != batch[order][:-1]]
            within = np.empty_like(batch)
            within[order] = np.arange(len(batch)) - np.flatnonzero(first)[np.cumsum(first) - 1]
            yield epoch, batch, seen[batch] + within
            np.add.at(seen, batch, 1)


def _in_loader_process(_: int) -> None:
    """Leave signals that ask to stop to the trainer, which ends its loader processes; end with it if killed.

    Torch's own watch over the parent does not see a parent that died while this process was starting.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        end_with_parent(parent.pid)


class SourceDataModule(L.LightningDataModule):
    """Training and validation batches of a source with splits.

    Args:
        training: the training samples, with the labels that training sees.
        validation: the validation samples.
        inputs: what the encoder reads of them, by row.
        recipe: of the run.
        objective: decides the sampler.
    """

    def __init__(
        self,
        training: Source,
        validation: Source,
        inputs: InputStore,
        recipe: Recipe,
        objective: Objective,
    ) -> None:
        super().__init__()
        self.training = training
        self.validation = validation
        self.inputs = inputs
        self.recipe = recipe
        self._objective = objective
        self.sampler = self._sampler(0)

    def _sampler(self, rank: int) -> BatchSampler:
        """The batches of one of the devices, which share every step's samples between them."""
        world = self.recipe.devices
        size = self.recipe.batch_size // world
        return self._objective.sampler(
            self.training.nodes, size, seed=self.recipe.seed, rank=rank, world_size=world
        )

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps an epoch."""
        return len(self.sampler)

    def train_dataloader(self) -> DataLoader[Batch]:
        """Batches in the order of the sampler, from where training stands."""
        if self.trainer is not None and self.trainer.world_size > 1:
            self.sampler = self._sampler(self.trainer.global_rank)
        return self._loader(self.training, _Training(self.sampler, self))

    def val_dataloader(self) -> DataLoader[Batch]:
        """The validation samples in order."""
        size = 2 * self.recipe.batch_size
        chunks = np.split(np.arange(len(self.validation)), range(size, len(self.validation), size))
        return self._loader(self.validation, [(0, chunk, None) for chunk in chunks])

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Raise what a loader process could not."""
        if _FAILED in batch:
            raise batch[_FAILED]
        return batch

    def _loader(self, source: Source, sampler: Any) -> DataLoader[Batch]:
        return DataLoader(
            _Samples(source, self.inputs),
            batch_size=None,
            sampler=sampler,
            num_workers=self.recipe.workers,
            # A generator of its own: making an iterator must not advance the global random state.
            generator=torch.Generator().manual_seed(self.recipe.seed),
            pin_memory=torch.cuda.is_available() and self.recipe.accelerator != "cpu",
            multiprocessing_context="spawn" if self.recipe.workers else None,
            persistent_workers=self.recipe.workers > 0,
            worker_init_fn=_in_loader_process,
        )
