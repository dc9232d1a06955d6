"""Prediction: answers of a calibrated run for images, texts, other data or a split of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from labeltree.counted_nouns import plural, say_count
from labeltree.data import Source
from labeltree.data.copies import join_copies
from labeltree.data.held_out_sizes import FEWEST_FOR_DRIFT
from labeltree.data.object_stores import local_copy
from labeltree.decisions import METRIC_COSTS, Answers, DecisionRule, Promise, TreeCost, read_costs
from labeltree.decisions.conformal import advised_coverage
from labeltree.decisions.drift import Drift
from labeltree.decisions.promise_samples import PromiseSamples, are_unpromised
from labeltree.errors import DataError, typed
from labeltree.inference.answers.answered import Answered
from labeltree.inference.answers.asked_questions import question_scores, read_questions
from labeltree.inference.calibrate_run import open_decider
from labeltree.inference.decider import USUAL_CHOICES, Decider, answer_scores_by, read_choices
from labeltree.inference.explain import explain
from labeltree.inference.load_run import TrainedRun, load_run
from labeltree.inference.named_samples import (
    NamedSamples,
    lacks_groups,
    list_names,
    name_samples,
    name_unit,
    open_images,
    open_other,
    open_texts,
    seen_in_training,
    seen_since_training,
    table_settings,
    text_settings,
    with_texts,
)
from labeltree.inference.other_version import run_on
from labeltree.inference.run_classifiers import other_report, run_classifiers
from labeltree.metrics.catalogue import metric_name
from labeltree.metrics.functional import group_labels
from labeltree.metrics.functional.pool_groups import in_conflict
from labeltree.options.answer_options import AnswerOptions, PredictOptions
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.versions.between_versions import check_version

__all__ = [
    "Answered",
    "Request",
    "answer",
    "answer_with",
    "asked_text",
    "promise_text",
    "way_of_answering",
]


@dataclass(frozen=True)
class Request:
    """The samples to answer for: image files, texts or both, other data, or a split of the run's own.

    Attributes:
        images: Image files.
        texts: Texts.
        data: a folder, a table or a data set.
        data_path: Folder of a data set that is given by name.
        split: Split of the run's own data.
        labelled: Compare the answers with labels.
        named: Samples that are open already, instead of all of these.
        table: Settings of a table that differ from those of training, by name.
        questions: Named sets of nodes, `NAME=NODE,NODE`, whose probability is told, too.
    """

    images: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    data: str | None = None
    data_path: str | None = None
    split: str | None = None
    labelled: bool = False
    named: NamedSamples | None = None
    table: Mapping[str, Any] | None = None
    questions: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: PredictOptions) -> Request:
        """The samples that options name; labels of the run's own samples are compared with."""
        return cls(
            images=tuple(map(str, options.images)),
            texts=tuple(options.texts),
            data=None if options.data is None else str(options.data),
            data_path=None if options.data_path is None else str(options.data_path),
            split=options.split,
            labelled=options.labelled or options.split is not None,
            table=options.table,
            questions=tuple(options.questions),
        )


def answer(options: PredictOptions) -> Answered:
    """Answer for the samples that are named; a run that is not calibrated yet is calibrated first.

    Raises:
        LabeltreeError: If the run, the samples or the costs are missing, unreadable or unsuitable.
        ValueError: If an option is not valid.
    """
    check_version(options.taxonomy, options.mapping)
    of_own_samples = options.split is not None
    path = Path(options.run)
    loaded: Path | TrainedRun = path
    if options.taxonomy is not None:
        loaded = run_on(
            load_run(path, own_data=of_own_samples, verify=options.verify),
            options.taxonomy,
            options.mapping,
        )
    decider = open_decider(loaded, options.classifier, own_data=of_own_samples, verify=options.verify)
    return answer_with(
        decider, Request.of(options), options, warning=_warning(decider, of_own_samples=of_own_samples)
    )


