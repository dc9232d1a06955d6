"""Why an answer: the nearest training samples that speak for and against each step down its path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from labeltree.decisions.class_nodes import ClassNodes
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["DISTANCES", "Neighbour", "Step", "find_evidence"]

DISTANCES = {"sphere": "√(2 − 2 cosine)", "euclidean": "Euclidean", "poincare": "hyperbolic"}
"""How the distances between embeddings are measured, by the name of their geometry."""
_AT_ONCE = 2**23  # distances held in memory at once


@dataclass(frozen=True)
class Neighbour:
    """A training sample near the sample that is asked about.

    Attributes:
        node: Its label.
        distance: Its distance, in the geometry of the embeddings.
        name: Its file, or its data set and id; None if it is not known.
        row: Its row among the training samples that were compared.
    """

    node: int
    distance: float
    name: str | None
    row: int

    def to_dict(self, taxonomy: Taxonomy) -> dict[str, Any]:
        """As JSON: the label as a path."""
        return {"sample": self.name, "label": taxonomy.path_name(self.node), "distance": self.distance}


@dataclass(frozen=True)
class Step:
    """One step from a node to a child of it.

    Attributes:
        node: The child.
        probability: Its probability.
        taken: Whether the answer goes at least so far.
        speaks_for: The nearest training sample at or below the child; None if there is none.
        speaks_against: The nearest one at or below its parent that is not below the child.
    """

    node: int
    probability: float
    taken: bool
    speaks_for: Neighbour | None
    speaks_against: Neighbour | None

    def to_dict(self, taxonomy: Taxonomy) -> dict[str, Any]:
        """As JSON."""
        return {
            "step": taxonomy.path_name(self.node),
            "probability": round(self.probability, 6),
            "taken": self.taken,
            "speaks_for": None if self.speaks_for is None else self.speaks_for.to_dict(taxonomy),
            "speaks_against": None if self.speaks_against is None else self.speaks_against.to_dict(taxonomy),
        }


def find_evidence(
    table: EmbeddingTable,
    training: EmbeddingTable,
    paths: Tensor,
    answers: Tensor,
    probabilities: Tensor,
    classes: ClassNodes,
    taxonomy: Taxonomy,
    names: Sequence[str | None] | None = None,
) -> list[list[Step]]:
    """The steps of each answer, and the one at which it stopped, each with the nearest training samples.

    Args:
        table: n samples.
        training: m labelled training samples of the same encoder.
        paths: (n, D) likely path of each sample, see `labeltree.decisions.Paths`.
        answers: (n,) answered nodes; one that is not on its path is explained by the path that leads to it.
        probabilities: (n, C) class probabilities.
        classes: The classes.
        taxonomy: Of labels and answers.
        names: (m,) names of the training samples, None where one is not known.
    """
    evidence = []
    distances_to_training = training.space.prepare_distances(training.embeddings.double())
    for rows in torch.split(torch.arange(len(table)), max(1, _AT_ONCE // max(len(training), 1))):
        distances = distances_to_training(table.embeddings[rows].double())
        of_nodes = classes.node_probabilities(probabilities[rows])
        for row, near, chances in zip(rows.tolist(), distances, of_nodes, strict=True):
            answer = int(answers[row])
            path = _path(paths[row], answer, taxonomy)
            taken = [node for node in path if int(taxonomy.depth[node]) <= int(taxonomy.depth[answer])]
            untaken = path[len(taken) : len(taken) + 1]
            evidence.append(
                [
                    Step(
                        node,
                        float(chances[node]),
                        node in taken,
                        *_nearest_two(near, training.nodes, (parent, node), names, taxonomy),
                    )
                    for parent, node in pairwise([*taken, *untaken])
                ]
            )
    return evidence


def _path(likely: Tensor, answer: int, taxonomy: Taxonomy) -> list[int]:
    """The nodes from the root to the answer, and on along the likely path if the answer lies on it."""
    path = [node for node in likely.tolist() if node >= 0]
    if answer in path:
        return path
    return [node for node in taxonomy.ancestors[answer].tolist() if node >= 0]  # chosen by its cost


def _nearest_two(
    distances: Tensor,
    labels: Tensor,
    step: tuple[int, int],
    names: Sequence[str | None] | None,
    taxonomy: Taxonomy,
) -> tuple[Neighbour | None, Neighbour | None]:
    """The nearest sample within a node, and that within its parent and not within it."""
    above, inside = (_below(labels, node, taxonomy) for node in step)
    return _nearest(distances, inside, labels, names), _nearest(distances, above & ~inside, labels, names)


def _below(labels: Tensor, node: int, taxonomy: Taxonomy) -> Tensor:
    return (labels >= node) & (labels < int(taxonomy.subtree_end[node]))


def _nearest(
    distances: Tensor, rows: Tensor, labels: Tensor, names: Sequence[str | None] | None
) -> Neighbour | None:
    if not bool(rows.any()):
        return None
    at = int(distances.masked_fill(~rows, torch.inf).argmin())
    return Neighbour(int(labels[at]), float(distances[at]), None if names is None else names[at], at)
