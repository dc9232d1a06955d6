"""Hier-COS: an orthogonal direction for every node, and a subspace for every answer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labeltree.geometry import Sphere
from labeltree.geometry.precision import answer_dtype, widen
from labeltree.losses.batch import check_width
from labeltree.losses.classifiers.classes import class_nodes
from labeltree.losses.classifiers.classifier import ClassifierLoss
from labeltree.losses.reduction import labelled_mean, propagate_nan
from labeltree.taxonomy import Taxonomy

__all__ = ["HierCOSLoss"]


class HierCOSLoss(ClassifierLoss):
    """Hier-COS: hierarchical composition of orthogonal subspaces (Sani & Anand 2026).

        L = mean over labelled rows of KL(q ‖ softmax|x|)  +  α·Σ_l (A_l + B_l)

        q_k = w_k² / Σ w²,  w_k = exp(1/(d + 1 − k)), on the nodes k = 1 … d of the path to a label of depth d
        A_l = mean over the rows with a label at depth l or below of Σ_v |[v is on the path] − |x_v|/‖x_l‖|
        B_l = mean over the rows whose label is a leaf above depth l of Σ_v |x_v|,   v: the nodes of depth l

    Every node but the root has one coordinate of x; x_l are those of the nodes of depth l. The subspace of a
    node is spanned by the coordinates of its ancestors, itself and all nodes below it, and its score is the
    length of x within it. One x thus answers at every depth, and nothing holds these answers together: a
    node's score counts all that is below it, of whichever class.

    A label at an inner node ends the path there. Which of the nodes below is true is undecided: they take no
    part in the row's softmax, nor the row in A and B of their depths.

    Args:
        taxonomy: The tree of the labels.
        dim: The number of nodes but the root, or None.
        alpha: α ≥ 0.

    Call with `embeddings (n, dim)`, in the order of the nodes, and `nodes (n,)`, −1 where missing. Missing
    labels take no part; labels at the root have loss 0. Means are over the rows of all ranks in training; one
    without rows is exactly 0.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = HierCOSLoss(taxonomy)
        >>> x = torch.tensor([[2.0, 2.0, 0.0, 3.0, 0.0]])  # animal, dog, cat, plant, oak
        >>> loss.logits(x).square().round()  # dog, cat, oak
        tensor([[8., 4., 9.]])
        >>> taxonomy.decode(loss.predict_depths(3 * x[0:1] - torch.tensor([0, 0, 0, 2.0, 0]))[0])
        ['animal', 'animal/dog']
    """

    schedulable = ("alpha",)
    ancestors: Tensor
    ends: Tensor
    depths: Tensor
    is_leaf: Tensor
    shares: Tensor

    def __init__(self, taxonomy: Taxonomy, dim: int | None = None, alpha: float = 0.05) -> None:
        super().__init__(taxonomy)
        self.dim = len(taxonomy) - 1
        if dim not in (None, self.dim):
            raise ValueError(
                f"dim must be {self.dim}, one dimension for each node below the root, or None; got {dim!r}"
            )
        if not 0 <= alpha < float("inf"):
            raise ValueError(f"alpha must be finite and not negative; got {alpha}")
        self.alpha = float(alpha)
        self.max_depth = taxonomy.max_depth
        missing = torch.tensor([-1])
        buffers = {
            "ancestors": torch.cat([taxonomy.ancestors, missing.expand(1, self.max_depth + 1)]),
            "ends": torch.cat([taxonomy.subtree_end, missing]),
            "depths": torch.cat([taxonomy.depth, missing]),
            "is_leaf": torch.cat([taxonomy.is_leaf, missing < -1]),
            "shares": _shares(self.max_depth),
        }
        for depth in range(1, self.max_depth + 1):
            buffers[f"answers_{depth}"] = class_nodes(taxonomy, depth)
            buffers[f"columns_{depth}"] = (taxonomy.depth == depth).nonzero()[:, 0] - 1
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer, persistent=False)

    def logits(self, embeddings: Tensor) -> Tensor:
        """The scores of the leaves, `(n, C)`: the length of x in their subspaces; float32 or better."""
        self._check_logits(embeddings)
        return self._scores(embeddings, self.classes)

    @torch.no_grad()
    def predict(self, embeddings: Tensor) -> Tensor:
        """The leaf of the largest score of each row, `(n,)` int64; ties go to the first."""
        return self.classes[self.logits(embeddings).argmax(1)]

    @torch.no_grad()
    def predict_depths(self, embeddings: Tensor) -> Tensor:
        """The node of the largest score at depth 1 … L, and the leaves above it, `(n, L)` int64.

        The answers of a row may contradict each other.
        """
        self._check_logits(embeddings)
        classes = [getattr(self, f"answers_{depth}") for depth in range(1, self.max_depth + 1)]
        return torch.stack([at[self._scores(embeddings, at).argmax(1)] for at in classes], 1)

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        x, nodes = self.prepare(embeddings, nodes)
        with torch.autocast(x.device.type, enabled=False):
            size = x.abs()
            loss = self.mean(self._divergence(size, nodes), nodes)
            for depth in range(1, self.max_depth + 1) if self.alpha else ():
                loss = loss + self.alpha * self._depth_term(size, nodes, depth)
        return propagate_nan(loss, embeddings)

    def _divergence(self, size: Tensor, nodes: Tensor) -> Tensor:
        """KL(q ‖ softmax|x|) of each row, `(n,)`, over the nodes that are not below its label."""
        columns = torch.arange(1, self.dim + 1, device=size.device)
        below = (columns > nodes[:, None]) & (columns < self.ends[nodes][:, None])
        below &= nodes[:, None] > 0
        logs = size - size.masked_fill(below, -torch.inf).logsumexp(1, keepdim=True)
        q = self.shares.to(size.dtype)[self.depths[nodes]]
        path = (self.ancestors[nodes, 1:] - 1).clamp(min=0)
        terms: Tensor = torch.special.xlogy(q, q) - q * logs.gather(1, path)
        return terms.sum(1)

    def _depth_term(self, size: Tensor, nodes: Tensor, depth: int) -> Tensor:
        """A + B of a depth."""
        columns = getattr(self, f"columns_{depth}")
        here, own = size[:, columns], self.ancestors[nodes, depth]
        there = torch.searchsorted(columns, (own - 1).clamp(min=0)).clamp(max=len(columns) - 1)
        unit = Sphere().project(here)
        away = unit.sum(1) + 1 - 2 * unit.gather(1, there[:, None])[:, 0]
        ended = self.is_leaf[nodes] & (self.depths[nodes] < depth)
        every = self.training
        return labelled_mean(away, own >= 0, over_ranks=every) + labelled_mean(
            here.sum(1), ended, over_ranks=every
        )

    def _scores(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """The length of x `(n, dim)` in the subspaces of nodes `(m,)`, `(n, m)`."""
        square = nn.functional.pad(widen(embeddings).square(), (1, 1))  # the root, and a missing ancestor
        running = nn.functional.pad(square.cumsum(1), (1, 0))
        total = running[:, self.ends[nodes]] - running[:, nodes]
        for above in self.ancestors[nodes, 1:].unbind(1):
            total = total + square[:, torch.where(above == nodes, -1, above)]
        return total.clamp(min=0).sqrt().to(answer_dtype(embeddings))

    def _check_logits(self, logits: Tensor) -> None:
        check_width(logits, self.dim, f"one dimension for each of {self.dim} nodes below the root")


def _shares(max_depth: int) -> Tensor:
    """q of the path of a label of depth d, `(L + 2, L)` float64; none at the root and at −1, the last."""
    shares = torch.zeros(max_depth + 2, max_depth, dtype=torch.float64)
    for depth in range(1, max_depth + 1):
        weights = torch.exp(1 / torch.arange(depth, 0, -1, dtype=torch.float64))
        shares[depth, :depth] = weights.square() / weights.square().sum()
    return shares
