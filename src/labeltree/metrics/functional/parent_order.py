"""PC-Order, the complement of parent violations, and both with the numbers of samples behind them."""

from __future__ import annotations

from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.metrics.functional.parents import parent_violations
from labeltree.metrics.reduction import mean_of_counted
from labeltree.taxonomy import Taxonomy

__all__ = ["parent_metrics", "parent_order_accuracy"]


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

    Section 3.5 of Climbing the Label Tree defines it as this complement. The two columns of the paper's
    tables do not add up to 1, so they were not computed from the same prototypes and samples; ours always
    are.

    Args:
        embeddings: as all arguments, see `parent_violations`.
        nodes: (n,) nodes, -1 for a missing label.
        taxonomy: the tree.
        prototypes: (num_nodes, d).
        train: (m, d) and (m,).
        geometry: or its name; default `Sphere()`.
        distance: None, "unit", "raw", "cosine" or "poincare".
        reduction: "mean" or "none".

    Returns:
        float64 scalar, NaN if no sample counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: as `parent_violations`.

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
    """Violations, PC-Order and how many samples stand behind them.

    Args:
        embeddings: as all arguments, see `parent_violations`.
        nodes: (n,) nodes, -1 for a missing label.
        taxonomy: the tree.
        prototypes: (num_nodes, d).
        train: (m, d) and (m,).
        geometry: or its name; default `Sphere()`.
        distance: None, "unit", "raw", "cosine" or "poincare".

    Returns:
        float64 scalars "parent_violations", "parent_order_accuracy"; int64 counts "samples",
        "samples_missing_label", "samples_root_parent", "samples_without_prototype" (their parent has none, or
        no rival).

    Raises:
        ValueError: as `parent_violations`.

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
