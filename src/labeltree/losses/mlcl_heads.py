"""The projection heads of MLCL: what each compares, at which temperature, with which weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.losses.jaccard import JaccardSupConLoss
from labeltree.losses.reduction import Reduction
from labeltree.losses.relation_loss import relation_loss
from labeltree.losses.supcon import SupConLoss
from labeltree.losses.table import Undecided
from labeltree.pairs import PairRelation, Similarity
from labeltree.taxonomy import Taxonomy

__all__ = ["HeadContrast", "HeadPlan", "head_contrast", "plan_heads"]

_COARSE, _FINE = 0.5, 0.1  # τ of the superclass and the class head, section 4.2
_LABEL_SHARE, _GLOBAL_SHARE = 0.2, 0.1  # of the heads beside a cross entropy, section 4.2


@dataclass(frozen=True)
class HeadPlan:
    """One head.

    Attributes:
        name: for people: a depth, an aspect, or `global`.
        aspect: the taxonomy whose labels it compares; None: ratings.
        depth: at which it compares them; None: the finest.
        temperature: τ_h.
        weight: α_h.
    """

    name: str
    aspect: int | None
    depth: int | None
    temperature: float
    weight: float


class HeadContrast(SupConLoss):
    """SupCon of one head, which shares what is known of the labels with other heads of the same labels."""

    def beside_others(
        self,
        embeddings: Tensor,
        nodes: Tensor | None,
        instances: Tensor | None,
        relation: PairRelation | None,
    ) -> tuple[Tensor, PairRelation]:
        """The loss, and the relation of the batch: that of another head of as many rows, if it is given."""
        embeddings, own, table = self._prepare(embeddings, nodes, instances)
        if relation is None or relation.num_queries != own.num_queries:
            relation = own
        loss = relation_loss(
            embeddings,
            relation,
            table,
            temperature=self.temperature,
            geometry=self.geometry,
            similarity=self.similarity,
            reduction=self.reduction,
        )
        return loss, relation


def head_contrast(
    head: HeadPlan,
    taxonomies: Sequence[Taxonomy],
    threshold: float,
    geometry: Geometry,
    similarity: Similarity | None,
    reduction: Reduction,
    undecided: Undecided,
) -> HeadContrast | JaccardSupConLoss:
    """The loss of one head; see `MLCLLoss` for the arguments."""
    if head.aspect is None:
        return JaccardSupConLoss(
            head.temperature,
            threshold=threshold,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
            undecided=undecided,
        )
    return HeadContrast(
        taxonomies[head.aspect],
        head.temperature,
        depth=head.depth,
        geometry=geometry,
        similarity=similarity,
        reduction=reduction,
        undecided=undecided,
    )


def plan_heads(
    taxonomies: Sequence[Taxonomy],
    depths: Sequence[int] | None,
    temperatures: float | Sequence[float] | None,
    weights: float | Sequence[float] | None,
    *,
    global_head: bool,
    ce: bool,
) -> list[HeadPlan]:
    """The heads in order: by depth, coarse → fine, or by aspect; the global head last.

    With one taxonomy there is a head for each of `depths` (None: all). τ falls from 0.5 at the coarsest of
    them to 0.1 at the finest, by a constant factor; one head has 0.1. With several there is a head for each
    taxonomy, and `depths` are one a taxonomy; τ is 0.1. The weights are equal and sum to 1; beside a cross
    entropy the heads of labels share 0.2, and the global head has 0.1.

    Raises:
        ValueError: a depth that a tree has not, lists of the wrong length, τ or α out of range.
    """
    if len(taxonomies) == 1:
        deepest = taxonomies[0].max_depth
        chosen = list(range(1, deepest + 1)) if depths is None else [int(depth) for depth in depths]
        if not chosen or chosen != sorted(set(chosen)) or not 1 <= chosen[0] <= chosen[-1] <= deepest:
            raise ValueError(
                f"depths must be some of 1 to {deepest}, the depth of the tree, coarse → fine; got {depths}"
            )
        places: list[tuple[str, int | None, int | None]] = [(f"depth {depth}", 0, depth) for depth in chosen]
        steps = max(len(chosen) - 1, 1)
        taus = [_FINE * (_COARSE / _FINE) ** (1 - place / steps) for place in range(len(chosen))]
        taus[-1] = _FINE
    else:
        if depths is not None and len(depths) != len(taxonomies):
            raise ValueError(
                f"depths must be one per aspect, {len(taxonomies)}, or None: the finest labels; got {depths}"
            )
        at = [None] * len(taxonomies) if depths is None else list(depths)
        for aspect, (taxonomy, depth) in enumerate(zip(taxonomies, at, strict=True)):
            if depth is not None and not 1 <= depth <= taxonomy.max_depth:
                raise ValueError(
                    f"depths must lie between 1 and {taxonomy.max_depth}, the depth of the tree of aspect "
                    f"{aspect}; got {depth}"
                )
        places = [(f"aspect {aspect}", aspect, depth) for aspect, depth in enumerate(at)]
        taus = [_FINE] * len(places)
    alphas = [(_LABEL_SHARE if ce else 1.0) / (len(places) + (global_head and not ce))] * len(places)
    if global_head:
        alphas.append(_GLOBAL_SHARE if ce else alphas[0])
        taus.append(_FINE)
        places.append(("global", None, None))
    names = ", ".join(name for name, _, _ in places)
    taus = _per_head("temperatures", temperatures, taus, names)
    alphas = _per_head("weights", weights, alphas, names)
    if not all(tau > 0 for tau in taus):
        raise ValueError(f"temperatures must be above 0; got {taus}")
    if ce and sum(alphas) > 1 + 1e-9:
        raise ValueError(
            f"weights must sum to 1 at most, as the cross entropy has what is left of 1; got {alphas}"
        )
    return [HeadPlan(*place, tau, alpha) for place, tau, alpha in zip(places, taus, alphas, strict=True)]


def _per_head(
    option: str, values: float | Sequence[float] | None, default: list[float], names: str
) -> list[float]:
    if values is None:
        return default
    found = [values] * len(default) if isinstance(values, int | float) else list(values)
    if len(found) != len(default):
        raise ValueError(
            f"{option} must have {len(default)} entries, one per head ({names}); got {len(found)}: {found}"
        )
    if not all(math.isfinite(value) and value >= 0 for value in found):
        raise ValueError(f"{option} must be finite and not negative; got {found}")
    return [float(value) for value in found]
