"""Why single answers: steps down the tree with the nearest training samples that speak for and against."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.decisions import ClassNodes, Promise, find_paths, fit_rule
from labeltree.decisions.answers import holds_truth
from labeltree.decisions.evidence_for_answers import Neighbour, Step, find_evidence
from labeltree.decisions.promise_samples import kept_for_probabilities
from labeltree.errors import DataError
from labeltree.evaluation import EvaluationResult
from labeltree.evaluation.chosen_samples import Samples, promise_rows, stratified_subsample
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.shown_samples.encode_pictures import ShownSamples
from labeltree.report.wording import percent
from labeltree.runs import EmbeddingTable
from labeltree.split_names import CALIB
from labeltree.taxonomy import Taxonomy

__all__ = [
    "Explained",
    "ExplainedRow",
    "Explanation",
    "choose_explained",
    "explain_samples",
    "explanation_rows",
]

_COVERAGE = 0.9
_CONSIDERED = 2000  # test samples, and as many that calibrate
_SEVERE, _COARSE, _RIGHT = 3, 2, 2


@dataclass(frozen=True)
class Explained:
    """A test sample, its answer, and the steps that lead to it.

    Attributes:
        row: Its row in the table.
        kind: `wrong` if the answer or the most probable class is; else `coarse`, above the label, or `right`.
        answer: The answered node.
        likely: The most probable class.
        probability: Of the most probable class.
        steps: With the nearest training samples.
    """

    row: int
    kind: str
    answer: int
    likely: int
    probability: float
    steps: list[Step]


@dataclass(frozen=True)
class Explanation:
    """Samples to explain, and the rows of the table that their neighbours' rows refer to.

    Attributes:
        samples: The explained samples.
        training: `(m,)` rows of the training samples.
        promised: Whether the answers keep a promise; otherwise they are the most probable classes.
    """

    samples: list[Explained]
    training: Tensor
    promised: bool


def explain_samples(
    result: EvaluationResult, table: EmbeddingTable, chosen: Samples, taxonomy: Taxonomy
) -> Explanation | None:
    """Explain the most severe mistakes, some coarse answers and some typical right ones.

    Answers are as fine as a promised coverage of 90 % allows, if there are validation samples to calibrate
    on; without any, they are the most probable classes. At most 2,000 test samples are considered.

    Args:
        result: Of the evaluation, with its classifiers.
        table: The table that was evaluated.
        chosen: Its rows by use.
        taxonomy: Of its labels.

    Returns:
        None if the result has no classifiers, or there is nothing to explain.
    """
    seed = result.settings.seed
    test = chosen.test[chosen.finest[table.nodes[chosen.test]]]
    test = stratified_subsample(test, table.nodes[test], _CONSIDERED, seed)
    training = chosen.train[table.nodes[chosen.train] > 0]
    if result.classifiers is None or chosen.one_class is not None or not len(test) or not len(training):
        return None
    scorer = result.classifiers.scores(result.classifiers.with_scores)
    classes = ClassNodes(scorer.classes, taxonomy)
    tested, labels = table.rows(test), table.nodes[test]
    scores = scorer(tested)
    probabilities, answers, promised = torch.softmax(scores.double(), 1), None, False
    held, stored = promise_rows(table), result.classifiers.calibrated
    rule = None if stored is None else stored.rule
    if (
        rule is None
        and len(held)
        and not bool(torch.isin(held, chosen.train).any())
        and chosen.split not in ("val", "train", CALIB)
    ):
        held = stratified_subsample(held, table.nodes[held], _CONSIDERED, seed)
        groups = None if table.groups is None else table.groups[held]
        with suppress(DataError):  # too few samples to calibrate on: nothing is promised
            rule = fit_rule(
                scorer(table.rows(held)),
                table.nodes[held],
                classes,
                groups=groups,
                seed=seed,
                for_probabilities=kept_for_probabilities(table.rows(held)),
            )
    if rule is not None:
        with suppress(DataError):
            answers = rule.answer(scores, Promise(_COVERAGE), top=1).nodes
            probabilities, promised = rule.probabilities(scores), True
    likely = scorer.classes[probabilities.argmax(1)]
    paths = find_paths(probabilities, classes)
    if answers is None:
        answers, paths = likely, find_paths(probabilities, classes, "leaf")
    picked = choose_explained(labels, likely, answers, probabilities.amax(1), taxonomy)
    places = torch.tensor([place for place, _ in picked], dtype=torch.int64)
    steps = find_evidence(
        tested.rows(places),
        table.rows(training),
        paths.nodes[places],
        answers[places],
        probabilities[places],
        classes,
        taxonomy,
    )
    explained = [
        Explained(
            int(test[place]),
            kind,
            int(answers[place]),
            int(likely[place]),
            float(probabilities[place].max()),
            s,
        )
        for (place, kind), s in zip(picked, steps, strict=True)
    ]
    return Explanation(explained, training, promised)


def choose_explained(
    labels: Tensor, likely: Tensor, answers: Tensor, certain: Tensor, taxonomy: Taxonomy
) -> list[tuple[int, str]]:
    """Places of samples to explain, each with its kind (see `Explained`); each mistake once.

    Args:
        labels: `(n,)` true classes.
        likely: `(n,)` most probable classes.
        answers: `(n,)` answered nodes.
        certain: `(n,)` probabilities of the most probable classes.
        taxonomy: Of the nodes.
    """
    holds = holds_truth(answers, labels, taxonomy)
    wrong = (likely != labels) | ~holds
    mistakes = torch.where(likely != labels, likely, answers)
    severity = taxonomy.lca_height(mistakes, labels).double()
    coarse = holds & (answers != labels) & (answers > 0)
    right = ~wrong & ~coarse
    orders = (
        ("wrong", wrong, -severity - certain, _SEVERE),
        ("coarse", coarse, -certain, _COARSE),
        ("right", right, (certain - certain[right].median() if bool(right.any()) else certain).abs(), _RIGHT),
    )
    picked: list[tuple[int, str]] = []
    taken: set[int] = set()
    for kind, those, key, most in orders:
        pairs: set[tuple[int, int]] = set()
        rows = those.nonzero()[:, 0]
        for place in rows[key[rows].argsort(stable=True)].tolist():
            pair = int(labels[place]), int(mistakes[place])
            if len(pairs) == most:
                break
            if pair not in pairs and place not in taken:
                pairs.add(pair)
                taken.add(place)
                picked.append((place, kind))
    return picked


@dataclass(frozen=True)
class NearRow:
    """A training sample as the report shows it."""

    label: str
    path: str
    distance: str
    name: str
    source: str | None
    text: str | None
    nearer: bool


@dataclass(frozen=True)
class StepRow:
    """A step as the report shows it."""

    name: str
    path: str
    probability: str
    taken: bool
    speaks_for: NearRow | None
    speaks_against: NearRow | None


@dataclass(frozen=True)
class ExplainedRow:
    """A sample as the report shows it: its heading, what it is, and its steps."""

    heading: str
    verdict: str
    name: str
    source: str | None
    text: str | None
    steps: list[StepRow]


_VERDICTS = {"wrong": "wrong", "coarse": "answered coarsely", "right": "right"}


def explanation_rows(
    explanation: Explanation | None, samples: ShownSamples, taxonomy: Taxonomy, names: NodeNames
) -> list[ExplainedRow]:
    """Describe the explained samples.

    Args:
        explanation: The samples.
        samples: Of the table.
        taxonomy: Of the labels.
        names: What to call the nodes.
    """
    if explanation is None:
        return []
    table, visible = samples.table, samples.visible
    rows = [each.row for each in explanation.samples]
    for step in (step for each in explanation.samples for step in each.steps):
        near = filter(None, (step.speaks_for, step.speaks_against))
        rows += [int(explanation.training[neighbour.row]) for neighbour in near]
    pictures, written = samples.draw(rows, 64)

    def name(row: int) -> str:
        if table.paths is not None and str(table.paths[row]):
            return "/".join(Path(str(table.paths[row])).parts[-2:])  # not where the data lay
        if visible is not None and not bool(visible[row]):
            return ""
        return f"sample {row if table.instances is None else int(table.instances[row])}"

    def near_row(neighbour: Neighbour | None, other: Neighbour | None) -> NearRow | None:
        if neighbour is None:
            return None
        row = int(explanation.training[neighbour.row])
        nearer = other is None or neighbour.distance < other.distance
        return NearRow(
            names.short(neighbour.node),
            names.full(neighbour.node),
            f"{neighbour.distance:.3f}",
            name(row),
            pictures.get(row),
            written.get(row),
            nearer,
        )

    def step_row(step: Step) -> StepRow:
        ours, theirs = step.speaks_for, step.speaks_against
        return StepRow(
            taxonomy.names[step.node],
            names.full(step.node),
            percent(step.probability),
            step.taken,
            near_row(ours, theirs),
            near_row(theirs, ours),
        )

    described = []
    for each in explanation.samples:
        label = int(table.nodes[each.row])
        verdict = _VERDICTS[each.kind]
        if each.kind == "wrong":
            what, node = (
                ("answer", each.answer) if each.likely == label else ("most probable class", each.likely)
            )
            steps = int(taxonomy.lca_height(node, label))
            verdict = f"{what} wrong, {say_count(steps, 'step')} off"
        answer = names.short(each.answer) if each.answer > 0 else "nothing finer than the whole tree"
        heading = f"{names.short(label)}, answered {answer}"
        if each.answer != each.likely:
            heading += f", most probable {names.short(each.likely)} ({percent(each.probability, 0)})"
        described.append(
            ExplainedRow(
                heading,
                verdict,
                name(each.row),
                pictures.get(each.row),
                written.get(each.row),
                [step_row(step) for step in each.steps],
            )
        )
    return described
