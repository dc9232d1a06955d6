"""`class-order`: the order of all classes by their scores, and answers made separately at every depth."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from labeltree.checks import check_choice
from labeltree.decisions import ClassNodes
from labeltree.decisions.choose_classifier import CLASSIFIERS
from labeltree.decisions.classifiers import ClassifierChoice
from labeltree.errors import DataError
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.sample_columns import Column
from labeltree.evaluation.scored_samples import class_scores
from labeltree.metrics.functional import (
    answers_by_depth,
    consistency_by_depth,
    full_path_accuracy,
    hops_at_ks,
)

__all__ = ["ClassOrderOptions", "class_order"]


@dataclass(frozen=True)
class ClassOrderOptions:
    """Options of `class-order`.

    Attributes:
        ks: HOPS@k is reported for these k, if there are more classes.
        classifier: As of `decisions`; `auto` uses that of the headline numbers.
    """

    ks: tuple[int, ...] = (5, 20)
    classifier: ClassifierChoice = "auto"

    def __post_init__(self) -> None:
        if min(self.ks, default=2) < 2:
            raise ValueError(f"ks are {self.ks}; expected numbers of at least 2, as HOPS@1 is top-1")
        check_choice("classifier", self.classifier, CLASSIFIERS)


@register(
    "class-order",
    summary="do near classes come before far ones? HOPS; answers made separately at every depth",
    source="HOPS and FPA: Sani & Anand 2026 (Hier-COS)",
    options=ClassOrderOptions,
)
def class_order(inputs: Inputs, options: ClassOrderOptions) -> ProtocolResult:
    """HOPS and HOPS@k of the class scores; accuracy, consistency and FPA of separate answers at each depth.

    Separate answers are the model's own where it gives one for each depth and its classifier is used, else
    the most probable node of each depth, by the softmax of the scores. FPA is left out where no answer
    contradicts another, as it is the top-1 accuracy there.
    """
    judging, table = inputs.judging, inputs.standard_table
    scorer, said = class_scores(inputs, options.classifier)
    classes = ClassNodes(scorer.classes, judging.tree)
    rows = inputs.samples.test
    rows = rows[classes.judges(inputs.nodes[rows])]
    if not len(rows):
        raise DataError("no test sample has a label as fine as the classes")
    scores, truth = scorer(table.rows(rows)), inputs.nodes[rows]
    of_classes, labels = judging.in_judge(classes.nodes), judging.in_judge(truth)
    ks = (None, *(k for k in options.ks if k < len(classes)))
    values = hops_at_ks(scores, labels, judging.judge, ks, classes=of_classes)
    columns = [
        Column("hops" if k is None else f"hops_at_{k}", value, rows, by_node=k is None)
        for k, value in values.items()
    ]
    used = inputs.classifiers.with_scores if options.classifier == "auto" else options.classifier
    if used == "own" and table.depth_predictions is not None:
        answers = table.depth_predictions[rows]
    else:
        answers = answers_by_depth(torch.softmax(scores.double(), 1), judging.tree, classes=classes.nodes)
    agree = consistency_by_depth(answers, judging.tree, reduction="none")
    notes = [said]
    known = agree[~agree.isnan()]
    if len(known) and bool((known == 1).all()):
        notes.append("No answer contradicts another, so that FPA is the top-1 accuracy.")
    else:
        right = full_path_accuracy(answers, truth, judging.tree, reduction="none")
        columns.append(Column("full_path_accuracy", right, rows))
    path = judging.tree.paths[truth]
    correct = (answers == path).double().masked_fill(path < 0, torch.nan)
    for depth in range(judging.tree.max_depth):
        told = depth >= inputs.shared(classes.nodes)
        for name, of_depth in (("accuracy", correct[:, depth]), ("consistency", agree[:, depth])):
            column = Column(name, of_depth, rows, kind="by_depth", at=depth)
            columns.append(column if told else column.undefined())
    result = inputs.summarise(columns, "Order of the classes, and separate answers at every depth")
    result.counts["test samples"] = len(rows)
    result.notes.extend(notes)
    return result
