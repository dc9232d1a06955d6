"""A pairwise loss as a table over relation codes: which pairs attract, which compete, and by how much.

Tables of one term per depth weigh the depths by name or by a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.pairs import RelationCodes
from labeltree.taxonomy.relations import INSTANCE

__all__ = [
    "DEPTH_WEIGHTS",
    "DepthWeights",
    "LossTable",
    "Undecided",
    "depth_table",
    "depth_weights",
    "instance_table",
    "members",
    "same_label",
]

Undecided = Literal["ignore", "negative"]
DepthWeights = str | float | Sequence[float]
# t: depth from 1 (coarsest) to L. The supplement of Use All The Labels counts l from 0 where it writes
# |L| − l (which would vanish otherwise), and from 1 where it writes 1/l.
DEPTH_WEIGHTS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "exp": lambda t, n: torch.exp(t),
    "exp_inv": lambda t, n: torch.exp(1 / (n + 1 - t)),
    "pow2": lambda t, n: 2**t,
    "pow2_inv": lambda t, n: 2 ** (1 / (n + 1 - t)),
    "inv": lambda t, n: 1 / (n + 1 - t),
    "one": lambda t, n: torch.ones_like(t),
    "coarse_inv": lambda t, n: 1 / t,
    "coarse_exp_inv": lambda t, n: torch.exp(1 / t),
    "coarse_pow2_inv": lambda t, n: 2 ** (1 / t),
}


@dataclass(frozen=True, eq=False)
class LossTable:
    """T softmax terms over the same embeddings, given by weights for each of the R relation codes.

    Term t of anchor i, with r_ik the relation of i and k, and ω(r) the scale inside the softmax:

        LSE_it  = log Σ_{k: member_t(r_ik)} exp(ω(r_ik)·s_ik)
        loss_it = Σ_p positive_t(r_ip)·(LSE_it − ω(r_ip)·s_ip) / Σ_p normaliser_t(r_ip)

    Attributes:
        positive: `(T, R)` weight of −log q of a pair; 0 for pairs that are not positives.
        normaliser: `(T, R)` what a pair adds to the divisor: 1 for a mean over positives; equal to `positive`
            for a weighted mean.
        member: `(T, R)` bool, whether a pair counts in the denominator; positives must.
        term_weight: `(T,)` weight of each term in the loss.
        scale: `(R,)` ω(r); None: 1.
    """

    positive: Tensor
    normaliser: Tensor
    member: Tensor
    term_weight: Tensor
    scale: Tensor | None = None

    def __post_init__(self) -> None:
        shape = self.positive.shape
        if len(shape) != 2 or self.normaliser.shape != shape or self.member.shape != shape:
            raise ValueError(
                "positive, normaliser and member must all have one shape (T, R); got "
                f"{tuple(shape)}, {tuple(self.normaliser.shape)} and {tuple(self.member.shape)}"
            )
        if self.term_weight.shape != shape[:1]:
            raise ValueError(
                f"term_weight must have shape ({shape[0]},); got {tuple(self.term_weight.shape)}"
            )
        if self.scale is not None and self.scale.shape != shape[1:]:
            raise ValueError(f"scale must have shape ({shape[1]},); got {tuple(self.scale.shape)}")

    @classmethod
    def single(
        cls,
        positive: Tensor,
        member: Tensor,
        *,
        normaliser: Tensor | None = None,
        scale: Tensor | None = None,
    ) -> LossTable:
        """The table of one term, from weights `(R,)`; by default a weighted mean over positives."""
        positive = positive[None].double()
        divisor = positive if normaliser is None else normaliser[None].double()
        return cls(positive, divisor, member[None], torch.ones(1, dtype=torch.float64), scale)

    def __len__(self) -> int:
        return len(self.term_weight)

    def term(self, index: int) -> LossTable:
        """The table with only one of the terms, at weight 1."""
        one = [index]
        weight = torch.ones_like(self.term_weight[one])
        return LossTable(self.positive[one], self.normaliser[one], self.member[one], weight, self.scale)

    def without_labels(self, unknown: int) -> LossTable:
        """The table for a batch whose labels are not used: all other instances compete, as in SimCLR.

        Args:
            unknown: The code of pairs with a missing label.
        """
        member = self.member.clone()
        member[:, unknown] = True
        scale = None if self.scale is None else self.scale.clone().index_fill_(0, torch.tensor(unknown), 1.0)
        return replace(self, member=member, scale=scale)

    def to(self, device: torch.device, dtype: torch.dtype) -> LossTable:
        """The table on a device, with weights as `dtype`."""
        positive = self.positive.to(device, dtype)
        return LossTable(
            positive,
            positive if self.normaliser is self.positive else self.normaliser.to(device, dtype),
            self.member.to(device),
            self.term_weight.to(device, dtype),
            None if self.scale is None else self.scale.to(device, dtype),
        )


def instance_table(space: RelationCodes) -> LossTable:
    """One term: views of one sample are positives, all other rows negatives, whatever the labels (SimCLR)."""
    positive = space.spread(space.relations.kind) == INSTANCE
    return LossTable.single(positive, torch.ones_like(positive))


def same_label(space: RelationCodes, depth: int | None = None) -> Tensor:
    """`(R,)` bool: the labels agree at `depth` (None: at all depths), or the rows are views of one sample."""
    return space.spread(space.relations.agrees(space.relations.max_depth if depth is None else depth))


def members(space: RelationCodes, undecided: Undecided, depth: int | None = None) -> Tensor:
    """`(R,)` bool: the relations that count in the denominator at `depth` (None: the finest).

    Pairs whose agreement at that depth is undecided count only if `undecided` is `"negative"`.
    """
    check_choice("undecided", undecided, Undecided)
    if undecided == "negative":
        return torch.ones(space.size, dtype=torch.bool)
    relations = space.relations
    return space.spread(~relations.undecided(relations.max_depth if depth is None else depth))


def depth_table(
    space: RelationCodes,
    term_weight: Tensor,
    positives: Literal["nested", "exact"] = "nested",
    undecided: Undecided = "ignore",
) -> LossTable:
    """One term per depth, coarse → fine: the tables of Eq. 4, 6 and 7 of Use All The Labels.

    Args:
        space: The relation codes of a tree of depth L ≥ 1.
        term_weight: `(L,)` weight of each depth.
        positives: `"nested"`: all pairs that agree at the depth (Algorithm 1). `"exact"`: those that agree
            at no finer depth, as far as their labels tell (Section 3: "and diverge thereafter").
        undecided: As in `members`.
    """
    check_choice("positives", positives, Literal["nested", "exact"])
    depths = range(1, space.relations.max_depth + 1)
    agrees = torch.stack([same_label(space, depth) for depth in depths])
    if positives == "exact":
        agrees[:-1] &= ~agrees[1:]
    positive = agrees.double()
    member = torch.stack([members(space, undecided, depth) for depth in depths])
    return LossTable(positive, positive, member, term_weight.double())


def depth_weights(weights: DepthWeights, num_depths: int, name: str = "weights") -> Tensor:
    """Weights of the depths 1 … L, coarse → fine, `(L,)` float64.

    Args:
        weights: One number for all depths; a sequence of L numbers; or a name. Growing with depth (Table 2
            of the supplement of Use All The Labels; t is the depth, L the number of depths): `"exp"` = e^t,
            `"exp_inv"` = e^(1/(L+1−t)), `"pow2"` = 2^t, `"pow2_inv"` = 2^(1/(L+1−t)), `"inv"` = 1/(L+1−t).
            Constant or falling with depth (its Table 3): `"one"`, `"coarse_inv"` = 1/t, `"coarse_exp_inv"`
            = e^(1/t), `"coarse_pow2_inv"` = 2^(1/t).
        num_depths: L.
        name: Name of the argument in error messages.

    Raises:
        ValueError: An unknown name, a list of another length, or a weight that is negative or not finite.

    Example:
        >>> depth_weights("inv", 3)
        tensor([0.3333, 0.5000, 1.0000], dtype=torch.float64)
    """
    if isinstance(weights, str):
        if weights not in DEPTH_WEIGHTS:
            raise ValueError(f"{name} must be numbers or one of {', '.join(DEPTH_WEIGHTS)}; got {weights!r}")
        return DEPTH_WEIGHTS[weights](torch.arange(1, num_depths + 1, dtype=torch.float64), num_depths)
    if isinstance(weights, int | float):
        weights = [weights] * num_depths
    values = torch.tensor(list(weights), dtype=torch.float64)
    if values.shape != (num_depths,):
        raise ValueError(
            f"{name} must have {num_depths} entries, one per depth, coarse → fine; "
            f"got {len(values)}: {list(weights)}"
        )
    if not bool((values.isfinite() & (values >= 0)).all()):
        raise ValueError(f"{name} must be finite and not negative; got {list(weights)}")
    return values
