"""Methods on common samples: choice of these samples, their strata, estimates and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from labeltree.counted_nouns import say_count
from labeltree.errors import DataError
from labeltree.evaluation.chosen_samples import GROUPS
from labeltree.evaluation.comparing.comparison import Difference, Estimate
from labeltree.evaluation.outcomes import Key, Outcomes, renumber_nodes
from labeltree.evaluation.statistics import (
    Bootstrap,
    GroupSums,
    Interval,
    JointJackknife,
    across_runs,
    mcnemar,
    mean_of_parts,
    sign_flip_test,
)
from labeltree.evaluation.statistics.interval_ends import Floats
from labeltree.evaluation.statistics.jackknife import block_counts
from labeltree.evaluation.statistics.means_over_nodes import MeanOverNodes, MeansOverNodes
from labeltree.evaluation.statistics.retrieval_jackknife import WithoutBlocks
from labeltree.evaluation.statistics.sampling_units import join_groups
from labeltree.evaluation.statistics.search_jackknife import BlockEffects, QueryCounts, SearchJackknife
from labeltree.runs.table_file_columns import number_groups
from labeltree.taxonomy.versions.paired_names import list_differences

__all__ = [
    "Found",
    "OtherLabelsError",
    "PairedEstimates",
    "Stratum",
    "common_samples",
    "keys_by_blocks",
    "strata",
    "tested_in_all",
]

_Rows = dict[tuple[int, int], int]
_Uncertainty = Bootstrap | JointJackknife | MeansOverNodes | SearchJackknife


class OtherLabelsError(DataError):
    """Samples have other labels in one run than in another.

    Attributes:
        names: The methods of the two runs.
        runs: Their places among all runs, in the order given.
        count: How many samples have other labels.
        instance: The number of the first of them.
        named: Its id; empty if samples have none.
        labels: Its labels in the two runs.
    """

    def __init__(
        self,
        names: tuple[str, str],
        runs: tuple[int, int],
        count: int,
        instance: int,
        named: str,
        labels: tuple[str, str],
    ) -> None:
        self.names, self.runs, self.count, self.instance = names, runs, count, instance
        self.named, self.labels = named, labels
        sample = f"sample '{named}'" if named else f"sample number {instance}"
        super().__init__(
            f"{self.differ(sample)}: these are not the same samples, or not as labelled; compare runs on the "
            "same labels (if corrections are the difference, 'labeltree evaluate RUN --corrections FILE' has "
            "the other run judged by them)"
        )

    def differ(self, sample: str) -> str:
        """How many samples have other labels, and those of one, by what it is called."""
        (first, other), (known, here) = self.names, self.labels
        how_many = say_count(self.count, "sample has another label", "samples have other labels")
        one = "" if self.count == 1 else "one of them "
        return (
            f"{how_many} in '{other}' than in '{first}', {one}{sample}, which is '{here}' in '{other}' and "
            f"'{known}' in '{first}'"
        )


def common_samples(
    methods: Mapping[str, Sequence[Outcomes]],
) -> tuple[dict[str, list[Outcomes]], dict[str, int]]:
    """Reduce the outcomes of all runs to their common samples, in the order of the first run.

    Nodes are matched by their paths, so that siblings may stand in another order. Samples are matched by id;
    several rows with one id are matched in their order. Samples that are in one group in any run are in one
    group.

    Args:
        methods: Method → outcomes of its runs.

    Returns:
        The reduced outcomes, and method → the largest number of samples left out of one of its runs.

    Raises:
        DataError: If the taxonomies differ, or no sample is common.
        OtherLabelsError: If a common sample has different labels.
    """
    runs = [(name, run) for name, outcomes in methods.items() for run in outcomes]
    first_name, first = runs[0]
    for number, (name, run) in enumerate(runs):
        if (renumbered := renumber_nodes(run, first)) is None:
            differ = list_differences(first.taxonomy, run.taxonomy, (f"'{first_name}'", f"'{name}'"))
            raise DataError(
                f"'{name}' and '{first_name}' were evaluated on different taxonomies ({differ}): compare "
                "them on one, 'labeltree compare RUN RUN --taxonomy FILE', with --mapping RUN=FILE where "
                "classes changed. If they are one run before and after a change, there are no two models to "
                "compare: 'labeltree evaluate RUN --taxonomy FILE' prints both numbers on the same samples"
            )
        runs[number] = name, renumbered
    rows = [_rows(run) for _, run in runs]
    shared = [key for key in rows[0] if all(key in other for other in rows)]
    if not shared:
        raise DataError(
            f"the runs of {', '.join(map(repr, methods))} have no test sample in common (samples are told by "
            f"their ids, or else by their rows): they cannot be compared"
        )
    places = [np.array([row_of[key] for key in shared], dtype=np.int64) for row_of in rows]
    reference = first.nodes[places[0]]
    for number, ((name, run), place) in enumerate(zip(runs, places, strict=True)):
        different = np.flatnonzero(run.nodes[place] != reference)
        if len(different):
            one = int(different[0])
            labels = _say_label(first, int(reference[one])), _say_label(run, int(run.nodes[place[one]]))
            named = "" if run.ids is None else str(run.ids[place[one]])
            names, instance = (first_name, name), int(shared[one][0])
            raise OtherLabelsError(names, (0, number), len(different), instance, named, labels)
    known = [
        run.groups[place] for (_, run), place in zip(runs, places, strict=True) if run.groups is not None
    ]
    groups = join_groups(known)
    common: dict[str, list[Outcomes]] = {name: [] for name in methods}
    left_out = dict.fromkeys(methods, 0)
    for (name, run), place in zip(runs, places, strict=True):
        common[name].append(replace(run.rows(place), groups=groups))
        left_out[name] = max(left_out[name], len(run) - len(shared))
    return common, left_out


def _say_label(run: Outcomes, node: int) -> str:
    return run.taxonomy.path_name(node) if node > 0 else "no label"


def tested_in_all(methods: Mapping[str, Sequence[Outcomes]]) -> tuple[dict[str, list[Outcomes]], list[str]]:
    """Let answers count only for the samples that were tested in all runs, and a note if some were not.

    Tables without splits are tested on one half, which depends on their groups and on which labels are
    missing.

    Args:
        methods: Method → outcomes of its runs, on their common samples.

    Raises:
        DataError: If no sample was tested in all runs.
    """
    common = {name: list(runs) for name, runs in methods.items()}
    tested = [
        np.any([answers >= 0 for answers in run.predicted.values()], axis=0)
        for runs in common.values()
        for run in runs
        if run.predicted
    ]
    in_all = np.all(tested, axis=0) if tested else np.ones(0, dtype=bool)
    if all(np.array_equal(each, in_all) for each in tested):
        return common, []
    if not in_all.any():
        raise DataError(
            "no sample was tested in all runs, since each set another half aside for its classifiers: give "
            "all tables the same column 'split'"
        )
    place = np.where(in_all, np.arange(len(in_all)), -1)

    def of_all(run: Outcomes) -> Outcomes:
        values = {
            key: np.where(in_all, column, np.nan) if run.block(key) == "answers" else column
            for key, column in run.values.items()
        }
        statistics = {
            role: [each if role in run.protocols else each.moved(place) for each in several]
            for role, several in run.statistics.items()
        }
        changed = replace(run, values=values, statistics=statistics)
        return changed.rows(np.arange(len(run)))  # with the weights of the samples that are left

    note = (
        f"The runs were not tested on the same samples: of those in common, {int(in_all.sum())} were tested "
        "in all of them. The measures of answers and violations are of these alone, and may differ from a "
        "run's own report. Tables without a column 'split' set a half aside, which depends on their groups "
        "and labels; give all the same 'split'."
    )
    return {name: [of_all(run) for run in runs] for name, runs in common.items()}, [note]


def _rows(outcomes: Outcomes) -> _Rows:
    """(id, number of earlier rows with this id) → row."""
    seen: dict[int, int] = {}
    rows: _Rows = {}
    for row, instance in enumerate(outcomes.instances.tolist()):
        number = seen.get(instance, 0)
        rows[instance, number] = row
        seen[instance] = number + 1
    return rows


@dataclass(frozen=True)
class Stratum:
    """A subset of the samples.

    Attributes:
        kind: `subtree`, `depth`, `frequency` or `attribute`.
        name: Path name of a node, `depth 2`, `head` or `site = Graz`.
        node: Node of the subtree, −1 for other kinds.
        rows: `(n,)` bool mask of the samples.
    """

    kind: str
    name: str
    node: int
    rows: NDArray[np.bool_]


def strata(outcomes: Outcomes, *, min_samples: int = 20, most: int = 200) -> list[Stratum]:
    """All strata with enough samples.

    - `subtree`: the samples labelled at or below a node, for every node but the root; at most `most`
      nodes, those with the most samples.
    - `depth`: the samples whose label lies at a depth, if labels lie at several depths.
    - `frequency`: the samples of frequent (`head`), less frequent (`middle`) and rare (`tail`)
      classes, if the outcomes have frequency bands.
    - `attribute`: the samples with each value of the attributes that the outcomes have (the site).

    Args:
        outcomes: Outcomes of one method.
        min_samples: Strata with fewer samples are omitted.
        most: Maximum number of subtrees.
    """
    taxonomy = outcomes.taxonomy
    nodes, ancestors = outcomes.nodes, taxonomy.ancestors.numpy()
    above = ancestors[nodes]
    sizes = np.bincount(above[above > 0], minlength=taxonomy.num_nodes)
    enough = np.flatnonzero(sizes >= max(min_samples, 1))
    kept = np.sort(enough[np.argsort(-sizes[enough], kind="stable")[:most]])
    ends = taxonomy.subtree_end.numpy()
    chosen = [
        Stratum("subtree", taxonomy.path_name(node), node, (nodes >= node) & (nodes < int(ends[node])))
        for node in kept.tolist()
    ]
    depths = taxonomy.depth.numpy()[nodes]
    by_depth = [
        Stratum("depth", f"depth {depth}", -1, depths == depth) for depth in np.unique(depths).tolist()
    ]
    if len(by_depth) > 1:
        chosen += [stratum for stratum in by_depth if stratum.rows.sum() >= min_samples]
    if outcomes.bands is not None:
        bands = [
            Stratum("frequency", name, -1, outcomes.bands == number) for number, name in enumerate(GROUPS)
        ]
        chosen += [stratum for stratum in bands if stratum.rows.sum() >= min_samples]
    for name, values in outcomes.attributes.items():
        by_value = [
            Stratum("attribute", f"{name} = {value or '(missing)'}", -1, values == value)
            for value in np.unique(values).tolist()
        ]
        if len(by_value) > 1:
            chosen += [stratum for stratum in by_value if stratum.rows.sum() >= min_samples]
    return chosen


class Found(NamedTuple):
    """A metric of all methods.

    Attributes:
        samples: Number of samples that count, in the first run of the baseline.
        units: Number of their resampling units: groups, or samples if there are none.
        counted: Method → both numbers of its first run, if they differ between methods; else empty.
        estimates: Method → estimate.
        differences: Method → difference from the baseline.
    """

    samples: int
    units: int
    estimates: dict[str, Estimate]
    differences: dict[str, Difference]
    counted: dict[str, tuple[int, int]]

    def without_intervals(self) -> Found:
        """The numbers alone."""
        none: dict[str, Any] = {"low": np.nan, "high": np.nan}
        return self._replace(
            estimates={name: replace(each, error=np.nan, **none) for name, each in self.estimates.items()},
            differences={
                name: replace(each, p=np.nan, mcnemar=np.nan, test="", **none)
                for name, each in self.differences.items()
            },
        )


@dataclass(frozen=True)
class PairedEstimates:
    """Estimates and differences of methods on the same samples.

    Attributes:
        baseline: The method that the others are compared with.
        confidence: Confidence level of the intervals.
        resamples: Number of bootstrap draws.
        permutations: Number of random sign flips of the test.
        seed: Random seed of the bootstrap and the test.
    """

    baseline: str
    confidence: float
    resamples: int
    permutations: int
    seed: int

    def measure(self, methods: Mapping[str, Sequence[Outcomes]], keys: Sequence[Key]) -> dict[Key, Found]:
        """Numbers of samples, estimates and differences of every metric, for runs on the same samples.

        Intervals and tests of a metric draw the units of the samples of its block (`Outcomes.block`), so that
        they do not depend on which other metrics are compared: where half of the samples was set aside for
        learning, the numbers of classifiers rest on fewer units than those of retrieval. Those of a search
        among the samples leave out blocks of samples (`SearchJackknife`), and there are none where the runs
        did not search the same samples.
        """
        runs = [run for outcomes in methods.values() for run in outcomes]
        place: dict[str, list[int]] = {}
        for name, outcomes in methods.items():
            place[name] = [sum(map(len, place.values())) + number for number in range(len(outcomes))]
        blocks: dict[tuple[str, bool], list[Key]] = {}
        for key in keys:
            block = next(run.block(key) for run in runs if key in run.keys)
            blocks.setdefault((block, any(key in run.values for run in runs)), []).append(key)
        by_key: dict[Key, Found] = {}
        for (block, mean), several in blocks.items():
            rows = np.any([run.in_block(block) for run in runs], axis=0)
            drawn = runs if rows.all() or not rows.any() else [run.rows(rows) for run in runs]
            if not mean:
                by_key |= zip(several, self._measure_joint(drawn, several, place), strict=True)
                continue
            searched = [key for key in several if any(key in run.among for run in drawn)]
            of_classes = [
                key for key in several if all(r.is_mean_over_classes(key) for r in drawn if key in r.values)
            ]
            plain = [key for key in several if key not in searched and key not in of_classes]
            if plain:
                by_key |= zip(plain, self._measure_means(drawn, plain, place), strict=True)
            if of_classes:
                measured = self._measure_means(drawn, of_classes, place, _class_means(drawn, of_classes))
                by_key |= zip(of_classes, measured, strict=True)
            for among, known in keys_by_blocks(drawn, searched):
                joint = [key for key in among if known and any(key in run.no_share for run in drawn)]
                means = [key for key in among if key not in joint]
                if joint:
                    left = _correlations_without_blocks(drawn, joint)
                    by_key |= zip(joint, self._measure_joint(drawn, joint, place, left), strict=True)
                if means and known:
                    by_key |= zip(means, self._measure_searched(drawn, means, place), strict=True)
                elif means:
                    measured = self._measure_means(drawn, means, place)
                    by_key |= zip(means, (each.without_intervals() for each in measured), strict=True)
        return {key: by_key[key] for key in keys}

    def _measure_means(
        self,
        runs: Sequence[Outcomes],
        keys: Sequence[Key],
        place: Mapping[str, list[int]],
        of_classes: MeansOverNodes | None = None,
    ) -> list[Found]:
        """Metrics that are means over samples, for runs on the samples of their block.

        Args:
            runs: The outcomes of all runs.
            keys: The metrics.
            place: Method → places of its runs.
            of_classes: The metrics as means over classes, which give the intervals; None = draws do.
        """
        values, weights = _stacked(runs, keys)
        plain = np.where(_weighed_alike(values, weights), values, np.nan)
        sums = GroupSums.of(values, runs[0].units, weights)
        bootstrap = Bootstrap(sums, resamples=self.resamples, seed=self.seed)
        share = np.array([not any(key in run.no_share for run in runs) for key in keys])
        counted = ~np.isnan(values)
        if of_classes is not None:
            return self._found(of_classes, None, counted, place, runs, flips=bootstrap)
        return self._found(bootstrap, plain, counted, place, runs, share)

    def _measure_searched(
        self, runs: Sequence[Outcomes], keys: Sequence[Key], place: Mapping[str, list[int]]
    ) -> list[Found]:
        """Likewise, of samples that are searched among each other in the same blocks."""
        values, weights = _stacked(runs, keys)
        counted = ~np.isnan(values)
        counts = [_count_queries(run, values[:, at]) for at, run in enumerate(runs)]
        searches = next(each.searches for run in runs for key in keys if (each := run.without.get(key)))
        single = np.asarray((np.isin(values, [0.0, 1.0]) | ~counted).all(axis=0))
        effects = [
            _effects(run, keys, values[:, at], weights[:, at], searches) for at, run in enumerate(runs)
        ]
        jackknife = SearchJackknife(effects, counts, single)
        return self._found(jackknife, None, counted, place, runs)

    def _measure_joint(
        self,
        runs: Sequence[Outcomes],
        keys: Sequence[Key],
        place: Mapping[str, list[int]],
        left: JointJackknife | None = None,
    ) -> list[Found]:
        """Metrics that are not means over samples, likewise."""
        counted = np.stack([[run.counted(key) for key in keys] for run in runs]).transpose(2, 0, 1)
        return self._found(left or self._joint(runs, keys), None, counted, place, runs)

    def _found(
        self,
        bootstrap: _Uncertainty,
        values: Floats | None,
        counted: NDArray[np.bool_],  # (n, r, m)
        place: Mapping[str, list[int]],
        runs: Sequence[Outcomes],
        share: NDArray[np.bool_] | bool = False,
        flips: Bootstrap | None = None,
    ) -> list[Found]:
        base, units = place[self.baseline], runs[place[self.baseline][0]]
        grouped = runs[base[0]].units is not None
        estimates = {name: self._estimates(bootstrap, of, share) for name, of in place.items()}
        differences = {
            name: self._differences(bootstrap, None if grouped else values, of, base, flips)
            for name, of in place.items()
            if name != self.baseline
        }
        measured = []
        for k in range(counted.shape[2]):
            columns = {name: counted[:, of[0], k] for name, of in place.items()}
            numbers = {
                name: (int(rows.sum()), units.count_groups(rows))
                for name, rows in columns.items()
                if name == self.baseline or not np.array_equal(rows, columns[self.baseline])
            }
            differ = len(set(numbers.values())) > 1
            measured.append(
                Found(
                    *numbers[self.baseline],
                    {name: of[k] for name, of in estimates.items() if not np.isnan(of[k].value)},
                    {name: of[k] for name, of in differences.items() if not np.isnan(of[k].value)},
                    {name: numbers.get(name, numbers[self.baseline]) for name in place} if differ else {},
                )
            )
        return measured

    def _joint(self, runs: Sequence[Outcomes], keys: Sequence[Key]) -> JointJackknife:
        """Metrics that are not means, without the same blocks of samples in all runs."""
        units = runs[0].units
        groups = number_groups(np.arange(len(runs[0])) if units is None else units)
        count = int(groups.max()) + 1
        value = np.full((len(runs), len(keys)), np.nan)
        left = np.full((block_counts(count).shape[1], *value.shape), np.nan)
        present = np.zeros((count, *value.shape), dtype=bool)
        lowest = np.full(len(keys), -np.inf)
        for place, run in enumerate(runs):
            known: dict[int, tuple[Floats, Floats]] = {}  # all numbers of one statistic are computed together
            for column, key in enumerate(keys):
                parts = []
                for statistic in run.joint(key):
                    if id(statistic) not in known:
                        of = groups[statistic.rows], count, run.dag or run.taxonomy
                        known[id(statistic)] = statistic.without_blocks(*of)
                    number = statistic.names.index(key[1])
                    parts.append(tuple(each[number] for each in known[id(statistic)]))
                    present[groups[statistic.rows], place, column] = True
                    lowest[column] = statistic.lowest[number]
                if parts:
                    value[place, column], left[:, place, column] = mean_of_parts(parts)
        return JointJackknife(value, left, present, lowest)

    def _estimates(
        self, bootstrap: _Uncertainty, runs: list[int], share: NDArray[np.bool_] | bool
    ) -> list[Estimate]:
        single = bootstrap.ratios[runs]
        contrast = _contrast(bootstrap, runs)
        intervals = bootstrap.interval(contrast, confidence=self.confidence, share=share)
        low, high, error = intervals.low, intervals.high, intervals.error
        sd = np.full_like(low, np.nan)
        if len(runs) > 1:
            groups = bootstrap.groups(contrast)
            error = _whole_error(bootstrap, intervals, self.confidence)
            parts = across_runs(intervals.value, [single], error, groups, confidence=self.confidence)
            low, high, error, sd = parts.low, parts.high, parts.error, single.std(axis=0, ddof=1)
        if not isinstance(bootstrap, Bootstrap):
            low, high = bootstrap.limited(low, high)
        rows = np.stack([intervals.value, low, high, error, sd], axis=1).tolist()
        return [
            Estimate(value, start, end, off, runs=single[:, k].tolist(), sd=deviation)
            for k, (value, start, end, off, deviation) in enumerate(rows)
        ]

    def _differences(
        self,
        bootstrap: _Uncertainty,
        values: Floats | None,
        runs: list[int],
        base: list[int],
        flips: Bootstrap | None = None,
    ) -> list[Difference]:
        """Differences from the baseline; `values` of single samples allow McNemar's test, None omits it.

        NaN for all samples of a metric omits it too. Signs are flipped in `flips`, by default the bootstrap.
        """
        flips = bootstrap if isinstance(bootstrap, Bootstrap) else flips
        contrast = _contrast(bootstrap, runs) - _contrast(bootstrap, base)
        intervals = bootstrap.interval(contrast, confidence=self.confidence, method="percentile")
        low, high = intervals.low, intervals.high
        exact = np.full_like(low, np.nan)
        single = len(runs) == len(base) == 1
        if single and flips is not None:
            both = flips.sums.runs(runs + base)
            test = np.where(both.counts_differ, "studentised sign flips", "sign flips").tolist()
            p = sign_flip_test(both, permutations=self.permutations, seed=self.seed)
            if values is not None:
                a, b = values[:, runs[0]], values[:, base[0]]
                exact = np.array([mcnemar(a[:, k], b[:, k]) for k in range(len(low))])
        else:
            test = ["jackknife" if single else "runs and samples"] * len(low)
            spread = [bootstrap.ratios[runs], bootstrap.ratios[base]]
            groups = bootstrap.groups(contrast)
            error = _whole_error(bootstrap, intervals, self.confidence)
            parts = across_runs(intervals.value, spread, error, groups, confidence=self.confidence)
            p = parts.p
            if not single:
                low, high = parts.low, parts.high
        rows = np.stack([intervals.value, low, high, p, exact], axis=1).tolist()
        return [
            Difference(value, start, end, p=chance, mcnemar=precise, test=name)
            for (value, start, end, chance, precise), name in zip(rows, test, strict=True)
        ]


def keys_by_blocks(runs: Sequence[Outcomes], keys: Sequence[Key]) -> list[tuple[list[Key], bool]]:
    """Metrics of a search among the samples with the same blocks in all runs; False: all others."""
    unknown, by_blocks = list[Key](), list[tuple[list[Key], WithoutBlocks]]()
    for key in keys:
        parts = [run.without.get(key) for run in runs if key in run.values]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts) or not all(part.same_blocks(known[0]) for part in known):
            unknown.append(key)
            continue
        others = next((several for several, of in by_blocks if known[0].same_blocks(of)), None)
        if others is None:
            by_blocks.append(([key], known[0]))
        else:
            others.append(key)
    groups = [(several, True) for several, _ in by_blocks]
    return [*groups, (unknown, False)] if unknown else groups


def _correlations_without_blocks(runs: Sequence[Outcomes], keys: Sequence[Key]) -> JointJackknife:
    """Correlations of samples with each other (CPCC), without the same blocks of samples in all runs."""
    values, weights = _stacked(runs, keys)
    count = next(part.values.shape[1] for run in runs if (part := run.without.get(keys[0])))
    value = np.full(values.shape[1:], np.nan)
    left = np.full((count, *value.shape), np.nan)
    for place, run in enumerate(runs):
        for column, key in enumerate(keys):
            of_samples = values[:, place, column]
            known = ~np.isnan(of_samples)
            if (part := run.without.get(key)) is not None and known.any():
                value[place, column] = of_samples[known].mean()
                weight = np.where(known, weights[:, place, column], 0.0)
                left[:, place, column] = part.left_out(csr_array(weight[None]), of_samples)[0]
    return JointJackknife(value, left, None, np.full(len(keys), -1.0))


def _count_queries(run: Outcomes, values: Floats) -> QueryCounts:
    """The queries of a run's metrics, from the values `(n, m)` of its samples, and the units they lie in."""
    sample, metric = np.nonzero(~np.isnan(values))
    units = np.arange(len(run)) if run.units is None else number_groups(run.units)
    return QueryCounts.of(metric, units[sample], values[sample, metric], values.shape[1])


