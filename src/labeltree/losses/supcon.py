"""SupCon: contrast between samples of one label and all others."""

from __future__ import annotations

import torch

from labeltree.geometry import Geometry
from labeltree.losses.reduction import Reduction
from labeltree.losses.relation_loss import RelationLoss
from labeltree.losses.table import LossTable, Undecided, members, same_label
from labeltree.pairs import Similarity, relation_space
from labeltree.taxonomy import Taxonomy

__all__ = ["SupConLoss"]


class SupConLoss(RelationLoss):
    """The supervised contrastive loss (Khosla et al. 2020, L_out), of the finest labels or at one depth.

        L_i = 1/|P(i)| Σ_{p∈P(i)} −log( exp(s_ip) / Σ_{k≠i} exp(s_ik) ),   s = cos/τ

    P(i) are the other rows of the same label or the same instance (Eq. 2 of Use All The Labels, with its
    minus sign).

    Args:
        taxonomy: the tree of the labels.
        temperature: τ > 0.
        depth: labels are compared at this depth, 1 (coarsest) to L; None: at their finest.
        geometry: the space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: see `reduce_terms`; SupContrast's own code is `"all"`.
        undecided: a pair of which the labels leave open whether they agree (one is an ancestor of the
            other, or missing) is left out (`"ignore"`) or competes (`"negative"`).

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
        space = relation_space(taxonomy.max_depth)
        positive = same_label(space, depth)[None].double()
        member = members(space, undecided, depth)[None]
        super().__init__(
            taxonomy,
            LossTable(positive, positive, member, torch.ones(1, dtype=torch.float64)),
            temperature=temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
        )
        self.depth = depth
        self.undecided = undecided
