"""The standard evaluation, as protocols that run on every table: classifiers, violations, retrieval.

Columns are named by role and metric (`features.top1`). Numbers of answers and violations share the
bootstrap draws of the test samples, and those of retrieval the draws of the queries, or of their blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from labeltree.decisions.choose_classifier import ClassifierKind
from labeltree.evaluation.answer_columns import PREFIX
from labeltree.evaluation.protocol_registry import ProtocolResult, register
from labeltree.evaluation.queries_and_gallery import SearchPlan
from labeltree.evaluation.representations import POSTERIOR, Reading
from labeltree.evaluation.sample_columns import Column
from labeltree.evaluation.search_and_answer_columns import Inputs, micro_f1_column
from labeltree.metrics.functional import (
    class_prototypes,
    consistency_by_depth,
    pair_violations,
    parent_violations,
)
from labeltree.metrics.functional.distance_correlation import ClassPairs

__all__ = ["own", "posterior", "probe", "retrieval", "violations"]

_OF_EMBEDDINGS = ("h_ap", "ndcg", "asi", "ap_at_depth")


@register(
    "probe",
    summary="linear probe, a balanced logistic regression on the features",
    source="Climbing the Label Tree, Section 4.4",
    standard=True,
)
def probe(inputs: Inputs, options: Any) -> ProtocolResult:
    """Scores of the linear probe on the test samples."""
    gap = inputs.classifiers.gap
    notes = [f"The linear probe of '{inputs.name}' stopped up to {gap:.1%} (relative) above its minimum."]
    return _answers(inputs, "probe", inputs.roles[0], notes if gap else [])


def _register_classifier(name: ClassifierKind, summary: str, source: str) -> None:
    """Add a protocol: the scores of a classifier on the test samples."""

    @register(name, summary=summary, source=source, standard=True)
    def judge(inputs: Inputs, options: Any) -> ProtocolResult:
        return _answers(inputs, name, "embeddings" if name == "prototypes" else inputs.roles[0])


_register_classifier(
    "prototypes",
    "nearest class mean of the embeddings, in their geometry",
    "Climbing the Label Tree, Section 4.4",
)
_register_classifier(
    "lda", "linear discriminant analysis on the features, with shrinkage", "Ledoit & Wolf 2004"
)
_register_classifier("feature-means", "nearest class mean of the features, by cosine", "of labeltree")


@register(
    "own",
    summary="the model's own answers, where the table has predictions",
    source="Climbing the Label Tree, Section 3.5; severity: Bertinetto et al. 2020",
    standard=True,
)
def own(inputs: Inputs, options: Any) -> ProtocolResult:
    """Scores of the model's own answers; a missing answer counts as the root."""
    if inputs.own_answers is None:
        return ProtocolResult("")
    silent = int((inputs.own_answers < 0).sum())
    notes = [f"'{inputs.name}' gave no answer of its own for {silent} test samples: they count as wrong."]
    return _answers(inputs, "own", "predictions", notes if silent else [])


def _answers(inputs: Inputs, name: ClassifierKind, role: str, notes: Sequence[str] = ()) -> ProtocolResult:
    """All scores of a classifier's answers.

    The model's own answers are scored at every depth of the tree, those of classifiers fitted here at the
    depths at which the table's classes differ. If no test class has training samples, a fitted classifier has
    no top-1, and no accuracy at depths where no test label has training samples. The model's own answers are
    still scored, since a model of class embeddings may predict unseen classes.
    """
    if name != "own" and name not in inputs.classifiers.fitted:
        return ProtocolResult("")
    if name == "own" and inputs.own_answers is not None:
        named = inputs.own_answers.clamp(min=0)
    else:
        named = inputs.answers_of_probe if name == "probe" else inputs.predicted[name]
    columns = inputs.answers(named, inputs.judging.tree.leaves if name == "own" else None)
    columns.insert(2, micro_f1_column(columns[1], named, inputs))
    if name == "own":
        columns += _contradictions(inputs)
    if inputs.samples.unlearned is not None and name != "own":
        lost = inputs.samples.unlearned
        columns = [
            column.undefined()
            if column.name == "top1" or (column.kind == "by_depth" and column.at + 1 in lost)
            else column
            for column in columns
        ]
    columns = [column.alone(f"{role}.{PREFIX[name]}{column.name}") for column in columns]
    return _summarised(inputs, columns, notes)


