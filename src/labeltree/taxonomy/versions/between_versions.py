"""Labels of one version of a taxonomy on another: the mapping that is used, and what it does to them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.counted_nouns import say_count
from labeltree.errors import typed
from labeltree.lazy import torch
from labeltree.taxonomy.check_nodes import moved_nodes
from labeltree.taxonomy.label_index import Label, LabelIndex
from labeltree.taxonomy.naming import join_path, some
from labeltree.taxonomy.tree import Taxonomy
from labeltree.taxonomy.versions.mapping_file import describe_version, other_version
from labeltree.taxonomy.versions.taxonomy_mapping import TaxonomyMapping

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "CONTESTED",
    "ChangeCount",
    "LabelsOfBoth",
    "VersionChange",
    "check_version",
    "mapping_digest",
    "why_coarser",
]

CONTESTED = ": another class in each version, and read as the old one's"
"""How the note on labels that two versions have, each for another class, ends."""
_KINDS = {
    "rename": "renamed",
    "move": "moved",
    "merge": "merged into another",
    "split": "split (labels become those of the node above the parts)",
    "remove": "removed (labels become those of the node above)",
}


@dataclass(frozen=True)
class ChangeCount:
    """How many nodes of the old taxonomy a kind of change concerns, and how many samples.

    Attributes:
        nodes: Number of nodes.
        samples: Number of samples with a label at or below one of them.
    """

    nodes: int
    samples: int


@dataclass(frozen=True)
class VersionChange:
    """The step from one version of a taxonomy to another.

    Attributes:
        mapping: What became of each node.
        file: The file that the mapping is from; None: it consists of what is certain, see
            `TaxonomyMapping.between`.
        guesses: Without a file, the number of further changes that are guessed, and were not used.
        made_for: Sentences that the file was made for versions with another number of nodes; see `from_file`.
    """

    mapping: TaxonomyMapping
    file: Path | None = None
    guesses: int = 0
    made_for: tuple[str, ...] = ()

    @classmethod
    def of(cls, old: Taxonomy, new: Taxonomy, file: str | Path | None = None) -> VersionChange:
        """The mapping of a file, or else what is certain of the two taxonomies.

        Raises:
            TaxonomyError: If the file is missing, damaged or made for other taxonomies.
        """
        if file is None:
            mapping, guesses = TaxonomyMapping.between(old, new)
            return cls(mapping, None, len(guesses))
        return cls.from_file(file, old, new)

    @classmethod
    def from_file(cls, file: str | Path, old: Taxonomy | None, new: Taxonomy) -> VersionChange:
        """The mapping of a file, which may have been made for other versions with the same paths.

        Nodes in another order have another digest, too: only where their number differs, that is said.

        Args:
            file: The mapping.
            old: The old taxonomy; None: it follows from the mapping.
            new: The new one.

        Raises:
            TaxonomyError: If the file is missing, damaged or made for other taxonomies.
        """
        mapping = TaxonomyMapping.load(file, old=old, new=new)
        said = []
        for which, taxonomy in (("old", old), ("new", new)):
            other = None if taxonomy is None else other_version(file, which, taxonomy)
            if taxonomy is not None and other is not None and other.nodes != str(taxonomy.num_nodes):
                what = "the labels" if which == "old" else "the new taxonomy"
                said.append(
                    f"{Path(file).name} was made for {other}; {what} {'are' if which == 'old' else 'is'} of "
                    f"{describe_version(taxonomy)}."
                )
        return cls(mapping, Path(file), made_for=tuple(said))

    @property
    def places(self) -> Tensor:
        """`(N_old,)` int64: the new node of a label that is an old node."""
        return self.mapping.nodes

    def to_new(self, nodes: Tensor) -> Tensor:
        """Labels `(n,)` of the old taxonomy, −1 where missing, as nodes of the new one."""
        return moved_nodes(nodes, self.places)

    def divided(self, classes: Tensor) -> list[int]:
        """The old nodes among these `(k,)` that are coarser now than what the new taxonomy tells apart.

        They were split or removed, and the node of their labels is no leaf.
        """
        new = self.mapping.new
        return [
            node
            for node in torch.unique(classes[classes > 0]).tolist()
            if not bool(self.mapping.exact[node]) and not bool(new.is_leaf[int(self.places[node])])
        ]

    def split_advice(self, labels: Tensor, run: str = "RUN") -> str:
        """What to do about labels `(n,)` of the old taxonomy that were split; empty if none was.

        Args:
            labels: Labels or classes of the old taxonomy, −1 where missing.
            run: The run, as it is named in a command.
        """
        mapping = self.mapping
        split = [node for node in self.divided(labels) if not bool(mapping.removed[node])]
        if not split:
            return ""
        names = [f"'{mapping.old.path_name(node)}'" for node in split]
        many = len(split) > 1
        return (
            f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''} "
            f"{'were' if many else 'was'} split, and nothing says which part a sample belongs to. Label some "
            f"samples with {'their' if many else 'its'} parts; 'labeltree extend {typed(run)} --data DATA "
            f"--retire {typed(mapping.old.path_name(split[0]))}' then tells the parts apart."
        )

    def unexplained(self, classes: Tensor) -> str:
        """Which classes `(k,)` of the old taxonomy the new one lacks, if no mapping says why; else empty."""
        mapping = self.mapping
        gone = [node for node in torch.unique(classes[classes > 0]).tolist() if bool(mapping.removed[node])]
        if self.file is not None or not gone:
            return ""
        names = [f"'{mapping.old.path_name(node)}'" for node in gone]
        many = len(gone) > 1
        return (
            f"The new taxonomy has no node for {', '.join(names[:3])}"
            f"{f' and {len(names) - 3} more' if len(names) > 3 else ''}: the node above "
            f"{'each' if many else 'it'} is answered instead. If {'they were' if many else 'it was'} "
            "renamed, moved or merged, 'labeltree taxonomy map' writes what it guesses, and --mapping uses "
            "it."
        )

    def counts(self, labels: Tensor) -> dict[str, ChangeCount]:
        """By kind of change: how many old nodes changed so, and how many of the labels `(n,)` that touches.

        The kinds are `rename`, `move`, `merge`, `split` and `remove`; those without nodes are left
        out. A sample is touched if its label is such a node or lies below one.
        """
        old = self.mapping.old
        weights = torch.bincount(labels[labels > 0], minlength=old.num_nodes)
        counts = {}
        for kind, changed in _changed_nodes(self.mapping).items():
            below = torch.zeros(old.num_nodes, dtype=torch.bool)
            for node in changed:
                below[node : int(old.subtree_end[node])] = True
            if changed:
                counts[kind] = ChangeCount(len(changed), int(weights[below].sum()))
        return counts

    def sentence(self, labels: Tensor, name: str, samples: str = "samples") -> str:
        """What the change of the taxonomy does to labels `(n,)` of the old one, in a sentence or two.

        Args:
            labels: Labels of the old taxonomy, −1 where missing.
            name: Name of the new taxonomy.
            samples: What the labels are of.
        """
        by = f"the mapping {self.file.name}" if self.file is not None else "the mapping that is certain"
        counts = self.counts(labels)
        said = [
            f"{say_count(count.nodes, 'node')} {_KINDS[kind]}: {count.samples:,} {samples}"
            for kind, count in counts.items()
        ]
        sentence = f"Labels were carried over to {name} by {by}: {'; '.join(said) or 'nothing changes'}."
        sentence = " ".join([sentence, *self.made_for])
        if self.guesses:
            several = self.guesses > 1
            sentence += (
                f" {self.guesses:,} more {'changes are' if several else 'change is'} guessed and "
                f"{'were' if several else 'was'} not used: 'labeltree taxonomy map' writes "
                f"{'them' if several else 'it'} for you to confirm, and --mapping uses "
                f"{'them' if several else 'it'}."
            )
        return sentence


def check_version(taxonomy: object, mapping: object) -> None:
    """Raise a `ValueError` if a mapping is given without the taxonomy that it leads to."""
    if mapping is not None and taxonomy is None:
        raise ValueError("a mapping leads to another taxonomy: name that one, too")


def why_coarser(mapping: TaxonomyMapping, node: int) -> str | None:
    """Why labels of an old node become coarser on the new taxonomy; None if the node is one node there."""
    if bool(mapping.exact[node]):
        return None
    old, new = mapping.old, mapping.new
    place = int(mapping.nodes[node])
    parts = len(mapping.targets[node])
    what = "removes its class" if bool(mapping.removed[node]) else f"splits its class into {parts}"
    now = f"the node above, '{new.path_name(place)}'" if place else "missing: only the root is left above"
    return f"the mapping {what}: the label '{old.path_name(node)}' becomes {now}"


def _changed_nodes(mapping: TaxonomyMapping) -> dict[str, list[int]]:
    """The old nodes of each kind of change."""
    nodes: dict[str, list[int]] = {kind: [] for kind in _KINDS}
    for change in mapping.changes():
        node = mapping.old.follow(change.old) if change.old else None
        if node and change.kind in nodes:
            nodes[change.kind].append(node)
    return nodes


def mapping_digest(mapping: TaxonomyMapping) -> str:
    """A fingerprint of both taxonomies of a mapping and of what became of each node, in whatever order."""
    old, new = mapping.old, mapping.new
    there = [new.path(node) for node in range(new.num_nodes)]
    became = sorted(
        (old.path(node), sorted(there[target] for target in targets), gone)
        for node, (targets, gone) in enumerate(zip(mapping.targets, mapping.removed.tolist(), strict=True))
    )
    content = [old.names[0], new.names[0], sorted(there), became]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


class LabelsOfBoth(LabelIndex):
    """Looks labels of an old and of a new taxonomy up as nodes of the new one.

    A label that the old taxonomy has is mapped, even if the new one has it too; a label that only the new one
    has is taken as it is.

    Args:
        mapping: From the old taxonomy to the new one.

    Attributes:
        mapped: The labels of the old taxonomy that were looked up.
        taken: Those that only the new one has.
        contested: Those that both have, each for another class: the old one's counts.
        taxonomy: The new taxonomy, whose `find` and `encode` read labels of both.
    """

    def __init__(self, mapping: TaxonomyMapping) -> None:
        new = mapping.new
        children, parents = new.numbering.edges
        super().__init__(new.names, new.numbering.main_parent, parents, children, lambda: new.aliases)
        self._mapping, self._old, self._places = mapping, mapping.old, mapping.nodes.tolist()
        self.mapped: set[Label] = set()
        self.taken: set[Label] = set()
        self.contested: set[Label] = set()
        self.taxonomy = new.reading(self)

    @property
    def versions(self) -> tuple[LabelIndex, ...]:
        """The labels of the old taxonomy and those of the new one."""
        return (*self._old.versions, *self._mapping.new.versions)

    def candidates(self, label: Label) -> list[int]:
        """All nodes of the new taxonomy that a label of either may refer to, ascending."""
        there = self._old.candidates(label)
        return sorted({self._places[node] for node in there}) if there else super().candidates(label)

    def _find(self, label: Label) -> int:
        node = super()._find(label)
        if node >= 0:
            key = label if isinstance(label, str) else tuple(label)
            (self.mapped if self._old.candidates(label) else self.taken).add(key)
            if key in self.mapped and (now := super().candidates(label)) and node not in now:
                self.contested.add(key)
        return node

    def why_coarser(self, label: Label) -> str | None:
        """Why a label of the old taxonomy is coarser on the new one; None if it is not."""
        reasons = [why_coarser(self._mapping, node) for node in self._old.candidates(label)]
        return reasons[0] if reasons and None not in reasons else None

    def mapped_paths(self) -> set[tuple[str, ...]]:
        """The paths of the old nodes that labels were, and of those above them."""
        nodes = {node for label in self.mapped for node in self._old.candidates(label)}
        above = {other for node in nodes for other in self._old.ancestors_of(node)}
        return {self._old.path(node) for node in nodes | above}

    def lost(self) -> list[str]:
        """The labels that were mapped to the root, which says nothing."""
        return sorted(
            label if isinstance(label, str) else join_path(label)
            for label in self.mapped
            if {self._places[node] for node in self._old.candidates(label)} == {0}
        )

    def sentence(self) -> str:
        """How many labels were mapped, and how many taken as they are."""
        taken = f"; {len(self.taken):,} that only the new one has are taken as they are" if self.taken else ""
        count = f"{len(self.mapped):,} different labels"
        return f"{count} of the old taxonomy are read on the new one by the mapping{taken}"

    def say_contested(self) -> list[str]:
        """A sentence on labels that both taxonomies have, each for another class; none without any."""
        if not self.contested:
            return []
        names = sorted(name if isinstance(name, str) else join_path(name) for name in self.contested)
        return [f"{some(names, 3)}{CONTESTED}"]
