"""What protocols compute: a column, a value for each sample, of every number of a search or of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.evaluation.judging_taxonomy import JudgingTaxonomy
from labeltree.evaluation.representations import Reading
from labeltree.evaluation.result import ProtocolResult
from labeltree.evaluation.sample_columns import (
    Column,
    Number,
    ResamplingUnits,
    estimate,
    estimate_statistics,
)
from labeltree.evaluation.statistics import Statistic
from labeltree.evaluation.statistics.retrieval_jackknife import (
    WithoutBlocks,
    draw_blocks,
    recall_without_blocks,
    values_without_blocks,
)
from labeltree.evaluation.table_inputs import Second, TableInputs
from labeltree.metrics.functional import (
    hierarchical_f1,
    mistake_severity,
    nearest_labels,
    tree_accuracy,
)
from labeltree.metrics.labels_at_depth import nodes_at_depth
from labeltree.metrics.retrieval import Retrieval
from labeltree.metrics.search.ranking import RankedChunk, ranked_chunks
from labeltree.progress import Progress
from labeltree.taxonomy.label_sets import shared_depth

__all__ = ["Inputs", "Second", "answer_columns", "micro_f1_column"]

_GRADED = {"h_ap": "h_ap", "h_ap/map": "h_ap_map", "ndcg": "ndcg", "asi": "asi"}
_AT_DEPTH = "ap/depth"
# Units: of fewer, most draws have no two that agree to just this depth without any block.
_FEWEST_RELATED = 10


@dataclass(frozen=True)
class Inputs(TableInputs):
    """The inputs of a protocol, and what it computes from them: columns of answers and of rankings."""

    def summarise(
        self,
        columns: Column | Statistic | Sequence[Column | Statistic],
        title: str = "",
        *,
        by_frequency: bool = True,
        rows: Tensor | None = None,
        units: ResamplingUnits | None = None,
    ) -> ProtocolResult:
        """All numbers computed from outcomes of samples, with their intervals; see `Column`, `Statistic`.

        Args:
            columns: One or several columns or statistics, which share the bootstrap draws.
            title: Title of the result.
            by_frequency: Whether columns may be broken down by the frequency of the classes, here and in
                comparisons.
            rows: `(n,)` rows that the bootstrap draws from, in any order; None = all rows of the columns.
            units: Resampling units of these rows; None = the groups of the table.
        """
        given = [columns] if isinstance(columns, Column | Statistic) else columns
        statistics = [each for each in given if isinstance(each, Statistic)]
        placed = [
            replace(each, rows=self.samples.test) if each.rows is None else each
            for each in given
            if isinstance(each, Column)
        ]
        if not by_frequency:
            placed = [replace(each, by_frequency=False) for each in placed]
        result = ProtocolResult(title, columns=placed, statistics=statistics)
        if rows is None:
            of_columns = [column.rows for column in placed if column.rows is not None]
            of_columns += [torch.from_numpy(statistic.rows) for statistic in statistics]
            rows = torch.unique(torch.cat([self.samples.test[:0], *of_columns]))
        units = units or self.units_of(rows)
        frequency = self.frequency if by_frequency else None
        numbers = estimate(placed, rows, units, self.nodes, self.judging.tree, frequency)
        numbers |= estimate_statistics(statistics, rows, units, self.judging.judge)
        for place, number in numbers.items():
            result.put(place, number)
        return result

    def estimate(self, column: Column) -> Number:
        """The mean of one column, with its interval and standard error."""
        assert column.rows is not None
        units = self.units_of(column.rows)
        numbers = estimate([column], column.rows, units, self.nodes, self.judging.tree)
        return next(iter(numbers.values()))

    def judge(self, predicted: Tensor, title: str = "", classes: Tensor | None = None) -> ProtocolResult:
        """All scores of a classifier.

        Args:
            predicted: `(t,)` predicted node of each test sample.
            title: Title of the result.
            classes: `(c,)` nodes that the classifier can predict, if they differ from the table's classes.
        """
        return self.summarise(self.answers(predicted, classes), title)

    def answers(
        self,
        predicted: Tensor,
        classes: Tensor | None = None,
        *,
        rows: Tensor | None = None,
        target: Tensor | None = None,
    ) -> list[Column]:
        """The columns of `judge`; `rows` and `target` `(m,)` replace the test rows and their labels.

        A sample with several labels is judged by the one that is nearest to the answer, and by the ancestors
        of all in `hierarchical_f1`; it has no label for means by node and class.
        """
        rows, sets = self.samples.test if rows is None else rows, None
        if target is None:
            target, sets = self.nodes[rows], self.label_sets(rows)
        if sets is None:
            decided = self.samples.finest[target]
            return answer_columns(predicted, target, decided, self.judging, rows, self.shared(classes))
        several = (sets >= 0).sum(1) > 1
        nearest = torch.where(several, nearest_labels(predicted, sets, self.judging.tree), target)
        decided = (self.samples.finest[sets.clamp_min(0)] | (sets < 0)).all(1)
        columns = answer_columns(predicted, nearest, decided, self.judging, rows, self.shared(classes))
        common, of_answer, of_labels = self.overlap(predicted, sets)
        f1 = (2 * common / (of_answer + of_labels)).double().masked_fill(~decided, torch.nan)
        columns[1] = replace(columns[1], values=torch.where(several, f1, columns[1].values))
        return [replace(column, labels=torch.where(several, -1, nearest)) for column in columns]

    def judge_retrieval(
        self,
        reading: Reading,
        queries: Tensor,
        gallery: Tensor | None = None,
        *,
        ks: tuple[int, ...] = (),
        by_frequency: bool = True,
        progress: Progress | None = None,
    ) -> ProtocolResult:
        """All retrieval scores of the rows `queries`, searched in `gallery`; None = among each other."""
        columns, _ = self.rankings(reading, queries, gallery, ks=ks, progress=progress)
        return self.summarise(columns, by_frequency=by_frequency)

    def rankings(
        self,
        reading: Reading,
        queries: Tensor,
        gallery: Tensor | None = None,
        *,
        ks: tuple[int, ...] = (),
        by_depth: bool = True,
        graded: bool = True,
        intervals: bool = True,
        progress: Progress | None = None,
    ) -> tuple[list[Column], list[float]]:
        """The columns of `judge_retrieval`, and the means of HP@1 … HP@K.

        The columns are `recall_at_1` …, `map_at_r` and `mean_average_precision` with flat relevance
        (`by_depth` adds them for every depth), `ahp`, and `hp_at_1` …, which serve comparisons only.
        `graded` adds `h_ap` (relevance "pop"), `h_ap_map`, `ndcg`, `asi` and
        `ap_at_depth_1` …, which sort whole rankings. Without `intervals` a search of the queries among each
        other is not repeated without blocks of them, which takes longer than the search.
        """
        tree, judge, in_judge = self.judging.tree, self.judging.judge, self.judging.in_judge
        ks, hp_k = ks or self.settings.recall_ks, self.settings.hp_k
        depths = range(1, tree.max_depth + 1) if by_depth else range(0)
        asked = graded and self.drawn(len(queries))

        def measure(
            rows: Tensor, keys: Tensor | None, asked: bool | Tensor, **options: Any
        ) -> dict[str, Tensor]:
            points, nodes = reading.points[rows], self.nodes[rows]
            of_keys = None if keys is None else reading.points[keys]
            key_nodes = None if keys is None else self.nodes[keys]
            own, other = in_judge(nodes), None if key_nodes is None else in_judge(key_nodes)
            among: dict[str, Any] = {"geometry": reading.geometry, "reduction": "none", **options}
            plain = (points, nodes, tree, of_keys, key_nodes)
            of_tree = plain if by_depth else (points, own, judge, of_keys, other)
            values = Retrieval(*of_tree, **among).metrics(ks=ks, ahp_k=hp_k, depths=depths, graded=asked)
            if by_depth and tree is not judge:
                retrieval = Retrieval(points, own, judge, of_keys, other, **among)
                of_judge = retrieval.metrics(ks=(), ahp_k=hp_k, graded=asked)
                by_tree = ("ahp@", *_GRADED, "ap/")
                values |= {name: score for name, score in of_judge.items() if name.startswith(by_tree)}
            return values

        groups = {
            "query_groups": self.left_out(queries),
            "key_groups": None if gallery is None else self.left_out(gallery),
        }
        values = measure(queries, gallery, asked, progress=progress, **groups)
        nodes = self.nodes[queries]
        searched = nodes if gallery is None else torch.cat([nodes, self.nodes[gallery]])
        if len(torch.unique(searched)) < 2:  # with a single class every result is correct
            values = {
                name: torch.full_like(v, torch.nan) for name, v in values.items() if v.is_floating_point()
            }
        without = dict[str, WithoutBlocks]()
        if intervals and gallery is None and not bool(values["map@r"].isnan().all()):
            cut = {f"/depth{depth}": nodes_at_depth(nodes, tree, depth).numpy() for depth in depths}
            labels = {"": (nodes if by_depth else in_judge(nodes)).numpy(), **cut}
            without = self._without_blocks(measure, reading, queries, asked, labels, ks, progress)

        def column(name: str, key: str, *, known: bool = True, **changes: Any) -> Column:
            of_search: dict[str, Any] = {"among": gallery is None, "without": without.get(key)}
            scored = Column(name, values[key], queries, **of_search, **changes)
            return scored if known else scored.undefined()

        names = {f"recall@{k}": f"recall_at_{k}" for k in ks}
        names |= {"map@r": "map_at_r", "map": "mean_average_precision", f"ahp@{hp_k}": "ahp"}
        main = (f"recall@{ks[0]}", "map@r", f"ahp@{hp_k}")
        columns = [
            column(name, key, by_node=key in main, by_frequency=key in main) for key, name in names.items()
        ]
        columns += [column(f"hp_at_{k}", f"hp@{k}", kind=None) for k in ks]
        columns += [column(name, key) for key, name in _GRADED.items() if graded]
        everywhere = shared_depth(searched, tree)  # to this depth every result is correct
        for depth in range(1, judge.max_depth + 1) if graded else ():
            columns.append(column(f"ap_at_depth_{depth}", f"{_AT_DEPTH}{depth}", known=depth > everywhere))
        for depth in depths:
            of_depth: dict[str, Any] = {"known": depth > everywhere, "kind": "by_depth", "at": depth - 1}
            columns += [
                column(name, f"{key}/depth{depth}", **of_depth)
                for key, name in names.items()
                if name != "ahp"
            ]
        return columns, values["hp_curve"].tolist()

    def _without_blocks(
        self,
        measure: Callable[..., dict[str, Tensor]],
        reading: Reading,
        queries: Tensor,
        asked: bool | Tensor,
        labels: dict[str, NDArray[np.int64]],
        ks: Sequence[int],
        progress: Progress | None,
    ) -> dict[str, WithoutBlocks]:
        """The numbers of queries that are searched among each other, without blocks of them.

        Where not all queries tell the effect of results, recall has it of all, by `labels` `(q,)` of the
        depths.
        """
        points, seed = reading.points[queries], self.settings.seed
        blocks, own = self._blocks(queries), self._own(queries)

        def rank(rows: Tensor, most: int) -> Iterator[RankedChunk]:
            return ranked_chunks(points[rows], points, geometry=reading.geometry, chunk_rows=most)

        def rank_first(rows: Tensor, results: int) -> Iterator[RankedChunk]:
            return ranked_chunks(points[rows], points, geometry=reading.geometry, top=results)

        def without(some: Tensor, order: Tensor) -> dict[str, Tensor]:
            scores = measure(queries[some], queries, asked is not False, order=order)
            return {name: value for name, value in scores.items() if value.shape == some.shape}

        graded = asked.nonzero()[:, 0] if isinstance(asked, Tensor) else torch.arange(len(queries))
        left_out = values_without_blocks(without, rank, blocks, own, graded.numpy(), seed, progress)
        if any(len(part.rows) < len(queries) for part in left_out.values()):
            left_out |= recall_without_blocks(rank_first, labels, ks, blocks, own, seed)
        if blocks.max(initial=-1) + 1 < _FEWEST_RELATED:
            left_out = {name: part for name, part in left_out.items() if not name.startswith(_AT_DEPTH)}
        return left_out

    def _own(self, queries: Tensor) -> NDArray[np.int64]:
        """A number `(q,)` of each query; those of the same one are no results of each other."""
        own, groups = torch.arange(len(queries)), self.left_out(queries)
        if groups is not None:
            own = torch.where(groups >= 0, groups, groups.max() + 1 + own)
        return own.numpy()

    def _blocks(self, rows: Tensor) -> NDArray[np.int64]:
        groups = self.units_of(rows).groups
        if self.table.ids is not None:  # so that tables in another order have the same blocks
            names = np.asarray(self.table.ids, dtype=str)[rows.numpy()]
            return draw_blocks(groups, np.unique(names, return_inverse=True)[1])
        ids = rows if self.table.instances is None else self.table.instances[rows]
        return draw_blocks(groups, ids.numpy())

    def number_without_blocks(self, rows: Tensor, measure: Callable[[Tensor], float]) -> WithoutBlocks | None:
        """One number of samples `rows` (n,), without each block of them; None if no intervals are wanted.

        Args:
            rows: `(n,)` rows of the table.
            measure: Gives the number of some of them, from their positions in `rows`.
        """
        if not self.settings.resamples or not len(rows):
            return None
        blocks = self._blocks(rows)
        count = int(blocks.max()) + 1
        left = [measure(torch.from_numpy(np.flatnonzero(blocks != block))) for block in range(count)]
        first = np.unique(blocks, return_index=True)[1]
        values = np.where(blocks[first][:, None] == np.arange(count), np.nan, np.array(left))
        return WithoutBlocks(blocks, first, values.astype(np.float32), np.zeros(count, dtype=np.int64))

    def drawn(self, count: int) -> bool | Tensor:
        """The queries `(count,)` that graded scores are computed for; true where all are."""
        limit = self.settings.max_graded_queries
        if count <= limit:
            return True
        chosen = torch.zeros(count, dtype=torch.bool)
        generator = torch.Generator().manual_seed(self.settings.seed)
        chosen[torch.randperm(count, generator=generator)[:limit]] = True
        return chosen


def answer_columns(
    predicted: Tensor,
    target: Tensor,
    decided: Tensor,
    judging: JudgingTaxonomy,
    rows: Tensor,
    shared: int | None = None,
) -> list[Column]:
    """The per-sample outcomes of a classifier, as columns.

    The columns are `top1` with `balanced_top1` (the mean over classes), `hierarchical_f1`,
    `tree_accuracy`, `mistake_severity`, and `accuracy` by depth.

    Args:
        predicted: `(n,)` predicted nodes, none missing.
        target: `(n,)` labels, none missing.
        decided: `(n,)` bool, whether a label is finest; the others count only in the accuracy by depth.
        judging: Taxonomy of the nodes.
        rows: `(n,)` rows of the samples in the table.
        shared: Greatest depth at which all possible answers share one node; the accuracy is not defined down
            to this depth. None = all leaves of the tree are possible answers.
    """
    tree, pair = judging.tree, (judging.in_judge(predicted), judging.in_judge(target))

    def of_decided(values: Tensor) -> Tensor:
        return torch.where(decided, values.double(), torch.nan)

    f1 = of_decided(hierarchical_f1(*pair, judging.judge, reduction="none"))
    accuracy = of_decided(tree_accuracy(*pair, judging.judge, reduction="none"))
    severity = of_decided(mistake_severity(*pair, judging.judge, reduction="none"))
    column = partial(Column, rows=rows, labels=target)
    broken_down = partial(column, by_node=True, by_frequency=True)
    path = tree.paths[target]
    right = torch.where(path >= 0, (tree.paths[predicted] == path).double(), torch.nan)
    right[:, : shared_depth(tree.leaves, tree) if shared is None else shared] = torch.nan
    return [
        broken_down("top1", of_decided(predicted == target), balanced="balanced_top1"),
        broken_down("hierarchical_f1", f1),
        column("tree_accuracy", accuracy),
        column("mistake_severity", severity),
        *(column("accuracy", depth, kind="by_depth", at=at) for at, depth in enumerate(right.T)),
    ]


def micro_f1_column(f1: Column, predicted: Tensor, inputs: Inputs) -> Column:
    """The micro-averaged hierarchical F1, in which samples with longer paths have more weight.

    `hierarchical_f1_micro` = 2 Σ |A_y ∩ A_ŷ| / Σ (|A_y| + |A_ŷ|) (Silla and Freitas 2011, Section 5).
    """
    assert f1.labels is not None
    assert f1.rows is not None
    judging, sets = inputs.judging, inputs.label_sets(f1.rows)
    count = judging.judge.ancestor_count
    sizes = count[judging.in_judge(predicted)] + count[judging.in_judge(f1.labels.clamp_min(0))] - 2
    if sets is not None:
        _, of_answer, of_labels = inputs.overlap(predicted, sets)
        sizes = torch.where(f1.labels >= 0, sizes, of_answer + of_labels)
    return Column("hierarchical_f1_micro", f1.values, f1.rows, f1.labels, sizes.double(), kind=None)
