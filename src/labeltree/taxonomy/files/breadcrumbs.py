"""Paths written as breadcrumbs: `A > B > C` lines, Google's product taxonomy, schema.org's BreadcrumbList."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.nested import Pairs

__all__ = [
    "BETWEEN_SPACES",
    "Breadcrumbs",
    "GoogleTaxonomy",
    "are_nested",
    "breadcrumb_lists",
    "breadcrumbs_of",
    "dotted_paths",
    "google_taxonomy",
    "has_signs",
    "is_google",
    "listed_paths",
    "spaced_path",
    "sure_breadcrumbs",
    "written_paths",
]

# Between spaces all of these separate names; `>` and `|` are too common within names to do so without them.
_SEPARATORS = {mark: re.compile(rf"\s+{re.escape(mark)}(?:\s+|$)") for mark in (">", "|")} | {
    mark: re.compile(rf"\s*{mark}\s*") for mark in ("›", "»", "::")
}
BETWEEN_SPACES = {mark: re.compile(rf"\s+{mark}(?:\s+|$)") for mark in (">", "›", "»")}
_ANY_SPACES = re.compile(r"\s*[>›»](?:\s*|$)")
_PLAIN = 0.1  # at most so many texts in one with a separator may be something else
_GOOGLE = re.compile(r"#\s*Google_Product_Taxonomy_Version\s*:?\s*(\S*)", re.IGNORECASE)
_GOOGLE_ID = re.compile(r"(\d+)\s+-\s+")
_NUMBER = re.compile(r"[\d.]+")
_MANY = 0.2  # from this share on it is told that texts with a separator are not split
_FEWEST = 3  # texts below others, by which dots are known to separate names
_DEPTH = 32  # lists of breadcrumbs are sought so deep in a JSON document


class Breadcrumbs(NamedTuple):
    """Texts read as breadcrumbs.

    Attributes:
        separator: What separates the names.
        paths: The names of each text, coarse to fine; a text without the separator is one name.
    """

    separator: str
    paths: list[tuple[str, ...]]


class GoogleTaxonomy(NamedTuple):
    """Lines of Google's product taxonomy.

    Attributes:
        paths: The path of each line.
        lines: Its number.
        ids: Its id; empty without ids.
        version: The version; None if not told.
    """

    paths: list[tuple[str, ...]]
    lines: list[int]
    ids: list[str]
    version: str | None


def breadcrumbs_of(
    texts: Collection[str],
    separator: str | None = None,
    certain: bool = False,
    marks: Mapping[str, re.Pattern[str]] = _SEPARATORS,
) -> Breadcrumbs | None:
    """Read texts as breadcrumbs; None if they do not look like breadcrumbs.

    They do if nearly all that are not the beginning of another one have the same separator, and some begin
    with the same name: `5 > 3` among other names is a name. Beside paths with `>`, `›` or `»` between spaces,
    `a>b` and `a › b` are read alike, see `_read_alike`.

    Args:
        texts: Distinct texts.
        separator: What separates the names; by default found among `>`, `›`, `»`, `|` and `::`.
        certain: Whether they are known to be breadcrumbs, so that a few texts that look so suffice.
        marks: The separators that are sought, and the pattern of each.
    """
    if separator is not None:
        pattern = re.compile(rf"\s*{re.escape(separator.strip() or separator)}\s*")
        return Breadcrumbs(separator, [_split(text, pattern) or (text.strip(),) for text in texts])
    for mark, pattern in marks.items():
        sought = mark.strip()
        if not any(sought in text for text in texts):
            continue
        split = [_split(text, pattern) if sought in text else None for text in texts]
        if mark in BETWEEN_SPACES:
            split = _read_alike(list(texts), split)
        paths = [path for path in split if path is not None and len(path) > 1]
        if not paths or not (certain or _is_tree(list(texts), split, paths, mark)):
            continue
        return Breadcrumbs(mark, [path or (text.strip(),) for text, path in zip(texts, split, strict=True)])
    return None


def dotted_paths(texts: Sequence[str]) -> Breadcrumbs | None:
    """Read texts such as `Top.Science.Physics`.

    None unless each but the first ones is below another text, or all are words with dots between, as
    `Fish.Cod.Gadus`, which are surely a tree, and no hosts, files, versions or initials.
    """
    known = set(texts)
    if _are_dotted_words(list(known)):
        return Breadcrumbs(".", [tuple(text.split(".")) for text in texts])
    above = [text.rpartition(".")[0] for text in known]
    if (
        sum(map(bool, above)) < _FEWEST
        or not any(text.count(".") > 1 for text in known)
        or not all(text in known for text in above if text)
        or not all(all(text.split(".")) and not _NUMBER.fullmatch(text) for text in known)
    ):
        return None
    return Breadcrumbs(".", [tuple(text.split(".")) for text in texts])


def listed_paths(texts: Sequence[str]) -> Breadcrumbs | None:
    """Read texts such as `[food,restaurant]`; None unless nearly each is below another text."""
    if len(texts) < _FEWEST or not all(text.startswith("[") and text.endswith("]") for text in texts):
        return None
    paths = [tuple(name.strip(" \"'") for name in text[1:-1].split(",")) for text in texts]
    known, below = set(paths), [path[:-1] for path in paths if len(path) > 1]
    listed = sum(above in known for above in below)
    if not all(all(path) for path in paths) or not below or listed < (1 - _PLAIN) * len(below):
        return None
    return Breadcrumbs(",", paths)


def _are_dotted_words(texts: Sequence[str]) -> bool:
    paths = [tuple(text.split(".")) for text in texts]
    if len(paths) < _FEWEST or any(" " in text or "." not in text for text in texts):
        return False
    first, second = (len({path[:end] for path in paths}) for end in (1, 2))
    last = len({path[-1] for path in paths})
    words = all(part[:1].isalpha() for path in paths for part in path)
    initials = sum(len(path[0]) == 1 for path in paths) >= 0.5 * len(paths)
    return words and not initials and 1 < first <= second and last > 0.5 * len(paths) and are_nested(paths)


def are_nested(paths: Sequence[tuple[str, ...]]) -> bool:
    """Whether paths are surely a tree: most first names repeat, and names of several depths are few."""
    long = {path for path in paths if len(path) > 1}
    alone = {path[0] for path in paths if len(path) == 1}
    first: dict[str, set[tuple[str, ...]]] = {}
    for path in long:
        first.setdefault(path[0], set()).add(path)
    if not long or len(alone - set(first)) > 0.1 * len(long):
        return False
    repeated = sum(len(below) for name, below in first.items() if len(below) > 1 or name in alone)
    depths: dict[str, set[int]] = {}
    for path in long:
        for depth, name in enumerate(path):
            depths.setdefault(name, set()).add(depth)
    mixed = sum(len(at) > 1 for at in depths.values())
    return repeated >= 0.9 * len(long) and mixed <= 0.1 * len(depths)


def sure_breadcrumbs(texts: Collection[str]) -> Breadcrumbs | None:
    """Read labels as breadcrumbs only where they can hardly be names; else None.

    Names such as `C > A`, `EWSR1::FLI1` and `cat | dog` are common among labels. So `>`, `›` or `»` must
    stand between spaces, and a path must have three names, or a name above others stand alone, too.
    """
    breadcrumbs = breadcrumbs_of(texts, marks=BETWEEN_SPACES)
    if breadcrumbs is None:
        return None
    above = {path[0] for path in breadcrumbs.paths if len(path) > 1}
    sure = any(len(path) > 2 or (len(path) == 1 and path[0] in above) for path in breadcrumbs.paths)
    return breadcrumbs if sure else None


def written_paths(text: str) -> list[tuple[str, ...]]:
    """What a text may mean as a path with `>`, `›` or `»`: one sign between spaces first, then all signs."""
    patterns = [*BETWEEN_SPACES.values(), _ANY_SPACES] if any(mark in text for mark in BETWEEN_SPACES) else []
    paths = [path for pattern in patterns if (path := _split(text, pattern)) is not None and len(path) > 1]
    return list(dict.fromkeys(paths))


def spaced_path(text: str) -> tuple[str, ...]:
    """The names of a text such as `a > b`, with `>`, `›` or `»`; one name if it has none."""
    return next(iter(written_paths(text)), (text.strip(),))


def has_signs(texts: Sequence[str], rows: Sequence[int]) -> str | None:
    """A text with `>`, `›` or `»`, if at least a fifth of the texts, or of the rows, may be paths so."""
    paths = [path for text in texts if (path := _split(text, _ANY_SPACES)) is not None and len(path) > 1]
    may = [place for place, text in enumerate(texts) if written_paths(text)]
    spaced = [texts[place] for place in may if any(p.search(texts[place]) for p in BETWEEN_SPACES.values())]
    long = [texts[place] for place in may if any(len(path) > 2 for path in written_paths(texts[place]))]
    shared = len({path[0] for path in paths}) < len(set(paths))
    count = sum(rows[place] for place in may)
    if not (spaced or long or shared) or max(len(may) / len(texts), count / max(sum(rows), 1)) < _MANY:
        return None
    return (long or spaced or [texts[place] for place in may])[0]


def _read_alike(
    texts: Sequence[str], split: Sequence[tuple[str, ...] | None]
) -> list[tuple[str, ...] | None]:
    """The paths of texts, of which others are written without spaces or with another of the signs.

    A text is another spelling of a path that is known. Else it is a path if it begins with the first name of
    one, or has three names, unless there are more such texts than paths.

    Args:
        texts: The texts.
        split: Their names by the separator between spaces; None = they cannot be split.
    """
    paths = {path for path in split if path is not None and len(path) > 1}
    known = {path[:end] for path in paths for end in range(2, len(path) + 1)}
    first = {path[0] for path in paths}
    alike, further = list(split), {}
    for place, (text, path) in enumerate(zip(texts, split, strict=True)):
        names = _split(text, _ANY_SPACES) if any(mark in text for mark in BETWEEN_SPACES) else None
        if names is None or len(names) < 2 or names == path:
            continue
        if names in known:
            alike[place] = names
        elif (path is None or len(path) < 2) and (names[0] in first or len(names) > 2):
            further[place] = names
    if len(further) <= len(paths):
        for place, names in further.items():
            alike[place] = names
    return alike


def _split(text: str, pattern: re.Pattern[str]) -> tuple[str, ...] | None:
    """The names of a text; None if one of them is empty. A separator at the end is ignored."""
    names = [name.strip() for name in pattern.split(text.strip())]
    if len(names) > 1 and not names[-1]:
        names.pop()
    return tuple(names) if all(names) else None


def _is_tree(
    texts: Sequence[str],
    split: Sequence[tuple[str, ...] | None],
    paths: Sequence[tuple[str, ...]],
    mark: str,
) -> bool:
    first = {path[0] for path in paths}
    other = sum(
        (path is None or len(path) == 1) and text.strip() not in first
        for text, path in zip(texts, split, strict=True)
    )
    if other > _PLAIN * len(paths) or len(first) == len(set(paths)):
        return False
    if mark != "|":
        return True
    depth: dict[str, int] = {}  # `cat | dog` and `dog | cat` are several labels of one sample
    return all(depth.setdefault(name, i) == i for path in paths for i, name in enumerate(path))


def is_google(text: str) -> bool:
    """Whether a text begins with the first line of Google's product taxonomy."""
    return _GOOGLE.match(text.lstrip()) is not None


