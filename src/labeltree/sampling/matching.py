"""Pairing those who want a partner with unused samples, all nodes of a depth at once."""

import numpy as np
from numpy.typing import NDArray

from labeltree.sampling.base import IntArray
from labeltree.sampling.occupied import NodeSpans

__all__ = ["match"]


def match(
    wanting: IntArray,
    unused: IntArray,
    spans: NodeSpans,
    children: NodeSpans | None,
    rng: np.random.Generator,
) -> tuple[NDArray[np.bool_], IntArray]:
    """Gives as many of the wanting as possible an unused sample of the same node, each sample to one of them.

    With `children`, the two must not lie below the same child: then their paths agree down to the node and no
    further. The result is a maximum matching. Per node, let A be the wanting, U the unused and a_c, u_c those
    below child c. Both lie in layout order on a circle of M = max(A, U, max_c(a_c + u_c)) seats, the unused
    turned by K. Nobody sits opposite to someone of the same child if, for all c (a^<, a^≤: sums up to c,
    without and with it),

        max_c (a_c^≤ - u_c^<)  ≤  K  ≤  M + min_c (a_c^< - u_c^≤),

    and some K always does. When M is A or U, one side is served completely; when a child has a_c + u_c = M,
    all others are paired with its samples, and no matching does better. K is drawn at random from all that
    do.

    Args:
        wanting: (a,) places in the layout, ascending, equal ones allowed; each below one of the nodes.
        unused: (u,) places, ascending and different.
        spans: the nodes.
        children: the nodes of the next finer depth, or None.
        rng: draws K.

    Returns:
        (a,) who got a sample, and for those, in order, the index of it in `unused`.
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
        both = (a_upto > a_below) & (u_upto > u_below)  # only these can be in each other's way
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
