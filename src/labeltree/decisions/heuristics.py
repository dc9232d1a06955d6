"""Rules of answering that others use, as comparisons: each gives a node, or a chain of nodes, a sample."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from labeltree.decisions.answers import Paths
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.metrics.functional.risk_coverage import information
from labeltree.metrics.functional.separate_answers import answers_by_depth

__all__ = [
    "jumping_paths",
    "most_informative_paths",
    "plurality",
    "rewarded",
    "selective_paths",
]


def selective_paths(probabilities: Tensor, classes: ClassNodes) -> Paths:
    """The most probable class, or nothing: the chain is the root and that class (*Selective* of Goren et al.
    2024).
    """
    best = probabilities.detach().double().max(dim=1)
    nodes = torch.stack([torch.zeros_like(best.indices), classes.nodes[best.indices]], dim=1)
    return Paths(nodes, torch.stack([torch.ones_like(best.values), best.values], dim=1))


def jumping_paths(probabilities: Tensor, classes: ClassNodes) -> Paths:
    """The most probable node of each depth, each for itself, on a tree (*Jumping* of Goren et al. 2024)."""
    nodes = answers_by_depth(probabilities, classes.taxonomy, classes=classes.nodes)
    parts = zip(classes.parts(probabilities), classes.parts(nodes), strict=True)
    of_nodes = torch.cat([classes.node_probabilities(p).gather(1, at.clamp(min=0)) for p, at in parts])
    nodes = torch.nn.functional.pad(nodes, (1, 0))
    of_nodes = torch.nn.functional.pad(of_nodes.masked_fill(nodes[:, 1:] < 0, 0.0), (1, 0), value=1.0)
    return Paths(nodes, torch.cummin(of_nodes, dim=1).values)


def most_informative_paths(probabilities: Tensor, classes: ClassNodes) -> Paths:
    """The node of greatest `information` that is probable enough, of equal ones the most probable
    (*Max-coverage* of Goren et al. 2024; the confidence threshold of Valmadre 2022).
    """
    said = information(torch.arange(classes.taxonomy.num_nodes), classes.taxonomy)
    below = (classes.counts > 0).nonzero()[:, 0]
    levels, level = torch.unique(said[below], return_inverse=True)
    members = [below[level == at] for at in range(len(levels))]
    nodes, certain = [], []
    for part in classes.parts(probabilities):
        of_nodes = classes.node_probabilities(part)
        likely = [of_nodes[:, each].max(dim=1) for each in members]
        best = torch.stack([each[of.indices] for each, of in zip(members, likely, strict=True)], dim=1)
        values = torch.stack([of.values for of in likely], dim=1)
        # what says less is an answer only where it is more probable than all that says more
        finer = torch.cummax(values.flip(1), dim=1).values.flip(1)
        useful = torch.nn.functional.pad(values[:, :-1] > finer[:, 1:], (0, 1), value=True)
        useful[:, 0] = True
        order = torch.argsort(~useful, dim=1, stable=True)
        useful = useful.gather(1, order)
        nodes.append(best.gather(1, order).masked_fill(~useful, -1))
        certain.append(values.gather(1, order).masked_fill(~useful, 0.0))
    return Paths(torch.cat(nodes), torch.cummin(torch.cat(certain), dim=1).values)


def plurality(probabilities: Tensor, classes: ClassNodes) -> Tensor:
    """The finest node (n,) that is at least as probable as every node beside its path, on a tree (Valmadre
    2022).
    """
    depth, known = classes.taxonomy.depth.numpy(), (classes.counts > 0).numpy()
    families = [classes.children(node) for node in range(classes.taxonomy.num_nodes)]
    answers = []
    for part in classes.parts(probabilities):
        of_nodes = classes.node_probabilities(part).numpy()
        rows = np.arange(len(of_nodes))
        rival = np.zeros_like(of_nodes)  # of the most probable node beside the path
        for node, kids in enumerate(families):  # parents come before their children
            if not len(kids):
                continue
            among = of_nodes[:, kids]
            best = among.argmax(1)
            beside = np.repeat(among[rows, best][:, None], len(kids), axis=1)
            among[rows, best] = 0.0
            beside[rows, best] = among.max(1)
            rival[:, kids] = np.maximum(rival[:, [node]], beside)
        answers.append(np.where((of_nodes >= rival) & known, depth, -1).argmax(1))
    return torch.from_numpy(np.concatenate(answers))


def rewarded(probabilities: Tensor, classes: ClassNodes, extra: float = 0.0) -> Tensor:
    """The node (n,) of the greatest p(v)·(information(v) + extra); ties go to the first node.

    Without `extra` this is the greatest expected information, and with it DARTS (Deng et al. 2012), whose λ
    is `extra` in units of the information of a leaf: the larger, the coarser are the answers.
    """
    reward = information(torch.arange(classes.taxonomy.num_nodes), classes.taxonomy) + extra
    reward = reward.masked_fill(classes.counts == 0, -1.0)
    worth = [classes.node_probabilities(part) * reward for part in classes.parts(probabilities)]
    return torch.from_numpy(np.concatenate([part.numpy().argmax(1) for part in worth]))
