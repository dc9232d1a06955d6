"""Why an answer: the nearest training samples that speak for and against each step down its path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.decisions import Answers
from labeltree.errors import RunError
from labeltree.inference.calibrate import Decider
from labeltree.inference.embeddings import kept_table
from labeltree.inference.reference import load_reference
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["Neighbour", "Step", "explain", "explain_text"]


_AT_ONCE = 2**23  # distances held in memory at once


@dataclass(frozen=True)
class Neighbour:
    """A training sample near the sample that is asked about.

    Attributes:
        node: its label.
        distance: its distance, in the geometry of the embeddings.
        name: its file, or its data set and id; None if the run folder does not tell it.
    """

    node: int
    distance: float
    name: str | None

    def to_dict(self, taxonomy: Taxonomy) -> dict[str, Any]:
        """As JSON: the label as a path."""
        return {"sample": self.name, "label": taxonomy.path_name(self.node), "distance": self.distance}


@dataclass(frozen=True)
class Step:
    """One step from a node to a child of it.

    Attributes:
        node: the child.
        probability: its probability.
        taken: whether the answer goes at least so far.
        speaks_for: the nearest training sample at or below the child; None if there is none.
        speaks_against: the nearest one at or below its parent that is not below the child.
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


def explain(decider: Decider, table: EmbeddingTable, answers: Answers) -> list[list[Step]]:
    """The steps of each answer, and the one at which it stopped.

    Training samples are compared: all of them if the run folder has their embeddings, which tell their names
    as well, or else the reference samples, at most 10,000 without names.

    Args:
        decider: the run.
        table: n samples of the run's encoder.
        answers: their answers.

    Raises:
        RunError: if the run folder holds no training sample.
    """
    training, names = _training(decider)
    if not len(table):
        return []
    scores, rule = decider.scores(table), decider.rule
    paths = rule.paths(scores).nodes
    probabilities, taxonomy, found = rule.probabilities(scores), decider.run.taxonomy, []
    points, known = table.embeddings.double(), training.embeddings.double()
    for rows in torch.split(torch.arange(len(table)), max(1, _AT_ONCE // max(len(known), 1))):
        distances = training.space.pairwise_distance(points[rows], known)
        of_nodes = rule.classes.node_probabilities(probabilities[rows])
        for row, near, chances in zip(rows.tolist(), distances, of_nodes, strict=True):
            path = _path(paths[row], int(answers.nodes[row]), taxonomy)
            answer = int(answers.nodes[row])
            found.append(_steps(path, answer, chances, near, training.nodes, names, taxonomy))
    return found


def _path(likely: Tensor, answer: int, taxonomy: Taxonomy) -> list[int]:
    """The nodes from the root to the answer, and on along the likely path if the answer lies on it."""
    path = [node for node in likely.tolist() if node >= 0]
    if answer in path:
        return path
    return [node for node in taxonomy.ancestors[answer].tolist() if node >= 0]  # chosen by its cost


def _steps(
    path: list[int],
    answer: int,
    probabilities: Tensor,
    distances: Tensor,
    labels: Tensor,
    names: Sequence[str] | None,
    taxonomy: Taxonomy,
) -> list[Step]:
    steps = []
    for parent, node in pairwise(path):
        above = _below(labels, parent, taxonomy)
        inside = _below(labels, node, taxonomy)
        taken = int(taxonomy.depth[node]) <= int(taxonomy.depth[answer])
        steps.append(
            Step(
                node,
                float(probabilities[node]),
                taken,
                _nearest(distances, inside, labels, names),
                _nearest(distances, above & ~inside, labels, names),
            )
        )
        if not taken:
            break
    return steps


def _below(labels: Tensor, node: int, taxonomy: Taxonomy) -> Tensor:
    return (labels >= node) & (labels < int(taxonomy.subtree_end[node]))


def _nearest(
    distances: Tensor, rows: Tensor, labels: Tensor, names: Sequence[str] | None
) -> Neighbour | None:
    if not bool(rows.any()):
        return None
    at = int(distances.masked_fill(~rows, torch.inf).argmin())
    return Neighbour(int(labels[at]), float(distances[at]), None if names is None else names[at])


def _training(decider: Decider) -> tuple[EmbeddingTable, list[str] | None]:
    """Labelled training samples, and their names where the folder tells them."""
    run = decider.run.base or decider.run
    table, names = kept_table(run), None
    if table is None:
        table = load_reference(run)
    if table is None or table.split is None:
        raise RunError(
            f"'{run.folder.path}' holds no training sample to compare with; an exported model keeps some "
            "with --with-reference"
        )
    rows = torch.from_numpy(np.asarray(table.split) == "train") & (table.nodes > 0)
    table = table.rows(rows)
    if table.paths is not None:
        names = [str(path) for path in table.paths.tolist()]
    elif table.instances is not None:
        names = [f"{run.recipe.data} {instance}" for instance in table.instances.tolist()]
    if decider.run.change is not None:
        table = replace(table, nodes=decider.run.change.on_new(table.nodes), predictions=None)
    return table, names


def explain_text(steps: Sequence[Step], taxonomy: Taxonomy) -> str:
    """The steps of one answer as indented lines."""
    lines = []
    for step in steps:
        word = "" if step.taken else "  (not taken)"
        lines.append(f"    {taxonomy.path_name(step.node)}  p {step.probability:.3f}{word}")
        for said, near in (("for", step.speaks_for), ("against", step.speaks_against)):
            lines.append(f"        {said:<8}{_shown(near, taxonomy)}")
    return "\n".join(lines)


def _shown(near: Neighbour | None, taxonomy: Taxonomy) -> str:
    if near is None:
        return "no training sample"
    name = "" if near.name is None else f"{near.name}, "
    return f"{name}{taxonomy.path_name(near.node)}, at {near.distance:.3f}"
