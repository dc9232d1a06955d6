"""``seen-unseen``: classes that the encoder was trained on, and classes that it was not, side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labeltree.errors import DataError, TaxonomyError
from labeltree.evaluation.answers import judge_answers
from labeltree.evaluation.probe import fit_and_predict
from labeltree.evaluation.protocol import Inputs, ProtocolResult, register
from labeltree.evaluation.protocols.clustering import ClusteringOptions, cluster_scores
from labeltree.evaluation.reading import Reading
from labeltree.evaluation.retrieval import titled
from labeltree.evaluation.samples import half_split

__all__ = ["SeenUnseenOptions", "seen_unseen"]


@dataclass(frozen=True)
class SeenUnseenOptions:
    """What can be chosen.

    Attributes:
        roles: what is read: ``features``, ``embeddings`` or both.
        unseen: nodes, by path or name, whose classes the encoder was not trained on; () takes the classes
            that are tested and have no training samples.
        starts: of k-means.
    """

    roles: tuple[str, ...] = ("features", "embeddings")
    unseen: tuple[str, ...] = ()
    starts: int = 3

    def __post_init__(self) -> None:
        if self.starts < 1:
            raise ValueError(f"starts must be at least 1, got {self.starts}")


@register(
    "seen-unseen",
    summary="probe, retrieval and clusters of seen and of unseen classes, each among themselves",
    source="Zhang et al. 2022, Section 4.5 and Tables 2 and 3",
    options=SeenUnseenOptions,
)
def seen_unseen(inputs: Inputs, options: SeenUnseenOptions) -> ProtocolResult:
    """Measure seen and unseen classes apart: each has a probe of its own, and is searched by itself.

    The probe of the unseen classes learns from their samples in the training split if they have some there
    (the encoder must not have learned from them), else from one half of each class's samples in the evaluated
    split, and is tested on the other half.
    """
    unseen = _unseen(inputs, options)
    nodes, tested = inputs.nodes, inputs.tested
    notes: list[str] = []
    parts: dict[str, ProtocolResult] = {}
    counts: dict[str, int] = {}
    for name, classes in (("seen", ~unseen), ("unseen", unseen)):
        of_kind = classes[nodes.clamp_min(0)]
        test = tested[of_kind[tested]]
        if not len(test):
            raise DataError(
                f"no test sample is of {'an unseen' if name == 'unseen' else 'a seen'} class; name the "
                "nodes that the encoder was not trained on with the option unseen"
            )
        train = inputs.learned[of_kind[inputs.learned]]
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
        for role, reading in inputs.chosen(options.roles).items():
            parts[f"{name}.{role}"] = _measure(
                reading, learn, judged, test, inputs, options, f"{name}, {role}"
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
    inputs: Inputs,
    options: SeenUnseenOptions,
    name: str,
) -> ProtocolResult:
    """Probe, retrieval (leave-one-out) and clusters of one kind of classes."""
    nodes, ground = inputs.nodes, inputs.ground
    searched = inputs.thinned(test, inputs.settings.max_retrieval_samples)
    found = inputs.judge_retrieval(
        reading, searched, by_frequency=False, progress=titled(inputs.progress, f"retrieval: {name}")
    )
    choices = ClusteringOptions(starts=options.starts)
    clusters = cluster_scores(reading, inputs.thinned(test, choices.max_samples), inputs, choices, name)
    parts = [found, clusters]
    if len(judged) and len(learn):
        predicted, _ = fit_and_predict(
            reading.vectors[learn], nodes[learn], reading.vectors[judged], inputs.settings
        )
        every = torch.ones(len(judged), dtype=torch.bool)
        parts.insert(0, judge_answers(predicted, nodes[judged], every, ground))
    whole = ProtocolResult("")
    for part in parts:
        for column in ("scores", "by_depth", "by_node"):
            getattr(whole, column).update(getattr(part, column))
    return whole


def _unseen(inputs: Inputs, options: SeenUnseenOptions) -> Tensor:
    """``(num_nodes,)`` bool, which nodes are unseen classes."""
    tree = inputs.ground.tree
    unseen = torch.zeros(tree.num_nodes, dtype=torch.bool)
    if options.unseen:
        try:
            named = inputs.ground.placed[inputs.ground.judge.encode(list(options.unseen))]
        except TaxonomyError as error:
            raise DataError(f"unseen names something that is no node: {error}") from error
        for node in named.tolist():
            unseen[node : int(tree.subtree_end[node])] = True
        return unseen
    if inputs.table.split is None or inputs.samples.split == "half":
        raise DataError("the table has no training split to tell seen classes by; use the option unseen")
    trained = np.asarray(inputs.table.split == "train") & (inputs.nodes > 0).numpy()
    present = torch.zeros_like(unseen)
    above = tree.ancestors[inputs.nodes[torch.from_numpy(trained)]]
    present[above[above >= 0]] = True
    return ~present


def _mask(rows: Tensor, n: int) -> Tensor:
    mask = torch.zeros(n, dtype=torch.bool)
    mask[rows] = True
    return mask
