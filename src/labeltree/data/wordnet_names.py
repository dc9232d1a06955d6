"""What class names mean in WordNet: plurals, spellings, and the file in which a user chooses a sense."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from labeltree.atomic import atomic_write
from labeltree.data.wordnet import WordNetNouns
from labeltree.errors import TaxonomyError
from labeltree.taxonomy.naming import near_names, nearest_hint

__all__ = [
    "Meanings",
    "add_to_senses",
    "base_forms",
    "check_distinct",
    "find_meanings",
    "gloss_of",
    "read_irregular",
    "read_senses",
]

_SYNSET = re.compile(r"n\d{8}|.+\.n\.\d+")

# What English adds to a noun, and what it takes away for it. Several may apply: "axes" are axe and ax.
_ENDINGS = (
    ("ies", "y"),
    ("ves", "f"),
    ("ves", "fe"),
    ("men", "man"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("sses", "ss"),
    ("xes", "x"),
    ("zes", "z"),
    ("ses", "s"),
    ("oes", "o"),
    ("s", ""),
)
_SINGULAR = ("ss", "us", "is")
"""Endings of words that are singular as they are."""

_HEAD = """\
# Which sense each name has: remove the '#' at the beginning of one line of each name.
# A synset that is not listed may be given too, as crane.n.04 or n02012849.
"""
_GLOSS = 100  # characters of a gloss in the file


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
        names: names of the classes; `_` and `-` may stand for a space.
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


def base_forms(word: str, irregular: Mapping[str, list[str]] | None = None) -> list[str]:
    """The words that a plural may come from, most likely first; they need not exist.

    Only the last word of several is changed, but an irregular plural may be of them all.

    Args:
        word: In lower case, with ``_`` for a space.
        irregular: Plural → singulars.

    Example:
        >>> base_forms("golf_carts")
        ['golf_cart']
        >>> base_forms("geese", {"geese": ["goose"]})
        ['goose']
        >>> base_forms("glass")
        []
    """
    known = irregular or {}
    start, _, last = word.rpartition("_")
    before = f"{start}_" if start else ""
    found = [*known.get(word, []), *(before + base for base in known.get(last, []))]
    if not last.endswith(_SINGULAR):
        for ending, singular in _ENDINGS:
            if last.endswith(ending) and len(last) > len(ending) + 1:
                found.append(before + last.removesuffix(ending) + singular)
    return list(dict.fromkeys(found))


def read_irregular(path: Path) -> dict[str, list[str]]:
    """WordNet's list of irregular plurals, a plural and its singulars a line; empty if there is none."""
    if not path.is_file():
        return {}
    lines = (line.split() for line in path.read_text("utf-8", "replace").splitlines())
    return {fields[0]: fields[1:] for fields in lines if len(fields) > 1}


def read_senses(path: Path) -> dict[str, str]:
    """Read lines `name = synset`; what follows a `#` is left out. Empty if there is no file.

    Raises:
        TaxonomyError: if a line is none, or a name has two; with the line.
    """
    if not path.exists():
        return {}
    senses: dict[str, str] = {}
    for number, line in enumerate(_read(path).splitlines(), 1):
        text = line.partition(" #")[0].strip()
        if not text or text.startswith("#"):
            continue
        name, equals, synset = (part.strip() for part in text.rpartition("="))
        if not (equals and name and synset):
            raise TaxonomyError(f"{path}, line {number}: expected 'name = synset', found {text!r}")
        if senses.setdefault(name, synset) != synset:
            raise TaxonomyError(
                f"{path}, line {number}: {name!r} is {senses[name]} and {synset}; leave one of them"
            )
    return senses


def add_to_senses(path: Path, nouns: WordNetNouns, unclear: Mapping[str, Sequence[int]]) -> list[str]:
    """Write all senses of unclear names to the file, to choose from; what it says already stays.

    Args:
        path: Path of the file; it is made if it is not there.
        nouns: WordNet's.
        unclear: name → offsets of what it may mean; none if WordNet does not know it.

    Returns:
        The names that were added: those that the file did not list yet.
    """
    before = _read(path) if path.exists() else _HEAD
    listed = {line.lstrip("# ").partition(" = ")[0] for line in before.splitlines()}
    added = [name for name in unclear if name not in listed]
    blocks = []
    for name in added:
        offsets = list(unclear[name]) or [
            offset
            for near in near_names(name.replace(" ", "_"), nouns.senses)
            for offset in nouns.senses[near]
        ]
        title = (
            f"# {name}:" if unclear[name] else f"# {name}: no noun of WordNet; the nearest by spelling are"
        )
        lines = [f"#{name} = {nouns.name(o)}  # {gloss_of(nouns, o, _GLOSS)}" for o in offsets]
        blocks.append("\n".join(["", title, *(lines or [f"#{name} = "]), ""]))
    if added:
        text = (before if before.endswith("\n") else before + "\n") + "".join(blocks)
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="")
    return added


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise TaxonomyError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TaxonomyError(f"{str(path)!r} is not text in UTF-8") from None
