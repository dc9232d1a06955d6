"""From class names to the synsets that they may mean; what is unclear is left to the user."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.plurals import base_forms, read_irregular
from labeltree.taxonomy.suggest import nearest_hint
from labeltree.taxonomy.wordnet import WordNetNouns

__all__ = ["Meanings", "find_meanings", "gloss_of"]

_SYNSET = re.compile(r"n\d{8}|.+\.n\.\d+")


class Meanings(NamedTuple):
    """What names mean; each name is in one of the three.

    Attributes:
        chosen: name → offset of its one synset, or of that which the user says.
        unclear: name → offsets of all that it may mean, most likely first; none if WordNet does not know it.
        wrong: name → what the user says that it means, which is not one synset.
    """

    chosen: dict[str, int]
    unclear: dict[str, list[int]]
    wrong: dict[str, str]


def find_meanings(nouns: WordNetNouns, names: Sequence[str], senses: Mapping[str, str]) -> Meanings:
    """Look up names.

    A name is a noun, its plural, a synset as `crane.n.04` or an ImageNet id. A name that is a noun and also
    the plural of another, as `glasses`, may mean either.

    Args:
        nouns: WordNet's.
        names: of the classes; `_` and `-` may stand for a space.
        senses: name → synset, which decides.

    Raises:
        TaxonomyError: if there are no names, senses are given for others, or two names have one synset.
    """
    if not names:
        raise TaxonomyError("there are no names; give at least one class")
    if strangers := [name for name in senses if name not in names]:
        raise TaxonomyError(
            f"senses names {strangers[0]!r}, which is no class ({nearest_hint(strangers[0], names)})"
        )
    irregular = read_irregular(nouns.folder / "noun.exc")
    found = Meanings({}, {}, {})
    for name in dict.fromkeys(names):
        if name in senses:
            given = nouns.find(senses[name])
            if len(given) == 1:
                found.chosen[name] = given[0]
            else:
                found.wrong[name] = senses[name]
            continue
        meanings = _meanings(nouns, name, irregular)
        if len(meanings) == 1:
            found.chosen[name] = meanings[0]
        else:
            found.unclear[name] = meanings
    check_distinct(nouns, found.chosen)
    return found


def check_distinct(nouns: WordNetNouns, chosen: Mapping[str, int]) -> None:
    """No two names have one synset."""
    first: dict[int, str] = {}
    for name, offset in chosen.items():
        if first.setdefault(offset, name) != name:
            raise TaxonomyError(
                f"{first[offset]!r} and {name!r} are both {nouns.name(offset)}; choose another sense for "
                "one of them"
            )


def gloss_of(nouns: WordNetNouns, offset: int, length: int) -> str:
    """The beginning of a synset's definition."""
    gloss = nouns.synsets[offset].gloss
    return gloss if len(gloss) <= length else gloss[: length - 1].rstrip() + "…"


def _meanings(nouns: WordNetNouns, name: str, irregular: Mapping[str, list[str]]) -> list[int]:
    """All synsets that a name may mean, by its spelling as it is first."""
    word = "_".join(name.strip().lower().split())
    if _SYNSET.fullmatch(word):
        return nouns.find(word)
    spellings = [word, word.replace("-", "_"), word.replace("-", ""), word.replace("_", "-")]
    found: dict[int, None] = {}
    for spelling in dict.fromkeys(spellings):
        for form in (spelling, *base_forms(spelling, irregular)):
            found |= dict.fromkeys(nouns.senses.get(form, []))
        if found:  # other spellings count only where this one is unknown
            break
    return list(found)
