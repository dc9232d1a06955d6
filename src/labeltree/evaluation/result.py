"""The result of an evaluation: plain numbers with the name of what was read to get them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from labeltree.decisions.choice import ChosenClassifier
from labeltree.decisions.classifier import ClassifierKind
from labeltree.errors import DataError
from labeltree.evaluation.aspect_result import AspectResult
from labeltree.evaluation.error_result import TreeErrors
from labeltree.evaluation.outcomes import Outcomes
from labeltree.evaluation.plain import Bounds, bounds, curves, numbers, without_nan
from labeltree.evaluation.protocol_result import ProtocolResult
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.safe_files import fits

__all__ = ["Bounds", "EvaluationResult", "MethodResult", "Representation"]

FORMAT = 1

_PREFIX: dict[ClassifierKind, str] = {"probe": "", "prototypes": "prototype_", "own": "own_"}
_ROLE: dict[ClassifierKind, str | None] = {"probe": None, "prototypes": "embeddings", "own": "predictions"}


@dataclass(frozen=True)
class Representation:
    """Which numbers of a sample a protocol reads, and how it compares them.

    Attributes:
        source: the column of the embeddings table: ``features`` or ``embeddings``.
        dim: how many numbers a sample has.
        geometry: ``sphere`` (compared by cosine), ``euclidean`` or ``poincare``.
        curvature: of the Poincaré ball; not used by the other geometries.
    """

    source: str
    dim: int
    geometry: str
    curvature: float = -1.0

    def __str__(self) -> str:
        how = {"sphere": "compared by cosine", "euclidean": "compared by Euclidean distance"}
        ball = f"compared by distance in the Poincaré ball of curvature {self.curvature:g}"
        return f"{self.source}, {self.dim} numbers a sample, {how.get(self.geometry, ball)}"


@dataclass(frozen=True)
class MethodResult:
    """All that was measured of one method.

    A protocol asks for a *role*, ``features`` or ``embeddings``. A table that has only embeddings (raw
    pixels, somebody else's vectors) gives them in both; ``representations`` says what was really read.

    Attributes:
        name: of the method.
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
    classifier: ChosenClassifier = field(default_factory=lambda: ChosenClassifier("probe"))

    @property
    def answer_by_depth(self) -> list[float]:
        """The accuracy of the chosen classifier at depth 1 … L."""
        return self.by_depth.get(self.classifier.name, [])

    def answer_score(self, metric: str) -> float:
        """The chosen classifier's ``top1``, ``hierarchical_f1`` …; NaN where there is none."""
        return self.score(f"{_PREFIX[self.classifier.name]}{metric}", _ROLE[self.classifier.name])

    def answer_interval(self, metric: str) -> Bounds:
        """The ends of the confidence interval of `answer_score`, NaN where there is none."""
        return self.interval(f"{_PREFIX[self.classifier.name]}{metric}", _ROLE[self.classifier.name])

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
            role: of the scores; None takes the first that has the metric. Where only embeddings were read,
                they stand for the features too.
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
        name: of the evaluated method, a key of ``methods``.
        split: the split it was evaluated on; ``half`` where the table has none.
        methods: the evaluated method first, then the baselines.
        counts: how many samples were used for what, and how many left out.
        notes: sentences for people on what was read and what was left out.
        cautions: those of the notes that must stand beside the numbers: what is not defined, what stands on
            very few samples, what was searched.
        search: how retrieval searched: ``searched`` among the other ``queries`` or in the split ``train``;
            ``own_group`` of a query ``left out``, ``counted``, or ``no groups``. Empty in older results.
        settings: the settings used.
        outcomes: method → what came of every sample; kept in a file of its own, see `save_outcomes`.
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

    @property
    def main(self) -> MethodResult:
        """The evaluated method."""
        return self.methods[self.name]

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers; NaN becomes None, so that it is valid JSON."""
        content: dict[str, Any] = without_nan(asdict(replace(self, outcomes={})))
        del content["outcomes"]
        for name, method in self.methods.items():
            content["methods"][name]["classifier"] = method.classifier.to_dict()
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
            result = cls(
                name=content["name"],
                split=content["split"],
                methods={name: _method(method) for name, method in content["methods"].items()},
                counts=dict(content["counts"]),
                notes=list(content["notes"]),
                cautions=list(content.get("cautions", [])),
                search=dict(content.get("search", {})),
                settings=EvaluationSettings(**settings),
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


def _method(content: Mapping[str, Any]) -> MethodResult:
    return MethodResult(
        name=content["name"],
        representations={role: Representation(**item) for role, item in content["representations"].items()},
        scores={role: numbers(item) for role, item in content["scores"].items()},
        by_depth=curves(content["by_depth"]),
        hp_curve=curves(content["hp_curve"]),
        errors=TreeErrors.from_dict(content["errors"]),
        aspects={
            name: AspectResult(numbers(item["scores"]), curves(item["by_depth"]), dict(item["counts"]))
            for name, item in content.get("aspects", {}).items()
        },
        protocols={
            name: ProtocolResult.from_dict(item) for name, item in content.get("protocols", {}).items()
        },
        intervals={
            role: {metric: bounds(ends) for metric, ends in item.items()}
            for role, item in content.get("intervals", {}).items()
        },
        classifier=ChosenClassifier.from_dict(content["classifier"])
        if "classifier" in content
        else ChosenClassifier("probe"),  # of an older version, whose headline was the probe's
        depth_intervals={
            name: [bounds(ends) for ends in item] for name, item in content.get("depth_intervals", {}).items()
        },
    )
