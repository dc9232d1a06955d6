"""Protocols that turn embeddings into honest numbers, and the result that holds them."""

from labeltree.evaluation.evaluate import evaluate
from labeltree.evaluation.ground import Ground, translate
from labeltree.evaluation.reading import ROLES, Reading, read
from labeltree.evaluation.result import (
    Confusion,
    EvaluationResult,
    MethodResult,
    NodeErrors,
    Representation,
    TreeErrors,
)
from labeltree.evaluation.samples import Samples, choose_samples
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.evaluation.tree_errors import tree_errors

__all__ = [
    "ROLES",
    "Confusion",
    "EvaluationResult",
    "EvaluationSettings",
    "Ground",
    "MethodResult",
    "NodeErrors",
    "Reading",
    "Representation",
    "Samples",
    "TreeErrors",
    "choose_samples",
    "evaluate",
    "read",
    "translate",
    "tree_errors",
]
