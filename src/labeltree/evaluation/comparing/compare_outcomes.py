"""`compare`: differences between methods on the same samples, with intervals, tests and strata."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from labeltree.checks import check_choice
from labeltree.counted_nouns import say_count
from labeltree.decisions.choose_classifier import ClassifierKind
from labeltree.errors import DataError
from labeltree.evaluation.answer_columns import ANSWERS, PREFIX, add_answers
from labeltree.evaluation.chosen_samples import GROUPS
from labeltree.evaluation.comparing.comparison import (
    Comparison,
    Difference,
    MetricComparison,
    StratumComparison,
)
from labeltree.evaluation.comparing.pair_test_samples import pair_by_ids
from labeltree.evaluation.comparing.paired_estimates import (
    Found,
    PairedEstimates,
    common_samples,
    keys_by_blocks,
    strata,
    tested_in_all,
)
from labeltree.evaluation.comparing.result_text import comparison_notes, say_left_out
from labeltree.evaluation.outcomes import Key, Outcomes, is_retrieval
from labeltree.evaluation.reported_nodes import MOST_PROBABILITIES
from labeltree.evaluation.statistics import FEWEST_GROUPS, holm

__all__ = ["BY_STRATUM", "compare", "duplicate_metrics"]

BY_STRATUM = ("answer_top1", "top1", "recall_at_1", "own_top1")
_OF_BANDS = tuple(f"_{name}" for name in GROUPS)
_MISTAKES, _BY_DEPTH = "mistakes", "accuracy at depth "
_PARTS = {
    "mistake_severity": _MISTAKES,
    "contradictions": "contradictions",
    "parent_violations": "violations",
    "parent_order_accuracy": "violations",
    "pair_violations": "pair violations",
    "cpcc": "pair violations",
}
"""Ends of the names of metrics that count other samples than answers do, and words for these."""
_WHOLE = {"contradictions": "answers", "pair violations": "violations"}
_DIGITS = 9  # decimals to which equal outcomes agree

Compared = TypeVar("Compared", bound=MetricComparison)


def compare(
    methods: Mapping[str, Outcomes | Sequence[Outcomes]],
    *,
    run_names: Mapping[str, Sequence[str]] | None = None,
    classifiers: Mapping[str, Sequence[ClassifierKind | None]] | None = None,
    baseline: str | None = None,
    metrics: Sequence[str] | None = None,
    strata_metrics: Sequence[str] = BY_STRATUM,
    min_samples: int = 20,
    confidence: float = 0.95,
    resamples: int = 2000,
    permutations: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare methods by their outcomes on the same samples.

    Every metric has a confidence interval; its difference from the baseline has an interval and a p-value.
    Between single runs they come from the bootstrap and the sign-flip test over groups of samples
    (`Bootstrap`, `sign_flip_test`); if a method has several runs, from `across_runs`, which adds the variance
    between runs. Holm's rule corrects the p-values of all metrics and methods jointly, and likewise those of
    all strata; metrics that are the same on these samples (`duplicate_metrics`) count once. Metrics that are
    not means over samples (`Statistic`), and those of a search among the samples (`SearchJackknife`), are
    recomputed without blocks of samples; their p-values come from the ratio of the difference to its standard
    error, since neither samples of two clusterings nor results of two searches can be exchanged.

    The metrics `answer_top1`, `answer_hierarchical_f1` … of the role `answers` are those of the
    classifier that gives each run's answers. It may differ between runs: runs are compared as they are used.

    Args:
        methods: Method → the outcomes of its run, or of each of its runs (seeds).
        run_names: Method → names of its runs; default `1` … .
        classifiers: Method → the classifier that gives the answers of each run, None if it is not known;
            None = answers are not compared.
        baseline: Method that the others are compared with; default the first.
        metrics: Names of metrics, in all roles, or of rows of the text (`answers top1`); fewer metrics need
            less correction. `top1` is also that of the answers. Names from further protocols begin with the
            protocol (`knn.features.top1`); `knn.*` selects all metrics of one.
            None = all metrics of the standard evaluation.
        strata_metrics: Metrics that are also compared by subtree, depth and class frequency.
        min_samples: Subtrees, depths and frequency bands with fewer samples are omitted.
        confidence: Confidence level of the intervals.
        resamples: Number of bootstrap draws.
        permutations: Number of random sign flips of the test; its smallest p-value is 1/(permutations + 1).
        seed: Random seed of the bootstrap and the test.

    Raises:
        ValueError: If there is no method, or no such baseline or metric.
        DataError: If the runs have no sample in common, or differ in taxonomy or labels.

    Example:
        >>> import numpy as np
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths(["cat", "dog"])
        >>> ids = np.arange(40)
        >>> def answers(wrong):
        ...     values = {("features", "top1"): np.where(ids < wrong, 0.0, 1.0)}
        ...     return Outcomes(ids, taxonomy.encode(["cat", "dog"] * 20).numpy(), taxonomy, values)
        >>> found = compare({"plain": answers(12), "ours": answers(2)}).metric("top1")
        >>> found.differences["ours"].value, found.differences["ours"].p < 0.01
        (0.25, True)
    """
    listed = {
        name: [given] if isinstance(given, Outcomes) else list(given) for name, given in methods.items()
    }
    if not listed or not all(listed.values()):
        raise ValueError(f"methods are {list(methods)}; expected at least one, each with at least one run")
    paired = iter(pair_by_ids([run for runs in listed.values() for run in runs]))
    listed = {name: [next(paired) for _ in runs] for name, runs in listed.items()}
    baseline = next(iter(listed)) if baseline is None else baseline
    check_choice("baseline", baseline, listed)
    shared, left_out = common_samples(listed)
    common, halves = tested_in_all(shared)
    answered = {
        name: list((classifiers or {}).get(name, [None] * len(runs))) for name, runs in listed.items()
    }
    common = {
        name: [
            run if kind is None else add_answers(run, kind)
            for run, kind in zip(runs, answered[name], strict=True)
        ]
        for name, runs in common.items()
    }
    keys, apart = _searched_alike(common, _keys(common, metrics))
    keys, others = _searched_together(listed, shared, keys)
    apart = halves + apart + others
    how = PairedEstimates(baseline, confidence, resamples, permutations, seed)
    tables = _tables(common, left_out, keys, apart)
    runs = [run for table in tables for of_method in table.methods.values() for run in of_method]
    better = {key: _direction([run.larger_is_better(key) for run in runs]) for key in keys}
    no_share = frozenset[Key]().union(*(run.no_share for run in runs))
    whole, same = list[MetricComparison](), dict[Key, Key]()
    for table in tables:
        same |= {key: key for key in table.keys}
        same |= duplicate_metrics(table.methods, [key for key in table.keys if better[key] is not None])
        for key, measured in how.measure(table.methods, table.keys).items():
            of_key = *key, better[key], measured.samples, measured.estimates, _tested(measured, better[key])
            share, units = key not in no_share, measured.units
            whole.append(MetricComparison(*of_key, share=share, units=units, counted=measured.counted))
    whole.sort(key=lambda entry: keys.index(_key(entry)))
    main = next((table for table in tables if table.keys), tables[0])
    common, first = main.methods, main.methods[baseline][0]
    parted = set().union(*(run.whole for of_method in common.values() for run in of_method))
    found_first = {same[key]: key for key in reversed(keys) if key in same and _named(key, strata_metrics)}
    chosen = [
        key
        for key in main.keys
        if key in found_first.values() and key not in parted and not any(run.joint(key) for run in runs)
    ]
    parts = []
    for stratum in strata(first, min_samples=min_samples):
        rows_of = {name: [run.rows(stratum.rows) for run in of] for name, of in common.items()}
        for key, measured in how.measure(rows_of, chosen).items():
            if measured.samples >= min_samples:
                where = stratum.kind, stratum.name, stratum.node
                differences = _tested(measured, better[key])
                of_key = *key, better[key], measured.samples, measured.estimates, differences
                share, units = key not in no_share, measured.units
                parts.append(
                    StratumComparison(*of_key, *where, share=share, units=units, counted=measured.counted)
                )
    apart += [note for table in tables if table is not main and table.keys for note in table.notes(baseline)]
    apart += [note for table in tables for note in table.notes_on_searches()]
    protocols = {name for of_method in listed.values() for run in of_method for name in run.protocols}
    if protocols and metrics is None:
        apart.append(
            f"Scores of further protocols are compared only if you name them, such as "
            f"'{min(protocols)}.*' (--metrics)."
        )
    names = {name: list((run_names or {}).get(name, _numbers(len(runs)))) for name, runs in listed.items()}
    result = Comparison(
        methods=names,
        baseline=baseline,
        samples=len(first),
        classifiers={name: [kind or "" for kind in kinds] for name, kinds in answered.items()},
        groups=_count_units(first),
        grouped=first.units is not None,
        left_out=main.left_out,
        confidence=confidence,
        tests=sum(
            not np.isnan(part.p)
            for entry in whole
            if same[entry.role, entry.metric] == _key(entry)
            for part in entry.differences.values()
        ),
        metrics=_corrected(whole, same),
        strata=_corrected(parts, same),
        same={".".join(key): ".".join(first) for key, first in same.items() if key != first},
        blocks=_blocks(main),
    )
    return replace(result, notes=comparison_notes(result) + apart)


