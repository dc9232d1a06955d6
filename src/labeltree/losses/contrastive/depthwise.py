"""HiMulCon, HiConE and HiMulConE of Use All The Labels: one softmax term per depth of the tree.

`DepthwiseLoss` is their base: the paper variants are tables of pair losses, bounded or not; the reference
variants compute what the authors' published code does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.geometry import Geometry
from labeltree.losses.contrastive.pairwise_loss import RelationLoss, bounded_relation_loss
from labeltree.losses.reduction import Reduction, propagate_nan
from labeltree.losses.relation_table import (
    DepthWeights,
    LossTable,
    Undecided,
    depth_table,
    depth_weights,
)
from labeltree.pairs import LabelRows, PairRelation, Similarity, relation_codes
from labeltree.taxonomy import Taxonomy

__all__ = [
    "DepthwiseLoss",
    "HiConELoss",
    "HiMulConELoss",
    "HiMulConLoss",
    "Positives",
    "Variant",
    "published_depth_losses",
]

Evaluate = Callable[[Tensor, PairRelation, LossTable], Tensor]
Positives = Literal["nested", "exact"]
Variant = Literal["paper", "reference"]


def published_depth_losses(
    embeddings: Tensor, relation: PairRelation, table: LossTable, evaluate: Evaluate
) -> Tensor:
    """SupCon at every depth, from the finest to the coarsest, as the published code computes it.

    After each depth, only one sample per node of that depth is kept for the next coarser one, with all its
    views. After the finest depth it is the node's first sample in the batch; later it is the one whose finer
    node comes first in the tree, as the published code sorts by label prefix.

    Cases that the published code does not cover: a sample whose label is too coarse for a depth skips it, a
    sample without a label takes no part, and a depth without positive pairs gives 0, not NaN.

    Args:
        embeddings: `(n, d)`.
        relation: Relation of the batch with itself.
        table: One term per depth, coarse → fine.
        evaluate: Computes the loss from a subset of the embeddings, their relation and a table of one term.

    Returns:
        `(L,)` losses, coarse → fine, without the factor τ/base_temperature.
    """
    rows = relation.queries
    first, sample = _samples(rows)
    alive = first[rows.nodes[first] >= 0]  # each sample is represented by its first row
    losses = []
    for depth in range(len(table) - 1, -1, -1):
        at_depth = rows.paths[alive, depth]
        decided = at_depth >= 0
        taking_part = torch.zeros(len(rows), dtype=torch.bool, device=alive.device)
        taking_part[alive[decided]] = True
        chosen = taking_part[first[sample]].nonzero()[:, 0]
        here = rows[chosen]
        part = PairRelation(here, here, offset=0)
        part.shard = _places(chosen, relation.shard)
        losses.append(evaluate(embeddings[chosen], part, table.term(depth)))
        alive = _one_per_node(alive, torch.where(decided, at_depth, rows.nodes[alive]), decided)
    return torch.stack(losses[::-1])


def _places(chosen: Tensor, shard: slice | None) -> slice | None:
    """The positions of the rows of a shard among the chosen rows, which are sorted."""
    if shard is None:
        return None
    start, stop = torch.searchsorted(chosen, chosen.new_tensor([shard.start, shard.stop])).tolist()
    return slice(start, stop)


def _samples(rows: LabelRows) -> tuple[Tensor, Tensor]:
    """The first row of every sample, in the order of the batch, and each row's index among the samples."""
    n, device = len(rows), rows.nodes.device
    index = torch.arange(n, device=device)
    if rows.instances is None:
        return index, index
    ids, sample = torch.unique(rows.instances, return_inverse=True)
    first = torch.full((len(ids),), n, device=device).scatter_reduce(0, sample, index, "amin")
    first, order = first.sort()
    return first, order.argsort()[sample]


def _one_per_node(alive: Tensor, node: Tensor, decided: Tensor) -> Tensor:
    """The first row of `alive` at every node, and all undecided rows, in the order of the nodes."""
    node, order = node.sort(stable=True)
    new = torch.ones_like(decided)
    new[1:] = node[1:] != node[:-1]
    return alive[order][new | ~decided[order]]


