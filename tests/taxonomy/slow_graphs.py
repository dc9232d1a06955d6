"""Random DAGs with awkward names, and what is true of them by walking from node to node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from hypothesis import strategies as st
from slow_trees import any_name


@dataclass(frozen=True)
class Graph:
    """A DAG as names and tuples of parents (none for the root), in no particular order."""

    names: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]

    @property
    def lists(self) -> tuple[list[str], list[list[int]]]:
        return list(self.names), [list(above) for above in self.parents]

    @cache  # noqa: B019
    def root_paths(self, node: int) -> tuple[tuple[int, ...], ...]:
        """Every path from the root to the node, both included."""
        if not self.parents[node]:
            return ((node,),)
        return tuple((*path, node) for parent in self.parents[node] for path in self.root_paths(parent))

    def ancestors(self, node: int) -> set[int]:
        """The node and all above it."""
        return {step for path in self.root_paths(node) for step in path}

    def children(self, node: int) -> list[int]:
        return [child for child, above in enumerate(self.parents) if node in above]

    def depth(self, node: int) -> int:
        return min(map(len, self.root_paths(node))) - 1

    def height(self, node: int) -> int:
        return max((1 + self.height(child) for child in self.children(node)), default=0)

    def descendants(self, node: int) -> set[int]:
        return {other for other in range(len(self.names)) if node in self.ancestors(other)}

    def way_up(self, node: int, ancestor: int) -> int:
        """Edges of the shortest path from a node up to an ancestor."""
        tails = (path[path.index(ancestor) :] for path in self.root_paths(node) if ancestor in path)
        return min(map(len, tails)) - 1

    def lca(self, u: int, v: int) -> int:
        """The common ancestor of least height, of equal ones the one with the smallest number."""
        return min(self.ancestors(u) & self.ancestors(v), key=lambda a: (self.height(a), a))

    def path_length(self, u: int, v: int) -> int:
        common = self.ancestors(u) & self.ancestors(v)
        return min(self.way_up(u, a) + self.way_up(v, a) for a in common)

    def edges(self) -> Iterator[tuple[int, int]]:
        """(child, parent) pairs."""
        return ((child, parent) for child, above in enumerate(self.parents) for parent in above)


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 10, unique: bool = False) -> Graph:
    """A DAG in random order, its edges in random order, with equal names under different parents."""
    n = draw(st.integers(2, max_nodes))
    parents: list[list[int]] = [[]]
    for node in range(1, n):
        parents.append(draw(st.lists(st.integers(0, node - 1), min_size=1, max_size=3, unique=True)))
    pool = draw(st.lists(any_name(), min_size=1, max_size=4))
    names: list[str] = []
    for node, above in enumerate(parents):
        name = draw(st.sampled_from(pool))
        taken = {names[i] for i in range(node) if unique or set(parents[i]) & set(above)}
        while name in taken:
            name += "'"
        names.append(name)
    order = draw(st.permutations(range(n)))
    place = {node: i for i, node in enumerate(order)}
    return Graph(
        tuple(names[node] for node in order),
        tuple(tuple(place[parent] for parent in parents[node]) for node in order),
    )