def _direction(given: Sequence[bool | None]) -> bool | None:
    """The direction of a metric over all runs: if they disagree, smaller before neither before larger."""
    return False if False in given else None if None in given else True


def _tested(measured: Found, better: bool | None) -> dict[str, Difference]:
    """The differences of a number; without their tests if neither direction is better."""
    if better is not None:
        return measured.differences
    return {name: Difference(part.value, part.low, part.high) for name, part in measured.differences.items()}


def _keys(methods: Mapping[str, Sequence[Outcomes]], metrics: Sequence[str] | None) -> list[Key]:
    runs = [run for of_method in methods.values() for run in of_method]
    keys = list(dict.fromkeys(key for run in runs for table in _all(run) for key in table.keys))
    protocols = {name for run in runs for name in run.protocols}
    if metrics is None:
        return [key for key in keys if key[0] not in protocols]
    for name in metrics:
        if not any(_asked(key, [name]) for key in keys):
            near = _nearest(name, keys)
            if near:
                raise ValueError(
                    f"metrics names '{name}'; did you mean {' or '.join(near)}?{_why_missing(name)}"
                )
            of = name.partition(".")[0]
            known = sorted({metric for role, metric in keys if role not in protocols})
            known = [f"{role}.{metric}" for role, metric in keys if role == of in protocols] or known
            others = [f"{each}.*" for each in sorted(protocols - {of})]
            raise ValueError(
                f"metrics names '{name}'; expected some of {', '.join([*known, *others])}"
                + _why_missing(name)
            )
    return [key for key in keys if _asked(key, metrics)]