def _effects(
    run: Outcomes, keys: Sequence[Key], values: Floats, weights: Floats, searches: NDArray[np.int64]
) -> BlockEffects:
    """What each block of samples that are searched among each other adds to the metrics of a run.

    Args:
        run: The outcomes.
        keys: The metrics.
        values: `(n, m)` value of each sample.
        weights: `(n, m)` its weight.
        searches: `(B,)` search of each block.
    """
    parts = []
    for column, key in enumerate(keys):
        weight = np.where(np.isnan(values[:, column]), 0.0, weights[:, column])
        known = run.without.get(key)
        parts.append(
            BlockEffects.unknown(searches)
            if known is None
            else known.effects(csr_array(weight[None]), values[:, column])
        )
    return BlockEffects.joined(parts)


def _stacked(runs: Sequence[Outcomes], keys: Sequence[Key]) -> tuple[Floats, Floats]:
    """Values `(n, r, m)` of all runs, NaN where a run lacks the metric, and their weights."""
    n, shape = len(runs[0]), (len(runs[0]), len(runs), len(keys))
    values, weights = np.full(shape, np.nan), np.ones(shape)
    for place, run in enumerate(runs):
        for column, key in enumerate(keys):
            values[:, place, column] = run.values.get(key, np.full(n, np.nan))
            if key in run.weights:
                weights[:, place, column] = run.weights[key]
    return values, weights


