"""The items that a query's ranking leaves out (itself, or its group), and whether relevant items remain."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.metrics.metric_checks import check_labels, check_same_length
from labeltree.options.choices import LeaveGroupOut

__all__ = ["LeaveGroupOut", "LeftOut", "have_partner", "leaves_group_out"]

Integers = NDArray[np.int64]


class LeftOut:
    """Items with the same number as a query are left out of its ranking.

    Args:
        numbers: (n,) int64 number of each query; -1 leaves out nothing.
        items: (m,) int64 number of each item, at least 0.

    Attributes:
        numbers: As given.
        items: As given; of `outside` nothing more than the number of items.
        counts: (n,) int64 number of items that each query leaves out.
        single: Whether no query leaves out more than one item.
        fewest: The smallest of `counts`; a `subset` keeps the value of all queries.
        alike: Whether all queries leave out the same number of items; a `subset` keeps the value of all
            queries.
        own: Whether each query leaves out itself and nothing else.

    """

    def __init__(self, numbers: Integers, items: Integers) -> None:
        members = np.argsort(items, kind="stable")
        self._fill(numbers, items, items[members], members)

    def _fill(self, numbers: Integers, items: Integers, rising: Integers, members: Integers) -> None:
        self.items, self._rising, self._members = items, rising, members
        self._shared = True  # by several queries
        self._set(numbers)
        self.fewest = int(self.counts.min(initial=len(items)))
        self.alike = self.fewest == int(self.counts.max(initial=0))
        self.own = False

    def _set(self, numbers: Integers) -> None:
        self.numbers = numbers
        self._first = np.searchsorted(self._rising, numbers, side="left")
        self._stop = np.searchsorted(self._rising, numbers, side="right")
        self.counts: Integers = self._stop - self._first
        self.single = bool((self.counts <= 1).all())

    @classmethod
    def rows(cls, own: Integers, size: int) -> LeftOut:
        """Each query leaves out one of `size` items: its own row."""
        left_out = cls(own, np.arange(size))
        left_out.own = True
        return left_out

    @classmethod
    def outside(cls, rankings: Integers, size: int) -> LeftOut:
        """Each query leaves out the items of `size` that are not in its ranking (n, w), whose end is -1."""
        absent = np.ones((len(rankings), size + 1), dtype=np.bool_)
        np.put_along_axis(absent, rankings, False, axis=1)
        left_out = object.__new__(cls)
        left_out._fill(np.arange(len(rankings)), np.arange(size), *np.nonzero(absent[:, :size]))
        left_out._shared = False
        return left_out

    @classmethod
    def groups(cls, query_groups: Integers, key_groups: Integers | None = None) -> LeftOut:
        """Each query leaves out the items of its group; -1 means no group.

        Args:
            query_groups: (n,) group of each query.
            key_groups: (m,) group of each item; None if the queries are the database, so that a query without
                a group leaves out itself.

        """
        everyone = query_groups if key_groups is None else np.concatenate([query_groups, key_groups])
        numbers = np.unique(everyone, return_inverse=True)[1].reshape(-1).astype(np.int64)
        alone = everyone < 0
        numbers[alone] = len(everyone) + np.flatnonzero(alone)
        if key_groups is None:
            left_out = cls(numbers, numbers)
            left_out.own = left_out.single
            return left_out
        count = len(query_groups)
        return cls(np.where(alone[:count], -1, numbers[:count]), numbers[count:])

    def subset(self, rows: Integers | slice) -> LeftOut:
        """Restrict to some of the queries, with the same items."""
        part = object.__new__(LeftOut)
        part.items, part._members, part._rising = self.items, self._members, self._rising
        part._shared = self._shared
        part._set(self.numbers[rows])
        part.fewest, part.alike, part.own = self.fewest, self.alike, self.own
        return part

    def pairs(self) -> tuple[Integers, Integers]:
        """All pairs of a query (ascending) and an item that it leaves out: (p,) and (p,)."""
        queries = np.repeat(np.arange(len(self.numbers)), self.counts)
        before = np.repeat(self.counts.cumsum() - self.counts, self.counts)
        places = np.arange(len(queries)) - before + np.repeat(self._first, self.counts)
        return queries, self._members[places]

    def of(self, query: int) -> Integers:
        """The items left out of one query, ascending."""
        return self._members[self._first[query] : self._stop[query]]

    def reach(self) -> tuple[int, int]:
        """The first and the last item that any of the queries leaves out; (0, -1) where none does."""
        some = self.counts > 0
        if not some.any():
            return 0, -1
        return int(self._members[self._first[some]].min()), int(self._members[self._stop[some] - 1].max())

    def count_own_class(
        self, query_classes: NDArray[np.integer], item_classes: NDArray[np.integer]
    ) -> Integers:
        """(n,) number of items left out of each query that have the query's class."""
        if self.single or not self._shared:
            queries, items = self.pairs()
            alike = queries[item_classes[items] == query_classes[queries]]
            return np.bincount(alike, minlength=len(self.numbers))
        width = int(max(query_classes.max(initial=0), item_classes.max(initial=0))) + 2
        codes = self._rising * width + item_classes[self._members] + 1
        kinds, counts = np.unique(codes, return_counts=True)
        wanted = self.numbers * width + query_classes + 1
        places = np.minimum(np.searchsorted(kinds, wanted), len(kinds) - 1)
        return np.where((kinds[places] == wanted) & (self.counts > 0), counts[places], 0)


