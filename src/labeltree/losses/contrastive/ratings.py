"""SupCon by ratings: samples attract each other in proportion to the Jaccard similarity of their ratings.

The Jaccard similarities of all pairs are computed by a few matrix products.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.geometry import Geometry
from labeltree.geometry.precision import widen
from labeltree.losses.batch import check_batch, follow_device
from labeltree.losses.contrastive.pairwise_loss import RelationLoss
from labeltree.losses.reduction import Reduction, propagate_nan, reduce_terms
from labeltree.losses.relation_table import LossTable, Undecided
from labeltree.pairs import LabelRows, PairRelation, Similarity, relation_codes, union_batch, weighted_terms
from labeltree.taxonomy.relations import APART, INSTANCE, SAME, UNKNOWN

__all__ = ["JaccardSupConLoss", "RatingOverlap", "RatingRelation", "check_ratings", "jaccard"]

Rows = slice | Tensor | None
_MOST_BITS = 512  # per row; above, products of bits cost more than a loop over the aspects
_LARGEST = 256  # exact however a device multiplies float32
_MOST_SUM = 2048  # below, float32 represents all fractions of such integers distinctly
_NOTHING = 1e-30  # too small to change an integer when added; 0/0 becomes 1


def jaccard(u: Tensor, v: Tensor) -> Tensor:
    """The Jaccard similarity of ratings, Σ_a min(u_a, v_a) / Σ_a max(u_a, v_a), of every pair.

    The sums run over the aspects that are rated in both rows. Two rows that are 0 in all of them have
    similarity 1; two rows without a common aspect have NaN.

    Args:
        u: `(b, A)` integers, ratings of 0 or more; −1 where one is missing.
        v: `(c, A)`, likewise.

    Returns:
        `(b, c)` float64 in [0, 1] or NaN.

    Example:
        >>> hotels = torch.tensor([[5, 4, 4], [4, 5, -1], [-1, -1, 2]])
        >>> jaccard(hotels, hotels)
        tensor([[1.0000, 0.8000, 0.5000],
                [0.8000, 1.0000,    nan],
                [0.5000,    nan, 1.0000]], dtype=torch.float64)
    """
    return RatingOverlap(u, v).jaccard()


class RatingOverlap:
    """Ratings of queries and keys, prepared so that a tile of Jaccard similarities is a few matrix products.

    Σ_a min(u_a, v_a) is the inner product of two rows of bits, one for every rating t > 0 that occurs in an
    aspect: whether u_a ≥ t, weighted by the difference between t and the next lower rating. Σ_a max = Σ_a u_a
    + v_a − min. Both are whole numbers, and exact in float32; where ratings are too large for that, or too
    many different ratings occur, they are added up aspect by aspect instead.

    Args:
        queries: `(n, A)` integers, ratings of 0 or more; −1 where one is missing.
        keys: `(m, A)`, likewise.
    """

    def __init__(self, queries: Tensor, keys: Tensor) -> None:
        self._queries, self._keys = queries, keys
        both = torch.cat([queries, keys])
        steps = [torch.unique(a[a > 0]) for a in both.unbind(1)]
        largest = int(both.max()) if both.numel() else 0
        self._in_bits = sum(map(len, steps)) <= _MOST_BITS and largest <= _LARGEST
        self._most_sum = sum(int(step[-1]) for step in steps if len(step))
        if self._in_bits:
            known, theirs = ((x >= 0).float() for x in (queries, keys))
            ours, others = queries.clamp(min=0).float(), keys.clamp(min=0).float()
            heights, bits = _bits(queries, steps, high=True), _bits(keys, steps)
            self._totals = ours.sum(1), others.sum(1)
            # nothing is missing, and no row is all 0: no denominator is 0
            self._complete = bool((both >= 0).all() & (both > 0).any(1).all())
            self._least = heights, bits
            self._both = torch.cat([ours, known], dim=1), torch.cat([theirs, others], dim=1)
            self._shared = known, theirs

    def jaccard(self, rows: Rows = None, cols: Rows = None) -> Tensor:
        """The function `jaccard` for a tile `(b, c)`."""
        with torch.autocast(self._keys.device.type, enabled=False):  # bfloat16 cannot represent these numbers
            least, most, shared = self._sums(rows, cols)
        # integers up to here, and one division in float64: a ratio of 4/5 is not above a threshold of 0.8
        value = widen(least).div_(widen(most))  # 0/0 where nothing is shared, or all is 0
        return value.masked_fill_((most == 0) & (shared > 0), 1.0)

    def above(
        self, threshold: float, rows: Rows, cols: Rows, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor | None]:
        """The similarities of a tile that exceed the threshold, and a mask of undefined similarities.

        Rounding to float32 does not change which ones do: each fraction is compared with the largest fraction
        that does not exceed the threshold, and float32 represents these fractions distinctly.

        Returns:
            `(b, c)` as `dtype`, 0 where it does not exceed the threshold; `(b, c)`, 1 where two rows have no
            aspect in common and 0 elsewhere, or None if all have one.
        """
        if not self._in_bits or self._most_sum > _MOST_SUM:
            value = self.jaccard(rows, cols)
            nothing = value.isnan()
            value.masked_fill_(~(value > threshold), 0.0)
            return value.to(dtype), nothing.to(dtype) if bool(nothing.any()) else None
        unknown: Tensor | None = None
        with torch.autocast(self._keys.device.type, enabled=False):
            least = _products(self._least, rows, cols)
            if self._complete:
                ours, theirs = self._totals
                most = (_part(ours, rows)[:, None] + _part(theirs, cols)).sub_(least)
            else:
                most = _products(self._both, rows, cols).sub_(least)
                shared = _products(self._shared, rows, cols)
                least.add_(shared, alpha=_NOTHING)
                most.add_(shared, alpha=_NOTHING)
                if shared.numel() and not shared.amin() > 0:
                    unknown = shared.clamp_(max=1).neg_().add_(1).to(dtype)
                    most.clamp_(min=_NOTHING)
        bound = torch.tensor(_largest_fraction(threshold, self._most_sum), dtype=dtype).item()
        value = least.to(dtype).div_(most.to(dtype))
        return torch.nn.functional.threshold(value, bound, 0.0, inplace=True), unknown

    def _sums(self, rows: Rows, cols: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """Σ min, Σ max and the number of aspects that both rows have."""
        if self._in_bits:
            least, both, shared = (
                _products(of, rows, cols) for of in (self._least, self._both, self._shared)
            )
            return least, both - least, shared
        u, v = _part(self._queries, rows), _part(self._keys, cols)
        least = u.new_zeros((len(u), len(v)))
        most, shared = torch.zeros_like(least), torch.zeros_like(least)
        for a, b in zip(u.unbind(1), v.unbind(1), strict=True):  # one aspect at a time: no (b, c, A) table
            known = (a >= 0)[:, None] & (b >= 0)[None]
            least += torch.minimum(a[:, None], b[None]) * known
            most += torch.maximum(a[:, None], b[None]) * known
            shared += known
        return least, most, shared


def _bits(ratings: Tensor, steps: list[Tensor], *, high: bool = False) -> Tensor:
    """A column for every step of every aspect: whether the rating reaches it; if `high`, times its height."""
    columns = [ratings[:, :0].float()]
    for aspect, step in zip(ratings.unbind(1), steps, strict=True):
        reached = aspect[:, None] >= step
        columns.append(reached * step.diff(prepend=step.new_zeros(1)).float() if high else reached.float())
    return torch.cat(columns, dim=1)


def _products(of: tuple[Tensor, Tensor], rows: Rows, cols: Rows) -> Tensor:
    """Inner products `(b, c)` of rows of the first tensor with rows of the second."""
    return _part(of[0], rows) @ _part(of[1], cols).T


def _part(x: Tensor, rows: Rows) -> Tensor:
    return x if rows is None else x[rows]


@lru_cache(maxsize=64)
def _largest_fraction(threshold: float, most: int) -> float:
    """The largest fraction with a denominator up to `most` not above the threshold, or slightly above 0."""
    below = torch.arange(1, most + 1, dtype=torch.float64)
    near = (threshold * below).floor() + torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
    fractions = near / below
    candidates = fractions[fractions <= threshold]
    return max(float(candidates.max()) if candidates.numel() else 0.0, 1e-20)


class RatingRelation(PairRelation):
    """The relation of pairs by their ratings, in the codes of a tree of depth 0.

    Views of one sample are `INSTANCE`; else two samples whose ratings have a Jaccard similarity above the
    threshold are `SAME`, others `APART`, and `UNKNOWN` if they have no aspect in common.

    Args:
        queries: The n queries; only their instances are used.
        keys: The m keys, likewise.
        offset: As in `PairRelation`.
        query_ratings: `(n, A)`; −1 where missing.
        key_ratings: `(m, A)`.
        threshold: The value that the similarity must exceed.
    """

    def __init__(
        self,
        queries: LabelRows,
        keys: LabelRows,
        *,
        offset: int | None,
        query_ratings: Tensor,
        key_ratings: Tensor,
        threshold: float,
    ) -> None:
        super().__init__(queries, keys, offset=offset)
        self.threshold = threshold
        self._ratings = query_ratings, key_ratings
        self._last: tuple[tuple[Rows, Rows], tuple[Tensor, Tensor]] | None = None

    @classmethod
    def of_ratings(cls, ratings: Tensor, instances: Tensor | None, threshold: float) -> RatingRelation:
        """The relation of a batch with itself.

        Args:
            ratings: `(n, A)`; −1 where missing.
            instances: `(n,)` instance ids; None: every row is its own instance.
            threshold: The value that the similarity must exceed.
        """
        missing = ratings.new_full((len(ratings),), -1)
        rows = LabelRows(missing, missing.new_empty((len(ratings), 0)), instances, None)
        return cls(rows, rows, offset=0, query_ratings=ratings, key_ratings=ratings, threshold=threshold)

    def codes(self, rows: Rows = None, cols: Rows = None) -> Tensor:
        """See `PairRelation.codes`."""
        return self._tile(rows, cols)[0]

    def weight(self, rows: Rows = None, cols: Rows = None) -> Tensor:
        """The similarity of positives, `(b, c)`: 1 for views of one sample, 0 for all other pairs."""
        codes, similarity = self._tile(rows, cols)
        weight = torch.where(codes == SAME, similarity, 0.0)
        return weight.masked_fill_(codes == INSTANCE, 1.0)

    @cached_property
    def kinds(self) -> Tensor:
        """The kind `(n,)` int64 of each query, from 0: queries with equal ratings have the same kind.

        They ascend with the sum of the ratings: J is at most the lower sum over the higher one, so that whole
        ranges of kinds have no positives in others.
        """
        ratings = self._ratings[0]
        kinds: Tensor = torch.unique(ratings.clamp(min=0).sum(1), return_inverse=True)[1]
        for aspect in ratings.unbind(1):  # the rank by all aspects so far, which cannot overflow
            values, value = torch.unique(aspect, return_inverse=True)
            kinds = torch.unique(kinds * len(values) + value, return_inverse=True)[1]
        return kinds

    def kind_weights(
        self, rows: slice | Tensor, cols: slice | Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor | None]:
        """The weights of pairs of kinds, by their ratings.

        Returns:
            `(b, c)` as `dtype`, the weight of pairs that are `SAME`, and 0 elsewhere; `(b, c)`, 1 for
            `UNKNOWN` and 0 elsewhere, or None if no pair is `UNKNOWN`.
        """
        return self._overlap_of_kinds.above(self.threshold, rows, cols, dtype)

    @cached_property
    def _overlap(self) -> RatingOverlap:
        return RatingOverlap(*self._ratings)

    @cached_property
    def _overlap_of_kinds(self) -> RatingOverlap:
        ratings, kinds = self._ratings[0], self.kinds
        row = torch.arange(len(kinds), device=kinds.device)
        size = int(kinds.max()) + 1 if len(kinds) else 0
        ratings = ratings[row.new_empty(size).scatter_(0, kinds, row)]
        return RatingOverlap(ratings, ratings)

    def _tile(self, rows: Rows, cols: Rows) -> tuple[Tensor, Tensor]:
        """Codes and similarities of a tile; the last tile is cached, as its weights are asked for next."""
        where = rows, cols
        lasting = not isinstance(rows, Tensor) and not isinstance(cols, Tensor)
        if lasting and self._last is not None and self._last[0] == where:
            return self._last[1]
        codes = super().codes(rows, cols)  # INSTANCE, excluded, or nothing known
        similarity = self._overlap.jaccard(rows, cols)
        of_ratings = torch.where(similarity > self.threshold, SAME, APART)
        of_ratings.masked_fill_(similarity.isnan(), UNKNOWN)
        tile = torch.where(codes == UNKNOWN, of_ratings, codes), similarity
        if lasting:
            self._last = where, tile
        return tile


def check_ratings(ratings: object, embeddings: Tensor) -> Tensor:
    """The ratings as int64 `(n, A)` on the device of the embeddings `(n, d)`.

    Raises:
        ValueError: The ratings have another shape or type, or one is below −1.
    """
    n = len(embeddings)
    if not isinstance(ratings, Tensor) or ratings.dtype == torch.bool or ratings.dim() != 2:
        shape = f" of shape {tuple(ratings.shape)}" if isinstance(ratings, Tensor) else ""
        raise ValueError(
            f"ratings must be an integer tensor of shape ({n}, A), a column per aspect; "
            f"got {getattr(ratings, 'dtype', type(ratings).__name__)}{shape}"
        )
    if ratings.is_floating_point() or ratings.is_complex() or len(ratings) != n:
        raise ValueError(
            f"ratings must be an integer tensor of shape ({n}, A), one row per row of embeddings "
            f"{tuple(embeddings.shape)}; got {ratings.dtype} of shape {tuple(ratings.shape)}"
        )
    if ratings.numel() and int(ratings.min()) < -1:
        row = int((ratings < -1).any(1).nonzero()[0])
        raise ValueError(
            f"ratings must be 0 or more, or -1 where one is missing; got {ratings[row].tolist()} in row {row}"
        )
    return ratings.to(embeddings.device, torch.int64)


class JaccardSupConLoss(RelationLoss):
    """The loss of MLCL's global head (Ghanooni et al., section 3.4): SupCon, positives weighted by Jaccard.

        L_i = 1/|P(i)| Σ_{p∈P(i)} J_ip·( −log( exp(s_ip) / Σ_{k≠i} exp(s_ik) ) ),   s = cos/τ
        J_ip = Σ_a min(y_ia, y_pa) / Σ_a max(y_ia, y_pa),   P(i) = {p ≠ i: J_ip > t}

    y are ordinal ratings, a column per aspect. An aspect that is missing (−1) in either row is left out of
    both sums. Two rows that are 0 in all aspects they share have J = 1. Views of one sample are positives of
    weight 1, whatever their ratings.

    Args:
        temperature: τ > 0.
        threshold: t, from 0 to below 1. The paper names no value. The default takes any two rows of fours
            and fives, the paper's example of similar samples, for positives, but not threes and fours.
        geometry: The space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: See `reduce_terms`; the paper's formula is printed with `"sum"`.
        undecided: Pairs of rows without a common aspect are left out of the softmax (`"ignore"`) or count as
            negatives (`"negative"`).

    Call with `embeddings (n, d)`, `ratings (n, A)` integers, `instances (n,)` or None. For several ranks see
    `RelationLoss`.

    Raises:
        ValueError: An argument of the wrong shape or type, or a rating below −1.

    Example:
        >>> loss = JaccardSupConLoss(temperature=0.5)
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> loss(z, torch.tensor([[5, 4, 4], [4, 4, 4], [1, 2, -1]]))
        tensor(0.3217)
    """

    label_sets = None  # it reads ratings, not labels

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
        check_choice("undecided", undecided, Undecided)
        kind = relation_codes(0).relations.kind
        member = (kind != UNKNOWN) | (undecided == "negative")
        super().__init__(
            None,
            LossTable.single((kind == SAME) | (kind == INSTANCE), member),
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
        row, normaliser = weighted_terms(
            embeddings,
            relation,
            self.geometry,
            self.temperature,
            unknown_competes=self.undecided == "negative",
            similarity=self.similarity,
        )
        loss = reduce_terms(row, normaliser, table.term_weight, self.reduction, relation.shard)
        return propagate_nan(loss, embeddings, shard=relation.shard)
