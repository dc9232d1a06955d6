"""What speaks for and against a label: out-of-fold probabilities and the labels of the nearest samples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.curation.out_of_fold import OutOfFold
from labeltree.data.stratified import group_numbers
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.geometry import Geometry
from labeltree.metrics.search.ranking import ranked_chunks
from labeltree.metrics.search.results_left_out import LeftOut
from labeltree.progress import Progress
from labeltree.taxonomy import Taxonomy

__all__ = ["Evidence", "Neighbours", "nearest_labelled", "weigh", "winnable"]

_LEAST = 1e-3
_FEW_VOTES = 5  # up to so many others of a class may all vote
_ROWS = 2**22  # node probabilities of a part of the samples that are in memory at once


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The k nearest labelled samples of each of n samples, without the sample itself and its group.

    Attributes:
        rows: `(n, k)` int64 positions, nearest first; −1 where there are fewer, or the sample has no label.
        nodes: `(n, k)` int64 their labels; −1 likewise.
    """

    rows: Tensor
    nodes: Tensor


def nearest_labelled(
    points: Tensor,
    nodes: Tensor,
    geometry: Geometry,
    *,
    groups: Tensor | None = None,
    k: int = 20,
    progress: Progress | None = None,
) -> Neighbours:
    """The nearest labelled samples of every labelled sample, found exactly.

    Args:
        points: `(n, d)` points of the geometry.
        nodes: `(n,)` labels; samples without one (−1, or the root) neither ask nor answer.
        geometry: The geometry of the points.
        groups: `(n,)` groups whose samples do not answer each other, −1 for a sample without one.
        k: Number of neighbours.
        progress: Called as `progress("ranking", done, total)`.

    Raises:
        ValueError: If k is below 1.
    """
    if k < 1:
        raise ValueError(f"k is {k}; it must be 1 or more neighbours")
    rows = torch.full((len(nodes), k), -1)
    asked = (nodes > 0).nonzero()[:, 0]
    numbers = torch.full((len(nodes),), -1) if groups is None else groups
    left_out = LeftOut.groups(numbers[asked].numpy())
    there = len(asked) - torch.from_numpy(left_out.counts)
    for start, order in ranked_chunks(
        points[asked], None, left_out, geometry=geometry, top=k, progress=progress
    ):
        part = slice(start, start + len(order))
        nearest = asked[order]
        nearest[torch.arange(order.shape[1]) >= there[part, None]] = -1
        rows[asked[part], : order.shape[1]] = nearest
    return Neighbours(rows, torch.where(rows >= 0, nodes[rows.clamp(min=0)], -1) if len(nodes) else rows)


