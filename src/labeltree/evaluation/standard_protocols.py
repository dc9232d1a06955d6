"""The standard evaluation: classifiers, violations and retrieval, as columns like those of any protocol.

`evaluate` runs these on every table and draws the samples of all of them together.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from labeltree.decisions.classifiers import ClassifierKind
from labeltree.evaluation.answer_outcomes import answer_columns, micro_f1_column
from labeltree.evaluation.classifiers import fit_and_predict, nearest_prototype
from labeltree.evaluation.columns import Column
from labeltree.evaluation.inputs import Inputs
from labeltree.evaluation.reading import Reading
from labeltree.evaluation.result import PREFIX
from labeltree.metrics.functional import class_prototypes, pair_violations, parent_violations

__all__ = ["answers_of", "probe_answers", "prototype_answers", "search", "violations"]


def answers_of(inputs: Inputs, predicted: Mapping[ClassifierKind, Tensor], role: str) -> list[Column]:
    """What each classifier named the test samples, against their labels.

    The model's own answers are judged at every depth of the tree, those of what was learned here at the
    depths at which the table's classes differ. No answer is as wrong as can be: it counts as the root.

    Args:
        inputs: whose test samples they are.
        predicted: ``probe``, ``prototypes``, ``own`` → ``(m,)`` nodes, −1 for no answer.
        role: that the probe read.
    """
    rows = inputs.samples.test
    target = inputs.nodes[rows]
    decided = inputs.samples.finest[target]
    roles = {"probe": role, "prototypes": "embeddings", "own": "predictions"}
    found = []
    for name, answers in predicted.items():
        named = answers.clamp(min=0)
        shared = None if name == "own" else inputs.samples.shared
        columns = answer_columns(named, target, decided, inputs.judging, rows, shared)
        columns.insert(2, micro_f1_column(columns[1], named, inputs.judging))
        for column in columns:
            found.append(column.alone(f"{roles[name]}.{PREFIX[name]}{column.name}"))
    return found


def violations(inputs: Inputs, reading: Reading) -> tuple[list[Column], int]:
    """Whether samples lie nearer to their own branch than to others, by prototypes and by pairs.

    All means and distances are those of the geometry of the representation; every training sample counts for
    its label and for the nodes above it.

    Returns:
        the columns, and how many samples have the root as parent, so that parent violations leave them out.
    """
    settings, judging, nodes = inputs.settings, inputs.judging, inputs.nodes
    points, geometry = reading.points.double(), reading.geometry
    train, tested = inputs.samples.train, inputs.tested
    prototypes = class_prototypes(points[train], nodes[train], judging.tree, geometry)
    violated = parent_violations(
        points[tested], nodes[tested], judging.tree, prototypes, geometry=geometry, reduction="none"
    )
    pairs = pair_violations(
        points[tested],
        judging.in_judge(nodes[tested]),
        judging.judge,
        geometry,
        max_pairs=settings.max_pairs,
        seed=settings.seed,
        reduction="none",
    )
    columns = [
        Column("embeddings.parent_violations", violated, tested, larger_is_better=False),
        Column("embeddings.parent_order_accuracy", 1 - violated, tested),
        Column("embeddings.pair_violations", pairs, tested, larger_is_better=False, whole=True),
    ]
    return columns, int((judging.tree.parent[nodes[tested]] <= 0).sum())


def search(inputs: Inputs, reading: Reading, name: str) -> tuple[list[Column], list[float]]:
    """Retrieval, every query in turn, as the samples' plan has it; and the means of HP@1 … HP@K."""
    plan = inputs.samples.plan
    progress = inputs.titled(f"retrieval by {name}")
    columns, curve = inputs.rankings(reading, plan.queries, plan.gallery, by_depth=False, progress=progress)
    return [column.alone(column.name) for column in columns], curve


def probe_answers(inputs: Inputs, reading: Reading) -> Tensor:
    """What the balanced logistic regression names the test samples, as the standard evaluation has it."""
    learned, vectors = inputs.learned, reading.vectors
    test = vectors[inputs.samples.test]
    return fit_and_predict(vectors[learned], inputs.nodes[learned], test, inputs.settings)


def prototype_answers(inputs: Inputs, reading: Reading) -> Tensor:
    """The nearest class mean of the training samples, for each test sample."""
    points, train = reading.points.double(), inputs.samples.train
    prototypes = class_prototypes(points[train], inputs.nodes[train], inputs.judging.tree, reading.geometry)
    classes = torch.unique(inputs.nodes[inputs.learned])
    return nearest_prototype(points[inputs.samples.test], prototypes, classes, reading.geometry)
