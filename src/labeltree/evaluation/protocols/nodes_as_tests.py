"""`node-scores`: every node of the taxonomy as a binary test, scored as in clinical studies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.counted_nouns import say_count
from labeltree.errors import DataError
from labeltree.evaluation.chosen_samples import labelled_rows
from labeltree.evaluation.fewest_samples import FEW_CASES
from labeltree.evaluation.fitted_probe import ClassProbabilities
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.protocols.questions import Question, check_question, greatest
from labeltree.evaluation.reported_nodes import (
    TOO_MANY_NOTE,
    NodeIntervals,
    ReportedNodes,
    counted_nodes,
    node_result,
    ranking_statistic,
    with_prefix,
)
from labeltree.evaluation.sample_columns import FEWEST_GROUPS, Column
from labeltree.evaluation.scored_samples import (
    ANSWERS,
    AnswerProbabilities,
    answer_probabilities,
    check_judged,
    judged_readings,
    probe_probabilities,
)
from labeltree.evaluation.subsampling import leak_notes, table_folds
from labeltree.metrics.catalogue import metric_name
from labeltree.metrics.functional import (
    group_labels,
    group_probabilities,
    node_decision_metrics,
    node_metrics_at,
    node_ranking_metrics,
    node_thresholds,
)
from labeltree.metrics.functional.node_labels import Below
from labeltree.metrics.functional.node_resampling import RATES, decided_nodes, nodes_at
from labeltree.metrics.functional.pool_groups import Aggregation, in_conflict
from labeltree.runs import EmbeddingTable
from labeltree.runs.table_file_columns import number_groups
from labeltree.taxonomy import AnyTaxonomy, Taxonomy
from labeltree.taxonomy.naming import some

__all__ = [
    "CONFLICTING",
    "POINT_COUNTS",
    "QUESTION_COUNTS",
    "NodeScoresOptions",
    "node_scores_protocol",
    "say_operating_point",
]

QUESTION_COUNTS = (
    "positive",
    "positive and answered right",
    "negative",
    "negative and answered right",
    "label too coarse to tell",
)
"""The numbers of test cases that a question's counts say, each after the question and a colon."""

POINT_COUNTS = ("positive and found at the operating point", "negative and cleared at the operating point")
"""The same of the decision at the operating point."""
CONFLICTING = "left out of single nodes: labels contradict each other"
"""The number of test groups without a single diagnosis, in the counts of the protocol."""

_HELD_OUT = 5  # number of folds, one of which is held out if there are no validation samples


@dataclass(frozen=True)
class NodeScoresOptions:
    """Options of `node_scores_protocol`.

    Attributes:
        roles: What is judged: `answers`, the classifier that answers; or `features`, `embeddings`, a
            linear probe that reads these.
        operating_point: Rule for the threshold of every node on the validation samples: `youden` (maximum
            of Youden's index), or a sensitivity such as 0.95 (the largest threshold that reaches it).
        per: What is a case: every `sample`; every `group` of samples, such as a patient's images, whose
            probabilities are combined; or the samples with one value of an attribute, such as `lesion`, see
            `EmbeddingTable.units`. Groups whose labels contradict each other are left out.
        aggregation: How they are combined, see `labeltree.metrics.functional.group_probabilities`.
        questions: Named sets of nodes, each judged as one test: `malignant=skin/melanoma+skin/carcinoma`.
            A case is positive if its label lies at or below one of the nodes (of a group, any label), and is
            left out if its label is too coarse to tell. Where groups are of different things, as a patient
            with several lesions is, a group has the score of its most suspicious sample, and is answered so
            if any of its samples is, also of those without a label; if none is positive and the label of one
            is missing or too coarse, the group is left out. Else samples are combined. Labels outside the
            test tell which, see `Question.groups_differ`. Their scores come first, as
            `malignant.sensitivity` and so on.
    """

    roles: tuple[str, ...] = (ANSWERS,)
    operating_point: str | float = "youden"
    per: str = "sample"
    aggregation: Aggregation = "logits"
    questions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for question in self.questions:
            check_question(question)
        check_judged(self.roles)
        check_choice("aggregation", self.aggregation, Aggregation)
        wanted = self.sensitivity
        if wanted is not None and not 0 < wanted <= 1:
            raise ValueError(f"operating_point is {wanted}, expected 'youden' or a share above 0, at most 1")

    @property
    def sensitivity(self) -> float | None:
        """The sensitivity to reach; None for Youden's index."""
        if self.operating_point == "youden":
            return None
        try:
            return float(self.operating_point)
        except ValueError as error:
            raise ValueError(
                f"operating_point is '{self.operating_point}', expected 'youden' or a sensitivity, as 0.95"
            ) from error