def _warning(decider: Decider, *, of_own_samples: bool) -> str | None:
    """What differs between these answers and what the folder of the run says or answers otherwise."""
    folder = decider.run.folder
    if of_own_samples and folder.extensions:
        return (
            f"the run's own samples are answered as before its extension; 'labeltree extend "
            f"{typed(folder.path)}' says what that added"
        )
    return None if decider.run.base is not None else other_report(folder.path, decider.chosen)


_NEAR = 0.97  # of the most that groups can promise


class _Asked(NamedTuple):
    """What is asked of answers, in words, the costs if these are to be small, and whether answers are cut.

    `limit` is a sentence if the calibration groups can hardly promise it, else empty. `cases` is what one
    answer was calibrated for, such as samples.
    """

    words: str
    price: TreeCost | Tensor | None
    is_cut: bool = True
    limit: str = ""
    cases: str = "calibration samples"

    @property
    def sentence(self) -> str:
        """A sentence if no answer is coarser for being unsure, or many are for few groups; else empty."""
        if self.is_cut:
            return self.limit
        return f"No answer is coarser for being unsure: the {self.cases} reach this coverage without that."


def answer_with(
    decider: Decider, request: Request, options: AnswerOptions, *, warning: str | None = None
) -> Answered:
    """Answer with a run that is already open; see `answer`.

    Args:
        decider: The run; for a split of its own data, opened with `own_data=True`.
        request: The samples.
        options: What is asked of the answers.
        warning: a warning to include in the result.
    """
    rule, per = decider.rule, options.per
    unit = per or "sample"
    # check all options before the samples are read
    if per is not None:
        columns = _group_columns(decider)
        per = "group" if per in columns else per
        unit = next(iter(columns), per) if per == "group" else per
        options = replace(options, per=per)
        rule = decider.group_rule(per).rule
    try:
        wanted = _asked(rule, decider, options, unit)
    except DataError as error:
        conflicts = 0 if per is None else decider.group_rule(per).conflicts
        if not conflicts:
            raise
        raise DataError(f"{error}. {_say_conflicts(decider, conflicts, unit, per)}") from error
    price = wanted.price
    asked = asked_text(decider, wanted.words, options.unknown)
    if per is not None:
        asked = f"{wanted.words}, one answer for each {unit}"
    known = decider.promise_samples
    rests_on = PromiseSamples.of(
        rule,
        known.kind,
        source=known.source,
        chose=known.chose,
        unit=unit,
        unpromised=known.unpromised,
    )
    said: dict[str, Any] = {
        "asked": asked,
        "classifier": decider.chosen.sentence,
        "rests_on": "" if price is not None else _lines(rests_on.sentence, wanted.sentence),
        "warning": _lines(warning, decider.doubt, "" if per else decider.cannot_tell(options.unknown)),
        "about": decider.about(asked),
    }
    questions = read_questions(request.questions, rule.classes)
    named = _open(decider, request, per)
    if named.source is None:
        objective = decider.run.network.objective
        empty = EmbeddingTable(torch.empty(0, objective.dim), torch.empty(0, dtype=torch.int64))
        nothing = decider.answer(empty, options, price)
        return Answered(named.names, nothing, decider.run.taxonomy, skipped=named.skipped, **said)
    source = named.source
    if request.labelled and request.data is not None:
        alone = lacks_groups(source, decider.run, "intervals are too narrow")
        source, copied = join_copies(source)
        said["warning"] = _lines(said["warning"], alone, *copied)
    task = _Task(decider, request, options, price, named, source, decider.embed(source))
    if questions:
        scores, told = question_scores(questions, decider, task.table, per, unit)
        said |= {"questions": scores, "rests_on": _lines(said["rests_on"], told)}
    return _answer_samples(task, said) if per is None else _answer_groups(task, said, per, unit)


def _say_conflicts(decider: Decider, conflicts: int, unit: str, per: str | None) -> str:
    """How many held-out units have labels that contradict each other, and what else may be answered for."""
    have = f"{say_count(conflicts, f'held-out {unit}')} {'has' if conflicts == 1 else 'have'}"
    said = f"{have} labels that contradict each other"
    if per != "group":
        return f"{said}, and cannot be counted"
    kept = decider.run.columns.get("kept", ())
    which = f"the run keeps ({some(kept, 3)})" if kept else "training keeps, see --table.keep_columns"
    why = "as several lesions of a patient may, and cannot be counted"
    return f"{said}, {why}: answer for smaller units, such as lesions, --per a column that {which}"


