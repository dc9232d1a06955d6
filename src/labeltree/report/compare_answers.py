"""How other methods' answers compare with the model's, and what training added to those of its features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from labeltree.decisions.choose_classifier import CLASSIFIER_WORDS, ClassifierKind
from labeltree.errors import DataError
from labeltree.evaluation import EvaluationResult, MethodResult, compare
from labeltree.evaluation.comparing.comparison import Difference
from labeltree.inference.run_embeddings import RAW_NAMES, START_NAMES
from labeltree.report.wording import format_points, percent

__all__ = ["AnswerDifference", "Differences", "added_by_training", "answer_differences", "raw_is_better"]


@dataclass(frozen=True)
class AnswerDifference:
    """The model's share of right answers minus that of another method, on the same samples.

    Every sentence on the two reads its direction, its interval and its verdict here.

    Attributes:
        value: The difference.
        low: Lower end of its interval; NaN without one.
        high: Upper end.
        p: The p-value of its test, corrected for the other methods; NaN without one.
        confidence: Confidence of the interval.
    """

    value: float
    low: float
    high: float
    p: float
    confidence: float

    @property
    def says(self) -> Literal["better", "worse", "chance", "few"]:
        """Whether the model is better or worse, which may be chance, or if the samples are too few to test.

        As in `labeltree compare`, the corrected test says so, not the interval.
        """
        if math.isnan(self.low) or math.isnan(self.p):
            return "few"
        if self.p > 1 - self.confidence or self.value == 0:
            return "chance"
        return "better" if self.value > 0 else "worse"

    @property
    def bounds(self) -> str:
        """The interval in points with its confidence, and the p-value where that says something else."""
        level = percent(self.confidence, 0)
        said = f"{level} interval {format_points(self.low)} to {format_points(self.high)}"
        return (
            f"{said}, {self.corrected} after correction for several comparisons" if self.corrected else said
        )

    @property
    def corrected(self) -> str:
        """The p-value where it says something else than the interval; else empty."""
        excludes_zero = not self.low <= 0 <= self.high
        return f"p = {self.p:.3f}" if excludes_zero != (self.says in ("better", "worse")) else ""


Differences = Mapping[str, AnswerDifference]


def answer_differences(result: EvaluationResult) -> Differences:
    """Key of another method → the model's share of right answers minus its own, on the same samples.

    It takes a bootstrap and a test. Empty without another method or the outcomes of all, without intervals,
    or if a method was tested on other samples.
    """
    alone = len(result.methods) == 1
    if alone or result.settings.resamples == 0 or not result.methods.keys() <= result.outcomes.keys():
        return {}
    try:
        compared = compare(
            {key: result.outcomes[key] for key in result.methods},
            classifiers={key: [method.classifier.name] for key, method in result.methods.items()},
            baseline=result.name,
            metrics=["answer_top1"],
            strata_metrics=(),
            confidence=result.settings.confidence,
            resamples=result.settings.resamples,
        )
    except DataError:  # no sample in common: there is nothing to pair
        return {}
    return {
        key: _against(part, result.settings.confidence)
        for key, part in compared.metric("answer_top1").differences.items()
    }


def _against(theirs: Difference, confidence: float) -> AnswerDifference:
    """A difference of another method from the model, seen from the model."""
    # 0 − x has no negative zero
    return AnswerDifference(0 - theirs.value, 0 - theirs.high, 0 - theirs.low, theirs.corrected, confidence)


def added_by_training(
    result: EvaluationResult, differences: Differences | None = None, *, shares: bool = True
) -> str:
    """What training added to right answers over the features that it began with; empty if they are unknown.

    The features answer by the classifier that validation chose for them, so it may be that the same answers
    come from the run itself: then training has added nothing to them. Where a frozen encoder has the same
    features before and after, and the same classifier answers from them, there is nothing to compare.

    Args:
        result: The evaluation of a run, with the encoder before training.
        differences: Its `answer_differences`; None = they are computed.
        shares: Whether to name the two shares of right answers.
    """
    starts = (*START_NAMES, RAW_NAMES["vector"])
    name = next((name for name in starts if name in result.methods and name != result.name), None)
    if name is None:
        return ""
    ours, theirs = (result.methods[key].answer_score("top1") for key in (result.name, name))
    if math.isnan(ours) or math.isnan(theirs):
        return ""
    if name in result.same_features and _answer_alike(result.main, result.methods[name]):
        said = _features_alone(result.main, ours if shares else None)
        return " ".join(filter(None, [said, _search_before(result.main, result.methods[name])]))
    gain = ours - theirs
    beside = (
        f"{percent(ours)} right, {percent(theirs)} by the {name}" if shares else f"compared with the {name}"
    )
    differences = answer_differences(result) if differences is None else differences
    difference = differences.get(name)
    if difference is None or difference.says == "few":
        if gain == 0:
            return f"Training added no right answers ({beside})."
        return f"Training changed the right answers by {format_points(gain)} points ({beside})."
    bounds = f"{difference.bounds}; {beside}"
    if difference.says == "chance":
        return (
            "Training added no right answers that can be told from chance: "
            f"{format_points(gain)} points ({bounds})."
        )
    verb = "added" if difference.says == "better" else "cost"
    return f"Training {verb} {100 * abs(gain):.1f} points of right answers ({bounds})."


def _answer_alike(main: MethodResult, start: MethodResult) -> bool:
    """Whether two methods with the same features answer by the same classifier of them."""
    ours, theirs = main.classifier.name, start.classifier.name
    if theirs == "prototypes":  # without a head embeddings are the features
        theirs = "feature-means"
    return ours == theirs and ours in ("feature-means", "lda", "probe")


def _features_alone(main: MethodResult, share: float | None) -> str:
    """What is said where answers come from frozen features, with those of what was trained."""
    right = "" if share is None else f" ({percent(share)} right)"
    answering = CLASSIFIER_WORDS[main.classifier.name]
    said = f"Training changed no answer: they come from {answering}, which are frozen{right}"
    kinds: tuple[ClassifierKind, ...] = ("own", "prototypes")
    for kind in kinds:
        trained = replace(main, classifier=replace(main.classifier, name=kind)).answer_score("top1")
        if not math.isnan(trained):
            return f"{said}. With what was trained, {CLASSIFIER_WORDS[kind]} has {percent(trained)} right."
    return f"{said}."


def _search_before(main: MethodResult, start: MethodResult) -> str:
    """How often a search finds the own class first, with what was trained and before; empty if unknown."""
    now, before = (method.score("recall_at_1", "embeddings") for method in (main, start))
    if math.isnan(now) or math.isnan(before):
        return ""
    return f"In a search {percent(now)} find their own class first; before training {percent(before)} did."


def raw_is_better(result: EvaluationResult, differences: Differences | None = None) -> str:
    """What to try if the raw samples alone answer better than the model, perhaps by chance; else empty.

    Args:
        result: The evaluation of a run.
        differences: Its `answer_differences`; None = they are computed.
    """
    for kind, name in RAW_NAMES.items():
        other = "a layer on the vectors (--adapter 256)" if kind == "vector" else "a pretrained --encoder"
        raw = result.methods.get(name)
        if raw is None:
            continue
        for metric, words in _BEATEN:
            ours, theirs = result.main.answer_score(metric), raw.answer_score(metric)
            if round(theirs, _DIGITS) > round(ours, _DIGITS):  # as both are shown
                if metric == "top1":
                    apart = (answer_differences(result) if differences is None else differences).get(name)
                    words = _MAYBE_BETTER if apart is not None and apart.says == "chance" else words
                return (
                    f"{name} alone {words} {theirs:.{_DIGITS}f} and {ours:.{_DIGITS}f}. "
                    f"Try {other}. An objective that is trained in steps may need more of them (more "
                    "--epochs, a smaller --batch_size). The guide 'When the model is no better than raw "
                    "pixels' has more"
                )
    return ""


_DIGITS = 4
_MAYBE_BETTER = "answer better than the model, though the difference may be chance: top-1 accuracy"
_BEATEN = (
    ("top1", "give more right answers than the model: top-1 accuracy"),
    ("hierarchical_f1", "keep closer to the tree than the model: hierarchical F1"),
)
