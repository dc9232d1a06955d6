"""What came of every sample in the fold that it was tested in, for intervals of means over the folds."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.evaluation.answers import every_class
from labeltree.evaluation.class_probabilities import ClassProbabilities
from labeltree.evaluation.evidence import Evidence
from labeltree.evaluation.gathering import sample_scores
from labeltree.evaluation.inputs import Inputs
from labeltree.evaluation.node_evidence import MeanDraws, mean_auroc
from labeltree.evaluation.places import Place

__all__ = ["FoldOutcomes"]

_SCORES = ("top1", "hierarchical_f1", "tree_accuracy", "mistake_severity")


class FoldOutcomes:
    """Collects folds; a number is the mean over the folds in which it is defined.

    The groups of all folds are drawn at once, and every fold is judged by those of its own that were drawn.

    Args:
        evidence: of the samples of all folds; gets the intervals.
        inputs: of the protocol.
    """

    def __init__(self, evidence: Evidence, inputs: Inputs) -> None:
        self.evidence = evidence
        self.inputs = inputs
        self._columns: list[tuple[dict[str, Tensor], Tensor, Tensor]] = []
        resampling = evidence.resampling
        self._auroc = None if resampling is None else MeanDraws(resampling.resamples, evidence.count)

    def add(self, probe: ClassProbabilities, rows: Tensor, target: Tensor) -> None:
        """One fold.

        Args:
            probe: probabilities of its samples.
            rows: ``(m,)`` positions of these in the evidence.
            target: ``(m,)`` their labels.
        """
        if self._auroc is None:
            return
        ground = self.inputs.ground
        finest, shared = self.inputs.samples.finest[target], self.inputs.shared()
        scores, _ = sample_scores(probe.predicted, target, finest, ground, shared)
        self._columns.append((scores, rows, target))
        classes = ground.in_judge(probe.classes)
        auroc = mean_auroc(
            probe.values, ground.in_judge(target), ground.judge, classes, self.evidence, rows.numpy()
        )
        self._auroc.add_mean(auroc)

    def put(self) -> None:
        """Hand all over."""
        if self._auroc is None:
            return
        evidence, tree = self.evidence, self.inputs.ground.tree
        for name in _SCORES:
            parts = [(scores[name], rows) for scores, rows, _ in self._columns]
            evidence.add_mean(Place("scores", name), parts, share=name != "mistake_severity")
        for depth in range(tree.max_depth):
            parts = [(scores[f"accuracy_at_depth_{depth + 1}"], rows) for scores, rows, _ in self._columns]
            evidence.add_mean(Place("by_depth", "accuracy", depth), parts)
        for name in ("top1", "hierarchical_f1"):
            of_nodes = [(scores[name], target, rows) for scores, rows, target in self._columns]
            evidence.add_mean_subtrees(name, of_nodes, tree)
        for scores, rows, target in self._columns:
            if not bool(torch.isnan(scores["top1"]).all()):
                balanced = {Place("scores", "balanced_top1"): every_class}
                evidence.add_class_means(scores["top1"], target, balanced, rows=rows)
        self._auroc.put(evidence, Place("scores", "auroc"))
