"""Make the splits of a source: at random, by folds, or by hiding classes from training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.data.counter_rng import sample_keys
from labeltree.data.held_out_sizes import add_sample_for_answers
from labeltree.data.source import Source
from labeltree.data.stratified import draw_evenly, group_numbers, make_folds, rank_within, split_by_group
from labeltree.errors import DataError, TaxonomyError
from labeltree.lazy import torch
from labeltree.split_names import CALIB, MOST_TAUGHT_FIRST, SPLITS, UNSEEN
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import covered_nodes, finest_labels
from labeltree.taxonomy.naming import some

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["choose_unseen", "fold_number", "hold_out_fold", "make_splits"]

Array = np.ndarray[Any, Any]
_TEST_DRAW, _VAL_DRAW, _LIMIT_DRAW, _TRAIN_LIMIT_DRAW, _TEST_LIMIT_DRAW, _CALIB_DRAW = 0, 1, 2, 3, 4, 5
_CLASS_STREAM, _SAMPLE_STREAM = 0x0C1A, 0x05A3


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
    calib: float = 0.0,
    earlier: Sequence[str] | Array | None = None,
) -> Source:
    """Assign every sample to a split.

    The data set's own test and validation splits are kept; only missing ones are drawn. Draws depend on
    instance ids, not on the order of the samples. The test split does not
    depend on `val` or `limit`, and neither does it or the validation split on `calib`.

    Args:
        source: The samples.
        val: Share of the samples outside the test split that is held out for validation; without groups one
            sample more, if answers can promise more then (see `add_sample_for_answers`).
        test: Share held out for testing if the data set has no test split.
        seed: Random seed.
        limit: Keep at most this many samples outside the test split (training, validation and `calib`
            together), drawn evenly over the labels.
        train_limit: Keep at most this many training samples, drawn in the same way.
        test_limit: Keep at most this many test samples, drawn in the same way.
        unseen_classes: Nodes, or a number or share of classes, to hide from training: their samples outside
            the test split get the split `unseen`, see `choose_unseen`. Validation samples and limits are
            drawn from the other samples; `unseen` is subsampled at the same rate as they are.
        unseen_depth: Depth of the hidden classes, if they are drawn.
        calib: Share of the samples that are left for training then, to be set aside in the split `calib`:
            the promises of answers come from them, and nothing else reads them. One sample more, as for
            `val`.
        earlier: The splits `(n,)` that samples had in the training of weights that this one starts from,
            empty where they are new. Where the data set has no such split of its own, they and their groups
            keep them, and only new samples are drawn; all are, if the split would be empty otherwise.

    Returns:
        The source with `split` set for every sample; with a limit, fewer samples.

    Raises:
        DataError: If a group lies on both sides of the data set's own split, or there are too few samples to
            split.
        LabeltreeError: If the classes cannot be hidden.
    """
    for name, share in (("val", val), ("test", test), ("calib", calib)):
        if not 0 <= share < 1:
            raise ValueError(f"{name} is {share}; it must be a share, 0 or more and below 1")
    limits = {"limit": limit, "train_limit": train_limit, "test_limit": test_limit}
    for name, most in limits.items():
        if most is not None and most < 1:
            raise ValueError(f"{name} is {most}; it must be 1 or more, or None")
    n = len(source)
    split = np.full(n, "train", dtype="<U6")
    given = source.split
    groups = group_numbers(source.groups, n)
    labels = source.nodes.numpy()
    ids = source.instances.numpy()
    if given is not None:
        _check_given(source, given, groups)
        split[given == "test"] = "test"
        split[given == "val"] = "val"
        split[given == CALIB] = CALIB
    own = frozenset() if given is None else frozenset(given.tolist()) - {""}
    was = np.zeros(n, dtype="<U6") if earlier is None else _alike_in_groups(np.asarray(earlier), groups)
    for name, share in (("test", test), ("val", val), (CALIB, calib)):
        if share and name not in own:
            split[(was == name) & (split == "train")] = name
    new = ~np.isin(was, ("train", "val", *([CALIB] if calib else [])))

    def has_own(name: str) -> bool:
        return name in own and bool((split == name).any())

    def hold_out(name: str, share: float, draw: int, least: int) -> None:
        kept, train = int((split == name).sum()), split == "train"
        among = np.flatnonzero(train & new)
        if not round(share * len(among)):
            if kept:
                return
            among = np.flatnonzero(train)
        least = least if len(among) == train.sum() else 0
        wanted = round(share * len(among))
        if name != "test" and len(np.unique(groups[among])) == len(among) > 2 * wanted:
            share = max(share, (add_sample_for_answers(kept + wanted) - kept) / len(among))
        try:
            chosen = split_by_group(
                labels[among], groups[among], ids[among], share, seed, draw, least, source.taxonomy
            )
        except DataError as error:
            raise _cannot_split(source, error) from error
        split[among[chosen]] = name

    if test and not has_own("test"):
        hold_out("test", test, _TEST_DRAW, 2 if val and not (split == "val").any() else 1)
    if unseen_classes is not None:
        decided = source.with_split(split)
        hidden = choose_unseen(decided, unseen_classes, unseen_depth, seed)
        split = np.asarray(_hide_classes(decided, hidden).split)
    if val and not has_own("val"):
        hold_out("val", val, _VAL_DRAW, 1)
    if calib and not has_own(CALIB):
        hold_out(CALIB, calib, _CALIB_DRAW, 1)
    result = replace(source.with_split(split), own_splits=own)
    for most, splits, draw in (
        (limit, ("train", "val", CALIB), _LIMIT_DRAW),
        (train_limit, ("train",), _TRAIN_LIMIT_DRAW),
        (test_limit, ("test",), _TEST_LIMIT_DRAW),
    ):
        if most is not None:
            result = _thin(result, splits, most, seed, draw)
    return result


def _alike_in_groups(earlier: Array, groups: Array) -> Array:
    """Earlier splits `(n,)`, of a whole group the one that teaches most; empty where all of it is new."""
    rank = np.full(len(earlier), len(MOST_TAUGHT_FIRST))
    for place, name in enumerate(MOST_TAUGHT_FIRST):
        rank[earlier == name] = place
    least = np.full(int(groups.max(initial=-1)) + 1, len(MOST_TAUGHT_FIRST))
    np.minimum.at(least, groups, rank)
    shared: Array = np.array([*MOST_TAUGHT_FIRST, ""], dtype="<U6")[least[groups]]
    return shared


def _thin(source: Source, splits: tuple[str, ...], most: int, seed: int, draw: int) -> Source:
    """Keep at most this many samples of these splits, and all samples of the others."""
    split = np.asarray(source.split)
    open_ = np.flatnonzero(np.isin(split, splits))
    if most >= len(open_):
        return source
    # A stratum is a label within a split, so a limit reduces all in proportion.
    strata = source.nodes.numpy()[open_] * len(SPLITS) + (split[open_] == "val") + 2 * (split[open_] == CALIB)
    kept = open_[draw_evenly(strata, source.instances.numpy()[open_], most, seed, draw)]
    others = np.flatnonzero(~np.isin(split, splits))
    thinned = source.subset(torch.from_numpy(np.sort(np.concatenate([kept, others]))))
    return thinned if "test" in splits else _thin_unseen(thinned, most / len(open_), seed, draw)


def _check_given(source: Source, given: Array, groups: Array) -> None:
    unknown = sorted(set(np.unique(given)) - {*SPLITS, CALIB, ""})
    if unknown:
        raise DataError(f"source '{source.name}' has a split '{unknown[0]}'; splits are {', '.join(SPLITS)}")
    decided = np.where(given == "", "train", given)
    _, code = np.unique(decided, return_inverse=True)
    low = np.full(int(groups.max(initial=-1)) + 1, len(SPLITS))
    high = np.full_like(low, -1)
    np.minimum.at(low, groups, code)
    np.maximum.at(high, groups, code)
    torn = np.flatnonzero(low < high)
    if torn.size:
        members = np.flatnonzero(groups == torn[0])
        where = source.paths(members[:1].tolist())
        raise DataError(
            f"the splits of '{source.name}' divide {torn.size} group(s): the group of sample {members[0]}"
            f"{f' ({where[0]})' if where else ''} lies in {' and '.join(np.unique(decided[members]))}; "
            "give a group one split, or leave the split column out"
        )


def hold_out_fold(source: Source, fold: str, seed: int = 0) -> Source:
    """Make one fold the test split; `make_splits` can then draw the validation samples from the others.

    The data set's own test samples are left out, reserved for the final evaluation. The folds of one seed
    form a partition: each sample is in the test split of exactly one fold.

    Args:
        source: The samples; samples of one group stay together.
        fold: Number of the fold, from 1, and of all folds: `2/5` is the second of five.
        seed: Random seed.

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
        raise _cannot_split(source, error) from error
    return source.with_split(np.where(where.numpy() == number - 1, "test", ""))


