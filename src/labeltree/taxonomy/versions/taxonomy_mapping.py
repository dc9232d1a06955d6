"""What became of the nodes of one version of a taxonomy in another version."""

from __future__ import annotations

import datetime
import gc
import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

from labeltree.errors import TaxonomyError
from labeltree.lazy import torch
from labeltree.taxonomy.tree import Taxonomy
from labeltree.taxonomy.version_history import Revision
from labeltree.taxonomy.versions.change_entries import Change, Guess, changes_of
from labeltree.taxonomy.versions.paired_names import list_differences, match_orders

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TaxonomyMapping", "diff"]

Targets = tuple[tuple[int, ...], ...]


class TaxonomyMapping:
    """For every node of a taxonomy, the nodes that it became in another version of that taxonomy.

    A label of the old version is read in the new one by `nodes`: as the node that its class became; where the
    class was split and nothing says into which part a sample falls, as the lowest node above all parts; where
    it was removed, as the node where its parent went.

    Args:
        old: The old version, N_old nodes.
        new: The new version, N_new nodes.
        targets: For every old node its new nodes: one; several if it was split; none if it was removed and
            its labels go where those of its parent go. The root is mapped to the root.
        removed: `(N_old,)` bool, whether the node itself is gone and its targets only say where its labels
            go; None: those without targets.

    Attributes:
        old: The old version.
        new: The new version.
        targets: For every old node its new nodes, ascending, at least one.

    Raises:
        TaxonomyError: If a taxonomy is not a tree, a target is not a node, or the root is not mapped to the
            root.

    Example:
        >>> old = Taxonomy.from_paths(["tit/blue", "tit/great"])
        >>> new = Taxonomy.from_paths(["cyanistes/blue", "parus/great"])
        >>> mapping, guesses = TaxonomyMapping.between(old, new)
        >>> for change in mapping.changes():
        ...     print(change)
        split: tit -> cyanistes, parus
        move: tit/blue -> cyanistes/blue
        move: tit/great -> parus/great
    """

    def __init__(
        self,
        old: Taxonomy,
        new: Taxonomy,
        targets: Sequence[Sequence[int]],
        removed: Sequence[bool] | Tensor | None = None,
    ) -> None:
        _check_trees(old, new)
        if len(targets) != old.num_nodes:
            raise TaxonomyError(f"there are {len(targets)} targets for {old.num_nodes} old nodes")
        gone = [not several for several in targets] if removed is None else [bool(one) for one in removed]
        if len(gone) != old.num_nodes:
            raise TaxonomyError(f"removed has {len(gone)} entries for {old.num_nodes} old nodes")
        if tuple(targets[0]) not in ((), (0,)):
            raise TaxonomyError("the root of a taxonomy cannot become another node than the root")
        self.old, self.new = old, new
        self.targets, self._places = _complete(old, new, targets)
        gone = [
            one or (bool(several) and not any(several)) for one, several in zip(gone, targets, strict=True)
        ]
        gone[0] = False
        self._gone = gone

    @cached_property
    def nodes(self) -> Tensor:
        """`(N_old,)` int64, the new node of a label: the lowest common ancestor of its targets."""
        return torch.tensor(self._places)

    @cached_property
    def removed(self) -> Tensor:
        """`(N_old,)` bool, whether the node itself is gone."""
        return torch.tensor(self._gone)

    @cached_property
    def exact(self) -> Tensor:
        """`(N_old,)` bool, whether the node is one node of the new version."""
        return torch.tensor([self._is_exact(node) for node in range(self.old.num_nodes)])

    def _is_exact(self, node: int) -> bool:
        return not self._gone[node] and len(self.targets[node]) == 1

    def __repr__(self) -> str:
        kinds: dict[str, int] = {}
        for change in self.changes():
            kinds[change.kind] = kinds.get(change.kind, 0) + 1
        said = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing changed"
        return f"TaxonomyMapping({self.old.num_nodes} -> {self.new.num_nodes} nodes: {said})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaxonomyMapping):
            return NotImplemented
        return (
            _tree(self.old) == _tree(other.old)
            and _tree(self.new) == _tree(other.new)
            and self.targets == other.targets
            and self._gone == other._gone
        )

    __hash__ = object.__hash__

    @cached_property
    def _changes(self) -> tuple[Change, ...]:
        with _no_cycle_search():
            return tuple(changes_of(self.old, self.new, self.targets, self._places, self._gone))

    def changes(self) -> list[Change]:
        """What changed, old nodes first in their order, then new nodes that are no old one."""
        return [change for change in self._changes if not change.follows]

    def revised(self, release: str | None = None, date: datetime.date | None = None) -> Taxonomy:
        """The new version, with its release and with this mapping as the last entry of its history.

        Args:
            release: What people call the new version; None: what it calls itself.
            date: The day of the change, by default today.
        """
        before = list(self.old.history)
        if not before or before[-1].digest != self.old.digest:
            before.append(Revision(self.old.release, self.old.digest))
        release = self.new.release if release is None else release
        day = (datetime.date.today() if date is None else date).isoformat()
        counts: dict[str, int] = dict(Counter(change.kind for change in self.changes()))
        latest = Revision(release, self.new.digest, day, counts)
        return self.new.with_release(release, [*before, latest])

    def then(self, later: TaxonomyMapping) -> TaxonomyMapping:
        """The mapping from the old version of this one to the new version of a later one.

        Raises:
            TaxonomyError: If the later one does not begin with the taxonomy that this one ends with.
        """
        place = _same_nodes(self.new, later.old)
        lost = later._gone
        targets, removed = [], []
        for several, gone in zip(self.targets, self._gone, strict=True):
            middle = [place[node] for node in several]
            targets.append(sorted({target for node in middle for target in later.targets[node]}))
            removed.append(gone or all(lost[node] for node in middle))
        return TaxonomyMapping(self.old, later.new, targets, removed)

    @classmethod
    def between(
        cls, old: Taxonomy, new: Taxonomy, synonyms: Mapping[str, str] | None = None
    ) -> tuple[TaxonomyMapping, list[Guess]]:
        """The mapping that is certain from the two taxonomies alone, and what else is likely.

        A node is matched to the one at the same path, to the accepted name that `synonyms` give it, to the
        one with its id (if both versions have ids that they keep), or to the one node of its name if that
        occurs once in each version. An inner node that is left goes where its children went. What is left
        then counts as removed.

        Args:
            old: The old version.
            new: The new version.
            synonyms: For names or paths of the old version the accepted name or path of the new one.

        Returns:
            The mapping, and guesses: changes that a person should confirm.

        Raises:
            TaxonomyError: If a taxonomy is not a tree, or an accepted name is ambiguous.
        """
        from labeltree.taxonomy.versions.matching import match_versions

        _check_trees(old, new)
        with _no_cycle_search():
            certain, guesses = match_versions(old, new, synonyms or {})
            return cls(old, new, certain), guesses

    def with_guesses(self, guesses: Sequence[Guess]) -> TaxonomyMapping:
        """The mapping with these guesses taken as right, and what follows from them for the nodes below.

        Of several guesses for one node the first is taken.
        """
        from labeltree.taxonomy.versions.matching import carry_on

        targets, _, _ = self._followed
        targets = list(targets)
        removed = list(self._gone)
        taken: set[int] = set()
        for guess in guesses:
            if guess.node in taken:
                continue
            taken.add(guess.node)
            targets[guess.node], removed[guess.node] = guess.targets, False
        carry_on(self.old, self.new, targets)
        removed = [gone and not several for gone, several in zip(removed, targets, strict=True)]
        return TaxonomyMapping(self.old, self.new, targets, removed)

    @cached_property
    def _followed(self) -> tuple[list[tuple[int, ...]], list[int], set[int]]:
        """The targets without those of removed nodes that only follow their parents; these; all targets."""
        parent = self.old.numbering.main_parent
        left = [
            node
            for node in range(1, self.old.num_nodes)
            if self._gone[node] and self.targets[node] == (self._places[parent[node]],)
        ]
        targets = list(self.targets)
        for node in left:
            targets[node] = ()
        return targets, left, {target for several in targets for target in several}

    def _carry_down(self, guess: Guess) -> Guess:
        """A guess about an inner node with the changes of the nodes below that it brings."""
        from labeltree.taxonomy.versions.matching import carry_on

        targets, left, sourced = self._followed
        end = guess.node + 1 + self.old.num_below(guess.node)
        below = left[bisect_right(left, guess.node) : bisect_left(left, end)]
        if not below:
            return guess
        before = targets[guess.node]
        targets[guess.node] = guess.targets
        carry_on(self.old, self.new, targets, below, sourced | set(guess.targets))
        changes = [
            Change("move", self.old.path(node), (self.new.path(targets[node][0]),), follows=True)
            for node in below
            if len(targets[node]) == 1
        ]
        targets[guess.node] = before
        for node in below:
            targets[node] = ()
        return replace(guess, below=tuple(changes))

    def save(self, path: str | os.PathLike[str], guesses: Sequence[Guess] = ()) -> None:
        """Write the mapping as YAML, one line a change, and guesses as comments; see `load`."""
        from labeltree.taxonomy.versions.mapping_file import write_mapping

        told = [self._carry_down(guess) for guess in guesses]
        write_mapping(path, self.old, self.new, self._changes, told)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, old: Taxonomy | None = None, new: Taxonomy | None = None
    ) -> Self:
        """Read a mapping that `save` wrote, or that a person has written or edited.

        One of the two taxonomies suffices; the other one follows from the changes. With both, nodes of the
        new one that no change names count as added.

        Args:
            path: The YAML file.
            old: The old version.
            new: The new version.

        Raises:
            TaxonomyError: If the file is missing or no mapping, or was made for another taxonomy: the message
                names the first paths that are not there.
        """
        from labeltree.taxonomy.versions.mapping_file import read_mapping

        return cls(*read_mapping(path, old, new))