class DepthwiseLoss(RelationLoss):
    """Base of HiMulCon, HiConE and HiMulConE, a weighted sum over depths; `HiMulConELoss` has the arguments.

    Attributes:
        constrained: Whether to apply the constraint that no depth has a smaller loss than a finer one.
    """

    constrained: ClassVar[bool] = True

    def __init__(
        self,
        taxonomy: Taxonomy,
        weights: DepthWeights = "exp_inv",
        temperature: float = 0.1,
        *,
        positives: Positives = "nested",
        variant: Variant = "reference",
        detach_bound: bool = False,
        base_temperature: float = 0.07,
        geometry: Geometry | str | None = None,
        similarity: Similarity | None = None,
        reduction: Reduction = "valid",
        undecided: Undecided = "ignore",
    ) -> None:
        num_depths = taxonomy.max_depth
        check_choice("variant", variant, Variant)
        published = (positives, reduction, undecided, detach_bound) == ("nested", "valid", "ignore", False)
        if variant == "reference" and not published:
            raise ValueError(
                "variant='reference' computes what the published code does: positives='nested', "
                "reduction='valid', undecided='ignore', detach_bound=False; other values need variant='paper'"
            )
        lambdas = depth_weights(weights, num_depths)
        # Eq. 4, 6, 7 divide by |L|; the published code by its label columns, of which one is the image id
        lambdas = lambdas / (num_depths if variant == "paper" else num_depths + 1)
        super().__init__(
            taxonomy,
            depth_table(relation_codes(num_depths), lambdas, positives, undecided),
            temperature=temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
        )
        self.weights = weights
        self.positives = positives
        self.undecided = undecided
        self.variant = variant
        self.detach_bound = detach_bound
        self.base_temperature = base_temperature
        if variant == "reference":
            self.label_sets = None

    def forward(
        self, embeddings: Tensor, nodes: Tensor | None = None, instances: Tensor | None = None
    ) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        if self.variant == "reference":
            return self._published(embeddings, nodes, instances)
        if not self.constrained:
            return super().forward(embeddings, nodes, instances)
        embeddings, relation, table = self._prepare(embeddings, nodes, instances)
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

    def _published(self, embeddings: Tensor, nodes: Tensor | None, instances: Tensor | None) -> Tensor:
        if nodes is None:
            raise ValueError(
                "variant='reference' needs nodes: the published code has no batch without labels; "
                "variant='paper' has"
            )
        if nodes.ndim > 1:
            raise ValueError(
                "variant='reference' keeps one sample of every node, which is not defined for samples with "
                "several labels; variant='paper' is"
            )
        embeddings, relation, table = self._prepare(embeddings, nodes, instances)
        losses = published_depth_losses(embeddings, relation, table, self._evaluate)
        losses = losses * (self.temperature / self.base_temperature)
        if self.constrained:
            losses = _running_max(losses)
        return propagate_nan((losses * table.term_weight).sum(), embeddings)


def _running_max(losses: Tensor) -> Tensor:
    """The maximum of each depth's loss and the losses of finer depths, `(L,)` coarse → fine."""
    bounded = list(losses)
    for depth in range(len(bounded) - 2, -1, -1):
        bounded[depth] = torch.where(bounded[depth] >= bounded[depth + 1], bounded[depth], bounded[depth + 1])
    return torch.stack(bounded)


class HiMulConLoss(DepthwiseLoss):
    """The hierarchical multi-label contrastive loss (Eq. 4 of Use All The Labels), a mean over anchors.

        L = Σ_{l=1..L} λ_l/L · mean_i 1/|P_l(i)| Σ_{p∈P_l(i)} −log( exp(s_ip) / Σ_{k≠i} exp(s_ik) )

    P_l(i) are the rows whose labels agree with the label of i at depth l, or that are of the same instance.

    `variant="reference"` is the authors' published code instead: after each depth only one sample per node
    goes on to the coarser depth, losses are multiplied by τ/base_temperature, and the sum is divided by L +
    1 (its number of label columns, the last being an image id). See `published_depth_losses`.

    Args:
        taxonomy: The tree of the labels.
        weights: λ per depth, coarse → fine: a name, a number or a list, see `depth_weights`. The default, e
            to the power of 1/(L + 1 − l), is the one that the paper uses.
        temperature: τ > 0.
        positives: `"nested"` (all that agree at the depth) or `"exact"` (and at no finer one).
        variant: `"paper"` or `"reference"`.
        base_temperature: Of the reference variant.
        geometry: The space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: See `reduce_terms`; depth by depth.
        undecided: Pairs whose labels leave open whether they agree at a depth are left out of that depth
            (`"ignore"`) or count as negatives (`"negative"`).

    Call with `embeddings (n, d)`, `nodes (n,)`, `instances (n,)` or None; see `RelationLoss`. With
    `nodes=None` it is SimCLR times the mean weight.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = HiMulConLoss(taxonomy, weights=[0.5, 1.0], temperature=0.5)
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
        >>> loss(z, taxonomy.encode(["dog", "dog", "cat", "oak"]))
        tensor(0.6800)
    """

    constrained = False

    def __init__(
        self,
        taxonomy: Taxonomy,
        weights: DepthWeights = "exp_inv",
        temperature: float = 0.1,
        *,
        positives: Positives = "nested",
        variant: Variant = "paper",
        base_temperature: float = 0.07,
        geometry: Geometry | str | None = None,
        similarity: Similarity | None = None,
        reduction: Reduction = "valid",
        undecided: Undecided = "ignore",
    ) -> None:
        super().__init__(
            taxonomy,
            weights,
            temperature,
            positives=positives,
            variant=variant,
            base_temperature=base_temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
            undecided=undecided,
        )


