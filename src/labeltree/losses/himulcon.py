"""HiMulCon: supervised contrast at every depth of the tree."""

from __future__ import annotations

from labeltree.geometry import Geometry
from labeltree.losses.depth_weights import DepthWeights
from labeltree.losses.depthwise import DepthwiseLoss, Positives, Variant
from labeltree.losses.reduction import Reduction
from labeltree.losses.table import Undecided
from labeltree.pairs import Similarity
from labeltree.taxonomy import Taxonomy

__all__ = ["HiMulConLoss"]


class HiMulConLoss(DepthwiseLoss):
    """The hierarchical multi-label contrastive loss (Eq. 4 of Use All The Labels), a mean over anchors.

        L = Σ_{l=1..L} λ_l/L · mean_i 1/|P_l(i)| Σ_{p∈P_l(i)} −log( exp(s_ip) / Σ_{k≠i} exp(s_ik) )

    P_l(i) are the rows whose labels agree with i's at depth l, or are of the same instance.

    `variant="reference"` is the authors' published code instead: after each depth only one sample per node
    goes on to the coarser depth, losses are multiplied by τ/base_temperature, and the sum is divided by L +
    1 (its number of label columns, the last being an image id). See `published_depth_losses`.

    Args:
        taxonomy: the tree of the labels.
        weights: λ per depth, coarse → fine: a name, a number or a list, see `depth_weights`. The default, e
            to the power of 1/(L + 1 − l), is the one that the paper uses.
        temperature: τ > 0.
        positives: `"nested"` (all that agree at the depth) or `"exact"` (and at no finer one).
        variant: `"paper"` or `"reference"`.
        base_temperature: of the reference variant.
        geometry: the space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: see `reduce_terms`; depth by depth.
        undecided: pairs of which the labels leave open whether they agree at a depth are left out of that
            depth (`"ignore"`) or compete in it (`"negative"`).

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
            temperature=temperature,
            constrained=False,
            positives=positives,
            variant=variant,
            detach_bound=False,
            base_temperature=base_temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
            undecided=undecided,
        )