def _cannot_split(source: Source, error: DataError) -> DataError:
    """The error on samples that cannot be split, which names the column of their groups."""
    groups = source.columns.get("groups", ())
    where = ""
    if groups:
        where = (
            f". The groups are the values of the column '{groups[0]}'; set table.group_column to another, or "
            "to 'none'"
        )
    return DataError(f"source '{source.name}': {error}{where}")


def fold_number(text: str) -> tuple[int, int]:
    """Parse the number of a fold, from 1, and of all folds, written as `2/5`.

    Raises:
        ValueError: If the text has another form, or there is no such fold.

    Example:
        >>> fold_number("2/5")
        (2, 5)
    """
    number, _, folds = text.partition("/")
    if not (number.isdecimal() and folds.isdecimal() and 1 <= int(number) <= int(folds) >= 2):
        raise ValueError(f"fold is '{text}'; it is written as 2/5: the second of five, at least two in all")
    return int(number), int(folds)


def choose_unseen(
    source: Source,
    wanted: float | str | Sequence[str],
    depth: int | None = None,
    seed: int = 0,
) -> Tensor:
    """Choose classes to hide from training; each chosen node hides all labels at and below it.

    A number or a share is drawn among the classes (the finest labels, or with `depth` their ancestors
    there) that have samples both inside and outside the test split. Parents contribute in proportion to
    their children, rounded by Sainte-Laguë's method, but always keep one child that is seen, so that every
    node above the hidden classes stays seen. Named nodes are hidden even if no sibling remains.

    Args:
        source: The samples, with a test split.
        wanted: Nodes by path or name, or a single one; an integer = number of classes; a float = share.
        depth: Depth of the drawn classes; labels that end above it are classes themselves. None =
            the finest labels.
        seed: Random seed. The draw depends on the nodes only: with another number of classes, or other
            samples, as few classes as possible change.

    Returns:
        The nodes `(k,)` int64, ascending.

    Raises:
        TaxonomyError: If a name is not a node.
        DataError: If there are too few classes to hide, a named node has no sample outside the test split, or
            the tree ends above the depth.
        ValueError: If the number or share is invalid.
    """
    if isinstance(wanted, int | float) and not (wanted >= 1 if isinstance(wanted, int) else 0 < wanted < 1):
        raise ValueError(f"unseen_classes is {wanted}; a whole number is 1 or more, a share between 0 and 1")
    outside = np.asarray(source.split) != "test"
    own = source.nodes > 0
    learned = source.nodes[own & torch.from_numpy(outside)]
    tested = source.nodes[own & torch.from_numpy(~outside)]
    if isinstance(wanted, int | float):
        return _draw(wanted, learned, tested, source.taxonomy, depth, seed)
    return _find_named([wanted] if isinstance(wanted, str) else list(wanted), learned, source)


