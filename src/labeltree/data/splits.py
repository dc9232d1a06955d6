"""Splits that never part a group, balanced over the labels as far as groups allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from labeltree.data.groups import deal_groups, divisible_labels
from labeltree.data.source import SPLITS, Source
from labeltree.data.unseen import choose_unseen, hide_classes, thin_unseen
from labeltree.data.views.counters import sample_keys
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = ["make_splits", "split_by_group"]

Array = np.ndarray[Any, Any]
_TEST_DRAW, _VAL_DRAW, _LIMIT_DRAW, _TRAIN_LIMIT_DRAW, _TEST_LIMIT_DRAW = 0, 1, 2, 3, 4


def make_splits(
    source: Source,
    val: float = 0.1,
    test: float = 0.2,
    seed: int = 0,
    limit: int | None = None,
    train_limit: int | None = None,
    test_limit: int | None = None,
    unseen_classes: float | str | Sequence[str] | None = None,
    unseen_depth: int | None = None,
) -> Source:
    """Decide the split of every sample.

    A test split that the data set brings is kept, and so is a validation split; only what is missing is
    drawn. Draws go by instance id: they do not depend on the order of the samples. The test split does not
    depend on ``val`` or ``limit``.

    Args:
        source: The samples.
        val: Share of the samples outside the test split that is held out for validation.
        test: Share held out for the test where the data set has no test split.
        seed: Of the draws.
        limit: Keep at most this many samples outside the test split (training and validation together),
            drawn evenly over the labels.
        train_limit: Keep at most this many training samples, drawn likewise.
        test_limit: Keep at most this many test samples, drawn likewise.
        unseen_classes: Nodes, or how many classes, whose samples outside the test split get the split
            ``unseen``, see `choose_unseen`. Validation samples and limits are drawn of the others; limits
            thin ``unseen`` as much, so that classes of both kinds have as many samples.
        unseen_depth: Of the classes that are drawn.

    Returns:
        The source with ``split`` set for every sample; with a limit, fewer samples.

    Raises:
        DataError: If a group lies on both sides of a split that the data set brings, or there is too little
            to split.
        LabeltreeError: If those classes cannot be hidden.
    """
    for name, share in (("val", val), ("test", test)):
        if not 0 <= share < 1:
            raise ValueError(f"{name} is {share}; it must be a share, 0 or more and below 1")
    limits = {"limit": limit, "train_limit": train_limit, "test_limit": test_limit}
    for name, most in limits.items():
        if most is not None and most < 1:
            raise ValueError(f"{name} is {most}; it must be 1 or more, or None")
    n = len(source)
    split = np.full(n, "train", dtype="<U6")
    given = source.split
    groups = _group_ids(source)
    labels = source.nodes.numpy()
    ids = source.instances.numpy()
    if given is not None:
        _check_given(source, given, groups)
        split[given == "test"] = "test"
        split[given == "val"] = "val"

    def hold_out(name: str, share: float, draw: int, least: int) -> None:
        among = np.flatnonzero(split == "train")
        try:
            chosen = split_by_group(
                labels[among], groups[among], ids[among], share, seed, draw, least, source.taxonomy
            )
        except DataError as error:
            raise DataError(f"source '{source.name}': {error}") from error
        split[among[chosen]] = name

    if not (split == "test").any() and test:
        hold_out("test", test, _TEST_DRAW, 2 if val and not (split == "val").any() else 1)
    if unseen_classes is not None:
        decided = source.with_split(split)
        hidden = choose_unseen(decided, unseen_classes, unseen_depth, seed)
        split = np.asarray(hide_classes(decided, hidden).split)
    if not (split == "val").any() and val:
        hold_out("val", val, _VAL_DRAW, 1)
    result = source.with_split(split)
    for most, splits, draw in (
        (limit, ("train", "val"), _LIMIT_DRAW),
        (train_limit, ("train",), _TRAIN_LIMIT_DRAW),
        (test_limit, ("test",), _TEST_LIMIT_DRAW),
    ):
        if most is not None:
            result = _thinned(result, splits, most, seed, draw)
    return result


def _thinned(source: Source, splits: tuple[str, ...], most: int, seed: int, draw: int) -> Source:
    """At most this many samples of these splits; all of the others."""
    split = np.asarray(source.split)
    open_ = np.flatnonzero(np.isin(split, splits))
    if most >= len(open_):
        return source
    # A stratum is a label within a split, so a limit thins all alike.
    strata = source.nodes.numpy()[open_] * len(SPLITS) + (split[open_] == "val")
    kept = open_[_draw(strata, source.instances.numpy()[open_], most, seed, draw)]
    others = np.flatnonzero(~np.isin(split, splits))
    thinned = source.subset(torch.from_numpy(np.sort(np.concatenate([kept, others]))))
    return thinned if "test" in splits else thin_unseen(thinned, most / len(open_), seed, draw)


def split_by_group(
    labels: Array,
    groups: Array,
    ids: Array,
    share: float,
    seed: int = 0,
    draw: int = 0,
    least: int = 1,
    taxonomy: Taxonomy | None = None,
) -> Array:
    """Choose samples to hold out, whole groups at a time.

    Where every group is one sample, each label gives its share exactly (to the nearest sample; a label with
    one sample gives none). Otherwise groups are dealt, largest first, to the side where they bring the counts
    of the nodes at and above their labels nearer to the wanted ones (least increase of the chi-square
    distance). Where most labels are one group, or one sample, each, whole labels are held out, evenly below
    their parents, see `labeltree.data.groups.divisible_labels`.

    Args:
        labels: Node of each sample ``(n,)``; -1 counts as a label of its own.
        groups: Group of each sample ``(n,)``.
        ids: Stable ids of the samples ``(n,)``, which decide the draw together with ``seed``.
        share: Share of the samples to hold out.
        seed: Of the draw.
        draw: Number of the draw, where several are made with one seed.
        least: Groups that must stay.
        taxonomy: Of the labels; None = all of them lie below the root.

    Returns:
        Positions of the held-out samples, ascending.

    Raises:
        DataError: If there are too few groups.
    """
    names, group = np.unique(groups, return_inverse=True)
    if len(names) <= least:
        raise DataError(_too_few(len(labels), len(names), least))
    labels, drawn = divisible_labels(labels, group, share, taxonomy)
    if len(names) == len(labels):
        return _held_out_samples(labels, ids, share, seed, draw, least)
    dealt = np.unique(group[drawn]) if drawn.any() else np.arange(len(names))
    among = np.flatnonzero(np.isin(group, dealt))
    group = np.searchsorted(dealt, group[among])
    order = _largest_first(group, ids[among], seed, draw)
    held_out = deal_groups(labels[among], group, order, [1 - share, share], taxonomy).astype(bool)
    # The smallest groups go back until enough stay.
    stay = len(names) - held_out.sum()
    back = [g for g in order[::-1] if held_out[g]][: max(least - stay, 0)]
    held_out[back] = False
    chosen: Array = among[held_out[group]]
    return chosen


def _too_few(samples: int, groups: int, least: int) -> str:
    if groups == samples:
        return f"{samples} sample(s) cannot be split; {least + 1} are the least"
    return (
        f"{samples} samples in {groups} group(s) cannot be split, since no group is parted; {least + 1} "
        "groups are the least. Give the samples a split column, or group them otherwise"
    )


def _held_out_samples(labels: Array, ids: Array, share: float, seed: int, draw: int, least: int) -> Array:
    wanted = min(max(1, round(share * len(labels))), len(labels) - least)
    # Nothing that is the only one of its label is held out, unless there is nothing else.
    _, code, counts = np.unique(labels, return_inverse=True, return_counts=True)
    candidates = np.flatnonzero(counts[code] > 1)
    if len(candidates) <= wanted:
        candidates = np.arange(len(labels))
    return np.sort(candidates[_draw(labels[candidates], ids[candidates], wanted, seed, draw)])


def _largest_first(group: Array, ids: Array, seed: int, draw: int) -> Array:
    """The groups, numbered from 0, from the largest to the smallest; equal ones as the seed draws them."""
    sizes = np.bincount(group)
    first = np.full(len(sizes), np.iinfo(np.int64).max)
    np.minimum.at(first, group, ids)
    return np.lexsort((_random(first, seed, draw), -sizes))


def _draw(strata: Array, ids: Array, wanted: int, seed: int, draw: int) -> Array:
    """Choose ``wanted`` positions, from every stratum its proportional part (largest remainders first).

    Where none is entitled to a whole one, equal strata that give one are spread evenly over their order,
    which is that of the tree.
    """
    _, code, counts = np.unique(strata, return_inverse=True, return_counts=True)
    exact = counts * (wanted / len(strata))
    quota = np.floor(exact).astype(np.int64)
    missing = wanted - quota.sum()
    if missing > 0:
        # Ties between equal remainders go to the larger stratum, then the earlier one.
        order = np.lexsort((np.arange(len(quota)), -counts, -(exact - quota).round(9)))
        order = order[(quota < counts)[order]]
        if exact.max() < 1:
            equal = np.flatnonzero(counts[order] == counts[order[missing - 1]])
            first = int(equal[0])  # those before it all give one
            start = int(_random(np.zeros(1, np.int64), seed, draw)[0]) % 2**32 / 2**32
            places = ((np.arange(missing - first) + start) * len(equal) / (missing - first)).astype(np.int64)
            order[first:missing] = order[equal[places]]
        quota[order[:missing]] += 1
    order = np.lexsort((ids, _random(ids, seed, draw), code))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rank = np.arange(len(order)) - starts[code[order]]
    chosen: Array = order[rank < quota[code[order]]]
    return chosen


def _random(ids: Array, seed: int, draw: int) -> Array:
    keys: Array = sample_keys(seed, draw, 0x5417, torch.from_numpy(np.ascontiguousarray(ids))).numpy()
    return keys


def _group_ids(source: Source) -> Array:
    """Group of each sample; a sample without one is a group of its own."""
    n = len(source)
    if source.groups is None:
        return np.arange(n)
    groups = source.groups.numpy()
    return np.where(groups >= 0, groups, groups.max(initial=0) + 1 + np.arange(n))


def _check_given(source: Source, given: Array, groups: Array) -> None:
    unknown = sorted(set(np.unique(given)) - {*SPLITS, ""})
    if unknown:
        raise DataError(f"source '{source.name}' has a split '{unknown[0]}'; splits are {', '.join(SPLITS)}")
    decided = np.where(given == "", "train", given)
    _, group = np.unique(groups, return_inverse=True)
    _, code = np.unique(decided, return_inverse=True)
    low = np.full(int(group.max(initial=-1)) + 1, len(SPLITS))
    high = np.full_like(low, -1)
    np.minimum.at(low, group, code)
    np.maximum.at(high, group, code)
    torn = np.flatnonzero(low < high)
    if torn.size:
        members = np.flatnonzero(group == torn[0])
        where = source.paths(members[:1].tolist())
        raise DataError(
            f"the splits of '{source.name}' part {torn.size} group(s): the group of sample {members[0]}"
            f"{f' ({where[0]})' if where else ''} lies in {' and '.join(np.unique(decided[members]))}; "
            "give a group one split, or leave the split column out"
        )
