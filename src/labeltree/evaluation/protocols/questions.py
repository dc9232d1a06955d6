"""Questions: named sets of nodes, such as everything malignant, as one test of samples and of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import AnyTaxonomy, Taxonomy

__all__ = ["Question", "check_question", "greatest"]

_DIFFERENT = 0.25  # share of pairs of samples of a group, one of them positive at least, that differ


def check_question(words: str) -> None:
    """Raise a ValueError unless it is written as `NAME=NODE+NODE` (commands take commas)."""
    name, equals, nodes = words.partition("=")
    if not (equals and name.strip() and all(node.strip() for node in nodes.split("+"))):
        raise ValueError(f"a question is '{words}', expected NAME=NODE,NODE")


def greatest(values: Tensor, place: Tensor) -> Tensor:
    """The index of the greatest of the values `(n,)` at each place `(g,)`, of equal ones the first."""
    order = torch.argsort(values, descending=True, stable=True)
    order = order[torch.argsort(place[order], stable=True)]
    sizes = torch.bincount(place)
    return order[sizes.cumsum(0) - sizes]


@dataclass(frozen=True)
class Question:
    """A named set of nodes: is it one of these?

    Attributes:
        name: Its name.
        inside: `(N,)` share of the leaves below each node that are in the set: 1, 0 or between.
        of_classes: `(c,)` bool, whether each class is in the set.
    """

    name: str
    inside: Tensor
    of_classes: Tensor

    @classmethod
    def of(cls, words: str, tree: AnyTaxonomy, classes: Tensor) -> Self:
        """Read `NAME=NODE+NODE`.

        Raises:
            DataError: If the taxonomy is a DAG, or lacks a node.
        """
        name, _, nodes = words.partition("=")
        if not isinstance(tree, Taxonomy):
            raise DataError("questions about sets of nodes need a tree; this taxonomy is a DAG")
        leaf = torch.zeros(tree.num_nodes, dtype=torch.float64)
        for each in nodes.split("+"):
            try:
                node = tree.find(each.strip())
            except TaxonomyError as error:
                raise DataError(f"question '{name.strip()}': {error}") from error
            leaf[node : int(tree.subtree_end[node])] = 1
        leaf *= tree.is_leaf
        ends = torch.cat([leaf.new_zeros(1), leaf.cumsum(0)])
        count = torch.cat([leaf.new_zeros(1), tree.is_leaf.double().cumsum(0)])
        start, end = torch.arange(tree.num_nodes), tree.subtree_end
        inside = (ends[end] - ends[start]) / (count[end] - count[start])
        return cls(name.strip(), inside, inside[classes] == 1)

    def scores(self, values: Tensor) -> Tensor:
        """The probability `(m,)` of the set, of those of the classes `(m, c)`."""
        return values[:, self.of_classes].sum(1)

    def mixed(self, target: Tensor, units: Tensor) -> tuple[int, int]:
        """Groups with a positive sample and several that tell; and those of them with a negative one, too.

        Args:
            target: (m,) labels, -1 where missing.
            units: (m,) group of each, -1 for a sample by itself.
        """
        positive, negative = self._count(target, units)
        asked = (positive > 0) & (positive + negative > 1)
        return int(asked.sum()), int((asked & (negative > 0)).sum())

    def groups_differ(self, target: Tensor, units: Tensor) -> bool | None:
        """Whether groups are of different things, as a patient with several lesions is; None if none tells.

        They are if, of the pairs of samples of one group of which one is positive at least, a quarter are of
        a positive and a negative one. It is the same, but for chance, where samples of groups were left out.

        Args:
            target: See `mixed`.
            units: See `mixed`.
        """
        positive, negative = self._count(target, units)
        differ = float((positive * negative).sum())
        pairs = differ + float((positive * (positive - 1) / 2).sum())
        return differ >= _DIFFERENT * pairs if pairs else None

    def _count(self, target: Tensor, units: Tensor) -> tuple[Tensor, Tensor]:
        """The positive and the negative samples of each group `(g,)`."""
        inside = self.inside[target.clamp_min(0)]
        tells = (target >= 0) & (units >= 0) & ((inside == 0) | (inside == 1))
        groups, place = torch.unique(units[tells], return_inverse=True)
        positive = torch.bincount(place, inside[tells], minlength=len(groups))
        return positive, torch.bincount(place, minlength=len(groups)) - positive
