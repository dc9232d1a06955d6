"""Labels in which a rank between given ones is missing: filled from other labels, or bridged by a rule."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.placeholders import PLACEHOLDERS, REMAINDERS, plain_name

__all__ = ["Bridged", "Gaps", "LabelFinder", "bridge", "has_gap", "placeholder_name"]

_NO_EVIDENCE = PLACEHOLDERS | REMAINDERS  # names that stand below any other

Gaps = Literal["placeholder", "skip", "error"]
Names = tuple[str | None, ...]
_INCERTAE = "incertae sedis)"


def placeholder_name(finer: str, rank: str) -> str:
    """The name of a separate node for a missing rank, after the next finer taxon.

    Example:
        >>> placeholder_name("Pomacentridae", "order")
        'Pomacentridae (order incertae sedis)'
        >>> placeholder_name("Pomacentridae (order incertae sedis)", "class")
        'Pomacentridae (class incertae sedis)'
    """
    taxon = finer.partition(" (")[0] if finer.endswith(_INCERTAE) else finer
    return f"{taxon} ({rank} {_INCERTAE}"


def has_gap(names: Names) -> bool:
    """Whether a name is missing before a given one."""
    return any(coarser is None and finer is not None for coarser, finer in itertools.pairwise(names))


@dataclass(frozen=True)
class Bridged:
    """A label without gaps.

    Attributes:
        path: The names, coarse to fine; None if a gap remains.
        filled: Whether a missing name was found in other labels, or in the given taxonomy.
        bridged: The missing ranks that were bridged or remain, as places among the columns.
    """

    path: tuple[str, ...] | None
    filled: bool = False
    bridged: tuple[int, ...] = ()


def bridge(
    labels: Sequence[Names], ranks: Sequence[str], gaps: Gaps | None, taxonomy: Taxonomy | None = None
) -> list[Bridged]:
    """Remove the gaps of distinct labels.

    A missing name is first taken from the other labels: those with the same next finer name whose given
    names do not contradict the label. Where they all agree, theirs is taken; thus one taxon does not become
    two nodes, and homonyms with different given names stay apart. What is still missing is bridged by the
    rule. With a given taxonomy, a label is first sought there.

    Args:
        labels: Names of each label, coarse to fine, None where one is missing.
        ranks: Rank of each place, for the names of placeholders.
        gaps: `placeholder`: a node for the missing rank, so that depth stays rank; `skip`: the name hangs
            on the next coarser given one; `error`: gaps remain; None: those remain that cannot be filled.
        taxonomy: A given taxonomy of the labels.
    """
    others = _Others(labels)
    finder = None if taxonomy is None else LabelFinder(taxonomy)
    return [
        _bridge(label, others, ranks, gaps, finder)
        if has_gap(label)
        else Bridged(tuple(name for name in label if name is not None))
        for label in labels
    ]


def _bridge(
    label: Names, others: _Others, ranks: Sequence[str], gaps: Gaps | None, finder: LabelFinder | None
) -> Bridged:
    deepest = max(place for place, name in enumerate(label) if name is not None)
    missing = tuple(place for place in range(deepest) if label[place] is None)
    if gaps == "error":
        return Bridged(None, False, missing)
    if finder is not None:
        path = finder.find([name for name in label if name is not None])
        if path is not None:
            return Bridged(path, True)
    names = list(label[: deepest + 1])
    for place in reversed(missing):
        names[place] = others.name(label, names, place)
    left = tuple(place for place in missing if names[place] is None)
    filled = len(left) < len(missing)
    if not left or gaps == "skip":
        return Bridged(tuple(name for name in names if name is not None), filled, left)
    if gaps is None:
        return Bridged(None, filled, left)
    for place in reversed(left):
        names[place] = placeholder_name(names[place + 1] or "", ranks[place])
    return Bridged(tuple(name or "" for name in names), filled, left)


class _Others:
    """What the labels of a table say about the names above a name."""

    def __init__(self, labels: Sequence[Names]) -> None:
        self._labels = labels

    @cached_property
    def _above(self) -> list[dict[str, set[Names]]]:
        """For each place, the names above each name in the labels."""
        above: list[defaultdict[str, set[Names]]] = [defaultdict(set) for _ in self._labels[0]]
        for label in self._labels:
            for place, name in enumerate(label):
                if name is not None and plain_name(name) not in _NO_EVIDENCE:
                    above[place][name].add(label[:place])
        return [dict(names) for names in above]

    def name(self, label: Names, names: Sequence[str | None], place: int) -> str | None:
        """The name at a place on which all labels agree that a label does not contradict; None without one.

        Args:
            label: The label.
            names: The same with what has been found at finer places.
            place: The place of the missing name.
        """
        finer = next(number for number in range(place + 1, len(names)) if names[number] is not None)
        agreed = {
            above[place]
            for above in self._above[finer].get(names[finer] or "", ())
            if above[place] is not None
            and all(a is None or b is None or a == b for a, b in zip(above, label, strict=False))
        }
        return agreed.pop() if len(agreed) == 1 else None


class LabelFinder:
    """Finds labels with gaps in a taxonomy, or in the older of two versions that it reads, then the newer.

    Args:
        taxonomy: The taxonomy.
    """

    def __init__(self, taxonomy: Taxonomy) -> None:
        self._taxonomy = taxonomy

    @cached_property
    def _nodes(self) -> list[dict[str, list[int]]]:
        versions = []
        for tree in self._taxonomy.versions:
            nodes: defaultdict[str, list[int]] = defaultdict(list)
            for node, name in enumerate(tree.names):
                if node:
                    nodes[name].append(node)
            versions.append(dict(nodes))
        return versions

    def find(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """The path of the only node with the last name, on whose path the others lie in their order.

        None if there is none, or several and none of them has exactly these names.
        """
        for tree, nodes in zip(self._taxonomy.versions, self._nodes, strict=True):
            paths = [tuple(tree.path(node)) for node in nodes.get(names[-1], ())]
            fitting = [path for path in paths if path == tuple(names)]
            fitting = fitting or [path for path in paths if _are_in_order(names, path)]
            if fitting:
                return fitting[0] if len(fitting) == 1 else None
        return None


def _are_in_order(names: Sequence[str], path: Sequence[str]) -> bool:
    left = iter(path)
    return all(name in left for name in names)
