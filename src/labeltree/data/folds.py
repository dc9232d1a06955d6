"""Folds for cross-validation that never part a group, balanced at every node of the tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data.groups import deal_groups
from labeltree.data.source import Source
from labeltree.data.views.counters import sample_keys
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = ["fold_number", "hold_out_fold", "make_folds"]

Array = np.ndarray[Any, Any]
_STREAM = 0xF01D


def make_folds(
    nodes: Tensor,
    taxonomy: Taxonomy,
    folds: int = 5,
    *,
    groups: Tensor | None = None,
    ids: Tensor | None = None,
    seed: int = 0,
) -> Tensor:
    """Divide samples into folds, whole groups at a time.

    Where every group is one sample, the samples are put in the order of their labels in the tree and dealt
    out in turn, so that of every node, rare leaves and their parents alike, any two folds have equally many
    samples to within one. Otherwise groups are dealt, largest first, to the fold where the counts of the
    nodes at and above their labels come nearest to equal shares (least increase of the chi-square distance,
    summed over the nodes): a leaf too rare for every fold is balanced by its parent.

    Args:
        nodes: Labels ``(n,)``, any node, -1 where missing: those are a stratum of their own.
        taxonomy: Of the labels.
        folds: How many.
        groups: Group of each sample ``(n,)``; -1 is a group of its own; None = every sample is one.
        ids: Stable ids ``(n,)``, which decide the draw together with ``seed``, whatever the order of the
            samples; None = the positions.
        seed: Of the draw.

    Returns:
        The fold of each sample ``(n,)`` int64, 0 to ``folds - 1``; none is empty.

    Raises:
        ValueError: If there are fewer than 2 folds.
        DataError: If there are fewer groups than folds.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("skin", "naevus"), ("skin", "melanoma")])
        >>> nodes = taxonomy.encode(["naevus"] * 4 + ["melanoma"] * 2)
        >>> patients = torch.tensor([1, 1, 2, 3, 4, 5])
        >>> folds = make_folds(nodes, taxonomy, 2, groups=patients)
        >>> folds.bincount().tolist(), bool(folds[0] == folds[1])
        ([3, 3], True)
    """
    if folds < 2:
        raise ValueError(f"folds is {folds}; there must be at least 2")
    n = len(nodes)
    names = torch.arange(n) if ids is None else ids
    whole = _group_numbers(groups, n)
    count = int(whole.max(initial=-1)) + 1
    if count < folds:
        what = "sample(s)" if count == n else f"group(s) of {n} samples"
        raise DataError(f"{count} {what} cannot make {folds} folds; ask for at most {count}")
    if count == n:
        # every label without a node is one after all others, for the balance
        labels = np.where(nodes.numpy() < 0, taxonomy.num_nodes, nodes.numpy())
        order = np.lexsort((names.numpy(), _random(names, seed), labels))
        fold = np.empty(n, dtype=np.int64)
        fold[order] = np.arange(n) % folds
        return torch.from_numpy(fold)
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, whole, names.numpy())
    order = np.lexsort((first, _random(torch.from_numpy(first), seed), -np.bincount(whole)))
    dealt = deal_groups(nodes.numpy(), whole, order, [1 / folds] * folds, taxonomy)
    return torch.from_numpy(dealt[whole])


def fold_number(text: str) -> tuple[int, int]:
    """The number of a fold, from 1, and of all folds, as people write them: ``2/5``.

    Raises:
        ValueError: If it is not written so, or there is no such fold.

    Example:
        >>> fold_number("2/5")
        (2, 5)
    """
    number, _, folds = text.partition("/")
    if not (number.isdecimal() and folds.isdecimal() and 1 <= int(number) <= int(folds) >= 2):
        raise ValueError(f"fold is '{text}'; it is written as 2/5: the second of five, at least two in all")
    return int(number), int(folds)


def hold_out_fold(source: Source, fold: str, seed: int = 0) -> Source:
    """The samples with one fold as their test split; nothing else is decided, so that `make_splits` draws the
    validation samples from the others.

    Samples that the data set itself holds for the test are left out: they are kept for the last word, once
    all is chosen. All folds of one seed are of one division: each sample is in the test split of one of them.

    Args:
        source: The samples; those of one group stay together.
        fold: Which one, from 1: ``2/5`` is the second of five.
        seed: Of the division.

    Raises:
        ValueError: If there is no such fold.
        DataError: If there are fewer groups than folds.
    """
    number, folds = fold_number(fold)
    if source.split is not None:
        source = source.subset(torch.from_numpy(np.flatnonzero(source.split != "test")))
    try:
        where = make_folds(
            source.nodes, source.taxonomy, folds, groups=source.groups, ids=source.instances, seed=seed
        )
    except DataError as error:
        raise DataError(f"source '{source.name}': {error}") from error
    return source.with_split(np.where(where.numpy() == number - 1, "test", ""))


def _group_numbers(groups: Tensor | None, n: int) -> Array:
    """Groups ``(n,)`` numbered from 0 without gaps; a sample of none, -1, is a group of its own."""
    if groups is None:
        return np.arange(n)
    if len(groups) != n:
        raise DataError(f"there are {len(groups)} groups for {n} samples; give each sample one, or -1")
    given = groups.numpy()
    alone = given.max(initial=0) + 1 + np.arange(n)
    numbers: Array = np.unique(np.where(given >= 0, given, alone), return_inverse=True)[1].reshape(-1)
    return numbers


def _random(ids: Tensor, seed: int) -> Array:
    keys: Array = sample_keys(seed, 0, _STREAM, ids).numpy()
    return keys
