"""Labels cut to one depth of the taxonomy."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.metrics.metric_checks import check_nodes
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.dag import check_tree

__all__ = ["nodes_at_depth"]


def nodes_at_depth(nodes: Tensor, taxonomy: AnyTaxonomy, depth: int) -> Tensor:
    """Cut labels to one depth: the node of that depth on each label's path.

    Args:
        nodes: (n,) nodes, -1 for a missing label.
        taxonomy: The tree.
        depth: Depth to cut to, 1 (coarsest) to `taxonomy.max_depth`.

    Returns:
        (n,) int64; a leaf shallower than `depth` stays itself, an inner node coarser than `depth` becomes -1.

    Raises:
        ValueError: If `depth` is not a depth of the taxonomy, or `nodes` are not nodes of the taxonomy.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("squid",)])
        >>> nodes = taxonomy.encode(["mammal/cat", "squid", "mammal"])
        >>> taxonomy.decode(nodes_at_depth(nodes, taxonomy, 1))
        ['mammal', 'squid', 'mammal']
        >>> taxonomy.decode(nodes_at_depth(nodes, taxonomy, 2))
        ['mammal/cat', 'squid', None]

    """
    tree = check_tree("labels at one depth", taxonomy)
    check_nodes("nodes", nodes, tree)
    if not 1 <= depth <= taxonomy.max_depth:
        raise ValueError(f"depth is {depth!r}; expected a depth of the taxonomy, 1 to {taxonomy.max_depth}")
    paths = tree.paths.to(nodes.device)
    return torch.where(nodes >= 0, paths[nodes.clamp(min=0), depth - 1], -1)
