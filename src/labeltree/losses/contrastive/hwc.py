"""HWC, the hierarchy-weighted contrastive loss: the tree scales each similarity inside the softmax."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.losses.contrastive.pairwise_loss import RelationLoss
from labeltree.losses.contrastive.supcon import outside_table
from labeltree.losses.reduction import Reduction
from labeltree.losses.relation_table import LossTable, Undecided, members, same_label
from labeltree.pairs import PairRelation, RelationCodes, Rho, Similarity, pair_counts, relation_codes, weigh
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.relations import INSTANCE

__all__ = ["HWCLoss", "hwc_table", "mean_omega"]

Positives = Literal["same", "instance"]
Control = Literal["constant_omega", "outside_softmax", "flat"]


def hwc_table(
    space: RelationCodes,
    alpha: float,
    gamma: float,
    *,
    rho: Rho = "max_depth",
    positives: Positives = "same",
    omega_max: float | None = None,
    undecided: Undecided = "ignore",
    flat: bool = False,
) -> LossTable:
    """One term with the scales ω of Eq. 5 and 6 of Climbing the Label Tree; see `HWCLoss`."""
    if positives == "same":
        positive = same_label(space)
    elif positives == "instance":
        positive = space.spread(space.relations.kind) == INSTANCE
    else:
        raise ValueError(f"positives is {positives!r}; expected 'same' or 'instance'")
    r = space.rho(rho)
    apart = torch.zeros_like(r) if flat else r
    omega = torch.where(positive, 1 + alpha * r, 1 + gamma * (1 - apart))
    if omega_max is not None:
        omega = omega.clamp(1.0, omega_max)
    return LossTable.single(positive, members(space, undecided), scale=omega)


class HWCLoss(RelationLoss):
    """The hierarchy-weighted contrastive loss (Eq. 7 of Climbing the Label Tree).

        L = 1/Σ_i|P(i)| Σ_i Σ_{j∈P(i)} −log( exp(ω_ij·s_ij) / Σ_{k≠i} exp(ω_ik·s_ik) )
        ω_ik = 1 + αρ(y_i, y_k) for k ∈ P(i),   1 + γ(1 − ρ(y_i, y_k)) otherwise,   ρ = depth(lca) / L

    P(i) are the other rows of the same leaf or the same instance. The similarity s is cos/τ on the sphere
    (the Euclidean mode) and −d/τ elsewhere, unless `similarity` says otherwise. The sign matters: for s ≤
    0, as all distances give, a larger ω *lowers* a competitor's mass, and the paper's account of the
    gradient ("larger ω, stronger push and pull") holds for s > 0 alone.

    Args:
        taxonomy: The tree of the labels.
        alpha: α ≥ 0, emphasis of positives deep in the tree. The paper has 0.2 to 1; 0 is what our studies
            advise (`docs/objectives/hwc.md`).
        gamma: γ ≥ 0, emphasis of negatives far away in the tree.
        temperature: τ > 0.
        similarity: `"cosine"` (cos/τ) or `"distance"` (−d/τ, Eq. 1).
        geometry: The space of the embeddings, or its name; None: the sphere.
        reduction: `"pairs"` (Eq. 7) or any other of `reduce_terms`; `"valid"` with α = γ = 0 is SupCon.
        rho: `"max_depth"` (Eq. 4), `"own_depth"` (depth(lca) / depth of the shallower label) or `"same_one"`
            (Eq. 4, but ρ(y, y) = 1); they differ where leaves lie at different depths.
        positives: `"same"`, or `"instance"`: only views of one sample, other rows of the leaf compete.
        control: `"constant_omega"` replaces every ω by the batch's mean over the pairs that take part (the
            paper's ω̄, a change of temperature); `"outside_softmax"` multiplies each pair's loss by 1 + αρ
            and leaves the softmax alone, so it needs α > 0; `"flat"` takes ρ = 0 for all that are no
            positives, so that γ does not see the tree. None: the loss itself.
        omega_max: ω is clamped to [1, omega_max]; None: no clamp.
        undecided: Pairs whose labels leave open whether they are of one leaf are left out (`"ignore"`) or
            count as negatives (`"negative"`), with the ρ of the path that they are known to share.

    Call with `embeddings (n, d)`, `nodes (n,)`, `instances (n,)` or None; see `RelationLoss`. With
    `nodes=None` it is SimCLR.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = HWCLoss(taxonomy, gamma=0.5, temperature=0.5)
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
        >>> loss(z, taxonomy.encode(["dog", "dog", "cat", "oak"]))
        tensor(1.1187)
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        alpha: float = 0.0,
        gamma: float = 0.5,
        temperature: float = 0.1,
        *,
        similarity: Similarity | None = None,
        geometry: Geometry | str | None = None,
        reduction: Reduction = "pairs",
        rho: Rho = "max_depth",
        positives: Positives = "same",
        control: Control | None = None,
        omega_max: float | None = None,
        undecided: Undecided = "ignore",
    ) -> None:
        if not (alpha >= 0 and gamma >= 0):
            raise ValueError(f"alpha and gamma must not be negative; got alpha={alpha}, gamma={gamma}")
        if omega_max is not None and not omega_max >= 1:
            raise ValueError(f"omega_max must be at least 1; got {omega_max}")
        if control not in (None, "constant_omega", "outside_softmax", "flat"):
            raise ValueError(
                f"control must be None, 'constant_omega', 'outside_softmax' or 'flat'; got {control!r}"
            )
        if control == "flat" and gamma == 0:
            raise ValueError(
                "control='flat' takes the tree away from gamma, which does nothing at gamma=0; set gamma"
            )
        space = relation_codes(taxonomy.max_depth, refined=rho == "own_depth")
        if control == "outside_softmax":
            if positives != "same" or omega_max is not None:
                raise ValueError("control='outside_softmax' has positives='same' and no omega_max")
            if alpha == 0:
                raise ValueError(
                    "control='outside_softmax' weights pairs by 1 + αρ, which does nothing at alpha=0; "
                    "set alpha"
                )
            table = outside_table(space, "same", alpha, rho, undecided)
        else:
            table = hwc_table(
                space,
                alpha,
                gamma,
                rho=rho,
                positives=positives,
                omega_max=omega_max,
                undecided=undecided,
                flat=control == "flat",
            )
        super().__init__(
            taxonomy,
            table,
            temperature=temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
            space=space,
        )
        self.alpha = alpha
        self.gamma = gamma
        self.rho = rho
        self.positives = positives
        self.control = control
        self.omega_max = omega_max
        self.undecided = undecided

    def batch_table(self, table: LossTable, relation: PairRelation) -> LossTable:
        """The table with the constant ω̄ of this batch if `control="constant_omega"`, else unchanged."""
        if self.control != "constant_omega":
            return table
        return replace(table, scale=mean_omega(table, relation).expand(relation.num_relations))


def mean_omega(table: LossTable, relation: PairRelation) -> Tensor:
    """ω̄: the mean of ω over all pairs i ≠ k of a batch that count in a softmax; scalar, 1 without pairs."""
    assert table.scale is not None
    count = pair_counts(relation).sum(0)[None]
    taking_part = table.member.to(table.scale.dtype)
    pairs = weigh(count, taking_part)[0, 0]
    total = weigh(count, taking_part * table.scale)[0, 0]
    return torch.where(pairs > 0, total / pairs.clamp(min=1), 1.0)
