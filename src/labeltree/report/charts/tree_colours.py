"""Colours of nodes on the page: a hue for each main branch, a shade for everything finer."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from labeltree.report.charts.svg import SHAPES
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import short_name

__all__ = [
    "BRANCH_LIMIT",
    "TreeColours",
    "main_branches",
    "name_branches",
    "nearness_colour",
    "oklch",
]


BRANCH_LIMIT = 10


_GREY = ("#8b8f98",)


# Okabe and Ito's colours, safe for colour-blind readers, as (lightness, chroma, hue) of OKLCH, most different
# first; the lighter ones are darkened to be visible on white
_TONES = (
    (0.55, 0.13, 244.0),  # blue
    (0.68, 0.15, 70.0),  # orange
    (0.60, 0.13, 165.0),  # bluish green
    (0.66, 0.13, 346.0),  # reddish purple
    (0.69, 0.12, 236.0),  # sky blue
    (0.57, 0.17, 42.0),  # vermillion
    (0.70, 0.14, 100.0),  # yellow
    (0.54, 0.13, 300.0),
    (0.74, 0.10, 190.0),
    (0.50, 0.08, 60.0),
)


def main_branches(taxonomy: Taxonomy) -> list[int]:
    """The children of the first node from the root that has more than one; the leaf if there is only one."""
    top = 0
    while len(taxonomy.children(top)) == 1:
        top = taxonomy.children(top)[0]
    return taxonomy.children(top) or [top]


def name_branches(taxonomy: Taxonomy) -> str:
    """The names of the first main branches, for a sentence."""
    branches = main_branches(taxonomy)
    names = ", ".join(short_name(taxonomy.names[node]) for node in branches[:4])
    return names + (" …" if len(branches) > 4 else "")


@dataclass(frozen=True)
class Branch:
    """A main branch of the tree, as the figures show it."""

    node: int
    name: str
    colour: str
    shape: str


class TreeColours:
    """Gives every node the hue of its main branch and a shade by its place within it.

    At most `BRANCH_LIMIT` of the `main_branches`, those with the most samples, have a hue; the others share a
    grey.

    Args:
        taxonomy: The tree.
        nodes: `(n,)` labels of the samples that are shown.
    """

    def __init__(self, taxonomy: Taxonomy, nodes: Tensor) -> None:
        self.taxonomy = taxonomy
        children = main_branches(taxonomy)
        ends = {node: int(taxonomy.subtree_end[node]) for node in children}
        sizes = {node: int(((nodes >= node) & (nodes < ends[node])).sum()) for node in children}
        largest = sorted(children, key=lambda node: (-sizes[node], node))[:BRANCH_LIMIT]
        shown = [node for node in children if node in largest and sizes[node]]
        self.branches = [
            Branch(node, taxonomy.names[node], oklch(*_TONES[i]), SHAPES[i % len(SHAPES)])
            for i, node in enumerate(shown)
        ]
        self.others = sum(1 for node in children if sizes[node]) - len(shown)
        self._place = {branch.node: i for i, branch in enumerate(self.branches)}
        self._ends = ends

    def branch_of(self, node: int) -> Branch | None:
        """The main branch that a node lies in, or None: above all branches, or in one without a hue."""
        for branch in self.branches:
            if branch.node <= node < self._ends[branch.node]:
                return branch
        return None

    def colour(self, node: int) -> str:
        """The colour of a node: the hue of its branch, lighter or darker by its place within the branch."""
        branch = self.branch_of(node)
        if branch is None:
            return _GREY[0]
        size = self._ends[branch.node] - branch.node - 1
        if node == branch.node or size <= 1:
            return branch.colour
        place = (node - branch.node - 1) / max(size - 1, 1)
        lightness, chroma, hue = _TONES[self._place[branch.node]]
        lightness = min(max(lightness + 0.20 * (place - 0.5), 0.50), 0.78)
        return oklch(lightness, chroma - 0.03 * abs(2 * place - 1), hue + 16 * (place - 0.5))

    def shape(self, node: int) -> str:
        """The marker of a node's branch, so that colour is not the only cue."""
        branch = self.branch_of(node)
        return "circle" if branch is None else branch.shape


def nearness_colour(dissimilarity: float) -> str:
    """Blue for 0; then from light orange to dark red, darker for larger dissimilarities."""
    if dissimilarity <= 0:
        return oklch(0.58, 0.13, 244.0)
    place = min(dissimilarity, 1.0)
    return oklch(0.82 - 0.30 * place, 0.13 + 0.04 * place, 82.0 - 54.0 * place)


def oklch(lightness: float, chroma: float, hue: float) -> str:
    """The sRGB hex colour of an OKLCH colour, its chroma lowered until it is in gamut.

    In Björn Ottosson's OKLab, equal steps in lightness and hue look equally large.
    """
    while chroma > 0:
        channels = _linear_rgb(lightness, chroma, hue)
        if all(-1e-4 <= c <= 1.0001 for c in channels):
            break
        chroma -= 0.005
    else:
        channels = _linear_rgb(lightness, 0.0, hue)
    colour = "#"
    for channel in channels:
        linear = min(max(channel, 0.0), 1.0)
        share = 12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055
        colour += f"{round(255 * share):02x}"
    return colour


def _linear_rgb(lightness: float, chroma: float, hue: float) -> tuple[float, float, float]:
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
