"""`clustering`: agreement of k-means clusters with the classes, at each depth and within coarse classes."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.representations import Reading
from labeltree.evaluation.sample_columns import Place
from labeltree.evaluation.statistics import Partition, Statistic, agreement_intervals
from labeltree.metrics.functional import (
    adjusted_mutual_information,
    nodes_at_depth,
    normalized_mutual_information,
)

__all__ = ["ClusteringOptions", "cluster", "cluster_scores", "clustering"]

_OF_INTERVALS = (
    "The intervals of NMI and AMI hold the clusters fixed: they are those of another choice of samples, "
    "not of another run of k-means."
)


@dataclass(frozen=True)
class ClusteringOptions:
    """Options of `clustering`.

    Attributes:
        roles: Representations to read: `features`, `embeddings` or both.
        starts: Number of k-means++ initialisations; the result with the lowest inertia is used.
        within: Depth of the coarse classes within which the finest classes are clustered.
        max_samples: More samples than this are subsampled evenly over the labels.
    """

    roles: tuple[str, ...] = ("features", "embeddings")
    starts: int = 3
    within: int = 1
    max_samples: int = 20_000

    def __post_init__(self) -> None:
        for name in ("starts", "within", "max_samples"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


@register(
    "clustering",
    summary="k-means against the classes at each depth, and within each coarse class",
    source="Zhang et al. 2022, Section 4.5.4",
    options=ClusteringOptions,
)
def clustering(inputs: Inputs, options: ClusteringOptions) -> ProtocolResult:
    """Cluster the searched samples (those of the evaluated split with a finest label)."""
    rows = inputs.subsample(inputs.samples.search, options.max_samples)
    if not len(rows):
        raise DataError(
            "no sample of the evaluated split has a finest label, so that there is nothing to cluster"
        )
    parts = {
        role: cluster_scores(reading, rows, inputs, options, role)
        for role, reading in inputs.chosen(options.roles).items()
    }
    notes = [] if len(rows) == len(inputs.samples.search) else [f"{len(rows)} samples were clustered."]
    counts = {"clustered samples": len(rows)}
    return ProtocolResult.joined("Clusters by k-means", parts, counts=counts, notes=notes)


def cluster_scores(
    reading: Reading, rows: Tensor, inputs: Inputs, options: ClusteringOptions, name: str
) -> ProtocolResult:
    """NMI and AMI of k-means, with as many clusters as classes, on the given rows of one representation.

    `nmi` compares the clusters with the finest labels and, by depth, with the labels at each depth.
    `nmi_within` is the mean NMI over the coarse classes that have at least two finest labels, each
    clustered separately. Likewise `ami` and `ami_within`.
    """
    tree, seed = inputs.judging.tree, inputs.settings.seed
    vectors, nodes = comparable(reading)[rows], inputs.nodes[rows]
    labels = [nodes_at_depth(nodes, tree, depth) for depth in range(1, tree.max_depth + 1)]
    within = nodes_at_depth(nodes, tree, min(options.within, tree.max_depth))
    coarse = [node for node in torch.unique(within).tolist() if node >= 0]
    several = [node for node in coarse if len(torch.unique(nodes[within == node])) > 1]
    total, done = len(labels) + 1 + len(several), 0
    units = inputs.units_of(rows)
    partitions: list[Partition] = []
    statistics: list[Statistic] = []
    everything = torch.ones_like(nodes, dtype=torch.bool)

    def agreement(here: Tensor, truth: Tensor) -> tuple[float, float]:
        nonlocal done
        clusters = cluster(vectors[here], len(torch.unique(truth[here])), starts=options.starts, seed=seed)
        done += 1
        if inputs.progress is not None:
            inputs.progress(f"clustering by {name}", done, total)
        pair = (truth[here], clusters)
        of = {"labels": pair[0].numpy(), "clusters": clusters.numpy()}
        statistics.append(Statistic("agreement", ("nmi", "ami"), rows[here].numpy(), of))
        if units.resampling is not None:
            groups = units.groups[here.numpy()]
            partitions.append(Partition.of(of["labels"], of["clusters"], groups, units.count))
        return float(normalized_mutual_information(*pair)), float(adjusted_mutual_information(*pair))

    reached = [depth for depth, truth in enumerate(labels) if bool((truth >= 0).any())]
    by_depth = [(math.nan, math.nan)] * len(labels)
    for depth in reached:
        by_depth[depth] = agreement(labels[depth] >= 0, labels[depth])
    places = [[Place("by_depth", "", depth)] for depth in reached]
    if torch.equal(labels[-1], nodes):
        finest = by_depth[-1]
        places[-1].append(Place("scores", ""))
    else:
        finest = agreement(everything, nodes)
        places.append([Place("scores", "")])
    first = len(places)
    inside = {tree.path_name(node): agreement(within == node, nodes) for node in several}
    places += [[Place("by_node", "_within", path)] for path in inside]
    mean = [
        math.nan if not inside else sum(pair[i] for pair in inside.values()) / len(inside) for i in (0, 1)
    ]
    result = ProtocolResult(
        "",
        scores={"nmi": finest[0], "ami": finest[1], "nmi_within": mean[0], "ami_within": mean[1]},
        by_depth={"nmi": [pair[0] for pair in by_depth], "ami": [pair[1] for pair in by_depth]},
        by_node={
            "nmi_within": {path: pair[0] for path, pair in inside.items()},
            "ami_within": {path: pair[1] for path, pair in inside.items()},
        },
        counts={"coarse classes clustered by themselves": len(inside)},
        statistics=[statistics[first - 1]]
        + [replace(each, names=("nmi_within", "ami_within")) for each in statistics[first:]],
    )
    if units.resampling is not None and partitions:
        means = [range(first, len(partitions))] if inside else []
        places += [[Place("scores", "_within")] for _ in means]
        _, intervals = agreement_intervals(partitions, means, units.resampling.confidence)
        for number, (name, at) in enumerate((name, at) for name in ("nmi", "ami") for at in places):
            for place in at:
                ends = float(intervals.low[number]), float(intervals.high[number])
                result.put_interval(place._replace(name=f"{name}{place.name}"), *ends)
        result.notes.append(_OF_INTERVALS)
    return result


def comparable(reading: Reading) -> Tensor:
    """Vectors `(n, d)` for Euclidean clustering.

    On the sphere they are the normalised points, whose Euclidean distances rank pairs as the geometry does.
    In the Poincaré ball they are the tangent vectors at its centre, which preserve only the distances to the
    centre.
    """
    if reading.geometry.name == "sphere":
        return torch.nn.functional.normalize(reading.points, dim=1)
    return reading.vectors


def cluster(vectors: Tensor, clusters: int, *, starts: int, seed: int) -> Tensor:
    """The k-means cluster `(n,)` of each vector `(n, d)`."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    clusters = min(clusters, len(vectors))
    if clusters <= 1:
        return torch.zeros(len(vectors), dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters
        clusters_of_rows = KMeans(clusters, n_init=starts, random_state=seed).fit_predict(vectors.numpy())
    return torch.from_numpy(clusters_of_rows).long()