def _lines(*parts: str | None) -> str | None:
    """Sentences that there are, one a line; None without any."""
    return "\n".join(part for part in parts if part) or None


@dataclass(frozen=True)
class _Task:
    """Samples that are embedded, and what is asked of their answers.

    Attributes:
        decider: The run.
        request: The samples.
        options: What is asked of the answers.
        price: Their costs, if these are to be small.
        named: The names of the samples.
        source: Those that could be read.
        table: Their embeddings.
    """

    decider: Decider
    request: Request
    options: AnswerOptions
    price: TreeCost | Tensor | None
    named: NamedSamples
    source: Source
    table: EmbeddingTable

    def drift(self) -> Drift | str | None:
        """The drift test of the batch; why it cannot be made.

        None for few samples that are named one by one, without references, or for the run's own samples.
        """
        table, rule = self.table.rows(~self.seen), self.decider.drift
        fewest = FEWEST_FOR_DRIFT if self.request.data is None else 1
        if self.request.split is not None or len(table) < fewest or rule is None:
            return None
        seen = rule.seen(table, self.decider.rule.probabilities(self.decider.scores(table)))
        return rule.cannot_test(seen) or rule.test(seen)

    @cached_property
    def seen(self) -> Tensor:
        """Which samples `(n,)` bool the run was trained, extended or calibrated with, if labels are read."""
        if not self.request.labelled:
            return torch.zeros(len(self.table), dtype=torch.bool)
        run, source = self.decider.run, self.source
        return torch.from_numpy(seen_in_training(run, source) | seen_since_training(run, source))


def _answer_samples(task: _Task, said: dict[str, Any]) -> Answered:
    """One answer for each sample."""
    decider, options, table, taxonomy = task.decider, task.options, task.table, task.source.taxonomy
    rule, unknown = decider.rule, options.unknown
    answers = decider.answer(table, options, task.price)
    labels = table.nodes if task.request.labelled else None
    judged = None if labels is None else rule.classes.judges(labels) & ~task.seen
    coverage, called = None, None
    if labels is not None and answers.unknown is not None and unknown and not decider.cannot_tell(unknown):
        from labeltree.inference.coverage import count_called_unknown

        later = are_unpromised(labels, decider.unpromised, taxonomy)
        fresh = labels.masked_fill(task.seen | later, -1)
        held = 0 if decider.novelty is None else decider.novelty.known.count
        called = count_called_unknown(
            answers.unknown, fresh, rule.classes.nodes, taxonomy, unknown, held, table.groups
        )
    if judged is not None and task.price is None:
        from labeltree.inference.coverage import measure_coverage  # only labelled samples need it

        plain = None
        if answers.unknown is not None and bool(answers.unknown.any()):
            plain, strange = answers.nodes.clone(), answers.unknown
            plain[strange] = decider.answer(table.rows(strange), replace(options, unknown=0.0)).nodes
        promised = options.promise, rule.fitted.num_groups
        later = are_unpromised(table.nodes, decider.unpromised, taxonomy)
        coverage = measure_coverage(answers.nodes, table, judged, taxonomy, *promised, plain, later=later)
        if coverage is not None:
            coverage = replace(coverage, measured_alike=_is_evaluated(task))
    return Answered(
        task.named.names,
        answers,
        taxonomy,
        labels=labels,
        judged=judged,
        seen=None if labels is None else task.seen,
        skipped=task.named.skipped,
        drift=task.drift(),
        why=explain(decider, table, answers) if options.explained else None,
        geometry=table.geometry,
        coverage=coverage,
        called_unknown=called,
        given=task.named.given,
        one_each=task.named.one_each,
        **_add_advice(said, decider, answers),
    )


