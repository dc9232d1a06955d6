"""Guess what became of the nodes that two versions leave open: by their names, then by their place."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from labeltree.taxonomy.placeholders import PLACEHOLDERS, REMAINDERS, plain_name
from labeltree.taxonomy.tree import Taxonomy
from labeltree.taxonomy.versions.change_entries import Change, Guess, Kind
from labeltree.taxonomy.versions.near_names import near_pairs, plain_key

__all__ = ["guesses_of"]

_NO_CLASS = PLACEHOLDERS | REMAINDERS
_MOST_BY_PLACE = 5  # classes of one parent; if more are gone, that one is new says little about them


def guesses_of(
    old: Taxonomy,
    new: Taxonomy,
    targets: Sequence[Sequence[int]],
    doubtful: Mapping[int, list[int]],
    considered: Mapping[int, list[int]] = MappingProxyType({}),
) -> list[Guess]:
    """Likely changes of the nodes that are left, among the children of where their parents went.

    Args:
        old: The old version.
        new: The new version.
        targets: For every old node its new nodes; none for those that are left.
        doubtful: Of inner nodes that are left, the new nodes where less than half of their children went.
        considered: Of nodes that are left, those that the new version says to consider instead.

    Returns:
        Guesses in the order of the nodes, one per node; of nodes to consider one for each, and one for all.
    """
    sourced = {target for several in targets for target in several}
    guesses: list[Guess] = []
    for node, there in considered.items():
        others = f", or {len(there) - 1} other" if len(there) > 1 else ""
        reason = f"the new version calls it obsolete, and says to consider this one{others}: decide"
        guesses += [_suggestion(old, new, targets, node, [one], reason, sourced) for one in there]
        if len(there) > 1:
            reason = f"or these {len(there)} divide its samples among them"
            guesses.append(_suggestion(old, new, targets, node, there, reason, sourced))
    for node, there in doubtful.items():
        if node in considered:
            continue
        children = old.children(node)
        stay = sum(bool(targets[child]) for child in children)
        reason = f"{stay} of its {len(children)} children went there, the others are gone"
        guesses.append(_guess(old, new, node, there, reason, sourced))
    gone_below: dict[int, list[int]] = {}
    parent = old.numbering.main_parent
    for child in range(1, old.num_nodes):
        if not targets[child] and child not in doubtful and child not in considered:
            gone_below.setdefault(int(parent[child]), []).append(child)
    for node, gone in sorted(gone_below.items()):
        if len(targets[node]) != 1 and node:
            continue
        place = targets[node][0] if node else 0
        children = new.children(place)
        fresh = [child for child in children if child not in sourced]
        known = {child for child in children if child in sourced}
        named = _guess_by_name(old, new, gone, fresh, known)
        taken = {target for guess in named for target in guess.targets}
        left = {guess.node for guess in named}
        guesses += named
        guesses += _guess_by_place(
            old, new, [one for one in gone if one not in left], [one for one in fresh if one not in taken]
        )
    aimed = Counter(target for _, target in {(g.node, target) for g in guesses for target in g.targets})
    shared = [_make_merge(guess) if aimed[guess.targets[0]] > 1 else guess for guess in guesses]
    return sorted(shared, key=lambda guess: guess.node)


def _make_merge(guess: Guess) -> Guess:
    """A guess whose new node another guess names, too."""
    return replace(guess, change=replace(guess.change, kind="merge")) if len(guess.targets) == 1 else guess


def _guess(
    old: Taxonomy,
    new: Taxonomy,
    node: int,
    there: Sequence[int],
    reason: str,
    known: Container[int] = (),
    by_place: bool = False,
) -> Guess:
    kind: Kind = "split" if len(there) > 1 else "merge" if there[0] in known else "rename"
    change = Change(kind, old.path(node), tuple(new.path(one) for one in there))
    return Guess(node, tuple(there), change, reason, by_place=by_place)


def _suggestion(
    old: Taxonomy,
    new: Taxonomy,
    targets: Sequence[Sequence[int]],
    node: int,
    there: Sequence[int],
    reason: str,
    known: Container[int],
) -> Guess:
    """A guess that the new version makes, whose node may lie below another parent."""
    guess = _guess(old, new, node, there, reason, known)
    above = int(old.numbering.main_parent[node])
    parent = int(new.numbering.main_parent[there[0]])
    if guess.change.kind == "rename" and parent not in (targets[above] or [0]):
        guess = replace(guess, change=replace(guess.change, kind="move"))
    return replace(guess, suggested=True)


def _guess_by_name(
    old: Taxonomy, new: Taxonomy, gone: Sequence[int], fresh: Sequence[int], known: set[int]
) -> list[Guess]:
    """Guesses about children that are gone, from new children of the same parent and those that stayed."""
    by_key: dict[str, list[int]] = {}
    for child in fresh:
        by_key.setdefault(plain_key(new.names[child]), []).append(child)
    spelled = {node: by_key.get(plain_key(old.names[node]), []) for node in gone}
    guesses = {
        node: _guess(old, new, node, there, "the same name, spelled otherwise", known)
        for node, there in spelled.items()
        if len(there) == 1
    }
    stayed: dict[str, list[int]] = {}
    for child in sorted(known):
        stayed.setdefault(plain_key(new.names[child]), []).append(child)
    for node in gone:
        alike = stayed.get(plain_key(old.names[node]), [])
        if node not in guesses and len(alike) == 1:
            guesses[node] = _guess(old, new, node, alike, "the same name where its parent went", known)
    beginnings = sorted((new.names[child].casefold(), child) for child in fresh)
    by_name = dict(beginnings)
    endings: dict[str, list[int]] = {}
    for name, child in beginnings:
        for ending in _endings(name):
            endings.setdefault(ending, []).append(child)
    for node in gone:
        if node in guesses:
            continue
        name = old.names[node].casefold()
        parts = _beginning_with(beginnings, name)
        if parts:
            several = "new names that begin" if len(parts) > 1 else "the new name begins"
            guesses[node] = _guess(old, new, node, parts, f"{several} with {old.names[node]!r}", known)
        elif parts := sorted(endings.get(name, [])):
            several = "new names that end" if len(parts) > 1 else "the new name ends"
            guesses[node] = _guess(old, new, node, parts, f"{several} in {old.names[node]!r}", known)
        else:
            shorter = [by_name[part] for part in (*_endings(name), *_starts(name)) if part in by_name]
            if len(shorter) == 1:
                reason = f"it begins or ends with the new name {new.names[shorter[0]]!r}"
                guesses[node] = _guess(old, new, node, shorter, reason, known)
    left = [node for node in gone if node not in guesses]
    for candidates, reason in (
        (fresh, "one letter apart"),
        (sorted(known), "one letter apart from one that stayed"),
    ):
        names = [old.names[node] for node in left] + [new.names[child] for child in candidates]
        for first, second in near_pairs(names):
            if first < len(left) <= second and left[first] not in guesses:
                there = [candidates[second - len(left)]]
                guesses[left[first]] = _guess(old, new, left[first], there, reason, known)
        left = [node for node in left if node not in guesses]
    return list(guesses.values())


def _guess_by_place(old: Taxonomy, new: Taxonomy, gone: Sequence[int], fresh: Sequence[int]) -> list[Guess]:
    """Guesses about children whose names say nothing: where only one is new, they may have become it.

    Classes and inner nodes are looked at apart, and names such as "other" left out.
    """
    guesses: list[Guess] = []
    for inner in (False, True):
        here, there = (
            [
                node
                for node in nodes
                if bool(tree.children(node)) == inner and plain_name(tree.names[node]) not in _NO_CLASS
            ]
            for tree, nodes in ((old, gone), (new, fresh))
        )
        if len(there) != 1 or not 0 < len(here) <= _MOST_BY_PLACE:
            continue
        if any(_may_be_opposites(old.names[node], new.names[there[0]]) for node in here):
            continue
        what = "node with children" if inner else "class"
        reason = (
            f"by its place alone: the only {what} that is gone there, and the only new one"
            if len(here) == 1
            else f"by its place alone: one of {len(here)} that are gone there, and only one is new"
        )
        guesses += [_guess(old, new, node, there, reason, by_place=True) for node in here]
    return guesses


def _may_be_opposites(one: str, other: str) -> bool:
    """Whether names differ in signs only, as `HIV-` and `HIV+`, or one contains the other."""
    first, second = ("".join(filter(str.isalnum, name.casefold())) for name in (one, other))
    return first in second or second in first


def _beginning_with(names: Sequence[tuple[str, int]], start: str) -> list[int]:
    """The nodes whose name is longer than the start and goes on with another word."""
    longer = []
    for name, node in names[bisect_left(names, (start, -1)) :]:
        if not name.startswith(start):
            break
        if len(name) > len(start) and not name[len(start)].isalnum():
            longer.append(node)
    return sorted(longer)


def _endings(name: str) -> Iterator[str]:
    """What follows each gap between words, the longest first: `b c` and `c` of `a b c`."""
    for place, sign in enumerate(name[:-1]):
        if not sign.isalnum() and name[place + 1].isalnum():
            yield name[place + 1 :]


def _starts(name: str) -> Iterator[str]:
    """What comes before each gap between words, the longest first: `a b` and `a` of `a b c`."""
    for place in range(len(name) - 1, 0, -1):
        if not name[place].isalnum() and name[place - 1].isalnum():
            yield name[:place]
