"""The result of an evaluation, `metrics.json`: every number, and the representation it was measured on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers
from labeltree.errors import DataError
from labeltree.evaluation.answer_columns import ANSWERS, CLASSIFIER_ROLES, PREFIX, is_of_answers
from labeltree.evaluation.chosen_samples import Samples
from labeltree.evaluation.error_tree import TreeErrors
from labeltree.evaluation.json_numbers import Bounds, from_fields
from labeltree.evaluation.outcomes import Outcomes
from labeltree.evaluation.representations import Representation
from labeltree.evaluation.sample_columns import Column, Number, Place
from labeltree.evaluation.statistics import Statistic
from labeltree.metrics.catalogue import metric_name
from labeltree.notebooks import html_sentences, html_table
from labeltree.options.evaluation import EvaluationSettings
from labeltree.runs.run_folder import plain_json
from labeltree.safe_files import Reader, fits, read_json

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "NOT_MEASURED",
    "AspectResult",
    "AttributeResult",
    "Bounds",
    "EvaluationResult",
    "MethodResult",
    "NumberRow",
    "ProtocolResult",
    "aspect_means",
    "bracket_sentence",
    "counted_units",
]

FORMAT = 1
_RESULT = Reader("the result of an evaluation", "run 'labeltree evaluate' again")

_ANSWERS = ("top1", "hierarchical_f1")
_SEARCH = ("recall_at_1", "map_at_r")
"""The metrics that a notebook shows: of the classifier that answers, and of search among embeddings."""
_INTERVALS = ("intervals", "depth_intervals", "node_intervals", "curve_intervals")
NOT_MEASURED = "Not measured: "
"""Beginning of the only note in the result of a protocol that is not defined for the table."""
_ROUNDING = 1e-9
_STRUCTURE = ("parent_violations", "parent_order_accuracy", "pair_violations", "cpcc")
_AT_DEPTH = re.compile(r"_at_depth_(\d+)$")
_NO_ENDS = (math.nan, math.nan)
_NAMED = ("scores", "by_depth", "by_node", "curves", "axes", *_INTERVALS)


@dataclass(frozen=True)
class ProtocolResult:
    """The numbers of one protocol for one method.

    If a protocol reads features and embeddings, names begin with the representation: `features.top1`,
    `embeddings.top1`.

    Attributes:
        title: one-line description.
        scores: Name → value; NaN if it is not defined for these samples.
        by_depth: Name → values at depth 1 … L, coarse → fine.
        by_node: Name → path name of a node (`/` for the root) → value over the samples labelled at or below
            the node.
        curves: Name → values along an axis other than depth.
        axes: Name of a curve → positions of its values (`[1, 5, 20]` neighbours).
        counts: Numbers of samples and classes by use.
        notes: Sentences on the representations and samples used and on those left out.
        intervals: Name of a score → lower and upper end of its confidence interval; NaN or missing if there
            is none.
        depth_intervals: Intervals of `by_depth`, a pair for each depth.
        node_intervals: Intervals of `by_node`.
        curve_intervals: Intervals of `curves`.
        columns: per-sample outcomes behind the numbers, for comparisons; not saved in `metrics.json`.
        statistics: The data behind numbers that are not means over samples; not saved in `metrics.json`.
        of: The `Inputs` of the table that the protocol measured, if that is not the evaluated one.
    """

    title: str
    scores: dict[str, float] = field(default_factory=dict)
    by_depth: dict[str, list[float]] = field(default_factory=dict)
    by_node: dict[str, dict[str, float]] = field(default_factory=dict)
    curves: dict[str, list[float]] = field(default_factory=dict)
    axes: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    intervals: dict[str, Bounds] = field(default_factory=dict)
    depth_intervals: dict[str, list[Bounds]] = field(default_factory=dict)
    node_intervals: dict[str, dict[str, Bounds]] = field(default_factory=dict)
    curve_intervals: dict[str, list[Bounds]] = field(default_factory=dict)
    columns: list[Column] = field(default_factory=list, compare=False, repr=False)
    statistics: list[Statistic] = field(default_factory=list, compare=False, repr=False)
    of: Any = field(default=None, compare=False, repr=False)

    @property
    def refusal(self) -> str | None:
        """The reason why nothing was measured; None if the protocol has scores."""
        first = self.notes[0] if self.notes and not self.scores else ""
        return first.removeprefix(NOT_MEASURED) if first.startswith(NOT_MEASURED) else None

    def without_samples(self) -> ProtocolResult:
        """The result without per-sample outcomes."""
        return replace(self, columns=[], statistics=[], of=None)

    def put(self, place: Place, number: Number) -> None:
        """Set a number, and its interval if it is defined."""
        kind, name, at = place
        if kind == "scores":
            self.scores[name] = number.value
        elif kind == "by_node":
            self.by_node.setdefault(name, {})[str(at)] = number.value
        else:
            values = getattr(self, kind).setdefault(name, [])
            values += [math.nan] * (int(at) + 1 - len(values))
            values[int(at)] = number.value
            ends = (self.depth_intervals if kind == "by_depth" else self.curve_intervals).get(name)
            if ends is not None:
                ends += [(math.nan, math.nan)] * (len(values) - len(ends))
        self.put_interval(place, number.low, number.high)

    def put_interval(self, place: Place, low: float, high: float) -> None:
        """Set the interval of a number of this result; ignored if the number or the interval is not defined.

        If the number lies outside its interval by a rounding error, the interval is widened to include it.
        """
        kind, name, at = place
        column = getattr(self, kind).get(name)
        if column is None or (kind == "by_node" and at not in column):
            return
        number = column if kind == "scores" else column[at]
        if math.isnan(number) or math.isnan(low) or math.isnan(high):
            return
        if abs(number - min(max(number, low), high)) <= _ROUNDING:
            low, high = min(low, number), max(high, number)
        if kind == "scores":
            self.intervals[name] = low, high
        elif kind == "by_node":
            self.node_intervals.setdefault(name, {})[str(at)] = low, high
        else:
            kept = self.depth_intervals if kind == "by_depth" else self.curve_intervals
            kept.setdefault(name, [(math.nan, math.nan)] * len(column))[int(at)] = low, high

    @classmethod
    def joined(
        cls,
        title: str,
        parts: Mapping[str, ProtocolResult],
        counts: Mapping[str, int] | None = None,
        notes: Sequence[str] = (),
    ) -> ProtocolResult:
        """Join several results into one, with the part's name before every name: `features.top1`.

        Args:
            title: Title of the joined result.
            parts: Name → result; counts and notes that several parts share are kept once, without the name.
            counts: Further counts, placed first.
            notes: Further notes, placed first.
        """

        def named(column: str) -> dict[str, Any]:
            return {
                f"{prefix}.{name}": value
                for prefix, part in parts.items()
                for name, value in getattr(part, column).items()
            }

        all_counts = dict(counts or {})
        all_notes = list(notes)
        for part in parts.values():
            all_counts |= part.counts
            all_notes += [note for note in part.notes if note not in all_notes]
        named_columns = [
            replace(column, name=f"{prefix}.{column.name}", balanced=_prefixed(prefix, column.balanced))
            for prefix, part in parts.items()
            for column in part.columns
        ]
        statistics = [
            replace(statistic, names=tuple(f"{prefix}.{name}" for name in statistic.names))
            for prefix, part in parts.items()
            for statistic in part.statistics
        ]
        return cls(
            title,
            **{name: named(name) for name in _NAMED},
            counts=all_counts,
            notes=all_notes,
            columns=named_columns,
            statistics=statistics,
        )


def _prefixed(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if name else ""


@dataclass(frozen=True)
class AspectResult:
    """The results for one aspect, over the samples that have a label in it.

    Attributes:
        scores: Metric → value: of the linear probe (`top1` …), of the model's own answers (`own_top1` …)
            if it gave any, and of retrieval by the first representation (`recall_at_1` …). NaN if a score
            is not defined for these samples.
        by_depth: Protocol (`probe`, `own`) → accuracy at depth 1 … L of the aspect's taxonomy.
        counts: Numbers of samples and classes by use.
    """

    scores: dict[str, float]
    by_depth: dict[str, list[float]]
    counts: dict[str, int]

    def named(self) -> dict[str, float]:
        """The scores, and the accuracies at depth 1: `accuracy_at_depth_1`, `own_accuracy_at_depth_1`."""
        prefixes = {"probe": "", "own": "own_"}
        coarsest = {
            f"{prefixes[name]}accuracy_at_depth_1": depths[0]
            for name, depths in self.by_depth.items()
            if depths
        }
        return self.scores | coarsest


def aspect_means(results: Mapping[str, AspectResult]) -> dict[str, float]:
    """The unweighted mean of every score over the aspects for which it is defined.

    `aspect_top1` is the accuracy on the finest labels and `aspect_accuracy_at_depth_1` on the coarsest;
    `aspect_own_…` are those of the model's own answers. For aspects with sentiments at depth 1 and ratings
    at depth 2, Ghanooni et al. report the accuracy at depth 1 (Tables 4 and 5).
    """
    values: dict[str, list[float]] = {}
    for result in results.values():
        for name, value in result.named().items():
            values.setdefault(f"aspect_{name}", [])
            if not math.isnan(value):
                values[f"aspect_{name}"].append(value)
    return {name: sum(known) / len(known) if known else math.nan for name, known in values.items()}


@dataclass(frozen=True)
class AttributeResult:
    """The main numbers over the test samples with one value of an attribute, such as a hospital.

    Attributes:
        attribute: Name of the attribute.
        value: Its value; empty for samples where it is missing.
        samples: Number of test samples, which the classifiers answered.
        groups: Number of their groups; None if the table has none.
        scores: Name → value: `features.top1`, `embeddings.recall_at_1`, and with the protocol before it
            `decisions.coverage_at_0.9`; NaN if it is not defined for these samples.
        intervals: Name → the ends of the confidence interval; NaN if there is none.
        counted: Name → the number of samples that the score is the mean of: retrieval may search for more
            samples than the classifiers were tested on. Empty in older results.
        counted_groups: Name → the number of their groups; empty if the table has none.
    """

    attribute: str
    value: str
    samples: int
    groups: int | None
    scores: dict[str, float]
    intervals: dict[str, Bounds] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    counted_groups: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class MethodResult:
    """The results of one method.

    A protocol reads a *role*, `features` or `embeddings`. A table with embeddings only (raw pixels, any
    other vectors) provides them in both roles; `representations` records what was read.

    Attributes:
        name: Name of the method.
        representations: Role → the representation read.
        scores: Role → metric → value; NaN if it is not defined for these samples. Two further roles are
            `predictions`, the model's own answers, and `aspects`, the means over the aspects.
        by_depth: Protocol (`probe`, `prototypes`, `own`) → accuracy at depth 1 … L, coarse → fine.
        hp_curve: Role → HP@1 … HP@K.
        errors: Errors of the chosen classifier on the tree.
        aspects: Name of an aspect → its results; empty if there are no aspects.
        protocols: Name of a requested further protocol → its result.
        intervals: Role → metric → lower and upper end of its confidence interval, for scores that are means
            over samples; NaN if there is none, empty if no intervals were computed.
        depth_intervals: Protocol → confidence intervals of its accuracy at depth 1 … L.
        classifier: The classifier that gives the method's answers, and why it was chosen; the `answer_*`
            methods return its numbers.
        by_attribute: The main numbers by the values of the attributes in `EvaluationSettings.by`.
    """

    name: str
    representations: dict[str, Representation]
    scores: dict[str, dict[str, float]]
    by_depth: dict[str, list[float]]
    hp_curve: dict[str, list[float]]
    errors: TreeErrors
    aspects: dict[str, AspectResult] = field(default_factory=dict)
    protocols: dict[str, ProtocolResult] = field(default_factory=dict)
    intervals: dict[str, dict[str, Bounds]] = field(default_factory=dict)
    depth_intervals: dict[str, list[Bounds]] = field(default_factory=dict)
    classifier: ChosenClassifier = field(default_factory=lambda: ChosenClassifier("probe"))  # older results
    by_attribute: list[AttributeResult] = field(default_factory=list)

    @property
    def answer_by_depth(self) -> list[float]:
        """The accuracy of the chosen classifier at depth 1 … L."""
        return self.by_depth.get(self.classifier.name, [])

    def answer_score(self, metric: str) -> float:
        """The chosen classifier's `top1`, `hierarchical_f1` …; NaN if it is missing."""
        name = self.classifier.name
        return self.score(f"{PREFIX[name]}{metric}", CLASSIFIER_ROLES.get(name))

    def answer_interval(self, metric: str) -> Bounds:
        """The ends of the confidence interval of `answer_score`; NaN if there is none."""
        name = self.classifier.name
        return self.interval(f"{PREFIX[name]}{metric}", CLASSIFIER_ROLES.get(name))

    def interval(self, metric: str, role: str | None = None) -> Bounds:
        """The ends of a metric's confidence interval; NaN if there is none. Arguments as for `score`."""
        given = self.intervals
        wanted = [role] if role in given else list(given) if role in (None, "features") else []
        intervals = [given[name][metric] for name in wanted if metric in given[name]]
        return intervals[0] if intervals else (math.nan, math.nan)

    def score(self, metric: str, role: str | None = None) -> float:
        """The value of a metric; NaN if it is missing.

        Args:
            metric: Name of the metric; the scores of further protocols begin with the protocol:
                `knn.features.top1`.
            role: Role of the scores; None = the first role that has the metric. If only embeddings were read,
                `features` gives their scores.
        """
        protocol, _, inner = metric.partition(".")
        if inner:
            result = self.protocols.get(protocol)
            return math.nan if result is None else result.scores.get(inner, math.nan)
        wanted = [role] if role in self.scores else list(self.scores) if role in (None, "features") else []
        return next((self.scores[name][metric] for name in wanted if metric in self.scores[name]), math.nan)


