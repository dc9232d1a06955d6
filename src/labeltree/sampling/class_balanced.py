"""Batches for long-tailed data: small classes occur as often as large ones, or nearly so."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from labeltree.sampling.batch_sampler import BatchSampler, IntArray
from labeltree.sampling.grouping import SampleClasses, classes_at_depth, describe_unused, shuffle_within
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.check_nodes import warn_of_class_numbers
from labeltree.taxonomy.dag import check_tree

__all__ = ["ClassBalancedBatchSampler"]


class ClassBalancedBatchSampler(BatchSampler):
    """Batches in which every class has a chosen share, whatever the number of its samples.

    The classes are the nodes of one depth; a leaf above this depth is a class too. Class c with n_c samples
    has the share p_c of an epoch, to within one sample:

        p_c ∝ n_c^power              Kang et al. 2020: 0 makes all classes alike, 1 leaves them as they are
        p_c ∝ n_c·(1 − β)/(1 − β^n_c)    Cui et al. 2019, if β is given: each sample by 1/effective number

    Within a class all samples occur equally often, to within one: samples of small classes several times per
    epoch, and of large classes only a part, drawn anew each epoch. A sample occurs twice in one batch only if
    its class has more places in the batch than samples.

    An epoch is as long as if each sample with a class occurred once. Samples whose label is missing or
    coarser than the depth have no class and are left out: `num_left_out` counts them.

    In contrast to `BalancedBatchSampler`, batches hold no fixed number of samples of each class: classes are
    mixed at random, any batch size is possible, and a class needs only one sample. Contrastive losses, which
    need positives in the batch, should use `BalancedBatchSampler` with `repeat=True`; classifiers should use
    this sampler.

    Args:
        taxonomy: The tree.
        nodes: (n,) the label of every sample, -1 where it is missing.
        batch_size: B, samples per rank and batch.
        depth: Depth of the classes; the finest by default.
        power: Exponent of the class size, from 0 to 1; see above.
        beta: β, from 0 (natural frequencies) to below 1 (the limit 1 makes all classes equal); None: use
            `power`.
        seed: The same seed gives the same batches, in any process.
        rank: Rank of this process; None: the rank in `torch.distributed`, see `BatchSampler`.
        world_size: Number of processes; None: likewise.
        drop_last: Every batch has exactly B samples, if necessary by repeating samples; otherwise one more,
            shorter batch may follow, as in `BatchSampler`.

    Attributes:
        classes: (c,) the nodes that have samples.
        class_sizes: (c,) number of samples of each class.
        shares: (c,) share p_c of each class.
        num_left_out: Number of samples without a class.

    Raises:
        ValueError: For an invalid argument, or if no sample has a class.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> tree = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> nodes = tree.encode(["dog"] * 90 + ["cat"] * 9 + ["oak"])
        >>> sampler = ClassBalancedBatchSampler(tree, nodes, batch_size=25)
        >>> np.bincount(nodes[sampler.epoch_order(epoch=0)].ravel())[sampler.classes]
        array([33, 34, 33])
    """

    num_left_out: int
    _sorted: SampleClasses

    def __init__(
        self,
        taxonomy: Taxonomy,
        nodes: ArrayLike,
        batch_size: int,
        *,
        depth: int | None = None,
        power: float = 0.0,
        beta: float | None = None,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = True,
    ) -> None:
        check_tree("samplers of classes", taxonomy)
        if not 0 <= power <= 1:
            raise ValueError(f"power is {power}, expected 0 (classes alike) to 1 (as they are)")
        if beta is not None and not 0 <= beta < 1:
            raise ValueError(f"beta is {beta}, expected at least 0 and less than 1")
        if beta is not None and power:
            raise ValueError("power and beta are both given, expected one of them")
        self._tree = taxonomy
        self.depth = taxonomy.max_depth if depth is None else int(depth)
        self.power = float(power)
        self.beta = None if beta is None else float(beta)
        super().__init__(nodes, batch_size, seed=seed, rank=rank, world_size=world_size, drop_last=drop_last)
        warn_of_class_numbers(taxonomy, "nodes", torch.from_numpy(self.nodes))

    @property
    def repeats(self) -> bool:
        """Whether a sample may occur more than once in an epoch."""
        return True

    @property
    def classes(self) -> IntArray:
        """(c,) the nodes that have samples."""
        return self._sorted.nodes

    @property
    def class_sizes(self) -> IntArray:
        """(c,) number of samples of each class."""
        return self._sorted.sizes

    @property
    def shares(self) -> NDArray[np.float64]:
        """(c,) the share of each class in an epoch."""
        sizes = self.class_sizes.astype(np.float64)
        if self.beta is None:
            weight = sizes**self.power
        else:
            weight = sizes / -np.expm1(sizes * np.log(self.beta)) if self.beta > 0 else sizes
        shares: NDArray[np.float64] = weight / weight.sum()
        return shares

    def describe_unused(self) -> str:
        """A sentence on samples without a class; empty if there are none."""
        return describe_unused(self._tree, self.depth, self.num_left_out)

    def _count_batches(self) -> tuple[int, int]:
        self._sorted = classes_at_depth(self._tree, self.nodes, self.depth)
        with_class = len(self._sorted.members)
        self.num_left_out = self.num_samples - with_class
        if with_class == 0:
            raise ValueError(
                f"none of the {self.num_samples} samples has a label at depth {self.depth} or a leaf above it"
            )
        full, rest = divmod(with_class // self.world_size, self.batch_size)
        short = 0 if self.drop_last else rest
        return (full, short) if full + short else (1, 0)

    def _draw(self, rng: np.random.Generator) -> IntArray:
        total = int(self._global_sizes().sum())
        which = rng.permutation(len(self.classes))
        counts = _whole_shares(self.shares[which], total, rng)
        slots = rng.permutation(total)  # class by class, where in the epoch its samples go
        ends = np.cumsum(counts)
        within = np.arange(total) - np.repeat(ends - counts, counts)
        # In the order of the epoch, so that a class goes through all its samples before any is repeated.
        slots = slots[np.lexsort((slots, np.repeat(np.arange(len(which)), counts)))]
        sizes = self._sorted.sizes[which]
        shuffled = shuffle_within(self._sorted.members, self._sorted.firsts[which], sizes, rng)
        begin = np.cumsum(sizes) - sizes
        order = np.empty(total, dtype=np.int64)
        order[slots] = shuffled[np.repeat(begin, counts) + within % np.repeat(sizes, counts)]
        return order


def _whole_shares(shares: NDArray[np.float64], total: int, rng: np.random.Generator) -> IntArray:
    """Integers that sum to `total`, each within one of its exact share and equal to it on average."""
    upto = np.floor(np.cumsum(shares) * total + rng.random()).astype(np.int64).clip(max=total)
    upto[-1] = total
    return np.diff(upto, prepend=0)
