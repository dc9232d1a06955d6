"""The first screen: what was tested, the questions that were asked, and whether promises were kept."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from labeltree.counted_nouns import say_count, say_list
from labeltree.data.column_roles import NO_COLUMN
from labeltree.decisions.kept_promises import calibrated_units, is_kept, may_be_kept, say_kept
from labeltree.evaluation import EvaluationResult
from labeltree.evaluation.fewest_samples import FEW_CASES, TOO_FEW, says_nothing
from labeltree.evaluation.protocols.decisions import LATER
from labeltree.evaluation.protocols.nodes_as_tests import POINT_COUNTS, QUESTION_COUNTS
from labeltree.evaluation.result import Bounds, ProtocolResult
from labeltree.report.charts.tree_colours import main_branches, name_branches
from labeltree.report.wording import percent
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = [
    "PromisePanel",
    "QuestionPanel",
    "Rate",
    "group_word",
    "promise_panel",
    "promise_sentence",
    "question_panels",
    "tested_sentence",
]

_MOST_VALUES = 6  # of an attribute that are named one by one
_NO_ENDS = math.nan, math.nan
_MANY_WITHHELD = 0.2  # of the answers, of which the coverage then says little
_FEW_LEAVES = 0.1  # right ones, likewise


@dataclass(frozen=True)
class Rate:
    """A rate of a question: its value and interval as text, the counts behind it, and a warning if few."""

    title: str
    meaning: str
    value: str
    interval: str
    counts: str
    few: bool


@dataclass(frozen=True)
class QuestionPanel:
    """A named set of nodes judged as one test; `point` says its operating point and the rates there."""

    name: str
    nodes: str
    cases: str
    rates: list[Rate]
    warnings: list[str]
    point: str = ""


@dataclass(frozen=True)
class Part:
    """The share of kept promises among the samples with one value of an attribute."""

    name: str
    value: str
    interval: str
    samples: str
    verdict: str
    kept: bool


@dataclass(frozen=True)
class PromisePanel:
    """What was promised, what came of it, and where it did not hold."""

    sentence: str
    kept: bool
    parts: list[Part]
    rest: str


def group_word(recipe: Mapping[str, Any] | None, column: str | None = None) -> str:
    """What a group is called: the column that the groups of a table or of a run come from, else `group`."""
    table = (recipe or {}).get("table")
    if column is None and isinstance(table, Mapping):
        column = table.get("group_column")
    column = None if column == NO_COLUMN else column
    word = re.sub(r"[ _-]?(id|nr|no|number)$", "", str(column or "").strip().lower())
    return word if word.isalpha() else "group"


def tested_sentence(
    result: EvaluationResult,
    table: EmbeddingTable,
    rows: Tensor,
    taxonomy: Taxonomy,
    sample: str,
    group: str,
    *,
    alone: bool,
    searched: Tensor | None,
) -> str:
    """How many samples, of how many groups, lesions and classes were tested.

    Args:
        result: Of the evaluation.
        table: The table that was evaluated.
        rows: `(t,)` rows that were tested.
        taxonomy: Of its labels.
        sample: What a sample is called.
        group: What a group is called.
        alone: Whether nothing before it names classes and branches.
        searched: `(q,)` rows that are queries of retrieval, mentioned if they are more than those tested.
    """
    of = []
    per = _units_of(result)
    if per not in ("sample", "group") and per in table.attributes:
        of.append(say_count(len(torch.unique(table.units(per)[rows])), per))
    groups = None if table.groups is None else table.units("group")
    if groups is not None:
        of += _say_groups(groups[rows], group)
    what = say_count(len(rows), sample) + "".join(f" of {each}" for each in of)
    if coarse := result.counts.get("labelled only coarsely", 0):
        what += f", {coarse:,} of them labelled only coarsely"
    search = ""
    if searched is not None and len(searched) > len(rows):
        search = f" Searches start from {say_count(len(searched), sample)}"
        if groups is not None:
            search += "".join(f" of {each}" for each in _say_groups(groups[searched], group))
        search += "."
    if not alone:
        return f"Tested on {what}.{search}"
    branches = main_branches(taxonomy)
    names = name_branches(taxonomy)
    tree = f" in {len(branches)} main branches ({names})" if len(branches) > 1 else ""
    classes = say_count(result.counts.get("classes tested", 0), "class", "classes")
    return f"Tested on {what}: {classes}{tree}.{search}"


def _say_groups(groups: Tensor, group: str) -> list[str]:
    """The groups `(m,)` of samples in words, as a list of one; empty if each sample is one by itself.

    Args:
        groups: −1 where a sample has none.
        group: What a group is called; by another word than `group`, it is told in any case.
    """
    named, without = len(torch.unique(groups[groups >= 0])), int((groups < 0).sum())
    if not named or (group == "group" and named + without == len(groups)):
        return []
    if group == "group":
        return [say_count(named + without, group)]
    return [say_count(named, group) + (f" and {without:,} without one" if without else "")]


def question_panels(result: EvaluationResult, sample: str, group: str = "group") -> list[QuestionPanel]:
    """A panel for each named set of nodes that was asked about, with the classifier that decides it."""
    node_scores = result.main.protocols.get("node-scores")
    if node_scores is None or node_scores.refusal is not None:
        return []
    per = _units_of(result)
    unit = {"sample": sample, "group": group}.get(per, per)
    panels = []
    for words in result.settings.options.get("node-scores", {}).get("questions", ()):
        name, _, nodes = (part.strip() for part in str(words).partition("="))
        numbers = [node_scores.counts.get(f"{name}: {of}") for of in QUESTION_COUNTS]
        rates = _rates(name, node_scores.scores, node_scores.intervals, numbers, unit)
        if result.settings.resamples:  # over folds, AUROC has none of however many cases
            bare = {"AUROC"} if "folds" in result.counts else set()
            rates = [
                rate if rate.interval or rate.title in bare else replace(rate, interval=TOO_FEW)
                for rate in rates
            ]
        tested = ""
        if None not in numbers:
            positive, _, negative, _, coarse = (number or 0 for number in numbers)
            tested = f"{say_count(positive, unit)} positive, {negative:,} negative"
            tested += f"; {coarse:,} left out, whose label is too coarse to tell" if coarse else ""
            by = node_scores.title.partition(", by ")[2]
            tested += f". Answered by {by}." if by else ""
        shown = " or ".join(node.strip().replace("/", " › ") for node in nodes.split("+"))
        warnings = _warnings(name, numbers, unit)
        missing = f"{name}: no interval of "
        lacking = (note for note in node_scores.notes if note.startswith(missing))
        warnings += [note.removeprefix(missing).join(("No interval of ", "")) for note in lacking]
        panels.append(QuestionPanel(name, shown, tested, rates, warnings, _say_point(name, node_scores)))
    return panels


def _say_point(name: str, node_scores: ProtocolResult) -> str:
    """The operating point of a question, and sensitivity and specificity there; empty in older results."""
    start = f"{name}: the operating point"
    said = next((note for note in node_scores.notes if note.startswith(start)), "")
    if not said:
        return ""
    counts = node_scores.counts
    right = [counts.get(f"{name}: {of}") for of in POINT_COUNTS]
    of = [counts.get(f"{name}: {QUESTION_COUNTS[at]}") for at in (0, 2)]
    rates = []
    for key, hit, count in zip(("sensitivity", "specificity"), right, of, strict=True):
        value, ends = _score(name, f"point_{key}", node_scores.scores, node_scores.intervals)
        if not math.isnan(value):
            within = "" if None in (hit, count) else f"{hit:,} of {count:,}"
            within = ", ".join(filter(None, [within, _range(*ends)]))
            rates.append(f"{key} {percent(value)}" + (f" ({within})" if within else ""))
    said = said.removeprefix(f"{name}: ")
    return f"{said[0].upper()}{said[1:]}" + (f" There: {', '.join(rates)}." if rates else "")


def _units_of(result: EvaluationResult) -> str:
    """What is a case of the protocol `node-scores`: `sample`, `group`, or an attribute."""
    return str(result.settings.options.get("node-scores", {}).get("per", "sample"))


def _rates(
    name: str,
    scores: Mapping[str, float],
    intervals: Mapping[str, Bounds],
    numbers: Sequence[int | None],
    unit: str,
) -> list[Rate]:
    positive, hit, negative, cleared, _ = numbers
    said = called = None
    if positive is not None and hit is not None and negative is not None and cleared is not None:
        said, called = hit + negative - cleared, positive - hit + cleared
    rows = (
        ("sensitivity", "Sensitivity", f"of the {name} {unit}s, found", hit, positive),
        ("specificity", "Specificity", "of the others, cleared", cleared, negative),
        ("ppv", "PPV", f"of those called {name}, right", hit, said),
        ("npv", "NPV", "of those cleared, right", cleared, called),
    )
    rates = []
    for key, title, meaning, right, of in rows:
        value, ends = _score(name, f"decision_{key}", scores, intervals)
        low, high = ends
        undefined = math.isnan(value)
        rates.append(
            Rate(
                title,
                meaning,
                "–" if undefined else percent(value),
                "not defined here" if undefined else _range(low, high),
                "" if of is None else f"{right:,} of {of:,}",
                of is not None and of < FEW_CASES,
            )
        )
    value, (low, high) = _score(name, "auroc", scores, intervals)
    if not math.isnan(value):
        ends_text = "" if math.isnan(low) else f"{low:.3f} to {high:.3f}"
        few = positive is not None and negative is not None and min(positive, negative) < FEW_CASES
        rates.append(Rate("AUROC", "over all thresholds", f"{value:.3f}", ends_text, "", few))
    return rates


def _score(
    name: str, key: str, scores: Mapping[str, float], intervals: Mapping[str, Bounds]
) -> tuple[float, Bounds]:
    """A score of a question and its interval; of several representations, of the first."""
    metric = f"{name}.{key}"
    metric = next((known for known in scores if known == metric or known.endswith(f".{metric}")), metric)
    return scores.get(metric, math.nan), intervals.get(metric, _NO_ENDS)


def _range(low: float, high: float) -> str:
    """The ends of an interval of a share, in percent; empty if there is none."""
    if says_nothing(low, high):
        return TOO_FEW
    return "" if math.isnan(low) else f"{100 * low:.1f} to {percent(high)}"


def _warnings(name: str, numbers: Sequence[int | None], unit: str) -> list[str]:
    """What to be careful about: no cases, or few."""
    positive, hit, negative, cleared, _ = numbers
    cases = [(positive, "positive", "sensitivity"), (negative, "negative", "specificity")]
    said = [f"No {unit} is {what}: the {rate} is not defined." for count, what, rate in cases if count == 0]
    cases = [case for case in cases if case[0] != 0]
    if positive is not None and hit is not None and negative is not None and cleared is not None:
        cases.append((hit + negative - cleared, f"called {name}", "PPV"))
        cases.append((positive - hit + cleared, "cleared", "NPV"))
    few = [
        f"{count:,} {what} ({rate})" for count, what, rate in cases if count is not None and count < FEW_CASES
    ]
    if few:
        rates = "This rate is" if len(few) == 1 else "These rates are"
        said.append(f"Few {unit}s: {', '.join(few)}. {rates} uncertain.")
    return said


def promise_sentence(result: EvaluationResult) -> str:
    """Whether answers hold the truth as often as was promised; empty without the protocol `decisions`."""
    promise = _promise(result)
    if promise is None:
        return ""
    asked, value, (low, high), calibrated = promise
    counts = result.main.protocols["decisions"].counts
    unlearned = counts.get("test samples of classes that were not learned", 0)
    ends = "" if math.isnan(low) else f" ({_range(low, high)})"
    verdict = "" if value >= asked else ": not clearly fewer"
    if not may_be_kept(asked, value, high, calibrated):
        verdict = ": the coverage does not hold here"
    elif (value if math.isnan(high) else high) < asked:
        unit = "group" if "groups for the thresholds" in counts else "sample"
        verdict = f": fewer, but thresholds from {say_count(calibrated, unit)} may miss by as much by chance"
    if unlearned and value < asked:
        are = "is of a class that was" if unlearned == 1 else "are of classes that were"
        verdict = f": fewer, and {unlearned:,} {are} not learned, for which nothing is promised"
    later = counts.get(LATER, 0)
    said = f"{percent(value)}{ends} of the answers hold the truth"
    if _promises_nothing(result, asked):
        said = f"{said}; nothing was promised for them, as their classes were added later."
    elif later:
        of_later = result.main.protocols["decisions"].scores[f"coverage_of_later_at_{asked:g}"]
        are = "sample is of a class that was" if later == 1 else "samples are of classes that were"
        said = (
            f"{said}; {percent(asked, 0)} were promised{verdict}. A further {later:,} {are} added later, for "
            f"which nothing was promised: {percent(of_later)} of their answers hold the truth."
        )
    else:
        said = f"{said}; {percent(asked, 0)} were promised{verdict}."
    return f"{said}{_withheld_note(result, asked)}{_groups_note(result, asked)}"


def _promises_nothing(result: EvaluationResult, asked: float) -> bool:
    """Whether all samples are of classes that were added later, without a promise."""
    return bool(result.main.protocols["decisions"].counts.get(LATER)) and not _has_promised(result, asked)


def _has_promised(result: EvaluationResult, asked: float) -> bool:
    """Whether samples of classes with a promise are told apart from those of classes added later."""
    return f"coverage_of_promised_at_{asked:g}" in result.main.protocols["decisions"].scores


def _withheld_note(result: EvaluationResult, asked: float) -> str:
    """A sentence on what answers name, where many name nothing, or few a class; else empty."""
    scores = result.main.protocols["decisions"].scores
    share, leaves = (
        scores.get(f"root_at_{asked:g}", math.nan),
        scores.get(f"right_leaf_at_{asked:g}", math.nan),
    )
    if not (share >= _MANY_WITHHELD or leaves < _FEW_LEAVES):
        return ""
    nothing = f"{percent(share)} of them name nothing, as no class and no branch was sure enough"
    right = "" if math.isnan(leaves) else f"{percent(leaves)} of them name the right class itself"
    if not share >= _MANY_WITHHELD:
        return f" But only {right}."
    return f" But {nothing}{'; ' if right else ''}{right}."


def _groups_note(result: EvaluationResult, asked: float) -> str:
    """A sentence on the groups of the answers; empty without groups."""
    decisions = result.main.protocols["decisions"]
    count = decisions.counts.get("groups of test samples answered")
    all_held, mean = (
        decisions.scores.get(f"{name}_at_{asked:g}") for name in ("groups_held", "coverage_of_groups")
    )
    if count is None or all_held is None or mean is None:
        return ""
    every = "all " if decisions.counts.get(LATER) and count > 1 else ""
    return (
        f" Of {every}{say_count(count, 'group')}, {percent(all_held)} have answers that all hold the truth; "
        f"the mean of the groups' shares is {percent(mean)}."
    )


def promise_panel(result: EvaluationResult, samples: str) -> PromisePanel | None:
    """The promised coverage beside the coverage found, also by attributes; None if it was not measured."""
    promise = _promise(result)
    if promise is None:
        return None
    asked, value, (_, high), calibrated = promise
    if _promises_nothing(result, asked):
        return PromisePanel(promise_sentence(result), True, [], "")
    parts = []
    for part in result.main.by_attribute:
        name = "coverage_of_promised_at" if _has_promised(result, asked) else "coverage_at"
        key = next((key for key in part.scores if key.endswith(f".{name}_{asked:g}")), "")
        held, (low, up) = part.scores.get(key, math.nan), part.intervals.get(key, _NO_ENDS)
        if math.isnan(held):
            continue
        samples_held, groups = part.counted.get(key, part.samples), part.counted_groups.get(key, part.groups)
        kept = is_kept(asked, held, up, calibrated, samples=samples_held, groups=groups)
        verdict = say_kept(kept, asked, held, low)
        name = f"{part.attribute} {part.value or '(missing)'}"
        count = f"{samples_held:,} {samples}"
        parts.append(Part(name, percent(held), _range(low, up), count, verdict, kept is not False))
    broken = [part for part in parts if not part.kept]
    shown, rest = parts, ""
    if len(parts) > _MOST_VALUES:
        shown = broken[:_MOST_VALUES]
        counts = Counter(part.verdict for part in parts)
        told = say_list([f"{count} {verdict}" for verdict, count in counts.most_common()])
        rest = f"Of {len(parts)} values: {told}; all are under By attribute."
    return PromisePanel(promise_sentence(result), may_be_kept(asked, value, high, calibrated), shown, rest)


def _promise(result: EvaluationResult) -> tuple[float, float, Bounds, int] | None:
    """The promised coverage (0.9, or the first asked), the one found, its interval, and what it rests on.

    The last is the number of samples, or of their groups, that thresholds come from.
    """
    decisions = result.main.protocols.get("decisions")
    if decisions is None:
        return None
    known = {
        float(name.removeprefix("coverage_at_")): name
        for name, value in decisions.scores.items()
        if name.startswith("coverage_at_") and not math.isnan(value)
    }
    if not known:
        return None
    asked = 0.9 if 0.9 in known else next(iter(known))
    name = f"coverage_of_promised_at_{asked:g}" if _has_promised(result, asked) else known[asked]
    calibrated = calibrated_units(decisions.counts)
    return asked, decisions.scores[name], decisions.intervals.get(name, _NO_ENDS), calibrated
