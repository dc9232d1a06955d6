"""Hierarchy violations among pairs of samples: nearer on the tree, but further apart in the space."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.geometry import Euclidean, Geometry, Sphere, as_geometry
from labeltree.metrics.metric_checks import (
    check_embeddings,
    check_nodes,
    check_positive,
    check_reduction,
    check_same_length,
    spread,
)
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["choose_pairs", "pair_violations"]

_READINGS = ("comparisons", "triplets", "pairs", "finer_pairs")
_ROWS = 512
# Numbers of a part: of pairs of points that stay in the cache, and of a block of the matrix of all distances.
_CHUNK_ELEMENTS = 2**17
_BLOCK_ELEMENTS = 2**19
# Blocks are used where they hold at most this many distances for each one that is asked for.
_WASTED = 16
# Distances that differ by less, relatively, are measured again, pair by pair: blocks are good to 1e-11.
_ALIKE = 1e-9


def pair_violations(
    embeddings: Tensor,
    nodes: Tensor,
    taxonomy: AnyTaxonomy,
    geometry: Geometry | str | None = None,
    *,
    reading: str = "comparisons",
    ties: str = "ignore",
    max_pairs: int = 1_000_000,
    seed: int = 0,
    reduction: str = "mean",
) -> Tensor:
    """Share of violations of the hierarchy among pairs of samples (Zhang et al. 2022, supplement E and Table
    4).

    Two pairs of samples are comparable when their LCAs have different depths. They are a violation when the
    pair with the deeper LCA lies strictly further apart. The supplement's sentence can be read in several
    ways:

    - "comparisons" (default): violations / comparable pairs of pairs.
    - "triplets": the same, but only of pairs that share a sample.
    - "pairs": pairs that take part in at least one violation / all pairs.
    - "finer_pairs": pairs that are the deeper side of at least one violation / pairs with any comparable
      coarser pair.

    Samples without a label are left out, and so are pairs whose labels leave the depth of their LCA
    undecided: one label is an inner node and an ancestor of, or equal to, the other.

    Args:
        embeddings: (n, d) points of the geometry.
        nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        geometry: Gives the distance, in float64; default `Sphere()`, the chord between normalised embeddings.
        reading: See above.
        ties: "ignore", or "count" equal distances as violations.
        max_pairs: If there are more pairs, this many are drawn at random (for "triplets": random samples that
            have about this many pairs in all, each with all of its pairs).
        seed: Seed of the random draw.
        reduction: "mean", or "none" for (n,) pseudo-values, NaN where a sample has no label, whose mean is
            the share of "comparisons" and whose spread estimates its uncertainty: θ + n·∂θ/∂w_i at sample
            weights w = 1 (the infinitesimal jackknife). A single pseudo-value has no meaning.

    Returns:
        float64 scalar; NaN if nothing is comparable; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy,
            an unknown reading or rule for ties, or pseudo-values of another reading than "comparisons".

    Example:
        >>> import torch
        >>> from labeltree.geometry import Euclidean
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> nodes, line = taxonomy.encode(["dog", "cat", "trout"]), torch.tensor([[0.0], [2.0], [3.0]])
        >>> # dog and cat lie 2 apart: nearer than dog and trout (3), but not than cat and trout (1)
        >>> pair_violations(line, nodes, taxonomy, Euclidean()).item()
        0.5

    """
    check_embeddings("embeddings", embeddings)
    check_nodes("nodes", nodes, taxonomy)
    check_same_length("embeddings", embeddings, "nodes", nodes)
    check_positive("max_pairs", max_pairs)
    check_choice("reading", reading, _READINGS)
    check_choice("ties", ties, ("ignore", "count"))
    check_reduction(reduction)
    if reduction == "none" and reading != "comparisons":
        raise ValueError(f"reduction is 'none' with reading {reading!r}; expected reading 'comparisons'")
    labelled = nodes >= 0
    points, nodes = embeddings[labelled].detach().double(), nodes[labelled].long()
    geometry, tied = as_geometry(geometry), ties == "count"
    if type(geometry) is Sphere:  # its distance is that of normalised points: each is normalised once
        for part in torch.split(points, _ROWS):
            part.copy_(geometry.project(part))
        geometry = Euclidean()
    count = len(nodes)
    generator = torch.Generator().manual_seed(seed)
    if reading == "triplets":
        violating, comparable = 0, 0
        anchors = torch.arange(count)
        if count * (count - 1) > max_pairs:
            anchors = torch.randperm(count, generator=generator)[: max(1, max_pairs // count)]
        for anchor in anchors.tolist():
            others = torch.cat([torch.arange(anchor), torch.arange(anchor + 1, count)]).to(nodes.device)
            first = torch.full_like(others, anchor)
            counted = _count_comparisons(*_measure(points, nodes, first, others, taxonomy, geometry), tied)
            violating, comparable = violating + counted[0], comparable + counted[1]
        return _share(violating, comparable, points)
    first, second = (side.to(nodes.device) for side in choose_pairs(count, max_pairs, generator))
    if reduction == "none":
        decided, distance, depth = _decided(points, nodes, first, second, taxonomy, geometry)
        values = _pseudo_values(first[decided], second[decided], distance, depth, count, tied)
        return spread(values, labelled)
    distance, depth = _measure(points, nodes, first, second, taxonomy, geometry)
    if reading == "comparisons":
        return _share(*_count_comparisons(distance, depth, tied), points)
    return _share(*_count_pairs(distance, depth, tied, finer_only=reading == "finer_pairs"), points)


def choose_pairs(count: int, max_pairs: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Both sides of all unordered pairs of `count` rows, or of `max_pairs` random ones if there are more."""
    if count * (count - 1) // 2 <= max_pairs:
        first, second = torch.triu_indices(count, count, offset=1).unbind(0)
        return first, second
    first = torch.randint(count, (max_pairs,), generator=generator)
    second = torch.randint(count - 1, (max_pairs,), generator=generator)
    return first, second + (second >= first).long()


