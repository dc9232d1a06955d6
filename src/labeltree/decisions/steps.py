"""Class probabilities as steps down the tree: of each node given its parent."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from labeltree.decisions.class_nodes import ClassNodes
from labeltree.metrics.checks import check_tree

__all__ = ["StepSoftmax"]


class StepSoftmax:
    """Factors class probabilities into those of steps from a node to a child, and changes their temperature.

    A class that has other classes below it is a step of its own from itself: the sample stays there.

    Args:
        classes: on a tree.
    """

    def __init__(self, classes: ClassNodes) -> None:
        self.tree = check_tree("temperatures by depth", classes.taxonomy)
        self.classes = classes
        carries = classes.counts > 0
        carries[0] = False
        nodes = torch.nonzero(carries)[:, 0]
        stays = classes.nodes[classes.counts[classes.nodes] > 1]
        # steps: to each node with a class, then staying at each inner class
        self.parent = torch.cat([self.tree.parent[nodes], stays])
        self.depth = torch.cat([self.tree.depth[nodes], self.tree.depth[stays] + 1])
        self._nodes, self._stays = nodes, stays
        paths = self.tree.ancestors[classes.nodes]
        place = torch.full((self.tree.num_nodes + 1,), -1)
        place[nodes] = torch.arange(len(nodes))
        path = place[paths]  # the root and -1 read -1
        path[paths < 0] = -1
        stay = torch.full((self.tree.num_nodes,), -1)
        stay[stays] = len(nodes) + torch.arange(len(stays))
        self.path = torch.cat([path, stay[classes.nodes][:, None]], 1)  # (C, L+2) steps to each class

    def logs(self, z: Tensor) -> Tensor:
        """(n, S) log-probabilities of the steps, from those of the classes (n, C)."""
        of_classes = z.exp()
        of_nodes = self.classes.node_probabilities(of_classes / of_classes.sum(1, keepdim=True))
        mass = torch.cat([of_nodes[:, self._nodes], of_classes[:, self.classes.place[self._stays]]], 1)
        return mass.clamp(min=1e-300).log() - of_nodes[:, self.parent].clamp(min=1e-300).log()

    def normalised(self, steps: Tensor) -> Tensor:
        """Steps (n, S) less the log of their sum over all steps from the same node."""
        group = self.parent.expand(len(steps), -1)
        largest = steps.new_full((len(steps), self.tree.num_nodes), -torch.inf)
        largest = largest.scatter_reduce(1, group, steps, "amax")
        sums = steps.new_zeros(largest.shape).scatter_add(1, group, (steps - largest.gather(1, group)).exp())
        return steps - (sums.log() + largest).gather(1, group)

    def tempered(self, z: Tensor, temperatures: Tensor) -> Tensor:
        """(n, C) log-probabilities after every step from depth l − 1 to l was divided by T_l, (L+1,)."""
        steps = self.normalised(self.logs(z) / temperatures[self.depth - 1])
        padded = torch.cat([steps, steps.new_zeros(len(steps), 1)], 1)
        found = padded.new_zeros(len(steps), len(self.classes))
        for column in self.path.unbind(1):
            found += padded[:, column]  # -1 reads the zero
        return torch.log_softmax(found, 1)

    def fit(
        self, z: Tensor, labels: Tensor, best: Callable[[Callable[[float], float]], float]
    ) -> list[float]:
        """The temperature of each depth (L+1,): the best for the steps on the paths of the labels.

        Args:
            z: (n, C).
            labels: (n,) nodes with a class at or below each.
            best: finds the number that makes a function least.
        """
        steps = self.logs(z)
        place = torch.full((self.tree.num_nodes,), -1)
        place[self._nodes] = torch.arange(len(self._nodes))
        siblings = torch.bincount(self.parent, minlength=self.tree.num_nodes)
        at_class = self.classes.place[labels]
        found = []
        for depth in range(1, self.tree.max_depth + 2):
            taken = (
                place[self.tree.ancestors[labels, depth].clamp(min=0)]
                if depth <= self.tree.max_depth
                else torch.full_like(labels, -1)
            )
            reaches = self.tree.depth[labels] >= depth
            stays = (self.tree.depth[labels] == depth - 1) & (at_class >= 0)
            taken = torch.where(reaches, taken, torch.where(stays, self.path[at_class, -1], -1))
            decides = (taken >= 0) & (siblings[self.parent[taken]] > 1)
            found.append(self._best_at(steps[decides], taken[decides], best))
        return found

    def _best_at(
        self, steps: Tensor, taken: Tensor, best: Callable[[Callable[[float], float]], float]
    ) -> float:
        if not len(taken):
            return 1.0

        def mean(temperature: float) -> float:
            tempered = self.normalised(steps / temperature)
            return float(-tempered.gather(1, taken[:, None]).mean())

        return best(mean)
