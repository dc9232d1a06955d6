"""CSL, cross-scale learning: a proxy for each leaf, and wider margins towards classes that part earlier."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from labeltree.geometry.precision import widen
from labeltree.losses.proxies.unit_proxies import ProxyLoss
from labeltree.losses.reduction import labelled_mean, propagate_nan
from labeltree.losses.relation_table import depth_weights
from labeltree.taxonomy import Taxonomy

__all__ = ["CSLLoss"]

_FINEST, _COARSEST = 0.25, 0.45
# Exponents lie within 2κ of each other: their exponentials are numbers of float32, or of float64.
_LARGEST_IN_SINGLE, _LARGEST = 40, 300


class CSLLoss(ProxyLoss):
    """Cross-scale learning (Sun et al. 2021, Dynamic Metric Learning).

        L = Σ_l mean over rows of softplus( log Σ_{c: c_l≠y_l} e^{κ·s_c} − log Σ_{c∈y} e^{κ·s_c} + κ·m_l )

    s_c is the cosine of the embedding and the proxy of leaf c; c_l and y_l are the nodes of leaf and label on
    their paths at depth l. At every depth the row is drawn to the proxy of its own leaf, and held away, by
    the margin m_l, from the proxies of other classes of that depth. If the label is a leaf, the second
    logarithm is κ·s_y, as in the paper.

    Args:
        taxonomy: The tree of the labels.
        dim: d, dimension of the embeddings.
        scale: κ > 0, at most 300.
        margins: m_l per depth 1 … L, coarse → fine, or one number; None: in even steps from 0.45 at the
            coarsest depth to 0.25 at the finest, 0.45, 0.35, 0.25 for three depths (the paper's) and 0.25 for
            one.

    Attributes:
        proxies: `(num_leaves, dim)` parameter, in the order of `classes`.

    Call with `embeddings (n, dim)` and `nodes (n,)`, −1 where missing. A label at an inner node stands for
    its leaves together; at depths below its own it is undecided what lies outside, and the row is left out
    there. A leaf above depth l is its own class at l. Means are over the rows that count at the depth, of all
    ranks in training; without any the loss is exactly 0.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = CSLLoss(taxonomy, dim=3, scale=8.0)
        >>> with torch.no_grad():
        ...     _ = loss.proxies.copy_(torch.tensor([[0.6, 0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]]))
        >>> z = torch.tensor([[0.6, 0.8, 0.0]])
        >>> loss.margins  # animals and plants lie further apart than dogs and cats
        tensor([0.4500, 0.2500], dtype=torch.float64)
        >>> loss(z, taxonomy.encode(["dog"])).item() > 1  # the cat is too near
        True
        >>> loss(z, taxonomy.encode(["animal"])).item() < 0.01
        True
    """

    schedulable = ("scale",)
    paths: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        dim: int,
        scale: float = 32.0,
        *,
        margins: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(taxonomy, dim)
        if not 0 < scale <= _LARGEST:
            raise ValueError(f"scale must be above 0 and at most {_LARGEST}; got {scale}")
        depths = taxonomy.max_depth
        if margins is None:
            steps = max(depths - 1, 1)
            margins = [_FINEST + (_COARSEST - _FINEST) * (depths - t) / steps for t in range(1, depths + 1)]
        self.scale = scale
        self.margins = depth_weights(margins, depths, "margins")
        self.register_buffer("paths", taxonomy.paths, persistent=False)

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        cosines, nodes = self.prepare(self.logits(embeddings), nodes)
        exponents = self.scale * (cosines if self.scale <= _LARGEST_IN_SINGLE else widen(cosines))
        exponents = exponents - exponents.detach().amax(1, keepdim=True)
        own = exponents.masked_fill(~self.members(nodes), -torch.inf).logsumexp(1)
        shares = exponents.exp()
        before = functional.pad(shares.cumsum(1), (1, 0))  # of the columns before each
        after = functional.pad(shares.flip(1).cumsum(1).flip(1), (0, 1))  # of each and those behind it
        total = cosines[:0].sum()
        for depth, margin in enumerate(self.margins.tolist()):
            at = self.paths[nodes, depth]
            decided = (at >= 0) & (nodes >= 0)
            first, end = self.ranges[torch.where(decided, at, -1)].unbind(1)
            outside = before.gather(1, first[:, None])[:, 0] + after.gather(1, end[:, None])[:, 0]
            others = (first > 0) | (end < len(self.classes))
            least = torch.finfo(outside.dtype).tiny
            odds = outside.clamp(min=least).log() - own + self.scale * margin
            rows = functional.softplus(odds).masked_fill(~others, 0.0)
            total = total + labelled_mean(rows, decided, over_ranks=self.training)
        return propagate_nan(total.to(cosines.dtype), embeddings)
