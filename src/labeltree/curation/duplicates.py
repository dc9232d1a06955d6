"""Near duplicates: samples that are likely one thing twice, across splits, labels and groups."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labeltree.curation.close_pairs import ClosePairs, close_pairs, nearest_distances
from labeltree.errors import DataError
from labeltree.geometry import Geometry, as_geometry
from labeltree.taxonomy import Taxonomy

__all__ = ["SHARE", "DuplicatePair", "Duplicates", "SplitLeak", "find_duplicates", "usual_threshold"]

Array = np.ndarray[Any, Any]
SHARE = 0.13
"""The default threshold as a share of the median distance from a sample to its nearest neighbour."""
_SAMPLED = 1000  # samples whose nearest neighbours are looked at
_FEWEST = 50  # samples that a median is taken of
_ROUNDING = 1e-5  # distance between two embeddings of one sample, in units of the vectors' length
_MOST_PAIRS = 100_000


@dataclass(frozen=True)
class DuplicatePair:
    """Two samples that are close.

    Attributes:
        first: Row of the one.
        second: Row of the other.
        distance: In the geometry.
        identical: Whether both files are equal in every byte; None if that is unknown.
        labels_differ: Whether both have labels, and neither is at or below the other.
    """

    first: int
    second: int
    distance: float
    identical: bool | None
    labels_differ: bool


@dataclass(frozen=True)
class SplitLeak:
    """How many samples of a split have a near duplicate in another.

    Attributes:
        split: The split that is counted.
        other: The split that their near duplicates are in.
        samples: Number of samples of `split` with at least one near duplicate in `other`.
        of: Number of samples of `split`.
        pairs: Number of pairs between the two.
    """

    split: str
    other: str
    samples: int
    of: int
    pairs: int


@dataclass(frozen=True)
class Duplicates:
    """What was found among n samples.

    Attributes:
        threshold: Largest distance of a pair.
        how: Where the threshold comes from, a sentence.
        geometry: Name of the geometry.
        samples: n.
        num_pairs: Number of pairs, also of those that are not listed.
        pairs: As many pairs as asked for at most: those of two splits first, then the others, each closest
            first.
        sets: `(n,)` int64, the set of each sample: samples that are connected by pairs; -1 = by itself.
            Sets are numbered by their first row.
        leaks: Between splits, those into the training split first.
        different_labels: Number of pairs whose labels exclude each other.
        across_groups: Number of pairs of two known groups, such as two patients; None without groups.
    """

    threshold: float
    how: str
    geometry: str
    samples: int
    num_pairs: int
    pairs: list[DuplicatePair]
    sets: Array
    leaks: list[SplitLeak] = field(default_factory=list)
    different_labels: int = 0
    across_groups: int | None = None

    @property
    def num_sets(self) -> int:
        """Number of sets of two samples or more."""
        return int(self.sets.max(initial=-1)) + 1

    @property
    def largest_set(self) -> int:
        """Number of samples of the largest set; 0 if there is none."""
        return int(np.bincount(self.sets[self.sets >= 0]).max(initial=0))

    @property
    def superfluous(self) -> int:
        """Number of samples that go if one of each set stays."""
        return int((self.sets >= 0).sum()) - self.num_sets


def usual_threshold(vectors: torch.Tensor, geometry: Geometry | str | None = None) -> tuple[float, str]:
    """The default threshold of near duplicates: 0.13 times the median distance to the nearest neighbour.

    Distances mean something else in every geometry and for every model, their ratio to the usual distance of
    neighbours does not. 0.13 is the share of cleanlab's check for near duplicates; a table in
    `docs/search.md` shows what other shares find. The median is that of 1,000 samples drawn by a fixed
    seed, without those that have an equal. It is never below what rounding makes of one sample embedded
    twice. Of fewer than 50 samples, only equal ones are duplicates.

    Returns:
        The threshold, a distance, and a sentence that says where it comes from.
    """
    space = as_geometry(geometry)
    floor = _ROUNDING * (1.0 if space.name != "euclidean" else _length(vectors))
    drawn = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(0))[:_SAMPLED]
    nearest = nearest_distances(vectors, drawn, space)
    nearest = nearest[(nearest > floor) & nearest.isfinite()]
    if len(nearest) < _FEWEST:
        return floor, (
            f"only equal embeddings count: of {len(drawn)} samples looked at, {len(nearest)} have a nearest "
            f"neighbour that is not equal, and a usual distance takes {_FEWEST}; set a threshold for more"
        )
    median = float(nearest.median())
    return max(SHARE * median, floor), (
        f"{SHARE} times {median:.4g}, the median distance of {len(nearest):,} samples to the nearest "
        "other one"
    )


def find_duplicates(
    vectors: Array | torch.Tensor,
    geometry: Geometry | str | None = None,
    *,
    threshold: float | None = None,
    nodes: Array | None = None,
    taxonomy: Taxonomy | None = None,
    splits: Sequence[str | None] | None = None,
    groups: Sequence[str | None] | None = None,
    paths: Sequence[str | None] | None = None,
    digests: Array | None = None,
    most_pairs: int = _MOST_PAIRS,
) -> Duplicates:
    """Find all pairs of samples that are closer than a threshold, and what they mean for training and test.

    All pairs are counted and make the sets. Listed are first those of two splits, then others, the closest
    of each.

    Args:
        vectors: `(n, d)` embeddings, points of the geometry.
        geometry: Default: the sphere, whose distance is the chord √(2 − 2·cosine).
        threshold: Largest distance of a pair; None: see `usual_threshold`.
        nodes: Labels `(n,)`, -1 where missing.
        taxonomy: Of the labels, a tree.
        splits: Split of each sample, such as `train`; None or empty where there is none.
        groups: Group of each sample, likewise.
        paths: File of each sample, likewise, to see whether two files are equal in every byte.
        digests: Digests of the samples' contents `(n, b)` uint8, which spare reading the files.
        most_pairs: How many pairs to list.

    Raises:
        DataError: If columns differ in length, or a vector holds NaN or infinity.
        ValueError: If the threshold is negative, or there are nodes without a taxonomy.
    """
    points = torch.as_tensor(np.asarray(vectors))
    n = len(points)
    for name, column in (("nodes", nodes), ("splits", splits), ("groups", groups), ("paths", paths)):
        if column is not None and len(column) != n:
            raise DataError(f"there are {n} vectors but {len(column)} {name}; they must be as many")
    if nodes is not None and taxonomy is None:
        raise ValueError("nodes are given without a taxonomy; give both")
    space = as_geometry(geometry)
    how = "as asked for"
    if threshold is None:
        threshold, how = usual_threshold(points, space)
    counted = _Counts(n, splits, groups, nodes, taxonomy)
    union = _Union(n)
    leaking, others = _Closest(most_pairs), _Closest(most_pairs)
    for part in close_pairs(points, space, within=threshold):
        if len(part):
            counted.add(part.first.numpy(), part.second.numpy())
            union.add(part.first.numpy(), part.second.numpy())
            leaks = torch.from_numpy(counted.splits_differ(part.first.numpy(), part.second.numpy()))
            leaking.add(part.pick(leaks))
            others.add(part.pick(~leaks))
    pairs = ClosePairs.joined([leaking.pairs(), others.pairs()]).pick(slice(max(most_pairs, 0)))
    differ = counted.labels_differ(pairs.first.numpy(), pairs.second.numpy())
    same = _Contents(paths, digests)
    listed = zip(pairs.first.tolist(), pairs.second.tolist(), pairs.distances.tolist(), differ, strict=True)
    return Duplicates(
        threshold=float(threshold),
        how=how,
        geometry=space.name,
        samples=n,
        num_pairs=counted.pairs,
        pairs=[DuplicatePair(i, j, d, same.equal(i, j), bool(other)) for i, j, d, other in listed],
        sets=union.sets(),
        leaks=counted.leaks(),
        different_labels=counted.different_labels,
        across_groups=None if groups is None else counted.across_groups,
    )


def _length(vectors: torch.Tensor) -> float:
    return float(vectors.double().norm(dim=1).median()) if len(vectors) else 1.0


class _Counts:
    """Counts of pairs between splits, groups and labels, as the pairs are found."""

    def __init__(
        self,
        n: int,
        splits: Sequence[str | None] | None,
        groups: Sequence[str | None] | None,
        nodes: Array | None,
        taxonomy: Taxonomy | None,
    ) -> None:
        self.pairs = self.different_labels = self.across_groups = 0
        self._split_names, self._splits = _codes(splits, n)
        _, self._groups = _codes(groups, n)
        self._nodes, self._taxonomy = nodes, taxonomy
        s = len(self._split_names)
        self._between = np.zeros((s, s), np.int64)
        self._has = np.zeros((n, s), bool)

    def add(self, first: Array, second: Array) -> None:
        self.pairs += len(first)
        self.different_labels += int(self.labels_differ(first, second).sum())
        a, b = self._groups[first], self._groups[second]
        self.across_groups += int(((a != b) & (a >= 0) & (b >= 0)).sum())
        a, b = self._splits[first], self._splits[second]
        known = (a >= 0) & (b >= 0)
        np.add.at(self._between, (a[known], b[known]), 1)
        self._has[first[known], b[known]] = True
        self._has[second[known], a[known]] = True

    def splits_differ(self, first: Array, second: Array) -> Array:
        """Whether pairs are of two splits, both known."""
        a, b = self._splits[first], self._splits[second]
        differ: Array = (a != b) & (a >= 0) & (b >= 0)
        return differ

    def labels_differ(self, first: Array, second: Array) -> Array:
        """Whether the labels of pairs exclude each other: both known, neither at or below the other."""
        if self._nodes is None or self._taxonomy is None:
            return np.zeros(len(first), bool)
        u, v = self._nodes[first], self._nodes[second]
        ends = self._taxonomy.subtree_end.numpy()
        above = (u <= v) & (v < ends[u])
        below = (v <= u) & (u < ends[v])
        differ: Array = (u >= 0) & (v >= 0) & ~above & ~below
        return differ

    def leaks(self) -> list[SplitLeak]:
        leaks = []
        for i, split in enumerate(self._split_names):
            members = self._splits == i
            for j, other in enumerate(self._split_names):
                if i != j and (samples := int(self._has[members, j].sum())):
                    pairs = int(self._between[i, j] + self._between[j, i])
                    leaks.append(SplitLeak(split, other, samples, int(members.sum()), pairs))
        usual = {name: place for place, name in enumerate(("test", "unseen", "calib", "val", "train"))}
        return sorted(
            leaks, key=lambda leak: (leak.other != "train", usual.get(leak.split, 9), leak.split, leak.other)
        )


def _codes(values: Sequence[str | None] | None, n: int) -> tuple[list[str], Array]:
    """The different values in order of appearance, and the number of each row's `(n,)`; -1 = none."""
    if values is None:
        return [], np.full(n, -1)
    known = {name: place for place, name in enumerate(Counter(value for value in values if value))}
    return list(known), np.fromiter((known[value] if value else -1 for value in values), np.int64, n)


