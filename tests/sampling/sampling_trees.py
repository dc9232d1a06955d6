"""Small trees and labels for the tests, and an LCA that walks."""

import numpy as np

from labeltree.taxonomy import Taxonomy


def random_tree(rng: np.random.Generator, num_nodes: int, nearness: float = 1.0) -> Taxonomy:
    """Ragged; the larger `nearness` is, the deeper."""
    return Taxonomy.from_edges(
        [(str(v), str(int(v * rng.beta(nearness, 1)))) for v in range(1, num_nodes)], root="0"
    )


def even_tree(*branching: int) -> Taxonomy:
    paths = [()]
    for width in branching:
        paths = [(*path, f"{'/'.join(path)}.{child}") for path in paths for child in range(width)]
    return Taxonomy.from_paths(paths)


def line(parent: list[int], node: int) -> list[int]:
    """The node and its ancestors, coarse → fine, without the root."""
    found = []
    while node > 0:
        found.append(node)
        node = parent[node]
    return found[::-1]


def lca_depth(parent: list[int], u: int, v: int) -> int:
    shared = 0
    for a, b in zip(line(parent, u), line(parent, v), strict=False):
        if a != b:
            break
        shared += 1
    return shared