def _asked(key: Key, names: Sequence[str]) -> bool:
    """Whether a metric was asked for: `top1` asks for that of the answers, too."""
    role, metric = key
    return _named(key, names) or (
        role == ANSWERS and _named((role, metric.removeprefix(PREFIX["each-fold"])), names)
    )


def _nearest(name: str, keys: Sequence[Key]) -> list[str]:
    """Up to three metrics whose names begin like a name, or are written nearly alike."""
    known = list(dict.fromkeys(metric for _, metric in keys if "." not in metric))
    begin = [metric for metric in known if metric.startswith(name.replace(" ", "_"))]
    return (begin or difflib.get_close_matches(name.replace(" ", "_"), known, 3, 0.7))[:3]


def _why_missing(name: str) -> str:
    """A possible reason why no run has the metric, other than its name; empty if there is none."""
    protocol, _, metric = name.partition(".")
    ranked = metric.endswith(("auroc", "average_precision", "*"))
    if protocol not in ("node-scores", "per-group", "k-fold") or not ranked:
        return ""
    return (
        f" (AUROC and average precision are not kept of more than {MOST_PROBABILITIES:,} probabilities, "
        "samples × classes; the notes of the evaluation say whether this is so)"
    )


def _all(run: Outcomes) -> list[Outcomes]:
    """The outcomes of a run, and of the other tables that its protocols measured."""
    return [run, *run.elsewhere.values()]


