"""Probabilities of every node for samples that the classifier has not learned from: cross-validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.data.stratified import group_numbers, make_folds, stratified_subsample
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.classifiers import fit_linear
from labeltree.errors import DataError
from labeltree.metrics.metric_checks import check_nodes, check_same_length
from labeltree.progress import Progress, silent
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import some

__all__ = ["OutOfFold", "out_of_fold"]


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Class probabilities of n samples, each from a classifier that saw neither the sample nor its group.

    Attributes:
        classes: The C classes that the classifiers tell apart, nodes of the taxonomy. An inner node is a
            class where labels end there, or where it stands for the rare labels below it.
        probabilities: `(n, C)` float32; rows sum to 1. Samples without a label have them, too.
        judged: `(n,)` int64, the node at which each label can be judged: the label, or the nearest coarser
            node with enough samples; −1 where there is none, or no label.
        folds: `(n,)` int64, the fold in which each sample was held out.
        rare: Label -> the node at which it is judged, for labels with too few samples (−1 = none).
        fewest: The number of groups (of samples, where there are no groups) that a class needs.
    """

    classes: ClassNodes
    probabilities: Tensor
    judged: Tensor
    folds: Tensor
    rare: Mapping[int, int]
    fewest: int

    @property
    def taxonomy(self) -> Taxonomy:
        """The taxonomy of the labels."""
        assert isinstance(self.classes.taxonomy, Taxonomy)
        return self.classes.taxonomy

    def node_probabilities(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """The probability of every node, `(m, N)` float64: the sum over the classes at or below it.

        Args:
            rows: The samples, as positions `(m,)` or a slice; all at once take n·N·8 bytes.
        """
        return self.classes.node_probabilities(self.probabilities[rows])

    def of_nodes(self, nodes: Tensor) -> Tensor:
        """The probability of one node for each sample, `(n,)` float64; NaN where the node is −1."""
        check_same_length("probabilities", self.probabilities, "nodes", nodes)
        values = torch.full((len(nodes),), torch.nan, dtype=torch.float64)
        for node in nodes[nodes >= 0].unique().tolist():  # type: ignore[no-untyped-call]
            rows = (nodes == node).nonzero()[:, 0]
            columns = self.classes.below(torch.tensor([node]))[0]
            values[rows] = self.probabilities[rows][:, columns].double().sum(1)
        return values

    def sentence(self) -> str:
        """Which labels are too rare to be judged, and where they are judged; empty if there are none."""
        if not self.rare:
            return ""
        taxonomy = self.taxonomy
        coarser = [taxonomy.path_name(node) for node, at in self.rare.items() if at > 0]
        never = [taxonomy.path_name(node) for node, at in self.rare.items() if at <= 0]
        kinds = f"fewer than {self.fewest} samples or groups"
        parts = []
        if coarser:
            one = len(coarser) == 1
            which = f"1 label with {kinds} is" if one else f"{len(coarser)} labels with {kinds} are"
            parts.append(f"{which} judged at a coarser node ({some(coarser, 3)})")
        if never:
            which = f"{say_count(len(never), 'label')} with {kinds}"
            parts.append(f"{which} cannot be judged ({some(never, 3)})")
        return "; ".join(parts)


def out_of_fold(
    vectors: Tensor,
    nodes: Tensor,
    taxonomy: Taxonomy,
    *,
    groups: Tensor | None = None,
    folds: int = 5,
    fewest: int = 3,
    penalty: float = 0.01,
    most_learned: int = 50_000,
    seed: int = 0,
    progress: Progress | None = None,
) -> OutOfFold:
    """Predict the label of every sample by a linear probe that learned from the other folds.

    The classes are the finest labels. A label below which there are other labels is no class: its samples
    are judged by the sum over the classes below, and nothing is learned from them. A label with fewer than
    `fewest` groups joins the other rare labels at the nearest coarser node where they are enough together;
    if not even those of a branch at depth 1 are enough, it is not judged.

    Args:
        vectors: `(n, d)` float features or embeddings; columns are standardised.
        nodes: `(n,)` int64 labels, leaves or inner nodes, −1 where missing. The root counts as missing.
        taxonomy: Taxonomy of the labels.
        groups: `(n,)` int64 group of each sample, such as a patient, −1 for a sample without one; a group
            lies in one fold. None = no groups.
        folds: Number of folds; fewer if there are fewer groups.
        fewest: Number of groups that a class needs, at least 2, so that it can be learned without each.
        penalty: Weight of |W|²/2 against the mean cross entropy of the probe. The default is stronger than
            the evaluation's probe has with more than 100 samples, which fits wrong labels more closely.
        most_learned: Most samples that a classifier learns from, drawn evenly over the labels.
        seed: Seed of the folds and of that draw.
        progress: Called as `progress(message, done, total)` after every fold.

    Raises:
        DataError: If there are fewer than two classes with enough samples.
        ValueError: For wrong shapes, nodes outside the taxonomy, or a setting out of range.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat")])
        >>> vectors = torch.tensor([[-1.0], [-1.1], [-0.9], [1.0], [1.1], [0.9], [1.0]])
        >>> nodes = taxonomy.encode(["dog"] * 3 + ["cat"] * 3 + ["dog"])  # the last one is a cat
        >>> predictions = out_of_fold(vectors, nodes, taxonomy)
        >>> bool(predictions.of_nodes(nodes)[-1] < 0.5)
        True
    """
    if fewest < 2:
        raise ValueError(f"fewest is {fewest}; a class needs 2 groups or more, one of which is held out")
    if folds < 2:
        raise ValueError(f"folds is {folds}; there must be at least 2")
    if not penalty > 0:
        raise ValueError(f"penalty is {penalty}; it must be above 0")
    if vectors.ndim != 2 or not vectors.is_floating_point():
        raise ValueError(f"vectors must be floats of shape (n, d), got {tuple(vectors.shape)}")
    check_same_length("vectors", vectors, "nodes", nodes)
    check_nodes("nodes", nodes, taxonomy)
    if not bool(torch.isfinite(vectors).all()):
        row = int((~torch.isfinite(vectors)).any(1).nonzero()[0])
        raise DataError(f"vector {row} holds NaN or infinity; leave such rows out")
    labels = torch.where(nodes > 0, nodes, -1)
    numbers = torch.from_numpy(group_numbers(groups, len(nodes)))
    judged, learned, rare = _classes(labels, numbers, taxonomy, fewest)
    distinct = learned[learned >= 0].unique()  # type: ignore[no-untyped-call]
    if len(distinct) < 2:
        raise DataError(
            f"{len(distinct)} classes have {fewest} samples of different groups or more, and two are the "
            "least that can be told apart; give more samples, or coarser labels"
        )
    classes = ClassNodes(distinct, taxonomy)
    count = min(folds, int(numbers.max()) + 1)
    held_out = make_folds(learned, taxonomy, count, groups=numbers, seed=seed)
    probabilities = torch.zeros(len(nodes), len(classes))
    for fold in range(count):
        rows = ((held_out != fold) & (learned >= 0)).nonzero()[:, 0]
        rows = stratified_subsample(rows, learned[rows], most_learned, seed)
        tested = (held_out == fold).nonzero()[:, 0]
        table = EmbeddingTable(vectors[rows].float(), learned[rows], geometry="euclidean")
        scores, _ = fit_linear(table, learned[rows], balanced=False, C=1 / (penalty * len(rows)))
        columns = classes.place[scores.classes]
        for part in tested.split(4096):  # type: ignore[no-untyped-call]
            answers = scores(EmbeddingTable(vectors[part].float(), nodes[part], geometry="euclidean"))
            by_class = torch.zeros(len(part), len(classes))
            by_class[:, columns] = torch.softmax(answers, 1).float()
            probabilities[part] = by_class
        unseen = torch.ones(len(classes), dtype=torch.bool)
        unseen[columns] = False
        _raise_unseen(judged, tested, classes, unseen)
        (progress or silent)("learning without each fold", fold + 1, count)
    return OutOfFold(classes, probabilities, judged, held_out, rare, fewest)


def _classes(
    labels: Tensor, groups: Tensor, taxonomy: Taxonomy, fewest: int
) -> tuple[Tensor, Tensor, dict[int, int]]:
    """The node at which each label is judged, the class that each sample teaches, and the rare labels.

    Args:
        labels: `(n,)` labels, −1 where missing.
        groups: `(n,)` groups, none missing.
        taxonomy: Taxonomy of the labels.
        fewest: Number of groups that a class needs.
    """
    known = (labels >= 0).nonzero()[:, 0]
    order = known[labels[known].argsort(stable=True)]
    present, counts = torch.unique_consecutive(labels[order], return_counts=True)
    rows_of = dict(zip(present.tolist(), order.split(counts.tolist()), strict=True))  # type: ignore[no-untyped-call]
    judged, learned = labels.clone(), torch.full_like(labels, -1)
    rare: dict[int, int] = {}
    waiting: dict[int, list[int]] = {}  # node -> rare labels at or below it, not yet placed
    has_class: set[int] = set()  # nodes with a class strictly below them
    for node in sorted(_add_ancestors(present, taxonomy), reverse=True):
        above = int(taxonomy.parent[node])
        pending = waiting.pop(node, [])
        if node in rows_of and node not in has_class:
            pending.append(node)
        is_class = False
        if pending and node > 0:
            rows = torch.cat([rows_of[label] for label in pending])
            if len(groups[rows].unique()) >= fewest:  # type: ignore[no-untyped-call]
                learned[rows] = node
                judged[rows] = node
                is_class = True
                rare.update({label: node for label in pending if label != node})
            else:
                waiting.setdefault(above, []).extend(pending)
        elif pending:
            judged[torch.cat([rows_of[label] for label in pending])] = -1
            rare.update(dict.fromkeys(pending, -1))
        if is_class or node in has_class:
            has_class.add(above)
    return judged, learned, dict(sorted(rare.items()))


def _add_ancestors(nodes: Tensor, taxonomy: Taxonomy) -> set[int]:
    ancestors = taxonomy.ancestors[nodes].unique()  # type: ignore[no-untyped-call]
    return set(ancestors[ancestors >= 0].tolist())


def _raise_unseen(judged: Tensor, tested: Tensor, classes: ClassNodes, unseen: Tensor) -> None:
    """Judge held-out samples whose class their classifier has not seen at the nearest coarser node it has."""
    if not bool(unseen.any()):
        return
    seen = torch.from_numpy(classes.above @ (~unseen).numpy().astype(np.float64)) > 0
    parent = classes.taxonomy.parent if isinstance(classes.taxonomy, Taxonomy) else None
    assert parent is not None
    nodes = judged[tested]
    while bool((lost := (nodes > 0) & ~seen[nodes.clamp(min=0)]).any()):
        nodes = torch.where(lost, parent[nodes.clamp(min=0)], nodes)
    judged[tested] = torch.where(nodes > 0, nodes, -1)
