"""HiConE and HiMulConE: contrast at every depth under the hierarchical constraint."""

from __future__ import annotations

from labeltree.geometry import Geometry
from labeltree.losses.depth_weights import DepthWeights
from labeltree.losses.depthwise import DepthwiseLoss, Positives, Variant
from labeltree.losses.reduction import Reduction
from labeltree.losses.table import Undecided
from labeltree.pairs import Similarity
from labeltree.taxonomy import Taxonomy

__all__ = ["HiConELoss", "HiMulConELoss"]


class HiMulConELoss(DepthwiseLoss):
    """The combined loss of Use All The Labels: a sum over depths, none of which loses less than a finer one.

    `variant="reference"`, the default, is the authors' published code. It bounds the *mean* losses of the
    depths: a running maximum, from finest to coarsest, of the losses of `published_depth_losses` times
    τ/base_temperature, summed with λ_l and divided by L + 1.

    `variant="paper"` is Eq. 7 as printed, which bounds every *pair*:

        L = Σ_{l=1..L} λ_l/L · mean_i 1/|P_l(i)| Σ_{p∈P_l(i)} max( ℓ(i,p), M_{l+1} )
        ℓ(i,p) = −log( exp(s_ip) / Σ_{k≠i} exp(s_ik) ),   M_l = the largest term of depth l,   M_{L+1} = −∞

    from the finest depth to the coarsest; `bounded_relation_loss` has the details. It saturates: in random
    batches nearly every coarse pair lies at its bound, and the gradient of a depth falls on the one pair
    that set it, so that next to nothing is learnt (`docs/objectives/hicone.md` has the figures).

    Args:
        taxonomy: the tree of the labels.
        weights: λ per depth, coarse → fine: a name, a number or a list, see `depth_weights`.
        temperature: τ > 0.
        positives: `"nested"` (all that agree at the depth) or `"exact"` (and at no finer one).
        variant: `"reference"` or `"paper"`. The former fixes `positives="nested"`, `detach_bound=False`,
            `reduction="valid"` and `undecided="ignore"`.
        detach_bound: whether the M are constants for the gradient.
        base_temperature: of the reference variant.
        geometry: the space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: see `reduce_terms`; depth by depth.
        undecided: pairs of which the labels leave open whether they agree at a depth are left out of that
            depth (`"ignore"`) or compete in it (`"negative"`).

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
        super().__init__(
            taxonomy,
            weights,
            temperature=temperature,
            constrained=True,
            positives=positives,
            variant=variant,
            detach_bound=detach_bound,
            base_temperature=base_temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
            undecided=undecided,
        )


class HiConELoss(HiMulConELoss):
    """The hierarchical constraint enforcing loss of Use All The Labels (Eq. 6): `HiMulConELoss`, λ_l = 1.

    Args:
        taxonomy: the tree of the labels.
        temperature: τ > 0.
        positives: as in `HiMulConELoss`.
        variant: likewise.
        detach_bound: likewise.
        base_temperature: likewise.
        geometry: likewise.
        similarity: likewise.
        reduction: likewise.
        undecided: likewise.

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