def _is_evaluated(task: _Task) -> bool:
    """Whether `labeltree evaluate` measures the same answers, before samples are called unknown."""
    from labeltree.evaluation.protocols.decisions import DecisionOptions

    promise, record, usual = task.options.promise, task.decider.record, DecisionOptions()
    return (
        (task.request.split is None or task.decider.run.change is None)
        and not bool(task.seen.any())
        and promise.coverage in usual.coverages
        and promise.counted == usual.counted
        and {**USUAL_CHOICES, **read_choices(record)} == USUAL_CHOICES
    )


def _add_advice(said: dict[str, Any], decider: Decider, answers: Answers) -> dict[str, Any]:
    """The sentences beside the answers, with what to do on another version of the taxonomy.

    That is, if some answers are above the parts of a split class, or nothing says why a class is gone.
    """
    run = decider.run
    if run.change is None or run.base is None:
        return said
    at = torch.isin(answers.nodes, decider.coarse_classes)
    classes = run_classifiers(run.base).scores(decider.chosen.name).classes
    places = run.change.places[classes]
    split = run.change.split_advice(classes[torch.isin(places, answers.nodes[at])], str(run.folder.home.path))
    return said | {"warning": _lines(said["warning"], run.change.unexplained(classes), split)}


def _answer_groups(task: _Task, said: dict[str, Any], per: str, unit: str) -> Answered:
    """One answer for each group of samples, named as in the table; samples without a group answer alone.

    A group is answered by those of its images that can be read, and says how many cannot. Groups of which
    none can be read come last, with images that cannot be read and are in no group.
    """
    decider, options, table = task.decider, task.options, task.table
    if per == "group" and not table.tells_groups:
        raise DataError(
            f"'{task.source.name}' has no groups to answer for; name their column as in training, "
            "table.group_column"
        )
    chosen, units = decider.group_rule(per), table.units(per)
    groups, scores = chosen.combine(decider.rule.probabilities(decider.scores(table)), units)
    answers = decider.marked(answer_scores_by(chosen.rule, scores, options, task.price)[0])
    said = _add_advice(said, decider, answers)
    names = _unit_names(groups, units, task.source, per)
    labels = judged = seen = contradictory = coverage = None
    if task.request.labelled:
        conflicted = torch.zeros(len(table), dtype=torch.bool)
        known = table.nodes >= 0
        conflicted[known] = in_conflict(table.nodes[known], units[known], decider.run.taxonomy)
        labels = group_labels(table.nodes.masked_fill(conflicted, -1), units, decider.run.taxonomy)
        alone = iter(task.seen[units < 0].tolist())
        taught = set(units[task.seen].tolist())
        seen = torch.tensor([next(alone) if group < 0 else group in taught for group in groups.tolist()])
        judged = chosen.rule.classes.judges(labels) & ~seen
        contradictory = torch.isin(groups, units[conflicted])
        if bool(conflicted.any()):
            many = len(torch.unique(units[conflicted]))
            contradiction = (
                f"{say_count(many, unit)} with labels that contradict each other: answered, and "
                "compared with no label"
            )
            said = said | {"warning": _lines(said["warning"], contradiction)}
        if task.price is None:
            from labeltree.inference.coverage import measure_coverage

            of_units = _table_by_unit(table, units, per, labels, judged)
            promised = options.promise, chosen.rule.fitted.num_groups
            later = are_unpromised(labels, decider.unpromised, decider.run.taxonomy)
            coverage = measure_coverage(
                answers.nodes,
                of_units,
                judged,
                decider.run.taxonomy,
                *promised,
                unit=unit,
                samples=table,
                later=later,
            )
    partly, lost = _count_unreadable(task, per, names, groups, units)
    if partly:
        some_of = say_count(len(partly), unit)
        incomplete = f"{some_of} answered without what cannot be read; 'unreadable' says how many that are"
        said = said | {"warning": _lines(said["warning"], incomplete)}
    return Answered(
        [*names, *(name for name, _ in lost)],
        answers,
        task.source.taxonomy,
        labels=labels,
        judged=judged,
        contradictory=contradictory,
        seen=seen,
        skipped={len(names) + place: reason for place, (_, reason) in enumerate(lost)},
        unreadable=partly,
        drift=task.drift(),
        coverage=coverage,
        **(said | {"classifier": f"{said['classifier']} {chosen.sentence(unit)}"}),
    )


