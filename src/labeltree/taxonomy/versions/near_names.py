"""Names that are nearly the same: equal but for spelling, or one letter apart."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import combinations

__all__ = ["near_pairs", "plain_key"]

_SIGNS = frozenset("+-#<>=*%!")
_NO_LETTERS = re.compile(r"[^a-z0-9]+")
_SHORTEST = 5  # letters; in shorter names one letter makes another word
_SHORTEST_WORD = 3  # as in `B cell` and `T cell`, `type I` and `type II`
_ROMAN = re.compile("m{0,3}(cm|cd|d?c{0,3})(xc|xl|l?x{0,3})(ix|iv|v?i{0,3})")
_MOST_ALIKE = 50  # with more names that differ at one place, such as codes, none is another's misspelling


def plain_key(name: str) -> str:
    """What names have in common that differ in case, accents, spaces and punctuation only.

    Signs that change what a name means, as in `HIV+`, `C#` or `>10`, count where they are not between
    letters or digits.

    Example:
        >>> plain_key("Blue_Tit (Européen)") == plain_key("blue-tit europeen")
        True
        >>> plain_key("HIV+") == plain_key("HIV-")
        False
    """
    if name.isascii() and _SIGNS.isdisjoint(name):
        return " ".join(_NO_LETTERS.split(name.lower())).strip() or name
    plain = "".join(c for c in unicodedata.normalize("NFKD", name).casefold() if not unicodedata.combining(c))
    padded = f" {plain} "
    letters = "".join(
        c if c.isalnum() or (c in _SIGNS and not (before.isalnum() and after.isalnum())) else " "
        for before, c, after in zip(padded, padded[1:], padded[2:], strict=False)
    )
    return " ".join(letters.split()) or name


def near_pairs(names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Pairs of positions of names that differ by one letter inserted, left out, replaced, or two swapped.

    Case does not count. Left out are short names, names whose first letters differ (`typical`,
    `atypical`), names that differ within a word of one or two letters, a Roman numeral, or a word that has a
    digit, such as a code, and names of which more than 50 differ at one place. The search takes time in
    proportion to the letters of all names.

    Args:
        names: n names.

    Yields:
        Positions (i, j), i < j, each pair once, ascending.

    Example:
        >>> list(near_pairs(["sparrow", "Sparow", "spqrrow", "sparrow hawk", "class 1", "class 2"]))
        [(0, 1), (0, 2)]
        >>> list(near_pairs(["type I cell", "type II cell", "type III cell", "grey B cell", "grey T cell"]))
        []
    """
    plain = [name.casefold() for name in names]
    by_shorter: dict[str, list[int]] = {}
    near: set[tuple[int, int]] = set()
    for position, name in enumerate(plain):
        if len(name) < _SHORTEST:
            continue
        for shorter in {name, *(name[:i] + name[i + 1 :] for i, c in enumerate(name) if not c.isdigit())}:
            by_shorter.setdefault(shorter, []).append(position)
    for alike in by_shorter.values():
        if 1 < len(alike) <= _MOST_ALIKE:
            for first, second in combinations(alike, 2):
                if (first, second) not in near and _one_apart(plain[first], plain[second]):
                    near.add((first, second))
    yield from sorted(near)


def _one_apart(first: str, second: str) -> bool:
    """Whether one letter makes the difference, within a word without a digit."""
    if first == second:
        return False
    start = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), -1)
    if start < 0:
        start = min(len(first), len(second))
    if not start:
        return False
    a, b = first[start:], second[start:]
    words = _word_at(first, start), _word_at(second, start)
    if any(c.isdigit() for word in words for c in word) or min(map(len, words)) < _SHORTEST_WORD:
        return False
    if all(_ROMAN.fullmatch(word) for word in words):
        return False
    return a[1:] == b or a == b[1:] or a[1:] == b[1:] or (a[:2] == b[:2][::-1] and a[2:] == b[2:])


def _word_at(text: str, place: int) -> str:
    """What stands around a place between blanks."""
    begin = text.rfind(" ", 0, place) + 1
    end = text.find(" ", place)
    return text[begin:] if end < 0 else text[begin:end]
