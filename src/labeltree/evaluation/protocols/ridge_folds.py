"""`folds`: every labelled sample judged by a ridge head that has not seen its group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from labeltree.checks import check_integer
from labeltree.counted_nouns import say_count
from labeltree.data.stratified import make_folds
from labeltree.decisions import ClassNodes, Promise, calibration_by_depth
from labeltree.decisions.answers import find_paths
from labeltree.decisions.conformal import conformal_scores, threshold
from labeltree.errors import DataError
from labeltree.evaluation.chosen_samples import labelled_rows
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.protocols.decisions import ASKED, CURVES, answer_worth, curve_columns
from labeltree.evaluation.protocols.k_fold import MAYBE_SEEN, OF_THE_FOLDS, UNLEARNED, count_unlearned
from labeltree.evaluation.representations import Reading, Representation
from labeltree.evaluation.sample_columns import Column
from labeltree.evaluation.statistics import Statistic
from labeltree.evaluation.statistics.retrieval_jackknife import WithoutBlocks
from labeltree.evaluation.subsampling import ranked_in_label, row_groups
from labeltree.geometry import get_geometry
from labeltree.ridge import FoldOutputs, TreeRidge, fit_tree_ridge
from labeltree.ridge.tree_ridge import INSTANCE, TREE, check_nonlinear, check_settings
from labeltree.split_names import UNSEEN
from labeltree.taxonomy.class_similarity import Similarity
from labeltree.taxonomy.label_sets import finest_classes, finest_labels, shared_depth

__all__ = ["FoldsOptions", "folds"]

TITLE = "Folds: every sample judged by a head that has not seen its group"
_TOO_NARROW = (
    " With 50 to 200 samples they held what the head gets right of new ones in 83 to 90 % of simulations,"
    + " not in 95 %."
)
_BINS = 15
_CALIBRATION = (("ece", "error"), ("brier", "brier"), ("nll", "nll"), ("ece_by_chance", "by_chance"))
_SEARCH = "within-held-out-folds"
_SEARCHED = ("recall_at_", "map_at_r", "ahp", "h_ap")
_FIRST = ("top1", "hierarchical_f1", "mistake_severity", "ece", f"{_SEARCH}.recall_at_1", f"{_SEARCH}.ahp")


@dataclass(frozen=True)
class FoldsOptions:
    """Options of `folds`; of a run with a ridge head, the last five are those of its head by default.

    Attributes:
        folds: Number of folds; fewer if there are fewer groups.
        repeats: How often the folds are drawn anew.
        splits: Splits whose samples are judged; () = all but `test` and `unseen`. Of a run whose data have no
            test split of their own, the samples drawn for one are judged, too.
        per_class: Numbers of training samples per class of a learning curve.
        shares: Shares of the training groups of a learning curve.
        tree: See `labeltree.ridge.TreeRidge`, as the next two.
        instance: How much what tells samples of a class apart counts in search.
        similarity: Of classes.
        penalty: λ; 0 = chosen by the folds.
        nonlinear: How many random Fourier features the head reads; 0 = none, it is linear.
    """

    folds: int = 5
    repeats: int = 1
    splits: tuple[str, ...] = ()
    per_class: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    tree: float = TREE
    instance: float = INSTANCE
    similarity: Similarity = "depth"
    penalty: float = 0.0
    nonlinear: int = 0

    def __post_init__(self) -> None:
        check_integer("folds", self.folds, 2)
        check_integer("repeats", self.repeats, 1)
        if min(self.per_class, default=1) < 1 or not all(0 < share <= 1 for share in self.shares):
            raise ValueError(f"per_class {self.per_class} must be 1 or more, shares {self.shares} in (0, 1]")
        check_settings(tree=self.tree, instance=self.instance, similarity=self.similarity)
        if self.penalty:
            check_settings(penalty=self.penalty)
        check_nonlinear(self.nonlinear)


@register(
    "folds",
    summary="every labelled sample judged by a ridge head that has not seen its group",
    source="of labeltree; exact folds of ridge regression: Stone 1974, Allen 1974",
    options=FoldsOptions,
)
def folds(inputs: Inputs, options: FoldsOptions) -> ProtocolResult:
    """Judge the answers, their calibration and the search of heads that have not seen the sample's group.

    The folds are whole groups, with the classes in proportion. A fold costs next to nothing beside the one
    solve, so all labelled samples are judged and none has to be held out. Values of a sample are averaged
    over the repeats. A search has query and results in one held-out fold, of the first repeat: what different
    heads embed lies in different spaces.

    Raises:
        DataError: If the encoder was trained on the labels of the samples, they are of fewer than two classes
            or groups, or no sample has a class as its only label.
    """
    if inputs.table.learned_features:
        raise DataError(
            "the encoder was trained on these samples, so that folds of them would be judged far too well; "
            "it is for frozen encoders, and for others the test split says how they fare"
        )
    case = _Case.of(inputs, options)
    repeats = list(case.repeats())
    judged = [_Judged.of(case, seen) for _, seen in repeats]
    search, lonely = _search(case, *repeats[0])
    columns: list[Column | Statistic] = [*_average([each.columns for each in judged])]
    columns += [*search, *_learning_curves(case), *(each.calibration for each in judged)]
    result = case.inputs.summarise(columns, TITLE, by_frequency=False, rows=case.rows)
    for name, _ in _CALIBRATION:
        by_depth = np.array([each.by_depth[name] for each in judged]).mean(0)
        result.by_depth[name] = by_depth.tolist()
        result.scores.setdefault(name, float(by_depth[judged[0].deepest]))
    axes: dict[str, Sequence[float]] = {f"{name}_by_coverage": ASKED for name in CURVES}
    axes |= {"top1_by_per_class": options.per_class, "top1_by_share": options.shares}
    first = [name for name in _FIRST if name in result.scores]
    return replace(
        result,
        scores={name: result.scores[name] for name in [*first, *result.scores]},
        axes={name: list(map(float, axes[name])) for name in result.curves},
        counts=case.counts(),
        of=case.inputs,
        notes=[*case.notes(repeats[0][1], options.folds), *_search_notes(case, lonely)],
    )


@dataclass(frozen=True)
class _Case:
    """The samples that are judged, and how.

    Attributes:
        inputs: In which these samples are the test samples and the searched ones.
        options: With as many folds as there can be.
        rows: `(m,)` of the table.
        vectors: `(m, d)`.
        labels: `(m,)` or, if some have several, `(m, k)`.
        groups: `(m,)`.
    """

    inputs: Inputs
    options: FoldsOptions
    rows: Tensor
    vectors: Tensor
    labels: Tensor
    groups: Tensor

    @classmethod
    def of(cls, inputs: Inputs, options: FoldsOptions) -> _Case:
        table = inputs.table
        rows = ((table.nodes > 0) | table.several).nonzero()[:, 0]
        if table.split is not None:
            every = sorted(set(table.split.tolist()))
            splits = options.splits or [name for name in every if name not in ("test", UNSEEN)] or every
            rows = torch.cat([labelled_rows(table, name, several=True) for name in splits]).sort().values
        if not len(rows):
            raise DataError(f"no sample of {', '.join(options.splits) or 'the table'} has a label")
        rows = inputs.subsample(rows, inputs.settings.max_probe_samples)
        groups = row_groups(table, rows)
        count = min(options.folds, int(groups.max()) + 1)
        if count < 2:
            raise DataError(
                "all samples are of one group, so that none is judged by a head that has not seen it"
            )
        classes = finest_classes(table.one_label_a_row(rows)[1], inputs.judging.tree)
        finest = finest_labels(classes, inputs.judging.tree)
        queries = rows[finest[table.nodes[rows].clamp_min(0)] & ~table.several[rows]]
        queries = inputs.subsample(queries, inputs.settings.max_retrieval_samples)
        plan = inputs.plan(queries, queries[:0])
        shared = shared_depth(classes, inputs.judging.tree)
        samples = replace(
            inputs.samples, train=rows, test=rows, search=queries, plan=plan, finest=finest, shared=shared
        )
        sets = inputs.label_sets(rows)
        return cls(
            replace(inputs, samples=samples),
            replace(options, folds=count),
            rows,
            inputs.reading("features").vectors[rows],
            table.nodes[rows] if sets is None else sets,
            groups,
        )

    def fit(self, rows: Tensor, seed: int, *, slopes: bool = True) -> tuple[TreeRidge, FoldOutputs]:
        """A head of some of the samples, positions `(k,)`, and what it says of those in held-out folds."""
        groups, options = self.groups[rows], self.options
        return fit_tree_ridge(
            self.vectors[rows],
            self.labels[rows],
            self.inputs.judging.tree,
            groups=groups,
            tree=options.tree,
            instance=options.instance,
            similarity=options.similarity,
            penalty=options.penalty or None,
            nonlinear=options.nonlinear,
            folds=max(2, min(options.folds, len(torch.unique(groups)))),
            seed=seed,
            slopes=slopes,
        )

    def repeats(self) -> Iterator[tuple[TreeRidge, FoldOutputs]]:
        """The head of all samples, which is the same each time, and what heads without each fold say."""
        count, progress = self.options.repeats, self.inputs.progress
        for number in range(count):
            yield self.fit(torch.arange(len(self.rows)), self.inputs.settings.seed + number)
            if progress is not None:
                progress("heads without each fold", number + 1, count)

    def counts(self) -> dict[str, int]:
        """Numbers of samples, of groups if they are of several samples, of folds and of repeats."""
        counts, groups = {"samples": len(self.rows)}, int(self.groups.max()) + 1
        if groups < len(self.rows):
            counts["groups"] = groups
        return counts | {"folds": self.options.folds, "repeats": self.options.repeats}

    def notes(self, seen: FoldOutputs, asked: int) -> list[str]:
        """Sentences on what was done, and on what the numbers do not say.

        Args:
            seen: Of one of the repeats.
            asked: Number of folds that was asked for.
        """
        options = self.options
        notes = [
            f"Each head is solved from {options.folds - 1} of {options.folds} folds of whole groups"
            + (f"; values are means over {options.repeats} drawings." if options.repeats > 1 else ".")
        ]
        if self.inputs.table.learned_features is None:
            notes.append(f"{MAYBE_SEEN} If it has, these numbers are far too good.")
        if not options.penalty:
            notes.append(
                "λ and the scale of the probabilities were chosen by the same folds, which hardly flatters: "
                "with permuted labels, answers and search are level with chance."
            )
        if options.folds < asked:
            notes.append(f"There are {options.folds} groups with labels, so there are no more folds.")
        if self.inputs.resampling is not None:
            notes.append(OF_THE_FOLDS.format("heads") + _TOO_NARROW)
        if unlearned := count_unlearned(self.inputs, self.rows, seen.folds):
            notes.append(UNLEARNED.format(say_count(unlearned, "sample belongs", "samples belong")))
        return notes


@dataclass(frozen=True)
class _Judged:
    """What is said of the samples in one repeat.

    Attributes:
        columns: Of answers, their log loss, and answers at rising coverage.
        calibration: Of the most probable class.
        by_depth: Calibration at each depth.
        deepest: The last of these that some label reaches; what is said of classes is said there.
    """

    columns: list[Column]
    calibration: Statistic
    by_depth: dict[str, list[float]]
    deepest: int

    @classmethod
    def of(cls, case: _Case, seen: FoldOutputs) -> _Judged:
        inputs, tree = case.inputs, case.inputs.judging.tree
        classes, rows = ClassNodes(seen.classes, tree), case.rows
        columns = inputs.answers(seen.classes[seen.probabilities.argmax(1)], seen.classes, rows=rows)
        one = (seen.labels > 0).nonzero()[:, 0]
        of_nodes = classes.node_probabilities(seen.probabilities[one])
        depths = calibration_by_depth(of_nodes, seen.labels[one], tree, _BINS, classes=classes.nodes)
        deepest = max(at for at, depth in enumerate(depths) if depth.of_samples is not None)
        finest = depths[deepest].of_samples
        assert finest is not None
        at = rows[one[finest.rows]]
        samples = {"confidence": finest.confidence.numpy(), "right": finest.right.numpy()}
        bins = {"bins": np.array([_BINS])}
        return cls(
            [*columns, Column("nll", finest.nll, at), *_coverage_columns(case, seen, classes)],
            Statistic("calibration", ("ece",), at.numpy(), samples, bins),
            {name: [float(getattr(here, kind)) for here in depths] for name, kind in _CALIBRATION},
            deepest,
        )


def _coverage_columns(case: _Case, seen: FoldOutputs, classes: ClassNodes) -> list[Column]:
    """Answers as fine as is sure, at rising coverage; the bar of a fold is that of the other folds."""
    judged = classes.judges(seen.labels).nonzero()[:, 0]
    tree, labels, fold = case.inputs.judging.tree, seen.labels[judged], seen.folds[judged]
    paths = find_paths(seen.probabilities[judged], classes)
    scores = conformal_scores(paths, labels, tree)
    columns = []
    for at, coverage in enumerate(ASKED):
        answers = torch.full_like(labels, -1)
        for number in torch.unique(fold).tolist():
            rest = fold != number
            bar = threshold(scores[rest], Promise(coverage), case.groups[judged[rest]])
            if not math.isinf(bar):
                bars = torch.full((tree.num_nodes,), bar, dtype=torch.float64)
                answers = torch.where(rest, answers, paths.cut(bars)[0])
        worth = answer_worth(answers.clamp_min(0), labels, case.rows[judged], tree)
        undefined = torch.where(answers >= 0, 0.0, torch.nan)  # too few samples for so large a coverage
        worth = {name: replace(each, values=each.values + undefined) for name, each in worth.items()}
        columns += curve_columns(worth, at)
    return columns


def _average(repeats: Sequence[Sequence[Column]]) -> list[Column]:
    """One column for each number: the mean of each sample over the repeats in which it counts.

    A sample that counts in some repeats only, as mistakes do in their severity, has their share as weight.
    """
    averaged = []
    for columns in zip(*repeats, strict=True):
        values = torch.stack([column.values for column in columns])
        share = (~values.isnan()).double().mean(0)
        weights = None if bool(((share == 0) | (share == 1)).all()) else share
        averaged.append(replace(columns[0], values=values.nanmean(0), weights=weights))
    return averaged


def _search(case: _Case, head: TreeRidge, seen: FoldOutputs) -> tuple[list[Column], int]:
    """Columns of searches within each held-out fold, and the number of queries with none of their class."""
    inputs = case.inputs
    queries, place = inputs.samples.search, torch.full((len(inputs.table),), -1)
    place[case.rows] = torch.arange(len(case.rows))
    at = place[queries]
    embedded = head.place(seen.outputs[at], seen.probabilities[at], case.vectors[at]).float()
    points = torch.zeros(len(inputs.table), embedded.shape[1])
    points[queries] = embedded
    space = Representation("embeddings", points.shape[1], "sphere")
    reading = Reading(points, points, get_geometry("sphere"), space)
    folds = seen.folds[at]
    parts = [
        inputs.rankings(reading, queries[folds == number], by_depth=False)[0]
        for number in torch.unique(folds).tolist()
    ]
    columns = []
    for several in zip(*parts, strict=True):
        name = several[0].name
        if not name.startswith(_SEARCHED) or name == "h_ap_map":
            continue
        without = [column.without for column in several if column.without is not None]
        joined = Column(
            f"{_SEARCH}.{name}",
            torch.cat([column.values for column in several]),
            torch.cat([column.rows for column in several if column.rows is not None]),
            among=True,
            without=WithoutBlocks.joined(without) if len(without) == len(several) else None,
        )
        columns.append(joined)
    lonely = next((int(column.values.isnan().sum()) for column in columns), 0)
    return columns, lonely


def _search_notes(case: _Case, lonely: int) -> list[str]:
    """Sentences on the search."""
    notes = [
        "Search is within each held-out fold of the first drawing, so a sample is searched for among "
        f"{1 / case.options.folds:.0%} of the samples: it is easier than among all, and comparable between "
        "models on the same folds."
    ]
    if lonely:
        count = len(case.inputs.samples.search)
        notes.append(
            f"{lonely} of {count} samples {'has' if lonely == 1 else 'have'} none of the same class to find "
            "in the same fold: left out of recall and MAP@R."
        )
    return notes


def _learning_curves(case: _Case) -> list[Column]:
    """Top-1 of each held-out fold by heads of a part of the others, which choose their λ by folds anew."""
    options, inputs = case.options, case.inputs
    seed, every = inputs.settings.seed, torch.arange(len(case.rows))
    sizes = [("per_class", float(size), at) for at, size in enumerate(options.per_class)]
    sizes += [("share", share, at) for at, share in enumerate(options.shares)]
    if not sizes:
        return []
    columns: list[Column] = []
    nodes = inputs.nodes[case.rows]
    fold = make_folds(nodes, inputs.judging.tree, options.folds, groups=case.groups, seed=seed)
    order = torch.randperm(int(case.groups.max()) + 1, generator=torch.Generator().manual_seed(seed))
    for kind, size, at in sizes:
        top1 = torch.full((len(case.rows),), torch.nan, dtype=torch.float64)
        for number in range(options.folds):
            others, held = every[fold != number], every[fold == number]
            if kind == "per_class":
                some = others[ranked_in_label(nodes[others], seed)[0] < size]
            else:
                drawn = torch.unique(case.groups[others])
                drawn = drawn[order[drawn].argsort()][: max(1, round(size * len(drawn)))]
                some = others[torch.isin(case.groups[others], drawn)]
            try:
                head, _ = case.fit(some, seed, slopes=False)
            except DataError:  # too few samples or classes
                continue
            answers = inputs.answers(head.predict(case.vectors[held]), rows=case.rows[held])
            top1[held] = answers[0].values
        columns.append(Column(f"top1_by_{kind}", top1, case.rows, kind="curves", at=at))
    return columns
