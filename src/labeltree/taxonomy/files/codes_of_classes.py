"""Taxonomies of codes: the beginning of a code is the code of its parent, as in ICD-10, ATC or NAICS."""

import bisect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries, entries_from_paths
from labeltree.taxonomy.naming import some

__all__ = [
    "SCHEMES",
    "CodeScheme",
    "are_described_codes",
    "are_numbers",
    "entries_from_codes",
    "entries_of_described_codes",
    "look_like_codes",
    "padded_scheme",
]

_RANGE = re.compile(r"\s*(\w+)\s*[-\u2013]\s*(\w+)\s*")


class CodeScheme(NamedTuple):
    """How codes are made.

    Attributes:
        lengths: Letters and digits of the codes of each level, coarse to fine.
        padded: Whether zeros at the end fill a coarser code up, as in `10100000`.
        ranges: Whether codes such as `A00-A09` are levels above (`above`) or are written instead of the codes
            that they span (`instead`: the sector `31-33` of NAICS).
    """

    lengths: tuple[int, ...]
    padded: bool = False
    ranges: str | None = None


SCHEMES = {
    "icd10": CodeScheme((3, 4, 5, 6, 7), ranges="above"),
    "atc": CodeScheme((1, 3, 4, 5, 7)),
    "naics": CodeScheme((2, 3, 4, 5, 6), ranges="instead"),
    "isco": CodeScheme((1, 2, 3, 4)),
    "hs": CodeScheme((2, 4, 6, 8, 10)),
    "nace": CodeScheme((2, 3, 4)),
    "soc": CodeScheme((2, 3, 5, 6), padded=True),
    "unspsc": CodeScheme((2, 4, 6, 8), padded=True),
    "dewey": CodeScheme(tuple(range(1, 13)), padded=True),
}
"""Known codes, by name."""

_CODE = re.compile(r"[A-Z0-9](?:[A-Z0-9.\u2013-]{0,14}[A-Z0-9])?|\d+(?: \d+)+")
_KNOWN = {
    "icd10": re.compile(r"[A-Z]\d[0-9A-Z](?:\.?[0-9A-Z]{1,4}|\s*[-\u2013]\s*[A-Z]\d[0-9A-Z])?"),
    "naics": re.compile(r"\d{2,6}|\d\d-\d\d"),
    "hs": re.compile(r"\d\d(?:\d\d(?:\.\d\d(?:\.?\d\d){0,2})?)?"),
    "atc": re.compile(r"[A-Z](?:\d\d(?:[A-Z](?:[A-Z](?:\d\d)?)?)?)?"),
}
_PATENT = re.compile(r"[A-HY](?:\d\d(?:[A-Z](?:\s*\d{1,4}/\d{2,6})?)?)?")  # IPC, CPC: A01B 1/02
_SUBJECT = re.compile(r"(\d\d)(?:-(?:XX|\d\d)|([A-Z])(?:xx|\d\d))?")  # MSC: 00-XX, 00-01, 00Axx, 00A05
_PADDED = {
    "soc": re.compile(r"\d\d-\d{4}"),
    "unspsc": re.compile(r"\d{8}"),
    "dewey": re.compile(r"\d{3}(?:\.\d+)?"),
}
_LISTED = 0.8  # the least share of padded codes whose parent is there, too
_SHORTEST_END = 3  # characters of an end of a range, where no scheme says that there are ranges
_DISTINCT = 0.5  # of the lines at least have a code of their own
_TELLING = 0.8  # the least share of codes with a digit, beginnings of others, what begins so, and letters


def look_like_codes(texts: Sequence[str]) -> bool:
    """Whether texts are distinct codes, in capitals and digits, as `A00.1`, `A00-A09` and `A01B 1/02`."""
    if len(texts) < 2 or len(set(texts)) < len(texts):
        return False
    if _are_patents(texts) or _are_subjects(texts):
        return True
    telling = _telling(texts)
    letters = [told or len(text) == 1 for text, told in zip(texts, telling, strict=True)]
    enough = sum(letters) >= _TELLING * len(texts) and 2 * sum(telling) >= len(texts)
    return enough and all(map(_CODE.fullmatch, texts))