def _count_unreadable(
    task: _Task, per: str, names: Sequence[str], groups: Tensor, units: Tensor
) -> tuple[dict[int, str], list[tuple[str, str]]]:
    """What could not be read: by place, in groups that are answered; then names and reasons without answer.

    Args:
        task: The samples.
        per: What one answer is for.
        names: The names of the answers.
        groups: `(g,)` the group of each answer, −1 for a sample alone.
        units: `(n,)` the group of each sample that was read.
    """
    named, places = task.named, {name: at for at, name in enumerate(names) if int(groups[at]) >= 0}
    what = "picture" if task.source.modalities == ("image",) else "sample"
    partly: dict[int, str] = {}
    lost: list[tuple[str, str]] = []
    for unit, skipped in named.skipped_by_unit(per).items():
        if not unit:
            lost += [(named.names[place], named.skipped[place]) for place in skipped]
        elif unit in places:
            count = len(skipped) + int((units == groups[places[unit]]).sum())
            partly[places[unit]] = f"{len(skipped)} of {say_count(count, what)} unreadable"
        else:
            example = f"'{named.names[skipped[0]]}': {named.skipped[skipped[0]]}"
            count = len(skipped)
            lost.append((unit, f"{count} of {say_count(count, what)} unreadable, such as {example}"))
    return partly, lost


def _table_by_unit(
    table: EmbeddingTable, units: Tensor, per: str, labels: Tensor, judged: Tensor
) -> EmbeddingTable:
    """A row for each unit, in the order of answers; an attribute that differs within it is `(several)`."""
    named, place = torch.unique(units[units >= 0], return_inverse=True)
    rows = torch.arange(len(units))
    first = torch.full((len(named),), len(units)).scatter_reduce_(0, place, rows[units >= 0], "amin")
    picked = table.rows(torch.cat([first, rows[units < 0]]))
    attributes = {}
    for name, values in table.attributes.items():
        codes = np.unique(values[(units >= 0).numpy()], return_inverse=True)[1].reshape(-1)
        pairs = np.unique(np.stack([place.numpy(), codes]), axis=1)
        differ = np.zeros(len(picked), bool)
        differ[: len(named)] = np.bincount(pairs[0], minlength=len(named)) > 1
        if not differ.all():
            attributes[name] = np.where(differ, "(several)", picked.attributes[name])
    attributes.pop(per, None)
    if per == "group":
        assert picked.groups is not None
        named = picked.groups[judged & (picked.groups >= 0)]
        joined = len(torch.unique(named)) < len(named)  # patients with a copy of the same picture
        picked = replace(picked, groups=picked.groups if joined else None, group_names=None)
    return replace(picked, nodes=labels, label_sets=None, attributes=attributes)


def _unit_names(units: Tensor, of_samples: Tensor, source: Source, per: str) -> list[str]:
    """The names of groups in the table, else their numbers; of samples without a group, their own names.

    What lies within groups is named with its group: `patient 7/left arm`.
    """
    alone = iter((of_samples < 0).nonzero()[:, 0].tolist())
    samples = list_names(source) if bool((units < 0).any()) else []
    first = {int(unit): row for row, unit in reversed(list(enumerate(of_samples.tolist())))}
    groups = source.group_names
    if groups is not None and per == "group":  # a patient with one image
        samples = [str(group) or sample for group, sample in zip(groups, samples, strict=bool(samples))]

    def name(unit: int) -> str:
        row = first[unit]
        group = "" if groups is None else str(groups[row])
        value = None if per == "group" else str(source.attributes[per][row])
        return name_unit(group, value) or f"group {unit}"

    return [samples[next(alone)] if unit < 0 else name(unit) for unit in units.tolist()]


