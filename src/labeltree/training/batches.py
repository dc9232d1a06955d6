"""From samples to batches: the order of training samples, loader processes, validation samples.

Training batches are a pure function of (seed, epoch, start).
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import lightning as L
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from labeltree.data import Source
from labeltree.data.counter_rng import sample_keys
from labeltree.errors import DataError, LabeltreeError
from labeltree.metrics.search.results_left_out import LeaveGroupOut, have_partner, leaves_group_out
from labeltree.processes import end_with_parent
from labeltree.sampling import BatchSampler
from labeltree.taxonomy.label_sets import finest_labels
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe
from labeltree.training.tokens_and_views import InputStore
from labeltree.training.training_length import epochs_and_batch_size

__all__ = [
    "Batch",
    "SourceDataModule",
    "ValidationSamples",
    "validation_samples",
]

# Tensors by name, and the epoch as an int: reading it from a GPU tensor would wait for all work there.
Batch = dict[str, Any]
Array = np.ndarray[Any, Any]
_Key = tuple[int, Array, "Array | None"]
_FAILED = "failed"
_AGAIN = 16  # bits of a turn that count how often a sampler repeats a sample


class _Samples(Dataset[Batch]):
    """A source, read a whole batch at a time: the key of an item is `(epoch, sample positions, turns)`.

    A turn says how often the sample has come before in the epoch; None if no sample comes twice.

    The place of an image that turns out to be unreadable, where that was not checked before, is taken by the
    next readable sample of the batch: in training with its label, and with views of its own; in validation
    without a label. That depends on the batch and the images alone, so a resumed run does the same.

    In a loader process, an error that concerns the user (an image has become unreadable, say) is returned in
    place of the batch, and raised by the trainer's process: the loader would wrap it in an error of its own,
    with the traceback as its message.
    """

    def __init__(self, source: Source, inputs: InputStore, *, training: bool = True) -> None:
        self._training = training
        self._rows = source.rows
        self._inputs = inputs
        names = ("nodes", "instances", "aspects", "ratings", *(("label_sets",) if training else ()))
        columns = {name: getattr(source, name) for name in names}
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
        rows = self._rows[index]
        samples = self._inputs.load(rows)
        unreadable = getattr(self._inputs, "unreadable", None)
        lost = [place for place, row in enumerate(rows.tolist()) if row in unreadable] if unreadable else []
        batch: Batch = {"epoch": epoch}
        if lost:
            taken, again = _replacements(len(rows), lost)
            index, samples = index[taken], samples[taken]
            turns = (np.zeros(len(rows), np.int64) if turns is None else turns[taken]) + (again << _AGAIN)
        batch |= {name: column[index] for name, column in self._columns.items()}
        if lost and not self._training:
            batch["nodes"][lost] = -1
        batch["samples"] = samples
        if turns is not None:
            batch["turns"] = torch.from_numpy(turns)
        return batch


def _replacements(size: int, lost: Sequence[int]) -> tuple[Array, Array]:
    """The place in a batch that each sample is taken from, and how often that place was taken before.

    Args:
        size: Number of samples.
        lost: Places of those that are replaced by the next one that is not.

    Raises:
        DataError: If there is none.

    Example:
        >>> [column.tolist() for column in _replacements(5, [1, 2, 4])]
        [[0, 3, 3, 3, 0], [0, 1, 2, 0, 1]]
    """
    missing = set(lost)
    if len(missing) == size:
        raise DataError(
            f"none of the {size} images of a batch can be read; look for the cause, and start again"
        )
    taken, again, times = np.arange(size), np.zeros(size, np.int64), Counter[int]()
    for place in sorted(missing):
        other = next(at % size for at in range(place + 1, place + size) if at % size not in missing)
        times[other] += 1
        taken[place], again[place] = other, times[other]
    return taken, again


class _Training(Sampler[_Key]):
    """The batches that are still to come, counted from the trainer's own number of completed steps.

    It keeps no state. The epoch and the place in it follow from the number of optimizer steps, which is in
    every checkpoint. So a resumed run repeats no batch, and loses none that loader processes had fetched
    ahead but that were not trained on.
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
        return islice(self._keys_with_turns(epoch), start, None)

    def _keys_with_turns(self, epoch: int) -> Iterator[_Key]:
        seen = np.zeros(len(self.sampler.nodes), dtype=np.int64)
        for batch in self.sampler.batches(epoch, 0):
            order = np.argsort(batch, kind="stable")
            first = np.r_[True, batch[order][1:] != batch[order][:-1]]
            within = np.empty_like(batch)
            within[order] = np.arange(len(batch)) - np.flatnonzero(first)[np.cumsum(first) - 1]
            yield epoch, batch, seen[batch] + within
            np.add.at(seen, batch, 1)