@contextmanager
def _no_cycle_search() -> Iterator[None]:
    """Let Python not look for cycles among millions of tuples of numbers, which have none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _check_trees(old: Taxonomy, new: Taxonomy) -> None:
    for which, taxonomy in (("old", old), ("new", new)):
        if not isinstance(taxonomy, Taxonomy):
            raise TaxonomyError(
                f"a mapping between versions needs trees, and the {which} one is a DAG; make a tree of "
                "it with 'labeltree taxonomy project'"
            )


def diff(old: Taxonomy, new: Taxonomy) -> list[Change]:
    """What changed for certain from one version of a taxonomy to another; see `TaxonomyMapping.between`.

    Example:
        >>> old, new = Taxonomy.from_paths(["a/x", "a/y"]), Taxonomy.from_paths(["a/x", "b/y"])
        >>> print(*diff(old, new), sep=", ")
        move: a/y -> b/y, add: b
    """
    return TaxonomyMapping.between(old, new)[0].changes()


def _complete(old: Taxonomy, new: Taxonomy, targets: Sequence[Sequence[int]]) -> tuple[Targets, list[int]]:
    """The targets of every old node, at least one, and the node of its labels."""
    parent = old.numbering.main_parent.tolist()
    completed: list[tuple[int, ...]] = [(0,)]
    nodes = [0]
    for node in range(1, old.num_nodes):
        given = targets[node]
        several = given if type(given) is tuple and len(given) < 2 else tuple(sorted(set(map(int, given))))
        if several and not (several[0] >= 0 and several[-1] < new.num_nodes):
            raise TaxonomyError(
                f"the targets of {old.path_name(node)!r} are {list(several)}; the new taxonomy has nodes 0 "
                f"to {new.num_nodes - 1}"
            )
        several = several or (nodes[parent[node]],)
        completed.append(several)
        nodes.append(several[0] if len(several) == 1 else _lowest_common(new, several))
    return tuple(completed), nodes


def _lowest_common(tree: Taxonomy, nodes: Sequence[int]) -> int:
    """The lowest node that is above all of these, or one of them."""
    paths = [[*tree.ancestors_of(node), node] for node in nodes]
    shared: list[int] = [level[0] for level in zip(*paths, strict=False) if len(set(level)) == 1]
    return shared[-1]


def _tree(taxonomy: Taxonomy) -> tuple[list[str], list[int]]:
    return list(taxonomy.names), taxonomy.numbering.main_parent.tolist()


def _same_nodes(first: Taxonomy, second: Taxonomy) -> list[int]:
    """For each node of a taxonomy the node of the same path in an equal one."""
    places = match_orders(first, second)
    if places is None:
        differ = list_differences(first, second, ("the end of the earlier", "the beginning of the later"))
        raise TaxonomyError(
            "the later mapping does not begin with the taxonomy that the earlier one ends with: " + differ
        )
    nodes: list[int] = places.tolist()
    return nodes
