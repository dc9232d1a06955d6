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

__all__ = ["connected_groups", "keep_copies_together"]

Array = np.ndarray[Any, Any]
_log = logging.getLogger("labeltree.data")


def keep_copies_together(source: Source) -> Source:
    """The samples with groups of those whose files have equal bytes, joined with the groups that they have.

    The data set's own splits may divide copies. Such copies stay apart, and a warning counts them. So do
    copies of a file that is more than half of the samples, and copies in different groups that would join
    more than half of the samples: they could not be divided.
    """
    if source.digests is None or getattr(source.store, "unchecked", None) or not len(source):
        return source
    equal = "files of equal bytes" if source.vectors is None else "equal vectors"
    digests = np.ascontiguousarray(source.digests[source.rows.numpy()])
    _, content, counts = np.unique(
        digests.view(f"V{digests.shape[1]}")[:, 0], return_inverse=True, return_counts=True
    )
    copied = (counts[content] > 1) & digests.any(axis=1)  # zeros: a file that could not be read
    if not copied.any():
        return source
    divided, told = np.zeros(len(counts), bool), ""
    if source.split is not None:
        divided, told = _find_divided(source, content, copied, equal)
    most = int(counts.argmax())
    filler = counts[most] > len(source) / 2  # one picture of which a split would need a part
    together = np.where(copied & ~divided[content] & ~(filler & (content == most)), content, -1)
    notes = [told] if told else []
    if filler:
        what = "file" if source.vectors is None else "vector"
        notes.append(f"{counts[most]:,} of {len(source):,} samples are one and the same {what}")
    copies = int((together >= 0).sum()) - len(np.unique(together[together >= 0]))
    if (together >= 0).any():
        are = "sample is a copy of another" if copies == 1 else "samples are copies of others"
        notes.append(f"{copies:,} {are} ({equal}): copies are one group, and stay in one split")
    groups = connected_groups(together) if source.groups is None else None
    if source.groups is not None:
        groups, joined = _join_groups(source, together, equal)
        notes += joined
    return dataclasses.replace(
        source,
        groups=source.groups if groups is None else torch.from_numpy(groups),
        notes=(*source.notes, *notes),
    )


def _join_groups(source: Source, together: Array, equal: str) -> tuple[Array | None, list[str]]:
    """The given groups, joined by copies in several of them unless that would leave no split, and notes."""
    assert source.groups is not None
    given = source.groups.numpy()
    groups = connected_groups(together, given)
    shared = np.flatnonzero((together >= 0) & (given >= 0))
    pairs = np.unique(np.stack([together[shared], given[shared]]), axis=1)
    contents, places = np.unique(pairs[0], return_counts=True)
    across = np.isin(together, contents[places > 1])
    if groups is None or not across.any():
        return groups, []
    sizes = np.bincount(groups[groups >= 0])
    largest = np.flatnonzero(sizes > max(len(source) / 2, np.bincount(given[given >= 0]).max()))
    apart = across & np.isin(groups, largest)
    joined, notes = across & ~apart, []
    if joined.any():
        count = len(np.unique(groups[joined & (given >= 0)]))
        notes.append(f"copies lie in {_name_groups(source, joined)} and join them to {count:,}")
    if not apart.any():
        return groups, notes
    told = (
        f"{int(apart.sum()):,} samples are {equal} in {_name_groups(source, apart)}, which would be more "
        "than half of the samples if they were joined: they are not, so such copies may lie in several splits"
    )
    _log.warning("%s", told)
    return connected_groups(np.where(apart, -1, together), given), [*notes, told]


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


def _find_divided(source: Source, content: Array, copied: Array, equal: str) -> tuple[Array, str]:
    """Which contents `(c,)` lie in several of the given splits, and a sentence about those of a test."""
    split = np.where(np.asarray(source.split) == "", "train", np.asarray(source.split))
    named = np.unique(split, return_inverse=True)[1]
    kinds = np.unique(np.stack([content[copied], named[copied]]), axis=1)[0]
    divided = np.bincount(kinds, minlength=int(content.max()) + 1) > 1
    told = ""
    for name in reversed(SPLITS):
        here = copied & divided[content] & (split == name)
        if here.any():
            same = np.isin(content, content[here])
            others = " and ".join(
                other for other in SPLITS if other != name and (same & (split == other)).any()
            )
            of, total = int(here.sum()), int((split == name).sum())
            told = (
                f"{of:,} of {total:,} samples of {name} are copies of samples of {others} ({equal}), "
                "by the data set's own splits: what is right for them says little about new samples"
            )
            _log.warning("%s", told)
            break
    return divided, told


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
