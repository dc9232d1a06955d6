"""Classes by how many training samples they have: head, middle, tail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labeltree.evaluation.samples import Samples
from labeltree.runs import EmbeddingTable

__all__ = ["GROUPS", "ClassFrequency", "class_frequency", "training_counts"]

GROUPS = ("head", "middle", "tail")


@dataclass(frozen=True)
class ClassFrequency:
    """How frequent classes are in the training split.

    Attributes:
        counts: ``(num_nodes,)`` training samples labelled with each node.
        few: a class with at most so many belongs to the tail.
        many: a class with more than so many belongs to the head.
    """

    counts: Tensor
    few: int
    many: int

    @property
    def uneven(self) -> bool:
        """Whether there is a class in each of head, middle and tail."""
        return len(torch.unique(self.group((self.counts > 0).nonzero().squeeze(1)))) == len(GROUPS)

    def group(self, classes: Tensor) -> Tensor:
        """``(c,)`` place in `GROUPS` of each class, a node; −1 for one without training samples."""
        counts = self.counts[classes]
        place = torch.where(counts > self.many, 0, torch.where(counts > self.few, 1, 2))
        return torch.where(counts > 0, place, -1)


def class_frequency(
    table: EmbeddingTable, samples: Samples, num_nodes: int, bounds: tuple[int, ...] = ()
) -> ClassFrequency:
    """Sort the classes with training samples into head, middle and tail.

    Args:
        table: whose training split is counted, as a whole.
        samples: which labels are classes, and what stands for the training split where the table has none.
        num_nodes: number of nodes of the tree.
        bounds: ``(few, many)``: the tail has at most ``few`` samples a class, the head more than ``many``, as
            Liu et al. 2019 (Large-Scale Long-Tailed Recognition in an Open World) have it with (20, 100);
            () makes each a third of the classes, those with equal counts staying together, in the group of
            the first of them, the most frequent coming first.
    """
    counts = training_counts(table, samples, num_nodes)
    if bounds:
        few, many = bounds
        return ClassFrequency(counts, few, many)
    present = counts[samples.finest & (counts > 0)]
    ordered = present.sort().values
    more = len(ordered) - torch.searchsorted(ordered, present, right=True)  # classes with more samples
    bound = [present[3 * more >= part * len(present)] for part in (2, 1)]
    few, many = (int(group.max()) if len(group) else 0 for group in bound)
    return ClassFrequency(counts, few, many)


def training_counts(table: EmbeddingTable, samples: Samples, num_nodes: int) -> Tensor:
    """``(num_nodes,)`` how many training samples are labelled with each node, before any thinning out."""
    rows = samples.train
    if table.split is not None and samples.split not in ("half", "train"):
        mask = torch.from_numpy(np.asarray(table.split == "train"))
        if bool(mask.any()):
            rows = mask.nonzero().squeeze(1)
    nodes = table.nodes[rows]
    return torch.bincount(nodes[nodes > 0], minlength=num_nodes)
