"""CPCC: whether the distances between class means follow those in the tree, as one number."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Geometry, as_geometry
from labeltree.metrics.functional.pair_order import choose_pairs
from labeltree.metrics.metric_checks import (
    check_embeddings,
    check_nodes,
    check_positive,
    check_reduction,
    check_same_length,
    spread,
)
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["ClassPairs", "cophenetic_correlation"]

# a part of the pairs that stays in the cache
_CHUNK_ELEMENTS = 2**18
# distances that differ by less, relative to the largest, are equal but for rounding
_EQUAL = 1e-12


def cophenetic_correlation(
    embeddings: Tensor,
    nodes: Tensor,
    taxonomy: AnyTaxonomy,
    geometry: Geometry | str | None = None,
    *,
    max_pairs: int = 1_000_000,
    seed: int = 0,
    reduction: str = "mean",
) -> Tensor:
    """CPCC, the cophenetic correlation of class means: 1 if their distances are those of the tree, scaled.

    Pearson's correlation, over all pairs of classes, of the distance of their means with the number of edges
    between them in the tree (Sokal & Rohlf 1962; of class means: Zeng et al. 2022, Learning Structured
    Representations by Embedding Class Hierarchy). Means and distances are those of the geometry. Every
    distinct label is a class, an inner node too. It is not defined with fewer than three classes, or if all
    distances in the tree, or all between means, are equal.

    Args:
        embeddings: (n, d) points of the geometry.
        nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        geometry: Geometry of the embeddings, or its name; default `Sphere()`.
        max_pairs: If there are more pairs of classes, this many are drawn at random.
        seed: Seed of the random draw.
        reduction: "mean", or "none" for (n,) pseudo-values, NaN where a label is missing, whose mean is the
            correlation and whose spread estimates its uncertainty: θ + n·∂θ/∂w_i at sample weights w = 1 (the
            infinitesimal jackknife). A single pseudo-value has no meaning.

    Returns:
        float64 scalar from −1 to 1, NaN if it is not defined; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy.

    Example:
        >>> import torch
        >>> from labeltree.geometry import Euclidean
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> nodes, line = taxonomy.encode(["dog", "cat", "trout"]), torch.tensor([[0.0], [2.0], [4.0]])
        >>> # distances 2, 4, 2 of dog–cat, dog–trout, cat–trout; 2, 4, 4 in the tree
        >>> round(cophenetic_correlation(line, nodes, taxonomy, Euclidean()).item(), 4)
        0.5

    """
    check_embeddings("embeddings", embeddings)
    check_nodes("nodes", nodes, taxonomy)
    check_same_length("embeddings", embeddings, "nodes", nodes)
    check_positive("max_pairs", max_pairs)
    check_reduction(reduction)
    labelled, pairs = nodes >= 0, ClassPairs(taxonomy, max_pairs, seed)
    values = pairs.correlation(embeddings[labelled], nodes[labelled], as_geometry(geometry), reduction)
    return values if reduction == "mean" else spread(values, labelled)


class ClassPairs:
    """The pairs of classes that CPCC compares; they are kept while samples have the same classes.

    Args:
        taxonomy: A tree or a DAG.
        max_pairs: If there are more pairs of classes, this many are drawn at random.
        seed: Seed of the random draw.
    """

    def __init__(self, taxonomy: AnyTaxonomy, max_pairs: int, seed: int) -> None:
        self.taxonomy, self.max_pairs, self.seed = taxonomy, max_pairs, seed
        self._classes = torch.zeros(0, dtype=torch.int64)
        self._apart = (torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0, dtype=torch.float64))

    def correlation(self, points: Tensor, nodes: Tensor, geometry: Geometry, reduction: str) -> Tensor:
        """`cophenetic_correlation` of points (n, d) with labels `nodes` (n,), none missing."""
        points = points.detach().double()
        classes, own = torch.unique(nodes.long(), return_inverse=True)
        undefined = points.new_full(() if reduction == "mean" else (len(points),), torch.nan)
        if len(classes) < 3:
            return undefined
        pairs, apart = self._measure(classes)
        weights = None
        if reduction != "mean":
            weights = torch.ones(len(points), dtype=torch.float64, device=points.device, requires_grad=True)
        with torch.set_grad_enabled(weights is not None):
            means = geometry.group_means(points, own, len(classes), weights=weights)
        correlation, slope = _correlation(_distances(means.detach(), pairs, geometry), apart)
        if bool(correlation.isnan()):
            return undefined
        if weights is None:
            return correlation
        slopes = _gradient(means.detach(), pairs, geometry, slope)
        with torch.enable_grad():
            (influence,) = torch.autograd.grad((means * slopes).sum(), weights)
        return correlation + len(points) * influence

    def _measure(self, classes: Tensor) -> tuple[Tensor, Tensor]:
        """Pairs (2, p) of positions in `classes`, and the edges (p,) between them."""
        if not torch.equal(classes, self._classes.to(classes.device)):
            generator = torch.Generator().manual_seed(self.seed)
            pairs = torch.stack(choose_pairs(len(classes), self.max_pairs, generator)).to(classes.device)
            apart = self.taxonomy.path_length(classes[pairs[0]], classes[pairs[1]]).double()
            self._classes, self._apart = classes, (pairs, apart)
        return self._apart


def _correlation(distance: Tensor, apart: Tensor) -> tuple[Tensor, Tensor]:
    """Pearson's correlation of (p,) and (p,), NaN if one is constant, and its derivative by `distance`."""
    one, other = distance - distance.mean(), apart - apart.mean()
    if any(bool(c.abs().max() <= _EQUAL * x.abs().max()) for c, x in ((one, distance), (other, apart))):
        return distance.new_full((), torch.nan), torch.zeros_like(distance)
    one_unit, other_unit = one / one.norm(), other / other.norm()
    correlation = (one_unit * other_unit).sum().clamp(-1, 1)
    return correlation, (other_unit - correlation * one_unit) / one.norm()


def _distances(means: Tensor, pairs: Tensor, geometry: Geometry) -> Tensor:
    """(p,) distances of the means (c, d) that are the pairs (2, p)."""
    if _all_pairs(means, pairs):  # a matrix takes a fraction of the time
        whole = geometry.pairwise_distance(means, means)
        return whole[pairs[0], pairs[1]]
    step = max(1, _CHUNK_ELEMENTS // max(means.shape[1], 1))
    parts = (geometry.distance(means[part[0]], means[part[1]]) for part in torch.split(pairs, step, dim=1))
    return torch.cat(list(parts))


def _gradient(means: Tensor, pairs: Tensor, geometry: Geometry, slope: Tensor) -> Tensor:
    """(c, d) gradient by the means of Σ slope (p,) · distance, a part of the pairs at a time."""
    step = max(1, _CHUNK_ELEMENTS // max(means.shape[1], 1))
    step = pairs.shape[1] if _all_pairs(means, pairs) else step
    total = torch.zeros_like(means)
    for part, here in zip(torch.split(pairs, step, dim=1), torch.split(slope, step), strict=True):
        with torch.enable_grad():
            leaf = means.clone().requires_grad_()
            distance = _distances(leaf, part, geometry)
            (gradient,) = torch.autograd.grad((distance * here).sum(), leaf)
        total += gradient
    return total


def _all_pairs(means: Tensor, pairs: Tensor) -> bool:
    return 2 * pairs.shape[1] == len(means) * (len(means) - 1)
