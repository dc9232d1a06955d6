"""Batches of m classes with k samples each."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike

from labeltree.sampling.batch_sampler import BatchSampler, IntArray
from labeltree.sampling.grouping import SampleClasses, classes_at_depth, describe_unused, shuffle_within
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.check_nodes import warn_of_class_numbers
from labeltree.taxonomy.dag import check_tree

__all__ = ["BalancedBatchSampler"]


class BalancedBatchSampler(BatchSampler):
    """Batches of m different classes with k samples of each, where the classes are the nodes of one depth.

    A leaf above this depth is a class too. Samples whose label is missing or coarser than the depth have no
    class, and classes with fewer than k samples are not used: `num_left_out` counts the samples of both
    kinds.

    The samples of each class are shuffled and divided into chunks of k. Every sample occurs at most once an
    epoch, and an epoch has as many batches of m different classes as possible; classes occur as equally often
    as possible. With `repeat=True`, for long tails, all classes occur equally often, an epoch is as long as
    if each sample with a class occurred once, and the samples of small classes come several times, though
    never twice in a batch.

    Args:
        taxonomy: The tree.
        nodes: (n,) the label of every sample, -1 where it is missing.
        batch_size: B = m·k, samples per rank and batch.
        depth: Depth of the classes; the finest by default.
        samples_per_class: k; by default the smallest divisor of B from 2 on for which there are enough
            classes.
        repeat: Whether all classes occur equally often, see above.
        seed: The same seed gives the same batches, in any process.
        rank: Rank of this process; None: the rank in `torch.distributed`, see `BatchSampler`.
        world_size: Number of processes; None: likewise.
        drop_last: Must be True, since every batch is full.

    Raises:
        ValueError: For an invalid argument, or if there are too few samples for one batch.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> tree = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> nodes = tree.encode(["dog"] * 4 + ["cat"] * 4 + ["oak"] * 4)
        >>> sampler = BalancedBatchSampler(tree, nodes, batch_size=4, depth=2, samples_per_class=2)
        >>> [len(set(nodes[batch].tolist())) for batch in sampler.batches(epoch=0)]
        [2, 2, 2]
    """

    samples_per_class: int
    num_classes: int
    num_left_out: int
    _members: IntArray  # the samples with a class, class by class
    _firsts: IntArray  # where each class that takes part begins there
    _sizes: IntArray
    _chunks: IntArray  # number of chunks of k samples of each class

    def __init__(
        self,
        taxonomy: Taxonomy,
        nodes: ArrayLike,
        batch_size: int,
        *,
        depth: int | None = None,
        samples_per_class: int | None = None,
        repeat: bool = False,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = True,
    ) -> None:
        check_tree("samplers of classes", taxonomy)
        self._tree = taxonomy
        self.depth = taxonomy.max_depth if depth is None else int(depth)
        self.repeat = bool(repeat)
        self._wanted = samples_per_class
        super().__init__(nodes, batch_size, seed=seed, rank=rank, world_size=world_size, drop_last=drop_last)
        warn_of_class_numbers(taxonomy, "nodes", torch.from_numpy(self.nodes))
        if not self.drop_last:
            raise ValueError("drop_last is False, expected True: every batch has m classes × k samples")

    @property
    def repeats(self) -> bool:
        """Whether a sample may occur more than once in an epoch."""
        return self.repeat

    def _count_batches(self) -> tuple[int, int]:
        classes = classes_at_depth(self._tree, self.nodes, self.depth)
        self._members, self._firsts, self._sizes = classes.members, classes.firsts, classes.sizes
        self.samples_per_class = self._choose_samples_per_class()
        self.num_classes = self.batch_size // self.samples_per_class
        kept = self._sizes >= self.samples_per_class
        self._without_class = self.num_samples - len(classes.members)
        self._small = SampleClasses(
            classes.nodes[~kept], classes.members, classes.firsts[~kept], classes.sizes[~kept]
        )
        self._firsts, self._sizes = self._firsts[kept], self._sizes[kept]
        self._chunks = self._sizes // self.samples_per_class
        self.num_left_out = self.num_samples - int(self._sizes.sum())
        full = self._most_batches() // self.world_size
        if full == 0:
            raise ValueError(
                f"there are {len(self._sizes)} classes with at least {self.samples_per_class} samples at "
                f"depth {self.depth}, too few for one batch of {self.num_classes} classes × "
                f"{self.samples_per_class} samples on {self.world_size} rank(s): give a smaller batch_size, "
                f"another depth or another samples_per_class"
            )
        return full, 0

    def describe_unused(self) -> str:
        """A sentence on small classes, and samples without a class; empty if there are none."""
        fewest = self.samples_per_class
        said = describe_unused(self._tree, self.depth, self._without_class, self._small, fewest)
        return f"{said}; a smaller batch_size, or --sampler class-balanced, uses more of them" if said else ""

    def _choose_samples_per_class(self) -> int:
        size = self.batch_size
        if self._wanted is None:
            fitting = (k for k in range(min(2, size), size + 1) if size % k == 0)
            return next((k for k in fitting if (self._sizes >= k).sum() >= size // k), min(2, size))
        if not 1 <= self._wanted <= size or size % self._wanted:
            raise ValueError(
                f"samples_per_class is {self._wanted}, expected a divisor of batch_size, which is {size}"
            )
        return int(self._wanted)

    def _most_batches(self) -> int:
        """The number of possible batches: the largest b with Σ_c min(chunks of c, b) ≥ m·b."""
        if len(self._sizes) < self.num_classes:
            return 0
        if self.repeat:
            return max(int(self._sizes.sum()) // self.batch_size, 1)
        low, high = 0, int(self._chunks.sum()) // self.num_classes
        while low < high:
            middle = (low + high + 1) // 2
            if int(np.minimum(self._chunks, middle).sum()) >= self.num_classes * middle:
                low = middle
            else:
                high = middle - 1
        return low

    def _draw(self, rng: np.random.Generator) -> IntArray:
        batches, k = self._full * self.world_size, self.samples_per_class
        which = rng.permutation(len(self._sizes))
        deals = self._share_out(batches * self.num_classes, which)
        passes = -(-deals // self._chunks[which])  # how often each class is shuffled and divided
        chunks = self._deal(which, passes, rng)
        # Of all chunks, class by class, those that the epoch uses.
        per_class = self._chunks[which] * passes
        first = np.repeat(np.cumsum(per_class) - per_class, deals)
        turn = np.arange(len(first)) - np.repeat(np.cumsum(deals) - deals, deals)
        dealt = chunks[first + turn].reshape(self.num_classes, batches, k)
        columns = self._spread(deals, batches, rng)
        order = np.empty((batches, self.num_classes, k), dtype=np.int64)
        for row in range(self.num_classes):
            order[columns[row], row] = dealt[row]
        return order.reshape(-1)

    def _share_out(self, total: int, which: IntArray) -> IntArray:
        """Number of chunks of each class in the epoch: as equal as possible, `total` in all."""
        limit = np.full(len(which), total) if self.repeat else self._chunks[which]
        low, high = 1, total
        while low < high:  # the least level at which there are enough
            middle = (low + high) // 2
            low, high = (low, middle) if int(np.minimum(limit, middle).sum()) >= total else (middle + 1, high)
        deals: IntArray = np.minimum(limit, low)
        spare = int(deals.sum()) - total
        deals[np.flatnonzero(deals == low)[:spare]] -= 1  # `which` is in random order already
        return deals

    def _deal(self, which: IntArray, passes: IntArray, rng: np.random.Generator) -> IntArray:
        """(Σ chunks·passes, k) samples in random order, class by class, pass by pass, k at a time."""
        k, classes = self.samples_per_class, np.repeat(which, passes)
        sizes = self._sizes[classes]
        shuffled = shuffle_within(self._members, self._firsts[classes], sizes, rng)
        within = np.arange(len(shuffled)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        dealt: IntArray = shuffled[within < np.repeat(sizes // k * k, sizes)].reshape(-1, k)
        return dealt

    def _spread(self, deals: IntArray, batches: int, rng: np.random.Generator) -> IntArray:
        """(m, batches) the batch of every chunk in order: a permutation a row, no class twice in a batch.

        A class has at most as many chunks as there are batches, so it lies in one row or ends in the next.
        Only the part in the next row is constrained: it goes to batches without a chunk of the first part.
        """
        ends = np.cumsum(deals)
        columns = np.empty((self.num_classes, batches), dtype=np.int64)
        columns[0] = rng.permutation(batches)
        for row in range(1, self.num_classes):
            across = int(
                np.searchsorted(ends, row * batches, side="right")
            )  # the class that goes over the edge
            begun = row * batches - int(ends[across] - deals[across])
            bound = min(int(ends[across]) - row * batches, batches) if begun > 0 else 0
            shuffled = rng.permutation(batches)
            if bound:
                taken = np.zeros(batches, dtype=np.bool_)
                taken[columns[row - 1, batches - begun :]] = True
                free = shuffled[~taken[shuffled]][:bound]
                taken[:] = False
                taken[free] = True
                shuffled = np.concatenate([free, shuffled[~taken[shuffled]]])
            columns[row] = shuffled
        return columns
