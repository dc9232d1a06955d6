"""Results of protocols and of comparisons, as text for a terminal and as Markdown."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from typing import cast

from labeltree.counted_nouns import say_count
from labeltree.decisions.choose_classifier import CLASSIFIER_WORDS, ClassifierKind
from labeltree.decisions.kept_promises import calibrated_units, is_kept
from labeltree.evaluation.answer_columns import ANSWERS, CLASSIFIER_ROLES, PREFIX
from labeltree.evaluation.by_attribute import QUESTION_RATE
from labeltree.evaluation.comparing.comparison import (
    ALPHA,
    Comparison,
    Difference,
    Estimate,
    MetricComparison,
    StratumComparison,
)
from labeltree.evaluation.fewest_samples import FEW, TOO_FEW, ends_text
from labeltree.evaluation.protocols.decisions import LATER
from labeltree.evaluation.result import AttributeResult, EvaluationResult, ProtocolResult
from labeltree.evaluation.rule_table import rule_rows
from labeltree.evaluation.sample_columns import FEWEST_GROUPS
from labeltree.metrics.catalogue import metric_name
from labeltree.taxonomy.naming import some

__all__ = [
    "BEFORE_UNKNOWN",
    "attribute_rows",
    "attribute_table",
    "comparison_csv",
    "comparison_notes",
    "comparison_text",
    "protocol_table",
    "say_left_out",
]


BEFORE_UNKNOWN = (
    "coverage: the share of answers that hold the truth before samples are called unknown; "
    "'labeltree predict --labelled' counts after it"
)
"""What a coverage is of, beside the one that `predict` measures."""
_COVERAGE = metric_name("coverage_at_")
_WIDEST = 100  # columns of text that stand beside one another
# secondary scores of the same answers, only in metrics.json
_LEFT_OUT = re.compile(
    r"(^|\.)(tree_accuracy|mistake_severity|mean_average_precision|training_loss|recall_at_(?!1$|1_)\d+"
    r"|(hierarchical_f1|map_at_r|ahp)_(head|middle|tail))$"
)


def protocol_table(result: EvaluationResult) -> str:
    """The main scores of every further protocol, one column for each method; empty if none was run.

    A score is followed by its standard deviation, if it is a mean over draws or folds, and by the ends of its
    confidence interval.
    """
    methods = result.methods
    lines: list[str] = []
    for protocol in dict.fromkeys(name for method in methods.values() for name in method.protocols):
        results = {name: method.protocols[protocol] for name, method in methods.items()}
        main = results[result.name]
        named = main.title.casefold().startswith(protocol.split("-")[0])
        lines += ["", main.title if named else f"{protocol}: {main.title}"]
        names = [
            name
            for name in dict.fromkeys(name for each in results.values() for name in each.scores)
            if not _LEFT_OUT.search(name) and not _is_deviation(name, main.scores)
        ]
        cells = {name: [_cell(each, name) for each in results.values()] for name in names}
        cells = {name: row for name, row in cells.items() if any(row)}
        if protocol == "decoding" and cells:
            heads, rows = rule_rows(main, intervals=False)
            lines += _aligned(heads, dict(rows))
            if len(results) > 1:
                lines.append(f"  of {result.name}; intervals, and other methods, are in metrics.json")
        elif cells:
            lines += _aligned(list(results), {metric_name(name): row for name, row in cells.items()})
        lines += [f"  {note}" for note in main.notes]
    return "\n".join(lines[1:])


def attribute_rows(result: EvaluationResult) -> tuple[list[str], dict[str, list[str]]]:
    """The answers and the retrieval of the evaluated method by the values of attributes.

    Returns:
        The heads of the columns, and a row of cells for each `site = Graz`; empty without attributes. The
        share of answers that hold the truth says where a promise was not kept, beyond chance. Where a
        score rests on other samples than those before it, their counts stand before it. Scores of few
        samples or groups say so.
    """
    main = result.main
    prefix = PREFIX[main.classifier.name]
    role = CLASSIFIER_ROLES.get(main.classifier.name, "features")
    role = role if role in main.scores else "embeddings"
    shown = {
        f"{role}.{prefix}top1": metric_name("top1"),
        f"{role}.{prefix}hierarchical_f1": metric_name("hierarchical_f1"),
        "embeddings.recall_at_1": metric_name("recall_at_1"),
    }
    for part in main.by_attribute:
        shown |= {
            key: metric_name(key.partition(".")[2])
            for key in part.scores
            if ".coverage_at_" in key or ".coverage_of_promised_at_" in key
        }
        shown |= {key: head for key in part.scores if (head := _question_head(result, key))}
    grouped = any(part.groups is not None for part in main.by_attribute)
    heads = ["samples", *(["groups"] if grouped else [])]
    # counts stand once before the scores that rest on the same samples
    counted = [[_tested(part) for part in main.by_attribute]]
    other = []
    for key in shown:
        rests = [_rests_on(part, key) for part in main.by_attribute]
        if rests != counted[-1]:
            other.append(key)
            counted.append(rests)
    for key, head in shown.items():
        heads += [*(["of samples", *(["of groups"] if grouped else [])] if key in other else []), head]
    rows: dict[str, list[str]] = {}
    for part in main.by_attribute:
        cells = [f"{part.samples:,}", *([f"{part.groups or 0:,}"] if grouped else [])]
        for key in shown:
            value, (low, high) = part.scores.get(key, math.nan), part.intervals.get(key, (math.nan,) * 2)
            ends = ends_text(low, high)
            if math.isnan(low) and result.settings.resamples and QUESTION_RATE.match(key):
                ends = f" [{TOO_FEW}]"
            verdict = _verdict(result, key, value, high, part) or ("" if TOO_FEW in ends else _few(part, key))
            if key in other:
                cells += [f"{count or 0:,}" for count in _rests_on(part, key)[: 1 + grouped]]
            cells.append("–" if math.isnan(value) else f"{value:.3f}{ends}{verdict}")
        rows[f"{part.attribute} = {part.value or '(missing)'}"] = cells
    return heads, rows


def _question_head(result: EvaluationResult, key: str) -> str:
    """The head of a rate of a question; empty for what is no such rate, or only in `metrics.json`.

    Rates at the operating point are shown if one was asked for.
    """
    rate = QUESTION_RATE.match(key)
    if rate is None or rate[3] not in ("sensitivity", "specificity"):
        return ""
    if rate[2] == "decision":
        return f"{rate[1]}: {metric_name(rate[3])}"
    chosen = "operating_point" in result.settings.options.get("node-scores", {})
    return f"{rate[1]}: {metric_name(rate[3])} at the operating point" if chosen else ""


def _tested(part: AttributeResult) -> tuple[int, int | None]:
    return part.samples, part.groups


def _rests_on(part: AttributeResult, key: str) -> tuple[int, int | None]:
    """Numbers of samples and groups that a score rests on; of older results, those that were tested."""
    samples, groups = _tested(part)
    return part.counted.get(key, samples), part.counted_groups.get(key, groups)


def _verdict(result: EvaluationResult, key: str, value: float, high: float, part: AttributeResult) -> str:
    """What a coverage says of its promise: nothing if it may be kept."""
    decided = result.main.protocols.get("decisions")
    if decided is None:
        return ""
    apart = "of_promised_" if decided.counts.get(LATER) else ""  # for others nothing is promised
    promised = re.search(rf"\.coverage_{apart}at_([\d.]+)$", key)
    if promised is None:
        return ""
    calibrated = calibrated_units(decided.counts)
    samples, groups = _rests_on(part, key)
    kept = is_kept(float(promised[1]), value, high, calibrated, samples=samples, groups=groups)
    return {True: "", False: " (not kept)", None: " (few)"}[kept]


def _few(part: AttributeResult, key: str) -> str:
    """A mark on a score that rests on few samples, or on too few groups for an interval."""
    samples, groups = _rests_on(part, key)
    return " (few)" if samples < FEW or (groups is not None and groups < FEWEST_GROUPS) else ""


def attribute_table(result: EvaluationResult) -> str:
    """`attribute_rows` as text, a column for each value of an attribute; empty without attributes.

    Values that do not fit beside one another stand below.
    """
    heads, rows = attribute_rows(result)
    columns = {name: _numbers_of_part(heads, cells) for name, cells in rows.items()}
    widths = {name: max(len(name), *map(len, column.values())) + 2 for name, column in columns.items()}
    blocks, names = list[str](), list(columns)
    while names:
        shown = names[:1]
        while len(shown) < len(names) and sum(widths[each] for each in names[: len(shown) + 1]) <= _WIDEST:
            shown.append(names[len(shown)])
        table = {head: [columns[name][head] for name in shown] for head in columns[shown[0]]}
        blocks.append("\n".join(_aligned(shown, table, left=True)))
        names = names[len(shown) :]
    if any(head.startswith(_COVERAGE) for head in heads):
        blocks[-1] += f"\n{BEFORE_UNKNOWN}"
    return "\n\n".join(blocks)


def _numbers_of_part(heads: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """The numbers of one value by their heads, with the counts that they rest on, where these differ."""
    numbers, rests = dict[str, str](), ""
    for head, cell in zip(heads, cells, strict=True):
        match head:
            case "samples":
                numbers[head] = cell
            case "groups":
                numbers["samples"] += f" ({cell} groups)"
            case "of samples":
                rests = f" of {cell}"
            case "of groups":
                rests += f" ({cell} groups)"
            case _:
                numbers[head], rests = cell + rests, ""
    return numbers


def _is_deviation(name: str, scores: dict[str, float]) -> bool:
    return name.endswith("_sd") and name.removesuffix("_sd") in scores


def _cell(result: ProtocolResult, name: str) -> str:
    value, deviation = result.scores.get(name, math.nan), result.scores.get(f"{name}_sd", math.nan)
    if math.isnan(value):
        return ""
    spread = "" if math.isnan(deviation) else f" ± {deviation:.4f}"
    ends = result.intervals.get(name)
    return f"{value:.4f}{spread}" + ("" if ends is None else ends_text(*ends, digits=4))


def _aligned(heads: list[str], rows: dict[str, list[str]], *, left: bool = False) -> list[str]:
    label = max(map(len, rows))
    widths = [max(len(head), *(len(row[i]) for row in rows.values())) for i, head in enumerate(heads)]
    table = [("", heads), *rows.items()]
    side = "<" if left else ">"
    return [
        f"  {name:<{label}}  "
        + "  ".join(f"{cell:{side}{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for name, row in table
    ]


def comparison_text(comparison: Comparison, *, parts: int = 20) -> str:
    """Tables of all metrics, of differences from the baseline, and of these differences by stratum.

    Args:
        comparison: The comparison to show.
        parts: Number of subtrees to show, those with the smallest p-values; all depths and frequency bands
            are shown.
    """
    lines = ["# Comparison", ""]
    for name, runs in comparison.methods.items():
        what = f"{len(runs)} runs: {', '.join(runs)}" if len(runs) > 1 else runs[0]
        mark = " (baseline)" if name == comparison.baseline and len(comparison.methods) > 1 else ""
        lines.append(f"- **{name}**{mark}: {what}")
    lines += ["", *comparison.notes, "", "## Metrics", ""]
    heads = ["samples", "groups"] if comparison.grouped else ["samples"]
    lines += _table(
        ["metric", *heads, *comparison.methods],
        [
            [
                _label(entry),
                *_counts(entry, list(comparison.methods))[: len(heads)],
                *_values(comparison, entry),
            ]
            for entry in comparison.distinct
        ],
    )
    lines += _describe_metrics(comparison)
    others = [name for name in comparison.methods if name != comparison.baseline]
    if not others:
        return "\n".join(lines) + "\n"
    lines += ["", f"## Differences to {comparison.baseline}", ""]
    lines.append(
        f"Better is +, worse −, by the metric's own direction; * where the corrected p-value is below "
        f"{ALPHA:g}. The {comparison.tests} tests of this table are corrected together (Holm)."
        + (
            " McNemar's test is left out: it would take samples of one group for independent."
            * comparison.grouped
        )
    )
    lines.append("")
    parts_of = [
        (entry, name, part) for entry in comparison.distinct for name, part in entry.differences.items()
    ]
    exact = any(not math.isnan(part.mcnemar) for _, _, part in parts_of)
    lines += _table(
        ["metric", "method", "difference", "", "p", "p corrected", "p McNemar"][: None if exact else -1],
        [
            [_label(entry), name, *_difference(entry, part)[: None if exact else -1]]
            for entry, name, part in parts_of
        ],
    )
    for kind, title in (
        ("subtree", "Where on the tree they differ most"),
        ("depth", "By the depth of the label"),
        ("frequency", "By the frequency of the class in training"),
        ("attribute", "By attribute"),
    ):
        chosen = [entry for entry in comparison.strata if entry.kind == kind and entry.differences]
        if chosen:
            lines += [
                "",
                f"## {title}",
                "",
                *_strata(comparison, chosen, parts if kind == "subtree" else None),
            ]
    return "\n".join(lines) + "\n"


def comparison_csv(comparison: Comparison) -> str:
    """Every metric as a row of CSV: its samples, and the value, interval and difference of each method.

    Shares are between 0 and 1. A number that is not defined is left empty. `samples` and `groups` are of
    the baseline; the samples of each method stand beside its value.
    """
    out = io.StringIO()
    others = [name for name in comparison.methods if name != comparison.baseline]
    heads = ["role", "metric", "larger_is_better", "samples", "groups"]
    of_each = ("", "low", "high", "samples")
    heads += [f"{name} {what}".strip() for name in comparison.methods for what in of_each]
    wanted = ("", "low", "high", "p", "p corrected")
    heads += [f"{name} minus {comparison.baseline} {what}".strip() for name in others for what in wanted]
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(heads)
    for entry in comparison.metrics:
        cells: list[str | int] = []
        for name in comparison.methods:
            estimate = entry.estimates.get(name) or Estimate(math.nan)
            cells += [
                *map(_cell_of, (estimate.value, estimate.low, estimate.high)),
                entry.counts([name])[0][0],
            ]
        for name in others:
            part = entry.differences.get(name) or Difference(math.nan)
            cells += map(_cell_of, (part.value, part.low, part.high, part.p, part.corrected))
        counts = [entry.samples, (entry.units or "") if comparison.grouped else ""]
        rows.writerow([entry.role, entry.metric, entry.larger_is_better, *counts, *cells])
    return out.getvalue()


def _cell_of(number: float) -> str:
    return "" if math.isnan(number) else repr(float(number))


def _counts(entry: MetricComparison, methods: Sequence[str]) -> list[str]:
    """Numbers of samples and of their groups, which older comparisons lack; of each method if they differ."""
    return [" / ".join(f"{number}" if number else "–" for number in of) for of in entry.counts(methods)]


def _describe_metrics(comparison: Comparison) -> list[str]:
    """What the table of metrics leaves out, and why numbers may have no interval."""
    lines, copies = [], dict[str, list[str]]()
    known = {f"{entry.role}.{entry.metric}": entry for entry in comparison.metrics}
    for key, first in comparison.same.items():
        if key in known and first in known:
            value, other = (_base_value(comparison, known[name]) for name in (key, first))
            turned = "" if value == other or math.isnan(value) or abs(value - other) < 1e-9 else "1 − "
            copies.setdefault(f"{turned}{_label(known[first])}", []).append(_label(known[key]))
    if copies:
        listed = "; ".join(f"{', '.join(names)} = {first}" for first, names in copies.items())
        lines += ["", f"The same for every sample, so shown and tested once: {listed}."]
    bare = [
        _label(entry)
        for entry in comparison.distinct
        if any(math.isnan(part.low) and not math.isnan(part.value) for part in entry.estimates.values())
    ]
    if bare:
        lines += ["", f"Without an interval, because all draws agree or none is defined: {', '.join(bare)}."]
    return lines


def _base_value(comparison: Comparison, entry: MetricComparison) -> float:
    estimate = entry.estimates.get(comparison.baseline) or next(iter(entry.estimates.values()), None)
    return math.nan if estimate is None else estimate.value


def _strata(comparison: Comparison, entries: list[StratumComparison], most: int | None) -> list[str]:
    shown = entries
    if most is not None:
        shown = sorted(entries, key=_surest)[:most]
    return _table(
        ["where", "samples", "metric", comparison.baseline, "method", "difference", "", "p", "p corrected"],
        [
            [
                entry.name,
                _counts(entry, list(comparison.methods))[0],
                _label(entry),
                _number(entry.estimates[comparison.baseline].value),
                name,
                *_difference(entry, part)[:-1],
            ]
            for entry in shown
            for name, part in entry.differences.items()
        ],
    )


def _surest(entry: StratumComparison) -> tuple[float, float]:
    """Sort key: smallest p-value first, then largest difference weighted by the root of the sample size."""
    parts = entry.differences.values()
    chance = min(1.0 if math.isnan(part.p) else part.p for part in parts)
    return chance, -max(abs(part.value) for part in parts) * math.sqrt(entry.samples)


def _values(comparison: Comparison, entry: MetricComparison) -> list[str]:
    return [_estimate(entry.estimates.get(name)) for name in comparison.methods]


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    text = _number(estimate.value)
    if not math.isnan(estimate.sd):
        text += f" ± {estimate.sd:.4f}"
    if not math.isnan(estimate.low):
        text += f" [{_number(estimate.low)}, {_number(estimate.high)}]"
    return text


def _difference(entry: MetricComparison, part: Difference) -> list[str]:
    if math.isnan(part.value):
        return ["–", "", "", "", ""]
    better, sure = entry.better_by(part), "*" if part.corrected < ALPHA else ""
    mark = f"+{sure}" if better > 0 else f"−{sure}" if better < 0 else ""
    ends = "" if math.isnan(part.low) else f" [{part.low:+.4f}, {part.high:+.4f}]"
    return [f"{part.value:+.4f}{ends}", mark, *(_chance(p) for p in (part.p, part.corrected, part.mcnemar))]


def _chance(p: float) -> str:
    return "" if math.isnan(p) else f"{p:.4f}" if p >= 0.0001 else f"{p:.1e}"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _label(entry: MetricComparison) -> str:
    """Role and metric: `features recall@1`, or `answers top-1 accuracy` for `answer_top1`."""
    return f"{entry.role} {metric_name(entry.metric)}"


def _table(head: Sequence[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table with padded columns, readable as plain text."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in [list(head), *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = [
        "| " + " | ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def _answers_note(result: Comparison) -> list[str]:
    """A note on the classifier that gives each method's answers; empty if none is known or compared."""
    known = any(name for names in result.classifiers.values() for name in names)
    if not known or not any(entry.role == ANSWERS for entry in result.metrics):
        return []
    described = []
    for method, names in result.classifiers.items():
        parts = []
        for name in dict.fromkeys(names):
            words = CLASSIFIER_WORDS.get(
                cast(ClassifierKind, name), "a classifier that its folder does not name"
            ).removesuffix(" on the features")  # of a table without features, the probe reads embeddings
            count = names.count(name)
            many = "1 run" if count == 1 else f"{count} runs"
            parts.append(words if count == len(names) else f"{words} ({many})")
        described.append(f"'{method}' with {' and '.join(parts)}")
    return [f"Each run answers with the classifier that its own report names: {'; '.join(described)}."]


