"""The k-nearest-neighbour classifier, for several k from one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.geometry import Geometry, as_geometry
from labeltree.metrics.metric_checks import check_embeddings, check_labels, check_positive, check_same_length
from labeltree.metrics.search.ranking import ranked_chunks
from labeltree.metrics.search.results_left_out import LeftOut, groups_of
from labeltree.progress import Progress

__all__ = ["VoteWeights", "nearest_neighbour_labels"]

VoteWeights = Literal["softmax", "distance", "uniform"]

# coordinates of neighbours, and votes, in memory at once: about 64 MB of float64
_BLOCK = 2**23


def nearest_neighbour_labels(
    query_embeddings: Tensor,
    key_embeddings: Tensor,
    key_labels: Tensor,
    *,
    ks: Sequence[int] = (20,),
    weights: VoteWeights = "softmax",
    temperature: float = 0.07,
    geometry: Geometry | str | None = None,
    query_groups: Tensor | None = None,
    key_groups: Tensor | None = None,
    progress: Progress | None = None,
) -> dict[int, Tensor]:
    """The label with the most votes among the k nearest items.

    Item i votes for its label with exp(s_i/τ) ("softmax", Section 3.4 of Wu et al. 2018, Unsupervised Feature
    Learning via Non-Parametric Instance Discrimination), with 1/distance ("distance"; if some distances are
    0, only the items at distance 0 vote) or with 1 ("uniform"). Items of equal similarity are taken in
    database order; among labels with equal votes, the smallest wins.

    Args:
        query_embeddings: (n, d) points of the geometry.
        key_embeddings: (m, d) database.
        key_labels: (m,) integers, -1 for a missing label; those rows are not in the database.
        ks: Numbers of neighbours; above the size of the database, all of it.
        weights: Weights of the votes: "softmax", "distance" or "uniform", see above.
        temperature: τ, of "softmax".
        geometry: Ranks by its similarity; default `Sphere()`, the cosine.
        query_groups: (n,) group of each query, such as a patient, -1 for one that stands alone: items of the
            query's own group have no vote.
        key_groups: (m,) group of each item; required with `query_groups`.
        progress: Called as `progress("ranking", done, total)`.

    Returns:
        k -> (n,) int64 labels; -1 where all items belong to the query's group.

    Raises:
        ValueError: For wrong shapes or dtypes, embeddings that are not finite, a k below 1, unknown weights,
            a temperature that is not above 0, or a database without a label.

    Example:
        >>> import torch
        >>> keys = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]])
        >>> found = nearest_neighbour_labels(
        ...     torch.tensor([[1.0, 0.1]]), keys, torch.tensor([4, 7, 7]), ks=(1, 3), weights="uniform"
        ... )
        >>> {k: labels.tolist() for k, labels in found.items()}
        {1: [4], 3: [7]}

    """
    check_embeddings("query_embeddings", query_embeddings)
    check_embeddings("key_embeddings", key_embeddings)
    check_labels("key_labels", key_labels)
    check_same_length("key_embeddings", key_embeddings, "key_labels", key_labels)
    for k in ks:
        check_positive("an entry of ks", k)
    check_choice("weights", weights, VoteWeights)
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature!r}; expected a number above 0")
    known = key_labels >= 0
    if not bool(known.any()):
        raise ValueError(
            "key_labels holds no label but -1 (missing); expected at least one item with a label"
        )
    queries, keys = query_embeddings.detach(), key_embeddings[known].detach()
    classes, labels = torch.unique(key_labels[known].long(), return_inverse=True)
    left_out = None
    if query_groups is not None and key_groups is not None:
        everyone = torch.zeros(len(queries), dtype=torch.int64)
        left_out = LeftOut.groups(
            groups_of("query_groups", query_groups, everyone), groups_of("key_groups", key_groups, key_labels)
        )
    elif query_groups is not None or key_groups is not None:
        raise ValueError("only one of query_groups and key_groups is given; expected both, or neither")
    space = as_geometry(geometry)
    found = {k: torch.empty(len(queries), dtype=torch.int64, device=queries.device) for k in ks}
    for start, order in ranked_chunks(
        queries, keys, left_out, geometry=space, top=max(ks, default=1), progress=progress
    ):
        width = max(order.shape[1] * keys.shape[1], len(classes))
        step = max(1, _BLOCK // max(width, 1))
        for first in range(0, len(order), step):
            near = order[first : first + step]
            rows = slice(start + first, start + first + len(near))
            there = torch.ones_like(near, dtype=torch.bool)
            if left_out is not None:
                ends = torch.from_numpy(len(keys) - left_out.counts[rows]).to(near.device)
                there = torch.arange(near.shape[1], device=near.device) < ends[:, None]
            power = _power(queries[rows], keys[near], there, weights, temperature, space)
            _vote(found, rows, power, labels[near], classes)
    if left_out is not None:
        nobody = torch.from_numpy(left_out.counts == len(keys))
        for answers in found.values():
            answers[nobody.to(answers.device)] = -1
    return found


def _power(
    queries: Tensor,
    near: Tensor,
    there: Tensor,
    weights: VoteWeights,
    temperature: float,
    geometry: Geometry,
) -> Tensor:
    """Vote of each neighbour `near` (b, k, d), nearest first: (b, k) float64, 0 where not `there` (b, k)."""
    if weights == "uniform":
        return there.double()
    if weights == "softmax":
        similarity = geometry.similarity(queries[:, None].double(), near.double())
        return ((similarity - similarity[:, :1]) / temperature).exp().masked_fill(~there, 0.0)
    distance = geometry.distance(queries[:, None].double(), near.double())
    coincident = (distance <= 0) & there
    inverse = (1.0 / distance.masked_fill(distance <= 0, 1.0)).masked_fill(~there, 0.0)
    return torch.where(coincident.any(1, keepdim=True), coincident.double(), inverse)


def _vote(neighbours: dict[int, Tensor], rows: slice, power: Tensor, labels: Tensor, classes: Tensor) -> None:
    """Count votes (b, k) for labels (b, k), nearest first, and store the winner at every requested k."""
    votes = power.new_zeros(len(power), len(classes))
    counted = 0
    for k in sorted(neighbours):
        upto = min(k, power.shape[1])
        votes.scatter_add_(1, labels[:, counted:upto], power[:, counted:upto])
        counted = upto
        neighbours[k][rows] = classes[votes.argmax(dim=1)]
