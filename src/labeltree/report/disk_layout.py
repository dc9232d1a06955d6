"""Where nodes and samples of the Poincaré ball go in the disk: true to the centre, their angles fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.evaluation import Reading
from labeltree.geometry import PoincareBall
from labeltree.metrics.functional import class_prototypes
from labeltree.taxonomy import Taxonomy

__all__ = ["Disk", "lay_out"]

_ANGLES = 180
_SWEEPS = 40
_STEPS = 12

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Disk:
    """A tree in the Poincaré disk of radius 1.

    Attributes:
        nodes: the nodes that are drawn, in node order. One whose samples all belong to one child is left out.
        places: ``(len(nodes), 2)`` where their means lie.
        labels: ``(m,)`` labels of the samples that are drawn.
        points: ``(m, 2)`` where they lie.
        agreement: correlation of the drawn distances between nodes with those in the ball; NaN below 3 nodes.
        left_out: how many further nodes have samples.
    """

    nodes: list[int]
    places: Array
    labels: Tensor
    points: Array
    agreement: float
    left_out: int


def lay_out(
    reading: Reading, rows: Tensor, shown: Tensor, nodes: Tensor, taxonomy: Taxonomy, *, limit: int = 160
) -> Disk:
    """Lay out the means of nodes, and samples around them.

    The ball is moved, as a whole and without changing a distance, so that the mean of all samples is its
    centre. Every node (the Karcher mean of the samples at or below it) and every sample keeps its distance
    from there. Their angles are chosen, starting from the principal plane, so that the distances between
    the drawn nodes are as much as possible those in the ball: the sum of squared differences, lowered
    angle by angle. The tree is not looked at: where its branches lie apart, they do so in the ball.

    Args:
        reading: embeddings in the Poincaré ball.
        rows: ``(n,)`` labelled rows whose means are drawn.
        shown: ``(m,)`` rows that are drawn as points.
        nodes: labels of all rows of the table.
        taxonomy: of the labels.
        limit: how many nodes to draw at most, those with most samples.
    """
    ball = reading.geometry
    if not isinstance(ball, PoincareBall):
        raise ValueError(f"the embeddings lie in '{ball.name}', expected 'poincare'")
    points = reading.points.double()
    means = class_prototypes(points[rows], nodes[rows], taxonomy, ball, steps=_STEPS)
    paths = taxonomy.ancestors[nodes[rows]]
    counts = torch.bincount(paths[paths >= 0], minlength=taxonomy.num_nodes)
    inner = torch.arange(1, taxonomy.num_nodes)
    parents = taxonomy.parent[inner]
    repeated = torch.zeros(taxonomy.num_nodes, dtype=torch.bool)
    repeated[parents[counts[inner] == counts[parents]]] = True  # it lies where its only child lies
    repeated[0] = False
    known = ((counts > 0) & ~repeated).nonzero().squeeze(1)
    order = torch.argsort(counts[known], descending=True, stable=True)[:limit]
    drawn = known[order].sort().values
    unit = math.sqrt(-ball.curvature) if ball.scaled else 1.0
    centre, places = means[0], means[drawn]
    apart = unit * ball.pairwise_distance(places, places).numpy()
    far = unit * ball.distance(centre[None], places).numpy()
    far_points = unit * ball.distance(centre[None], points[shown]).numpy()
    tangent = ball.log(centre[None], places).numpy()
    angles = _fit(far, apart, _start(tangent))
    to_nodes = unit * ball.pairwise_distance(points[shown], places).numpy()
    around = _best_angles(far_points, far, angles, to_nodes)
    upper = np.triu_indices(len(drawn), 1)
    drawn_apart = _distance(far[:, None], far[None, :], angles[:, None] - angles[None, :])[upper]
    agreement = (
        float(np.corrcoef(drawn_apart, apart[upper])[0, 1])
        if len(drawn) > 2 and apart[upper].std() > 0 and drawn_apart.std() > 0
        else math.nan
    )
    return Disk(
        nodes=drawn.tolist(),
        places=_in_disk(far, angles),
        labels=nodes[shown],
        points=_in_disk(far_points, around),
        agreement=agreement,
        left_out=len(known) - len(drawn),
    )


def _in_disk(distance: Array, angles: Array) -> Array:
    radius = np.tanh(distance / 2)
    return np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=1)


def _distance(a: Array, b: Array, angle: Array) -> Array:
    """Distance of two points ``a`` and ``b`` away from the centre, by the hyperbolic law of cosines."""
    half = np.sin(angle / 2) ** 2  # cosh(a − b) + 2 sinh a sinh b sin²(θ/2): no difference of large numbers
    return np.asarray(np.arccosh(np.maximum(np.cosh(a - b) + 2 * np.sinh(a) * np.sinh(b) * half, 1.0)))


def _start(tangent: Array) -> Array:
    """Angles in the plane of the two principal directions around the centre."""
    _, _, directions = np.linalg.svd(tangent, full_matrices=False)
    axes = np.zeros((2, tangent.shape[1]))
    axes[: min(2, len(directions))] = directions[:2]
    axes *= np.where(axes.sum(1) < 0, -1.0, 1.0)[:, None]
    flat = tangent @ axes.T
    return np.asarray(np.arctan2(flat[:, 1], flat[:, 0]))


def _fit(far: Array, apart: Array, angles: Array) -> Array:
    """Move one angle after the other to the best of `_ANGLES` directions until none moves."""
    angles = angles.copy()
    others = np.ones(len(far), dtype=bool)
    for _ in range(_SWEEPS):
        moved = False
        for i in range(len(far)):
            others[i] = False
            best = _best_angles(
                far[i : i + 1], far[others], angles[others], apart[i : i + 1, others], angles[i]
            )
            others[i] = True
            moved |= bool(abs(best[0] - angles[i]) > 1e-9)
            angles[i] = best[0]
        if not moved:
            break
    return angles


def _best_angles(far: Array, far_nodes: Array, angles: Array, apart: Array, now: float = 0.0) -> Array:
    """For each point alone, the angle at which its distances to the nodes fit best: ``(m,)``.

    Candidates are `_ANGLES` equal steps from ``now``, so that a point that lies well stays.
    """
    candidates = now + 2 * math.pi * np.arange(_ANGLES) / _ANGLES
    if not len(far_nodes):
        return np.full(len(far), now)
    turn = np.sin((candidates[:, None] - angles[None, :]) / 2) ** 2
    best = np.empty(len(far))
    for i, (r, wanted) in enumerate(zip(far, apart, strict=True)):
        across = 2 * np.sinh(r) * np.sinh(far_nodes)
        found = np.arccosh(np.maximum(np.cosh(r - far_nodes)[None, :] + across[None, :] * turn, 1.0))
        best[i] = candidates[int(np.argmin(((found - wanted[None, :]) ** 2).sum(1)))]
    return best