@dataclass(frozen=True)
class _Table:
    """The outcomes of all runs on the samples of one table that they have in common.

    Attributes:
        protocol: The protocol that measured the table; empty for the evaluated table.
        methods: Method → outcomes of its runs.
        keys: The metrics to compare.
        left_out: Method → number of its samples that are missing from another run.
    """

    protocol: str
    methods: dict[str, list[Outcomes]]
    keys: list[Key]
    left_out: dict[str, int]

    def notes(self, baseline: str) -> list[str]:
        """The samples compared, of a table other than the one that the comparison's header describes."""
        first = self.methods[baseline][0]
        unit = "samples" if first.units is None else "groups of samples"
        notes = [
            f"'{self.protocol}' measures another table: {len(first)} samples of it that all runs have in "
            f"common were compared; intervals and tests draw from {_count_units(first)} {unit}."
        ]
        return notes + [
            say_left_out(count, f"'{name}' in the table of '{self.protocol}'") + "."
            for name, count in self.left_out.items()
            if count
        ]

    def notes_on_searches(self) -> list[str]:
        """That retrieval has no intervals, where not all runs searched the same samples in equal blocks."""
        runs = [run for of_method in self.methods.values() for run in of_method]
        searched = [
            key
            for key in self.keys
            if is_retrieval(key[1]) and any(key in run.among and run.counted(key).any() for run in runs)
        ]
        apart = [key for several, known in keys_by_blocks(runs, searched) if not known for key in several]
        older = not any(run.without for run in runs) and _count_units(runs[0]) >= FEWEST_GROUPS
        if not apart or not (older or any(key in run.without for key in apart for run in runs)):
            return []
        of_table = f" of '{self.protocol}'" if self.protocol else ""
        return [
            f"Retrieval{of_table} has neither intervals nor p-values: the runs searched other samples, or in "
            "another order, or were evaluated by different versions of labeltree. Evaluate all again, on the "
            "same samples in one order (or with ids)."
        ]


def _count_units(run: Outcomes) -> int:
    return run.count_groups(np.ones(len(run), dtype=bool))


def _blocks(table: _Table) -> dict[str, tuple[int, int]]:
    """Parts of the metrics → numbers of the samples that count in them, and of their resampling units.

    What counts in finer parts is told only where it is not that of the whole.
    """
    runs = [run for of_method in table.methods.values() for run in of_method]
    rows: dict[str, NDArray[np.bool_]] = {}
    for key in table.keys:
        for run in runs:
            if key in run.keys:
                name = _part(run, key)
                rows[name] = run.counted(key) | rows.get(name, False)
    if len(rows) > 1:
        rows.pop(_MISTAKES, None)  # which are other samples in every run
    numbers = {
        name: (int(there.sum()), runs[0].count_groups(there)) for name, there in rows.items() if there.any()
    }

    def is_told(name: str) -> bool:
        whole = _WHOLE.get(name, "answers" if name.startswith(_BY_DEPTH) else "")
        return numbers[name] != numbers.get(whole)

    order = sorted(numbers, key=lambda name: (name != "answers", name != "violations"))
    return {name: numbers[name] for name in order if is_told(name)}


def _part(run: Outcomes, key: Key) -> str:
    """What a metric is counted with, in words: answers, violations, retrieval or a protocol, or less."""
    block, name = run.block(key), key[1]
    if block != "answers":
        return block
    if depth := re.search(r"accuracy_at_depth_(\d+)$", name):
        return f"{_BY_DEPTH}{depth[1]}"
    return next((words for end, words in _PARTS.items() if name.endswith(end)), block)


