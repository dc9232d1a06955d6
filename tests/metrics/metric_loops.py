"""Slow metrics of our own in plain Python, from the parents of the nodes alone: the tests' reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import torch

from labeltree.taxonomy import Taxonomy

# ragged, with the name "other" under four parents, a leaf at depth 1 and a node with a single child
PATHS = [
    ("animal", "dog", "poodle"),
    ("animal", "dog", "other"),
    ("animal", "cat", "tabby"),
    ("animal", "cat", "other"),
    ("animal", "worm"),
    ("plant", "tree", "oak", "red oak"),
    ("plant", "other"),
    ("stone",),
    ("tool", "hammer", "other"),
]


def ragged_tree() -> Taxonomy:
    return Taxonomy.from_paths(PATHS)


class Tree:
    """Questions about a tree, answered by walking from child to parent."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.parent = taxonomy.parent.tolist()
        self.nodes = range(len(self.parent))
        self.leaves = [v for v in self.nodes if v not in self.parent]
        self.max_depth = max(self.depth(v) for v in self.nodes)

    def line(self, node: int) -> list[int]:
        """From the root to the node."""
        return [] if node == -1 else [*self.line(self.parent[node]), node]

    def depth(self, node: int) -> int:
        return len(self.line(node)) - 1

    def height(self, node: int) -> int:
        return max(self.depth(v) - self.depth(node) for v in self.nodes if node in self.line(v))

    def lca(self, u: int, v: int) -> int:
        return [a for a in self.line(u) if a in self.line(v)][-1]

    def cut(self, node: int, depth: int) -> int | None:
        """The node of that depth on the path; a leaf continues itself, an inner node decides no more."""
        if node == -1:
            return None
        line = self.line(node)
        if depth < len(line):
            return line[depth]
        return node if node in self.leaves else None

    @cache  # noqa: B019 (one tree per test module)
    def similarity(self, u: int, v: int) -> float:
        return 1.0 - self.height(self.lca(u, v)) / self.height(0)


def mean(values: Sequence[float]) -> float:
    """Of the entries that are not NaN."""
    counted = [value for value in values if not math.isnan(value)]
    return sum(counted) / len(counted) if counted else math.nan


def score(geometry: str, x: Sequence[float], y: Sequence[float]) -> float:
    """Similarity in a geometry, by its formula."""
    dot = sum(a * b for a, b in zip(x, y, strict=True))
    xx, yy = sum(a * a for a in x), sum(b * b for b in y)
    if geometry == "sphere":
        return dot / math.sqrt(xx * yy)
    if geometry == "euclidean":
        return -math.sqrt(xx + yy - 2 * dot)
    return -math.acosh(1 + 2 * (xx + yy - 2 * dot) / ((1 - xx) * (1 - yy)))


def rankings(
    geometry: str,
    queries: torch.Tensor,
    query_labels: Sequence[int | None],
    keys: torch.Tensor | None,
    key_labels: Sequence[int | None],
) -> list[list[int]]:
    """Database rows, best first, ties in database order, without unlabelled rows and the query itself."""
    rows = queries.tolist()
    database = rows if keys is None else keys.tolist()
    results = []
    for i, x in enumerate(rows):
        found = [
            (-score(geometry, x, y), j)
            for j, y in enumerate(database)
            if key_labels[j] is not None and not (keys is None and i == j)
        ]
        results.append([j for _, j in sorted(found)])
    return results


def average_precision(hits: Sequence[bool], reach: int | None = None) -> float:
    """AP of a whole ranking, or AP@R with `reach` R; NaN without a hit."""
    total = sum(hits)
    if total == 0:
        return math.nan
    reach = len(hits) if reach is None else reach
    return sum(sum(hits[: i + 1]) / (i + 1) for i in range(min(reach, len(hits))) if hits[i]) / total


def hierarchical_precision(tree: Tree, label: int, results: Sequence[int], k: int) -> float:
    """HP@k of the labels of a complete ranking; NaN if all similarities are 0."""
    gains = [tree.similarity(label, other) for other in results]
    best = sum(sorted(gains, reverse=True)[:k])
    return sum(gains[:k]) / best if best > 0 else math.nan
