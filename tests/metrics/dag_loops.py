"""A random DAG, and what metrics mean on it, by walking along all its paths."""

from __future__ import annotations

import math
from random import Random

from labeltree.taxonomy import TaxonomyDAG


def random_dag(seed: int, nodes: int = 14) -> TaxonomyDAG:
    """Most nodes have one parent, some two or three."""
    random = Random(seed)
    parents: list[list[int]] = [[]]
    for node in range(1, nodes):
        parents.append(sorted(random.sample(range(node), min(node, random.choice([1, 1, 2, 3])))))
    return TaxonomyDAG([f"n{i}" for i in range(nodes)], parents)


def paths(dag: TaxonomyDAG, node: int) -> list[list[int]]:
    """All paths from the root."""
    if node == 0:
        return [[0]]
    return [[*path, node] for parent in dag.parents(node) for path in paths(dag, parent)]


def ancestors(dag: TaxonomyDAG, node: int) -> set[int]:
    return {step for path in paths(dag, node) for step in path}


def depth(dag: TaxonomyDAG, node: int) -> int:
    return min(map(len, paths(dag, node))) - 1


def height(dag: TaxonomyDAG, node: int) -> int:
    return max((1 + height(dag, child) for child in dag.children(node)), default=0)


def lca_height(dag: TaxonomyDAG, u: int, v: int) -> int:
    return min(height(dag, a) for a in ancestors(dag, u) & ancestors(dag, v))


def way_up(dag: TaxonomyDAG, node: int, ancestor: int) -> int:
    return min(len(path) - 1 - path.index(ancestor) for path in paths(dag, node) if ancestor in path)


def path_length(dag: TaxonomyDAG, u: int, v: int) -> int:
    return min(way_up(dag, u, a) + way_up(dag, v, a) for a in ancestors(dag, u) & ancestors(dag, v))


def f1(dag: TaxonomyDAG, predicted: int, target: int, include_root: bool) -> float:
    left_out = set() if include_root else {0}
    mine, theirs = ancestors(dag, predicted) - left_out, ancestors(dag, target) - left_out
    if not mine & theirs:
        return 0.0
    precision, recall = len(mine & theirs) / len(mine), len(mine & theirs) / len(theirs)
    return 2 * precision * recall / (precision + recall)


def hierarchical_precision(dag: TaxonomyDAG, query: int, ranked: list[int], k: int) -> float:
    tallest = height(dag, 0)
    gains = [1 - lca_height(dag, query, other) / tallest for other in ranked]
    best = sum(sorted(gains, reverse=True)[:k])
    return sum(gains[:k]) / best if best else math.nan
