"""Find the nodes of one taxonomy in another: by path, or else by name."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor

from labeltree.taxonomy.graph import Graph

__all__ = ["Matching", "match_nodes"]


class Matching(NamedTuple):
    """The nodes of one taxonomy matched to the nodes of another.

    Attributes:
        nodes: (N,) int64, the target node of each source node, -1 if no match is certain.
        ambiguous: source nodes without a match because their name occurs several times in either taxonomy.
    """

    nodes: Tensor
    ambiguous: list[int]


def match_nodes(source: Graph, target: Graph) -> Matching:
    """Find the nodes of a taxonomy in another one; the roots match whatever their names.

    A node matches the node at the same path (in a DAG: at its shortest path), or else the node of the same
    name if that name occurs once in each taxonomy.

    Args:
        source: the taxonomy whose nodes are matched.
        target: the taxonomy in which they are looked for.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> source = Taxonomy.from_paths(["pet/dog", "pet/other", "farm/other"])
        >>> target = Taxonomy.from_paths(["mammal/canine/dog", "mammal/other", "fish/other"])
        >>> match_nodes(source, target)
        Matching(nodes=tensor([ 0, -1,  3, -1, -1, -1]), ambiguous=[3, 5])
    """
    named: dict[str, list[int]] = {}
    for node in range(1, len(target)):
        named.setdefault(target.names[node], []).append(node)
    found, ambiguous = [0], []
    here = Counter(source.names[1:])
    for node in range(1, len(source)):
        there = target.follow(source.path(node))
        alike = named.get(source.names[node], [])
        if there is None and alike:
            certain = len(alike) == 1 and here[source.names[node]] == 1
            there = alike[0] if certain else None
            ambiguous += [] if certain else [node]
        found.append(-1 if there is None else there)
    return Matching(torch.tensor(found), ambiguous)
