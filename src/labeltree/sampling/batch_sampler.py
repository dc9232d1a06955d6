"""The base class of batch samplers: exact sizes, disjoint ranks, resumable; and random batches."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from operator import index
from types import FrameType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import distributed
from torch.utils.data import Sampler

from labeltree.checks import show_signature

__all__ = ["BatchSampler", "IntArray", "RandomBatchSampler"]

IntArray = NDArray[np.int64]


class BatchSampler(Sampler[list[int]], ABC):
    """Reproducible batches of sample positions.

    Give it to a loader as `DataLoader(data, batch_sampler=sampler)`. Each pass over the sampler is an epoch,
    one after the other; `set_epoch` sets the next one. A pass yields `batches(epoch, start)`, a pure function
    of the constructor's arguments, the epoch and the number of batches already consumed, which is all that is
    needed to resume. The epoch is drawn once for all ranks, and rank r takes every `world_size`-th batch of
    it, so the ranks are disjoint and equally long without communication. The last epoch drawn is cached.

    The sampler itself divides the samples among the processes of `torch.distributed`. Lightning must not
    divide them again: `Trainer(use_distributed_sampler=False)`; it then calls `set_epoch` at every epoch.
    Accelerate, and the Trainer of transformers, divide batches themselves: make the sampler with `rank=0,
    world_size=1`.

    Args:
        nodes: (n,) the label of every sample, -1 where it is missing.
        batch_size: B, samples per rank and batch.
        seed: The same seed gives the same batches, in any process.
        rank: Rank of this process; None: the rank in `torch.distributed`, looked up whenever batches are
            drawn, and 0 without it.
        world_size: Number of processes; None: likewise, and 1 without it.
        drop_last: Every batch has exactly B samples, and the samples that do not fill one batch on every rank
            are left out of the epoch. Otherwise each rank gets one more, shorter batch, of the same size on
            all ranks and without padding: at most `world_size - 1` samples are left out.

    Raises:
        ValueError: For an invalid argument, or if there are too few samples for one batch.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        show_signature(cls)

    def __new__(cls, *args: Any, **_: Any) -> Self:
        """Raise an error if Lightning tries to rebuild the sampler to divide the samples itself."""
        if args and isinstance(args[0], Sampler):
            raise TypeError(
                f"{cls.__name__} was given a {type(args[0]).__name__} in place of its first argument, as "
                "Lightning does to divide samples over devices; this sampler does that itself: set "
                "Trainer(use_distributed_sampler=False)"
            )
        return super().__new__(cls)

    def __init__(
        self,
        nodes: ArrayLike,
        batch_size: int,
        *,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = True,
    ) -> None:
        self.nodes = _check_labels(nodes)
        self.batch_size = _check_least("batch_size", batch_size, 1)
        self.seed = _check_least("seed", seed, 0)
        self.drop_last = bool(drop_last)
        self._asks = rank is None and world_size is None
        self._next = self._place = (0, 0)
        self._loaded = False
        self._drawn: tuple[int, Any] | None = None
        self.rank, self.world_size = _place()
        if not self._asks:
            self.world_size = _check_least("world_size", 1 if world_size is None else world_size, 1)
            self.rank = _check_least("rank", 0 if rank is None else rank, 0)
        if self.rank >= self.world_size:
            raise ValueError(f"rank is {rank}, expected less than world_size, which is {self.world_size}")
        self._full, self._short = self._count_batches()

    @property
    def sampler(self) -> Self:
        """The sampler itself: where Lightning looks for `set_epoch`."""
        return self

    def set_epoch(self, epoch: int, start: int | None = None) -> None:
        """Make the next pass yield `batches(epoch, start)`.

        Args:
            epoch: Counted from 0.
            start: The number of batches of this epoch that are already consumed. None: those of a state that
                was loaded, if it is of this epoch, as Lightning sets the epoch once more; else 0.
        """
        if start is None:
            start = self._next[1] if self._loaded and epoch == self._next[0] else 0
        self._next = self._place = (_check_least("epoch", epoch, 0), _check_least("start", start, 0))

    def state_dict(self) -> dict[str, int]:
        """Where the current pass is: the `epoch` and the number of its batches that were yielded, `done`."""
        epoch, done = self._place
        return {"epoch": epoch + 1, "done": 0} if done >= len(self) else {"epoch": epoch, "done": done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Let the next pass go on there."""
        self.set_epoch(state["epoch"], state["done"])
        self._loaded = True

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of the next epoch, lists of B positions in `nodes`; see `set_epoch`."""
        # A pass begins with its first batch, as a loader makes iterators that it never uses.
        self._refuse_to_be_divided(sys._getframe(1))
        epoch, start = self._next
        batches = self.batches(epoch, start)
        self._next, self._loaded = (epoch + 1, 0), False
        for done, batch in enumerate(batches, start + 1):
            self._place = (epoch, done)
            yield batch.tolist()

    def _refuse_to_be_divided(self, caller: FrameType) -> None:
        """Raise an error if Accelerate divides this process's batches among the processes once more."""
        self._find_place()
        if self.world_size > 1 and type(caller.f_locals.get("self")).__name__ == "BatchSamplerShard":
            raise RuntimeError(
                f"Accelerate divides the batches of this {type(self).__name__} among {self.world_size} "
                "processes, which it has done itself: half of every epoch or more would be left out. "
                "Make the sampler with rank=0, world_size=1, or leave its loader out of prepare()"
            )

    @property
    def repeats(self) -> bool:
        """Whether a sample may occur more than once in an epoch."""
        return False

    def describe_unused(self) -> str:
        """A sentence on samples that no epoch uses; empty if each is used in some epoch."""
        return ""

    @property
    def num_samples(self) -> int:
        """Number of samples in the data, used or not."""
        return len(self.nodes)

    def __len__(self) -> int:
        """Number of batches per epoch on this rank; the same on every rank."""
        self._find_place()
        return self._full + (self._short > 0)

    def batches(self, epoch: int, start: int = 0) -> Iterator[IntArray]:
        """The batches of an epoch from the one numbered `start` on: (B,) positions in `nodes`, all different.

        Args:
            epoch: Counted from 0.
            start: The number of batches of this epoch that are already consumed; with `len(self)` there are
                none left.
        """
        epoch, start = _check_least("epoch", epoch, 0), _check_least("start", start, 0)
        self._find_place()
        if start > len(self):
            raise ValueError(f"start is {start}, expected at most the {len(self)} batches of an epoch")
        return self._iterate(epoch, start)

    def epoch_order(self, epoch: int) -> IntArray:
        """(len(self), B) the batches of an epoch, one per row; a short last batch is padded with -1."""
        self._find_place()
        order = self._flat_order(_check_least("epoch", epoch, 0))
        size, world, rank = self.batch_size, self.world_size, self.rank
        rows = order[: self._full * world * size].reshape(self._full, world, size)[:, rank].copy()
        if self._short:
            last = np.full((1, size), -1, dtype=np.int64)
            last[0, : self._short] = order[self._slot_of(self._full) :][: self._short]
            rows = np.concatenate([rows, last])
        return rows

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_drawn": None}  # each process draws its own epochs

    def _find_place(self) -> None:
        """Update rank and sizes if `torch.distributed` was initialised after the sampler was made."""
        if self._asks and (self.rank, self.world_size) != _place():
            self.rank, self.world_size = _place()
            self._drawn = None
            self._full, self._short = self._count_batches()

    def _iterate(self, epoch: int, start: int) -> Iterator[IntArray]:
        order = self._flat_order(epoch)
        for number in range(start, len(self)):
            first = self._slot_of(number)
            yield order[first : first + (self.batch_size if number < self._full else self._short)].copy()

    def _slot_of(self, number: int) -> int:
        """The start of this rank's batch in the flat order of all ranks' batches."""
        size = self.batch_size if number < self._full else self._short
        return number * self.world_size * self.batch_size + self.rank * size

    def _global_sizes(self) -> IntArray:
        """Sizes of the batches of all ranks in the flat order: step by step, within a step rank by rank."""
        full = np.full(self._full * self.world_size, self.batch_size, dtype=np.int64)
        return np.concatenate(
            [full, np.full(self.world_size if self._short else 0, self._short, dtype=np.int64)]
        )

    def _count_batches(self) -> tuple[int, int]:
        """Number of full batches per rank, and the size of the short last batch (0 if there is none)."""
        share = self.num_samples // self.world_size
        full, rest = divmod(share, self.batch_size)
        short = 0 if self.drop_last else rest
        if full + short == 0:
            hint = "give fewer ranks" if share == 0 else "give a smaller batch_size, or drop_last=False"
            raise ValueError(
                f"{self.num_samples} samples on {self.world_size} rank(s) do not fill one batch of "
                f"batch_size={self.batch_size}: {hint}"
            )
        return full, short

    def _epoch(self, epoch: int) -> Any:
        """The result of `_draw` for this epoch, cached for the last epoch drawn."""
        self._find_place()
        if self._drawn is None or self._drawn[0] != epoch:
            self._drawn = None  # avoids holding two epochs of a large data set
            self._drawn = (epoch, self._draw(np.random.default_rng([self.seed, epoch])))
        return self._drawn[1]

    def _flat_order(self, epoch: int) -> IntArray:
        """(T,) the samples of all ranks' batches, one batch after the other as in `_global_sizes`."""
        order: IntArray = self._epoch(epoch)
        return order

    @abstractmethod
    def _draw(self, rng: np.random.Generator) -> Any:
        """Draw an epoch for all ranks, with `rng` as the only source of randomness."""


class RandomBatchSampler(BatchSampler):
    """Uniformly random batches; every sample at most once an epoch.

    The arguments are those of `BatchSampler`; the labels are not used.

    Example:
        >>> sampler = RandomBatchSampler(nodes=[1, 1, 2, 2, -1, 2], batch_size=2)
        >>> len(sampler), sorted(int(i) for batch in sampler.batches(epoch=0) for i in batch)
        (3, [0, 1, 2, 3, 4, 5])
    """

    def _draw(self, rng: np.random.Generator) -> IntArray:
        return rng.permutation(self.num_samples)[: int(self._global_sizes().sum())]


def _check_labels(nodes: ArrayLike) -> IntArray:
    labels = np.asarray(nodes)
    if labels.ndim != 1:
        raise ValueError(f"nodes has shape {labels.shape}, expected (n,)")
    if labels.dtype.kind not in "iu" and len(labels):
        raise ValueError(
            f"nodes has dtype {labels.dtype}, expected integers: node numbers, -1 where a label is missing"
        )
    labels = labels.astype(np.int64)  # a copy, so that later changes by the caller have no effect
    if len(labels) and labels.min() < -1:
        raise ValueError(f"nodes holds {labels.min()}, expected node numbers, or -1 where a label is missing")
    return labels


def _place() -> tuple[int, int]:
    """The rank of this process and the number of processes."""
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return 0, 1


def _check_least(name: str, value: int, least: int) -> int:
    try:
        number = index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}, expected an integer") from None
    if number < least:
        raise ValueError(f"{name} is {number}, expected at least {least}")
    return number
