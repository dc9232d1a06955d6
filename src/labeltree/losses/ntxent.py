"""NT-Xent: contrast between views of one sample and all other samples."""

from __future__ import annotations

from labeltree.geometry import Geometry
from labeltree.losses.reduction import Reduction
from labeltree.losses.relation_loss import RelationLoss
from labeltree.losses.table import instance_table
from labeltree.pairs import Similarity, relation_space

__all__ = ["NTXentLoss"]


class NTXentLoss(RelationLoss):
    """The normalised temperature-scaled cross entropy of SimCLR (Chen et al. 2020); labels play no part.

    The positives of a row are the other views of its sample; all other rows compete:

        L_i = mean over views p of i of −log( exp(s_ip) / Σ_{k≠i} exp(s_ik) ),   s = cos/τ

    Args:
        temperature: τ > 0.
        geometry: the space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: see `reduce_terms`.

    Call with `embeddings (n, d)`, `nodes` (ignored) and `instances (n,)`: rows of one id are views of one
    sample.

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
            instance_table(relation_space(0)),
            temperature=temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
        )
