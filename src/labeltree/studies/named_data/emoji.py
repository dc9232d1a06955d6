"""The data sets of emoji: the same images, split by drawing family, class and number, by names alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np
import torch

from labeltree.counted_nouns import say_count
from labeltree.data.images.image_files import ImageSettings
from labeltree.data.images.stores import MappedStore, reshaped
from labeltree.data.named_data import Needed, Published, register_dataset
from labeltree.data.source import Source
from labeltree.datasets.formats.hash_splits import hash_number
from labeltree.studies.named_data.emoji_drawings import (
    HOME,
    INDEX,
    PIXELS,
    SIZE,
    EmojiImages,
    fetch_emoji,
    read_images,
)
from labeltree.studies.named_data.emoji_icons import STYLES, Emoji, emoji_taxonomy, family_of

__all__ = [
    "FAR",
    "FEW",
    "NEAR",
    "OTHER",
    "VALIDATION",
    "concept",
    "fetch_emoji",
    "few_styles",
    "one_of_each_family",
    "split_of_style",
    "unseen_emoji",
]

# By raw pixels, twemoji is the family most like those in training and openmoji the one least like them; the
# figures are in the data card. Two families validate, as two test: retrieval among the validation images has
# to have something to find, another drawing of the same emoji.
VALIDATION, NEAR, FAR = ("noto-v1", "fxemoji"), "twemoji", "openmoji"
# Tested in emoji-other, which trains on twemoji and openmoji: for questions that were developed on emoji.
OTHER = ("noto", "emojione-v1")
FEW = (1, 2, 4, 8)
_UNSEEN = 0.2
_VARIANT = re.compile(r"-200d-(2640|2642|27a1)(?=-|$)")  # female, male, facing right
# Man and woman are a person, old ones an old person, boy and girl a child.
_PEOPLE = {"1f468": "1f9d1", "1f469": "1f9d1", "1f474": "1f9d3", "1f475": "1f9d3"}
_PEOPLE |= {"1f466": "1f9d2", "1f467": "1f9d2"}
# Variants that Unicode does not encode as sequences.
_SAME = {
    "1f46b": "1f9d1-200d-1f91d-200d-1f9d1",  # woman and man, men, women, people holding hands
    "1f46c": "1f9d1-200d-1f91d-200d-1f9d1",
    "1f46d": "1f9d1-200d-1f91d-200d-1f9d1",
    "1f48f": "1f9d1-200d-2764-200d-1f48b-200d-1f9d1",  # kiss
    "1f491": "1f9d1-200d-2764-200d-1f9d1",  # couple with heart
    "1f478": "1fac5",  # princess, prince, person with crown
    "1f934": "1fac5",
    "1f385": "1f9d1-200d-1f384",  # Santa, Mrs. and Mx Claus
    "1f936": "1f9d1-200d-1f384",
    "1f483": "1f57a",  # woman and man dancing
    "1f930": "1fac4",  # pregnant woman, man, person
    "1fac3": "1fac4",
}
_ONE_OF_A_FAMILY = ("emojione", "fluent-emoji-flat")
_LICENCE = "of each style its own: Apache-2.0, MIT, CC-BY-4.0 or CC-BY-SA-4.0; docs/data/emoji.md has them"
_FILES = (Needed(INDEX, "the list of the drawings"), Needed(PIXELS, "the drawings as pixels"))
# Counts for the pinned packages: training, validation and test samples, and emoji.
_COUNTS = {
    "emoji": (11_156, 2_102, 3_288, 1_644),
    "emoji-near": (11_156, 2_102, 1_644, 1_644),
    "emoji-far": (11_156, 2_102, 1_644, 1_644),
    "emoji-other": (11_855, 2_102, 2_589, 1_644),
    "emoji-unseen": (8_935, 1_678, 2_126, 1_644),
    "emoji-seen": (8_935, 1_678, 2_638, 1_319),
    "emoji-few-1": (1_644, 2_102, 3_288, 1_644),
    "emoji-few-2": (3_269, 2_102, 3_288, 1_644),
    "emoji-few-4": (6_491, 2_102, 3_288, 1_644),
    "emoji-few-8": (11_156, 2_102, 3_288, 1_644),
}


def split_of_style(style: str) -> str:
    """The split of a style: `train`, `val` or `test`; styles of one family share a split.

    Example:
        >>> [split_of_style(style) for style in ("noto", "noto-v1", "openmoji")]
        ['train', 'val', 'test']
    """
    family = family_of(style)
    if family in VALIDATION:
        return "val"
    return "test" if family in (NEAR, FAR) else "train"


def concept(emoji: Emoji) -> str:
    """Concept that an emoji shares with its variants by gender, direction, or hour of the clock.

    Example:
        >>> runner = Emoji("1f3c3", "person running", "people & body", "person sport")
        >>> woman = Emoji("1f3c3-200d-2640-200d-27a1", "woman running: facing right", "", "")
        >>> concept(runner) == concept(woman)
        True
    """
    code = _VARIANT.sub("", emoji.code)
    code = _SAME.get(code, "-".join(_PEOPLE.get(point, point) for point in code.split("-")))
    return "clock face" if "1f550" <= code <= "1f567" and len(code) == 5 else code


def unseen_emoji(emoji: Sequence[Emoji]) -> set[str]:
    """Codes of the emoji that are kept out of training: a fifth of every subgroup, variants together."""
    subgroups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    home: dict[str, str] = {}
    for one in emoji:
        # Variants in several subgroups go with the first.
        subgroup = home.setdefault(concept(one), f"{one.group}/{one.subgroup}")
        subgroups[subgroup][concept(one)].append(one.code)
    unseen: set[str] = set()
    for subgroup, concepts in sorted(subgroups.items()):
        wanted = round(_UNSEEN * sum(map(len, concepts.values())))
        for name in sorted(concepts, key=lambda name: _draw("unseen", subgroup, name)):
            if 0 < len(concepts[name]) <= wanted:
                unseen.update(concepts[name])
                wanted -= len(concepts[name])
    return unseen


def few_styles(code: str, styles: Sequence[str], count: int) -> list[str]:
    """Choose the training styles of an emoji when their number is limited.

    Families take turns, so the first styles are different drawings. A smaller choice is a subset of a larger.

    Args:
        code: Code of the emoji.
        styles: Styles that have the emoji.
        count: Number of styles to choose.
    """
    families: dict[str, list[str]] = defaultdict(list)
    for style in sorted(styles, key=lambda style: _draw("few", code, style)):
        families[family_of(style)].append(style)
    turns = sorted(
        (turn, _draw("few", code, family), style)
        for family, members in families.items()
        for turn, style in enumerate(members)
    )
    return [style for _, _, style in turns[:count]]


def one_of_each_family(style: str) -> bool:
    """Whether a style represents its family where near-copies would make the test too easy."""
    alone = sum(known.family == family_of(style) for known in STYLES) == 1
    return alone or style in _ONE_OF_A_FAMILY


def _draw(*names: str) -> int:
    """A pseudo-random number determined by names."""
    return hash_number("/".join(("labeltree emoji", *names)))


Rule = Callable[[EmojiImages], list[str]]
"""The split of each image: `train`, `val`, `test`, or empty where it is left out."""


def _split_by_style(images: EmojiImages, test: tuple[str, ...] = (NEAR, FAR)) -> list[str]:
    sides = {style.name: split_of_style(style.name) for style in STYLES}
    left_out = {style.name for style in STYLES if sides[style.name] == "test" and style.family not in test}
    return ["" if style in left_out else sides[style] for style in images.styles]


def _other_styles(images: EmojiImages) -> list[str]:
    """Families that `emoji` trains on are tested on, and the reverse; the same families validate."""
    sides = {
        style.name: "val" if style.family in VALIDATION else "test" if style.family in OTHER else "train"
        for style in STYLES
    }
    return [sides[style] for style in images.styles]


def _few(images: EmojiImages, count: int) -> list[str]:
    split = _split_by_style(images)
    there = defaultdict(list)
    for position, side in enumerate(split):
        if side == "train" and position not in images.failed:
            there[images.numbers[position]].append(images.styles[position])
    chosen = {
        number: few_styles(images.emoji[number].code, styles, count) for number, styles in there.items()
    }
    return [
        "" if side == "train" and style not in chosen.get(number, ()) else side
        for side, style, number in zip(split, images.styles, images.numbers, strict=True)
    ]


def _split_by_class(images: EmojiImages, seen: bool) -> list[str]:
    """Train and validate on seen emoji; test on them in new styles, or on unseen ones in all families."""
    unseen = unseen_emoji(images.emoji)
    split = []
    for side, style, number in zip(_split_by_style(images), images.styles, images.numbers, strict=True):
        if images.emoji[number].code not in unseen:
            split.append(side if seen or side != "test" else "")
        else:
            split.append("test" if not seen and one_of_each_family(style) else "")
    return split


def _make(
    images: EmojiImages, name: str, rule: Rule, unseen: bool, texts: bool, **settings: Unpack[ImageSettings]
) -> Source:
    """The samples of a split rule, without failed drawings; with the names of the emoji as texts, if asked.

    Classes without training samples are left out of the test, unless the rule is about unseen classes.
    """
    taxonomy = emoji_taxonomy(images.emoji)
    nodes = taxonomy.encode([(one.group, one.subgroup, one.label) for one in images.emoji])
    numbers = torch.tensor(images.numbers)
    split = np.array(rule(images), dtype="<U5")
    split[list(images.failed)] = ""
    learned = set(numbers.numpy()[split == "train"].tolist())
    if not unseen:
        split[[number not in learned for number in images.numbers]] = ""
    # Groups follow the criterion of the split: the style family, or for unseen emoji the concept.
    kinds = [
        concept(images.emoji[number]) if unseen and side == "test" else family_of(style)
        for side, style, number in zip(split, images.styles, images.numbers, strict=True)
    ]
    _, groups = np.unique(kinds, return_inverse=True)
    n = len(images)
    everything = Source.in_order(
        name,
        taxonomy,
        nodes[numbers],
        store=reshaped(MappedStore(images.path, (n, 3, SIZE, SIZE)), **settings),
        groups=torch.from_numpy(groups.astype(np.int64)),
        split=split,
        files=[images.name(position) for position in range(n)],
        texts=[images.emoji[number].label for number in images.numbers] if texts else None,
    )
    return everything.subset(torch.from_numpy(np.flatnonzero(split != "")))


def _register(
    name: str, summary: str, rule: Rule, *, unseen: bool = False, texts: bool = False
) -> Callable[..., Source]:
    def open_emoji(*, path: Path, **images: Unpack[ImageSettings]) -> Source:
        return _make(read_images(path), name, rule, unseen, texts, **images)

    train, val, test, emoji = _COUNTS[name.removesuffix("-names")]
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
_register(
    "emoji", f"emoji in 12 drawing styles, {_SIZES}; tested on styles unseen in training", _split_by_style
)
_register(
    "emoji-near",
    f"emoji, {_SIZES}; tested on the unseen style most like those in training",
    lambda images: _split_by_style(images, (NEAR,)),
)
_register(
    "emoji-far",
    f"emoji, {_SIZES}; tested on the unseen style least like those in training",
    lambda images: _split_by_style(images, (FAR,)),
)
_register(
    "emoji-other",
    f"emoji, {_SIZES}; trained on the test styles of emoji too, tested on two of its training families",
    _other_styles,
)
_register(
    "emoji-unseen",
    f"emoji, {_SIZES}; tested on emoji unseen in training",
    lambda images: _split_by_class(images, seen=False),
    unseen=True,
)
_register(
    "emoji-seen",
    f"emoji, {_SIZES}; trained as emoji-unseen, tested on the emoji seen in training, in unseen styles",
    lambda images: _split_by_class(images, seen=True),
)
_register(
    "emoji-names", f"emoji as in 'emoji', {_SIZES}, with their names as texts", _split_by_style, texts=True
)
_register(
    "emoji-unseen-names",
    f"emoji as in 'emoji-unseen', {_SIZES}, with their names as texts",
    lambda images: _split_by_class(images, seen=False),
    unseen=True,
    texts=True,
)
for _count in FEW:
    _register(
        f"emoji-few-{_count}",
        f"emoji, {_SIZES}; trained on {say_count(_count, 'style')} of each, tested as emoji",
        partial(_few, count=_count),
    )
