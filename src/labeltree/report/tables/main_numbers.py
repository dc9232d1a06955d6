"""The main numbers of an evaluation: a table for the terminal; sentences and tiles that open the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from labeltree.decisions.classifiers import ClassifierKind
from labeltree.errors import DataError
from labeltree.evaluation import EvaluationResult, MethodResult, compare
from labeltree.evaluation.comparing.comparison import Difference
from labeltree.evaluation.result import PREFIX
from labeltree.inference.run_embeddings import RAW_NAMES, START_NAMES
from labeltree.metrics.catalogue import metric_name
from labeltree.report.charts.shown_nodes import main_branches
from labeltree.report.wording import percent, plural
from labeltree.taxonomy import Taxonomy

__all__ = [
    "Tile",
    "added_by_training",
    "answer_differences",
    "main_numbers_table",
    "main_sentences",
    "opening",
    "raw_is_better",
    "tiles",
]

_CLASSIFIERS: dict[ClassifierKind, str] = {
    "own": "the model's own classifier",
    "probe": "a simple classifier that reads the model's output",
    "lda": "a discriminant analysis of the model's output",
    "prototypes": "the nearest class mean of the model's output",
    "feature-means": "the nearest class mean of the encoder's features",
}
_BY: dict[ClassifierKind, str] = {
    "own": "its own classifier",
    "probe": "a simple classifier",
    "lda": "a discriminant analysis",
    "prototypes": "the nearest class mean",
    "feature-means": "the nearest class mean of features",
}
_BY_IN_TILE: dict[ClassifierKind, str] = {
    "own": "own classifier",
    "probe": "simple classifier",
    "lda": "discriminants",
    "prototypes": "class means",
    "feature-means": "class means of features",
}

Differences = Mapping[str, Difference]

# the terminal's table: metrics, and the representation that each is read from
_ANSWERS = ("top1", "hierarchical_f1", "tree_accuracy")  # of the classifier that answers
_METRICS = (
    ("recall_at_1", "embeddings"),
    ("map_at_r", "embeddings"),
    ("ahp", "embeddings"),
    ("parent_violations", "embeddings"),
    ("recall_at_1", "features"),
    ("map_at_r", "features"),
    ("recall_at_1", "posterior"),
    ("map_at_r", "posterior"),
    ("ahp", "posterior"),
    ("parent_violations", "posterior"),
    ("top1", None),
    ("lda_top1", None),
    ("feature_mean_top1", None),
    ("prototype_top1", "embeddings"),
    ("own_top1", "predictions"),
    ("aspect_accuracy_at_depth_1", "aspects"),
    ("aspect_own_accuracy_at_depth_1", "aspects"),
    ("aspect_recall_at_1", "aspects"),
)
_NOT_ALWAYS = ("posterior", "predictions", "aspects")


def main_numbers_table(result: EvaluationResult, differences: Differences | None = None) -> str:
    """The main numbers of every method with their confidence intervals, as a plain-text table.

    First come those of the classifier that answers, then what embeddings are worth without one, then every
    classifier by itself.

    Args:
        result: The result.
        differences: Its `answer_differences`; None = they are computed.
    """
    shown = [
        (metric, role)
        for metric, role in _METRICS
        if role not in _NOT_ALWAYS or any(metric in m.scores.get(role, {}) for m in result.methods.values())
    ]
    if "features" not in result.main.representations:  # nothing beside the space that is searched
        shown = [(metric, role) for metric, role in shown if role != "features"]
    answers = [metric_name(metric) for metric in _ANSWERS]
    columns = [["", "classifier", *answers, *(_title(metric, role) for metric, role in shown)]]
    for name, method in result.methods.items():
        given = [_cell(method.answer_score(metric), method.answer_interval(metric)) for metric in _ANSWERS]
        others = [_cell(method.score(metric, role), method.interval(metric, role)) for metric, role in shown]
        columns.append([name, method.classifier.name, *given, *others])
    counts = _counts(result, [f"{PREFIX[result.main.classifier.name]}{m}" for m in _ANSWERS], shown)
    columns += counts
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
    if any(method.intervals for method in result.methods.values()):
        lines.append(f"in brackets: {result.settings.confidence:.0%} confidence intervals{_drawn(counts)}")
    added = added_by_training(result, differences)
    space = result.main.classifier.space.sentence
    last = [result.main.classifier.sentence, *result.cautions, *([added] if added else [])]
    last += [space] if space else []
    return "\n".join([*lines, *last])


def added_by_training(
    result: EvaluationResult, differences: Differences | None = None, *, shares: bool = True
) -> str:
    """What training added to right answers over the features that it began with; empty if they are unknown.

    The features answer by the classifier that validation chose for them, so it may be that the same answers
    come from the run itself: then training has added nothing to them.

    Args:
        result: The evaluation of a run, with the encoder before training.
        differences: Its `answer_differences`; None = they are computed.
        shares: Whether to name the two shares of right answers.
    """
    name = next((name for name in START_NAMES if name in result.methods and name != result.name), None)
    if name is None:
        return ""
    ours, theirs = (result.methods[key].answer_score("top1") for key in (result.name, name))
    if math.isnan(ours) or math.isnan(theirs):
        return ""
    points = 100 * (ours - theirs)
    brackets = [f"{percent(ours)} right, {percent(theirs)} by the {name}"] if shares else []
    differences = answer_differences(result) if differences is None else differences
    difference = differences.get(name)
    if difference is None or math.isnan(difference.low):
        beside = f" ({brackets[0]})" if brackets else ""
        if points == 0:
            return f"Training added no right answers{beside}."
        return f"Training changed the right answers by {points:+.1f} points{beside}."
    # the difference is the encoder's share minus the run's
    low, high = 0 - 100 * difference.high, 0 - 100 * difference.low
    level = percent(result.settings.confidence, 0)
    bounds = "; ".join([f"{level} interval {low:+.1f} to {high:+.1f}", *brackets])
    if low <= 0 <= high:
        return (
            f"Training added no right answers that can be told from chance: {points:+.1f} points ({bounds})."
        )
    return (
        f"Training {'added' if points > 0 else 'cost'} {abs(points):.1f} points of right answers ({bounds})."
    )


def _counts(
    result: EvaluationResult, answers: list[str], shown: list[tuple[str, str | None]]
) -> list[list[str]]:
    """A column of the samples that each number of the evaluated method rests on, and one of their groups."""
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
    return columns


def _drawn(counts: list[list[str]]) -> str:
    """What the intervals draw: samples or groups, with their number if all scores rest on as many."""
    if len(counts) < 2:
        return ", over these samples" if counts else ""
    numbers = {cell for cell in counts[1][1:] if cell}
    of = numbers.pop() if len(numbers) == 1 else "these"
    return f", over {of} groups: all samples of a group are drawn together"


def raw_is_better(result: EvaluationResult) -> str:
    """What to try if the raw samples alone answer better than the model; else an empty string."""
    for kind, name in RAW_NAMES.items():
        other = "a layer on the vectors (--adapter 256)" if kind == "vector" else "a pretrained --encoder"
        raw = result.methods.get(name)
        if raw is None:
            continue
        for metric, words in _BEATEN:
            ours, theirs = result.main.answer_score(metric), raw.answer_score(metric)
            if theirs > ours:
                return (
                    f"{name} alone {words} {theirs:.4f} and {ours:.4f}. "
                    f"{_better_classifier(result.main, metric, theirs)}"
                    f"Try more steps (more --epochs, a smaller --batch_size) or {other}; the "
                    "guide 'When the model is no better than raw pixels' has more"
                )
    return ""


_BEATEN = (
    ("top1", "give more right answers than the model: top-1"),
    ("hierarchical_f1", "keep closer to the tree than the model: hierarchical F1"),
)


def _better_classifier(main: MethodResult, metric: str, theirs: float) -> str:
    """A sentence on another classifier of the model that is better than the raw samples; or nothing."""
    scores = {kind: replace(main, classifier=replace(main.classifier, name=kind)) for kind in _CLASSIFIERS}
    scores_of = {kind: method.answer_score(metric) for kind, method in scores.items()}
    best = max(scores_of, key=lambda kind: -1.0 if math.isnan(scores_of[kind]) else scores_of[kind])
    if best == main.classifier.name or not scores_of[best] > theirs:
        return ""
    return f"Another classifier of the model has {scores_of[best]:.4f}: --classifier {best}. "


def _title(metric: str, role: str | None) -> str:
    name = metric_name(metric)
    if metric == "top1":
        return f"{name}, linear probe"
    return f"{name}, {role}" if role in ("features", "posterior") else name


def _cell(value: float, bounds: tuple[float, float]) -> str:
    if math.isnan(value):
        return "–"
    low, high = bounds
    ends = "" if math.isnan(low) else f" [{low:.3f}, {high:.3f}]"
    return f"{value:.4f}{ends}"


@dataclass(frozen=True)
class Tile:
    """A large number with what it says, what the baselines have, and a sentence below it."""

    number: str
    title: str
    others: list[tuple[str, str]]
    note: str = ""


def opening(result: EvaluationResult, taxonomy: Taxonomy, samples: str, *, trained: bool) -> str:
    """What the page is about: the classes, their tree, and what the model should do."""
    branches = main_branches(taxonomy)
    names = ", ".join(taxonomy.names[node] for node in branches[:4]) + (" …" if len(branches) > 4 else "")
    tree = f"a tree {plural(taxonomy.max_depth, 'step')} deep"
    tree += f" with {len(branches)} main branches ({names})" if len(branches) > 1 else ""
    classes = plural(result.counts["classes tested"], "class", "classes")
    who = "The model was trained to place" if trained else "Good embeddings place"
    return (
        f"{who} {samples} close together if they are close on {tree}. "
        f"This page shows how well that works for {classes}."
    )


def main_sentences(
    result: EvaluationResult, samples: str, differences: Differences | None = None
) -> list[str]:
    """Sentences: how good, whether better than each baseline, and how bad the mistakes are.

    Args:
        result: The result.
        samples: What samples are called.
        differences: Its `answer_differences`; None = they are computed.
    """
    main, errors = result.main, result.main.errors
    top1 = main.answer_score("top1")
    if math.isnan(top1):
        return [f"How often the {samples} get the right class is not defined here."]
    sentences = [
        f"Of {errors.samples:,} test {samples}, {_CLASSIFIERS[main.classifier.name]} gives exactly the right "
        f"class for {percent(top1)}, "
        f"{_how_sure(main, errors.samples, result.settings.confidence)}.",
    ]
    apart = answer_differences(result) if differences is None else differences
    others = [
        _beside(main, other, apart.get(key), result.settings.confidence)
        for key, other in result.methods.items()
        if key != result.name
    ]
    if others:
        level = percent(result.settings.confidence, 0)
        bounds = f" In brackets: {level} intervals of the differences on the same {samples}." if apart else ""
        sentences.append(f"For comparison: {'; '.join(others)}.{bounds}")
    coarsest = _coarsest(main)
    if errors.errors and coarsest < len(errors.by_depth) - 1:
        near = 1 - sum(errors.by_depth[: coarsest + 1]) / errors.errors
        sentences.append(
            f"Of the {plural(errors.errors, 'mistake')}, {percent(near, 0)} stay in the right main branch."
        )
    elif not errors.errors:
        sentences.append("It made no mistake.")
    return sentences


def tiles(result: EvaluationResult, differences: Differences | None = None) -> list[Tile]:
    """The four numbers to remember.

    Args:
        result: The result.
        differences: Its `answer_differences`; None = they are computed.
    """
    main = result.main
    others = [method for key, method in result.methods.items() if key != result.name]
    coarsest = _coarsest(main)
    shown = [
        Tile(
            percent(main.answer_score("top1")),
            f"get exactly the right class ({_BY_IN_TILE[main.classifier.name]})",
            _others(others, lambda m: m.answer_score("top1"), answers=True),
            added_by_training(result, differences, shares=False),
        ),
    ]
    if coarsest < len(main.answer_by_depth) - 1:
        shown.append(
            Tile(
                percent(main.answer_by_depth[coarsest]),
                "get the right coarsest group",
                _others(
                    others,
                    lambda m: dict(enumerate(m.answer_by_depth)).get(coarsest, math.nan),
                    answers=True,
                ),
            )
        )
    space = main.classifier.space
    undefined = math.isnan(main.score("recall_at_1", space.name))
    shown.append(
        Tile(
            percent(main.score("recall_at_1", space.name)),
            "find their own class first in a search" + (": not defined here" if undefined else ""),
            _others(others, lambda m: m.score("recall_at_1", m.classifier.space.name)),
            space.sentence,
        )
    )
    violations = main.score("parent_violations")
    if not math.isnan(violations):
        shown.append(
            Tile(
                percent(violations),
                "are nearer to a wrong group: less is better",
                _others(others, lambda m: m.score("parent_violations")),
            )
        )
    return shown


def _coarsest(method: MethodResult) -> int:
    """The place, depth − 1, of the coarsest groups to tell apart; the number of depths without any."""
    depths = method.answer_by_depth
    return next((place for place, value in enumerate(depths) if not math.isnan(value)), len(depths))


def _others(
    methods: list[MethodResult], score: Callable[[MethodResult], float], *, answers: bool = False
) -> list[tuple[str, str]]:
    """The numbers of other methods; those of answers with the classifier that gave them."""
    return [
        (
            f"{method.name}, {_BY_IN_TILE[method.classifier.name]}" if answers else method.name,
            percent(score(method)),
        )
        for method in methods
    ]


def _how_sure(main: MethodResult, count: int, confidence: float) -> str:
    """The interval of the share of right answers, or that for as many independent samples."""
    low, high = main.answer_interval("top1")
    if math.isnan(low):
        return f"give or take {_margin(main.answer_score('top1'), count):.1f} points"
    return f"with {percent(confidence, 0)} confidence between {percent(low)} and {percent(high)}"


def _margin(share: float, samples: int) -> float:
    """Half the 95 % interval of a share, in points, by Wilson's formula for as many independent samples."""
    z = 1.96
    return 100 * z / (1 + z**2 / samples) * math.sqrt(share * (1 - share) / samples + z**2 / (4 * samples**2))


def _half(method: MethodResult) -> float:
    """Half the interval of the share of right answers, in points; with groups, their wider interval."""
    low, high = method.answer_interval("top1")
    return (
        _margin(method.answer_score("top1"), method.errors.samples) if math.isnan(low) else 50 * (high - low)
    )


def answer_differences(result: EvaluationResult) -> Differences:
    """Key of another method → its share of right answers minus that of the model, on the same samples.

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
    return compared.metric("answer_top1").differences


def _beside(main: MethodResult, other: MethodResult, difference: Difference | None, confidence: float) -> str:
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
    verdict = f"{gain:.1f} points less" if gain > 0 else f"{-gain:.1f} points more, so better than this model"
    if difference is None:
        return by_chance if abs(gain) < math.hypot(_half(main), _half(other)) else f"{named}, {verdict}"
    if math.isnan(difference.low) or math.isnan(difference.corrected):
        return (
            f"{named}, {abs(gain):.1f} points {'less' if gain > 0 else 'more'}: too few to tell from chance"
        )
    bounds = f"[{100 * difference.low:+.1f}, {100 * difference.high:+.1f}]".replace("-", "−")
    return f"{by_chance if difference.corrected > 1 - confidence else f'{named}, {verdict}'} {bounds}"