def _tables(
    methods: dict[str, list[Outcomes]], left_out: dict[str, int], keys: Sequence[Key], notes: list[str]
) -> list[_Table]:
    """The evaluated table, then each further table that protocols measured and that can be compared."""
    runs = [run for of_method in methods.values() for run in of_method]
    here = [key for key in keys if any(key in run.keys for run in runs)]
    used = _without_unused(_keep_same_bands(methods, here, notes), here) if here else methods
    tables = [_Table("", used, here, left_out)]
    for name in dict.fromkeys(name for run in runs for name in run.elsewhere):
        own = [key for key in keys if key[0] == name and key not in here]
        if own and not all(name in run.elsewhere for run in runs):
            notes.append(f"'{name}' is not compared: not every run was measured by it.")
        elif own:
            of_table = {method: [run.elsewhere[name] for run in of] for method, of in methods.items()}
            try:
                common, missing = common_samples(of_table)
            except DataError as error:
                notes.append(f"'{name}' is not compared: {error}.")
                continue
            used = _without_unused(_keep_same_bands(common, own, notes), own)
            tables.append(_Table(name, used, own, missing))
    return tables


def _keep_same_bands(
    methods: dict[str, list[Outcomes]], keys: Sequence[Key], notes: list[str]
) -> dict[str, list[Outcomes]]:
    """The outcomes, in which means over head, middle or tail classes leave out classes of different bands.

    The bands are those of each run's own training set.
    """
    runs = [run for of_method in methods.values() for run in of_method]
    bands = [run.bands for run in runs if run.bands is not None]
    of_bands = {key for run in runs for key in run.whole & run.weights.keys() if key[1].endswith(_OF_BANDS)}
    if not bands or not of_bands.intersection(keys):
        return methods
    different = np.unique(runs[0].nodes[np.any([each != bands[0] for each in bands], axis=0)])
    if not len(different):
        return methods
    notes.append(
        f"Runs differ in which classes are frequent in their training data: {len(different)} classes are not "
        "in the same band (head, middle, tail) in all runs and were left out of the means over bands."
    )

    def same(run: Outcomes) -> Outcomes:
        values = {
            key: np.where(np.isin(run.classes.get(key, run.nodes), different), np.nan, run.values[key])
            for key in of_bands & run.values.keys()
        }
        return replace(run, values=run.values | values)

    return {name: [same(run) for run in of] for name, of in methods.items()}


def _named(key: Key, names: Sequence[str]) -> bool:
    """Whether any of the names, or patterns with `*`, matches a metric (`METRIC` or `ROLE.METRIC`).

    The names of rows in the text match, too: `answers top1` or `embeddings recall at 1`.
    """
    role, metric = key
    shown = f"{role}_{metric.removeprefix('answer_')}"
    written = [name.replace(" ", "_") for name in names]
    return (
        metric in written
        or any(shown == each for each, name in zip(written, names, strict=True) if " " in name)
        or any(fnmatch.fnmatchcase(f"{role}.{metric}", name) for name in names)
    )


def _without_unused(methods: dict[str, list[Outcomes]], keys: Sequence[Key]) -> dict[str, list[Outcomes]]:
    """The outcomes without samples that count only in blocks of metrics that are not compared."""
    blocks = {run.block(key) for runs in methods.values() for run in runs for key in keys if key in run.keys}

    def counted(of_compared: bool) -> NDArray[np.bool_]:
        columns = [
            run.counted(key)
            for runs in methods.values()
            for run in runs
            for key in run.keys
            if (run.block(key) in blocks) == of_compared
        ]
        return np.any(columns, axis=0) if columns else np.zeros(len(samples), dtype=bool)

    samples = next(iter(methods.values()))[0]
    unused = counted(False) & ~counted(True)
    if not unused.any():
        return methods
    return {name: [run.rows(~unused) for run in runs] for name, runs in methods.items()}


