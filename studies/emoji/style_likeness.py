"""How alike two styles draw, the figures behind the families: python studies/emoji/style_likeness.py"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from labeltree.cache import data_home
from labeltree.studies.named_data.emoji_drawings import HOME, SIZE, EmojiImages, read_images
from labeltree.studies.named_data.emoji_icons import STYLES

Array = np.ndarray[Any, Any]
Likeness = tuple[float, float]

_SIDE = 16  # coarse enough that a shifted line does not count


def compare_styles(images: EmojiImages) -> Mapping[tuple[str, str], Likeness]:
    """Compare every two styles on the emoji that both have.

    Images are averaged to 16 x 16 pixels; alike is the correlation of their values over pixels and colours.

    Returns:
        For each pair of styles: the median correlation of the same emoji, and the share of the first
        style's emoji to which the same emoji is the most alike of the second style.
    """
    pixels = np.memmap(images.path, np.uint8, "r", shape=(len(images), 3, SIZE, SIZE))
    styles, numbers = np.array(images.styles), np.array(images.numbers)
    vectors = {style.name: _vectors(pixels[styles == style.name]) for style in STYLES}
    emoji = {style.name: numbers[styles == style.name] for style in STYLES}
    found = {}
    for a in vectors:
        for b in vectors:
            _, at_a, at_b = np.intersect1d(emoji[a], emoji[b], return_indices=True)
            alike = vectors[a][at_a] @ vectors[b][at_b].T
            hits = alike.argmax(1) == np.arange(len(at_a)) if len(at_a) else np.zeros(1)
            median = np.median(alike.diagonal()) if len(at_a) else 0.0
            found[a, b] = (float(median), float(hits.mean()))
    return found


def _vectors(pixels: Array) -> Array:
    """Unit vectors ``(n, 768)`` whose products are correlations."""
    block = SIZE // _SIDE
    coarse = pixels.reshape(len(pixels), 3, _SIDE, block, _SIDE, block).mean((3, 5), dtype=np.float64)
    flat = coarse.reshape(len(pixels), -1)
    flat -= flat.mean(1, keepdims=True)
    unit: Array = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-6)
    return unit


if __name__ == "__main__":
    table = compare_styles(read_images(data_home() / HOME))
    names = [style.name for style in STYLES]
    print("| | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names))
    for one in names:
        print(f"| {one} | " + " | ".join(f"{table[one, other][1]:.0%}" for other in names) + " |")
    print("\nmedian correlation:")
    for one in names:
        print(f"{one:<27}" + " ".join(f"{table[one, other][0]:5.2f}" for other in names))
