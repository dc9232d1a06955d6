"""Random ragged trees and batches, and the relation of two labels found by walking up the tree."""

import torch
from torch import Tensor

from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.relations import ANCESTOR, APART, INSTANCE, SAME, relation_code, unknown_relation


def random_tree(seed: int, num_nodes: int = 14) -> Taxonomy:
    """A ragged tree; nodes 0 … n − 1 with random parents."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(num_nodes, generator=generator).sqrt()
    return Taxonomy.from_edges([(str(v), str(int(draws[v] * v))) for v in range(1, num_nodes)], root="0")


def random_batch(tree: Taxonomy, seed: int, n: int = 13) -> tuple[Tensor, Tensor]:
    """Labels of all sorts (leaves, inner nodes, the root, missing) and instances with one to three views."""
    generator = torch.Generator().manual_seed(seed)
    nodes = torch.randint(-1, len(tree), (n,), generator=generator)
    instances = torch.randint(0, n // 2, (n,), generator=generator) * 7 - 5
    for instance in instances.unique():  # views of one sample have one label
        nodes[instances == instance] = nodes[instances == instance][0]
    return nodes, instances


def line(tree: Taxonomy, node: int) -> list[int]:
    """Root, …, node."""
    return [node] if node == 0 else [*line(tree, int(tree.parent[node])), node]


def walked_code(tree: Taxonomy, u: int, v: int, same_instance: bool) -> int:
    """The relation code by its definition."""
    depth_of_tree = tree.max_depth
    if u < 0 or v < 0:
        return relation_code(INSTANCE, 0, depth_of_tree) if same_instance else unknown_relation(depth_of_tree)
    common = [a for a in line(tree, u) if a in line(tree, v)]
    depth, lca = len(common) - 1, common[-1]
    if same_instance:
        kind = INSTANCE
    elif lca not in (u, v):
        kind = APART
    else:
        kind = SAME if u == v and not tree.children(u) else ANCESTOR
    return relation_code(kind, depth, depth_of_tree)
