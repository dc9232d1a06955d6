"""Samples laid out along their tree in a random depth-first order, and partners found within its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeltree.sampling.batch_sampler import IntArray
from labeltree.sampling.grouping import key_dtype, shuffle_within, stable_order

if TYPE_CHECKING:
    from labeltree.taxonomy import Taxonomy

__all__ = ["Layout", "NodeSpans", "SampleTree", "match"]


@dataclass(frozen=True)
class NodeSpans:
    """The nodes of one depth, in the order of the layout, each with its range of places.

    Attributes:
        start: (v,) first place of each node's subtree in the layout, ascending.
        end: (v,) one past its last place.
        parent: (v,) index of the parent within the spans of the next coarser depth, ascending.
    """

    start: IntArray
    end: IntArray
    parent: IntArray


@dataclass(frozen=True)
class Layout:
    """All placed samples in an order in which every subtree is a range.

    Within a node the samples labelled with it come before those of its children. The order of the children of
    a node and of the samples of a label is random.

    Attributes:
        samples: (m,) the sample at each place.
        depth: (m,) the depth of its label.
        spans: Entry l holds the nodes of depth l; entry 0 is empty.
    """

    samples: IntArray
    depth: NDArray[np.int16]
    spans: list[NodeSpans]


class SampleTree:
    """The nodes that have samples in their subtree. Samples without a label, or labelled with the root, are
    unplaced.

    Attributes:
        unplaced: (u,) the unplaced samples.
        mean_depth: The mean depth of the placed samples' labels, 0 if there are none.
        equal_depth: Whether all these labels have the same depth.
    """

    def __init__(self, taxonomy: Taxonomy, nodes: IntArray) -> None:
        parent, depth, end = (getattr(taxonomy, name).numpy() for name in ("parent", "depth", "subtree_end"))
        if len(nodes) and nodes.max() >= len(parent):
            raise ValueError(
                f"nodes holds {nodes.max()}, expected less than the {len(parent)} nodes of the taxonomy"
            )
        placed = np.flatnonzero(nodes > 0)
        self.unplaced = np.flatnonzero(nodes <= 0)
        own = np.bincount(nodes[placed], minlength=len(parent))
        before = np.concatenate([[0], np.cumsum(own)])
        total = before[end] - before[:-1]
        kept = np.flatnonzero(total > 0)
        kept = kept[kept > 0]
        number = np.full(len(parent), -1, dtype=np.int64)
        number[kept] = np.arange(len(kept))
        self._own, self._total, self._depth = own[kept], total[kept], depth[kept].astype(np.int16)
        self._parent = number[parent[kept]]  # -1 for the children of the root, which itself has no number
        deepest = int(self._depth.max(initial=0))
        self._by_depth = [np.flatnonzero(self._depth == level) for level in range(deepest + 1)]
        self._labels = np.flatnonzero(self._own > 0)
        label = np.zeros(len(parent), dtype=key_dtype(len(self._labels)))
        label[kept[self._labels]] = np.arange(len(self._labels))
        self._samples = placed[stable_order(label[nodes[placed]])]  # label by label
        size, depths = self._own[self._labels], self._depth[self._labels]
        self._first = np.cumsum(size) - size
        self.mean_depth = float(size @ depths) / max(len(placed), 1)
        self.equal_depth = len(set(depths.tolist())) <= 1

    def shuffled(self, rng: np.random.Generator) -> Layout:
        """A layout with the children of every node, and the samples of every label, in random order."""
        start = self._shuffled_starts(rng)
        spans = [NodeSpans(*np.zeros((3, 0), dtype=np.int64))]
        index = np.zeros(len(start), dtype=np.int64)
        for level, nodes in enumerate(self._by_depth[1:], start=1):
            nodes = nodes[np.argsort(start[nodes])]
            index[nodes] = np.arange(len(nodes))
            parent = index[self._parent[nodes]] if level > 1 else np.zeros(len(nodes), dtype=np.int64)
            spans.append(NodeSpans(start[nodes], start[nodes] + self._total[nodes], parent))
        order = np.argsort(start[self._labels])
        labels = self._labels[order]
        samples = shuffle_within(self._samples, self._first[order], self._own[labels], rng)
        return Layout(samples, np.repeat(self._depth[labels], self._own[labels]), spans)

    def _shuffled_starts(self, rng: np.random.Generator) -> IntArray:
        """(V,) the first place of each node's subtree when the children of every node are shuffled."""
        count = len(self._total)
        order = rng.permutation(count)
        order = order[np.argsort(self._parent[order], kind="stable")]  # siblings together, in random order
        before = np.cumsum(self._total[order]) - self._total[order]
        parent = self._parent[order]
        first = np.searchsorted(parent, parent)
        offset = np.empty(count, dtype=np.int64)
        offset[order] = before - before[first]
        for nodes in self._by_depth[2:]:
            parents = self._parent[nodes]
            offset[nodes] += offset[parents] + self._own[parents]
        return offset