@register(
    "node-scores",
    summary="AUROC, sensitivity, specificity, predictive values of every node, inner ones too",
    source="Hanley & McNeil 1982; Youden 1950; none of the five papers reports it",
    options=NodeScoresOptions,
)
def node_scores_protocol(inputs: Inputs, options: NodeScoresOptions) -> ProtocolResult:
    """Score every node by the probabilities of the classifier that answers, or of a linear probe.

    The title and a note name the classifier. Scores are `auroc` and `average_precision`; `decision_…` for its
    answers, `point_…` at the operating point, and `own_…` for the model's own answers to samples. By node
    there are also `point_threshold` and the numbers of `positives` and `negatives`. Scores are unweighted
    means over the nodes below the root that have positives and negatives. Named sets of nodes come first,
    see `NodeScoresOptions`.
    """
    taxonomy, notes = inputs.judging.judge, list[str]()
    learn, validate = _validation(inputs, notes)
    if not len(learn):
        raise DataError("no training sample has a finest label, so that no class can be learned")
    parts: dict[str, ProtocolResult] = {}
    readings, judged = judged_readings(inputs, options.roles), list[str]()
    parts_of_rows = [validate, inputs.samples.test]
    parts_of_rows += [_unlabelled_beside(inputs.table, part, options) for part in parts_of_rows]
    rows = torch.cat(parts_of_rows)
    for role, reading in readings.items():
        if reading is None:
            answered = answer_probabilities(inputs, rows, learn)
        else:
            answered = probe_probabilities(inputs, reading, rows, role, learn)
        notes.append(answered.note)
        judged.append(_say_judged(answered, options))
        asked, whole = _measure(answered, inputs, options, parts_of_rows, notes)
        several = len(readings) > 1
        for part in asked.values() if parts else ():
            part.counts.clear()  # those of the first representation are shown
        parts = {**parts, **({f"{role}.{k}": v for k, v in asked.items()} if several else asked), role: whole}
    notes += leak_notes(inputs.table, learn, inputs.samples.test)
    target = inputs.nodes[inputs.samples.test]
    if inputs.own_answers is not None and options.per == "sample":
        answers = inputs.own_answers.clamp_min(0)  # a missing answer counts as the root
        judge, labels = inputs.judging.in_judge, inputs.judged_labels(inputs.samples.test)
        rates = node_decision_metrics(judge(answers), labels, taxonomy)
        own_rates, nodes = {f"own_{name}": rates[name] for name in RATES}, ReportedNodes.of(rates, taxonomy)
        units, result = inputs.units_of(inputs.samples.test), node_result(own_rates, nodes)
        said = decided_nodes(judge(answers), labels, taxonomy, units.groups, units.count)
        NodeIntervals(result, units, taxonomy).add_rates("own_", said, counted_nodes(own_rates, nodes))
        parts["predictions"] = result
    chosen = "Youden's index" if options.sensitivity is None else f"a sensitivity of {options.sensitivity:g}"
    by = "" if options.per == "sample" else f", by {options.per},"
    if options.questions and options.per != "sample":
        notes.append(f"To a question a {options.per} is positive if the label of any of its samples is.")
    notes.append(
        f"Operating points were chosen{by} by {chosen} on {len(validate)} validation samples, and are "
        f"judged on {len(target)} test samples{by.rstrip(',')}. PPV and NPV hold where the nodes are as "
        "frequent as here."
    )
    counts = {"validation samples": len(validate), "test samples": len(target)}
    title = f"Every node against the rest, by {' and '.join(dict.fromkeys(judged))}"
    return ProtocolResult.joined(title, parts, counts=counts, notes=notes)


