"""The large numbers at the top of the report, each with what the baselines have."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from labeltree.decisions.choose_classifier import ClassifierKind
from labeltree.evaluation import EvaluationResult, MethodResult
from labeltree.report.verdict import place_of_main_branches
from labeltree.report.wording import percent

__all__ = [
    "Tile",
    "tiles",
]

_BY_IN_TILE: dict[ClassifierKind, str] = {
    "own": "own classifier",
    "probe": "simple classifier",
    "lda": "LDA",
    "prototypes": "class means",
    "feature-means": "class means of features",
    "each-fold": "as each fold chose",
}


@dataclass(frozen=True)
class Tile:
    """A large number with what it says, what the baselines have, a sentence below it, and its interval."""

    number: str
    title: str
    others: list[tuple[str, str]]
    note: str = ""
    interval: str = ""


def tiles(result: EvaluationResult) -> list[Tile]:
    """The four numbers to remember."""
    main = result.main
    others = [method for key, method in result.methods.items() if key != result.name]
    coarsest = place_of_main_branches(main)
    shown = [
        Tile(
            percent(main.answer_score("top1")),
            f"get exactly the right class ({_BY_IN_TILE[main.classifier.name]})",
            _others(others, lambda m: m.answer_score("top1"), answers=True),
            interval=_ends(main.answer_interval("top1")),
        ),
    ]
    if coarsest < len(main.answer_by_depth) - 1:
        shown.append(
            Tile(
                percent(main.answer_by_depth[coarsest]),
                "get the right main branch",
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
            "; ".join(filter(None, [_searched_for(result), space.sentence])),
            _ends(main.interval("recall_at_1", space.name)),
        )
    )
    violations = main.score("parent_violations")
    if not math.isnan(violations):
        shown.append(
            Tile(
                percent(violations),
                "are nearer to another branch than to their own: less is better",
                _others(others, lambda m: m.score("parent_violations")),
                interval=_ends(main.interval("parent_violations")),
            )
        )
    return shown


def _searched_for(result: EvaluationResult) -> str:
    """How many samples a search is measured on, if some have nothing to find; else empty."""
    queries = result.counts.get("queries", 0)
    missing = result.counts.get("queries without a sample of their class to find", 0)
    return f"of {queries - missing} that have another of their class to find" if missing else ""


def _ends(ends: tuple[float, float]) -> str:
    """The ends of an interval; empty where there is none."""
    return "" if math.isnan(ends[0]) else f"{percent(ends[0])} to {percent(ends[1])}"


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