def match(
    wanting: IntArray,
    unused: IntArray,
    spans: NodeSpans,
    children: NodeSpans | None,
    rng: np.random.Generator,
) -> tuple[NDArray[np.bool_], IntArray]:
    """Match wanting samples to unused samples of the same node, one to one, as many as possible.

    With `children`, the two must not lie below the same child: then their paths agree down to the node and no
    further. The result is a maximum matching. Per node, let A be the wanting, U the unused and a_c, u_c those
    below child c. Both lie in layout order on a circle of M = max(A, U, max_c(a_c + u_c)) seats, the unused
    turned by K. No two samples of the same child sit opposite each other if, for all c (a^<, a^≤: sums up to
    c, without and with it),

        max_c (a_c^≤ - u_c^<)  ≤  K  ≤  M + min_c (a_c^< - u_c^≤),

    and some K always does. When M is A or U, one side is served completely; when a child has a_c + u_c = M,
    all others are paired with its samples, and no matching does better. K is drawn at random from all values
    that satisfy this.

    Args:
        wanting: (a,) places in the layout, ascending, equal ones allowed; each below one of the nodes.
        unused: (u,) places, ascending and different.
        spans: The nodes.
        children: The nodes of the next finer depth, or None.
        rng: Draws K.

    Returns:
        (a,) mask of the wanting samples with a match, and the index in `unused` of each match, in order.
    """
    a_first, a_end = np.searchsorted(wanting, spans.start), np.searchsorted(wanting, spans.end)
    u_first, u_end = np.searchsorted(unused, spans.start), np.searchsorted(unused, spans.end)
    a_count, u_count = a_end - a_first, u_end - u_first
    seats = np.maximum(np.maximum(a_count, u_count), 1)
    least, most = np.zeros_like(seats), seats - 1
    if children is not None and len(children.start):
        parent = children.parent
        a_below = np.searchsorted(wanting, children.start) - a_first[parent]
        a_upto = np.searchsorted(wanting, children.end) - a_first[parent]
        u_below = np.searchsorted(unused, children.start) - u_first[parent]
        u_upto = np.searchsorted(unused, children.end) - u_first[parent]
        both = (a_upto > a_below) & (u_upto > u_below)  # only these can conflict
        if both.any():
            at = parent[both]
            heads = np.flatnonzero(np.diff(at, prepend=-1))
            node = at[heads]
            a_below, a_upto, u_below, u_upto = a_below[both], a_upto[both], u_below[both], u_upto[both]
            crowded = np.maximum.reduceat(a_upto - a_below + u_upto - u_below, heads)
            seats[node] = np.maximum(seats[node], crowded)
            least[node] = np.maximum.reduceat(a_upto - u_below, heads)
            most[node] = seats[node] + np.minimum.reduceat(a_below - u_upto, heads)
    turn = rng.integers(least, most, endpoint=True) % seats
    seat = np.arange(len(wanting)) - np.repeat(a_first + turn, a_count)
    seat += np.repeat(seats, a_count) * (seat < 0)
    served = seat < np.repeat(u_count, a_count)
    partner = seat + np.repeat(u_first, a_count)
    return served, partner[served]
