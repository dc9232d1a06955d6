"""`knn`: classification by the votes of the nearest training samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from labeltree.checks import check_choice
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.sample_columns import Column
from labeltree.geometry import Geometry
from labeltree.metrics.functional import nearest_neighbour_labels
from labeltree.metrics.functional.nearest_neighbours import VoteWeights

__all__ = ["KNNOptions", "knn", "vote_weights"]

Weights = Literal["auto", "softmax", "distance", "uniform"]


@dataclass(frozen=True)
class KNNOptions:
    """Options of `knn`; see `labeltree.metrics.functional.nearest_neighbour_labels`.

    Attributes:
        roles: Representations to read: `features`, `embeddings` or both.
        ks: Numbers of neighbours.
        main_k: Number of neighbours for the scores by depth, subtree and frequency.
        weights: Weights of the votes: `softmax` (exp(similarity/temperature)), `distance` (inverse
            distance) or `uniform`; `auto` is `softmax` on the sphere, where similarities are bounded,
            and `distance` otherwise.
        temperature: Temperature of `softmax`.
    """

    roles: tuple[str, ...] = ("features", "embeddings")
    ks: tuple[int, ...] = (1, 5, 20, 200)
    main_k: int = 20
    weights: Weights = "auto"
    temperature: float = 0.07

    def __post_init__(self) -> None:
        if not self.ks or min(self.ks) < 1 or self.main_k < 1:
            raise ValueError(f"ks and main_k must be integers above 0, got {self.ks} and {self.main_k}")
        check_choice("weights", self.weights, Weights)
        if not self.temperature > 0:
            raise ValueError(f"temperature must be above 0, got {self.temperature}")


@register(
    "knn",
    summary="class that the k nearest training samples vote for",
    source="weighted as in Wu et al. 2018, Section 3.4; none of the five papers reports it",
    options=KNNOptions,
)
def knn(inputs: Inputs, options: KNNOptions) -> ProtocolResult:
    """Classify the test samples by their nearest training samples, in the geometry of the representation."""
    ks = sorted({*options.ks, options.main_k})
    parts = {}
    silent = 0
    for role, reading in inputs.chosen(options.roles).items():
        answers = nearest_neighbour_labels(
            reading.points[inputs.samples.test],
            reading.points[inputs.learned],
            inputs.nodes[inputs.learned],
            ks=ks,
            weights=vote_weights(options.weights, reading.geometry),
            temperature=options.temperature,
            geometry=reading.geometry,
            query_groups=inputs.left_out(inputs.samples.test),
            key_groups=inputs.left_out(inputs.learned),
            progress=inputs.titled(f"k-NN on {role}"),
        )
        silent = int((answers[options.main_k] < 0).sum())
        answers = {k: labels.clamp(min=0) for k, labels in answers.items()}
        columns: list[Column] = []
        for at, k in enumerate(ks):
            of_k = inputs.answers(answers[k])
            top1, f1 = of_k[0], of_k[1]
            columns += of_k if k == options.main_k else []
            columns.append(top1.alone(f"top1_at_{k}"))
            columns += [column.alone(column.name, kind="curves", at=at) for column in (top1, f1)]
        parts[role] = inputs.summarise(columns)
        parts[role].axes.update({name: [float(k) for k in ks] for name in parts[role].curves})
    notes = [f"Scores without a number of neighbours are those of {options.main_k}."]
    if max(ks) > len(inputs.learned):
        notes.append(f"There are {len(inputs.learned)} training samples: a larger k asks all of them.")
    if inputs.samples.plan.groups is not None:
        notes.append("Training samples of a test sample's own group had no vote.")
    if silent:
        notes.append(f"{silent} test samples have no neighbour of another group: they count as errors.")
    return ProtocolResult.joined("k nearest neighbours", parts, notes=notes)


def vote_weights(weights: Weights, geometry: Geometry) -> VoteWeights:
    """The weights to use in a geometry, with `auto` resolved."""
    if weights != "auto":
        return weights
    return "softmax" if geometry.name == "sphere" else "distance"
