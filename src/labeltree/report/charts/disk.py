"""The tree in the Poincaré disk: distances from the centre are exact, angles are fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor

from labeltree.evaluation import Reading
from labeltree.geometry import PoincareBall
from labeltree.metrics.functional import class_prototypes
from labeltree.report.charts.bar_charts import clip
from labeltree.report.charts.map_projection import draw_samples, principal_axes
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.charts.svg import Drawing, marker
from labeltree.report.charts.tree_colours import TreeColours
from labeltree.taxonomy import Taxonomy

__all__ = ["Disk", "draw_disk", "geodesic", "lay_out"]

_ANGLES = 180
_SWEEPS = 40
_STEPS = 12

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Disk:
    """A tree in the Poincaré disk of radius 1.

    Attributes:
        nodes: The drawn nodes in node order, without nodes whose samples all belong to one child.
        places: `(len(nodes), 2)` positions of the node means.
        labels: `(m,)` labels of the drawn samples.
        points: `(m, 2)` positions of the drawn samples.
        agreement: Correlation between drawn and true (ball) distances of nodes; NaN with fewer than 3 nodes.
        left_out: Number of nodes that have samples but are not drawn.
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

    An isometry moves the mean of all samples to the centre of the ball. Every node (the Karcher mean of the
    samples at or below it) and every sample keeps its distance from the centre. From the principal plane,
    the angles are optimised one by one so that the drawn distances between nodes fit those in the ball (least
    squares). The layout does not use the tree: branches that are apart in the drawing are apart in the ball.

    Args:
        reading: Embeddings in the Poincaré ball.
        rows: `(n,)` labelled rows whose means are drawn.
        shown: `(m,)` rows that are drawn as points.
        nodes: Labels of all rows of the table.
        taxonomy: Taxonomy of the labels.
        limit: Maximum number of nodes to draw; nodes with more samples come first.
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
    repeated[parents[counts[inner] == counts[parents]]] = True  # same mean as its only child with samples
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
    flat = tangent @ principal_axes(tangent)[0].T
    angles = _fit(far, apart, np.arctan2(flat[:, 1], flat[:, 0]))
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
        places=_project_to_disk(far, angles),
        labels=nodes[shown],
        points=_project_to_disk(far_points, around),
        agreement=agreement,
        left_out=len(known) - len(drawn),
    )


def _project_to_disk(distance: Array, angles: Array) -> Array:
    radius = np.tanh(distance / 2)
    return np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=1)


def _distance(a: Array, b: Array, angle: Array) -> Array:
    """Distance of two points `a` and `b` away from the centre, by the hyperbolic law of cosines."""
    half = np.sin(angle / 2) ** 2  # cosh(a − b) + 2 sinh a sinh b sin²(θ/2): no difference of large numbers
    return np.asarray(np.arccosh(np.maximum(np.cosh(a - b) + 2 * np.sinh(a) * np.sinh(b) * half, 1.0)))


def _fit(far: Array, apart: Array, angles: Array) -> Array:
    """Set each angle in turn to the best of `_ANGLES` directions, until no angle changes."""
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
    """The angle of each point at which its distances to the nodes fit best, points fitted singly: `(m,)`.

    Candidates are `_ANGLES` equal steps from `now`, so that a well-placed point does not move.
    """
    candidates = now + 2 * math.pi * np.arange(_ANGLES) / _ANGLES
    if not len(far_nodes):
        return np.full(len(far), now)
    turn = np.sin((candidates[:, None] - angles[None, :]) / 2) ** 2
    best = np.empty(len(far))
    for i, (r, wanted) in enumerate(zip(far, apart, strict=True)):
        across = 2 * np.sinh(r) * np.sinh(far_nodes)
        distances = np.arccosh(np.maximum(np.cosh(r - far_nodes)[None, :] + across[None, :] * turn, 1.0))
        best[i] = candidates[int(np.argmin(((distances - wanted[None, :]) ** 2).sum(1)))]
    return best


_WIDTH, _HEIGHT, _RADIUS = 860.0, 680.0, 300.0
_MOST_NAMES = 36