def _find_named(names: list[str], learned: Tensor, source: Source) -> Tensor:
    tree = source.taxonomy
    try:
        nodes = tree.encode(names).unique()  # type: ignore[no-untyped-call]
    except TaxonomyError as error:
        raise TaxonomyError(f"unseen_classes names something that is not a node: {error}") from error
    if bool((nodes < 0).any()):
        raise DataError("unseen_classes has an empty name; name nodes by path or name")
    present = covered_nodes(learned, tree)
    if idle := [tree.path_name(node) for node in nodes.tolist() if not present[node]]:
        raise DataError(
            f"unseen_classes names {some(idle)}, of which '{source.name}' has no sample outside the test "
            "split: there is nothing to hide; leave it out"
        )
    return torch.as_tensor(nodes)


def _draw(
    wanted: float, learned: Tensor, tested: Tensor, tree: Taxonomy, depth: int | None, seed: int
) -> Tensor:
    finest = finest_labels(torch.cat([learned, tested]), tree)
    able = torch.from_numpy(np.intersect1d(learned.numpy(), tested.numpy()))
    able = able[finest[able]]
    if depth is not None:
        if depth > tree.max_depth:
            raise DataError(f"unseen_depth is {depth}, but the tree ends at depth {tree.max_depth}")
        # A class at a depth need not have its finest labels on both sides: items may be new in the test.
        both = [tree.ancestors[part, tree.depth[part].clamp(max=depth)] for part in (learned, tested)]
        coarse = torch.unique(tree.ancestors[:, : depth + 1][finest].amax(1))
        able = coarse[torch.isin(coarse, both[0]) & torch.isin(coarse, both[1])]
    count = wanted if isinstance(wanted, int) else max(1, round(wanted * len(able)))
    parent = tree.parent[able].numpy()
    # number of seen children of every node before any class is hidden
    present = covered_nodes(learned, tree)
    present[0] = False
    children = np.bincount(tree.parent[present].numpy(), minlength=tree.num_nodes)
    rank, size = rank_within(parent, sample_keys(seed, 0, _CLASS_STREAM, able).numpy())
    may = np.flatnonzero(rank < children[parent] - 1)
    if count > len(may):
        asked = f"{count} classes" if isinstance(wanted, int) else f"{wanted:g}, {count} classes"
        raise DataError(
            f"unseen_classes is {asked}, but of the {len(able)} that have samples inside and outside the "
            f"test split only {len(may)} can be hidden such that each of their parents keeps one that is "
            "seen; ask for fewer, name the nodes, or draw them at another unseen_depth"
        )
    turn = (rank[may] + 0.5) / size[may]
    order = np.lexsort((sample_keys(seed, 1, _CLASS_STREAM, able[may]).numpy(), turn.round(12)))
    return able[np.sort(may[order[:count]])]


