"""What a protocol reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from labeltree.decisions.choice import Classifiers
from labeltree.evaluation.answers import judge_answers, judge_retrieval
from labeltree.evaluation.drawn import drawn_groups
from labeltree.evaluation.evidence import Evidence
from labeltree.evaluation.frequency import ClassFrequency, class_frequency
from labeltree.evaluation.ground import Ground
from labeltree.evaluation.portions import thin_out
from labeltree.evaluation.protocol_result import ProtocolResult
from labeltree.evaluation.reading import ROLES, Reading, check_roles, read
from labeltree.evaluation.samples import Samples
from labeltree.evaluation.search_plan import SearchPlan, plan_search
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.evaluation.statistics import Resampling
from labeltree.metrics.ranking import Progress
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.shared_depths import shared_depth

__all__ = ["Inputs", "Second"]


@dataclass(frozen=True)
class Second:
    """Another table given beside the first: of the same encoder, with a taxonomy of its own.

    Attributes:
        table: its embeddings.
        taxonomy: of its labels.
        name: what to call it.
    """

    table: EmbeddingTable
    taxonomy: AnyTaxonomy
    name: str = "second"


@dataclass(frozen=True)
class Inputs:
    """All that a protocol may read; it changes none of it.

    Attributes:
        table: embeddings with labels that are nodes of ``ground.tree``.
        ground: the taxonomy of the labels.
        samples: rows to learn from, to test on and to search among.
        settings: of the evaluation; ``settings.seed`` is of every choice that is left to chance.
        split: name of the evaluated split, as asked for.
        second: another table, for protocols that need one.
        progress: called as ``progress(message, done, total)``.
        name: of the method.
        evaluated: whether that is the evaluated method, and no baseline.
        classifiers: of the table, with the one that answers; None where they have not been learned.
    """

    table: EmbeddingTable
    ground: Ground
    samples: Samples
    settings: EvaluationSettings
    split: str = "test"
    second: Second | None = None
    progress: Progress | None = None
    name: str = ""
    evaluated: bool = True
    classifiers: Classifiers | None = None

    @property
    def nodes(self) -> Tensor:
        """``(n,)`` labels of all rows, −1 where missing."""
        return self.table.nodes

    @property
    def learned(self) -> Tensor:
        """Training rows with a finest label."""
        return self.samples.train[self.samples.finest[self.nodes[self.samples.train]]]

    @property
    def tested(self) -> Tensor:
        """Test rows with a finest label."""
        return self.samples.test[self.samples.finest[self.nodes[self.samples.test]]]

    @property
    def frequency(self) -> ClassFrequency:
        """How frequent the classes are in the training split."""
        bounds = self.settings.frequency_bounds
        return class_frequency(self.table, self.samples, self.ground.tree.num_nodes, bounds)

    @cached_property
    def resampling(self) -> Resampling | None:
        """The draws of confidence intervals; None where the settings ask for none."""
        settings = self.settings
        if not settings.resamples:
            return None
        return Resampling(
            settings.resamples, confidence=settings.confidence, seed=settings.seed, progress=self.progress
        )

    @cached_property
    def units(self) -> Tensor | None:
        """``(n,)`` which rows are drawn together: of one group, else of one sample; None = each by itself."""
        groups = drawn_groups(self.table, self.samples.test)
        return self.table.instances if groups is None else groups

    def evidence(self, rows: Tensor) -> Evidence:
        """For the outcomes of some rows ``(m,)``: those of a group, or of a sample, are drawn together."""
        return Evidence(self.resampling, (rows if self.units is None else self.units[rows]).numpy())

    def judge(self, predicted: Tensor, title: str = "", classes: Tensor | None = None) -> ProtocolResult:
        """Score predicted nodes of the test rows, ``(len(samples.test),)``; see `judge_answers`.

        ``classes`` are the nodes that can be answered, where they are others than those of the table.
        """
        test = self.samples.test
        target = self.nodes[test]
        return judge_answers(
            predicted,
            target,
            self.samples.finest[target],
            self.ground,
            self.frequency,
            title,
            self.evidence(test),
            self.shared(classes),
        )

    def shared(self, classes: Tensor | None = None) -> int:
        """Down to which depth the table's classes, and these ``(c,)``, share one node."""
        tree, own = self.ground.tree, self.samples.shared
        return own if classes is None else min(own, shared_depth(classes, tree))

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
        """Score the rankings of a gallery's rows, or of all other queries, for each of the queries' rows."""
        return judge_retrieval(
            reading.points[queries],
            self.nodes[queries],
            self.ground,
            reading.geometry,
            keys=None if gallery is None else reading.points[gallery],
            key_nodes=None if gallery is None else self.nodes[gallery],
            groups=self.left_out(queries),
            key_groups=None if gallery is None else self.left_out(gallery),
            ks=ks or self.settings.recall_ks,
            hp_k=self.settings.hp_k,
            frequency=self.frequency if by_frequency else None,
            progress=progress,
            evidence=self.evidence(queries),
        )

    def plan(self, queries: Tensor, gallery: Tensor) -> SearchPlan:
        """How some rows are searched for, among themselves or in a gallery; see `plan_search`."""
        choice = self.settings.leave_group_out
        return plan_search(self.table, self.samples.finest, queries, gallery, choice)

    def left_out(self, rows: Tensor) -> Tensor | None:
        """``(m,)`` groups of some rows, whose samples are no results of each other; None where all count."""
        groups = self.samples.plan.groups
        return None if groups is None else groups[rows]

    def reading(self, role: str) -> Reading:
        """The ``features`` or the ``embeddings`` of all rows."""
        return read(self.table, role, self.settings.feature_geometry)

    def chosen(self, roles: Sequence[str]) -> dict[str, Reading]:
        """The representations of some roles; of a table without features, its embeddings stand for both.

        Raises:
            ValueError: for another role than ``features`` and ``embeddings``, or none.
        """
        check_roles(roles)
        if self.table.features is None:
            return {"embeddings": self.reading("embeddings")}
        return {role: self.reading(role) for role in ROLES if role in roles}

    def thinned(self, rows: Tensor, limit: int) -> Tensor:
        """At most ``limit`` of the rows, taken evenly from every label."""
        return thin_out(rows, self.nodes[rows], limit, self.settings.seed)

    def readings(self) -> dict[str, Reading]:
        """Every representation of the table by its role: ``features``, if it has some, and ``embeddings``."""
        return self.chosen(ROLES)
