"""One prediction for a group of samples, such as images of one patient, item or lesion."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.metrics.metric_checks import check_labels, check_nodes, check_same_length
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["Aggregation", "GroupPredictions", "group_labels", "group_probabilities"]

Aggregation = Literal["mean", "logits", "max", "noisy-or", "vote"]


class GroupPredictions(NamedTuple):
    """The combined prediction of each group.

    Attributes:
        groups: (g,) int64 the groups, ascending, then the samples without a group, as -1.
        probabilities: (g, c) float64, rows that sum to 1.
        columns: (g,) int64 the predicted class: the most probable one; ties go to the greatest mean
            probability, then to the first.
    """

    groups: Tensor
    probabilities: Tensor
    columns: Tensor


def group_probabilities(
    probabilities: Tensor, groups: Tensor, aggregation: Aggregation = "mean"
) -> GroupPredictions:
    """Combine the probabilities of the samples of each group.

    - `mean`: their arithmetic mean;
    - `logits`: the softmax of the mean log probabilities (equal to that of the mean logits): the normalised
      geometric mean. One sample that excludes a class has more weight than in the mean;
    - `max`: the maximum of each class, normalised: one suspicious image is enough;
    - `noisy-or`: 1 − Π(1 − p), the probability that any sample shows the class if they err independently,
      normalised;
    - `vote`: the share of samples with each class as their most probable class.

    Args:
        probabilities: (n, c), each 0 or more, rows summing to 1.
        groups: (n,) group of each sample; -1 is a group of its own.
        aggregation: `mean`, `logits`, `max`, `noisy-or` or `vote`.

    Raises:
        ValueError: For wrong shapes or dtypes, rows that are not probabilities, or an unknown aggregation.

    Example:
        >>> probabilities = torch.tensor([[0.5, 0.5], [0.25, 0.75], [0.9, 0.1], [0.25, 0.75]])
        >>> found = group_probabilities(probabilities, torch.tensor([7, 7, 3, 7]))
        >>> found.groups.tolist(), found.columns.tolist()
        ([3, 7], [0, 1])
        >>> group_probabilities(probabilities, torch.tensor([7, 7, 3, 7]), "vote").probabilities[1]
        tensor([0.3333, 0.6667], dtype=torch.float64)

    """
    check_choice("aggregation", aggregation, Aggregation)
    _check(probabilities, groups)
    names, place, sizes = _numbered(groups)
    given = probabilities.detach().double()
    shape = (len(names), given.shape[1])

    def mean(values: Tensor) -> Tensor:
        return values.new_zeros(shape).index_add_(0, place, values) / sizes[:, None]

    average = mean(given)
    if aggregation == "mean":
        pooled = average
    elif aggregation == "logits":
        smallest = torch.finfo(torch.float64).tiny  # log 0 would outweigh all other samples
        pooled = mean(given.clamp_min(smallest).log()).softmax(dim=1)
    elif aggregation == "max":
        index = place[:, None].expand_as(given)
        pooled = given.new_zeros(shape).scatter_reduce_(0, index, given, "amax")
        pooled = pooled / pooled.sum(dim=1, keepdim=True)
    elif aggregation == "noisy-or":
        none = mean((1 - given).clamp_min(torch.finfo(torch.float64).tiny).log()) * sizes[:, None]
        pooled = -torch.expm1(none)
        pooled = pooled / pooled.sum(dim=1, keepdim=True)
    else:
        votes = torch.nn.functional.one_hot(given.argmax(dim=1), shape[1])
        pooled = mean(votes.double())
    best = pooled == pooled.max(dim=1, keepdim=True).values
    return GroupPredictions(names, pooled, average.masked_fill(~best, -1.0).argmax(dim=1))


def group_labels(target_nodes: Tensor, groups: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """The label of each group: the finest of its samples' labels, which must lie on one path.

    Args:
        target_nodes: (n,) nodes, -1 for a missing label, which is ignored.
        groups: (n,) group of each sample; -1 is a group of its own.
        taxonomy: a tree or a DAG.

    Returns:
        (g,) int64 in the order of `group_probabilities`, -1 where no sample of a group has a label.

    Raises:
        ValueError: For wrong shapes or dtypes, entries outside the taxonomy; or if samples of one group have
            labels that contradict each other: the message names the group and two of them.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> nodes = taxonomy.encode(["mammal", "dog", None, "trout"])
        >>> taxonomy.decode(group_labels(nodes, torch.tensor([5, 5, 5, 8]), taxonomy))
        ['mammal/dog', 'fish/trout']

    """
    check_nodes("target_nodes", target_nodes, taxonomy)
    check_labels("groups", groups)
    check_same_length("target_nodes", target_nodes, "groups", groups)
    names, place, _ = _numbered(groups)
    known = (target_nodes >= 0).nonzero().squeeze(1)
    target, place = target_nodes[known].long(), place[known]
    finest = _finest(target, place, len(names), taxonomy)
    contrary = _contrary(target, finest[place], taxonomy).nonzero().squeeze(1)
    if len(contrary):
        row = int(contrary[0])
        one, other = (taxonomy.path_name(int(node)) for node in (target[row], finest[place[row]]))
        count = len(torch.unique(place[contrary]))
        others = f" (and so have {count - 1} more groups)" if count > 1 else ""
        raise ValueError(
            f"group {int(names[place[row]])} has samples labelled '{one}' and '{other}', which contradict "
            f"each other{others}; give groups whose samples all show the same thing, lesions instead of "
            "patients for instance"
        )
    return finest


def in_conflict(target_nodes: Tensor, groups: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """(n,) bool: samples of groups whose labels do not lie on one path; no label may be missing."""
    names, place, _ = _numbered(groups)
    finest = _finest(target_nodes, place, len(names), taxonomy)
    contrary = _contrary(target_nodes, finest[place], taxonomy)
    return torch.isin(place, place[contrary])


def _finest(target: Tensor, place: Tensor, count: int, taxonomy: AnyTaxonomy) -> Tensor:
    """(count,) the finest label of each group, which has the most ancestors; -1 without any label."""
    key = taxonomy.ancestor_count.to(target.device)[target] * taxonomy.num_nodes + target
    finest = key.new_full((count,), -1).scatter_reduce_(0, place, key, "amax")
    return torch.where(finest < 0, -1, finest % taxonomy.num_nodes)


def _contrary(target: Tensor, finest: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """(n,) bool: labels that are neither the finest label of their group nor above it."""
    return taxonomy.lca(finest, target) != target


def _check(probabilities: Tensor, groups: Tensor) -> None:
    if probabilities.ndim != 2 or not probabilities.is_floating_point():
        raise ValueError(
            f"probabilities has shape {tuple(probabilities.shape)} and dtype {probabilities.dtype}; expected "
            "floating-point numbers of shape (n, c)"
        )
    check_labels("groups", groups)
    check_same_length("probabilities", probabilities, "groups", groups)
    off = ~((probabilities >= 0).all(dim=1) & ((probabilities.double().sum(dim=1) - 1).abs() < 1e-3))
    if bool(off.any()):
        row = int(off.nonzero()[0])
        raise ValueError(
            f"probabilities has {probabilities[row].tolist()[:5]} in row {row}; expected numbers of at "
            "least 0 that sum to 1: give the softmax of logits"
        )


def _numbered(groups: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The groups (g,), the index of each sample's group (n,), and the group sizes (g,)."""
    alone = groups < 0
    last = int(groups.max()) + 1 if len(groups) else 0
    own = torch.where(alone, last + torch.arange(len(groups), device=groups.device), groups.long())
    names, place, sizes = torch.unique(own, return_inverse=True, return_counts=True)
    return names.masked_fill(names >= max(last, 0), -1), place, sizes
