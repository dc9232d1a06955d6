"""The Poincaré disk: distances from the centre are kept, angles fit, geodesics are geodesics."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from html_page import Page, overlaps, text_boxes
from report_inputs import SMALL, random_table

from labeltree.evaluation import Reading, read
from labeltree.geometry import PoincareBall
from labeltree.report.charts.disk import Disk, draw_disk, geodesic, lay_out
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.charts.tree_colours import TreeColours
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

TREE = Taxonomy.from_paths([*SMALL, ("only", "child")])


def table(dim: int, curvature: float = -1.0) -> EmbeddingTable:
    made = random_table(TREE, 12, noise=0.3)
    made = replace(made, geometry="poincare", curvature=curvature)
    return replace(made, embeddings=made.space.embed(0.6 * made.embeddings[:, :dim]))


def laid_out(given: EmbeddingTable, **options: int) -> tuple[Disk, Reading]:
    reading = read(given, "embeddings")
    rows = torch.arange(len(given))
    return lay_out(reading, rows, rows[::3], given.nodes, TREE, **options), reading


def between(a: np.ndarray, b: np.ndarray) -> float:
    ball = PoincareBall(eps=1e-9)
    return float(ball.distance(torch.from_numpy(a)[None], torch.from_numpy(b)[None]))


@pytest.mark.parametrize("curvature", [-1.0, -0.25])
def test_distances_from_the_centre_are_those_of_the_ball(curvature: float) -> None:
    given = table(5, curvature)
    disk, reading = laid_out(given)
    points = reading.points.double()
    centre = given.space.group_means(points, torch.zeros(len(points), dtype=torch.long), 1, steps=12)
    true = given.space.distance(centre, points[::3]) * math.sqrt(-curvature)
    drawn = [between(point, np.zeros(2)) for point in disk.points]
    assert drawn == pytest.approx(true.tolist(), rel=1e-5)


def test_what_lies_in_a_plane_is_drawn_as_it_is() -> None:
    disk, reading = laid_out(table(2))
    assert disk.agreement > 0.995
    points = reading.points.double()[::3]
    true = reading.geometry.distance(points[0][None], points[1:]).numpy()
    drawn = np.array([between(disk.points[0], point) for point in disk.points[1:]])
    assert np.corrcoef(true, drawn)[0, 1] > 0.99


def test_nodes_are_drawn_once_and_the_largest_first() -> None:
    disk, _ = laid_out(table(3))
    names = [TREE.names[node] for node in disk.nodes]
    assert "child" in names
    assert "only" not in names, "it lies where its only child lies"
    few, _ = laid_out(table(3), limit=3)
    assert [TREE.names[node] for node in few.nodes] == ["root", "apparel", "footwear"]
    assert few.left_out == len(disk.nodes) - 3
    with pytest.raises(ValueError, match="'sphere', expected 'poincare'"):
        lay_out(
            read(random_table(TREE, 3), "embeddings"), torch.arange(3), torch.arange(3), TREE.leaves, TREE
        )


@pytest.mark.parametrize(
    ("p", "q"), [((0.3, 0.1), (-0.2, 0.7)), ((0.9, 0.1), (0.8, -0.3)), ((0.1, -0.5), (0.6, 0.6))]
)
def test_geodesics_meet_the_rim_at_right_angles(p: tuple[float, float], q: tuple[float, float]) -> None:
    a, b = np.array(p), np.array(q)
    x1, y1, r, _, _, _, sweep, x2, y2 = map(float, re.findall(r"-?[\d.]+", geodesic(a, b)))
    radius = r / 300
    chord, middle = b - a, (a + b) / 2
    aside = math.sqrt(radius**2 - chord @ chord / 4) * np.array([-chord[1], chord[0]]) / np.linalg.norm(chord)
    # on the page y runs down: sweep 1 turns clockwise there, and its centre lies to the right of the way
    centre = middle - aside if sweep else middle + aside
    assert centre @ centre == pytest.approx(1 + radius**2, rel=1e-2)
    assert (x1, y1) == pytest.approx((430 + 300 * p[0], 340 - 300 * p[1]), abs=0.06)
    assert (x2, y2) == pytest.approx((430 + 300 * q[0], 340 - 300 * q[1]), abs=0.06)


def test_through_the_centre_it_is_straight() -> None:
    assert "A" not in geodesic(np.array([0.2, 0.4]), np.array([-0.1, -0.2]))
    assert "A" not in geodesic(np.zeros(2), np.array([0.5, 0.2]))


def test_the_drawing_names_what_it_shows() -> None:
    given = table(4)
    disk, _ = laid_out(given)
    page = Page(
        str(draw_disk(disk, TREE, TreeColours(TREE, given.nodes), NodeNames(TREE), title="tree & disk"))
    )
    for name in ("apparel", "footwear", "child"):
        assert name in page.text
    edges = [a for tag, a in page.tags if a.get("class") == "edge"]
    assert len(edges) == len(disk.nodes) - 1


def test_few_names_are_written_and_none_of_the_root() -> None:
    wide = Taxonomy.from_paths([(f"n{place}",) for place in range(60)])
    turns = np.linspace(0, 2 * math.pi, 61)
    places = 0.95 * np.stack([np.cos(turns), np.sin(turns)], 1)
    places[0] = 0
    disk = Disk(list(range(61)), places, torch.tensor([1]), places[:1], math.nan, 0)
    drawing = str(
        draw_disk(disk, wide, TreeColours(wide, torch.arange(1, 61)), NodeNames(wide), title="wide")
    )
    names = re.findall(r'class="halo[^>]*>([^<]*)<', drawing)
    assert len(names) == 36
    assert set(names) <= set(wide.names[1:])


def test_names_in_a_crowd_lie_neither_on_one_another_nor_on_marks() -> None:
    wide = Taxonomy.from_paths([(f"name {place}",) for place in range(30)])
    draw = np.random.default_rng(0)
    places = np.concatenate([np.zeros((1, 2)), draw.uniform(-0.2, 0.2, (30, 2))])
    disk = Disk(list(range(31)), places, torch.tensor([1]), places[:1], math.nan, 0)
    drawing = str(
        draw_disk(disk, wide, TreeColours(wide, torch.arange(1, 31)), NodeNames(wide), title="wide")
    )
    boxes = {text: box for text, box in text_boxes(drawing, 13).items() if text.startswith("name ")}
    assert 5 < len(boxes) < 30, "some have no room"
    assert overlaps(boxes) == []
    marks = {
        f"{i}": (430 + 300 * x - 4, 340 - 300 * y - 4, 430 + 300 * x + 4, 340 - 300 * y + 4)
        for i, (x, y) in enumerate(places)
    }
    assert [pair for pair in overlaps(boxes | marks) if pair[0] in boxes] == []


@pytest.mark.parametrize(
    ("paths", "drawn"),
    [
        ([("top", "a"), ("top", "b")], ["root", "top", "a", "b"]),
        ([("top", "only"), ("other", "a"), ("other", "b")], ["root", "only", "other", "a", "b"]),
        ([("top", "only")], ["root", "only"]),
    ],
)
def test_the_root_is_drawn_and_nodes_with_one_child_are_not(
    paths: list[tuple[str, str]], drawn: list[str]
) -> None:
    tree = Taxonomy.from_paths(paths)
    made = replace(random_table(tree, 12, noise=0.3), geometry="poincare", curvature=-1.0)
    made = replace(made, embeddings=made.space.embed(0.6 * made.embeddings[:, :3]))
    rows = torch.arange(len(made))
    disk = lay_out(read(made, "embeddings"), rows, rows[::3], made.nodes, tree)
    assert [tree.names[node] for node in disk.nodes] == drawn