def _hide_classes(source: Source, nodes: Tensor) -> Source:
    """Move the samples of hidden classes from all splits but the test split to `unseen`.

    Samples labelled above these nodes stay: their labels do not tell whether they belong to a hidden class.

    Args:
        source: The samples, with at least a test split.
        nodes: The hidden classes `(k,)`, each with its descendants.

    Raises:
        DataError: If no training sample is left, or no test sample is of a hidden class.
    """
    tree, split = source.taxonomy, np.asarray(source.split, dtype="<U6")
    hidden = torch.zeros(tree.num_nodes, dtype=torch.bool)
    for node in nodes.tolist():
        hidden[node : int(tree.subtree_end[node])] = True
    mine = (hidden[source.nodes.clamp_min(0)] & (source.nodes > 0)).numpy()
    names = some([tree.path_name(node) for node in nodes.tolist()])
    if not (mine & (split == "test")).any():
        raise DataError(
            f"no test sample of '{source.name}' is of the unseen classes ({names}): nothing could be "
            "measured on them; hide others, or leave unseen_classes out"
        )
    left = ~mine & (split == "train")
    if not (left & (source.nodes > 0).numpy()).any():
        raise DataError(
            f"all training samples of '{source.name}' with a label are of the unseen classes ({names}): "
            "nothing is left to train on; hide fewer"
        )
    return source.with_split(np.where(mine & (split != "test"), UNSEEN, split))


def _thin_unseen(source: Source, share: float, seed: int, draw: int) -> Source:
    """Keep this share of the samples in the split `unseen`, for each label in proportion and at least one.

    With it, a limit on the training samples leaves hidden and seen classes equally many samples.
    """
    split = np.asarray(source.split)
    mine = np.flatnonzero(split == UNSEEN)
    keys = sample_keys(seed, draw, _SAMPLE_STREAM, source.instances[torch.from_numpy(mine)]).numpy()
    rank, size = rank_within(source.nodes.numpy()[mine], keys)
    dropped = mine[rank >= np.maximum(np.round(share * size), 1)]
    return source.subset(torch.from_numpy(np.setdiff1d(np.arange(len(split)), dropped)))
