"""The Poincaré disk with the tree drawn in: means of nodes, geodesics from parents to children."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import torch
from markupsafe import Markup

from labeltree.report.charts import clip
from labeltree.report.disk_layout import Disk
from labeltree.report.names import NodeNames
from labeltree.report.palette import TreeColours
from labeltree.report.svg import Drawing, marker
from labeltree.taxonomy import Taxonomy

__all__ = ["draw_disk", "geodesic"]

_WIDTH, _HEIGHT, _RADIUS = 860.0, 680.0, 300.0
_MOST_NAMES = 36


def draw_disk(
    disk: Disk, taxonomy: Taxonomy, colours: TreeColours, names: NodeNames, *, title: str
) -> Markup:
    """Draw samples small and pale, nodes larger the coarser they are, and geodesics along the tree."""
    drawing = Drawing(_WIDTH, _HEIGHT, title, "chart plane disk")
    cx, cy = _WIDTH / 2, _HEIGHT / 2
    drawing.add("circle", cx=cx, cy=cy, r=_RADIUS, css="rim")
    for ring in range(1, 6):
        drawing.add("circle", cx=cx, cy=cy, r=_RADIUS * math.tanh(ring / 2), css="ring")
        if ring < 4:
            drawing.text(cx + 4, cy - _RADIUS * math.tanh(ring / 2) - 3, str(ring), "tick")
    at = {node: _on_page(place) for node, place in zip(disk.nodes, disk.places, strict=True)}
    for node in torch.unique(disk.labels).tolist():
        rows = (disk.labels == node).nonzero().squeeze(1).tolist()
        drawing.raw(
            Markup('<g class="points faint" fill="{}" data-name="{}"><title>{}</title>').format(
                colours.colour(node), names.full(node), names.full(node)
            )
        )
        for i in rows:
            drawing.add("path", d=marker(colours.shape(node), *_on_page(disk.points[i]), 2.3))
        drawing.raw(Markup("</g>"))
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
        drawing.raw(
            Markup('<g class="mean" fill="{}" data-name="{}"><title>{}</title>').format(
                colours.colour(node) if node else "currentColor", names.full(node), names.full(node)
            )
        )
        drawing.add("path", d=marker(colours.shape(node), *at[node], size))
        drawing.raw(Markup("</g>"))
    _names(drawing, disk, taxonomy, names)
    return drawing.markup()


def geodesic(p: np.ndarray[Any, Any], q: np.ndarray[Any, Any]) -> str:
    """Path data of the geodesic of the unit disk between two of its points, at the size of the drawing.

    It is an arc of the circle through both that meets the rim at right angles: its centre c solves
    ``2 p·c = 1 + |p|²`` and ``2 q·c = 1 + |q|²``. Through the disk's centre it is a straight line.
    """
    (x1, y1), (x2, y2) = _on_page(p), _on_page(q)
    cross = float(p[0] * q[1] - p[1] * q[0])
    if abs(cross) < 1e-4:
        return f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
    a, b = (1 + float(p @ p)) / 2, (1 + float(q @ q)) / 2
    centre = np.array([a * q[1] - b * p[1], b * p[0] - a * q[0]]) / cross
    radius = _RADIUS * math.sqrt(max(float(centre @ centre) - 1, 0.0))
    turn = float((p - centre)[0] * (q - centre)[1] - (p - centre)[1] * (q - centre)[0])
    return f"M{x1:.1f} {y1:.1f}A{radius:.1f} {radius:.1f} 0 0 {int(turn < 0)} {x2:.1f} {y2:.1f}"


def _on_page(place: np.ndarray[Any, Any]) -> tuple[float, float]:
    return _WIDTH / 2 + _RADIUS * float(place[0]), _HEIGHT / 2 - _RADIUS * float(place[1])


def _names(drawing: Drawing, disk: Disk, taxonomy: Taxonomy, names: NodeNames) -> None:
    """Write names beside the coarsest nodes, away from the centre; none on top of another or of a mark."""
    marks = [_on_page(place) for place in disk.places]
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
