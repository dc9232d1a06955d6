"""The data sets that are made of the emoji: the same images, other splits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from labeltree.data.registry import Needed, Published, register_dataset
from labeltree.data.source import Source
from labeltree.data.stores import MappedStore, reshaped
from labeltree.datasets.emoji import splits
from labeltree.datasets.emoji.fetch import HOME, fetch_emoji
from labeltree.datasets.emoji.images import INDEX, PIXELS, EmojiImages, read_images
from labeltree.datasets.emoji.packages import STYLES, family_of
from labeltree.datasets.emoji.render import SIZE
from labeltree.datasets.emoji.tree import emoji_taxonomy

__all__: list[str] = []

_LICENCE = "of each style its own: Apache-2.0, MIT, CC-BY-4.0 or CC-BY-SA-4.0; docs/data/emoji.md has them"
_FILES = (Needed(INDEX, "the list of the drawings"), Needed(PIXELS, "the drawings as pixels"))

# What the pinned packages give: samples to train, validate and test on, and emoji.
_COUNTS = {
    "emoji": (11_156, 2_102, 3_288, 1_644),
    "emoji-near": (11_156, 2_102, 1_644, 1_644),
    "emoji-far": (11_156, 2_102, 1_644, 1_644),
    "emoji-unseen": (8_935, 1_678, 2_126, 1_644),
    "emoji-seen": (8_935, 1_678, 2_638, 1_319),
    "emoji-few-1": (1_644, 2_102, 3_288, 1_644),
    "emoji-few-2": (3_269, 2_102, 3_288, 1_644),
    "emoji-few-4": (6_491, 2_102, 3_288, 1_644),
    "emoji-few-8": (11_156, 2_102, 3_288, 1_644),
}

Rule = Callable[[EmojiImages], list[str]]
"""The split of each image: ``train``, ``val``, ``test``, or empty where it is left out."""


def _by_style(images: EmojiImages, test: tuple[str, ...] = (splits.NEAR, splits.FAR)) -> list[str]:
    sides = {style.name: splits.split_of_style(style.name) for style in STYLES}
    left_out = {style.name for style in STYLES if sides[style.name] == "test" and style.family not in test}
    return ["" if style in left_out else sides[style] for style in images.styles]


def _few(images: EmojiImages, count: int) -> list[str]:
    split = _by_style(images)
    there = defaultdict(list)
    for position, side in enumerate(split):
        if side == "train" and position not in images.failed:
            there[images.numbers[position]].append(images.styles[position])
    chosen = {
        number: splits.few_styles(images.emoji[number].code, styles, count)
        for number, styles in there.items()
    }
    return [
        "" if side == "train" and style not in chosen.get(number, ()) else side
        for side, style, number in zip(split, images.styles, images.numbers, strict=True)
    ]


def _by_class(images: EmojiImages, seen: bool) -> list[str]:
    """Train and validate on seen emoji; test on them in new styles, or on unseen ones in all families."""
    unseen = splits.unseen_emoji(images.emoji)
    split = []
    for side, style, number in zip(_by_style(images), images.styles, images.numbers, strict=True):
        if images.emoji[number].code not in unseen:
            split.append(side if seen or side != "test" else "")
        else:
            split.append("test" if not seen and splits.one_of_each_family(style) else "")
    return split


def _make(
    images: EmojiImages, name: str, rule: Rule, unseen: bool, image_size: int | None, channels: int | None
) -> Source:
    """The samples of a rule, without those that failed.

    Unless it is about unseen classes, classes that are not in training are not tested on.
    """
    taxonomy = emoji_taxonomy(images.emoji)
    nodes = taxonomy.encode([(one.group, one.subgroup, one.label) for one in images.emoji])
    numbers = torch.tensor(images.numbers)
    split = np.array(rule(images), dtype="<U5")
    split[list(images.failed)] = ""
    learned = set(numbers.numpy()[split == "train"].tolist())
    if not unseen:
        split[[number not in learned for number in images.numbers]] = ""
    # What decides the side of a sample keeps it there: its family, or of unseen emoji the concept.
    kinds = [
        splits.concept(images.emoji[number]) if unseen and side == "test" else family_of(style)
        for side, style, number in zip(split, images.styles, images.numbers, strict=True)
    ]
    _, groups = np.unique(kinds, return_inverse=True)
    n = len(images)
    everything = Source(
        name=name,
        taxonomy=taxonomy,
        nodes=nodes[numbers],
        instances=torch.arange(n),
        store=reshaped(MappedStore(images.path, (n, 3, SIZE, SIZE)), image_size, channels),
        rows=torch.arange(n),
        groups=torch.from_numpy(groups.astype(np.int64)),
        split=split,
        files=[images.name(position) for position in range(n)],
    )
    return everything.subset(torch.from_numpy(np.flatnonzero(split != "")))


def _register(name: str, summary: str, rule: Rule, *, unseen: bool = False) -> Callable[..., Source]:
    def open_emoji(
        *, path: Path, image_size: int | None = None, channels: int | None = None, **_: object
    ) -> Source:
        return _make(read_images(path), name, rule, unseen, image_size, channels)

    train, val, test, emoji = _COUNTS[name]
    register_dataset(
        name,
        summary=summary,
        licence=_LICENCE,
        size="52 MB to download, 201 MB on disk for all data sets of emoji together",
        fetch=fetch_emoji,
        files=_FILES,
        published=Published(
            {"train": train, "val": val, "test": test}, (8, 95, emoji), "labeltree's docs/data/emoji.md"
        ),
        home=HOME,
    )(open_emoji)
    return open_emoji


_SIZES = "64 x 64, group, subgroup, emoji"
_register("emoji", f"emoji in 12 drawing styles, {_SIZES}; tested on styles unseen in training", _by_style)
_register(
    "emoji-near",
    f"emoji, {_SIZES}; tested on the unseen style most like those in training",
    lambda images: _by_style(images, (splits.NEAR,)),
)
_register(
    "emoji-far",
    f"emoji, {_SIZES}; tested on the unseen style least like those in training",
    lambda images: _by_style(images, (splits.FAR,)),
)
_register(
    "emoji-unseen",
    f"emoji, {_SIZES}; tested on emoji unseen in training",
    lambda images: _by_class(images, seen=False),
    unseen=True,
)
_register(
    "emoji-seen",
    f"emoji, {_SIZES}; trained as emoji-unseen, tested on the emoji seen in training, in unseen styles",
    lambda images: _by_class(images, seen=True),
)
for _count in splits.FEW:
    _register(
        f"emoji-few-{_count}",
        f"emoji, {_SIZES}; trained on {_count} style{'s' if _count > 1 else ''} of each, tested as emoji",
        partial(_few, count=_count),
    )