def _searched_alike(
    methods: Mapping[str, Sequence[Outcomes]], keys: list[Key]
) -> tuple[list[Key], list[str]]:
    """The metrics that can be compared (no retrieval if runs searched in different ways), and notes."""
    ways = {name: {run.search_words for run in runs} for name, runs in methods.items()}
    kept = [key for key in keys if not is_retrieval(key[1])]
    if len(set().union(*ways.values())) == 1 or len(kept) == len(keys):
        return keys, []
    how = "; ".join(f"'{name}' {' or '.join(sorted(kinds))}" for name, kinds in ways.items())
    return kept, [
        f"Retrieval is not compared, because the runs were searched in different ways ({how}): evaluate them "
        "again with the same --leave-group-out and the same splits."
    ]


def _searched_together(
    methods: Mapping[str, Sequence[Outcomes]], shared: Mapping[str, Sequence[Outcomes]], keys: list[Key]
) -> tuple[list[Key], list[str]]:
    """The metrics that can be compared, without those of runs that searched other samples, and a note.

    Among more samples there are more to confuse, and more to find.
    """
    apart = {
        key
        for name, runs in methods.items()
        for run, kept in zip(runs, shared[name], strict=True)
        for key in keys
        if key in run.among and run.counted(key).sum() > kept.counted(key).sum()
    }
    if not apart:
        return keys, []
    numbers = {
        name: max(int(run.counted(key).sum()) for run in runs for key in apart if key in run.keys)
        for name, runs in methods.items()
    }
    told = ", ".join(f"'{name}' among {say_count(number, 'sample')}" for name, number in numbers.items())
    return [key for key in keys if key not in apart], [
        f"Retrieval is not compared, because the runs searched other samples ({told}): evaluate them again, "
        "all on the same samples."
    ]


def _corrected(entries: list[Compared], same: Mapping[Key, Key]) -> list[Compared]:
    """The entries with p-values corrected over all entries and methods; identical metrics count once."""
    tests = {
        (_place(entry), same[_key(entry)], name): part.p
        for entry in reversed(entries)  # of identical metrics the first one stays
        for name, part in entry.differences.items()
    }
    corrected = dict(zip(tests, holm(list(tests.values())).tolist(), strict=True))
    return [
        replace(
            entry,
            differences={
                name: replace(part, corrected=corrected[_place(entry), same[_key(entry)], name])
                for name, part in entry.differences.items()
            },
        )
        for entry in entries
    ]


def _key(entry: MetricComparison) -> Key:
    return entry.role, entry.metric


def _place(entry: MetricComparison) -> tuple[str, str]:
    """Kind and name of the stratum of an entry; empty for all samples."""
    return (entry.kind, entry.name) if isinstance(entry, StratumComparison) else ("", "")


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(1, count + 1)]


def duplicate_metrics(methods: Mapping[str, Sequence[Outcomes]], keys: Sequence[Key]) -> dict[Key, Key]:
    """Map each metric to the first one that equals it or its complement for every sample of every run.

    If all leaves lie at one depth, for example, hierarchical F1 equals the tree accuracy, and the accuracy at
    the finest depth equals top-1.

    Args:
        methods: Method → outcomes of its runs, on the same samples.
        keys: Metrics to group.
    """
    first: dict[frozenset[bytes], Key] = {}
    same = {}
    for key in keys:
        runs = [run for of_method in methods.values() for run in of_method]
        if not any(key in run.values for run in runs):
            same[key] = key
            continue
        columns = [_column(run, key) for run in runs]
        # + 0.0 turns −0 into 0
        straight = b"".join((np.round(values, _DIGITS) + 0.0).tobytes() + rest for values, rest in columns)
        turned = b"".join((np.round(1 - values, _DIGITS) + 0.0).tobytes() + rest for values, rest in columns)
        same[key] = first.setdefault(frozenset((straight, turned)), key)
    return same


def _column(run: Outcomes, key: Key) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], bytes]:
    """Values of a metric, and its weights as bytes if they are not all equal."""
    values = run.values.get(key)
    if values is None:
        return np.full(len(run), np.nan), b""
    weights = run.weights.get(key)
    if weights is None or len(np.unique(weights[~np.isnan(values)])) < 2:
        return values, b""
    return values, weights.tobytes()
