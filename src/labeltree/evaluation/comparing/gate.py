"""A release gate: rules on what a new model may lose against the old one, checked on a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from labeltree.checks import check_choice
from labeltree.counted_nouns import say_count
from labeltree.errors import DataError
from labeltree.evaluation.comparing.comparison import (
    Comparison,
    Difference,
    MetricComparison,
    StratumComparison,
)
from labeltree.evaluation.representations import POSTERIOR
from labeltree.safe_files import Reader, read_yaml

__all__ = ["Gate", "GateRule", "Verdict", "by_chance", "check_gate", "gate_text", "read_gate"]

Where = Literal["all", "nodes"]
FailsIf = Literal["shown", "not excluded"]

_FILE = Reader("a gate", "see docs/compare.md", DataError)
_KEYS = ("metric", "where", "at_most", "fails_if", "fewest", "only")


@dataclass(frozen=True)
class GateRule:
    """What a metric may lose.

    Attributes:
        metric: Name of the metric, such as `answer_top1`; with its role, `features.top1`, if several
            roles have it.
        at_most: The loss that is accepted, in units of the metric: a fall, or of a metric that is better
            smaller, a rise.
        where: `all`: over all samples; `nodes`: at every node, over the samples at or below it.
        fails_if: `shown`: the interval of the difference lies beyond `at_most`: the data show a larger
            loss. `not excluded`: it reaches beyond: the data do not exclude a larger loss.
        fewest: Nodes with fewer groups of samples (patients), or samples if there are no groups, are left
            out.
        only: The nodes, by path or name; () = all of them.
    """

    metric: str
    at_most: float = 0.0
    where: Where = "all"
    fails_if: FailsIf = "shown"
    fewest: int = 20
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (isinstance(self.at_most, int | float) and self.at_most >= 0):
            raise ValueError(f"at_most is {self.at_most!r}; expected a number of 0 or more")
        if isinstance(self.at_most, bool) or isinstance(self.fewest, bool):
            raise ValueError("at_most and fewest are numbers, not true or false")
        check_choice("where", self.where, Where)
        check_choice("fails_if", self.fails_if, FailsIf)
        if not (isinstance(self.fewest, int) and self.fewest >= 1):
            raise ValueError(f"fewest is {self.fewest!r}; expected a whole number of 1 or more")
        if self.only and self.where != "nodes":
            raise ValueError("only names nodes; it goes with where: nodes")


@dataclass(frozen=True)
class Gate:
    """Rules, all of which must hold.

    Attributes:
        rules: The rules.
        confidence: Confidence level of the intervals.
        allow_missing: Whether the runs may have been measured on different samples, of which those that they
            have in common are compared.
    """

    rules: tuple[GateRule, ...]
    confidence: float = 0.95
    allow_missing: bool = False

    @property
    def node_metrics(self) -> tuple[str, ...]:
        """The metrics of the rules about nodes."""
        named = [rule.metric.replace("/", ".") for rule in self.rules if rule.where == "nodes"]
        return tuple(dict.fromkeys(named))

    @property
    def fewest(self) -> int:
        """The smallest number of samples of a node that a rule asks for."""
        return min([20, *(rule.fewest for rule in self.rules)])


@dataclass(frozen=True)
class Verdict:
    """The outcome of one rule at one place.

    Attributes:
        rule: The rule.
        place: Path name of the node, or `all samples`.
        units: Number of groups or samples there.
        difference: New minus old.
        passed: Whether the rule holds.
    """

    rule: GateRule
    place: str
    units: int
    difference: Difference
    passed: bool

    def sentence(self) -> str:
        """The verdict in words."""
        part = self.difference
        ends = "" if math.isnan(part.low) else f" [{part.low:+.4f}, {part.high:+.4f}]"
        word = "holds" if self.passed else "FAILS"
        return (
            f"{word}: {self.rule.metric}, {self.place} ({self.units}): {part.value:+.4f}{ends}, "
            f"accepted loss {self.rule.at_most:g}"
        )


def read_gate(path: str | Path) -> Gate:
    """Read a gate: a YAML file with `rules`, a list, and `confidence`.

    Raises:
        DataError: If it is no such file; the message names the rule.
    """
    content = read_yaml(path, _FILE)
    unknown = sorted(set(content) - {"rules", "confidence", "allow_missing"})
    rules = content.get("rules")
    if unknown or not isinstance(rules, list) or not rules:
        said = f"has the key '{unknown[0]}'" if unknown else "has no list of rules"
        raise DataError(f"gate '{path}' {said}; expected 'rules', a list, 'confidence' and 'allow_missing'")
    missing = content.get("allow_missing", False)
    if not isinstance(missing, bool):
        raise DataError(f"gate '{path}': allow_missing is {missing!r}; expected true or false")
    confidence = content.get("confidence", 0.95)
    if not (isinstance(confidence, float) and 0 < confidence < 1):
        raise DataError(f"gate '{path}': confidence is {confidence!r}; expected a number between 0 and 1")
    parsed = []
    for number, given in enumerate(rules, 1):
        try:
            parsed.append(_rule(given))
        except (TypeError, ValueError) as error:
            raise DataError(f"gate '{path}', rule {number}: {error}") from error
    return Gate(tuple(parsed), confidence, missing)


def _rule(given: Any) -> GateRule:
    if not isinstance(given, Mapping) or "metric" not in given:
        raise ValueError("it is not a rule: expected a mapping with 'metric', such as {metric: answer_top1}")
    if unknown := sorted(map(str, set(given) - set(_KEYS))):
        raise ValueError(f"it has the key '{unknown[0]}'; there are {', '.join(_KEYS)}")
    named = given.get("only", ())
    if isinstance(named, str) or not isinstance(named, Sequence):
        raise ValueError(f"only is {named!r}; expected a list of nodes")
    return GateRule(**{**given, "only": tuple(str(name) for name in named)})


def check_gate(gate: Gate, comparison: Comparison, new: str) -> list[Verdict]:
    """Check every rule on a comparison whose baseline is the old model.

    Args:
        gate: The rules.
        comparison: Of the new model with the old one, its baseline, at the gate's confidence.
        new: Name of the new model in it.

    Raises:
        DataError: If the comparison lacks a metric, several roles have it, a rule finds no node, or samples
            of one run are missing in the other: what was not checked has not passed.
    """
    missing = {name: count for name, count in comparison.left_out.items() if count}
    if missing and not gate.allow_missing:
        name, count = max(missing.items(), key=lambda entry: entry[1])
        raise DataError(
            f"{say_count(count, 'sample')} of '{name}' {'is' if count == 1 else 'are'} missing in the other "
            "run, so nothing was checked on them; measure both on the same samples, or write "
            "'allow_missing: true' into the gate"
        )
    verdicts = []
    for rule in gate.rules:
        entries: list[MetricComparison] = [*comparison.metrics] if rule.where == "all" else []
        if rule.where == "nodes":
            entries += [entry for entry in comparison.strata if entry.kind == "subtree"]
        of_metric = _named(rule.metric, entries, comparison)
        if not of_metric:
            known = sorted({entry.metric for entry in entries})
            raise DataError(
                f"the comparison has no metric '{rule.metric}' "
                f"({'over all samples' if rule.where == 'all' else 'at nodes'}); there are {', '.join(known)}"
            )
        roles = sorted({f"{entry.role}.{entry.metric}" for entry in of_metric})
        if len(roles) > 1:
            raise DataError(
                f"rule '{rule.metric}' names {len(roles)} metrics, {' and '.join(roles)}; name one of them, "
                "or write a rule for each"
            )
        placed = of_metric if rule.where == "all" else _chosen(rule, of_metric)
        for entry in placed:
            place = entry.name if isinstance(entry, StratumComparison) else "all samples"
            units = entry.units or comparison.groups  # those of this metric, which older files do not tell
            part = entry.differences[new]
            if entry.larger_is_better is None:
                raise DataError(
                    f"rule '{rule.metric}' is about a number of which neither a fall nor a rise is a loss; "
                    "take a metric with a better direction"
                )
            passed = _holds(rule, part, entry.larger_is_better)
            verdicts.append(Verdict(rule, place, units, part, passed))
    return verdicts


def gate_text(gate: Gate, verdicts: Sequence[Verdict], comparison: Comparison) -> str:
    """How many checks failed, and below it a line for each of these and for each rule over all samples."""
    old = comparison.baseline
    (new,) = (name for name in comparison.methods if name != old)
    failed = [verdict for verdict in verdicts if not verdict.passed]
    shown = [*failed, *(verdict for verdict in verdicts if verdict.rule.where == "all" and verdict.passed)]
    said = [verdict.sentence() for verdict in shown] + by_chance(gate, verdicts)
    head = f"gate: {new} against {old}, {say_count(len(verdicts), 'check')}, {len(failed)} failed"
    return "\n".join([head, *(f"  {sentence}" for sentence in said)])


def by_chance(gate: Gate, verdicts: Sequence[Verdict]) -> list[str]:
    """A sentence for each rule that is checked at several nodes: how often it fails without cause.

    At each of m nodes the interval of a model that has lost exactly `at_most` lies beyond it with
    probability α = (1 − confidence)/2. That it does so somewhere has probability 1 − (1 − α)^m if the nodes
    were independent, and at most mα.
    """
    said = []
    for rule in dict.fromkeys(verdict.rule for verdict in verdicts):
        count = sum(verdict.rule == rule for verdict in verdicts)
        if count < 2 or rule.fails_if != "shown":
            continue
        alpha = (1 - gate.confidence) / 2
        apart = 2 * alpha / count
        digits = max(4, 1 - math.floor(math.log10(apart)))  # never 1.0000
        loss = f"loses exactly {rule.at_most:g}" if rule.at_most else "is as good as the old one"
        said.append(
            f"{rule.metric} is checked at {count} nodes: a model that {loss} fails at one of them or more in "
            f"about {1 - (1 - alpha) ** count:.0%} of all cases (in {alpha:.1%} at each); 'confidence: "
            f"{1 - apart:.{digits}f}' makes it {alpha:.1%} in all"
        )
    return said


def _named(
    metric: str, entries: Sequence[MetricComparison], comparison: Comparison
) -> list[MetricComparison]:
    """The entries of a metric, or of the one that is the same for every sample and stands for it.

    A name alone does not mean the posterior space, whose numbers are not tested.
    """
    asked = metric.replace("/", ".")

    def suits(role: str, name: str) -> bool:
        return asked == f"{role}.{name}" or (asked == name and role != POSTERIOR)

    chosen = [entry for entry in entries if suits(entry.role, entry.metric)]
    if chosen:
        return chosen
    parts = {key: key.partition(".") for key in comparison.same}
    stand_ins = {comparison.same[key] for key, (of, _, name) in parts.items() if suits(of, name)}
    return [entry for entry in entries if f"{entry.role}.{entry.metric}" in stand_ins]


def _chosen(rule: GateRule, entries: Sequence[MetricComparison]) -> list[MetricComparison]:
    named = [entry for entry in entries if isinstance(entry, StratumComparison)]
    missing = [
        name for name in rule.only if not any(name in (e.name, e.name.rsplit("/", 1)[-1]) for e in named)
    ]
    if missing:
        raise DataError(
            f"the comparison has no node '{missing[0]}' for rule '{rule.metric}': it is not in the taxonomy, "
            f"or has fewer than {rule.fewest} test samples"
        )
    chosen: list[MetricComparison] = [
        entry
        for entry in named
        if entry.units >= rule.fewest
        and (not rule.only or entry.name in rule.only or entry.name.rsplit("/", 1)[-1] in rule.only)
    ]
    if not chosen:
        raise DataError(
            f"rule '{rule.metric}' finds no node with {rule.fewest} groups or samples, so it checks nothing; "
            "lower 'fewest'"
        )
    return chosen


def _holds(rule: GateRule, part: Difference, larger_is_better: bool) -> bool:
    """Whether a difference keeps a rule; one without an interval is judged by its value."""
    sign = 1.0 if larger_is_better else -1.0
    ends = sorted(sign * end for end in (part.low, part.high))
    if any(math.isnan(end) for end in ends):
        ends = [sign * part.value] * 2
    if rule.fails_if == "shown":
        return ends[1] >= -rule.at_most
    return ends[0] >= -rule.at_most
