"""Hierarchical proxies: a proxy for each leaf, coarser ones that are means, and a softmax at each depth."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Sphere
from labeltree.losses.classifiers.classes import class_nodes, class_ranges, node_log_likelihood
from labeltree.losses.proxies.unit_proxies import ProxyLoss
from labeltree.losses.reduction import propagate_nan
from labeltree.losses.relation_table import DepthWeights, depth_weights
from labeltree.taxonomy import Taxonomy

__all__ = ["HierarchicalProxyLoss"]


class HierarchicalProxyLoss(ProxyLoss):
    """A proxy loss at every depth, with coarse proxies that are means of the finer (Yang et al. 2022).

        L = Σ_l λ_l · mean over labelled rows of −log p_l(y),   p_l(v) = Σ_{a∈v} softmax_a(cos(z, P_a)/τ)
        P_a = mean of P_c/|P_c| over the leaves c below a

    a runs over the classes of depth l: the nodes of that depth and the leaves above it. The proxies of leaves
    are learnt; the gradient of a coarse proxy goes to the leaves below it. The paper puts the structure over
    any proxy loss; ours is the softmax over cosines. A label at an inner node is a class at its own depth,
    counts as its ancestor above that, and is as likely as the classes below it together at finer depths.

    Args:
        taxonomy: The tree of the labels.
        dim: d, dimension of the embeddings.
        weights: λ_l per depth 1 … L, coarse → fine; one number, or a name, see `depth_weights`.
        temperature: τ > 0.

    Attributes:
        proxies: `(num_leaves, dim)` parameter, in the order of `classes`.

    Call with `embeddings (n, dim)` and `nodes (n,)`, −1 where missing. The mean is over labelled rows, of all
    ranks in training; without any it is exactly 0.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = HierarchicalProxyLoss(taxonomy, dim=3)
        >>> with torch.no_grad():
        ...     _ = loss.proxies.copy_(torch.eye(3))
        >>> loss.proxies_at(1)[0]  # the animals'
        tensor([0.5000, 0.5000, 0.0000], grad_fn=<SelectBackward0>)
        >>> z = torch.tensor([[1.0, 1.0, 0.0]])
        >>> animal, dog = (loss(z, taxonomy.encode([label])).item() for label in ("animal", "dog"))
        >>> round(animal, 3), round(dog, 3)  # an animal for certain; a dog or a cat
        (0.0, 0.694)
    """

    def __init__(
        self, taxonomy: Taxonomy, dim: int, weights: DepthWeights = "one", *, temperature: float = 0.1
    ) -> None:
        super().__init__(taxonomy, dim)
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0; got {temperature}")
        self.temperature = temperature
        depths = range(1, taxonomy.max_depth + 1)
        self.weights = depth_weights(weights, len(depths))
        for depth in depths:
            classes = class_nodes(taxonomy, depth)
            ranges = class_ranges(taxonomy, classes)
            self.register_buffer(f"ranges_{depth}", ranges, persistent=False)
            self.register_buffer(f"class_of_leaf_{depth}", ranges[self.classes, 0], persistent=False)

    def proxies_at(self, depth: int) -> Tensor:
        """The proxies of the classes of a depth from 1 to L, `(C_l, dim)`, in the order of `class_nodes`."""
        fine = Sphere().project(self.proxies)
        group: Tensor = getattr(self, f"class_of_leaf_{depth}")
        number = int(getattr(self, f"ranges_{depth}")[-1, 1])
        total = fine.new_zeros(number, self.dim).index_add(0, group, fine)
        return total / torch.bincount(group, minlength=number)[:, None]

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        cosines, nodes = self.prepare(self.logits(embeddings), nodes)
        total = cosines[:0].sum()
        finest = len(self.weights)
        for depth, weight in enumerate(self.weights.tolist(), start=1):
            if depth < finest:
                cosines_here = Sphere().pairwise_similarity(embeddings, self.proxies_at(depth))
            else:
                cosines_here = cosines
            ranges = getattr(self, f"ranges_{depth}")
            rows = -node_log_likelihood(cosines_here / self.temperature, nodes, ranges)
            total = total + weight * self.mean(rows, nodes)
        return propagate_nan(total, embeddings)