def _start_loader_process(_: int) -> None:
    """Leave signals to the trainer, which ends its loader processes; end if the trainer is killed.

    Torch also watches the parent, but misses a parent that dies while this process starts.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        end_with_parent(parent.pid)


class SourceDataModule(L.LightningDataModule):
    """Training and validation batches of a source with splits.

    Args:
        training: The training samples, with the labels that training sees.
        validation: The validation samples.
        inputs: The encoder's input for each row of the source.
        recipe: The recipe.
        objective: The objective, which chooses the sampler.
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
        """The batches of one device; the devices share the samples of every step."""
        world = self.recipe.world_size
        size = epochs_and_batch_size(self.recipe)[1] // world
        return self._objective.sampler(
            self.training.nodes, size, seed=self.recipe.seed, rank=rank, world_size=world
        )

    @property
    def steps_per_epoch(self) -> int:
        """Number of optimizer steps per epoch."""
        return len(self.sampler)

    def train_dataloader(self) -> DataLoader[Batch]:
        """Batches in the order of the sampler, from where training stands."""
        if self.trainer is not None and self.trainer.world_size > 1:
            self.sampler = self._sampler(self.trainer.global_rank)
        return self._loader(self.training, _Training(self.sampler, self))

    def val_dataloader(self) -> DataLoader[Batch]:
        """The validation samples in order."""
        size = 2 * epochs_and_batch_size(self.recipe)[1]
        chunks = np.split(np.arange(len(self.validation)), range(size, len(self.validation), size))
        return self._loader(self.validation, [(0, chunk, None) for chunk in chunks], training=False)

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Raise an error that a loader process has returned in place of a batch."""
        if _FAILED in batch:
            raise batch[_FAILED]
        return batch

    def _loader(self, source: Source, sampler: Any, *, training: bool = True) -> DataLoader[Batch]:
        return DataLoader(
            _Samples(source, self.inputs, training=training),
            batch_size=None,
            sampler=sampler,
            num_workers=self.recipe.workers,
            # A separate generator: making an iterator must not advance the global random state.
            generator=torch.Generator().manual_seed(self.recipe.seed),
            pin_memory=torch.cuda.is_available() and self.recipe.accelerator != "cpu",
            multiprocessing_context=_START if self.recipe.workers else None,
            persistent_workers=self.recipe.workers > 0,
            worker_init_fn=_start_loader_process,
        )


_START = "spawn"  # a fork of this process would have locks that threads of it hold
_DRAW = 0x6A11


@dataclass(frozen=True)
class ValidationSamples:
    """The samples that validation embeds.

    Attributes:
        source: The queries, then a gallery of training samples, if there is one.
        num_queries: Number of queries. Without a gallery, each query is searched for among the other samples.
        groups: Group of each sample `(n,)`, if results from the query's own group are left out; None if
            they count.
    """

    source: Source
    num_queries: int
    groups: Tensor | None = None


def validation_samples(
    source: Source, seed: int, leave_group_out: LeaveGroupOut = "auto"
) -> ValidationSamples:
    """The validation samples of a source with splits.

    If the source has groups, samples of a query's own group do not count as its results, unless every group
    is a label of its own; see `labeltree.metrics.search.results_left_out.leaves_group_out`.

    A sample with several labels counts with their common ancestor, if they have one below the root.

    If fewer than half of the labelled validation samples share their label with another one (as when a whole
    drawing style is held out), there is little to find among them. In that case the gallery is one training
    sample of each of their labels, drawn by the seed.
    """
    if source.label_sets is not None:  # several labels with nothing in common are no class to search for
        source = dataclasses.replace(source, nodes=torch.where(source.nodes > 0, source.nodes, -1))
    queries = source.of_split("val")
    finest = finest_labels(source.nodes, source.taxonomy)[source.nodes.clamp(min=0)]
    classes = torch.where((source.nodes >= 0) & finest, source.nodes, -1)
    leave_out = leaves_group_out(leave_group_out, classes, source.groups)

    def groups(part: Source) -> Tensor | None:
        return part.groups if leave_out else None

    labelled = queries.nodes >= 0
    if 2 * int(have_partner(queries.nodes, groups(queries)).sum()) >= int(labelled.sum()):
        return ValidationSamples(queries, len(queries), groups(queries))
    split = np.asarray(source.split)
    training = source.of_split("train")
    order = sample_keys(seed, 0, _DRAW, training.instances).argsort(stable=True)
    order = order[training.nodes[order].argsort(stable=True)]
    nodes = training.nodes[order]
    first = torch.ones(len(nodes), dtype=torch.bool)
    first[1:] = nodes[1:] != nodes[:-1]
    chosen = order[first & torch.isin(nodes, queries.nodes[labelled])]
    gallery = np.flatnonzero(split == "train")[chosen.numpy()]
    both = np.concatenate([np.flatnonzero(split == "val"), gallery])
    searched = source.subset(torch.from_numpy(both))
    return ValidationSamples(searched, len(queries), groups(searched))