def _samples_note(result: Comparison) -> str:
    """How many samples and groups were compared, and of which block of metrics, where they differ."""
    common = f"{say_count(result.samples, 'sample')} that all runs have in common "
    common += "was compared" if result.samples == 1 else "were compared"
    parts = result.counted()
    if not parts:
        units = say_count(result.groups, "group" if result.grouped else "sample")
        units += " of samples (all of a group together)" if result.grouped else ""
        return f"{common}; intervals ({result.confidence:.0%}) and tests draw from {units}."

    def of_groups(samples: int, groups: int) -> str:
        return f"{samples:,}" + (f" of {say_count(groups, 'group')}" if result.grouped else "")

    if len(parts) == 1:
        ((names, numbers),) = parts
        counted = f"; {of_groups(*numbers)} count in {names}"
    else:
        listed = ", ".join(f"{names} on {of_groups(*numbers)}" for names, numbers in parts)
        counted = f", but not every number rests on all of them: {listed}"
    draw = "these groups (all samples of a group together)" if result.grouped else "these samples"
    return f"{common}{counted}. Intervals ({result.confidence:.0%}) and tests draw {draw}."


def say_left_out(count: int, where: str) -> str:
    """That samples of a method were left out, since another run lacks them."""
    are = "is missing in another run and was" if count == 1 else "are missing in another run and were"
    return f"{say_count(count, 'sample')} of {where} {are} left out"


