"""Names of nodes: validity, paths as single strings, and similar spellings."""

import difflib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from labeltree.counted_nouns import say_list
from labeltree.errors import TaxonomyError

__all__ = [
    "clean_name",
    "clean_names",
    "compose",
    "compose_twins",
    "is_missing",
    "join_path",
    "name_siblings_apart",
    "near_names",
    "nearest_hint",
    "repeated_siblings",
    "short_name",
    "some",
    "spelt_alike",
    "split_path",
    "tidy",
    "twins_sentence",
]

_MIXER = 0x1E3779B97F4A7C15
_REORDERS = {*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}
MANY_NAMES = 20_000
"""With more names than this, only those with the same first letter are compared, to be quick."""


def is_missing(value: object) -> bool:
    """Whether a cell of a table is missing: None, NaN, pandas' NA or NaT. An empty string is not missing."""
    if isinstance(value, str):
        return False
    if value is None:
        return True
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def tidy(name: object) -> str:
    """The name without surrounding white space; empty if `clean_name` would reject it.

    In `tidy(name) or clean_name(name, where)` the text `where` is used only if there is an error.
    """
    text = name.strip() if isinstance(name, str) else ""
    return text if text.isprintable() else ""


def clean_names(names: Sequence[object]) -> list[str]:
    """The names of nodes, each as `clean_name` returns it.

    Raises:
        TaxonomyError: If one is empty, or not one line of text; the message gives its number.
    """
    try:
        stripped = list(map(str.strip, names))  # type: ignore[arg-type]
    except TypeError:
        stripped = []
    if all(stripped) and len(stripped) == len(names) and "".join(stripped).isprintable():
        return stripped
    return [tidy(name) or clean_name(name, f"node {i}") for i, name in enumerate(names)]


def clean_name(name: object, where: str) -> str:
    """Return the name without surrounding white space; an error begins with `where`.

    Raises:
        TaxonomyError: If the name is empty, or not one line of text.
    """
    text = str(name).strip() if not is_missing(name) else ""
    if not text:
        raise TaxonomyError(f"{where} has an empty name; every node needs one")
    if not text.isprintable():
        _check_characters(text, where)
    return text


def _check_characters(text: str, where: str) -> None:
    for character in text:
        category = unicodedata.category(character)
        if category == "Cs":
            raise TaxonomyError(f"{where} has the name {text!r}, which is not valid Unicode text; rename it")
        if character in _REORDERS:
            raise TaxonomyError(
                f"{where} has the name {text!r} with {character!r}, which makes other text appear in another "
                "order; take it out"
            )
        if category in ("Cc", "Zl", "Zp") or character == "\ufeff":  # a byte-order mark is not part of a name
            raise TaxonomyError(
                f"{where} has the name {text!r} with the control character {character!r}; a name is one line"
            )


