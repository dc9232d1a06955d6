"""The order of all classes by their scores: do those near the truth come before those far from it?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.metrics.metric_checks import (
    check_nodes,
    check_positive,
    check_reduction,
    check_same_length,
    mean_of_counted,
)
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["Ties", "hops", "hops_at_ks"]

Ties = Literal["first", "published"]

_AT_ONCE = 2**20  # entries of a table of samples × classes


def hops(
    scores: Tensor,
    target_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    *,
    classes: Tensor | None = None,
    k: int | None = None,
    ties: Ties = "first",
    reduction: str = "mean",
) -> Tensor:
    """HOPS: how well the order of all classes by score follows their distance from the truth (Sani & Anand
    2026, Hier-COS).

    The grade g(c) of a class is the rank of the height of its LCA with the truth among the distinct heights,
    0 for the truth alone. With E the grades in ascending order, O the grades in the order of the scores, and
    weights w, HOPS = 1 − Σ w·|E − O| / Σ w·|E − reversed E|, and 0 where this is negative. A weight is 1 for
    the truth and 2^−E at the first class of a grade, from where it falls in equal steps towards the weight
    of the next grade, and 0 after the last. HOPS@k: sums run over the first k classes, and only these are
    reversed; HOPS@1 is the top-1 accuracy.

    Args:
        scores: (n, C) of the classes, larger for more likely ones; their order is all that counts.
        target_nodes: (n,) nodes, -1 for a missing label; labels that are no class are left out.
        taxonomy: a tree or a DAG.
        classes: (C,) distinct nodes that the columns stand for; default the leaves, ascending.
        k: How many of the first classes to judge; None = all.
        ties: The order of classes with the same score: the `first` column comes first; or as in the
            `published` code, which reverses `numpy.argsort`. That sort keeps no order of ties, so that
            published values of tied scores may differ between machines.
        reduction: "mean", or "none" for one value per sample, NaN where the sample is left out.

    Returns:
        float64 scalar in [0, 1], NaN if no sample counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, scores that are NaN, nodes outside the taxonomy, a class given
            twice, or a k below 1.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> classes = taxonomy.encode(["dog", "cat", "trout"])
        >>> dog = classes[:1]
        >>> hops(torch.tensor([[0.6, 0.3, 0.1]]), dog, taxonomy, classes=classes).item()
        1.0
        >>> hops(torch.tensor([[0.6, 0.1, 0.3]]), dog, taxonomy, classes=classes).item()
        0.7
        >>> hops(torch.tensor([[0.3, 0.6, 0.1]]), dog, taxonomy, classes=classes, k=1).item()
        0.0

    """
    check_reduction(reduction)
    values = hops_at_ks(scores, target_nodes, taxonomy, (k,), classes=classes, ties=ties)[k]
    return mean_of_counted(values) if reduction == "mean" else values


def hops_at_ks(
    scores: Tensor,
    target_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    ks: Sequence[int | None] = (None,),
    *,
    classes: Tensor | None = None,
    ties: Ties = "first",
) -> dict[int | None, Tensor]:
    """`hops` for several k from one sort of the scores, in memory that does not grow with the samples.

    Args:
        scores: (n, C) of the classes.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        ks: How many of the first classes to judge, None for all.
        classes: (C,) distinct nodes that the columns stand for; default the leaves, ascending.
        ties: See `hops`.

    Returns:
        k → (n,) float64, NaN where the sample is left out.

    Raises:
        ValueError: As `hops`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> classes = taxonomy.encode(["dog", "cat", "trout"])
        >>> scores = torch.tensor([[0.6, 0.1, 0.3]])
        >>> values = hops_at_ks(scores, classes[:1], taxonomy, (1, None), classes=classes)
        >>> values[1].tolist(), values[None].tolist()
        ([1.0], [0.7])

    """
    classes = taxonomy.leaves if classes is None else classes
    scores = _check(scores, target_nodes, taxonomy, classes, ks, ties)
    nodes, labels, number = classes.long().cpu(), target_nodes.long().cpu(), len(classes)
    place = torch.full((taxonomy.num_nodes,), -1)
    place[nodes] = torch.arange(number)
    truth = torch.where(labels >= 0, place[labels.clamp(min=0)], -1)
    values = {k: torch.full((len(labels),), torch.nan, dtype=torch.float64) for k in ks}
    counted = (truth >= 0).nonzero()[:, 0]
    by_truth = counted[truth[counted].argsort(stable=True)]
    for rows in torch.split(by_truth, max(1, _AT_ONCE // max(number, 1))):
        present, of_row = torch.unique(truth[rows], return_inverse=True)
        grades = _grades(present, nodes, taxonomy)
        expected = grades.sort(dim=1).values
        weights = _weights(expected)
        order = _ranked(scores[rows].cpu(), ties)
        obtained = grades[of_row].gather(1, order)
        lost = (weights[of_row] * (expected[of_row] - obtained).abs()).cumsum(1)
        for k in ks:
            if k == 1:
                values[k][rows] = (obtained[:, 0] == 0).double()
                continue
            first = number if k is None else min(k, number)
            backwards = expected[:, :first].flip(1)
            most = (weights[:, :first] * (expected[:, :first] - backwards).abs()).sum(1)[of_row]
            values[k][rows] = torch.where(most > 0, (1 - lost[:, first - 1] / most).clamp(0, 1), 1.0)
    return {k: value.to(target_nodes.device) for k, value in values.items()}


def _check(
    scores: Tensor,
    target_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    classes: Tensor,
    ks: Sequence[int | None],
    ties: Ties,
) -> Tensor:
    check_choice("ties", ties, Ties)
    for k in ks:
        if k is not None:
            check_positive("k", k)
    check_nodes("predicted classes", classes, taxonomy)
    check_nodes("target_nodes", target_nodes, taxonomy)
    if not len(classes) or int(classes.min()) < 0 or len(torch.unique(classes)) < len(classes):
        raise ValueError("classes must be one or more distinct nodes, none missing")
    if scores.ndim != 2 or scores.shape[1] != len(classes) or not scores.is_floating_point():
        raise ValueError(
            f"scores has shape {tuple(scores.shape)} and dtype {scores.dtype}; expected floating-point "
            f"numbers of shape (n, {len(classes)}), a column a class"
        )
    check_same_length("scores", scores, "target_nodes", target_nodes)
    if bool(scores.isnan().any()):
        raise ValueError(f"scores holds NaN in row {int(scores.isnan().any(1).nonzero()[0])}")
    return scores.detach()


def _ranked(scores: Tensor, ties: Ties) -> Tensor:
    """Columns (m, C) of the scores, largest first."""
    if ties == "first":
        return scores.argsort(dim=1, descending=True, stable=True)
    numbers = scores if scores.dtype in (torch.float32, torch.float64) else scores.float()
    return torch.from_numpy(np.argsort(numbers.numpy(), axis=1)[:, ::-1].copy())


def _grades(truth: Tensor, classes: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """The grade (m, C) int64 of each class if the one at the column `truth` (m,) is true."""
    height = taxonomy.lca_height(classes[truth][:, None], classes[None]).long()
    height.scatter_(1, truth[:, None], -1)  # a class below the true one has its height, and is not it
    ordered, order = height.sort(dim=1)
    rises = torch.zeros_like(ordered)
    rises[:, 1:] = (ordered[:, 1:] > ordered[:, :-1]).long()
    return torch.empty_like(ordered).scatter_(1, order, rises.cumsum(1))


def _weights(expected: Tensor) -> Tensor:
    """The weights (m, C) float64 of ascending grades (m, C)."""
    number = expected.shape[1]
    sizes = torch.zeros(len(expected), number + 1, dtype=torch.int64)
    sizes.scatter_add_(1, expected, torch.ones_like(expected))
    start = sizes.cumsum(1) - sizes
    along = (torch.arange(number) - start.gather(1, expected)).double() / sizes.gather(1, expected)
    here = torch.pow(2.0, -expected.double())
    last = expected == expected[:, -1:]
    return here - along * torch.where(last, here, here / 2)
