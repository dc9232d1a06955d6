"""Leaving out inner nodes that say nothing: those with a single child."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from labeltree.taxonomy.build import Entries

__all__ = ["collapse"]


def collapse(entries: Entries, keep: Container[str] = ()) -> Entries:
    """Leave out every inner node with a single child, which takes its place; the root too.

    Args:
        entries: of a tree.
        keep: names of nodes that stay: classes.

    Example:
        >>> names = ["entity", "animal", "canine", "dog", "wolf"]
        >>> collapse(Entries(names, [-1, 0, 1, 2, 2]))
        Entries(names=['canine', 'dog', 'wolf'], parents=[-1, 0, 0])
    """
    children = Counter(entries.parents)
    stays = [children[node] != 1 or name in keep for node, name in enumerate(entries.names)]

    def nearest(node: int) -> int:
        while node >= 0 and not stays[node]:
            node = entries.parents[node]
        return node

    kept = [node for node, good in enumerate(stays) if good]
    place = {node: i for i, node in enumerate(kept)}
    return Entries(
        [entries.names[node] for node in kept],
        [place.get(nearest(entries.parents[node]), -1) for node in kept],
    )
