"""HAPPIER: a smooth surrogate of H-AP, beside a normalised softmax that keeps the finest classes apart."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.geometry import Sphere
from labeltree.geometry.hand_written import differentiable_once
from labeltree.losses.batch import check_batch, follow_device
from labeltree.losses.contrastive.h_ap_surrogate import SmoothRank, h_ap_surrogate
from labeltree.losses.proxies.normalised_softmax import NormalisedSoftmaxLoss
from labeltree.losses.reduction import propagate_nan
from labeltree.pairs import union_batch
from labeltree.taxonomy import Taxonomy

__all__ = ["HAPPIERLoss"]

Relevance = Literal["pop", "map"]
Variant = Literal["paper", "reference"]

_MOST_ANCHORS = 128
_PAIRS = 2**16
"""Of anchors and results that are held at a time."""


class HAPPIERLoss(NormalisedSoftmaxLoss):
    """HAPPIER (Ramzi et al. 2022, Hierarchical Average Precision Training for Pertinent Image Retrieval).

        L = (1 − λ)·L_HAP + λ·L_softmax
        L_HAP = mean over anchors of 1 − Σ_k H-rank(k)/rank(k) / Σ_k rel(k)

    Every row of the batch is a query among the others. rel(k) is the relevance of result k, which shares l of
    the L depths with the anchor: "pop": (l/L)^α / |results at exactly l|, or "map": Σ_{p≤l} 1 / |results at p
    or deeper|. H-rank(k) = Σ_j min(rel(j), rel(k)) over the results ahead of k, k included, has no gradient.
    rank(k) counts the results ahead of k; those less relevant than k, by the smooth step H⁻ of the difference
    d of the cosines: σ(d/τ) up to 0, σ(d/τ) + 1/2 up to δ, ρ·(d − δ) + offset beyond. L_softmax is the
    `NormalisedSoftmaxLoss` of the leaves. `h_ap_surrogate` computes all this exactly to 1e-8, in O(n log n)
    time and O(n) memory for every anchor; the published code takes n² of both.

    What the paper leaves open: rows of one instance share all depths. A pair of a label and its ancestor, or
    of one inner node twice, shares that node's depth; what is below is undecided, so the pair counts neither
    for nor against results that share more. Rows without a label are nobody's results but their own views'.

    Args:
        taxonomy: The tree of the labels.
        dim: d, dimension of the embeddings.
        weight: λ from 0 to 1, of the normalised softmax.
        temperature: Temperature of the normalised softmax.
        relevance: "pop" or "map".
        alpha: α ≥ 0 of "pop".
        rank_temperature: τ, from 0.005 to δ/5.
        slope: ρ ≥ 0.
        delta: δ.
        offset: The step at δ.
        variant: "paper", or "reference", as in the published code: each anchor is its own first result, and
            what shares less depth than k is less relevant. With "pop" that is not the same: of many results
            at a depth each may have less relevance than a single one above.

    Attributes:
        proxies: `(num_leaves, dim)` parameter, in the order of `classes`.

    Call with `embeddings (n, dim)`, `nodes (n,)`, −1 where missing, and `instances (n,)` or None. The mean is
    over the anchors that have a relevant result; without any, L_HAP is exactly 0. With `torch.distributed`, a
    loss in training mode ranks the rows of all ranks for every anchor.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = HAPPIERLoss(taxonomy, dim=2, weight=0.0)
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
        >>> round(loss(z, taxonomy.encode(["dog", "dog", "cat", "oak"])).item(), 4)
        0.346
    """

    label_sets = None  # every row is ranked among the others once
    taxonomy_paths: Tensor
    decided: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        dim: int,
        weight: float = 0.1,
        *,
        temperature: float = 0.05,
        relevance: Relevance = "pop",
        alpha: float = 1.0,
        rank_temperature: float = 0.01,
        slope: float = 100.0,
        delta: float = 0.05,
        offset: float = 1.44,
        variant: Variant = "paper",
    ) -> None:
        super().__init__(taxonomy, dim, temperature)
        if not 0 <= weight <= 1:
            raise ValueError(f"weight must lie between 0 and 1; got {weight}")
        check_choice("relevance", relevance, Relevance)
        check_choice("variant", variant, Variant)
        if not 0 <= alpha < math.inf:
            raise ValueError(f"alpha must be at least 0; got {alpha}")
        self.weight = weight
        self.relevance = relevance
        self.variant = variant
        self.alpha = alpha
        self.step = SmoothRank(rank_temperature, slope, delta, offset)
        self.rank_temperature, self.slope, self.delta, self.offset = rank_temperature, slope, delta, offset
        leaf = taxonomy.height == 0
        self.register_buffer("taxonomy_paths", taxonomy.paths, persistent=False)
        # the last depth at which a label says what a sample is
        decided = torch.where(leaf, taxonomy.max_depth, taxonomy.depth)
        self.register_buffer("decided", decided, persistent=False)

    def forward(self, embeddings: Tensor, nodes: Tensor, instances: Tensor | None = None) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        classified = super().forward(embeddings, nodes)
        return self.weight * classified + (1 - self.weight) * self.ranked(embeddings, nodes, instances)

    def ranked(self, embeddings: Tensor, nodes: Tensor, instances: Tensor | None = None) -> Tensor:
        """L_HAP of a batch, a scalar."""
        checked, instances = check_batch(embeddings, nodes, instances, len(self.decided))
        follow_device(self, self.decided, embeddings.device)
        points = Sphere().project(embeddings)
        labels = {"nodes": checked, "instances": instances}
        batch = union_batch(points, labels, over_ranks=self.training)
        loss: Tensor = _Ranked.apply(
            batch.embeddings, self, batch.columns["nodes"], batch.columns["instances"]
        )
        return propagate_nan(loss.to(points.dtype), embeddings)

    def shared(self, nodes: Tensor, instances: Tensor | None, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        """What anchors share with all rows.

        Args:
            nodes: `(n,)` labels of a batch.
            instances: `(n,)` or None.
            rows: The anchors, b of the batch.

        Returns:
            `(b, n)` the depth that they share; bool, which rows are the anchor's results; and bool, whether
            they certainly share no more.
        """
        mine = nodes[rows]
        paths = self.taxonomy_paths
        depth = torch.zeros(len(mine), len(nodes), dtype=torch.int64, device=nodes.device)
        for column in paths.unbind(1):
            own, other = (torch.where(x >= 0, column[x.clamp(min=0)], -1) for x in (mine, nodes))
            depth += (own[:, None] == other) & (own[:, None] >= 0)
        last, decided = paths.shape[1], torch.where(nodes >= 0, self.decided[nodes.clamp(min=0)], 0)
        known = depth < torch.minimum(decided[rows, None], decided)
        known |= depth == last
        ranked = (mine[:, None] >= 0) & (nodes >= 0)
        if instances is not None:
            same = instances[rows, None] == instances
            depth = torch.where(same, last, depth)
            known, ranked = known | same, ranked | same
        place = torch.arange(len(nodes), device=nodes.device)
        itself = place[rows, None] == place
        if self.variant == "paper":
            return depth, ranked & ~itself, known
        return depth.masked_fill(itself & ranked, last), ranked, known | itself

    def relevances(self, depth: Tensor, ranked: Tensor) -> Tensor:
        """`(b, L + 1)` float64 relevance of each depth for each anchor; see `shared`."""
        last = self.taxonomy_paths.shape[1]
        counts = torch.zeros(len(depth), last + 1, dtype=torch.float64, device=depth.device)
        counts.scatter_add_(1, depth, ranked.double())
        counts[:, 0] = 0
        if self.relevance == "map":
            deeper = counts.flip(1).cumsum(1).flip(1)
            each = torch.where(deeper > 0, 1 / deeper.clamp(min=1), 0.0)
            each[:, 0] = 0
            return each.cumsum(1)
        steps = (torch.arange(last + 1, dtype=torch.float64, device=depth.device) / last) ** self.alpha
        return torch.where(counts > 0, steps / counts.clamp(min=1), 0.0)


class _Ranked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, points: Tensor, loss: HAPPIERLoss, nodes: Tensor, instances: Tensor | None
    ) -> Tensor:
        n = len(points)
        exact = points.double().nan_to_num(0.0, 0.0, 0.0)
        total, gradient = exact.new_zeros(()), torch.zeros_like(exact)
        count = 0
        chunk = max(1, min(_MOST_ANCHORS, _PAIRS // max(n, 1)))
        with torch.autocast(points.device.type, enabled=False):
            for start in range(0, n, chunk):
                rows = slice(start, min(start + chunk, n))
                depth, ranked, known = loss.shared(nodes, instances, rows)
                relevance = loss.relevances(depth, ranked)
                similarity = (exact[rows] @ exact.T).clamp(-1, 1)
                values, slopes = h_ap_surrogate(
                    similarity,
                    depth,
                    ranked,
                    known,
                    relevance,
                    loss.step,
                    by_depth=loss.variant == "reference",
                )
                total += values.sum()
                count += int((ranked & (depth > 0)).any(1).sum())
                gradient[rows] += slopes @ exact
                gradient += slopes.T @ exact[rows]
        ctx.save_for_backward((gradient / max(count, 1)).to(points.dtype), points)
        return total / max(count, 1)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        gradient, _ = ctx.saved_tensors
        return gradient * grads[0], None, None, None
