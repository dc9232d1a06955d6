"""Batches in which samples have partners at every depth of the tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from labeltree.sampling.batch_sampler import BatchSampler, IntArray
from labeltree.sampling.sample_tree import Layout, SampleTree, match
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.check_nodes import warn_of_class_numbers
from labeltree.taxonomy.dag import check_tree

__all__ = ["EpochPlan", "HierarchicalBatchSampler"]

ANCHOR, FILLER = 0, -1


@dataclass(frozen=True)
class EpochPlan:
    """The role of each sample of an epoch: slot by slot, all ranks' batches one after the other.

    Attributes:
        order: (T,) the samples.
        wish: (T,) 0: an anchor, which begins a group; l > 0: its partner for depth l; -1: no part of a group.
        shared: (T,) for a partner, l where it shares exactly the prefix of length l; where it is a
            substitute, the length of the prefix that it was sought by, less than l (0: any sample). 0 for all
            others.
    """

    order: IntArray
    wish: NDArray[np.int16]
    shared: NDArray[np.int16]


class HierarchicalBatchSampler(BatchSampler):
    """Groups of an anchor and, for every depth of its label, a partner whose LCA with it has that depth.

    This is the sampling of Zhang et al. 2022, Section 3.5, with its guarantees made precise. To share
    *exactly* the prefix of length l is to have an LCA of depth l: the two agree down to depth l and not, or
    not decidedly, further. At the depth of a leaf that is another sample of this leaf. A label of depth d, be
    it a leaf or an inner node, has partners at the depths d, ..., 1. An epoch is drawn in this order:

    1. Anchors, without replacement: spread evenly over the tree (a systematic sample of the samples in a
       random depth-first order, so each is equally likely and a label with few samples is not used up by
       anchors), then put in random order. A group has 1 + d slots, all in one batch. The last group of a
       batch has as many partners as fit, those of its finest depths. Below, *unused* samples are those that
       are neither an anchor nor a partner yet.
    2. Exact partners, depth by depth from the finest to the coarsest. At each depth all anchors that need a
       partner are served together: as many of them get one as any assignment of the unused samples could
       serve, so an anchor goes without only if, after this depth was drawn, no unused sample shares exactly
       this prefix with it.
    3. Substitutes for the requests left open, for l = L-1, ..., 1: every open request of a depth finer than l
       gets an unused sample that shares a prefix of length l *or longer*, and stays open only if no such
       sample is left. Exact partners come first at all depths, so no substitute uses a sample that another
       anchor needs as an exact partner.
    4. Any unused labelled sample for the requests that are still open.

    Samples without a label, or labelled with the root, are in no group: they fill up the batches, evenly
    spread. Every sample occurs at most once an epoch; the samples left out because they do not fill a batch
    change from epoch to epoch. As all anchors are drawn at once, the last batches of an epoch are no worse
    than the first. Groups are not marked in the batches: losses see all pairs of a batch. `plan` returns the
    groups, and `coverage` the share of requests with an exact partner. In a skewed tree this share is far
    below 1: where one child holds most of a node's samples, most of its anchors find no partner outside that
    child.

    Args:
        taxonomy: The tree.
        nodes: (n,) the label of every sample, -1 where it is missing.
        batch_size: B, samples per rank and batch.
        seed: The same seed gives the same batches, in any process.
        rank: Rank of this process; None: the rank in `torch.distributed`, see `BatchSampler`.
        world_size: Number of processes; None: likewise.
        drop_last: Every batch has exactly B samples; otherwise each rank gets one more, shorter batch, see
            `BatchSampler`.

    Raises:
        ValueError: For an invalid argument, or if there are too few samples for one batch.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> tree = Taxonomy.from_nested({"animal": ["dog", "cat"], "plant": ["oak", "fir"]})
        >>> nodes = tree.encode(["dog", "cat", "oak", "fir"] * 6)
        >>> sampler = HierarchicalBatchSampler(tree, nodes, batch_size=12)
        >>> [len(batch) for batch in sampler.batches(epoch=0)]
        [12, 12]
        >>> sampler.coverage(epoch=0)
        {1: 1.0, 2: 1.0}
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        nodes: ArrayLike,
        batch_size: int,
        *,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = True,
    ) -> None:
        check_tree("samplers of classes", taxonomy)
        super().__init__(nodes, batch_size, seed=seed, rank=rank, world_size=world_size, drop_last=drop_last)
        warn_of_class_numbers(taxonomy, "nodes", torch.from_numpy(self.nodes))
        self._depth = taxonomy.depth.numpy()
        self._tree = SampleTree(taxonomy, self.nodes)

    def plan(self, epoch: int) -> EpochPlan:
        """The epoch of all ranks, with the role of each sample."""
        plan: EpochPlan = self._epoch(epoch)
        return plan

    def coverage(self, epoch: int) -> dict[int, float]:
        """For each depth, the share of anchors with a partner at exactly this depth.

        Counted over the batches of all ranks and the anchors whose label is at least that deep, including
        anchors of cut groups. Depths that no anchor's label reaches are left out.
        """
        plan = self.plan(epoch)
        depth = self._depth[self.nodes[plan.order[plan.wish == ANCHOR]]]
        reached = np.bincount(depth)[::-1].cumsum()[::-1]
        granted = plan.wish[(plan.wish > 0) & (plan.shared == plan.wish)]
        exact = np.bincount(granted, minlength=len(reached))
        return {level: float(exact[level] / reached[level]) for level in range(1, len(reached))}

    def _flat_order(self, epoch: int) -> IntArray:
        return self.plan(epoch).order

    def _draw(self, rng: np.random.Generator) -> EpochPlan:
        sizes = self._global_sizes()
        slots, first_slot = int(sizes.sum()), np.cumsum(sizes) - sizes
        fillers = len(self._tree.unplaced) * slots // self.num_samples
        filled = _share_evenly(fillers, sizes)
        layout = self._tree.shuffled(rng)
        anchors, groups = self._draw_groups(layout, first_slot, sizes - filled, rng)
        draft = _Draft(layout, anchors, groups, slots)
        draft.draw_partners(rng)

        # Slots without a group take the fillers, numbered after the places of the layout.
        free = np.flatnonzero(draft.wish == FILLER)
        draft.place[free] = np.arange(len(free)) + len(layout.samples)
        samples = np.concatenate([layout.samples, rng.permutation(self._tree.unplaced)[:fillers]])
        return EpochPlan(samples[draft.place], draft.wish, draft.shared)

    def _draw_groups(
        self, layout: Layout, first_slot: IntArray, room: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, _Groups]:
        """The places of the anchors, ascending, and their groups, in the same order, which fill the slots."""
        count = len(layout.samples)
        mean_size = 1 + self._tree.mean_depth
        enough = int(np.ceil(room / mean_size).sum())
        if not self._tree.equal_depth:
            enough += int(4 * enough**0.5)
        while True:
            enough = min(enough, count)
            places = (np.arange(enough) * count + rng.integers(max(count, 1))) // max(enough, 1)
            order = rng.permutation(enough)
            groups = _pack(1 + layout.depth[places[order]].astype(np.int64), first_slot, room)
            if groups is not None:
                number = np.full(enough, -1)
                number[order[: len(groups.slot)]] = np.arange(len(groups.slot))
                used = number[number >= 0]
                return places[number >= 0], _Groups(groups.slot[used], groups.size[used])
            enough += enough // 4 + 1  # many groups were cut: more of them are needed


