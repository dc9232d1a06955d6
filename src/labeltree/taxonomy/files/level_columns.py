"""What the columns of a table are in which each level has one: levels, their codes, descriptions."""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from labeltree.file_kinds import names_image
from labeltree.taxonomy.column_names import (
    IMAGES,
    PER_DEPTH,
    TEXTS_OF_CLASSES,
    letters,
    names_sample,
    usual_labels,
)
from labeltree.taxonomy.column_names import (
    TEXTS as TEXTS_OF_SAMPLES,
)
from labeltree.taxonomy.files.codes_of_classes import are_numbers, look_like_codes

__all__ = [
    "CODES",
    "TEXTS",
    "TITLES",
    "LevelColumn",
    "LevelColumns",
    "code_columns",
    "columns_of_samples",
    "find_levels",
    "is_header",
    "is_reversed",
    "names_id",
    "plain_words",
]

_ID_NAMES = {
    *("id", "ids", "index", "idx", "key", "uuid", "wnid", "mid", "no", "number", "#", ""),
    *("classid", "classidx", "classindex", "labelid", "categoryid", "nodeid", "taxonid", "speciesid"),
}
CODES = {"code", "codes", "id", "ids", "no", "nr", "num", "number", "key", "uid"}
TITLES = {"title", "titles", "name", "names", "label", "labels", "term"}
TEXTS = {
    *("description", "descriptions", "desc", "definition", "definitions", "includes", "excludes", "note"),
    *("notes", "comment", "comments", "remark", "remarks", "explanation", "example", "examples", "synopsis"),
}
_LINKS = {"url", "link", "uri", "iri", "image", "icon", "picture", "wikipedia", "website"}
_LANGUAGES = {
    *("en", "de", "fr", "es", "it", "pt", "nl", "pl", "sv", "da", "no", "fi", "cs", "ru", "ja", "zh", "ko"),
    *("english", "german", "french", "spanish", "italian", "portuguese", "dutch", "chinese", "japanese"),
}
_COUNTS = re.compile(
    r"(?:n|num|number|no|count|counts|total|size|freq|frequency|active|enabled|images|samples)"
    r"(?:[ _].*)?|.*[ _](?:count|counts|total)"
)
_NUMBER = re.compile(r"[-+]?\d[\d.,]*%?|true|false|yes|no", re.IGNORECASE)
_QUANTITY = re.compile(
    r"(?:[$€£¥]|USD|EUR|GBP|CHF)?\s*[-+]?\d[\d.,' ]*"
    r"\s*(?:[%$€£¥]|USD|EUR|GBP|CHF|[kmc]?[gml]|[mc]m|lbs?|oz|in)?",
    re.IGNORECASE,
)
_MEASURES = {
    *("price", "prices", "cost", "costs", "amount", "quantity", "qty", "stock", "weight", "width", "height"),
    *(
        "length",
        "depth",
        "volume",
        "rating",
        "score",
        "discount",
        "revenue",
        "sales",
        "margin",
        "msrp",
        "vat",
    ),
    *("preis", "menge", "gewicht", "bestand", "prix", "precio", "prezzo"),
}
_ARTICLES = {"sku", "ean", "gtin", "upc", "asin", "isbn", "plu", "barcode"}
_FLAGS = {"true", "false", "yes", "no"}
_ATTRIBUTES = {"type", "rank", "status", "kind"}
_COLOURS = {"color", "colour", "rgb", "hex"}
_MID = re.compile(r"/[a-z]/\w+")  # Open Images and AudioSet: /m/011k07
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_a-zA-Z]+")
_SAMPLES = {*map(letters, {*IMAGES, *TEXTS_OF_SAMPLES} - TEXTS_OF_CLASSES - {"path"})}
_FILE = re.compile(r".+\.[a-z]\w{2,3}", re.IGNORECASE)
_ABOVE = {"parent", "super", "superclass", "supercategory", "coarse", "top", "main"}
_BELOW = {"child", "subcategory", "subclass", "fine", "sub"}
_LONGEST = 40  # characters of names, on average
_NEARLY_ONE = 1.15  # coarser names for each finer one, where these are
_FAR_MORE = 8  # times as many
_FEWEST = 3  # rows by which an order is told