def _contradictions(inputs: Inputs) -> list[Column]:
    """Whether a model's answers at different depths, each made separately, lie off one path."""
    answers = inputs.table.depth_predictions
    if answers is None:
        return []
    answers = answers[inputs.samples.test]
    agree = consistency_by_depth(answers, inputs.judging.tree, reduction="none")
    apart = (agree < 1).any(1).double().masked_fill(agree.isnan().all(1), torch.nan)
    return [Column("contradictions", apart)]


@register(
    "violations",
    summary="do samples lie nearer to their own branch than to others, by prototypes and by pairs?",
    source="Climbing the Label Tree, Section 4.4; pairs: Zhang et al. 2022, supplement E; CPCC: Zeng et al. "
    "2022",
    standard=True,
)
def violations(inputs: Inputs, options: Any) -> ProtocolResult:
    """Parent violations, pair violations and CPCC of the embeddings.

    Means and distances are those of the embeddings' geometry. Every training sample contributes to the
    prototypes of its label and of the label's ancestors.
    """
    columns = _violations(inputs, inputs.reading("embeddings"))
    tree, tested = inputs.judging.tree, inputs.tested
    judged = int((~columns[0].values.isnan()).sum())
    notes, under_root = [], int((tree.parent[inputs.nodes[tested]] <= 0).sum())
    if not inputs.evaluated:
        pass  # only the evaluated method has these notes
    elif not judged:
        notes.append(
            "Parent violations are not defined here: they need two inner nodes at one depth below the root."
        )
    elif under_root:
        notes.append(
            f"{under_root} test samples have the root as parent and are left out of the parent violations, "
            f"which count {judged}."
        )
    result = _summarised(inputs, [column.alone(f"embeddings.{column.name}") for column in columns], notes)
    result.counts["test samples judged for parent violations"] = judged
    return result


def _violations(inputs: Inputs, reading: Reading, *, intervals: bool = True) -> list[Column]:
    """The columns of `violations` in one representation; without `intervals` none is prepared for CPCC."""
    settings, judging, nodes, tested = inputs.settings, inputs.judging, inputs.nodes, inputs.tested
    points, geometry, train = reading.points, reading.geometry, inputs.samples.train
    means = class_prototypes(points[train], nodes[train], judging.tree, geometry)
    violated = parent_violations(
        points[tested], nodes[tested], judging.tree, means, geometry=geometry, reduction="none"
    )
    drawn: dict[str, Any] = {"max_pairs": settings.max_pairs, "seed": settings.seed}
    labels = judging.in_judge(nodes[tested])
    pairs = pair_violations(points[tested], labels, judging.judge, geometry, **drawn, reduction="none")

    classes = ClassPairs(judging.judge, **drawn)

    def correlation(rows: Tensor) -> float:
        kept = rows[labels[rows] >= 0]
        return float(classes.correlation(points[tested[kept]], labels[kept], geometry, "mean"))

    follows = correlation(torch.arange(len(tested)))
    without = inputs.number_without_blocks(tested, correlation) if intervals else None
    cpcc = torch.where(labels >= 0, follows, torch.nan)
    return [
        Column("parent_violations", violated, tested),
        Column("parent_order_accuracy", 1 - violated, tested),
        Column("pair_violations", pairs, tested, whole=True),
        Column("cpcc", cpcc, tested, whole=True, among=True, without=without),
    ]


