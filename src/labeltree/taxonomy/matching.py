"""Find the nodes of one taxonomy in another: by path, by name, and by where their children went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.changes import Change, Guess, Kind
from labeltree.taxonomy.graph import Graph
from labeltree.taxonomy.near_names import near_pairs, plain_key
from labeltree.taxonomy.placeholders import PLACEHOLDERS, REMAINDERS, plain_name
from labeltree.taxonomy.tree import Taxonomy

__all__ = ["Matching", "carry_on", "match_nodes", "match_versions"]

_NO_CLASS = PLACEHOLDERS | REMAINDERS


class Matching(NamedTuple):
    """The nodes of one taxonomy matched to the nodes of another.

    Attributes:
        nodes: (N,) int64, the target node of each source node, -1 if no match is certain.
        ambiguous: source nodes without a match because their name occurs several times in either taxonomy.
    """

    nodes: Tensor
    ambiguous: list[int]


def match_nodes(source: Graph, target: Graph) -> Matching:
    """Find the nodes of a taxonomy in another one; the roots match whatever their names.

    A node matches the node at the same path (in a DAG: at its shortest path), or else the node of the same
    name if that name occurs once in each taxonomy.

    Args:
        source: the taxonomy whose nodes are matched.
        target: the taxonomy in which they are looked for.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> source = Taxonomy.from_paths(["pet/dog", "pet/other", "farm/other"])
        >>> target = Taxonomy.from_paths(["mammal/canine/dog", "mammal/other", "fish/other"])
        >>> match_nodes(source, target)
        Matching(nodes=tensor([ 0, -1,  3, -1, -1, -1]), ambiguous=[3, 5])
    """
    named: dict[str, list[int]] = {}
    for node in range(1, len(target)):
        named.setdefault(target.names[node], []).append(node)
    found, ambiguous = [0], []
    here = Counter(source.names[1:])
    for node in range(1, len(source)):
        there = target.follow(source.path(node))
        alike = named.get(source.names[node], [])
        if there is None and alike:
            certain = len(alike) == 1 and here[source.names[node]] == 1
            there = alike[0] if certain else None
            ambiguous += [] if certain else [node]
        found.append(-1 if there is None else there)
    return Matching(torch.tensor(found), ambiguous)


def match_versions(
    old: Taxonomy, new: Taxonomy, synonyms: Mapping[str, str]
) -> tuple[list[list[int]], list[Guess]]:
    """The targets of every old node that are certain, and guesses; see `TaxonomyMapping.between`."""
    targets = [[] if node < 0 else [node] for node in match_nodes(old, new).nodes.tolist()]
    for node, there in enumerate(targets):  # a class called "other" is hardly the same one elsewhere
        if there and plain_name(old.names[node]) in _NO_CLASS and new.path(there[0]) != old.path(node):
            there.clear()
    for name, accepted in synonyms.items():
        place = new.candidates(accepted)
        for node in old.candidates(name) if place else ():
            if len(place) > 1:
                raise TaxonomyError(
                    f"the accepted name {accepted!r} of {name!r} is ambiguous in the new taxonomy; give "
                    "its path"
                )
            if node and new.follow(old.path(node)) is None:
                targets[node] = [place[0]] if place[0] else []
    return targets, _guesses(old, new, targets, carry_on(old, new, targets))


def carry_on(old: Taxonomy, new: Taxonomy, targets: list[list[int]]) -> dict[int, list[int]]:
    """Match nodes that are left by where their parents and children went, in place.

    Args:
        old: the old version.
        new: the new version.
        targets: for every old node its new nodes; none for those that are left.

    Returns:
        Of further inner nodes the new nodes where less than half of their children went, which is doubtful.
    """
    doubtful: dict[int, list[int]] = {}
    while _follow_children(old, new, targets, doubtful) + _follow_parents(old, new, targets):
        pass
    return doubtful


def _follow_parents(old: Taxonomy, new: Taxonomy, targets: list[list[int]]) -> int:
    """Match nodes that are left to the one of their name where their parent went; returns how many were."""
    sourced = {target for several in targets for target in several}
    child = {(above, new.names[node]): node for node, above in enumerate(new.parent.tolist())}
    parent = old.parent.tolist()
    found = 0
    for node in range(1, old.num_nodes):
        above = targets[parent[node]]
        there = child.get((above[0], old.names[node])) if len(above) == 1 and not targets[node] else None
        if there is not None and there not in sourced:
            targets[node] = [there]
            sourced.add(there)
            found += 1
    return found


def _follow_children(
    old: Taxonomy, new: Taxonomy, targets: list[list[int]], doubtful: dict[int, list[int]]
) -> int:
    """Match inner nodes that are left to the parents of what their children became, the finest first.

    Where most children are gone, the match is noted as doubtful instead.

    Returns:
        The number of nodes that were matched.
    """
    found = 0
    parent = new.parent.tolist()
    above = old.parent.tolist()
    for node in range(old.num_nodes - 1, 0, -1):
        if targets[node]:
            continue
        children = old.children(node)
        parents = {parent[target] for child in children for target in targets[child] if target}
        higher = above[node]
        while not targets[higher]:
            higher = above[higher]
        stays = {new_node for target in targets[higher] for new_node in _line_up(target, parent)}
        if parents and not parents & (stays | {0, -1}):
            if 2 * sum(bool(targets[child]) for child in children) >= len(children):
                targets[node] = sorted(parents)
                doubtful.pop(node, None)
                found += 1
            else:
                doubtful[node] = sorted(parents)
    return found


def _line_up(node: int, parent: list[int]) -> list[int]:
    found = [node]
    while node > 0:
        node = parent[node]
        found.append(node)
    return found


def _guesses(
    old: Taxonomy, new: Taxonomy, targets: list[list[int]], doubtful: Mapping[int, list[int]]
) -> list[Guess]:
    """Likely changes of the nodes that are left, among the children of where their parents went."""
    sourced = {target for several in targets for target in several}
    found: list[Guess] = []
    for node, there in doubtful.items():
        children = old.children(node)
        stay = sum(bool(targets[child]) for child in children)
        kind: Kind = "split" if len(there) > 1 else "merge" if there[0] in sourced else "rename"
        change = Change(kind, old.path(node), tuple(new.path(one) for one in there))
        reason = f"{stay} of its {len(children)} children went there, the others are gone"
        found.append(Guess(node, tuple(there), change, reason))
    for node in range(old.num_nodes):
        if len(targets[node]) != 1 and node:
            continue
        gone = [child for child in old.children(node) if not targets[child] and child not in doubtful]
        if not gone:
            continue
        place = targets[node][0] if node else 0
        children = new.children(place)
        fresh = [child for child in children if child not in sourced]
        known = [child for child in children if child in sourced]
        found += _among_siblings(old, new, gone, fresh, known)
    return sorted(found, key=lambda guess: guess.node)


def _among_siblings(
    old: Taxonomy, new: Taxonomy, gone: list[int], fresh: list[int], known: list[int]
) -> list[Guess]:
    """Guesses about children that are gone, from new children of the same parent and those that stayed."""

    def guess(node: int, there: list[int], reason: str) -> Guess:
        kind: Kind = "split" if len(there) > 1 else "merge" if there[0] in known else "rename"
        change = Change(kind, old.path(node), tuple(new.path(one) for one in there))
        return Guess(node, tuple(there), change, reason)

    by_key: dict[str, list[int]] = {}
    for child in fresh:
        by_key.setdefault(plain_key(new.names[child]), []).append(child)
    spelled = {node: by_key.get(plain_key(old.names[node]), []) for node in gone}
    found = {
        node: guess(node, there, "the same name, spelled otherwise")
        for node, there in spelled.items()
        if len(there) == 1
    }
    stayed: dict[str, list[int]] = {}
    for child in known:
        stayed.setdefault(plain_key(new.names[child]), []).append(child)
    for node in gone:
        alike = stayed.get(plain_key(old.names[node]), [])
        if node not in found and len(alike) == 1:
            found[node] = guess(node, alike, "the same name where its parent went")
    left = [node for node in gone if node not in found]
    prefixes = sorted((new.names[child].casefold(), child) for child in fresh)
    for node in left:
        name = old.names[node].casefold()
        parts = _beginning_with(prefixes, name)
        if parts:
            several = "new names that begin" if len(parts) > 1 else "the new name begins"
            found[node] = guess(node, parts, f"{several} with {old.names[node]!r}")
    left = [node for node in left if node not in found]
    for candidates, reason in ((fresh, "one letter apart"), (known, "one letter apart from one that stayed")):
        names = [old.names[node] for node in left] + [new.names[child] for child in candidates]
        for first, second in near_pairs(names):
            if first < len(left) <= second and left[first] not in found:
                found[left[first]] = guess(left[first], [candidates[second - len(left)]], reason)
        left = [node for node in left if node not in found]
    return list(found.values())


def _beginning_with(names: list[tuple[str, int]], start: str) -> list[int]:
    """The nodes whose name is longer than the start and goes on with another word."""
    from bisect import bisect_left

    found = []
    for name, node in names[bisect_left(names, (start, -1)) :]:
        if not name.startswith(start):
            break
        if len(name) > len(start) and not name[len(start)].isalnum():
            found.append(node)
    return sorted(found)
