"""Losses with one softmax term per depth of the tree, as the three of Use All The Labels are."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.losses.bounded_loss import bounded_relation_loss
from labeltree.losses.depth_weights import DepthWeights, depth_weights
from labeltree.losses.published import published_depth_losses
from labeltree.losses.reduction import Reduction, hide_nothing
from labeltree.losses.relation_loss import RelationLoss, relation_loss
from labeltree.losses.table import Undecided, depth_table
from labeltree.pairs import Similarity, relation_space
from labeltree.taxonomy import Taxonomy

__all__ = ["DepthwiseLoss", "Positives", "Variant"]

Positives = Literal["nested", "exact"]
Variant = Literal["paper", "reference"]


class DepthwiseLoss(RelationLoss):
    """Base of HiMulCon, HiConE and HiMulConE: a weighted sum over depths, constrained or not.

    Args:
        taxonomy: the tree of the labels.
        weights: λ per depth, coarse → fine: a name, a number or a list, see `depth_weights`.
        temperature: τ > 0.
        constrained: whether a pair's loss is bounded below by the largest of the next finer depth.
        positives: `"nested"` or `"exact"`, see `depth_table`.
        variant: `"paper"` or `"reference"`, the published code's computation.
        detach_bound: whether the bounds are constants for the gradient.
        base_temperature: of `variant="reference"`, whose losses are multiplied by τ/base_temperature.
        geometry: the space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: see `reduce_terms`.
        undecided: `"ignore"` or `"negative"`, see `members`.
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        weights: DepthWeights,
        *,
        temperature: float,
        constrained: bool,
        positives: Positives,
        variant: Variant,
        detach_bound: bool,
        base_temperature: float,
        geometry: Geometry | str | None,
        similarity: Similarity | None,
        reduction: Reduction,
        undecided: Undecided,
    ) -> None:
        num_depths = taxonomy.max_depth
        if variant not in ("paper", "reference"):
            raise ValueError(f"variant must be 'paper' or 'reference'; got {variant!r}")
        if variant == "reference" and (positives, reduction, undecided, detach_bound) != (
            "nested",
            "valid",
            "ignore",
            False,
        ):
            raise ValueError(
                "variant='reference' computes what the published code does: positives='nested', "
                "reduction='valid', undecided='ignore', detach_bound=False; other values need variant='paper'"
            )
        lambdas = depth_weights(weights, num_depths)
        # Eq. 4, 6, 7 divide by |L|; the published code by its label columns, of which one is the image id
        lambdas = lambdas / (num_depths if variant == "paper" else num_depths + 1)
        super().__init__(
            taxonomy,
            depth_table(relation_space(num_depths), lambdas, positives, undecided),
            temperature=temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
        )
        self.weights = weights
        self.constrained = constrained
        self.positives = positives
        self.undecided = undecided
        self.variant = variant
        self.detach_bound = detach_bound
        self.base_temperature = base_temperature

    def forward(
        self, embeddings: Tensor, nodes: Tensor | None = None, instances: Tensor | None = None
    ) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        if self.variant == "reference":
            return self._reference(embeddings, nodes, instances)
        embeddings, relation, table = self._prepare(embeddings, nodes, instances)
        if not self.constrained:
            return relation_loss(
                embeddings,
                relation,
                table,
                temperature=self.temperature,
                geometry=self.geometry,
                similarity=self.similarity,
                reduction=self.reduction,
            )
        return bounded_relation_loss(
            embeddings,
            relation,
            table,
            temperature=self.temperature,
            geometry=self.geometry,
            similarity=self.similarity,
            reduction=self.reduction,
            detach_bound=self.detach_bound,
        )

    def _reference(self, embeddings: Tensor, nodes: Tensor | None, instances: Tensor | None) -> Tensor:
        if nodes is None:
            raise ValueError(
                "variant='reference' needs nodes: the published code has no batch without labels; "
                "variant='paper' has"
            )
        embeddings, relation, table = self._prepare(embeddings, nodes, instances)
        losses = published_depth_losses(
            embeddings,
            relation.queries,
            table,
            temperature=self.temperature,
            geometry=self.geometry,
            similarity=self.similarity,
            shard=relation.shard,
        )
        losses = losses * (self.temperature / self.base_temperature)
        if self.constrained:
            losses = _running_max(losses)
        return hide_nothing((losses * table.term_weight).sum(), embeddings)


def _running_max(losses: Tensor) -> Tensor:
    """The largest of each loss and those of the finer depths, `(L,)` coarse → fine."""
    bounded = list(losses)
    for depth in range(len(bounded) - 2, -1, -1):
        bounded[depth] = torch.where(bounded[depth] >= bounded[depth + 1], bounded[depth], bounded[depth + 1])
    return torch.stack(bounded)