class NumberRow(NamedTuple):
    """A number of an evaluation.

    Attributes:
        method: The method.
        protocol: How it was measured: `answers`, of the classifier that answers; the name of a classifier,
            such as `probe`; `retrieval`; `structure`, distances beside those on the tree; `aspects`; or a
            further protocol by its name.
        role: The representation that was read; empty for further protocols.
        metric: Its name, without the classifier.
        depth: The depth that it is of; None = of all.
        value: The number.
        low: The lower end of its confidence interval; NaN without one.
        high: The upper end.
    """

    method: str
    protocol: str
    role: str
    metric: str
    depth: int | None
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class EvaluationResult:
    """The result of `labeltree.evaluation.evaluate`, saved as `metrics.json`.

    Attributes:
        name: Name of the evaluated method, a key of `methods`.
        split: The evaluated split; `half` if the table has no splits.
        methods: Name → results, the evaluated method first, then the baselines.
        counts: Numbers of samples by use, and of samples left out.
        notes: Sentences on the representations and samples used and on those left out.
        cautions: The notes that must be shown with the main numbers: on undefined ones, on those from very
            few samples, and on the retrieval search.
        reservations: What must be said next to the first number, such as that the model knows the samples.
        search: How retrieval searched: `searched` is `queries` (among each other) or `train`;
            `own_group` of the query is `left out`, `counted` or `no groups`. Empty in older results.
        settings: The settings used.
        taxonomy_changes: Where labels were carried over from another version of the taxonomy: kind of change
            (`rename`, `move`, `merge`, `split`, `remove`) → number of `nodes` that changed so,
            and of `samples` of the split with a label at or below one. Empty if labels are as they were.
        outcomes: Method → its per-sample outcomes; saved in a separate file, see `save_outcomes`.
        samples: The rows of the evaluated method's table by use; not saved.
        classifiers: The classifiers of the evaluated method; not saved.
        same_features: The other methods whose features are those of the evaluated one; not saved.
    """

    name: str
    split: str
    methods: dict[str, MethodResult]
    counts: dict[str, int]
    notes: list[str]
    cautions: list[str] = field(default_factory=list)
    reservations: list[str] = field(default_factory=list)
    search: dict[str, str] = field(default_factory=dict)
    settings: EvaluationSettings = field(default_factory=EvaluationSettings)
    taxonomy_changes: dict[str, dict[str, int]] = field(default_factory=dict)
    outcomes: dict[str, Outcomes] = field(default_factory=dict, compare=False, repr=False)
    samples: Samples | None = field(default=None, compare=False, repr=False)
    classifiers: Classifiers | None = field(default=None, compare=False, repr=False)
    same_features: list[str] = field(default_factory=list, compare=False, repr=False)

    @property
    def main(self) -> MethodResult:
        """The evaluated method."""
        return self.methods[self.name]

    def with_notes(
        self, first: Sequence[str] = (), last: Sequence[str] = (), cautions: Sequence[str] = ()
    ) -> EvaluationResult:
        """The result with further notes before and after those that it has, and with further cautions."""
        notes = [*first, *self.notes, *last]
        return replace(self, notes=notes, cautions=[*self.cautions, *cautions])

    def to_pandas(self) -> pd.DataFrame:
        """A row for each number, see `NumberRow`; first those of the answers, as the headline has them.

        `depth` is missing where a number is of all depths; `low` and `high` are NaN without an interval.
        """
        import pandas as pd

        rows = pd.DataFrame(_list_numbers(self.methods), columns=list(NumberRow._fields))
        return rows.astype({"depth": "Int64"})

    def __repr__(self) -> str:
        """The main numbers of each method, a line each; `to_pandas()` has all of them."""
        lines = [f"{self.name}, split {self.split}: {self.main.errors.samples:,} samples"]
        for name, method in self.methods.items():
            numbers = [f"{metric_name(of)} {method.answer_score(of):.4f}" for of in _ANSWERS]
            numbers += [f"{metric_name(of)} {method.score(of, 'embeddings'):.4f}" for of in _SEARCH]
            lines.append(f"{name} ({method.classifier.name}): {', '.join(numbers)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = ["", "classifier", *map(metric_name, (*_ANSWERS, *_SEARCH))]
        rows = []
        for name, method in self.methods.items():
            numbers = [(method.answer_score(of), method.answer_interval(of)) for of in _ANSWERS]
            numbers += [(method.score(of, "embeddings"), method.interval(of, "embeddings")) for of in _SEARCH]
            cells = [_number(value, *ends) for value, ends in numbers]
            rows.append([name, method.classifier.name, *cells])
        table = html_table(head, rows, numbers=range(2, len(head)))
        answers = [f"{PREFIX[self.main.classifier.name]}{of}" for of in _ANSWERS]
        counts = counted_units(self, answers, [(of, "embeddings") for of in _SEARCH])
        level = bracket_sentence(self, counts) if "[" in table else ""
        return str(table + html_sentences([level, self.main.classifier.sentence, *self.cautions]))

    @classmethod
    def load(cls, path: Path) -> EvaluationResult:
        """Read `metrics.json`.

        Raises:
            DataError: If it is missing or damaged, or was written by a newer version.
        """
        return cls.from_dict(read_json(path, _RESULT))

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers; NaN becomes None, as JSON has no NaN."""
        bare = replace(self, outcomes={}, samples=None, classifiers=None)
        content: dict[str, Any] = plain_json(asdict(bare))
        for not_saved in ("outcomes", "samples", "classifiers", "same_features"):
            del content[not_saved]
        for name, method in self.methods.items():
            content["methods"][name]["classifier"] = method.classifier.to_dict()
            for entry in content["methods"][name]["protocols"].values():
                for of_samples in ("columns", "statistics", "of"):
                    del entry[of_samples]
        return {"format": FORMAT, **content}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> EvaluationResult:
        """The inverse of `to_dict`.

        Raises:
            DataError: If `content` is not the result of an evaluation, or was written by a newer version.
        """
        if content.get("format") != FORMAT:
            raise DataError(
                f"this is not a result that this version of labeltree can read: its format is "
                f"{content.get('format')!r}, expected {FORMAT}; evaluate again"
            )
        try:
            settings = dict(content["settings"])
            for several in ("recall_ks", "protocols", "frequency_bounds", "by"):
                settings[several] = tuple(settings.get(several, ()))
            result: EvaluationResult = from_fields(
                cls,
                content,
                settings=EvaluationSettings(**settings),
                outcomes={},
                samples=None,
                classifiers=None,
                same_features=[],
            )
        except KeyError as error:
            raise DataError(
                f"the result of an evaluation is incomplete: it has no {error}; evaluate again"
            ) from error
        except (AttributeError, TypeError, ValueError) as error:
            raise DataError("the result of an evaluation is incomplete or damaged; evaluate again") from error
        if not fits(result, cls) or result.name not in result.methods:
            raise DataError("the result of an evaluation is incomplete or damaged; evaluate again")
        return result


def _list_numbers(methods: Mapping[str, MethodResult]) -> list[NumberRow]:
    """A row for each number: of every method its answers, as the headline has them, then all others."""
    return [row for name, method in methods.items() for row in _rows(name, method)]


def _rows(name: str, method: MethodResult) -> Iterator[NumberRow]:
    answering = method.classifier.name
    role = _role_of(method, answering)
    for metric in _answer_metrics(method, answering):
        ends = method.answer_interval(metric)
        yield NumberRow(name, ANSWERS, role, metric, None, method.answer_score(metric), *ends)
    yield from _depth_rows(name, method, ANSWERS, answering)
    for role, scores in method.scores.items():
        if role == ANSWERS:
            continue  # those of the answers above
        for key, value in scores.items():
            protocol, metric = _protocol_of(role, key)
            ends = method.intervals.get(role, {}).get(key, _NO_ENDS)
            yield NumberRow(name, protocol, role, metric, _depth_of(metric), value, *ends)
    for classifier in method.by_depth:
        if classifier != "each-fold":
            yield from _depth_rows(name, method, classifier, classifier)
    for protocol, done in method.protocols.items():
        for metric, value in done.scores.items():
            ends = done.intervals.get(metric, _NO_ENDS)
            yield NumberRow(name, protocol, "", metric, _depth_of(metric), value, *ends)
        for metric, values in done.by_depth.items():
            given = done.depth_intervals.get(metric, [])
            for depth, value in enumerate(values, 1):
                ends = given[depth - 1] if depth <= len(given) else _NO_ENDS
                yield NumberRow(name, protocol, "", f"{metric}_at_depth_{depth}", depth, value, *ends)


def _depth_rows(name: str, method: MethodResult, protocol: str, classifier: str) -> Iterator[NumberRow]:
    """The accuracy of a classifier at each depth."""
    intervals = method.depth_intervals.get(classifier, [])
    for depth, value in enumerate(method.by_depth.get(classifier, []), 1):
        ends = intervals[depth - 1] if depth <= len(intervals) else _NO_ENDS
        role = _role_of(method, classifier)
        yield NumberRow(name, protocol, role, f"accuracy_at_depth_{depth}", depth, value, *ends)


def _role_of(method: MethodResult, classifier: str) -> str:
    """The role of a classifier's scores: that of those which have none of their own is the first."""
    roles = {str(kind): role for kind, role in CLASSIFIER_ROLES.items()}
    return roles.get(classifier, next(iter(method.scores), ""))


def _answer_metrics(method: MethodResult, classifier: str) -> list[str]:
    """The metrics of a classifier's answers, without its prefix."""
    prefix = {str(kind): text for kind, text in PREFIX.items()}[classifier]
    plain = [
        key.removeprefix(prefix)
        for key in method.scores.get(_role_of(method, classifier), {})
        if key.startswith(prefix)
    ]
    return [metric for metric in plain if is_of_answers(metric)]


def _protocol_of(role: str, key: str) -> tuple[str, str]:
    """How a score was measured, and its name without the classifier."""
    if role == "aspects":
        return role, key
    for classifier, prefix in PREFIX.items():
        metric = key.removeprefix(prefix)
        if key.startswith(prefix) and is_of_answers(metric):
            return classifier, metric
    return ("structure" if key in _STRUCTURE else "retrieval"), key


def _depth_of(metric: str) -> int | None:
    at = _AT_DEPTH.search(metric)
    return None if at is None else int(at[1])


def _number(value: float, low: float, high: float) -> str:
    """A value and its interval, as the terminal has them."""
    if math.isnan(value):
        return "–"
    return f"{value:.4f}" + ("" if math.isnan(low) else f" [{low:.3f}, {high:.3f}]")


def counted_units(
    result: EvaluationResult, answers: list[str], shown: Sequence[tuple[str, str | None]]
) -> list[list[str]]:
    """A column of the samples that each number of the evaluated method rests on, and one of their groups.

    Without that of groups if each sample is one by itself.
    """
    outcomes = result.outcomes.get(result.name)
    if outcomes is None:
        return []
    columns = [["samples", ""], ["groups", ""]][: 1 if outcomes.groups is None else 2]
    for metric, role in [*((metric, None) for metric in answers), *shown]:
        keys = [k for k in outcomes.keys if k[1] == metric and k[0] not in outcomes.protocols]
        key = next((k for k in keys if k[0] == role), keys[0] if keys else None)
        rows = None if key is None else outcomes.counted(key)
        known = rows is not None and rows.any()
        columns[0].append(f"{int(rows.sum())}" if rows is not None and known else "")
        for column in columns[1:]:
            column.append(f"{outcomes.count_groups(rows)}" if rows is not None and known else "")
    return columns if columns[0][1:] != columns[-1][1:] else columns[:1]


def bracket_sentence(result: EvaluationResult, counts: list[list[str]]) -> str:
    """What the brackets of a table are, and what the intervals draw: samples, or groups and how many.

    Args:
        result: The result.
        counts: What the numbers of the table rest on, see `counted_units`.
    """
    said = f"in brackets: {result.settings.confidence:.0%} confidence intervals"
    if len(counts) < 2:
        return f"{said}, over these samples" if counts else said
    numbers = {cell for cell in counts[1][1:] if cell}
    of = numbers.pop() if len(numbers) == 1 else "these"
    return f"{said}, over {of} groups: all samples of a group are drawn together"
