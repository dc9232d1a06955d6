"""Nodes and labels below merged nodes: they go where their namesakes below the node that stays go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labeltree.taxonomy.label_index import LabelIndex
from labeltree.taxonomy.tree import Taxonomy

__all__ = ["LabelsBelowMerged", "find_hosts"]


def find_hosts(
    old: Taxonomy, merged: Mapping[int, Sequence[str]], changed: Mapping[int, object]
) -> dict[int, int]:
    """For each merged node the old node that it is merged into, if that one stays where it is.

    Args:
        old: The old version.
        merged: The new path of each merged old node.
        changed: The old nodes that have a change of their own.
    """
    hosts = {}
    for node, path in merged.items():
        host = old.follow(path)
        if host and host != node and not any(above in changed for above in (host, *old.ancestors_of(host))):
            hosts[node] = host
    return hosts


class LabelsBelowMerged(LabelIndex):
    """Looks labels up in an old version that is known from its changes alone.

    These do not tell the nodes below one that was merged into another. A label of such a node is read as its
    namesake below the one that stays, as its change is the same.

    Args:
        old: The old version.
        hosts: For each merged node the old node that it is merged into.

    Attributes:
        taxonomy: The old version, which reads labels so.
    """

    def __init__(self, old: Taxonomy, hosts: Mapping[int, int]) -> None:
        children, parents = old.numbering.edges
        super().__init__(old.names, old.numbering.main_parent, parents, children, lambda: old.aliases)
        self._hosts = hosts
        self.taxonomy = old.reading(self)

    def follow(self, path: Sequence[str]) -> int | None:
        """The node at the end of a path of names, or its namesake; None if there is neither."""
        node: int | None = 0
        for name in path:
            above = node or 0
            node = super().follow((*self.path(above), name))
            if node is None and above in self._hosts:
                node = super().follow((*self.path(self._hosts[above]), name))
            if node is None:
                return None
        return node
