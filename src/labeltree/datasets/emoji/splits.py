"""Who learns and who is tested: fixed by names alone, never by chance or by the seed of a run."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from labeltree.data.hash_splits import hash_number
from labeltree.datasets.emoji.packages import STYLES, family_of
from labeltree.datasets.emoji.tree import Emoji

__all__ = [
    "FAR",
    "FEW",
    "NEAR",
    "VALIDATION",
    "concept",
    "few_styles",
    "one_of_each_family",
    "split_of_style",
    "unseen_emoji",
]

# By raw pixels, twemoji is the family most like those in training and openmoji the one least like them; the
# figures are in the data card. Two families validate, as two test: retrieval among the validation images has
# to have something to find, another drawing of the same emoji.
VALIDATION, NEAR, FAR = ("noto-v1", "fxemoji"), "twemoji", "openmoji"
FEW = (1, 2, 4, 8)
_UNSEEN = 0.2
_VARIANT = re.compile(r"-200d-(2640|2642|27a1)(?=-|$)")  # female, male, facing right
# Man and woman are a person, old ones an old person, boy and girl a child.
_PEOPLE = {"1f468": "1f9d1", "1f469": "1f9d1", "1f474": "1f9d3", "1f475": "1f9d3"}
_PEOPLE |= {"1f466": "1f9d2", "1f467": "1f9d2"}
# Variants that Unicode does not write as such.
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


def split_of_style(style: str) -> str:
    """The side of a style: ``train``, ``val`` or ``test``; styles of one family are on one side.

    Example:
        >>> [split_of_style(style) for style in ("noto", "noto-v1", "openmoji")]
        ['train', 'val', 'test']
    """
    family = family_of(style)
    if family in VALIDATION:
        return "val"
    return "test" if family in (NEAR, FAR) else "train"


def concept(emoji: Emoji) -> str:
    """What an emoji shares with its variants: man, woman and person, direction, and hour of the clock.

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
    """The styles in which an emoji is learned from when there are only so many.

    Families take turns, so the first styles are different drawings; fewer styles are among the more.

    Args:
        code: Of the emoji.
        styles: In which it is there.
        count: How many are wanted.
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
    """Whether a style is the one that stands for its family where near-copies would make the test easy."""
    alone = sum(known.family == family_of(style) for known in STYLES) == 1
    return alone or style in _ONE_OF_A_FAMILY


def _draw(*names: str) -> int:
    """A number drawn for names."""
    return hash_number("/".join(("labeltree emoji", *names)))