def are_described_codes(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether the first of each pair is a code; one may occur several times, with several texts."""
    codes = list(dict.fromkeys(code for code, _ in pairs))
    return len(codes) >= _DISTINCT * len(pairs) and look_like_codes(codes)


def _are_branches(codes: Sequence[str]) -> bool:
    """Whether codes are those of NACE, in which `01.11` is below `01.1`, as each of that length is."""
    known = set(codes)
    fine = [code for code in codes if re.fullmatch(r"\d\d\.\d\d", code)]
    return (
        bool(fine)
        and all(map(re.compile(r"[A-Z]|\d\d(?:\.\d\d?)?").fullmatch, codes))
        and all(code[:4] in known for code in fine)
    )


def _are_patents(codes: Sequence[str]) -> bool:
    return all(map(_PATENT.fullmatch, codes)) and any("/" in code for code in codes)


def _are_subjects(codes: Sequence[str]) -> bool:
    return all(map(_SUBJECT.fullmatch, codes)) and any(code[-2:] in ("xx", "XX") for code in codes)


def _telling(texts: Sequence[str]) -> list[bool]:
    """Whether each text has a digit, or begins another one, or another one begins it."""
    known = set(texts)
    begin = {text[:end] for text in texts for end in range(1, len(text))}
    return [
        any(map(str.isdigit, text))
        or text in begin
        or any(text[:end] in known for end in range(1, len(text)))
        for text in texts
    ]


def are_numbers(texts: Sequence[str]) -> bool:
    """Whether texts are the numbers of a list: distinct, without zeros before them, and with few gaps.

    Gaps may be many where numbers ascend so that `10` follows `2`, and one of a digit begins no other.
    """
    if not all(text.isascii() and text.isdecimal() and str(int(text[:18])) == text for text in texts):
        return False
    numbers = [int(text) for text in texts]
    if len(set(numbers)) < len(numbers):
        return False
    if max(numbers) <= 2 * len(numbers):
        return True
    ascend = numbers == sorted(numbers) and list(texts) != sorted(texts)
    first = {text[0] for text in texts if len(text) > 1}
    return ascend and any(len(text) == 1 and text not in first for text in texts)


def padded_scheme(codes: Sequence[str]) -> str | None:
    """The name of the scheme in which zeros fill codes up, if most codes have their parent among them."""
    for name, shape in _PADDED.items():
        if not all(map(shape.fullmatch, codes)):
            continue
        lengths = SCHEMES[name].lengths
        keys = {code: re.sub(r"\D", "", code).rstrip("0") or "0" for code in codes}
        cut = {
            code: next(end for end in (*lengths, len(key)) if end >= len(key)) for code, key in keys.items()
        }
        padded = {key.ljust(cut[code], "0") for code, key in keys.items()}
        below = [(code, key) for code, key in keys.items() if cut[code] > lengths[0]]
        above = [key.ljust(cut[code], "0")[: max(e for e in lengths if e < cut[code])] for code, key in below]
        if below and sum(key in padded for key in above) >= _LISTED * len(below):
            return name
    return None


def entries_of_described_codes(pairs: Sequence[tuple[str, str]], root_name: str | None) -> Entries:
    """The tree of codes with what each means, which becomes a further name of its node, or several.

    Levels are those of ICD-10 or ATC where all codes have that shape; else see `entries_from_codes`.

    Raises:
        TaxonomyError: If nothing says where levels end.
    """
    texts: dict[str, dict[str, None]] = {}
    for code, text in pairs:
        texts.setdefault(code, {})[text.strip()] = None
    codes = list(texts)
    marks = {"naics": "-", "hs": "."}  # without these, prefixes say the same
    known = next(
        (
            name
            for name, shape in _KNOWN.items()
            if all(map(shape.fullmatch, codes)) and any(marks.get(name, "") in code for code in codes)
        ),
        None,
    )
    known = known or padded_scheme(codes) or ("nace" if _are_branches(codes) else None)
    if _are_patents(codes):
        known, entries = "ipc", entries_from_paths(list(map(_patent_path, codes)), root_name)
    elif _are_subjects(codes):
        known, entries = "msc", entries_from_paths(_subject_paths(codes), root_name)
    else:
        entries = entries_from_codes(codes, None if known is None else SCHEMES[known], root_name=root_name)
    several = [code for code in codes if len(texts[code]) > 1]
    made = len(entries.names) - 1 - len(texts)
    levels = f"levels as in {known}" if known else "a code that begins with another one is below it"
    note = f"{len(texts)} codes, {levels}; what they mean are further names; 'labeltree taxonomy convert' "
    note += "with --form codes and --levels reads other levels"
    note += "".join(f"; {said}" for said in entries.notes)
    missing = "codes above them are" if made > 1 else "code above them is"
    note += f"; {made} {missing} not in the file" if made > 0 else ""
    note += f"; {some(several, 3)} {'has' if len(several) == 1 else 'have'} several meanings" * bool(several)
    aliases = [tuple(text for text in texts.get(name, ()) if text != name) for name in entries.names]
    return entries._replace(aliases=aliases, notes=(note,))


def _sections(codes: Sequence[str]) -> dict[str, str]:
    """The letter above each number, as in NACE and ISIC, where sections are letters and divisions two digits.

    Empty if codes are something else, or stand in an order that does not tell.
    """
    letter, last, sections = "", "", dict[str, str]()
    for code in codes:
        if len(code) == 1 and "A" <= code <= "Z":
            if code <= letter:
                return {}
            letter = code
        elif letter and code[:2].isdecimal() and len(code) > 1 and code[:2] >= last:
            sections[code], last = letter, code[:2]
        else:
            return {}
    divisions = {(code[:2], letter) for code, letter in sections.items()}
    one_each = len(divisions) == len({division for division, _ in divisions})
    return sections if one_each and len(set(sections.values())) > 1 else {}


def _patent_path(code: str) -> list[str]:
    """Section, class, subclass, main group and subgroup of IPC and CPC, as far as a code goes."""
    path = [code[:end] for end in (1, 3, 4) if len(code) >= end]
    if len(code) > 4:
        group, _, subgroup = code.partition("/")
        path += dict.fromkeys([f"{group}/00", code] if subgroup.strip("0") else [code])
    return path


def _subject_paths(codes: Sequence[str]) -> list[list[str]]:
    """The paths of MSC's codes: `00A05` is below `00Axx`, and that, as `00-01`, below `00-XX`."""
    tops = {code[:2]: code for code in codes if len(code) == 2 or code.endswith("-XX")}
    paths = []
    for code in codes:
        above = [tops.get(code[:2], f"{code[:2]}-XX")]
        above += [f"{code[:3]}xx"] if len(code) > 2 and code[2] != "-" else []
        paths.append(list(dict.fromkeys([*above, code])))
    return paths


def entries_from_codes(
    codes: Iterable[str],
    scheme: CodeScheme | None = None,
    descriptions: Mapping[str, str] | None = None,
    root_name: str | None = "root",
) -> Entries:
    """The tree of codes; codes above the given ones are made where they are missing.

    Args:
        codes: The codes; one may occur several times.
        scheme: How they are made; only letters and digits count: `A001` is `A00.1`. None finds out: a level
            ends at a mark that is neither a letter nor a digit (`A00.1` is below `A00`, and `1.11` not below
            `1.1`), or, if no code has one within, where another given code ends. Divisions of two digits
            are below the section, a letter, that stands above them.
        descriptions: What codes mean; their nodes are named `A00 Cholera`, and others only `A00`.
        root_name: Name of the root.

    Raises:
        TaxonomyError: If there are no codes, one has no letter or digit, two are the same, or nothing says
            where levels end.
    """
    texts: dict[str, str] = {}  # the code as it is written, by its letters and digits
    spans: list[tuple[str, str, str]] = []
    given = list(dict.fromkeys(code.strip() for code in codes))
    marked = scheme is None and any(len(_segments(code)) > 1 for code in given)
    has_ranges = scheme.ranges is not None if scheme is not None else marked and _have_ranges(given)
    for code in given:
        span = _RANGE.fullmatch(code) if has_ranges else None
        if span is not None and len(span[1]) == len(span[2]) and span[1] < span[2]:
            spans.append((span[1].upper(), span[2].upper(), code))
            continue
        key = (" " if marked else "").join(_segments(code))
        if not key:
            raise TaxonomyError(f"the code {code!r} has no letter and no digit")
        if key in texts:
            raise TaxonomyError(f"the codes {texts[key]!r} and {code!r} are the same; write one of them")
        texts[key] = code
    if not texts and not spans:
        raise TaxonomyError("there are no codes")
    if scheme is not None:
        paths = _split_at_lengths(texts, scheme, _Spans(spans))
    else:
        paths = _split_at_marks(texts, _Spans(spans)) if marked else _split_at_codes(texts)
    sections = _sections(given)
    paths = [[sections[path[0]], *path] if path[0] in sections else path for path in paths]
    known = {code: text.strip() for code, text in (descriptions or {}).items() if text.strip()}
    named = [[f"{code} {known[code]}" if code in known else code for code in path] for path in paths]
    notes = ("codes are below the letter that stands above them",) if sections else ()
    return entries_from_paths(named, root_name)._replace(notes=notes)


def _segments(code: str) -> list[str]:
    """The letters and digits of a code, split at its marks."""
    return "".join(character if character.isalnum() else " " for character in code.upper()).split()


def _have_ranges(codes: Sequence[str]) -> bool:
    """Whether all codes with a dash are ranges, as `001-009` in ICD-9, and most hold another code."""
    ranges = [_RANGE.fullmatch(code) for code in codes if "-" in code or "\u2013" in code]
    ends = [(match[1], match[2]) for match in ranges if match is not None]
    if not ends or len(ends) < len(ranges) or not all(_is_range(*pair) for pair in ends):
        return False
    first = {segments[0] for code in codes if "-" not in code and (segments := _segments(code))}
    return 2 * sum(any(low <= one <= high for one in first) for low, high in ends) > len(ends)


def _is_range(low: str, high: str) -> bool:
    return len(low) == len(high) >= _SHORTEST_END and low < high


def _split_at_marks(texts: Mapping[str, str], spans: "_Spans") -> list[list[str]]:
    """The path of each code, where levels end at marks; the key of a code is its segments, with spaces."""
    names = dict(texts)
    paths = [spans.above(low, high) for low, high, _ in spans.spans]
    for key, code in texts.items():
        segments = key.split(" ")
        path, length = spans.above(segments[0]), 0
        for number, segment in enumerate(segments, start=1):
            length += len(segment)
            path.append(names.setdefault(" ".join(segments[:number]), _beginning(code, length)))
        paths.append(path)
    return paths


def _beginning(code: str, length: int) -> str:
    """The beginning of a code with so many letters and digits, without a mark at its end."""
    for place, character in enumerate(code):
        length -= character.isalnum()
        if length == 0:
            return code[: place + 1]
    return code


def _split_at_codes(texts: Mapping[str, str]) -> list[list[str]]:
    """The path of each code, where levels end where other codes end."""
    paths = []
    for key in texts:
        ends = {length for length in range(1, len(key)) if key[:length] in texts}
        paths.append([texts[key[:end]] for end in sorted({*ends, len(key)})])
    if len(paths) > 1 and all(len(path) == 1 for path in paths):
        raise TaxonomyError(
            "nothing in the codes says where a level ends: no code is the beginning of another one, and none "
            f"has a mark within; say --levels 1,3,4 (letters and digits) or one of {', '.join(SCHEMES)}"
        )
    return paths


def _split_at_lengths(texts: Mapping[str, str], scheme: CodeScheme, spans: "_Spans") -> list[list[str]]:
    """The path of each code, where levels have known lengths."""
    lengths = sorted(set(scheme.lengths))
    width = min(map(len, texts), default=0)
    listed: dict[str, str] = {}
    own: dict[str, str] = {}
    for key, code in texts.items():
        if scheme.padded:
            significant = max(len(key.rstrip("0")), 1)
            place = bisect.bisect_left(lengths, significant)
            key = key[: lengths[place]] if place < len(lengths) else key
        own[code] = key
        listed.setdefault(key, code)
    paths = [spans.above(low, high) for low, high, _ in spans.spans]
    for code, key in own.items():
        path = spans.above(key)
        for length in [*(length for length in lengths if length < len(key)), len(key)]:
            start = key[:length]
            if start in listed:
                path.append(listed[start])
            elif scheme.ranges == "instead" and spans.has(start):
                continue
            elif scheme.padded:
                path.append(start.ljust(width, "0"))
            else:
                path.append(_beginning(code, length))
        paths.append(path)
    return paths


class _Spans:
    """Ranges of codes, the wider ones above those within them."""

    def __init__(self, spans: Sequence[tuple[str, str, str]]) -> None:
        self.spans = sorted(sorted(spans, key=lambda span: span[1], reverse=True), key=lambda span: span[0])
        self._lengths = sorted({len(low) for low, *_ in spans})
        self._above: dict[tuple[str, str], list[str]] = {}

    def above(self, low: str, high: str | None = None) -> list[str]:
        """The ranges that hold a code, or all from one to another, the widest first."""
        longest = self._lengths[-1] if self._lengths else 0
        ends = low[:longest], (high or low)[:longest]
        if ends not in self._above:
            self._above[ends] = [
                code
                for first, last, code in self.spans
                if first <= ends[0][: len(first)] and ends[1][: len(last)] <= last
            ]
        return list(self._above[ends])

    def has(self, start: str) -> bool:
        """Whether a range has ends of this length, and the code is within it."""
        return any(len(first) == len(start) and first <= start <= last for first, last, _ in self.spans)