def compose(name: str) -> str:
    """The name in Unicode's composed form (NFC), in which letters have their accents."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def compose_twins(names: Iterable[str]) -> dict[str, str]:
    """How names of more than ASCII are composed, if some differ in nothing else; else nothing.

    Example:
        >>> [*map(len, compose_twins(["B\u00e4r", "Ba\u0308r", "Mo\u0308we"]).values())]
        [3, 3, 4]
        >>> compose_twins(["B\u00e4r", "Mo\u0308we"])
        {}
    """
    composed = {name: compose(name) for name in names if not name.isascii()}
    return composed if len(set(composed.values())) < len(composed) else {}


def twins_sentence(composed: dict[str, str]) -> str:
    """A sentence on what `compose_twins` gave."""
    twins = [name for name, count in Counter(composed.values()).items() if count > 1]
    return (
        f"{some(twins, 3)} {'is' if len(twins) == 1 else 'are'} written in two ways that look the same ("
        "accents composed and decomposed, NFC and NFD), and each is one class"
    )


def join_path(names: Sequence[str]) -> str:
    r"""Write a path as one string, coarse to fine: `a/b/c`, with `/` in a name as `\/` and `\` as `\\`."""
    return "/".join(name.replace("\\", "\\\\").replace("/", "\\/") for name in names)


_LONG = 60  # characters of a name within a sentence


def short_name(name: str) -> str:
    """A name for a sentence: a long one without its middle; tables have the whole.

    Example:
        >>> short_name("a" * 50 + " or " + "b" * 50)
        'aaaaaaaaaaaaaaaaaaaaaaaaaaaaa…bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'
    """
    half = _LONG // 2
    return name if len(name) <= _LONG else f"{name[: half - 1].rstrip()}…{name[-half:].lstrip()}"


def last_names(first: str, second: str) -> tuple[str, str]:
    """The last names of two paths, for people; with more of the paths where they are the same.

    Long names are shortened (`short_name`), unless the two would look the same then.

    Example:
        >>> last_names("songbirds/tits/blue-tit", "raptors/falcons/kestrel")
        ('blue-tit', 'kestrel')
        >>> last_names("a/other", "b/other")
        ('a › other', 'b › other')
    """
    a, b = split_path(first), split_path(second)
    longest = max(len(a), len(b))
    length = next((n for n in range(1, longest) if a[-n:] != b[-n:]), longest)
    names = " › ".join(a[-length:]), " › ".join(b[-length:])
    shortened = tuple(map(short_name, names))
    return names if shortened[0] == shortened[1] else (shortened[0], shortened[1])


def split_path(text: str) -> tuple[str, ...]:
    r"""Split a path from `join_path` into names; one leading `/` is ignored, and `/` alone gives () (the
    root).

    A backslash that is not followed by `/` or `\` is kept.
    """
    text = text.strip().removeprefix("/")
    if not text:
        return ()
    if "\\" not in text:
        return tuple(text.split("/"))
    names, current, characters = [], "", iter(text)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            current += following if following in ("/", "\\") and following else "\\" + following
        elif character == "/":
            names.append(current)
            current = ""
        else:
            current += character
    return (*names, current)


def repeated_siblings(
    names: Sequence[str], children: NDArray[np.int64], parents: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(R,) the edges, ascending, whose child has the name of another child of the same parent.

    Args:
        names: (N,) a name for each node.
        children: (E,) the child of each edge, an index of `names`.
        parents: (E,) the parent of each edge.
    """
    hashes = np.fromiter(map(hash, names), np.int64, len(names))
    keys = hashes[children] ^ (
        parents * _MIXER
    )  # edges of one parent and name have one key; others hardly do
    ascending = np.sort(keys)
    twice = ascending[1:][ascending[1:] == ascending[:-1]]
    edges = np.flatnonzero(np.isin(keys, twice)) if len(twice) else np.empty(0, dtype=np.int64)
    ends = [(int(parents[edge]), names[int(children[edge])]) for edge in edges]
    counts = Counter(ends)
    repeated: NDArray[np.int64] = edges[np.array([counts[one] > 1 for one in ends], dtype=bool)]
    return repeated


def name_siblings_apart(
    names: Sequence[str],
    children: Sequence[int] | NDArray[np.int64],
    parents: Sequence[int] | NDArray[np.int64],
    ids: Sequence[str],
) -> tuple[list[str], str]:
    """The names, with its id in brackets after each that a sibling has, too, and a sentence on these.

    The sentence is empty if there are none.

    Args:
        names: (N,) a name for each node.
        children: (E,) the child of each edge, an index of `names`.
        parents: (E,) the parent of each edge.
        ids: (N,) an id for each node, empty if it has none; then its name is kept.
    """
    apart = list(names)
    below, above = (np.asarray(ends, dtype=np.int64) for ends in (children, parents))
    repeated = np.unique(below[repeated_siblings(names, below, above)]).tolist()
    repeated = [node for node in repeated if ids[node]]
    for node in repeated:
        apart[node] = f"{names[node]} ({ids[node]})"
    if not repeated:
        return apart, ""
    many = f"{len(repeated):,} classes have" if len(repeated) > 1 else "one class has"
    return apart, f"{many} the name of a sibling, and the id after it, such as {apart[repeated[0]]!r}"


def some(names: Iterable[str], limit: int = 5) -> str:
    """Quote the first few names for a sentence: `'a', 'b' and 3 more`."""
    names = list(names)
    shown = [repr(name) for name in names[:limit]]
    if len(names) > limit:
        return f"{', '.join(shown)} and {len(names) - limit} more"
    return say_list(shown)


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """Up to three names with a spelling similar to this one, ignoring case, nearest first."""
    folded: dict[str, str] = {}
    for candidate in names:
        folded.setdefault(candidate.casefold(), candidate)
    wanted = name.strip().casefold()
    if len(folded) > MANY_NAMES:
        folded = {key: candidate for key, candidate in folded.items() if key[:1] == wanted[:1]}
    near = difflib.get_close_matches(wanted, folded, n=3, cutoff=0.6)
    return [folded[key] for key in near]


def spelt_alike(name: str, other: str) -> float:
    """How similarly two names are spelt, ignoring case: 1 if they are the same, 0 if one is empty."""
    return difflib.SequenceMatcher(None, other.casefold(), name.strip().casefold()).ratio() if other else 0.0


def nearest_hint(name: str, names: Iterable[str]) -> str:
    """`nearest: 'dog', 'dot'`; some of the names if none is similar; empty if there are no names."""
    names = list(dict.fromkeys(names))
    near = near_names(name, names)
    if near:
        return f"nearest: {', '.join(map(repr, near))}"
    return f"there are {some(names, 3)}" if names else ""
