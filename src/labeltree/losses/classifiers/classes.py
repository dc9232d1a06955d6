"""The classes of a classifier, and the likelihood that it gives to any label of the tree.

A label may be an inner node, and then stands for several classes; so may the target of a cross entropy.
"""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry.precision import answer_dtype
from labeltree.taxonomy import Taxonomy

__all__ = [
    "class_members",
    "class_nodes",
    "class_ranges",
    "label_paths",
    "merge_targets",
    "node_log_likelihood",
    "soft_cross_entropy",
]


def class_nodes(taxonomy: Taxonomy, depth: int | None = None) -> Tensor:
    """The classes of a taxonomy: its leaves, or the leaves of its cut at a depth.

    Args:
        taxonomy: The tree of the labels.
        depth: Depth of the finest classes, 1 (coarsest) to L; leaves above it are classes too. None: the
            leaves.

    Returns:
        `(C,)` int64, nodes in ascending order, the order of the columns of the logits.

    Raises:
        ValueError: If the tree has no such depth.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant",)])
        >>> [taxonomy.decode(class_nodes(taxonomy, depth)) for depth in (1, None)]
        [['animal', 'plant'], ['animal/dog', 'animal/cat', 'plant']]
    """
    if depth is None:
        return taxonomy.leaves
    if not 1 <= depth <= taxonomy.max_depth:
        raise ValueError(
            f"depth must lie between 1 and {taxonomy.max_depth}, the depth of the tree; got {depth}"
        )
    finest = (taxonomy.depth == depth) | (taxonomy.is_leaf & (taxonomy.depth < depth))
    return finest.nonzero()[:, 0]


def class_ranges(taxonomy: Taxonomy, classes: Tensor) -> Tensor:
    """The range of classes of each label: its first column and one past its last, `(N + 1, 2)` int64.

    A node's classes are those in its subtree; their columns are consecutive because nodes are numbered depth
    first. A node below a class stands for that class. The last row, at index −1, is for a missing label: all
    classes.

    Args:
        taxonomy: The tree of the labels.
        classes: `(C,)` nodes from `class_nodes`.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant",)])
        >>> class_ranges(taxonomy, class_nodes(taxonomy))[taxonomy.encode(["cat", "animal", None])].tolist()
        [[1, 2], [0, 2], [0, 3]]
    """
    first = torch.searchsorted(classes, torch.arange(len(taxonomy)))
    end = torch.searchsorted(classes, taxonomy.subtree_end)
    below = first == end  # the class is the node's ancestor, the last class that is numbered before it
    ranges = torch.stack([torch.where(below, first - 1, first), end], dim=1)
    return torch.cat([ranges, torch.tensor([[0, len(classes)]])])


def class_members(nodes: Tensor, ranges: Tensor, num_classes: int) -> Tensor:
    """Mask of the classes that each label stands for, `(n, C)` bool.

    Args:
        nodes: `(n,)` labels, −1 where missing.
        ranges: `(N + 1, 2)` from `class_ranges`.
        num_classes: C, the number of classes.
    """
    first, end = ranges[nodes].unbind(1)
    columns = torch.arange(num_classes, device=nodes.device)
    return (columns >= first[:, None]) & (columns < end[:, None])


def node_log_likelihood(logits: Tensor, nodes: Tensor, ranges: Tensor) -> Tensor:
    """log p(node) of every row's label under the softmax of its logits, `(n,)` ≤ 0.

    A label's probability is the sum over its classes: log p(v) = log Σ_{c∈v} e^{x_c} − log Σ_c e^{x_c}. For a
    class this is the log softmax; for the root and for a missing label it is exactly 0, with gradient 0.

    Args:
        logits: `(n, C)` floating point; half precision is widened to float32.
        nodes: `(n,)` labels on the device of the logits: classes, nodes above or below classes, or −1 if
            missing.
        ranges: `(N + 1, 2)` from `class_ranges`.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant",)])
        >>> ranges = class_ranges(taxonomy, class_nodes(taxonomy))
        >>> logits = torch.tensor([[0.5, 0.2, 0.3]]).log().expand(3, 3)
        >>> node_log_likelihood(logits, taxonomy.encode(["dog", "animal", None]), ranges).exp()
        tensor([0.5000, 0.7000, 1.0000])
    """
    logits = logits.to(answer_dtype(logits))
    if logits.device.type != "cpu":
        return _range_log_likelihood(logits, nodes, ranges)
    # Labels that are one class, mostly all, need no masks; a GPU would have to wait to know which they are.
    first, end = ranges[nodes].unbind(1)
    several = (end - first != 1).nonzero()[:, 0]
    log_likelihood = -torch.nn.functional.cross_entropy(logits, first, reduction="none")
    if not len(several):
        return log_likelihood
    return log_likelihood.index_copy(
        0, several, _range_log_likelihood(logits[several], nodes[several], ranges)
    )


def _range_log_likelihood(logits: Tensor, nodes: Tensor, ranges: Tensor) -> Tensor:
    """`node_log_likelihood` of labels that stand for any number of classes."""
    logits = logits - logits.detach().amax(1, keepdim=True)  # keeps precision for large logits
    outside = ~class_members(nodes, ranges, logits.shape[1])
    return logits.masked_fill(outside, -torch.inf).logsumexp(1) - logits.logsumexp(1)


def label_paths(taxonomy: Taxonomy) -> Tensor:
    """The path of every label from the root; below the label's depth the label itself is repeated.

    Args:
        taxonomy: The tree of the labels.

    Returns:
        `(N + 1, L + 1)` int64; the last row, all −1, is for a missing label.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("plant",)])
        >>> label_paths(taxonomy).tolist()
        [[0, 0, 0], [0, 1, 1], [0, 1, 2], [0, 3, 3], [-1, -1, -1]]
    """
    ancestors = taxonomy.ancestors
    own = torch.arange(len(taxonomy))[:, None]
    return torch.cat([torch.where(ancestors < 0, own, ancestors), torch.full_like(ancestors[:1], -1)])


def merge_targets(targets: Tensor, nodes: Tensor, ranges: Tensor) -> tuple[Tensor, Tensor]:
    """Split targets into the total weight of the label's own classes, and the weights of the other classes.

    Args:
        targets: `(n, C)` class weights; each row sums to 1.
        nodes: `(n,)` labels, −1 where missing.
        ranges: `(N + 1, 2)` from `class_ranges`.

    Returns:
        `(n,)` Σ_{c∈v} t_c, and `(n, C)` the targets with 0 for the label's own classes.
    """
    own = class_members(nodes, ranges, targets.shape[1])
    return targets.masked_fill(~own, 0.0).sum(1), targets.masked_fill(own, 0.0)


def soft_cross_entropy(logits: Tensor, nodes: Tensor, ranges: Tensor, targets: Tensor) -> Tensor:
    """−Σ_{c∉v} t_c log p_c − (Σ_{c∈v} t_c)·log p(v) of every row, `(n,)`, p the softmax of its logits.

    If the label v is a class, this is the cross entropy against the target. The classes of an inner node are
    treated as one event, so the loss does not depend on how probability is divided among them. It is 0 for
    the root and for missing labels.

    Args:
        logits: `(n, C)` floating point.
        nodes: `(n,)` labels, −1 where missing.
        ranges: `(N + 1, 2)` from `class_ranges`.
        targets: `(n, C)` class weights; each row sums to 1.
    """
    own, others = merge_targets(targets, nodes, ranges)
    log_likelihood = node_log_likelihood(logits, nodes, ranges)
    return -(others * torch.log_softmax(logits, 1)).sum(1) - own * log_likelihood
