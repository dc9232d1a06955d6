"""Trees with deliberate mistakes: a share of the nodes is moved to a wrong parent."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from labeltree.errors import TaxonomyError
from labeltree.lazy import torch
from labeltree.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["perturb"]

_DRAWS = 100


def perturb(taxonomy: Taxonomy, share: float, seed: int) -> tuple[Taxonomy, Tensor]:
    """Move a share of the nodes, with their subtrees, to another parent of the same depth.

    At every depth from 2 on, nodes are drawn and exchange their parents, so that each gets a different one.
    Every node keeps its depth and its number of children: the tree keeps its leaves and its shape, and only
    the positions are wrong. At depth 1 all nodes have the same parent, so nothing moves there.

    Of the n nodes of a depth, `share`·n are drawn, but at least two and at most as many as can all get a
    different parent: if m of the n nodes have the same parent, that is 2(n − m), or one fewer if an odd
    number cannot.

    Args:
        taxonomy: The true tree.
        share: Share of the nodes of each depth to move, 0 to 1; 0 gives an equal tree.
        seed: Seed of the random draws.

    Returns:
        The tree with mistakes, and for each node of the true tree, shape (N,), its node in the new tree.

    Raises:
        ValueError: If `share` is not between 0 and 1.
        TaxonomyError: If nothing can move, or siblings would always share a name.

    Example:
        >>> tree = Taxonomy.from_paths(["animal/dog", "animal/cat", "plant/oak", "plant/fir"])
        >>> wrong, to_wrong = perturb(tree, 0.5, seed=0)
        >>> wrong.path_name(to_wrong[tree.find("dog")]), wrong.path_name(to_wrong[tree.find("cat")])
        ('plant/dog', 'animal/cat')
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; it must be between 0 and 1")
    generator = torch.Generator().manual_seed(seed)
    parents: list[int] = taxonomy.parent.tolist()
    for _ in range(_DRAWS if share else 0):
        moved = list(parents)
        for depth in range(2, taxonomy.max_depth + 1):
            nodes = (taxonomy.depth == depth).nonzero()[:, 0]
            for node, parent in _exchange(nodes.tolist(), parents, share, generator).items():
                moved[node] = parent
        if moved == parents:
            raise TaxonomyError(
                "no node of this taxonomy can move: at no depth from 2 on do nodes have different parents"
            )
        if len({(parent, name) for parent, name in zip(moved, taxonomy.names, strict=True)}) == len(moved):
            parents = moved
            break
    else:
        if share:
            raise TaxonomyError(
                f"{_DRAWS} draws of share {share} all put two nodes with the same name under one parent; use "
                "more distinct names"
            )
    wrong = Taxonomy(taxonomy.names, parents)
    mapping = torch.empty_like(wrong.order)
    mapping[wrong.order] = torch.arange(len(wrong))
    return wrong, mapping


def _exchange(
    nodes: list[int], parents: list[int], share: float, generator: torch.Generator
) -> dict[int, int]:
    """New parents for a random part of the nodes, which all lie at one depth."""
    children = Counter(parents[node] for node in nodes)
    most = 2 * (len(nodes) - max(children.values(), default=0))
    count = min(max(2, round(share * len(nodes))), len(nodes), most)
    if count < 2:
        return {}
    drawn: list[int] = []
    siblings: Counter[int] = Counter()
    for place in torch.randperm(len(nodes), generator=generator).tolist():
        node = nodes[place]
        # With no more than half of them under one parent, a turn by the largest group moves every one.
        if len(drawn) < count and siblings[parents[node]] < count // 2:
            drawn.append(node)
            siblings[parents[node]] += 1
    rank = {parent: place for place, (parent, _) in enumerate(siblings.most_common())}
    drawn.sort(key=lambda node: rank[parents[node]])
    turn = max(siblings.values())
    return {node: parents[drawn[(i + turn) % len(drawn)]] for i, node in enumerate(drawn)}
