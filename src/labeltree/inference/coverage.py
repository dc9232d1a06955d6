"""How often answers hold the truth, beside what was promised: of all samples, by group and by attribute."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.counted_nouns import plural, say_count
from labeltree.decisions import Promise, holds_truth
from labeltree.decisions.conformal import count_groups
from labeltree.decisions.kept_promises import group_coverage, is_kept, say_kept
from labeltree.evaluation.sample_columns import Column, ResamplingUnits, estimate
from labeltree.evaluation.statistics import Resampling
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["CalledUnknown", "Coverage", "PartCoverage", "count_called_unknown", "measure_coverage"]

NOTHING = "nothing is promised, as their classes were added later"
_MOST_VALUES = 12  # of an attribute that are shown in a terminal
_NUMBER = re.compile(r"(\D*)(\d{1,6})")
_NUMBERED, _SEVERAL = 0.9, 0.5  # shares of groups that a column numbers within, and with several numbers


@dataclass(frozen=True)
class PartCoverage:
    """The coverage of the answers for some of the samples.

    Attributes:
        name: `site = Graz`; empty for all samples.
        samples: Number of samples with a label that decides about answers.
        groups: Number of their groups; None without groups.
        share: Share of the answers that hold the truth.
        low: Lower end of its 95 % confidence interval, by the bootstrap over groups; NaN if there is none.
        high: Upper end.
        kept: Whether the promise may be kept; None if there are too few samples to tell.
        unit: What has one answer: `sample`, or what samples are answered together by, such as `lesion`.
        later: Whether they are of classes that were added later, for which nothing is promised.
    """

    name: str
    samples: int
    groups: int | None
    share: float
    low: float
    high: float
    kept: bool | None
    unit: str = "sample"
    later: bool = False

    def sentence(self, promised: float) -> str:
        """The numbers as text, beside the promised share."""
        verdict = NOTHING if self.later else say_kept(self.kept, promised, self.share, self.low)
        return f"{self.measured()} of {self.counted()}: {verdict}"

    def measured(self) -> str:
        """The share, and the ends of its interval."""
        return f"{self.share:.1%}" + ("" if math.isnan(self.low) else f" [{self.low:.1%}, {self.high:.1%}]")

    def counted(self) -> str:
        """The numbers of samples and groups."""
        of = "" if self.groups is None else f" of {say_count(self.groups, 'group')}"
        return f"{say_count(self.samples, self.unit)}{of}"


@dataclass(frozen=True)
class Coverage:
    """The coverage of answers beside the promised one.

    Attributes:
        promised: The promised coverage.
        counted: What the promise counts: every `sample`, or every `group` with all its samples. The
            shares of `whole` and `parts` count the same.
        whole: Of all samples but the `later` ones; if there are no others, of these.
        groups: Number of groups; None without groups.
        all_held: Share of the groups whose answers all hold the truth.
        mean_of_groups: Mean of the coverages of the groups, each counting once.
        parts: Of the samples with each value of the attributes.
        left_out: Attributes with too many values to be shown, and their numbers.
        within_groups: Attributes that tell apart things of one group, such as its lesions 1, 2, 3: value 1
            of one group has nothing in common with value 1 of another.
        of_one_each: Other attributes of which each value is of one group alone, or without groups of one of
            what is answered for.
        calibrated: Number of samples (or groups) that thresholds come from; 0 if unknown.
        plain: The share of `whole` before samples were called unknown, which makes their answers coarser; NaN
            if that changed nothing.
        measured_alike: Whether `labeltree evaluate` measures the share `plain` on the same samples.
        empty: Number of the answers that name nothing, and so hold the truth.
        later: Of the samples of classes that were added later, for which nothing is promised, if they are a
            part of all; they count nowhere else.
    """

    promised: float
    counted: str
    whole: PartCoverage
    groups: int | None
    all_held: float
    mean_of_groups: float
    parts: tuple[PartCoverage, ...] = ()
    left_out: tuple[tuple[str, int], ...] = ()
    within_groups: tuple[str, ...] = ()
    of_one_each: tuple[str, ...] = ()
    calibrated: int = 0
    plain: float = math.nan
    measured_alike: bool = False
    empty: int = 0
    later: PartCoverage | None = None

    def text(self) -> str:
        """A few lines for a terminal."""
        whole, by_group = self.whole, self.counted == "group"
        counted = say_count(whole.groups or 0, "group") if by_group else whole.counted()
        have = "has" if (whole.groups if by_group else whole.samples) == 1 else "have"
        what = "answers that all hold the truth" if by_group else "answers that hold the truth"
        verdict = f"promised {100 * self.promised:g}%: "
        verdict += say_kept(whole.kept, self.promised, whole.share, whole.low)
        verdict += _explain_chance(whole.kept, self.promised, whole.high, self.calibrated)
        lines = [f"{whole.measured()} of {counted} {have} {what}; {NOTHING if whole.later else verdict}"]
        if self.later is not None:
            lines.append(f"  apart from them, {self.later.sentence(self.promised)}")
        if self.empty:
            lines.append(
                f"  {self.empty:,} of these answers {'names' if self.empty == 1 else 'name'} nothing"
            )
        if not math.isnan(self.plain):
            lines.append(
                f"  before samples were called unknown, which makes their answers coarser: {self.plain:.1%}"
                + (" (this is what 'labeltree evaluate' measures)" if self.measured_alike else "")
            )
        if self.groups is not None:
            lines.append(
                f"  of {say_count(self.groups, 'group')}, {self.all_held:.1%} have answers "
                f"that all hold the truth; the mean of the groups' shares is {self.mean_of_groups:.1%}"
            )
        width = max((len(part.name) for part in self.parts), default=0)
        lines += [f"  {part.name:<{width}}  {part.sentence(self.promised)}" for part in self.parts]
        lines += [f"  {name}: {count:,} values, too many to show" for name, count in self.left_out]
        one = whole.unit if self.groups is None else "group"
        lines += [f"  {name}: numbers within {plural(one)}, not shown" for name in self.within_groups]
        lines += [f"  {name}: each value is of one {one} alone, not shown" for name in self.of_one_each]
        return "\n".join(lines)


@dataclass(frozen=True)
class CalledUnknown:
    """How many samples of known classes are called unknown, beside the most that were promised.

    Attributes:
        promised: The most that was promised, as a share.
        samples: Number of samples whose label is a known class, or lies below one.
        called: Number of those that are called unknown.
        groups: Number of the groups of these samples; None without groups.
        low: Lower end of the 95 % confidence interval of the share, as of a coverage; NaN if there is none.
        high: Upper end.
        kept: Whether the promise may be kept; None if there are too few samples to tell.
        calibrated: Number of held-out samples (or groups) whose distances decide; 0 if unknown.
    """

    promised: float
    samples: int
    called: int
    groups: int | None = None
    low: float = math.nan
    high: float = math.nan
    kept: bool | None = None
    calibrated: int = 0

    def text(self) -> str:
        """One line for a terminal."""
        share = self.called / self.samples
        of = say_count(self.samples, "known sample")
        of += "" if self.groups is None else f" of {say_count(self.groups, 'group')}"
        are = "is" if self.called == 1 else "are"
        ends = "" if math.isnan(self.low) else f" [{self.low:.1%}, {self.high:.1%}]"
        verdict = say_kept(self.kept, 1 - self.promised, 1 - share, 1 - self.high, beyond="above")
        return (
            f"{self.called:,} of {of} {are} called unknown, {share:.1%}{ends}; promised at most "
            f"{100 * self.promised:g}%: {verdict}"
            + _explain_chance(self.kept, 1 - self.promised, 1 - self.low, self.calibrated)
        )


def _explain_chance(kept: bool | None, promised: float, high: float, calibrated: int) -> str:
    """Why a promise may be kept although the whole interval of a coverage, up to `high`, lies below it."""
    if not kept or not calibrated or math.isnan(high) or high >= promised:
        return ""
    return f" (thresholds from the {calibrated:,} held out may miss by as much by chance)"


def count_called_unknown(
    unknown: Tensor,
    labels: Tensor,
    classes: Tensor,
    taxonomy: Taxonomy,
    promised: float,
    calibrated: int = 0,
    groups: Tensor | None = None,
) -> CalledUnknown | None:
    """Count the samples of known classes that are called unknown; None if there is none of a known class.

    Args:
        unknown: (n,) bool, whether each sample is called unknown.
        labels: (n,) true nodes, -1 where missing. One above the known classes does not say whether its
            sample is of one of them, and does not count.
        classes: (C,) nodes of the known classes.
        taxonomy: Taxonomy of the nodes.
        promised: The most that was promised, as a share.
        calibrated: Number of held-out samples (or groups) whose distances decide; 0 if unknown.
        groups: (n,) group of each sample; None without groups.
    """
    known = labels >= 0
    known[known.clone()] = torch.isin(taxonomy.ancestors[labels[known]], classes).any(1)
    rows = known.nonzero()[:, 0]
    if not len(rows):
        return None
    units = rows if groups is None else groups[rows]
    called = Column("called", unknown[rows].double(), rows)
    (share,) = estimate(
        [called], rows, ResamplingUnits(Resampling(), units.numpy()), labels, taxonomy
    ).values()
    count = None if groups is None else count_groups(units, len(rows))
    kept = is_kept(1 - promised, 1 - share.value, 1 - share.low, calibrated, samples=len(rows), groups=count)
    return CalledUnknown(
        promised, len(rows), int(unknown[rows].sum()), count, share.low, share.high, kept, calibrated
    )


def measure_coverage(
    answers: Tensor,
    table: EmbeddingTable,
    judged: Tensor,
    taxonomy: Taxonomy,
    promise: Promise,
    calibrated: int,
    plain: Tensor | None = None,
    *,
    unit: str = "sample",
    samples: EmbeddingTable | None = None,
    later: Tensor | None = None,
) -> Coverage | None:
    """Measure how often answers hold the truth; None if no label decides about one.

    The samples with each value of an attribute are a part of their own, unless the attribute has many values,
    each value is of one group (or unit) alone, or it tells apart things within groups: in 90 % of the groups
    with several samples its values are 1, 2, 3 … (or 0, 1, 2 …) without a gap, with a word before them or
    not, and half of these groups have several values. 0 and 1 alone are no and yes.

    Args:
        answers: (n,) nodes.
        table: The n samples, with their labels, groups and attributes.
        judged: (n,) bool, where the label decides whether an answer is right.
        taxonomy: Taxonomy of the nodes.
        promise: What was promised.
        calibrated: Number of samples (or groups) that thresholds come from.
        plain: (n,) nodes of the answers before samples were called unknown; None if that changed none.
        unit: What a row of the table is, if it is not a sample.
        samples: The samples of the units, by whose groups it is told what lies within these.
        later: (n,) bool, which samples are of classes for which nothing is promised; None: none.
    """
    if not bool(judged.any()):
        return None
    apart = None
    unpromised = judged & later if later is not None else torch.zeros_like(judged)
    if bool(unpromised.any()) and bool((judged & ~unpromised).any()):
        plain_table = replace(table, attributes={})
        of_later = measure_coverage(
            answers, plain_table, unpromised, taxonomy, promise, calibrated, unit=unit, later=unpromised
        )
        apart = None if of_later is None else of_later.whole
        judged, unpromised = judged & ~unpromised, torch.zeros_like(judged)
    all_later = bool(unpromised.any())
    rows = judged.nonzero()[:, 0]
    holds = holds_truth(answers[rows], table.nodes[rows], taxonomy)
    units = rows if table.groups is None else table.groups[rows]
    masks: dict[str, Tensor] = {"": torch.ones(len(rows), dtype=torch.bool)}
    left_out, within, alone = [], [], []
    one_each = rows if samples is not None else None
    if table.groups is not None:
        one_each = torch.where(units >= 0, units, -1 - rows)
    known = table if samples is None else samples
    for name, column in table.attributes.items():
        values = np.asarray(column)[rows.numpy()]
        kinds = sorted(set(values.tolist()), key=lambda value: (not value, value))
        if len(kinds) > _MOST_VALUES:
            left_out.append((name, len(kinds)))
        elif _numbers_within_groups(np.asarray(known.attributes[name]), known):
            within.append(name)
        elif one_each is not None and _is_of_one_each(values, one_each.numpy()):
            alone.append(name)
        elif kinds != [""]:
            masks |= {f"{name} = {kind or '(missing)'}": torch.from_numpy(values == kind) for kind in kinds}
    counted = "group" if promise.counted == "group" and table.groups is not None else "sample"

    def one_column(at: int, mask: Tensor) -> Column:
        if counted == "sample" or table.groups is None:
            return Column(str(at), holds[mask].double(), rows[mask])
        shares, last = group_coverage(holds[mask], table.groups[rows[mask]])
        return Column(str(at), (shares == 1).double(), rows[mask][last])

    numbers = estimate(
        [one_column(at, mask) for at, mask in enumerate(masks.values())],
        rows,
        ResamplingUnits(Resampling(), units.numpy()),
        table.nodes,
        taxonomy,
    )
    by_name = {place.name: number for place, number in numbers.items()}

    def part(at: int, name: str, mask: Tensor) -> PartCoverage:
        number, samples, groups = by_name[str(at)], int(mask.sum()), None
        if table.groups is not None:
            groups = count_groups(table.groups[rows[mask]], samples)
        kept = is_kept(
            promise.coverage,
            number.value,
            number.high,
            calibrated,
            samples=groups if counted == "group" and groups is not None else samples,
            groups=groups,
        )
        ends = number.value, number.low, number.high
        return PartCoverage(name, samples, groups, *ends, kept, unit, all_later)

    before = math.nan
    if plain is not None:
        held = holds_truth(plain[rows], table.nodes[rows], taxonomy).double()
        if counted == "group" and table.groups is not None:
            held = (group_coverage(held.bool(), table.groups[rows])[0] == 1).double()
        before = float(held.mean())
    parts = [part(at, *named) for at, named in enumerate(masks.items())]
    shares = None if table.groups is None else group_coverage(holds, table.groups[rows])[0]
    return Coverage(
        promise.coverage,
        counted,
        parts[0],
        None if shares is None else len(shares),
        math.nan if shares is None else float((shares == 1).double().mean()),
        math.nan if shares is None else float(shares.mean()),
        tuple(parts[1:]),
        tuple(left_out),
        tuple(within),
        tuple(alone),
        calibrated,
        math.nan if math.isclose(before, parts[0].share) else before,
        empty=int((answers[rows] == 0).sum()),
        later=apart,
    )


def _is_of_one_each(values: np.ndarray[Any, Any], units: np.ndarray[Any, Any]) -> bool:
    """Whether there are several values `(n,)`, and each is of one unit `(n,)` alone."""
    given = values != ""
    kinds, codes = np.unique(values[given], return_inverse=True)
    numbers = np.unique(units[given], return_inverse=True)[1]
    pairs = np.unique(np.stack([codes.reshape(-1), numbers.reshape(-1)]), axis=1)
    return bool(pairs.shape[1] == len(kinds) > 1)


def _numbers_within_groups(values: np.ndarray[Any, Any], table: EmbeddingTable) -> bool:
    """Whether values `(n,)` tell apart things of one group; see `measure_coverage`."""
    if table.groups is None:
        return False
    named = table.groups.numpy() if table.group_names is None else np.asarray(table.group_names)
    rows = np.flatnonzero((values != "") & (named != ("" if named.dtype.kind == "U" else -1)))
    if not len(rows):
        return False
    groups, sizes = np.unique(named[rows], return_inverse=True, return_counts=True)[1:]
    kinds, codes = np.unique(values[rows], return_inverse=True)
    pairs = np.unique(np.stack([groups.reshape(-1), codes.reshape(-1)]), axis=1)
    counts = np.bincount(pairs[0])  # values of each group
    if pairs.shape[1] == len(kinds) and bool((counts > 1).any()):
        return True
    told = [_NUMBER.fullmatch(kind) for kind in kinds.tolist()]
    if None in told or len({match[1] for match in told if match}) > 1 or not bool((sizes > 1).any()):
        return False
    numbers = np.array([int(match[2]) for match in told if match])
    if set(numbers.tolist()) == {0, 1}:
        return False
    first, last = np.full(len(sizes), numbers.max()), np.full(len(sizes), -1)
    np.minimum.at(first, pairs[0], numbers[pairs[1]])
    np.maximum.at(last, pairs[0], numbers[pairs[1]])
    begun = (first == numbers.min()) & (numbers.min() <= 1) & (last - first + 1 == counts)
    many = sizes > 1
    return bool(begun[many].mean() >= _NUMBERED and (counts[many] > 1).mean() >= _SEVERAL)