def _unlabelled_beside(table: EmbeddingTable, rows: Tensor, options: NodeScoresOptions) -> Tensor:
    """Unlabelled samples in the groups of these rows and in their split; none where nothing is asked."""
    if options.per == "sample" or not options.questions:
        return rows[:0]
    units, mine = table.units(options.per), torch.zeros(len(table), dtype=torch.bool)
    known = units[rows][units[rows] >= 0]
    mine[(torch.isin(units, known) & (table.nodes <= 0) & ~table.several).nonzero()[:, 0]] = True
    if table.split is not None:
        mine &= torch.from_numpy(np.isin(table.split, np.unique(table.split[rows.numpy()])))
    mine[rows] = False
    return mine.nonzero()[:, 0]


def _validation(inputs: Inputs, notes: list[str]) -> tuple[Tensor, Tensor]:
    """Rows to fit the probe to, and rows to choose operating points on."""
    table, learned = inputs.table, inputs.learned
    rows = labelled_rows(table, "val", several=True)
    if len(rows) and inputs.split not in ("val", "train"):
        return learned, rows
    fold = table_folds(table, inputs.samples.train, inputs.judging, _HELD_OUT, inputs.settings.seed)
    held_out = inputs.samples.train[fold == 0]
    notes.append(
        f"There are no validation samples: one training sample in {_HELD_OUT} was held out to choose the "
        "operating points, and the classifier learned from the others."
    )
    return learned[~torch.isin(learned, held_out)], held_out


class _NoneAgree(DataError):
    """No group has one diagnosis."""


@dataclass(frozen=True)
class _Cases:
    """Cases that are judged: samples, or groups of samples.

    Attributes:
        values: `(m, c)` class probabilities.
        predicted: `(m,)` answers, as nodes of the judging taxonomy.
        target: `(m,)` labels, as nodes of the judging taxonomy; `(m, k)` if samples have several.
        rows: `(m,)` row of the table; of a group its first.
    """

    values: Tensor
    predicted: Tensor
    target: Tensor
    rows: Tensor

    @classmethod
    def of(cls, part: slice, rows: Tensor, given: ClassProbabilities, inputs: Inputs) -> _Cases:
        """Samples as cases."""
        predicted = inputs.judging.in_judge(given.predicted[part])
        return cls(given.values[part], predicted, inputs.judged_labels(rows), rows)

    def beside(self, unlabelled: _Cases) -> _Cases:
        """These and samples without a label."""
        parts = (self.values, unlabelled.values), (self.predicted, unlabelled.predicted)
        target = self.target, torch.full_like(unlabelled.target, -1)
        return _Cases(*map(torch.cat, (*parts, target, (self.rows, unlabelled.rows))))

    def together(
        self,
        classes: Tensor,
        inputs: Inputs,
        options: NodeScoresOptions,
        name: str,
        notes: list[str],
        asked: _Question | None = None,
        *,
        apart: bool = False,
    ) -> _Cases:
        """The groups of these samples as cases, without those whose labels contradict each other.

        Of a question there is no contradiction: a group is positive if any of its samples is. With `apart`
        its samples are not of one thing: it has the score of the most suspicious one, and if none is positive
        and the label of one does not tell, or is missing, neither does that of the group.
        """
        judge, per, how = inputs.judging.judge, options.per, options.aggregation
        if self.target.ndim == 2:
            raise DataError(
                f"some samples have several labels, which are not combined per {per}; leave 'per' out"
            )
        groups = torch.from_numpy(number_groups(inputs.table.units(per)[self.rows].numpy()))
        if asked is not None:
            place = torch.unique(groups, return_inverse=True)[1]
            labelled = torch.where(self.target >= 0, self.rows, len(inputs.nodes))
            first = _first_rows(labelled, place, len(inputs.nodes))
            target = asked.label_groups(self.target, groups, judge, apart=apart)
            if apart:
                suspicion = asked.scores(self.values)
                top = greatest(suspicion, place)
                said = greatest(suspicion + 2 * (asked.inside[self.predicted] == 1), place)
                return _Cases(self.values[top], self.predicted[said], target, first)
            grouped = group_probabilities(self.values, groups, how)
            return _Cases(grouped.probabilities, classes[grouped.columns], target, first)
        kept = ~in_conflict(self.target, groups, judge)
        left_out = len(torch.unique(groups[~kept]))
        if left_out:
            which = _name_units(inputs.table, per, self.rows[~kept])
            notes.append(
                f"{say_count(left_out, f'{name} {per}')} {'has' if left_out == 1 else 'have'} labels that "
                f"contradict each other: left out ({which})."
            )
        if not bool(kept.any()):
            raise _NoneAgree(f"no {per} of {name} samples has labels that agree with each other")
        grouped = group_probabilities(self.values[kept], groups[kept], how)
        place = torch.unique(groups[kept], return_inverse=True)[1]
        first = _first_rows(self.rows[kept], place, len(inputs.nodes))
        notes.append(f"{len(first)} {name} {per}s, each answered once ({how}), are the cases.")
        return _Cases(
            grouped.probabilities,
            classes[grouped.columns],
            group_labels(self.target[kept], groups[kept], judge),
            first,
        )