def winnable(
    neighbours: Neighbours, judged: Tensor, nodes: Tensor, taxonomy: Taxonomy, groups: Tensor | None = None
) -> Neighbours:
    """Let half as many neighbours vote on a label as there are other samples of its class, but up to 5 all.

    A class of 4 cannot win a vote of 20 neighbours, however far it is from all other classes.

    Args:
        neighbours: Of all n samples.
        judged: `(n,)` node at which each label is judged; −1 for none.
        nodes: `(n,)` labels, −1 where missing.
        taxonomy: Taxonomy of the labels.
        groups: `(n,)` groups whose samples do not answer each other, −1 for a sample without one.
    """
    numbers = torch.from_numpy(group_numbers(groups, len(nodes)))
    there, node = nodes > 0, judged.clamp(min=0)
    end = taxonomy.subtree_end[node]

    def between(keys: Tensor, low: Tensor, high: Tensor) -> Tensor:
        ordered = keys[there].sort().values
        return torch.searchsorted(ordered, high) - torch.searchsorted(ordered, low)

    first = numbers * (taxonomy.num_nodes + 1)
    others = between(nodes, node, end) - between(first + nodes, first + node, first + end)
    most = torch.maximum(others // 2, others.clamp(1, _FEW_VOTES))
    voting = torch.arange(neighbours.rows.shape[1]) < most[:, None]
    return Neighbours(neighbours.rows.where(voting, -1), neighbours.nodes.where(voting, -1))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What classifier and neighbours say about the label of each of n samples.

    "Weight" is the mean of the out-of-fold probability and of the share of the neighbours.

    Attributes:
        judged: `(n,)` int64 the node whose truth is judged; −1 for a sample that is not judged.
        probe: `(n, L)` float32 out-of-fold probability of the judged label's ancestor at depth 1 … L; NaN
            below the label, and where nothing is judged.
        votes: `(n, L)` float32 share of the neighbours at or below that ancestor; NaN likewise.
        rival: `(n, L)` int64 the other node at that depth (or a leaf above it) of most weight; −1 likewise,
            and where there is no other node.
        rival_weight: `(n, L)` float32 its weight; NaN likewise.
        suggested: `(n,)` int64 the finest node that has more than half of the weight; 0 (the root) where no
            branch has.
        suggested_probe: `(n,)` float32 out-of-fold probability of `suggested`.
        suggested_votes: `(n,)` float32 share of the neighbours at or below `suggested`.
        class_votes: `(n, C)` float32 share of the neighbours at or below each class of the classifier.
    """

    judged: Tensor
    probe: Tensor
    votes: Tensor
    rival: Tensor
    rival_weight: Tensor
    suggested: Tensor
    suggested_probe: Tensor
    suggested_votes: Tensor
    class_votes: Tensor

    def log_odds(self) -> Tensor:
        """`(n, L)` log of the weight of the rival over that of the label, at each depth; NaN likewise.

        A thousandth is added to both, so that a weight of 0 has finite odds.
        """
        return torch.log((self.rival_weight + _LEAST) / ((self.probe + self.votes) / 2 + _LEAST))

    def at_label(self, values: Tensor) -> Tensor:
        """The entry of `(n, L)` values at the judged label's own depth, `(n,)`; NaN if there is none."""
        places = torch.arange(values.shape[1]).expand_as(values)
        finest = torch.where(torch.isfinite(self.probe), places, -1).amax(1)
        at_depth = values.gather(1, finest.clamp(min=0)[:, None])[:, 0]
        return torch.where(finest >= 0, at_depth, torch.nan)


def weigh(predictions: OutOfFold, neighbours: Neighbours) -> Evidence:
    """Bring the probabilities and the neighbours of n samples together, at every depth of the tree.

    Both have the same weight. A sample without neighbours, because all others are of its group, has the
    probabilities alone.
    """
    taxonomy = predictions.taxonomy
    n, width = len(predictions.judged), taxonomy.max_depth
    probe, votes, weight = (torch.full((n, width), torch.nan) for _ in range(3))
    rival = torch.full((n, width), -1)
    suggested = torch.zeros(n, dtype=torch.int64)
    of_suggested = torch.zeros(2, n)
    class_votes = torch.zeros(n, len(predictions.classes))
    judged = (predictions.judged > 0).nonzero()[:, 0]
    voted = neighbours.nodes[neighbours.nodes > 0].unique()  # type: ignore[no-untyped-call]
    ballots = ClassNodes(voted, taxonomy) if len(voted) else None
    leaf = taxonomy.num_children == 0
    cuts = [
        ((taxonomy.depth == depth) | (leaf & (taxonomy.depth < depth))).nonzero()[:, 0]
        for depth in range(1, width + 1)
    ]
    for rows in judged.split(max(1, _ROWS // taxonomy.num_nodes)):  # type: ignore[no-untyped-call]
        by_probe = predictions.node_probabilities(rows)
        by_vote = by_probe if ballots is None else _shares(neighbours.nodes[rows], ballots, by_probe)
        path = taxonomy.ancestors[predictions.judged[rows]][:, 1:]
        for out, by_node in ((probe, by_probe), (votes, by_vote)):
            own = by_node.gather(1, path.clamp(min=0))
            out[rows] = torch.where(path >= 0, own, torch.nan).float()
        both = (by_probe + by_vote) / 2
        for place, cut in enumerate(cuts):
            others = both[:, cut].masked_fill(cut == path[:, place, None], -1.0)
            most, at = others.max(1)
            there = (path[:, place] >= 0) & (most >= 0)
            rival[rows, place] = torch.where(there, cut[at], -1)
            weight[rows, place] = torch.where(there, most, torch.nan).float()
        nodes = _finest_majority(both, taxonomy)
        suggested[rows] = nodes
        class_votes[rows] = by_vote[:, predictions.classes.nodes].float()
        for place, by_node in enumerate((by_probe, by_vote)):
            of_suggested[place, rows] = by_node.gather(1, nodes[:, None])[:, 0].float()
    return Evidence(
        predictions.judged,
        probe,
        votes,
        rival,
        weight,
        suggested,
        of_suggested[0],
        of_suggested[1],
        class_votes,
    )


def _shares(near: Tensor, ballots: ClassNodes, otherwise: Tensor) -> Tensor:
    """The share of the neighbours' labels (b, k) at or below each node, (b, N); `otherwise` without any."""
    there = near > 0
    counts = torch.zeros(len(near), len(ballots), dtype=torch.float64)
    counts.scatter_add_(1, ballots.place[near.clamp(min=0)].clamp(min=0), there.double())
    total = there.sum(1, keepdim=True)
    shares = ballots.node_probabilities(counts / total.clamp(min=1))
    return torch.where(total > 0, shares, otherwise)


def _finest_majority(by_node: Tensor, taxonomy: Taxonomy) -> Tensor:
    """The finest node of each row of (b, N) with more than half of the weight; it is one path, so unique."""
    most = by_node > 0.5
    most[:, 0] = True
    depth = torch.where(most, taxonomy.depth, -1)
    deepest: Tensor = depth.argmax(1)
    return deepest