def _measure(
    points: Tensor, nodes: Tensor, first: Tensor, second: Tensor, taxonomy: AnyTaxonomy, geometry: Geometry
) -> tuple[Tensor, Tensor]:
    """Distances and LCA depths (p,) of the pairs whose LCA depth is decided."""
    return _decided(points, nodes, first, second, taxonomy, geometry)[1:]


def _decided(
    points: Tensor, nodes: Tensor, first: Tensor, second: Tensor, taxonomy: AnyTaxonomy, geometry: Geometry
) -> tuple[Tensor, Tensor, Tensor]:
    """Mask of the pairs with a decided LCA depth, and their distances and depths."""
    u, v = nodes[first], nodes[second]
    lca = taxonomy.lca(u, v)
    decided = taxonomy.is_leaf.to(lca.device)[lca] | ((lca != u) & (lca != v))
    distance = _distances(points, first[decided], second[decided], geometry)
    return decided, distance, taxonomy.depth.to(lca.device)[lca[decided]]


def _distances(points: Tensor, first: Tensor, second: Tensor, geometry: Geometry) -> Tensor:
    """(p,) distances of pairs of rows, in the order that `Geometry.distance` gives them.

    Where most pairs are asked for, they come from matrix products, which round otherwise: the few that are
    alike but for rounding, and so all ties, are measured pair by pair.
    """
    if not len(first) or len(points) ** 2 > _WASTED * len(first):
        return _one_by_one(points, first, second, geometry)
    distance = _pair_distances(points, torch.minimum(first, second), torch.maximum(first, second), geometry)
    ascending, order = distance.sort()
    apart = ascending.diff() > _ALIKE * ascending[1:]
    ends = apart.new_ones(1)
    alike = order[~(torch.cat([ends, apart]) & torch.cat([apart, ends]))]
    distance[alike] = _one_by_one(points, first[alike], second[alike], geometry)
    return distance