def _first_rows(rows: Tensor, place: Tensor, count: int) -> Tensor:
    """The first of the rows, below `count`, at each place `(g,)`."""
    first = torch.full((int(place.max()) + 1,), count)
    return first.scatter_reduce_(0, place, rows, "amin")


def _measure(
    answered: AnswerProbabilities,
    inputs: Inputs,
    options: NodeScoresOptions,
    parts_of_rows: list[Tensor],
    notes: list[str],
) -> tuple[dict[str, ProtocolResult], ProtocolResult]:
    """The results of the named sets of nodes, and that of all nodes.

    The rows are those of validation and test samples, and of samples without a label beside either.
    """
    judge, given = inputs.judging.judge, answered.given
    if given.gap:
        notes.append(f"The linear probe stopped up to {given.gap:.1%} (relative) above its minimum.")
    classes = inputs.judging.in_judge(given.classes)
    ends = np.cumsum([0, *map(len, parts_of_rows)]).tolist()
    parts = zip(pairwise(ends), parts_of_rows, strict=True)
    every = [_Cases.of(slice(*part), rows, given, inputs) for part, rows in parts]
    held, test = samples = every[:2]
    agreed = True
    if options.per != "sample":
        try:
            held, test = (
                cases.together(classes, inputs, options, name, notes)
                for name, cases in (("validation", held), ("test", test))
            )
        except _NoneAgree as error:
            if not options.questions:
                raise
            notes.append(f"Single nodes are not measured: {error}.")
            agreed = False
    elif not answered.by_probabilities and inputs.own_answers is not None:
        test = replace(test, predicted=inputs.judging.in_judge(inputs.own_answers.clamp_min(0)))
    asked = {}
    for words in options.questions:
        question = _Question.of(words, judge, classes)
        cases = [held, test]
        if options.per != "sample":
            apart = question.differ_in(inputs, options.per, samples, notes)
            cases = [
                (part.beside(unlabelled) if apart else part).together(
                    classes, inputs, options, "", notes, question, apart=apart
                )
                for part, unlabelled in zip(samples, every[2:], strict=True)
            ]
        asked[question.name] = question.judge(cases[0], cases[1], inputs, options, answered, notes)
    counts = {}
    if options.per != "sample":
        units = number_groups(inputs.table.units(options.per)[samples[1].rows].numpy())
        counts[f"test {options.per}s {CONFLICTING}"] = len(np.unique(units)) - agreed * len(test.rows)
    if not agreed:
        return asked, ProtocolResult("", counts=counts)
    result, nodes = _judge(held, test, judge, classes, inputs, options)
    result.counts.update(counts)
    ranked = ("auroc", "average_precision"), test.rows, test.values, test.target
    result.statistics.extend(ranking_statistic(*ranked, classes, nodes.told))
    if not result.statistics and TOO_MANY_NOTE not in notes:
        notes.append(TOO_MANY_NOTE)
    notes.extend(sentence for sentence in nodes.undefined() if sentence not in notes)
    return asked, result


