"""Several methods on the same samples: which is better, by how much, how sure, and where on the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from labeltree.decisions.classifier import ClassifierKind
from labeltree.evaluation.common_samples import common_samples
from labeltree.evaluation.comparison import (
    Comparison,
    MetricComparison,
    StratumComparison,
)
from labeltree.evaluation.comparison_notes import comparison_notes
from labeltree.evaluation.gathering import CLASSIFIERS
from labeltree.evaluation.measuring import Measuring
from labeltree.evaluation.outcomes import Key, Outcomes, larger_is_better, of_retrieval
from labeltree.evaluation.same_metrics import same_metrics
from labeltree.evaluation.statistics import holm, number_groups
from labeltree.evaluation.strata import strata

__all__ = ["compare"]

_BY_STRATUM = ("answer_top1", "top1", "recall_at_1", "own_top1")
_OF_ANSWERS = ("top1", "hierarchical_f1", "hierarchical_f1_micro", "tree_accuracy", "mistake_severity")

Compared = TypeVar("Compared", MetricComparison, StratumComparison)


def compare(
    methods: Mapping[str, Outcomes | Sequence[Outcomes]],
    *,
    run_names: Mapping[str, Sequence[str]] | None = None,
    classifiers: Mapping[str, Sequence[ClassifierKind | None]] | None = None,
    baseline: str | None = None,
    metrics: Sequence[str] | None = None,
    strata_metrics: Sequence[str] = _BY_STRATUM,
    min_samples: int = 20,
    confidence: float = 0.95,
    resamples: int = 2000,
    permutations: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare methods by what came of the same samples.

    Every metric gets an interval, and every method but the baseline its difference with an interval and a
    p-value: from the bootstrap and the sign-flip test over groups of samples (`Bootstrap`, `sign_flip_test`);
    where a method has several runs, from `across_runs`, which adds the variance of the runs. The p-values of
    all metrics and methods are corrected together by Holm's rule, those of the parts of the samples likewise;
    metrics that are the same on these samples (`same_metrics`) count once.

    The metrics ``answer_top1``, ``answer_hierarchical_f1`` … of the role ``answers`` are of the classifier
    that each run answers with, which need not be the same in all runs: they compare runs as they are used.

    Args:
        methods: method → the outcomes of its run, or of each of its runs (seeds).
        run_names: method → what its runs are called; default ``1`` … .
        classifiers: method → the classifier that each of its runs answers with, None where that is not known;
            None: answers are not compared.
        baseline: that the others are compared with; default the first.
        metrics: names, all roles; fewer need less correction. None = all.
        strata_metrics: that are compared on subtrees, depths and class frequencies as well.
        min_samples: a subtree, depth or frequency band with fewer samples is left out.
        confidence: of the intervals.
        resamples: of the bootstrap.
        permutations: of the sign-flip test, whose least p-value is 1/(permutations + 1).
        seed: of both.

    Raises:
        ValueError: if there is no method, or no such baseline or metric.
        DataError: if the runs have no sample in common, or are of different taxonomies or labels.

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
    baseline = next(iter(listed)) if baseline is None else baseline
    if baseline not in listed:
        raise ValueError(f"baseline is '{baseline}'; expected one of {', '.join(map(repr, listed))}")
    common, left_out = common_samples(listed)
    answered = {
        name: list((classifiers or {}).get(name, [None] * len(runs))) for name, runs in listed.items()
    }
    common = {
        name: [_with_answers(run, kind) for run, kind in zip(runs, answered[name], strict=True)]
        for name, runs in common.items()
    }
    first = common[baseline][0]
    keys, apart = _searched_alike(common, _keys(common, metrics))
    same = same_metrics(common, keys)
    how = Measuring(baseline, confidence, resamples, permutations, seed)
    whole = [
        MetricComparison(role, metric, larger_is_better(metric), samples, estimates, differences)
        for (role, metric), (samples, estimates, differences) in zip(
            keys, how.measure(common, keys), strict=True
        )
    ]
    found_first = {same[key]: key for key in reversed(keys) if key[1] in strata_metrics}
    chosen = [key for key in keys if key in found_first.values() and key not in first.whole]
    parts = [
        StratumComparison(
            stratum.kind, stratum.name, stratum.node, role, metric, larger_is_better(metric), *found
        )
        for stratum in strata(first, min_samples=min_samples)
        for (role, metric), found in zip(
            chosen,
            how.measure(
                {name: [run.rows(stratum.rows) for run in runs] for name, runs in common.items()}, chosen
            ),
            strict=True,
        )
        if found[0] >= min_samples
    ]
    units = first.units
    names = {name: list((run_names or {}).get(name, _numbers(len(runs)))) for name, runs in listed.items()}
    result = Comparison(
        methods=names,
        baseline=baseline,
        samples=len(first),
        classifiers={name: [kind or "" for kind in kinds] for name, kinds in answered.items()},
        groups=len(first) if units is None else int(number_groups(units).max()) + 1,
        grouped=units is not None,
        left_out=left_out,
        confidence=confidence,
        tests=sum(len(entry.differences) for entry in whole if same[entry.role, entry.metric] == _key(entry)),
        metrics=_corrected(whole, same),
        strata=_corrected(parts, same),
    )
    return replace(result, notes=comparison_notes(result) + apart)


def _with_answers(run: Outcomes, classifier: ClassifierKind | None) -> Outcomes:
    """The outcomes with those of the classifier that the run answers with once more, first, as answers."""
    if classifier is None:
        return run
    prefix = CLASSIFIERS[classifier]
    answers: dict[Key, Key] = {}
    for key in run.values:
        metric = key[1].removeprefix(prefix)
        of_answers = metric in _OF_ANSWERS or metric.startswith("accuracy_at_depth_")
        if of_answers and key[1].startswith(prefix):
            answers["answers", f"answer_{metric}"] = key
    return replace(
        run,
        values={new: run.values[old] for new, old in answers.items()} | run.values,
        weights=run.weights | {new: run.weights[old] for new, old in answers.items() if old in run.weights},
    )


def _keys(methods: Mapping[str, Sequence[Outcomes]], metrics: Sequence[str] | None) -> list[Key]:
    keys = list(dict.fromkeys(key for runs in methods.values() for run in runs for key in run.values))
    known = {metric for _, metric in keys}
    unknown = [metric for metric in metrics or () if metric not in known]
    if unknown:
        raise ValueError(f"metrics names '{unknown[0]}'; expected some of {', '.join(sorted(known))}")
    return [key for key in keys if metrics is None or key[1] in metrics]


def _searched_alike(
    methods: Mapping[str, Sequence[Outcomes]], keys: list[Key]
) -> tuple[list[Key], list[str]]:
    """The metrics, without those of retrieval where runs searched in different ways, and a sentence on it."""
    ways = {name: {run.search_words for run in runs} for name, runs in methods.items()}
    kept = [key for key in keys if not of_retrieval(key[1])]
    if len(set().union(*ways.values())) == 1 or len(kept) == len(keys):
        return keys, []
    how = "; ".join(f"'{name}' {' or '.join(sorted(found))}" for name, found in ways.items())
    return kept, [
        f"Retrieval is not compared, for the runs were searched in different ways ({how}): evaluate them "
        "again with the same --leave-group-out and the same splits."
    ]


def _corrected(entries: list[Compared], same: Mapping[Key, Key]) -> list[Compared]:
    """The same with p-values corrected over all entries and methods, metrics that are the same once."""
    tests = {
        (_place(entry), same[_key(entry)], name): part.p
        for entry in reversed(entries)  # the first of those that are the same stays
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


def _key(entry: MetricComparison | StratumComparison) -> Key:
    return entry.role, entry.metric


def _place(entry: MetricComparison | StratumComparison) -> tuple[str, str]:
    """Which samples an entry is about."""
    return (entry.kind, entry.name) if isinstance(entry, StratumComparison) else ("", "")


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(1, count + 1)]
