"""The classifiers of the standard evaluation, judged as protocols are."""

from __future__ import annotations

import torch

from labeltree.evaluation.probe import fit_and_predict
from labeltree.evaluation.protocol import Inputs, ProtocolResult
from labeltree.evaluation.prototypes import nearest_prototype
from labeltree.evaluation.reading import Reading
from labeltree.metrics.functional import class_prototypes

__all__ = ["standard_probe", "standard_prototypes"]


def standard_probe(inputs: Inputs, reading: Reading) -> ProtocolResult:
    """The balanced logistic regression."""
    learned, vectors = inputs.learned, reading.vectors
    predicted, _ = fit_and_predict(
        vectors[learned], inputs.nodes[learned], vectors[inputs.samples.test], inputs.settings
    )
    return inputs.judge(predicted)


def standard_prototypes(inputs: Inputs, reading: Reading) -> ProtocolResult:
    """The nearest class mean of the training samples."""
    points, train = reading.points.double(), inputs.samples.train
    nodes = inputs.nodes
    prototypes = class_prototypes(points[train], nodes[train], inputs.ground.tree, reading.geometry)
    classes = torch.unique(nodes[inputs.learned])
    return inputs.judge(nearest_prototype(points[inputs.samples.test], prototypes, classes, reading.geometry))