def _judge(
    held: _Cases,
    test: _Cases,
    judge: AnyTaxonomy,
    classes: Tensor,
    inputs: Inputs,
    options: NodeScoresOptions,
) -> tuple[ProtocolResult, ReportedNodes]:
    """Every node of a taxonomy as a test; operating points come from the held-out cases."""
    thresholds = node_thresholds(
        held.values, held.target, judge, classes=classes, sensitivity=options.sensitivity
    )
    predicted = test.predicted
    decided = node_decision_metrics(predicted, test.target, judge)
    nodes = ReportedNodes.of(decided, judge, torch.from_numpy(Below(classes, judge).count), len(classes))
    ranking = node_ranking_metrics(test.values, test.target, judge, classes=classes)
    ranking = {name: values.masked_fill(~nodes.told, torch.nan) for name, values in ranking.items()}
    at = node_metrics_at(thresholds, test.values, test.target, judge, classes=classes)
    ranking |= {f"decision_{name}": decided[name] for name in RATES}
    ranking |= {f"point_{name}": at[name].masked_fill(~nodes.told, torch.nan) for name in RATES}
    result = node_result(ranking, nodes)
    units = inputs.units_of(test.rows)
    intervals, counted = NodeIntervals(result, units, judge), counted_nodes(ranking, nodes)
    of_groups = (test.target, judge, units.groups, units.count)
    intervals.add_ranking(
        test.values, test.target, classes, {name: counted[name] for name in list(counted)[:2]}
    )
    if units.resampling is not None:
        said = decided_nodes(predicted, *of_groups)
        intervals.add_rates("decision_", said, with_prefix("decision_", counted))
        said = nodes_at(thresholds, test.values, *of_groups, classes=classes)
        intervals.add_rates("point_", said, with_prefix("point_", counted), answers=False)
    result.by_node["point_threshold"] = nodes.named(thresholds)
    result.by_node["positives"] = nodes.named(nodes.positives.double())
    result.by_node["negatives"] = nodes.named(nodes.negatives.double())
    return result, nodes


def say_operating_point(name: str, thresholds: Sequence[float], chosen: object) -> str:
    """The threshold of a question in words; in a cross-validation that of each fold.

    Args:
        name: Of the question.
        thresholds: One, or one for each fold; NaN where there was none to choose.
        chosen: The option `operating_point`.
    """
    rule = "Youden's index" if chosen == "youden" else f"a sensitivity of {float(str(chosen)):g}"
    texts = ["none" if math.isnan(each) else f"{each:.4g}" for each in thresholds]
    if len(texts) == 1:
        return (
            f"{name}: the operating point, by {rule} on validation samples, is a probability of {texts[0]}."
        )
    return (
        f"{name}: the operating points, by {rule} on the validation samples of each fold, are probabilities "
        f"of {', '.join(texts)}; each sample is judged at that of the fold that tested it."
    )


def _say_judged(answered: AnswerProbabilities, options: NodeScoresOptions) -> str:
    """Which classifier is judged, for the title."""
    if answered.by_probabilities or options.per != "sample":
        return answered.words
    return (
        "the classifier whose answers came with the table; AUROC, average precision and operating points by "
        f"{answered.words}"
    )


def _name_units(table: EmbeddingTable, per: str, rows: Tensor) -> str:
    """The groups, or values of an attribute, of some rows, in words."""
    column = table.group_names if per == "group" else table.attribute(per)
    if column is None:
        column = table.units(per).numpy().astype(str)
    names = np.asarray(column)[rows.numpy()].tolist()
    if per != "group" and table.group_names is not None:
        groups = np.asarray(table.group_names)[rows.numpy()].tolist()
        names = [f"{group}/{name}" if group else name for group, name in zip(groups, names, strict=True)]
    return some(map(str, dict.fromkeys(names)), 3)


