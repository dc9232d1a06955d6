"""How to read a study's first table: one method against each other one, a sentence for every column."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from labeltree.report.pages.document import Text
from labeltree.studies.study_plan import Study
from labeltree.studies.study_statistics import Difference, Summary, differences, metric_title

__all__ = ["claimed_method", "comparison_blocks"]


def claimed_method(study: Study, methods: Sequence[str]) -> str:
    """The method that the study's claim names first; the first of `methods` if it names none."""
    mentions: list[tuple[int, int, str]] = []
    for name in methods:
        if match := re.search(rf"(?<![\w+-]){re.escape(name)}(?![\w+-])", study.claim):
            mentions.append((match.start(), -len(name), name))
    return min(mentions)[2] if mentions else methods[0]


def comparison_blocks(study: Study, summary: Summary, columns: Sequence[str]) -> list[Text]:
    """A sentence for each column: by how much a method is ahead of each other one, and what seeds decide."""
    own = [method.name for method in study.methods if method.name in summary.methods]
    if not own or len(summary.methods) < 2:
        return []
    first = claimed_method(study, own)
    if len(study.seeds) < 3:
        seeds = "one seed" if len(study.seeds) == 1 else "two seeds"
        said = f"With {seeds}, nothing can be decided: differences below may be chance."
    else:
        said = (
            "Seeds decide where p < 0.05 in Welch's two-sided t-test over them, with Holm's correction for "
            "the methods that are compared. What they do not decide may still differ: more seeds may tell."
        )
    blocks = [
        Text(
            f"{first} against each other method, as difference of the means ± its standard error, above 0 "
            f"where {first} is better. {said}"
        )
    ]
    for column in columns:
        differs = differences(summary, column, first)
        if differs:
            title = f"{column.split('/')[0]} {metric_title(column)}"
            blocks.append(Text(f"{title}: {_sentence(differs)}."))
    return blocks


def _sentence(differences_of: dict[str, Difference]) -> str:
    better = [_show(name, d) for name, d in differences_of.items() if d.decided and d.mean > 0]
    worse = [_show(name, d) for name, d in differences_of.items() if d.decided and d.mean < 0]
    open_ = [_show(name, d) for name, d in differences_of.items() if not d.decided]
    parts = [("better than", better), ("worse than", worse), ("not decided against", open_)]
    return "; ".join(f"{words} {', '.join(names)}" for words, names in parts if names)


def _show(name: str, difference: Difference) -> str:
    error = "" if math.isnan(difference.error) else f" ± {difference.error:.4f}"
    return f"{name} ({difference.mean:+.4f}{error})"