@dataclass(frozen=True)
class _Groups:
    """Groups: an anchor, followed by its partners.

    Attributes:
        slot: (k,) first slot of each group.
        size: (k,) number of samples of each group, including the anchor, after the last group of a batch was
            cut to fit.
    """

    slot: IntArray
    size: IntArray


class _Draft:
    """An unfinished epoch: places of the layout, slot by slot."""

    def __init__(self, layout: Layout, anchors: IntArray, groups: _Groups, slots: int) -> None:
        self.place = np.zeros(slots, dtype=np.int64)
        self.wish = np.full(slots, FILLER, dtype=np.int16)
        self.shared = np.zeros(slots, dtype=np.int16)
        self._spans = layout.spans
        self._anchor, self._slot = anchors, groups.slot
        self._depth = layout.depth[anchors]
        self._coarsest = (
            self._depth + 2 - groups.size
        )  # the coarsest depth, from 1, that has a slot in the group
        self.place[self._slot], self.wish[self._slot] = self._anchor, ANCHOR
        unused = np.ones(len(layout.samples), dtype=np.bool_)
        unused[self._anchor] = False
        self._unused = np.flatnonzero(unused)

    def draw_partners(self, rng: np.random.Generator) -> None:
        """Steps 2 to 4 of `HierarchicalBatchSampler`."""
        deepest = len(self._spans) - 1
        unserved: dict[int, tuple[IntArray, IntArray]] = {}
        for level in range(deepest, 0, -1):
            children = self._spans[level + 1] if level < deepest else None
            who = (self._depth >= level) & (self._coarsest <= level)
            anchor, slot = self._anchor[who], self._slot[who] + 1 + self._depth[who] - level
            self.wish[slot] = level
            served, partner = match(anchor, self._unused, self._spans[level], children, rng)
            self._take(slot[served], partner, level)
            unserved[level] = anchor[~served], slot[~served]
        anchor, slot = self._anchor[:0], self._slot[:0]
        for level in range(deepest - 1, -1, -1):
            anchor, slot = (
                np.concatenate(both) for both in zip((anchor, slot), unserved[level + 1], strict=True)
            )
            if level and len(anchor):
                by_place = np.argsort(anchor, kind="stable")
                anchor, slot = anchor[by_place], slot[by_place]
                served, partner = match(anchor, self._unused, self._spans[level], None, rng)
                self._take(slot[served], partner, level)
                anchor, slot = anchor[~served], slot[~served]
        self._take(slot, rng.permutation(len(self._unused))[: len(slot)], 0)

    def _take(self, slot: IntArray, partner: IntArray, level: int) -> None:
        """Put unused samples, given by their indices, into slots."""
        self.place[slot], self.shared[slot] = self._unused[partner], level
        left = np.ones(len(self._unused), dtype=np.bool_)
        left[partner] = False
        self._unused = self._unused[left]


