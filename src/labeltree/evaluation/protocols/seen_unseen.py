"""`seen-unseen`: separate scores of classes that the encoder was trained on and of all other classes."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from labeltree.errors import DataError, TaxonomyError
from labeltree.evaluation.chosen_samples import labelled_rows
from labeltree.evaluation.fitted_probe import fit_probe
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.protocols.clusters import ClusteringOptions, cluster_scores
from labeltree.evaluation.queries_and_gallery import SearchPlan
from labeltree.evaluation.representations import Reading
from labeltree.evaluation.search_and_answer_columns import answer_columns
from labeltree.evaluation.subsampling import half_split
from labeltree.metrics.functional import nodes_at_depth
from labeltree.split_names import UNSEEN
from labeltree.taxonomy.label_sets import covered_nodes, finest_labels, shared_depth, shared_note
from labeltree.taxonomy.naming import some

__all__ = ["SeenUnseenOptions", "seen_unseen"]


@dataclass(frozen=True)
class SeenUnseenOptions:
    """Options of `seen_unseen`.

    Attributes:
        roles: Representations to read: `features`, `embeddings` or both.
        unseen: Nodes, by path or name, whose classes the encoder was not trained on, in addition to classes
            hidden from training (split `unseen`); () = only the hidden classes or, if there are none, the
            tested classes without training samples.
        depth: Depth of the classes that the probe predicts, for data whose finer labels occur only in the
            test; 0 = the finest labels.
        starts: Number of starts of k-means.
    """

    roles: tuple[str, ...] = ("features", "embeddings")
    unseen: tuple[str, ...] = ()
    depth: int = 0
    starts: int = 3

    def __post_init__(self) -> None:
        if self.starts < 1:
            raise ValueError(f"starts must be at least 1, got {self.starts}")
        if self.depth < 0:
            raise ValueError(f"depth must be at least 0, got {self.depth}")


@register(
    "seen-unseen",
    summary="probe, retrieval and clusters of seen and of unseen classes, each among themselves",
    source="Zhang et al. 2022, Section 4.5 and Tables 2 and 3",
    options=SeenUnseenOptions,
)
def seen_unseen(inputs: Inputs, options: SeenUnseenOptions) -> ProtocolResult:
    """Measure seen and unseen classes separately, each with its own probe and retrieval search.

    The probe of the unseen classes learns from their samples that were hidden from training (split
    `unseen`) and, for classes named by the option, from those in the training split (the encoder must not
    have learned from them). If there are none, it learns from one half of each class's samples in the
    evaluated split and is tested on the other half; no group is split.
    """
    hidden = labelled_rows(inputs.table, UNSEEN)
    unseen = _unseen(inputs, options, hidden)
    nodes, tested = inputs.nodes, inputs.tested
    notes: list[str] = []
    if len(hidden):
        labels = inputs.judging.tree.decode(torch.unique(nodes[tested[unseen[nodes[tested]]]]))
        notes.append(
            f"Unseen are {len(labels)} tested classes, hidden from training: {some(map(str, labels))}."
        )
    if not 0 < (count := int(unseen[nodes[tested]].sum())) < len(tested):
        raise DataError(
            f"no test sample is of {'a seen' if count else 'an unseen'} class; name the "
            "nodes that the encoder was not trained on with the option unseen"
        )
    parts: dict[str, ProtocolResult] = {}
    counts: dict[str, int] = {}
    for name, classes in (("seen", ~unseen), ("unseen", unseen)):
        of_kind = classes[nodes.clamp_min(0)]
        test = tested[of_kind[tested]]
        train = inputs.learned[of_kind[inputs.learned]]
        if name == "unseen":
            train = torch.cat([train, _finest_of(hidden, test, inputs)])
        train = inputs.subsample(train, inputs.settings.max_probe_samples)
        learn, judged = train, test
        if not len(train):
            half = half_split(inputs.table, _mask(test, len(nodes)), inputs.settings.seed)
            learn, judged = half.nonzero().squeeze(1), test[~half[test]]
            notes.append(
                f"The probe of {name} classes learned from {len(learn)} of their {len(test)} test samples, "
                "one half of each class, and was tested on the others."
            )
        counts[f"{name} classes"] = len(torch.unique(nodes[test]))
        counts[f"{name} test samples"] = len(test)
        counts[f"{name} samples that the probe learned from"] = len(learn)
        searched = inputs.subsample(test, inputs.settings.max_retrieval_samples)
        plan = inputs.plan(searched, train)
        if len(torch.unique(nodes[learn])) < 2:
            notes.append(f"The {name} samples are of one class: there is nothing for a probe to distinguish.")
        if inputs.samples.shared < shared_depth(nodes[test], inputs.judging.tree):
            notes += shared_note(nodes[test], inputs.judging.tree, f"{name} ")
        notes += [f"{name.capitalize()} classes: {note}" for note in plan.notes("theirs")]
        for role, reading in inputs.chosen(options.roles).items():
            parts[f"{name}.{role}"] = _measure(
                reading, learn, judged, test, plan, inputs, options, f"{name}, {role}"
            )
    for role in inputs.chosen(options.roles):
        seen, new = parts[f"seen.{role}"].scores, parts[f"unseen.{role}"].scores
        for metric in ("top1", "recall_at_1", "nmi"):
            new[f"{metric}_less_than_seen"] = seen.get(metric, math.nan) - new.get(metric, math.nan)
    return ProtocolResult.joined("Seen and unseen classes", parts, counts=counts, notes=notes)


def _measure(
    reading: Reading,
    learn: Tensor,
    judged: Tensor,
    test: Tensor,
    plan: SearchPlan,
    inputs: Inputs,
    options: SeenUnseenOptions,
    name: str,
) -> ProtocolResult:
    """Probe, retrieval and clustering of the seen or of the unseen classes."""
    nodes, judging = inputs.nodes, inputs.judging
    progress = inputs.titled(f"retrieval: {name}")
    result = inputs.judge_retrieval(
        reading, plan.queries, plan.gallery, by_frequency=False, progress=progress
    )
    choices = ClusteringOptions(starts=options.starts)
    clusters = cluster_scores(reading, inputs.subsample(test, choices.max_samples), inputs, choices, name)
    parts = [result, clusters]
    if options.depth:
        nodes = nodes_at_depth(nodes, judging.tree, min(options.depth, judging.tree.max_depth))
        learn, judged = learn[nodes[learn] >= 0], judged[nodes[judged] >= 0]
    if len(judged) and len(torch.unique(nodes[learn])) > 1:
        vectors = reading.vectors
        predicted = fit_probe(vectors[learn], nodes[learn], inputs.settings).predict(vectors[judged])
        every = torch.ones(len(judged), dtype=torch.bool)
        shared = shared_depth(nodes[torch.cat([learn, judged])], judging.tree)
        columns = answer_columns(predicted, nodes[judged], every, judging, judged, shared)
        parts.insert(0, inputs.summarise(columns, by_frequency=False))
    whole = ProtocolResult("")
    for part in parts:
        for entry in fields(part):
            value = getattr(part, entry.name)
            if isinstance(value, dict) and entry.name != "counts":
                getattr(whole, entry.name).update(value)
            elif entry.name in ("columns", "statistics"):
                getattr(whole, entry.name).extend(value)
    return whole


def _finest_of(hidden: Tensor, test: Tensor, inputs: Inputs) -> Tensor:
    """The hidden rows with a finest label, among the labels of hidden and test rows."""
    nodes = inputs.nodes
    finest = finest_labels(nodes[torch.cat([hidden, test])], inputs.judging.tree)
    return hidden[finest[nodes[hidden]]]


def _unseen(inputs: Inputs, options: SeenUnseenOptions, hidden: Tensor) -> Tensor:
    """Mask `(num_nodes,)` of the unseen classes.

    Hidden classes lie at or below nodes that have rows in the split `unseen` and none in training. A label
    without rows in either split is seen or unseen as its nearest ancestor with such rows: a new item of the
    test is seen if its category is.
    """
    tree = inputs.judging.tree
    unseen = torch.zeros(tree.num_nodes, dtype=torch.bool)
    if options.unseen:
        try:
            named = inputs.judging.placed[inputs.judging.judge.encode(list(options.unseen))]
        except TaxonomyError as error:
            raise DataError(f"unseen names something that is not a node: {error}") from error
        for node in named.tolist():
            unseen[node : int(tree.subtree_end[node])] = True
        if not len(hidden):
            return unseen
    if inputs.table.split is None or inputs.samples.split == "half":
        raise DataError("the table has no training split to tell seen classes by; use the option unseen")
    present = covered_nodes(inputs.nodes[labelled_rows(inputs.table, "train")], tree)
    if not len(hidden):
        return ~present
    known = present | covered_nodes(inputs.nodes[hidden], tree)
    line = tree.ancestors
    nearest = torch.where((line >= 0) & known[line.clamp_min(0)], line, 0).amax(1)  # in preorder the deepest
    return unseen | ~present[nearest]


def _mask(rows: Tensor, n: int) -> Tensor:
    mask = torch.zeros(n, dtype=torch.bool)
    mask[rows] = True
    return mask
