"""Means of a score over the samples below every node."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.taxonomy import Taxonomy

__all__ = ["by_subtree"]


def by_subtree(values: Tensor, nodes: Tensor, tree: Taxonomy) -> dict[str, float]:
    """Path name of a node → mean of the values of the samples labelled at or below it.

    Args:
        values: ``(n,)`` score of each sample, NaN where it does not count.
        nodes: ``(n,)`` labels, none missing.
        tree: of the labels.

    Returns:
        in node order, ``/`` for the root first; nodes without a sample that counts are left out.

    Example:
        >>> import torch
        >>> tree = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> by_subtree(torch.tensor([1.0, 0.0]), tree.encode(["dog", "cat"]), tree)
        {'/': 0.5, 'mammal': 0.5, 'mammal/dog': 1.0, 'mammal/cat': 0.0}
    """
    counted = ~values.isnan()
    lines = tree.ancestors[nodes[counted]]
    on_line = lines >= 0
    score = values[counted].double()[:, None].expand(lines.shape)
    sizes = torch.bincount(lines[on_line], minlength=tree.num_nodes)
    sums = torch.bincount(lines[on_line], weights=score[on_line], minlength=tree.num_nodes)
    means = (sums / sizes).tolist()
    return {tree.path_name(node): means[node] for node in sizes.nonzero().squeeze(1).tolist()}
