"""Chooses the space to search in: how much the taxonomy counts, and how much the vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from labeltree.decisions.posterior_space import posterior_embeddings
from labeltree.metrics.functional import map_at_r
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.class_similarity import SIMILARITIES, Similarity

__all__ = ["INSTANCES", "TREE_SHARES", "Space", "choose_space", "rows_of_first_folds"]

TREE_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
INSTANCES = (0.0, 0.1, 0.2, 0.5, 1.0)
SPACE_SAMPLES = 2000
"""Samples of whole folds, at least, by which the space is chosen."""


class Space(NamedTuple):
    """Settings of the posterior space, see `TreeRidge`."""

    tree: float
    similarity: Similarity
    instance: float


def choose_space(
    probabilities: Tensor,
    points: Tensor,
    nodes: Tensor,
    folds: Tensor,
    classes: Tensor,
    taxonomy: Taxonomy,
    *,
    tree: float | None = None,
    instance: float | None = None,
    similarity: Similarity | None = None,
) -> Space:
    """The settings of the posterior space by MAP@R among the samples of each fold.

    First the tree counts as much, then the vectors as little, as keeps the mean within a standard error (of
    the difference) of the best.

    Args:
        probabilities: `(n, c)` by heads that have not seen the fold.
        points: `(n, d)` unit vectors.
        nodes: `(n,)` classes of the samples.
        folds: `(n,)` fold of each.
        classes: `(c,)` nodes.
        taxonomy: Of the classes.
        tree: None = chosen.
        instance: None = chosen.
        similarity: None = chosen.
    """
    rows_of_folds = rows_of_first_folds(folds, SPACE_SAMPLES)

    def precision(space: Space) -> Tensor:
        parts = []
        for rows in rows_of_folds:
            embeddings = posterior_embeddings(
                probabilities[rows],
                classes,
                taxonomy,
                similarity=space.similarity,
                tree=space.tree,
                vectors=points[rows],
                instance=space.instance,
            )
            parts.append(map_at_r(embeddings.float(), nodes[rows], taxonomy=taxonomy, reduction="none"))
        return torch.cat(parts).double()

    shares = TREE_SHARES if tree is None else (tree,)
    kinds = SIMILARITIES if similarity is None else (similarity,)
    weights = INSTANCES if instance is None else (instance,)
    trees = [Space(share, kind, weights[0]) for kind in kinds for share in shares]
    space = _level_with_best(trees, precision)[-1]
    return _level_with_best([space._replace(instance=weight) for weight in weights], precision)[0]


def rows_of_first_folds(folds: Tensor, enough: int) -> list[Tensor]:
    """Rows of each of the first folds that have enough samples together, of all if they have fewer."""
    chosen: list[Tensor] = []
    for fold in sorted(set(folds.tolist())):
        if sum(map(len, chosen)) < enough:
            chosen.append((folds == fold).nonzero()[:, 0])
    return chosen


def _level_with_best(tried: Sequence[Space], measure: Callable[[Space], Tensor]) -> list[Space]:
    """The spaces whose mean is within a standard error of the greatest, by tree, instance and mean."""
    if len(tried) == 1:
        return list(tried)
    values = {space: measure(space) for space in tried}
    best = max(values, key=lambda space: float(values[space].nanmean()))
    level = []
    for space, each in values.items():
        behind = (values[best] - each)[~each.isnan()]
        error = float(behind.std()) / math.sqrt(len(behind)) if len(behind) > 1 else math.inf
        if space == best or float(behind.mean()) <= error:
            level.append(space)
    return sorted(level, key=lambda space: (space.tree, space.instance, float(values[space].nanmean())))