class LevelColumn(NamedTuple):
    """The column of a level's names, and those of its codes and of its names in other languages."""

    names: int
    further: tuple[int, ...] = ()
    code: int | None = None


class LevelColumns(NamedTuple):
    """What the columns of a table are, by their places.

    Attributes:
        levels: The levels, as they stand.
        ids: Those of ids of whole rows.
        counts: Those that count something.
        texts: Those that describe classes, or lead to descriptions.
        images: Those of names of image files.
    """

    levels: list[LevelColumn]
    ids: list[int]
    counts: list[int]
    texts: list[int]
    images: list[int]


def find_levels(header: Sequence[str], rows: Sequence[Sequence[str]]) -> LevelColumns:
    """Find the levels among the columns of a table, by names and content.

    Columns whose names differ in a word such as `code` and `title`, or in a language, are one level, if each
    code has one title. What counts, and what describes (`description`, `url`), is no level, if rows differ
    without it.
    """
    counts = _count_columns(header, rows)
    images = _image_columns(header, rows)
    free = [place for place in range(len(header)) if place not in (*counts, *images)]
    levels, texts = _grouped(header, rows, free)
    levels = _without_doubles(rows, levels)
    plain = [level.names for level in levels if not level.further]
    for place in reversed(plain):
        if _is_no_name(header[place], [row[place] for row in rows]) and len(levels) > 1:
            levels, counts = [level for level in levels if level.names != place], [*counts, place]
            continue
        others = [level for level in levels if level.names != place]
        names = [level.names for level in others]
        if names and (
            _describes(header[place], rows, names) or _is_attribute(header[place], rows, names, place)
        ):
            levels, texts = others, [*texts, place]
    measures = _measures(header, rows, levels)
    levels = [level for level in levels if level.names not in measures]
    ids = _id_columns(header, rows, levels)
    levels = [level for level in levels if level.names not in ids]
    numbers = _numbers_of_rows(header, rows, levels)
    levels = [level for level in levels if level.names not in numbers]
    counts = [*counts, *measures, *numbers]
    return LevelColumns(levels, ids, sorted(counts), sorted(texts), images)


