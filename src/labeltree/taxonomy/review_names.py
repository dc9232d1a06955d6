"""What in a taxonomy is likely wrong: duplicates, names that mean nothing. A person decides."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from labeltree.errors import typed
from labeltree.taxonomy.naming import join_path
from labeltree.taxonomy.placeholders import PLACEHOLDERS, REMAINDERS, placeholder_nodes
from labeltree.taxonomy.tree import Taxonomy
from labeltree.taxonomy.versions.change_entries import Change, Guess, Kind
from labeltree.taxonomy.versions.near_names import near_pairs, plain_key

__all__ = ["Finding", "Review", "count_plain", "review", "review_hint"]

Subject = Literal[
    "same name", "one letter apart", "only child", "same name elsewhere", "same children", "placeholder"
]
_DEEP, _SHARED = 2, 1 / 3  # nodes below so many others that share less than this of these may be homonyms
_HINTED = 1000  # nodes
_MANY = 3  # names or sets of children under more parents than this, such as sizes, are meant


@dataclass(frozen=True)
class Finding:
    """A likely mistake, and the change that would repair it.

    Attributes:
        subject: What was found.
        guess: The change, for `TaxonomyMapping.save`, with the reason.
    """

    subject: Subject
    guess: Guess


@dataclass(frozen=True)
class Review:
    """What was found in a taxonomy.

    Attributes:
        findings: At most one for every node; any of them can be carried out together.
        later: Number of findings that concern the same nodes as others, and can be decided after these.
    """

    findings: list[Finding]
    later: int


def review(
    tree: Taxonomy, key: Callable[[str], str] | None = None, samples: Sequence[int] | None = None
) -> Review:
    """Find likely duplicates and names that mean nothing.

    - Siblings, or nodes under different parents, whose names differ only in case, accents, spaces,
      punctuation, or what `key` leaves out. Names that occur under more than three parents, such as sizes of
      clothes, and names of remainders (`other`) are right across parents, and so are names deep in branches
      that share less than a third of what lies above them: homonyms of other kingdoms.
    - Siblings whose names are one letter apart; not short names, and not names that differ in a digit.
    - A node with the name of its only child.
    - Two or three inner nodes with the same children, at least two.
    - Names such as `unknown`.

    Of two nodes the one with more samples stays, or else the one with more nodes below it, or the first. The
    time taken grows with the letters of all names, not with the pairs of nodes.

    Args:
        tree: The taxonomy.
        key: What two names have in common that are likely the same, beside case, accents, spaces and
            punctuation; None: nothing else.
        samples: (N,) number of samples at or below each node; None: not known.

    Example:
        >>> tree = Taxonomy.from_paths(["bird/Blue Tit", "bird/blue-tit", "bird/sparrow", "bird/sparow"])
        >>> for finding in review(tree).findings:
        ...     print(finding.guess.change)
        merge: bird/blue-tit -> bird/Blue Tit
        merge: bird/sparow -> bird/sparrow
    """
    keys = [[plain_key(name) for name in tree.names]]
    if key is not None:
        keys.append([plain_key(key(name)) for name in tree.names])
    size = [1 + tree.num_below(node) for node in range(tree.num_nodes)]
    counts = size if samples is None else list(samples)
    rank = [(-counts[node], -size[node], node) for node in range(tree.num_nodes)]
    findings = sorted(
        _find(tree, keys, rank), key=lambda finding: (len(finding.guess.change.old), finding.guess.node)
    )
    return _compatible(tree, findings)


def review_hint(
    tree: Taxonomy, place: str | os.PathLike[str], plain: Callable[[str], str] | None = None
) -> str | None:
    """A sentence that siblings are likely one class, if there are any, and how to make them one.

    Taxonomies of more than 1,000 nodes are not looked at: that would take more time than a person waits for
    what was not asked for.

    Args:
        tree: The taxonomy.
        place: What 'labeltree taxonomy review' reads it from.
        plain: The key by which `--table.names plain` compares the names of these data; None: it does not
            apply to them.
    """
    if tree.num_nodes > _HINTED:
        return None
    of_siblings = ("same name", "one letter apart")
    changes = [each.guess.change for each in review(tree).findings if each.subject in of_siblings]
    if not changes:
        return None
    pairs = [f"'{join_path(change.old)}' and '{change.new[0][-1]}'" for change in changes[:3]]
    more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
    by_plain = 0 if plain is None else count_plain(changes, plain)
    simply = ""
    if by_plain:
        which = "they differ" if by_plain == len(changes) else f"{by_plain} of them differ"
        if by_plain == 1:
            which = "they differ" if len(changes) == 1 else "one of them differs"
        simply = f"{which} only in case or blanks, which --table.names plain reads as one; "
    return (
        f"likely one class each, by their spelling: {', '.join(pairs)}{more}; {simply}'labeltree taxonomy "
        f"review {typed(place)} --out duplicates.yaml' proposes what to merge"
    )


def count_plain(changes: Iterable[Change], plain: Callable[[str], str]) -> int:
    """How many changes merge siblings whose names have the same key."""
    return sum(
        change.kind == "merge"
        and change.old[:-1] == change.new[0][:-1]
        and plain(change.old[-1]) == plain(change.new[0][-1])
        for change in changes
    )


def _find(tree: Taxonomy, keys: list[list[str]], rank: list[tuple[int, int, int]]) -> Iterator[Finding]:
    parent = tree.numbering.main_parent.tolist()
    children: defaultdict[int, list[int]] = defaultdict(list)
    for node in range(1, tree.num_nodes):
        children[parent[node]].append(node)

    def merge(subject: Subject, group: Sequence[int], reason: str) -> Iterator[Finding]:
        kept, *others = sorted(group, key=rank.__getitem__)
        for node in others:
            yield _finding(subject, tree, "merge", node, kept, reason)

    vague = {*placeholder_nodes(tree), *placeholder_nodes(tree, REMAINDERS)}
    for above, below in children.items():
        for names in keys:
            for group in _alike(below, names):
                yield from merge("same name", group, "the same name but for its spelling")
        for one, other in near_pairs([keys[0][node] for node in below]):
            yield from merge("one letter apart", (below[one], below[other]), "one letter apart")
        if len(below) == 1 and above and any(names[below[0]] == names[above] for names in keys):
            reason = "named as its parent, whose only child it is"
            yield _finding("only child", tree, "merge", below[0], above, reason)

    named = [node for node in range(1, tree.num_nodes) if node not in vague]
    for names in keys:
        for group in _alike(named, names):
            first: dict[int, int] = {}  # of siblings the one that would stay
            for node in sorted(group, key=rank.__getitem__):
                first.setdefault(parent[node], node)
            nodes = set(first.values())
            apart = [node for node in nodes if nodes.isdisjoint(tree.ancestors_of(node))]
            if 1 < len(apart) <= _MANY and not _may_be_homonyms(tree, apart):
                yield from merge("same name elsewhere", apart, "the same name; wrong if they are homonyms")

    content: defaultdict[frozenset[str], list[int]] = defaultdict(list)
    for above, below in children.items():
        if above and len(below) > 1:
            content[frozenset(keys[-1][node] for node in below)].append(above)
    for group in content.values():
        if 1 < len(group) <= _MANY:
            yield from merge("same children", group, "the same children")

    for node in placeholder_nodes(tree, PLACEHOLDERS):
        yield _finding("placeholder", tree, "remove", node, parent[node], "stands for a missing label")


def _may_be_homonyms(tree: Taxonomy, nodes: Sequence[int]) -> bool:
    """Whether nodes lie deep in branches with little in common, as two genera of plants and of animals."""
    paths = [tree.path(node)[:-1] for node in nodes]
    shallowest = min(map(len, paths))
    shared = sum(len(set(level)) == 1 for level in zip(*paths, strict=False))
    return shallowest >= _DEEP and shared < _SHARED * shallowest


def _alike(nodes: Sequence[int], names: Sequence[str]) -> Iterator[list[int]]:
    """Nodes with the same name, at least two."""
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for node in nodes:
        alike[names[node]].append(node)
    yield from (group for group in alike.values() if len(group) > 1)


def _finding(subject: Subject, tree: Taxonomy, kind: Kind, node: int, kept: int, reason: str) -> Finding:
    there = () if kind == "remove" else (tree.path(kept),)
    return Finding(subject, Guess(node, (kept,), Change(kind, tree.path(node), there), reason))


def _compatible(tree: Taxonomy, listed: Sequence[Finding]) -> Review:
    """Findings that can be carried out together: no change leads to a place that another one takes away."""
    parent = tree.numbering.main_parent.tolist()
    target: dict[int, int] = {}
    above_kept: set[int] = set()
    findings: list[Finding] = []
    seen: set[tuple[int, int]] = set()
    later = 0
    for finding in listed:
        node, (kept,) = finding.guess.node, finding.guess.targets
        pair = (node, kept)
        if pair in seen or target.get(parent[node]) == parent[kept]:  # said already, or follows its parent
            continue
        seen.add(pair)
        way = {kept, *tree.ancestors_of(kept)}
        if node in target or node in above_kept or not way.isdisjoint(target) or node in way:
            later += 1
            continue
        target[node] = kept
        above_kept |= way
        findings.append(finding)
    order = get_args(Subject)
    return Review(sorted(findings, key=lambda finding: order.index(finding.subject)), later)
