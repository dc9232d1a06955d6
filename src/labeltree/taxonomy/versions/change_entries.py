"""Changes between two versions of a taxonomy, as people read and write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from labeltree.taxonomy.naming import join_path
from labeltree.taxonomy.tree import Taxonomy
from labeltree.taxonomy.versions.paired_names import PairedNames

__all__ = ["KINDS", "Change", "Guess", "Kind", "changes_of"]

Kind = Literal["rename", "move", "merge", "split", "remove", "add"]
KINDS: tuple[Kind, ...] = ("rename", "move", "merge", "split", "remove", "add")
Path = tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """One change.

    Attributes:
        kind: `rename` (another name below the same parent), `move` (another parent, perhaps another name,
            too), `merge` (one of several old nodes that are one node now), `split`, `remove`, `add`.
        old: Path of the old node, () if it was added.
        new: Paths of the new nodes: one, several of a split node; of a removed one the node of its labels,
            none if that is where its parent went.
        follows: Whether the node is only where its parent's change takes it. Such changes are written to
            files, where they are needed to tell the old version from the new one, and not counted.
    """

    kind: Kind
    old: Path
    new: tuple[Path, ...] = ()
    follows: bool = False

    def __str__(self) -> str:
        there = ", ".join(join_path(path) or "/" for path in self.new)
        here = join_path(self.old)
        return f"{self.kind}: {' -> '.join(part for part in (here, there) if part)}"


@dataclass(frozen=True)
class Guess:
    """A change that is likely, for a person to confirm.

    Attributes:
        node: The old node.
        targets: The new nodes that it may have become.
        change: The change in words.
        reason: Why it is likely.
        below: Changes of nodes below that come with it.
        by_place: Whether only its place speaks for it, and no name: one class is gone there, and one is new.
        suggested: Whether the new version says that these nodes may be meant, of which a person chooses.
    """

    node: int
    targets: tuple[int, ...]
    change: Change
    reason: str
    below: tuple[Change, ...] = ()
    by_place: bool = False
    suggested: bool = False

    @property
    def needs_decision(self) -> bool:
        """Whether it is never taken as right until a person has decided."""
        return self.by_place or self.suggested


def changes_of(
    old: Taxonomy,
    new: Taxonomy,
    targets: Sequence[Sequence[int]],
    nodes: Sequence[int],
    removed: Sequence[bool],
) -> Iterator[Change]:
    """The changes of a mapping, see `TaxonomyMapping`; old nodes in their order, then added nodes.

    A node without a change is where its parent went, under its own name. Removed children of a split node
    follow it where none of its children is left: its split says what became of them. Where several old nodes
    became one, or one was split or removed, all nodes below have a change of their own, so that either
    version follows from the other one and the changes. The parts of a split node are new: an old node that
    became a part has a change of its own, a merge.
    """
    parent, names = old.numbering.main_parent.tolist(), old.names
    single = [
        several[0] if len(several) == 1 and not gone else None
        for several, gone in zip(targets, removed, strict=True)
    ]
    sources: dict[int, int] = {}
    for target in single:
        if target is not None:
            sources[target] = sources.get(target, 0) + 1
    parts = {
        target
        for node in range(old.num_nodes)
        if len(targets[node]) > 1 and not removed[node]
        for target in targets[node]
    }
    above_new = new.numbering.main_parent
    both = PairedNames(old, new)
    places = np.asarray(nodes)[old.numbering.main_parent[1:]]
    # for each node the new node of its name where its parent went
    by_default = [-1, *both.child(places, both.old[1:]).tolist()]
    silent = [True]  # whether the node has no change of its own
    carries = [True]  # whether nodes below need no change if they stay below this node
    default_of: dict[int, int] = {}  # the old node that is a new node without a change
    for node in range(1, old.num_nodes):
        above = parent[node]
        quiet = carries[above] and single[node] == by_default[node] and by_default[node] not in parts
        silent.append(quiet)
        target = single[node]
        carries.append(target is not None and (quiet or sources[target] == 1))
        if quiet and target is not None:
            default_of[target] = node
    explained = _told_by_splits(old, targets, removed)
    for node in range(1, old.num_nodes):
        if silent[node]:
            continue
        above, target = parent[node], single[node]
        there = tuple(new.path(one) for one in targets[node])
        here = old.path(node)
        if removed[node]:
            stays = list(targets[node]) == [nodes[above]]
            yield Change("remove", here, () if stays else there, follows=stays and node in explained)
        elif target is None:
            yield Change("split", here, there)
        else:
            stays = target == by_default[node]
            alone = sources[target] == 1 and target not in parts
            if not alone:
                kind: Kind = "merge"
            else:
                same_parent = above_new[target] == nodes[above]
                kind = "rename" if same_parent and new.names[target] != names[node] else "move"
            yield Change(kind, here, there, follows=stays and sources[target] == 1)
    for node in range(1, new.num_nodes):
        if node in parts:
            continue
        if node not in sources or (sources[node] > 1 and node not in default_of):
            yield Change("add", (), (new.path(node),), follows=node in sources)


def _told_by_splits(old: Taxonomy, targets: Sequence[Sequence[int]], removed: Sequence[bool]) -> set[int]:
    """The removed nodes below split ones none of whose children is left."""
    told: set[int] = set()
    for node in range(1, old.num_nodes):
        is_split = len(targets[node]) > 1 and not removed[node]
        if is_split or node in told:
            children = old.children(node)
            if node in told or all(removed[child] for child in children):
                told.update(child for child in children if removed[child])
    return told
