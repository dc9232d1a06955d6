"""Draw the two pictures of the front page: where a loss puts samples of nine classes.

    python docs/examples/front_picture.py docs/images

There is no encoder and no data: the points themselves are what a loss moves, on a circle, until it has no
reason to move them further. Noise that fades keeps classes from being stuck behind each other.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import torch
from torch.nn.functional import normalize

import labeltree as lt

BRANCHES = {
    "animal": ["dog", "wolf", "cat"],
    "plant": ["oak", "fir", "rose"],
    "vehicle": ["car", "bus", "bike"],
}
COLOURS = {"animal": "#c9772f", "plant": "#3e9160", "vehicle": "#4a80bd"}  # legible on white and on black
TEXT = "#6b838c"
SAMPLES, STEPS, SEED = 12, 600, 0
SIZE, RADIUS = 340, 104


def settle(loss: torch.nn.Module, nodes: torch.Tensor) -> torch.Tensor:
    """Points on the circle that minimise a loss, ``(n, 2)``, with a little noise that keeps them apart."""
    draw = torch.Generator().manual_seed(SEED)
    points = torch.randn(len(nodes), 2, generator=draw).requires_grad_()
    optimizer = torch.optim.Adam([points], lr=0.05)
    for step in range(STEPS):
        noise = 0.9 * (1 - step / STEPS) * torch.randn(points.shape, generator=draw)
        optimizer.zero_grad()
        loss(normalize(points, dim=1) + noise, nodes).backward()
        optimizer.step()
    return normalize(points.detach(), dim=1) + 0.06 * torch.randn(points.shape, generator=draw)


def picture(title: str, remark: str, points: torch.Tensor) -> str:
    """An SVG with a dot for each sample in the colour of its branch, and the classes' names beside them."""
    middle, shapes = SIZE / 2, []
    classes = [(branch, name) for branch, names in BRANCHES.items() for name in names]
    for (branch, name), dots in zip(classes, points.split(SAMPLES), strict=True):
        shapes.append(f'<g fill="{COLOURS[branch]}">')
        for x, y in dots.tolist():
            shapes.append(f'<circle cx="{middle + RADIUS * x:.1f}" cy="{middle - RADIUS * y:.1f}" r="4"/>')
        x, y = normalize(dots.mean(dim=0), dim=0).tolist()
        anchor = "start" if x > 0.35 else "end" if x < -0.35 else "middle"
        across, up = middle + (RADIUS + 23) * x, middle - (RADIUS + 24) * y + 5
        shapes.append(f'<text x="{across:.1f}" y="{up:.1f}" text-anchor="{anchor}">{name}</text></g>')
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 32 {SIZE} {SIZE - 56}"
 width="{SIZE}" height="{SIZE - 56}" role="img" aria-labelledby="t"
 font-family="system-ui, sans-serif" font-size="15" text-anchor="middle">
<title id="t">{title}: {remark}</title>
<circle cx="{middle}" cy="{middle}" r="{RADIUS}" fill="none" stroke="#8fa5ab" stroke-opacity=".6"/>
{chr(10).join(shapes)}
<text x="{middle}" y="{middle - 4}" fill="{TEXT}" font-size="17" font-weight="600">{title}</text>
<text x="{middle}" y="{middle + 18}" fill="{TEXT}" font-size="13">{remark}</text>
</svg>
"""


def main(out: Path) -> None:
    """Write both pictures."""
    paths = [(branch, name) for branch, names in BRANCHES.items() for name in names]
    taxonomy = lt.Taxonomy.from_paths(paths)
    nodes = taxonomy.encode([name for _, name in paths]).repeat_interleave(SAMPLES)
    flat = lt.losses.SupConLoss(taxonomy, temperature=0.3)
    tree = lt.losses.HiMulConLoss(taxonomy, temperature=0.3)
    for name, title, remark, loss in (
        ("front-flat", "without the tree", "neighbours by chance", flat),
        ("front-tree", "with the tree", "relatives are neighbours", tree),
    ):
        points = settle(loss, nodes)
        degrees = [round(math.degrees(math.atan2(y, x))) for x, y in points[::SAMPLES].tolist()]
        print(name, dict(zip([name for _, name in paths], degrees, strict=True)))
        (out / f"{name}.svg").write_text(picture(title, remark, points), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
