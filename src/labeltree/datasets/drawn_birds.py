"""Little drawn birds in nested folders, order/family/species: pictures to try the library with.

Every bird differs in size, place, direction, light and background. Two things are as in nature: the two geese
hardly differ except in their bills, and a cuckoo looks like a sparrowhawk, which is not related to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

__all__ = ["BIRDS", "NEW_BIRDS", "draw_bird", "draw_birds"]

Colour = tuple[int, int, int]
SIZE = 64


@dataclass(frozen=True)
class Bird:
    """What a bird looks like: colours, and proportions as shares of the body."""

    body: Colour
    breast: Colour
    head: Colour
    wing: Colour
    bill: Colour
    bill_length: float = 0.16
    neck: float = 0.0
    tail: float = 0.45
    plump: float = 0.72
    barred: bool = False
    hooked: bool = False
    cheek: Colour | None = None


_TITS: dict[str, Any] = {"bill_length": 0.12, "tail": 0.5, "cheek": (250, 250, 250)}
_FINCHES: dict[str, Any] = {"bill_length": 0.12, "tail": 0.5, "plump": 0.82}
_GEESE: dict[str, Any] = {"bill_length": 0.28, "neck": 0.50, "tail": 0.15, "plump": 0.62}
_DUCKS: dict[str, Any] = {"bill_length": 0.30, "neck": 0.12, "tail": 0.18, "plump": 0.58}
_FALCONS: dict[str, Any] = {"bill_length": 0.14, "tail": 0.6, "hooked": True}
_HAWKS: dict[str, Any] = {**_FALCONS, "barred": True}
_CUCKOOS: dict[str, Any] = {"bill_length": 0.16, "tail": 0.65, "barred": True}

BIRDS = {
    "songbirds/tits/great-tit": Bird(
        (110, 130, 70), (235, 205, 60), (25, 25, 30), (90, 110, 130), (40, 40, 40), **_TITS
    ),
    "songbirds/tits/blue-tit": Bird(
        (110, 140, 90), (245, 220, 80), (60, 120, 205), (60, 115, 190), (50, 50, 50), **_TITS
    ),
    "songbirds/finches/bullfinch": Bird(
        (130, 130, 140), (225, 85, 75), (20, 20, 25), (50, 50, 60), (30, 30, 30), **_FINCHES
    ),
    "songbirds/finches/greenfinch": Bird(
        (125, 150, 60), (165, 185, 70), (120, 145, 60), (215, 200, 50), (225, 190, 170), **_FINCHES
    ),
    "waterfowl/geese/greylag-goose": Bird(
        (140, 125, 110), (180, 165, 150), (140, 122, 105), (115, 100, 90), (235, 130, 60), **_GEESE
    ),
    "waterfowl/geese/bean-goose": Bird(
        (136, 120, 104), (176, 160, 144), (122, 104, 88), (108, 94, 84), (70, 50, 40), **_GEESE
    ),
    "waterfowl/ducks/mallard": Bird(
        (190, 185, 180), (120, 70, 50), (20, 110, 70), (150, 145, 140), (225, 200, 60), **_DUCKS
    ),
    "waterfowl/ducks/shoveler": Bird(
        (165, 85, 45), (240, 240, 235), (25, 80, 60), (110, 160, 200), (40, 40, 40), **_DUCKS
    ),
    "raptors/hawks/sparrowhawk": Bird(
        (120, 130, 145), (225, 215, 205), (110, 120, 135), (105, 115, 130), (60, 60, 60), **_HAWKS
    ),
    "raptors/hawks/buzzard": Bird(
        (105, 75, 50), (200, 175, 140), (110, 80, 55), (85, 60, 40), (60, 50, 40), **_HAWKS
    ),
    "raptors/falcons/kestrel": Bird(
        (190, 110, 60), (235, 205, 165), (140, 150, 165), (180, 100, 55), (70, 70, 80), **_FALCONS
    ),
    "raptors/falcons/peregrine": Bird(
        (80, 90, 110), (245, 240, 230), (45, 50, 65), (70, 80, 100), (235, 200, 60), **_FALCONS,
        cheek=(245, 240, 230),
    ),
    "cuckoos/cuckoo": Bird(
        (124, 133, 148), (228, 219, 210), (128, 136, 150), (112, 120, 134), (80, 80, 60), **_CUCKOOS
    ),
}  # fmt: skip
NEW_BIRDS = {
    "waterfowl/swans/mute-swan": Bird(
        (245, 245, 242), (250, 250, 248), (244, 244, 240), (232, 232, 230), (235, 120, 50),
        bill_length=0.30, neck=0.75, tail=0.15, plump=0.62,
    ),
}  # fmt: skip
"""A species that is found later."""
_BACKGROUNDS = ((176, 208, 232), (196, 214, 170), (222, 222, 214), (150, 186, 196), (232, 214, 188))


def _oval(draw: ImageDraw.ImageDraw, x: float, y: float, rx: float, ry: float, fill: Colour) -> None:
    draw.ellipse((x - rx, y - ry, x + rx, y + ry), fill=fill)


def draw_bird(bird: Bird, rng: np.random.Generator) -> Image.Image:
    """One picture of `SIZE` × `SIZE` pixels of a bird, as `rng` places and lights it."""
    side = 2 * SIZE
    picture = Image.new("RGB", (side, side), _BACKGROUNDS[rng.integers(len(_BACKGROUNDS))])
    draw = ImageDraw.Draw(picture)
    for _ in range(6):  # leaves, waves, whatever is behind a bird
        x, y, r = rng.uniform(0, side), rng.uniform(0, side), rng.uniform(4, 22)
        _oval(draw, x, y, r, r * 0.5, _BACKGROUNDS[rng.integers(len(_BACKGROUNDS))])
    r = side * rng.uniform(0.20, 0.26)
    x, y = side * rng.uniform(0.42, 0.52), side * rng.uniform(0.54, 0.62)
    plump, tail = r * bird.plump, r * bird.tail
    hx, hy = x + r * 0.95, y - plump * 0.75 - r * bird.neck
    draw.polygon([(x - r * 0.7, y), (x - r - tail, y + tail * 0.4), (x - r - tail * 0.9, y + tail * 0.75),
                  (x - r * 0.5, y + plump * 0.5)], fill=bird.wing)  # fmt: skip
    for leg in (-0.05, 0.25):
        draw.line((x + r * leg, y + plump * 0.8, x + r * leg, y + plump + r * 0.35), fill=bird.bill, width=3)
    _oval(draw, x, y, r, plump, bird.body)
    if bird.neck:
        draw.line((x + r * 0.75, y, hx, hy), fill=bird.head, width=int(r * 0.36))
    _oval(draw, x + r * 0.35, y + plump * 0.22, r * 0.6, plump * 0.66, bird.breast)
    if bird.barred:
        for bar in np.linspace(-0.3, 0.75, 6):
            draw.line((x + r * 0.0, y + plump * bar, x + r * 0.8, y + plump * bar), fill=bird.body, width=3)
    _oval(draw, x - r * 0.25, y - plump * 0.05, r * 0.58, plump * 0.42, bird.wing)
    head = r * (0.34 if bird.neck else 0.45)
    _oval(draw, hx, hy, head, head, bird.head)
    if bird.cheek:
        _oval(draw, hx + head * 0.15, hy + head * 0.35, head * 0.5, head * 0.35, bird.cheek)
    tip = (hx + head * 0.8 + r * bird.bill_length, hy + head * (0.55 if bird.hooked else 0.2))
    draw.polygon(
        [(hx + head * 0.75, hy - head * 0.25), tip, (hx + head * 0.75, hy + head * 0.4)], fill=bird.bill
    )
    _oval(draw, hx + head * 0.3, hy - head * 0.15, 3, 3, (10, 10, 10))
    if rng.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    picture = picture.rotate(
        rng.uniform(-12, 12), Image.Resampling.BILINEAR, fillcolor=picture.getpixel((0, 0))
    )
    picture = picture.resize((SIZE, SIZE), Image.Resampling.BOX).filter(
        ImageFilter.GaussianBlur(rng.uniform(0, 0.7))
    )
    light = np.asarray(picture) * rng.uniform(0.75, 1.15) * rng.uniform(0.93, 1.07, 3)
    return Image.fromarray(np.clip(light + rng.normal(0, 9, light.shape), 0, 255).astype(np.uint8))


def draw_birds(folder: Path, each: int = 40, seed: int = 0, birds: Mapping[str, Bird] = BIRDS) -> int:
    """Draw `each` pictures of every species; returns how many pictures there are.

    Args:
        folder: Gets a folder of PNG files for every species, `order/family/species/000.png`.
        each: Pictures of every species.
        seed: Another seed draws other pictures.
        birds: What each species looks like, by its path in the taxonomy.
    """
    for number, (path, bird) in enumerate(birds.items()):
        (folder / path).mkdir(parents=True, exist_ok=True)
        for shot in range(each):
            rng = np.random.default_rng([seed, number, shot])
            draw_bird(bird, rng).save(folder / path / f"{shot:03d}.png")
    return each * len(birds)