def _without_interval(result: ProtocolResult) -> str:
    """The rates of the decision, and AUROC, that have a value and no interval, in words."""
    named = {**{f"decision_{name}": metric_name(name) for name in RATES[:4]}, "auroc": "AUROC"}
    lacking = [
        words
        for key, words in named.items()
        if not math.isnan(result.scores.get(key, math.nan)) and key not in result.intervals
    ]
    return ", ".join(lacking)


class _Question(Question):
    """A question that is judged."""

    def differ_in(self, inputs: Inputs, per: str, samples: Sequence[_Cases], notes: list[str]) -> bool:
        """Whether groups are of different things, by the labels outside the test, with a note of it."""
        table, units = inputs.table, inputs.table.units(per)
        known = table.nodes > 0
        known[samples[1].rows] = False
        learnt = known.nonzero()[:, 0]
        told = inputs.judged_labels(learnt), units[learnt]
        differ, where = self.groups_differ(*told) if len(learnt) else None, "outside the test"
        if differ is None:  # nothing else is known
            where = "of validation and test"
            every = [(part.target, units[part.rows]) for part in samples]
            told = torch.cat([labels for labels, _ in every]), torch.cat([groups for _, groups in every])
            differ = bool(self.groups_differ(*told))
        with_positive, mixed = self.mixed(*told)
        test = samples[1]
        if differ:
            notes.append(
                f"{self.name}: of {say_count(with_positive, per)} {where} with a positive sample "
                f"and several, {mixed} also have a negative one: every {per} has the score of its most "
                "suspicious sample, and is answered so if any of its samples is. Where none is positive and "
                "the label of one is missing or too coarse, the truth is unknown."
            )
        elif count := self.mixed(test.target, units[test.rows])[1]:
            inside = self.inside[test.target.clamp_min(0)]
            ones, others = ((test.target >= 0) & (inside == side) for side in (1, 0))
            both = torch.isin(units[test.rows], units[test.rows[ones]])
            both &= torch.isin(units[test.rows], units[test.rows[others]]) & (units[test.rows] >= 0)
            notes.append(
                f"{self.name}: {say_count(count, f'test {per}')} with positive and negative labels "
                f"{'counts' if count == 1 else 'count'} as "
                f"positive ({_name_units(table, per, test.rows[both])})."
            )
        return differ

    def label_groups(self, target: Tensor, groups: Tensor, tree: AnyTaxonomy, *, apart: bool) -> Tensor:
        """The label `(g,)` of each group, the finest one; where labels contradict each other, what decides.

        One in the set does, else one that leaves it open, else any. Where samples of a group are `apart`, not
        of one thing, the label of one says nothing of another: a missing one leaves it open, too.
        """
        inside = self.inside[target.clamp_min(0)]
        rank = torch.where(
            target < 0, 2 if apart else 0, torch.where(inside == 1, 3, torch.where(inside == 0, 1, 2))
        )
        place = torch.unique(groups, return_inverse=True)[1]
        best = torch.zeros(int(place.max()) + 1, dtype=rank.dtype).scatter_reduce_(0, place, rank, "amax")
        decides = rank == best[place]
        labels = torch.full((len(best),), -1)
        labels.scatter_reduce_(0, place[decides], target[decides], "amax")
        if apart:
            return labels
        agreed = ~in_conflict(target, groups, tree)
        if bool(agreed.any()):
            labels[torch.unique(place[agreed])] = group_labels(target[agreed], groups[agreed], tree)
        return labels

    def judge(
        self,
        held: _Cases,
        test: _Cases,
        inputs: Inputs,
        options: NodeScoresOptions,
        answered: AnswerProbabilities,
        notes: list[str],
    ) -> ProtocolResult:
        """The scores of the set, whose intervals draw groups."""
        tree = Taxonomy.from_paths([("in",), ("out",)])
        node, other = tree.find("in"), tree.find("out")
        held, test = (self._asked(cases, node, other) for cases in (held, test))
        scores, _ = _judge(held, test, tree, torch.tensor([node, other]), inputs, options)
        result = ProtocolResult("")
        for key, values in scores.by_node.items():
            if key not in ("positives", "negatives"):
                result.scores[key] = values["in"]
                if "in" in scores.node_intervals.get(key, {}):
                    result.intervals[key] = scores.node_intervals[key]["in"]
        said, truth = test.predicted == node, test.target == node
        known, learnt = test.target >= 0, int((held.target == node).sum())
        right, wrong = int((said & truth & known).sum()), int((said & ~truth & known).sum())
        missed, left = int((~said & truth & known).sum()), int((~said & ~truth & known).sum())
        what = "sample" if options.per == "sample" else options.per
        undecided = len(test.target) - int(known.sum())
        cutoff = result.scores["point_threshold"]
        above = test.values[:, 0] >= cutoff  # nothing is above NaN, of which there are no rates
        result.columns.extend(self._rates("decision", said, truth, known, test.rows))
        chosen = known & (not math.isnan(cutoff))
        result.columns.extend(self._rates("point", above, truth, chosen, test.rows))
        if not math.isnan(cutoff):
            numbers_at = int((above & truth & known).sum()), int((~above & ~truth & known).sum())
            result.counts.update(zip((f"{self.name}: {of}" for of in POINT_COUNTS), numbers_at, strict=True))
            notes.append(say_operating_point(self.name, [cutoff], options.operating_point))
        numbers = right + missed, right, left + wrong, left, undecided
        result.counts.update(zip((f"{self.name}: {of}" for of in QUESTION_COUNTS), numbers, strict=True))
        own = not answered.by_probabilities and options.per == "sample"
        by = "the answers that came with the table" if own else answered.words
        coarse = f"; of {undecided} more the truth is unknown" if undecided else ""
        notes.append(
            f"{self.name}: of {right + missed} positive and {left + wrong} negative test {what}s, {right} "
            f"and {left} are answered right by {by} ({missed} missed, "
            f"{say_count(wrong, 'false alarm')}){coarse}."
        )
        if learnt < FEW_CASES:
            notes.append(
                f"{self.name}: the operating point rests on "
                f"{say_count(learnt, f'positive validation {what}')}: it will hardly have the same rates "
                "elsewhere."
            )
        if inputs.resampling is not None and (missing := _without_interval(result)):
            notes.append(
                f"{self.name}: no interval of {missing}: it takes {FEWEST_GROUPS} groups (without groups, "
                "samples) that count in it; a cross-validation (--folds 5) tests every group, and has an "
                "interval of the rates, not of AUROC, which is there the mean of the folds."
            )
        if not right + missed or not left + wrong:
            notes.append(f"{self.name}: without positive and negative cases no rate can be compared.")
        return result

    def _rates(self, kind: str, said: Tensor, truth: Tensor, known: Tensor, rows: Tensor) -> list[Column]:
        """The rates of a decision as means over cases, for comparisons and cross-validations."""
        cases = {
            "sensitivity": (said, truth),
            "specificity": (~said, ~truth),
            "ppv": (truth, said),
            "npv": (~truth, ~said),
        }
        return [
            Column(
                f"{kind}_{name}", right.double().masked_fill(~(known & counted), torch.nan), rows, kind=None
            )
            for name, (right, counted) in cases.items()
        ]

    def _asked(self, cases: _Cases, node: int, other: int) -> _Cases:
        """The same cases with the answer to this question alone; none where the label does not tell."""
        inside = self.inside[cases.target.clamp_min(0)]
        given = cases.target >= 0
        positive, negative = (inside == 1) & given, ((inside == 0) | ~given)
        if cases.target.ndim == 2:  # several labels
            positive, negative = positive.any(1), negative.all(1)
        known = given.any(1) if cases.target.ndim == 2 else given
        target = torch.where(positive, node, torch.where(negative & known, other, -1))
        p = self.scores(cases.values)
        said = torch.where(self.inside[cases.predicted] == 1, node, other)
        return _Cases(torch.stack([p, 1 - p], 1).clamp(0, 1), said, target, cases.rows)