def draw_disk(
    disk: Disk, taxonomy: Taxonomy, colours: TreeColours, names: NodeNames, *, title: str
) -> Markup:
    """Draw the samples as small pale marks, coarser nodes as larger marks, and tree edges as geodesics."""
    drawing = Drawing(_WIDTH, _HEIGHT, title, "chart plane disk")
    cx, cy = _WIDTH / 2, _HEIGHT / 2
    drawing.add("circle", cx=cx, cy=cy, r=_RADIUS, css="rim")
    for ring in range(1, 6):
        drawing.add("circle", cx=cx, cy=cy, r=_RADIUS * math.tanh(ring / 2), css="ring")
        if ring < 4:
            drawing.text(cx + 4, cy - _RADIUS * math.tanh(ring / 2) - 3, str(ring), "tick")
    at = {node: _page_place(place) for node, place in zip(disk.nodes, disk.places, strict=True)}
    points = np.array([_page_place(point) for point in disk.points]).reshape(-1, 2)
    draw_samples(drawing, disk.labels, points, colours, names, 2.3, "points faint")
    places = dict(zip(disk.nodes, disk.places, strict=True))
    for node in disk.nodes:
        above = [parent for parent in taxonomy.ancestors_of(node) if parent in places]
        if above:
            parent = above[-1]
            thick = max(3.2 - 0.7 * int(taxonomy.depth[node]), 0.9)
            drawing.add(
                "path",
                d=geodesic(places[parent], places[node]),
                css="edge",
                stroke=colours.colour(node),
                stroke_width=thick,
            )
    for node in disk.nodes:
        size = max(8.5 - 1.6 * int(taxonomy.depth[node]), 3.2)
        name, colour = names.full(node), colours.colour(node) if node else "currentColor"
        with drawing.group(name, css="mean", fill=colour, data_name=name):
            drawing.add("path", d=marker(colours.shape(node), *at[node], size))
    _names(drawing, disk, taxonomy)
    return drawing.markup()


def geodesic(p: Array, q: Array) -> str:
    """SVG path data of the geodesic of the unit disk between two points p and q, in drawing units.

    It is an arc of the circle through p and q that meets the rim at right angles: its centre c solves
    `2 p·c = 1 + |p|²` and `2 q·c = 1 + |q|²`. A geodesic through the disk's centre is a straight line.
    """
    (x1, y1), (x2, y2) = _page_place(p), _page_place(q)
    cross = float(p[0] * q[1] - p[1] * q[0])
    if abs(cross) < 1e-4:
        return f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
    a, b = (1 + float(p @ p)) / 2, (1 + float(q @ q)) / 2
    centre = np.array([a * q[1] - b * p[1], b * p[0] - a * q[0]]) / cross
    radius = _RADIUS * math.sqrt(max(float(centre @ centre) - 1, 0.0))
    turn = float((p - centre)[0] * (q - centre)[1] - (p - centre)[1] * (q - centre)[0])
    return f"M{x1:.1f} {y1:.1f}A{radius:.1f} {radius:.1f} 0 0 {int(turn < 0)} {x2:.1f} {y2:.1f}"


def _page_place(place: Array) -> tuple[float, float]:
    return _WIDTH / 2 + _RADIUS * float(place[0]), _HEIGHT / 2 - _RADIUS * float(place[1])


def _names(drawing: Drawing, disk: Disk, taxonomy: Taxonomy) -> None:
    """Write names beside the coarsest nodes, away from the centre, without overlap of names or marks."""
    marks = [_page_place(place) for place in disk.places]
    taken = [(x - 6.0, y - 6.0, x + 6.0, y + 6.0) for x, y in marks]
    order = sorted(range(len(disk.nodes)), key=lambda i: (int(taxonomy.depth[disk.nodes[i]]), i))
    written = 0
    for i in order:
        node = disk.nodes[i]
        if node == 0 or written >= _MOST_NAMES:
            continue
        text = clip(taxonomy.names[node], 22)
        inner = bool(taxonomy.children(node))
        x, y = marks[i]
        width = 7.2 * len(text) + 8
        outward = float(disk.places[i][0]) >= 0
        for right, shift in product((outward, not outward), (0.0, 15.0, -15.0, 28.0, -28.0)):
            left = x + 11 if right else x - 11 - width
            box = (left, y + shift - 8, left + width, y + shift + 8)
            if not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
                taken.append(box)
                css = "halo" + ("" if right else " end") + (" coarse" if inner else "")
                drawing.text(x + 11 if right else x - 11, y + shift + 4.5, text, css)
                written += 1
                break