def google_taxonomy(text: str) -> GoogleTaxonomy:
    """Read Google's product taxonomy, with ids (`3237 - Animals > Live Animals`) or without.

    Its first line, `# Google_Product_Taxonomy_Version: …`, may be missing.
    """
    lines = [(i, line.strip()) for i, line in enumerate(text.split("\n"), start=1) if line.strip()]
    match = _GOOGLE.match(lines[0][1]) if lines else None
    rows = lines[1:] if match is not None else lines
    if not rows:
        raise TaxonomyError("there are no categories below the first line")
    ids = [id[1] for _, line in rows if (id := _GOOGLE_ID.match(line)) is not None]
    with_ids = len(ids) == len(rows)
    texts = [_GOOGLE_ID.sub("", line, count=1) if with_ids else line for _, line in rows]
    paths = [tuple(name.strip() for name in line.split(">")) for line in texts]
    version = (match.group(1) or None) if match is not None else None
    return GoogleTaxonomy(paths, [i for i, _ in rows], ids if with_ids else [], version)


def breadcrumb_lists(data: Any) -> list[tuple[str, ...]]:
    """The paths of the schema.org BreadcrumbLists in a JSON-LD document; none if it is something else.

    Args:
        data: What was read from JSON; objects are `Pairs`.

    Raises:
        TaxonomyError: If an element of a list has no name.
    """
    outermost = data if isinstance(data, list) and not isinstance(data, Pairs) else [data]
    if not any(
        isinstance(item, Pairs) and ("@type" in (keys := dict(item)) or "@graph" in keys)
        for item in outermost
    ):
        return []
    lists: list[dict[str, Any]] = []
    _find_lists(data, lists, _DEPTH)
    return [
        path for number, breadcrumbs in enumerate(lists, start=1) if (path := _names(breadcrumbs, number))
    ]


