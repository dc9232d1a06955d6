"""Protocols that turn embeddings into honest numbers, and the result that holds them."""

from labeltree.evaluation.aspect_result import AspectResult, aspect_means
from labeltree.evaluation.aspects import evaluate_aspects
from labeltree.evaluation.compare import compare
from labeltree.evaluation.comparison import (
    Comparison,
    Difference,
    Estimate,
    MetricComparison,
    StratumComparison,
)
from labeltree.evaluation.error_result import Confusion, NodeErrors, TreeErrors
from labeltree.evaluation.evaluate import evaluate
from labeltree.evaluation.ground import Ground, translate
from labeltree.evaluation.outcomes import Outcomes, load_outcomes, save_outcomes
from labeltree.evaluation.protocol import (
    Inputs,
    ProtocolEntry,
    ProtocolResult,
    Second,
    get_protocol,
    list_protocols,
    register,
)
from labeltree.evaluation.protocol_options import describe_protocols, parse_options
from labeltree.evaluation.protocol_table import protocol_table
from labeltree.evaluation.reading import ROLES, Reading, read
from labeltree.evaluation.result import EvaluationResult, MethodResult, Representation
from labeltree.evaluation.samples import Samples, choose_samples
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.evaluation.tree_errors import tree_errors

__all__ = [
    "ROLES",
    "AspectResult",
    "Comparison",
    "Confusion",
    "Difference",
    "Estimate",
    "EvaluationResult",
    "EvaluationSettings",
    "Ground",
    "Inputs",
    "MethodResult",
    "MetricComparison",
    "NodeErrors",
    "Outcomes",
    "ProtocolEntry",
    "ProtocolResult",
    "Reading",
    "Representation",
    "Samples",
    "Second",
    "StratumComparison",
    "TreeErrors",
    "aspect_means",
    "choose_samples",
    "compare",
    "describe_protocols",
    "evaluate",
    "evaluate_aspects",
    "get_protocol",
    "list_protocols",
    "load_outcomes",
    "parse_options",
    "protocol_table",
    "read",
    "register",
    "save_outcomes",
    "translate",
    "tree_errors",
]
