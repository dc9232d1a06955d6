"""Numbers of the tree and of one node: counts, typical and hard samples, what it is confused with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from labeltree.geometry import get_geometry
from labeltree.serving.explorer.collection import Collection

__all__ = ["Confusion", "NodeFacts", "SplitCount", "count_below", "facts_of_node"]

Array = np.ndarray[Any, Any]
_SHOWN = 12
_ASKED = 256  # samples of a node whose neighbours are looked up
_NEIGHBOURS = 10


@dataclass(frozen=True)
class SplitCount:
    """A split's part of a node."""

    split: str
    samples: int
    judged: int
    right: int


@dataclass(frozen=True)
class Confusion:
    """A node that samples of another one are taken for."""

    node: int
    count: int


@dataclass(frozen=True)
class NodeFacts:
    """What is known of a node.

    Attributes:
        samples: At or below it.
        here: Labelled with the node itself.
        splits: Its parts.
        typical: Rows nearest to the mean of the node.
        hardest: Rows whose neighbours lie farthest away on the tree, the hardest first.
        confused: Nodes beside this one, where predictions (or neighbours, if there are none) lie.
        confused_by: `predictions` or `neighbours`.
        asked: How many samples `hardest` was chosen from.
    """

    samples: int
    here: int
    splits: list[SplitCount] = field(default_factory=list)
    typical: list[int] = field(default_factory=list)
    hardest: list[int] = field(default_factory=list)
    confused: list[Confusion] = field(default_factory=list)
    confused_by: Literal["predictions", "neighbours"] = "neighbours"
    asked: int = 0


def count_below(collection: Collection, rows: Array) -> Array:
    """How many of the rows (a mask `(n,)`) have a label at or below each node, `(nodes,)` int64."""
    taxonomy = collection.taxonomy
    labels = collection.nodes[rows]
    here = np.bincount(labels[labels >= 0], minlength=taxonomy.num_nodes)
    until = np.concatenate([[0], np.cumsum(here)])
    return np.asarray(until[taxonomy.subtree_end.numpy()] - until[:-1], np.int64)


def facts_of_node(collection: Collection, node: int) -> NodeFacts:
    """Everything that the page of a node says."""
    rows = collection.members(node)
    if not len(rows):
        return NodeFacts(0, 0)
    judged, _ = collection.judged
    asked = rows[np.linspace(0, len(rows) - 1, min(_ASKED, len(rows))).round().astype(int)]
    neighbours = _neighbours(collection, asked)
    labels = [collection.nodes[nearest] for nearest in neighbours]
    badness = np.array(
        [
            np.nan_to_num(np.nanmean(apart)) if len(apart) and not np.isnan(apart).all() else 0.0
            for apart in (
                collection.far(int(collection.nodes[row]), theirs).numpy()
                for row, theirs in zip(asked, labels, strict=True)
            )
        ]
    )
    hard = np.argsort(-badness, kind="stable")[:_SHOWN]
    by_predictions = collection.predictions is not None and bool(judged[rows].any())
    if by_predictions:
        assert collection.predictions is not None
        answers = collection.predictions[rows[judged[rows]]]
    else:
        answers = np.concatenate(labels) if labels else np.array([], np.int64)
    return NodeFacts(
        samples=len(rows),
        here=int((collection.nodes[rows] == node).sum()),
        splits=_splits(collection, rows),
        typical=_typical(collection, rows),
        hardest=asked[hard[badness[hard] > 0]].tolist(),
        confused=_find_confused(collection, node, answers),
        confused_by="predictions" if by_predictions else "neighbours",
        asked=len(asked),
    )


def _splits(collection: Collection, rows: Array) -> list[SplitCount]:
    known = np.zeros(len(rows), bool)
    if collection.predictions is not None:
        known = (collection.predictions[rows] >= 0) & (collection.nodes[rows] > 0)
    right = collection.right[rows] & known
    if collection.splits is None:
        return [SplitCount("all", len(rows), int(known.sum()), int(right.sum()))]
    of = collection.splits[rows]
    return [
        SplitCount(name, int(mask.sum()), int((mask & known).sum()), int((mask & right).sum()))
        for name in collection.split_names
        if (mask := of == name).any()
    ]


def _typical(collection: Collection, rows: Array) -> list[int]:
    """Rows nearest to the node's mean; of a large node, of 4,096 of its rows at equal steps."""
    some = rows[np.linspace(0, len(rows) - 1, min(4096, len(rows))).round().astype(int)]
    geometry = get_geometry(collection.geometry, collection.curvature)
    points = torch.from_numpy(np.array(collection.vectors[some], np.float64))
    near = geometry.pairwise_similarity(geometry.mean(points)[None], points)[0]
    return [int(row) for row in some[torch.argsort(near, descending=True, stable=True)[:_SHOWN].numpy()]]


def _neighbours(collection: Collection, rows: Array) -> list[Array]:
    """The rows nearest to each of the rows, without itself."""
    nearest = collection.nearest(np.asarray(collection.vectors[rows], np.float32), _NEIGHBOURS + 1, None)
    return [hits.rows[hits.rows != row][:_NEIGHBOURS] for row, hits in zip(rows, nearest, strict=True)]


def _find_confused(collection: Collection, node: int, answers: Array) -> list[Confusion]:
    """The nodes in which answers outside the node lie, as coarse as the tree branches off: up to eight.

    An answer in another branch is counted at the branch beside the node's own path, so that a leaf is
    confused with its siblings, with its parent's siblings, and so on.
    """
    taxonomy = collection.taxonomy
    end = int(taxonomy.subtree_end[node])
    outside = answers[(answers >= 0) & ((answers < node) | (answers >= end))]
    counts: Counter[int] = Counter()
    own = {node, *taxonomy.ancestors_of(node)}
    ancestors = taxonomy.ancestors
    for answer, times in Counter(outside.tolist()).items():
        line = [one for one in ancestors[answer].tolist() if one >= 0]
        beside = next((one for one in line if one not in own), None)
        if beside is not None:  # else the answer is an ancestor: too coarse, not wrong
            counts[beside] += times
    return [Confusion(one, times) for one, times in sorted(counts.items(), key=lambda c: (-c[1], c[0]))[:8]]