def way_of_answering(
    decider: Decider, options: AnswerOptions
) -> tuple[str, Callable[[EmbeddingTable], Answers]]:
    """A description of the required coverage or cost, and the function from embedded samples to answers.

    Raises:
        DataError: If the file of costs is missing or malformed.
        ValueError: If an option is not valid.
    """
    wanted = _asked(decider.rule, decider, options)
    asked = asked_text(decider, wanted.words, options.unknown)
    return asked, lambda table: decider.answer(table, options, wanted.price)


def asked_text(decider: Decider, wanted: str, unknown: float) -> str:
    """What is asked of answers, in words: the coverage or cost, and the share that may be called unknown."""
    return f"{wanted}; unknown {unknown:g}{' (cannot be told)' if decider.cannot_tell(unknown) else ''}"


def promise_text(promise: Promise) -> str:
    """What a promise asks of answers, in words."""
    return f"coverage {promise.coverage:g}, {promise.method}"


def _asked(rule: DecisionRule, decider: Decider, options: AnswerOptions, unit: str = "sample") -> _Asked:
    """What is asked of answers."""
    if options.cost is not None:
        price = _read_price(decider, options.cost, options.coarse)
        return _Asked(f"least expected cost by {options.cost}", price)
    if options.optimise is not None:
        return _Asked(f"best expected {metric_name(options.optimise)}", METRIC_COSTS[options.optimise])
    cases = f"calibration {plural(unit)}"
    bars = rule.bars(options.promise, options.by_depth, cases)
    limit = near_limit(rule, options.promise)
    return _Asked(promise_text(options.promise), None, bool((bars > 0).any()), limit, cases)


def near_limit(rule: DecisionRule, promise: Promise) -> str:
    """A sentence if a coverage of samples is close to the most that their groups can promise; else none."""
    count = rule.fitted.num_groups
    alone = len(rule.fitted) == count or promise.counted == "group" or promise.method != "conformal"
    if alone or promise.confidence is not None or promise.coverage < _NEAR * count / (count + 1):
        return ""
    finer = f"with --coverage {advised_coverage(count):g} they are finer"
    return (
        f"A coverage of {promise.coverage:g} is close to the most that {count} groups can promise: their "
        f"least sure samples decide, and answers are coarse; {finer}."
    )


def _group_columns(decider: Decider) -> tuple[str, ...]:
    """The columns that the run's groups came from, which mean the groups."""
    run = decider.run
    named = run.recipe.table.group_column
    return (*run.columns.get("groups", ()), *(() if named is None else (named,)))


def _pairs(decider: Decider, request: Request) -> NamedSamples:
    """Image files, each with its text."""
    if decider.run.network.encoder.modality != "both":
        raise DataError("the run does not read images and texts together; give image files or --text alone")
    if len(request.images) != len(request.texts):
        raise DataError(
            f"there are {len(request.images)} image files and {len(request.texts)} texts; give a "
            "--text for each"
        )
    opened = open_images(decider.run, request.images)
    return with_texts(decider.run, opened, [True] * len(request.images), request.texts)


def _open(decider: Decider, request: Request, per: str | None = None) -> NamedSamples:
    if request.named is not None:
        return request.named
    if request.images and request.texts:
        return _pairs(decider, request)
    if request.images:
        return open_images(decider.run, request.images)
    if request.texts:
        return open_texts(decider.run, request.texts)
    if request.data is not None:
        source = open_other(
            decider.run,
            request.data,
            data_path=request.data_path,
            unlabelled=not request.labelled,
            judged=request.labelled,
            kept=() if per in (None, "group") else (str(per),),
            on_error="list",
            table=request.table,
        )
        path, given = Path(local_copy(request.data)), table_settings(request.table).columns
        return name_samples(source, request.data, **text_settings(decider.run, path, given))
    return name_samples(replace(decider.run.source.of_split(request.split or "test"), unread={}))


def _read_price(decider: Decider, cost: str, coarse: float | None) -> TreeCost | Tensor:
    if cost in ("tree", "edges"):
        return TreeCost("height" if cost == "tree" else "edges", coarse)
    return read_costs(cost, decider.rule.classes)