def comparison_notes(result: Comparison) -> list[str]:
    """Notes on the samples compared, the answers, the runs and the assumptions of the tests."""
    notes = [_samples_note(result)]
    notes += _answers_note(result)
    for name, count in result.left_out.items():
        if count:
            left_out = say_left_out(count, f"'{name}'")
            notes.append(f"{left_out}: numbers differ from those of its own report.")
    several = [name for name, runs in result.methods.items() if len(runs) > 1]
    single = [name for name, runs in result.methods.items() if len(runs) == 1]
    if single:
        names = ", ".join(f"'{name}'" for name in single)
        notes.append(f"Intervals do not say how much another seed would change: one run each of {names}.")
    if several:
        notes.append(
            "Of methods with several runs, intervals and tests add the variance between runs to that of the "
            "test samples; they assume independent runs with nearly normal results."
        )
    notes.append(
        "Intervals are about other test samples, not about training again: classifiers and separate "
        "galleries are held fixed."
    )
    if few := [_label(entry) for entry in result.distinct if _few_differ(entry)]:
        unit = "groups" if result.grouped else "samples"
        notes.append(
            f"Fewer than {FEWEST_GROUPS} {unit} differ between methods in {some(few, 3)}: such a difference "
            "has no interval; its p-value holds."
        )
    return notes


def _few_differ(entry: MetricComparison) -> bool:
    """Whether a difference was tested and has no interval, though its two numbers have theirs."""
    sure = all(not math.isnan(part.low) for part in entry.estimates.values())
    return sure and any(
        math.isnan(part.low) and not math.isnan(part.p) for part in entry.differences.values()
    )