@register(
    "retrieval",
    summary="each sample looks for its like among the others, or in the training split",
    source="recall@k and MAP@R: Musgrave et al. 2020; AHP: Barz & Denzler 2019, Section 4; H-AP: Ramzi et "
    "al. 2022; ASI: Sun et al. 2021",
    standard=True,
)
def retrieval(inputs: Inputs, options: Any) -> ProtocolResult:
    """Scores of the rankings of the samples' search plan, and the means of HP@1 … HP@K.

    H-AP, NDCG, ASI and AP at each depth, which sort whole rankings, are those of the embeddings.
    """
    plan, columns = inputs.samples.plan, list[Column]()
    ranked: list[Column] = []
    curve: list[float] = []
    curves: dict[str, list[float]] = {}
    first, judged = None, inputs.reading("embeddings").representation
    for role, reading in inputs.standard_readings().items():
        if reading.representation != first:
            graded = reading.representation == judged
            progress = inputs.titled(f"retrieval by {role}")
            ranked, curve = inputs.rankings(
                reading, plan.queries, plan.gallery, by_depth=False, graded=graded, progress=progress
            )
            first = first or reading.representation
        shown = [c for c in ranked if role == "embeddings" or not c.name.startswith(_OF_EMBEDDINGS)]
        columns += [column.alone(f"{role}.{column.name}") for column in shown]
        curves[f"{role}.hp"] = curve
    result = _summarised(inputs, columns, rows=plan.queries)
    if inputs.samples.one_class is not None:
        curves = {name: [torch.nan] * len(values) for name, values in curves.items()}
    result.curves.update(curves)
    return result


@register(
    POSTERIOR,
    summary="retrieval and violations with each sample at the mean of the classes' embeddings by their "
    "probabilities",
    source="ConSE: Norouzi et al. 2014; class embeddings: Barz & Denzler 2019",
    standard=True,
)
def posterior(inputs: Inputs, options: Any) -> ProtocolResult:
    """What `violations` and `retrieval` give in the posterior space of the classifier that answers.

    The numbers have neither intervals nor tests, which would take longer than the numbers, and would leave
    less of the error that a comparison allows to those of the embeddings. Where H-AP is that of queries
    drawn at random, all numbers of the search are.
    """
    reading, sentence = inputs.posterior
    notes = [sentence] if sentence and inputs.evaluated else []
    if reading is None:
        return ProtocolResult("", notes=notes)
    plan, drawn = inputs.samples.plan, inputs.drawn(len(inputs.samples.plan.queries))
    if isinstance(drawn, torch.Tensor):
        plan, inputs = _some_queries(inputs, drawn)
    progress = inputs.titled(f"retrieval by {POSTERIOR}")
    ranked, _ = inputs.rankings(
        reading, plan.queries, plan.gallery, by_depth=False, intervals=False, progress=progress
    )
    columns = [
        column.alone(f"{POSTERIOR}.{column.name}", whole=True, among=True, without=None)
        for column in [*_violations(inputs, reading, intervals=False), *ranked]
        if column.kind == "scores"
    ]
    return _summarised(inputs, columns, notes, torch.unique(torch.cat([inputs.samples.test, plan.queries])))


def _some_queries(inputs: Inputs, drawn: Tensor) -> tuple[SearchPlan, Inputs]:
    """The search of some queries among all that were searched, each left out of its own results."""
    plan = inputs.samples.plan
    if plan.gallery is None:
        alone = torch.arange(len(inputs.table))
        groups = plan.groups
        if groups is not None:
            alone = torch.where(groups >= 0, groups, int(groups.max()) + 1 + alone)
        plan = replace(plan, gallery=plan.queries, groups=alone)
    plan = replace(plan, queries=plan.queries[drawn])
    return plan, replace(inputs, samples=replace(inputs.samples, plan=plan))


def _summarised(
    inputs: Inputs, columns: Sequence[Column], notes: Sequence[str] = (), rows: Tensor | None = None
) -> ProtocolResult:
    """The numbers of the columns; NaN if all samples are of one class, so that any answer is right.

    The bootstrap draws from `rows`; None = the test samples.
    """
    if inputs.samples.one_class is not None:
        columns = [column.undefined() for column in columns]
    rows = inputs.samples.test if rows is None else rows
    return replace(inputs.summarise(columns, by_frequency=False, rows=rows), notes=list(notes))
