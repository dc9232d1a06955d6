"""Copies of a file among the samples: they are one group, which no split divides."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import numpy as np

from labeltree.data.source import Source
from labeltree.lazy import torch
from labeltree.split_names import SPLITS
from labeltree.taxonomy.naming import some

__all__ = ["connected_groups", "join_copies", "keep_copies_together", "note_equal_texts"]

Array = np.ndarray[Any, Any]
_log = logging.getLogger("labeltree.data")


_EQUAL_TEXTS = "texts that are equal but for case and blanks"
_KEPT_TOGETHER = ", and stay in one split"


def keep_copies_together(source: Source) -> Source:
    """The samples with groups of those whose files have equal bytes, joined with the groups that they have.

    The data set's own splits may divide copies. Such copies stay apart, and a warning counts them. So do
    copies of a file that is more than half of the samples, and copies in different groups that would join
    more than half of the samples: they could not be divided.
    """
    known = None if source.digests is None else source.digests[source.rows.numpy()]
    equal = "files of equal bytes" if source.vectors is None else "equal vectors"
    joined, notes, warnings = _join_copies(source, known, equal, _KEPT_TOGETHER, "may lie in several splits")
    for told in warnings:
        _log.warning("%s", told)
    return dataclasses.replace(joined, notes=(*source.notes, *notes)) if notes else joined


def join_copies(source: Source) -> tuple[Source, list[str]]:
    """The samples, of which none is learned from, with copies joined as in training, and notes on these.

    Their own splits divide nothing. Texts are copies, too, where they are the same but for case and blanks.
    """
    whole = dataclasses.replace(source, split=None)
    known, equal = None, "equal vectors"
    if source.digests is not None:
        known = source.digests[source.rows.numpy()]
        equal = equal if source.vectors is not None else "files of equal bytes"
    elif source.store is None and source.texts is not None:
        known, equal = source.copy_digests()[:, -1], _EQUAL_TEXTS
    joined, notes, _ = _join_copies(whole, known, equal, "", "count as different samples")
    if source.groups is None and joined.groups is not None:  # copies are no patients
        joined = dataclasses.replace(joined, group_names=np.full(len(source), ""))
    return dataclasses.replace(joined, split=source.split), notes


def note_equal_texts(source: Source) -> list[str]:
    """A note on texts of a table without splits that are copies, and so are one group."""
    if source.store is not None or source.vectors is not None or source.texts is None:
        return []
    if source.groups is None or "split" in source.columns:
        return []
    digests = np.ascontiguousarray(source.copy_digests()[:, -1])
    content = np.unique(digests.view(f"V{digests.shape[1]}")[:, 0], return_inverse=True)[1]
    groups = source.groups.numpy()
    grouped = groups >= 0
    pairs = np.unique(np.stack([content[grouped], groups[grouped]]), axis=1)
    copies = int(grouped.sum()) - pairs.shape[1]
    return [_say_copies(copies, _EQUAL_TEXTS, _KEPT_TOGETHER)] if copies else []


def _say_copies(copies: int, equal: str, together: str) -> str:
    are = "sample is a copy of another" if copies == 1 else "samples are copies of others"
    return f"{copies:,} {are} ({equal}): copies are one group{together}"


def _join_copies(
    source: Source, known: Array | None, equal: str, together: str, apart: str
) -> tuple[Source, list[str], list[str]]:
    """The samples with copies in one group, notes, and those of the notes that are warnings.

    Args:
        source: The samples.
        known: Digests `(n, 16)` by which copies are known; None = there are none.
        equal: What copies are.
        together: What else copies are, as the end of a sentence.
        apart: What copies that are not joined may do, as the end of a sentence.
    """
    if known is None or getattr(source.store, "unchecked", None) or not len(source):
        return source, [], []
    digests = np.ascontiguousarray(known)
    _, content, counts = np.unique(
        digests.view(f"V{digests.shape[1]}")[:, 0], return_inverse=True, return_counts=True
    )
    copied = (counts[content] > 1) & digests.any(axis=1)  # zeros: a file that could not be read
    if not copied.any():
        return source, [], []
    divided, warnings = np.zeros(len(counts), bool), list[str]()
    if source.split is not None:
        divided, warnings = _find_divided(source, content, copied, equal)
    most = int(counts.argmax())
    filler = counts[most] > len(source) / 2  # one picture of which a split would need a part
    same = np.where(copied & ~divided[content] & ~(filler & (content == most)), content, -1)
    notes = list(warnings)
    if filler:
        what = "vector" if source.vectors is not None else "file" if source.store is not None else "text"
        notes.append(f"{counts[most]:,} of {len(source):,} samples are one and the same {what}")
    copies = int((same >= 0).sum()) - len(np.unique(same[same >= 0]))
    if copies:
        notes.append(_say_copies(copies, equal, together))
    if source.groups is None:
        groups = connected_groups(same)
        if groups is None:
            return source, notes, warnings
        return dataclasses.replace(source, groups=torch.from_numpy(groups)), notes, warnings
    groups, across, torn = _join_groups(source, same, equal)
    torn = [f"{told}, so such copies {apart}" for told in torn]
    joined = source if groups is None else dataclasses.replace(source, groups=torch.from_numpy(groups))
    return joined, [*notes, *across, *torn], [*warnings, *torn]


def _join_groups(source: Source, together: Array, equal: str) -> tuple[Array | None, list[str], list[str]]:
    """The given groups, joined by copies in several of them unless that would join most of the samples.

    And notes on those that are joined, and on those that are not.
    """
    assert source.groups is not None
    given = source.groups.numpy()
    groups = connected_groups(together, given)
    shared = np.flatnonzero((together >= 0) & (given >= 0))
    pairs = np.unique(np.stack([together[shared], given[shared]]), axis=1)
    contents, places = np.unique(pairs[0], return_counts=True)
    across = np.isin(together, contents[places > 1])
    if groups is None or not across.any():
        return groups, [], []
    sizes = np.bincount(groups[groups >= 0])
    largest = np.flatnonzero(sizes > max(len(source) / 2, np.bincount(given[given >= 0]).max()))
    apart = across & np.isin(groups, largest)
    joined, notes = across & ~apart, []
    if joined.any():
        count = len(np.unique(groups[joined & (given >= 0)]))
        notes.append(f"copies lie in {_name_groups(source, joined)} and join them to {count:,}")
    if not apart.any():
        return groups, notes, []
    told = (
        f"{int(apart.sum()):,} samples are {equal} in {_name_groups(source, apart)}, which would be more "
        "than half of the samples if they were joined: they are not"
    )
    return connected_groups(np.where(apart, -1, together), given), notes, [told]


def _name_groups(source: Source, rows: Array) -> str:
    """The given groups of some rows `(n,)` bool, counted and named."""
    assert source.groups is not None
    of_rows = source.groups.numpy()[rows]
    groups, first = np.unique(of_rows[of_rows >= 0], return_index=True)
    count = f"{len(groups):,} different groups"
    if source.group_names is None:
        return count
    names = np.asarray(source.group_names)[rows][of_rows >= 0][first]
    return f"{count} ({some(map(str, names), 3)})"


def _find_divided(source: Source, content: Array, copied: Array, equal: str) -> tuple[Array, list[str]]:
    """Which contents `(c,)` lie in several of the given splits, and a sentence about those of a test."""
    split = np.where(np.asarray(source.split) == "", "train", np.asarray(source.split))
    named = np.unique(split, return_inverse=True)[1]
    kinds = np.unique(np.stack([content[copied], named[copied]]), axis=1)[0]
    divided = np.bincount(kinds, minlength=int(content.max()) + 1) > 1
    said = []
    for name in reversed(SPLITS):
        here = copied & divided[content] & (split == name)
        if here.any():
            same = np.isin(content, content[here])
            others = " and ".join(
                other for other in SPLITS if other != name and (same & (split == other)).any()
            )
            of, total = int(here.sum()), int((split == name).sum())
            said.append(
                f"{of:,} of {total:,} samples of {name} are copies of samples of {others} ({equal}), "
                "by the data set's own splits: what is right for them says little about new samples"
            )
            break
    return divided, said


def connected_groups(*keys: Array) -> Array | None:
    """Groups `(n,)` of samples connected by equal values in any of the keys.

    Args:
        keys: Arrays `(n,)`; -1 equals no other value.

    Returns:
        Groups, -1 for a sample without a group; None if no sample has one.

    Example:
        >>> connected_groups(np.array([0, 0, 1, -1, 2]), np.array([5, 6, 6, 8, 9])).tolist()
        [0, 0, 0, -1, -1]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(keys[0])
    edges, values = [], 0
    for key in keys:
        _, code, counts = np.unique(key, return_inverse=True, return_counts=True)
        shared = np.flatnonzero((key >= 0) & (counts[code] > 1))
        edges.append(np.stack([shared, n + values + code[shared]]))
        values += len(counts)
    samples, nodes = np.concatenate(edges, axis=1)
    if not len(samples):
        return None
    graph = coo_array((np.ones(len(samples), bool), (samples, nodes)), shape=(n + values, n + values))
    component = connected_components(graph, directed=False)[1][:n]
    _, first, code, counts = np.unique(component, return_index=True, return_inverse=True, return_counts=True)
    place = np.full(len(first), -1)
    several = np.flatnonzero(counts > 1)
    place[several[np.argsort(first[several])]] = np.arange(len(several))
    return place[code]