def columns_of_samples(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[str, str] | None:
    """The columns of texts or files, and of labels, by which a table is one of samples; None if it is not."""
    usual = usual_labels(header)
    labels = [name for name in header if letters(name) in usual]
    for place, name in enumerate(header) if labels else ():
        plain = letters(name)
        cells = [row[place] for row in rows] if plain == "path" else []
        if plain in _SAMPLES or (cells and _mostly(cells, lambda cell: _FILE.fullmatch(cell) is not None)):
            return name, labels[0]
    return None


def _grouped(
    header: Sequence[str], rows: Sequence[Sequence[str]], free: Sequence[int]
) -> tuple[list[LevelColumn], list[int]]:
    """The levels of columns that name one together, and what describes these."""
    stems: dict[str, list[int]] = {}
    for place in free:
        stems.setdefault(_stem(header[place]), []).append(place)
    for stem in [stem for stem, places in stems.items() if len(stem) > 1 and _are_codes(header, places)]:
        longer = [other for other in stems if other.startswith(stem) and other != stem]  # cat_id, category
        if len(longer) == 1:
            stems[longer[0]] = sorted(stems[longer[0]] + stems.pop(stem))
    levels, texts = list[LevelColumn](), list[int]()
    for stem, places in stems.items():
        group = _one_level(header, rows, places, stem)
        if group is None:
            levels += [LevelColumn(place) for place in places]
        else:
            levels.append(group)
            texts += [place for place in places if place not in (group.names, *group.further)]
    return sorted(levels, key=lambda level: min(level.names, *level.further, level.names)), texts


def _without_doubles(rows: Sequence[Sequence[str]], levels: Sequence[LevelColumn]) -> list[LevelColumn]:
    """The levels, but for columns that repeat the codes of another one, which belong to it."""
    kept = list(levels)
    for double in [level.names for level in levels if not level.further]:
        for place, level in enumerate(kept):
            if level.code is not None and all(row[double] == row[level.code] for row in rows):
                kept[place] = level._replace(further=(*level.further, double))
                kept = [one for one in kept if one.names != double]
                break
    return kept


def _one_level(
    header: Sequence[str], rows: Sequence[Sequence[str]], places: Sequence[int], stem: str
) -> LevelColumn | None:
    """Columns of one stem as one level; None if they are not."""
    roles = {place: plain_words(header[place]) for place in places}
    codes = [place for place in places if roles[place] & CODES]
    titles = [place for place in places if roles[place] & TITLES and place not in codes]
    texts = [place for place in places if roles[place] & (TEXTS | _LINKS) and place not in (*codes, *titles)]
    plain = [place for place in places if place not in (*codes, *titles, *texts)]
    coded = bool(plain) and (
        (titles + texts and _have_digits(rows, plain[0]))
        or (titles and _tells(rows, plain[0], titles[0]) and _tells(rows, titles[0], plain[0]))  # dx, dx_name
    )
    if not codes and coded:
        codes, plain = plain[:1], plain[1:]  # Segment, Segment Title
    names = [*titles, *plain] or texts[:1] * bool(codes)
    if not names or len(places) < 2 or (not codes and not (stem and roles[names[-1]] & _LANGUAGES)):
        return None
    key = codes[0] if codes else names[0]
    further = [place for place in (*codes, *names[1:]) if place != names[0]]
    others = (names[0], *further)
    before = _repeated_before(rows, min(places))
    if not further or not all(_tells(rows, key, place, before) for place in others):
        return None
    if not stem and len({row[key] for row in rows}) > len({row[names[0]] for row in rows}):
        return None  # ids of samples
    return LevelColumn(names[0], tuple(further), key if codes else None)


def _are_codes(header: Sequence[str], places: Sequence[int]) -> bool:
    return all(plain_words(header[place]) & CODES for place in places)


def _have_digits(rows: Sequence[Sequence[str]], place: int) -> bool:
    return all(any(map(str.isdigit, row[place])) for row in rows if row[place])


def names_id(name: str) -> bool:
    """Whether a column is called as ids are: `id`, `class_idx`, `#`."""
    return re.sub(r"[ _.-]", "", name.casefold()) in _ID_NAMES


def plain_words(name: str) -> set[str]:
    """The words of a column's name in lower case: `FamilyCode` is family and code."""
    return {word.casefold() for word in _WORD.findall(name)}


def code_columns(columns: Sequence[str]) -> set[str]:
    """The columns that by their names hold codes or colours of classes: `Segment` beside `Segment Title`."""
    titles = {_stem(name) for name in columns if plain_words(name) & TITLES} - {""}
    named = {name for name in columns if plain_words(name) & (CODES | _COLOURS)}
    return named | {name for name in columns if _stem(name) in titles and not plain_words(name) & TITLES}


def _stem(name: str) -> str:
    words = [word.casefold() for word in _WORD.findall(name)]
    drop = CODES | TITLES | TEXTS | _LINKS
    kept = [word for word in words if word not in drop]
    while len(words) > 1 and kept and kept[-1] in _LANGUAGES:
        kept.pop()
    return "".join(kept)


def _tells(rows: Sequence[Sequence[str]], key: int, place: int, before: int = 0) -> bool:
    """Whether each value of a column has one value in another one.

    Below the values of the first `before` columns, where one row in a hundred may say another one.
    """
    told: dict[tuple[str, ...], str] = {}
    other = sum(
        told.setdefault((*row[:before], row[key]), row[place]) != row[place] for row in rows if row[key]
    )
    return other <= (0.01 * len(rows) if before else 0)


def _repeated_before(rows: Sequence[Sequence[str]], place: int) -> int:
    """The number of columns before that place if these are levels above it, whose values repeat; else 0."""
    return place if 2 * len({tuple(row[:place]) for row in rows}) <= len(rows) else 0


def _image_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The places of columns whose cells name image files, if there are others."""
    cells = [[row[place] for row in rows if row[place]] for place in range(len(header))]
    images = [place for place, names in enumerate(cells) if names and all(map(names_image, names))]
    return images if len(images) < len(header) else []


def _is_no_name(name: str, cells: Sequence[str]) -> bool:
    """Whether cells are yes or no, numbers of what an id of another column names, or colours."""
    given = [cell for cell in cells if cell]
    if not given:
        return False
    words = plain_words(name)
    flags = len(given) > 1 and {cell.casefold() for cell in given} <= _FLAGS
    repeated = bool(words & CODES) and len(set(given)) < len(given) and all(map(_NUMBER.fullmatch, given))
    colours = bool(words & _COLOURS) and all(any(map(str.isdigit, cell)) for cell in given)
    return flags or repeated or colours


def _describes(name: str, rows: Sequence[Sequence[str]], others: Sequence[int]) -> bool:
    """Whether a column describes rows that differ without it."""
    if not plain_words(name) & (TEXTS | _LINKS):
        return False
    distinct = {tuple(row[other] for other in others) for row in rows}
    return len(distinct) == len({tuple(row) for row in rows})


def _is_attribute(name: str, rows: Sequence[Sequence[str]], others: Sequence[int], place: int) -> bool:
    """Whether a last column says of what type classes are: nearly each has one, and many have the same."""
    if place < max(others) or not plain_words(name) & _ATTRIBUTES:
        return False
    paths = {tuple(row[other] for other in others) for row in rows}
    whole = {tuple(row[other] for other in (*others, place)) for row in rows}
    return len(whole) <= 1.02 * len(paths) and len(paths) >= _FEWEST * len({row[place] for row in rows})


def _id_columns(
    header: Sequence[str], rows: Sequence[Sequence[str]], levels: Sequence[LevelColumn]
) -> list[int]:
    """The places of columns of ids, by their names, if they and the finest names differ in every row.

    Beside levels with codes, paths need to differ, and names may repeat.
    """
    named = [
        level.names
        for level in levels
        if not level.further
        and (
            names_id(header[level.names])
            or are_numbers([row[level.names] for row in rows])
            or plain_words(header[level.names]) & _ARTICLES
            or all(_MID.fullmatch(row[level.names]) for row in rows)
        )
    ]
    ids = [place for place in named if len({row[place] for row in rows}) == len(rows)]
    others = [level.names for level in levels if level.names not in ids]
    coded = any(level.further for level in levels)
    compared = [others] if coded else [others[-1:], others[:1]]  # the finest names stand last, or first
    paths = [{tuple(row[place] for place in places) for row in rows} for places in compared]
    return ids if others and max(map(len, paths)) == len(rows) else []


def _count_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The places of the last columns that by their names count something, and hold numbers or yes and no."""
    counts: list[int] = []
    for place in range(len(header) - 1, 0, -1):
        cells = [row[place] for row in rows if row[place]]
        if not _COUNTS.fullmatch(header[place].casefold()) or not all(map(_NUMBER.fullmatch, cells)):
            break
        counts.insert(0, place)
    return counts


def _measures(
    header: Sequence[str], rows: Sequence[Sequence[str]], levels: Sequence[LevelColumn]
) -> list[int]:
    """The places of columns of prices, weights and other quantities, if others hold names.

    They are known by their names, or because one number with a fraction stands below several parents.
    """
    numeric = _numeric(header, rows, levels)
    names = [level.names for level in levels if level.names not in numeric]
    measures = []
    for place in numeric if names else ():
        given = [row for row in rows if row[place]]
        above = {(row[place], *(row[other] for other in names)) for row in given}
        parted = len(above) > len({row[place] for row in given})
        fractions = any(re.search(r"\d[.,]\d{1,2}\D*$", row[place]) for row in given)
        if plain_words(header[place]) & _MEASURES or (fractions and parted):
            measures.append(place)
    return measures


def _numbers_of_rows(
    header: Sequence[str], rows: Sequence[Sequence[str]], levels: Sequence[LevelColumn]
) -> list[int]:
    """The places of columns of numbers of which each row has another, if the names of rows repeat."""
    numeric = _numeric(header, rows, levels)
    places = [level.names for level in levels]
    names = [place for place in places if place not in numeric]
    repeated = len(names) > 1 and len({tuple(row[place] for place in names) for row in rows}) < len(rows)
    return [
        place for place in numeric if repeated and len({row[place] for row in rows}) == len(rows) >= _FEWEST
    ]


def _numeric(
    header: Sequence[str], rows: Sequence[Sequence[str]], levels: Sequence[LevelColumn]
) -> list[int]:
    """The places of levels whose cells are numbers, with or without a unit; not those called `level 2`."""
    plain = [level.names for level in levels if not level.further]
    plain = [place for place in plain if PER_DEPTH.fullmatch(header[place].strip()) is None]
    cells = {place: [row[place] for row in rows if row[place]] for place in plain}
    return [place for place, given in cells.items() if given and all(map(_QUANTITY.fullmatch, given))]


def is_header(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line of a table names its columns, and does not belong to its rows.

    It is a row if a cell of it stands in its column again, or is a number or code as those below it, and each
    value of a column, but for the first and the last one, is below one of the column before.
    """
    for place, name in enumerate(header):
        cells = [row[place] for row in rows if row[place]]
        numbers = name.isdecimal() and all(map(str.isdecimal, cells))
        codes = _shape(name) in map(_shape, cells) and look_like_codes([name, *cells])
        codes = codes or all(map(_MID.fullmatch, [name, *cells]))
        if any(map(str.isalnum, name)) and cells and (name in cells or numbers or codes):
            break
    else:
        return True
    whole = [header, *rows]
    return not all(_tells(whole, place, place - 1) for place in range(1, len(header) - 1))


def _shape(text: str) -> str:
    return re.sub(r"\d", "9", re.sub(r"[A-Z]", "A", text))


def is_reversed(names: Sequence[str], rows: Sequence[Sequence[str]], keys: Sequence[Sequence[str]]) -> bool:
    """Whether levels stand from fine to coarse: each value has one in the next column, and these are fewer.

    Not if names of columns say another order, or that of samples.

    Args:
        names: The names of the levels' columns.
        rows: The names of classes in each row.
        keys: Their codes, or where there are none the names.
    """
    words = [plain_words(name) for name in names]
    numbers = [int(digits[0]) for name in names if (digits := re.findall(r"\d+", name))]
    said = words[0] & _ABOVE or any(one & _BELOW for one in words[1:]) or numbers == sorted(numbers) != []
    if len(names) < 2 or len(rows) < _FEWEST or said or names_sample(words[0]):
        return False
    texts = [list(column) for column in zip(*rows, strict=True)]
    if any(not all(column) or all(map(_NUMBER.fullmatch, column)) for column in texts):
        return False
    finest = texts[0]
    if sum(map(len, finest)) > _LONGEST * len(rows) or _mostly(finest, lambda cell: "." in cell[1:]):
        return False
    if _mostly(finest, lambda cell: any(map(str.isdigit, cell))):
        return False
    for fine, coarse in itertools.pairwise(texts):
        if {a for a, b in zip(fine, coarse, strict=True) if a != b} & {*coarse}:
            return False
    return all(
        len({*zip(fine, coarse, strict=True)}) == len({*fine}) > len({*coarse})
        or (
            len({*zip(fine, coarse, strict=True)}) <= _NEARLY_ONE * len({*fine})
            and len({*fine}) >= _FAR_MORE * len({*coarse})
        )
        for fine, coarse in itertools.pairwise(zip(*keys, strict=True))
    )


def _mostly(cells: Sequence[str], test: Callable[[str], bool]) -> bool:
    return 2 * sum(map(test, cells)) > len(cells)
