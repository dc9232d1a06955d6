"""The map: embeddings of some samples, projected to the plane and coloured by the tree."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.evaluation import Reading
from labeltree.report.charts.bar_charts import clip
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.charts.svg import Drawing, marker, text_width
from labeltree.report.charts.tree_colours import TreeColours
from labeltree.taxonomy import Taxonomy

__all__ = ["Plane", "draw_plane", "draw_samples", "principal_axes", "project"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Plane:
    """Points in the plane.

    Attributes:
        points: `(m, 2)` float64.
        nodes: `(m,)` their labels.
        method: How they were projected, in words.
    """

    points: Array
    nodes: Tensor
    method: str


def project(reading: Reading, rows: Tensor, nodes: Tensor, *, method: str = "t-SNE", seed: int = 0) -> Plane:
    """Project the vectors of a representation to the plane, the same way for the same input.

    Args:
        reading: What to project; of the Poincaré ball, the tangent space at the centre.
        rows: `(m,)` the rows to project.
        nodes: `(m,)` their labels.
        method: `t-SNE` or `PCA`; fewer than 30 samples always get PCA.
        seed: Of t-SNE.
    """
    check_choice("method", method, ("t-SNE", "PCA"))
    points, geometry = reading.vectors[rows], reading.representation.geometry
    points = torch.nn.functional.normalize(points, dim=1) if geometry == "sphere" else points
    vectors = points.double().numpy()
    centred = vectors - vectors.mean(0)
    axes, values = principal_axes(centred)
    flat, total = centred @ axes.T, float((values**2).sum())
    share = float((values[:2] ** 2).sum()) / total if total else 1.0
    where = " of the tangent space at the centre of the Poincaré ball" if geometry == "poincare" else ""
    if method == "PCA" or len(vectors) < 30:
        return Plane(flat, nodes, f"PCA{where}; the two axes hold {100 * share:.0f} % of the variance")
    return Plane(
        _tsne(vectors, flat, seed),
        nodes,
        f"t-SNE{where}; only neighbourhoods mean something, not axes or gaps",
    )


def principal_axes(vectors: Array) -> tuple[Array, Array]:
    """The two directions along which vectors `(n, d)` are longest, `(2, d)`, and all singular values.

    The entries of each direction sum to 0 or more, since a singular vector has no sign of its own.
    """
    _, values, directions = np.linalg.svd(vectors, full_matrices=False)
    axes = np.zeros((2, vectors.shape[1]))
    axes[: min(2, len(directions))] = directions[:2]
    axes *= np.where(axes.sum(1) < 0, -1.0, 1.0)[:, None]
    return axes, values


def _tsne(vectors: Array, start: Array, seed: int) -> Array:
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    if vectors.shape[1] > 50 and len(vectors) > 50:
        vectors = PCA(50, svd_solver="full").fit_transform(vectors)
    deviation = start[:, 0].std() or 1.0
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    init = 1e-4 * start / deviation
    # the usual 1,000 steps at an angle of 0.5 take 2.4 times as long and keep no more of the neighbours
    fast: dict[str, Any] = {"max_iter": 500, "angle": 0.8}
    # one thread: several sum in varying order, and t-SNE amplifies the difference
    with threadpool_limits(limits=1):
        tsne = TSNE(perplexity=perplexity, init=init, random_state=seed, n_jobs=1, **fast)
        return np.asarray(tsne.fit_transform(vectors), dtype=np.float64)


def draw_plane(
    plane: Plane, taxonomy: Taxonomy, colours: TreeColours, names: NodeNames, title: str
) -> Markup:
    """Draw the points: colour and marker by branch, shade by class, names at the classes."""
    width, height, pad = 860.0, 620.0, 26.0
    low, high = plane.points.min(0), plane.points.max(0)
    span = np.maximum(high - low, 1e-12)
    scale = min((width - 2 * pad) / span[0], (height - 2 * pad) / span[1])
    middle = (low + high) / 2
    x = width / 2 + scale * (plane.points[:, 0] - middle[0])
    y = height / 2 - scale * (plane.points[:, 1] - middle[1])
    drawing = Drawing(width, height, title, "chart plane")
    radius = 3.6 if len(x) <= 800 else 3.0 if len(x) <= 2000 else 2.5
    draw_samples(drawing, plane.nodes, np.stack([x, y], axis=1), colours, names, radius, "points")
    places = _label_places(plane.nodes, x, y, taxonomy)
    texts = {node: clip(taxonomy.names[node], 24) for node in places}
    for node, (px, py) in _apart(places, texts, width, height).items():
        drawing.text(px, py + 4, texts[node], "halo mid")
    return drawing.markup()


def draw_samples(
    drawing: Drawing,
    nodes: Tensor,
    points: Array,
    colours: TreeColours,
    names: NodeNames,
    radius: float,
    css: str,
) -> None:
    """Draw a mark for each sample, grouped by label: `nodes` (m,), `points` (m, 2) on the page."""
    for node in torch.unique(nodes).tolist():
        name, shape = names.full(node), colours.shape(node)
        with drawing.group(name, css=css, fill=colours.colour(node), data_name=name):
            for x, y in points[(nodes == node).numpy()].tolist():
                drawing.add("path", d=marker(shape, x, y, radius))


def _label_places(
    nodes: Tensor, x: Array, y: Array, taxonomy: Taxonomy, limit: int = 24
) -> dict[int, tuple[float, float]]:
    """Where to write names: of the finest depth with at most `limit` nodes, among their points."""
    for depth in range(taxonomy.max_depth, 0, -1):
        groups = taxonomy.paths[nodes, depth - 1]
        if len(torch.unique(groups[groups > 0])) <= limit or depth == 1:
            break
    members: dict[int, list[int]] = defaultdict(list)
    for row, node in enumerate(groups.tolist()):
        if node > 0:
            members[node].append(row)
    largest = sorted(members, key=lambda node: (-len(members[node]), node))[:limit]
    places = {}
    for node in sorted(largest):
        rows = members[node]
        centre = np.median(x[rows]), np.median(y[rows])
        nearest = rows[int(np.argmin((x[rows] - centre[0]) ** 2 + (y[rows] - centre[1]) ** 2))]
        places[node] = (float(x[nearest]), float(y[nearest]))
    return places


_NAME = 17.0  # size of the names, in pixels, where it is greatest: on a narrow screen


def _apart(
    places: dict[int, tuple[float, float]], names: dict[int, str], width: float, height: float
) -> dict[int, tuple[float, float]]:
    """Move names apart that would overlap, and into the drawing."""
    half = {node: min(text_width(name, _NAME), width) / 2 + 2 for node, name in names.items()}
    spots = {node: [min(max(px, half[node]), width - half[node]), py] for node, (px, py) in places.items()}
    nodes, line = list(spots), _NAME + 2
    for _ in range(80):
        moved = False
        for i, a in enumerate(nodes):
            for b in nodes[i + 1 :]:
                dx, dy = spots[b][0] - spots[a][0], spots[b][1] - spots[a][1]
                if abs(dx) < half[a] + half[b] and abs(dy) < line - 0.01:
                    push = (line - abs(dy)) / 2 * (1 if dy >= 0 else -1)
                    spots[a][1] -= push
                    spots[b][1] += push
                    moved = True
        for spot in spots.values():
            spot[1] = min(max(spot[1], line), height - line)
        if not moved:
            break
    return {node: (px, py) for node, (px, py) in spots.items()}
