"""Find the nodes of one taxonomy in another: by path, by id, by name, and by where their children went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from labeltree.errors import TaxonomyError
from labeltree.lazy import torch
from labeltree.taxonomy.naming import join_path
from labeltree.taxonomy.numbering import IntArray
from labeltree.taxonomy.placeholders import PLACEHOLDERS, REMAINDERS, plain_name
from labeltree.taxonomy.taxonomy_graph import Graph
from labeltree.taxonomy.tree import Taxonomy
from labeltree.taxonomy.versions.change_entries import Guess
from labeltree.taxonomy.versions.guesses import guesses_of
from labeltree.taxonomy.versions.paired_names import PairedNames
from labeltree.taxonomy.versions.stable_ids import match_ids

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Matching", "carry_on", "match_labels", "match_nodes", "match_versions"]

_NO_CLASS = PLACEHOLDERS | REMAINDERS
Nodes = tuple[int, ...]


class Matching(NamedTuple):
    """The nodes of one taxonomy matched to the nodes of another.

    Attributes:
        nodes: (N,) int64, the target node of each source node, -1 if no match is certain.
        ambiguous: Source nodes without a match because their name occurs several times in either taxonomy.
    """

    nodes: Tensor
    ambiguous: list[int]


def match_nodes(source: Graph, target: Graph) -> Matching:
    """Find the nodes of a taxonomy in another one; the roots match whatever their names.

    A node matches the node at the same path (in a DAG: at its shortest path), or else the node of the same
    name if that name occurs once in each taxonomy.

    Args:
        source: The taxonomy whose nodes are matched.
        target: The taxonomy in which they are looked for.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> source = Taxonomy.from_paths(["pet/dog", "pet/other", "farm/other"])
        >>> target = Taxonomy.from_paths(["mammal/canine/dog", "mammal/other", "fish/other"])
        >>> match_nodes(source, target)
        Matching(nodes=tensor([ 0, -1,  3, -1, -1, -1]), ambiguous=[3, 5])
    """
    places, _, ambiguous = _match(source, target)
    return Matching(torch.tensor(places.tolist()), ambiguous)


def match_labels(source: Graph, target: Graph) -> Matching:
    """Find the labels of samples in a taxonomy: as `match_nodes` does, and else by its further names.

    The ids of an ontology count first, as between versions: at a former name there may be another class now.
    Further names are the ids and synonyms of its nodes; a label is such a one by its path, or by a name that
    no other node of its taxonomy has.

    Args:
        source: The taxonomy of the labels, perhaps made of them, in which an id or a synonym is a node.
        target: The taxonomy in which they are looked for.
    """
    places, _, ambiguous = _match(source, target)
    if source.aliases and target.aliases:
        for node, same in match_ids(source, target, places).items():
            places[node] = same
    matching = Matching(torch.tensor(places.tolist()), ambiguous)
    if not target.aliases:
        return matching
    count = Counter(source.names)
    for node in (matching.nodes < 0).nonzero()[:, 0].tolist():
        path = source.path(node)
        known = target.candidates(path[0] if len(path) == 1 else join_path(path))
        if not known and count[path[-1]] == 1:
            known = target.candidates(path[-1])
        if len(known) == 1:
            matching.nodes[node] = known[0]
    return Matching(matching.nodes, [n for n in matching.ambiguous if int(matching.nodes[n]) < 0])


def _match(source: Graph, target: Graph) -> tuple[IntArray, IntArray, list[int]]:
    """Places by path or name, those by path alone, and nodes whose name occurs several times."""
    both = PairedNames(source, target)
    by_path = both.same_paths(source)
    places = by_path.copy()
    here, there = (np.bincount(names[1:], minlength=both.count) for names in (both.old, both.new))
    only = np.zeros(both.count, dtype=np.int64)  # the node of a name that one node has
    only[both.new[1:]] = np.arange(1, len(target))
    certain = (here == 1) & (there == 1)
    elsewhere = (places < 0) & (there[both.old] > 0)
    by_name = elsewhere & certain[both.old]
    places[by_name] = only[both.old[by_name]]
    return places, by_path, np.flatnonzero(elsewhere & ~by_name).tolist()


def match_versions(
    old: Taxonomy, new: Taxonomy, synonyms: Mapping[str, str]
) -> tuple[list[Nodes], list[Guess]]:
    """The targets of every old node that are certain, and guesses; see `TaxonomyMapping.between`."""
    places, by_path, _ = _match(old, new)
    targets: list[Nodes] = [() if node < 0 else (node,) for node in places.tolist()]
    for node, there in enumerate(targets):  # a class called "other" is hardly the same one elsewhere
        if there and plain_name(old.names[node]) in _NO_CLASS and new.path(there[0]) != old.path(node):
            targets[node] = ()
    for node, same in match_ids(old, new, by_path).items():
        targets[node] = (same,)
    for name, accepted in synonyms.items():
        place = new.candidates(accepted)
        for node in old.candidates(name) if place else ():
            if len(place) > 1:
                raise TaxonomyError(
                    f"the accepted name {accepted!r} of {name!r} is ambiguous in the new taxonomy; give "
                    "its path"
                )
            if node and new.follow(old.path(node)) is None:
                targets[node] = (place[0],) if place[0] else ()
    doubtful = carry_on(old, new, targets)
    return targets, guesses_of(old, new, targets, doubtful, _considered_nodes(old, new, targets))


def _considered_nodes(old: Taxonomy, new: Taxonomy, targets: Sequence[Nodes]) -> dict[int, list[int]]:
    """The new nodes that may be meant by old ones that are left, as the new version says by their ids."""
    considered: dict[int, list[int]] = {}
    for node in range(1, old.num_nodes) if new.considered else ():
        called = [old.names[node], *old.aliases_of(node)] if not targets[node] else []
        instead = dict.fromkeys(id for name in called for id in new.considered.get(name, ()))
        there = [known[0] for id in instead if len(known := new.candidates(id)) == 1]
        if there:
            considered[node] = there
    return considered


def carry_on(
    old: Taxonomy,
    new: Taxonomy,
    targets: list[Nodes],
    left: Sequence[int] | None = None,
    sourced: set[int] | None = None,
) -> dict[int, list[int]]:
    """Match nodes that are left by where their parents and children went, in place.

    Args:
        old: The old version.
        new: The new version.
        targets: For every old node its new nodes; none for those that are left.
        left: The old nodes that are left; None to look for them.
        sourced: All targets, extended in place; None to look for them.

    Returns:
        Of further inner nodes the new nodes where less than half of their children went, which is doubtful.
    """
    doubtful: dict[int, list[int]] = {}
    if left is None:
        left = [node for node in range(1, old.num_nodes) if not targets[node]]
    if sourced is None:
        sourced = {target for several in targets for target in several}
    while left and (
        _follow_children(old, new, targets, left, sourced, doubtful)
        + _follow_parents(old, new, targets, left, sourced)
    ):
        left = [node for node in left if not targets[node]]
    return doubtful


def _follow_parents(
    old: Taxonomy, new: Taxonomy, targets: list[Nodes], left: Sequence[int], sourced: set[int]
) -> int:
    """Match nodes that are left to the one of their name where their parent went; returns how many were."""
    named: dict[int, dict[str, int]] = {}  # by name, the children of new nodes that were asked for
    parent = old.numbering.main_parent
    count = 0
    for node in left:
        above = targets[parent[node]]
        if targets[node] or len(above) != 1:
            continue
        if above[0] not in named:
            named[above[0]] = {new.names[child]: child for child in new.children(above[0])}
        there = named[above[0]].get(old.names[node])
        if there is not None and there not in sourced:
            targets[node] = (there,)
            sourced.add(there)
            count += 1
    return count


def _follow_children(
    old: Taxonomy,
    new: Taxonomy,
    targets: list[Nodes],
    left: Sequence[int],
    sourced: set[int],
    doubtful: dict[int, list[int]],
) -> int:
    """Match inner nodes that are left to the parents of what their children became, the finest first.

    Where most children are gone, the match is noted as doubtful instead.

    Returns:
        The number of nodes that were matched.
    """
    count = 0
    parent, above = new.numbering.main_parent, old.numbering.main_parent
    for node in reversed(left):
        children = old.children(node)
        parents = {int(parent[target]) for child in children for target in targets[child] if target}
        if not parents:
            continue
        higher = above[node]
        while not targets[higher]:
            higher = above[higher]
        stays = {new_node for target in targets[higher] for new_node in _line_up(target, parent)}
        if not parents & (stays | {0, -1}):
            if 2 * sum(bool(targets[child]) for child in children) >= len(children):
                targets[node] = tuple(sorted(parents))
                sourced |= parents
                doubtful.pop(node, None)
                count += 1
            else:
                doubtful[node] = sorted(parents)
    return count


def _line_up(node: int, parent: IntArray) -> list[int]:
    line = [node]
    while node > 0:
        node = int(parent[node])
        line.append(node)
    return line