def _find_lists(data: Any, lists: list[dict[str, Any]], depth: int) -> None:
    if isinstance(data, Pairs):
        item = dict(data)
        kind = item.get("@type")
        kinds = kind if isinstance(kind, list) else [kind]
        if any(str(name).rsplit("/", 1)[-1] == "BreadcrumbList" for name in kinds):
            lists.append(item)
        elif depth:
            for value in item.values():
                _find_lists(value, lists, depth - 1)
    elif isinstance(data, list) and depth:
        for value in data:
            _find_lists(value, lists, depth - 1)


def _names(breadcrumbs: dict[str, Any], number: int) -> tuple[str, ...]:
    elements = breadcrumbs.get("itemListElement", [])
    elements = [elements] if isinstance(elements, Pairs) else elements
    if not isinstance(elements, list):
        raise TaxonomyError(f"the itemListElement of BreadcrumbList {number} is not a list")
    placed = []
    for place, element in enumerate(elements, start=1):
        item = dict(element) if isinstance(element, Pairs) else {"name": element}
        inner = item.get("item")
        name = item.get("name") or (dict(inner).get("name") if isinstance(inner, Pairs) else None)
        if not isinstance(name, str) or not name.strip():
            raise TaxonomyError(f"element {place} of BreadcrumbList {number} has no name")
        placed.append((_position(item.get("position"), place), place, name.strip()))
    return tuple(name for *_, name in sorted(placed))


def _position(value: Any, place: int) -> float:
    """The position of an element: a number, perhaps as text; where there is none, its place in the list."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float(place)