class _Union:
    """Connected components of pairs that arrive in parts."""

    def __init__(self, n: int) -> None:
        self._component = np.arange(n)

    def add(self, first: Array, second: Array) -> None:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        u, v = self._component[first], self._component[second]
        apart = u != v
        if not apart.any():
            return
        nodes, places = np.unique(np.concatenate([u[apart], v[apart]]), return_inverse=True)
        half = len(places) // 2
        edges = (np.ones(half, bool), (places[:half], places[half:]))
        _, joined = connected_components(coo_array(edges, (len(nodes),) * 2), directed=False)
        smallest = np.full(joined.max() + 1, len(self._component))
        np.minimum.at(smallest, joined, nodes)
        renamed = np.arange(len(self._component))
        renamed[nodes] = smallest[joined]
        self._component = renamed[self._component]

    def sets(self) -> Array:
        """`(n,)` numbers of the sets of two or more, by their first row; -1 for single rows."""
        _, inverse, counts = np.unique(self._component, return_inverse=True, return_counts=True)
        several = counts > 1
        number = np.where(several, np.cumsum(several) - 1, -1)
        sets: Array = number[inverse]
        return sets


class _Closest:
    """The closest of the pairs that arrive in parts; ties in the order of their rows."""

    def __init__(self, most: int) -> None:
        self._most = max(most, 0)
        self._parts: list[ClosePairs] = []
        self._held = 0

    def add(self, part: ClosePairs) -> None:
        self._parts.append(part)
        self._held += len(part)
        if self._held > 2 * self._most + 1_000_000:
            self._parts = [self.pairs()]
            self._held = len(self._parts[0])

    def pairs(self) -> ClosePairs:
        pairs = ClosePairs.joined(self._parts)
        order = np.lexsort((pairs.second.numpy(), pairs.first.numpy(), pairs.distances.numpy()))
        return pairs.pick(torch.from_numpy(order[: self._most]))


class _Contents:
    """Whether two samples have equal contents, by digests that are known or made of their files."""

    def __init__(self, paths: Sequence[str | None] | None, digests: Array | None) -> None:
        self._paths, self._digests = paths, digests
        self._made: dict[int, bytes | None] = {}

    def equal(self, first: int, second: int) -> bool | None:
        if self._digests is not None:
            return bool((self._digests[first] == self._digests[second]).all())
        if self._paths is None:
            return None
        a, b = self._paths[first], self._paths[second]
        if not a or not b:
            return None
        if a == b:
            return True
        one, other = self._digest(first, a), self._digest(second, b)
        return None if one is None or other is None else one == other

    def _digest(self, row: int, path: str) -> bytes | None:
        if row not in self._made:
            try:
                with Path(path).open("rb") as file:
                    self._made[row] = hashlib.file_digest(file, "sha256").digest()
            except (OSError, ValueError):  # gone, or no file of this machine
                self._made[row] = None
        return self._made[row]


def percent_of(part: int, whole: int) -> str:
    """A share as text, with enough digits for a small one."""
    share = 100.0 * part / whole if whole else math.nan
    return f"{share:.1f} %" if share >= 0.1 or not part else f"{share:.2g} %"
