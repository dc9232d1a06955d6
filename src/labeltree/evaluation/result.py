"""The result of an evaluation, ``metrics.json``: every number, with the name of what was read to get it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from labeltree.decisions.classifiers import ChosenClassifier, ClassifierKind
from labeltree.errors import DataError
from labeltree.evaluation.columns import Column, Number, Place
from labeltree.evaluation.error_tree import TreeErrors
from labeltree.evaluation.json_numbers import Bounds, from_fields, without_nan
from labeltree.evaluation.outcomes import Outcomes
from labeltree.evaluation.reading import Representation
from labeltree.evaluation.samples import Samples
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.evaluation.statistics import Statistic
from labeltree.safe_files import fits

__all__ = [
    "NOT_MEASURED",
    "PREFIX",
    "AspectResult",
    "Bounds",
    "EvaluationResult",
    "MethodResult",
    "ProtocolResult",
    "aspect_means",
]

FORMAT = 1

PREFIX: dict[ClassifierKind, str] = {"probe": "", "prototypes": "prototype_", "own": "own_"}
"""What the scores of each classifier begin with."""

_ROLE: dict[ClassifierKind, str | None] = {"probe": None, "prototypes": "embeddings", "own": "predictions"}


_INTERVALS = ("intervals", "depth_intervals", "node_intervals", "curve_intervals")
NOT_MEASURED = "Not measured: "
"""Start of the only note of a protocol that is not defined for the table."""
_ROUNDING = 1e-9
_NAMED = ("scores", "by_depth", "by_node", "curves", "axes", *_INTERVALS)


@dataclass(frozen=True)
class ProtocolResult:
    """The numbers of one protocol for one method.

    Names begin with what was read where a protocol reads both: ``features.top1``, ``embeddings.top1``.

    Attributes:
        title: one line for people.
        scores: name → value; NaN where it is not defined for these samples.
        by_depth: name → values at depth 1 … L, coarse → fine.
        by_node: name → path name of a node (``/`` for the root) → value of the samples labelled at or below
            it.
        curves: name → values over something else than depth, which ``axes`` has.
        axes: name of a curve → what its values belong to (``[1, 5, 20]`` neighbours).
        counts: how many samples and classes were used for what.
        notes: sentences for people on what was read and left out.
        intervals: name of a score → lower and upper end of its confidence interval, NaN where there is none;
            a name that is missing has none.
        depth_intervals: intervals of ``by_depth``, a pair for each depth.
        node_intervals: intervals of ``by_node``.
        curve_intervals: intervals of ``curves``.
        columns: the outcomes of single samples behind the numbers, for comparisons; not kept in this file.
        statistics: the same for numbers that are not means.
        of: the `Inputs` of another table, if the protocol measured that instead of the evaluated one.
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
        """Why nothing was measured; None where something was."""
        first = self.notes[0] if self.notes and not self.scores else ""
        return first.removeprefix(NOT_MEASURED) if first.startswith(NOT_MEASURED) else None

    def without_samples(self) -> ProtocolResult:
        """The numbers alone."""
        return replace(self, columns=[], statistics=[], of=None)

    def put(self, place: Place, number: Number) -> None:
        """Write a number, and its interval where it is defined."""
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
        """Write the interval of a number that is here; nothing where either is not defined.

        The number and its interval may differ by rounding; then the interval is widened to hold the number.
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
        """Several results as one, every name beginning with that of its part: ``features.top1``.

        Args:
            title: title of the whole.
            parts: name → result; counts and notes that they share are kept once, without the name.
            counts: counts of the whole, which come first.
            notes: notes of the whole, which come first.
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
    """What was measured of one aspect of the samples; those without a label in it are left out.

    Attributes:
        scores: metric → value: of the linear probe (``top1`` …), of the model's own answers (``own_top1`` …)
            where there are some, and of retrieval by the first representation (``recall_at_1`` …). NaN where
            one is not defined for these samples.
        by_depth: protocol (``probe``, ``own``) → accuracy at depth 1 … L of the aspect's taxonomy.
        counts: how many samples and classes were used for what.
    """

    scores: dict[str, float]
    by_depth: dict[str, list[float]]
    counts: dict[str, int]

    def named(self) -> dict[str, float]:
        """The scores, and the accuracies at depth 1: ``accuracy_at_depth_1``, ``own_accuracy_at_depth_1``."""
        prefixes = {"probe": "", "own": "own_"}
        coarsest = {
            f"{prefixes[name]}accuracy_at_depth_1": depths[0]
            for name, depths in self.by_depth.items()
            if depths
        }
        return self.scores | coarsest


def aspect_means(results: Mapping[str, AspectResult]) -> dict[str, float]:
    """The mean of every score over the aspects, each counting once, whatever its number of samples.

    ``aspect_top1`` is the accuracy by the finest labels and ``aspect_accuracy_at_depth_1`` by the coarsest;
    ``aspect_own_…`` are the same of the model's own answers. Of aspects whose labels are sentiments (depth 1)
    over ratings (depth 2), the accuracy at depth 1 is what Ghanooni et al. report (Tables 4 and 5). Aspects
    for which a score is not defined are left out of its mean.
    """
    values: dict[str, list[float]] = {}
    for result in results.values():
        for name, value in result.named().items():
            values.setdefault(f"aspect_{name}", [])
            if not math.isnan(value):
                values[f"aspect_{name}"].append(value)
    return {name: sum(known) / len(known) if known else math.nan for name, known in values.items()}


