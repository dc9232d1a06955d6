"""Labels of one version of a taxonomy on another: the mapping that is used, and what it does to them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.labels import Label
from labeltree.taxonomy.mapping import TaxonomyMapping
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.tree import Taxonomy

__all__ = ["ChangeCount", "LabelsOfBoth", "VersionChange", "mapping_digest"]

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
        nodes: number of nodes.
        samples: number of samples with a label at or below one of them.
    """

    nodes: int
    samples: int


@dataclass(frozen=True)
class VersionChange:
    """The step from one version of a taxonomy to another.

    Attributes:
        mapping: what became of each node.
        file: the file that the mapping is from; None: it consists of what is certain, see
            `TaxonomyMapping.between`.
        guesses: without a file, the number of further changes that are likely, and were not used.
    """

    mapping: TaxonomyMapping
    file: Path | None = None
    guesses: int = 0

    @classmethod
    def of(cls, old: Taxonomy, new: Taxonomy, file: str | Path | None = None) -> VersionChange:
        """The mapping of a file, or else what is certain of the two taxonomies.

        Raises:
            TaxonomyError: if the file is missing, damaged or made for other taxonomies.
        """
        if file is None:
            mapping, guesses = TaxonomyMapping.between(old, new)
            return cls(mapping, None, len(guesses))
        mapping = TaxonomyMapping.load(file, old=old, new=new)
        return cls(mapping, Path(file))

    @property
    def places(self) -> Tensor:
        """``(N_old,)`` int64: the new node of a label that is an old node."""
        return self.mapping.nodes

    def on_new(self, nodes: Tensor) -> Tensor:
        """Labels ``(n,)`` of the old taxonomy, −1 where missing, as nodes of the new one."""
        return torch.where(nodes >= 0, self.places[nodes.clamp(min=0)], -1)

    def counts(self, labels: Tensor) -> dict[str, ChangeCount]:
        """By kind of change: how many old nodes changed so, and how many of the labels ``(n,)`` that touches.

        The kinds are ``rename``, ``move``, ``merge``, ``split`` and ``remove``; those without nodes are left
        out. A sample is touched if its label is such a node or lies below one.
        """
        old = self.mapping.old
        weights = torch.bincount(labels[labels > 0], minlength=old.num_nodes)
        found = {}
        for kind, changed in _changed(self.mapping).items():
            below = torch.zeros(old.num_nodes, dtype=torch.bool)
            for node in changed:
                below[node : int(old.subtree_end[node])] = True
            if changed:
                found[kind] = ChangeCount(len(changed), int(weights[below].sum()))
        return found

    def sentence(self, labels: Tensor, name: str, samples: str = "samples") -> str:
        """What the change of the taxonomy does to labels ``(n,)`` of the old one, in a sentence or two.

        Args:
            labels: labels of the old taxonomy, −1 where missing.
            name: name of the new taxonomy.
            samples: what the labels are of.
        """
        by = f"the mapping {self.file.name}" if self.file is not None else "the mapping that is certain"
        counts = self.counts(labels)
        said = [
            f"{count.nodes:,} {'node' if count.nodes == 1 else 'nodes'} {_KINDS[kind]}: {count.samples:,} "
            f"{samples}"
            for kind, count in counts.items()
        ]
        sentence = f"Labels were carried over to {name} by {by}: {'; '.join(said) or 'nothing changes'}."
        if self.guesses:
            sentence += (
                f" {self.guesses:,} more changes are likely and were not used: 'labeltree taxonomy map' "
                "writes them for you to accept, and --mapping uses them."
            )
        return sentence


def _changed(mapping: TaxonomyMapping) -> dict[str, list[int]]:
    """The old nodes of each kind of change."""
    found: dict[str, list[int]] = {kind: [] for kind in _KINDS}
    for change in mapping.changes():
        node = mapping.old.follow(change.old) if change.old else None
        if node and change.kind in found:
            found[change.kind].append(node)
    return found


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


class LabelsOfBoth:
    """Reads labels, as text, of an old or a new taxonomy as nodes of the new one.

    A label that the old taxonomy has is mapped, even if the new one has it too; a label that only the new one
    has is taken as it is.

    Args:
        mapping: from the old taxonomy to the new one.
    """

    def __init__(self, mapping: TaxonomyMapping) -> None:
        self.mapping = mapping

    def nodes(self, labels: Iterable[Label | None]) -> tuple[Tensor, Tensor]:
        """The nodes of labels.

        Args:
            labels: n names or paths; None where missing.

        Returns:
            nodes of the new taxonomy ``(n,)``, −1 for a missing label; and the old nodes ``(n,)`` of those
            that were mapped, −1 for the others.

        Raises:
            TaxonomyError: if a label is in neither, or a name occurs several times.
        """
        old, new = self.mapping.old, self.mapping.new
        places = self.mapping.nodes.tolist()
        known: dict[Label, tuple[int, int]] = {}
        unknown: list[Label] = []
        found: list[tuple[int, int]] = []
        for label in labels:
            if label is None or (isinstance(label, str) and not label.strip()):
                found.append((-1, -1))
                continue
            if label not in known:
                there = old.candidates(label)
                if len(there) == 1:
                    known[label] = places[there[0]], there[0]
                elif not there and not new.candidates(label):
                    unknown.append(label)
                    known[label] = -1, -1
                else:  # an ambiguous name raises an error that shows its paths
                    known[label] = (old if there else new).find(label), -1
            found.append(known[label])
        if unknown:
            raise TaxonomyError(
                f"{len(unknown)} {'label is' if len(unknown) == 1 else 'labels are'} in neither the old nor "
                f"the new taxonomy of the mapping: {some([str(label) for label in unknown])}"
            )
        pairs = torch.tensor(found, dtype=torch.int64).reshape(-1, 2)
        return pairs[:, 0].clone(), pairs[:, 1].clone()
