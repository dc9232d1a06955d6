"""Is it good, and where does it fail: the sentences that open the report and what the terminal prints."""

from __future__ import annotations

import math
from collections import Counter
from statistics import NormalDist

from labeltree.counted_nouns import say_count
from labeltree.evaluation import EvaluationResult, MethodResult
from labeltree.evaluation.fewest_samples import FEW_CASES
from labeltree.report.compare_answers import Differences, added_by_training
from labeltree.report.tables.confusions import wrong_pairs
from labeltree.report.wording import percent
from labeltree.taxonomy.naming import last_names, short_name, split_path

__all__ = ["evaluation_verdict", "margin", "place_of_main_branches"]

_FEW_MISTAKES = 5  # fewer show no pattern
_FREQUENT = 0.1  # a pair with so much of the mistakes is named, else the branch, if there are several


def evaluation_verdict(
    result: EvaluationResult, samples: str = "samples", differences: Differences | None = None
) -> list[str]:
    """How good the answers are, with reservations, what training added, where mistakes lie, in sentences.

    Args:
        result: The result.
        samples: What samples are called.
        differences: Its `answer_differences`; None = they are computed.
    """
    main = result.main
    top1, count = main.answer_score("top1"), main.errors.samples
    if math.isnan(top1):
        return [f"How often the {samples} get the right class is not defined here."]
    one = samples.removesuffix("s")
    few = f" Only {say_count(count, one)}: this is a rough figure." if count < FEW_CASES else ""
    good = (
        f"Of {say_count(count, f'test {one}')}, {percent(top1)} get{'s' * (count == 1)} exactly the right "
        f"class ({_how_sure(result, count)}).{few}"
    )
    further = [added_by_training(result, differences, shares=False), _mistakes(result)]
    return [good, *result.reservations, *filter(None, further)]


def _how_sure(result: EvaluationResult, count: int) -> str:
    """The interval of the share of right answers, or half that for as many samples, if none is of a group."""
    main, confidence = result.main, result.settings.confidence
    low, high = main.answer_interval("top1")
    outcomes = result.outcomes.get(result.name)
    if math.isnan(low) and outcomes is not None and outcomes.groups is not None:
        return "no interval: too few groups" if result.settings.resamples else "no interval was asked for"
    if math.isnan(low):
        half = margin(main.answer_score("top1"), count, confidence)
        return f"give or take {half:.1f} points at {percent(confidence, 0)}"
    return f"{percent(confidence, 0)} interval {percent(low)} to {percent(high)}"


def margin(share: float, samples: int, confidence: float = 0.95) -> float:
    """Half the interval of a share, in points, by Wilson's formula for as many independent samples."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return 100 * z / (1 + z**2 / samples) * math.sqrt(share * (1 - share) / samples + z**2 / (4 * samples**2))


def _mistakes(result: EvaluationResult) -> str:
    """Where most mistakes lie: a pair of classes that are taken for each other, or a branch."""
    errors = result.main.errors
    if not errors.errors:
        return "It made no mistake."
    if errors.errors < _FEW_MISTAKES:
        return f"It made {say_count(errors.errors, 'mistake')}, too few to show a pattern."
    frequent = _frequent_pair(result)
    near = _near(result.main)
    if frequent is not None and frequent[1] >= max(2, _FREQUENT * errors.errors):
        pair, count, as_frequent = frequent
        first, second = last_names(*pair)
        said = f"{count:,} of {errors.errors:,} mistakes are {first} ↔ {second}"
        if as_frequent:
            said += f" ({say_count(as_frequent, 'other pair is', 'other pairs are')} as frequent)"
        return f"{said}{near if count < errors.errors else ''}."
    if not _tells_branches(result.main):
        often = "" if frequent is None else ", and no two classes are confused often"
        return f"It made {errors.errors:,} mistakes{often}."
    worst = max(errors.nodes, key=lambda node: node.errors_here)
    only = worst.errors_here == 1
    where = (
        f"{'confuses' if only else 'confuse'} classes of '{short_name(split_path(worst.path)[-1])}'"
        if worst.depth
        else f"{'is' if only else 'are'} in the wrong main branch"
    )
    return f"{worst.errors_here:,} of {errors.errors:,} mistakes {where}{near if worst.depth else ''}."


def _frequent_pair(result: EvaluationResult) -> tuple[tuple[str, str], int, int] | None:
    """The two classes that are most often taken for each other, how often, and how many pairs are as often.

    Of these the first is that with the most frequent confusion of one class with another, as in the table of
    confusions. None if no pair is known.
    """
    errors, outcomes = result.main.errors, result.outcomes.get(result.name)
    counts, one_way = Counter[tuple[int, int]](), dict[tuple[int, int], tuple[int, int, int]]()
    classifier = result.main.classifier.name
    for true, answer, count in wrong_pairs(errors, outcomes, classifier, only_mistakes=True):
        if answer > 0:  # no answer counts as the root
            pair = min(true, answer), max(true, answer)
            counts[pair] += count
            one_way[pair] = min(one_way.get(pair, (0, 0, 0)), (-count, true, answer))
    if not counts:
        return None
    (a, b), count = min(counts.items(), key=lambda item: (-item[1], one_way[item[0]]))
    as_frequent = sum(other == count for other in counts.values()) - 1
    paths = {each.true_node: each.true for each in errors.confusions}
    paths |= {each.predicted_node: each.predicted for each in errors.confusions}
    if outcomes is not None:
        paths |= {node: outcomes.taxonomy.path_name(node) for node in (a, b)}
    return (paths[a], paths[b]), count, as_frequent


def _near(main: MethodResult) -> str:
    """The share of mistakes that stay in the right main branch, as a clause; empty if all are or can be."""
    errors = main.errors
    if not _tells_branches(main):
        return ""
    near = 1 - sum(errors.by_depth[: place_of_main_branches(main) + 1]) / errors.errors
    rounded = {0: "less than 1\u202f%", 100: "more than 99\u202f%"} if 0 < near < 1 else {}
    share = rounded.get(round(100 * near), percent(near, 0))
    return f"; {share} of all mistakes stay in the right main branch"


def _tells_branches(main: MethodResult) -> bool:
    """Whether there are main branches above the finest groups: else a mistake is always in another one."""
    return place_of_main_branches(main) + 1 < len(main.errors.by_depth) - 1


def place_of_main_branches(method: MethodResult) -> int:
    """The place, depth − 1, of the first branches to tell apart; the number of depths without any."""
    depths = method.answer_by_depth
    return next((place for place, value in enumerate(depths) if not math.isnan(value)), len(depths))