class HiMulConELoss(DepthwiseLoss):
    """HiMulConE of Use All The Labels: a sum over depths, no depth with a smaller loss than a finer one.

    `variant="reference"`, the default, is the authors' published code. It bounds the *mean* losses of the
    depths: a running maximum, from finest to coarsest, of the losses of `published_depth_losses` times
    τ/base_temperature, summed with λ_l and divided by L + 1.

    `variant="paper"` is Eq. 7 as printed, which bounds every *pair*:

        L = Σ_{l=1..L} λ_l/L · mean_i 1/|P_l(i)| Σ_{p∈P_l(i)} max( ℓ(i,p), M_{l+1} )
        ℓ(i,p) = −log( exp(s_ip) / Σ_{k≠i} exp(s_ik) ),   M_l = the largest term of depth l,   M_{L+1} = −∞

    from the finest depth to the coarsest; `bounded_relation_loss` has the details. Eq. 7 saturates: in random
    batches nearly every coarse pair lies at its bound, and the gradient of a depth goes to the one pair that
    set the bound, so that almost nothing is learned (`docs/objectives/hicone.md` has the figures).

    Args:
        taxonomy: The tree of the labels.
        weights: λ per depth, coarse → fine: a name, a number or a list, see `depth_weights`.
        temperature: τ > 0.
        positives: `"nested"` (all that agree at the depth) or `"exact"` (and at no finer one).
        variant: `"reference"` or `"paper"`. `"reference"` needs `positives="nested"`, `detach_bound=False`,
            `reduction="valid"` and `undecided="ignore"`.
        detach_bound: Whether the M are constants for the gradient.
        base_temperature: Of the reference variant.
        geometry: The space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: See `reduce_terms`; depth by depth.
        undecided: Pairs whose labels leave open whether they agree at a depth are left out of that depth
            (`"ignore"`) or count as negatives (`"negative"`).

    Call with `embeddings (n, d)`, `nodes (n,)`, `instances (n,)` or None; see `RelationLoss`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = HiMulConELoss(taxonomy, weights=[0.5, 1.0], temperature=0.5)
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
        >>> loss(z, taxonomy.encode(["dog", "dog", "cat", "oak"]))
        tensor(3.1097)
    """


class HiConELoss(HiMulConELoss):
    """The hierarchical constraint enforcing loss of Use All The Labels (Eq. 6): `HiMulConELoss`, λ_l = 1.

    Args:
        taxonomy: The tree of the labels.
        temperature: τ > 0.
        positives: As in `HiMulConELoss`.
        variant: Likewise.
        detach_bound: Likewise.
        base_temperature: Likewise.
        geometry: Likewise.
        similarity: Likewise.
        reduction: Likewise.
        undecided: Likewise.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
        >>> HiConELoss(taxonomy, temperature=0.5)(z, taxonomy.encode(["dog", "dog", "cat", "oak"]))
        tensor(4.1463)
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        temperature: float = 0.1,
        *,
        positives: Positives = "nested",
        variant: Variant = "reference",
        detach_bound: bool = False,
        base_temperature: float = 0.07,
        geometry: Geometry | str | None = None,
        similarity: Similarity | None = None,
        reduction: Reduction = "valid",
        undecided: Undecided = "ignore",
    ) -> None:
        super().__init__(
            taxonomy,
            "one",
            temperature,
            positives=positives,
            variant=variant,
            detach_bound=detach_bound,
            base_temperature=base_temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
            undecided=undecided,
        )