def _pack(wanted: IntArray, first_slot: IntArray, room: IntArray) -> _Groups | None:
    """Put groups one after the other into batches; no group crosses the end of its batch.

    Args:
        wanted: (c,) the full sizes of the available groups, in order; as many as needed are used.
        first_slot: (b,) first slot of each batch.
        room: (b,) number of slots for groups in each batch.

    Returns:
        The groups that fill all these slots, or None if there are too few.
    """
    before = np.cumsum(wanted) - wanted
    owner = np.repeat(np.arange(len(wanted)), wanted)  # the group at each slot, if none were ever cut
    # If a batch begins with group i, then the next one begins with group following[room][i].
    following = {}
    for size in np.unique(room[room > 0]).tolist():
        last = before + (size - 1)
        last = last[: np.searchsorted(last, len(owner))]
        following[size] = memoryview(owner[last] + 1)
    first, group = [0], 0
    for size in room.tolist():
        if size:
            if group >= len(following[size]):
                return None
            group = following[size][group]
        first.append(group)
    heads = np.asarray(first, dtype=np.int64)
    batch = np.repeat(np.arange(len(room)), np.diff(heads))
    begin = first_slot[batch]
    slot = begin + before[:group] - before[heads[:-1][batch]]
    return _Groups(slot, np.minimum(wanted[:group], begin + room[batch] - slot))


def _share_evenly(total: int, sizes: IntArray) -> IntArray:
    """(b,) integer parts of `total`, in proportion to `sizes`, none larger than its size."""
    ends = np.cumsum(sizes)
    upto: NDArray[np.int64] = total * ends // max(int(ends[-1]), 1)
    return np.diff(upto, prepend=0)