@dataclass(frozen=True)
class MethodResult:
    """All that was measured of one method.

    A protocol asks for a *role*, ``features`` or ``embeddings``. A table that has only embeddings (raw
    pixels, somebody else's vectors) gives them in both; ``representations`` says what was really read.

    Attributes:
        name: name of the method.
        representations: role → what was read.
        scores: role → metric → value; NaN where it is not defined for these samples. The model's own answers
            are a role too, ``predictions``, and so are the means over the aspects, ``aspects``.
        by_depth: protocol (``probe``, ``prototypes``, ``own``) → accuracy at depth 1 … L, coarse → fine.
        hp_curve: role → HP@1 … HP@K.
        errors: where the chosen classifier errs.
        aspects: what was measured of each aspect, by its name; empty where there are none.
        protocols: what the further protocols that were asked for found, by their names.
        intervals: role → metric → lower and upper end of its confidence interval, for the scores that are
            means over samples; NaN where there is none, empty where none were computed.
        depth_intervals: protocol → those of its accuracy at depth 1 … L.
        classifier: which classifier the method answers with, and why; ``answer_*`` read its numbers.
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

    @property
    def answer_by_depth(self) -> list[float]:
        """The accuracy of the chosen classifier at depth 1 … L."""
        return self.by_depth.get(self.classifier.name, [])

    def answer_score(self, metric: str) -> float:
        """The chosen classifier's ``top1``, ``hierarchical_f1`` …; NaN where there is none."""
        return self.score(f"{PREFIX[self.classifier.name]}{metric}", _ROLE[self.classifier.name])

    def answer_interval(self, metric: str) -> Bounds:
        """The ends of the confidence interval of `answer_score`, NaN where there is none."""
        return self.interval(f"{PREFIX[self.classifier.name]}{metric}", _ROLE[self.classifier.name])

    def interval(self, metric: str, role: str | None = None) -> Bounds:
        """The ends of a metric's confidence interval, NaN where there is none; arguments as for `score`."""
        given = self.intervals
        wanted = [role] if role in given else list(given) if role in (None, "features") else []
        found = [given[name][metric] for name in wanted if metric in given[name]]
        return found[0] if found else (math.nan, math.nan)

    def score(self, metric: str, role: str | None = None) -> float:
        """The value of a metric, NaN where there is none.

        Args:
            metric: its name; that of a protocol's score begins with the protocol: ``knn.features.top1``.
            role: role of the scores; None takes the first that has the metric. Where only embeddings were
                read, they stand for the features too.
        """
        protocol, _, inner = metric.partition(".")
        if inner:
            found = self.protocols.get(protocol)
            return math.nan if found is None else found.scores.get(inner, math.nan)
        wanted = [role] if role in self.scores else list(self.scores) if role in (None, "features") else []
        return next((self.scores[name][metric] for name in wanted if metric in self.scores[name]), math.nan)


@dataclass(frozen=True)
class EvaluationResult:
    """What `labeltree.evaluation.evaluate` found: this is ``metrics.json``.

    Attributes:
        name: name of the evaluated method, a key of ``methods``.
        split: the split it was evaluated on; ``half`` where the table has none.
        methods: the evaluated method first, then the baselines.
        counts: how many samples were used for what, and how many left out.
        notes: sentences for people on what was read and what was left out.
        cautions: the notes that must be shown with the numbers: what is not defined, what is computed from
            very few samples, what was searched.
        search: how retrieval searched: ``searched`` among the other ``queries`` or in the split ``train``;
            ``own_group`` of a query ``left out``, ``counted``, or ``no groups``. Empty in older results.
        settings: the settings used.
        outcomes: method → what came of every sample; kept in a file of its own, see `save_outcomes`.
        samples: the rows of the evaluated method's table by what they were used for; not kept in a file.
    """

    name: str
    split: str
    methods: dict[str, MethodResult]
    counts: dict[str, int]
    notes: list[str]
    cautions: list[str] = field(default_factory=list)
    search: dict[str, str] = field(default_factory=dict)
    settings: EvaluationSettings = field(default_factory=EvaluationSettings)
    outcomes: dict[str, Outcomes] = field(default_factory=dict, compare=False, repr=False)
    samples: Samples | None = field(default=None, compare=False, repr=False)

    @property
    def main(self) -> MethodResult:
        """The evaluated method."""
        return self.methods[self.name]

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers; NaN becomes None, so that it is valid JSON."""
        content: dict[str, Any] = without_nan(asdict(replace(self, outcomes={}, samples=None)))
        del content["outcomes"], content["samples"]
        for name, method in self.methods.items():
            content["methods"][name]["classifier"] = method.classifier.to_dict()
            for found in content["methods"][name]["protocols"].values():
                for of_samples in ("columns", "statistics", "of"):
                    del found[of_samples]
        return {"format": FORMAT, **content}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> EvaluationResult:
        """The inverse of `to_dict`.

        Raises:
            DataError: if ``content`` is not the result of an evaluation, or that of a newer version.
        """
        if content.get("format") != FORMAT:
            raise DataError(
                f"this is not a result that this version of labeltree can read: its format is "
                f"{content.get('format')!r}, expected {FORMAT}; evaluate again"
            )
        try:
            settings = dict(content["settings"])
            for several in ("recall_ks", "protocols", "frequency_bounds"):
                settings[several] = tuple(settings.get(several, ()))
            result: EvaluationResult = from_fields(
                cls, content, settings=EvaluationSettings(**settings), outcomes={}, samples=None
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