def groups_of(name: str, groups: Tensor, nodes: Tensor) -> Integers:
    """Checked groups (n,) of the rows that have a label."""
    check_labels(name, groups)
    check_same_length(name, groups, name.replace("groups", "nodes"), nodes)
    numbers: Integers = groups[nodes >= 0].long().cpu().numpy()
    return numbers


def leaves_group_out(choice: LeaveGroupOut, nodes: Tensor, groups: Tensor | None) -> bool:
    """Whether a search leaves out the samples of the query's own group.

    `auto` leaves them out, except if groups and labels coincide: if all samples of a group have one label
    and no label occurs in two groups, as with photographs of products, there would be nothing else to find.

    Args:
        choice: `auto`, `always` or `never`.
        nodes: (n,) labels of all samples, not only of those that are searched; -1 where missing.
        groups: (n,) groups of the samples, -1 for a sample without a group; None without groups.

    Raises:
        ValueError: For an unknown choice.

    Example:
        >>> patients, items = torch.tensor([7, 7, 8, 8]), torch.tensor([3, 3, 5, 5])
        >>> leaves_group_out("auto", torch.tensor([1, 1, 1, 2]), patients)
        True
        >>> leaves_group_out("auto", torch.tensor([1, 1, 2, 2]), items)
        False

    """
    check_choice("leave_group_out", choice, LeaveGroupOut)
    if groups is None or choice == "never":
        return False
    known = (nodes >= 0) & (groups >= 0)
    pairs = torch.unique(torch.stack([groups[known], nodes[known]]), dim=1)
    several = len(torch.unique(groups[known])) < int(known.sum())
    if not several or choice == "always":
        return several
    alone = torch.unique(nodes[(nodes >= 0) & (groups < 0)])
    own = [torch.unique(side, return_counts=True)[1] for side in pairs]
    label_of_its_own = all(bool((counts == 1).all()) for counts in own)
    return not label_of_its_own or bool(torch.isin(pairs[1], alone).any())


def have_partner(
    nodes: Tensor,
    groups: Tensor | None = None,
    key_nodes: Tensor | None = None,
    key_groups: Tensor | None = None,
) -> Tensor:
    """Mask of the queries that have another sample of their label to find.

    Args:
        nodes: (n,) labels of the queries, -1 where missing.
        groups: (n,) groups whose samples are left out of each other's results, -1 for a sample without a
            group; None without groups.
        key_nodes: (m,) labels of a gallery; None if each query searches all other queries.
        key_groups: (m,) groups of the gallery, required with `groups`.

    Returns:
        (n,) bool.

    Example:
        >>> have_partner(torch.tensor([4, 4, 5, 6, 6]), torch.tensor([0, 1, 1, 2, 2])).tolist()
        [True, True, False, False, False]

    """
    keys = nodes if key_nodes is None else key_nodes
    classes, places = torch.unique(torch.cat([nodes, keys]), return_inverse=True)
    mine, theirs = places[: len(nodes)].numpy(), places[len(nodes) :].numpy()
    partners = np.bincount(theirs, minlength=len(classes))[mine] if len(classes) else mine
    if groups is not None:
        others = None if key_groups is None else key_groups.numpy()
        partners = partners - LeftOut.groups(groups.numpy(), others).count_own_class(mine, theirs)
    elif key_nodes is None:
        partners = partners - 1
    return torch.from_numpy(partners > 0) & (nodes >= 0)