def _whole_error(bootstrap: _Uncertainty, interval: Interval, confidence: float) -> Floats:
    """The standard error `(m,)` of the samples; of means over classes with what their classes may hide."""
    if not isinstance(bootstrap, MeansOverNodes):
        return interval.error
    reach: Floats = np.maximum(interval.value - interval.low, interval.high - interval.value)
    return np.fmax(interval.error, reach / NormalDist().inv_cdf((1 + confidence) / 2))


def _class_means(runs: Sequence[Outcomes], keys: Sequence[Key]) -> MeansOverNodes:
    """Metrics as means over classes, without the same blocks of samples in all runs."""
    units = runs[0].units
    group = number_groups(np.arange(len(runs[0])) if units is None else units)
    count = int(group.max()) + 1
    without = block_counts(count)
    groups, lowest = np.zeros((len(runs), len(keys))), np.zeros(len(keys))
    means = [[MeanOverNodes(count, without.shape[1]) for _ in keys] for _ in runs]
    for place, run in enumerate(runs):
        for column, key in enumerate(keys):
            if key not in run.values:
                continue
            known = np.flatnonzero(run.counted(key) & (run.classes[key] >= 0))
            classes, index = np.unique(run.classes[key][known], return_inverse=True)
            values, at = run.values[key][known], (index.reshape(-1), group[known])
            shape, ones = (len(classes), count), np.ones(len(known))
            hits, sizes = (csr_array(coo_array((of, at), shape=shape)) for of in (values, ones))
            share, graded = key not in run.no_share, not bool(np.isin(values, (0.0, 1.0)).all())
            means[place][column].add_sums(hits, sizes, without, share=share, graded=graded)
            groups[place, column] = len(np.unique(group[known]))
            lowest[column] = min(lowest[column], 0.0 if share else -np.inf)
    return MeansOverNodes(means, groups, lowest)


def _weighed_alike(values: Floats, weights: Floats) -> NDArray[np.bool_]:
    """Whether all samples that count in a metric of a run have one weight: `(1, r, m)`.

    McNemar's test counts samples; it does not test means over classes.
    """
    counted = ~np.isnan(values)
    largest = np.where(counted, weights, -np.inf).max(axis=0, keepdims=True, initial=-np.inf)
    smallest = np.where(counted, weights, np.inf).min(axis=0, keepdims=True, initial=np.inf)
    alike: NDArray[np.bool_] = largest <= smallest * (1 + 1e-9)
    return alike


def _contrast(bootstrap: _Uncertainty, runs: list[int]) -> Floats:
    weights = np.zeros(len(bootstrap.ratios))
    weights[runs] = 1 / len(runs)
    return weights
