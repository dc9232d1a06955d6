"""A table as protocols read it: its samples by use, their classifiers and representations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from labeltree.decisions.choose_classifier import ClassifierKind
from labeltree.decisions.classifiers import (
    ClassifierChoice,
    Classifiers,
    ClassScores,
    classify,
    fit_classifiers,
)
from labeltree.evaluation.chosen_samples import ClassFrequency, Samples, class_frequency, held_rows
from labeltree.evaluation.fitted_probe import FittedProbe, fit_probe
from labeltree.evaluation.judging_taxonomy import JudgingTaxonomy
from labeltree.evaluation.posterior_reading import MOST_CLASSES, read_posterior
from labeltree.evaluation.queries_and_gallery import SearchPlan, plan_search
from labeltree.evaluation.representations import POSTERIOR, ROLES, Reading, check_roles, read
from labeltree.evaluation.sample_columns import ResamplingUnits
from labeltree.evaluation.statistics import Resampling
from labeltree.evaluation.subsampling import stratified_subsample
from labeltree.metrics.functional import set_overlap
from labeltree.options.evaluation import EvaluationSettings
from labeltree.progress import Progress
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.label_sets import shared_depth

__all__ = ["Second", "TableInputs"]


@dataclass(frozen=True)
class Second:
    """A second table from the same encoder, with a taxonomy of its own.

    Attributes:
        table: Embeddings of the second table.
        taxonomy: Taxonomy of its labels.
        name: Name of the second table in results.
    """

    table: EmbeddingTable
    taxonomy: AnyTaxonomy
    name: str = "second"


@dataclass(frozen=True)
class TableInputs:
    """The read-only inputs of a protocol.

    Attributes:
        table: Embeddings with labels that are nodes of `judging.tree`.
        judging: The taxonomy of the labels.
        samples: Rows to learn from, to test on and to search among.
        settings: Settings of the evaluation; `settings.seed` seeds every random choice.
        split: Name of the evaluated split, as requested.
        second: Second table, for protocols that need one.
        progress: Called as `progress(message, done, total)`.
        name: Name of the method.
        evaluated: Whether the method is the evaluated one rather than a baseline.
        roles: The representations that the standard evaluation reads; the linear probe reads the first.
        given: Classifiers fitted beforehand, with the choice of the one that gives the answers.
        answers_searched: Whether to measure the posterior space of the classifier that answers.
        trained_by_epochs: Whether the validation samples have chosen an epoch of its training.
    """

    table: EmbeddingTable
    judging: JudgingTaxonomy
    samples: Samples
    settings: EvaluationSettings
    split: str = "test"
    second: Second | None = None
    progress: Progress | None = None
    name: str = ""
    evaluated: bool = True
    roles: tuple[str, ...] = ROLES
    given: Classifiers | None = None
    answers_searched: bool = False
    trained_by_epochs: bool = False

    @property
    def nodes(self) -> Tensor:
        """Labels `(n,)` of all rows, −1 if missing."""
        return self.table.nodes

    @property
    def learned(self) -> Tensor:
        """Training rows with a finest label."""
        return self.samples.train[self.samples.finest[self.nodes[self.samples.train]]]

    @cached_property
    def taught(self) -> tuple[Tensor, Tensor]:
        """Training rows `(m,)` and a finest label of each `(m,)`; a row for each of several labels."""
        rows, labels = self.table.one_label_a_row(self.samples.train)
        finest = self.samples.finest[labels.clamp_min(0)] & (labels > 0)
        return rows[finest], labels[finest]

    @property
    def tested(self) -> Tensor:
        """Test rows with a finest label."""
        return self.samples.test[self.samples.finest[self.nodes[self.samples.test]]]

    @property
    def own_answers(self) -> Tensor | None:
        """The model's own answers `(t,)` to the test rows, −1 if missing; None if there are none at all."""
        answers = self.table.predictions
        own = None if answers is None else answers[self.samples.test]
        return own if own is not None and bool((own >= 0).any()) else None

    @cached_property
    def classifiers(self) -> Classifiers:
        """The classifiers of the table, fitted once for all protocols, and which of them answers."""
        return self.given or self.fit_classifiers()

    def fit_classifiers(self, asked: ClassifierChoice | None = None, *, validate: bool = True) -> Classifiers:
        """Fit the probe and the prototypes to the training samples, and choose which classifier answers.

        Args:
            asked: The requested classifier; None = that of the settings. `own` becomes `auto` if the
                table has no predictions.
            validate: Whether to measure the accuracies on the validation samples; `auto` needs them.
        """
        asked = asked or self.settings.classifier
        table, learned = self.standard_table, self.learned
        held = held_rows(self.table, self.samples) if validate else self.learned[:0]
        if table.label_sets is not None:
            rows, labels = self.taught
            table = replace(
                table.rows(torch.cat([rows, held])),
                nodes=torch.cat([labels, table.nodes[held]]),
                label_sets=None,
            )
            learned, held = torch.arange(len(rows)), len(rows) + torch.arange(len(held))
        with torch.no_grad():
            return fit_classifiers(
                table,
                self.judging.tree,
                learned=learned,
                held=held,
                asked="auto" if asked == "own" and table.predictions is None else asked,  # a baseline
                own_answers=table.predictions,
                standardize=self.settings.standardize,
            )

    @cached_property
    def predicted(self) -> dict[ClassifierKind, Tensor]:
        """Classifier → its answers `(t,)` to the test samples, as nodes; −1 if it has no answer."""
        fitted = self.classifiers.fitted
        answers: dict[ClassifierKind, Tensor] = {
            kind: self.answers_of_probe if kind == "probe" else self._answers_of(each)
            for kind, each in fitted.items()
        }
        return answers if self.own_answers is None else answers | {"own": self.own_answers}

    @cached_property
    def answers_of_probe(self) -> Tensor:
        """The linear probe's answers `(t,)` to the test samples, as nodes."""
        return self._answers_of(self.classifiers.probe)

    def _answers_of(self, scores: ClassScores) -> Tensor:
        return classify(scores, self.standard_table.rows(self.samples.test))

    @property
    def standard_table(self) -> EmbeddingTable:
        """The table as the standard evaluation reads it."""
        return self.table if "features" in self.roles else replace(self.table, features=None)

    def probe(self, reading: Reading) -> FittedProbe:
        """The linear probe on a representation of all training samples, fitted once for all protocols."""
        name = reading.representation.source
        if name not in self._probes:
            rows, labels = self.taught
            self._probes[name] = fit_probe(reading.vectors[rows], labels, self.settings)
        return self._probes[name]

    @cached_property
    def _probes(self) -> dict[str, FittedProbe]:
        return {}

    def titled(self, title: str) -> Progress | None:
        """A progress callback that shows this title."""
        progress = self.progress
        return None if progress is None else lambda _, done, total: progress(title, done, total)

    @cached_property
    def frequency(self) -> ClassFrequency:
        """Frequency of the classes in the training split."""
        bounds = self.settings.frequency_bounds
        return class_frequency(self.table, self.samples, self.judging.tree.num_nodes, bounds)

    @cached_property
    def resampling(self) -> Resampling | None:
        """The bootstrap draws for confidence intervals; None if the settings ask for no resamples."""
        settings = self.settings
        if not settings.resamples:
            return None
        return Resampling(
            settings.resamples, confidence=settings.confidence, seed=settings.seed, progress=self.progress
        )

    @cached_property
    def units(self) -> Tensor | None:
        """Resampling unit `(n,)` of each row: its group, else its instance; None = every row is a unit."""
        return self.table.instances if self.table.groups is None else self.table.groups

    def units_of(self, rows: Tensor) -> ResamplingUnits:
        """Resampling units of the rows `(m,)`: rows of one group or one instance are drawn together."""
        return ResamplingUnits(self.resampling, (rows if self.units is None else self.units[rows]).numpy())

    def label_sets(self, rows: Tensor) -> Tensor | None:
        """All labels `(m, k)` of rows `(m,)`, −1 where there is no further one; None if each has one."""
        sets = self.table.label_sets
        return None if sets is None or not bool(self.table.several[rows].any()) else sets[rows]

    def overlap(self, predicted: Tensor, sets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`set_overlap` of answers `(m,)` and labels `(m, k)` in the taxonomy that judges."""
        judged = torch.where(sets >= 0, self.judging.in_judge(sets.clamp_min(0)), -1)
        return set_overlap(self.judging.in_judge(predicted), judged, self.judging.judge)

    def judged_labels(self, rows: Tensor) -> Tensor:
        """Labels of rows in the taxonomy that judges: `(m,)`, or `(m, k)` if some have several."""
        sets = self.label_sets(rows)
        labels = self.nodes[rows] if sets is None else sets
        return torch.where(labels >= 0, self.judging.in_judge(labels.clamp_min(0)), -1)

    def shared(self, classes: Tensor | None = None) -> int:
        """The greatest depth at which the table's classes, and the given ones `(c,)`, share one node."""
        tree, own = self.judging.tree, self.samples.shared
        return own if classes is None else min(own, shared_depth(classes, tree))

    def plan(self, queries: Tensor, gallery: Tensor) -> SearchPlan:
        """The search plan of the rows `queries`, among each other or in `gallery`; see `plan_search`."""
        choice = self.settings.leave_group_out
        return plan_search(self.table, self.samples.finest, queries, gallery, choice)

    def left_out(self, rows: Tensor) -> Tensor | None:
        """Groups `(m,)` of the rows, if retrieval ignores results of the query's own group; else None."""
        groups = self.samples.plan.groups
        return None if groups is None else groups[rows]

    def reading(self, role: str) -> Reading:
        """The `features` or the `embeddings` of all rows."""
        return read(self.table, role, self.settings.feature_geometry)

    @cached_property
    def posterior(self) -> tuple[Reading | None, str]:
        """The posterior space of the samples that are searched, tested or learned from: `read_posterior`."""
        if not self.answers_searched:
            return None, ""
        plan, held = self.samples.plan, held_rows(self.table, self.samples)
        used = [self.samples.train, self.samples.test, plan.queries]
        return read_posterior(
            self.standard_table,
            self.classifiers,
            self.judging.tree,
            held=held[~torch.isin(held, self.samples.test)],
            rows=torch.unique(torch.cat(used if plan.gallery is None else [*used, plan.gallery])),
            most_classes=None if POSTERIOR in self.settings.protocols else MOST_CLASSES,
        )

    def chosen(self, roles: Sequence[str]) -> dict[str, Reading]:
        """The representations by role; for a table without features, its embeddings only.

        Raises:
            ValueError: If `roles` is empty or has a role other than `features` and `embeddings`.
        """
        check_roles(roles)
        if self.table.features is None:
            return {"embeddings": self.reading("embeddings")}
        return {role: self.reading(role) for role in ROLES if role in roles}

    def subsample(self, rows: Tensor, limit: int) -> Tensor:
        """At most `limit` of the rows, sampled evenly over the labels."""
        return stratified_subsample(rows, self.nodes[rows], limit, self.settings.seed)

    def standard_readings(self) -> dict[str, Reading]:
        """The representations of the standard evaluation, by role; embeddings replace missing features."""
        return {role: self.reading(role) for role in self.roles}

    def readings(self) -> dict[str, Reading]:
        """Every representation of the table by role: `features`, if present, and `embeddings`."""
        return self.chosen(ROLES)
