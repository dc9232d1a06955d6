"""Measuring on corrected labels: the tables with them, and what must be said about corrected test labels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.data.correction_rounds import CorrectionFiles, CorrectionRounds
from labeltree.data.corrections import Applied, sample_ids
from labeltree.evaluation import EvaluationResult
from labeltree.runs import EmbeddingTable, RunFolder

__all__ = ["CorrectedLabels", "already_corrected", "correct_run"]

_FLATTERED = (
    "Only labels that somebody looked at were corrected. If those were the suspects of this model, or of one "
    "like it, the corrections flatter it: nobody looked at wrong labels that agree with its answers"
)
_LEARNED_BEFORE = (
    "The classifiers of the run, of the raw samples and of the encoder before training have learned from the "
    "labels without these corrections; train with --corrections to learn from them."
)
_SHOWN = ("top1", "hierarchical_f1")


@dataclass(frozen=True, eq=False)
class CorrectedLabels:
    """What corrections do to the samples of tables that are evaluated.

    Attributes:
        done: Labels afterwards, and which samples stay.
        before: `(n,)` labels before.
        measured: `(n,)` bool, the samples of the split that is measured.
        split: Its name; empty if the table has no splits.
    """

    done: Applied
    before: Tensor
    measured: Tensor
    split: str

    @classmethod
    def of(cls, done: Applied, table: EmbeddingTable, split: str) -> CorrectedLabels:
        """What was done to the samples of a table, of which a split is measured."""
        measured = torch.ones(len(done.nodes), dtype=torch.bool)
        if table.split is not None:
            measured = torch.from_numpy(np.asarray(table.split) == split)
        return cls(done, table.nodes, measured, "" if table.split is None else split)

    @property
    def in_test(self) -> int:
        """How many labels of the measured split were replaced or taken away, and how many samples removed."""
        return int((self._touched & self.measured).sum())

    @property
    def _touched(self) -> Tensor:
        return (self.done.nodes != self.before) | ~self.done.keep

    def table(self, table: EmbeddingTable, *, test: bool = True) -> EmbeddingTable:
        """A table with corrected labels, without the samples that are removed.

        Args:
            table: Of the same samples, whose other labels stay as they are.
            test: Also correct the samples of the measured split.
        """
        here = torch.ones_like(self.measured) if test else ~self.measured
        changed = (self.done.nodes != self.before) & here
        nodes = torch.where(changed, self.done.nodes, table.nodes)
        return table.relabelled(nodes).rows(self.done.keep | ~here)

    def remark(
        self, result: EvaluationResult, without: EvaluationResult | None = None, *, as_before: bool = False
    ) -> EvaluationResult:
        """A result that says what was corrected.

        Args:
            result: Measured on all corrections.
            without: The same model measured without the corrections of the measured split.
            as_before: Whether all classifiers have learned from the labels without these corrections.
        """
        said = [self.done.sentence]
        if as_before and bool((self._touched & ~self.measured).any()):
            said.append(_LEARNED_BEFORE)
        if self.in_test:
            said.append(self._test_labels_note())
            if without is not None:
                said.append(_both(result, without))
        return result.with_notes(said, cautions=said)

    def _test_labels_note(self) -> str:
        touched, total = self._touched & self.measured, int(self.measured.sum())
        removed = int((touched & ~self.done.keep).sum())
        taken = int((touched & self.done.keep & (self.done.nodes <= 0)).sum())
        kinds = {"replaced": len(touched[touched]) - removed - taken, "taken away": taken, "removed": removed}
        listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
        name = f"{self.split} labels" if self.split else "labels"
        return f"Of {total:,} {name}, {self.in_test:,} were corrected ({listed}). {_FLATTERED}."


def correct_run(folder: RunFolder, files: CorrectionFiles, source: Source) -> Applied:
    """What corrections do to the samples of a run.

    The tables that the run was trained with are done already: those of the files that come first and are
    among them, in their order, are left out.
    """
    own = CorrectionRounds.load(folder.correction_files)
    given = CorrectionRounds.load(files)
    further = given.without(own) if own.tables else given
    done = further.of_source(source, gone=own.removed)
    if not further.tables:
        return replace(done, sentence="The run was trained with these corrections already")
    return done


def already_corrected(folder: RunFolder, source: Source, split: str) -> str | None:
    """What to say of labels of a split that were corrected before training; None if none was."""
    own = CorrectionRounds.load(folder.correction_files)
    if not own.tables or source.split is None:
        return None
    chosen = source.subset(np.flatnonzero(np.asarray(source.split) == split).tolist())
    count = own.corrected_in(sample_ids(chosen), chosen.nodes, chosen.read_labels)
    if not count:
        return None
    return (
        f"Of {len(chosen):,} {split} labels, {count:,} {'was' if count == 1 else 'were'} corrected before "
        f"the run was trained; samples that were removed then are not counted. {_FLATTERED}."
    )


def _both(result: EvaluationResult, without: EvaluationResult) -> str:
    """The main numbers with and without the corrections of test labels."""
    parts = []
    for metric in _SHOWN:
        after, before = result.main.answer_score(metric), without.main.answer_score(metric)
        if not math.isnan(after) and not math.isnan(before):
            parts.append(f"{metric.replace('_', ' ')} {after:.4f} with, {before:.4f} without")
    listed = "; ".join(parts) or "its answers were not measured"
    return f"With and without the corrections of labels that are measured on: {listed}."
