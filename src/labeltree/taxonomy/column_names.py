"""Which names of columns usually mean what: images, texts, vectors, labels, and what only samples have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

__all__ = [
    "FILES",
    "IMAGES",
    "LABELS",
    "LABELS_OF_ARRAYS",
    "LESS_USUAL_LABELS",
    "PER_DEPTH",
    "SAMPLE_IDS",
    "TEXTS",
    "TEXTS_OF_CLASSES",
    "VECTORS",
    "letters",
    "names_sample",
    "names_taxon_sample",
    "numbered_columns",
    "usual_labels",
]


def letters(name: str) -> str:
    """The letters and digits of a column's name in lower case: `File name` and `file_name` are one."""
    return re.sub(r"[\W_]", "", name.casefold())


FILES = (
    *("image", "path", "file", "filename", "file_name", "image_path", "filepath", "file_path"),
    *("image_name", "image_file"),
)
"""Columns of files of images, the most usual first; lists of taxa and classes have none."""

IMAGES = (*FILES, "img", "jpg", "jpeg", "png", "picture", "photo")
"""Columns of images."""

TEXTS = ("text", "description", "sentence", "review", "document", "abstract", "caption", "txt")
"""Columns of texts."""

TEXTS_OF_CLASSES = frozenset(("description",))
"""Those that describe classes as often as samples."""

VECTORS = (
    *("vectors", "vector", "embeddings", "embedding", "features", "feature"),
    *("x", "x_train", "arr_0"),
)
"""Columns and arrays of vectors."""

LABELS = ("label", "class", "category", "node", "cls")
"""Columns of labels."""

LESS_USUAL_LABELS = ("labels", "target", "classes", "targets")
"""Those that are taken for labels where neither such a column nor names of taxa are."""

LABELS_OF_ARRAYS = ("y", "y_train")
"""Arrays of labels beside vectors; in a table of images `y` is a place."""

PER_DEPTH = re.compile(r"(?:depth|label|level)[ _-]?(\d+)", re.IGNORECASE)
"""Columns of the names of one depth: `depth1`, `level 2`."""

SAMPLE_IDS = (
    *("gbifid", "occurrenceid", "catalognumber", "isic_id", "treeoflife_id"),
    *("ml catalog number", "global unique identifier"),
)
"""Columns of ids by which files of images are called."""

_OF_TAXON_SAMPLES = {
    *("occurrenceid", "basisofrecord", "eventdate", "catalognumber", "imageid", "url", "imageurl"),
    *("observedon", *map(letters, FILES)),
}
_NUMBERED = re.compile(r"(.*?)([0-9]+)")
_FEWEST = 4  # numbered columns that are the dimensions of a vector
_WORDS = {*IMAGES, *TEXTS, "url", "sample", "sku"}


def usual_labels(columns: Iterable[str]) -> tuple[str, ...]:
    """The usual names of labels, the most usual first; `target` beside `source` is an end of an edge."""
    ends = {name.casefold() for name in columns} >= {"source", "target"}
    return (*LABELS, *(name for name in LESS_USUAL_LABELS if not (ends and name == "target")))


def numbered_columns(columns: Iterable[str]) -> dict[str, list[str]]:
    """Columns whose names differ in a number at the end, at least four: prefix → names in the order of it.

    Example:
        >>> numbered_columns(["id", "f0", "f1", "f10", "f2", "x1"])
        {'f': ['f0', 'f1', 'f2', 'f10']}
    """
    prefixes: dict[str, list[str]] = {}
    for name in columns:
        if match := _NUMBERED.fullmatch(name):
            prefixes.setdefault(match[1], []).append(name)
    return {
        prefix: sorted(names, key=lambda name: int(name[len(prefix) :]))
        for prefix, names in prefixes.items()
        if len(names) >= _FEWEST
    }


def names_sample(words: Collection[str]) -> bool:
    """Whether a column with these words in its name holds samples, and no class."""
    return not _WORDS.isdisjoint(words)


def names_taxon_sample(terms: Collection[str]) -> bool:
    """Whether columns, by the letters of their names, are those of samples of taxa, and not of taxa."""
    return not _OF_TAXON_SAMPLES.isdisjoint(terms)
