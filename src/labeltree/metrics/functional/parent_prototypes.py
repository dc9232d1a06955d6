"""Prototypes (mean embeddings of nodes), and whether samples lie nearest to the prototype of their parent."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Euclidean, Geometry, PoincareBall, Sphere, as_geometry
from labeltree.metrics.metric_checks import (
    check_embeddings,
    check_nodes,
    check_reduction,
    check_same_length,
    mean_of_counted,
)
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.dag import check_tree

__all__ = ["class_prototypes", "parent_metrics", "parent_order_accuracy", "parent_violations"]

_CHUNK_ELEMENTS = 2**20
# Distances are compared in float64. A difference this small, relative to the distance and to the size of the
# embedding, is rounding and means a tie.
_TIE = 1e-12


def class_prototypes(
    embeddings: Tensor,
    nodes: Tensor,
    taxonomy: Taxonomy,
    geometry: Geometry | str | None = None,
    *,
    steps: int = 3,
) -> Tensor:
    """Mean embedding of every node: of the samples labelled with it or with one of its descendants.

    The mean is the one of the geometry: normalised on the sphere, arithmetic in Euclidean space, Karcher's on
    the Poincaré ball (Section 4.4 of Climbing the Label Tree). A sample labelled at an inner node counts for
    that node and its ancestors; a sample without a label is ignored.

    Args:
        embeddings: (n, d) points of the geometry, usually those of the training split.
        nodes: (n,) nodes, -1 for a missing label.
        taxonomy: The tree.
        geometry: Geometry of the embeddings, or its name; default `Sphere()`.
        steps: Number of fixed-point steps of a Karcher mean.

    Returns:
        (num_nodes, d) float64; rows of nodes without a sample are NaN.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy.

    Example:
        >>> import torch
        >>> from labeltree.geometry import Euclidean
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> nodes = taxonomy.encode(["dog", "cat"])
        >>> prototypes = class_prototypes(torch.eye(2), nodes, taxonomy, Euclidean())
        >>> prototypes[taxonomy.find("mammal")]
        tensor([0.5000, 0.5000], dtype=torch.float64)

    """
    check_embeddings("embeddings", embeddings)
    check_tree("prototypes of inner nodes", taxonomy)
    check_nodes("nodes", nodes, taxonomy)
    check_same_length("embeddings", embeddings, "nodes", nodes)
    geometry = as_geometry(geometry)
    points = embeddings.detach().double()
    ancestors = taxonomy.ancestors.to(nodes.device)[nodes.clamp(min=0)]
    ancestors[nodes < 0] = -1
    prototypes = points.new_full((taxonomy.num_nodes, points.shape[1]), torch.nan)
    for column in ancestors.unbind(dim=1):
        here = column >= 0
        present, groups = torch.unique(column[here], return_inverse=True)
        if len(present):
            some = points if bool(here.all()) else points[here]
            prototypes[present] = geometry.group_means(some, groups, len(present), steps=steps)
    return prototypes


def parent_violations(
    embeddings: Tensor,
    nodes: Tensor,
    taxonomy: Taxonomy,
    prototypes: Tensor | None = None,
    *,
    train: tuple[Tensor, Tensor] | None = None,
    geometry: Geometry | str | None = None,
    distance: str | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Share of samples that lie no nearer to their parent's prototype than to a wrong parent's prototype.

    mean of [d(z, μ_parent(y)) ≥ d(z, μ_p) for some p ≠ parent(y)] over the inner nodes p at the depth of
    parent(y) (Sections 3.5 and 4.4 of Climbing the Label Tree). A tie is a violation. A sample is left out if
    it has no label, or if its parent is the root, has no prototype, or has the only prototype of its depth.

    Args:
        embeddings: (n, d) points of the geometry, usually those of the test split.
        nodes: (n,) nodes, -1 for a missing label.
        taxonomy: The tree.
        prototypes: (num_nodes, d), NaN for a node without a prototype; see `class_prototypes`.
        train: Embeddings (m, d) and nodes (m,) of the samples to compute prototypes from, if none are given.
        geometry: Geometry of the embeddings and prototypes, or its name; default `Sphere()`.
        distance: None for the distance of the geometry, or a name: "unit" (Euclidean between normalised
            vectors), "raw" (Euclidean), "cosine" (1 − cos), "poincare" (geodesic; the ball of `geometry`, or
            curvature −1).
        reduction: "mean", or "none" for 1, 0 or, where a sample is left out, NaN.

    Returns:
        float64 scalar, NaN if no sample counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy,
            an unknown distance, or unless exactly one source of prototypes is given.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> train = torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.0, 1.0]])
        >>> prototypes = class_prototypes(train, taxonomy.encode(["dog", "cat", "trout"]), taxonomy)
        >>> test, nodes = torch.tensor([[0.9, 0.1], [0.2, 0.8]]), taxonomy.encode(["cat", "dog"])
        >>> parent_violations(test, nodes, taxonomy, prototypes).item()
        0.5

    """
    check_reduction(reduction)
    check_tree("parent violations", taxonomy)
    check_embeddings("embeddings", embeddings)
    check_nodes("nodes", nodes, taxonomy)
    check_same_length("embeddings", embeddings, "nodes", nodes)
    geometry = as_geometry(geometry)
    space = _space(geometry, distance)
    prototypes = _prototypes(prototypes, train, taxonomy, geometry).to(embeddings.device)
    if prototypes.shape[1] != embeddings.shape[1]:
        raise ValueError(
            f"prototypes have dimension {prototypes.shape[1]} and embeddings {embeddings.shape[1]}; "
            "expected the same"
        )
    known = ~prototypes.isnan().any(dim=1)
    candidate = known & ~taxonomy.is_leaf.to(nodes.device)
    depth = taxonomy.depth.to(nodes.device)
    parent = torch.where(nodes >= 0, taxonomy.parent.to(nodes.device)[nodes.clamp(min=0)], -1)
    violated = torch.full(nodes.shape, torch.nan, dtype=torch.float64, device=nodes.device)
    for level in range(1, taxonomy.max_depth):
        rivals = (candidate & (depth == level)).nonzero()[:, 0]
        rows = (
            (parent > 0) & (depth[parent.clamp(min=0)] == level) & candidate[parent.clamp(min=0)]
        ).nonzero()[:, 0]
        if len(rivals) < 2:
            continue
        for some in torch.split(rows, max(1, _CHUNK_ELEMENTS // len(rivals))):
            own = torch.searchsorted(rivals, parent[some])
            violated[some] = _violates(embeddings[some], prototypes[rivals], own, space).double()
    return violated if reduction == "none" else mean_of_counted(violated)


def _violates(points: Tensor, prototypes: Tensor, own: Tensor, space: Geometry) -> Tensor:
    """(b,) bool: whether another prototype is at most as far from a point as its own, `prototypes[own]`."""
    points = points.detach().double()
    distance = space.pairwise_distance(points, prototypes)
    to_own = distance.gather(1, own[:, None])[:, 0]
    others = distance.scatter(1, own[:, None], torch.inf).amin(dim=1)
    rounding = _TIE * (others + space.project(points).norm(dim=1))
    violated: Tensor = to_own >= others - rounding
    return violated


def _space(geometry: Geometry, distance: str | None) -> Geometry:
    """The geometry with that distance; the chord and 1 − cos = chord²/2 order all pairs alike."""
    if distance is None:
        return geometry
    if distance in ("unit", "cosine"):
        return Sphere()
    if distance == "raw":
        return Euclidean()
    if distance == "poincare":
        return geometry if isinstance(geometry, PoincareBall) else PoincareBall()
    raise ValueError(f"distance is {distance!r}; expected None, 'unit', 'raw', 'cosine' or 'poincare'")


def _prototypes(
    prototypes: Tensor | None,
    train: tuple[Tensor, Tensor] | None,
    taxonomy: Taxonomy,
    geometry: Geometry,
) -> Tensor:
    """(num_nodes, d) float64 prototypes, as given or computed from training samples."""
    if prototypes is None:
        if train is None:
            raise ValueError(
                "prototypes and train are None; expected prototypes, or samples to take them from"
            )
        return class_prototypes(*train, taxonomy, geometry)
    if train is not None:
        raise ValueError("prototypes and train are both given; expected one of them")
    if prototypes.ndim != 2 or prototypes.shape[0] != taxonomy.num_nodes:
        raise ValueError(
            f"prototypes have shape {tuple(prototypes.shape)}; "
            f"expected ({taxonomy.num_nodes}, d), a row per node"
        )
    return prototypes.detach().double()


def parent_order_accuracy(
    embeddings: Tensor,
    nodes: Tensor,
    taxonomy: Taxonomy,
    prototypes: Tensor | None = None,
    *,
    train: tuple[Tensor, Tensor] | None = None,
    geometry: Geometry | str | None = None,
    distance: str | None = None,
    reduction: str = "mean",
) -> Tensor:
    """PC-Order: share of samples whose nearest parent prototype is that of their parent, 1 −
    `parent_violations`.

    Section 3.5 of Climbing the Label Tree defines it as this complement. In the paper's tables the two do not
    add up to 1, so there they cannot come from the same prototypes and samples; here they do.

    Args:
        embeddings: (n, d) points of the geometry; all arguments are as in `parent_violations`.
        nodes: (n,) nodes, -1 for a missing label.
        taxonomy: The tree.
        prototypes: (num_nodes, d) prototypes, or None.
        train: (m, d) and (m,) training samples, or None.
        geometry: Geometry of the embeddings, or its name; default `Sphere()`.
        distance: None, "unit", "raw", "cosine" or "poincare".
        reduction: "mean" or "none".

    Returns:
        float64 scalar, NaN if no sample counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: As `parent_violations`.

    Example:
        >>> import torch
        >>> from labeltree.metrics.functional import class_prototypes
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> train = torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.0, 1.0]])
        >>> prototypes = class_prototypes(train, taxonomy.encode(["dog", "cat", "trout"]), taxonomy)
        >>> test, nodes = torch.tensor([[0.9, 0.1]]), taxonomy.encode(["cat"])
        >>> parent_order_accuracy(test, nodes, taxonomy, prototypes).item()
        1.0

    """
    return 1.0 - parent_violations(
        embeddings,
        nodes,
        taxonomy,
        prototypes,
        train=train,
        geometry=geometry,
        distance=distance,
        reduction=reduction,
    )


def parent_metrics(
    embeddings: Tensor,
    nodes: Tensor,
    taxonomy: Taxonomy,
    prototypes: Tensor | None = None,
    *,
    train: tuple[Tensor, Tensor] | None = None,
    geometry: Geometry | str | None = None,
    distance: str | None = None,
) -> dict[str, Tensor]:
    """Parent violations and PC-Order, and the numbers of samples that they are computed from.

    Args:
        embeddings: (n, d) points of the geometry; all arguments are as in `parent_violations`.
        nodes: (n,) nodes, -1 for a missing label.
        taxonomy: The tree.
        prototypes: (num_nodes, d) prototypes, or None.
        train: (m, d) and (m,) training samples, or None.
        geometry: Geometry of the embeddings, or its name; default `Sphere()`.
        distance: None, "unit", "raw", "cosine" or "poincare".

    Returns:
        float64 scalars "parent_violations", "parent_order_accuracy"; int64 counts "samples",
        "samples_missing_label", "samples_root_parent", "samples_without_prototype" (the parent has no
        prototype, or the only one of its depth).

    Raises:
        ValueError: As `parent_violations`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("fish", "trout"), ("squid",)])
        >>> train = torch.eye(3), taxonomy.encode(["dog", "trout", "squid"])
        >>> metrics = parent_metrics(*train, taxonomy, train=train)
        >>> {name: value.item() for name, value in metrics.items() if value.is_floating_point()}
        {'parent_violations': 0.0, 'parent_order_accuracy': 1.0}
        >>> metrics["samples"].item(), metrics["samples_root_parent"].item()
        (2, 1)

    """
    violated = parent_violations(
        embeddings,
        nodes,
        taxonomy,
        prototypes,
        train=train,
        geometry=geometry,
        distance=distance,
        reduction="none",
    )
    parent = taxonomy.parent.to(nodes.device)[nodes.clamp(min=0)]
    at_root = (nodes >= 0) & (parent <= 0)
    left_out = violated.isnan()
    rate = mean_of_counted(violated)
    return {
        "parent_violations": rate,
        "parent_order_accuracy": 1.0 - rate,
        "samples": (~left_out).sum(),
        "samples_missing_label": (nodes < 0).sum(),
        "samples_root_parent": at_root.sum(),
        "samples_without_prototype": (left_out & (nodes >= 0) & ~at_root).sum(),
    }
