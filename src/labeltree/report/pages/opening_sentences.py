"""What the report says below its verdict: what it is about, and how the model compares."""

from __future__ import annotations

import math

from labeltree.counted_nouns import say_count
from labeltree.decisions.choose_classifier import ClassifierKind
from labeltree.evaluation import EvaluationResult, MethodResult
from labeltree.report.charts.tree_colours import main_branches, name_branches
from labeltree.report.compare_answers import AnswerDifference, Differences, answer_differences
from labeltree.report.verdict import margin
from labeltree.report.wording import format_points, percent
from labeltree.taxonomy import Taxonomy

__all__ = [
    "further_sentences",
    "opening",
]

_CLASSIFIERS: dict[ClassifierKind, str] = {
    "own": "the model's own classifier",
    "probe": "a simple classifier that reads the model's output",
    "lda": "a linear discriminant analysis of the model's output",
    "prototypes": "the nearest class mean of the model's output",
    "feature-means": "the nearest class mean of the encoder's features",
    "each-fold": "the classifier that each fold chose",
}

_BY: dict[ClassifierKind, str] = {
    "own": "its own classifier",
    "probe": "a simple classifier",
    "lda": "a linear discriminant analysis",
    "prototypes": "the nearest class mean",
    "feature-means": "the nearest class mean of features",
    "each-fold": "what each fold chose",
}


def opening(result: EvaluationResult, taxonomy: Taxonomy, samples: str, *, trained: bool) -> str:
    """What the page is about: the classes, their tree, and what the model should do."""
    branches = main_branches(taxonomy)
    names = name_branches(taxonomy)
    tree = f"a tree {say_count(taxonomy.max_depth, 'step')} deep"
    tree += f" with {len(branches)} main branches ({names})" if len(branches) > 1 else ""
    classes = say_count(result.counts["classes tested"], "class", "classes")
    who = "The model was trained to place" if trained else "Good embeddings place"
    return (
        f"{who} {samples} close together if they are close on {tree}. "
        f"This page shows how well that works for {classes}."
    )


def further_sentences(
    result: EvaluationResult, samples: str, differences: Differences | None = None
) -> list[str]:
    """Sentences on what gives the answers, and whether they are better than each baseline's.

    Args:
        result: The result.
        samples: What samples are called.
        differences: Its `answer_differences`; None = they are computed.
    """
    main = result.main
    if math.isnan(main.answer_score("top1")):
        return []
    sentences = [f"The answers come from {_CLASSIFIERS[main.classifier.name]}."]
    apart = answer_differences(result) if differences is None else differences
    others = [
        _beside(main, other, apart.get(key), result.settings.confidence)
        for key, other in result.methods.items()
        if key != result.name
    ]
    if others:
        level = percent(result.settings.confidence, 0)
        bounds = (
            f" The brackets say how many points the model is ahead on the same {samples} ({level} interval). "
            "Whether a difference may be chance is said by a test, corrected for the number of comparisons."
            if any("[" in other for other in others)
            else ""
        )
        sentences.append(f"For comparison: {'; '.join(others)}.{bounds}")
    return sentences


def _half(method: MethodResult, confidence: float) -> float:
    """Half the interval of the share of right answers, in points; with groups, their wider interval."""
    low, high = method.answer_interval("top1")
    if math.isnan(low):
        return margin(method.answer_score("top1"), method.errors.samples, confidence)
    return 50 * (high - low)


def _beside(
    main: MethodResult, other: MethodResult, difference: AnswerDifference | None, confidence: float
) -> str:
    """Another method's share, and how it differs from the model's.

    Args:
        main: Of the model.
        other: Of the other method.
        difference: On the same samples; None = judged by the two intervals, which finds less.
        confidence: Of the intervals.
    """
    theirs = other.answer_score("top1")
    named = f"{other.name} {percent(theirs)} by {_BY[other.classifier.name]}"
    gain = 100 * (main.answer_score("top1") - theirs)
    if math.isnan(gain):
        return f"{other.name} could not be evaluated"
    if gain == 0:
        return f"{named}, as many"
    by_chance = f"{named}, a difference that may be chance"
    less = f"{named}, {gain:.1f} points less"
    more = f"{named}, {-gain:.1f} points more, so better than this model"
    if difference is None:
        near = abs(gain) < math.hypot(_half(main, confidence), _half(other, confidence))
        return by_chance if near else less if gain > 0 else more
    if difference.says == "few":
        return (
            f"{named}, {abs(gain):.1f} points {'less' if gain > 0 else 'more'}: too few to tell from chance"
        )
    bounds = f"[{format_points(difference.low)}, {format_points(difference.high)}]"
    if difference.corrected:
        bounds += f" ({difference.corrected}, corrected)"
    words = {"chance": by_chance, "better": less, "worse": more}
    return f"{words[difference.says]} {bounds}"
