"""Find the WordNet senses of class names: plurals, spellings, and the file with the user's choices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from labeltree.atomic import atomic_write
from labeltree.data.wordnet_files.wordnet_files import WordNetNouns
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

# Plural endings and the singular endings that they replace. Several may apply: "axes" are axe and ax.
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
"""Endings of words that are singular despite the final s."""

_HEAD = """\
# Which sense each name has: remove the '#' at the beginning of one line of each name.
# A synset that is not listed may be given too, as crane.n.04 or n02012849.
"""
_GLOSS = 100  # characters of a gloss in the file


class Meanings(NamedTuple):
    """Senses of names; each name is in one of the three mappings.

    Attributes:
        chosen: Name → offset of its only synset, or of the one chosen by the user.
        unclear: Name → offsets of its possible synsets, most likely first; empty if WordNet lacks the name.
        wrong: Name → the user's choice, if it is not exactly one synset.
    """

    chosen: dict[str, int]
    unclear: dict[str, list[int]]
    wrong: dict[str, str]


def find_meanings(nouns: WordNetNouns, names: Sequence[str], senses: Mapping[str, str]) -> Meanings:
    """Look up class names in WordNet.

    A name is a noun, its plural, a synset such as `crane.n.04` or an ImageNet id. A name that is a noun and
    also the plural of another, such as `glasses`, may mean either.

    Args:
        nouns: Nouns of WordNet.
        names: Names of the classes; `_` and `-` may stand for a space.
        senses: Name → synset chosen by the user.

    Raises:
        TaxonomyError: If there are no names, senses are given for other names, or two names share a synset.
    """
    if not names:
        raise TaxonomyError("there are no names; give at least one class")
    if strangers := [name for name in senses if name not in names]:
        raise TaxonomyError(
            f"senses names {strangers[0]!r}, which is not a class ({nearest_hint(strangers[0], names)})"
        )
    irregular = read_irregular(nouns.folder / "noun.exc")
    sorted_meanings = Meanings({}, {}, {})
    for name in dict.fromkeys(names):
        if name in senses:
            given = nouns.find(senses[name])
            if len(given) == 1:
                sorted_meanings.chosen[name] = given[0]
            else:
                sorted_meanings.wrong[name] = senses[name]
            continue
        meanings = _meanings(nouns, name, irregular)
        if len(meanings) == 1:
            sorted_meanings.chosen[name] = meanings[0]
        else:
            sorted_meanings.unclear[name] = meanings
    check_distinct(nouns, sorted_meanings.chosen)
    return sorted_meanings


def check_distinct(nouns: WordNetNouns, chosen: Mapping[str, int]) -> None:
    """Check that no two names share a synset."""
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
    """All synsets that a name may mean; its own spelling is tried first."""
    word = "_".join(name.strip().lower().split())
    if _SYNSET.fullmatch(word):
        return nouns.find(word)
    spellings = [word, word.replace("-", "_"), word.replace("-", ""), word.replace("_", "-")]
    senses: dict[int, None] = {}
    for spelling in dict.fromkeys(spellings):
        for form in (spelling, *base_forms(spelling, irregular)):
            senses |= dict.fromkeys(nouns.senses.get(form, []))
        if senses:  # other spellings are tried only if this one is unknown
            break
    return list(senses)


def base_forms(word: str, irregular: Mapping[str, list[str]] | None = None) -> list[str]:
    """Possible singulars of a plural, most likely first; they need not exist.

    Of several words only the last is changed, but an irregular plural may include all of them.

    Args:
        word: The plural, in lower case, with `_` for a space.
        irregular: Irregular plural → its singulars.

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
    forms = [*known.get(word, []), *(before + base for base in known.get(last, []))]
    if not last.endswith(_SINGULAR):
        for ending, singular in _ENDINGS:
            if last.endswith(ending) and len(last) > len(ending) + 1:
                forms.append(before + last.removesuffix(ending) + singular)
    return list(dict.fromkeys(forms))


def read_irregular(path: Path) -> dict[str, list[str]]:
    """Read WordNet's irregular plurals, each line a plural and its singulars; empty if there is no file."""
    if not path.is_file():
        return {}
    lines = (line.split() for line in path.read_text("utf-8", "replace").splitlines())
    return {fields[0]: fields[1:] for fields in lines if len(fields) > 1}


def read_senses(path: Path) -> dict[str, str]:
    """Read lines `name = synset`; text after `#` is ignored. Empty if there is no file.

    Raises:
        TaxonomyError: If a line is malformed or a name occurs twice; the message gives the line.
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
    """Add all senses of unclear names to the file, for the user to choose from; existing lines stay.

    Args:
        path: Path of the file; it is created if missing.
        nouns: Nouns of WordNet.
        unclear: Name → offsets of its possible synsets; empty if WordNet lacks the name.

    Returns:
        The names that were added, those not yet in the file.
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
