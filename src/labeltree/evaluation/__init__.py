"""Evaluation protocols for embeddings, and the result that holds their numbers."""

from labeltree.evaluation import protocols as _protocols  # noqa: F401, they register themselves
from labeltree.evaluation.chosen_samples import Samples, choose_samples
from labeltree.evaluation.comparing.compare_outcomes import compare
from labeltree.evaluation.comparing.comparison import (
    Comparison,
    Difference,
    Estimate,
    MetricComparison,
    StratumComparison,
)
from labeltree.evaluation.comparing.result_text import attribute_rows, attribute_table, protocol_table
from labeltree.evaluation.error_tree import Confusion, NodeErrors, TreeErrors, tree_errors
from labeltree.evaluation.evaluate_table import evaluate
from labeltree.evaluation.judging_taxonomy import JudgingTaxonomy, carry_over, translate
from labeltree.evaluation.measure_method import evaluate_aspects
from labeltree.evaluation.outcomes import Outcomes, load_outcomes, save_outcomes
from labeltree.evaluation.pool_folds import pool_folds, pool_outcomes
from labeltree.evaluation.protocol_registry import (
    Inputs,
    ProtocolEntry,
    ProtocolResult,
    Second,
    describe_protocols,
    get_protocol,
    list_protocols,
    parse_options,
    register,
)
from labeltree.evaluation.representations import ROLES, Reading, Representation, read
from labeltree.evaluation.result import (
    AspectResult,
    AttributeResult,
    EvaluationResult,
    MethodResult,
    aspect_means,
)
from labeltree.evaluation.sample_columns import Column
from labeltree.evaluation.statistics import Statistic
from labeltree.options.evaluation import EvaluationSettings

__all__ = [
    "ROLES",
    "AspectResult",
    "AttributeResult",
    "Column",
    "Comparison",
    "Confusion",
    "Difference",
    "Estimate",
    "EvaluationResult",
    "EvaluationSettings",
    "Inputs",
    "JudgingTaxonomy",
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
    "Statistic",
    "StratumComparison",
    "TreeErrors",
    "aspect_means",
    "attribute_rows",
    "attribute_table",
    "carry_over",
    "choose_samples",
    "compare",
    "describe_protocols",
    "evaluate",
    "evaluate_aspects",
    "get_protocol",
    "list_protocols",
    "load_outcomes",
    "parse_options",
    "pool_folds",
    "pool_outcomes",
    "protocol_table",
    "read",
    "register",
    "save_outcomes",
    "translate",
    "tree_errors",
]
