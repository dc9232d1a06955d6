"""Names of nodes on the page, short and full."""

from __future__ import annotations

from collections import Counter

from labeltree.taxonomy import Taxonomy

__all__ = [
    "NodeNames",
]


class NodeNames:
    """Short and full names of nodes; a short name that several nodes share is prefixed by its parent's.

    Args:
        taxonomy: The tree.
        root: What to call the root.
    """

    def __init__(self, taxonomy: Taxonomy, root: str = "the whole tree") -> None:
        self._taxonomy = taxonomy
        self._root = root
        self._count = Counter(taxonomy.names)

    def short(self, node: int) -> str:
        """The name of a node, with its parent's if another node has the same name."""
        if node <= 0:
            return self._root
        path = self._taxonomy.path(node)
        return " › ".join(path[-2:]) if self._count[path[-1]] > 1 else path[-1]

    def full(self, node: int) -> str:
        """All names from depth 1 to the node."""
        return " › ".join(self._taxonomy.path(node)) if node > 0 else self._root