def _one_by_one(points: Tensor, first: Tensor, second: Tensor, geometry: Geometry) -> Tensor:
    """(p,) distances of pairs of rows, as many at a time as stay in the cache."""
    distance = points.new_empty(len(first))
    step = max(1, _CHUNK_ELEMENTS // max(points.shape[1], 1))
    for start in range(0, len(first), step):
        some = slice(start, start + step)
        distance[some] = geometry.distance(points[first[some]], points[second[some]])
    return distance


def _pair_distances(points: Tensor, low: Tensor, high: Tensor, geometry: Geometry) -> Tensor:
    """(p,) distances of pairs of rows low < high, from blocks of the matrix of all distances."""
    distance = points.new_empty(len(low))
    step = max(1, _BLOCK_ELEMENTS // max(len(points), 1))
    block, order = (low // step).sort()
    counts = torch.bincount(block, minlength=-(-len(points) // step)).tolist()
    for start, here in zip(range(0, len(points), step), torch.split(order, counts), strict=True):
        all_of = geometry.pairwise_distance(points[start : start + step], points[start:])
        distance[here] = all_of[low[here] - start, high[here] - start]
    return distance


def _count_comparisons(distance: Tensor, depth: Tensor, tied: bool) -> tuple[int, int]:
    """Numbers of violations and of comparisons: each depth's distances searched among all shallower ones."""
    violating, comparable = 0, 0
    for level in torch.unique(depth)[1:].tolist():
        shallower = distance[depth < level].sort().values
        deeper = distance[depth == level].contiguous()
        violating += int(torch.searchsorted(shallower, deeper, right=tied).sum())
        comparable += len(shallower) * len(deeper)
    return violating, comparable


def _pseudo_values(
    first: Tensor, second: Tensor, distance: Tensor, depth: Tensor, count: int, tied: bool
) -> Tensor:
    """(count,) pseudo-values of the share: each pair's comparisons go to both of its samples."""
    distance, order = distance.sort()
    depth = depth[order]
    violating, comparable = torch.empty_like(distance), torch.empty_like(distance)
    for level in torch.unique(depth).tolist():
        here = depth == level
        own, shallower, deeper = distance[here], distance[depth < level], distance[depth > level]
        wrong = torch.searchsorted(shallower, own, right=tied)
        wrong += len(deeper) - torch.searchsorted(deeper, own, right=not tied)
        violating[order[here]] = wrong.double()
        comparable[order[here]] = float(len(shallower) + len(deeper))
    total = comparable.sum() / 2
    share = violating.sum() / 2 / total
    gained = (violating - share * comparable) / total
    derivative = torch.zeros(count, dtype=torch.float64, device=distance.device)
    derivative.index_add_(0, first, gained).index_add_(0, second, gained)
    return share + count * derivative


def _count_pairs(distance: Tensor, depth: Tensor, tied: bool, *, finer_only: bool) -> tuple[int, int]:
    """Number of pairs in any violation (`finer_only`: as the deeper side), and of pairs that could be."""
    levels = torch.unique(depth).tolist()
    involved = torch.zeros_like(distance, dtype=torch.bool)
    for level in levels[1:]:
        here = depth == level
        nearest = distance[depth < level].min()
        involved[here] |= distance[here] >= nearest if tied else distance[here] > nearest
    if finer_only:
        return int(involved.sum()), int((depth > levels[0]).sum()) if levels else 0
    for level in levels[:-1]:
        here = depth == level
        furthest = distance[depth > level].max()
        involved[here] |= distance[here] <= furthest if tied else distance[here] < furthest
    return int(involved.sum()), len(distance)


def _share(part: int, whole: int, like: Tensor) -> Tensor:
    return torch.tensor(part / whole if whole else torch.nan, dtype=torch.float64, device=like.device)
