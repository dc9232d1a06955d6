"""Contrastive losses over a batch: NT-Xent by views, SupCon by labels, and SupCon with tree weights."""

from __future__ import annotations

import warnings
from typing import Literal

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.losses.contrastive.pairwise_loss import RelationLoss
from labeltree.losses.reduction import Reduction
from labeltree.losses.relation_table import (
    LossTable,
    Undecided,
    instance_table,
    members,
    same_label,
)
from labeltree.pairs import RelationCodes, Rho, Similarity, relation_codes
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.relations import INSTANCE

__all__ = ["NTXentLoss", "SupConLoss", "WeightedSupConLoss", "outside_table"]


class NTXentLoss(RelationLoss):
    """The normalised temperature-scaled cross entropy of SimCLR (Chen et al. 2020); labels play no part.

    The positives of a row are the other views of its sample; all other rows compete:

        L_i = mean over views p of i of −log( exp(s_ip) / Σ_{k≠i} exp(s_ik) ),   s = cos/τ

    Args:
        temperature: τ > 0.
        geometry: The space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: See `reduce_terms`.

    Call with `embeddings (n, d)`, `nodes` (ignored) and `instances (n,)`: rows of one id are views of one
    sample; without them, none has a positive and the loss is 0.

    Example:
        >>> import torch
        >>> loss = NTXentLoss(temperature=0.5)
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> loss(z, instances=torch.tensor([0, 0, 1, 1]))
        tensor(0.2395)
    """

    def __init__(
        self,
        temperature: float = 0.1,
        *,
        geometry: Geometry | str | None = None,
        similarity: Similarity | None = None,
        reduction: Reduction = "valid",
    ) -> None:
        super().__init__(
            None,
            instance_table(relation_codes(0)),
            temperature=temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
        )
        self._warned = False

    def forward(
        self, embeddings: Tensor, nodes: Tensor | None = None, instances: Tensor | None = None
    ) -> Tensor:
        """The loss of a batch; see the class. It warns of labels without instances."""
        if nodes is not None and instances is None and not self._warned:
            self._warned = True
            warnings.warn(
                "NTXentLoss got labels and no instances: labels play no part in it, and without views of one "
                "sample it is 0. Give the sample of each row, as instances=torch.arange(n).repeat(2) for two "
                "views of n samples; for positives by label take SupConLoss",
                stacklevel=2,
            )
        return super().forward(embeddings, nodes, instances)


class SupConLoss(RelationLoss):
    """The supervised contrastive loss (Khosla et al. 2020, L_out), of the finest labels or at one depth.

        L_i = 1/|P(i)| Σ_{p∈P(i)} −log( exp(s_ip) / Σ_{k≠i} exp(s_ik) ),   s = cos/τ

    P(i) are the other rows of the same label or the same instance (Eq. 2 of Use All The Labels, with its
    minus sign).

    Args:
        taxonomy: The tree of the labels.
        temperature: τ > 0.
        depth: Labels are compared at this depth, 1 (coarsest) to L; None: at their finest.
        geometry: The space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: See `reduce_terms`; SupContrast's own code is `"all"`.
        undecided: a pair whose labels leave open whether they agree (one is an ancestor of the other, or
            missing) is left out (`"ignore"`) or counts as a negative (`"negative"`).

    Call with `embeddings (n, d)`, `nodes (n,)`, `instances (n,)` or None; see `RelationLoss`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> fine, coarse = SupConLoss(taxonomy), SupConLoss(taxonomy, depth=1)
        >>> nodes = taxonomy.encode(["dog", "cat", "oak"])
        >>> fine(z, nodes), coarse(z, nodes)
        (tensor(0.), tensor(0.0636))
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        temperature: float = 0.1,
        *,
        depth: int | None = None,
        geometry: Geometry | str | None = None,
        similarity: Similarity | None = None,
        reduction: Reduction = "valid",
        undecided: Undecided = "ignore",
    ) -> None:
        if depth is not None and not 1 <= depth <= taxonomy.max_depth:
            raise ValueError(
                f"depth must lie between 1 and {taxonomy.max_depth}, the depth of the tree; got {depth}"
            )
        space = relation_codes(taxonomy.max_depth)
        super().__init__(
            taxonomy,
            LossTable.single(same_label(space, depth), members(space, undecided, depth)),
            temperature=temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
        )
        self.depth = depth
        self.undecided = undecided


def outside_table(
    space: RelationCodes,
    positives: Literal["related", "same"] = "related",
    alpha: float = 0.5,
    rho: Rho = "max_depth",
    undecided: Undecided = "ignore",
) -> LossTable:
    """One term whose pair losses are weighted by relation; see `WeightedSupConLoss`."""
    r, kind, depth = space.rho(rho), space.spread(space.relations.kind), space.spread(space.relations.depth)
    if positives == "same":
        normaliser = same_label(space).double()
        positive = normaliser * (1 + alpha * r)
        member = members(space, undecided)
    elif positives == "related":
        # Views of a sample without a label have no known common ancestor, but are its only positives.
        normaliser = positive = torch.where((kind == INSTANCE) & (depth == 0), 1.0, r)
        member = members(space, undecided, depth=1)  # related means agreeing at depth 1
    else:
        raise ValueError(f"positives is {positives!r}; expected 'related' or 'same'")
    return LossTable.single(positive, member, normaliser=normaliser)


class WeightedSupConLoss(RelationLoss):
    """Hierarchical contrast outside the softmax: pair losses weighted by ρ, SupCon's competition.

        L_i = Σ_p w(i,p)·(−log( exp(s_ip) / Σ_{k≠i} exp(s_ik) )) / Σ_p w(i,p),   w = ρ(y_i, y_p)

    over all p with ρ > 0 (`positives="related"`): the baseline "multiplies per-pair losses by tree
    similarity without altering within-softmax competition" (Section 4.3 of Climbing the Label Tree). The
    other reading, `positives="same"`, has HWC's positives (same leaf or instance), w = 1 + αρ, and divides
    by |P(i)|; on a tree whose leaves all lie at depth L that is (1 + α)·SupCon.

    Args:
        taxonomy: The tree of the labels.
        temperature: τ > 0.
        positives: `"related"` or `"same"`.
        alpha: α ≥ 0, for `positives="same"`.
        rho: Which ρ, see `RelationCodes.rho`.
        geometry: The space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: See `reduce_terms`; `"pairs"` divides by the total weight of the pairs (`"related"`) or
            by their number (`"same"`).
        undecided: `"ignore"` or `"negative"`. Under `"related"` a label and its ancestor are positives,
            with the ρ of the ancestor.

    Call with `embeddings (n, d)`, `nodes (n,)`, `instances (n,)` or None; see `RelationLoss`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> WeightedSupConLoss(taxonomy)(z, taxonomy.encode(["dog", "cat", "oak"]))
        tensor(0.0636)
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        temperature: float = 0.1,
        *,
        positives: Literal["related", "same"] = "related",
        alpha: float = 0.5,
        rho: Rho = "max_depth",
        geometry: Geometry | str | None = None,
        similarity: Similarity | None = None,
        reduction: Reduction = "valid",
        undecided: Undecided = "ignore",
    ) -> None:
        if not alpha >= 0:
            raise ValueError(f"alpha must not be negative; got {alpha}")
        space = relation_codes(taxonomy.max_depth, refined=rho == "own_depth")
        super().__init__(
            taxonomy,
            outside_table(space, positives, alpha, rho, undecided),
            temperature=temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
            space=space,
        )
        self.positives = positives
        self.alpha = alpha
        self.rho = rho
        self.undecided = undecided
