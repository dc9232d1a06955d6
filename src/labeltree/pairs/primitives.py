"""The primitives of pairwise losses, and the choice of how each is computed.

Losses are written over the primitives and do not depend on that choice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.geometry import Geometry, Sphere
from labeltree.pairs import dense
from labeltree.pairs.kernels import bounded_launch as bounded_kernels
from labeltree.pairs.kernels import queue_launch as queue_kernels
from labeltree.pairs.kernels import statistics as kernels
from labeltree.pairs.kernels.launch_kernels import WIDEST, can_run
from labeltree.pairs.manual_gradient import gradient_alone
from labeltree.pairs.pair_plan import asked, planned
from labeltree.pairs.pair_results import PairStatistics, PairWeight, QueueContrast, Statistic
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity, at_least_single, prototype_distances, working_dtype
from labeltree.pairs.tiles import general, general_bounded, nearest, queue_tiles
from labeltree.pairs.tiles.bounded_sums import BoundedSum
from labeltree.pairs.tiles.contrast import exponent_dtype
from labeltree.pairs.tiles.grid import TILE, grid_of
from labeltree.pairs.tiles.walk import walk

__all__ = [
    "bounded_sum",
    "nearest_of_groups",
    "nearest_other",
    "pair_counts",
    "pair_statistics",
    "soft_target_contrast",
    "way_of",
]

Way = Literal["dense", "small", "tiles", "triton", "general"]
_MOST_VIEWS = 64  # pairs of views of one sample are listed


def way_of(
    queries: Tensor,
    keys: Tensor,
    relation: PairRelation,
    temperature: float | Tensor,
    similarity: Similarity,
    *,
    scale: Tensor | None = None,
    small: bool = False,
    learned: bool = False,
) -> Way:
    """Choose how the pairs of a relation are computed.

    - `"small"`: a batch with itself that is one tile on a CPU, in few operations; only if `small` is set.
    - `"dense"`: all pairs at once, the reference: few pairs, or asked for by `implementation`.
    - `"triton"`: kernels on a GPU, by cosine.
    - `"tiles"`: a batch with itself by cosine, sorted by label, each tile for both its sides.
    - `"general"`: tiles of anything else: distances, learned temperatures and scales, custom relations.

    Args:
        queries: As in `pair_statistics`.
        keys: Likewise.
        relation: Likewise.
        temperature: Likewise.
        similarity: Likewise.
        scale: Likewise.
        small: Whether the caller implements `"small"`.
        learned: Whether weights have gradients.
    """
    plan, dtype = planned(queries.device, len(queries) * len(keys)), working_dtype(queries)
    learned = learned or isinstance(temperature, Tensor) or (scale is not None and scale.requires_grad)
    by_labels = type(relation) is PairRelation and similarity == "cosine" and not learned
    alone = (
        queries is keys and relation.queries is relation.keys and relation.offset == 0 and len(queries) > 0
    )
    if plan.name == "triton" and by_labels and _kernels_take(queries, keys, relation):
        return "triton"  # before the scale is read, which waits for a GPU
    exponents = None
    if by_labels and alone:
        exponents = exponent_dtype(dtype, float(temperature), scale)
    fits_tile = len(queries) <= (plan.tile or TILE) and relation.shard is None
    on_cpu = queries.device.type == "cpu" and queries.dtype == dtype
    if small and fits_tile and on_cpu and exponents == dtype and asked().name in ("auto", "streaming"):
        return "small"
    if plan.name == "dense":
        return "dense"
    if exponents is not None and _most_views(relation.queries.instances) <= _MOST_VIEWS:
        return "tiles"
    return "general"


def _kernels_take(queries: Tensor, keys: Tensor, relation: PairRelation) -> bool:
    """Whether kernels support these vectors and this relation."""
    narrow = torch.float64 not in (queries.dtype, keys.dtype) and 0 < queries.shape[1] <= WIDEST
    return narrow and _kernels_know(relation)


def _kernels_know(relation: PairRelation) -> bool:
    """Whether kernels support a relation: of labels, on a device that they run on."""
    if type(relation) is not PairRelation or not relation.num_queries or not relation.num_keys:
        return False
    return can_run(relation.queries.nodes.device)


def _most_views(instances: Tensor | None) -> int:
    """The largest number of rows of one instance."""
    if instances is None or not len(instances):
        return 1
    return int(torch.unique(instances, return_counts=True)[1].max())


def pair_statistics(
    queries: Tensor,
    keys: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    *,
    similarity: Similarity = "cosine",
    scale: Tensor | None = None,
    pair_weight: PairWeight | None = None,
    want: Collection[Statistic] = ("count", "sum", "lse"),
) -> PairStatistics:
    """Statistics of the similarities of every query to all keys, by relation.

    Differentiable with respect to `queries`, `keys` and `scale`. Computed in float32 or better, also of
    half-precision embeddings, whose gradient is rounded once, and under autocast. Excluded pairs (a sample
    with itself) are ignored.

    Args:
        queries: `(n, d)` embeddings of the anchors.
        keys: `(m, d)` embeddings that the anchors are compared with.
        relation: Relation of every query to every key, R codes.
        geometry: The geometry whose distance `similarity="distance"` uses.
        temperature: τ > 0.
        similarity: `"cosine"` (of the vectors, in any geometry) or `"distance"`.
        scale: `(R,)` ω(r), the factor on s inside `lse`; None: 1.
        pair_weight: For `want="weighted"`: a function of (rows, cols) that gives the weights w_ik `(b, c)`
            of a tile, such as soft targets or the overlap of ratings.
        want: The statistics to compute: `"count"`, `"sum"`, `"lse"`, `"least"`,
            `"least_index"`, `"weighted"`.

    Returns:
        The requested statistics.

    Example:
        >>> from labeltree.geometry import Sphere
        >>> relation = PairRelation.of_instances(torch.tensor([0, 0, 1]), 3)
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> pair_statistics(z, z, relation, Sphere(), 0.5).sum  # codes: 3 is "same instance", 4 "unknown"
        tensor([[0., 0., 0., 2., 0.],
                [0., 0., 0., 2., 0.],
                [0., 0., 0., 0., 0.]])
    """
    check_choice("similarity", similarity, Similarity)
    if "weighted" in want and pair_weight is None:
        raise ValueError('want="weighted" needs pair_weight, a function of (rows, cols)')
    way = way_of(queries, keys, relation, temperature, similarity, scale=scale)
    options: dict[str, Any] = {"scale": scale, "want": want}
    with torch.autocast(queries.device.type, enabled=False):
        if way == "triton" and "weighted" not in want:
            tile = asked().tile
            return kernels.pair_statistics(queries, keys, relation, float(temperature), **options, tile=tile)
        options |= {"similarity": similarity, "pair_weight": pair_weight}
        queries, keys = at_least_single(queries, keys)
        pairs = queries, keys, relation, geometry, temperature
        if way == "dense":
            return dense.pair_statistics(*pairs, **options)
        return general.pair_statistics(*pairs, **options, tile=asked().tile)


def pair_counts(relation: PairRelation) -> Tensor:
    """Number of keys in each relation to each query, `(n, R)` int64."""
    plan = planned(relation.queries.nodes.device, relation.num_queries * relation.num_keys)
    if plan.name == "dense":
        return dense.pair_counts(relation)
    if plan.name == "triton" and _kernels_know(relation):
        return kernels.pair_counts(relation, plan.tile)
    return general.pair_counts(relation, plan.tile)


def bounded_sum(
    queries: Tensor,
    keys: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    *,
    members: Tensor,
    offset: Tensor,
    bound: Tensor,
    similarity: Similarity = "cosine",
) -> Tensor:
    """B_it = Σ_k max(offset_it − s_ik, bound_t) over the keys k whose relation to i is a member of term t.

    With offset = the log-sum-exp of the softmax this is the inner sum of Eq. 6 and 7 of Use All The Labels.
    A pair that ties with the bound keeps its own gradient: nothing is split, and the pair that set the
    bound ties with it exactly.

    Args:
        queries: `(n, d)`.
        keys: `(m, d)`.
        relation: Relation of every query to every key, R codes.
        geometry: As in `pair_statistics`.
        temperature: Likewise.
        members: `(T, R)` bool, the relations that each term sums over.
        offset: `(n, T)` offsets, finite wherever the anchor has a member of the term.
        bound: `(T,)` lower bounds; −∞ for no bound.
        similarity: As in `pair_statistics`.

    Returns:
        `(n, T)`, differentiable with respect to the embeddings, `offset` and `bound`; 0 where an anchor has
        no member of a term.

    Example:
        >>> from labeltree.geometry import Sphere
        >>> relation = PairRelation.of_instances(torch.tensor([0, 0, 0]), 3)  # views of one sample: code 3
        >>> z, member = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), torch.arange(5)[None] == 3
        >>> offset, bound = torch.ones(3, 1), torch.tensor([0.3])
        >>> bounded_sum(z, z, relation, Sphere(), 1.0, members=member, offset=offset, bound=bound)
        tensor([[1.3000],
                [0.7000],
                [1.4000]])
    """
    way = way_of(queries, keys, relation, temperature, similarity)
    few = 0 < len(members) <= bounded_kernels.MOST_TERMS and offset.dtype == torch.float32
    options: dict[str, Any] = {"members": members, "offset": offset, "bound": bound}
    with torch.autocast(queries.device.type, enabled=False):
        if way == "triton" and few:
            tile = asked().tile
            return bounded_kernels.bounded_sum(
                queries, keys, relation, float(temperature), **options, tile=tile
            )
        queries, keys = at_least_single(queries, keys)
        if way == "tiles":
            grid = grid_of(relation, asked().tile or TILE)
            loss = BoundedSum(grid, float(temperature), **options)
            (total,) = walk(queries, grid, loss, keep=0)  # only few tiles have members
            return total + loss.kept * gradient_alone(offset) + loss.held * gradient_alone(bound)
        options["similarity"] = similarity
        pairs = queries, keys, relation, geometry, temperature
        if way == "dense":
            return dense.bounded_sum(*pairs, **options)
        return general_bounded.bounded_sum(*pairs, **options, tile=asked().tile)


def soft_target_contrast(
    queries: Tensor,
    keys: Tensor,
    stored: Tensor,
    relation: PairRelation,
    *,
    positive: Tensor | None,
    members: Tensor,
    temperature: float,
    target_temperature: float,
) -> QueueContrast:
    """Contrast of every query with its own key and a queue of stored keys, under soft targets.

        s_ij = cos(q_i, h_j)/τ0,   s_i0 = cos(q_i, k_i)/τ0                   (Eq. 8 of MaskCon)
        z'_ij = exp(d_ij/τ) / max_j' exp(d_ij'/τ),   d_ij = cos(k_i, h_j)    (Eq. 11 to 13)

    The maximum is over the candidates of row i; the sum in Eq. 11 cancels. It is subtracted before the
    exponential, so nothing under- or overflows, whatever τ. τ = 0 leaves the nearest candidate (all of them,
    if several are equally near to the last digit), τ = ∞ counts all candidates alike. Computed in float32 or
    better, also of half-precision vectors and under autocast. Differentiable with respect to `queries` alone.

    Args:
        queries: `(b, d)`.
        keys: `(b, d)` keys of the same samples.
        stored: `(m, d)` keys of the queue; m may be 0.
        relation: Relation of every query to every stored key, R codes; excluded pairs are ignored.
        positive: `(R,)` bool, the relations of candidates: stored keys that can be a target. None: none.
        members: `(T, R)` bool, the relations that compete in each softmax; a query's own key always competes.
        temperature: τ0 > 0.
        target_temperature: τ ≥ 0, ∞ included.

    Example:
        A batch as its own queue, in which a row is not its own candidate. Of two candidates, the nearer one
        is as positive as the own key:

        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> relation = PairRelation.of_instances(torch.tensor([0, 1, 2]), 3)
        >>> every = torch.ones(1, relation.num_relations, dtype=torch.bool)
        >>> soft_target_contrast(
        ...     z, z, z, relation, positive=every[0], members=every, temperature=1.0, target_temperature=1.0
        ... ).mass  # 1 + 1 + exp(0 − 0.8), ...
        tensor([2.4493, 2.8187, 2.5488])
    """
    plan = planned(queries.device, len(queries) * len(stored))
    options: dict[str, Any] = {
        "positive": positive,
        "members": members,
        "temperature": temperature,
        "target_temperature": target_temperature,
    }
    with torch.autocast(queries.device.type, enabled=False):
        keys, stored = keys.detach(), stored.detach()
        # With a target, the gradient is the difference of two mean keys. A kernel would find each by itself,
        # and lose the difference to rounding in tight clusters; the streaming walk adds up differences.
        fits = positive is None and keys.dtype != torch.float64
        if plan.name == "triton" and fits and _kernels_take(queries, stored, relation):
            return queue_kernels.queue_contrast(
                queries, keys, stored, relation, members=members, temperature=temperature, tile=plan.tile
            )
        queries, keys, stored = at_least_single(queries, keys, stored)
        if plan.name == "dense":
            return dense.soft_target_contrast(queries, keys, stored, relation, **options)
        return queue_tiles.soft_target_contrast(queries, keys, stored, relation, **options, plan=plan)


def nearest_other(
    points: Tensor,
    prototypes: Tensor,
    own: Tensor,
    geometry: Geometry,
    similarity: Similarity = "distance",
) -> tuple[Tensor, Tensor, Tensor]:
    """The distance of every point to its own prototype, and to the nearest other prototype.

    Differentiable with respect to the points alone. If several prototypes are equally near, the first counts
    and gets the whole gradient.

    Args:
        points: `(n, d)`.
        prototypes: `(m, d)`, m ≥ 2.
        own: `(n,)` int64, the index of each point's own prototype.
        geometry: The space of the distance.
        similarity: `"distance"`, that of the geometry, or `"cosine"`: 1 − cos.

    Returns:
        `(n,)` distances to the own prototype, `(n,)` to the nearest other, `(n,)` int64 its index.

    Example:
        >>> from labeltree.geometry import Euclidean
        >>> points, own = torch.tensor([[0.0], [4.0]]), torch.tensor([0, 0])
        >>> nearest_other(points, torch.tensor([[1.0], [6.0], [2.0]]), own, Euclidean())
        (tensor([1., 3.]), tensor([2., 2.]), tensor([2, 1]))
    """
    if len(prototypes) < 2:
        raise ValueError(f"prototypes must be two or more, or there is no other; got {len(prototypes)}")
    plan = planned(points.device, len(points) * len(prototypes))
    with torch.autocast(points.device.type, enabled=False):
        points, prototypes = at_least_single(points, prototypes.detach())
        if plan.name == "dense":
            return dense.nearest_other(points, prototypes, own, geometry, similarity)
        return nearest.nearest_other(points, prototypes, own, geometry, similarity, plan.tile)


def nearest_of_groups(
    points: Tensor,
    prototypes: Tensor,
    sizes: Sequence[int],
    own: Tensor,
    geometry: Geometry,
    similarity: Similarity = "distance",
) -> tuple[Tensor, Tensor]:
    """`nearest_other` for G groups of prototypes: the distances to the own one and to the nearest other.

    Few distances are computed for all groups in one go.

    Args:
        points: `(n, d)`.
        prototypes: `(m, d)`, group by group.
        sizes: Sizes of the groups, at least 2 each, m in all.
        own: `(n, G)` int64, the index among all prototypes of each point's own prototype in every group.
        geometry: As in `nearest_other`.
        similarity: Likewise.

    Returns:
        `(n, G)` distances to the own prototype and `(n, G)` to the nearest other of the group.
    """
    starts = [sum(sizes[:group]) for group in range(len(sizes))]
    groups = list(zip(starts, sizes, strict=True))
    if planned(points.device, len(points) * len(prototypes)).name != "dense":
        each = [
            nearest_other(points, prototypes[start : start + size], mine - start, geometry, similarity)
            for (start, size), mine in zip(groups, own.unbind(1), strict=True)
        ]
        return torch.stack([mine for mine, _, _ in each], 1), torch.stack([other for _, other, _ in each], 1)
    with torch.autocast(points.device.type, enabled=False):
        points, prototypes = at_least_single(points, prototypes.detach())
        if similarity == "distance" and isinstance(geometry, Sphere):
            columns = [slice(start, start + size) for start, size in groups]
            mine, other = nearest.nearest_chords(points, prototypes, columns, own).tensor_split(2, 1)
            return mine, other
        distances = prototype_distances(points, prototypes, geometry, similarity)
        others = distances.detach().scatter(1, own, torch.inf)
        index = [
            own,
            *(others[:, start : start + size].argmin(1, True).add_(start) for start, size in groups),
        ]
        mine, other = distances.gather(1, torch.cat(index, 1)).tensor_split(2, 1)
    return mine, other
