"""SupCon by ratings: samples that are rated alike attract each other, the more alike the more."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.losses.batch import check_batch, follow_device
from labeltree.losses.ratings import RatingRelation, check_ratings
from labeltree.losses.reduction import Reduction, hide_nothing, reduce_terms
from labeltree.losses.relation_loss import RelationLoss
from labeltree.losses.table import LossTable, Undecided
from labeltree.pairs import Similarity, relation_space, union_batch, weighted_terms
from labeltree.taxonomy.relations import INSTANCE, SAME, UNKNOWN

__all__ = ["JaccardSupConLoss"]


class JaccardSupConLoss(RelationLoss):
    """The loss of MLCL's global head (Ghanooni et al., section 3.4): SupCon, positives weighted by Jaccard.

        L_i = 1/|P(i)| Σ_{p∈P(i)} J_ip·( −log( exp(s_ip) / Σ_{k≠i} exp(s_ik) ) ),   s = cos/τ
        J_ip = Σ_a min(y_ia, y_pa) / Σ_a max(y_ia, y_pa),   P(i) = {p ≠ i: J_ip > t}

    y are ordinal ratings, a column per aspect. An aspect that is missing (−1) in either row is left out of
    both sums. Two rows that are 0 in all aspects they share have J = 1. Views of one sample are positives of
    weight 1, whatever their ratings.

    Args:
        temperature: τ > 0.
        threshold: t, from 0 to below 1. The paper names no value: above 0.75 lie any two rows that have
            nothing but fours and fives, its own example of likeness, and no threes against fours.
        geometry: the space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: see `reduce_terms`; the paper's formula is printed with `"sum"`.
        undecided: two rows that have no aspect in common are left out of the softmax (`"ignore"`) or compete
            (`"negative"`).

    Call with `embeddings (n, d)`, `ratings (n, A)` integers, `instances (n,)` or None. Across ranks it is as
    `RelationLoss`.

    Raises:
        ValueError: an argument of the wrong shape or type, or a rating below −1.

    Example:
        >>> loss = JaccardSupConLoss(temperature=0.5)
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> loss(z, torch.tensor([[5, 4, 4], [4, 4, 4], [1, 2, -1]]))
        tensor(0.3217)
    """

    def __init__(
        self,
        temperature: float = 0.1,
        *,
        threshold: float = 0.75,
        geometry: Geometry | str | None = None,
        similarity: Similarity | None = None,
        reduction: Reduction = "valid",
        undecided: Undecided = "ignore",
    ) -> None:
        if not 0 <= threshold < 1:
            raise ValueError(f"threshold must be 0 or more and below 1; got {threshold}")
        if undecided not in ("ignore", "negative"):
            raise ValueError(f"undecided must be one of ignore, negative; got {undecided!r}")
        kind = relation_space(0).relations.kind
        positive = ((kind == SAME) | (kind == INSTANCE))[None].double()
        member = (kind != UNKNOWN)[None] if undecided == "ignore" else torch.ones_like(positive).bool()
        super().__init__(
            None,
            LossTable(positive, positive, member, torch.ones(1, dtype=torch.float64)),
            temperature=temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
        )
        self.threshold = threshold
        self.undecided = undecided

    def forward(  # type: ignore[override]
        self, embeddings: Tensor, ratings: Tensor, instances: Tensor | None = None
    ) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        _, instances = check_batch(embeddings, None, instances, None)
        ratings = check_ratings(ratings, embeddings)
        follow_device(self, self.taxonomy_paths, embeddings.device)
        dtype = torch.float64 if embeddings.dtype == torch.float64 else torch.float32
        table = self._table(embeddings.device, dtype, labelled=True)
        columns = {"ratings": ratings, "instances": instances}
        batch = union_batch(embeddings.to(dtype), columns, over_ranks=self.training)
        assert batch.columns["ratings"] is not None
        relation = RatingRelation.of_ratings(
            batch.columns["ratings"], batch.columns["instances"], self.threshold
        )
        relation.shard = batch.shard
        embeddings = batch.embeddings
        row, share = weighted_terms(
            embeddings,
            relation,
            self.geometry,
            self.temperature,
            unknown_competes=self.undecided == "negative",
            similarity=self.similarity,
        )
        loss = reduce_terms(row, share, table.term_weight, self.reduction, relation.shard)
        return hide_nothing(loss, embeddings, shard=relation.shard)
