"""Which groups stand in which slots of an epoch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeltree.sampling.base import IntArray

__all__ = ["Groups", "pack", "share_evenly"]


@dataclass(frozen=True)
class Groups:
    """Groups: an anchor, followed by its partners.

    Attributes:
        slot: (k,) where each group begins.
        size: (k,) how many samples it has, the anchor included, after the last group of a batch was cut to
            what fits.
    """

    slot: IntArray
    size: IntArray


def pack(wanted: IntArray, first_slot: IntArray, room: IntArray) -> Groups | None:
    """Puts groups one after the other into batches; no group reaches over the end of its batch.

    Args:
        wanted: (c,) the full sizes of the groups at hand, in order; as many as needed are used.
        first_slot: (b,) the slot in which each batch begins.
        room: (b,) slots of each batch that are for groups.

    Returns:
        The groups that fill all the room, or None when there are too few.
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
    return Groups(slot, np.minimum(wanted[:group], begin + room[batch] - slot))


def share_evenly(total: int, sizes: IntArray) -> IntArray:
    """(b,) whole parts of `total`, in proportion to `sizes` and none larger than its size."""
    ends = np.cumsum(sizes)
    upto: NDArray[np.int64] = total * ends // max(int(ends[-1]), 1)
    return np.diff(upto, prepend=0)
